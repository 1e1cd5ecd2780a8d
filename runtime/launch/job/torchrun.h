/* What torchrun sets for its workers, so that a program that uses torch.distributed finds its peers
 * here, too.  These variables are no part of what Paddle's launchers set (variables.c), and a
 * program of Paddle's that is given them meets at the same address.  Pure. */
#pragma once

#include "runtime/launch/job/node_plan.h"

/* Sets in ret what process p of the plan gets, if training is collective; env is the environment
 * that the launcher inherited.  A user's own values stay, but for those that differ between
 * processes of a node where there are several; those of the job around (the pod's, by the operator;
 * an outer launcher's) do not.  MASTER_ADDR and MASTER_PORT stay if one of them is the user's. */
void job_torchrun_variables(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, const struct job_env *env, struct job_env *ret);
/* Adds a line to ret for each number of a user that stays and is not what process p has in this
 * job: as many processes would wait for ranks that nobody has. */
void job_torchrun_differences(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, const struct job_env *env, struct options_list *ret);
/* Adds a warning to the job's notes for each value of a user that stays and has no right form. */
void job_torchrun_check(struct job *j, options_plan_getenv_fn get, void *arg);
