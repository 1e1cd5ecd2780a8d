/* Dense tables in a shard: blocks of values, each with its own optimizer state. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/bytes.h"
#include "common/huge.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"
#include "runtime/train/table/int8.h"
#include "runtime/train/table/narrow.h"

/* A table's memory: block after block, the arrays of each one behind the other, from cache line to
 * cache line. */
static size_t lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t block_bytes(const struct ps_table *table, size_t n, bool sync) {
    size_t values = lines(n * sizeof(float));
    return values + lines(ps_table_state(table, n) * sizeof(float)) + (sync ? values : 0) +
           (table->int8 ? values + lines(table_int8_bytes(n)) : 0);
}

static void *cut(unsigned char **at, size_t bytes) {
    void *piece = bytes > 0 ? *at : NULL;
    *at += lines(bytes);
    return piece;
}

static void make_block(struct shard_dense_block *b, const struct ps_table *table, size_t n,
    bool sync, unsigned char **at) {
    b->n = n;
    b->n_state = ps_table_state(table, n);
    b->version = table->int8 ? (uint32_t)ps_incarnation() : 0;
    b->w = cut(at, n * sizeof(float));
    b->state = cut(at, b->n_state * sizeof(float));
    b->sum = cut(at, sync ? n * sizeof(float) : 0);
    b->known = cut(at, table->int8 ? n * sizeof(float) : 0);
    b->delta = cut(at, table->int8 ? table_int8_bytes(n) : 0);
    if (b->state) {
        optim_state_init(&table->optim, n, b->state);
    }
}

int shard_dense_init(struct shard_tables *t, struct shard_table *st, struct co_err *err) {
    const struct shard_config *c = &t->config;
    const struct ps_shard_position here = shard_here(c);
    struct ps_range part = ps_dense_share(st->table, &here);
    bool sync = st->mode == RT_SYNC;
    /* Scratch: gradients that are sent in fewer bits become floats in it. */
    size_t wide = st->table->wire == RT_F32 && !st->table->int8 ? 0 : ps_dense_chunk(part, 0).n;
    size_t bytes =
        (part.n * (sync ? 2 : 1) + ps_table_state(st->table, part.n) + wide) * sizeof(float) +
        (st->table->int8 ? part.n * sizeof(float) + table_int8_bytes(part.n) : 0);
    int rc = table_budget_take(c->budget, bytes, err);
    if (rc < 0) {
        return co_err_wrap(err, "table \"%s\"", st->table->name);
    }
    t->dense_bytes += bytes;
    st->row = wide > 0 ? co_xmalloc(wide * sizeof(float)) : NULL;
    st->n_blocks = ps_dense_chunks(part.n);
    st->blocks = co_xcalloc(st->n_blocks, sizeof(*st->blocks));
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        st->dense_bytes += block_bytes(st->table, ps_dense_chunk(part, i).n, sync);
    }
    st->dense = co_huge_alloc(st->dense_bytes);
    if (!st->dense) {
        return co_err_set(err, CO_NOMEMORY, "table \"%s\": no memory for %zu bytes",
            st->table->name, st->dense_bytes);
    }
    unsigned char *at = st->dense;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        make_block(&st->blocks[i], st->table, ps_dense_chunk(part, i).n, sync, &at);
        st->blocks[i].begin = ps_dense_chunk(part, i).begin;
    }
    assert(at == st->dense + st->dense_bytes);
    return 0;
}

void shard_dense_done(struct shard_table *st) {
    co_huge_free(st->dense, st->dense_bytes);
    free(st->blocks);
}

_Static_assert((int)TABLE_INT8_BLOCK == (int)RPC_FRAME_INT8_BLOCK, "frame.c checks lengths");

/* Whether it asks for a step's values, and the answer may be what has changed. */
static bool asks_change(const struct shard_table *st, const struct rpc_frame *f) {
    return st->table->int8 && f->head.kind == RPC_FRAME_PULL_DENSE && f->head.number > 0;
}

