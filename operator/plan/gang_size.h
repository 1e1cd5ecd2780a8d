/* The size of a gang: how many pods its scheduler must place at once, and their resources, for the
 * gang in the settings.
 *
 * A pod that has succeeded needs no place any more.  If it still counted, the group would wait for
 * it forever when another pod has to be replaced.  Pure. */
#pragma once

#include "operator/plan/children.h"

/* Number of pods to be placed together: those that have not succeeded, or fewer if schedulingPolicy
 * or the lower limit of elastic workers says so. */
int64_t plan_gang_members(const struct plan_children *w);
/* The sum of what they request, as the API server counts it (operator/api/resources.h), with the
 * start gate; an object that the caller owns. */
json_t *plan_gang_resources(const struct plan_children *w);
/* Some pod needs a place, so the group's size must be right.  Otherwise a group that is too large
 * does no harm, and updating it at each success would cost a request each. */
bool plan_gang_size_matters(const struct plan_children *w);
