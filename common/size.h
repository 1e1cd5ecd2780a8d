/* Sums and products of sizes that come from files and peers.  They end at UINT64_MAX instead of
 * wrapping round, and no limit or length is that large: the caller, which compares the result,
 * refuses it. */
#pragma once

#include <stdint.h>

static inline uint64_t co_size_add(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t co_size_mul(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
