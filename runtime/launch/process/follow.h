/* Copies a growing file to a stream, as `tail -f` does: the echo of a child's log on stdout.
 *
 * Nothing is lost and the child never waits: it writes its file at its own speed, and this follows
 * at the speed of the stream, with a buffer of fixed size.  Belongs to the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"

struct proc_follow;

/* Copies path from byte `from` on to fd, which stays the caller's.  done(arg) runs after
 * proc_follow_finish, when all is written or the stream is broken. */
CO_MUST_CHECK int proc_follow_new(struct co_loop *l, const char *path, int64_t from, int fd,
    void (*done)(void *arg), void *arg, struct proc_follow **ret, struct co_err *err);
void proc_follow_free(struct proc_follow *f); /* NULL allowed */
CO_DEFINE_CLEANUP(struct proc_follow *, proc_follow_free)

/* The file does not grow any more. */
void proc_follow_finish(struct proc_follow *f);
/* The file was renamed and a new one has its name: copies the rest of the old file, then the new
 * one.  Must not be called while proc_follow_behind is true, that is, while the old one is read. */
void proc_follow_again(struct proc_follow *f);
bool proc_follow_behind(const struct proc_follow *f);
