/* Shared by plan.c (memory), plan_run.c (steps) and plan_params.c (layouts). */
#pragma once

#include "examples/resnet50/arena.h"
#include "examples/resnet50/conv.h"
#include "examples/resnet50/linear.h"
#include "examples/resnet50/plan.h"
#include "examples/resnet50/pool.h"

/* The values that an operator may have in the arena. */
enum place {
    OUT,       /* the tensor it writes */
    D_IN,      /* gradient of `in` */
    D_ADD,     /* norm: of `add` */
    WORKSPACE, /* max pooling: indexes of the largest */
    FORWARD_COPIES,
    BACKWARD_COPIES, /* convolution: operands in the layouts that its passes want */
    PLACES,
};

struct node {
    const struct rn_op *op;
    struct rn_span spans[PLACES]; /* bytes 0: it does not have this value */
    int consumers[2];             /* the operators that read its output and give its gradients */
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

/* A value of operator `op` in the arena; NULL: it does not have this value. */
void *rn_plan_value(const struct rn_plan *p, int op, enum place place);
/* The gradient of operator i's output that its k-th reader gives; NULL: there is no k-th reader. */
void *rn_plan_gradient(const struct rn_plan *p, int i, int k);
