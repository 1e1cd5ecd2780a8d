/* Loops over one or two inputs.  Each stands here once, in plain C; the compiler makes of it
 * what an instruction set allows.  f16 alone is by hand: the compiler does not know F16C. */
#include "runtime/train/coll/reduce.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* Equal pointers are no dependency between iterations. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* without optimization it is only slow */
#define EACH(n) _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define EACH(n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

/* ---- plain C ---- */

/* A NaN wins, whatever the order. */
#define SUM(T, x, y) ((T)((x) + (y)))
#define PROD(T, x, y) ((T)((x) * (y)))
#define MAX(T, x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MIN(T, x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

#define PAIR(type, T, op, OP)                                                                      \
    INLINE void body_##op##_##type(void *out, const void *a, const void *b, size_t n) {            \
        T *o = out;                                                                                \
        const T *x = a, *y = b;                                                                    \
        EACH(n) {                                                                                  \
            o[i] = OP(T, x[i], y[i]);                                                              \
        }                                                                                          \
    }
#define SCALE(type, T)                                                                             \
    INLINE void body_scale_##type(void *values, double factor, size_t n) {                         \
        T *v = values;                                                                             \
        EACH(n) {                                                                                  \
            v[i] *= (T)factor;                                                                     \
        }                                                                                          \
    }
/* Sums and products of integers wrap: in unsigned. */
#define PAIRS(type, T, U)                                                                          \
    PAIR(type, U, sum, SUM)                                                                        \
    PAIR(type, U, prod, PROD)                                                                      \
    PAIR(type, T, max, MAX)                                                                        \
    PAIR(type, T, min, MIN)

PAIRS(f32, float, float)
PAIRS(f64, double, double)
PAIRS(i64, int64_t, uint64_t)
PAIRS(i32, int32_t, uint32_t)
PAIRS(u8, uint8_t, uint8_t)
SCALE(f32, float)
SCALE(f64, double)

INLINE uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

INLINE float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

INLINE void body_widen_bf16(float *out, const uint16_t *in, size_t n) {
    EACH(n) {
        out[i] = float_of((uint32_t)in[i] << 16);
    }
}

/* To nearest, ties to even; NaN stays NaN. */
INLINE void body_narrow_bf16(uint16_t *out, const float *in, size_t n) {
    EACH(n) {
        uint32_t u = bits_of(in[i]);
        uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1)) >> 16;
        uint32_t nan = (u >> 16) | 0x40;
        out[i] = (uint16_t)((u & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
    }
}

INLINE float widen_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffU;
    if (rest >= 0x7c00) { /* infinity, NaN (made quiet) */
        uint32_t quiet = rest > 0x7c00 ? 0x400000U : 0;
        return float_of(sign | 0x7f800000U | (rest & 0x3ffU) << 13 | quiet);
    }
    if (rest >= 0x400) {
        return float_of(sign | ((rest << 13) + (112U << 23)));
    }
    /* Subnormal: rest * 2^-24. */
    return float_of(sign | bits_of((float)rest * 0x1p-24F));
}

/* To nearest, ties to even. */
INLINE uint16_t narrow_f16(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000U, rest = u & 0x7fffffffU;
    if (rest > 0x7f800000U) {
        return (uint16_t)(sign | 0x7e00U | (rest >> 13 & 0x3ffU));
    }
    if (rest >= 0x47800000U) { /* 65536 and above */
        return (uint16_t)(sign | 0x7c00U);
    }
    if (rest < 0x38800000U) { /* below 2^-14: the sum's low bits are the rounded subnormal */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5F) - bits_of(0.5F)));
    }
    rest += 0xfffU + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest >> 13) - (112U << 10)));
}

INLINE void body_widen_f16(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = widen_f16(in[i]);
    }
}

INLINE void body_narrow_f16(uint16_t *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = narrow_f16(in[i]);
    }
}

/* ---- once per instruction set ---- */

