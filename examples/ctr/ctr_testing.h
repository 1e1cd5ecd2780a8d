/* Compares a network with an independent implementation, and with itself: forward, all gradients
 * and ten steps, from a file of goldens (golden.py).  For model_test.c of each network's folder.
 *
 * Tolerances: forward and gradients |ours - stored| <= 1e-6 + 1e-5 |stored|; losses and
 * parameters over ten SGD steps 2e-6 + 1e-5 |stored|, over ten Adam steps 1e-5 + 1e-5 |stored|
 * (a gradient near zero is divided by its own size). */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "examples/ctr/model.h"
#include "examples/nn/layers.h"
#include "runtime/train/optim/optim.h"

/* The goldens' sizes: batch, slots, numbers, vocabulary, floats of a row, ... */
enum { B = 6, S = 3, D = 2, V = 100, E = 4, H = 8, P_MAX = 512 };

/* Returns the network with those sizes instead of its own. */
static inline struct ctr_net tk_small(const struct ctr_net *net) {
    struct ctr_net small = *net;

    small.config = (struct ctr_config){
        .vocabulary = V, .embed = E, .slots = S, .dense = D, .hidden = {H, H}, .n_hidden = 2};
    return small;
}

struct tk_model {
    json_t *root;
    struct ctr_model *model;
    struct ctr_batch batch;
    float params[P_MAX];
    float table[V * E];
    float rows[B * S * E]; /* (U, E) of the batch */
    float grads[P_MAX], row_grads[B * S * E];
    float table_grads[V * E];
    const float *p; /* (B) */
};

static inline void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static inline void near(
    const char *what, const float *got, const json_t *tensor, size_t n, double base) {
    const json_t *data = json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        double want = json_number_value(json_array_get(data, i));

        if (!(fabs((double)got[i] - want) <= base + 1e-5 * fabs(want))) {
            fail_msg("%s[%zu] is %.9g, stored %.9g", what, i, (double)got[i], want);
        }
    }
}

static inline void tensor_read(const json_t *tensor, size_t n, float *ret) {
    const json_t *data = json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(data, i));
    }
}

static inline void tk_open(struct tk_model *f, const struct ctr_net *small, const char *path) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};

    memset(f, 0, sizeof(*f));
    must(co_file_read(path, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &f->root, &err), &err);
    must(ctr_model_new(small, B, &f->model, &err), &err);
    must(ctr_batch_init(&small->config, B, &f->batch, &err), &err);
    const struct ctr_layout *l = ctr_model_layout(f->model);
    assert_true(l->total <= P_MAX);
    for (size_t i = 0; i < l->n_views; i++) {
        const struct ctr_view *v = &l->views[i];

        tensor_read(
            co_json_at(f->root, "params0", v->name), v->rows * v->cols, f->params + v->offset);
    }
    tensor_read(co_json_at(f->root, "params0", "emb"), V * E, f->table);
    tensor_read(co_json_at(f->root, "inputs", "dense"), B * D, f->batch.dense);
    tensor_read(co_json_at(f->root, "inputs", "label"), B, f->batch.label);
    const json_t *ids = co_json_at(f->root, "inputs", "ids", "data");
    for (size_t i = 0; i < B * S; i++) {
        f->batch.ids[i] = (uint64_t)json_integer_value(json_array_get(ids, i));
    }
    f->batch.n = B;
}

static inline void tk_close(struct tk_model *f) {
    co_json_decref(&f->root);
    ctr_model_free(f->model);
    ctr_batch_done(&f->batch);
}

/* Forward and backward; writes the row gradients to table_grads (V, E).  Returns the loss. */
static inline double tk_pass(struct tk_model *f) {
    struct co_err err = {0};

    must(ctr_model_lookup(f->model, &f->batch, &err), &err);
    const uint64_t *ids = f->batch.unique;
    size_t n = f->batch.n_unique;
    for (size_t i = 0; i < n; i++) {
        memcpy(f->rows + i * E, f->table + ids[i] * E, E * sizeof(float));
    }
    must(ctr_model_forward(f->model, &f->batch, f->params, f->rows, &f->p, &err), &err);
    must(ctr_model_backward(f->model, &f->batch, f->params, f->grads, f->row_grads, &err), &err);
    memset(f->table_grads, 0, sizeof(f->table_grads));
    for (size_t i = 0; i < n; i++) {
        memcpy(f->table_grads + ids[i] * E, f->row_grads + i * E, E * sizeof(float));
    }
    return nn_log_loss(B, f->p, f->batch.label);
}

static inline void tk_forward_and_gradients(const struct ctr_net *small, const char *path) {
    struct tk_model f;

    tk_open(&f, small, path);
    const struct ctr_layout *l = ctr_model_layout(f.model);
    double loss = tk_pass(&f), stored = json_number_value(json_object_get(f.root, "loss0"));

    assert_true(fabs(loss - stored) <= 1e-6 + 1e-5 * stored);
    near("pred", f.p, co_json_at(f.root, "forward", "pred"), B, 1e-6);
    near("logit", ctr_model_logit(f.model), co_json_at(f.root, "forward", "logit"), B, 1e-6);
    near("hidden1", ctr_model_hidden(f.model, 0), co_json_at(f.root, "forward", "hidden1"), B * H,
        1e-6);
    near("hidden2", ctr_model_hidden(f.model, 1), co_json_at(f.root, "forward", "hidden2"), B * H,
        1e-6);
    for (size_t i = 0; i < l->n_views; i++) {
        const struct ctr_view *v = &l->views[i];

        near(v->name, f.grads + v->offset, co_json_at(f.root, "grads0", v->name), v->rows * v->cols,
            1e-6);
    }
    near("emb", f.table_grads, co_json_at(f.root, "grads0", "emb"), V * E, 1e-6);
    tk_close(&f);
}

