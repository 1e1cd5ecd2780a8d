/* Assigns ranks to the nodes of a job.  A pure function: the
 * same nodes get the same ranks on every machine that computes them, and the order is that of
 * Paddle's own launcher, so that both kinds of launcher can be in one job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct rdzv_assign_node {
    const char *name; /* as in its key; the node that serves and asks for no rank is "aaaaaa" */
    int rank;         /* the rank that it asks for; -1: none */
    const char *value;
};

struct rdzv_assign_rule {
    bool sort_ip; /* order by the IPv4 address in the value's "candidate"; ignore asked ranks */
    bool holes;   /* elastic jobs: asked ranks only give the order, and numbers may be missing */
};

/* Fills ret_order[rank] = index in nodes.  Without sort_ip the order is that of the ranks asked
 * for, or that of the keys when no node asks for one.
 * CO_EXISTS: two nodes ask for the same rank.  CO_INVALID: some nodes ask and some do not, a rank
 * is beyond n, or a value has no address.  The error names the nodes. */
CO_MUST_CHECK int rdzv_assign(const struct rdzv_assign_node *nodes, size_t n,
    const struct rdzv_assign_rule *rule, size_t *ret_order, struct co_err *err);

/* Checks that `one` can be in a job of at most max nodes together with `nodes`; the same errors. */
CO_MUST_CHECK int rdzv_assign_fits(const struct rdzv_assign_node *nodes, size_t n,
    const struct rdzv_assign_node *one, size_t max, const struct rdzv_assign_rule *rule,
    struct co_err *err);
