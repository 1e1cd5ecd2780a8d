/* Conversions of rows, whose values are little-endian on any host. */
#include "runtime/train/table/narrow.h"

#include "common/bytes.h"
#include "common/half.h"
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
    return co_err_set(err, CO_INVALID, "%s \"%.40s\" is not f32, f16 or bf16", what, text);
}

const char *table_storage_name(enum rt_dtype t) {
    size_t i = 0;
    while (i + 1 < CO_ARRAY_LEN(storages) && storages[i].type != t) {
        i++;
    }
    return storages[i].name;
}

static enum co_half half_of(enum rt_dtype t) {
    return t == RT_BF16 ? CO_HALF_BF16 : CO_HALF_F16;
}

void table_widen(enum rt_dtype from, float *ret, const void *values, size_t n) {
    if (from == RT_F32) {
        co_copy_f32(ret, values, n);
        return;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    co_half_widen(half_of(from), ret, values, n);
#else
    for (size_t i = 0; i < n; i++) {
        uint16_t h = co_get_u16((const unsigned char *)values + 2 * i);
        co_half_widen(half_of(from), ret + i, &h, 1);
    }
#endif
}

void table_narrow(enum rt_dtype to, void *ret, const float *values, size_t n) {
    if (to == RT_F32) {
        co_copy_f32(ret, values, n);
        return;
    }
    co_half_narrow(half_of(to), ret, values, n);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    uint16_t *h = ret;
    for (size_t i = 0; i < n; i++) {
        co_put_u16((unsigned char *)&h[i], h[i]);
    }
#endif
}

/* In both types the largest number is one bit pattern below infinity. */
static uint16_t within(enum rt_dtype to, uint16_t half, float value) {
    uint16_t infinity = to == RT_BF16 ? 0x7f80 : 0x7c00;
    bool beyond = (half & 0x7fff) == infinity && (co_f32_bits(value) & 0x7fffffffU) != 0x7f800000U;
    return (uint16_t)(half - beyond);
}

void table_narrow_within(enum rt_dtype to, void *ret, const float *values, size_t n) {
    table_narrow(to, ret, values, n);
    for (size_t i = 0; to != RT_F32 && i < n; i++) {
        unsigned char *at = (unsigned char *)ret + 2 * i;
        co_put_u16(at, within(to, co_get_u16(at), values[i]));
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
        uint16_t half = to == RT_BF16 ? co_bf16_narrow(f) : co_f16_narrow(f);
        co_put_u16((unsigned char *)ret + 2 * i, within(to, half, f));
    }
}
