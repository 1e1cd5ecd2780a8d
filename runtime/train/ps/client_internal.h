/* What the files of the trainer's side share: client.c (life), join.c (finding the servers),
 * call.c (requests under way), client_dense.c, client_sparse.c, client_sync.c, save.c. */
#pragma once

#include "runtime/train/ps/call.h"
#include "runtime/train/ps/ids.h"
#include "runtime/train/ps/server.h"

enum {
    RT_LINK_WINDOW = 32 << 20, /* bytes asked of a server and not yet answered, both together */
    RT_SPARSE_FRAME = 4 << 20, /* bytes of a sparse frame, about */
};

enum rt_link_state {
    RT_LINK_DOWN,  /* not connected, or refused for the moment */
    RT_LINK_HELLO, /* connected, hello sent */
    RT_LINK_UP,    /* welcomed */
    RT_LINK_LEFT,  /* finished or closing: what happens to it does not matter */
};

/* One server. */
struct rt_link {
    struct rt_client *c;
    uint32_t index;
    char *endpoint; /* owned */
    /* guarded by c->m: */
    enum rt_link_state state;
    struct rt_stream *stream; /* counted; NULL when DOWN */
    uint32_t shards;
    int64_t heard_ms, pinged_ms, lease_ms;
    struct co_err why;                  /* DOWN: the last reason */
    struct rt_part *queue, **queue_end; /* parts without room */
    size_t under_way;                   /* bytes of the others, with their answers */
    bool pumping;                       /* a thread sends what is in the queue */
};

/* Async exchange of one dense table: at most one is under way, so that the network sets the
 * pace; gradients that come meanwhile are summed.  Buffers change places under c->m and are
 * copied without it. */
struct rt_exchange {
    float *sum;            /* [size] gradients that wait, summed; under c->m */
    float *sending;        /* [size] whoever set busy: what was in sum */
    uint32_t merged;       /* gradients in sum */
    bool busy;             /* an exchange is under way */
    struct rt_call *ready; /* the last complete exchange that the trainer has not seen */
    float *w;              /* sync: to be refreshed by the step */
};

struct rt_client {
    struct rt_client_options options;
    uint32_t trainer, trainers, n_links;
    size_t window; /* of a link */
    char *job, *token;
    struct rt_table *tables;
    uint32_t n_tables;
    struct rt_link *links;
    uint32_t *base; /* [n_links + 1] first group of each server; constant once open */
    struct rt_rpc *rpc;
    struct rt_server *own; /* jobs without servers: the one inside */

    pthread_mutex_t m; /* guards what follows and the links; a leaf but for the streams' */
    pthread_cond_t changed;
    struct rt_part **slots; /* by slot of seq; NULL: free */
    uint32_t *generation;   /* upper half of seq, by slot */
    uint32_t n_slots, used_slots;
    uint32_t detached;   /* calls */
    int64_t moved_ms;    /* the last part was over */
    uint32_t abandoning; /* threads that give a call up */
    struct co_err failed;
    bool leaving;  /* what happens to the servers is none of our business any more */
    bool finished; /* they have been told */
    int64_t ticked_ms;
    struct rt_exchange *exchanges; /* by table */
    uint64_t steps, barriers;
    uint64_t barriers_done; /* of the job when this trainer came: those are behind it */
};

/* call.c; c->m is held.  Ends all calls with *err unless something failed before; the result is
 * the list of detached calls whose `done` must run without the lock. */
struct rt_call *rt_client_fail(struct rt_client *c, const struct co_err *err);
void rt_calls_done(struct rt_call *list);
/* An answer; the rpc's thread. */
void rt_client_answer(struct rt_client *c, struct rt_link *l, struct rt_frame *f_own);
/* False when the deadline (absolute, ms) has passed; c->m is held. */
bool rt_client_wait(struct rt_client *c, int64_t deadline_ms);
/* Waits for a change; false when timeout_ms have passed since `since` and since *moved_ms. */
bool rt_client_wait_moved(
    struct rt_client *c, int64_t since, const int64_t *moved_ms, int64_t timeout_ms);

/* join.c */
CO_MUST_CHECK int rt_client_join(struct rt_client *c, struct co_err *err);

/* call.c; c->m is held.  Ends what waits for an answer of this link only. */
struct rt_call *rt_client_end_link(
    struct rt_client *c, const struct rt_link *l, const struct co_err *why);

/* client.c */
CO_MUST_CHECK int rt_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct rt_table **ret, struct co_err *err);

/* client_sync.c: the job has passed the next barrier already, before this trainer came back:
 * what trainers prepare together before it has been done. */
bool rt_client_behind(struct rt_client *c);

/* client_dense.c: a call with one part per chunk of the table, in order; frames are made of
 * values (size floats) unless the caller sets another `fill`. */
CO_MUST_CHECK int rt_dense_call(struct rt_client *c, const char *what, uint32_t table, uint8_t kind,
    const float *values, struct rt_call **ret, struct co_err *err);
/* client_sparse.c: rows [n][floats] to where their ids live, as a detached call; rows of the
 * same id are summed. */
CO_MUST_CHECK int rt_send_rows(struct rt_client *c, uint32_t table, uint8_t kind,
    const uint64_t *ids, size_t n, const float *rows, size_t floats, struct co_err *err);
void rt_exchange_free(struct rt_exchange *x);
/* Copies the answer's floats to out + begin. */
int rt_dense_take(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err);
