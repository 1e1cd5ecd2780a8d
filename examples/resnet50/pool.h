/* The two poolings, forward and backward. */
#pragma once

#include "examples/resnet50/dnn.h"

struct rn_max_pool {
    const char *name;
    dnnl_memory_desc_t in, out, workspace;
    struct rn_call forward, backward;
    size_t workspace_bytes;
};

struct rn_max_pool_memory {
    void *in, *out, *d_in, *d_out, *workspace;
};

/* Call rn_max_pool_done also after a failure. */
CO_MUST_CHECK int rn_max_pool_init(struct rn_max_pool *p, const struct rn_dnn *d,
    const struct rn_net *net, const struct rn_op *op, struct co_err *err);
CO_MUST_CHECK int rn_max_pool_bind(struct rn_max_pool *p, const struct rn_dnn *d,
    const struct rn_max_pool_memory *m, struct co_err *err);
void rn_max_pool_done(struct rn_max_pool *p);

/* The mean over all pixels: x in blocks of lanes, y (batch, channels) in f32. */
struct rn_mean_pool {
    enum rn_type type;
    size_t lanes, batch, channels, pixels;
    const void *x;
    float *y;
    void *d_x;
    const float *d_y;
};

void rn_mean_pool_forward(const struct rn_mean_pool *p);
void rn_mean_pool_backward(const struct rn_mean_pool *p);
