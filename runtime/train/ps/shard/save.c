/* Checkpoint requests of a shard: checks them, answers them, and decides when the snapshot may use
 * the shard's thread. */
#include "runtime/train/ps/shard/save.h"

#include <inttypes.h>
#include <time.h>

#include "common/clock.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/restore.h"

enum {
    SHARE = 32,       /* during training, a snapshot may use 1 / SHARE of its processor time */
    SHARE_LEAST = 64, /* or 1 / SHARE_LEAST of wall time, if that is more */
    BUSY_NS = 20 * 1000 * 1000, /* training continues if there was a request within this time */
};

/* ---- answers ---- */

static void send(struct rpc_stream *s, const struct rpc_frame_head *h, struct rpc_frame *a_own) {
    a_own->head.kind = RPC_FRAME_CHECKPOINT | RPC_FRAME_ANSWER;
    a_own->head.seq = h->seq;
    a_own->head.table = h->table;
    a_own->head.shard = h->shard;
    (void)!rpc_stream_send(s, a_own, NULL); /* a closed stream is noticed where it is read */
}

static void refuse(struct rpc_stream *s, const struct rpc_frame_head *h, const struct co_err *err) {
    (void)!rpc_stream_send(s, rpc_frame_error(h, err->code, co_err_text(err)), NULL);
}

/* c NULL: an answer without payload. */
static void answer(struct rpc_stream *s, const struct rpc_frame_head *h, const Rpc__Control *c) {
    struct rpc_frame *a = NULL;
    struct co_err err = {0};
    int rc = c ? ps_control_pack(c, h, &a, &err) : rpc_frame_new(0, 0, &a, &err);
    if (rc < 0) {
        refuse(s, h, &err);
    } else {
        send(s, h, a);
    }
}

static void unpark(struct shard_save *v) {
    rpc_stream_unref(co_steal_ptr(v->stream));
}

static void park(
    struct shard_save *v, uint32_t trainer, const struct rpc_frame *f, uint64_t ticket) {
    if (v->stream) {
        struct co_err err = {0};
        co_err_set(&err, CO_CANCELED, "trainer %u asked for another checkpoint", trainer);
        refuse(v->stream, &v->head, &err);
        unpark(v);
    }
    v->stream = rpc_stream_ref(rpc_frame_stream(f));
    v->trainer = trainer;
    v->head = f->head;
    v->ticket = ticket;
}

/* Answers the parked request if the saver has its result. */
static void try_answer(struct shard_save *v) {
    struct co_err err = {0};
    struct ckpt_part part = {0};
    Rpc__CkptPart p = RPC__CKPT_PART__INIT;
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    Rpc__Control c = RPC__CONTROL__INIT;
    int rc;
    if (v->ticket > 0) {
        rc = shard_saver_result(v->saver, v->ticket, &part, &err);
        p.server = part.server;
        p.shards = part.shards;
        p.bytes = part.bytes;
        p.hash = part.hash;
        c.body_case = RPC__CONTROL__BODY_CKPT_PART;
        c.ckpt_part = &p;
    } else {
        rc = shard_saver_answer(v->saver, &found, &err);
        c.body_case = RPC__CONTROL__BODY_CKPT_FOUND;
        c.ckpt_found = &found;
    }
    if (rc < 0) {
        refuse(v->stream, &v->head, &err);
    } else if (rc > 0) {
        answer(v->stream, &v->head, &c);
    }
    if (rc != 0) {
        unpark(v);
    }
}

/* ---- requests ---- */

static int begin(struct shard_save *v, uint32_t trainer, uint64_t step, const struct rpc_frame *f,
    const Rpc__CkptOrder *o, struct co_err *err) {
    const struct shard_snapshot_order order = {.dir = o->dir,
        .maker = o->maker,
        .number = o->number,
        .previous = o->previous,
        .full = o->root == o->number,
        .mode = (enum rt_save_mode)o->mode};
    if (o->number < 1) {
        return co_err_set(err, CO_INVALID, "checkpoint 0");
    }
    if (v->closed.code) {
        return co_err_set(err, v->closed.code, "%s", v->closed.msg);
    }
    if (o->mode >= RT_SAVE_MODES || (o->mode == RT_SAVE_DELTA && order.full) ||
        (o->mode == RT_SAVE_DAY && !order.full)) {
        return co_err_set(err, CO_INVALID, "%s checkpoint of save mode %u",
            order.full ? "a full" : "a delta", o->mode);
    }
    const struct shard_config *c = &v->tables->config;
    bool late = c->backup > 0 && f->head.aux < step; /* a backup worker may be behind the step */
    if (c->mode == RT_SYNC && f->head.aux != step && !late) {
        return co_err_set(err, CO_CONFLICT,
            "a checkpoint of step %" PRIu64 ", this server is at %" PRIu64, f->head.aux, step);
    }
    uint64_t ticket = 0;
    CO_TRY(shard_snapshot_begin(&v->snapshot, &order, &ticket, err));
    park(v, trainer, f, ticket);
    return 0;
}

