/* What link.c (states), call.c, parts.c and pump.c (requests) and lanes.c (data lanes) share: a
 * part is sent when its link is up, its lane takes more and its window has room.  So these have one
 * lock, and no other file sees it or what it guards.
 *
 *     psc_links -- psc_link, one a server -- psc_line, one a shard, and one for control messages */
#pragma once

#include <pthread.h>

#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/inflight.h"

/* One server. */
struct psc_link {
    struct rt_client *c;
    uint32_t index;
    char *endpoint; /* owned */
    enum psc_link_state state;
    struct rpc_stream *stream; /* counted; NULL when DOWN */
    struct psc_lanes lanes;
    struct psc_inflight inflight;
    bool pumping; /* a thread is sending waiting parts */
    struct psc_welcome welcome;
    int64_t received_ms, pinged_ms;
    struct co_err why;                /* DOWN: why the last attempt failed */
    struct co_err lost;               /* it was UP, and why it went away; the client waits for it */
    int64_t up_ms, away_ms, until_ms; /* until when the client waits */
    int64_t spare_ms; /* what was left of the return time when it came back; all of it, once it has
                         answered what it had not when it was lost */
};

struct psc_links {
    pthread_mutex_t m; /* guards what follows; of other locks, only streams' nest in it */
    pthread_cond_t changed;
    pthread_cond_t broke; /* wakes the reconnector: a link is away, or the client failed */
    enum psc_stage stage;
    struct psc_slots slots;
    struct rt_call *over; /* detached calls that are over: psc_unlock runs their `done` */
    uint32_t detached;    /* calls that no thread waits for */
    uint32_t awaiting;    /* threads that wait for others to be done with parts */
    int64_t moved_ms;     /* when the last part ended, by psc_client_time */
    struct co_err failed;
    struct co_err refused; /* a push that servers refused; see psc_client_refusal */
    uint32_t away;         /* number of links that are away */
    int64_t back_ms;       /* when the last link came back, by psc_client_time */
    int64_t still_ms;      /* for how long some link was away so far; since when one is: */
    int64_t still_since_ms;
    int64_t ticked_ms;
    uint64_t clock; /* a logical clock: counts hellos and welcomes */
    uint32_t n;
    struct psc_link at[];
};

void psc_lock(const struct rt_client *c);
/* Also runs the `done` of calls that are over. */
void psc_unlock(struct rt_client *c);

/* For all that follows the lock is held. */

/* link.c.  The only function that changes a state; asserts that the move is legal. */
void psc_link_set(struct psc_link *l, enum psc_link_state to);
/* Handles the loss of a link that was up: waits for it up to return_ms, or fails the client. */
void psc_link_lose(struct psc_link *l, const char *why);
/* For each tick.  The caller breaks the stream that is returned; NULL: none. */
struct rpc_stream *psc_link_tick(struct psc_link *l, int64_t now);

/* call.c.  Ends all calls with *err, unless something failed before. */
void psc_calls_fail(struct rt_client *c, const struct co_err *err);
/* parts.c.  The only function that changes a part's state; asserts that the move is legal, and
 * wakes who waits for it. */
void psc_part_set(struct rt_client *c, struct psc_part *p, enum psc_part_state to);
/* Another thread works on the part without the lock: it uses the memory of the call's caller. */
bool psc_part_is_busy(const struct psc_part *p);
/* Counts a part whose frame is made, or never will be. */
void psc_part_made(struct rt_client *c, struct rt_call *call);
/* Ends a part that is in no queue; with an error, which becomes the call's. */
void psc_part_over(struct rt_client *c, struct psc_part *p);
void psc_part_end(struct rt_client *c, struct psc_part *p, const struct co_err *why);
/* Ends all parts of a link, queued or sent. */
void psc_parts_end_all(struct psc_link *l, const struct co_err *why);
/* A link's connection is lost.  Unanswered parts go back to the front of the queue; hello and begin
 * end with *why.  Returns how many parts will be sent again. */
uint32_t psc_calls_requeue(struct psc_link *l, const struct co_err *why);
/* call.c.  Milliseconds of a clock that stands still while a link is away, as that wait has a limit
 * of its own (until_ms). */
int64_t psc_client_time(const struct rt_client *c);
/* Waits a while for threads that still make frames or handle answers of `what`, which is over. They
 * use the memory of its caller, so it cannot return before.  They wait for nobody, so there is no
 * deadline; but the log says every half a minute what they hold up.  *say_ms: 0 at first. */
void psc_client_await_threads(struct rt_client *c, const char *what, int64_t *say_ms);

/* lanes.c.  The lane or stream that carries this part; borrowed. */
struct rpc_stream *psc_client_carrier(const struct psc_link *l, const struct psc_part *p);
/* Whether it takes more frames, or has too many unsent bytes already. */
bool psc_client_carrier_free(const struct psc_link *l, const struct psc_part *p);
/* Closes a link's lanes. */
void psc_client_drop_lanes(struct psc_link *l);
/* For each tick.  True: a lane was lost, and the stream did not end in time. */
bool psc_client_lost_lanes(struct psc_link *l);
/* What a lane's descriptor is ready for, on the thread that reads; the lock is not held. */
void psc_lane_serve(
    struct psc_link *l, uint32_t shard, bool in, bool out, struct rpc_lane_room *room);

/* lane_reader.c.  The reader reads a lane from now on, also after an error; it waits until the
 * socket takes more, or not; it reads the lane no more. */
CO_MUST_CHECK int psc_reader_add(struct psc_reader *r, const struct psc_link *l, uint32_t shard,
    const struct rpc_lane *lane, struct co_err *err);
void psc_reader_watch(
    const struct psc_link *l, uint32_t shard, const struct rpc_lane *lane, bool full);
void psc_reader_remove(struct psc_reader *r, const struct rpc_lane *lane);
/* Wakes all threads that wait for a change. */
void psc_client_changed(struct rt_client *c);
/* A request is sent, so the client's own thread may be needed to read. */
void psc_client_expects(struct rt_client *c);
/* Whether that thread sleeps until it is needed. */
bool psc_client_is_idle(const struct rt_client *c);
/* Waits until something may have changed.  False: the deadline (absolute) has passed.  The lock is
 * released meanwhile, as by a condition's wait. */
bool psc_client_wait(struct rt_client *c, int64_t deadline_ms);
