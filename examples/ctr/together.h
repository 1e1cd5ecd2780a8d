/* Measures over all workers: each counts over its share of a pass, and the workers sum the counts
 * in a collective group (spec.withGloo). */
#pragma once

#include "examples/nn/metrics.h"
#include "runtime/rt.h"

/* All workers call it after their last step.  The first one prints
 *     ALL ---> auc: ... acc: ... mae: ... rmse: ... samples: ... workers: ...
 * Does nothing if withGloo is off or there is only one worker.  A missing worker does not fail the
 * job: a warning is logged instead of the numbers. */
void ctr_metrics_together(const struct rt_job *job, const struct nn_metrics *own);
