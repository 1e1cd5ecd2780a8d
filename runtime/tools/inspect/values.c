/* Reads a window of a dense table's vector. */
#include <string.h>

#include "common/bytes.h"
#include "common/size.h"
#include "runtime/tools/inspect/inspect.h"
#include "runtime/train/optim/optim.h"

/* The n floats from index `from` on that the caller wants. */
struct window {
    const struct inspect_view *view;
    const struct ckpt_table *table;
    size_t planes, scalars; /* of the optimizer's state */
    uint64_t from;
    size_t n;
    float *to; /* [n] */
};

/* Copies what lies inside the window of `items` floats that begin at index `begin`. */
static void copy_overlap(
    const struct window *w, uint64_t begin, uint64_t items, const unsigned char *data) {
    uint64_t from = begin > w->from ? begin : w->from;
    uint64_t to = begin + items < w->from + w->n ? begin + items : w->from + w->n;
    for (uint64_t i = from; i < to; i++) {
        w->to[i - w->from] = inspect_view_f32(data + (i - begin) * 4);
    }
}

static bool overlaps(const struct window *w, uint64_t begin, uint64_t items) {
    return begin < w->from + w->n && w->from < begin + items;
}

static bool wants_chunk(void *arg, const struct ckpt_part_chunk *c) {
    const struct window *w = arg;
    uint64_t size = w->table->size;
    bool wanted = overlaps(w, size * (1 + w->planes), w->scalars);
    for (size_t p = 0; p <= w->planes && !wanted; p++) {
        wanted = overlaps(w, p * size + c->begin, c->items);
    }
    return wanted;
}

static int take_chunk(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    const struct window *w = arg;
    uint64_t size = w->table->size;
    uint64_t floats = co_size_add(co_size_mul(c->items, 1 + w->planes), w->scalars);
    if (c->bytes != co_size_mul(floats, sizeof(float))) { /* the rule is not that of the state */
        return co_err_set(err, CO_DAMAGED,
            "\"%s\", table \"%s\": %u values of optimizer \"%s\" have %u bytes", w->view->path,
            w->table->name, c->items, w->table->optimizer, c->bytes);
    }
    size_t plane = co_size_mul(c->items, sizeof(float));
    for (size_t p = 0; p <= w->planes; p++) {
        copy_overlap(w, p * size + c->begin, c->items, data + p * plane);
    }
    copy_overlap(w, size * (1 + w->planes), w->scalars, data + (1 + w->planes) * plane);
    return 0;
}

/* Reads oldest first, so that newer values overwrite older ones. */
static int read_chain(struct window *w, uint32_t table, struct co_err *err) {
    const struct ckpt_chain *chain = w->view->chain;
    struct optim optim;
    int rc = optim_parse(w->table->optimizer, &optim, err);
    if (rc < 0) {
        return co_err_wrap(err, "\"%s\", table \"%s\"", w->view->path, w->table->name);
    }
    w->planes = optim.rule->planes;
    w->scalars = optim.rule->scalars;
    struct ckpt_walk walk = {.chain = chain,
        .one_table = true,
        .table = table,
        .kinds = 1U << CKPT_PART_DENSE,
        .wants = wants_chunk,
        .take = take_chunk,
        .arg = w};
    for (uint32_t i = 0; i < chain->n; i++) {
        CO_TRY(ckpt_walk_point(&walk, i, err));
    }
    return 0;
}

static int read_saved(const struct window *w, uint32_t table, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    CO_TRY(ckpt_file_open(w->view->saved, table, &f, err));
    for (uint64_t at = 0;;) {
        uint32_t items;
        const void *data;
        size_t bytes;
        int ends = ckpt_next(f, &items, &data, &bytes, err);
        CO_TRY(ends);
        if (ends) {
            return 0;
        }
        copy_overlap(w, at, items, data);
        at += items;
    }
}

int inspect_view_dense(const struct inspect_view *v, uint32_t table, uint64_t from, size_t n,
    float *ret, struct co_err *err) {
    struct window w = {
        .view = v, .table = inspect_view_table(v, table), .from = from, .n = n, .to = ret};
    memset(ret, 0, n * sizeof(*ret));
    return v->saved ? read_saved(&w, table, err) : read_chain(&w, table, err);
}
