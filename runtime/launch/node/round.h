/* Starts, watches and stops this node's processes, one round after another, and keeps their logs.
 * It knows neither other nodes nor the launcher's exit code: its owner (course.c) gets callbacks
 * and decides.  Belongs to the loop's thread.  A process can have only one, as it waits for all
 * children. */
#pragma once

#include "runtime/launch/node/logs.h"

struct node_round;

struct node_round_fns {
    /* The workers have ended well, or there are none; servers go on.  It may be called from inside
     * node_round_start. */
    void (*workers_done)(void *arg);
    /* A process failed, the first one of the round; the others are being stopped.  code: its exit
     * code as in a shell; why: "worker 1: exit code 3". */
    void (*failed)(void *arg, int code, const char *why);
    /* No process is left. */
    void (*gone)(void *arg);
    /* The first process has ended, and all that it printed is on stdout. */
    void (*echoed)(void *arg);
};

/* say and j must outlive the round; fns is copied. */
CO_MUST_CHECK int node_round_new(struct co_loop *l, const struct node_say *say, const struct job *j,
    const struct node_round_fns *fns, void *arg, struct node_round **ret, struct co_err *err);
void node_round_free(struct node_round *r); /* NULL allowed; kills processes that still run */

/* Starts the plan's processes.  Only before the first round or after `gone`.  On an error, which is
 * proc_spawn's, the processes that were started are stopped, and `gone` follows. */
CO_MUST_CHECK int node_round_start(
    struct node_round *r, struct job_plan *plan_own, struct co_err *err);
/* Sends SIGTERM and, after the grace time, SIGKILL.  The exit codes of the processes do not count
 * any more.  A second call can only shorten the grace time.  Does nothing without processes. */
void node_round_stop(struct node_round *r, int64_t grace_ms);
void node_round_signal(struct node_round *r, int signo);
/* All workers of the job have ended: stops the servers. */
void node_round_stop_servers(struct node_round *r);
/* For jobs without a rendezvous, where no node reports that the workers of the job have ended:
 * stops the servers at once if all workers were this node's, else when no client has been connected
 * for a while. */
void node_round_release_servers(struct node_round *r);

bool node_round_running(const struct node_round *r); /* there are processes */
bool node_round_echoing(const struct node_round *r); /* `echoed` is still to come */

/* About the process that failed in this round, until the next round starts or node_round_forget:
 * logs its last lines; copies its last whole lines, at most size - 1 bytes, and returns how many.
 * Without a failed process they do nothing. */
void node_round_show_failed(const struct node_round *r);
size_t node_round_failed_tail(const struct node_round *r, char *ret, size_t size);
void node_round_forget(struct node_round *r); /* only when no process runs */
