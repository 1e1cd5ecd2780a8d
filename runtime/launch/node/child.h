/* The environment and the cores that a process of the plan gets.  Pure. */
#pragma once

#include <sched.h>

#include "runtime/launch/job/node_plan.h"

/* This process's environment envp plus the variables that the plan and torchrun set.  HTTP proxies
 * are renamed to "..._original", as collective libraries would try to use them. */
void node_child_env(const struct job *j, const struct job_plan *plan, const struct job_process *p,
    char *const *envp, struct job_env *ret);
/* The i-th of n equal shares of all; at least one core. */
void node_child_cores(const cpu_set_t *all, size_t i, size_t n, cpu_set_t *ret);
