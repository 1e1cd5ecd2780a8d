/* Formats texts about a job, in the words of Paddle's launchers.  Pure; story.c writes them. */
#pragma once

#include "runtime/launch/job/node_plan.h"

/* "name: value" lines of the configuration block, sorted. */
CO_MUST_CHECK int job_report_configuration(
    const struct job *j, struct co_buf *ret, struct co_err *err);
/* "Job: default, mode collective, replicas 1[1:1], elastic False" */
CO_MUST_CHECK int job_report_job(
    const struct job *j, size_t n_nodes, struct co_buf *ret, struct co_err *err);
/* The table of a process's variables, as fleetrun prints it. */
CO_MUST_CHECK int job_report_table(
    const struct job_process *p, struct co_buf *ret, struct co_err *err);
/* The output of --dry_run. */
CO_MUST_CHECK int job_report_plan(const struct job_plan *p, struct co_buf *ret, struct co_err *err);
/* The command for other nodes: this command line, with --master.  started: the launcher's argv[0],
 * which is what the user typed: "paddlerun", "fleetrun", "python3 -m paddlerun". */
char *job_report_command(const char *started, const char *master, int argc, char *const argv[]);
