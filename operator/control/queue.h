/* Which job is looked at next.
 *
 * Whoever sees a change asks for the job; an entry waits in the queue once, however often it is
 * asked for.  Namespaces are served in turn, and within a namespace the oldest request comes first.
 * Jobs that have nothing yet go before the others, so many at a time, which the API server's load
 * decides; a look that was expensive is followed by a rest, which ends at once when the job has
 * turned (op_store_take_turn).  One look a job at a time: what is asked for meanwhile comes after
 * it. An entry that waits or is looked at stays in the store.
 *
 * What is limited (looks under way, jobs that begin, jobs that start) is shared between namespaces:
 * a namespace may use all of it while no other wants any, and one that uses nothing does not wait
 * for one that uses much.  Owned by the loop's thread. */
#pragma once

#include "common/loop.h"
#include "operator/control/load.h"
#include "operator/control/metrics.h"
#include "operator/control/store.h"

struct op_queue;
struct op_tenant; /* a namespace in the queue */

/* An entry's place, to be kept as long as the entry is not left alone.  All of it is queue.c's. */
struct op_queued {
    struct op_queue *queue;
    struct op_entry *entry;
    struct op_tenant *tenant;
    struct op_queued *next;
    struct co_timer *timer; /* while it is armed */
    bool queued;
    bool dirty;             /* asked for since the last look began */
    bool hurried;           /* the rest is over */
    bool busy;              /* the look goes on: until op_queue_end */
    bool beginning;         /* and the job gets its first pods */
    bool starting;          /* its pods are on their way to Running, which keeps others */
    int64_t starting_until; /* monotonic ms: no longer than that */
    int64_t queued_ms;
    int64_t not_before; /* monotonic ms: rest after an expensive look */
    int64_t wake_ms;    /* when the timer is due; 0: never */
};

struct op_queue_opts {
    struct op_store *store;
    struct op_metrics *metrics;
    const struct op_load *load;
    /* An entry's turn.  true: op_queue_begin was called, and op_queue_end was or will be. */
    bool (*serve)(void *arg, struct op_entry *e);
    void *arg;
};

struct op_queue *op_queue_new(struct co_loop *loop, const struct op_queue_opts *opts);
void op_queue_free(struct op_queue *q); /* all have left */

void op_queue_join(struct op_queue *q, struct op_queued *ret, struct op_entry *e);
void op_queue_leave(struct op_queued *place); /* the entry is left alone, or about to be freed */
/* Nobody has asked for it: to leave and to join again makes no difference. */
bool op_queue_left_alone(const struct op_queued *place);

void op_queue_ask(struct op_queued *place);
/* Until the next look begins the entry has no rest. */
void op_queue_hurry(struct op_queued *place);
/* Asks at a time (monotonic ms); the sooner of two wishes wins, and a look before fulfils it. */
void op_queue_ask_at(struct op_queued *place, int64_t at_ms);
/* What the look that is being taken has cost: the next one comes no sooner than that, and the
 * entry's number of children, allow. */
void op_queue_rest(struct op_queued *place, double took_seconds);
/* The look goes on after serve has returned, until op_queue_end; that may free the entry. */
void op_queue_begin(struct op_queued *place);
void op_queue_end(struct op_queued *place, int64_t ask_at_ms); /* 0: not to be asked for */

size_t op_queue_waiting(const struct op_queue *q);
size_t op_queue_busy(const struct op_queue *q);
