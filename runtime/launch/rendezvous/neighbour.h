/* Signs of life between nodes that meet through etcd.  A lease in etcd ends only after seconds, and
 * renewing it four times a second would make all nodes write to one place.  So each node asks one
 * other node over a connection of their own: 4 short requests a second each, however many nodes
 * there are.
 *
 * A neighbour that has never answered stays NONE: its port may be closed to this machine.  Belongs
 * to the loop's thread. */
#pragma once

#include "common/loop.h"

enum rl_neighbour_state {
    RL_NEIGHBOUR_NONE,  /* no node is asked, or it has not answered yet */
    RL_NEIGHBOUR_HEARD, /* it answers */
    RL_NEIGHBOUR_MUTE,  /* no answer for RL_GROUP_PATIENCE_MS; doubled after each false alarm */
    RL_NEIGHBOUR_GONE,  /* it answered, then its connection broke and cannot be made again */
};

struct rl_neighbour;

/* Answers requests for the node `id` on a free port from now on.  changed is called when the state
 * has changed; it must not free the neighbour. */
CO_MUST_CHECK int rl_neighbour_new(struct co_loop *l, const char *id, void (*changed)(void *arg),
    void *arg, struct rl_neighbour **ret, struct co_err *err);
void rl_neighbour_free(struct rl_neighbour *n); /* NULL allowed */

uint16_t rl_neighbour_port(const struct rl_neighbour *n);
/* Asks the node `id` at that address from now on, and no other one.  A call for the same node
 * changes nothing.  host NULL: asks none. */
void rl_neighbour_watch(struct rl_neighbour *n, const char *host, uint16_t port, const char *id);
enum rl_neighbour_state rl_neighbour_state(const struct rl_neighbour *n);
