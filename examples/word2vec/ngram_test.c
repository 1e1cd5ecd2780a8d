/* The N-gram network against an independent implementation (testdata/word2vec*.json, made by
 * PaddlePaddle 3.3.1): forward and gradients |ours - stored| <= 1e-6 + 1e-5 |stored|; ten SGD steps
 * 2e-6, ten AdaGrad steps 1e-5 + 1e-5 |stored|.  And what dropout does. */
#include "examples/word2vec/ngram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "examples/nn/embed.h"
#include "runtime/train/optim/optim.h"

enum { B = 7, N = 5, V = 50, E = 8, H = 16, P = 32 * H + H + H * V + V };
#define DATA "examples/word2vec/testdata/"

static const struct {
    const char *name;
    size_t offset, n;
} views[] = {{"fc1_w", 0, 32 * H}, {"fc1_b", 32 * H, H}, {"fc2_w", 33 * H, H *V},
    {"fc2_b", 33 * H + H *V, V}};

struct fixture {
    json_t *root;
    struct wv_ngram *model;
    struct rt_params *params;
    struct nn_distinct *distinct;
    uint64_t ids[B * N], context[B * (N - 1)], unique[B * (N - 1)];
    uint32_t index[B * (N - 1)];
    float table[V * E], rows[B * (N - 1) * E], row_grads[B * (N - 1) * E], table_grads[V * E];
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

static void fixture_open(struct fixture *f, const char *path, double dropout) {
    const struct wv_ngram_shape shape = {
        .n = N, .embed = E, .hidden = H, .words = V, .dropout = dropout};
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};

    memset(f, 0, sizeof(*f));
    must(co_file_read(path, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &f->root, &err), &err);
    must(wv_ngram_new(&shape, B, 1, &f->model, &err), &err);
    must(wv_ngram_params(&shape, 1, &f->params, &err), &err);
    must(nn_distinct_new((size_t)B * N, &f->distinct, &err), &err);
    assert_int_equal(rt_params_size(f->params), P);
    for (size_t i = 0; i < CO_ARRAY_LEN(views); i++) {
        tensor_read(co_json_at(f->root, "params0", views[i].name), views[i].n,
            rt_params_values(f->params) + views[i].offset);
    }
    tensor_read(co_json_at(f->root, "params0", "emb"), V * E, f->table);
    const json_t *words = co_json_at(f->root, "inputs", "words", "data");
    for (size_t i = 0; i < B * N; i++) {
        f->ids[i] = (uint64_t)json_integer_value(json_array_get(words, i));
    }
}

static void fixture_close(struct fixture *f) {
    co_json_decref(&f->root);
    wv_ngram_free(f->model);
    rt_params_free(f->params);
    nn_distinct_free(f->distinct);
}

/* Forward and backward; row gradients are spread into table_grads (V, E). Returns the loss. */
static double pass(struct fixture *f, bool training) {
    struct wv_batch b = {.n = B, .ids = f->ids, .index = f->index, .rows = f->rows};
    struct co_err err = {0};
    double loss = 0.0;
    size_t wrong;

    for (size_t i = 0; i < B; i++) {
        memcpy(f->context + i * (N - 1), f->ids + i * N, (N - 1) * sizeof(uint64_t));
    }
    b.n_rows = nn_distinct_find(f->distinct, (size_t)B * (N - 1), f->context, f->unique, f->index);
    for (size_t i = 0; i < b.n_rows; i++) {
        memcpy(f->rows + i * E, f->table + f->unique[i] * E, E * sizeof(float));
    }
    must(wv_ngram_forward(f->model, &b, f->params, training, &loss, &wrong, &err), &err);
    must(wv_ngram_backward(f->model, &b, f->params, f->row_grads, &err), &err);
    assert_in_range(wrong, 0, B);
    memset(f->table_grads, 0, sizeof(f->table_grads));
    for (size_t i = 0; i < b.n_rows; i++) {
        memcpy(f->table_grads + f->unique[i] * E, f->row_grads + i * E, E * sizeof(float));
    }
    return loss;
}

