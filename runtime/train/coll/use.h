/* All-gathers that the library makes for a program.  Each is another call than the program's own of
 * the same size, and messages name it by what it is for.
 *
 * n elements of each rank, out: [size][n]; else like rt_all_gather, and like rt_coll_start with an
 * all_gather whose op is an enum coll_use. */
#pragma once

#include "runtime/rt.h"

enum coll_use {
    COLL_USE_SPLIT = RT_OPS, /* rt_group_split */
    COLL_USE_REDUCER,        /* ranks compare their lists of gradients */
    COLL_USE_COMPRESSED,     /* a bucket of gradients */
    COLL_USE_NORM,           /* moments of a batch */
    COLL_USE_GROW,           /* rt_group_grow: ranks compare what they ask for */
    COLL_USE_LOCAL_SGD,      /* rt_local_sgd_step: ranks compare their steps */
    COLL_USE_NEWEST,         /* rt_broadcast_newest: whose values are the newest */
    COLL_USES,
};

CO_MUST_CHECK int coll_use_run(struct rt_group *g, enum coll_use use, const void *in, void *out,
    size_t n, enum rt_dtype dtype, struct co_err *err);
CO_MUST_CHECK int coll_use_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err);

/* Another rank's error code, as it came, negated.  It was asked to end, not this one: CO_PEERLOST.
 */
static inline int coll_code_of_other(uint64_t negated) {
    int code = negated > 0 && negated <= (uint64_t)-CO_DAMAGED ? -(int)negated : CO_INTERNAL;
    return code == CO_CANCELED ? CO_PEERLOST : code;
}
