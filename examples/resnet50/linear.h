/* A fully connected layer in f32, forward and backward:
 *
 *     y (batch, out) = x (batch, in) w (in, out) + b (out) */
#pragma once

#include "examples/resnet50/dnn.h"

struct rn_linear {
    const char *name;
    dnnl_memory_desc_t x, w, b, y;
    struct rn_call forward, backward_in, backward_gradient;
};

struct rn_linear_memory {
    float *x, *w, *b, *y, *d_x, *d_w, *d_b, *d_y;
};

/* Call rn_linear_done also after a failure. */
CO_MUST_CHECK int rn_linear_init(struct rn_linear *l, const struct rn_dnn *d,
    const struct rn_net *net, const struct rn_op *op, struct co_err *err);
CO_MUST_CHECK int rn_linear_bind(struct rn_linear *l, const struct rn_dnn *d,
    const struct rn_linear_memory *m, struct co_err *err);
void rn_linear_done(struct rn_linear *l);
CO_MUST_CHECK int rn_linear_backward(
    const struct rn_linear *l, const struct rn_dnn *d, struct co_err *err);
