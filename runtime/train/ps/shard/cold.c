/* Sparse tables with cold rows, those on disk: which tables have them, and the passes over all rows
 * (save, shrink, ttl sweep).  table/cold.h moves the rows. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"

enum {
    SHARED = 16, /* 1 / SHARED of the budget is set aside so that every table gets some memory */
    SHRINK_ROWS = 4096,  /* hot or cold rows that one frame looks at */
    SWEEP_CREDIT = 1024, /* rows that one sweep looks at */
};

/* ---- which tables ---- */

static enum table_cold_age leaves(void *arg, uint32_t slot) {
    const struct shard_table *st = arg;
    return shard_snapshot_leaves(st->snapshot, st->index, slot);
}

static void comes(void *arg, uint32_t slot, enum table_cold_age age) {
    const struct shard_table *st = arg;
    shard_snapshot_comes(st->snapshot, st->index, slot, age);
}

/* lfu tables stay in memory: lfu compares the counts of all rows, and its capacity bounds them. */
void shard_cold_init(struct shard_tables *t, struct shard_table *st) {
    const struct shard_config *c = &t->config;
    if (!c->rocks || st->table->evict.kind == TABLE_EVICT_LFU) {
        return;
    }
    st->cold = co_xcalloc(1, sizeof(*st->cold));
    size_t share = c->budget->max / SHARED / c->n_tables / c->shards;
    t->cold.shards = c->shards;
    table_cold_init(st->cold, st->rows, c->rocks, c->budget, &t->cold, share);
}

void shard_cold_done(struct shard_table *st) {
    if (st->cold) {
        table_cold_done(st->cold);
        free(st->cold);
        st->cold = NULL;
    }
}

void shard_cold_watch(struct shard_table *st) {
    if (st->cold) {
        st->cold->watch = (struct table_cold_watch){leaves, comes, st};
    }
}

int shard_cold_bring(struct shard_table *st, const uint64_t *ids, size_t n, struct co_err *err) {
    if (!st->cold || n == 0) {
        return 0;
    }
    CO_AUTOFREE uint32_t *slots = co_xmalloc(n * sizeof(*slots));
    int rc = table_cold_bring(st->cold, ids, n, slots, err);
    return rc < 0 ? co_err_wrap(err, "table \"%s\"", st->table->name) : 0;
}

/* ---- saving ---- */

/* Writes to the frame those rows of the part that the save mode saves. */
static void put_part(struct shard_table *st, struct table_cold_part *p, enum rt_save_mode mode,
    size_t n, struct rpc_frame *a) {
    size_t floats = shard_row_floats(st), kept = table_evict_words(&st->table->evict) * 4;
    CO_AUTOFREE float *row = co_xmalloc(floats * sizeof(float) + 1);
    unsigned char before[TABLE_POLICY_HEAD_MAX * 4], *id = a->payload, *out = id + n * 8;
    uint32_t now = shard_row_clock(st);
    for (size_t i = 0; i < p->n_hot + p->n_cold; i++) {
        bool hot = i < p->n_hot;
        void *body = hot ? table_store_body(st->rows, p->slots[i])
                         : table_cold_part_body(st->cold, p, i - p->n_hot);
        if (!shard_row_saves(st, body, mode)) {
            continue;
        }
        if (hot && mode != RT_SAVE_ALL) { /* saving changes the row's counts */
            shard_snapshot_change(st->snapshot, st->index, p->slots[i]);
        }
        memcpy(before, body, kept);
        shard_row_save(st, body, mode, now, row);
        if (!hot && memcmp(before, body, kept) != 0) {
            p->change[i - p->n_hot] = TABLE_COLD_CHANGE;
        }
        co_put_u64(id, hot ? table_store_id(st->rows, p->slots[i]) : p->ids[i - p->n_hot]);
        co_copy_f32(out, row, floats);
        id += 8;
        out += floats * sizeof(float);
    }
}

static size_t count_part(
    const struct shard_table *st, const struct table_cold_part *p, enum rt_save_mode mode) {
    size_t n = 0;
    for (size_t i = 0; i < p->n_hot; i++) {
        n += shard_row_saves(st, table_store_body(st->rows, p->slots[i]), mode);
    }
    for (size_t i = 0; i < p->n_cold; i++) {
        n += shard_row_saves(st, table_cold_part_body(st->cold, p, i), mode);
    }
    return n;
}

/* Passes go in the order of the ids' hashes: aux is where this part begins; in the answer, where
 * the next one does. */
static uint64_t begin_of(const struct rpc_frame *f) {
    return f->head.aux < TABLE_COLD_END ? f->head.aux : TABLE_COLD_END;
}

static uint64_t next_of(const struct table_cold_part *p) {
    return p->end == TABLE_COLD_END ? UINT64_MAX : p->end;
}

