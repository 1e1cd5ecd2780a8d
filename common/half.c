/* Arrays of 16-bit floats.  Each loop is written once and compiled for each instruction set; only
 * f16 uses intrinsics, as compilers do not vectorize its conversions. */
#include "common/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/isa.h"

#define LOOPS(set, attributes, type)                                                               \
    attributes static void set##_widen_##type(                                                     \
        float *restrict ret, const unsigned char *restrict in, size_t n) {                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint16_t h;                                                                            \
            memcpy(&h, in + 2 * i, sizeof(h));                                                     \
            ret[i] = co_##type##_widen(h);                                                         \
        }                                                                                          \
    }                                                                                              \
    attributes static void set##_narrow_##type(                                                    \
        unsigned char *restrict out, const float *restrict values, size_t n) {                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint16_t h = co_##type##_narrow(values[i]);                                            \
            memcpy(out + 2 * i, &h, sizeof(h));                                                    \
        }                                                                                          \
    }
#define ROW(f16, bf16)                                                                             \
    {                                                                                              \
        {f16##_widen_f16, f16##_narrow_f16}, {                                                     \
            bf16##_widen_bf16, bf16##_narrow_bf16                                                  \
        }                                                                                          \
    }

LOOPS(plain, , f16)
LOOPS(plain, , bf16)

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,f16c")))

LOOPS(avx2, AVX2, bf16)
LOOPS(avx512, AVX512, bf16)

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

static const struct {
    void (*widen)(float *ret, const unsigned char *in, size_t n);
    void (*narrow)(unsigned char *out, const float *values, size_t n);
} loops[][2] = {
    [CO_ISA_PLAIN] = ROW(plain, plain),
#if defined(__x86_64__)
    [CO_ISA_AVX2] = ROW(avx2, avx2),
    [CO_ISA_AVX512] = ROW(avx2, avx512),
#endif
};

void co_half_widen(enum co_half from, float *ret, const void *in, size_t n) {
    loops[co_isa()][from].widen(ret, in, n);
}

void co_half_narrow(enum co_half to, void *ret, const float *values, size_t n) {
    loops[co_isa()][to].narrow(ret, values, n);
}
