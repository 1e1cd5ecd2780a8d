/* Chooses the algorithm with the lowest cost for a call's size and members (runtime/train/cost). */
#include "runtime/train/coll/message.h"

const coll_msg_fn coll_msg_ways[COST_WAYS] = {
    [COST_WAY_DOUBLING] = coll_msg_doubling,
    [COST_WAY_HALVING] = coll_msg_halving,
    [COST_WAY_RING] = coll_msg_ring,
    [COST_WAY_REDUCE_TREE] = coll_msg_reduce_tree,
    [COST_WAY_REDUCE_CHAIN] = coll_msg_reduce_chain,
    [COST_WAY_BROADCAST_TREE] = coll_msg_broadcast_tree,
    [COST_WAY_BROADCAST_CHAIN] = coll_msg_broadcast_chain,
};

static int cheapest(
    enum cost_way one, struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    enum cost_way w = cost_way_cheapest(one, m->n, c->n * rt_dtype_size(c->dtype));
    return coll_msg_ways[w](g, m, c);
}

int coll_msg_all_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_WAY_RING, g, m, c);
}

int coll_msg_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_WAY_REDUCE_TREE, g, m, c);
}

int coll_msg_broadcast(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_WAY_BROADCAST_TREE, g, m, c);
}
