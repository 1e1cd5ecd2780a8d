/* What Paddle's own key-value service answers: all that was posted, a JSON object.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/rendezvous/rendezvous.h"

struct rl_poll_round {
    const char *prefix_job; /* in: the job, own name as in the key, nodes that are expected */
    const char *name;
    int size;
    bool sort_ip;
    bool complete; /* out */
    size_t n;      /* nodes there */
    size_t self;
    struct rl_rdzv_peer *peers; /* by rank when complete; owned */
    void *owner;
};

/* CO_NORESOURCE: more nodes than expected; else what rl_deal says. */
CO_MUST_CHECK int rl_poll_parse(
    const char *body, size_t len, struct rl_poll_round *round, struct co_err *err);
void rl_poll_done(struct rl_poll_round *round);
