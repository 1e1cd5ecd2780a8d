/* The memory that all tables of a server may take together.  Its shards share it: any thread. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "common/err.h"

struct rt_budget {
    size_t max;
    atomic_size_t used;
};

/* CO_NORESOURCE says what was asked, what is used and the limit.  NULL: no limit. */
CO_MUST_CHECK int rt_budget_take(struct rt_budget *b, size_t bytes, struct co_err *err);
void rt_budget_give(struct rt_budget *b, size_t bytes);
