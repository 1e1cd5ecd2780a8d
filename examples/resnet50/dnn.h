/* What the operators share of oneDNN: the engine, the layout of values in memory, and calls, which
 * are primitives bound to their memory.  Everything here is made once and belongs to one thread. */
#pragma once

#include <stddef.h>

#include <dnnl.h>

#include "common/err.h"
#include "examples/resnet50/lanes.h"
#include "examples/resnet50/net.h"

struct rn_dnn {
    dnnl_engine_t cpu;
    dnnl_stream_t stream;
    enum rn_type type; /* of activations and their gradients */
    bool plain;        /* weights and their gradients are in the order of rn_param */
    size_t lanes;      /* adjacent channels in memory; what convolutions prefer on this processor */
};

/* CO_INTERNAL: oneDNN cannot start. */
CO_MUST_CHECK int rn_dnn_open(struct rn_dnn *d, enum rn_type type, struct co_err *err);
void rn_dnn_close(struct rn_dnn *d);

/* 0, or an error that says "oneDNN: <doing> of <name>: <what it answered>". */
CO_MUST_CHECK int rn_dnn_check(
    dnnl_status_t status, const char *doing, const char *name, struct co_err *err);

size_t rn_type_size(enum rn_type type);
/* Of --precision: f32, bf16, or auto, which is bf16 where the processor has instructions for it. */
enum rn_type rn_type_of(const char *precision);
dnnl_data_type_t rn_dnn_type(enum rn_type type);
/* Describes (batch, channels, height, width) with `lanes` adjacent channels. */
dnnl_status_t rn_dnn_tensor(const struct rn_dnn *d, uint32_t batch, const struct rn_tensor *t,
    dnnl_memory_desc_t *ret_desc);

enum { RN_CALL_ARGS_MAX = 5 };

struct rn_call {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_exec_arg_t args[RN_CALL_ARGS_MAX];
    int n_args;
};

/* Makes the primitive that oneDNN prefers for an operation.  hint: for a backward pass, the choice
 * made for the forward pass.  *ret_chosen says which layouts it wants; the caller destroys it. */
dnnl_status_t rn_call_make(struct rn_call *c, const struct rn_dnn *d, const_dnnl_op_desc_t op,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret_chosen);
/* Whether that is oneDNN's reference, which is made for comparisons, not for speed. */
bool rn_dnn_is_reference(const_dnnl_primitive_desc_t chosen);
/* Copies from one layout to another; an empty call if they are the same. */
dnnl_status_t rn_call_make_reorder(struct rn_call *c, const struct rn_dnn *d,
    const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to);
/* Adds an argument.  The caller keeps the memory. */
dnnl_status_t rn_call_bind(struct rn_call *c, const struct rn_dnn *d, int argument,
    const dnnl_memory_desc_t *desc, void *memory);
/* Moves a bound argument to other memory. */
dnnl_status_t rn_call_move(struct rn_call *c, int argument, void *memory);
CO_MUST_CHECK int rn_call_run(
    const struct rn_call *c, const struct rn_dnn *d, const char *name, struct co_err *err);
void rn_call_done(struct rn_call *c);

/* Copies to another layout or type, without a call that is kept. */
CO_MUST_CHECK int rn_dnn_copy(const struct rn_dnn *d, const dnnl_memory_desc_t *from_desc,
    const void *from, const dnnl_memory_desc_t *to_desc, void *to, struct co_err *err);
