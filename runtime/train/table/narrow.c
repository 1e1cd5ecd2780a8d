/* Conversion loops, compiled twice: for any processor, and for those with AVX2 and F16C; chosen at
 * run time. */
#include "runtime/train/table/narrow.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/bytes.h"
#include "common/half.h"
#include "common/isa.h"
#include "common/mem.h"

static const struct {
    const char *name;
    enum rt_dtype type;
} storages[] = {{"f32", RT_F32}, {"f16", RT_F16}, {"bf16", RT_BF16}};

int table_storage_parse(
    const char *what, const char *text, enum rt_dtype *ret, struct co_err *err) {
    text = text && *text ? text : storages[0].name;
    for (size_t i = 0; i < CO_ARRAY_LEN(storages); i++) {
        if (strcmp(text, storages[i].name) == 0) {
            *ret = storages[i].type;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "%s '%.40s' is not f32, f16 or bf16", what, text);
}

const char *table_storage_name(enum rt_dtype t) {
    size_t i = 0;
    while (i + 1 < CO_ARRAY_LEN(storages) && storages[i].type != t) {
        i++;
    }
    return storages[i].name;
}

/* to may be equal to from. */
static void copy_f32(void *to, const void *from, size_t n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (to != from) {
        memcpy(to, from, n * 4);
    }
#else
    for (size_t i = 0; i < n; i++) {
        co_put_u32((unsigned char *)to + i * 4, *(const uint32_t *)((const char *)from + i * 4));
    }
#endif
}

/* ---- loops: for any processor, and for those with AVX2 ---- */

/* Reads and writes little-endian on any host.  On little-endian hosts compilers reduce that to a
 * plain load and store. */
#define LOOPS(set, attributes, type)                                                               \
    attributes static void set##_widen_##type(                                                     \
        float *restrict ret, const unsigned char *restrict in, size_t n) {                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            ret[i] = co_##type##_widen(co_get_u16(in + 2 * i));                                    \
        }                                                                                          \
    }                                                                                              \
    attributes static void set##_narrow_##type(                                                    \
        unsigned char *restrict out, const float *restrict values, size_t n) {                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            co_put_u16(out + 2 * i, co_##type##_narrow(values[i]));                                \
        }                                                                                          \
    }

LOOPS(plain, , bf16)
LOOPS(plain, , f16)

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))
LOOPS(avx2, AVX2, bf16)

AVX2 static void avx2_widen_f16(float *ret, const unsigned char *in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(ret + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + 2 * i))));
    }
    plain_widen_f16(ret + i, in + 2 * i, n - i);
}

AVX2 static void avx2_narrow_f16(unsigned char *out, const float *values, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128((void *)(out + 2 * i),
            _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
    }
    plain_narrow_f16(out + 2 * i, values + i, n - i);
}
#endif

struct loops {
    void (*widen)(float *ret, const unsigned char *in, size_t n);
    void (*narrow)(unsigned char *out, const float *values, size_t n);
};

/* t: RT_F16 or RT_BF16. */
static const struct loops *loops_of(enum rt_dtype t) {
    static const struct loops plain[] = {
        {plain_widen_f16, plain_narrow_f16}, {plain_widen_bf16, plain_narrow_bf16}};
#if defined(__x86_64__)
    static const struct loops avx2[] = {
        {avx2_widen_f16, avx2_narrow_f16}, {avx2_widen_bf16, avx2_narrow_bf16}};
    if (co_isa() >= CO_ISA_AVX2) {
        return &avx2[t == RT_BF16];
    }
#endif
    return &plain[t == RT_BF16];
}

void table_widen(enum rt_dtype from, float *ret, const void *values, size_t n) {
    if (from == RT_F32) {
        copy_f32(ret, values, n);
    } else {
        loops_of(from)->widen(ret, values, n);
    }
}

void table_narrow(enum rt_dtype to, void *ret, const float *values, size_t n) {
    if (to == RT_F32) {
        copy_f32(ret, values, n);
    } else {
        loops_of(to)->narrow(ret, values, n);
    }
}

/* A random number, by splitmix64. */
static uint32_t draw(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    return (uint32_t)(x >> 32);
}

/* Prepares stochastic rounding: adds a random number to the bits that narrowing drops.  The dropped
 * bits say how near the upper neighbour is, so the sum carries with just that probability.  Values
 * above 65504 and those that are not finite are left to round to nearest. */
static float dither(enum rt_dtype to, float f, uint32_t random) {
    uint32_t u = co_f32_bits(f), rest = u & 0x7fffffffU;
    if (to == RT_BF16) {
        return rest < 0x7f7f0000U ? co_f32_of((u + (random >> 16)) & 0xffff0000U) : f;
    }
    if (rest >= 0x477fe000U) {
        return f;
    }
    if (rest >= 0x38800000U) {
        return co_f32_of((u + (random >> 19)) & 0xffffe000U);
    }
    /* Below 2^-14 f16 has the multiples of 2^-24.  In that unit f32 has 14 bits after the point.
     */
    float whole = (float)(uint32_t)(co_f32_of(rest) * 0x1p24F + (float)(random >> 18) * 0x1p-14F);
    return co_f32_of(co_f32_bits(whole * 0x1p-24F) | (u & 0x80000000U));
}

void table_narrow_at_random(
    enum rt_dtype to, void *ret, const float *values, size_t n, uint64_t *random) {
    for (size_t i = 0; i < n; i++) {
        float f = dither(to, values[i], draw(random));
        co_put_u16(
            (unsigned char *)ret + 2 * i, to == RT_BF16 ? co_bf16_narrow(f) : co_f16_narrow(f));
    }
}
