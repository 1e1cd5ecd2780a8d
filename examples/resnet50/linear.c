/* The fully connected layer at the end of the network, on oneDNN. */
#include "examples/resnet50/linear.h"

#include <string.h>

static dnnl_status_t descs_init(
    struct rn_linear *l, uint32_t batch, uint32_t inputs, uint32_t outputs) {
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(
        &l->x, 2, (const dnnl_dims_t){batch, inputs}, dnnl_f32, dnnl_ab);

    /* oneDNN's dimensions are (out, in); the format tag says that memory holds (in, out). */
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(
            &l->w, 2, (const dnnl_dims_t){outputs, inputs}, dnnl_f32, dnnl_ba);
    }
    if (status == dnnl_success) {
        status =
            dnnl_memory_desc_init_by_tag(&l->b, 1, (const dnnl_dims_t){outputs}, dnnl_f32, dnnl_a);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(
            &l->y, 2, (const dnnl_dims_t){batch, outputs}, dnnl_f32, dnnl_ab);
    }
    return status;
}

static dnnl_status_t backward_make(
    struct rn_linear *l, const struct rn_dnn *d, dnnl_primitive_desc_t forward) {
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_inner_product_desc_t desc;
    dnnl_status_t status = dnnl_inner_product_backward_data_desc_init(&desc, &l->x, &l->w, &l->y);

    if (status == dnnl_success) {
        status = rn_call_make(&l->backward_in, d, &desc, forward, &chosen);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    chosen = NULL;
    if (status == dnnl_success) {
        status = dnnl_inner_product_backward_weights_desc_init(&desc, &l->x, &l->w, &l->b, &l->y);
    }
    if (status == dnnl_success) {
        status = rn_call_make(&l->backward_gradient, d, &desc, forward, &chosen);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    return status;
}

int rn_linear_init(struct rn_linear *l, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err) {
    dnnl_primitive_desc_t forward = NULL;
    dnnl_inner_product_desc_t desc;

    memset(l, 0, sizeof(*l));
    l->name = op->name;
    dnnl_status_t status =
        descs_init(l, net->config.batch, net->tensors[op->in].channels, net->config.classes);
    if (status == dnnl_success) {
        status = dnnl_inner_product_forward_desc_init(
            &desc, dnnl_forward_training, &l->x, &l->w, &l->b, &l->y);
    }
    if (status == dnnl_success) {
        status = rn_call_make(&l->forward, d, &desc, NULL, &forward);
    }
    if (status == dnnl_success) {
        status = backward_make(l, d, forward);
    }
    (void)dnnl_primitive_desc_destroy(forward);
    return rn_dnn_check(status, "inner product", op->name, err);
}

int rn_linear_bind(struct rn_linear *l, const struct rn_dnn *d, const struct rn_linear_memory *m,
    struct co_err *err) {
    const struct argument {
        struct rn_call *call;
        int name;
        const dnnl_memory_desc_t *desc;
        float *memory;
    } arguments[] = {
        {&l->forward, DNNL_ARG_SRC, &l->x, m->x},
        {&l->forward, DNNL_ARG_WEIGHTS, &l->w, m->w},
        {&l->forward, DNNL_ARG_BIAS, &l->b, m->b},
        {&l->forward, DNNL_ARG_DST, &l->y, m->y},
        {&l->backward_in, DNNL_ARG_DIFF_DST, &l->y, m->d_y},
        {&l->backward_in, DNNL_ARG_WEIGHTS, &l->w, m->w},
        {&l->backward_in, DNNL_ARG_DIFF_SRC, &l->x, m->d_x},
        {&l->backward_gradient, DNNL_ARG_SRC, &l->x, m->x},
        {&l->backward_gradient, DNNL_ARG_DIFF_DST, &l->y, m->d_y},
        {&l->backward_gradient, DNNL_ARG_DIFF_WEIGHTS, &l->w, m->d_w},
        {&l->backward_gradient, DNNL_ARG_DIFF_BIAS, &l->b, m->d_b},
    };
    dnnl_status_t status = dnnl_success;

    for (size_t i = 0; status == dnnl_success && i < sizeof(arguments) / sizeof(arguments[0]);
         i++) {
        const struct argument *a = &arguments[i];

        status = rn_call_bind(a->call, d, a->name, a->desc, a->memory);
    }
    return rn_dnn_check(status, "memory", l->name, err);
}

void rn_linear_done(struct rn_linear *l) {
    rn_call_done(&l->forward);
    rn_call_done(&l->backward_in);
    rn_call_done(&l->backward_gradient);
}

int rn_linear_backward(const struct rn_linear *l, const struct rn_dnn *d, struct co_err *err) {
    int rc = rn_call_run(&l->backward_gradient, d, l->name, err);

    return rc == 0 ? rn_call_run(&l->backward_in, d, l->name, err) : rc;
}
