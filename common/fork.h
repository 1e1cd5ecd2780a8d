/* Objects that a forked child must leave alone: those with threads, which it has not got, and with
 * connections, on which it would speak for its parent.  Programs fork without knowing of them, as
 * data loaders do.
 *
 * A child notices with its first look at `forked`, which costs no system call.  What the child's
 * copies of descriptors would keep open, `child` closes at once: otherwise the others see the end
 * of the parent only when its children have ended, too.  Children that exec are not concerned. */
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct co_fork {
    bool forked; /* this process is a child of the one that watches; never written elsewhere */
    /* NULL: nothing to do.  Runs in the child, right after the fork, while threads that other
     * locks belong to are gone: only async-signal-safe calls. */
    void (*child)(struct co_fork *f);
    struct co_fork *next, **at; /* fork.c's */
};

/* From now on `child` is called in each child.  Any thread. */
void co_fork_watch(struct co_fork *f, void (*child)(struct co_fork *f));
/* Nothing if it is not watched. */
void co_fork_unwatch(struct co_fork *f);
/* CO_INVALID, which says that the object ("the group") belongs to another process. */
int co_fork_refuse(const char *object, struct co_err *err);
