/* This rank's copy of the model.  All copies stay equal: rt_reducer averages the gradients over the
 * ranks while backward still runs, then every rank makes the same Momentum step. */
#pragma once

#include "examples/resnet50/loss.h"
#include "examples/resnet50/options.h"
#include "examples/resnet50/plan.h"
#include "runtime/rt.h"

struct rn_replica {
    struct rn_plan *plan;
    struct rt_group *group, *norms; /* norms: for sync batch norm, else NULL */
    struct rt_reducer *reducer;     /* its gradient k belongs to the k-th parameter from the end */
    struct rt_optimizer **optimizers; /* one for each parameter */
    double smoothing;
    uint32_t *labels; /* (batch) of the images in the plan */
};

/* Collective: all ranks call it.  The seed gives the initial values.  Call rn_replica_close also
 * after a failure. */
CO_MUST_CHECK int rn_replica_open(
    struct rn_replica *r, const struct rt_job *job, const struct rn_options *o, struct co_err *err);
void rn_replica_close(struct rn_replica *r);

/* Collective: gives all ranks the parameters, velocities, running values and `more` of the rank
 * with the largest *step; of several, of the lowest rank. */
CO_MUST_CHECK int rn_replica_spread(
    struct rn_replica *r, uint64_t *step, const struct rt_values *more, struct co_err *err);
/* All velocities, in the layout of rn_plan_params. */
void rn_replica_velocity_get(const struct rn_replica *r, float *ret_velocity);
void rn_replica_velocity_set(struct rn_replica *r, const float *velocity);

/* Collective: one step with the images and labels in the plan; adds to *sum. */
CO_MUST_CHECK int rn_replica_step(
    struct rn_replica *r, double lr, struct rn_loss *sum, struct co_err *err);
/* Evaluates the first n images; not collective. */
CO_MUST_CHECK int rn_replica_test(
    struct rn_replica *r, size_t n, struct rn_loss *sum, struct co_err *err);
