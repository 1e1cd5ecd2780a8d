/* Requests under way: a call is one operation of the caller, its parts are the frames that it
 * takes, each answered by one server.
 *
 * A call may be of any size: of each server only so many bytes are asked and answered at a time
 * (rt_client_config.window), the other parts wait in the link's queue, and an answer sends what
 * now has room.  Frames are made when they are sent.  Parts for one server keep their order.
 *
 * A call is either waited for (rt_call_wait frees it) or detached (its `done` runs once all
 * parts are answered and must free it).  The first failure of the client (server lost, time out,
 * error of a detached call) is kept, ends all calls and is the result of all later ones. */
#pragma once

#include <pthread.h>

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"

struct rt_part {
    struct rt_call *call;
    struct rt_part *next;      /* in the queue of its link */
    struct rt_frame_head head; /* of the frame */
    struct rt_frame *frame;    /* owned; NULL: made of head and `fill` when it is sent.  With
                                  `keep`: afterwards the answer */
    uint32_t server;
    uint32_t slot;
    uint32_t answer; /* bytes of its payload, as far as they are known */
    enum { RT_PART_QUEUED, RT_PART_MAKING, RT_PART_SENT, RT_PART_TAKING, RT_PART_DONE } state;
    uint64_t begin; /* what the answer is for; free for the maker of the call */
    uint32_t n;
};

struct rt_call {
    struct rt_client *c;
    const char *what; /* for messages: "pull" */
    const struct rt_table *table;
    /* Writes the payload of a part, on any thread, no lock held. */
    void (*fill)(const struct rt_call *call, const struct rt_part *p, unsigned char *payload);
    /* Takes the answer of a part, on the rpc's thread, no lock held.  NULL: nothing in it. */
    int (*take)(
        struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err);
    void (*done)(struct rt_call *call); /* detached calls; on any thread, no lock held */
    void *arg;
    const float *in;      /* for fill */
    float *out;           /* for take */
    struct rt_call *next; /* for whoever finishes several */
    bool keep;            /* answers are kept until the call is freed */
    bool harmless;        /* no answer in time: the client can still be used */
    uint32_t n_parts;
    uint32_t unsent, left; /* parts whose frame is still to be made; not yet over */
    bool *ret_sent;        /* set when none is unsent; NULL: nobody wants to know */
    int64_t moved_ms;      /* the last part was over */
    struct co_err err;
    struct rt_part parts[];
};

struct rt_call *rt_call_new(
    struct rt_client *c, const char *what, const struct rt_table *table, uint32_t n_parts);
/* A frame that `fill` will make as part i; its answer will have so many bytes. */
void rt_call_part(struct rt_call *call, uint32_t i, uint32_t server,
    const struct rt_frame_head *head, size_t answer);
/* A frame that is made already; its head but for seq is the caller's to fill. */
void rt_call_frame(
    struct rt_call *call, uint32_t i, uint32_t server, struct rt_frame *f_own, size_t answer);
/* Sends what has room, queues the rest.  What `fill` reads must stay until the call is over.
 * Never fails: what goes wrong is the call's result. */
void rt_call_start(struct rt_call *call);
/* A call that nobody waits for: its failure becomes the client's.  sent: waits until all frames
 * are made, after which `fill` reads nothing any more (never on the rpc's thread). */
CO_MUST_CHECK int rt_call_detach(struct rt_call *call_own, bool sent, struct co_err *err);
/* Waits and frees.  CO_TIMEOUT names who did not answer: no part was over for timeout_ms. */
CO_MUST_CHECK int rt_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err);
void rt_call_free(struct rt_call *call);
