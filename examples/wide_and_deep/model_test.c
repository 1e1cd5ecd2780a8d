/* Forward, every gradient, ten SGD and ten Adam steps against an independent implementation
 * (testdata/wide_and_deep*.json, made by PaddlePaddle 3.3.1), and properties of the real size.
 *
 * Tolerances: forward and gradients |ours - stored| <= 1e-6 + 1e-5 |stored|; losses and
 * parameters over ten SGD steps 2e-6 + 1e-5 |stored|, over ten Adam steps 1e-5 + 1e-5 |stored|
 * (a gradient near zero is divided by its own size). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "examples/nn/layers.h"
#include "examples/nn/rng.h"
#include "examples/wide_and_deep/model.h"
#include "runtime/train/optim/optim.h"

#define DATA "examples/wide_and_deep/testdata/"

static const struct wd_config small = {
    .vocabulary = 100, .embed = 4, .slots = 3, .dense = 2, .hidden = {8, 8}, .n_hidden = 2};

enum { B = 6, S = 3, D = 2, V = 100, E = 4, H = 8, P = 14 * H + H + H * H + H + H + 1 + D + 1 };

struct fixture {
    json_t *root;
    struct wd_model *model;
    struct wd_batch batch;
    float params[P];
    float table[V * E];
    float rows[B * S * E]; /* (U, E) of the batch */
    float grads[P], row_grads[B * S * E];
    float table_grads[V * E];
    const float *p; /* (B) */
};

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static void near(const char *what, const float *got, const json_t *tensor, size_t n, double base) {
    const json_t *data = json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        double want = json_number_value(json_array_get(data, i));

        if (!(fabs((double)got[i] - want) <= base + 1e-5 * fabs(want))) {
            fail_msg("%s[%zu] is %.9g, stored %.9g", what, i, (double)got[i], want);
        }
    }
}

static void tensor_read(const json_t *tensor, size_t n, float *ret) {
    const json_t *data = json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(data, i));
    }
}

