/* What one node brings to a job: the endpoints of its processes, and where all may meet.  The only
 * node of a job hands its own to rl_plan_make; others come from rl_value_decode.  Pure. */
#pragma once

#include "runtime/launch/job/job.h"

struct rl_offer {
    struct rl_list endpoints[RL_SEAT_COUNT];
    struct rl_stages stages; /* of the heterogeneous workers; none: no such workers */
    char *candidate;    /* collective, rpc: endpoint of the master, if this node is the first */
    uint16_t gloo_port; /* ps: free on the node's host; 0: not told */
};

/* This node's; ports: j->n_ports of them. */
void rl_offer_make(const struct rl_job *j, const uint16_t *ports, struct rl_offer *ret);
void rl_offer_done(struct rl_offer *o);