static void forward_and_gradients_equal_the_goldens(void **state) {
    struct fixture f;

    (void)state;
    fixture_open(&f, DATA "word2vec.json", 0.0);
    double loss = pass(&f, true), stored = json_number_value(json_object_get(f.root, "loss0"));
    assert_true(fabs(loss - stored) <= 1e-6 + 1e-5 * stored);
    near("hidden", wv_ngram_hidden(f.model), co_json_at(f.root, "forward", "hidden"), B * H, 1e-6);
    near("softmax", wv_ngram_softmax(f.model), co_json_at(f.root, "forward", "softmax"), B * V,
        1e-6);
    for (size_t i = 0; i < CO_ARRAY_LEN(views); i++) {
        near(views[i].name, rt_params_gradients(f.params) + views[i].offset,
            co_json_at(f.root, "grads0", views[i].name), views[i].n, 1e-6);
    }
    near("emb", f.table_grads, co_json_at(f.root, "grads0", "emb"), V * E, 1e-6);
    fixture_close(&f);
}

static void ten_steps(const char *path, const char *rule, double base) {
    float state[2 * P + 1], table_state[2 * V * E + 1];
    struct optim o;
    struct fixture f;

    fixture_open(&f, path, 0.0);
    assert_int_equal(optim_parse(rule, &o, NULL), 0);
    optim_state_init(&o, P, state);
    optim_state_init(&o, (size_t)V * E, table_state);
    for (size_t t = 0; t < 10; t++) {
        double stored = json_number_value(json_array_get(json_object_get(f.root, "losses"), t));
        double loss = pass(&f, true);

        if (!(fabs(loss - stored) <= base + 1e-5 * stored)) {
            fail_msg("%s step %zu: loss %.9g, stored %.9g", rule, t + 1, loss, stored);
        }
        optim_apply(&o, P, rt_params_values(f.params), rt_params_gradients(f.params), state);
        /* The stored runs update every row each step, so the table is one row here. */
        optim_apply(&o, (size_t)V * E, f.table, f.table_grads, table_state);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(views); i++) {
        near(views[i].name, rt_params_values(f.params) + views[i].offset,
            co_json_at(f.root, "params_end", views[i].name), views[i].n, base);
    }
    near("emb", f.table, co_json_at(f.root, "params_end", "emb"), V * E, base);
    fixture_close(&f);
}

static void ten_sgd_steps_equal_the_goldens(void **state) {
    (void)state;
    ten_steps(DATA "word2vec.json", "sgd:lr=0.1", 2e-6);
}

static void ten_adagrad_steps_with_l2_equal_the_goldens(void **state) {
    (void)state;
    ten_steps(DATA "word2vec_adagrad_l2.json", "adagrad:lr=0.003,epsilon=1e-6,l2=8e-4", 1e-5);
}

/* In training about half of the units are 0, and no gradient goes through them; without training
 * all count half. */
static void dropout_drops_units_in_training_and_scales_without(void **state) {
    struct fixture f, whole;
    size_t zeros = 0;

    (void)state;
    fixture_open(&f, DATA "word2vec.json", 0.5);
    fixture_open(&whole, DATA "word2vec.json", 0.0);
    (void)pass(&whole, true);
    (void)pass(&f, false);
    const float *hidden = wv_ngram_hidden(f.model), *all = wv_ngram_hidden(whole.model);
    for (size_t i = 0; i < B * H; i++) {
        assert_true(fabs((double)(hidden[i] - 0.5F * all[i])) < 1e-6);
    }
    (void)pass(&f, true);
    for (size_t i = 0; i < B * H; i++) {
        zeros += hidden[i] == 0.0F;
        assert_true(hidden[i] == 0.0F || fabs((double)(hidden[i] - all[i])) < 1e-6);
    }
    assert_in_range(zeros, B * H / 4, 3 * B * H / 4);
    fixture_close(&f);
    fixture_close(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(ten_sgd_steps_equal_the_goldens),
        cmocka_unit_test(ten_adagrad_steps_with_l2_equal_the_goldens),
        cmocka_unit_test(dropout_drops_units_in_training_and_scales_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
