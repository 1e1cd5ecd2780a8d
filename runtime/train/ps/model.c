/* A checkpoint in memory, for prediction without servers. */
#include <stdio.h>
#include <string.h>

#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ps/sparse.h"
#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/bytes.h"

struct model_table {
    struct rt_table table;
    float *values;          /* dense */
    struct rt_sparse *rows; /* sparse, values only */
};

struct rt_model {
    struct model_table *tables;
    uint32_t n;
};

static int add_rows(struct model_table *m, const struct rt_ckpt_table *saved, uint32_t n,
    const unsigned char *data, struct co_err *err) {
    size_t stride = (saved->dim + saved->state) * sizeof(float);
    const unsigned char *row = data + n * 8UL;
    for (uint32_t i = 0; i < n; i++, row += stride) {
        float *to;
        int fresh;
        int rc = rt_sparse_make(m->rows, co_get_u64(data + i * 8UL), &to, &fresh, err);
        if (rc < 0) {
            return rc;
        }
        rt_copy_f32(to, row, saved->dim);
    }
    return 0;
}

static int read_table(
    struct model_table *m, const struct rt_ckpt *k, uint32_t index, struct co_err *err) {
    const struct rt_ckpt_table *saved = rt_ckpt_table(k, index);
    struct rt_table_spec spec = {
        .name = saved->name,
        .kind = saved->sparse ? RT_SPARSE : RT_DENSE,
        .size = saved->size,
        .dim = saved->dim,
        .optimizer = saved->optimizer,
        .init = saved->init,
        .seed = saved->seed,
    };
    int rc = rt_table_make(&spec, &m->table, err);
    CO_CLEANUP(rt_ckpt_file_closep) struct rt_ckpt_file *f = NULL;
    rc = rc < 0 ? rc : rt_ckpt_file_open(k, index, &f, err);
    if (rc < 0) {
        return rc;
    }
    if (saved->sparse) {
        m->rows = rt_sparse_new(saved->dim, NULL);
    } else {
        m->values = co_xcalloc(saved->size, sizeof(float));
    }
    for (size_t at = 0;;) {
        uint32_t n;
        const void *data;
        size_t bytes;
        rc = rt_ckpt_next(f, &n, &data, &bytes, err);
        if (rc < 0) {
            return rc == CO_NOTFOUND ? 0 : rc;
        }
        if (saved->sparse) {
            rc = add_rows(m, saved, n, data, err);
            if (rc < 0) {
                return rc;
            }
        } else if (at < saved->size) {
            size_t left = saved->size - at;
            rt_copy_f32(m->values + at, data, n < left ? n : left);
            at += n;
        }
    }
}

int rt_model_open(const char *dir, struct rt_model **ret_model, struct co_err *err) {
    CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *k = NULL;
    int rc = rt_ckpt_open(dir, &k, err);
    rc = rc < 0 ? rc : rt_ckpt_verify(k, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_model *m = co_xcalloc(1, sizeof(*m));
    m->n = rt_ckpt_tables(k);
    m->tables = co_xcalloc(m->n, sizeof(*m->tables));
    for (uint32_t i = 0; i < m->n && rc == 0; i++) {
        rc = read_table(&m->tables[i], k, i, err);
    }
    if (rc < 0) {
        rt_model_close(m);
        return rc;
    }
    *ret_model = m;
    return 0;
}

void rt_model_close(struct rt_model *m) {
    if (m) {
        for (uint32_t i = 0; i < m->n; i++) {
            free(m->tables[i].values);
            rt_sparse_free(m->tables[i].rows);
        }
        free(m->tables);
        free(m);
    }
}

int rt_model_table(
    const struct rt_model *m, const char *name, uint32_t *ret_table, struct co_err *err) {
    for (uint32_t i = 0; i < m->n; i++) {
        if (strcmp(m->tables[i].table.name, name) == 0) {
            *ret_table = i;
            return 0;
        }
    }
    return co_err_set(err, CO_NOTFOUND, "the model has no table '%s'", name);
}

const struct rt_table_spec *rt_model_spec(const struct rt_model *m, uint32_t table) {
    return table < m->n ? &m->tables[table].table.spec : NULL;
}

const float *rt_model_dense(const struct rt_model *m, uint32_t table) {
    return table < m->n ? m->tables[table].values : NULL;
}

void rt_model_sparse(
    const struct rt_model *m, uint32_t table, const uint64_t *ids, size_t n, float *ret_rows) {
    const struct model_table *t = &m->tables[table];
    size_t dim = t->table.spec.dim;
    for (size_t i = 0; i < n; i++) {
        const float *row = rt_sparse_find(t->rows, ids[i]);
        if (row) {
            memcpy(ret_rows + i * dim, row, dim * sizeof(float));
        } else {
            rt_initializer_row(&t->table.initializer, ids[i], dim, ret_rows + i * dim);
        }
    }
}
