/* Opens a checkpoint of either format; its tables, learning rates and sizes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "common/parse.h"
#include "common/size.h"
#include "runtime/tools/inspect/inspect.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/optim/init.h"
#include "runtime/train/optim/optim.h"

uint64_t inspect_view_split(const char *path, char **ret_dir) {
    static const char prefix[] = "ckpt-";
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    const char *slash = memrchr(path, '/', len);
    const char *last = slash ? slash + 1 : path;
    const char *digits = last + strlen(prefix);
    uint64_t number = 0;
    if (!ckpt_field_begins(last, len - (size_t)(last - path), prefix) ||
        !ckpt_field_number(digits, len - (size_t)(digits - path), 10, UINT64_MAX - 1, &number)) {
        *ret_dir = co_xstrndup(path, len);
        return 0;
    }
    *ret_dir = slash == path ? co_xstrdup("/")
               : slash       ? co_xstrndup(path, (size_t)(slash - path))
                             : co_xstrdup(".");
    return number;
}

static int open_newest(
    const char *dir, ckpt_skip_fn *skip, void *arg, struct inspect_view *v, struct co_err *err) {
    const struct ckpt_search search = {.dir = dir, .most = UINT64_MAX, .skip = skip, .arg = arg};
    struct co_err why = {0};
    int rc = ckpt_chain_newest(&search, &v->chain, &why);
    if (rc == CO_NOTFOUND) { /* then it is a save: in this order, as rt_model_open */
        rc = ckpt_open(dir, &v->saved, &why);
    } else if (rc == 0) {
        v->newer_save = ckpt_has_newer_save(dir, ckpt_chain_number(v->chain));
    }
    return rc < 0 ? co_err_set(err, rc, "%s", why.msg) : 0;
}

int inspect_view_open(const char *path, ckpt_skip_fn *skip, void *arg, struct inspect_view **ret,
    struct co_err *err) {
    CO_AUTOFREE char *dir = NULL;
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = co_xcalloc(1, sizeof(*v));
    uint64_t number = inspect_view_split(path, &dir);
    v->path = co_xstrdup(path);
    v->memory = INSPECT_VIEW_MEMORY;
    CO_TRY(number > 0 ? ckpt_chain_open(dir, number, &v->chain, err)
                      : open_newest(dir, skip, arg, v, err));
    *ret = co_steal_ptr(v);
    return 0;
}

void inspect_view_close(struct inspect_view *v) {
    if (v) {
        ckpt_close(v->saved);
        ckpt_chain_close(v->chain);
        free(v->path);
        free(v);
    }
}

static const struct ckpt_point *newest_of(const struct inspect_view *v) {
    return &v->chain->points[v->chain->n - 1];
}

uint32_t inspect_view_tables(const struct inspect_view *v) {
    return v->saved ? ckpt_tables(v->saved) : newest_of(v)->n_tables;
}

const struct ckpt_table *inspect_view_table(const struct inspect_view *v, uint32_t i) {
    return v->saved ? ckpt_table(v->saved, i) : &newest_of(v)->tables[i];
}

int inspect_view_find(const struct inspect_view *v, const char *name) {
    for (uint32_t i = 0; i < inspect_view_tables(v); i++) {
        if (strcmp(inspect_view_table(v, i)->name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

uint64_t inspect_view_floats(const struct ckpt_table *t) {
    return co_size_add(t->sparse ? t->dim : t->size, t->state);
}

size_t inspect_view_row_bytes(const struct ckpt_table *t) {
    return ckpt_rows_bytes(t, 1) - sizeof(uint64_t);
}

static int check_table(const struct ckpt_table *t, struct co_err *err) {
    struct optim optim;
    struct optim_initializer init;
    double lr;
    CO_TRY(optim_parse(t->optimizer, &optim, err));
    CO_TRY(optim_initializer_parse(t->init, t->seed, &init, err));
    if (t->lr[0]) {
        CO_TRY(co_parse_f64("lr", t->lr, 0, 1e30, &lr, err));
    }
    uint64_t state = optim_state_floats(&optim, t->sparse ? t->dim : t->size);
    if (t->sparse ? t->state < state : t->state != state) {
        return co_err_set(err, CO_INVALID,
            "optimizer \"%s\" with %" PRIu64 " floats of state, expected %s%" PRIu64, t->optimizer,
            t->state, t->sparse ? "at least " : "", state);
    }
    return 0;
}

/* Verifies what the files' checksums cannot: that a load could take such a table. */
int inspect_view_table_check(const struct ckpt_table *t, struct co_err *err) {
    return check_table(t, err) < 0 ? co_err_wrap(err, "table \"%s\"", t->name) : 0;
}

/* ---- how much ---- */

static int add_head(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct inspect_view_sum *sum = arg;
    (void)data;
    (void)err;
    *(c->kind == CKPT_PART_ROWS      ? &sum->rows
        : c->kind == CKPT_PART_DENSE ? &sum->values
                                     : &sum->erased) += c->items;
    return 0;
}

int inspect_view_sum(const struct inspect_view *v, uint32_t table, struct inspect_view_sum *ret,
    struct co_err *err) {
    *ret = (struct inspect_view_sum){0};
    if (v->saved) {
        const struct ckpt_table *t = inspect_view_table(v, table);
        *(t->sparse ? &ret->rows : &ret->values) = t->sparse ? t->items : t->size;
        return 0;
    }
    struct ckpt_walk w = {.chain = v->chain,
        .one_table = true,
        .table = table,
        .kinds = 1U << CKPT_PART_ROWS | 1U << CKPT_PART_ERASED | 1U << CKPT_PART_DENSE,
        .heads = true,
        .take = add_head,
        .arg = ret};
    return ckpt_walk_point(&w, v->chain->n - 1, err);
}

/* ---- rates ---- */

struct rate {
    double lr;
    uint64_t steps;
};

static int take_rate(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct rate *r = arg;
    (void)c;
    (void)err;
    uint64_t bits = co_get_u64(data + 8);
    memcpy(&r->lr, &bits, sizeof(r->lr));
    r->steps = co_get_u64(data);
    return 1; /* all shards write the same rate, so the first one is enough */
}

int inspect_view_rate(const struct inspect_view *v, uint32_t table, double *ret_lr,
    uint64_t *ret_steps, struct co_err *err) {
    struct rate r = {.lr = NAN};
    if (v->saved) {
        const struct ckpt_table *t = inspect_view_table(v, table);
        r.steps = t->steps;
        if (t->lr[0]) {
            CO_TRY(co_parse_f64("lr", t->lr, 0, 1e30, &r.lr, err));
        }
    } else {
        struct ckpt_walk w = {.chain = v->chain,
            .one_table = true,
            .table = table,
            .kinds = 1U << CKPT_PART_RATE,
            .take = take_rate,
            .arg = &r};
        CO_TRY(ckpt_walk_part(&w, v->chain->n - 1, 0, err));
    }
    *ret_lr = r.lr;
    *ret_steps = r.steps;
    return 0;
}