/* Requests are refused from now on, until all shards of all servers have loaded the same. */
static void clear(struct shard_save *v, const Rpc__CkptRestore *r) {
    v->loads = r->number;
    v->opened = 0;
    co_err_set(&v->closed, CO_UNAVAILABLE,
        "the restore of checkpoint %" PRIu64 " in \"%.200s\" has not ended on all servers: tables "
        "cannot be used until rt_restore succeeds",
        r->number, r->dir);
    shard_snapshot_forget(&v->snapshot);
    shard_tables_clear(v->tables);
}

static int check_round(const struct shard_save *v, const Rpc__CkptRestore *r, struct co_err *err) {
    return v->loads == r->number ? 0
                                 : co_err_set(err, CO_CONFLICT,
                                       "this server was not asked to clear its tables for "
                                       "checkpoint %" PRIu64 ": was it restarted",
                                       r->number);
}

static int load_chain(struct shard_save *v, const Rpc__CkptRestore *r, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    int rc = ckpt_chain_open(r->dir, r->number, &chain, err);
    if (rc == CO_NOTFOUND) {
        return co_err_set(err, CO_UNAVAILABLE, "it is not there any more");
    }
    CO_TRY(rc);
    return shard_tables_restore(v->tables, chain, err);
}

/* If this fails, the files are not what the check found, or there is no memory for the tables. */
static int load(struct shard_save *v, const Rpc__CkptRestore *r, struct co_err *err) {
    CO_TRY(check_round(v, r, err));
    int rc = load_chain(v, r, err);
    if (rc < 0) {
        v->loads = 0;
        co_err_set(&v->closed, rc, "tables cannot be used until rt_restore succeeds: %s", err->msg);
    }
    return rc;
}

static int open_again(struct shard_save *v, const Rpc__CkptRestore *r, struct co_err *err) {
    bool again = v->loads == 0 && v->opened == r->number; /* the answer was lost */
    if (!again) {
        CO_TRY(check_round(v, r, err));
    }
    v->closed = (struct co_err){0};
    v->opened = r->number;
    v->loads = 0;
    shard_saver_restored(v->saver, r->dir, r->number);
    return 0;
}

static int restore(struct shard_save *v, const struct rpc_frame *f, const Rpc__CkptRestore *r,
    struct co_err *err) {
    switch (r->round) {
    case RPC__CKPT_RESTORE__ROUND__CLEAR:
        clear(v, r);
        break;
    case RPC__CKPT_RESTORE__ROUND__LOAD:
        CO_TRY(load(v, r, err));
        break;
    case RPC__CKPT_RESTORE__ROUND__OPEN:
        CO_TRY(open_again(v, r, err));
        break;
    default:
        return co_err_set(err, CO_INVALID, "round %d of a restore", (int)r->round);
    }
    answer(rpc_frame_stream(f), &f->head, NULL);
    return 0;
}

/* Has the saver's thread do it; the answer waits. */
static int submit(struct shard_save *v, uint32_t trainer, const struct rpc_frame *f,
    Rpc__Control *c_own, struct co_err *err) {
    CO_TRY(shard_saver_submit(v->saver, c_own, v->stream && v->ticket == 0, err));
    park(v, trainer, f, 0);
    return 0;
}

static int do_message(struct shard_save *v, uint32_t trainer, uint64_t step,
    const struct rpc_frame *f, Rpc__Control **c, struct co_err *err) {
    switch ((*c)->body_case) {
    case RPC__CONTROL__BODY_CKPT_ORDER:
        return begin(v, trainer, step, f, (*c)->ckpt_order, err);
    case RPC__CONTROL__BODY_CKPT_RESTORE:
        return (*c)->ckpt_restore->round == RPC__CKPT_RESTORE__ROUND__CHECK
                   ? submit(v, trainer, f, co_steal_ptr(*c), err)
                   : restore(v, f, (*c)->ckpt_restore, err);
    case RPC__CONTROL__BODY_CKPT_FIND:
    case RPC__CONTROL__BODY_CKPT_COMMIT:
        return submit(v, trainer, f, co_steal_ptr(*c), err);
    default:
        return co_err_set(
            err, CO_INVALID, "message %d is not about a checkpoint", (int)(*c)->body_case);
    }
}

