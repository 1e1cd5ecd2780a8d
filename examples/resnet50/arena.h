/* Plans one block of memory for values with known lifetimes: two values may share bytes if they are
 * never needed at the same time.  Only computes offsets; allocates nothing. */
#pragma once

#include <stddef.h>

enum { RN_ARENA_ALIGN = 64 };

struct rn_span {
    size_t bytes;
    int first, last; /* times at which it is needed, both included */
    size_t offset;   /* written by rn_arena_plan; a multiple of RN_ARENA_ALIGN */
};

static inline size_t rn_arena_aligned(size_t bytes) {
    return (bytes + RN_ARENA_ALIGN - 1) / RN_ARENA_ALIGN * RN_ARENA_ALIGN;
}

/* Sets the offsets and returns the size of the block. */
size_t rn_arena_plan(struct rn_span *spans, size_t n);
