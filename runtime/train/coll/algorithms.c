/* Chooses the algorithm with the lowest cost for a call's size and members (runtime/train/cost). */
#include "runtime/train/coll/message.h"

const coll_msg_fn coll_msg_algorithms[COST_ALGORITHMS] = {
    [COST_ALGORITHM_DOUBLING] = coll_msg_doubling,
    [COST_ALGORITHM_HALVING] = coll_msg_halving,
    [COST_ALGORITHM_RING] = coll_msg_ring,
    [COST_ALGORITHM_REDUCE_TREE] = coll_msg_reduce_tree,
    [COST_ALGORITHM_REDUCE_CHAIN] = coll_msg_reduce_chain,
    [COST_ALGORITHM_BROADCAST_TREE] = coll_msg_broadcast_tree,
    [COST_ALGORITHM_BROADCAST_CHAIN] = coll_msg_broadcast_chain,
};

static int cheapest(enum cost_algorithm one, struct rt_group *g, const struct coll_members *m,
    const struct rt_coll *c) {
    enum cost_algorithm w = cost_algorithm_cheapest(one, m->n, c->n * rt_dtype_size(c->dtype));
    return coll_msg_algorithms[w](g, m, c);
}

int coll_msg_all_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_ALGORITHM_RING, g, m, c);
}

int coll_msg_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_ALGORITHM_REDUCE_TREE, g, m, c);
}

int coll_msg_broadcast(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    return cheapest(COST_ALGORITHM_BROADCAST_TREE, g, m, c);
}
