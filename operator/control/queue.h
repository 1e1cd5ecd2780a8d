/* The work queue: which job is reconciled next.
 *
 * Every change enqueues its job; a job waits in the queue once, however often it is enqueued.
 * Namespaces are served round-robin, and within a namespace the oldest request comes first.  There
 * is one reconcile a job at a time: a request that comes meanwhile is served after it.  An entry
 * that waits or is being reconciled stays in the store.
 *
 * New jobs (without any child) go before the others; how many of them at a time depends on the API
 * server's load.  An expensive reconcile is followed by a pause for its job, which ends early when
 * the job may make progress (ctl_store_take_progress).
 *
 * The limits (reconciles in flight, jobs that get their first pods, jobs whose pods start) are
 * shared between namespaces: a namespace may use a limit up while no other needs it, and a
 * namespace that uses nothing never waits for one that uses much.  Owned by the loop's thread. */
#pragma once

#include <sys/queue.h>

#include "common/loop.h"
#include "operator/control/load.h"
#include "operator/control/operator_metrics.h"
#include "operator/control/store.h"

struct ctl_queue;
struct ctl_tenant; /* a namespace in the queue */

enum ctl_queued_state {
    CTL_QUEUED_IDLE,    /* no request; a timer may make one */
    CTL_QUEUED_WAITING, /* in a line */
    CTL_QUEUED_BUSY,    /* its reconcile is in flight, until ctl_queue_end */
    CTL_QUEUED_AGAIN,   /* likewise, and a request has come since: it waits afterwards */
};

/* An entry in the queue, kept until the entry is idle.  Private to queue.c. */
struct ctl_queued {
    struct ctl_queue *queue;
    struct ctl_entry *entry;
    struct ctl_tenant *tenant;
    STAILQ_ENTRY(ctl_queued) waits;
    struct co_timer *timer; /* exists while it is armed */
    enum ctl_queued_state state;
    bool skips_back_off;    /* not_before does not apply */
    bool beginning;         /* its reconcile in flight creates the job's first pods */
    bool starting;          /* its pods are about to run, which holds a slot of STARTING_MAX */
    int64_t starting_until; /* monotonic ms: the slot is free then in any case */
    int64_t queued_ms;      /* monotonic ms: since when it waits in a line */
    int64_t not_before;     /* monotonic ms: the end of the pause after an expensive reconcile */
    int64_t wake_ms;        /* monotonic ms: when the timer is due; 0: never */
};

struct ctl_queue_opts {
    struct ctl_store *store;
    struct ctl_metrics *metrics;
    const struct ctl_load *load;
    /* Reconciles an entry.  true: ctl_queue_begin was called, and ctl_queue_end was or will be. */
    bool (*serve)(void *arg, struct ctl_entry *e);
    void *arg;
};

struct ctl_queue *ctl_queue_new(struct co_loop *loop, const struct ctl_queue_opts *opts);
void ctl_queue_free(struct ctl_queue *q); /* after all entries have left */

void ctl_queue_join(struct ctl_queue *q, struct ctl_queued *ret, struct ctl_entry *e);
void ctl_queue_leave(struct ctl_queued *place); /* the entry is idle, or about to be freed */
/* The entry has no request, timer or pause: it may leave and join again without a difference. */
bool ctl_queue_is_idle(const struct ctl_queued *place);

/* Enqueues the entry. */
void ctl_queue_add(struct ctl_queued *place);
/* Lifts the pause (ctl_queue_back_off) until the next reconcile begins. */
void ctl_queue_skip_back_off(struct ctl_queued *place);
/* Enqueues the entry at a time (monotonic ms).  The earlier of two times wins; a reconcile before
 * that cancels it. */
void ctl_queue_add_at(struct ctl_queued *place, int64_t at_ms);
/* Starts the pause after a reconcile: its length follows from the CPU time of the reconcile and
 * from the entry's number of children. */
void ctl_queue_back_off(struct ctl_queued *place, double took_seconds);
/* The reconcile stays in flight after serve has returned, until ctl_queue_end, which requeues the
 * entry at add_at_ms (monotonic; 0: not at all) and may free it. */
void ctl_queue_begin(struct ctl_queued *place);
void ctl_queue_end(struct ctl_queued *place, int64_t add_at_ms);

size_t ctl_queue_waiting(const struct ctl_queue *q); /* entries in lines */
size_t ctl_queue_busy(const struct ctl_queue *q);    /* reconciles in flight */
