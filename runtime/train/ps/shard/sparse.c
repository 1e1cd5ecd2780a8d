/* Sparse tables in a shard: reading, scanning and restoring rows.  push.c: training them. */
#include <string.h>

#include "common/bytes.h"
#include "common/size.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"

enum { SCAN_BYTES = 4 << 20, SCAN_SLOTS = 1 << 16, GROUP = 256, AHEAD = 8, LINE = 64 };

int shard_sparse_init(struct shard_tables *t, struct shard_table *st, struct co_err *err) {
    const struct shard_config *c = &t->config;
    st->dim = st->table->spec.dim;
    st->n_state = ps_table_state(st->table, st->dim);
    struct table_store_shape shape = {.dim = (uint32_t)st->dim,
        .state = (uint32_t)st->n_state,
        .head = (uint32_t)(table_evict_words(&st->table->evict) * sizeof(uint32_t)),
        .storage = st->table->storage};
    st->rows = table_store_new(&shape, c->budget);
    shard_cold_init(t, st);
    st->row = co_xmalloc(st->dim * sizeof(float));
    shape.state = shape.head = 0;
    shape.storage = RT_F32;
    st->sums = st->mode == RT_SYNC ? table_store_new(&shape, c->budget) : NULL;
    int rc = table_admission_new(&st->table->admit, c->budget, &st->admission, err);
    return rc < 0 ? co_err_wrap(err, "table \"%s\"", st->table->name) : 0;
}

void shard_sparse_done(struct shard_table *st) {
    shard_cold_done(st);
    table_store_free(st->rows);
    table_store_free(st->sums);
    free(st->row);
    table_admission_free(st->admission);
}

/* ---- pull ---- */

/* Writes a row in the type of the wire to ret.  stored: its values; NULL: there is no row. */
static void read_row(struct shard_table *st, const void *stored, uint64_t id, unsigned char *ret) {
    enum rt_dtype storage = st->table->storage, wire = st->table->wire;
    const float *values = st->row;
    if (!stored) {
        ps_table_absent_row(st->table, id, st->row);
    } else if (storage == RT_F32) {
        values = stored;
    } else if (storage == wire) {
        memcpy(ret, stored, st->dim * table_storage_size(wire));
        return;
    } else {
        table_widen(storage, st->row, stored, st->dim);
    }
    table_narrow_within(wire, ret, values, st->dim);
}

/* Where the rows of a group of ids are. */
struct rows_found {
    uint32_t slots[GROUP];
    const void *bodies[GROUP]; /* of cold rows, which have no slot; NULL: there is no row */
};

static int find_rows(struct shard_table *st, const uint64_t *ids, size_t n, struct rows_found *ret,
    struct co_err *err) {
    if (!st->cold) {
        table_store_find_many(st->rows, ids, n, ret->slots);
        return 0;
    }
    int rc = table_cold_find(st->cold, ids, n, ret->slots, ret->bodies, err);
    return rc < 0 ? co_err_wrap(err, "table \"%s\"", st->table->name) : 0;
}

static const void *values_of(const struct shard_table *st, const struct rows_found *f, size_t i) {
    if (f->slots[i] != TABLE_SLOT_NONE) {
        return table_store_values(st->rows, f->slots[i]);
    }
    return st->cold && f->bodies[i] ? table_store_body_values(st->rows, f->bodies[i]) : NULL;
}

/* Prefetches a row that will be read soon: the rows of a large table are in no cache. */
static void fetch_row(const struct shard_table *st, uint32_t slot) {
    if (slot != TABLE_SLOT_NONE) {
        const char *values = table_store_values(st->rows, slot);
        for (size_t at = 0; at < st->dim * table_storage_size(st->table->storage); at += LINE) {
            __builtin_prefetch(values + at);
        }
    }
}

static int pull_sparse(
    struct shard_table *st, const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err) {
    size_t n = f->head.count, bytes = st->dim * table_storage_size(st->table->wire);
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, n * bytes, ret, err));
    (*ret)->head.count = (uint32_t)n;
    unsigned char *out = (*ret)->payload;
    size_t group = st->cold ? st->cold->group : GROUP;
    for (size_t begin = 0; begin < n; begin += group) {
        uint64_t ids[GROUP];
        struct rows_found found;
        size_t m = n - begin < group ? n - begin : group;
        for (size_t i = 0; i < m; i++) {
            ids[i] = shard_id(f, begin + i);
        }
        CO_TRY(find_rows(st, ids, m, &found, err));
        for (size_t i = 0; i < m && i < AHEAD; i++) {
            fetch_row(st, found.slots[i]);
        }
        for (size_t i = 0; i < m; i++, out += bytes) {
            if (i + AHEAD < m) {
                fetch_row(st, found.slots[i + AHEAD]);
            }
            read_row(st, values_of(st, &found, i), ids[i], out);
        }
    }
    st->pulls += n;
    return 0;
}

/* ---- all rows ---- */

