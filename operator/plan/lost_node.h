/* Pods on nodes that do not respond: which they are, and when they are given up.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* The first such pod of the job, even if it is being deleted; NULL: none.  Writes "pod
 * x-worker-1 (and 2 more): node n1 does not answer since 2026-01-01T00:00:00Z". */
const struct api_pod *plan_node_find_lost(
    const struct plan_children *w, char *ret_text, size_t size);
/* Some pod has been lost for nodeLostAfter.  Otherwise o wakes when that will be so. */
bool plan_node_is_due(struct plan_assessment *o, const struct plan_children *w);
/* The pod has been lost for nodeLostAfter, so it is deleted without waiting for its node. */
bool plan_node_is_given_up(const struct plan_children *w, const struct api_pod *pod);
