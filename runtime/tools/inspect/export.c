/* Exports tables: to NumPy's files, to text, and to a checkpoint that rt_load reads. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/size.h"
#include "runtime/tools/inspect/inspect.h"
#include "runtime/tools/inspect/npz.h"
#include "runtime/train/ckpt/disk.h"

enum { VALUES_MAX_LOG2 = 40 }; /* of a dense table: what a manifest may claim */

/* The export of one table. */
struct table_export {
    const struct inspect_view *view;
    const struct ckpt_table *table;
    uint32_t index;
    struct inspect_export *what;
    uint64_t n; /* so far */
    /* arrays: */
    struct inspect_npz *npz;
    bool single; /* a .npy: id, values and state are one item */
    uint32_t ids, values, state;
    FILE *text;
    struct ckpt_writer *writer;
    unsigned char *scratch;
};

/* ---- rows ---- */

typedef int rows_fn(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err);

static size_t value_bytes(const struct ckpt_table *t) {
    return co_size_mul(t->dim, sizeof(float));
}

static int print_rows(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err) {
    size_t floats = j->what->state ? (size_t)inspect_view_floats(j->table) : j->table->dim;
    for (uint32_t i = 0; i < rows->n; i++) {
        const unsigned char *row = rows->rows + i * inspect_view_row_bytes(j->table);
        (void)fprintf(j->text, "%" PRIu64, rows->ids[i]);
        for (size_t k = 0; k < floats; k++) {
            (void)fprintf(j->text, " %.9g", (double)inspect_view_f32(row + k * 4));
        }
        (void)fputc('\n', j->text);
    }
    return ferror(j->text) ? co_err_errno(err, errno, "cannot write text") : 0;
}

/* Writes one column range of each row to the array, row after row. */
static int put_columns(struct table_export *j, uint32_t array, const struct inspect_view_rows *rows,
    size_t from, size_t bytes, struct co_err *err) {
    for (uint32_t i = 0; i < rows->n; i++) {
        memcpy(j->scratch + i * bytes, rows->rows + i * inspect_view_row_bytes(j->table) + from,
            bytes);
    }
    return inspect_npz_write(j->npz, array, j->n * bytes, j->scratch, rows->n * bytes, err);
}

static int put_items(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err) {
    size_t bytes = j->what->state ? inspect_view_row_bytes(j->table) : value_bytes(j->table);
    for (uint32_t i = 0; i < rows->n; i++) {
        unsigned char *to = j->scratch + i * (8 + bytes);
        co_put_u64(to, rows->ids[i]);
        memcpy(to + 8, rows->rows + i * inspect_view_row_bytes(j->table), bytes);
    }
    return inspect_npz_write(
        j->npz, j->values, j->n * (8 + bytes), j->scratch, rows->n * (8 + bytes), err);
}

static int put_rows(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err) {
    size_t values = value_bytes(j->table);
    j->scratch = co_xrealloc(j->scratch, rows->n, 8 + inspect_view_row_bytes(j->table));
    if (j->single) {
        return put_items(j, rows, err);
    }
    for (uint32_t i = 0; i < rows->n; i++) {
        co_put_u64(j->scratch + i * 8UL, rows->ids[i]);
    }
    CO_TRY(inspect_npz_write(j->npz, j->ids, j->n * 8, j->scratch, rows->n * 8UL, err));
    CO_TRY(put_columns(j, j->values, rows, 0, values, err));
    if (!j->what->state || !j->table->state) {
        return 0;
    }
    return put_columns(j, j->state, rows, values, inspect_view_row_bytes(j->table) - values, err);
}

/* A chunk of rt_save: ids, then rows. */
static int save_rows(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err) {
    size_t each = inspect_view_row_bytes(j->table), bytes = rows->n * (8 + each);
    j->scratch = co_xrealloc(j->scratch, rows->n, 8 + each);
    for (uint32_t i = 0; i < rows->n; i++) {
        co_put_u64(j->scratch + i * 8UL, rows->ids[i]);
    }
    memcpy(j->scratch + rows->n * 8UL, rows->rows, rows->n * each);
    return ckpt_chunk(j->writer, rows->n, j->scratch, bytes, err);
}

