/* Conversions between f32 and the 16-bit floats IEEE 754 binary16 (f16) and bfloat16 (bf16), one
 * number at a time and in arrays.  Rounding is to nearest, ties to even; NaN stays NaN.  Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CO_HALF_INLINE static inline __attribute__((always_inline))

CO_HALF_INLINE uint32_t co_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

CO_HALF_INLINE float co_f32_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

CO_HALF_INLINE float co_bf16_widen(uint16_t h) {
    return co_f32_of((uint32_t)h << 16);
}

CO_HALF_INLINE uint16_t co_bf16_narrow(float f) {
    uint32_t u = co_f32_bits(f);
    uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1)) >> 16;
    uint32_t nan = (u >> 16) | 0x40;
    return (uint16_t)((u & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

CO_HALF_INLINE float co_f16_widen(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffU;
    if (rest >= 0x7c00) { /* infinity, NaN (made quiet) */
        uint32_t quiet = rest > 0x7c00 ? 0x400000U : 0;
        return co_f32_of(sign | 0x7f800000U | (rest & 0x3ffU) << 13 | quiet);
    }
    if (rest >= 0x400) {
        return co_f32_of(sign | ((rest << 13) + (112U << 23)));
    }
    /* Subnormal: rest * 2^-24. */
    return co_f32_of(sign | co_f32_bits((float)rest * 0x1p-24F));
}

CO_HALF_INLINE uint16_t co_f16_narrow(float f) {
    uint32_t u = co_f32_bits(f), sign = u >> 16 & 0x8000U, rest = u & 0x7fffffffU;
    if (rest > 0x7f800000U) {
        return (uint16_t)(sign | 0x7e00U | (rest >> 13 & 0x3ffU));
    }
    if (rest >= 0x47800000U) { /* 65536 and above */
        return (uint16_t)(sign | 0x7c00U);
    }
    if (rest < 0x38800000U) { /* below 2^-14: the sum's low bits are the rounded subnormal */
        return (uint16_t)(sign | (co_f32_bits(co_f32_of(rest) + 0.5F) - co_f32_bits(0.5F)));
    }
    rest += 0xfffU + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest >> 13) - (112U << 10)));
}

enum co_half { CO_HALF_F16, CO_HALF_BF16 };

/* Arrays, by the best instructions that co_isa allows.  Halves may lie at any address. */
void co_half_widen(enum co_half from, float *ret, const void *in, size_t n);
void co_half_narrow(enum co_half to, void *ret, const float *values, size_t n);
