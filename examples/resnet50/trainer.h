/* This process's part of a training run, from beginning to end. */
#pragma once

#include "examples/resnet50/loss.h"
#include "examples/resnet50/options.h"
#include "runtime/rt.h"

/* ret_last, which may be NULL: sums over the last epoch, or with o->test over the test images. */
CO_MUST_CHECK int rn_train(const struct rt_job *job, const struct rn_options *o,
    struct rn_loss *ret_last, struct co_err *err);
/* No training: tests with the newest checkpoint in o->load, which every rank reads. */
CO_MUST_CHECK int rn_test(const struct rt_job *job, const struct rn_options *o, struct co_err *err);
