#include "runtime/train/ps/shard_tables.h"

#include <math.h>
#include <string.h>

#include "runtime/train/ps/say.h"
#include "runtime/train/rpc/bytes.h"

enum { SCAN_BYTES = 4 << 20 };

/* ---- making and freeing ---- */

static int make_block(struct rt_dense_block *b, const struct rt_table *table, size_t n, bool sync,
    size_t bytes_max, struct co_err *err) {
    b->n = n;
    b->n_state = rt_table_state(table, n);
    void *w = NULL, *state = NULL, *sum = NULL;
    int rc = co_try_alloc(n, sizeof(float), bytes_max, "values", &w, err);
    if (rc == 0 && b->n_state > 0) {
        rc = co_try_alloc(b->n_state, sizeof(float), bytes_max, "optimizer state", &state, err);
    }
    if (rc == 0 && sync) {
        rc = co_try_alloc(n, sizeof(float), bytes_max, "gradients", &sum, err);
    }
    b->w = w;
    b->state = state;
    b->sum = sum;
    if (rc == 0 && state) {
        rt_optim_state_init(&table->optim, n, b->state);
    }
    return rc;
}

static int make_dense(struct rt_shard_tables *t, struct rt_shard_table *st, struct co_err *err) {
    const struct rt_shard_config *c = &t->config;
    struct rt_range whole = {0, st->table->spec.size};
    struct rt_range part =
        rt_dense_part(rt_dense_part(whole, c->servers, c->server), c->shards, c->index);
    bool sync = c->mode == RT_SYNC;
    size_t bytes = (part.n * (sync ? 2 : 1) + rt_table_state(st->table, part.n)) * sizeof(float);
    int rc = rt_budget_take(c->budget, bytes, err);
    if (rc < 0) {
        return co_err_wrap(err, "table '%s'", st->table->name);
    }
    t->dense_bytes += bytes;
    st->n_blocks = rt_dense_chunks(part.n);
    st->blocks = co_xcalloc(st->n_blocks, sizeof(*st->blocks));
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        rc = make_block(&st->blocks[i], st->table, rt_dense_chunk(part, i).n, sync, bytes, err);
        if (rc < 0) {
            return co_err_wrap(err, "table '%s'", st->table->name);
        }
    }
    return 0;
}

int rt_shard_tables_init(
    struct rt_shard_tables *t, const struct rt_shard_config *config, struct co_err *err) {
    memset(t, 0, sizeof(*t));
    t->config = *config;
    t->tables = co_xcalloc(config->n_tables, sizeof(*t->tables));
    for (uint32_t i = 0; i < config->n_tables; i++) {
        struct rt_shard_table *st = &t->tables[i];
        st->table = &config->tables[i];
        st->warned = co_xcalloc(config->trainers, sizeof(bool));
        if (st->table->spec.kind == RT_DENSE) {
            int rc = make_dense(t, st, err);
            if (rc < 0) {
                rt_shard_tables_done(t);
                return rc;
            }
        }
    }
    for (uint32_t i = 0; i < config->n_tables; i++) {
        struct rt_shard_table *st = &t->tables[i];
        if (st->table->spec.kind == RT_SPARSE) {
            st->dim = st->table->spec.dim;
            st->n_state = rt_table_state(st->table, st->dim);
            st->rows = rt_sparse_new(st->dim + st->n_state, config->budget);
            st->sums = config->mode == RT_SYNC ? rt_sparse_new(st->dim, config->budget) : NULL;
        }
    }
    return 0;
}

void rt_shard_tables_done(struct rt_shard_tables *t) {
    for (uint32_t i = 0; t->tables && i < t->config.n_tables; i++) {
        struct rt_shard_table *st = &t->tables[i];
        for (uint32_t b = 0; st->blocks && b < st->n_blocks; b++) {
            free(st->blocks[b].w);
            free(st->blocks[b].state);
            free(st->blocks[b].sum);
        }
        free(st->blocks);
        free(st->warned);
        rt_sparse_free(st->rows);
        rt_sparse_free(st->sums);
    }
    free(t->tables);
    t->tables = NULL;
    rt_budget_give(t->config.budget, t->dense_bytes);
    t->dense_bytes = 0;
}

