/* Checkpoints of a training run: parameters and velocities in the order of the network's table (not
 * in this processor's layout), running means and variances, and the progress of training.
 *
 *     dir/step-0000000120/    a checkpoint of runtime/train/ckpt: hashes, written atomically
 *
 * The two newest are kept.  Only one process may write, and none may read meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "examples/resnet50/plan.h"

struct rn_progress {
    uint64_t step;    /* steps done */
    uint64_t epoch;   /* the current one */
    uint64_t samples; /* how many samples of the epoch are done, by all ranks together */
};

/* The content of a checkpoint; velocity has the layout of rn_plan_params. */
struct rn_ckpt {
    struct rn_plan *plan;
    float *velocity;
};

/* CO_INVALID: a value is not finite; nothing is written. */
CO_MUST_CHECK int rn_ckpt_save(const char *dir, const struct rn_ckpt *c,
    const struct rn_progress *progress, struct co_err *err);

/* Loads the newest checkpoint that is complete; logs and skips damaged ones.  CO_NOTFOUND: there is
 * none at all.  CO_DAMAGED: all are damaged.  CO_INVALID: the newest is of another network. Others:
 * one could not be read.  On failure nothing is changed. */
CO_MUST_CHECK int rn_ckpt_load(
    const char *dir, const struct rn_ckpt *c, struct rn_progress *ret_progress, struct co_err *err);
