/* Convolutions on oneDNN: chooses primitives and layouts, and copies for a pass that wants another
 * layout. */
#include "examples/resnet50/conv.h"

#include <string.h>

#include "examples/resnet50/arena.h"

enum { IN = RN_CONV_IN, WEIGHTS = RN_CONV_WEIGHTS, OUT = RN_CONV_OUT };

/* oneDNN's names of a pass's operands, and the one that the pass writes. */
static const struct names {
    int args[RN_CONV_OPERANDS];
    dnnl_query_t layouts[RN_CONV_OPERANDS];
    int written;
} names[RN_CONV_PASSES] = {
    [RN_CONV_FORWARD] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}, OUT},
    [RN_CONV_GRADIENT] = {{DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
        {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}, WEIGHTS},
    [RN_CONV_BACKWARD] = {{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}, IN},
};

/* ---- choosing -------------------------------------------------------------------------------- */

/* What oneDNN is asked for. */
struct ask {
    dnnl_memory_desc_t in, out;         /* in the plan's layout */
    dnnl_memory_desc_t in_any, out_any; /* in whichever it prefers */
    dnnl_memory_desc_t weights_any, gradient_any;
    dnnl_dims_t strides, pads;
};

static dnnl_memory_desc_t any_layout(const dnnl_memory_desc_t *of, dnnl_data_type_t type) {
    dnnl_memory_desc_t any;

    /* Fails for no shape that another descriptor has. */
    (void)dnnl_memory_desc_init_by_tag(&any, of->ndims, of->dims, type, dnnl_format_tag_any);
    return any;
}

static dnnl_status_t ask_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct ask *a) {
    const struct rn_tensor *in = &net->tensors[op->in], *out = &net->tensors[op - net->ops + 1];
    const dnnl_dims_t weights = {out->channels, in->channels, op->kernel, op->kernel};
    const dnnl_dims_t images = {net->config.batch, in->channels, in->height, in->width};
    dnnl_status_t status = rn_dnn_tensor(d, net->config.batch, out, &c->out);

    for (int i = 0; i < 2; i++) {
        a->strides[i] = op->stride;
        a->pads[i] = op->pad;
    }
    if (status == dnnl_success) {
        status = c->first ? dnnl_memory_desc_init_by_tag(&c->in, 4, images, dnnl_f32, dnnl_nchw)
                          : rn_dnn_tensor(d, net->config.batch, in, &c->in);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&c->plain, 4, weights, dnnl_f32, dnnl_oihw);
    }
    if (status == dnnl_success) {
        a->in_any = any_layout(&c->in, rn_dnn_type(d->type));
        a->out_any = any_layout(&c->out, rn_dnn_type(d->type));
        a->in = c->first ? a->in_any : c->in;
        a->out = c->out;
        a->weights_any = any_layout(&c->plain, rn_dnn_type(d->type));
        a->gradient_any = any_layout(&c->plain, dnnl_f32);
    }
    return status;
}

static dnnl_status_t operation_init(const struct ask *a, enum rn_conv_pass_kind kind,
    const dnnl_memory_desc_t *in, const dnnl_memory_desc_t *out, dnnl_convolution_desc_t *ret) {
    switch (kind) {
    case RN_CONV_FORWARD:
        return dnnl_convolution_forward_desc_init(ret, dnnl_forward_training,
            dnnl_convolution_direct, in, &a->weights_any, NULL, out, a->strides, a->pads, a->pads);
    case RN_CONV_GRADIENT:
        return dnnl_convolution_backward_weights_desc_init(ret, dnnl_convolution_direct, in,
            &a->gradient_any, NULL, out, a->strides, a->pads, a->pads);
    default:
        return dnnl_convolution_backward_data_desc_init(
            ret, dnnl_convolution_direct, in, &a->weights_any, out, a->strides, a->pads, a->pads);
    }
}

/* Some instruction sets have no fast primitive for some shapes in the plan's layout, only oneDNN's
 * reference, which is a hundred times slower.  A matrix product on copies is better then. */
