/* The entries that a compressed gradient sends, against a sort. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"
#include "runtime/train/dp/dp_testing.h"

enum { MOST = 100000 };

static float v[MOST];
static uint32_t at[MOST], scratch[2 * MOST], sorted[MOST];

/* NaN first, then by magnitude, then by place. */
static int before(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    bool nan_i = isnan(v[i]), nan_k = isnan(v[k]);
    float x = fabsf(v[i]), y = fabsf(v[k]);
    return nan_i != nan_k     ? nan_k - nan_i
           : !nan_i && x != y ? (x < y) - (x > y)
                              : (i > k) - (i < k);
}

static int ascending(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return (i > k) - (i < k);
}

static void check(size_t n, size_t k) {
    size_t found = dp_top_k(v, n, k, at, scratch);
    assert_true(found <= k && found > 0);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = (uint32_t)i;
    }
    qsort(sorted, n, sizeof(*sorted), before);
    qsort(sorted, found, sizeof(*sorted), ascending);
    assert_memory_equal(at, sorted, found * sizeof(*at));
}

static void the_largest_are_found(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{1, 1}, {2, 1}, {5, 5}, {5, 9}, {100, 1}, {1000, 100},
        {20000, 20}, {20000, 5000}, {MOST, 1000}, {MOST, 100}, {MOST, 25000}};
    for (size_t s = 0; s < CO_ARRAY_LEN(sizes); s++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            for (size_t i = 0; i < sizes[s][0]; i++) {
                float x = tk_value(kind, 0, s, i);
                v[i] = kind == 0 ? x : kind == 1 ? x * x * x * x : kind == 2 ? roundf(3 * x) : 0;
            }
            check(sizes[s][0], sizes[s][1]);
        }
    }
}

/* The sample is only to save work: what passes it is almost always enough. */
static void the_sample_misses_few_of_the_largest(void **state) {
    (void)state;
    size_t found = 0, asked = 0;
    for (uint32_t turn = 0; turn < 50; turn++) {
        for (size_t i = 0; i < MOST; i++) {
            v[i] = tk_value(turn, 1, 0, i);
        }
        found += dp_top_k(v, MOST, 1000, at, scratch);
        asked += 1000;
    }
    assert_true(found <= asked && found * 1000 >= asked * 999);
}

static void values_that_are_not_finite_come_first(void **state) {
    (void)state;
    for (size_t i = 0; i < 20000; i++) {
        v[i] = tk_value(0, 2, 0, i);
    }
    v[777] = -INFINITY;
    v[19999] = NAN;
    check(20000, 2);
    check(20000, 500);
    assert_true(isnan(v[at[499]]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_found),
        cmocka_unit_test(the_sample_misses_few_of_the_largest),
        cmocka_unit_test(values_that_are_not_finite_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
