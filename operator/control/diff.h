/* The smallest JSON merge patch (RFC 7386) that turns one value into another.  Pure. */
#pragma once

#include "common/json/json.h"

/* NULL when nothing differs.  Lists are replaced whole; a key that is gone becomes null; a null
 * in `to` counts as absent.  The caller owns the result. */
json_t *ctl_merge_diff(const json_t *from, const json_t *to);

/* True when a status write may be delayed, because only counters and messages differ: not the
 * phase, nor its reason, nor anything that later plans rely on.  The first status of a job that
 * waits for its pods may be delayed, too: a little later it can say more.  stored may be NULL;
 * diff is ctl_merge_diff's. */
bool ctl_status_can_wait(const json_t *stored, const json_t *wanted, const json_t *diff);