static inline void tk_ten_steps(
    const struct ctr_net *small, const char *path, const char *rule, double base) {
    float state[2 * P_MAX + 1], table_state[2 * V * E + 1];
    struct optim o;
    struct tk_model f;

    tk_open(&f, small, path);
    const struct ctr_layout *l = ctr_model_layout(f.model);
    assert_int_equal(optim_parse(rule, &o, NULL), 0);
    optim_state_init(&o, l->total, state);
    optim_state_init(&o, (size_t)V * E, table_state);
    for (size_t t = 0; t < 10; t++) {
        double stored = json_number_value(json_array_get(json_object_get(f.root, "losses"), t));
        double loss = tk_pass(&f);

        if (!(fabs(loss - stored) <= base + 1e-5 * stored)) {
            fail_msg("%s step %zu: loss %.9g, stored %.9g", rule, t + 1, loss, stored);
        }
        optim_apply(&o, l->total, f.params, f.grads, state);
        /* The stored Adam run updates every row each step, so the table is one row here. */
        optim_apply(&o, (size_t)V * E, f.table, f.table_grads, table_state);
    }
    for (size_t i = 0; i < l->n_views; i++) {
        const struct ctr_view *v = &l->views[i];

        near(v->name, f.params + v->offset, co_json_at(f.root, "params_end", v->name),
            v->rows * v->cols, base);
    }
    near("emb", f.table, co_json_at(f.root, "params_end", "emb"), V * E, base);
    tk_close(&f);
}

/* Checks some gradients of each view and of the rows by central differences.  In float32 a loss of
 * about 1 is exact to 1e-7, hence a slope over 4e-3 to about 5e-5; a relu that switches in between
 * adds more. */
static inline void tk_numeric_gradients(const struct ctr_net *small, const char *path) {
    const float step = 2e-3F;
    struct tk_model f;

    tk_open(&f, small, path);
    (void)tk_pass(&f);
    const struct ctr_layout *l = ctr_model_layout(f.model);
    float grads[P_MAX], table_grads[V * E];
    memcpy(grads, f.grads, sizeof(grads));
    memcpy(table_grads, f.table_grads, sizeof(table_grads));
    for (size_t i = 0; i < l->total + V * E; i += i < l->total ? 3 : 1) {
        float *at = i < l->total ? &f.params[i] : &f.table[i - l->total], kept = *at;
        float ours = i < l->total ? grads[i] : table_grads[i - l->total];

        if (i >= l->total && ours == 0.0F) {
            continue; /* the batch does not use this row */
        }
        *at = kept + step;
        double above = tk_pass(&f);
        *at = kept - step;
        double below = tk_pass(&f), slope = (above - below) / (2.0 * (double)step);
        *at = kept;
        if (!(fabs(slope - (double)ours) <= 1e-3)) {
            fail_msg("gradient %zu is %.6g, the loss's slope %.6g", i, (double)ours, slope);
        }
    }
    tk_close(&f);
}

/* A slot of sample 1 with the values a, b, b: the same as with one value whose row is the sum, or
 * the mean, of theirs; that row's gradient goes to each of them. */
static inline void tk_several_values(const struct ctr_net *small, const char *path) {
    enum { CELL = 1 * S + 2, Z = V - 1 };

    for (int mean = 0; mean < 2; mean++) {
        const float factor = mean ? 1.0F / 3.0F : 1.0F;
        struct tk_model f, one;

        tk_open(&f, small, path);
        tk_open(&one, small, path);
        uint64_t a = f.batch.ids[CELL], b = f.batch.ids[4 * S];
        f.batch.mean = mean;
        ctr_values_add(&f.batch.more, CELL, b);
        ctr_values_add(&f.batch.more, CELL, b);
        one.batch.ids[CELL] = Z; /* no other sample has it */
        for (size_t k = 0; k < E; k++) {
            one.table[Z * E + k] = factor * (f.table[a * E + k] + 2.0F * f.table[b * E + k]);
        }
        assert_true(fabs(tk_pass(&f) - tk_pass(&one)) < 1e-6);
        for (size_t i = 0; i < ctr_model_layout(f.model)->total; i++) {
            assert_true(fabsf(f.grads[i] - one.grads[i]) < 1e-6F);
        }
        for (size_t i = 0; i < V * E; i++) {
            size_t id = i / E;
            float times = (id == a ? 1.0F : 0.0F) + (id == b ? 2.0F : 0.0F);
            float want = (id == Z ? 0.0F : one.table_grads[i]) +
                         factor * times * one.table_grads[Z * E + i % E];

            assert_true(fabsf(f.table_grads[i] - want) < 1e-6F);
        }
        tk_close(&f);
        tk_close(&one);
    }
}
