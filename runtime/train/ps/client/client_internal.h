/* What the files of the trainer's side share: the client, and calls of client.c (opening, closing,
 * callbacks), call.c (requests in flight), join.c (connecting), tables, steps, checkpoints.  Links
 * are in link.h.  No other code includes this. */
#pragma once

#include <stdatomic.h>

#include "common/fork.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/client/call.h"
#include "runtime/train/ps/client/exchange.h"
#include "runtime/train/ps/client/ids.h"
#include "runtime/train/ps/client/lanes.h"
#include "runtime/train/ps/client/link.h"
#include "runtime/train/ps/client/progress.h"
#include "runtime/train/ps/server/server.h"

enum {
    /* Bytes of a server's requests in flight and of their answers; each shard has its share. */
    PSC_LINK_WINDOW = 32 << 20,
    /* About the bytes of a sparse frame: small enough to be in the CPU's cache when it is sent. */
    PSC_SPARSE_FRAME = 256 << 10,
    PSC_SPARSE_IDS_MAX = 1 << 24, /* in one call */
};

struct psc_saving;

/* What an open client has.  It does not change, but for: what joining sets (incarnation, former,
 * base, join_until_ms), and what has a lock of its own. */
struct rt_client {
    struct co_fork fork;
    struct rt_client_options options;
    uint32_t trainer, trainers, n_servers, n_tables;
    char *job;
    struct net_auth auth; /* the token is owned */
    struct ps_table *tables;
    atomic_uint_least64_t
        *rates;            /* [n_tables] bits of what rt_set_rate has set last; ~0: nothing */
    uint32_t *base;        /* [n_servers + 1] first shard of each server */
    size_t window;         /* of a link, in bytes; see PSC_LINK_WINDOW */
    uint64_t incarnation;  /* of this client; each client of each process has its own */
    uint64_t former;       /* the incarnation before psc_client_rejoin; 0: none */
    int64_t join_until_ms; /* for psc_client_left */
    struct psc_progress progress;
    struct psc_step *step; /* sync: the one that is not over; of the thread that has the turn */
    struct psc_torn *torn;
    struct psc_links *links;
    struct psc_reader *reader; /* NULL: without data lanes */
    struct psc_reconnector *reconnector;
    struct psc_exchanges *exchanges;
    struct psc_saving *saving; /* writes checkpoints; see saving.c */
    struct psc_communicator *communicator;
    struct psc_geo *geo; /* NULL: no table is in geo mode */
    struct rpc *rpc;
    struct pss_server *own; /* jobs without servers: the one in this process */
    bool metered;           /* this client opened the metrics, and closes them */
};

/* join.c: ms, or less where psc_client_join has less time left. */
int psc_client_left(const struct rt_client *c, int ms);

/* call.c.  Ends all calls with *err, unless something failed before. */
void psc_client_fail(struct rt_client *c, const struct co_err *err);
/* The same, for an error of a server that answers no request. */
void psc_client_failed_by(struct rt_client *c, const struct co_err *err);
/* The failure that ended all calls; 0: none. */
int psc_client_failure(struct rt_client *c, struct co_err *err);
/* Servers refuse a push: one with NaN, one that they have no memory for, any while tables are
 * restored.  Nothing else is lost by it, so the client does not fail: one later push, step or flush
 * returns the refusal, and the next ones work again.  Any thread. */
CO_MUST_CHECK int psc_client_refusal(struct rt_client *c, struct co_err *err);
/* sync.c: the step whose wait the program has ended, of a client that has failed. */
void psc_step_drop(struct rt_client *c);
/* rt_flush without the refusal: all pushes are applied, or refused. */
CO_MUST_CHECK int psc_client_settle(struct rt_client *c, struct co_err *err);
/* Handles an answer, on the thread that read it. */
void psc_client_answer(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own);
/* When a call whose last part ended at from_ms gives up, by psc_client_time.  If a link came back
 * at back_ms, within its time, requests begin there again and have the time once more; but not each
 * time: the link may be lost again and again. */
int64_t psc_call_until(int64_t from_ms, int64_t back_ms, int64_t timeout_ms);
/* Waits while `pending` says so, the client works and parts end.  CO_TIMEOUT: none has ended for
 * call_timeout_ms; CO_CANCELED: the program has ended the wait.  The links' lock is held for
 * `pending`, which may take another. */
