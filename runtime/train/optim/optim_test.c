/* The fast form against the scalar reference, and the text form. */
#include "runtime/train/optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/optim/reference_testing.h"

/* Values in [-1, 1) from a small generator of the test's own. */
static float noise(uint64_t *s) {
    *s = *s * 6364136223846793005U + 1442695040888963407U;
    return (float)(*s >> 40) / (float)(1U << 23) - 1.0F;
}

/* What each common hyper-parameter is set to, one at a time and then all of them. */
static const struct {
    const char *name;
    double value;
} common[] = {{"l2", 0.01}, {"l1", 0.02}, {"clip_value", 0.4}, {"clip_norm", 0.7}, {"min", -0.3},
    {"max", 0.5}};

enum { LONGEST = 1000, STATE_MOST = 3 * LONGEST + 3, SET_NONE = CO_ARRAY_LEN(common), SET_ALL };

static void common_set(struct optim *o, size_t which) {
    for (size_t i = 0; i < CO_ARRAY_LEN(common); i++) {
        if (which == i || which == SET_ALL) {
            assert_int_equal(optim_set(o, common[i].name, common[i].value, NULL), 0);
        }
    }
}

static void check_floats(const struct optim *o, const char *what, size_t n, const float *fast,
    const float *reference, double tolerance) {
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)fast[i] - (double)reference[i]);

        if (!(off <= tolerance * (1.0 + fabs((double)reference[i])))) {
            char text[256];

            assert_int_equal(optim_format(o, text, sizeof(text), NULL), 0);
            fail_msg("%s: %s[%zu] fast %.9g, reference %.9g", text, what, i, (double)fast[i],
                (double)reference[i]);
        }
    }
}

/* Both forms for so many steps from the same values, with the same gradients. */
static void check_forms(const struct optim *o, size_t n, size_t steps, uint64_t seed) {
    static float w[LONGEST], v[LONGEST], g[LONGEST], s[STATE_MOST], r[STATE_MOST];

    for (size_t i = 0; i < n; i++) {
        w[i] = v[i] = i % 5 == 2 ? 0.0F : noise(&seed); /* l1 has no side to push 0 from */
    }
    optim_state_init(o, n, s);
    optim_state_init(o, n, r);
    for (size_t t = 0; t < steps; t++) {
        for (size_t i = 0; i < n; i++) {
            g[i] = noise(&seed);
        }
        optim_apply(o, n, w, g, s);
        optim_apply_reference(o, n, v, g, r);
    }
    check_floats(o, "value", n, w, v, 4e-6);
    check_floats(o, "state", optim_state_floats(o, n), s, r, 1e-5);
}

/* Lengths around the widths of vectors and of the pieces in which a row is taken, so that heads
 * and tails of the loops are walked. */
static void fast_equals_reference(void **state) {
    static const size_t lengths[] = {1, 3, 4, 7, 8, 10, 16, 17, 33, 100, 255, 256, 257, 513, 1000};
    size_t n_rules;
    const struct optim_rule *rules = optim_rules(&n_rules);

    (void)state;
    for (size_t at = 0; at < n_rules * (SET_ALL + 1); at++) {
        struct optim o;

        assert_int_equal(optim_parse(rules[at % n_rules].name, &o, NULL), 0);
        common_set(&o, at / n_rules);
        assert_int_equal(
            o.set != 0, at / n_rules != SET_NONE && !(o.rule->decays && at / n_rules < 2));
        for (size_t i = 0; i < CO_ARRAY_LEN(lengths); i++) {
            check_forms(&o, lengths[i], 10, at + i);
        }
    }
}

static void values_stay_within_their_bounds(void **state) {
    struct optim o;
    float w[3] = {0.9F, -0.9F, 0}, g[3] = {-100, 100, 1};

    (void)state;
    assert_int_equal(optim_parse("sgd:lr=1,min=-1,max=1.5", &o, NULL), 0);
    optim_apply(&o, 3, w, g, NULL);
    assert_true(w[0] == 1.5F && w[1] == -1.0F && w[2] == -1.0F);
}

/* Not finite is for whoever took it in to notice; clipping must not hide it. */
static void clipping_keeps_nan(void **state) {
    struct optim o;
    float w[9] = {0}, g[9] = {0};

    (void)state;
    g[8] = NAN;
    assert_int_equal(optim_parse("sgd:clip_value=1,min=-1,max=1", &o, NULL), 0);
    optim_apply(&o, 9, w, g, NULL);
    assert_true(isnan(w[8]) && w[0] == 0.0F);
}