/* ---- dense ---- */

static int block_of(struct rt_shard_table *st, const struct rt_frame *f,
    struct rt_dense_block **ret, struct co_err *err) {
    if (f->head.aux >= st->n_blocks) {
        return co_err_set(err, CO_INVALID, "%s: chunk %llu of %u of table '%s'",
            rt_frame_kind_name(f->head.kind), (unsigned long long)f->head.aux, st->n_blocks,
            st->table->name);
    }
    struct rt_dense_block *b = &st->blocks[f->head.aux];
    /* What brings values brings all of them; the rest has no payload (frame.c). */
    size_t want = b->n;
    if (f->head.kind == RT_FRAME_RESTORE_DENSE) {
        want = b->n + b->n_state;
    } else if (f->head.kind == RT_FRAME_PULL_DENSE || f->head.kind == RT_FRAME_GET_DENSE) {
        want = f->head.count;
    }
    if (f->head.count != want) {
        return co_err_set(err, CO_INVALID, "%s: %u values for a chunk of %zu of table '%s'",
            rt_frame_kind_name(f->head.kind), f->head.count, want, st->table->name);
    }
    *ret = b;
    return 0;
}

static int answer_floats(const struct rt_frame *f, const float *a, size_t n, const float *b,
    size_t m, struct rt_frame **ret, struct co_err *err) {
    int rc = rt_frame_new(f->head.kind | RT_FRAME_ANSWER, (n + m) * sizeof(float), ret, err);
    if (rc == 0) {
        rt_copy_f32((*ret)->payload, a, n);
        if (m > 0) {
            rt_copy_f32((*ret)->payload + n * sizeof(float), b, m);
        }
        (*ret)->head.count = (uint32_t)(n + m);
    }
    return rc;
}

/* The payload as floats: it is aligned, and on a little-endian host it is what it is. */
static float *floats_at(const struct rt_frame *f, size_t offset) {
    float *p = (float *)(void *)(f->payload + offset);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    rt_copy_f32(p, p, (f->head.bytes - offset) / sizeof(float));
#endif
    return p;
}

/* Its blocks have a known length, for which compilers make vector code at any level. */
static bool all_finite(const float *g, size_t n) {
    enum { BLOCK = 64, EXPONENT = 0x7f800000 };
    uint32_t bad = 0, bits[BLOCK];
    for (; n >= BLOCK && !bad; n -= BLOCK, g += BLOCK) {
        memcpy(bits, g, sizeof(bits));
        for (int i = 0; i < BLOCK; i++) {
            bad |= (bits[i] & EXPONENT) == EXPONENT;
        }
    }
    bool finite = bad == 0;
    for (; n > 0 && finite; n--, g++) {
        finite = isfinite(*g);
    }
    return finite;
}

/* Counts what is not finite, and says so once for each trainer; what the call fails with when such
 * pushes are refused. */
static int note_nonfinite(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const char *what, uint64_t which, struct co_err *err) {
    struct co_err e = {0};
    int rc = co_err_set(&e, CO_INVALID, "trainer %u pushed NaN or Inf to table '%s', %s %llu",
        trainer, st->table->name, what, (unsigned long long)which);
    st->nonfinite++;
    if (!st->warned[trainer]) {
        st->warned[trainer] = true;
        rt_say_warn("%s: %s; more of it is only counted", e.msg,
            t->config.nonfinite == RT_NONFINITE_SKIP ? "left out" : "refused");
    }
    if (t->config.nonfinite == RT_NONFINITE_SKIP) {
        return 0;
    }
    return co_err_set(err, rc, "%s", e.msg);
}

