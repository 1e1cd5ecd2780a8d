/* Runs a plan's operators forward and backward. */
#include "examples/resnet50/plan_internal.h"
#include "examples/resnet50/team.h"

void rn_plan_share(struct rn_plan *p, const struct rn_share *share) {
    p->share = *share;
}

static int forward_one(struct rn_plan *p, struct node *n, bool training, struct co_err *err) {
    switch (n->op->kind) {
    case RN_CONV:
        return rn_conv_forward(&n->conv, &p->dnn, err);
    case RN_NORM:
        if (training) {
            return rn_norm_forward(&n->norm, &p->share, err);
        }
        rn_norm_evaluate(&n->norm);
        return 0;
    case RN_MAX_POOL:
        return rn_call_run(&n->max_pool.forward, &p->dnn, n->op->name, err);
    case RN_MEAN_POOL:
        rn_mean_pool_forward(&n->mean_pool);
        return 0;
    case RN_LINEAR:
        return rn_call_run(&n->linear.forward, &p->dnn, n->op->name, err);
    }
    return 0;
}

int rn_plan_forward(struct rn_plan *p, bool training, struct co_err *err) {
    for (int i = 0; i < p->net.n_ops; i++) {
        CO_TRY(forward_one(p, &p->nodes[i], training, err));
    }
    return 0;
}

/* ---- backward -------------------------------------------------------------------------------- */

struct sum {
    const struct rn_plan *p;
    struct rn_lane_rows rows;
};

static void team_add(void *arg, size_t index, size_t count) {
    const struct sum *s = arg;
    size_t lanes = s->p->dnn.lanes, size = rn_type_size(s->p->dnn.type), first;
    size_t end = rn_team_part(s->rows.n / lanes, index, count, &first);
    struct rn_lane_rows part = {.n = (end - first) * lanes,
        .x = (const char *)s->rows.x + first * lanes * size,
        .add = (const char *)s->rows.add + first * lanes * size,
        .out = (char *)s->rows.out + first * lanes * size};
    struct rn_lane_values v = {.mean = {0}};

    for (size_t i = 0; i < lanes; i++) {
        v.scale[i] = 1.0F;
    }
    rn_lane_kernels_get(s->p->dnn.type, lanes, 0)->apply(&part, &v);
}

/* If two operators read the output of max pooling, adds the second gradient to the first one.  A
 * norm does this itself, inside its loops. */
static void gradients_add(const struct rn_plan *p, int i) {
    const struct rn_tensor *t = &p->net.tensors[i + 1];
    void *first = rn_plan_gradient(p, i, 0), *second = rn_plan_gradient(p, i, 1);
    struct sum s = {.p = p,
        .rows = {.n = (size_t)p->net.config.batch * t->channels * t->height * t->width,
            .x = first,
            .add = second,
            .out = first}};

    if (second) {
        rn_team_run(team_add, &s);
    }
}

static int backward_one(struct rn_plan *p, struct node *n, struct co_err *err) {
    switch (n->op->kind) {
    case RN_CONV:
        return rn_conv_backward(&n->conv, &p->dnn, err);
    case RN_NORM:
        return rn_norm_backward(&n->norm, &p->share, err);
    case RN_MAX_POOL:
        gradients_add(p, (int)(n->op - p->net.ops));
        return rn_call_run(&n->max_pool.backward, &p->dnn, n->op->name, err);
    case RN_MEAN_POOL:
        rn_mean_pool_backward(&n->mean_pool);
        return 0;
    case RN_LINEAR:
        return rn_linear_backward(&n->linear, &p->dnn, err);
    }
    return 0;
}

int rn_plan_backward(struct rn_plan *p, rn_ready_fn ready, void *arg, struct co_err *err) {
    int done = p->net.n_params;

    for (int i = p->net.n_ops - 1; i >= 0; i--) {
        CO_TRY(backward_one(p, &p->nodes[i], err));
        while (done > 0 && p->net.params[done - 1].op == i) {
            done--;
            if (ready) {
                CO_TRY(ready(arg, done, err));
            }
        }
    }
    return 0;
}
