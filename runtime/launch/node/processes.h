/* Starts, watches and stops this node's processes, one round after another, and keeps their logs.
 * It knows neither other nodes nor the launcher's exit code: its owner (run.c) gets callbacks
 * and decides.  Belongs to the loop's thread.  A process can have only one, as it waits for all
 * children. */
#pragma once

#include "runtime/launch/node/logs.h"

struct node_processes;

struct node_processes_fns {
    /* The workers have ended well, or there are none; servers keep running.  It may be called from
     * inside node_processes_start. */
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
CO_MUST_CHECK int node_processes_new(struct co_loop *l, const struct node_log *say,
    const struct job *j, const struct node_processes_fns *fns, void *arg,
    struct node_processes **ret, struct co_err *err);
void node_processes_free(
    struct node_processes *r); /* NULL allowed; kills processes that still run */

/* Starts the plan's processes.  Only before the first round or after `gone`.  On an error, which is
 * proc_spawn's, the processes that were started are stopped, and `gone` follows. */
CO_MUST_CHECK int node_processes_start(
    struct node_processes *r, struct job_plan *plan_own, struct co_err *err);
/* Sends SIGTERM and, after the grace time, SIGKILL.  The exit codes of the processes do not count
 * any more.  A second call can only shorten the grace time.  Does nothing without processes. */
void node_processes_stop(struct node_processes *r, int64_t grace_ms);
void node_processes_pause(struct node_processes *r, bool on); /* see proc_children_pause */
void node_processes_signal(struct node_processes *r, int signo);
/* All workers of the job have ended: stops the servers. */
void node_processes_stop_servers(struct node_processes *r);
/* For jobs without a rendezvous, where no node reports that the workers of the job have ended:
 * stops the servers at once if all workers were this node's, else when no client has been connected
 * for a while. */
void node_processes_release_servers(struct node_processes *r);

bool node_processes_running(const struct node_processes *r); /* there are processes */
bool node_processes_echoing(const struct node_processes *r); /* `echoed` is still to come */

/* About the process that failed in this round, until the next round starts or
 * node_processes_forget: logs its last lines; copies its last whole lines, at most size - 1 bytes,
 * and returns how many. Without a failed process they do nothing. */
void node_processes_show_failed(const struct node_processes *r);
size_t node_processes_failed_tail(const struct node_processes *r, char *ret, size_t size);
void node_processes_forget(struct node_processes *r); /* only when no process runs */
