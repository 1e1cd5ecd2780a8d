/* The processes of a job on this machine: started, waited for, and ended so that nobody is left.
 *
 * Every member is a session of its own.  A member that ends takes its session with it (SIGTERM).
 * rl_children_stop gives the others SIGTERM and, after their grace, SIGKILL.  Processes that left
 * their sessions become children of this process, a subreaper, and end when the last member has:
 * SIGTERM, then SIGKILL.  Every step has a bound.  Owned by the loop's thread; one group a
 * process, as it waits for all children. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"
#include "runtime/launch/process/spawn.h"

struct rl_children;

struct rl_children_fns {
    /* Member number i, in order of starting; status is waitpid's. */
    void (*ended)(void *arg, size_t i, int status);
    /* SIGKILL is being sent to n members, or (strays) to processes that left them. */
    void (*killing)(void *arg, size_t n, bool strays);
    /* Nobody is left; n_lost could not even be killed and are left to themselves. */
    void (*empty)(void *arg, size_t n_lost);
};

CO_MUST_CHECK int rl_children_new(struct co_loop *l, const struct rl_children_fns *fns, void *arg,
    struct rl_children **ret, struct co_err *err);
void rl_children_free(struct rl_children *g); /* NULL allowed; kills who is left */
CO_DEFINE_CLEANUP(struct rl_children *, rl_children_free)

/* As in a container: what a member leaves behind when it ends gets SIGKILL at once. */
void rl_children_leave_nothing(struct rl_children *g);
CO_MUST_CHECK int rl_children_start(
    struct rl_children *g, const struct rl_spawn *spawn, struct co_err *err);
/* After the last rl_children_start: without a running member, empty comes by itself. */
void rl_children_started(struct rl_children *g);
void rl_children_signal(struct rl_children *g, int signo);
/* Again: only ever sooner. */
void rl_children_stop(struct rl_children *g, int64_t grace_ms);
size_t rl_children_running(const struct rl_children *g);
/* Forgets the members, of whom none is running, for another start. */
void rl_children_clear(struct rl_children *g);
