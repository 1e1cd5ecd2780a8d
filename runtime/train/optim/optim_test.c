/* The rules against an independent implementation (testdata/optimizers.json, made by
 * PaddlePaddle 3.3.1) and the fast form against the scalar reference.
 *
 * Tolerances: one step 1e-6 + 1e-5 |stored|; ten steps 2e-6 + 1e-5 |stored|; AdaGrad and Adam
 * after more than one step 1e-5 + 1e-5 |stored|, because a gradient near zero is divided by its
 * own size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "runtime/train/optim/optim.h"

#define GOLDENS "runtime/train/optim/testdata/optimizers.json"

enum { STEPS = 10, WIDTH_MAX = 12 };

/* data of a stored tensor; n floats are expected. */
static void tensor_read(const json_t *tensor, size_t n, float *ret) {
    const json_t *data = json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(data, i));
    }
}

static json_t *goldens_load(void) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    json_t *root = NULL;

    if (co_file_read(GOLDENS, 1 << 20, &text, &err) < 0 ||
        co_json_parse(text.data, text.len, &root, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return root;
}

/* Our rule for a stored case: two of theirs are one rule with other hyper-parameters. */
static void optim_of_case(const json_t *c, struct rt_optim *ret_o) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"momentum_nesterov", "nesterov"}, {"adagrad_init", "adagrad"},
        {"rmsprop_momentum", "rmsprop"}, {"initial_accumulator_value", "initial"}};
    const char *name = co_json_str(c, "optimizer"), *key;
    struct co_err err = {0};
    json_t *value;

    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        name = strcmp(name, names[i].theirs) == 0 ? names[i].ours : name;
    }
    if (rt_optim_parse(name, ret_o, &err) < 0 ||
        rt_optim_set(ret_o, "l2", json_number_value(json_object_get(c, "l2")), &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    json_object_foreach(json_object_get(c, "hyper"), key, value) {
        const char *ours = key;

        for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
            ours = strcmp(key, names[i].theirs) == 0 ? names[i].ours : ours;
        }
        if (json_is_boolean(value)) {
            continue; /* nesterov and centered are rules of their own */
        }
        if (rt_optim_set(ret_o, ours, json_number_value(value), &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
    }
}

static double tolerance(const struct rt_optim *o, size_t step, double stored) {
    bool by_size = strcmp(o->rule->name, "adagrad") == 0 || strcmp(o->rule->name, "adam") == 0;

    if (step == 0) {
        return 1e-6 + 1e-5 * fabs(stored);
    }
    return (by_size ? 1e-5 : 2e-6) + 1e-5 * fabs(stored);
}

/* Ten steps of one parameter, each compared with what was stored; returns values compared. */
static size_t trajectory_check(const struct rt_optim *o, rt_optim_apply_fn apply, size_t n,
    const json_t *tensors, const json_t *c, const char *which) {
    float p[WIDTH_MAX], g[STEPS * WIDTH_MAX], stored[STEPS * WIDTH_MAX], state[3 * WIDTH_MAX + 1];
    char key[16];

    (void)snprintf(key, sizeof(key), "%s0", which);
    tensor_read(json_object_get(tensors, key), n, p);
    (void)snprintf(key, sizeof(key), "grad_%s", which);
    tensor_read(json_object_get(tensors, key), STEPS * n, g);
    tensor_read(json_object_get(c, which), STEPS * n, stored);
    rt_optim_state_init(o, n, state);
    for (size_t t = 0; t < STEPS; t++) {
        apply(o, n, p, g + t * n, state);
        for (size_t i = 0; i < n; i++) {
            double want = (double)stored[t * n + i];

            if (!(fabs((double)p[i] - want) <= tolerance(o, t, want))) {
                fail_msg("%s l2 %g %s[%zu] step %zu: %.9g, stored %.9g", o->rule->name,
                    (double)o->hyper[RT_OPTIM_L2], which, i, t + 1, (double)p[i], want);
            }
        }
    }
    return STEPS * n;
}

static void test_rules_follow_the_goldens(void **state) {
    CO_AUTOJSON json_t *root = goldens_load();
    const json_t *tensors = json_object_get(root, "tensors"), *c;
    size_t at, compared = 0;

    (void)state;
    json_array_foreach(json_object_get(root, "cases"), at, c) {
        struct rt_optim o;

        optim_of_case(c, &o);
        compared += trajectory_check(&o, rt_optim_apply, 12, tensors, c, "w");
        compared += trajectory_check(&o, rt_optim_apply, 5, tensors, c, "b");
        compared += trajectory_check(&o, rt_optim_apply_reference, 12, tensors, c, "w");
        compared += trajectory_check(&o, rt_optim_apply_reference, 5, tensors, c, "b");
    }
    assert_int_equal(compared, 18 * 2 * STEPS * 17);
}

/* Values in [-1, 1) from a small generator of the test's own. */
static float noise(uint64_t *s) {
    *s = *s * 6364136223846793005U + 1442695040888963407U;
    return (float)(*s >> 40) / (float)(1U << 23) - 1.0F;
}

/* Lengths around the vector widths, so that heads and tails of the loops are walked. */
static void test_fast_equals_reference(void **state) {
    static const size_t lengths[] = {1, 3, 4, 7, 8, 10, 16, 17, 33, 100};
    size_t n_rules;
    const struct rt_optim_rule *rules = rt_optim_rules(&n_rules);
    float w[100], v[100], g[100], s[301], r[301];
    uint64_t seed = 7;

    (void)state;
    for (size_t at = 0; at < n_rules * CO_ARRAY_LEN(lengths); at++) {
        size_t n = lengths[at / n_rules];
        struct rt_optim o;

        assert_int_equal(rt_optim_parse(rules[at % n_rules].name, &o, NULL), 0);
        assert_int_equal(rt_optim_set(&o, "l2", 0.01, NULL), 0);
        for (size_t i = 0; i < n; i++) {
            w[i] = v[i] = noise(&seed);
        }
        rt_optim_state_init(&o, n, s);
        rt_optim_state_init(&o, n, r);
        for (size_t t = 0; t < 20; t++) {
            for (size_t i = 0; i < n; i++) {
                g[i] = noise(&seed);
            }
            rt_optim_apply(&o, n, w, g, s);
            rt_optim_apply_reference(&o, n, v, g, r);
        }
        for (size_t i = 0; i < n; i++) {
            if (!(fabs((double)(w[i] - v[i])) <= 4e-6)) {
                fail_msg("%s n %zu [%zu]: fast %.9g, reference %.9g", o.rule->name, n, i,
                    (double)w[i], (double)v[i]);
            }
        }
        for (size_t i = 0; i < rt_optim_state_floats(&o, n); i++) {
            assert_true(fabs((double)(s[i] - r[i])) <= 1e-5 * (1.0 + fabs((double)r[i])));
        }
    }
}

/* Split dense vectors (several servers) must train exactly like one. */
static void test_a_row_may_be_split(void **state) {
    size_t n_rules;
    const struct rt_optim_rule *rules = rt_optim_rules(&n_rules);

    (void)state;
    for (size_t at = 0; at < n_rules; at++) {
        float whole[40], parts[40], g[40], s[121], left[49], right[73];
        uint64_t seed = at + 1;
        struct rt_optim o;

        assert_int_equal(rt_optim_parse(rules[at].name, &o, NULL), 0);
        for (size_t i = 0; i < 40; i++) {
            whole[i] = parts[i] = noise(&seed);
        }
        rt_optim_state_init(&o, 40, s);
        rt_optim_state_init(&o, 16, left);
        rt_optim_state_init(&o, 24, right);
        for (size_t t = 0; t < 5; t++) {
            for (size_t i = 0; i < 40; i++) {
                g[i] = noise(&seed);
            }
            rt_optim_apply(&o, 40, whole, g, s);
            rt_optim_apply(&o, 16, parts, g, left);
            rt_optim_apply(&o, 24, parts + 16, g + 16, right);
        }
        assert_memory_equal(whole, parts, sizeof(whole));
    }
}

/* 300 + 1e-4 noise: the variance is lost in the rounding of q and a^2 and must not turn into the
 * root of a negative number. */
static void test_centered_rmsprop_stays_finite_on_constant_gradients(void **state) {
    float w[8] = {0}, g[8], s[25];
    struct rt_optim o;

    (void)state;
    assert_int_equal(rt_optim_parse("rmsprop_centered", &o, NULL), 0);
    rt_optim_state_init(&o, 8, s);
    for (size_t t = 0; t < 500; t++) {
        for (size_t i = 0; i < 8; i++) {
            g[i] = 300.0F + (float)i * 17.3F;
        }
        rt_optim_apply(&o, 8, w, g, s);
        for (size_t i = 0; i < 8; i++) {
            assert_true(isfinite(w[i]));
        }
    }
}

static void test_adam_survives_a_full_step_counter(void **state) {
    float w[1] = {1.0F}, g[1] = {0.5F}, s[3] = {0.5F, 0.25F, 16777216.0F};
    struct rt_optim o;

    (void)state;
    assert_int_equal(rt_optim_parse("adam:lr=0.1", &o, NULL), 0);
    rt_optim_apply(&o, 1, w, g, s);
    assert_true(fabs((double)w[0] - 0.9) < 1e-6);
    assert_true(s[2] == 16777216.0F);
}

static void test_text_form(void **state) {
    static const struct {
        const char *text;
        const char *error; /* part of the message; NULL: accepted */
    } rows[] = {
        {"sgd", NULL},
        {"adagrad:lr=0.05,epsilon=1e-7,initial=0.1", NULL},
        {"adam:beta1=0", NULL},
        {"", "expected one of sgd, momentum"},
        {"ftrl", "optimizer \"ftrl\""},
        {"sgd:mu=0.9", "sgd has no hyper-parameter \"mu\""},
        {"sgd:", "\"\" is not name=value"},
        {"sgd:lr=0.1,", "\"\" is not name=value"},
        {"sgd:lr", "\"lr\" is not name=value"},
        {"sgd:lr=", "lr"},
        {"sgd:lr=fast", "fast"},
        {"sgd:lr=-1", "lr is -1, expected 0"},
        {"adam:beta2=1", "beta2 is 1"},
        {"sgd:lr=nan", "lr"},
        {"sgd:lr=0.000000000000000000000000000000000000000000000000000000000001", "too long"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_optim o = {0}, again;
        struct co_err err = {0};
        char text[256];
        int rc = rt_optim_parse(rows[i].text, &o, &err);

        if (rows[i].error) {
            assert_int_equal(rc, CO_INVALID);
            assert_null(o.rule);
            if (!strstr(co_err_text(&err), rows[i].error)) {
                fail_msg(
                    "\"%s\": \"%s\" lacks \"%s\"", rows[i].text, co_err_text(&err), rows[i].error);
            }
            continue;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(rt_optim_format(&o, text, sizeof(text), NULL), 0);
        assert_int_equal(rt_optim_parse(text, &again, NULL), 0);
        assert_ptr_equal(o.rule, again.rule);
        assert_memory_equal(o.hyper, again.hyper, sizeof(o.hyper));
        assert_int_equal(rt_optim_format(&o, text, strlen(text), NULL), CO_INVALID);
    }
}

static void test_text_is_short(void **state) {
    struct rt_optim o;
    char text[256];

    (void)state;
    assert_int_equal(rt_optim_parse("adagrad:lr=0.02,initial=1e-4", &o, NULL), 0);
    assert_int_equal(rt_optim_format(&o, text, sizeof(text), NULL), 0);
    assert_string_equal(text, "adagrad:lr=0.02,l2=0,epsilon=1e-06,initial=0.0001");
}

static void test_every_row_is_complete_and_its_defaults_are_legal(void **state) {
    size_t n_rules;
    const struct rt_optim_rule *rules = rt_optim_rules(&n_rules);

    (void)state;
    for (size_t i = 0; i < n_rules; i++) {
        struct rt_optim o;

        assert_ptr_equal(rt_optim_rule_find(rules[i].name), &rules[i]);
        assert_non_null(rules[i].help);
        assert_non_null(rules[i].apply);
        assert_non_null(rules[i].reference);
        assert_int_equal(rt_optim_parse(rules[i].name, &o, NULL), 0);
        for (size_t k = 0; k < rules[i].n_hypers; k++) {
            const struct rt_optim_hyper *h = &rules[i].hypers[k];

            assert_true(h->initial >= h->min && h->initial <= h->max);
            assert_int_equal(rt_optim_set(&o, h->name, (double)h->initial, NULL), 0);
        }
        assert_int_equal(rt_optim_state_floats(&o, 10), rules[i].planes * 10 + rules[i].scalars);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_follow_the_goldens),
        cmocka_unit_test(test_fast_equals_reference),
        cmocka_unit_test(test_a_row_may_be_split),
        cmocka_unit_test(test_centered_rmsprop_stays_finite_on_constant_gradients),
        cmocka_unit_test(test_adam_survives_a_full_step_counter),
        cmocka_unit_test(test_text_form),
        cmocka_unit_test(test_text_is_short),
        cmocka_unit_test(test_every_row_is_complete_and_its_defaults_are_legal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
