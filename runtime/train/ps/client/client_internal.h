/* Structures and calls that the files of the trainer's side share: client.c (opening, closing,
 * ticks), link.c (states and leases of links), join.c (connecting), call.c (requests in flight),
 * client_*.c (tables, steps, checkpoints), communicator.c (merged sparse pushes).  No other code
 * includes this.
 *
 *     rt_client -- psc_link, one a server -- psc_line, one a shard, and one for control messages */
#pragma once

#include <stdatomic.h>

#include "common/fork.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/client/call.h"
#include "runtime/train/ps/client/exchange.h"
#include "runtime/train/ps/client/lanes.h"
#include "runtime/train/ps/client/ids.h"
#include "runtime/train/ps/client/inflight.h"
#include "runtime/train/ps/client/progress.h"
#include "runtime/train/ps/server/server.h"

enum {
    /* Bytes of a server's requests in flight and of their answers; each shard has its share. */
    PSC_LINK_WINDOW = 32 << 20,
    /* About the bytes of a sparse frame: small enough to be in the CPU's cache when it is sent. */
    PSC_SPARSE_FRAME = 256 << 10,
    PSC_SPARSE_IDS_MAX = 1 << 24, /* in one call */
};

enum psc_link_state {
    PSC_LINK_DOWN,    /* not connected, or refused for the moment */
    PSC_LINK_HELLO,   /* connected, hello sent */
    PSC_LINK_WELCOME, /* welcome received; the first time, all other welcomes must come too */
    PSC_LINK_BEGUN,   /* the server has answered begin; data lanes open next */
    PSC_LINK_UP,      /* in use */
    PSC_LINK_LEFT,    /* has answered the trainer's finish: it may exit now */
};

/* One server. */
struct psc_link {
    struct rt_client *c;
    uint32_t index;
    char *endpoint; /* owned */
    /* guarded by c->m: */
    enum psc_link_state state;
    struct rpc_stream *stream; /* counted; NULL when DOWN */
    struct psc_lanes lanes;
    struct psc_inflight inflight; /* its window: c->window, or what the server allows */
    int64_t received_ms, pinged_ms, lease_ms;
    struct co_err why;                     /* DOWN: why the last attempt failed */
    uint64_t incarnation;                  /* of the server; 0: never welcomed */
    uint64_t step, barriers;               /* of the server, from its last welcome */
    uint64_t era, restored, restored_step; /* from its last welcome */
    bool fresh, dirty;                     /* from its last welcome; see join.c */
    enum rt_nonfinite nonfinite; /* from its last welcome: what it does with NaN and Inf */
    uint64_t asked, welcomed;    /* when hello went out and welcome came, by c->clock */
    bool replaced;               /* the server restarted since this trainer knew it */
    bool pumping;                /* a thread is sending waiting parts */
    bool away;                   /* was UP; the client waits for it until until_ms */
    bool moved; /* has answered since it came back: its next loss gets the whole return time */
    int64_t up_ms, away_ms, until_ms;
    int64_t spare_ms;   /* what was left of the return time when it came back */
    struct co_err lost; /* why it went away */
};

struct psc_saving;

struct rt_client {
    struct co_fork fork;
    atomic_bool is_torn; /* torn.code is set */
    struct rt_client_options options;
    uint32_t trainer, trainers, n_links;
    uint64_t incarnation; /* of this client; each client of each process has its own */
    uint64_t former;      /* the incarnation before psc_client_rejoin; 0: none */
    uint64_t clock;       /* a logical clock: counts hellos and welcomes */
    struct psc_progress progress;
    size_t window; /* of a link, in bytes; see PSC_LINK_WINDOW */
    char *job;
    struct rpc_peer_auth auth; /* the token is owned */
    struct ps_table *tables;
    uint32_t n_tables;
    struct psc_link *links;
    uint32_t *base; /* [n_links + 1] first shard of each server; only psc_client_join writes it */
    struct rpc *rpc;
    struct psc_reader *reader; /* NULL: without data lanes */
    struct psc_exchanges *exchanges;
    struct psc_saving *saving; /* writes checkpoints; see checkpoint.c */
    struct pss_server *own;    /* jobs without servers: the one in this process */
    bool metered;              /* this client opened the metrics, and closes them */

