/* The inner loops of reductions.  Each loop is written once, in plain C, and compiled once for each
 * instruction set; the compiler vectorizes it. */
#include "common/isa.h"
#include "runtime/train/coll/reduce.h"

#define INLINE static inline __attribute__((always_inline))
/* `out` may equal an input, which is no dependency between iterations; the compiler must know that
 * to vectorize the loop. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* without optimization it is only slow */
#define EACH(n) _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define EACH(n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

/* ---- plain C ---- */

/* With a NaN as either operand, max and min give a NaN. */
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
/* Sums and products of integers wrap around, so they are computed in the unsigned type U. */
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
#define PAIR_ROW(set, type)                                                                        \
    { set##_sum_##type, set##_prod_##type, set##_max_##type, set##_min_##type }
#define KERNELS(set, attributes)                                                                   \
    PAIR_FNS(set, attributes, f32)                                                                 \
    PAIR_FNS(set, attributes, f64)                                                                 \
    PAIR_FNS(set, attributes, i64)                                                                 \
    PAIR_FNS(set, attributes, i32)                                                                 \
    PAIR_FNS(set, attributes, u8)                                                                  \
    SCALE_FN(set, attributes, f32)                                                                 \
    SCALE_FN(set, attributes, f64)                                                                 \
    static const struct coll_kernels set = {.name = #set,                                          \
        .pair = {[RT_F32] = PAIR_ROW(set, f32),                                                    \
            [RT_F64] = PAIR_ROW(set, f64),                                                         \
            [RT_I64] = PAIR_ROW(set, i64),                                                         \
            [RT_I32] = PAIR_ROW(set, i32),                                                         \
            [RT_U8] = PAIR_ROW(set, u8)},                                                          \
        .scale = {[RT_F32] = set##_scale_f32, [RT_F64] = set##_scale_f64}};

KERNELS(plain, )

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

KERNELS(avx2, AVX2)
KERNELS(avx512, AVX512)

static const struct coll_kernels *const forms[] = {
    [CO_ISA_PLAIN] = &plain, [CO_ISA_AVX2] = &avx2, [CO_ISA_AVX512] = &avx512};
#else
static const struct coll_kernels *const forms[] = {[CO_ISA_PLAIN] = &plain};
#endif

const struct coll_kernels *coll_kernels_get(uint32_t i) {
    uint32_t best = co_isa();
    return i <= best ? forms[best - i] : NULL;
}
