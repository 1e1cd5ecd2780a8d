/* Which rank each node gets.  Pure: the same nodes give the same ranks on whoever computes them,
 * Paddle's launcher included. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct rl_deal_node {
    const char *name; /* as in its key: the serving node without a rank is "aaaaaa" */
    int rank;         /* asked for; -1: none */
    const char *value;
};

struct rl_deal_rule {
    bool sort_ip; /* by the IPv4 address of the value's "candidate", whatever rank was asked for */
    bool holes;   /* ranks asked for are an order, not places: nodes may be missing (elastic) */
};

/* ret_order[rank] = index in nodes.  Else by the ranks asked for, or with none by key.
 * CO_EXISTS: two ask for one rank; CO_INVALID: some ask and some do not, a rank beyond n, a value
 * without an address; all name the nodes. */
CO_MUST_CHECK int rl_deal(const struct rl_deal_node *nodes, size_t n,
    const struct rl_deal_rule *rule, size_t *ret_order, struct co_err *err);

/* Whether `one` can be in a job of at most max nodes together with `nodes`; the same errors. */
CO_MUST_CHECK int rl_deal_fits(const struct rl_deal_node *nodes, size_t n,
    const struct rl_deal_node *one, size_t max, const struct rl_deal_rule *rule,
    struct co_err *err);
