/* Pushes to sparse tables.  A push first creates all rows that it lacks, or none if memory is
 * short, and applies gradients only then.
 *
 *     async    row = rule(row, gradient), at once
 *     sync     sum of the id += gradient; at the end of the step, row = rule(row, sum / trainers).
 *              The push created the row with its initial values, so a step needs no memory. */
#include <string.h>

#include "common/size.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"
#include "runtime/train/rpc/bytes.h"

enum { AHEAD = 16, GROUP = 256 }; /* rows to prefetch; ids that are looked up at once */

uint64_t rt_shard_id(const struct rt_frame *f, size_t i) {
    return co_get_u64(f->payload + i * 8);
}

/* ---- rows of a frame ---- */

void rt_shard_rows_init(struct rt_shard_rows *r, const struct rt_frame *f) {
    r->n = f->head.count;
    r->clicks = NULL;
    r->ids = co_xmalloc(
        r->n * (sizeof(*r->ids) + sizeof(*r->from) + sizeof(*r->slots) + sizeof(*r->fresh)) + 1);
    r->from = (uint32_t *)(void *)(r->ids + r->n);
    r->slots = r->from + r->n;
    r->fresh = (bool *)(r->slots + r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        r->ids[i] = rt_shard_id(f, i);
        r->from[i] = i;
    }
}

int rt_shard_rows_owned(
    const struct rt_shard_tables *t, const struct rt_shard_rows *r, struct co_err *err) {
    const struct rt_shard_config *c = &t->config;
    const struct rt_shard_place here = rt_shard_here(c);
    size_t i = 0;
    return rt_sparse_all_live(&here, r->ids, r->n, &i)
               ? 0
               : co_err_set(err, CO_INVALID, "id %llu does not belong to shard %u of server %u",
                     (unsigned long long)r->ids[i], c->index, c->server);
}

void rt_shard_rows_done(struct rt_shard_rows *r) {
    free(r->ids);
    r->ids = NULL;
}

int rt_shard_rows_make(struct rt_shard_table *st, struct rt_shard_rows *r, struct co_err *err) {
    int rc = rt_store_make_many(st->rows, r->ids, r->n, r->slots, r->fresh, err);
    if (rc < 0) {
        return co_err_wrap(err, "table '%s', %zu rows in this shard and up to %zu new ones",
            st->table->name, rt_store_rows(st->rows), r->n);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (!r->fresh[i]) {
            continue;
        }
        rt_snapshot_made(st->snapshot, st->index, r->slots[i]);
        rt_initializer_row(&st->table->initializer, r->ids[i], st->dim, st->row);
        rt_store_write(st->rows, r->slots[i], st->row);
        if (st->n_state > 0) {
            rt_optim_state_init(&st->optim, st->dim, rt_store_state(st->rows, r->slots[i]));
        }
    }
    return 0;
}

