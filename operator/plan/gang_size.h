/* How many pods a gang is, and how much they need: what its scheduler must find at once.  Of the
 * gang in the settings.
 *
 * A pod that has succeeded never needs a place again, so a group that went on waiting for it would
 * wait for ever when another pod is made anew.  Pure. */
#pragma once

#include "operator/plan/world.h"

/* So many pods are placed together: those that are still to end, as far as schedulingPolicy and
 * elastic workers ask for them. */
int64_t op_gang_members(const struct op_world *w);
/* What they need in sum, by name; an object, the caller owns it. */
json_t *op_gang_resources(const struct op_world *w);
/* Some pod needs a place.  If not, a group that is larger than what is left keeps nobody waiting,
 * and to say so at each success would be a request each. */
bool op_gang_size_matters(const struct op_world *w);
