/* A convolution: three passes, each a primitive of oneDNN.  Activations keep the plan's layout, and
 * weights the one that oneDNN prefers for their gradient, or the plain one (rn_order); a pass that
 * wants another layout, or bf16, works on copies.
 *
 *                 reads            writes
 *     FORWARD     in, weights      out
 *     GRADIENT    in, d_out        gradient of the weights
 *     BACKWARD    d_out, weights   d_in
 */
#pragma once

#include "examples/resnet50/dnn.h"

enum rn_conv_pass_kind { RN_CONV_FORWARD, RN_CONV_GRADIENT, RN_CONV_BACKWARD, RN_CONV_PASSES };
enum rn_conv_operand { RN_CONV_IN, RN_CONV_WEIGHTS, RN_CONV_OUT, RN_CONV_OPERANDS };

struct rn_conv_pass {
    dnnl_memory_desc_t wanted[RN_CONV_OPERANDS];
    struct rn_call copies[RN_CONV_OPERANDS], run; /* a copy is an empty call where none is needed */
    size_t copy_bytes[RN_CONV_OPERANDS];
};

/* The memory of its values; NULL for those that are not needed. */
struct rn_conv_memory {
    float *weights, *gradient;
    void *in, *out, *d_in, *d_out;
    char *forward_copies, *backward_copies; /* see the sizes below */
};

struct rn_conv {
    const char *name;
    bool first; /* of the network: it reads f32 images, whose gradient is not needed */
    dnnl_memory_desc_t in, master, out; /* layouts of the plan; master: of the f32 weights */
    dnnl_memory_desc_t plain;           /* of the weights in a checkpoint */
    struct rn_conv_pass passes[RN_CONV_PASSES];
    size_t weights_bytes, forward_copy_bytes, backward_copy_bytes;
};

/* Chooses layouts and makes the primitives.  CO_UNSUPPORTED: oneDNN has none for the type on this
 * processor.  Call rn_conv_done also after a failure. */
CO_MUST_CHECK int rn_conv_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err);
CO_MUST_CHECK int rn_conv_bind(
    struct rn_conv *c, const struct rn_dnn *d, const struct rn_conv_memory *m, struct co_err *err);
/* From now on the weights' gradient goes to `memory`. */
dnnl_status_t rn_conv_move_gradient(struct rn_conv *c, float *memory);
void rn_conv_done(struct rn_conv *c);

CO_MUST_CHECK int rn_conv_forward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
CO_MUST_CHECK int rn_conv_backward(
    const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err);
