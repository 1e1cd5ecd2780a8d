/* Convolutions on oneDNN: chooses layouts, and reorders weights for a pass that wants another one.
 */
#include "examples/resnet50/conv.h"

#include <string.h>

/* The shapes and types for which oneDNN is asked to choose a convolution. */
struct ask {
    dnnl_memory_desc_t in, out, weights_any, gradient_any;
    dnnl_dims_t strides, pads;
};

static dnnl_memory_desc_t chosen_desc(dnnl_primitive_desc_t chosen, dnnl_query_t what) {
    return *dnnl_primitive_desc_query_md(chosen, what, 0);
}

static dnnl_status_t ask_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct ask *a) {
    const struct rn_tensor *in = &net->tensors[op->in], *out = &net->tensors[op - net->ops + 1];
    const dnnl_dims_t weights = {out->channels, in->channels, op->kernel, op->kernel};
    const dnnl_dims_t images = {net->config.batch, in->channels, in->height, in->width};
    dnnl_status_t status = rn_dnn_tensor(d, net->config.batch, out, &a->out);

    for (int i = 0; i < 2; i++) {
        a->strides[i] = op->stride;
        a->pads[i] = op->pad;
    }
    if (status == dnnl_success && !c->first) {
        status = rn_dnn_tensor(d, net->config.batch, in, &a->in);
        c->in = a->in;
    } else if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&c->in, 4, images, dnnl_f32, dnnl_nchw);
        if (status == dnnl_success) {
            status = dnnl_memory_desc_init_by_tag(
                &a->in, 4, images, rn_dnn_type(d->type), dnnl_format_tag_any);
        }
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(
            &a->weights_any, 4, weights, rn_dnn_type(d->type), dnnl_format_tag_any);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(
            &a->gradient_any, 4, weights, dnnl_f32, dnnl_format_tag_any);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&c->plain, 4, weights, dnnl_f32, dnnl_oihw);
    }
    return status;
}

static dnnl_status_t forward_make(
    struct rn_conv *c, const struct rn_dnn *d, struct ask *a, dnnl_primitive_desc_t *ret_forward) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status =
        dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct,
            &a->in, &a->weights_any, NULL, &a->out, a->strides, a->pads, a->pads);

    if (status == dnnl_success) {
        status = rn_call_make(&c->forward, d, &desc, NULL, ret_forward);
    }
    if (status == dnnl_success) {
        c->out = a->out;
        c->in_wanted = a->in = chosen_desc(*ret_forward, dnnl_query_src_md);
        c->forward_weights = chosen_desc(*ret_forward, dnnl_query_weights_md);
    }
    return status;
}

static dnnl_status_t gradient_make(
    struct rn_conv *c, const struct rn_dnn *d, const struct ask *a, dnnl_primitive_desc_t forward) {
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_convolution_desc_t desc;
    dnnl_status_t status =
        dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &a->in,
            &a->gradient_any, NULL, &a->out, a->strides, a->pads, a->pads);

    if (status == dnnl_success) {
        status = rn_call_make(&c->backward_gradient, d, &desc, forward, &chosen);
    }
    if (status == dnnl_success) {
        c->master = chosen_desc(chosen, dnnl_query_diff_weights_md);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    return status;
}

static dnnl_status_t backward_make(
    struct rn_conv *c, const struct rn_dnn *d, const struct ask *a, dnnl_primitive_desc_t forward) {
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_convolution_desc_t desc;

    if (c->first) {
        return dnnl_success;
    }
    dnnl_status_t status = dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct,
        &a->in, &a->weights_any, &a->out, a->strides, a->pads, a->pads);
    if (status == dnnl_success) {
        status = rn_call_make(&c->backward_in, d, &desc, forward, &chosen);
    }
    if (status == dnnl_success) {
        c->backward_weights = chosen_desc(chosen, dnnl_query_weights_md);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    return status;
}

/* 0: the same layout, no copy. */
static size_t copy_bytes(const struct rn_call *reorder, const dnnl_memory_desc_t *to) {
    return reorder->primitive ? dnnl_memory_desc_get_size(to) : 0;
}

static dnnl_status_t copies_make(struct rn_conv *c, const struct rn_dnn *d) {
    dnnl_status_t status = rn_call_make_reorder(&c->in_reorder, d, &c->in, &c->in_wanted);

    if (status == dnnl_success) {
        status = rn_call_make_reorder(&c->to_forward, d, &c->master, &c->forward_weights);
    }
    if (status == dnnl_success && !c->first) {
        status = rn_call_make_reorder(&c->to_backward, d, &c->master, &c->backward_weights);
    }
    c->weights_bytes = dnnl_memory_desc_get_size(&c->master);
    c->in_copy_bytes = copy_bytes(&c->in_reorder, &c->in_wanted);
    c->forward_copy_bytes = copy_bytes(&c->to_forward, &c->forward_weights);
    c->backward_copy_bytes = copy_bytes(&c->to_backward, &c->backward_weights);
    return status;
}

