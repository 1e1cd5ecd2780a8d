/* A training from beginning to end: this process's part of it. */
#pragma once

#include "examples/resnet50/loss.h"
#include "examples/resnet50/options.h"
#include "runtime/rt.h"

/* ret_last (NULL allowed): sums over the last epoch, or over the test images with o->test. */
CO_MUST_CHECK int rn_train(const struct rt_job *job, const struct rn_options *o,
    struct rn_loss *ret_last, struct co_err *err);
