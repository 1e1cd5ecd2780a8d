/* What plan.c (memory), plan_run.c (steps) and plan_params.c (layouts) share. */
#pragma once

#include "examples/resnet50/arena.h"
#include "examples/resnet50/conv.h"
#include "examples/resnet50/linear.h"
#include "examples/resnet50/plan.h"
#include "examples/resnet50/pool.h"

/* What an operator has in the arena. */
enum place {
    OUT,       /* the tensor it writes */
    D_IN,      /* gradient of `in` */
    D_ADD,     /* norm: of `add` */
    WORKSPACE, /* max pooling: where the largest were; convolution: images in another layout */
    FORWARD_COPY,
    BACKWARD_COPY,
    PLACES,
};

struct node {
    const struct rn_op *op;
    struct rn_span spans[PLACES]; /* bytes 0: nothing there */
    int consumers[2];             /* of what it writes: places of its gradients */
    enum place consumer_place[2];
    int n_consumers;
    union {
        struct rn_conv conv;
        struct rn_norm norm;
        struct rn_max_pool max_pool;
        struct rn_mean_pool mean_pool;
        struct rn_linear linear;
    };
};

struct rn_plan {
    struct rn_net net;
    struct rn_dnn dnn;
    struct node nodes[RN_OPS_MAX];
    size_t places[RN_PARAMS_MAX + 1]; /* in floats */
    struct rn_share share;
    char *arena;
    size_t arena_bytes, apart_bytes;
    float *params, *grads;
    float *running_mean, *running_variance, *mean, *inverse;
    float *images, *d_logits;
    struct rn_lane_sums *sums;
};

/* What operator `op` has in the arena; NULL: nothing there. */
void *rn_plan_value(const struct rn_plan *p, int op, enum place place);
/* Gradient of what operator i writes, as its k-th reader gives it; NULL: it has no k-th. */
void *rn_plan_gradient(const struct rn_plan *p, int i, int k);