/* With RT_NONFINITE_SKIP what is not finite becomes 0. */
static int check_block(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    uint64_t chunk, size_t n, float *g, struct co_err *err) {
    if (t->config.nonfinite == RT_NONFINITE_ALLOW || all_finite(g, n)) {
        return 0;
    }
    const struct rt_shard_config *c = &t->config;
    struct rt_range whole = {0, st->table->spec.size};
    struct rt_range part =
        rt_dense_part(rt_dense_part(whole, c->servers, c->server), c->shards, c->index);
    uint64_t first = rt_dense_chunk(part, (uint32_t)chunk).begin;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(g[i])) {
            int rc = note_nonfinite(t, st, trainer, "index", first + i, err);
            if (rc < 0) {
                return rc;
            }
            g[i] = 0;
        }
    }
    return 0;
}

static int push_block(struct rt_shard_tables *t, struct rt_shard_table *st,
    struct rt_dense_block *b, uint32_t trainer, const struct rt_frame *f, struct co_err *err) {
    float *g = floats_at(f, 0);
    int rc = check_block(t, st, trainer, f->head.aux, b->n, g, err);
    if (rc < 0) {
        return rc;
    }
    st->pushes += b->n;
    if (t->config.mode == RT_ASYNC) {
        rt_optim_apply(&st->table->optim, b->n, b->w, g, b->state);
        return 0;
    }
    if (!b->pushed) {
        memcpy(b->sum, g, b->n * sizeof(float));
        b->pushed = true;
        return 0;
    }
    for (size_t i = 0; i < b->n; i++) {
        b->sum[i] += g[i];
    }
    return 0;
}

static int do_dense(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const struct rt_frame *f, struct rt_frame **ret, struct co_err *err) {
    struct rt_dense_block *b = NULL;
    int rc = block_of(st, f, &b, err);
    if (rc < 0) {
        return rc;
    }
    switch (f->head.kind) {
    case RT_FRAME_PULL_DENSE:
        st->pulls += b->n;
        return answer_floats(f, b->w, b->n, b->w, 0, ret, err);
    case RT_FRAME_PUSH_DENSE:
        return push_block(t, st, b, trainer, f, err);
    case RT_FRAME_XCHG_DENSE:
        rc = push_block(t, st, b, trainer, f, err);
        if (rc < 0) {
            return rc;
        }
        st->pulls += b->n;
        return answer_floats(f, b->w, b->n, b->w, 0, ret, err);
    case RT_FRAME_PUT_DENSE:
        memcpy(b->w, floats_at(f, 0), b->n * sizeof(float));
        return 0;
    case RT_FRAME_GET_DENSE:
        return answer_floats(f, b->w, b->n, b->state, b->n_state, ret, err);
    default: /* RT_FRAME_RESTORE_DENSE */
        memcpy(b->w, floats_at(f, 0), b->n * sizeof(float));
        if (b->n_state > 0) {
            memcpy(b->state, floats_at(f, 0) + b->n, b->n_state * sizeof(float));
        }
        return 0;
    }
}

/* ---- sparse ---- */

static uint64_t id_at(const struct rt_frame *f, size_t i) {
    return co_get_u64(f->payload + i * 8);
}

static int check_owner(const struct rt_shard_tables *t, uint64_t id, struct co_err *err) {
    const struct rt_shard_config *c = &t->config;
    if (rt_sparse_server(id, c->servers) == c->server &&
        rt_sparse_shard(id, c->shards) == c->index) {
        return 0;
    }
    return co_err_set(err, CO_INVALID, "id %llu does not belong to shard %u of server %u",
        (unsigned long long)id, c->index, c->server);
}

/* The row, made with its first value when there is none. */
static int row_of(struct rt_shard_table *st, uint64_t id, float **ret, struct co_err *err) {
    int fresh;
    int rc = rt_sparse_make(st->rows, id, ret, &fresh, err);
    if (rc < 0) {
        return co_err_wrap(err, "table '%s'", st->table->name);
    }
    if (fresh) {
        rt_initializer_row(&st->table->initializer, id, st->dim, *ret);
        if (st->n_state > 0) {
            rt_optim_state_init(&st->table->optim, st->dim, *ret + st->dim);
        }
    }
    return 0;
}

