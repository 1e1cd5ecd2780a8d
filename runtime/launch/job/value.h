/* What a node tells the others: the JSON object that Paddle's launchers exchange, which
 * rl_plan_make reads.  Pure. */
#pragma once

#include "runtime/launch/job/job.h"

/* ports: j->n_ports of them.  The caller frees. */
char *rl_job_value(const struct rl_job *j, const uint16_t *ports);
