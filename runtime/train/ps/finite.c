/* Finds NaN and infinite values, whose exponents are all ones, and large ones.  The loop is written
 * once and compiled for each instruction set.  Any thread. */
#include "runtime/train/ps/finite.h"

#include <stdint.h>
#include <string.h>

#include "common/isa.h"

/* Compilers vectorize loops of a constant length even at low optimization levels, so this works in
 * blocks; in long ones as long as it can, since adding up the lanes of a vector takes as long as
 * some sixty values. */
enum { LONG = 1024, SHORT = 64 };

/* Added to the bits of a value's exponent, it carries into the sign bit where that is `least` or
 * more. */
#define CARRY(least) ((256U - (least)) << 23)
enum { NONE = 255 /* NaN and infinity */, LARGE = 127 + 40 };

#define LOOP(set, attributes)                                                                      \
    __attribute__((always_inline))                                                                 \
    attributes static inline uint32_t set##_block(const float *g, size_t n, uint32_t carry) {      \
        uint32_t seen = 0;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint32_t bits;                                                                         \
            memcpy(&bits, g + i, sizeof(bits));                                                    \
            seen |= (bits & 0x7f800000U) + carry;                                                  \
        }                                                                                          \
        return seen >> 31;                                                                         \
    }                                                                                              \
    attributes static bool set##_below(const float *g, size_t n, uint32_t carry) {                 \
        uint32_t bad = 0;                                                                          \
        for (; n >= LONG && !bad; n -= LONG, g += LONG) {                                          \
            bad = set##_block(g, LONG, carry);                                                     \
        }                                                                                          \
        for (; n >= SHORT && !bad; n -= SHORT, g += SHORT) {                                       \
            bad = set##_block(g, SHORT, carry);                                                    \
        }                                                                                          \
        return !bad && !set##_block(g, n, carry);                                                  \
    }

LOOP(plain, )

#if defined(__x86_64__)
LOOP(avx2, __attribute__((target("avx2"))))
LOOP(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

static bool (*const loops[])(const float *g, size_t n, uint32_t carry) = {
    [CO_ISA_PLAIN] = plain_below,
#if defined(__x86_64__)
    [CO_ISA_AVX2] = avx2_below,
    [CO_ISA_AVX512] = avx512_below,
#endif
};

bool ps_all_finite_f32(const float *g, size_t n) {
    return loops[co_isa()](g, n, CARRY(NONE));
}

bool ps_all_small_f32(const float *g, size_t n) {
    return loops[co_isa()](g, n, CARRY(LARGE));
}