static int pull_sparse(struct rt_shard_table *st, const struct rt_frame *f, struct rt_frame **ret,
    struct co_err *err) {
    size_t n = f->head.count, dim = st->dim;
    int rc = rt_frame_new(f->head.kind | RT_FRAME_ANSWER, n * dim * sizeof(float), ret, err);
    if (rc < 0) {
        return rc;
    }
    (*ret)->head.count = (uint32_t)n;
    float *out = (float *)(void *)(*ret)->payload;
    for (size_t i = 0; i < n; i++, out += dim) {
        const float *row = rt_sparse_find(st->rows, id_at(f, i));
        if (row) {
            memcpy(out, row, dim * sizeof(float));
        } else {
            rt_initializer_row(&st->table->initializer, id_at(f, i), dim, out);
        }
    }
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    rt_copy_f32((*ret)->payload, (*ret)->payload, n * dim);
#endif
    st->pulls += n;
    return 0;
}

/* Ids of the frame that are in neither; b may be NULL. */
static size_t count_new(
    const struct rt_frame *f, const struct rt_sparse *a, const struct rt_sparse *b) {
    size_t n = 0;
    for (size_t i = 0; i < f->head.count; i++) {
        uint64_t id = id_at(f, i);
        n += !rt_sparse_find(a, id) && !(b && rt_sparse_find(b, id));
    }
    return n;
}

static int reserve_rows(
    const struct rt_shard_table *st, struct rt_sparse *rows, size_t more, struct co_err *err) {
    int rc = rt_sparse_reserve(rows, more, err);
    return rc < 0 ? co_err_wrap(err, "table '%s', %zu rows and %zu new ones", st->table->name,
                        rt_sparse_rows(rows), more)
                  : 0;
}

/* Memory for all that a frame may add, before anything of it is applied: sync, for what the step
 * will do with it, too. */
static int make_room(struct rt_shard_table *st, const struct rt_frame *f, struct co_err *err) {
    size_t n = f->head.count;
    bool sums = st->sums && f->head.kind == RT_FRAME_PUSH_SPARSE;
    int rc = 0;
    if (sums && !rt_sparse_has_room(st->sums, n)) {
        rc = reserve_rows(st, st->sums, count_new(f, st->sums, NULL), err);
    }
    if (rc == 0 && !rt_sparse_has_room(st->rows, st->promised + n)) {
        rc = reserve_rows(
            st, st->rows, st->promised + count_new(f, st->rows, sums ? st->sums : NULL), err);
    }
    return rc;
}

static int push_row(struct rt_shard_tables *t, struct rt_shard_table *st, uint64_t id,
    const float *g, struct co_err *err) {
    float *row;
    if (t->config.mode == RT_ASYNC) {
        int rc = row_of(st, id, &row, err);
        if (rc == 0) {
            rt_optim_apply(&st->table->optim, st->dim, row, g, row + st->dim);
        }
        return rc;
    }
    int fresh;
    int rc = rt_sparse_make(st->sums, id, &row, &fresh, err);
    st->promised += rc == 0 && fresh && !rt_sparse_find(st->rows, id);
    for (size_t k = 0; rc == 0 && k < st->dim; k++) {
        row[k] += g[k];
    }
    return rc;
}

/* All rows, before one of them is applied; 1: some are to be left out. */
static int check_push(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const struct rt_frame *f, const float *g, struct co_err *err) {
    for (size_t i = 0; i < f->head.count; i++) {
        int rc = check_owner(t, id_at(f, i), err);
        if (rc < 0) {
            return rc;
        }
    }
    if (t->config.nonfinite == RT_NONFINITE_ALLOW || all_finite(g, f->head.count * st->dim)) {
        return 0;
    }
    for (size_t i = 0; i < f->head.count; i++, g += st->dim) {
        int rc =
            all_finite(g, st->dim) ? 0 : note_nonfinite(t, st, trainer, "row", id_at(f, i), err);
        if (rc < 0) {
            return rc;
        }
    }
    return 1;
}

