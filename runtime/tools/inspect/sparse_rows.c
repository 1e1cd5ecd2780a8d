/* Walks the rows of a sparse table, newest version of each, as a load would see them. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/tools/inspect/idmap.h"
#include "runtime/tools/inspect/inspect.h"

/* A walk in progress. */
struct rows {
    const struct inspect_view *view;
    const struct ckpt_table *table;
    struct inspect_view_share share; /* the caller's */
    struct inspect_view_share pass;  /* of a part whose ids are too many */
    struct inspect_idmap seen;       /* ids of newer points, of this part and pass */
    bool remember;                   /* the point is a delta */
    inspect_view_rows_fn *take;
    void *arg;
    uint64_t *ids;       /* [cap] */
    unsigned char *data; /* [cap] rows */
    size_t cap;
};

static bool is_mine(const struct rows *w, uint64_t id) {
    uint64_t mix = inspect_idmap_mix(id);
    return (w->share.n < 2 || (uint32_t)mix % w->share.n == w->share.i) &&
           (w->pass.n < 2 || (mix >> 32) % w->pass.n == w->pass.i);
}

static void reserve(struct rows *w, size_t n) {
    if (n > w->cap) {
        w->ids = co_xrealloc(w->ids, n, sizeof(*w->ids));
        w->data = co_xrealloc(w->data, n, inspect_view_row_bytes(w->table));
        w->cap = n;
    }
}

static int hand_over(struct rows *w, uint32_t n, struct co_err *err) {
    struct inspect_view_rows rows = {.n = n, .ids = w->ids, .rows = w->data};
    return n > 0 ? w->take(w->arg, &rows, err) : 0;
}

/* ---- chains ---- */

static int take_rows(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct rows *w = arg;
    size_t each = ckpt_rows_bytes(w->table, 1);
    uint32_t n = 0;
    reserve(w, c->items);
    for (uint32_t i = 0; i < c->items; i++, data += each) {
        uint64_t id = co_get_u64(data);
        if (!is_mine(w, id) || inspect_idmap_find(&w->seen, id) != INSPECT_IDMAP_NONE) {
            continue;
        }
        if (w->remember) {
            (void)inspect_idmap_add(&w->seen, id, 0);
        }
        w->ids[n] = id;
        memcpy(w->data + n++ * (each - 8), data + 8, each - 8);
    }
    return hand_over(w, n, err);
}

static int take_erased(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct rows *w = arg;
    (void)err;
    for (uint32_t i = 0; i < c->items; i++) {
        uint64_t id = co_get_u64(data + i * 8UL);
        if (is_mine(w, id)) {
            (void)inspect_idmap_add(&w->seen, id, 0);
        }
    }
    return 0;
}

static int count_head(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    (void)data;
    (void)err;
    *(uint64_t *)arg += c->items;
    return 0;
}

/* How often a part must be read so that the remembered ids of its deltas fit the memory limit. */
static int count_passes(const struct inspect_view *v, uint32_t table, uint32_t part,
    struct inspect_view_share share, uint32_t *ret, struct co_err *err) {
    uint64_t ids = 0;
    struct ckpt_walk w = {.chain = v->chain,
        .one_table = true,
        .table = table,
        .kinds = 1U << CKPT_PART_ROWS | 1U << CKPT_PART_ERASED,
        .heads = true,
        .take = count_head,
        .arg = &ids};
    for (uint32_t i = 1; i < v->chain->n; i++) {
        CO_TRY(ckpt_walk_part(&w, i, part, err));
    }
    uint64_t bytes = ids / (share.n ? share.n : 1) * INSPECT_IDMAP_BYTES;
    uint64_t n = 1 + bytes / v->memory;
    *ret = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return 0;
}

/* Newest checkpoint first. An id that was seen in a newer one, or was erased there, is skipped. */
static int walk_pass(struct rows *w, uint32_t table, uint32_t part, struct co_err *err) {
    const struct ckpt_chain *chain = w->view->chain;
    struct ckpt_walk rows = {.chain = chain,
        .one_table = true,
        .table = table,
        .kinds = 1U << CKPT_PART_ROWS,
        .take = take_rows,
        .arg = w};
    struct ckpt_walk erased = rows;
    erased.kinds = 1U << CKPT_PART_ERASED;
    erased.take = take_erased;
    int rc = 0;
    for (uint32_t i = chain->n; i > 0 && rc == 0; i--) {
        w->remember = i > 1;
        rc = ckpt_walk_part(&rows, i - 1, part, err);
        if (rc == 0 && w->remember) {
            rc = ckpt_walk_part(&erased, i - 1, part, err);
        }
    }
    inspect_idmap_done(&w->seen);
    return rc;
}

/* 1: take stopped it, as in the functions below. */
static int walk_chain(struct rows *w, uint32_t table, struct co_err *err) {
    uint32_t parts = w->view->chain->points[0].n_parts;
    for (uint32_t k = 0; k < parts; k++) {
        CO_TRY(count_passes(w->view, table, k, w->share, &w->pass.n, err));
        for (w->pass.i = 0; w->pass.i < w->pass.n; w->pass.i++) {
            int rc = walk_pass(w, table, k, err);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* ---- directories of rt_save ---- */

static int take_saved(
    struct rows *w, uint32_t items, const unsigned char *data, struct co_err *err) {
    const unsigned char *rows = data + items * 8UL;
    size_t each = inspect_view_row_bytes(w->table);
    uint32_t n = 0;
    reserve(w, items);
    for (uint32_t i = 0; i < items; i++) {
        uint64_t id = co_get_u64(data + i * 8UL);
        if (is_mine(w, id)) {
            w->ids[n] = id;
            memcpy(w->data + n++ * each, rows + i * each, each);
        }
    }
    return hand_over(w, n, err);
}

static int walk_saved(struct rows *w, uint32_t table, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    CO_TRY(ckpt_file_open(w->view->saved, table, &f, err));
    int rc = 0;
    while (rc == 0) {
        uint32_t items;
        const void *data;
        size_t bytes;
        rc = ckpt_next(f, &items, &data, &bytes, err);
        if (rc == 0) {
            rc = take_saved(w, items, data, err);
        }
    }
    return rc;
}

/* ---- either ---- */

int inspect_view_sparse(const struct inspect_view *v, uint32_t table,
    struct inspect_view_share share, inspect_view_rows_fn *take, void *arg, struct co_err *err) {
    struct rows w = {
        .view = v, .table = inspect_view_table(v, table), .share = share, .take = take, .arg = arg};
    int rc = v->saved ? walk_saved(&w, table, err) : walk_chain(&w, table, err);
    free(w.ids);
    free(w.data);
    return rc == 1 ? 0 : rc;
}

static int count_rows(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    (void)err;
    *(uint64_t *)arg += rows->n;
    return 0;
}

int inspect_view_count(
    const struct inspect_view *v, uint32_t table, uint64_t *ret, struct co_err *err) {
    *ret = 0;
    if (v->saved) {
        *ret = inspect_view_table(v, table)->items;
        return 0;
    }
    return inspect_view_sparse(v, table, (struct inspect_view_share){0}, count_rows, ret, err);
}
