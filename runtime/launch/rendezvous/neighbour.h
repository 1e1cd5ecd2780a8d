/* Signs of life between nodes that meet through etcd.  A lease in etcd ends only after seconds, and
 * renewing it four times a second would make all nodes write to one place.  So each node asks one
 * other node over a connection of their own: 4 short requests a second each, however many nodes
 * there are.
 *
 * A neighbour that has never answered stays NONE: its port may be closed to this machine.  Belongs
 * to the loop's thread. */
#pragma once

#include "common/loop.h"

enum rdzv_neighbour_state {
    RDZV_NEIGHBOUR_NONE,     /* no node is asked, or it has not answered yet */
    RDZV_NEIGHBOUR_ANSWERED, /* it answers */
    RDZV_NEIGHBOUR_LATE, /* no answer for RDZV_GROUP_PATIENCE_MS; doubled after each false alarm */
    RDZV_NEIGHBOUR_GONE, /* it answered, then its connection broke and cannot be made again */
    RDZV_NEIGHBOUR_DONE, /* it answered that its workers have ended well; it is not asked again */
};

struct rdzv_neighbour;

/* Answers requests for the node `id` on a free port from now on.  changed is called when the state
 * has changed; it must not free the neighbour. */
CO_MUST_CHECK int rdzv_neighbour_new(struct co_loop *l, const char *id, void (*changed)(void *arg),
    void *arg, struct rdzv_neighbour **ret, struct co_err *err);
void rdzv_neighbour_free(struct rdzv_neighbour *n); /* NULL allowed */

/* Whether it answers that this node's workers have ended well: who asks must not take this node for
 * a dead one while etcd is away. */
void rdzv_neighbour_ended_well(struct rdzv_neighbour *n, bool well);
uint16_t rdzv_neighbour_port(const struct rdzv_neighbour *n);
/* Asks the node `id` at that address from now on, and no other one.  A call for the same node
 * changes nothing.  host NULL: asks none. */
void rdzv_neighbour_watch(
    struct rdzv_neighbour *n, const char *host, uint16_t port, const char *id);
enum rdzv_neighbour_state rdzv_neighbour_state(const struct rdzv_neighbour *n);
