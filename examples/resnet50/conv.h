/* A convolution, forward and backward.  Its weights have the layout that oneDNN prefers for the
 * weights' gradient.  The other two passes read a copy if they prefer another layout, or bf16. */
#pragma once

#include "examples/resnet50/dnn.h"

/* The memory of its values; NULL for those that are not needed. */
struct rn_conv_memory {
    float *weights, *gradient;
    void *in, *out, *d_in, *d_out;
    void *in_copy, *forward_copy, *backward_copy; /* see the sizes below */
};

struct rn_conv {
    const char *name;
    bool first; /* of the network: it reads f32 images, whose gradient is not needed */
    dnnl_memory_desc_t master, plain; /* layouts of the f32 weights: in memory, in a checkpoint */
    dnnl_memory_desc_t in, in_wanted, out, forward_weights, backward_weights;
    struct rn_call in_reorder, to_forward, to_backward, forward, backward_in, backward_gradient;
    /* Sizes of the weights and of the copies; 0: no copy is needed. */
    size_t weights_bytes, in_copy_bytes, forward_copy_bytes, backward_copy_bytes;
};

/* Chooses layouts and makes the primitives.  CO_UNSUPPORTED: oneDNN has none for the type on this
 * processor.  Call rn_conv_done also after a failure. */
CO_MUST_CHECK int rn_conv_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err);
CO_MUST_CHECK int rn_conv_bind(
    struct rn_conv *c, const struct rn_dnn *d, const struct rn_conv_memory *m, struct co_err *err);
void rn_conv_done(struct rn_conv *c);

CO_MUST_CHECK int rn_conv_forward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
CO_MUST_CHECK int rn_conv_backward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