#define PAIR_FN(set, attributes, op, type)                                                         \
    attributes static void set##_##op##_##type(                                                    \
        void *out, const void *a, const void *b, size_t n) {                                       \
        body_##op##_##type(out, a, b, n);                                                          \
    }
#define PAIR_FNS(set, attributes, type)                                                            \
    PAIR_FN(set, attributes, sum, type)                                                            \
    PAIR_FN(set, attributes, prod, type)                                                           \
    PAIR_FN(set, attributes, max, type)                                                            \
    PAIR_FN(set, attributes, min, type)
#define SCALE_FN(set, attributes, type)                                                            \
    attributes static void set##_scale_##type(void *values, double factor, size_t n) {             \
        body_scale_##type(values, factor, n);                                                      \
    }
#define CONVERT_FNS(set, attributes, type)                                                         \
    attributes static void set##_widen_##type(float *out, const uint16_t *in, size_t n) {          \
        body_widen_##type(out, in, n);                                                             \
    }                                                                                              \
    attributes static void set##_narrow_##type(uint16_t *out, const float *in, size_t n) {         \
        body_narrow_##type(out, in, n);                                                            \
    }
#define PAIR_ROW(set, type)                                                                        \
    { set##_sum_##type, set##_prod_##type, set##_max_##type, set##_min_##type }
#define KERNELS(set, attributes, f16)                                                              \
    PAIR_FNS(set, attributes, f32)                                                                 \
    PAIR_FNS(set, attributes, f64)                                                                 \
    PAIR_FNS(set, attributes, i64)                                                                 \
    PAIR_FNS(set, attributes, i32)                                                                 \
    PAIR_FNS(set, attributes, u8)                                                                  \
    SCALE_FN(set, attributes, f32)                                                                 \
    SCALE_FN(set, attributes, f64)                                                                 \
    CONVERT_FNS(set, attributes, bf16)                                                             \
    static const struct rt_kernels set = {.name = #set,                                            \
        .pair = {[RT_F32] = PAIR_ROW(set, f32),                                                    \
            [RT_F64] = PAIR_ROW(set, f64),                                                         \
            [RT_I64] = PAIR_ROW(set, i64),                                                         \
            [RT_I32] = PAIR_ROW(set, i32),                                                         \
            [RT_U8] = PAIR_ROW(set, u8)},                                                          \
        .scale = {[RT_F32] = set##_scale_f32, [RT_F64] = set##_scale_f64},                         \
        .widen = {[RT_F16] = f16##_widen_f16, [RT_BF16] = set##_widen_bf16},                       \
        .narrow = {[RT_F16] = f16##_narrow_f16, [RT_BF16] = set##_narrow_bf16}};

CONVERT_FNS(plain, , f16)
KERNELS(plain, , plain)

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,f16c")))

AVX2 static void f16c_widen_f16(float *out, const uint16_t *in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h;
        memcpy(&h, in + i, sizeof(h));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(h));
    }
    body_widen_f16(out + i, in + i, n - i);
}

AVX2 static void f16c_narrow_f16(uint16_t *out, const float *in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
        memcpy(out + i, &h, sizeof(h));
    }
    body_narrow_f16(out + i, in + i, n - i);
}

KERNELS(avx2, AVX2, f16c)
KERNELS(avx512, AVX512, f16c)

/* Clang's __builtin_cpu_supports does not know it. */
static bool has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const struct rt_kernels *rt_kernels_get(uint32_t i) {
    const struct rt_kernels *can[4] = {NULL};
    uint32_t n = 0;
    bool two = __builtin_cpu_supports("avx2") && has_f16c();
    if (two && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        can[n++] = &avx512;
    }
    if (two) {
        can[n++] = &avx2;
    }
    can[n++] = &plain;
    return i < n ? can[i] : NULL;
}
#else
const struct rt_kernels *rt_kernels_get(uint32_t i) {
    return i == 0 ? &plain : NULL;
}
#endif
