/* Training as one worker of a job: reads its share, pulls, computes, pushes, prints progress; the
 * first worker evaluates and saves at the end.  Uses the runtime through runtime/rt.h alone. */
#pragma once

#include "common/err.h"
#include "examples/nn/metrics.h"
#include "examples/wide_and_deep/options.h"
#include "runtime/rt.h"

/* Blocks until this worker has finished.  Prints on stdout:
 *     TRAIN ---> pass: 0 loss: 0.52 auc: 0.79 examples/s: 21000      twice a second, at the end
 *                                                                    of a pass
 *     TEST ---> loss: ...                                            first worker, at the end
 * ret_test: those measures, for the first worker when there is test data, else cleared; may be
 * NULL. */
CO_MUST_CHECK int wd_train(const struct rt_job *job, const struct wd_options *o,
    struct nn_metrics *ret_test, struct co_err *err);
