/* Learning rates by epochs: five steps each.  Values are those of Paddle's formulas: linear warm-up
 * (LinearWarmup), a tenth from each boundary on (PiecewiseDecay), half a cosine from the end of the
 * warm-up to that of the training (CosineAnnealingDecay). */
#include "examples/resnet50/rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

enum { STEPS = 5 };

static const double pi = 3.14159265358979323846;

static const struct {
    const char *schedule, *boundaries;
    int64_t warmup, epochs;
    uint64_t step;
    double want; /* of a rate of 0.1 */
} rows[] = {
    {"constant", "", 0, 10, 0, 0.1},
    {"constant", "", 0, 10, 1000000, 0.1},
    {"constant", "", 2, 10, 0, 0.0},
    {"constant", "", 2, 10, 3, 0.03},
    {"constant", "", 2, 10, 9, 0.09},
    {"constant", "", 2, 10, 10, 0.1},
    {"piecewise", "3", 0, 10, 14, 0.1},
    {"piecewise", "3", 0, 10, 15, 0.01},
    {"piecewise", "3", 0, 10, 49, 0.01},
    {"piecewise", "3,6,8", 0, 10, 29, 0.01},
    {"piecewise", "3,6,8", 0, 10, 30, 0.001},
    {"piecewise", "3,6,8", 0, 10, 40, 0.0001},
};

static int make(const char *schedule, const char *boundaries, int64_t warmup, int64_t epochs,
    struct rn_rate *ret, struct co_err *err) {
    const struct rn_options o = {.schedule = schedule,
        .boundaries = boundaries,
        .warmup_epochs = warmup,
        .epochs = epochs,
        .lr = 0.1};
    return rn_rate_init(&o, STEPS, ret, err);
}

static void rates_by_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rn_rate r = {0};
        struct co_err err = {0};

        if (make(rows[i].schedule, rows[i].boundaries, rows[i].warmup, rows[i].epochs, &r, &err)) {
            fail_msg("row %zu: %s", i, co_err_text(&err));
        }
        double got = rn_rate_at(&r, rows[i].step);
        if (!(fabs(got - rows[i].want) <= 1e-12)) {
            fail_msg("row %zu: %.12g, not %.12g", i, got, rows[i].want);
        }
        rn_rate_done(&r);
    }
}

static void a_cosine_ends_with_the_training(void **state) {
    struct rn_rate r = {0};

    (void)state;
    assert_int_equal(make("cosine", "", 2, 10, &r, NULL), 0);
    assert_true(fabs(rn_rate_at(&r, 5) - 0.05) <= 1e-12);
    for (uint64_t s = 2 * STEPS; s < 10 * STEPS; s++) {
        double want = 0.05 * (1.0 + cos(pi * (double)(s - 2 * STEPS) / (8.0 * STEPS)));
        assert_true(fabs(rn_rate_at(&r, s) - want) <= 1e-9);
    }
    rn_rate_done(&r);
}

static void boundaries_are_checked(void **state) {
    static const char *const bad[] = {"", "0", "3,3", "6,3", "3,", ",3", "3;6", "x", "-1", "1.5"};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        struct rn_rate r = {0};
        struct co_err err = {0};

        if (make("piecewise", bad[i], 0, 10, &r, &err) != CO_INVALID ||
            !strstr(err.msg, "--boundaries")) {
            fail_msg("\"%s\": %s", bad[i], err.msg);
        }
    }
}

static void unknown_schedules_are_refused(void **state) {
    struct rn_rate r = {0};
    struct co_err err = {0};

    (void)state;
    assert_int_equal(make("linear", "", 0, 10, &r, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "--schedule is \"linear\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_by_steps),
        cmocka_unit_test(a_cosine_ends_with_the_training),
        cmocka_unit_test(boundaries_are_checked),
        cmocka_unit_test(unknown_schedules_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
