/* Single-precision matrix products on the CPU, by oneDNN.  Making a primitive costs as much as a
 * hundred small products, so primitives are kept by shape, up to a fixed number; then a new one
 * replaces the oldest.  Knows nothing of layers, gradients or models.
 * An engine belongs to the thread that made it.  oneDNN uses as many threads inside a product as
 * OMP_NUM_THREADS says, or nn_engine_threads, or one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct nn_engine;

/* c (m, n) = op(a) op(b) [+ bias (n)] [relu], all row-major without gaps.
 * op(a) is (m, k): a itself, or with a_transposed a stored (k, m).
 * op(b) is (k, n): b itself, or with b_transposed b stored (n, k). */
struct nn_product {
    size_t m, n, k;
    bool a_transposed, b_transposed;
    bool bias, relu;
};

/* The caller owns *ret_e.  CO_INTERNAL: oneDNN cannot start. */
CO_MUST_CHECK int nn_engine_new(struct nn_engine **ret_e, struct co_err *err);
void nn_engine_free(struct nn_engine *e); /* NULL is fine */
CO_DEFINE_CLEANUP(struct nn_engine *, nn_engine_free)

/* Computes c.  bias is read only if p->bias is set.  CO_INTERNAL names the shape and oneDNN's
 * error; c is then undefined. */
CO_MUST_CHECK int nn_engine_multiply(struct nn_engine *e, const struct nn_product *p,
    const float *a, const float *b, const float *bias, float *c, struct co_err *err);

/* Paddle 0.8's trainer_count, PADDLE_INIT_TRAINER_COUNT; 0: not given. */
size_t nn_engine_threads(void);

/* The number of primitives made so far, for tests of the cache. */
size_t nn_engine_made(const struct nn_engine *e);
