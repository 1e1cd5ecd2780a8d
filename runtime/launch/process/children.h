/* Starts the processes of a job on this machine, waits for them, and ends them so that none is
 * left.
 *
 * Every member (started process) leads a session of its own.  When a member ends, the rest of its
 * session gets SIGTERM.  rl_children_stop sends the members SIGTERM and, after the grace time,
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

struct rl_children;

struct rl_children_fns {
    /* Member i has ended, counted in the order of starting; status is waitpid's. */
    void (*ended)(void *arg, size_t i, int status);
    /* SIGKILL will be sent to n members, or, with strays, to n stray processes. */
    void (*killing)(void *arg, size_t n, bool strays);
    /* No process is left, but for n_lost that not even SIGKILL could end (hung in the kernel). */
    void (*empty)(void *arg, size_t n_lost);
};

CO_MUST_CHECK int rl_children_new(struct co_loop *l, const struct rl_children_fns *fns, void *arg,
    struct rl_children **ret, struct co_err *err);
void rl_children_free(struct rl_children *g); /* NULL allowed; kills members that still run */
CO_DEFINE_CLEANUP(struct rl_children *, rl_children_free)

/* From now on, processes that a member leaves behind get SIGKILL at once, as in a container. */
void rl_children_leave_nothing(struct rl_children *g);
CO_MUST_CHECK int rl_children_start(
    struct rl_children *g, const struct rl_spawn *spawn, struct co_err *err);
/* Must be called after the last rl_children_start: only then is `empty` called once no member
 * runs, even when none was started. */
void rl_children_started(struct rl_children *g);
void rl_children_signal(struct rl_children *g, int signo);
/* A second call can only shorten the grace time. */
void rl_children_stop(struct rl_children *g, int64_t grace_ms);
size_t rl_children_running(const struct rl_children *g);
/* Forgets the members, none of which may be running, so that others can be started. */
void rl_children_clear(struct rl_children *g);