CO_MUST_CHECK int psc_client_await(
    struct rt_client *c, bool (*pending)(struct rt_client *c, const void *arg), const void *arg);
/* For `pending`: calls that no thread waits for are in flight. */
bool psc_calls_detached(const struct rt_client *c);
/* Wakes those who wait. */
void psc_client_wake(struct rt_client *c);
/* pump.c: sends waiting parts as far as the windows allow.  One thread at a time does so, to keep
 * the order of parts. */
void psc_client_pump(struct psc_link *l);

/* join.c: connects to all servers; returns when all links are up. */
CO_MUST_CHECK int psc_client_join(struct rt_client *c, struct co_err *err);
/* Sync, after the job went back to a checkpoint (CO_GONE): drops all connections and requests in
 * flight, and joins again as a new incarnation. */
CO_MUST_CHECK int psc_client_rejoin(struct rt_client *c, struct co_err *err);
/* The reconnector's thread reconnects links that are away, until the client fails. */
CO_MUST_CHECK int psc_reconnector_start(struct rt_client *c, struct co_err *err);
void psc_reconnector_join(struct rt_client *c); /* after the client has failed */

/* client.c: records that these trainers have finished. */
void psc_client_note_done(struct rt_client *c, const uint32_t *trainers, size_t n);
/* client.c: handles a frame that came over a server's stream or a lane. */
void psc_client_frame(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own);
/* link.c: what servers do with NaN and Inf; the strictest setting if they differ. */
enum rt_nonfinite psc_client_nonfinite(struct rt_client *c);
/* CO_INVALID in a forked child.  Each call begins with it or, if it uses tables, with the next. */
CO_MUST_CHECK int psc_client_here(const struct rt_client *c, struct co_err *err);
/* The servers' incarnations [n_servers]; CO_CONFLICT: one is not what it was. */
void psc_client_servers(struct rt_client *c, uint64_t *ret);
CO_MUST_CHECK int psc_client_same_servers(
    struct rt_client *c, const uint64_t *was, struct co_err *err);
/* torn.c: refuses tables that are loaded in part (CO_UNAVAILABLE). */
CO_MUST_CHECK int psc_client_whole(struct rt_client *c, struct co_err *err);
/* Tables are loaded in part from now on; code 0: they are whole.  Returns what it was before. */
struct co_err psc_client_tear(struct rt_client *c, const struct co_err *why);
struct psc_torn *psc_torn_new(void);
void psc_torn_free(struct psc_torn *t);
CO_MUST_CHECK int psc_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct ps_table **ret, struct co_err *err);

/* True if the job passed this trainer's next barrier before the trainer came back.
 * The work that trainers share before that barrier is then done already. */
static inline bool psc_client_behind(const struct rt_client *c) {
    return c->progress.barriers < c->progress.barriers_done;
}
/* sync.c: makes a call with one empty frame to every shard of every server. */
struct rt_call *psc_shards_call(
    struct rt_client *c, const char *what, uint8_t kind, uint32_t table, uint64_t aux);
/* stat.c: sets how many steps the table's learning-rate schedule has seen. */
CO_MUST_CHECK int psc_client_set_steps(
    struct rt_client *c, uint32_t table, uint64_t steps, struct co_err *err);

/* stat.c: the rates are those of a save or checkpoint from now on. */
void psc_rates_forget(struct rt_client *c);
/* What this trainer has set last.  False: nothing. */
bool psc_rate_set(const struct rt_client *c, uint32_t table, double *ret_lr);

/* All servers began with a checkpoint, so the tables need no initial values. */
bool psc_client_restored(struct rt_client *c);

/* communicator.c: merges async pushes to sparse tables; its own thread sends them.  NULL: pushes
 * are sent at once. */
struct psc_communicator;
CO_MUST_CHECK int psc_communicator_start(
    struct rt_client *c, struct psc_communicator **ret, struct co_err *err);
/* Drops waiting pushes; call it after the client has failed.  NULL allowed. */
void psc_communicator_stop(struct psc_communicator *m);
/* Copies the push; blocks while queue_max pushes wait. */
CO_MUST_CHECK int psc_communicator_push(struct psc_communicator *m, uint32_t table,
    const uint64_t *ids, size_t n, const float *gradients, struct co_err *err);
