/* A shard's thread: takes frames from its lanes and its queue, handles and answers them.  Other
 * threads reach it only through the queue. */
#include "runtime/train/ps/shard/shard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/counters.h"
#include "runtime/train/ps/shard/dedup.h"
#include "runtime/train/ps/shard/kept.h"
#include "runtime/train/ps/shard/lanes.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/save.h"
#include "runtime/train/ps/shard/step.h"
#include "runtime/train/ps/shard/tables.h"

/* An entry of the queue: a frame, or a notification. */
struct item {
    struct rpc_frame *frame; /* NULL: a notification */
    uint32_t trainer;
    enum { BEGIN, RESTORE, RATE, FINISHED, LEFT, LANE } note;
    uint64_t incarnation, step; /* step: BEGIN and RESTORE */
    const char *dir;            /* RESTORE: the checkpoint */
    uint64_t number;            /* RESTORE: its number; RATE: of the table */
    double lr;                  /* RATE */
    struct rpc_stream *stream;  /* BEGIN, LEFT, LANE: counted */
    struct rpc_lane *lane;      /* LANE: counted */
};

struct shard {
    struct shard_tables tables; /* these four: the shard's thread only, after start */
    struct shard_save save;     /* save.closed: the last load failed, or was not the last one */
    struct co_err why;          /* of one request; here since clearing it costs as much as a row */
    atomic_bool ends;           /* set with the lock below: nothing is queued afterwards */
    atomic_bool dirty;          /* a request has changed something; read by any thread */
    struct shard_dedup *lives;  /* by trainer: which requests were done */
    struct shard_kept (*kept)[SHARD_KEPT_N]; /* by trainer: what it left here for its restart */
    struct shard_steps *steps;
    uint64_t answered; /* shard_steps_answered when lanes last tried their early frames */
    struct shard_lanes *lanes;
    struct shard_meter meter;
    pthread_t thread;

    pthread_mutex_t m;  /* guards what follows */
    struct item *queue; /* take_items swaps it with the thread's own array */
    size_t n, cap;
};

void shard_answer(struct rpc_stream *s, const struct rpc_frame_head *h, struct rpc_frame *a_own) {
    if (!a_own && rpc_frame_new(h->kind | RPC_FRAME_ANSWER, 0, &a_own, NULL) < 0) {
        rpc_stream_cancel(s);
        return;
    }
    a_own->head.seq = h->seq;
    a_own->head.table = h->table;
    a_own->head.shard = h->shard;
    (void)!rpc_stream_send(s, a_own, NULL); /* the reading side notices a closed stream */
}

void shard_refuse(struct rpc_stream *s, const struct rpc_frame_head *h, const struct co_err *err) {
    (void)!rpc_stream_send(s, rpc_frame_error(h, err->code, co_err_text(err)), NULL);
}

/* Answers a request that was done before, without repeating it: an exchange with the current
 * values, a shrink with where to continue. */
static int answer_again(struct shard *s, uint32_t trainer, struct rpc_frame *f,
    struct rpc_frame **ret, struct co_err *err) {
    if (f->head.kind == RPC_FRAME_SHRINK) {
        return shard_shrunk(&s->tables, f, ret, err);
    }
    if (f->head.kind != RPC_FRAME_XCHG_DENSE) {
        return 0;
    }
    f->head.kind = RPC_FRAME_PULL_DENSE;
    int rc = shard_tables_do(&s->tables, trainer, f, ret, err);
    f->head.kind = RPC_FRAME_XCHG_DENSE;
    if (rc == 0) {
        (*ret)->head.kind = RPC_FRAME_XCHG_DENSE | RPC_FRAME_ANSWER;
    }
    return rc;
}

static int recall(
    struct shard *s, uint32_t trainer, uint64_t step, struct rpc_frame **ret, struct co_err *err) {
    const struct shard_kept *k = shard_kept_find(s->kept[trainer], step);
    uint32_t bytes = k ? k->bytes : 0;
    CO_TRY(rpc_frame_new(RPC_FRAME_RECALL | RPC_FRAME_ANSWER, bytes, ret, err));
    if (k) {
        (*ret)->head.aux = k->step;
        memcpy((*ret)->payload, k->data, bytes);
    }
    return 0;
}