    pthread_mutex_t m; /* guards the fields below and the links; only streams' locks nest in it */
    pthread_cond_t changed;
    struct psc_slots slots;
    uint32_t detached; /* calls that no thread waits for */
    int64_t moved_ms;  /* when the last part ended, by psc_client_time */
    uint32_t awaiting; /* threads that wait for others to be done with parts */
    struct co_err failed;
    struct co_err refused; /* a push that servers refused; see psc_client_refusal */
    struct co_err torn;    /* tables are loaded in part; see psc_client_tear */
    int64_t join_until_ms; /* for psc_client_left; only psc_client_join writes it */
    bool joined;           /* all links have been up: the reconnector reconnects broken ones */
    uint32_t away;         /* number of links that are away */
    int64_t back_ms;       /* when the last link came back, by psc_client_time */
    int64_t still_ms;      /* for how long some link was away so far; since when one is: */
    int64_t still_since_ms;
    pthread_t reconnector;
    pthread_cond_t broke; /* wakes the reconnector: a link is away, or the client closes */
    bool mending;         /* the reconnector's thread runs */
    bool leaving;         /* closing: a lost link is no error any more */
    bool finishing;       /* sending finish: restored tables do not matter any more */
    bool finished;        /* all servers have answered finish */
    int64_t ticked_ms;
    struct psc_communicator *communicator;
    struct psc_geo *geo; /* NULL: no table is in geo mode */
};

/* link.c; c->m is held.  The only function that changes a state; asserts that the move is legal. */
void psc_link_set(struct psc_link *l, enum psc_link_state to);
/* Handles the loss of a link that was up: waits for it up to return_ms, or fails the client.  The
 * result is as psc_client_fail's. */
CO_MUST_CHECK struct rt_call *psc_link_lose(struct psc_link *l, const char *why);
/* For each tick: pings, the lease, the time to come back.  The caller breaks *ret_stream if it is
 * set.  The result is as psc_client_fail's. */
CO_MUST_CHECK struct rt_call *psc_link_tick(
    struct psc_link *l, int64_t now, struct rpc_stream **ret_stream);

/* join.c: ms, or less where psc_client_join has less time left. */
int psc_client_left(const struct rt_client *c, int ms);

/* call.c; c->m is held.  Ends all calls with *err unless something failed before; the result is
 * the list of detached calls whose `done` must run without the lock. */
struct rt_call *psc_client_fail(struct rt_client *c, const struct co_err *err);
void psc_calls_done(struct rt_call *list);
/* Servers refuse a push: one with NaN, one that they have no memory for, any while tables are
 * restored.  Nothing else is lost by it, so the client does not fail: one later push, step or flush
 * returns the refusal, and the next ones work again.  Any thread; c->m is not held. */
CO_MUST_CHECK int psc_client_refusal(struct rt_client *c, struct co_err *err);
void psc_client_refuse(struct rt_client *c, const struct co_err *err); /* c->m is held */
/* rt_flush without the refusal: all pushes are applied, or refused. */
CO_MUST_CHECK int psc_client_settle(struct rt_client *c, struct co_err *err);
/* Handles an answer, on the thread that read it. */
void psc_client_answer(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own);
/* Milliseconds of a clock that stands still while a link is away, as that wait has a limit of its
 * own (until_ms).  c->m is held. */
int64_t psc_client_time(const struct rt_client *c);
/* When a call whose last part ended at from_ms gives up, by psc_client_time.  If a link came back
 * at back_ms, within its time, requests begin there again and have the time once more; but not each
 * time: the link may be lost again and again. */
int64_t psc_call_until(int64_t from_ms, int64_t back_ms, int64_t timeout_ms);
/* Waits for c->changed.  False: psc_call_until of the later of `since` and *moved_ms has passed. */
bool psc_client_wait_moved(
    struct rt_client *c, int64_t since, const int64_t *moved_ms, int64_t timeout_ms);

/* Waits while `pending` says so, which is called with c->m held and may take locks of its own, the
 * client works and parts end.  False: none has ended for call_timeout_ms. */
bool psc_client_await(
    struct rt_client *c, bool (*pending)(struct rt_client *c, const void *arg), const void *arg);
/* Wakes those who wait. */
void psc_client_wake(struct rt_client *c);

/* Waits a while for threads that still make frames or handle answers of `what`, which is over. They
 * use the memory of its caller, so it cannot return before.  They wait for nobody, so there is no
 * deadline; but the log says every half a minute what they hold up.  *say_ms: 0 at first.  c->m is
 * held, and released meanwhile. */
void psc_client_await_threads(struct rt_client *c, const char *what, int64_t *say_ms);