/* Scans from the slot in aux on, for rows that the save mode in count saves.  The answer's aux is
 * the slot at which the next scan begins.  Slots do not move, so rows may be made or erased between
 * the scans. */
static int scan_sparse(
    struct shard_table *st, const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err) {
    if (f->head.count >= RT_SAVE_MODES) {
        return co_err_set(err, CO_INVALID, "there is no save mode %u", f->head.count);
    }
    enum rt_save_mode mode = (enum rt_save_mode)f->head.count;
    size_t bytes = shard_row_floats(st) * sizeof(float);
    uint32_t most = (uint32_t)(SCAN_BYTES / (8 + bytes) + 1), n = 0;
    if (st->cold) {
        return shard_cold_scan(st, f, most / 4 + 1, ret, err);
    }
    CO_AUTOFREE uint32_t *slots = co_xmalloc(most * sizeof(*slots));
    uint32_t slot = f->head.aux < TABLE_SLOT_NONE ? (uint32_t)f->head.aux : TABLE_SLOT_NONE;
    for (uint32_t looked = 0; looked < SCAN_SLOTS && n < most; looked++, slot++) {
        slot = table_store_next(st->rows, slot);
        if (slot == TABLE_SLOT_NONE) {
            break;
        }
        slots[n] = slot;
        n += shard_row_saves(st, table_store_body(st->rows, slot), mode);
    }
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, n * (8 + bytes), ret, err));
    CO_AUTOFREE float *row = co_xmalloc(bytes);
    unsigned char *out = (*ret)->payload + n * 8UL;
    uint32_t now = shard_row_clock(st);
    for (uint32_t i = 0; i < n; i++, out += bytes) {
        co_put_u64((*ret)->payload + i * 8UL, table_store_id(st->rows, slots[i]));
        if (mode != RT_SAVE_ALL) { /* saving changes the row's counts */
            shard_snapshot_change(st->snapshot, st->index, slots[i]);
        }
        shard_row_save(st, table_store_body(st->rows, slots[i]), mode, now, row);
        co_copy_f32(out, row, bytes / sizeof(float));
    }
    (*ret)->head.count = n;
    (*ret)->head.aux = slot == TABLE_SLOT_NONE ? UINT64_MAX : slot;
    return 0;
}

static int restore_sparse(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct co_err *err) {
    size_t stride = shard_row_floats(st);
    const float *all = shard_floats(f, co_size_mul(f->head.count, 8));
    CO_CLEANUP(shard_rows_done) struct shard_rows r;
    shard_rows_init(&r, f);
    CO_TRY(shard_rows_owned(t, &r, err));
    CO_TRY(shard_rows_finite(t, st, trainer, all, stride, &r, err));
    CO_TRY(shard_cold_bring(st, r.ids, r.n, err));
    CO_TRY(shard_rows_make(st, &r, err));
    for (size_t i = 0; i < r.n; i++) {
        shard_snapshot_change(st->snapshot, st->index, r.slots[i]);
        shard_row_load(st, r.slots[i], all + r.from[i] * stride);
    }
    return 0;
}

/* ---- frames ---- */

/* Bytes of a row in a request, without its id; 0: the request has only ids. */
static size_t row_bytes(const struct shard_table *st, uint8_t kind) {
    size_t gradient = st->dim * table_storage_size(st->table->wire);
    return kind == RPC_FRAME_PUSH_SPARSE      ? gradient
           : kind == RPC_FRAME_PUSH_CLICKS    ? gradient + 2 * sizeof(float)
           : kind == RPC_FRAME_RESTORE_SPARSE ? shard_row_floats(st) * sizeof(float)
                                              : 0;
}

static int check_rows(const struct shard_table *st, const struct rpc_frame *f, struct co_err *err) {
    size_t bytes = row_bytes(st, f->head.kind);
    if (bytes > 0 && f->head.bytes != co_size_mul(f->head.count, 8 + bytes)) {
        return co_err_set(err, CO_INVALID, "%s: %u bytes for %u rows of table \"%s\" with dim %zu",
            rpc_frame_kind_name(f->head.kind), f->head.bytes, f->head.count, st->table->name,
            st->dim);
    }
    return 0;
}

int shard_sparse_do(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err) {
    CO_TRY(check_rows(st, f, err));
    switch (f->head.kind) {
    case RPC_FRAME_PULL_SPARSE:
        return pull_sparse(st, f, ret, err);
    case RPC_FRAME_PUSH_SPARSE:
    case RPC_FRAME_PUSH_CLICKS:
        return shard_sparse_push(t, st, trainer, f, err);
    case RPC_FRAME_SHRINK:
        return shard_shrink(t, st, f, ret, err);
    case RPC_FRAME_SCAN_SPARSE:
        return scan_sparse(st, f, ret, err);
    default: /* RPC_FRAME_RESTORE_SPARSE */
        return restore_sparse(t, st, trainer, f, err);
    }
}