static dnnl_status_t pass_choose(struct rn_call *run, const struct rn_dnn *d, const struct ask *a,
    enum rn_conv_pass_kind kind, dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *ret_chosen) {
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = operation_init(a, kind, &a->in, &a->out, &operation);

    if (status == dnnl_success) {
        status = rn_call_make(run, d, &operation, forward, ret_chosen);
    }
    if (status != dnnl_success || !rn_dnn_is_reference(*ret_chosen) ||
        operation_init(a, kind, &a->in_any, &a->out_any, &operation) != dnnl_success) {
        return status;
    }
    struct rn_call other = {NULL};
    dnnl_primitive_desc_t chosen = NULL;
    if (rn_call_make(&other, d, &operation, forward, &chosen) == dnnl_success) {
        rn_call_done(run);
        *run = other;
        (void)dnnl_primitive_desc_destroy(*ret_chosen);
        *ret_chosen = chosen;
    }
    return dnnl_success;
}

/* forward: the choice made for the forward pass, or NULL.  The caller destroys *ret_chosen. */
static dnnl_status_t pass_make(struct rn_conv *c, const struct rn_dnn *d, const struct ask *a,
    enum rn_conv_pass_kind kind, dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *ret_chosen) {
    struct rn_conv_pass *p = &c->passes[kind];
    dnnl_status_t status = pass_choose(&p->run, d, a, kind, forward, ret_chosen);

    for (int o = 0; status == dnnl_success && o < RN_CONV_OPERANDS; o++) {
        p->wanted[o] = *dnnl_primitive_desc_query_md(*ret_chosen, names[kind].layouts[o], 0);
    }
    return status;
}

static dnnl_status_t passes_make(struct rn_conv *c, const struct rn_dnn *d, const struct ask *a) {
    dnnl_primitive_desc_t chosen[RN_CONV_PASSES] = {NULL};
    int n = c->first ? RN_CONV_BACKWARD : RN_CONV_PASSES;
    dnnl_status_t status = dnnl_success;

    for (int k = 0; status == dnnl_success && k < n; k++) {
        status = pass_make(c, d, a, (enum rn_conv_pass_kind)k, chosen[0], &chosen[k]);
    }
    for (int k = 0; k < n; k++) {
        (void)dnnl_primitive_desc_destroy(chosen[k]);
    }
    return status;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static dnnl_status_t copies_make(struct rn_conv_pass *p, const struct names *name,
    const struct rn_dnn *d, const dnnl_memory_desc_t have[RN_CONV_OPERANDS]) {
    dnnl_status_t status = dnnl_success;

    for (int o = 0; status == dnnl_success && p->run.primitive && o < RN_CONV_OPERANDS; o++) {
        bool back = o == name->written;

        status = rn_call_make_reorder(
            &p->copies[o], d, back ? &p->wanted[o] : &have[o], back ? &have[o] : &p->wanted[o]);
        if (p->copies[o].primitive) {
            p->copy_bytes[o] = rn_arena_aligned(dnnl_memory_desc_get_size(&p->wanted[o]));
        }
    }
    return status;
}

static size_t copies_bytes(const struct rn_conv_pass *p) {
    return p->copy_bytes[IN] + p->copy_bytes[WEIGHTS] + p->copy_bytes[OUT];
}

static dnnl_status_t all_copies_make(struct rn_conv *c, const struct rn_dnn *d) {
    const dnnl_memory_desc_t have[] = {c->in, c->master, c->out};
    dnnl_status_t status = dnnl_success;

    for (int k = 0; status == dnnl_success && k < RN_CONV_PASSES; k++) {
        status = copies_make(&c->passes[k], &names[k], d, have);
    }
    size_t gradient = copies_bytes(&c->passes[RN_CONV_GRADIENT]);
    c->forward_copy_bytes = copies_bytes(&c->passes[RN_CONV_FORWARD]);
    c->backward_copy_bytes = copies_bytes(&c->passes[RN_CONV_BACKWARD]);
    if (c->backward_copy_bytes < gradient) { /* one runs after the other */
        c->backward_copy_bytes = gradient;
    }
    c->weights_bytes = dnnl_memory_desc_get_size(&c->master);
    return status;
}

int rn_conv_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err) {
    struct ask a = {0};

    memset(c, 0, sizeof(*c));
    c->name = op->name;
    c->first = op->in == 0;
    dnnl_status_t status = ask_init(c, d, net, op, &a);
    if (status == dnnl_success) {
        status = passes_make(c, d, &a);
    }
    if (status == dnnl_success) {
        c->master = d->plain ? c->plain : c->passes[RN_CONV_GRADIENT].wanted[WEIGHTS];
        status = all_copies_make(c, d);
    }
    return rn_dnn_check(
        status, d->type == RN_BF16 ? "bf16 convolution" : "convolution", op->name, err);
}

