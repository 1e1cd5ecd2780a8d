/* Where a child's output goes: a file that the child writes itself; with a maximum size, one that
 * is written for it, so that it can be renamed and begun anew (log rotation).
 * Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"
#include "runtime/launch/process/follow.h"

struct rt_childlog;

struct rt_childlog_options {
    const char *path;
    bool overwrite;
    int64_t max_size; /* 0: never renamed */
    /* It cannot be written any more (a full disk): told once. */
    void (*lost)(void *arg, const struct co_err *err);
    void *arg;
};

CO_MUST_CHECK int rt_childlog_open(struct co_loop *l, const struct rt_childlog_options *options,
    struct rt_childlog **ret, struct co_err *err);
void rt_childlog_close(struct rt_childlog *c); /* NULL allowed; takes in what is left in pipes */

const char *rt_childlog_path(const struct rt_childlog *c);
/* For the child's stdout and stderr; stays this object's.  Gone after rt_childlog_started. */
int rt_childlog_fd(const struct rt_childlog *c);
void rt_childlog_started(struct rt_childlog *c);

/* Copies the log to fd while it grows, until rt_childlog_finish: then done(arg). */
CO_MUST_CHECK int rt_childlog_echo(
    struct rt_childlog *c, int fd, void (*done)(void *arg), void *arg, struct co_err *err);
/* The child has ended.  False: there is no echo, done will not come. */
bool rt_childlog_finish(struct rt_childlog *c);

/* The last bytes of this start's, at most size - 1; returns how many. */
size_t rt_childlog_tail(const struct rt_childlog *c, char *ret, size_t size);
