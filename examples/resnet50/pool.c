/* Pooling: the maximum with oneDNN, the mean with our own loops. */
#include "examples/resnet50/pool.h"

#include <string.h>

#include "examples/resnet50/team.h"

/* ---- max ------------------------------------------------------------------------------------- */

static dnnl_status_t pool_make(
    struct rn_max_pool *p, const struct rn_dnn *d, const struct rn_op *op) {
    const dnnl_dims_t strides = {op->stride, op->stride}, kernel = {op->kernel, op->kernel},
                      pads = {op->pad, op->pad};
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    dnnl_pooling_desc_t desc;
    dnnl_status_t status = dnnl_pooling_forward_desc_init(&desc, dnnl_forward_training,
        dnnl_pooling_max, &p->in, &p->out, strides, kernel, pads, pads);

    if (status == dnnl_success) {
        status = rn_call_make(&p->forward, d, &desc, NULL, &forward);
    }
    if (status == dnnl_success) {
        p->workspace = *dnnl_primitive_desc_query_md(forward, dnnl_query_workspace_md, 0);
        p->workspace_bytes = dnnl_memory_desc_get_size(&p->workspace);
        status = dnnl_pooling_backward_desc_init(
            &desc, dnnl_pooling_max, &p->in, &p->out, strides, kernel, pads, pads);
    }
    if (status == dnnl_success) {
        status = rn_call_make(&p->backward, d, &desc, forward, &backward);
    }
    (void)dnnl_primitive_desc_destroy(forward);
    (void)dnnl_primitive_desc_destroy(backward);
    return status;
}

int rn_max_pool_init(struct rn_max_pool *p, const struct rn_dnn *d, const struct rn_net *net,
    const struct rn_op *op, struct co_err *err) {
    memset(p, 0, sizeof(*p));
    p->name = op->name;
    dnnl_status_t status = rn_dnn_tensor(d, net->config.batch, &net->tensors[op->in], &p->in);

    if (status == dnnl_success) {
        status = rn_dnn_tensor(d, net->config.batch, &net->tensors[op - net->ops + 1], &p->out);
    }
    if (status == dnnl_success) {
        status = pool_make(p, d, op);
    }
    return rn_dnn_check(status, "pooling", op->name, err);
}

int rn_max_pool_bind(struct rn_max_pool *p, const struct rn_dnn *d,
    const struct rn_max_pool_memory *m, struct co_err *err) {
    dnnl_status_t status = rn_call_bind(&p->forward, d, DNNL_ARG_SRC, &p->in, m->in);

    if (status == dnnl_success) {
        status = rn_call_bind(&p->forward, d, DNNL_ARG_DST, &p->out, m->out);
    }
    if (status == dnnl_success) {
        status = rn_call_bind(&p->forward, d, DNNL_ARG_WORKSPACE, &p->workspace, m->workspace);
    }
    if (status == dnnl_success) {
        status = rn_call_bind(&p->backward, d, DNNL_ARG_DIFF_DST, &p->out, m->d_out);
    }
    if (status == dnnl_success) {
        status = rn_call_bind(&p->backward, d, DNNL_ARG_WORKSPACE, &p->workspace, m->workspace);
    }
    if (status == dnnl_success) {
        status = rn_call_bind(&p->backward, d, DNNL_ARG_DIFF_SRC, &p->in, m->d_in);
    }
    return rn_dnn_check(status, "memory", p->name, err);
}

void rn_max_pool_done(struct rn_max_pool *p) {
    rn_call_done(&p->forward);
    rn_call_done(&p->backward);
}

/* ---- mean ------------------------------------------------------------------------------------ */

static float widen(const void *values, size_t i, enum rn_type type) {
    if (type == RN_BF16) {
        uint32_t bits = (uint32_t)((const uint16_t *)values)[i] << 16;
        float value;

        memcpy(&value, &bits, sizeof(value));
        return value;
    }
    return ((const float *)values)[i];
}

static void narrow(void *values, size_t i, enum rn_type type, float value) {
    if (type == RN_BF16) {
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        ((uint16_t *)values)[i] = (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    } else {
        ((float *)values)[i] = value;
    }
}

static void team_mean(void *arg, size_t index, size_t count) {
    const struct rn_mean_pool *p = arg;
    size_t rows = p->batch * p->channels / p->lanes; /* of lanes */
    size_t row, end = rn_team_part(rows, index, count, &row);

    for (; row < end; row++) {
        float sums[RN_LANES_MAX] = {0};

        for (size_t i = row * p->pixels; i < (row + 1) * p->pixels; i++) {
            for (size_t lane = 0; lane < p->lanes; lane++) {
                sums[lane] += widen(p->x, i * p->lanes + lane, p->type);
            }
        }
        for (size_t lane = 0; lane < p->lanes; lane++) {
            p->y[row * p->lanes + lane] = sums[lane] / (float)p->pixels;
        }
    }
}

static void team_mean_backward(void *arg, size_t index, size_t count) {
    const struct rn_mean_pool *p = arg;
    size_t rows = p->batch * p->channels / p->lanes;
    size_t row, end = rn_team_part(rows, index, count, &row);
    float scale = 1.0F / (float)p->pixels;

    for (; row < end; row++) {
        for (size_t i = row * p->pixels; i < (row + 1) * p->pixels; i++) {
            for (size_t lane = 0; lane < p->lanes; lane++) {
                narrow(p->d_x, i * p->lanes + lane, p->type, p->d_y[row * p->lanes + lane] * scale);
            }
        }
    }
}

void rn_mean_pool_forward(const struct rn_mean_pool *p) {
    rn_team_run(team_mean, (void *)p);
}

void rn_mean_pool_backward(const struct rn_mean_pool *p) {
    rn_team_run(team_mean_backward, (void *)p);
}