/* Checks that the message's directory is one that this server may use. */
static int check_dir(const struct shard_save *v, const Rpc__Control *c, struct co_err *err) {
    const char *dir = c->body_case == RPC__CONTROL__BODY_CKPT_ORDER     ? c->ckpt_order->dir
                      : c->body_case == RPC__CONTROL__BODY_CKPT_FIND    ? c->ckpt_find->dir
                      : c->body_case == RPC__CONTROL__BODY_CKPT_RESTORE ? c->ckpt_restore->dir
                      : c->body_case == RPC__CONTROL__BODY_CKPT_COMMIT && c->ckpt_commit->order
                          ? c->ckpt_commit->order->dir
                          : "";
    return shard_saver_check_dir(shard_saver_root(v->saver), dir, err);
}

static int do_frame(struct shard_save *v, uint32_t trainer, uint64_t step,
    const struct rpc_frame *f, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    if (!v->saver) {
        return co_err_set(err, CO_UNSUPPORTED, "this server writes no checkpoints");
    }
    CO_TRY(ps_control_unpack(f, &c, err));
    CO_TRY(check_dir(v, c, err));
    return do_message(v, trainer, step, f, &c, err);
}

void shard_save_do(
    struct shard_save *v, uint32_t trainer, uint64_t step, const struct rpc_frame *f) {
    struct co_err err = {0};
    if (do_frame(v, trainer, step, f, &err) < 0) {
        refuse(rpc_frame_stream(f), &f->head, &err);
    }
}

void shard_save_left(struct shard_save *v, uint32_t trainer) {
    if (v->stream && v->trainer == trainer) {
        unpark(v);
    }
}

/* ---- slices ---- */

/* Nanoseconds until the next slice may begin; 0: now.  The processor time costs a system call, so
 * it is read only when enough wall time has passed. */
static int64_t rest_ns(const struct shard_save *v, int64_t now) {
    int64_t since = now - v->end_ns, least = (SHARE - 1) * v->cost_ns;
    if (since < least) {
        return least - since;
    }
    int64_t most = (SHARE_LEAST - 1) * v->cost_ns;
    return since >= most || co_thread_cpu_ns() - v->end_cpu_ns >= least ? 0 : most - since;
}

static bool do_slice(struct shard_save *v) {
    int64_t begin = co_thread_cpu_ns();
    bool more = shard_snapshot_slice(&v->snapshot);
    v->end_ns = co_now_ns();
    v->end_cpu_ns = co_thread_cpu_ns();
    double written = (double)(v->snapshot.bytes - v->bytes);
    v->bytes = v->snapshot.bytes;
    v->cost_ns = v->end_cpu_ns - begin + (int64_t)(written * shard_saver_price(v->saver));
    return more;
}

int64_t shard_save_run(struct shard_save *v, bool busy) {
    if (!v->saver || (!v->stream && !v->snapshot.ticket)) {
        return -1;
    }
    int64_t now = co_now_ns();
    v->busy_ns = busy ? now : v->busy_ns;
    if (v->stream) {
        try_answer(v);
    }
    if (!v->snapshot.ticket) {
        return -1;
    }
    bool training = now - v->busy_ns < BUSY_NS;
    int64_t rest = training ? rest_ns(v, now) : 0;
    if (rest > 0) {
        return rest;
    }
    return do_slice(v) ? training ? rest_ns(v, v->end_ns) : 0 : -1;
}

/* ---- init and done ---- */

void shard_save_init(struct shard_save *v, struct shard_tables *tables, struct shard_saver *saver,
    void (*wake)(void *arg), void *arg) {
    *v = (struct shard_save){.tables = tables, .saver = saver};
    if (saver) {
        shard_snapshot_init(&v->snapshot, tables, saver);
        shard_tables_watch(tables, &v->snapshot);
        shard_saver_listen(saver, tables->config.index, wake, arg);
    }
}

void shard_save_done(struct shard_save *v) {
    if (v->saver) {
        shard_saver_listen(v->saver, v->tables->config.index, NULL, NULL);
        shard_tables_watch(v->tables, NULL);
        shard_snapshot_done(&v->snapshot);
    }
    if (v->stream) {
        unpark(v);
    }
}
