/* This rank's copy of the model and what keeps it the same as the others': gradients are averaged
 * while backward goes on (rt_reducer), then Momentum takes a step. */
#pragma once

#include "examples/resnet50/loss.h"
#include "examples/resnet50/options.h"
#include "examples/resnet50/plan.h"
#include "runtime/rt.h"

struct rn_replica {
    struct rn_plan *plan;
    struct rt_group *group, *norms;   /* norms: of sync batch norm; NULL without */
    struct rt_reducer *reducer;       /* its gradients are the parameters, backwards */
    struct rt_optimizer **optimizers; /* one a parameter */
    double smoothing;
    uint32_t *labels; /* (batch) of the images in the plan */
};

/* Collective.  Initial values are those of the seed.  rn_replica_close in any case. */
CO_MUST_CHECK int rn_replica_open(
    struct rn_replica *r, const struct rt_job *job, const struct rn_options *o, struct co_err *err);
void rn_replica_close(struct rn_replica *r);

/* Collective: parameters, velocities, running values and `more` of the rank whose *step is the
 * largest (of several the lowest rank), everywhere. */
CO_MUST_CHECK int rn_replica_spread(
    struct rn_replica *r, uint64_t *step, const struct rt_values *more, struct co_err *err);
/* All velocities, lying as rn_plan_params does. */
void rn_replica_velocity_get(const struct rn_replica *r, float *ret_velocity);
void rn_replica_velocity_set(struct rn_replica *r, const float *velocity);

/* Collective: one step with the images and labels that are there; adds to *sum. */
CO_MUST_CHECK int rn_replica_step(
    struct rn_replica *r, double lr, struct rn_loss *sum, struct co_err *err);
/* Of the first n images; not collective. */
CO_MUST_CHECK int rn_replica_test(
    struct rn_replica *r, size_t n, struct rn_loss *sum, struct co_err *err);
