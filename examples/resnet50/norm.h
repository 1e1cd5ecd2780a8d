/* Batch normalisation with what follows it, forward and backward: y = relu(gamma (x - mean) / s +
 * beta + add), where mean and s are those of the batch in training (over all ranks where the sums
 * are shared, "sync batch norm") and running ones in evaluation.  Running values move by a tenth
 * of the way each step; the running variance is of the batch itself, not of what it was drawn
 * from: as in Paddle.  s = sqrt(variance + 1e-5). */
#pragma once

#include "common/err.h"
#include "examples/resnet50/lanes.h"

#define RN_NORM_EPSILON 1e-5
#define RN_NORM_KEEP 0.9F /* of the running values, a step */

/* Adds up values[n] over all ranks, in place. */
typedef int (*rn_share_fn)(void *arg, double *values, size_t n, struct co_err *err);

struct rn_share {
    rn_share_fn sum; /* NULL: this rank's batch alone */
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
    void *d_add;            /* where add is: its gradient */
    void *d_x;
};

/* How many sums a norm of this many channels, or fewer, needs with this many threads. */
size_t rn_norm_sums_count(size_t lanes, size_t channels, size_t threads);

CO_MUST_CHECK int rn_norm_forward(
    const struct rn_norm *o, const struct rn_share *share, struct co_err *err);
void rn_norm_evaluate(const struct rn_norm *o);
CO_MUST_CHECK int rn_norm_backward(
    const struct rn_norm *o, const struct rn_share *share, struct co_err *err);