static int do_request(struct shard *s, uint32_t trainer, const struct rpc_frame *f,
    struct rpc_frame **ret, struct co_err *err) {
    switch (f->head.kind) {
    case RPC_FRAME_KEEP:
        shard_kept_put(s->kept[trainer], f->head.aux, f->payload, f->head.bytes);
        return 0;
    case RPC_FRAME_RECALL:
        return recall(s, trainer, f->head.aux, ret, err);
    case RPC_FRAME_PULL_DENSE:
        if (f->head.number > shard_steps_done(s->steps)) {
            return co_err_set(err, CO_INVALID,
                "trainer %u pulls what comes of step %llu, which it has not said", trainer,
                (unsigned long long)f->head.number);
        }
        return shard_tables_do(&s->tables, trainer, f, ret, err);
    default:
        return shard_tables_do(&s->tables, trainer, f, ret, err);
    }
}

/* Whether the request counts by its position in the step, too.  Only what is added to a step's sums
 * does: a push to an async table may come in a later step than it was made in, and the trainer's
 * next life may leave it out. */
static bool has_position(const struct shard *s, const struct rpc_frame_head *h) {
    return shard_steps_replay(s->steps) && h->table < s->tables.config.n_tables &&
           s->tables.tables[h->table].mode == RT_SYNC;
}

/* A request that changes something is done once, even if the trainer sends it again. */
static int do_once(struct shard *s, uint32_t trainer, struct rpc_frame *f, struct rpc_frame **ret,
    struct co_err *err) {
    struct shard_dedup *dedup = &s->lives[trainer];
    bool changes = rpc_frame_changes(f->head.kind);
    int rc = changes ? shard_dedup_check(dedup, &f->head, has_position(s, &f->head),
                           shard_steps_done(s->steps), err)
                     : SHARD_DEDUP_RESULT_DO;
    if (rc == SHARD_DEDUP_RESULT_DONE) {
        return answer_again(s, trainer, f, ret, err);
    }
    if (rc == SHARD_DEDUP_RESULT_DO) {
        if (changes && !s->dirty) {
            s->dirty = true;
        }
        rc = shard_steps_hold(s->steps, trainer, f, err);
        if (rc == 0) {
            rc = do_request(s, trainer, f, ret, err);
        }
        if (rc < 0 && changes) {
            shard_dedup_refused(dedup, &f->head, err);
        }
    }
    return rc;
}

/* ---- restoring a checkpoint ---- */

static int take_position(
    void *arg, const struct ckpt_part_chunk *chunk, const unsigned char *data, struct co_err *err) {
    struct shard *s = arg;
    if (chunk->begin >= s->tables.config.trainers || chunk->bytes < 8) {
        return 0; /* the checkpoint's job had more trainers */
    }
    (void)err;
    shard_kept_put(s->kept[chunk->begin], co_get_u64(data), data + 8, chunk->bytes - 8);
    return 0;
}

/* Only shard 0 of server 0 keeps data for trainers, whichever server wrote it to the checkpoint. */
static int restore_kept(struct shard *s, const struct ckpt_chain *chain, struct co_err *err) {
    const struct shard_config *c = &s->tables.config;
    const struct ckpt_walk w = {
        .chain = chain, .kinds = 1U << CKPT_PART_POSITION, .take = take_position, .arg = s};
    for (uint32_t i = 0; i < c->trainers; i++) {
        shard_kept_clear(s->kept[i]);
    }
    return c->server == 0 && c->index == 0 ? ckpt_walk_point(&w, chain->n - 1, err) : 0;
}

static int restore_all(struct shard *s, const struct item *it, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    shard_snapshot_forget(&s->save.snapshot);
    CO_TRY(ckpt_chain_open(it->dir, it->number, &chain, err));
    uint64_t step = ckpt_point_steps(&chain->points[chain->n - 1]);
    if (s->tables.config.mode == RT_SYNC && step != it->step) {
        return co_err_set(err, CO_INVALID, "it was made at step %llu, the trainers go back to %llu",
            (unsigned long long)step, (unsigned long long)it->step);
    }
    CO_TRY(shard_tables_restore(&s->tables, chain, err));
    return restore_kept(s, chain, err);
}

