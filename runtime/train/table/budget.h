/* The memory limit of all tables of a server.  The shards share it, so any thread may call. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct rt_budget {
    size_t max;
    atomic_size_t used;
    atomic_size_t rows; /* the part of `used` that belongs to stores with cold rows (cold.h) */
};

/* b NULL: no limit.  CO_NORESOURCE: does not fit; the error has the request, the use and the limit.
 */
CO_MUST_CHECK int rt_budget_take(struct rt_budget *b, size_t bytes, struct co_err *err);
/* Takes bytes only if at most `most` are used afterwards.  For callers that can do without them. */
bool rt_budget_try(struct rt_budget *b, size_t bytes, size_t most);
/* Counts bytes whether they fit or not, for what cannot be done without; whoever calls it has a
 * limit of its own, a small part of the budget. */
void rt_budget_count(struct rt_budget *b, size_t bytes);
void rt_budget_give(struct rt_budget *b, size_t bytes);