static void fixture_open(struct fixture *f, const char *path) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};

    memset(f, 0, sizeof(*f));
    must(co_file_read(path, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &f->root, &err), &err);
    must(wd_model_new(&small, B, &f->model, &err), &err);
    must(wd_batch_init(&small, B, &f->batch, &err), &err);
    const struct wd_layout *l = wd_model_layout(f->model);
    assert_int_equal(l->total, P);
    for (size_t i = 0; i < l->n_views; i++) {
        const struct wd_view *v = &l->views[i];

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

static void fixture_close(struct fixture *f) {
    co_json_decref(&f->root);
    wd_model_free(f->model);
    wd_batch_done(&f->batch);
}

/* Forward and backward; row gradients are spread into table_grads (V, E). Returns the loss. */
static double pass(struct fixture *f) {
    struct co_err err = {0};

    wd_model_lookup(f->model, &f->batch);
    const uint64_t *ids = f->batch.unique;
    size_t n = f->batch.n_unique;
    for (size_t i = 0; i < n; i++) {
        memcpy(f->rows + i * E, f->table + ids[i] * E, E * sizeof(float));
    }
    must(wd_model_forward(f->model, &f->batch, f->params, f->rows, &f->p, &err), &err);
    must(wd_model_backward(f->model, &f->batch, f->params, f->grads, f->row_grads, &err), &err);
    memset(f->table_grads, 0, sizeof(f->table_grads));
    for (size_t i = 0; i < n; i++) {
        memcpy(f->table_grads + ids[i] * E, f->row_grads + i * E, E * sizeof(float));
    }
    return nn_log_loss(B, f->p, f->batch.label);
}

static void test_forward_and_gradients_equal_the_goldens(void **state) {
    struct fixture f;

    (void)state;
    fixture_open(&f, DATA "wide_and_deep.json");
    const struct wd_layout *l = wd_model_layout(f.model);
    double loss = pass(&f), stored = json_number_value(json_object_get(f.root, "loss0"));

    assert_true(fabs(loss - stored) <= 1e-6 + 1e-5 * stored);
    near("pred", f.p, co_json_at(f.root, "forward", "pred"), B, 1e-6);
    near("logit", wd_model_logit(f.model), co_json_at(f.root, "forward", "logit"), B, 1e-6);
    near("hidden1", wd_model_hidden(f.model, 0), co_json_at(f.root, "forward", "hidden1"), B * H,
        1e-6);
    near("hidden2", wd_model_hidden(f.model, 1), co_json_at(f.root, "forward", "hidden2"), B * H,
        1e-6);
    for (size_t i = 0; i < l->n_views; i++) {
        const struct wd_view *v = &l->views[i];

        near(v->name, f.grads + v->offset, co_json_at(f.root, "grads0", v->name), v->rows * v->cols,
            1e-6);
    }
    near("emb", f.table_grads, co_json_at(f.root, "grads0", "emb"), V * E, 1e-6);
    fixture_close(&f);
}

static void ten_steps(const char *path, const char *rule, double base) {
    float state[2 * P + 1], table_state[2 * V * E + 1];
    struct rt_optim o;
    struct fixture f;

    fixture_open(&f, path);
    assert_int_equal(rt_optim_parse(rule, &o, NULL), 0);
    rt_optim_state_init(&o, P, state);
    rt_optim_state_init(&o, (size_t)V * E, table_state);
    for (size_t t = 0; t < 10; t++) {
        double stored = json_number_value(json_array_get(json_object_get(f.root, "losses"), t));
        double loss = pass(&f);

        if (!(fabs(loss - stored) <= base + 1e-5 * stored)) {
            fail_msg("%s step %zu: loss %.9g, stored %.9g", rule, t + 1, loss, stored);
        }
        rt_optim_apply(&o, P, f.params, f.grads, state);
        /* The stored Adam run updates every row each step, so the table is one row here. */
        rt_optim_apply(&o, (size_t)V * E, f.table, f.table_grads, table_state);
    }
    const struct wd_layout *l = wd_model_layout(f.model);
    for (size_t i = 0; i < l->n_views; i++) {
        const struct wd_view *v = &l->views[i];

        near(v->name, f.params + v->offset, co_json_at(f.root, "params_end", v->name),
            v->rows * v->cols, base);
    }
    near("emb", f.table, co_json_at(f.root, "params_end", "emb"), V * E, base);
    fixture_close(&f);
}

static void test_ten_sgd_steps_equal_the_goldens(void **state) {
    (void)state;
    ten_steps(DATA "wide_and_deep.json", "sgd:lr=0.1", 2e-6);
}

static void test_ten_adam_steps_equal_the_goldens(void **state) {
    (void)state;
    ten_steps(
        DATA "wide_and_deep_adam.json", "adam:lr=0.001,beta1=0.9,beta2=0.999,epsilon=1e-8", 1e-5);
}

static void test_the_real_size_has_430815_dense_parameters(void **state) {
    struct wd_layout l;

    (void)state;
    assert_int_equal(wd_layout_make(&wd_config_criteo, &l, NULL), 0);
    assert_int_equal(l.total, 430815);
    assert_int_equal(l.n_views, 10);
    assert_int_equal(wd_layout_find(&l, "fc1_w")->rows, 273);
    assert_int_equal(wd_layout_find(&l, "out_w")->rows, 400);
    assert_int_equal(wd_layout_find(&l, "wide_b")->offset, 430814);
    assert_null(wd_layout_find(&l, "fc4_w"));
}

static void test_initial_values(void **state) {
    CO_AUTOFREE float *params = co_xcalloc(430815, sizeof(float));
    CO_AUTOFREE float *again = co_xcalloc(430815, sizeof(float));
    struct wd_layout l;
    double squares = 0.0;

    (void)state;
    assert_int_equal(wd_layout_make(&wd_config_criteo, &l, NULL), 0);
    wd_layout_init(&l, 1, params);
    wd_layout_init(&l, 1, again);
    assert_memory_equal(params, again, 430815 * sizeof(float));
    wd_layout_init(&l, 2, again);
    assert_memory_not_equal(params, again, 430815 * sizeof(float));
    const struct wd_view *w = wd_layout_find(&l, "fc2_w"), *b = wd_layout_find(&l, "fc2_b");
    for (size_t i = 0; i < w->rows * w->cols; i++) {
        squares += (double)params[w->offset + i] * (double)params[w->offset + i];
    }
    assert_true(fabs(sqrt(squares / (400.0 * 400.0)) - 0.05) < 0.0005);
    for (size_t i = 0; i < b->cols; i++) {
        assert_true(params[b->offset + i] == 0.0F);
    }
    w = wd_layout_find(&l, "wide_w");
    for (size_t i = 0; i < w->rows; i++) {
        assert_true(fabs((double)params[w->offset + i]) <= 2.0 / sqrt(13.0));
    }
}

/* A sample's prediction must not depend on what else is in its batch, nor on the batch's size. */
static void test_batches_do_not_mix_samples(void **state) {
    struct fixture f;
    struct co_err err = {0};
    float together[B];

    (void)state;
    fixture_open(&f, DATA "wide_and_deep.json");
    (void)pass(&f);
    memcpy(together, f.p, sizeof(together));
    f.batch.n = 1;
    for (size_t i = 0; i < B; i++) {
        memmove(f.batch.ids, f.batch.ids + (i ? S : 0), (B - i) * S * sizeof(uint64_t));
        memmove(f.batch.dense, f.batch.dense + (i ? D : 0), (B - i) * D * sizeof(float));
        wd_model_lookup(f.model, &f.batch);
        assert_true(f.batch.n_unique <= S);
        for (size_t k = 0; k < f.batch.n_unique; k++) {
            memcpy(f.rows + k * E, f.table + f.batch.unique[k] * E, E * sizeof(float));
        }
        must(wd_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), &err);
        assert_true(fabs((double)(f.p[0] - together[i])) <= 1e-6);
    }
    fixture_close(&f);
}