static int push_sparse(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const struct rt_frame *f, struct co_err *err) {
    size_t n = f->head.count;
    const float *g = floats_at(f, n * 8);
    int some = check_push(t, st, trainer, f, g, err);
    int room = some < 0 ? some : make_room(st, f, err);
    if (room < 0) {
        return room;
    }
    for (size_t i = 0; i < n; i++, g += st->dim) {
        if (some && !all_finite(g, st->dim)) {
            continue;
        }
        int rc = push_row(t, st, id_at(f, i), g, err);
        if (rc < 0) {
            return rc;
        }
    }
    st->pushes += n;
    return 0;
}

static int restore_sparse(struct rt_shard_tables *t, struct rt_shard_table *st,
    const struct rt_frame *f, struct co_err *err) {
    size_t n = f->head.count, stride = st->dim + st->n_state;
    const float *from = floats_at(f, n * 8);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = check_owner(t, id_at(f, i), err);
    }
    rc = rc < 0 ? rc : make_room(st, f, err);
    for (size_t i = 0; i < n && rc == 0; i++, from += stride) {
        float *row;
        rc = row_of(st, id_at(f, i), &row, err);
        if (rc == 0) {
            memcpy(row, from, stride * sizeof(float));
        }
    }
    return rc;
}

static int scan_sparse(struct rt_shard_table *st, const struct rt_frame *f, struct rt_frame **ret,
    struct co_err *err) {
    size_t stride = st->dim + st->n_state, rows = rt_sparse_rows(st->rows);
    size_t begin = f->head.aux < rows ? (size_t)f->head.aux : rows;
    size_t most = SCAN_BYTES / (8 + stride * sizeof(float)) + 1;
    size_t n = rows - begin < most ? rows - begin : most;
    int rc =
        rt_frame_new(f->head.kind | RT_FRAME_ANSWER, n * (8 + stride * sizeof(float)), ret, err);
    if (rc < 0) {
        return rc;
    }
    unsigned char *out = (*ret)->payload + n * 8;
    for (size_t i = 0; i < n; i++, out += stride * sizeof(float)) {
        uint64_t id;
        const float *row = rt_sparse_row(st->rows, begin + i, &id);
        co_put_u64((*ret)->payload + i * 8, id);
        rt_copy_f32(out, row, stride);
    }
    (*ret)->head.count = (uint32_t)n;
    (*ret)->head.aux = begin + n < rows ? begin + n : UINT64_MAX;
    return 0;
}

static int check_rows(
    const struct rt_shard_table *st, const struct rt_frame *f, struct co_err *err) {
    size_t floats_a_row = f->head.kind == RT_FRAME_PUSH_SPARSE      ? st->dim
                          : f->head.kind == RT_FRAME_RESTORE_SPARSE ? st->dim + st->n_state
                                                                    : 0;
    if (floats_a_row > 0 &&
        f->head.bytes != (uint64_t)f->head.count * (8 + floats_a_row * sizeof(float))) {
        return co_err_set(err, CO_INVALID, "%s: %u bytes for %u rows of table '%s' with dim %zu",
            rt_frame_kind_name(f->head.kind), f->head.bytes, f->head.count, st->table->name,
            st->dim);
    }
    return 0;
}

static int do_sparse(struct rt_shard_tables *t, struct rt_shard_table *st, uint32_t trainer,
    const struct rt_frame *f, struct rt_frame **ret, struct co_err *err) {
    int rc = check_rows(st, f, err);
    if (rc < 0) {
        return rc;
    }
    switch (f->head.kind) {
    case RT_FRAME_PULL_SPARSE:
        return pull_sparse(st, f, ret, err);
    case RT_FRAME_PUSH_SPARSE:
        return push_sparse(t, st, trainer, f, err);
    case RT_FRAME_SCAN_SPARSE:
        return scan_sparse(st, f, ret, err);
    default: /* RT_FRAME_RESTORE_SPARSE */
        return restore_sparse(t, st, f, err);
    }
}

/* ---- both ---- */