int rn_conv_init(struct rn_conv *c, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err) {
    dnnl_primitive_desc_t forward = NULL;
    struct ask a = {0};

    memset(c, 0, sizeof(*c));
    c->name = op->name;
    c->first = op->in == 0;
    dnnl_status_t status = ask_init(c, d, net, op, &a);
    if (status == dnnl_success) {
        status = forward_make(c, d, &a, &forward);
    }
    if (status == dnnl_success) {
        status = gradient_make(c, d, &a, forward);
    }
    if (status == dnnl_success) {
        status = backward_make(c, d, &a, forward);
    }
    if (status == dnnl_success) {
        status = copies_make(c, d);
    }
    (void)dnnl_primitive_desc_destroy(forward);
    return rn_dnn_check(
        status, d->type == RN_BF16 ? "bf16 convolution" : "convolution", op->name, err);
}

/* A call's arguments: a row each. */
struct argument {
    struct rn_call *call;
    int name;
    const dnnl_memory_desc_t *desc;
    void *memory;
};

int rn_conv_bind(
    struct rn_conv *c, const struct rn_dnn *d, const struct rn_conv_memory *m, struct co_err *err) {
    void *in = c->in_copy_bytes ? m->in_copy : m->in;
    void *forward_weights = c->forward_copy_bytes ? m->forward_copy : m->weights;
    void *backward_weights = c->backward_copy_bytes ? m->backward_copy : m->weights;
    const struct argument arguments[] = {
        {&c->in_reorder, DNNL_ARG_FROM, &c->in, m->in},
        {&c->in_reorder, DNNL_ARG_TO, &c->in_wanted, m->in_copy},
        {&c->to_forward, DNNL_ARG_FROM, &c->master, m->weights},
        {&c->to_forward, DNNL_ARG_TO, &c->forward_weights, m->forward_copy},
        {&c->to_backward, DNNL_ARG_FROM, &c->master, m->weights},
        {&c->to_backward, DNNL_ARG_TO, &c->backward_weights, m->backward_copy},
        {&c->forward, DNNL_ARG_SRC, &c->in_wanted, in},
        {&c->forward, DNNL_ARG_WEIGHTS, &c->forward_weights, forward_weights},
        {&c->forward, DNNL_ARG_DST, &c->out, m->out},
        {&c->backward_gradient, DNNL_ARG_SRC, &c->in_wanted, in},
        {&c->backward_gradient, DNNL_ARG_DIFF_WEIGHTS, &c->master, m->gradient},
        {&c->backward_gradient, DNNL_ARG_DIFF_DST, &c->out, m->d_out},
        {&c->backward_in, DNNL_ARG_DIFF_DST, &c->out, m->d_out},
        {&c->backward_in, DNNL_ARG_WEIGHTS, &c->backward_weights, backward_weights},
        {&c->backward_in, DNNL_ARG_DIFF_SRC, &c->in, m->d_in},
    };
    dnnl_status_t status = dnnl_success;

    for (size_t i = 0; status == dnnl_success && i < sizeof(arguments) / sizeof(arguments[0]);
         i++) {
        const struct argument *a = &arguments[i];

        status = rn_call_bind(a->call, d, a->name, a->desc, a->memory);
    }
    return rn_dnn_check(status, "memory", c->name, err);
}

void rn_conv_done(struct rn_conv *c) {
    struct rn_call *const calls[] = {&c->in_reorder, &c->to_forward, &c->to_backward, &c->forward,
        &c->backward_in, &c->backward_gradient};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        rn_call_done(calls[i]);
    }
}

static int run_in_order(const struct rn_call *const *calls, size_t n, const struct rn_conv *c,
    const struct rn_dnn *d, struct co_err *err) {
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = rn_call_run(calls[i], d, c->name, err);
    }
    return rc;
}

int rn_conv_forward(const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err) {
    const struct rn_call *const calls[] = {&c->in_reorder, &c->to_forward, &c->forward};

    return run_in_order(calls, 3, c, d, err);
}

int rn_conv_backward(const struct rn_conv *c, const struct rn_dnn *d, struct co_err *err) {
    const struct rn_call *const calls[] = {&c->backward_gradient, &c->to_backward, &c->backward_in};

    return run_in_order(calls, 3, c, d, err);
}
