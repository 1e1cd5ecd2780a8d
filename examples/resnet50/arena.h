/* Plans one piece of memory for values whose lifetimes are known: two that are needed at no common
 * time may have the same place.  Pure. */
#pragma once

#include <stddef.h>

enum { RN_ARENA_ALIGN = 64 };

struct rn_span {
    size_t bytes;
    int first, last; /* times at which it is needed, both included */
    size_t offset;   /* written by rn_arena_plan; a multiple of RN_ARENA_ALIGN */
};

/* Places them and returns how many bytes all need together. */
size_t rn_arena_plan(struct rn_span *spans, size_t n);

/* The least that any plan needs: the most bytes that are alive at one time. */
size_t rn_arena_bound(const struct rn_span *spans, size_t n);
