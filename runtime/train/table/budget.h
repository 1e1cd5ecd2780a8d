/* The memory limit of all tables of a server.  The shards share it, so any thread may call. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct table_budget {
    size_t max;
    atomic_size_t used;
    atomic_size_t rows; /* the part of `used` that belongs to stores with cold rows (cold.h) */
};

/* b NULL: no limit.  CO_NORESOURCE: does not fit; the error has the request, the use and the limit.
 */
CO_MUST_CHECK int table_budget_take(struct table_budget *b, size_t bytes, struct co_err *err);
/* Takes bytes only if at most `most` are used afterwards.  For callers that can do without them. */
bool table_budget_try(struct table_budget *b, size_t bytes, size_t most);
/* Counts bytes whether they fit or not, for what cannot be done without; whoever calls it has a
 * limit of its own, a small part of the budget. */
void table_budget_count(struct table_budget *b, size_t bytes);
void table_budget_give(struct table_budget *b, size_t bytes);
