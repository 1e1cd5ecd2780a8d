/* Pushes to sparse tables.  A push first creates all rows that it lacks, or none if memory is
 * short, and applies gradients only then.
 *
 *     async    row = rule(row, gradient), at once
 *     sync     sum of the id += gradient; at the end of the step, row = rule(row, sum / trainers).
 *              The push created the row with its initial values, so a step needs no memory. */
#include <string.h>

#include "common/bytes.h"
#include "common/size.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"

enum { AHEAD = 16, GROUP = 256 }; /* rows to prefetch; ids that are looked up at once */

uint64_t shard_id(const struct rpc_frame *f, size_t i) {
    return co_get_u64(f->payload + i * 8);
}

/* ---- rows of a frame ---- */

void shard_rows_init(struct shard_rows *r, const struct rpc_frame *f) {
    r->n = f->head.count;
    r->clicks = NULL;
    r->ids = co_xmalloc(
        r->n * (sizeof(*r->ids) + sizeof(*r->from) + sizeof(*r->slots) + sizeof(*r->fresh)) + 1);
    r->from = (uint32_t *)(void *)(r->ids + r->n);
    r->slots = r->from + r->n;
    r->fresh = (bool *)(r->slots + r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        r->ids[i] = shard_id(f, i);
        r->from[i] = i;
    }
}

int shard_rows_owned(const struct shard_tables *t, const struct shard_rows *r, struct co_err *err) {
    const struct shard_config *c = &t->config;
    const struct ps_shard_position here = shard_here(c);
    size_t i = 0;
    return ps_sparse_all_live(&here, r->ids, r->n, &i)
               ? 0
               : co_err_set(err, CO_INVALID, "id %llu does not belong to shard %u of server %u",
                     (unsigned long long)r->ids[i], c->index, c->server);
}

void shard_rows_done(struct shard_rows *r) {
    free(r->ids);
    r->ids = NULL;
}

int shard_rows_make(struct shard_table *st, struct shard_rows *r, struct co_err *err) {
    int rc = table_store_make_many(st->rows, r->ids, r->n, r->slots, r->fresh, err);
    if (rc < 0) {
        return co_err_wrap(err, "table \"%s\", %zu rows in this shard and up to %zu new ones",
            st->table->name, table_store_rows(st->rows), r->n);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (!r->fresh[i]) {
            continue;
        }
        shard_snapshot_made(st->snapshot, st->index, r->slots[i]);
        optim_initializer_row(&st->table->initializer, r->ids[i], st->dim, st->row);
        table_store_write(st->rows, r->slots[i], st->row);
        if (st->n_state > 0) {
            optim_state_init(&st->optim, st->dim, table_store_state(st->rows, r->slots[i]));
        }
    }
    return 0;
}

int shard_rows_finite(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const float *g, size_t floats, struct shard_rows *r, struct co_err *err) {
    if (shard_takes_nonfinite(t) || ps_all_small_f32(g, r->n * floats)) {
        return 0;
    }
    st->large = true;
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (ps_all_finite_f32(g + i * floats, floats)) {
            r->ids[n] = r->ids[i];
            r->from[n++] = r->from[i];
            continue;
        }
        CO_TRY(shard_note_nonfinite(t, st, trainer, "row", r->ids[i], err));
    }
    r->n = n;
    return 0;
}

static void unmake(struct shard_table *st, const struct shard_rows *r) {
    for (size_t i = 0; i < r->n; i++) {
        if (r->fresh[i]) {
            shard_row_erase(st, r->slots[i]);
        }
    }
}

/* ---- push ---- */

static void update_row(struct shard_table *st, uint32_t slot, const float *g) {
    float *state = table_store_state(st->rows, slot);
    if (st->table->storage == RT_F32) {
        optim_apply(&st->optim, st->dim, table_store_values(st->rows, slot), g, state);
        return;
    }
    table_store_read(st->rows, slot, st->row);
    optim_apply(&st->optim, st->dim, st->row, g, state);
    table_store_write_update(st->rows, slot, st->row);
}

static bool is_finite(struct shard_table *st, uint32_t slot) {
    table_store_read(st->rows, slot, st->row);
    return ps_all_finite_f32(st->row, st->dim) &&
           (st->n_state == 0 || ps_all_finite_f32(table_store_state(st->rows, slot), st->n_state));
}

/* Copies of trainers in geo mode follow the row, and would make NaN of infinity for ever: there it
 * stays as it was. */
static void update_watched(struct shard_table *st, uint32_t slot, const float *g) {
    bool was = is_finite(st, slot);
    CO_AUTOFREE float *before = co_xmalloc(st->dim * sizeof(float));
    memcpy(before, st->row, st->dim * sizeof(float));
    update_row(st, slot, g);
    if (was && !is_finite(st, slot)) {
        shard_note_overflow(st, "row", table_store_id(st->rows, slot), 1);
        if (st->mode == RT_GEO) { /* adds up, without state */
            table_store_write(st->rows, slot, before);
        }
    }
}

static void apply_row(struct shard_table *st, uint32_t slot, const float *g) {
    shard_snapshot_change(st->snapshot, st->index, slot);
    if (st->large) {
        update_watched(st, slot, g);
    } else {
        update_row(st, slot, g);
    }
}

static void apply(struct shard_table *st, const struct shard_rows *r, const float *g) {
    for (size_t i = 0; i < r->n; i++) {
        uint32_t soon = i + AHEAD < r->n ? r->slots[i + AHEAD] : TABLE_SLOT_NONE;
        table_store_fetch(st->rows, soon);
        shard_snapshot_fetch(st->snapshot, st->index, soon);
        apply_row(st, r->slots[i], g + r->from[i] * st->dim);
    }
}

