/* Compares the network with goldens (testdata/wide_and_deep*.json, made by PaddlePaddle 3.3.1), and
 * tests the network of the real size. */
#include "examples/ctr/ctr_testing.h"
#include "examples/nn/rng.h"
#include "examples/wide_and_deep/net.h"

#define DATA "examples/wide_and_deep/testdata/"

static struct ctr_net small; /* wd_net, with the goldens' sizes */

static void forward_and_gradients_equal_the_goldens(void **state) {
    (void)state;
    tk_forward_and_gradients(&small, DATA "wide_and_deep.json");
}

static void gradients_are_slopes(void **state) {
    (void)state;
    tk_numeric_gradients(&small, DATA "wide_and_deep.json");
}

static void slots_with_several_values(void **state) {
    (void)state;
    tk_several_values(&small, DATA "wide_and_deep.json");
}

static void ten_sgd_steps_equal_the_goldens(void **state) {
    (void)state;
    tk_ten_steps(&small, DATA "wide_and_deep.json", "sgd:lr=0.1", 2e-6);
}

static void ten_adam_steps_equal_the_goldens(void **state) {
    (void)state;
    tk_ten_steps(&small, DATA "wide_and_deep_adam.json",
        "adam:lr=0.001,beta1=0.9,beta2=0.999,epsilon=1e-8", 1e-5);
}

static void the_real_size_has_430815_dense_parameters(void **state) {
    struct ctr_layout l;

    (void)state;
    assert_int_equal(ctr_layout_make(&wd_net, &l, NULL), 0);
    assert_int_equal(l.total, 430815);
    assert_int_equal(l.n_views, 10);
    assert_int_equal(ctr_layout_find(&l, "fc1_w")->rows, 273);
    assert_int_equal(ctr_layout_find(&l, "out_w")->rows, 400);
    assert_int_equal(ctr_layout_find(&l, "wide_b")->offset, 430814);
    assert_null(ctr_layout_find(&l, "fc4_w"));
}

static void initial_values(void **state) {
    CO_AUTOFREE float *params = co_xcalloc(430815, sizeof(float));
    CO_AUTOFREE float *again = co_xcalloc(430815, sizeof(float));
    struct ctr_layout l;
    double squares = 0.0;

    (void)state;
    assert_int_equal(ctr_layout_make(&wd_net, &l, NULL), 0);
    ctr_layout_init(&l, 1, params);
    ctr_layout_init(&l, 1, again);
    assert_memory_equal(params, again, 430815 * sizeof(float));
    ctr_layout_init(&l, 2, again);
    assert_memory_not_equal(params, again, 430815 * sizeof(float));
    const struct ctr_view *w = ctr_layout_find(&l, "fc2_w"), *b = ctr_layout_find(&l, "fc2_b");
    for (size_t i = 0; i < w->rows * w->cols; i++) {
        squares += (double)params[w->offset + i] * (double)params[w->offset + i];
    }
    assert_true(fabs(sqrt(squares / (400.0 * 400.0)) - 0.05) < 0.0005);
    for (size_t i = 0; i < b->cols; i++) {
        assert_true(params[b->offset + i] == 0.0F);
    }
    w = ctr_layout_find(&l, "wide_w");
    for (size_t i = 0; i < w->rows; i++) {
        assert_true(fabs((double)params[w->offset + i]) <= 2.0 / sqrt(13.0));
    }
}

/* A sample's prediction must not depend on what else is in its batch, nor on the batch's size. */
static void batches_do_not_mix_samples(void **state) {
    struct tk_model f;
    struct co_err err = {0};
    float together[B];

    (void)state;
    tk_open(&f, &small, DATA "wide_and_deep.json");
    (void)tk_pass(&f);
    memcpy(together, f.p, sizeof(together));
    f.batch.n = 1;
    for (size_t i = 0; i < B; i++) {
        memmove(f.batch.ids, f.batch.ids + (i ? S : 0), (B - i) * S * sizeof(uint64_t));
        memmove(f.batch.dense, f.batch.dense + (i ? D : 0), (B - i) * D * sizeof(float));
        must(ctr_model_lookup(f.model, &f.batch, &err), &err);
        assert_true(f.batch.n_unique <= S);
        for (size_t k = 0; k < f.batch.n_unique; k++) {
            memcpy(f.rows + k * E, f.table + f.batch.unique[k] * E, E * sizeof(float));
        }
        must(ctr_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), &err);
        assert_true(fabs((double)(f.p[0] - together[i])) <= 1e-6);
    }
    tk_close(&f);
}

static void impossible_sizes_are_refused(void **state) {
    static const struct {
        size_t embed, hidden, n_hidden, batch;
        const char *error;
    } rows[] = {
        {0, 8, 1, 1, "embed is 0"},
        {4, 0, 1, 1, "hidden layer 1 has 0 units"},
        {4, 8, 0, 1, "0 hidden layers"},
        {4, 8, CTR_HIDDEN_MAX + 1, 1, "7 hidden layers"},
        {4, 8, 1, 0, "batches of 0 samples"},
        {4, 8, 1, (size_t)1 << 40, "samples, expected"},
        {(size_t)1 << 21, 8, 1, 1, "embed is 2097152"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctr_net net = small;
        struct ctr_model *m = NULL;
        struct co_err err = {0};

        net.config.embed = rows[i].embed;
        net.config.hidden[0] = rows[i].hidden;
        net.config.n_hidden = rows[i].n_hidden;
        assert_true(ctr_model_new(&net, rows[i].batch, &m, &err) < 0);
        assert_null(m);
        if (!strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i].error);
        }
    }
}

static void a_batch_beyond_the_models_size_is_an_error(void **state) {
    struct tk_model f;
    struct co_err err = {0};

    (void)state;
    tk_open(&f, &small, DATA "wide_and_deep.json");
    f.batch.n = B + 1;
    assert_int_equal(
        ctr_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), CO_INVALID);
    f.batch.n = 0;
    assert_int_equal(
        ctr_model_forward(f.model, &f.batch, f.params, f.rows, &f.p, &err), CO_INVALID);
    tk_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(slots_with_several_values),
        cmocka_unit_test(ten_sgd_steps_equal_the_goldens),
        cmocka_unit_test(ten_adam_steps_equal_the_goldens),
        cmocka_unit_test(the_real_size_has_430815_dense_parameters),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(batches_do_not_mix_samples),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(a_batch_beyond_the_models_size_is_an_error),
    };

    small = tk_small(&wd_net);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
