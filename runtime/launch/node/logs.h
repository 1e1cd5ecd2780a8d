/* The logs of a round's processes: one file each in the plan's folder, or this process's own output
 * when there is no --log_dir; then the last lines are kept in memory, for the container's
 * termination log.  The first file is copied to stdout while it grows.  A file that cannot be
 * written is only a warning.  Belongs to the loop's thread. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/job/node_plan.h"
#include "runtime/launch/node/launcher_log.h"

struct node_logs;

/* Makes the plan's folder for files, if there is to be one, and claims it until the descriptor
 * *ret_claim is closed (-1: there is none).  Where another launcher has claimed it, the plan gets a
 * folder in it that no other has: each echoes and names its own lines. */
CO_MUST_CHECK int node_logs_make_dir(const struct node_log *say, const struct job *j,
    struct job_plan *p, int *ret_claim, struct co_err *err);

/* say, j and p must outlive the logs.  first_round: true in the job's first round, whose files may
 * be truncated (--log_overwrite).  echoed(arg): the copy on stdout is complete. */
struct node_logs *node_logs_new(struct co_loop *l, const struct node_log *say, const struct job *j,
    const struct job_plan *p, bool first_round, void (*echoed)(void *arg), void *arg);
void node_logs_free(struct node_logs *g); /* NULL allowed */

/* The file descriptors for stdout and stderr of process i; owned here, and closed by
 * node_logs_started or node_logs_finish.  -1: this process's own.  A second call before that gets
 * the same ones, for a process that is started again. */
void node_logs_open(struct node_logs *g, size_t i, int *ret_out, int *ret_err);
void node_logs_started(struct node_logs *g, size_t i);
/* Process i has ended. */
void node_logs_finish(struct node_logs *g, size_t i);

/* The process whose log is copied has ended, but the copy is not complete. */
bool node_logs_echoing(const struct node_logs *g);
const char *node_logs_path(const struct node_logs *g, size_t i); /* "None": no file */
/* Its lines are on this process's output already. */
bool node_logs_shown(const struct node_logs *g, size_t i);
/* Copies the last whole lines of process i, at most size - 1 bytes; returns how many. */
size_t node_logs_tail(const struct node_logs *g, size_t i, char *ret, size_t size);
/* Logs an error when the disk of the logs is full: that may be why a process failed. */
void node_logs_say_if_full(const struct node_logs *g);
/* Logs a warning when the file of process i was removed. */
void node_logs_say_if_removed(const struct node_logs *g, size_t i);