/* Drops waiting pushes and forgets that senders failed; no thread of them uses the links when it
 * returns.  Call it after the client has failed, before it rejoins.  NULL allowed. */
void psc_communicator_clear(struct psc_communicator *m);
/* Blocks until all waiting pushes have been handed to the links. */
CO_MUST_CHECK int psc_communicator_flush(struct psc_communicator *m, struct co_err *err);

/* pace.c, with bounded staleness: this trainer has completed `step` (all ones: its last).
 * Blocks while it is too far ahead.  A CO_TIMEOUT names the trainers it waited for. */
CO_MUST_CHECK int psc_client_pace(struct rt_client *c, uint64_t step, struct co_err *err);

/* dense.c: makes a call with one part per chunk of the table.  Frames carry values (size
 * floats) unless the caller sets another `fill`.  When servers refuse NaN and Inf and values have
 * some, the call has only the chunks with them, so that no shard applies the rest of a refused
 * tensor; the servers count and name those chunks. */
CO_MUST_CHECK int psc_dense_call(struct rt_client *c, const char *what, uint32_t table,
    uint8_t kind, const float *values, struct rt_call **ret, struct co_err *err);
/* sparse.c: checks that the table is sparse and that n is within PSC_SPARSE_IDS_MAX. */
CO_MUST_CHECK int psc_sparse_check(struct rt_client *c, uint32_t table, size_t n,
    const struct ps_table **ret_table, struct co_err *err);
/* sparse.c: goes through all rows of a sparse table, shard by shard and in slices, so that a shard
 * serves other requests in between. */
struct psc_scan {
    const char *what; /* for messages */
    uint8_t kind;     /* of the frame that asks for a slice; the answer says where it ended */
    uint32_t count;   /* in its head */
    /* Only copies: the thread that reads answers, for all threads, must not wait. */
    int (*take)(struct psc_scan *s, const struct rpc_frame *a, struct co_err *err);
    int (*after)(struct psc_scan *s, struct co_err *err); /* on the caller's thread; NULL allowed */
    uint64_t next; /* slot where the scan of a shard continues; all ones: it is over */
};
CO_MUST_CHECK int psc_sparse_scan(
    struct rt_client *c, uint32_t table, struct psc_scan *s, struct co_err *err);
/* Erases all rows. */
CO_MUST_CHECK int psc_sparse_clear(struct rt_client *c, uint32_t table, struct co_err *err);
/* sparse.c: sends rows [n][floats] to the shards of their ids, as a detached call.  Rows
 * with the same id are summed. */
CO_MUST_CHECK int psc_send_rows(struct rt_client *c, uint32_t table, uint8_t kind,
    const uint64_t *ids, size_t n, const float *rows, size_t floats, struct co_err *err);
/* dense.c: sends a gradient, as a detached call; does not read it after the return. */
CO_MUST_CHECK int psc_send_values(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err);
/* saving.c */
void psc_saving_open(struct rt_client *c);
void psc_saving_close(struct rt_client *c); /* after all calls have ended */
/* After a step of this trainer: begins a checkpoint when one is due. */
void psc_saving_step(struct rt_client *c);
/* The job begins, or goes back to a checkpoint: steps count on from the one in its manifest. */
void psc_saving_joined(struct rt_client *c);
/* The tables are others, of which no checkpoint knows: the next steps make one, if the options ask
 * for any. */
void psc_saving_loaded(struct rt_client *c);
void psc_saving_wait(struct rt_client *c); /* blocks while a checkpoint is being written */

/* sparse.c, dense.c: read the servers' values, in every mode. */
CO_MUST_CHECK int psc_pull_rows_start(struct rt_client *c, uint32_t table, const uint64_t *ids,
    size_t n, float *ret_rows, struct rt_call **ret_call, struct co_err *err);
CO_MUST_CHECK int psc_pull_rows_wait(struct rt_call *call, struct co_err *err);
/* Makes a call, which the caller starts, for the values after step `after`.  The trainer must have
 * sent the frames of that step before.  0: the current values. */
CO_MUST_CHECK int psc_values_call(struct rt_client *c, uint32_t table, float *ret_w, uint64_t after,
    struct rt_call **ret, struct co_err *err);
CO_MUST_CHECK int psc_pull_values(
    struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err);
/* Checks that the answer has the part's values. */
int psc_dense_check(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err);
/* Copies the answer's floats to out + begin. */
int psc_dense_take(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err);
