/* Reads the answer of Paddle's own key-value service, for jobs in which Paddle's launcher serves: a
 * JSON object of all keys that were posted.  It makes the same ranks of it as Paddle does.  Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/rendezvous/rendezvous.h"

struct rdzv_poll_round {
    /* In: */
    const char *prefix_job;
    const char *name; /* the node's own, as in its key */
    int size;         /* nodes that the job must have */
    bool sort_ip;
    /* Out: */
    bool complete;           /* all nodes are there, this one included */
    size_t n;                /* nodes that are there */
    size_t self;             /* this node's rank */
    struct rdzv_peer *peers; /* by rank when complete; owned */
    void *owner;             /* of the strings in peers */
};

/* CO_NORESOURCE: more nodes than expected; else the errors of rdzv_assign. */
CO_MUST_CHECK int rdzv_poll_parse(
    const char *body, size_t len, struct rdzv_poll_round *round, struct co_err *err);
void rdzv_poll_done(struct rdzv_poll_round *round);