static int scan(struct shard_table *st, const struct rpc_frame *f, size_t most,
    struct rpc_frame **ret, struct co_err *err) {
    enum rt_save_mode mode = (enum rt_save_mode)f->head.count;
    CO_CLEANUP(table_cold_part_done) struct table_cold_part p;
    CO_TRY(table_cold_part(st->cold, begin_of(f), most, &p, err));
    size_t n = count_part(st, &p, mode);
    size_t bytes = n * (8 + shard_row_floats(st) * sizeof(float));
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, bytes, ret, err));
    put_part(st, &p, mode, n, *ret);
    (*ret)->head.count = (uint32_t)n;
    (*ret)->head.aux = next_of(&p);
    return table_cold_settle(st->cold, &p, err);
}

static int of_table(const struct shard_table *st, int rc, struct co_err *err) {
    return rc < 0 ? co_err_wrap(err, "table \"%s\"", st->table->name) : 0;
}

int shard_cold_scan(struct shard_table *st, const struct rpc_frame *f, size_t most,
    struct rpc_frame **ret, struct co_err *err) {
    return of_table(st, scan(st, f, most, ret, err), err);
}

/* ---- shrink and sweep ---- */

/* Erases the expired cold rows of the part, or all, and writes back the counts of the others. */
static int shrink_cold(struct shard_table *st, struct table_cold_part *p, bool all, uint32_t now,
    uint32_t *ret_erased, struct co_err *err) {
    const struct table_policy *evict = &st->table->evict;
    uint32_t erased = 0;
    for (size_t i = 0; i < p->n_cold; i++) {
        bool goes = all || table_evict_shrink(evict, table_cold_part_body(st->cold, p, i), now);
        p->change[i] = goes                             ? TABLE_COLD_ERASE
                       : evict->kind == TABLE_EVICT_CTR ? TABLE_COLD_CHANGE
                                                        : TABLE_COLD_KEEP;
        erased += goes;
    }
    int rc = table_cold_settle(st->cold, p, err);
    for (size_t i = 0; i < p->n_cold && rc == 0; i++) {
        if (p->change[i] == TABLE_COLD_ERASE) {
            shard_snapshot_gone(st->snapshot, st->index, p->ids[i]);
        }
    }
    *ret_erased = erased;
    return rc;
}

static uint32_t shrink_hot(
    struct shard_table *st, const struct table_cold_part *p, bool all, uint32_t now) {
    uint32_t erased = 0;
    for (size_t i = 0; i < p->n_hot; i++) {
        shard_snapshot_change(st->snapshot, st->index, p->slots[i]);
        void *head = table_store_head(st->rows, p->slots[i]);
        if (all || table_evict_shrink(&st->table->evict, head, now)) {
            shard_row_erase(st, p->slots[i]);
            erased++;
        }
    }
    return erased;
}

static int shrink(struct shard_table *st, const struct rpc_frame *f, uint32_t now,
    struct rpc_frame **ret, struct co_err *err) {
    CO_CLEANUP(table_cold_part_done) struct table_cold_part p = {0};
    const bool all = f->head.count == RPC_FRAME_SHRINK_ALL;
    uint32_t erased = 0;
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, 0, ret, err));
    CO_TRY(table_cold_part(st->cold, begin_of(f), SHRINK_ROWS, &p, err));
    CO_TRY(shrink_cold(st, &p, all, now, &erased, err));
    (*ret)->head.count = erased + shrink_hot(st, &p, all, now);
    (*ret)->head.aux = next_of(&p);
    st->shrunk[0] = f->head.aux;
    st->shrunk[1] = next_of(&p);
    return 0;
}

int shard_cold_shrink(struct shard_table *st, const struct rpc_frame *f, uint32_t now,
    struct rpc_frame **ret, struct co_err *err) {
    return of_table(st, shrink(st, f, now, ret, err), err);
}

static int sweep(struct shard_table *st, uint32_t now, struct co_err *err) {
    CO_CLEANUP(table_cold_part_done) struct table_cold_part p = {0};
    uint32_t erased;
    int rc = table_cold_part(st->cold, st->sweep, SWEEP_CREDIT, &p, err);
    st->sweep = p.end < TABLE_COLD_END ? p.end : 0;
    CO_TRY(rc);
    return shrink_cold(st, &p, false, now, &erased, err);
}

int shard_cold_sweep(struct shard_table *st, size_t n, uint32_t now, struct co_err *err) {
    if (!st->cold || st->cold->rows == 0) {
        return 0;
    }
    int rc = 0;
    for (st->credit += n; st->credit >= SWEEP_CREDIT && rc == 0; st->credit -= SWEEP_CREDIT) {
        rc = sweep(st, now, err);
    }
    return of_table(st, rc, err);
}
