/* Where a child's output goes: a file that the child writes itself; with a maximum size, one that
 * is written for it, so that it can be renamed and begun anew (log rotation).
 * Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"
#include "runtime/launch/process/follow.h"

struct rl_childlog;

struct rl_childlog_options {
    const char *path;
    bool overwrite;
    int64_t max_size; /* 0: never renamed */
    /* It cannot be written any more (a full disk): told once. */
    void (*lost)(void *arg, const struct co_err *err);
    void *arg;
};

CO_MUST_CHECK int rl_childlog_open(struct co_loop *l, const struct rl_childlog_options *options,
    struct rl_childlog **ret, struct co_err *err);
void rl_childlog_close(struct rl_childlog *c); /* NULL allowed; takes in what is left in pipes */

const char *rl_childlog_path(const struct rl_childlog *c);
/* For the child's stdout and stderr; stays this object's.  Gone after rl_childlog_started. */
int rl_childlog_fd(const struct rl_childlog *c);
void rl_childlog_started(struct rl_childlog *c);

/* Copies the log to fd while it grows, until rl_childlog_finish: then done(arg). */
CO_MUST_CHECK int rl_childlog_echo(
    struct rl_childlog *c, int fd, void (*done)(void *arg), void *arg, struct co_err *err);
/* The child has ended.  False: there is no echo, done will not come. */
bool rl_childlog_finish(struct rl_childlog *c);

/* The last bytes of this start's, at most size - 1; returns how many. */
size_t rl_childlog_tail(const struct rl_childlog *c, char *ret, size_t size);
