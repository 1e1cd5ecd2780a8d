/* What a process of the plan is started with, besides its command and its log.  Pure. */
#pragma once

#include <sched.h>

#include "runtime/launch/job/plan.h"

/* envp, this process's, without proxies, which collective libraries stumble over, and with what the
 * plan sets. */
void rl_child_env(const struct rl_process *p, char *const *envp, struct rl_env *ret);
/* The i-th of n equal shares of all; at least one core. */
void rl_child_cores(const cpu_set_t *all, size_t i, size_t n, cpu_set_t *ret);
