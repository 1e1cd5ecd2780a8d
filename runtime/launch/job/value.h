/* The value that a node publishes at the rendezvous: its offer as the JSON object that Paddle's
 * launchers exchange.  Pure. */
#pragma once

#include "runtime/launch/job/offer.h"

/* offer: this node's.  The caller frees the result. */
char *job_value_encode(const struct job *j, const struct job_offer *offer);
/* node: the rank of the node that published the text.  CO_INVALID: the error names it. */
CO_MUST_CHECK int job_value_decode(
    const struct job *j, size_t node, const char *text, struct job_offer *ret, struct co_err *err);
