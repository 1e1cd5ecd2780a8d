/* What the operators share of oneDNN: the engine, how values lie in memory, and calls, which are
 * primitives bound to their memory.  Everything here is made once and belongs to one thread. */
#pragma once

#include <dnnl.h>
#include <stddef.h>

#include "common/err.h"
#include "examples/resnet50/lanes.h"
#include "examples/resnet50/net.h"

struct rn_dnn {
    dnnl_engine_t cpu;
    dnnl_stream_t stream;
    enum rn_type type; /* of activations and their gradients */
    size_t lanes;      /* channels side by side: what this processor's convolutions like best */
};

/* CO_INTERNAL when oneDNN cannot start. */
CO_MUST_CHECK int rn_dnn_open(struct rn_dnn *d, enum rn_type type, struct co_err *err);
void rn_dnn_close(struct rn_dnn *d);

/* 0, or an error that says "oneDNN: <doing> of <name>: <what it answered>". */
CO_MUST_CHECK int rn_dnn_check(
    dnnl_status_t status, const char *doing, const char *name, struct co_err *err);

size_t rn_type_size(enum rn_type type);
dnnl_data_type_t rn_dnn_type(enum rn_type type);
/* (batch, channels, height, width) with `lanes` channels side by side. */
dnnl_status_t rn_dnn_tensor(const struct rn_dnn *d, uint32_t batch, const struct rn_tensor *t,
    dnnl_memory_desc_t *ret_desc);

enum { RN_CALL_ARGS_MAX = 5 };

struct rn_call {
    dnnl_primitive_t primitive; /* NULL: there is nothing to do */
    dnnl_exec_arg_t args[RN_CALL_ARGS_MAX];
    int n_args;
};

/* Makes the primitive that oneDNN likes best for an operation's description.  hint: of the forward
 * pass, for a backward one.  The caller destroys *ret_chosen, which tells the memory it wants. */
dnnl_status_t rn_call_make(struct rn_call *c, const struct rn_dnn *d, const_dnnl_op_desc_t op,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret_chosen);
/* From one layout to another; nothing to do where they are the same. */
dnnl_status_t rn_call_make_reorder(struct rn_call *c, const struct rn_dnn *d,
    const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to);
/* One argument more.  memory stays the caller's. */
dnnl_status_t rn_call_bind(struct rn_call *c, const struct rn_dnn *d, int argument,
    const dnnl_memory_desc_t *desc, void *memory);
/* Another place for an argument that was bound. */
dnnl_status_t rn_call_move(struct rn_call *c, int argument, void *memory);
CO_MUST_CHECK int rn_call_run(
    const struct rn_call *c, const struct rn_dnn *d, const char *name, struct co_err *err);
void rn_call_done(struct rn_call *c);

/* Copies with another layout or type, once. */
CO_MUST_CHECK int rn_dnn_copy(const struct rn_dnn *d, const dnnl_memory_desc_t *from_desc,
    const void *from, const dnnl_memory_desc_t *to_desc, void *to, struct co_err *err);