/* join.c: connects to all servers; returns when all links are up. */
CO_MUST_CHECK int psc_client_join(struct rt_client *c, struct co_err *err);
/* Sync, after the job went back to a checkpoint (CO_GONE): drops all connections and requests in
 * flight, and joins again as a new incarnation. */
CO_MUST_CHECK int psc_client_rejoin(struct rt_client *c, struct co_err *err);
/* The reconnector's thread: reconnects links that are away, until the client fails or closes. */
void *psc_client_mend(void *client);

/* call.c; c->m is held.  Ends the requests that wait for an answer of this link only. */
struct rt_call *psc_client_end_link(
    struct rt_client *c, struct psc_link *l, const struct co_err *why);
/* Call it when a link's connection is lost.  Unanswered parts go back to the front of the queue;
 * hello and begin end with *why.  Returns how many parts will be sent again. */
uint32_t psc_client_requeue(struct rt_client *c, struct psc_link *l, const struct co_err *why);
/* Sends waiting parts as far as the windows allow.  One thread at a time does so, to keep the order
 * of parts.  c->m is held, and released while it sends.  The result is as psc_client_fail's. */
CO_MUST_CHECK struct rt_call *psc_client_pump(struct rt_client *c, struct psc_link *l);

/* client.c */
CO_MUST_CHECK int psc_client_start_reconnector(struct rt_client *c, struct co_err *err);
/* client.c: reports to the servers why this trainer leaves, and waits briefly for the streams' end.
 * `returns`: the trainer rejoins at once, as another incarnation. */
void psc_client_leave(struct rt_client *c, const char *why, bool returns);
/* client.c: records that these trainers have finished. */
void psc_client_note_done(struct rt_client *c, const uint32_t *trainers, size_t n);
/* client.c: handles a frame that came over a server's stream or a lane. */
void psc_client_frame(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own);
/* client.c: what servers do with NaN and Inf; the strictest setting if they differ. */
enum rt_nonfinite psc_client_nonfinite(struct rt_client *c);
/* CO_INVALID in a forked child.  Each call begins with it or, if it uses tables, with the next. */
CO_MUST_CHECK int psc_client_here(const struct rt_client *c, struct co_err *err);
/* The servers' incarnations [n_links]; CO_CONFLICT: one is not what it was. */
void psc_client_servers(struct rt_client *c, uint64_t *ret);
CO_MUST_CHECK int psc_client_same_servers(
    struct rt_client *c, const uint64_t *was, struct co_err *err);
/* The failure that ended all calls; 0: none. */
int psc_client_failure(struct rt_client *c, struct co_err *err);
/* Refuses tables that are loaded in part (CO_UNAVAILABLE). */
CO_MUST_CHECK int psc_client_whole(struct rt_client *c, struct co_err *err);
/* Tables are loaded in part from now on; code 0: they are whole.  Returns what it was before. */
struct co_err psc_client_tear(struct rt_client *c, const struct co_err *why);
CO_MUST_CHECK int psc_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct ps_table **ret, struct co_err *err);

/* True if the job passed this trainer's next barrier before the trainer came back.
 * The work that trainers share before that barrier is then done already. */
static inline bool psc_client_behind(const struct rt_client *c) {
    return c->progress.barriers < c->progress.barriers_done;
}
/* sync.c: sets how many steps the table's learning-rate schedule has seen. */
CO_MUST_CHECK int psc_client_set_steps(
    struct rt_client *c, uint32_t table, uint64_t steps, struct co_err *err);

/* All servers began with a checkpoint, so the tables need no initial values. */
static inline bool psc_client_restored(const struct rt_client *c) {
    return c->links[0].restored > 0;
}

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
/* sparse.c: sends rows [n][floats] to the shards of their ids, as a detached call.  Rows
 * with the same id are summed. */
CO_MUST_CHECK int psc_send_rows(struct rt_client *c, uint32_t table, uint8_t kind,
    const uint64_t *ids, size_t n, const float *rows, size_t floats, struct co_err *err);
/* dense.c: sends a gradient, as a detached call; does not read it after the return. */
CO_MUST_CHECK int psc_send_values(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err);
/* checkpoint.c */
void psc_saving_open(struct rt_client *c);
void psc_saving_close(struct rt_client *c); /* after all calls have ended */
/* After a step of this trainer: begins a checkpoint when one is due. */
void psc_saving_step(struct rt_client *c);
/* The job goes back to a checkpoint: from now on the steps count from the step in its manifest. */
void psc_saving_go_back(struct rt_client *c);
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
