/* A convolution, forward and backward.  Its weights lie as its gradient's primitive likes them;
 * the other two passes read a copy in their own layout where they like another (or bf16). */
#pragma once

#include "examples/resnet50/dnn.h"

/* Where its values lie; those that are not needed are NULL. */
struct rn_conv_memory {
    float *weights, *gradient;
    void *in, *out, *d_in, *d_out;
    void *in_copy, *forward_copy, *backward_copy; /* see the sizes below */
};

struct rn_conv {
    const char *name;
    bool first; /* of the network: reads f32 images, and nobody wants their gradient */
    dnnl_memory_desc_t master, plain; /* f32 weights: as they lie here, and as in a checkpoint */
    dnnl_memory_desc_t in, in_wanted, out, forward_weights, backward_weights;
    struct rn_call in_reorder, to_forward, to_backward, forward, backward_in, backward_gradient;
    /* Bytes of the weights; of copies, 0 where none is needed. */
    size_t weights_bytes, in_copy_bytes, forward_copy_bytes, backward_copy_bytes;
};

/* Chooses layouts and makes the primitives.  CO_UNSUPPORTED: this processor has none for the
 * type.  rn_conv_done in any case. */
CO_MUST_CHECK int rn_conv_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err);
CO_MUST_CHECK int rn_conv_bind(
    struct rn_conv *c, const struct rn_dnn *d, const struct rn_conv_memory *m, struct co_err *err);
void rn_conv_done(struct rn_conv *c);

CO_MUST_CHECK int rn_conv_forward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
CO_MUST_CHECK int rn_conv_backward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
