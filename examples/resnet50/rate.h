/* The learning rate of a step: linear warm-up, then constant, by pieces or along a cosine.  Pure;
 * formulas by rt_lr_*. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "examples/resnet50/options.h"

enum { RN_BOUNDARIES_MAX = 16 };

struct rn_rate {
    enum { RN_RATE_CONSTANT, RN_RATE_PIECEWISE, RN_RATE_COSINE } kind;
    double lr;
    uint64_t warmup, steps; /* steps: of the whole training */
    uint64_t boundaries[RN_BOUNDARIES_MAX];
    double values[RN_BOUNDARIES_MAX + 1]; /* each a tenth of the one before */
    uint64_t n_boundaries;
};

/* CO_INVALID names the option. */
CO_MUST_CHECK int rn_rate_init(
    const struct rn_options *o, uint64_t steps_per_epoch, struct rn_rate *ret, struct co_err *err);
/* t: steps since the end of the warm-up for boundaries and the cosine, as Paddle's LinearWarmup. */
double rn_rate_at(const struct rn_rate *r, uint64_t step);