static int add_up(
    struct shard_table *st, const struct shard_rows *r, const float *g, struct co_err *err) {
    CO_AUTOFREE uint32_t *slots = co_xmalloc(r->n * (sizeof(*slots) + sizeof(bool)) + 1);
    int rc = table_store_make_many(st->sums, r->ids, r->n, slots, (bool *)(slots + r->n), err);
    if (rc < 0) {
        return co_err_wrap(err,
            "table \"%s\", %zu rows of a step in this shard and up to %zu new ones",
            st->table->name, table_store_rows(st->sums), r->n);
    }
    for (size_t i = 0; i < r->n; i++) {
        float *sum = table_store_values(st->sums, slots[i]);
        const float *from = g + r->from[i] * st->dim;
        for (size_t k = 0; k < st->dim; k++) {
            sum[k] += from[k];
        }
    }
    return 0;
}

/* The frame's gradients, which begin at `at`, as floats.  *ret_own: the memory, if they had to be
 * widened. */
static const float *gradients(
    const struct shard_table *st, const struct rpc_frame *f, size_t at, float **ret_own) {
    if (st->table->wire == RT_F32) {
        return shard_floats(f, at);
    }
    size_t n = co_size_mul(f->head.count, st->dim);
    *ret_own = co_xmalloc(n * sizeof(float) + 1);
    table_widen(st->table->wire, *ret_own, f->payload + at, n);
    return *ret_own;
}

/* Reads the shows and clicks, which lie between ids and gradients. */
static int take_clicks(const struct shard_table *st, const struct rpc_frame *f,
    struct shard_rows *r, float **ret_own, struct co_err *err) {
    size_t n = 2UL * f->head.count;
    *ret_own = co_xmalloc(n * sizeof(float) + 1);
    co_copy_f32(*ret_own, f->payload + co_size_mul(f->head.count, 8), n);
    r->clicks = *ret_own;
    for (size_t i = 0; i < n; i++) {
        if (!(r->clicks[i] >= 0 && r->clicks[i] <= PS_CLICKS_MAX)) {
            return co_err_set(err, CO_INVALID, "table \"%s\", row %llu: %s %g is not 0 to 1e9",
                st->table->name, (unsigned long long)shard_id(f, i / 2), i % 2 ? "click" : "show",
                (double)r->clicks[i]);
        }
    }
    return 0;
}

/* Sync: adds to the sums.  Otherwise applies the gradients at once. */
static int take_gradients(
    struct shard_table *st, const struct shard_rows *r, const float *g, struct co_err *err) {
    int rc = st->mode == RT_SYNC ? add_up(st, r, g, err) : 0;
    if (rc < 0) {
        unmake(st, r);
    } else if (st->mode != RT_SYNC) {
        apply(st, r, g);
    }
    return rc;
}

/* Converted copies of parts of the payload; NULL where it can be used directly. */
struct copies {
    float *gradients, *clicks; /* owned */
};

static void copies_done(struct copies *c) {
    free(c->gradients);
    free(c->clicks);
}

int shard_sparse_push(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct co_err *err) {
    bool clicks = f->head.kind == RPC_FRAME_PUSH_CLICKS;
    CO_CLEANUP(copies_done) struct copies own = {0};
    const float *g = gradients(st, f, co_size_mul(f->head.count, clicks ? 16 : 8), &own.gradients);
    CO_CLEANUP(shard_rows_done) struct shard_rows r;
    shard_rows_init(&r, f);
    CO_TRY(shard_rows_owned(t, &r, err));
    if (clicks) {
        CO_TRY(take_clicks(st, f, &r, &own.clicks, err));
    }
    CO_TRY(shard_rows_finite(t, st, trainer, g, st->dim, &r, err));
    CO_TRY(shard_cold_bring(st, r.ids, r.n, err));
    shard_rows_admit(st, &r);
    CO_TRY(shard_rows_evict(t, st, &r, err));
    CO_TRY(shard_rows_make(st, &r, err));
    CO_TRY(take_gradients(st, &r, g, err));
    shard_rows_seen(st, &r);
    st->large = st->large && st->mode == RT_SYNC; /* till the step */
    st->pushes += f->head.count;
    return 0;
}

/* ---- a step ---- */

/* Gradients of rows that were evicted since the push are dropped. */
int shard_sparse_step(struct shard_table *st, uint32_t by, struct co_err *err) {
    int rc = 0;
    for (uint32_t s = table_store_next(st->sums, 0); s != TABLE_SLOT_NONE;) {
        uint64_t ids[GROUP];
        uint32_t sums[GROUP], slots[GROUP], n = 0;
        do {
            ids[n] = table_store_id(st->sums, s);
            sums[n++] = s;
            s = table_store_next(st->sums, s + 1);
        } while (s != TABLE_SLOT_NONE && n < GROUP);
        int brought = shard_cold_bring(st, ids, n, rc == 0 ? err : NULL);
        rc = rc == 0 ? brought : rc;
        table_store_find_many(st->rows, ids, n, slots);
        for (uint32_t i = 0; i < n; i++) {
            shard_snapshot_fetch(
                st->snapshot, st->index, i + AHEAD < n ? slots[i + AHEAD] : TABLE_SLOT_NONE);
            float *g = table_store_values(st->sums, sums[i]);
            if (slots[i] != TABLE_SLOT_NONE) {
                ps_mean(g, st->dim, by);
                apply_row(st, slots[i], g);
            }
        }
    }
    table_store_clear(st->sums);
    return rc;
}
