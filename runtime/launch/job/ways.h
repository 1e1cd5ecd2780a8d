/* Jobs whose addresses are listed in the command or in the environment: reads the lists and finds
 * this node in them.  Each function sets the job's way, its hosts and their ports.  Pure.
 * CO_INVALID: a message of one line. */
#pragma once

#include "runtime/launch/job/job.h"

/* Sets RL_WAY_ENDPOINTS; RL_WAY_ALONE for one host; RL_WAY_MEET for hosts without ports.  text: the
 * value of the variable `name`. */
CO_MUST_CHECK int rl_way_endpoints(
    struct rl_job *j, const char *name, const char *text, struct co_err *err);
/* Sets RL_WAY_IPS.  text: the value of --ips, or of the variable `name`. */
CO_MUST_CHECK int rl_way_ips(
    struct rl_job *j, const char *name, const char *text, struct co_err *err);
/* Sets RL_WAY_LISTS from --servers, trainers_id (RL_OPT_TRAINERS or RL_OPT_WORKERS) and
 * --heter_workers. */
CO_MUST_CHECK int rl_way_lists(struct rl_job *j, enum rl_option trainers_id, struct co_err *err);
