/* Starts the processes of a job on this machine, waits for them, and ends them so that none is
 * left.
 *
 * Every member (started process) leads a session of its own.  When a member ends, the rest of its
 * session gets SIGTERM.  proc_children_stop sends the members SIGTERM and, after the grace time,
 * SIGKILL.  A process that left its session ("stray") becomes a child of this process when its
 * parent ends, as this process is a subreaper; strays get SIGTERM, then SIGKILL, once the last
 * member has ended.  Every step is bounded in time.
 *
 * Belongs to the loop's thread.  A process can have only one group, as the group waits for all
 * children. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"
#include "runtime/launch/process/spawn.h"

struct proc_children;

struct proc_children_fns {
    /* Member i has ended, counted in the order of starting; status is waitpid's. */
    void (*ended)(void *arg, size_t i, int status);
    /* SIGKILL will be sent to n members, or, with strays, to n stray processes. */
    void (*killing)(void *arg, size_t n, bool strays);
    /* No process is left, but for n_lost that not even SIGKILL could end (hung in the kernel). */
    void (*empty)(void *arg, size_t n_lost);
};

CO_MUST_CHECK int proc_children_new(struct co_loop *l, const struct proc_children_fns *fns,
    void *arg, struct proc_children **ret, struct co_err *err);
void proc_children_free(struct proc_children *g); /* NULL allowed; kills members that still run */
CO_DEFINE_CLEANUP(struct proc_children *, proc_children_free)

/* From now on, processes that a member leaves behind get SIGKILL at once, as in a container. */
void proc_children_leave_nothing(struct proc_children *g);
CO_MUST_CHECK int proc_children_start(
    struct proc_children *g, const struct proc_spawn *spawn, struct co_err *err);
/* Member i, which has ended, is another process now; only in `ended`, before proc_children_stop. */
CO_MUST_CHECK int proc_children_again(
    struct proc_children *g, size_t i, const struct proc_spawn *spawn, struct co_err *err);
/* Must be called after the last proc_children_start: only then is `empty` called once no member
 * runs, even when none was started. */
void proc_children_started(struct proc_children *g);
void proc_children_signal(struct proc_children *g, int signo);
/* Of member i, counted as above, unless it has ended or was never started. */
void proc_children_signal_one(struct proc_children *g, size_t i, int signo);
/* Stops all members (SIGSTOP, as the kernel lets SIGTSTP stop nothing in a session without a
 * terminal), or continues them.  The grace time stands still meanwhile. */
void proc_children_pause(struct proc_children *g, bool on);
/* A second call can only shorten the grace time. */
void proc_children_stop(struct proc_children *g, int64_t grace_ms);
size_t proc_children_running(const struct proc_children *g);
/* Forgets the members, none of which may be running, so that others can be started. */
void proc_children_clear(struct proc_children *g);
