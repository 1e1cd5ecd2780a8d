/* Requests in flight.  A call is one operation of the caller.  Its parts are the frames that the
 * operation takes; one server answers each part.
 *
 * A call may have any size.  Each server has only so many bytes of requests and answers in flight
 * (psc_client_config.window, divided among its shards); the other parts wait in the queue of their
 * line, and each answer sends the parts that have room now.  Each shard has its own line, so a slow
 * shard delays no other.  A frame is made when it is sent, and kept in case it must be sent again.
 * The parts of a line keep their order.  When the connection breaks, parts that were sent but not
 * answered return to the front of the queue; they are sent again after the reconnect (inflight.h).
 *
 * Either a thread waits for a call (psc_call_wait frees it), or the call is detached: its `done`
 * runs once all parts are over, and must free it.  The client keeps its first failure (a lost
 * server, a timeout, the error of a detached call).  That failure ends all calls, and is the result
 * of all later ones.  Any thread may start calls. */
#pragma once

#include <pthread.h>

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"

enum psc_part_state {
    PSC_PART_QUEUED,
    PSC_PART_MAKING, /* a thread makes its frame */
    PSC_PART_SENT,   /* has a slot from here on */
    PSC_PART_AGAIN,  /* was sent on a connection that broke; queued, keeps its slot */
    PSC_PART_TAKING, /* the thread that read its answer handles it */
    PSC_PART_DONE,
};

struct psc_part {
    struct rt_call *call;
    struct psc_part *next, *prev; /* in its line: in the queue (no prev), or in `sent` */
    struct rpc_frame_head head;   /* of the frame */
    struct rpc_frame *frame;      /* counted; NULL: made from head and `fill` when it is sent.
                                    With `keep` it is the answer in the end */
    uint32_t server;
    uint32_t slot;
    uint32_t answer; /* bytes of the answer's payload, as far as known */
    enum psc_part_state state;
    bool repeated;  /* it had no answer when its link was lost */
    uint64_t begin; /* with n: for the maker of the call; often the place of the part's values */
    uint32_t n;
};

/* Handles the answer of a part, on the thread that read it, without a lock. */
typedef int (*psc_take_fn)(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err);

struct rt_call {
    struct rt_client *c;
    const char *what; /* for messages: "pull" */
    const struct ps_table *table;
    /* Writes the payload of a part, on any thread, without a lock. */
    void (*fill)(const struct rt_call *call, const struct psc_part *p, unsigned char *payload);
    psc_take_fn take;                   /* NULL: the answer has nothing to take */
    void (*done)(struct rt_call *call); /* detached calls; on any thread, without a lock */
    void *arg;
    void *geo;            /* geo_sparse.c's, in a pull of rows */
    const float *in;      /* for fill */
    float *out;           /* for take */
    struct rt_call *next; /* in a list of calls whose `done` must run */
    bool keep;            /* answers are kept until the call is freed */
    bool harmless;        /* a timeout does not fail the client */
    bool reads;           /* nor does the program's end of the wait: nothing has changed */
    bool whole;           /* all parts are sent, even if one of them has failed already */
    bool greets; /* part of opening a connection: goes before all others, and ends with it */
    uint32_t n_parts;
    uint32_t unsent, left; /* parts whose frame is not made yet; parts that are not over */
    bool *ret_sent;        /* set when none is unsent; NULL: nobody waits for that */
    int64_t moved_ms;      /* when the last part was over */
    /* Asked without the lock, each PSC_SAY_MS and when the time is up: CO_TIMEOUT, and for whom the
     * servers wait with their answers.  NULL: for nobody. */
    int (*late)(struct rt_client *c, const struct rt_call *call, struct co_err *ret);
    struct co_err err;
    struct psc_part parts[];
};

enum { PSC_SAY_MS = 10000 }; /* between two log lines about the trainers that a call waits for */

struct rt_call *psc_call_new(
    struct rt_client *c, const char *what, const struct ps_table *table, uint32_t n_parts);
/* Part i is a frame that `fill` will make.  answer: bytes of its answer's payload. */
void psc_call_part(struct rt_call *call, uint32_t i, uint32_t server,
    const struct rpc_frame_head *head, size_t answer);
/* Part i is a frame that exists already.  The caller has filled its head, except seq. */
void psc_call_frame(
    struct rt_call *call, uint32_t i, uint32_t server, struct rpc_frame *f_own, size_t answer);
/* Sends the parts that have room, and queues the others.  What `fill` reads must stay valid until
 * the call is over.  Never fails: an error becomes the call's result. */
void psc_call_start(struct rt_call *call);
/* Starts several calls of one client, so that their frames travel together. */
void psc_calls_start(struct rt_call *const *calls, size_t n);
/* Starts a call that nobody waits for; its failure becomes the client's.  sent: waits until all
 * frames are made; `fill` reads nothing afterwards.  A thread that handles an answer must not wait:
 * the frames may need room that only further answers make. */
CO_MUST_CHECK int psc_call_detach(struct rt_call *call_own, bool sent, struct co_err *err);
/* Waits for the call and frees it.  CO_TIMEOUT: no part ended for timeout_ms; the message names
 * those for whom the servers wait (late), or the servers that did not answer. */
CO_MUST_CHECK int psc_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err);
/* The same, but if the program ends the wait, the call stays, to be waited for again.  Else *call
 * is NULL afterwards. */
CO_MUST_CHECK int psc_call_wait_again(
    struct rt_call **call, int64_t timeout_ms, struct co_err *err);
void psc_call_free(struct rt_call *call);
bool psc_call_is_over(struct rt_call *call);
