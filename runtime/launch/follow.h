/* A file that grows, copied to a stream: the echo of a child's log.
 *
 * Nothing is lost and nobody waits: the child writes its file at its own speed, this follows at
 * the stream's, with a buffer of fixed size.  Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"

struct rt_follow;

/* From byte `from` of path on, to fd, which stays the caller's.  done(arg) runs when
 * rt_follow_finish was called and all is written, or nobody reads any more. */
CO_MUST_CHECK int rt_follow_new(struct co_loop *l, const char *path, int64_t from, int fd,
    void (*done)(void *arg), void *arg, struct rt_follow **ret, struct co_err *err);
void rt_follow_free(struct rt_follow *f); /* NULL allowed */

/* The file does not grow any more. */
void rt_follow_finish(struct rt_follow *f);
/* All that is in the file was read. */
bool rt_follow_caught_up(const struct rt_follow *f);
/* The file was replaced by a new one of the same name.  Only when caught up. */
void rt_follow_again(struct rt_follow *f);