static void test_impossible_sizes_are_refused(void **state) {
    static const struct {
        size_t embed, hidden, n_hidden, batch;
        const char *error;
    } rows[] = {
        {0, 8, 1, 1, "embed is 0"},
        {4, 0, 1, 1, "hidden layer 1 has 0 units"},
        {4, 8, 0, 1, "0 hidden layers"},
        {4, 8, WD_HIDDEN_MAX + 1, 1, "7 hidden layers"},
        {4, 8, 1, 0, "batches of 0 samples"},
        {4, 8, 1, (size_t)1 << 40, "samples, expected"},
        {(size_t)1 << 21, 8, 1, 1, "embed is 2097152"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct wd_config c = small;
        struct wd_model *m = NULL;
        struct co_err err = {0};

        c.embed = rows[i].embed;
        c.hidden[0] = rows[i].hidden;
        c.n_hidden = rows[i].n_hidden;
        assert_true(wd_model_new(&c, rows[i].batch, &m, &err) < 0);
        assert_null(m);
        if (!strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i].error);
        }
    }
}

static void test_a_batch_beyond_the_models_size_is_an_error(void **state) {
    struct fixture f;
    struct co_err err = {0};

    (void)state;
    fixture_open(&f, DATA "wide_and_deep.json");
    f.batch.n = B + 1;
    assert_int_equal(wd_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), CO_INVALID);
    f.batch.n = 0;
    assert_int_equal(wd_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), CO_INVALID);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(test_ten_sgd_steps_equal_the_goldens),
        cmocka_unit_test(test_ten_adam_steps_equal_the_goldens),
        cmocka_unit_test(test_the_real_size_has_430815_dense_parameters),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_batches_do_not_mix_samples),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_a_batch_beyond_the_models_size_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