/* Bytes of a payload of n values that trainers and servers exchange. */
static size_t wire_bytes(const struct ps_table *t, uint8_t kind, size_t n) {
    return t->int8 && kind == RPC_FRAME_PUSH_DENSE ? table_int8_bytes(n)
                                                   : n * table_storage_size(t->wire);
}

static int block_of(struct shard_table *st, const struct rpc_frame *f,
    struct shard_dense_block **ret, struct co_err *err) {
    uint64_t chunk = asks_change(st, f) ? (uint32_t)f->head.aux : f->head.aux;
    if (chunk >= st->n_blocks) {
        return co_err_set(err, CO_INVALID, "%s: chunk %llu of %u of table \"%s\"",
            rpc_frame_kind_name(f->head.kind), (unsigned long long)chunk, st->n_blocks,
            st->table->name);
    }
    struct shard_dense_block *b = &st->blocks[chunk];
    /* A request with values has those of the whole block; others have no payload (frame.c checks).
     */
    size_t want = b->n;
    if (f->head.kind == RPC_FRAME_RESTORE_DENSE) {
        want = b->n + b->n_state;
    } else if (f->head.kind == RPC_FRAME_PULL_DENSE || f->head.kind == RPC_FRAME_GET_DENSE) {
        want = f->head.count;
    }
    if (f->head.count != want) {
        return co_err_set(err, CO_INVALID,
            "%s: %u values for a chunk of %zu of table \"%s\"; trainers and servers need the same "
            "version of libpaddlert",
            rpc_frame_kind_name(f->head.kind), f->head.count, want, st->table->name);
    }
    if (rpc_frame_narrows(f->head.kind) && f->head.bytes > 0 &&
        f->head.bytes != wire_bytes(st->table, f->head.kind, want)) {
        return co_err_set(err, CO_INVALID, "%s: %u bytes for %zu values of table \"%s\" in %s",
            rpc_frame_kind_name(f->head.kind), f->head.bytes, want, st->table->name,
            st->table->spec.wire);
    }
    *ret = b;
    return 0;
}

static int answer_floats(const struct rpc_frame *f, const float *a, size_t n, const float *b,
    size_t m, struct rpc_frame **ret, struct co_err *err) {
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, (n + m) * sizeof(float), ret, err));
    co_copy_f32((*ret)->payload, a, n);
    if (m > 0) {
        co_copy_f32((*ret)->payload + n * sizeof(float), b, m);
    }
    (*ret)->head.count = (uint32_t)(n + m);
    return 0;
}

/* The answer to a trainer: values only, in the type of the wire. */
static int answer_values(const struct shard_table *st, const struct rpc_frame *f,
    const struct shard_dense_block *b, struct rpc_frame **ret, struct co_err *err) {
    size_t bytes = b->n * table_storage_size(st->table->wire);
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, bytes, ret, err));
    table_narrow_within(st->table->wire, (*ret)->payload, b->w, b->n);
    (*ret)->head.count = (uint32_t)b->n;
    return 0;
}

/* Brings `known` to the step that was applied last. */
static void know_step(struct shard_dense_block *b) {
    if (b->knows == SHARD_KNOWN_NEW) {
        return;
    }
    if (b->knows == SHARD_KNOWN_NOT || b->version == UINT32_MAX ||
        !table_int8_follow(b->delta, b->w, b->known, b->n)) {
        b->version = b->version < UINT32_MAX - 1 ? b->version + 1 : 1; /* no trainer has it */
        memcpy(b->known, b->w, b->n * sizeof(float));
    }
    b->version++;
    b->knows = SHARD_KNOWN_NEW;
}

/* The answer to a trainer that has version aux >> 32 of the chunk: what has changed since, or, if
 * that is not the version before this one, all values.  aux: the version that it has then. */