int rt_shard_rows_finite(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const float *g, size_t floats, struct rt_shard_rows *r, struct co_err *err) {
    if (t->config.nonfinite == RT_NONFINITE_ALLOW || rt_all_finite_f32(g, r->n * floats)) {
        return 0;
    }
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (rt_all_finite_f32(g + i * floats, floats)) {
            r->ids[n] = r->ids[i];
            r->from[n++] = r->from[i];
            continue;
        }
        int rc = rt_shard_note_nonfinite(t, st, trainer, "row", r->ids[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    r->n = n;
    return 0;
}

static void unmake(struct rt_shard_table *st, const struct rt_shard_rows *r) {
    for (size_t i = 0; i < r->n; i++) {
        if (r->fresh[i]) {
            rt_shard_row_erase(st, r->slots[i]);
        }
    }
}

/* ---- push ---- */

static void apply_row(struct rt_shard_table *st, uint32_t slot, const float *g) {
    rt_snapshot_change(st->snapshot, st->index, slot);
    float *state = rt_store_state(st->rows, slot);
    if (st->table->storage == RT_F32) {
        rt_optim_apply(&st->optim, st->dim, rt_store_values(st->rows, slot), g, state);
        return;
    }
    rt_store_read(st->rows, slot, st->row);
    rt_optim_apply(&st->optim, st->dim, st->row, g, state);
    rt_store_write_update(st->rows, slot, st->row);
}

static void apply(struct rt_shard_table *st, const struct rt_shard_rows *r, const float *g) {
    for (size_t i = 0; i < r->n; i++) {
        uint32_t soon = i + AHEAD < r->n ? r->slots[i + AHEAD] : RT_SLOT_NONE;
        rt_store_fetch(st->rows, soon);
        rt_snapshot_fetch(st->snapshot, st->index, soon);
        apply_row(st, r->slots[i], g + r->from[i] * st->dim);
    }
}

static int add_up(
    struct rt_shard_table *st, const struct rt_shard_rows *r, const float *g, struct co_err *err) {
    CO_AUTOFREE uint32_t *slots = co_xmalloc(r->n * (sizeof(*slots) + sizeof(bool)) + 1);
    int rc = rt_store_make_many(st->sums, r->ids, r->n, slots, (bool *)(slots + r->n), err);
    if (rc < 0) {
        return co_err_wrap(err,
            "table '%s', %zu rows of a step in this shard and up to %zu new ones", st->table->name,
            rt_store_rows(st->sums), r->n);
    }
    for (size_t i = 0; i < r->n; i++) {
        float *sum = rt_store_values(st->sums, slots[i]);
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
    const struct rt_shard_table *st, const struct rt_frame *f, size_t at, float **ret_own) {
    if (st->table->wire == RT_F32) {
        return rt_shard_floats(f, at);
    }
    size_t n = co_size_mul(f->head.count, st->dim);
    *ret_own = co_xmalloc(n * sizeof(float) + 1);
    rt_widen(st->table->wire, *ret_own, f->payload + at, n);
    return *ret_own;
}

/* Reads the shows and clicks, which lie between ids and gradients. */
static int take_clicks(const struct rt_shard_table *st, const struct rt_frame *f,
    struct rt_shard_rows *r, float **ret_own, struct co_err *err) {
    size_t n = 2UL * f->head.count;
    *ret_own = co_xmalloc(n * sizeof(float) + 1);
    rt_copy_f32(*ret_own, f->payload + co_size_mul(f->head.count, 8), n);
    r->clicks = *ret_own;
    for (size_t i = 0; i < n; i++) {
        if (!(r->clicks[i] >= 0 && r->clicks[i] <= RT_CLICKS_MAX)) {
            return co_err_set(err, CO_INVALID, "table '%s', row %llu: %s %g is not 0 to 1e9",
                st->table->name, (unsigned long long)rt_shard_id(f, i / 2),
                i % 2 ? "click" : "show", (double)r->clicks[i]);
        }
    }
    return 0;
}

/* Sync: adds to the sums.  Otherwise applies the gradients at once. */
static int take_gradients(
    struct rt_shard_table *st, const struct rt_shard_rows *r, const float *g, struct co_err *err) {
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

int rt_shard_sparse_push(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const struct rt_frame *f, struct co_err *err) {
    bool clicks = f->head.kind == RT_FRAME_PUSH_CLICKS;
    CO_CLEANUP(copies_done) struct copies own = {0};
    const float *g = gradients(st, f, co_size_mul(f->head.count, clicks ? 16 : 8), &own.gradients);
    CO_CLEANUP(rt_shard_rows_done) struct rt_shard_rows r;
    rt_shard_rows_init(&r, f);
    int rc = rt_shard_rows_owned(t, &r, err);
    rc = rc == 0 && clicks ? take_clicks(st, f, &r, &own.clicks, err) : rc;
    rc = rc < 0 ? rc : rt_shard_rows_finite(t, st, trainer, g, st->dim, &r, err);
    if (rc < 0) {
        return rc;
    }
    rc = rt_shard_cold_bring(st, r.ids, r.n, err);
    if (rc < 0) {
        return rc;
    }
    rt_shard_rows_admit(st, &r);
    rc = rt_shard_rows_evict(t, st, &r, err);
    rc = rc < 0 ? rc : rt_shard_rows_make(st, &r, err);
    rc = rc < 0 ? rc : take_gradients(st, &r, g, err);
    if (rc < 0) {
        return rc;
    }
    rt_shard_rows_seen(st, &r);
    st->pushes += f->head.count;
    return 0;
}

/* ---- a step ---- */

/* Gradients of rows that were evicted since the push are dropped. */
int rt_shard_sparse_step(struct rt_shard_table *st, uint32_t by, struct co_err *err) {
    int rc = 0;
    for (uint32_t s = rt_store_next(st->sums, 0); s != RT_SLOT_NONE;) {
        uint64_t ids[GROUP];
        uint32_t sums[GROUP], slots[GROUP], n = 0;
        do {
            ids[n] = rt_store_id(st->sums, s);
            sums[n++] = s;
            s = rt_store_next(st->sums, s + 1);
        } while (s != RT_SLOT_NONE && n < GROUP);
        int brought = rt_shard_cold_bring(st, ids, n, rc == 0 ? err : NULL);
        rc = rc == 0 ? brought : rc;
        rt_store_find_many(st->rows, ids, n, slots);
        for (uint32_t i = 0; i < n; i++) {
            rt_snapshot_fetch(
                st->snapshot, st->index, i + AHEAD < n ? slots[i + AHEAD] : RT_SLOT_NONE);
            float *g = rt_store_values(st->sums, sums[i]);
            if (slots[i] != RT_SLOT_NONE) {
                rt_mean(g, st->dim, by);
                apply_row(st, slots[i], g);
            }
        }
    }
    rt_store_clear(st->sums);
    return rc;
}
