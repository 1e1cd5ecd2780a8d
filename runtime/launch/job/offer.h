/* What one node contributes to a job ("offer"): the endpoints of its processes, and an address that
 * all can use as master.  A single node passes its own to job_plan_make; those of other nodes come
 * from the rendezvous by job_value_decode.  Pure. */
#pragma once

#include "runtime/launch/job/job.h"

struct job_offer {
    struct options_list endpoints[JOB_ROLE_COUNT];
    struct job_stages stages; /* of the heterogeneous workers; empty: there are none */
    char *candidate;          /* collective, rpc: endpoint of the master if this node has rank 0 */
    uint16_t gloo_port;       /* ps: a port that is free on the node's host; 0: unknown */
};

/* The index of the port that is not for a child, but for the master or gloo. */
size_t job_offer_spare(const struct job *j);
/* This node's offer.  ports: j->n_ports of them. */
void job_offer_make(const struct job *j, const uint16_t *ports, struct job_offer *ret);
void job_offer_done(struct job_offer *o);
