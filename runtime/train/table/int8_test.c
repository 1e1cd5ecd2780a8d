/* Blocks of one byte a value, in each form of the loops: what is sent adds up to what was given,
 * and both ends compute the same floats. */
#include "runtime/train/table/int8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/isa_testing.h"

enum { N_MAX = 3 * TABLE_INT8_BLOCK + 7, STEPS = 50 };

static const size_t lengths[] = {1, 63, 64, 65, 128, N_MAX};

/* Of very different size within a block, of either sign, and zeros. */
static float value(uint32_t step, size_t i) {
    float v = (float)((step * 31 + i * 17) % 101) - 50;
    return i % 5 == 0 ? v : i % 5 == 1 ? v * 1e-3F : v * 1e-5F;
}

/* Half a scale is at most the largest magnitude / 127 / 2, and 1/128 of that more as it is rounded.
 */
static float half_scale(float most) {
    return most / 254 * (1 + 1.0F / 64);
}

static void sums_check(size_t n) {
    unsigned char sent[N_MAX + 8];
    float g[N_MAX], got[N_MAX], rest[N_MAX] = {0};
    double given[N_MAX] = {0}, received[N_MAX] = {0};

    for (uint32_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n; i++) {
            g[i] = value(step, i);
            given[i] += (double)g[i];
        }
        table_int8_send(sent, g, rest, n);
        assert_true(table_int8_small(sent, n));
        table_int8_widen(got, sent, n);
        for (size_t i = 0; i < n; i++) {
            received[i] += (double)got[i];
            /* Values to 50 and a rest of less than 1: the sum never lacks more than half a scale.
             */
            if (fabs(given[i] - received[i]) > (double)half_scale(51) ||
                fabs(given[i] - received[i] - (double)rest[i]) > 1e-4) {
                fail_msg("%zu values, step %u: value %zu was %g, %g was sent, the rest is %g", n,
                    step, i, given[i], received[i], (double)rest[i]);
            }
        }
    }
}

/* The receiver has what the sender knows it to have, to the last bit, whatever form of the loops it
 * has; and that follows the values. */
static void follow_check(size_t n, enum co_isa here, enum co_isa there) {
    unsigned char sent[N_MAX + 8];
    float w[N_MAX], known[N_MAX] = {0}, has[N_MAX] = {0};

    for (uint32_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n; i++) {
            w[i] = value(0, i) + value(step, i + 1) * 1e-3F;
        }
        co_isa_limit(here);
        assert_true(table_int8_follow(sent, w, known, n));
        co_isa_limit(there);
        table_int8_add(has, sent, n);
        assert_memory_equal(known, has, n * sizeof(float));
    }
    for (size_t i = 0; i < n; i++) { /* the last change was 0.1 at most */
        assert_true(fabsf(has[i] - w[i]) <= half_scale(0.2F));
    }
}

/* A block that is not finite says so, spoils no other, and is not fed back. */
static void nonfinite_check(float bad) {
    unsigned char sent[N_MAX + 8];
    float g[N_MAX], got[N_MAX], rest[N_MAX], before[N_MAX], known[N_MAX] = {0};

    for (size_t i = 0; i < N_MAX; i++) {
        g[i] = value(0, i);
        rest[i] = before[i] = 1e-3F;
    }
    g[TABLE_INT8_BLOCK + 3] = bad;
    assert_false(table_int8_follow(sent, g, known, N_MAX));
    table_int8_send(sent, g, rest, N_MAX);
    assert_false(table_int8_small(sent, N_MAX));
    table_int8_widen(got, sent, N_MAX);
    for (size_t i = 0; i < N_MAX; i++) {
        bool spoiled = i / TABLE_INT8_BLOCK == 1;
        assert_true(isfinite(got[i]) == !spoiled);
        assert_true(isfinite(rest[i]) && (!spoiled || rest[i] == before[i]));
    }
}

/* The largest floats, and those whose products with a scale would not be exact. */
static void extremes_check(void) {
    static const float most[] = {3.375e38F, 1, 2e-28F, 5e-29F, 1e-45F, 0};
    unsigned char sent[N_MAX + 8];

    for (size_t k = 0; k < CO_ARRAY_LEN(most); k++) {
        float g[N_MAX], got[N_MAX], rest[N_MAX] = {0};
        for (size_t i = 0; i < N_MAX; i++) {
            g[i] = i % 2 ? most[k] : -most[k] / 3;
        }
        table_int8_send(sent, g, rest, N_MAX);
        assert_true(table_int8_small(sent, N_MAX) == (k > 0)); /* the first must be looked at */
        table_int8_widen(got, sent, N_MAX);
        for (size_t i = 0; i < N_MAX; i++) {
            assert_true(isfinite(got[i]));
            assert_true(
                got[i] + rest[i] == g[i] || fabsf(got[i] + rest[i] - g[i]) < most[k] * 1e-6F);
            assert_true(most[k] < 1e-28F ? got[i] == 0 : fabsf(rest[i]) <= half_scale(most[k]));
        }
    }
}

/* What only another program would send. */
static void foreign_check(void) {
    static const uint16_t scales[] = {
        0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7c00, 0xfc00, 0x3f80, 0xbf80};
    unsigned char sent[2 + TABLE_INT8_BLOCK];
    float got[TABLE_INT8_BLOCK];

    for (size_t k = 0; k < CO_ARRAY_LEN(scales); k++) {
        memset(sent, 0x80, sizeof(sent)); /* -128 */
        co_put_u16(sent, scales[k]);
        table_int8_widen(got, sent, TABLE_INT8_BLOCK);
        assert_true(isfinite(got[0]) == table_int8_small(sent, TABLE_INT8_BLOCK));
    }
}

static void form_check(enum co_isa isa) {
    if (!co_test_isa(isa)) {
        skip();
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(lengths); i++) {
        sums_check(lengths[i]);
        follow_check(lengths[i], isa, CO_ISA_PLAIN);
        follow_check(lengths[i], CO_ISA_PLAIN, isa);
        co_isa_limit(isa);
    }
    nonfinite_check(NAN);
    nonfinite_check(-INFINITY);
    nonfinite_check(3.4028235e38F); /* a product with its scale might be too large */
    extremes_check();
    foreign_check();
    co_isa_limit(CO_ISA_AVX512);
}

static void plain_blocks_add_up(void **state) {
    (void)state;
    form_check(CO_ISA_PLAIN);
}

static void avx2_blocks_add_up(void **state) {
    (void)state;
    form_check(CO_ISA_AVX2);
}

static void avx512_blocks_add_up(void **state) {
    (void)state;
    form_check(CO_ISA_AVX512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_blocks_add_up),
        cmocka_unit_test(avx2_blocks_add_up),
        cmocka_unit_test(avx512_blocks_add_up),
    };
    return cmocka_run_group_tests_name("int8", tests, NULL, NULL);
}
