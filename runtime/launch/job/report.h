/* What a launcher says about a job, in the words of Paddle's: the texts only.  Pure. */
#pragma once

#include "runtime/launch/job/plan.h"

/* "name: value" lines of the configuration block, sorted. */
CO_MUST_CHECK int rl_report_configuration(
    const struct rl_job *j, struct co_buf *ret, struct co_err *err);
/* "Job: default, mode collective, replicas 1[1:1], elastic False" */
CO_MUST_CHECK int rl_report_job(
    const struct rl_job *j, size_t n_nodes, struct co_buf *ret, struct co_err *err);
/* fleetrun's table of a process's variables. */
CO_MUST_CHECK int rl_report_table(
    const struct rl_process *p, struct co_buf *ret, struct co_err *err);
/* What --dry_run prints. */
CO_MUST_CHECK int rl_report_plan(const struct rl_plan *p, struct co_buf *ret, struct co_err *err);
/* For whom to start on other nodes: the same command line, with the master. */
char *rl_report_command(const char *master, int argc, char *const argv[]);
