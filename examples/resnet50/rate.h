/* The learning rate of a step: linear warm-up, then constant, piecewise constant or a cosine. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "examples/resnet50/options.h"
#include "runtime/rt.h"

struct rn_rate {
    double lr;
    struct rt_schedule *schedule; /* owned */
};

/* Steps count from the beginning of training.  CO_INVALID names the option. */
CO_MUST_CHECK int rn_rate_init(
    const struct rn_options *o, uint64_t steps_per_epoch, struct rn_rate *ret, struct co_err *err);
void rn_rate_done(struct rn_rate *r); /* zeroes allowed */
double rn_rate_at(const struct rn_rate *r, uint64_t step);