static void say_loaded(const struct shard *s) {
    const struct shard_config *c = &s->tables.config;
    if (c->loaded && !atomic_load(&s->ends)) {
        c->loaded(c->arg, &s->save.closed);
    }
}

static void do_restore(struct shard *s, const struct item *it) {
    struct co_err over = {0};
    s->save.closed = (struct co_err){0};
    s->save.loads = 0;
    (void)!restore_all(s, it, &s->save.closed);
    say_loaded(s);
    co_err_set(&over, CO_GONE, "the job has gone back to checkpoint %llu, step %llu",
        (unsigned long long)it->number, (unsigned long long)it->step);
    for (uint32_t i = 0; i < s->tables.config.trainers; i++) {
        s->lives[i] = (struct shard_dedup){0};
    }
    shard_steps_go_back(s->steps, it->step, &over);
    s->dirty = false;
}

/* The trainer has not begun, or the server has restored a checkpoint since. */
static void refuse_dead(const struct rpc_frame *f) {
    struct co_err err = {0};
    co_err_set(&err, CO_GONE, "the job has gone back to a checkpoint: call rt_resume");
    shard_refuse(rpc_frame_stream(f), &f->head, &err);
}

static void do_frame(void *arg, uint32_t trainer, struct rpc_frame *f_own) {
    struct shard *s = arg;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    if (f->head.kind != RPC_FRAME_PING && s->lives[trainer].incarnation == 0) {
        refuse_dead(f);
        return;
    }
    if (f->head.kind == RPC_FRAME_STEP) {
        shard_steps_say(s->steps, trainer, f);
        return;
    }
    if (f->head.kind == RPC_FRAME_PING) {
        shard_answer(rpc_frame_stream(f), &f->head, NULL);
        return;
    }
    if (f->head.kind == RPC_FRAME_CHECKPOINT) {
        shard_save_do(&s->save, trainer, shard_steps_done(s->steps), f);
        return;
    }
    struct rpc_frame *a = NULL;
    struct rpc_frame_head head = f->head;
    size_t answer_bytes = 0;
    int64_t begin = meter_clock();
    if (s->save.closed.code) {
        shard_refuse(rpc_frame_stream(f), &f->head, &s->save.closed);
        return;
    }
    struct rpc_stream *stream =
        rpc_stream_ref(rpc_frame_stream(f)); /* a held frame drops its own reference */
    if (do_once(s, trainer, f, &a, &s->why) < 0) {
        rpc_frame_free(a);
        shard_refuse(stream, &f->head, &s->why);
    } else {
        answer_bytes = a ? a->head.bytes : 0;
        shard_answer(stream, &f->head, a);
    }
    shard_meter_did(&s->meter, &head, answer_bytes, begin);
    rpc_stream_unref(stream);
}

/* If the STEP of the trainer came on a lane, its stream is kept until the answer. */
static void do_left(struct shard *s, const struct item *it) {
    shard_save_left(&s->save, it->trainer);
    shard_steps_left(s->steps, it->trainer, it->stream);
    shard_lanes_drop(s->lanes, it->stream);
}

static void put_rate(struct shard *s, struct shard_table *st, double lr) {
    if (st->mode != RT_GEO) {
        s->dirty = true;
        shard_rate_set(st, st->steps, lr);
    }
}

static void handle_item(struct shard *s, const struct item *it) {
    if (it->frame) {
        do_frame(s, it->trainer, it->frame);
        return;
    }
    switch (it->note) {
    case BEGIN:
        shard_lanes_keep(s->lanes, it->trainer, it->stream);
        if (it->incarnation != s->lives[it->trainer].incarnation) {
            shard_steps_restart(s->steps, it->trainer);
        }
        shard_dedup_begin(&s->lives[it->trainer], it->incarnation, it->step);
        break;
    case RESTORE:
        do_restore(s, it);
        break;
    case RATE:
        put_rate(s, &s->tables.tables[it->number], it->lr);
        break;
    case LANE:
        shard_lanes_add(s->lanes, it->trainer, it->stream, it->lane);
        break;
    case LEFT:
        do_left(s, it);
        break;
    case FINISHED:
        shard_steps_finished(s->steps, it->trainer);
        break;
    }
    if (it->stream) {
        rpc_stream_unref(it->stream);
    }
}

