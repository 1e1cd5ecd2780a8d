/* Passes a child's stderr on to this process's own, and keeps its last lines: for children without
 * a log file.  What the child prints waits in the pipe while our stderr has no reader, as it would
 * without the pipe.  Belongs to the loop's thread. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/process/tail.h"

struct proc_relay;

/* to: where it goes; stays the caller's. */
CO_MUST_CHECK int proc_relay_new(
    struct co_loop *l, int to, struct proc_relay **ret, struct co_err *err);
void proc_relay_free(struct proc_relay *r); /* NULL allowed */
CO_DEFINE_CLEANUP(struct proc_relay *, proc_relay_free)

/* The child's end of the pipe.  Stays this object's, which closes it in proc_relay_started, once
 * the child has a copy. */
int proc_relay_fd(const struct proc_relay *r);
void proc_relay_started(struct proc_relay *r);
/* The child has ended: passes on what is in the pipe.  Processes that it left behind may print
 * more.  Waits for a reader of our stderr for a second at most. */
void proc_relay_finish(struct proc_relay *r);

/* What it printed last. */
const struct proc_tail *proc_relay_tail(const struct proc_relay *r);
