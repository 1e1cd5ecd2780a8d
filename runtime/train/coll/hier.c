/* Calls over several machines that may have several ranks each.
 *
 *     all_reduce   If all machines have the same number of ranks, L: each rank reduces its n / L
 *                  elements inside its machine, then with the ranks of the same index on the other
 *                  machines; then the ranks of a machine gather.  So every rank uses the network.
 *
 *                      machine 0   rank 0: part A   rank 1: part B
 *                                       |                |           network
 *                      machine 1   rank 2: part A   rank 3: part B
 *
 *                  Otherwise, and if n is small: reduce to the first rank of each machine,
 *                  all_reduce between those, broadcast inside the machines.
 *     reduce, broadcast, barrier   between one rank of each machine, and inside the machines
 *     the others                   as messages between all ranks
 *
 * The one rank of a machine is its first one, or the root on the root's machine. */
#include <string.h>

#include "runtime/train/coll/message.h"

static struct coll_members members_of(const struct rt_group *g, const uint32_t *rank, uint32_t n) {
    struct coll_members m = {.rank = rank, .n = n, .me = n};
    for (uint32_t i = 0; i < n; i++) {
        m.me = rank[i] == g->rank ? i : m.me;
    }
    return m;
}

/* Turns a sum into the average that the call asked for. */
static void finish(struct rt_group *g, const struct rt_coll *c, void *values, size_t n) {
    if (c->op == RT_AVG) {
        const void *in[1] = {values};
        coll_reduce_n(g->kernels, c->dtype, c->op, 1.0 / g->size, values, in, 1, n);
    }
}

static struct rt_coll sum_of(const struct rt_coll *c) {
    struct rt_coll s = *c;
    s.op = c->op == RT_AVG ? RT_SUM : c->op;
    return s;
}

/* ---- all_reduce ---- */

static int all_reduce_first(struct rt_group *g, const struct rt_coll *c) {
    struct rt_coll in = sum_of(c), between, out = *c;
    in.kind = RT_REDUCE;
    in.root = out.root = g->locals[0];
    int rc = 0;
    if (g->n_local > 1) {
        rc = coll_shm_reduce(g, &in);
    } else if (c->in != c->out && c->n > 0) {
        memcpy(c->out, c->in, c->n * rt_dtype_size(c->dtype));
    }
    between = in;
    between.in = c->out;
    between.root = 0;
    if (rc == 0 && g->local == 0) {
        struct coll_members m = members_of(g, g->leaders, g->n_nodes);
        rc = coll_msg_all_reduce(g, &m, &between);
        finish(g, c, c->out, c->n);
    }
    out.kind = RT_BROADCAST;
    return rc < 0 || g->n_local == 1 ? rc : coll_shm_broadcast(g, &out);
}

static int all_reduce_shares(struct rt_group *g, const struct rt_coll *c) {
    size_t size = rt_dtype_size(c->dtype), share = c->n / g->n_local;
    size_t done = share * g->n_local;
    unsigned char *own = (unsigned char *)c->out + g->local * share * size;
    struct rt_coll inside = sum_of(c);
    inside.n = share;
    inside.out = own;
    CO_TRY(coll_shm_reduce_scatter(g, &inside));
    struct coll_members m = members_of(g, g->share, g->n_nodes);
    struct rt_coll between = inside;
    between.in = own;
    CO_TRY(coll_msg_all_reduce(g, &m, &between));
    finish(g, c, own, share);
    between.out = c->out;
    CO_TRY(coll_shm_all_gather(g, &between));
    struct rt_coll rest = *c;
    rest.n = c->n - done;
    rest.in = (const unsigned char *)c->in + done * size;
    rest.out = (unsigned char *)c->out + done * size;
    return rest.n == 0 ? 0 : all_reduce_first(g, &rest);
}

static int all_reduce(struct rt_group *g, const struct coll_members *all, const struct rt_coll *c) {
    if (g->n_local == 1 && g->n_nodes == g->size) {
        struct rt_coll sum = sum_of(c);
        int rc = coll_msg_all_reduce(g, all, &sum);
        finish(g, c, c->out, c->n);
        return rc;
    }
    bool shares = g->even && c->n * rt_dtype_size(c->dtype) / g->n_local >= COLL_SHARE_FROM;
    return shares ? all_reduce_shares(g, c) : all_reduce_first(g, c);
}

/* ---- to one rank, from one rank ---- */

/* The rank that acts for this machine: the root if it is here, otherwise the first one. */
static uint32_t one_here(const struct rt_group *g, uint32_t root) {
    return g->peers[root].local != COLL_NOT_LOCAL ? root : g->locals[0];
}

