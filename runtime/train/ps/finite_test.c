/* Values that are not finite, in each instruction set: wherever they stand in arrays of any length.
 */
#include "runtime/train/ps/finite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/isa_testing.h"
#include "common/mem.h"

enum { MOST = 2300 }; /* two long blocks, three short ones, and a rest */

static float of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static void check(enum co_isa isa) {
    /* The last ones are finite, with as many bits set as a float can have. */
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, of_bits(0x7f800001U), of_bits(UINT32_MAX)};
    const float good[] = {0, -0.0F, 1, of_bits(1), of_bits(0x7f7fffffU), of_bits(0xff7fffffU)};
    if (!co_test_isa(isa)) {
        skip();
    }
    CO_AUTOFREE float *g = co_xmalloc((MOST + 1) * sizeof(*g));
    for (size_t i = 0; i <= MOST; i++) {
        g[i] = good[i % CO_ARRAY_LEN(good)];
    }
    for (size_t n = 0; n < MOST; n += n < 130 || n > MOST - 130 ? 1 : 61) {
        const float *from = g + n % 2;
        assert_true(ps_all_finite_f32(from, n));
        for (size_t k = 0; k < CO_ARRAY_LEN(bad) && n > 0; k++) {
            const size_t places[] = {0, n / 2, n - 1, (n * 7 + k * 331) % n};
            for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
                float *at = g + n % 2 + places[p], was = *at;
                *at = bad[k];
                assert_false(ps_all_finite_f32(from, n));
                *at = was;
            }
        }
        g[n % 2 + n] = NAN; /* behind the last one */
        assert_true(ps_all_finite_f32(from, n));
        g[n % 2 + n] = 1;
    }
    co_isa_limit(CO_ISA_AVX512);
}

/* 2^40, and the largest float below it. */
static void check_large(enum co_isa isa) {
    const float limit = 0x1p40F, below = nextafterf(limit, 0);
    const float large[] = {limit, -limit, 2e19F, -3e38F, NAN, INFINITY};
    const float small[] = {0, below, -below, of_bits(1), -1};
    if (!co_test_isa(isa)) {
        skip();
    }
    CO_AUTOFREE float *g = co_xmalloc(MOST * sizeof(*g));
    for (size_t i = 0; i < MOST; i++) {
        g[i] = small[i % CO_ARRAY_LEN(small)];
    }
    for (size_t n = 1; n < MOST; n += n < 130 ? 1 : 61) {
        assert_true(ps_all_small_f32(g, n));
        for (size_t k = 0; k < CO_ARRAY_LEN(large); k++) {
            float *at = &g[(n * 7 + k * 331) % n], was = *at;
            *at = large[k];
            assert_false(ps_all_small_f32(g, n));
            *at = was;
        }
    }
    co_isa_limit(CO_ISA_AVX512);
}

static void large_values_are_found_with_any_instructions(void **state) {
    (void)state;
    for (enum co_isa isa = CO_ISA_PLAIN; isa <= CO_ISA_AVX512; isa++) {
        check_large(isa);
    }
}

static void values_that_are_not_finite_are_found_in_plain_code(void **state) {
    (void)state;
    check(CO_ISA_PLAIN);
}

static void values_that_are_not_finite_are_found_with_avx2(void **state) {
    (void)state;
    check(CO_ISA_AVX2);
}

static void values_that_are_not_finite_are_found_with_avx512(void **state) {
    (void)state;
    check(CO_ISA_AVX512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_are_not_finite_are_found_in_plain_code),
        cmocka_unit_test(large_values_are_found_with_any_instructions),
        cmocka_unit_test(values_that_are_not_finite_are_found_with_avx2),
        cmocka_unit_test(values_that_are_not_finite_are_found_with_avx512),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
