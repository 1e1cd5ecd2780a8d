/* Trains as one worker of a job: reads its share, pulls, computes, pushes and prints progress.  At
 * the end the first worker evaluates and saves.  Uses the runtime only through runtime/rt.h. */
#pragma once

#include "common/err.h"
#include "examples/ctr/options.h"
#include "examples/nn/metrics.h"
#include "runtime/rt.h"

/* Parses a mode; "": not given.  CO_INVALID: it is not async, sync or geo. */
CO_MUST_CHECK int ctr_mode(const char *name, enum rt_mode *ret, struct co_err *err);

/* Blocks until this worker has finished.  Prints on stdout:
 *     TRAIN ---> pass: 0 loss: 0.52       twice a second and at the end of a pass; rt_progress
 *     ALL ---> auc: ...                 first worker, of all workers' last pass (together.h)
 *     TEST ---> loss: ...                                            first worker, at the end
 * ret_test, which may be NULL, gets the TEST measures in the first worker if there is test data; it
 * is cleared otherwise. */
CO_MUST_CHECK int ctr_train(const struct rt_job *job, const struct ctr_options *o,
    struct nn_metrics *ret_test, struct co_err *err);
