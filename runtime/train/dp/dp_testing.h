/* For tests: pseudo-random gradients that every rank can compute for all ranks. */
#pragma once

#include <math.h>

#include "runtime/train/coll/coll_testing.h"
#include "runtime/train/dp/dp.h"

static inline uint32_t tk_mix(uint32_t a, uint32_t b, uint32_t c) {
    uint64_t h = (((uint64_t)a << 32 | b) ^ (uint64_t)c << 17) * 0x9e3779b97f4a7c15U;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9U;
    return (uint32_t)(h >> 32);
}

/* Element `at` of a rank's gradient `which` in a step; in -1 .. 1. */
static inline float tk_value(uint32_t rank, uint32_t step, size_t which, size_t at) {
    uint32_t h = tk_mix(rank + 100 * step, (uint32_t)which, (uint32_t)at);
    return (float)h / 2147483648.0F - 1.0F;
}

/* Whether all ranks hold the same bits. */
static inline int tk_same(struct rt_group *g, const float *values, size_t n, struct co_err *err) {
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &values[i], sizeof(u));
        h = (h ^ u) * 0x100000001b3U;
    }
    int64_t own = (int64_t)(h >> 1), low = own, high = own;
    CO_TRY(rt_all_reduce(g, &own, &low, 1, RT_I64, RT_MIN, err));
    CO_TRY(rt_all_reduce(g, &own, &high, 1, RT_I64, RT_MAX, err));
    return low != high ? co_err_set(err, CO_INTERNAL, "ranks hold different bits") : 0;
}
