/* Batch normalisation together with addition and ReLU, forward and backward:
 *
 *     y = relu(gamma (x - mean) / s + beta + add),    s = sqrt(variance + 1e-5)
 *
 * In training, mean and variance are those of the batch (of all ranks' batches if sums are shared:
 * "sync batch norm"); in evaluation they are the running ones.  Each step moves the running values
 * a tenth of the way to the batch's.  As in Paddle, the running variance is the batch's own
 * (divided by M), not an estimate for the population (divided by M - 1). */
#pragma once

#include "common/err.h"
#include "examples/resnet50/lanes.h"

#define RN_NORM_EPSILON 1e-5
#define RN_NORM_KEEP 0.9F /* the part of the running values that a step keeps */

/* Sums values[n] over all ranks, in place. */
typedef int (*rn_share_fn)(void *arg, double *values, size_t n, struct co_err *err);

struct rn_share {
    rn_share_fn sum; /* NULL: use only this rank's batch */
    void *arg;
    size_t ranks;
};

struct rn_norm {
    enum rn_type type;
    size_t lanes, batch, channels, pixels;
    bool relu;
    const float *gamma, *beta;
    float *d_gamma, *d_beta;
    float *running_mean, *running_variance;
    float *mean, *inverse;     /* [channels] of the last forward pass; inverse: 1 / s */
    struct rn_lane_sums *sums; /* rn_norm_sums_count of them */
    const void *x, *add;       /* add: NULL for none */
    void *y;
    const void *d_y, *d_y2; /* d_y2: NULL for none */
    void *d_add;            /* the gradient of add, if there is one */
    void *d_x;
};

/* The number of sums that a norm with at most this many channels needs with this many threads. */
size_t rn_norm_sums_count(size_t lanes, size_t channels, size_t threads);

CO_MUST_CHECK int rn_norm_forward(
    const struct rn_norm *o, const struct rn_share *share, struct co_err *err);
void rn_norm_evaluate(const struct rn_norm *o);
CO_MUST_CHECK int rn_norm_backward(
    const struct rn_norm *o, const struct rn_share *share, struct co_err *err);
