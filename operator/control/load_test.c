#include "operator/control/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/mem.h"

enum { MANY = 100 };

/* So many answers, one a second. */
static int64_t note(struct ctl_load *l, enum ctl_load_kind kind, int64_t took, int n, int64_t now) {
    for (int i = 0; i < n; i++) {
        now += 1000;
        ctl_load_note(l, kind, took, now);
    }
    return now;
}

static void nearly(double got, double wanted) {
    if (got < wanted * 0.95 || got > wanted * 1.05) {
        fail_msg("%g, expected about %g", got, wanted);
    }
}

static void load_is_the_ratio_of_current_to_best_latency(void **state) {
    (void)state;
    static const struct {
        int64_t best, now;
        double ratio;
    } rows[] = {
        {4, 4, 1}, {4, 40, 10}, {4, 0, 1}, /* as fast as clocks measure */
        {300, 40, 4},                      /* it began in the middle of a burst */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_load l = {0};
        int64_t now = note(&l, CTL_LOAD_CREATE, rows[i].best, MANY, 1);
        now = note(&l, CTL_LOAD_CREATE, rows[i].now, MANY, now);
        nearly(ctl_load_ratio(&l, now), rows[i].ratio);
    }
}

static void latency_is_compared_within_a_kind_of_request(void **state) {
    (void)state;
    struct ctl_load l = {0};
    int64_t now = 1;
    for (int i = 0; i < MANY; i++) {
        now = note(&l, CTL_LOAD_CREATE, 2, 1, now);
        now = note(&l, CTL_LOAD_STATUS, 8, 1, now);
    }
    nearly(ctl_load_ratio(&l, now), 1);
}

static void a_server_that_is_always_slow_has_no_load_in_the_end(void **state) {
    (void)state;
    struct ctl_load l = {0};
    int64_t now = note(&l, CTL_LOAD_CREATE, 80, MANY, 1);
    nearly(ctl_load_ratio(&l, now), 8);
    now = note(&l, CTL_LOAD_CREATE, 80, 10 * 3600, now);
    nearly(ctl_load_ratio(&l, now), 1);
}

static void silence_is_no_load_and_keeps_the_best_latency(void **state) {
    (void)state;
    struct ctl_load l = {0};
    assert_true(ctl_load_is_quiet(&l, 1));
    int64_t now = note(&l, CTL_LOAD_STATUS, 80, MANY, 1);
    assert_false(ctl_load_is_quiet(&l, now + 9000));
    assert_true(ctl_load_is_quiet(&l, now + 11000));
    now = note(&l, CTL_LOAD_STATUS, 80, MANY, now + (int64_t)3600 * 24 * 1000);
    nearly(ctl_load_ratio(&l, now), 8);
}

static void waits_grow_with_load_and_shares_shrink(void **state) {
    (void)state;
    static const struct {
        double ratio; /* 0: nothing is known */
        int64_t wait;
        size_t share;
    } rows[] = {
        {0, 2000, 8}, {1, 2000, 64}, {2, 2000, 32}, {4, 4000, 16}, {10, 10000, 6}, {100, 16000, 4}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_load l = {.ratio = rows[i].ratio, .noted_ms = rows[i].ratio > 0};
        assert_int_equal(ctl_load_stretch(&l, 2, 2000, 16000), rows[i].wait);
        assert_int_equal(ctl_load_share(&l, 2, 4, 8, 64), rows[i].share);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_is_the_ratio_of_current_to_best_latency),
        cmocka_unit_test(latency_is_compared_within_a_kind_of_request),
        cmocka_unit_test(a_server_that_is_always_slow_has_no_load_in_the_end),
        cmocka_unit_test(silence_is_no_load_and_keeps_the_best_latency),
        cmocka_unit_test(waits_grow_with_load_and_shares_shrink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
