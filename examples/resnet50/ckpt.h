/* Checkpoints of a training: parameters and velocities in the order of the network's table (not in
 * this processor's layout), running means and variances, and where training stands.
 *
 *     dir/step-0000000120/    a checkpoint of runtime/train/ckpt: hashes, written atomically
 *
 * The two newest are kept.  One process writes; nobody reads meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "examples/resnet50/plan.h"

struct rn_progress {
    uint64_t step;    /* steps done */
    uint64_t epoch;   /* the one under way */
    uint64_t samples; /* of it that are done, by all ranks together */
};

/* What belongs into one; velocity as rn_plan_params. */
struct rn_ckpt {
    struct rn_plan *plan;
    float *velocity;
};

CO_MUST_CHECK int rn_ckpt_save(const char *dir, const struct rn_ckpt *c,
    const struct rn_progress *progress, struct co_err *err);

/* The newest that is whole; those that are not are named in the log and passed over.
 * CO_NOTFOUND: none at all; else the last error, nothing is changed then. */
CO_MUST_CHECK int rn_ckpt_load(
    const char *dir, const struct rn_ckpt *c, struct rn_progress *ret_progress, struct co_err *err);