static int answer_change(const struct rpc_frame *f, struct shard_dense_block *b,
    struct rpc_frame **ret, struct co_err *err) {
    know_step(b);
    bool delta = f->head.aux >> 32 == b->version - 1;
    size_t bytes = delta ? table_int8_bytes(b->n) : b->n * sizeof(float);
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, bytes, ret, err));
    if (delta) {
        memcpy((*ret)->payload, b->delta, bytes);
    } else {
        co_copy_f32((*ret)->payload, b->known, b->n);
    }
    (*ret)->head.count = (uint32_t)b->n;
    (*ret)->head.aux = b->version;
    return 0;
}

/* Handles NaN and Inf in a block's values, or in the planes of its state: RT_NONFINITE_SKIP sets
 * them to 0. */
static int check_block(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const char *what, uint64_t chunk, size_t n, float *g, struct co_err *err) {
    if (shard_takes_nonfinite(t) || ps_all_finite_f32(g, n)) {
        return 0;
    }
    const struct shard_dense_block *b = &st->blocks[chunk];
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(g[i])) {
            uint64_t index = b->begin + i % b->n;
            CO_TRY(shard_note_nonfinite(t, st, trainer, what, index, err));
            g[i] = 0;
        }
    }
    return 0;
}

static void change_block(struct shard_table *st, const struct shard_dense_block *b) {
    shard_snapshot_change(st->snapshot, st->index, (size_t)(b - st->blocks));
}

/* How many values are not finite, or have state that is not.  *ret_first: the first of them. */
static uint64_t count_nonfinite(
    const struct shard_table *st, const struct shard_dense_block *b, size_t *ret_first) {
    const size_t planes = st->table->optim.rule->planes;
    const size_t scalars = b->n_state - planes * b->n;
    bool shared = scalars == 0 || ps_all_finite_f32(b->state + planes * b->n, scalars);
    uint64_t bad = 0;
    for (size_t i = b->n; i-- > 0;) {
        bool finite = shared && isfinite(b->w[i]);
        for (size_t p = 0; p < planes; p++) {
            finite = finite && isfinite(b->state[p * b->n + i]);
        }
        *ret_first = finite ? *ret_first : i;
        bad += !finite;
    }
    return bad;
}

/* In geo mode values that overflow stay as they were, as rows do (push.c). */
static void update_watched(
    struct shard_table *st, const struct optim *o, struct shard_dense_block *b, const float *g) {
    CO_AUTOFREE float *before = co_xmalloc(b->n * sizeof(float));
    size_t first = 0;
    uint64_t was = count_nonfinite(st, b, &first);
    memcpy(before, b->w, b->n * sizeof(float));
    optim_apply(o, b->n, b->w, g, b->state);
    uint64_t is = count_nonfinite(st, b, &first);
    if (is > was) {
        shard_note_overflow(st, "index", b->begin + first, is - was);
    }
    for (size_t i = 0; st->mode == RT_GEO && i < b->n; i++) {
        b->w[i] = isfinite(b->w[i]) ? b->w[i] : before[i];
    }
}

static void update_block(struct shard_table *st, const struct optim *o, bool large,
    struct shard_dense_block *b, const float *g) {
    change_block(st, b);
    if (large) {
        update_watched(st, o, b, g);
    } else {
        optim_apply(o, b->n, b->w, g, b->state);
    }
}

/* Applies the last step to the block, if it is due.  Values that replace those of then leave
 * nothing to apply (shard_tables_clear). */
static void apply_due(struct shard_table *st, struct shard_dense_block *b) {
    if (!b->due) {
        return;
    }
    b->due = false;
    st->n_due--;
    if (b->pushed) {
        ps_mean(b->sum, b->n, st->step_by);
        update_block(st, &st->step_optim, st->step_large, b, b->sum);
        b->pushed = false;
    }
    if (b->knows != SHARD_KNOWN_NOT) {
        b->knows = SHARD_KNOWN_OLD;
        know_step(b); /* now, while the values are in a cache */
    }
}

