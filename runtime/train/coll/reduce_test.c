/* Compares the kernels of different instruction sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/isa_testing.h"
#include "runtime/train/coll/reference_testing.h"

enum { VALUES = 1003 };

/* Of any bits, NaN and infinity among them. */
static void random_values(enum rt_dtype t, void *p, uint32_t seed) {
    size_t size = rt_dtype_size(t), bytes = VALUES * size;
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)p)[i] = (uint8_t)mix(seed, (uint32_t)i, t);
    }
}

/* NaN have many bit patterns, and which one comes out is not said. */
static bool same(enum rt_dtype t, const void *a, const void *b) {
    if (t == RT_F32) {
        return memcmp(a, b, 4) == 0 || (isnan(*(const float *)a) && isnan(*(const float *)b));
    }
    if (t == RT_F64) {
        return memcmp(a, b, 8) == 0 || (isnan(*(const double *)a) && isnan(*(const double *)b));
    }
    if (t == RT_F16 || t == RT_BF16) {
        float x, y;
        co_half_widen(coll_half(t), &x, a, 1);
        co_half_widen(coll_half(t), &y, b, 1);
        return memcmp(a, b, 2) == 0 || (isnan(x) && isnan(y));
    }
    return memcmp(a, b, rt_dtype_size(t)) == 0;
}

static void call_compare(
    const struct coll_kernels *k, enum rt_dtype t, enum rt_op o, uint32_t n_in) {
    _Alignas(64) static uint8_t a[VALUES * 8], b[VALUES * 8], c[VALUES * 8], fast[VALUES * 8],
        slow[VALUES * 8];
    const void *in[3] = {a, b, c};

    random_values(t, a, 1);
    random_values(t, b, 2);
    random_values(t, c, 3);
    coll_reduce_n(k, t, o, 1.0 / n_in, fast, in, n_in, VALUES);
    coll_reduce_n(plain_kernels(), t, o, 1.0 / n_in, slow, in, n_in, VALUES);
    for (size_t v = 0; v < VALUES; v++) {
        size_t at = v * rt_dtype_size(t);
        if (!same(t, fast + at, slow + at)) {
            fail_msg("%s %s %s of %u inputs: value %zu differs", k->name, rt_dtype_name(t),
                rt_op_name(o), n_in, v);
        }
    }
}

static void form_compare(enum co_isa isa) {
    if (!co_test_isa(isa)) {
        skip();
    }
    const struct coll_kernels *k = coll_kernels_get(0);
    assert_string_equal(k->name, co_isa_name(isa));
    assert_ptr_equal(coll_kernels_get(isa), plain_kernels());
    assert_null(coll_kernels_get(isa + 1));
    for (uint32_t t = 0; t < RT_DTYPES; t++) {
        for (uint32_t o = 0; o < RT_OPS; o++) {
            struct rt_coll call = {.dtype = t, .op = o};
            for (uint32_t n_in = 1; n_in <= 3 && !average_of_integers(&call); n_in++) {
                call_compare(k, t, o, n_in);
            }
        }
    }
}

static void avx2_kernels_give_the_bits_of_the_plain_ones(void **state) {
    (void)state;
    form_compare(CO_ISA_AVX2);
}

static void avx512_kernels_give_the_bits_of_the_plain_ones(void **state) {
    (void)state;
    form_compare(CO_ISA_AVX512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx2_kernels_give_the_bits_of_the_plain_ones),
        cmocka_unit_test(avx512_kernels_give_the_bits_of_the_plain_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
