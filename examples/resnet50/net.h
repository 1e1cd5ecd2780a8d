/* A residual network as a table: tensors, the operators between them in the order in which they
 * run, and their parameters.  Layers, sizes and names of parameters are those of
 * paddle.vision.models.resnet18 to resnet152 (a bottleneck has its stride in the 3x3 convolution).
 * Only a description: no memory for values, no oneDNN, no threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum {
    RN_OPS_MAX = 320,
    RN_PARAMS_MAX = 480,
    RN_NAME_MAX = 32,
    RN_CLASSES_MAX = 1 << 20,
    RN_IMAGE_MAX = 4096,
    RN_BATCH_MAX = 1 << 16,
    RN_NONE = -1,
};

enum rn_kind {
    RN_CONV,      /* no bias */
    RN_NORM,      /* batch normalisation, then + add, then relu */
    RN_MAX_POOL,  /* 3x3, stride 2, padding 1 */
    RN_MEAN_POOL, /* over all pixels: (N, C, H, W) -> (N, C) */
    RN_LINEAR,
};

/* A shape (N, channels, height, width); N is the same for all. */
struct rn_tensor {
    uint32_t channels, height, width;
};

/* Operator i writes tensor i + 1; tensor 0 is the images.  At most two operators read a tensor: as
 * `in` of one or two, or as `in` of one and `add` of another. */
struct rn_op {
    enum rn_kind kind;
    char name[RN_NAME_MAX]; /* layer1.0.conv1 */
    int in, add;            /* tensors; add: only in a norm that ends a block, else RN_NONE */
    bool relu;
    uint32_t kernel, stride, pad;
    int param;      /* first of its parameters (weight, then bias), or RN_NONE */
    size_t running; /* norm: where its channels begin in the running means and variances */
};

/* A parameter.  Its values are row-major, as in Paddle: convolution (out, in, kernel, kernel), norm
 * (channels), linear weight (in, out). */
struct rn_param {
    char name[RN_NAME_MAX + 8]; /* layer1.0.conv1.weight */
    int op;
    uint32_t dims[4];
    int n_dims;
    size_t count;
};

struct rn_net_config {
    int depth;        /* 50; see rn_net_depths */
    uint32_t batch;   /* N */
    uint32_t image;   /* height and width of the images */
    uint32_t classes; /* 102 */
    uint32_t width;   /* channels of the first stage: 64, or a smaller multiple of 16 for tests */
};

struct rn_net {
    struct rn_net_config config;
    struct rn_tensor tensors[RN_OPS_MAX + 1];
    struct rn_op ops[RN_OPS_MAX];
    int n_ops;
    struct rn_param params[RN_PARAMS_MAX];
    int n_params;
    size_t parameters; /* values of all params */
    size_t running;    /* channels of all norms */
};

/* CO_INVALID names the value that does not fit. */
CO_MUST_CHECK int rn_net_make(
    const struct rn_net_config *config, struct rn_net *ret_net, struct co_err *err);

/* "10, 14, 18, 34, 50, 101, 152": 10 and 14 are small networks for tests. */
const char *rn_net_depths(void);

/* Initial values of parameter i; a seed gives the same values on every machine.  Convolutions are
 * normal with deviation sqrt(2 / (in kernel^2)), linear weights uniform in +-1 / sqrt(in), scales
 * 1, all others 0, like in the FleetX example. */
void rn_net_init_param(const struct rn_net *net, int i, uint64_t seed, float *ret_values);
