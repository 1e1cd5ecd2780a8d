/* oneDNN's engine, descriptors of tensors, and primitives with their memory. */
#include "examples/resnet50/dnn.h"

#include <string.h>

static const char *status_name(dnnl_status_t status) {
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented for this processor";
    default:
        return "failed";
    }
}

int rn_dnn_check(dnnl_status_t status, const char *doing, const char *name, struct co_err *err) {
    if (status == dnnl_success) {
        return 0;
    }
    int code = status == dnnl_out_of_memory   ? CO_NOMEMORY
               : status == dnnl_unimplemented ? CO_UNSUPPORTED
                                              : CO_INTERNAL;
    return co_err_set(err, code, "oneDNN: %s of %s: %s", doing, name, status_name(status));
}

size_t rn_type_size(enum rn_type type) {
    return type == RN_BF16 ? 2 : 4;
}

dnnl_data_type_t rn_dnn_type(enum rn_type type) {
    return type == RN_BF16 ? dnnl_bf16 : dnnl_f32;
}

static bool has(dnnl_cpu_isa_t set) {
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)set) == (unsigned)set;
}

enum rn_type rn_type_of(const char *precision) {
    bool bf16 = strcmp(precision, "auto") == 0 ? has(dnnl_cpu_isa_avx512_core_bf16)
                                               : strcmp(precision, "bf16") == 0;

    return bf16 ? RN_BF16 : RN_F32;
}

int rn_dnn_open(struct rn_dnn *d, enum rn_type type, struct co_err *err) {
    memset(d, 0, sizeof(*d));
    d->type = type;
    d->lanes = has(dnnl_cpu_isa_avx512_core) ? 16 : 8;
    dnnl_status_t status = dnnl_engine_create(&d->cpu, dnnl_cpu, 0);

    if (status == dnnl_success) {
        status = dnnl_stream_create(&d->stream, d->cpu, dnnl_stream_default_flags);
    }
    return rn_dnn_check(status, "start", "the CPU engine", err);
}

void rn_dnn_close(struct rn_dnn *d) {
    (void)dnnl_stream_destroy(d->stream);
    (void)dnnl_engine_destroy(d->cpu);
    memset(d, 0, sizeof(*d));
}

dnnl_status_t rn_dnn_tensor(const struct rn_dnn *d, uint32_t batch, const struct rn_tensor *t,
    dnnl_memory_desc_t *ret_desc) {
    const dnnl_dims_t dims = {batch, t->channels, t->height, t->width};

    return dnnl_memory_desc_init_by_tag(
        ret_desc, 4, dims, rn_dnn_type(d->type), d->lanes == 16 ? dnnl_nChw16c : dnnl_nChw8c);
}

/* ---- calls ----------------------------------------------------------------------------------- */

dnnl_status_t rn_call_make(struct rn_call *c, const struct rn_dnn *d, const_dnnl_op_desc_t op,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret_chosen) {
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_status_t status = dnnl_primitive_desc_create(&chosen, op, NULL, d->cpu, hint);

    if (status == dnnl_success) {
        status = dnnl_primitive_create(&c->primitive, chosen);
    }
    if (status != dnnl_success) {
        (void)dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    *ret_chosen = chosen;
    return dnnl_success;
}

bool rn_dnn_is_reference(const_dnnl_primitive_desc_t chosen) {
    const char *name = NULL;
    dnnl_status_t status =
        dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, (void *)&name);

    return status == dnnl_success && name && strncmp(name, "ref", strlen("ref")) == 0;
}

dnnl_status_t rn_call_make_reorder(struct rn_call *c, const struct rn_dnn *d,
    const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to) {
    dnnl_primitive_desc_t chosen = NULL;

    if (dnnl_memory_desc_equal(from, to)) {
        return dnnl_success;
    }
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&chosen, from, d->cpu, to, d->cpu, NULL);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(&c->primitive, chosen);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    return status;
}

dnnl_status_t rn_call_bind(struct rn_call *c, const struct rn_dnn *d, int argument,
    const dnnl_memory_desc_t *desc, void *memory) {
    dnnl_exec_arg_t *arg = &c->args[c->n_args];

    if (!c->primitive) {
        return dnnl_success;
    }
    arg->arg = argument;
    dnnl_status_t status = dnnl_memory_create(&arg->memory, desc, d->cpu, memory);
    c->n_args += status == dnnl_success;
    return status;
}

dnnl_status_t rn_call_move(struct rn_call *c, int argument, void *memory) {
    for (int i = 0; i < c->n_args; i++) {
        if (c->args[i].arg == argument) {
            return dnnl_memory_set_data_handle(c->args[i].memory, memory);
        }
    }
    return dnnl_invalid_arguments;
}

int rn_call_run(
    const struct rn_call *c, const struct rn_dnn *d, const char *name, struct co_err *err) {
    if (!c->primitive) {
        return 0;
    }
    dnnl_status_t status = dnnl_primitive_execute(c->primitive, d->stream, c->n_args, c->args);
    if (status == dnnl_success) {
        status = dnnl_stream_wait(d->stream);
    }
    return rn_dnn_check(status, "running", name, err);
}

void rn_call_done(struct rn_call *c) {
    for (int i = 0; i < c->n_args; i++) {
        (void)dnnl_memory_destroy(c->args[i].memory);
    }
    (void)dnnl_primitive_destroy(c->primitive);
    memset(c, 0, sizeof(*c));
}

/* oneDNN's functions take non-const pointers even for inputs, which it does not write. */
int rn_dnn_copy(const struct rn_dnn *d, const dnnl_memory_desc_t *from_desc, const void *from,
    const dnnl_memory_desc_t *to_desc, void *to, struct co_err *err) {
    struct rn_call c = {NULL};

    if (dnnl_memory_desc_equal(from_desc, to_desc)) {
        memcpy(to, from, dnnl_memory_desc_get_size(to_desc));
        return 0;
    }
    dnnl_status_t status = rn_call_make_reorder(&c, d, from_desc, to_desc);
    if (status == dnnl_success) {
        status = rn_call_bind(&c, d, DNNL_ARG_FROM, from_desc, (void *)from);
    }
    if (status == dnnl_success) {
        status = rn_call_bind(&c, d, DNNL_ARG_TO, to_desc, to);
    }
    int rc = rn_dnn_check(status, "making", "a copy", err);
    if (rc == 0) {
        rc = rn_call_run(&c, d, "a copy", err);
    }
    rn_call_done(&c);
    return rc;
}
