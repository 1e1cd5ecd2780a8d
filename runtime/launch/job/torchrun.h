/* What torchrun sets for its workers, so that a program that uses torch.distributed finds its peers
 * here, too.  These variables are no part of what Paddle's launchers set (variables.c), and a
 * program of Paddle's that is given them meets at the same address.  Pure. */
#pragma once

#include "runtime/launch/job/node_plan.h"

/* Adds them to env, the environment of process p of the plan, as the launcher inherited it, if
 * training is collective.  A user's own values stay, but for those that differ between processes of
 * a node where there are several; those of the job around (the pod's, by the operator; an outer
 * launcher's) do not.  MASTER_ADDR and MASTER_PORT stay if one of them is the user's. */
void job_torchrun_variables(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, struct job_env *env);