static int push_block(struct shard_tables *t, struct shard_table *st, struct shard_dense_block *b,
    uint32_t trainer, const struct rpc_frame *f, struct co_err *err) {
    bool int8 = st->table->int8 && f->head.kind == RPC_FRAME_PUSH_DENSE;
    float *g = int8 || st->table->wire != RT_F32 ? st->row : shard_floats(f, 0);
    g = g == st->row && st->mode == RT_SYNC && !b->pushed ? b->sum : g;
    if (int8) {
        table_int8_widen(g, f->payload, b->n);
    } else if (st->table->wire != RT_F32) {
        table_widen(st->table->wire, g, f->payload, b->n);
    }
    bool large = t->config.nonfinite != RT_NONFINITE_ALLOW &&
                 !(int8 ? table_int8_small(f->payload, b->n) : ps_all_small_f32(g, b->n));
    if (large) {
        CO_TRY(check_block(t, st, trainer, "index", f->head.aux, b->n, g, err));
    }
    st->pushes += b->n;
    if (st->mode != RT_SYNC) {
        update_block(st, &st->optim, large, b, g);
        return 0;
    }
    st->large = st->large || large; /* till the step */
    if (!b->pushed) {
        if (g != b->sum) {
            memcpy(b->sum, g, b->n * sizeof(float));
        }
        b->pushed = true;
        return 0;
    }
    for (size_t i = 0; i < b->n; i++) {
        b->sum[i] += g[i];
    }
    return 0;
}

/* Sets a block's values and, in a restore, its optimizer state. */
static int set_block(struct shard_tables *t, struct shard_table *st, struct shard_dense_block *b,
    uint32_t trainer, const struct rpc_frame *f, struct co_err *err) {
    float *values = shard_floats(f, 0), *state = values + b->n;
    size_t n_state = f->head.kind == RPC_FRAME_RESTORE_DENSE ? b->n_state : 0;
    uint64_t chunk = f->head.aux;
    CO_TRY(check_block(t, st, trainer, "index", chunk, b->n, values, err));
    CO_TRY(check_block(t, st, trainer, "state of index", chunk, n_state, state, err));
    change_block(st, b);
    b->knows = SHARD_KNOWN_NOT;
    memcpy(b->w, values, b->n * sizeof(float));
    if (n_state > 0) {
        memcpy(b->state, state, n_state * sizeof(float));
    }
    return 0;
}

int shard_dense_do(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err) {
    struct shard_dense_block *b = NULL;
    CO_TRY(block_of(st, f, &b, err));
    apply_due(st, b);
    switch (f->head.kind) {
    case RPC_FRAME_PULL_DENSE:
        st->pulls += b->n;
        return asks_change(st, f) ? answer_change(f, b, ret, err)
                                  : answer_values(st, f, b, ret, err);
    case RPC_FRAME_PUSH_DENSE:
        return push_block(t, st, b, trainer, f, err);
    case RPC_FRAME_XCHG_DENSE:
        CO_TRY(push_block(t, st, b, trainer, f, err));
        st->pulls += b->n;
        return answer_values(st, f, b, ret, err);
    case RPC_FRAME_GET_DENSE:
        return answer_floats(f, b->w, b->n, b->state, b->n_state, ret, err);
    default: /* RPC_FRAME_PUT_DENSE, RPC_FRAME_RESTORE_DENSE */
        return set_block(t, st, b, trainer, f, err);
    }
}

void shard_dense_settle(struct shard_table *st) {
    for (uint32_t i = 0; i < st->n_blocks && st->n_due > 0; i++) {
        apply_due(st, &st->blocks[i]);
    }
}

void shard_dense_step(struct shard_table *st, uint32_t n) {
    shard_dense_settle(st);
    st->step_by = n;
    st->step_optim = st->optim;
    st->step_large = st->large;
    st->n_due = st->n_blocks;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        st->blocks[i].due = true;
    }
}