static void drop_item(const struct item *it) {
    rpc_frame_free(it->frame);
    if (it->stream) {
        rpc_stream_unref(it->stream);
    }
    if (it->lane) {
        rpc_stream_unref(rpc_lane_stream(it->lane));
    }
}

static bool is_early(void *arg, uint32_t trainer, const struct rpc_frame *f) {
    return shard_steps_early(((struct shard *)arg)->steps, trainer, f);
}

static const struct shard_lanes_ops lanes_ops = {do_frame, is_early};

/* Once a step is answered, handles the frames that its trainers sent after their STEP. */
static bool handle_answered(struct shard *s) {
    uint64_t answered = shard_steps_answered(s->steps);
    bool any = answered != s->answered;
    s->answered = answered;
    if (any) {
        shard_lanes_again(s->lanes);
    }
    return any;
}

/* Serves lanes.  The second turn lets the answer to a STEP travel with the answers to the frames
 * that were sent after it. */
static bool do_turn(struct shard *s, int64_t wait_ns) {
    (void)handle_answered(s);
    bool busy = shard_lanes_turn(s->lanes, wait_ns);
    return (handle_answered(s) && shard_lanes_turn(s->lanes, 0)) || busy;
}

/* Swaps the queue with *items, an array that the thread has done with.  Returns the number of
 * items; -1: the shard is to stop. */
static ssize_t take_items(struct shard *s, struct item **items, size_t *cap) {
    pthread_mutex_lock(&s->m);
    ssize_t n = atomic_load(&s->ends) ? -1 : (ssize_t)s->n;
    if (n > 0) {
        struct item *taken = s->queue;
        size_t taken_cap = s->cap;
        s->queue = *items;
        s->cap = *cap;
        s->n = 0;
        *items = taken;
        *cap = taken_cap;
    }
    pthread_mutex_unlock(&s->m);
    return n;
}

static void *run_shard(void *arg) {
    struct shard *s = arg;
    const struct ckpt_chain *restore = s->tables.config.restore;
    if (restore) {
        int rc = shard_tables_restore(&s->tables, restore, &s->save.closed);
        (void)!(rc < 0 ? rc : restore_kept(s, restore, &s->save.closed));
        say_loaded(s);
    }
    struct item *items = NULL;
    size_t cap = 0;
    ssize_t n = 0;
    bool busy = false;
    while ((n = take_items(s, &items, &cap)) >= 0) {
        for (ssize_t i = 0; i < n; i++) {
            handle_item(s, &items[i]);
        }
        int64_t wait_ns = shard_save_run(&s->save, busy || n > 0);
        shard_lanes_flush(s->lanes);     /* sends all answers so far, those of saves included */
        shard_tables_settle(&s->tables); /* nobody has asked for the rest of a step */
        shard_meter_turn(&s->meter, (size_t)n);
        busy = do_turn(s, wait_ns);
        shard_lanes_flush(s->lanes);
    }
    free(items);
    return NULL;
}

static void post_item(struct shard *s, struct item it) {
    pthread_mutex_lock(&s->m);
    if (atomic_load(&s->ends)) {
        pthread_mutex_unlock(&s->m);
        drop_item(&it);
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->queue = co_xrealloc(s->queue, s->cap, sizeof(*s->queue));
    }
    s->queue[s->n++] = it;
    bool first = s->n == 1; /* else the thread has been woken already */
    pthread_mutex_unlock(&s->m);
    if (first) {
        shard_lanes_wake(s->lanes);
    }
}

void shard_begin(struct shard *s, uint32_t trainer, struct rpc_stream *stream, uint64_t incarnation,
    uint64_t step) {
    post_item(s, (struct item){.trainer = trainer,
                     .note = BEGIN,
                     .stream = rpc_stream_ref(stream),
                     .incarnation = incarnation,
                     .step = step});
}

