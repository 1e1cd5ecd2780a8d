/* Parameters and gradients of a plan: their offsets, and conversion to the table's layout. */
#include <string.h>

#include "examples/nn/rng.h"
#include "examples/resnet50/plan_internal.h"

const struct rn_net *rn_plan_net(const struct rn_plan *p) {
    return &p->net;
}

float *rn_plan_images(struct rn_plan *p) {
    return p->images;
}

const float *rn_plan_logits(struct rn_plan *p) {
    return rn_plan_value(p, p->net.n_ops - 1, OUT);
}

float *rn_plan_d_logits(struct rn_plan *p) {
    return p->d_logits;
}

float *rn_plan_running_mean(struct rn_plan *p) {
    return p->running_mean;
}

float *rn_plan_running_variance(struct rn_plan *p) {
    return p->running_variance;
}

size_t rn_plan_storage(const struct rn_plan *p) {
    return p->places[p->net.n_params];
}

float *rn_plan_params(struct rn_plan *p) {
    return p->params;
}

float *rn_plan_grads(struct rn_plan *p) {
    return p->grads;
}

int rn_plan_move_grad(struct rn_plan *p, int i, float *memory, struct co_err *err) {
    struct node *n = &p->nodes[p->net.params[i].op];
    bool weight = i == n->op->param; /* else the bias */
    dnnl_status_t status = dnnl_success;

    if (n->op->kind == RN_CONV) {
        status = rn_conv_move_gradient(&n->conv, memory);
    } else if (n->op->kind == RN_LINEAR) {
        status = rn_call_move(&n->linear.backward_gradient,
            weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_DIFF_BIAS, memory);
    } else if (weight) {
        n->norm.d_gamma = memory;
    } else {
        n->norm.d_beta = memory;
    }
    return rn_dnn_check(status, "memory", p->net.params[i].name, err);
}

size_t rn_plan_place(const struct rn_plan *p, int i, size_t *ret_count) {
    *ret_count = p->places[i + 1] - p->places[i];
    return p->places[i];
}

size_t rn_plan_arena(const struct rn_plan *p, size_t *ret_apart) {
    *ret_apart = p->apart_bytes;
    return p->arena_bytes;
}

static const struct rn_conv *conv_of(const struct rn_plan *p, int i) {
    const struct node *n = &p->nodes[p->net.params[i].op];

    return n->op->kind == RN_CONV ? &n->conv : NULL;
}

/* Hashes block sizes and strides, which say where each value is.  The rest of a descriptor is
 * padding and oneDNN's private data. */
uint64_t rn_plan_layout(const struct rn_plan *p) {
    uint64_t number = (uint64_t)rn_plan_storage(p);

    for (int i = 0; i < p->net.n_params; i++) {
        const struct rn_conv *c = conv_of(p, i);
        const dnnl_blocking_desc_t *b = c ? &c->master.format_desc.blocking : NULL;

        for (int k = 0; b && k < c->master.ndims; k++) {
            number = nn_mix64(number, (uint64_t)b->strides[k]);
        }
        for (int k = 0; b && k < b->inner_nblks; k++) {
            number = nn_mix64(number, (uint64_t)(b->inner_blks[k] * 16 + b->inner_idxs[k]));
        }
    }
    return number;
}

int rn_plan_export(
    const struct rn_plan *p, int i, const float *storage, float *ret_values, struct co_err *err) {
    const struct rn_conv *c = conv_of(p, i);
    const float *from = storage + p->places[i];

    if (c) {
        return rn_dnn_copy(&p->dnn, &c->master, from, &c->plain, ret_values, err);
    }
    memcpy(ret_values, from, p->net.params[i].count * sizeof(float));
    return 0;
}

int rn_plan_import(
    const struct rn_plan *p, int i, const float *values, float *storage, struct co_err *err) {
    const struct rn_conv *c = conv_of(p, i);
    float *to = storage + p->places[i];

    if (c) {
        return rn_dnn_copy(&p->dnn, &c->plain, values, &c->master, to, err);
    }
    memcpy(to, values, p->net.params[i].count * sizeof(float));
    return 0;
}