struct rows_to {
    struct table_export *job;
    rows_fn *take;
};

static int take_all(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    const struct rows_to *to = arg;
    int rc = to->take(to->job, rows, err);
    to->job->n += rows->n;
    return rc;
}

static int take_one(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    const struct rows_to *to = arg;
    for (uint32_t i = 0; i < rows->n; i++) {
        if (rows->ids[i] == to->job->what->key) {
            struct inspect_view_rows one = {.n = 1,
                .ids = &rows->ids[i],
                .rows = rows->rows + i * inspect_view_row_bytes(to->job->table)};
            CO_TRY(to->take(to->job, &one, err));
            to->job->n++;
            return 1;
        }
    }
    return 0;
}

static int walk_rows(struct table_export *j, rows_fn *take, struct co_err *err) {
    struct rows_to to = {j, take};
    CO_TRY(inspect_view_sparse(j->view, j->index, (struct inspect_view_share){0},
        j->what->one ? take_one : take_all, &to, err));
    if (j->what->one && j->n == 0) {
        return co_err_set(err, CO_NOTFOUND, "\"%s\", table \"%s\": no row of id %" PRIu64,
            j->view->path, j->table->name, j->what->key);
    }
    return 0;
}

/* ---- values ---- */

typedef int values_fn(struct table_export *j, const float *values, size_t n, struct co_err *err);

/* n floats of the vector, from `from` on, window by window. */
static int walk_values(
    struct table_export *j, uint64_t from, uint64_t n, values_fn *take, struct co_err *err) {
    size_t room = n < INSPECT_VIEW_WINDOW ? (size_t)n + 1 : INSPECT_VIEW_WINDOW;
    CO_AUTOFREE float *window = co_xmalloc(room * sizeof(*window));
    for (uint64_t at = 0; at < n;) {
        size_t k = n - at < INSPECT_VIEW_WINDOW ? (size_t)(n - at) : INSPECT_VIEW_WINDOW;
        CO_TRY(inspect_view_dense(j->view, j->index, from + at, k, window, err));
        CO_TRY(take(j, window, k, err));
        at += k;
        j->n += k;
    }
    return 0;
}

static int print_values(struct table_export *j, const float *values, size_t n, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(j->text, "%.9g\n", (double)values[i]);
    }
    return ferror(j->text) ? co_err_errno(err, errno, "cannot write text") : 0;
}

static void to_file_order(struct table_export *j, const float *values, size_t n) {
    j->scratch = co_xrealloc(j->scratch, n, 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        co_put_u32(j->scratch + i * 4, bits);
    }
}

static int put_values(struct table_export *j, const float *values, size_t n, struct co_err *err) {
    to_file_order(j, values, n);
    return inspect_npz_write(j->npz, j->values, j->n * 4, j->scratch, n * 4, err);
}

static int save_values(struct table_export *j, const float *values, size_t n, struct co_err *err) {
    to_file_order(j, values, n);
    return ckpt_chunk(j->writer, (uint32_t)n, j->scratch, n * 4, err);
}

/* Which part of the vector is exported. */
static int dense_range(
    const struct table_export *j, uint64_t *ret_from, uint64_t *ret_n, struct co_err *err) {
    const struct ckpt_table *t = j->table;
    if (t->size >> VALUES_MAX_LOG2 > 0) {
        return co_err_set(err, CO_INVALID, "\"%s\", table \"%s\": %" PRIu64 " values cannot be",
            j->view->path, t->name, t->size);
    }
    if (j->what->one && j->what->key >= t->size) {
        return co_err_set(err, CO_NOTFOUND,
            "\"%s\", table \"%s\" has %" PRIu64 " values, none at %" PRIu64, j->view->path, t->name,
            t->size, j->what->key);
    }
    *ret_from = j->what->one ? j->what->key : 0;
    *ret_n = j->what->one ? 1 : t->size;
    return 0;
}

/* ---- arrays ---- */

