/* Where the output of a round's processes goes: a file each in --log_dir, or this process's own
 * output without one; the first of them is copied to stdout while it grows.  A file that cannot be
 * written is a warning.  Owned by the loop's thread. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/job/plan.h"
#include "runtime/launch/node/say.h"

struct rl_logs;

/* Makes --log_dir, where there is one. */
CO_MUST_CHECK int rl_logs_make_dir(const struct rl_job *j, struct co_err *err);

/* say, j and p must stay as long as the logs.  anew: of the job's first round, which may begin its
 * files anew.  echoed(arg): the copy on stdout is complete. */
struct rl_logs *rl_logs_new(struct co_loop *l, const struct rl_say *say, const struct rl_job *j,
    const struct rl_plan *p, bool anew, void (*echoed)(void *arg), void *arg);
void rl_logs_free(struct rl_logs *g); /* NULL allowed */

/* For stdout and stderr of process i; stays this object's until rl_logs_started.  -1: no file. */
int rl_logs_open(struct rl_logs *g, size_t i);
void rl_logs_started(struct rl_logs *g, size_t i);
/* Process i has ended. */
void rl_logs_finish(struct rl_logs *g, size_t i);

/* The last process of the copy has ended, the copy is not complete. */
bool rl_logs_echoing(const struct rl_logs *g);
const char *rl_logs_path(const struct rl_logs *g, size_t i); /* "None": no file */
/* The last bytes of process i, at most size - 1; how many. */
size_t rl_logs_tail(const struct rl_logs *g, size_t i, char *ret, size_t size);
/* Says so if there is no space left for logs. */
void rl_logs_say_if_full(const struct rl_logs *g);
