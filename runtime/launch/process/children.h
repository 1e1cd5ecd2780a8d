/* The processes of a job on this machine: started, waited for, and ended so that nobody is left.
 *
 * Every member is a session of its own.  A member that ends takes its session with it (SIGTERM).
 * rt_children_stop gives the others SIGTERM and, after their grace, SIGKILL.  Processes that left
 * their sessions become children of this process, a subreaper, and end when the last member has:
 * SIGTERM, then SIGKILL.  Every step has a bound.  Owned by the loop's thread; one group a
 * process, as it waits for all children. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"
#include "runtime/launch/process/spawn.h"

struct rt_children;

struct rt_children_fns {
    /* Member number i, in order of starting; status is waitpid's. */
    void (*ended)(void *arg, size_t i, int status);
    /* SIGKILL is being sent to n members, or (strays) to processes that left them. */
    void (*killing)(void *arg, size_t n, bool strays);
    /* Nobody is left; n_lost could not even be killed and are left to themselves. */
    void (*empty)(void *arg, size_t n_lost);
};

CO_MUST_CHECK int rt_children_new(struct co_loop *l, const struct rt_children_fns *fns, void *arg,
    struct rt_children **ret, struct co_err *err);
void rt_children_free(struct rt_children *g); /* NULL allowed; kills who is left */
CO_DEFINE_CLEANUP(struct rt_children *, rt_children_free)

/* As in a container: what a member leaves behind when it ends gets SIGKILL at once. */
void rt_children_leave_nothing(struct rt_children *g);
CO_MUST_CHECK int rt_children_start(
    struct rt_children *g, const struct rt_spawn *spawn, struct co_err *err);
/* After the last rt_children_start: without a running member, empty comes by itself. */
void rt_children_started(struct rt_children *g);
void rt_children_signal(struct rt_children *g, int signo);
/* Again: only ever sooner. */
void rt_children_stop(struct rt_children *g, int64_t grace_ms);
size_t rt_children_running(const struct rt_children *g);
/* Forgets the members, of whom none is running, for another start. */
void rt_children_clear(struct rt_children *g);