/* Of a finite gradient whose squares are no floats: it has a direction. */
static void a_huge_gradient_is_scaled(void **state) {
    static const float huge[] = {1e19F, 3e19F, 1e25F, 3e38F};
    struct optim o;

    (void)state;
    assert_int_equal(optim_parse("sgd:lr=1,clip_norm=5", &o, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(huge); i++) {
        float w[9] = {0}, g[9] = {[0] = 0.6F * huge[i], [8] = -0.8F * huge[i]};
        optim_apply(&o, 9, w, g, NULL);
        assert_true(fabsf(w[0] + 3) < 1e-5F && w[1] == 0.0F && fabsf(w[8] - 4) < 1e-5F);
    }
}

/* Squares that are 0 in a float, and a rate of 0. */
static void ftrl_does_not_divide_by_zero(void **state) {
    struct optim o;
    float w[2] = {0.5F, -0.5F}, g[2] = {1e-30F, 0}, s[4];

    (void)state;
    assert_int_equal(optim_parse("ftrl", &o, NULL), 0);
    optim_state_init(&o, 2, s);
    optim_apply(&o, 2, w, g, s);
    assert_true(w[0] == 0.0F && w[1] == 0.0F);
    assert_int_equal(optim_set(&o, "lr", 0, NULL), 0);
    w[0] = 0.25F;
    g[0] = 1;
    optim_apply(&o, 2, w, g, s);
    assert_true(w[0] == 0.25F);
}

static void rows_that_may_not_be_split(void **state) {
    static const struct {
        const char *text;
        bool whole;
    } rows[] = {{"sgd:clip_value=1,l1=1,max=2", false}, {"adam", false}, {"adagrad_row", true},
        {"adagrad_ctr", true}, {"adam_shared", true}, {"sgd:clip_norm=1", true}};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct optim o;

        assert_int_equal(optim_parse(rows[i].text, &o, NULL), 0);
        assert_int_equal(optim_is_whole(&o), rows[i].whole);
    }
}

/* Split dense vectors (several servers) must train exactly like one. */
static void a_row_may_be_split(void **state) {
    size_t n_rules;
    const struct optim_rule *rules = optim_rules(&n_rules);

    (void)state;
    for (size_t at = 0; at < n_rules; at++) {
        float whole[40], parts[40], g[40], s[121], left[49], right[73];
        uint64_t seed = at + 1;
        struct optim o;

        assert_int_equal(optim_parse(rules[at].name, &o, NULL), 0);
        if (optim_is_whole(&o)) {
            continue;
        }
        for (size_t i = 0; i < 40; i++) {
            whole[i] = parts[i] = noise(&seed);
        }
        optim_state_init(&o, 40, s);
        optim_state_init(&o, 16, left);
        optim_state_init(&o, 24, right);
        for (size_t t = 0; t < 5; t++) {
            for (size_t i = 0; i < 40; i++) {
                g[i] = noise(&seed);
            }
            optim_apply(&o, 40, whole, g, s);
            optim_apply(&o, 16, parts, g, left);
            optim_apply(&o, 24, parts + 16, g + 16, right);
        }
        assert_memory_equal(whole, parts, sizeof(whole));
    }
}

/* 300 + 1e-4 noise: the variance is lost in the rounding of q and a^2 and must not turn into the
 * root of a negative number. */
static void centered_rmsprop_stays_finite_on_constant_gradients(void **state) {
    float w[8] = {0}, g[8], s[25];
    struct optim o;

    (void)state;
    assert_int_equal(optim_parse("rmsprop_centered", &o, NULL), 0);
    optim_state_init(&o, 8, s);
    for (size_t t = 0; t < 500; t++) {
        for (size_t i = 0; i < 8; i++) {
            g[i] = 300.0F + (float)i * 17.3F;
        }
        optim_apply(&o, 8, w, g, s);
        for (size_t i = 0; i < 8; i++) {
            assert_true(isfinite(w[i]));
        }
    }
}

static void adam_survives_a_full_step_counter(void **state) {
    float w[1] = {1.0F}, g[1] = {0.5F}, s[3] = {0.5F, 0.25F, 16777216.0F};
    struct optim o;

    (void)state;
    assert_int_equal(optim_parse("adam:lr=0.1", &o, NULL), 0);
    optim_apply(&o, 1, w, g, s);
    assert_true(fabs((double)w[0] - 0.9) < 1e-6);
    assert_true(s[2] == 16777216.0F);
}

