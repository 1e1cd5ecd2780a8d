/* A tower: a stack of fully connected layers over one batch.  Hidden layers have relu; the output
 * layer has any number of outputs and no activation.  The caller provides the parameters as one
 * vector: for each layer weights (in, out), then bias (out).
 * Letters: B batch, I inputs, O outputs, P floats of all layers.  Belongs to its engine's thread.
 */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "examples/nn/engine.h"

enum { NN_TOWER_HIDDEN_MAX = 6 };

struct nn_tower_shape {
    size_t in, hidden[NN_TOWER_HIDDEN_MAX], n_hidden, out;
};

struct nn_tower;

/* Makes a tower for batches of up to batch_max; the caller owns *ret_t, which uses e.
 * CO_NORESOURCE: it would be too large. */
CO_MUST_CHECK int nn_tower_new(struct nn_engine *e, const struct nn_tower_shape *s,
    size_t batch_max, struct nn_tower **ret_t, struct co_err *err);
void nn_tower_free(struct nn_tower *t); /* NULL is fine */
CO_DEFINE_CLEANUP(struct nn_tower *, nn_tower_free)

/* x (B, I), params (P) -> y (B, O). */
CO_MUST_CHECK int nn_tower_forward(struct nn_tower *t, size_t batch, const float *x,
    const float *params, float *y, struct co_err *err);
/* Call it after the forward of the same x and params.  Computes from dy (B, O) grads (P) and
 * dx (B, wanted), the gradient of the first `wanted` inputs. */
CO_MUST_CHECK int nn_tower_backward(struct nn_tower *t, size_t batch, const float *x,
    const float *params, const float *dy, float *grads, size_t wanted, float *dx,
    struct co_err *err);

/* For tests: hidden layer i (B, hidden[i]) of the last forward. */
const float *nn_tower_hidden(const struct nn_tower *t, size_t i);
