/* The launcher's log lines and files about a job, one function per event, worded as the Paddle
 * launcher that --compat names words them.  It only has the texts; run.c and processes.c decide. */
#pragma once

#include "runtime/launch/job/node_plan.h"
#include "runtime/launch/node/launcher_log.h"

/* The configuration block, and notes about the options. */
void node_log_lines_begin(const struct node_log *s, const struct job *j);
/* The line about the job: before nodes meet (n_nodes 0) and after they have met. */
void node_log_lines_job(const struct node_log *s, const struct job *j, size_t n_nodes);
/* Before the processes of a round start (tables of their environments), and after. */
void node_log_lines_run(const struct node_log *s, const struct job *j, const struct job_plan *p);
void node_log_lines_running(
    const struct node_log *s, const struct job *j, const struct job_plan *p);
void node_log_lines_failed(const struct node_log *s, const struct job *j, const struct job_plan *p,
    size_t i, int status, const char *log);
/* The last lines of the failed process's log. */
void node_log_lines_detail(const struct node_log *s, const char *text, size_t len);
void node_log_lines_workers_done(const struct node_log *s, const struct job *j, size_t n_servers);
void node_log_lines_end(const struct node_log *s, const struct job *j, int code);

/* Writes files beside the children's logs: the variables that this launcher set (never the rest of
 * its environment, which has secrets), the job's endpoints, and the values of the nodes.  A file
 * that cannot be written is only a warning. */
void node_log_lines_files(const struct node_log *s, const struct job *j, const struct job_plan *p,
    const char *const *values, size_t n);
