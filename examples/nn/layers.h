/* Layers as functions over plain pointers: forward, and backward from the gradient of the output
 * to the gradients of weights and input.  They own no parameters or state and allocate nothing.
 * Letters: B batch, I inputs, O outputs; matrices row-major; weights (I, O), so that y = x w + b.
 * Only the linear layers need an engine; call them in the engine's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "examples/nn/engine.h"

/* Is added inside both logarithms of the log loss, which limits it to about 9.2. */
#define NN_LOG_LOSS_EPSILON 1e-4F

struct nn_linear {
    size_t batch, in, out;
    bool relu; /* forward: y = max(x w + b, 0) */
};

/* y (B, O) = x (B, I) w (I, O) + b (O). */
CO_MUST_CHECK int nn_linear_forward(struct nn_engine *e, const struct nn_linear *l, const float *x,
    const float *w, const float *b, float *y, struct co_err *err);

/* From dy (B, O), the gradient before the relu: dw (I, O) and db (O). */
CO_MUST_CHECK int nn_linear_backward_weights(struct nn_engine *e, const struct nn_linear *l,
    const float *x, const float *dy, float *dw, float *db, struct co_err *err);
/* The same from the gradient of y (B, O), the output of the relu: first sets dy = 0 in place where
 * y is 0, in the pass over dy that db needs anyway. */
CO_MUST_CHECK int nn_linear_backward_relu(struct nn_engine *e, const struct nn_linear *l,
    const float *x, const float *y, float *dy, float *dw, float *db, struct co_err *err);
/* dx (B, I) = dy (B, O) w^T. */
CO_MUST_CHECK int nn_linear_backward_input(struct nn_engine *e, const struct nn_linear *l,
    const float *w, const float *dy, float *dx, struct co_err *err);

/* p (n) = 1 / (1 + exp(-z)). */
void nn_sigmoid_forward(size_t n, const float *z, float *p);

/* Mean over n of -y log(p + eps) - (1 - y) log(1 - p + eps); y is 0 or 1. */
double nn_log_loss(size_t n, const float *p, const float *y);
/* The gradient dz (n) of that mean with respect to z, where p = sigmoid(z). */
void nn_log_loss_backward(size_t n, const float *p, const float *y, float *dz);
