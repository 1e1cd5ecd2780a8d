/* Floats in one byte each: blocks of TABLE_INT8_BLOCK values share a scale, a bf16, and a value is
 * scale * q, q from -127 to 127.  A scale has 8 bits, so that product is exact: whoever adds it
 * gets the same float on any processor.
 *
 *     scales, little-endian [blocks]   q [n]
 *
 * Who sends keeps what rounding has left, and adds it to what it sends next (error feedback,
 * Karimireddy et al. 2019, arXiv:1901.09847): the sum of all that was sent is never further than
 * half a scale from the sum of the values.  A block with NaN or Inf has NaN as its scale.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TABLE_INT8_BLOCK = 64 };

/* Of n values. */
static inline size_t table_int8_bytes(size_t n) {
    return n + (n + TABLE_INT8_BLOCK - 1) / TABLE_INT8_BLOCK * 2;
}

/* Writes g + rest, and leaves in rest [n] what that lacks.  A block that is not finite leaves its
 * rest as it was. */
void table_int8_send(void *ret, const float *g, float *rest, size_t n);
/* Writes the difference between w and known, and adds to known what a receiver adds by
 * table_int8_add.  False: a difference is not finite; known is then of no use. */
bool table_int8_follow(void *ret, const float *w, float *known, size_t n);
void table_int8_widen(float *ret, const void *in, size_t n);
void table_int8_add(float *to, const void *in, size_t n);
/* Whether all values are below 2^40 by their scales alone; false: one may not be. */
bool table_int8_small(const void *in, size_t n);
