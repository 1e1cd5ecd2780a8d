/* Whether a pod that has succeeded and is gone still has to be counted.  Pure. */
#pragma once

#include "common/json/jdoc.h"
#include "operator/api/child.h"
#include "operator/api/head.h"

/* The status of the job that is stored now has the pod among its completedIndexes, or the pod
 * cannot matter to it any more: it is of an earlier attempt or job, or beyond replicas, or the job
 * has ended. */
bool ctl_pod_is_counted(
    const struct api_pod *pod, const struct api_job_head *h, const struct co_jnode *job);
