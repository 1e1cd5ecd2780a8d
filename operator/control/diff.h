/* The smallest JSON merge patch (RFC 7386) that turns one value into another.  Pure. */
#pragma once

#include "common/json.h"

/* NULL when nothing differs.  Lists are replaced whole; a key that is gone becomes null; a null
 * in `to` counts as absent.  The caller owns the result. */
json_t *op_merge_diff(const json_t *from, const json_t *to);