static int do_stat(const struct rt_shard_table *st, struct rt_frame **ret, struct co_err *err) {
    uint64_t rows = st->n_blocks > 0, bytes = 0;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        bytes += (st->blocks[i].n + st->blocks[i].n_state) * sizeof(float);
    }
    if (st->rows) {
        rows = rt_sparse_rows(st->rows);
        bytes = rt_sparse_bytes(st->rows);
    }
    const uint64_t numbers[RT_FRAME_STAT_NUMBERS] = {
        rows, bytes, st->pulls, st->pushes, st->nonfinite};
    int rc = rt_frame_new(RT_FRAME_STAT | RT_FRAME_ANSWER, sizeof(numbers), ret, err);
    for (size_t i = 0; rc == 0 && i < CO_ARRAY_LEN(numbers); i++) {
        (*ret)->head.count = RT_FRAME_STAT_NUMBERS;
        co_put_u64((*ret)->payload + 8 * i, numbers[i]);
    }
    return rc;
}

int rt_shard_tables_do(struct rt_shard_tables *t, uint32_t trainer, const struct rt_frame *f,
    struct rt_frame **ret_answer, struct co_err *err) {
    *ret_answer = NULL;
    if (f->head.table >= t->config.n_tables) {
        return co_err_set(err, CO_INVALID, "%s: there is no table %u",
            rt_frame_kind_name(f->head.kind), f->head.table);
    }
    struct rt_shard_table *st = &t->tables[f->head.table];
    enum rt_table_kind want = RT_DENSE;
    switch (f->head.kind) {
    case RT_FRAME_STAT:
        return do_stat(st, ret_answer, err);
    case RT_FRAME_PULL_SPARSE:
    case RT_FRAME_PUSH_SPARSE:
    case RT_FRAME_SCAN_SPARSE:
    case RT_FRAME_RESTORE_SPARSE:
        want = RT_SPARSE;
        break;
    case RT_FRAME_PULL_DENSE:
    case RT_FRAME_PUSH_DENSE:
    case RT_FRAME_XCHG_DENSE:
    case RT_FRAME_PUT_DENSE:
    case RT_FRAME_GET_DENSE:
    case RT_FRAME_RESTORE_DENSE:
        break;
    default:
        return co_err_set(err, CO_INVALID, "frame kind %u is not for a shard", f->head.kind);
    }
    if (st->table->spec.kind != want) {
        return co_err_set(err, CO_INVALID, "%s: table '%s' is %s", rt_frame_kind_name(f->head.kind),
            st->table->name, want == RT_DENSE ? "sparse" : "dense");
    }
    return want == RT_DENSE ? do_dense(t, st, trainer, f, ret_answer, err)
                            : do_sparse(t, st, trainer, f, ret_answer, err);
}

/* ---- sync steps ---- */

static void scale_gradient(float *g, size_t n, uint32_t by) {
    for (size_t i = 0; by > 1 && i < n; i++) {
        g[i] /= (float)by;
    }
}

static int step_rows(struct rt_shard_table *st, uint32_t n, struct co_err *err) {
    for (size_t i = 0; i < rt_sparse_rows(st->sums); i++) {
        uint64_t id;
        float *g = rt_sparse_row(st->sums, i, &id);
        float *row;
        int rc = row_of(st, id, &row, err);
        if (rc < 0) {
            return rc;
        }
        scale_gradient(g, st->dim, n);
        rt_optim_apply(&st->table->optim, st->dim, row, g, row + st->dim);
    }
    rt_sparse_clear(st->sums);
    st->promised = 0;
    return 0;
}

int rt_shard_tables_step(struct rt_shard_tables *t, uint32_t n, struct co_err *err) {
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        struct rt_shard_table *st = &t->tables[i];
        for (uint32_t k = 0; k < st->n_blocks; k++) {
            struct rt_dense_block *b = &st->blocks[k];
            if (b->pushed) {
                scale_gradient(b->sum, b->n, n);
                rt_optim_apply(&st->table->optim, b->n, b->w, b->sum, b->state);
                b->pushed = false;
            }
        }
        int rc = st->sums ? step_rows(st, n, err) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}
