/* Compares two tables row by row. The rows of one are kept in memory, in as many shares as the
 * memory limit demands, and the rows of the other are looked up in them. */
#include <math.h>
#include <string.h>

#include "common/size.h"
#include "runtime/tools/inspect/idmap.h"
#include "runtime/tools/inspect/inspect.h"

struct kept_rows {
    struct inspect_idmap places;
    unsigned char *values; /* [n][dim] f32, as in the file */
    size_t n, bytes;       /* bytes: of a row's values */
    size_t stride;         /* bytes of a row in the file */
};

static int keep_rows(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    struct kept_rows *k = arg;
    for (uint32_t i = 0; i < rows->n; i++) {
        k->values = co_xgrow(k->values, k->n, k->bytes);
        if (k->n >= INSPECT_IDMAP_NONE - 1) {
            return co_err_set(err, CO_NORESOURCE, "more than four billion rows at a time");
        }
        if (!inspect_idmap_add(&k->places, rows->ids[i], (uint32_t)k->n)) {
            return co_err_set(
                err, CO_INVALID, "id %llu is there twice", (unsigned long long)rows->ids[i]);
        }
        memcpy(k->values + k->n++ * k->bytes, rows->rows + i * k->stride, k->bytes);
    }
    return 0;
}

static void note_difference(
    struct inspect_diff *d, double a, double b, uint64_t at, bool *differs) {
    double by = fabs(a - b);
    if (a == b || (isnan(a) && isnan(b))) {
        return;
    }
    by = isnan(by) ? INFINITY : by;
    *differs = true;
    if (by > d->max_abs || (d->max_abs == 0 && by == 0)) {
        d->max_abs = by;
        d->max_at = at;
    }
}

struct compare {
    const struct kept_rows *kept;
    struct inspect_diff *diff;
    size_t stride, common; /* common: rows that both have */
};

static int compare_rows(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    struct compare *c = arg;
    (void)err;
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t at = inspect_idmap_find(&c->kept->places, rows->ids[i]);
        c->diff->after++;
        if (at == INSPECT_IDMAP_NONE) {
            c->diff->added++;
            continue;
        }
        const unsigned char *a = c->kept->values + at * c->kept->bytes;
        const unsigned char *b = rows->rows + i * c->stride;
        bool differs = false;
        for (size_t k = 0; k < c->kept->bytes; k += 4) {
            note_difference(c->diff, (double)inspect_view_f32(a + k),
                (double)inspect_view_f32(b + k), rows->ids[i], &differs);
        }
        c->common++;
        c->diff->changed += differs;
    }
    return 0;
}

/* A walk over one of the two tables. */
struct side {
    const struct inspect_view *view;
    uint32_t index;
    const struct ckpt_table *table;
};

static void drop_rows(struct kept_rows *k) {
    free(k->values);
    inspect_idmap_done(&k->places);
}

static int diff_share(const struct side *a, const struct side *b, struct inspect_view_share share,
    struct inspect_diff *d, struct co_err *err) {
    CO_CLEANUP(drop_rows)
    struct kept_rows k = {.bytes = co_size_mul(a->table->dim, sizeof(float)),
        .stride = inspect_view_row_bytes(a->table)};
    struct compare c = {.kept = &k, .diff = d, .stride = inspect_view_row_bytes(b->table)};
    CO_TRY(inspect_view_sparse(a->view, a->index, share, keep_rows, &k, err));
    CO_TRY(inspect_view_sparse(b->view, b->index, share, compare_rows, &c, err));
    d->before += k.n;
    d->erased += k.n > c.common ? k.n - c.common : 0;
    return 0;
}

static int diff_sparse(
    const struct side *a, const struct side *b, struct inspect_diff *d, struct co_err *err) {
    uint64_t rows = 0;
    CO_TRY(inspect_view_count(a->view, a->index, &rows, err));
    uint64_t each =
        co_size_add(INSPECT_IDMAP_BYTES, co_size_mul(a->table->dim, 8)); /* doubled when full */
    uint64_t bytes = co_size_mul(rows, each);
    uint64_t n = 1 + bytes / a->view->memory;
    struct inspect_view_share share = {.n = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX};
    for (; share.i < share.n; share.i++) {
        CO_TRY(diff_share(a, b, share, d, err));
    }
    return 0;
}

static int diff_dense(
    const struct side *a, const struct side *b, struct inspect_diff *d, struct co_err *err) {
    uint64_t size = a->table->size;
    size_t most = size < INSPECT_VIEW_WINDOW ? (size_t)size : INSPECT_VIEW_WINDOW;
    CO_AUTOFREE float *x = co_xmalloc(most * sizeof(*x));
    CO_AUTOFREE float *y = co_xmalloc(most * sizeof(*y));
    d->before = d->after = size;
    for (uint64_t at = 0; at < size; at += most) {
        size_t n = size - at < most ? (size_t)(size - at) : most;
        CO_TRY(inspect_view_dense(a->view, a->index, at, n, x, err));
        CO_TRY(inspect_view_dense(b->view, b->index, at, n, y, err));
        for (size_t i = 0; i < n; i++) {
            bool differs = false;
            note_difference(d, (double)x[i], (double)y[i], at + i, &differs);
            d->changed += differs;
        }
    }
    return 0;
}

int inspect_view_diff(const struct inspect_view *a, uint32_t table_a, const struct inspect_view *b,
    uint32_t table_b, struct inspect_diff *ret, struct co_err *err) {
    struct side x = {a, table_a, inspect_view_table(a, table_a)};
    struct side y = {b, table_b, inspect_view_table(b, table_b)};
    *ret = (struct inspect_diff){0};
    if (x.table->sparse != y.table->sparse ||
        (x.table->sparse ? x.table->dim != y.table->dim : x.table->size != y.table->size)) {
        return co_err_set(
            err, CO_INVALID, "table \"%s\" has another shape in \"%s\"", x.table->name, b->path);
    }
    return x.table->sparse ? diff_sparse(&x, &y, ret, err) : diff_dense(&x, &y, ret, err);
}
