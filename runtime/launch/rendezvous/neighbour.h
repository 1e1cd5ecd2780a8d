/* A sign of life between two nodes that meet through something slower.  Leases in an etcd end after
 * seconds, and to renew them four times a second would be writes of all nodes at one place.  So
 * each node asks one other, over a connection of their own: 4 short questions a second each,
 * however many there are.
 *
 * Who has never answered is not judged: its port may be closed to this machine.  Owned by the
 * loop's thread. */
#pragma once

#include "common/loop.h"

enum rl_neighbour_state {
    RL_NEIGHBOUR_NONE,  /* nobody is asked, or it has not answered yet */
    RL_NEIGHBOUR_HEARD, /* it answers */
    RL_NEIGHBOUR_MUTE,  /* no answer for RL_GROUP_PATIENCE_MS; twice that after it was wrong */
    RL_NEIGHBOUR_GONE,  /* it answered, then its connection broke, and nobody is there any more */
};

struct rl_neighbour;

/* Answers questions for the node `id` on a free port from now on.  changed: the state is another
 * one; may not free. */
CO_MUST_CHECK int rl_neighbour_new(struct co_loop *l, const char *id, void (*changed)(void *arg),
    void *arg, struct rl_neighbour **ret, struct co_err *err);
void rl_neighbour_free(struct rl_neighbour *n); /* NULL allowed */

uint16_t rl_neighbour_port(const struct rl_neighbour *n);
/* Asks the node `id` there from now on, and no other; the same again changes nothing.  host NULL:
 * nobody. */
void rl_neighbour_watch(struct rl_neighbour *n, const char *host, uint16_t port, const char *id);
enum rl_neighbour_state rl_neighbour_state(const struct rl_neighbour *n);
