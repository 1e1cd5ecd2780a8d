/* What a node tells the others where they meet: its offer as the JSON object that Paddle's
 * launchers exchange.  Pure. */
#pragma once

#include "runtime/launch/job/offer.h"

/* offer: of this node.  The caller frees. */
char *rl_value_encode(const struct rl_job *j, const struct rl_offer *offer);
/* node: who told the text, by rank.  CO_INVALID names it. */
CO_MUST_CHECK int rl_value_decode(const struct rl_job *j, size_t node, const char *text,
    struct rl_offer *ret, struct co_err *err);
