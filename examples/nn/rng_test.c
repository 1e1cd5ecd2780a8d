/* Users may rely on the streams: this test fixes the first numbers of seed 1. */
#include "examples/nn/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void streams_are_reproducible_and_differ(void **state) {
    struct nn_rng a, b, other_stream, other_seed;

    (void)state;
    nn_rng_init(&a, 1, 0);
    nn_rng_init(&b, 1, 0);
    nn_rng_init(&other_stream, 1, 1);
    nn_rng_init(&other_seed, 2, 0);
    for (size_t i = 0; i < 100; i++) {
        uint64_t x = nn_rng_u64(&a);

        assert_int_equal(x, nn_rng_u64(&b));
        assert_int_not_equal(x, nn_rng_u64(&other_stream));
        assert_int_not_equal(x, nn_rng_u64(&other_seed));
    }
}

/* xoshiro256** from the state {1, 2, 3, 4}: the values its authors' program prints. */
static void known_numbers(void **state) {
    static const uint64_t expected[] = {11520U, 0U, 1509978240U, 1215971899390074240U};
    struct nn_rng r = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(nn_rng_u64(&r), expected[i]);
    }
}

struct moments {
    double mean, deviation, low, high;
};

static struct moments measure(size_t n, const float *x) {
    struct moments m = {.low = (double)x[0], .high = (double)x[0]};

    for (size_t i = 0; i < n; i++) {
        m.mean += (double)x[i] / (double)n;
        m.low = fmin(m.low, (double)x[i]);
        m.high = fmax(m.high, (double)x[i]);
    }
    for (size_t i = 0; i < n; i++) {
        m.deviation += ((double)x[i] - m.mean) * ((double)x[i] - m.mean) / (double)n;
    }
    m.deviation = sqrt(m.deviation);
    return m;
}

static void distributions(void **state) {
    enum { N = 40000 };
    static float x[N];
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 5, 0);
    nn_rng_fill_uniform(&r, -1.0F, 3.0F, N, x);
    struct moments m = measure(N, x);
    assert_true(fabs(m.mean - 1.0) < 0.03 && fabs(m.deviation - 4.0 / sqrt(12.0)) < 0.03);
    assert_true(m.low >= -1.0 && m.low < -0.99 && m.high <= 3.0 && m.high > 2.99);
    nn_rng_fill_normal(&r, 2.0F, 0.5F, N, x);
    m = measure(N, x);
    assert_true(fabs(m.mean - 2.0) < 0.02 && fabs(m.deviation - 0.5) < 0.02);
    assert_true(m.low < 0.7 && m.high > 3.3);
    nn_rng_fill_truncated(&r, 0.0F, 0.5F, N, x);
    m = measure(N, x);
    assert_true(fabs(m.mean) < 0.02 && fabs(m.deviation - 0.5 * 0.8796) < 0.02);
    assert_true(m.low >= -1.0 && m.low < -0.98 && m.high <= 1.0 && m.high > 0.98);
}

static void rng_below_is_uniform(void **state) {
    size_t seen[7] = {0};
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 9, 9);
    for (size_t i = 0; i < 70000; i++) {
        seen[nn_rng_below(&r, 7)]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_true(seen[i] > 9500 && seen[i] < 10500);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_reproducible_and_differ),
        cmocka_unit_test(known_numbers),
        cmocka_unit_test(distributions),
        cmocka_unit_test(rng_below_is_uniform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
