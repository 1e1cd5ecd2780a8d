/* Requests under way: a call is one operation of the caller, its parts are the frames that it
 * takes, each answered by one server.
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
    struct rt_frame *frame; /* owned: until it is sent; with `keep`, then the answer */
    uint32_t server;
    uint32_t slot;
    uint32_t bytes;
    enum { RT_PART_NEW, RT_PART_SENT, RT_PART_TAKING, RT_PART_DONE } state;
    uint64_t begin; /* what the answer is for; free for the maker of the call */
    uint32_t n;
};

struct rt_call {
    struct rt_client *c;
    const char *what; /* for messages: "pull" */
    const struct rt_table *table;
    /* Takes the answer of a part, on the rpc's thread, no lock held.  NULL: nothing in it. */
    int (*take)(
        struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err);
    void (*done)(struct rt_call *call); /* detached calls; on any thread, no lock held */
    void *arg;
    float *out;
    struct rt_call *next; /* for whoever finishes several */
    bool keep;            /* answers are kept until the call is freed */
    bool harmless;        /* no answer in time: the client can still be used */
    uint32_t n_parts, left;
    struct co_err err;
    struct rt_part parts[];
};

struct rt_call *rt_call_new(
    struct rt_client *c, const char *what, const struct rt_table *table, uint32_t n_parts);
/* A frame as part i; its head but for seq is the caller's to fill. */
void rt_call_part(struct rt_call *call, uint32_t i, uint32_t server, struct rt_frame *f_own);
/* Sends all parts.  Never fails: what goes wrong is the call's result. */
void rt_call_start(struct rt_call *call);
/* A call that nobody waits for: its failure becomes the client's.  window: waits while too many
 * bytes of such calls are under way (never on the rpc's thread). */
CO_MUST_CHECK int rt_call_detach(struct rt_call *call_own, bool window, struct co_err *err);
/* Waits and frees.  CO_TIMEOUT names who did not answer. */
CO_MUST_CHECK int rt_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err);
void rt_call_free(struct rt_call *call);