void shard_put_rate(struct shard *s, uint32_t table, double lr) {
    post_item(s, (struct item){.note = RATE, .number = table, .lr = lr});
}

void shard_restore(struct shard *s, const char *dir, uint64_t number, uint64_t step) {
    post_item(s, (struct item){.note = RESTORE, .dir = dir, .number = number, .step = step});
}

bool shard_dirty(const struct shard *s) {
    return s->dirty;
}

uint64_t shard_step(const struct shard *s) {
    return shard_steps_done(s->steps);
}

void shard_post(struct shard *s, uint32_t trainer, struct rpc_frame *f_own) {
    post_item(s, (struct item){.frame = f_own, .trainer = trainer});
}

void shard_finished(struct shard *s, uint32_t trainer) {
    post_item(s, (struct item){.trainer = trainer, .note = FINISHED});
}

void shard_left(struct shard *s, uint32_t trainer, struct rpc_stream *stream) {
    post_item(s, (struct item){.trainer = trainer, .note = LEFT, .stream = rpc_stream_ref(stream)});
}

void shard_lane(
    struct shard *s, uint32_t trainer, struct rpc_stream *stream, struct rpc_lane *lane_own) {
    post_item(s,
        (struct item){
            .trainer = trainer, .note = LANE, .stream = rpc_stream_ref(stream), .lane = lane_own});
}

uint64_t shard_said(const struct shard *s, uint32_t trainer) {
    return shard_steps_said(s->steps, trainer);
}

static void wake(void *arg) {
    shard_lanes_wake(((struct shard *)arg)->lanes);
}

static void shard_free(struct shard *s) {
    shard_meter_close(&s->meter);
    shard_steps_free(s->steps);
    shard_save_done(&s->save);
    shard_tables_done(&s->tables);
    shard_lanes_free(s->lanes);
    pthread_mutex_destroy(&s->m);
    for (size_t i = 0; i < s->n; i++) {
        drop_item(&s->queue[i]);
    }
    free(s->queue);
    for (uint32_t i = 0; i < s->tables.config.trainers; i++) {
        shard_kept_clear(s->kept[i]);
    }
    free(s->kept);
    free(s->lives);
    free(s);
}

static uint64_t restored_step(const struct shard_config *c) {
    const struct ckpt_chain *r = c->mode == RT_SYNC ? c->restore : NULL;
    return r ? ckpt_point_steps(&r->points[r->n - 1]) : 0;
}

CO_DEFINE_CLEANUP(struct shard *, shard_free)

int shard_start(const struct shard_config *config, struct shard **ret, struct co_err *err) {
    CO_CLEANUP(shard_freep) struct shard *s = co_xcalloc(1, sizeof(*s));
    pthread_mutex_init(&s->m, NULL);
    s->kept = co_xcalloc(config->trainers, sizeof(*s->kept));
    s->lives = co_xcalloc(config->trainers, sizeof(*s->lives));
    CO_TRY(shard_tables_init(&s->tables, config, err));
    if (config->restore) {
        CO_TRY(shard_restore_fits(config->tables, config->n_tables, config->restore, err));
    }
    CO_TRY(shard_lanes_new(config->index, &lanes_ops, s, &s->lanes, err));
    s->tables.stop = &s->ends;
    s->steps = shard_steps_new(&s->tables, s->lives);
    shard_steps_go_back(s->steps, restored_step(config), &(struct co_err){0});
    shard_save_init(&s->save, &s->tables, config->saver, wake, s);
    s->save.snapshot.kept = s->kept;
    shard_meter_open(&s->meter, &s->tables);
    int e = pthread_create(&s->thread, NULL, run_shard, s);
    if (e) {
        return co_err_errno(err, e, "cannot start a shard thread");
    }
    *ret = co_steal_ptr(s);
    return 0;
}

void shard_stop(struct shard *s) {
    if (!s) {
        return;
    }
    pthread_mutex_lock(&s->m);
    atomic_store(&s->ends, true);
    pthread_mutex_unlock(&s->m);
    shard_lanes_wake(s->lanes);
    /* no deadline: it ends its request, or a load at the next chunk, and waits for nobody */
    pthread_join(s->thread, NULL);
    shard_free(s);
}
