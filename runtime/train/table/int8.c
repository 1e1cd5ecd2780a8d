/* Loops over blocks of int8.h.  Each is written once and compiled for each instruction set. */
#include "runtime/train/table/int8.h"

#include <math.h>
#include <string.h>

#include "common/bytes.h"
#include "common/half.h"
#include "common/isa.h"

enum { BLOCK = TABLE_INT8_BLOCK, INFINITE = 0x7f800000, SCALE_NAN = 0x7fc0 };

/* Adding it rounds a float of a magnitude up to 2^22 to an integer, which is then in its low bits.
 */
#define ROUNDER 0x1.8p23F

/* Scales are 0, or from where products with them are exact to where they are finite. */
#define SCALE_MIN 0x1p-100F
#define SCALE_MAX 0x1p121F

/* The least scale with which no value exceeds 127; most: bits of the largest magnitude. */
static inline uint16_t scale_of(uint32_t most) {
    float s = co_f32_of(most) * (1.0F / 127.0F);
    if (most >= INFINITE || s > SCALE_MAX) {
        return SCALE_NAN;
    }
    return s < SCALE_MIN ? 0 : (uint16_t)((co_f32_bits(s) + 0xffff) >> 16);
}

/* Rounds v [BLOCK], and takes what was rounded to away from it. */
#define LOOPS(set, attributes)                                                                     \
    attributes static uint16_t set##_round(signed char *restrict q, float *restrict v) {           \
        int32_t most = 0;                                                                          \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            int32_t bits = (int32_t)(co_f32_bits(v[i]) & 0x7fffffffU);                             \
            most = bits > most ? bits : most;                                                      \
        }                                                                                          \
        uint16_t scale = scale_of((uint32_t)most);                                                 \
        float s = co_bf16_widen(scale), by = scale == 0 || scale == SCALE_NAN ? 0 : 1 / s;         \
        if (scale == SCALE_NAN) {                                                                  \
            memset(q, 0, BLOCK);                                                                   \
            return scale;                                                                          \
        }                                                                                          \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            int32_t n = (int32_t)(co_f32_bits(v[i] * by + ROUNDER) - co_f32_bits(ROUNDER));        \
            q[i] = (signed char)n;                                                                 \
            v[i] -= (float)n * s;                                                                  \
        }                                                                                          \
        return scale;                                                                              \
    }                                                                                              \
    attributes static uint16_t set##_send(                                                         \
        signed char *restrict q, const float *restrict g, float *restrict rest) {                  \
        float v[BLOCK];                                                                            \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            v[i] = g[i] + rest[i];                                                                 \
        }                                                                                          \
        uint16_t scale = set##_round(q, v);                                                        \
        if (scale != SCALE_NAN) {                                                                  \
            memcpy(rest, v, sizeof(v));                                                            \
        }                                                                                          \
        return scale;                                                                              \
    }                                                                                              \
    attributes static uint16_t set##_follow(                                                       \
        signed char *restrict q, const float *restrict w, float *restrict known) {                 \
        float v[BLOCK];                                                                            \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            v[i] = w[i] - known[i];                                                                \
        }                                                                                          \
        uint16_t scale = set##_round(q, v);                                                        \
        float s = co_bf16_widen(scale);                                                            \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            known[i] += (float)q[i] * s;                                                           \
        }                                                                                          \
        return scale;                                                                              \
    }                                                                                              \
    attributes static void set##_widen(                                                            \
        float *restrict ret, const signed char *restrict q, float s) {                             \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            ret[i] = (float)q[i] * s;                                                              \
        }                                                                                          \
    }                                                                                              \
    attributes static void set##_add(float *restrict to, const signed char *restrict q, float s) { \
        for (int i = 0; i < BLOCK; i++) {                                                          \
            to[i] += (float)q[i] * s;                                                              \
        }                                                                                          \
    }
#define ROW(set)                                                                                   \
    { set##_send, set##_follow, set##_widen, set##_add }

LOOPS(plain, )

#if defined(__x86_64__)
LOOPS(avx2, __attribute__((target("avx2"))))
LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

static const struct {
    uint16_t (*send)(signed char *q, const float *g, float *rest);
    uint16_t (*follow)(signed char *q, const float *w, float *known);
    void (*widen)(float *ret, const signed char *q, float s);
    void (*add)(float *to, const signed char *q, float s);
} loops[] = {
    [CO_ISA_PLAIN] = ROW(plain),
#if defined(__x86_64__)
    [CO_ISA_AVX2] = ROW(avx2),
    [CO_ISA_AVX512] = ROW(avx512),
#endif
};

static size_t blocks_of(size_t n) {
    return (n + BLOCK - 1) / BLOCK;
}

/* Both directions that round: f(q, from, keep) for each block, the last one padded with zeros. */
static bool round_blocks(uint16_t (*f)(signed char *q, const float *from, float *keep), void *ret,
    const float *from, float *keep, size_t n) {
    unsigned char *scales = ret;
    signed char *q = (signed char *)scales + 2 * blocks_of(n);
    bool finite = true;
    for (size_t i = 0; i < n; i += BLOCK, scales += 2) {
        uint16_t scale = 0;
        if (n - i >= BLOCK) {
            scale = f(q + i, from + i, keep + i);
        } else {
            float last[2][BLOCK] = {{0}};
            signed char last_q[BLOCK];
            memcpy(last[0], from + i, (n - i) * sizeof(float));
            memcpy(last[1], keep + i, (n - i) * sizeof(float));
            scale = f(last_q, last[0], last[1]);
            memcpy(keep + i, last[1], (n - i) * sizeof(float));
            memcpy(q + i, last_q, n - i);
        }
        finite = finite && scale != SCALE_NAN;
        co_put_u16(scales, scale);
    }
    return finite;
}

void table_int8_send(void *ret, const float *g, float *rest, size_t n) {
    (void)round_blocks(loops[co_isa()].send, ret, g, rest, n);
}

bool table_int8_follow(void *ret, const float *w, float *known, size_t n) {
    return round_blocks(loops[co_isa()].follow, ret, w, known, n);
}

static void read_blocks(
    void (*f)(float *to, const signed char *q, float s), float *to, const void *in, size_t n) {
    const unsigned char *scales = in;
    const signed char *q = (const signed char *)scales + 2 * blocks_of(n);
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK, scales += 2) {
        f(to + i, q + i, co_bf16_widen(co_get_u16(scales)));
    }
    if (i < n) {
        float last[BLOCK] = {0};
        signed char last_q[BLOCK] = {0};
        memcpy(last, to + i, (n - i) * sizeof(float));
        memcpy(last_q, q + i, n - i);
        f(last, last_q, co_bf16_widen(co_get_u16(scales)));
        memcpy(to + i, last, (n - i) * sizeof(float));
    }
}

void table_int8_widen(float *ret, const void *in, size_t n) {
    read_blocks(loops[co_isa()].widen, ret, in, n);
}

void table_int8_add(float *to, const void *in, size_t n) {
    read_blocks(loops[co_isa()].add, to, in, n);
}

bool table_int8_small(const void *in, size_t n) {
    const unsigned char *scales = in;
    bool small = true;
    for (size_t i = 0; i < blocks_of(n); i++) {
        /* times -128, which no sender of ours writes */
        small = small && fabsf(co_bf16_widen(co_get_u16(scales + 2 * i))) < 0x1p33F;
    }
    return small;
}
