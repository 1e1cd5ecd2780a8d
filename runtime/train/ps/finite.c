/* Finds NaN and infinite values, whose exponents are all ones.  The loop is written once and
 * compiled for each instruction set.  Any thread. */
#include "runtime/train/ps/finite.h"

#include <stdint.h>
#include <string.h>

#include "common/isa.h"

/* Compilers vectorize loops of a constant length even at low optimization levels, so this works in
 * blocks; in long ones as long as it can, since adding up the lanes of a vector takes as long as
 * some sixty values. */
enum { LONG = 1024, SHORT = 64 };

/* One more in an exponent of all ones carries into the sign bit; in any other it does not. */
#define LOOP(set, attributes)                                                                      \
    __attribute__((always_inline))                                                                 \
    attributes static inline uint32_t set##_block(const float *g, size_t n) {                      \
        uint32_t seen = 0;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint32_t bits;                                                                         \
            memcpy(&bits, g + i, sizeof(bits));                                                    \
            seen |= (bits & 0x7f800000U) + 0x00800000U;                                            \
        }                                                                                          \
        return seen >> 31;                                                                         \
    }                                                                                              \
    attributes static bool set##_finite(const float *g, size_t n) {                                \
        uint32_t bad = 0;                                                                          \
        for (; n >= LONG && !bad; n -= LONG, g += LONG) {                                          \
            bad = set##_block(g, LONG);                                                            \
        }                                                                                          \
        for (; n >= SHORT && !bad; n -= SHORT, g += SHORT) {                                       \
            bad = set##_block(g, SHORT);                                                           \
        }                                                                                          \
        return !bad && !set##_block(g, n);                                                         \
    }

LOOP(plain, )

#if defined(__x86_64__)
LOOP(avx2, __attribute__((target("avx2"))))
LOOP(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

static bool (*const loops[])(const float *g, size_t n) = {
    [CO_ISA_PLAIN] = plain_finite,
#if defined(__x86_64__)
    [CO_ISA_AVX2] = avx2_finite,
    [CO_ISA_AVX512] = avx512_finite,
#endif
};

bool ps_all_finite_f32(const float *g, size_t n) {
    return loops[co_isa()](g, n);
}
