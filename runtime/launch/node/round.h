/* This node's processes, round after round: started, watched and stopped; their logs.  Knows
 * neither other nodes nor the launcher's exit code: its owner hears what happened and decides.
 * Owned by the loop's thread; one a process, as it waits for all children. */
#pragma once

#include "runtime/launch/node/logs.h"

struct rl_round;

struct rl_round_fns {
    /* The workers have ended well, or there are none; what serves them runs on.  May come from
     * inside rl_round_start. */
    void (*workers_done)(void *arg);
    /* The first process that failed; the others are being stopped.  code: as a shell has it; why:
     * "worker 1: exit code 3". */
    void (*failed)(void *arg, int code, const char *why);
    /* No process is left. */
    void (*gone)(void *arg);
    /* What the first process printed is on stdout; not before it has ended. */
    void (*echoed)(void *arg);
};

/* say and j must stay as long as the round; fns is copied. */
CO_MUST_CHECK int rl_round_new(struct co_loop *l, const struct rl_say *say, const struct rl_job *j,
    const struct rl_round_fns *fns, void *arg, struct rl_round **ret, struct co_err *err);
void rl_round_free(struct rl_round *r); /* NULL allowed; kills who is left */

/* Starts the plan's processes: in the beginning, or after `gone`.  An error is rl_spawn's: those
 * that were started are being stopped, `gone` comes. */
CO_MUST_CHECK int rl_round_start(struct rl_round *r, struct rl_plan *plan_own, struct co_err *err);
/* SIGTERM, after the grace SIGKILL; how the processes end tells nothing any more.  Again: only ever
 * sooner.  Nothing without processes. */
void rl_round_stop(struct rl_round *r, int64_t grace_ms);
void rl_round_signal(struct rl_round *r, int signo);
/* All workers of the job are done: who serves them may go. */
void rl_round_stop_servers(struct rl_round *r);
/* Nobody tells when all workers of the job are done: at once if they were this node's, else when
 * nobody has been connected for a while. */
void rl_round_release_servers(struct rl_round *r);

bool rl_round_running(const struct rl_round *r); /* there are processes */
bool rl_round_echoing(const struct rl_round *r); /* `echoed` is still to come */

/* Of the process that failed in this round, until the next one starts or it is forgotten: its last
 * lines, said when all else was; its last bytes, at most size - 1, and how many.  Nothing where
 * none failed. */
void rl_round_show_failed(const struct rl_round *r);
size_t rl_round_failed_tail(const struct rl_round *r, char *ret, size_t size);
void rl_round_forget(struct rl_round *r); /* without processes */
