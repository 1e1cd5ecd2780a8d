/* A file that grows, copied to a stream: the echo of a child's log.
 *
 * Nothing is lost and nobody waits: the child writes its file at its own speed, this follows at
 * the stream's, with a buffer of fixed size.  Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"

struct rl_follow;

/* From byte `from` of path on, to fd, which stays the caller's.  done(arg) runs when
 * rl_follow_finish was called and all is written, or nobody reads any more. */
CO_MUST_CHECK int rl_follow_new(struct co_loop *l, const char *path, int64_t from, int fd,
    void (*done)(void *arg), void *arg, struct rl_follow **ret, struct co_err *err);
void rl_follow_free(struct rl_follow *f); /* NULL allowed */

/* The file does not grow any more. */
void rl_follow_finish(struct rl_follow *f);
/* The file was renamed, and there is a new one of its name: after the rest of the old one that
 * follows.  Not again before the new one is being read (rl_follow_behind says no). */
void rl_follow_again(struct rl_follow *f);
bool rl_follow_behind(const struct rl_follow *f);
