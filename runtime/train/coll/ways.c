/* Chooses the algorithm with the lowest cost for a call's size and members (runtime/train/cost). */
#include "runtime/train/coll/message.h"

const rt_msg_fn rt_msg_ways[RT_WAYS] = {
    [RT_WAY_DOUBLING] = rt_msg_doubling,
    [RT_WAY_HALVING] = rt_msg_halving,
    [RT_WAY_RING] = rt_msg_ring,
    [RT_WAY_REDUCE_TREE] = rt_msg_reduce_tree,
    [RT_WAY_REDUCE_CHAIN] = rt_msg_reduce_chain,
    [RT_WAY_BROADCAST_TREE] = rt_msg_broadcast_tree,
    [RT_WAY_BROADCAST_CHAIN] = rt_msg_broadcast_chain,
};

static int cheapest(
    enum rt_way one, struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    enum rt_way w = rt_way_cheapest(one, m->n, c->n * rt_dtype_size(c->dtype));
    return rt_msg_ways[w](g, m, c);
}

int rt_msg_all_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    return cheapest(RT_WAY_RING, g, m, c);
}

int rt_msg_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    return cheapest(RT_WAY_REDUCE_TREE, g, m, c);
}

int rt_msg_broadcast(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    return cheapest(RT_WAY_BROADCAST_TREE, g, m, c);
}
