/* Element types and reductions: out[i] = in[0][i] op in[1][i] op ... in this order.
 *
 *     reduce.c    what to do with how many inputs, block by block
 *     kernels.c   the loops over two inputs, once per instruction set
 *
 * The plain loops are the reference of the others: same bits.  Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/rt.h"

/* n elements; out may be a or b, otherwise they do not overlap. */
typedef void (*rt_pair_fn)(void *out, const void *a, const void *b, size_t n);
typedef void (*rt_scale_fn)(void *values, double factor, size_t n);
typedef void (*rt_widen_fn)(float *out, const uint16_t *in, size_t n);
typedef void (*rt_narrow_fn)(uint16_t *out, const float *in, size_t n);

/* RT_AVG is a sum and a factor; f16 and bf16 go through f32. */
struct rt_kernels {
    const char *name; /* "avx512", "avx2", "plain" */
    rt_pair_fn pair[RT_DTYPES][RT_AVG];
    rt_scale_fn scale[RT_DTYPES];
    rt_widen_fn widen[RT_DTYPES];
    rt_narrow_fn narrow[RT_DTYPES];
};

/* The i-th that this machine can run, the fastest first, the plain one last; NULL: no more. */
const struct rt_kernels *rt_kernels_get(uint32_t i);

/* out [n] of n_in inputs [n] each, n_in >= 1; out may be one of them.  factor: what RT_AVG
 * multiplies the sum with (1 / number of ranks), not looked at otherwise. */
void rt_reduce_n(const struct rt_kernels *k, enum rt_dtype dtype, enum rt_op op, double factor,
    void *out, const void *const *in, uint32_t n_in, size_t n);