static int count_none(
    struct table_export *j, const struct inspect_view_rows *rows, struct co_err *err) {
    (void)j;
    (void)rows;
    (void)err;
    return 0;
}

static int add_sparse(struct table_export *j, uint64_t rows, struct co_err *err) {
    const struct ckpt_table *t = j->table;
    uint64_t state = j->what->state ? t->state : 0;
    char name[INSPECT_NPZ_NAME_MAX], descr[160];
    if (j->single) {
        int at = snprintf(descr, sizeof(descr), "[('id', '<u8'), ('values', '<f4', (%u,))", t->dim);
        at += state > 0 ? snprintf(descr + at, sizeof(descr) - (size_t)at,
                              ", ('state', '<f4', (%" PRIu64 ",))", state)
                        : 0;
        (void)snprintf(descr + at, sizeof(descr) - (size_t)at, "]");
        return inspect_npz_add(
            j->npz, t->name, descr, rows, 0, 8 + (t->dim + state) * 4, &j->values, err);
    }
    (void)snprintf(name, sizeof(name), "%s.ids", t->name);
    CO_TRY(inspect_npz_add(j->npz, name, "'<u8'", rows, 0, 8, &j->ids, err));
    (void)snprintf(name, sizeof(name), "%s.values", t->name);
    CO_TRY(inspect_npz_add(j->npz, name, "'<f4'", rows, t->dim, 4, &j->values, err));
    if (state == 0) {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%s.state", t->name);
    return inspect_npz_add(j->npz, name, "'<f4'", rows, state, 4, &j->state, err);
}

/* Walks the table twice: first to count the rows, because the count comes before them in the file.
 */
static int arrays_sparse(struct table_export *j, struct co_err *err) {
    CO_TRY(walk_rows(j, count_none, err));
    CO_TRY(add_sparse(j, j->n, err));
    j->n = 0;
    return walk_rows(j, put_rows, err);
}

static int arrays_dense(struct table_export *j, struct co_err *err) {
    const struct ckpt_table *t = j->table;
    uint64_t from = 0, n = 0;
    char name[INSPECT_NPZ_NAME_MAX];
    CO_TRY(dense_range(j, &from, &n, err));
    CO_TRY(inspect_npz_add(j->npz, t->name, "'<f4'", n, 0, 4, &j->values, err));
    CO_TRY(walk_values(j, from, n, put_values, err));
    if (j->single || !j->what->state || !t->state || j->what->one) {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%s.state", t->name);
    CO_TRY(inspect_npz_add(j->npz, name, "'<f4'", t->state, 0, 4, &j->values, err));
    j->n = 0;
    CO_TRY(walk_values(j, t->size, t->state, put_values, err));
    j->n = n;
    return 0;
}

static int text_of(struct table_export *j, struct co_err *err) {
    uint64_t from = 0, n = 0;
    if (j->table->sparse) {
        return walk_rows(j, print_rows, err);
    }
    CO_TRY(dense_range(j, &from, &n, err));
    return walk_values(j, from, n, print_values, err);
}

/* ---- files ---- */

static struct table_export begin(
    const struct inspect_view *v, uint32_t table, struct inspect_export *what) {
    return (struct table_export){
        .view = v, .index = table, .table = inspect_view_table(v, table), .what = what};
}

static void done(struct table_export *j) {
    free(j->scratch);
}

static int export_arrays(const struct inspect_view *v, struct inspect_export *what,
    const char *file, struct co_err *err) {
    CO_CLEANUP(inspect_npz_closep) struct inspect_npz *z = NULL;
    bool single = co_ends_with(file, ".npy");
    uint32_t first = what->table < 0 ? 0 : (uint32_t)what->table;
    uint32_t last = what->table < 0 ? inspect_view_tables(v) : first + 1;
    CO_TRY(inspect_npz_create(file, single, &z, err));
    for (uint32_t i = first; i < last; i++) {
        CO_CLEANUP(done) struct table_export j = begin(v, i, what);
        j.npz = z;
        j.single = single;
        CO_TRY(j.table->sparse ? arrays_sparse(&j, err) : arrays_dense(&j, err));
        what->items += j.n;
    }
    return inspect_npz_finish(z, err);
}

int inspect_view_print(
    const struct inspect_view *v, struct inspect_export *what, FILE *to, struct co_err *err) {
    struct table_export j = begin(v, (uint32_t)what->table, what);
    j.text = to;
    CO_TRY(text_of(&j, err));
    what->items = j.n;
    return fflush(to) == 0 ? 0 : co_err_errno(err, errno, "cannot write text");
}

static void drop_file(FILE **f) {
    if (*f) {
        (void)fclose(*f);
    }
}

static int print_to(const struct inspect_view *v, struct inspect_export *what, int fd_own,
    const char *path, struct co_err *err) {
    CO_CLEANUP(drop_file) FILE *to = fdopen(fd_own, "we");
    if (!to) {
        co_close(fd_own);
        return co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    CO_TRY(inspect_view_print(v, what, to, err)); /* which flushes it */
    CO_TRY(ckpt_disk_sync(fileno(to), path, err));
    return fclose(co_steal_ptr(to)) == 0 ? 0
                                         : co_err_errno(err, errno, "cannot write \"%s\"", path);
}

static int export_text(const struct inspect_view *v, struct inspect_export *what, const char *file,
    struct co_err *err) {
    CO_AUTOFREE char *aside = NULL, *target = NULL;
    int fd;
    CO_TRY(co_file_target(file, &target, err));
    CO_TRY(co_file_aside(target, 0666, &fd, &aside, err));
    int rc = print_to(v, what, fd, aside, err);
    if (rc == 0) {
        rc = ckpt_disk_rename(aside, target, err);
    }
    if (rc < 0) {
        (void)remove(aside);
    }
    return rc;
}

int inspect_view_export(const struct inspect_view *v, struct inspect_export *what, const char *file,
    struct co_err *err) {
    bool arrays = co_ends_with(file, ".npz") || co_ends_with(file, ".npy");
    if (what->table < 0 && !co_ends_with(file, ".npz")) {
        return co_err_set(err, CO_INVALID, "\"%s\" holds one table: which one?", file);
    }
    what->items = 0;
    return arrays ? export_arrays(v, what, file, err) : export_text(v, what, file, err);
}

/* ---- a directory of rt_save ---- */

/* Writes the learning rate into the new manifest, if it is not the rule's own. */
static int describe(
    const struct inspect_view *v, uint32_t table, struct ckpt_table *ret, struct co_err *err) {
    double lr;
    *ret = *inspect_view_table(v, table);
    if (v->saved) {
        return 0;
    }
    CO_TRY(inspect_view_rate(v, table, &lr, &ret->steps, err));
    if (lr == lr) {
        (void)snprintf(ret->lr, sizeof(ret->lr), "%.17g", lr);
    }
    return 0;
}

static int merge_table(
    const struct inspect_view *v, uint32_t table, struct ckpt_writer *w, struct co_err *err) {
    struct inspect_export all = {.table = (int)table};
    struct ckpt_table t;
    CO_CLEANUP(done) struct table_export j = begin(v, table, &all);
    uint64_t from, n;
    j.writer = w;
    if (!j.table->sparse) {
        CO_TRY(dense_range(&j, &from, &n, err));
    }
    CO_TRY(describe(v, table, &t, err));
    CO_TRY(ckpt_begin(w, &t, err));
    CO_TRY(j.table->sparse ? walk_rows(&j, save_rows, err)
                           : walk_values(&j, 0, inspect_view_floats(j.table), save_values, err));
    return ckpt_end(w, err);
}

int inspect_view_merge(const struct inspect_view *v, const char *to_dir, struct co_err *err) {
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = NULL;
    CO_TRY(ckpt_create(to_dir, &w, err));
    for (uint32_t i = 0; i < inspect_view_tables(v); i++) {
        CO_TRY(merge_table(v, i, w, err));
    }
    return ckpt_commit(co_steal_ptr(w), err);
}