/* ---- binding and running --------------------------------------------------------------------- */

/* Gives a pass its operands' memory, by way of a copy where one is needed. */
static dnnl_status_t pass_bind(struct rn_conv_pass *p, const struct names *name,
    const struct rn_dnn *d, const dnnl_memory_desc_t have[RN_CONV_OPERANDS],
    void *const memory[RN_CONV_OPERANDS], char *copies) {
    dnnl_status_t status = dnnl_success;

    for (int o = 0; status == dnnl_success && o < RN_CONV_OPERANDS; o++) {
        bool back = o == name->written;
        struct rn_call *copy = &p->copies[o];
        void *at = copy->primitive ? copies : memory[o];

        status = rn_call_bind(&p->run, d, name->args[o], &p->wanted[o], at);
        if (status == dnnl_success) {
            status = rn_call_bind(copy, d, back ? DNNL_ARG_TO : DNNL_ARG_FROM, &have[o], memory[o]);
        }
        if (status == dnnl_success) {
            status = rn_call_bind(copy, d, back ? DNNL_ARG_FROM : DNNL_ARG_TO, &p->wanted[o], at);
        }
        if (copy->primitive) {
            copies += p->copy_bytes[o];
        }
    }
    return status;
}

int rn_conv_bind(
    struct rn_conv *c, const struct rn_dnn *d, const struct rn_conv_memory *m, struct co_err *err) {
    const dnnl_memory_desc_t have[] = {c->in, c->master, c->out};
    void *const memory[RN_CONV_PASSES][RN_CONV_OPERANDS] = {
        [RN_CONV_FORWARD] = {m->in, m->weights, m->out},
        [RN_CONV_GRADIENT] = {m->in, m->gradient, m->d_out},
        [RN_CONV_BACKWARD] = {m->d_in, m->weights, m->d_out},
    };
    dnnl_status_t status = dnnl_success;

    for (int k = 0; status == dnnl_success && k < RN_CONV_PASSES; k++) {
        char *copies = k == RN_CONV_FORWARD ? m->forward_copies : m->backward_copies;

        status = pass_bind(&c->passes[k], &names[k], d, have, memory[k], copies);
    }
    return rn_dnn_check(status, "memory", c->name, err);
}

dnnl_status_t rn_conv_move_gradient(struct rn_conv *c, float *memory) {
    struct rn_conv_pass *p = &c->passes[RN_CONV_GRADIENT];
    struct rn_call *copy = &p->copies[WEIGHTS];

    return copy->primitive ? rn_call_move(copy, DNNL_ARG_TO, memory)
                           : rn_call_move(&p->run, DNNL_ARG_DIFF_WEIGHTS, memory);
}

void rn_conv_done(struct rn_conv *c) {
    for (int k = 0; k < RN_CONV_PASSES; k++) {
        struct rn_conv_pass *p = &c->passes[k];

        rn_call_done(&p->run);
        for (int o = 0; o < RN_CONV_OPERANDS; o++) {
            rn_call_done(&p->copies[o]);
        }
    }
}

/* Copies what it reads, runs, copies what it has written. */
static int pass_run(const struct rn_conv *c, enum rn_conv_pass_kind kind, const struct rn_dnn *d,
    struct co_err *err) {
    const struct rn_conv_pass *p = &c->passes[kind];
    int written = names[kind].written, rc = 0;

    for (int o = 0; rc == 0 && o < RN_CONV_OPERANDS; o++) {
        rc = o == written ? 0 : rn_call_run(&p->copies[o], d, c->name, err);
    }
    rc = rc == 0 ? rn_call_run(&p->run, d, c->name, err) : rc;
    return rc == 0 ? rn_call_run(&p->copies[written], d, c->name, err) : rc;
}

int rn_conv_forward(const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err) {
    return pass_run(c, RN_CONV_FORWARD, d, err);
}

int rn_conv_backward(const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err) {
    int rc = pass_run(c, RN_CONV_GRADIENT, d, err);

    return rc == 0 ? pass_run(c, RN_CONV_BACKWARD, d, err) : rc;
}