static void text_form(void **state) {
    static const struct {
        const char *text;
        const char *error; /* part of the message; NULL: accepted */
    } rows[] = {
        {"sgd", NULL},
        {"adagrad:lr=0.05,epsilon=1e-7,initial=0.1", NULL},
        {"adam:beta1=0", NULL},
        {"", "expected one of sgd, sum, momentum"},
        {"sgd:l1=1,l2=2,clip_value=3,clip_norm=4,min=-5,max=6", NULL},
        {"sgd:min=2,max=3", NULL},
        {"sgd:min=2,max=1", "min 2 is above max 1"},
        {"sgd:max=1,min=1.5", "min 1.5 is above max 1"},
        {"sgd:clip_norm=-1", "clip_norm is -1, expected 0"},
        {"sgd:min=-inf", "min"},
        {"adagrad_ctr:initial_g2sum=0", "initial_g2sum is 0"},
        {"adamax", "optimizer \"adamax\""},
        {"sgd:mu=0.9", "sgd has no hyper-parameter \"mu\": expected one of lr, l2, l1, clip_value, "
                       "clip_norm, min, max"},
        {"adam:lrr=1", "clip_norm, min, max, beta1, beta2, epsilon"},
        {"sgd:", "\"\" is not name=value"},
        {"sgd:lr=0.1,l2=0,lr=0.2", "sgd: \"lr\" is twice in \"lr=0.1,l2=0,lr=0.2\""},
        {"sgd:lr=0.1,", "\"\" is not name=value"},
        {"sgd:lr", "\"lr\" is not name=value"},
        {"sgd:lr=", "lr"},
        {"sgd:lr=fast", "fast"},
        {"sgd:lr=-1", "lr is -1, expected 0"},
        {"sgd:lr=1e-50",
            "sgd: lr is 1e-50, which is 0 as a float: expected 0 or from 1.4013e-45 to 1e+30"},
        {"sgd:lr=-1e-50", "lr is -1e-50"},
        {"adam:epsilon=1e-60", "epsilon is 1e-60, which is 0 as a float"},
        {"adam:beta1=1", "beta1 is 1, expected at least 0 and below 1"},
        {"rmsprop:momentum=2", "momentum is 2, expected 0 to 1"},
        {"adam:beta2=1", "beta2 is 1"},
        {"sgd:lr=nan", "lr"},
        {"sgd:lr=0.000000000000000000000000000000000000000000000000000000000001", "too long"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct optim o = {0}, again;
        struct co_err err = {0};
        char text[256];
        int rc = optim_parse(rows[i].text, &o, &err);

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
        assert_int_equal(optim_format(&o, text, sizeof(text), NULL), 0);
        assert_int_equal(optim_parse(text, &again, NULL), 0);
        assert_ptr_equal(o.rule, again.rule);
        assert_memory_equal(o.hyper, again.hyper, sizeof(o.hyper));
        assert_int_equal(optim_format(&o, text, strlen(text), NULL), CO_INVALID);
    }
}

/* The longest that there can be. */
static void every_text_fits(void **state) {
    size_t n_rules;
    const struct optim_rule *rules = optim_rules(&n_rules);

    (void)state;
    for (size_t at = 0; at < n_rules; at++) {
        struct optim o;
        char text[256];

        assert_int_equal(optim_parse(rules[at].name, &o, NULL), 0);
        for (size_t i = 0; optim_hyper_at(o.rule, i); i++) {
            o.hyper[i] = -1.17549435e-38F;
        }
        assert_int_equal(optim_format(&o, text, sizeof(text), NULL), 0);
    }
}

static void text_is_short(void **state) {
    struct optim o;
    char text[256];

    (void)state;
    assert_int_equal(optim_parse("adagrad:lr=0.02,initial=1e-4", &o, NULL), 0);
    assert_int_equal(optim_format(&o, text, sizeof(text), NULL), 0);
    assert_string_equal(text, "adagrad:lr=0.02,epsilon=1e-06,initial=0.0001");
}

static void every_row_is_complete_and_its_defaults_are_legal(void **state) {
    size_t n_rules;
    const struct optim_rule *rules = optim_rules(&n_rules);

    (void)state;
    for (size_t i = 0; i < n_rules; i++) {
        struct optim o;

        assert_ptr_equal(optim_rule_find(rules[i].name), &rules[i]);
        assert_non_null(rules[i].help);
        assert_non_null(rules[i].apply);
        assert_int_equal(optim_parse(rules[i].name, &o, NULL), 0);
        assert_int_equal(o.set, 0);
        const struct optim_hyper *h;
        for (size_t k = 0; (h = optim_hyper_at(&rules[i], k)); k++) {
            assert_non_null(h->help);
            assert_true(o.hyper[k] >= h->min && o.hyper[k] <= h->max);
            assert_int_equal(optim_set(&o, h->name, (double)o.hyper[k], NULL), 0);
        }
        assert_int_equal(optim_state_floats(&o, 10), rules[i].planes * 10 + rules[i].scalars);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_equals_reference),
        cmocka_unit_test(values_stay_within_their_bounds),
        cmocka_unit_test(clipping_keeps_nan),
        cmocka_unit_test(a_huge_gradient_is_scaled),
        cmocka_unit_test(ftrl_does_not_divide_by_zero),
        cmocka_unit_test(rows_that_may_not_be_split),
        cmocka_unit_test(a_row_may_be_split),
        cmocka_unit_test(centered_rmsprop_stays_finite_on_constant_gradients),
        cmocka_unit_test(adam_survives_a_full_step_counter),
        cmocka_unit_test(text_form),
        cmocka_unit_test(text_is_short),
        cmocka_unit_test(every_text_fits),
        cmocka_unit_test(every_row_is_complete_and_its_defaults_are_legal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
