/* Tests the loops that narrow and widen rows, in each form, against the conversions of one number
 * at a time (common/half.h). */
#include "runtime/train/table/narrow.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/half.h"
#include "common/isa_testing.h"
#include "common/mem.h"

enum { HALVES = 1 << 16, NEAR = 5, N = HALVES * NEAR };

static float widened(enum rt_dtype t, uint16_t h) {
    return t == RT_F16 ? co_f16_widen(h) : co_bf16_widen(h);
}

static uint16_t narrowed(enum rt_dtype t, float f) {
    return t == RT_F16 ? co_f16_narrow(f) : co_bf16_narrow(f);
}

/* Every half, NaN and infinity among them.  Which of its bits a NaN keeps is not said. */
static void widen_check(enum rt_dtype t, size_t n) {
    unsigned char in[HALVES * 2 + 2];
    CO_AUTOFREE float *got = co_xcalloc(HALVES, sizeof(*got));

    for (size_t i = 0; i < HALVES; i++) {
        co_put_u16(in + 1 + 2 * i, (uint16_t)i); /* at an odd address */
    }
    for (size_t first = 0; first < HALVES; first += n) {
        size_t count = HALVES - first < n ? HALVES - first : n;

        table_widen(t, got + first, in + 1 + 2 * first, count);
    }
    for (size_t i = 0; i < HALVES; i++) {
        float want = widened(t, (uint16_t)i);

        if (co_f32_bits(got[i]) != co_f32_bits(want) && !(isnan(got[i]) && isnan(want))) {
            fail_msg("%s 0x%04zx is %a, expected %a", table_storage_name(t), i, (double)got[i],
                (double)want);
        }
    }
}

/* Each half, the tie between it and the next one, and the floats beside the tie. */
static void near_fill(enum rt_dtype t, float *ret) {
    uint32_t tie = t == RT_F16 ? 0x1000 : 0x8000;

    for (size_t h = 0; h < HALVES; h++) {
        uint32_t bits = co_f32_bits(widened(t, (uint16_t)h));
        const uint32_t near[NEAR] = {bits, bits + tie - 1, bits + tie, bits + tie + 1, bits + 1};

        for (size_t k = 0; k < NEAR; k++) {
            ret[h * NEAR + k] = co_f32_of(near[k]);
        }
    }
}

static void narrow_check(enum rt_dtype t, size_t n) {
    CO_AUTOFREE float *values = co_xcalloc(N, sizeof(*values));
    CO_AUTOFREE unsigned char *out = co_xcalloc(N, 2);

    near_fill(t, values);
    for (size_t first = 0; first < N; first += n) {
        table_narrow(t, out + 2 * first, values + first, N - first < n ? N - first : n);
    }
    for (size_t i = 0; i < N; i++) {
        uint16_t got = co_get_u16(out + 2 * i), want = narrowed(t, values[i]);

        if (got != want && !(isnan(widened(t, got)) && isnan(values[i]))) {
            fail_msg("%a is %s 0x%04x, expected 0x%04x", (double)values[i], table_storage_name(t),
                got, want);
        }
    }
}

/* Whole vectors, and rows that end within one. */
static void form_check(enum co_isa isa) {
    static const size_t lengths[] = {HALVES, 13};

    if (!co_test_isa(isa)) {
        skip();
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(lengths); i++) {
        widen_check(RT_F16, lengths[i]);
        widen_check(RT_BF16, lengths[i]);
        narrow_check(RT_F16, lengths[i]);
        narrow_check(RT_BF16, lengths[i]);
    }
}

static void plain_rows_are_as_one_number_at_a_time(void **state) {
    (void)state;
    form_check(CO_ISA_PLAIN);
}

static void avx2_rows_are_as_one_number_at_a_time(void **state) {
    (void)state;
    form_check(CO_ISA_AVX2);
}

static void avx512_rows_are_as_one_number_at_a_time(void **state) {
    (void)state;
    form_check(CO_ISA_AVX512);
}

/* The conversions of one number at a time: every half comes back, and a tie goes to the even one.
 */
static void halves_are_rounded_to_nearest(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float here = co_f16_widen((uint16_t)h), next = co_f16_widen((uint16_t)(h + 1));
        uint32_t even = h + (h & 1);
        assert_int_equal(co_f16_narrow(here), h);
        if (h + 1 < 0x7c00) {
            assert_int_equal(co_f16_narrow((here + next) / 2), even);
        }
        assert_int_equal(co_bf16_narrow(co_f32_of(h << 16 | 0x8000)), even);
    }
}

/* A row that is infinite by its storage alone would stay so, and could not be loaded again. */
static void what_a_table_stores_is_infinite_only_if_it_was(void **state) {
    (void)state;
    static const struct {
        enum rt_dtype type;
        float value, stored;
    } rows[] = {
        {RT_F16, 65504, 65504},
        {RT_F16, 65520, 65504},
        {RT_F16, -70000, -65504},
        {RT_F16, 3.4e38F, 65504},
        {RT_F16, INFINITY, INFINITY},
        {RT_F16, -INFINITY, -INFINITY},
        {RT_BF16, 0x1.fep127F, 0x1.fep127F},
        {RT_BF16, 0x1.fffffep127F, 0x1.fep127F},
        {RT_BF16, -0x1.fffffep127F, -0x1.fep127F},
        {RT_BF16, -INFINITY, -INFINITY},
        {RT_F32, 0x1.fffffep127F, 0x1.fffffep127F},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        unsigned char out[4];
        float back;
        uint64_t random = i;
        table_narrow_within(rows[i].type, out, &rows[i].value, 1);
        table_widen(rows[i].type, &back, out, 1);
        assert_true(back == rows[i].stored);
        if (rows[i].type != RT_F32) {
            table_narrow_at_random(rows[i].type, out, &rows[i].value, 1, &random);
            table_widen(rows[i].type, &back, out, 1);
            assert_true(back == rows[i].stored);
        }
    }
    unsigned char nan[2];
    float back, value = NAN;
    table_narrow_within(RT_F16, nan, &value, 1);
    table_widen(RT_F16, &back, nan, 1);
    assert_true(isnan(back));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows_are_as_one_number_at_a_time),
        cmocka_unit_test(avx2_rows_are_as_one_number_at_a_time),
        cmocka_unit_test(avx512_rows_are_as_one_number_at_a_time),
        cmocka_unit_test(halves_are_rounded_to_nearest),
        cmocka_unit_test(what_a_table_stores_is_infinite_only_if_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
