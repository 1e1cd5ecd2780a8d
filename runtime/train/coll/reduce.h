/* Element types and reductions: out[i] = in[0][i] op in[1][i] op ... in this order.
 *
 *     reduce.c    any number of inputs, block by block
 *     kernels.c   the loops over two inputs, for each instruction set
 *
 * All instruction sets give the same bits as the plain loops.  No state; call from any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/half.h"
#include "runtime/rt.h"

/* The operation for n elements.  out may equal a or b; otherwise the buffers do not overlap. */
typedef void (*coll_pair_fn)(void *out, const void *a, const void *b, size_t n);
typedef void (*coll_scale_fn)(void *values, double factor, size_t n);

/* The loops for one instruction set.  RT_AVG is a sum and then a scale; f16 and bf16 are widened
 * to f32, reduced, and narrowed (common/half.h). */
struct coll_kernels {
    const char *name; /* "avx512", "avx2", "plain" */
    coll_pair_fn pair[RT_DTYPES][RT_AVG];
    coll_scale_fn scale[RT_DTYPES];
};

/* The i-th set of loops that this machine can run: the fastest first, plain C last, then NULL. */
const struct coll_kernels *coll_kernels_get(uint32_t i);

/* dtype: RT_F16 or RT_BF16. */
static inline enum co_half coll_half(enum rt_dtype dtype) {
    return dtype == RT_BF16 ? CO_HALF_BF16 : CO_HALF_F16;
}

/* Reduces n_in inputs (at least one) of n elements each into out, which may be one of them.
 * factor: RT_AVG multiplies the sum by it (1 / number of ranks); other operations ignore it. */
void coll_reduce_n(const struct coll_kernels *k, enum rt_dtype dtype, enum rt_op op, double factor,
    void *out, const void *const *in, uint32_t n_in, size_t n);
