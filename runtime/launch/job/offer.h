/* What one node contributes to a job ("offer"): the endpoints of its processes, and an address that
 * all can use as master.  A single node passes its own to rl_plan_make; those of other nodes come
 * from the rendezvous by rl_value_decode.  Pure. */
#pragma once

#include "runtime/launch/job/job.h"

struct rl_offer {
    struct rl_list endpoints[RL_SEAT_COUNT];
    struct rl_stages stages; /* of the heterogeneous workers; empty: there are none */
    char *candidate;         /* collective, rpc: endpoint of the master if this node has rank 0 */
    uint16_t gloo_port;      /* ps: a port that is free on the node's host; 0: unknown */
};

/* The index of the port that is not for a child, but for the master or gloo. */
size_t rl_offer_spare(const struct rl_job *j);
/* This node's offer.  ports: j->n_ports of them. */
void rl_offer_make(const struct rl_job *j, const uint16_t *ports, struct rl_offer *ret);
void rl_offer_done(struct rl_offer *o);