/* Lists the ranks that act for the machines in ret [n_nodes]; returns the index of the root's
 * machine. */
static uint32_t ones(const struct rt_group *g, uint32_t root, uint32_t *ret) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        bool same = memcmp(g->peers[g->leaders[i]].node, g->peers[root].node, COLL_NODE_BYTES) == 0;
        ret[i] = same ? root : g->leaders[i];
        place = same ? i : place;
    }
    return place;
}

static int reduce(struct rt_group *g, const struct coll_members *all, const struct rt_coll *c) {
    (void)all;
    CO_AUTOFREE uint32_t *rank = co_xcalloc(g->n_nodes, sizeof(*rank));
    CO_AUTOFREE void *room = NULL;
    struct rt_coll inside = sum_of(c), between = inside;
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    inside.root = one_here(g, c->root);
    between.root = ones(g, c->root, rank);
    if (inside.root == g->rank && g->rank != c->root) {
        int rc = co_try_alloc(bytes + 1, 1, SIZE_MAX, "partial sums", &room, NULL);
        if (rc < 0) {
            return coll_group_fail(g, rc, g->size, true, "no memory for %zu bytes", bytes);
        }
        inside.out = room;
    }
    int rc = g->n_local > 1 ? coll_shm_reduce(g, &inside) : 0;
    if (rc == 0 && inside.root == g->rank) {
        struct coll_members m = members_of(g, rank, g->n_nodes);
        between.in = g->n_local > 1 ? inside.out : c->in;
        between.out = inside.out;
        rc = coll_msg_reduce(g, &m, &between);
    }
    if (g->rank == c->root) {
        finish(g, c, c->out, c->n);
    }
    return rc;
}

static int broadcast(struct rt_group *g, const struct coll_members *all, const struct rt_coll *c) {
    (void)all;
    CO_AUTOFREE uint32_t *rank = co_xcalloc(g->n_nodes, sizeof(*rank));
    struct rt_coll inside = *c, between = *c;
    inside.root = one_here(g, c->root);
    between.root = ones(g, c->root, rank);
    int rc = 0;
    if (inside.root == g->rank) {
        struct coll_members m = members_of(g, rank, g->n_nodes);
        rc = coll_msg_broadcast(g, &m, &between);
    }
    return rc < 0 || g->n_local == 1 ? rc : coll_shm_broadcast(g, &inside);
}

static int barrier(struct rt_group *g, const struct coll_members *all, const struct rt_coll *c) {
    (void)all;
    int rc = g->n_local > 1 ? coll_shm_barrier(g, c) : 0;
    if (rc == 0 && g->local == 0) {
        struct coll_members m = members_of(g, g->leaders, g->n_nodes);
        rc = coll_msg_barrier(g, &m, c);
    }
    return rc == 0 && g->n_local > 1 ? coll_shm_barrier(g, c) : rc;
}

static int reduce_scatter(
    struct rt_group *g, const struct coll_members *all, const struct rt_coll *c) {
    struct rt_coll sum = sum_of(c);
    int rc = coll_msg_reduce_scatter(g, all, &sum);
    finish(g, c, c->out, c->n);
    return rc;
}

static const coll_msg_fn by_kind[RT_KINDS] = {
    [RT_ALL_REDUCE] = all_reduce,
    [RT_REDUCE] = reduce,
    [RT_BROADCAST] = broadcast,
    [RT_ALL_GATHER] = coll_msg_all_gather,
    [RT_ALL_GATHERV] = coll_msg_all_gather,
    [RT_REDUCE_SCATTER] = reduce_scatter,
    [RT_SCATTER] = coll_msg_scatter,
    [RT_GATHER] = coll_msg_gather,
    [RT_ALL_TO_ALL] = coll_msg_all_to_all,
    [RT_ALL_TO_ALLV] = coll_msg_all_to_all,
    [RT_SEND] = coll_msg_pair,
    [RT_RECV] = coll_msg_pair,
    [RT_BARRIER] = barrier,
};

int coll_hier_make(struct rt_group *g, const struct rt_coll *c) {
    struct coll_members all = {.rank = g->all, .n = g->size, .me = g->rank};
    int rc = by_kind[c->kind](g, &all, c);
    if (coll_kinds[c->kind].peer) {
        return rc;
    }
    g->calls.rooted = coll_kinds[c->kind].rooted ? g->calls.rooted + 1 : 0;
    if (rc < 0 || g->calls.rooted < COLL_ROOTED_MAX) {
        return rc;
    }
    g->calls.rooted = 0;
    return coll_msg_barrier(g, &all, c);
}
