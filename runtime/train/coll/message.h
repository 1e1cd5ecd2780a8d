/* Bytes between two ranks.  A message is 16 bytes of head and its data; both sides know how long
 * it is, the head only tells when they do not agree:
 *
 *     0 u32 magic   4 u32 sign of the call   8 u64 bytes
 *
 * Data goes in pieces, piece k over lane k mod lanes; the head goes before piece 0.  Between
 * machines lanes are TCP connections, inside one there is one, a ring in shared memory. */
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/cost/cost.h"

enum {
    RT_MESSAGE_HEAD = 16,
    RT_TRIES = 30, /* to move something, before a flow is waited for */
    RT_PIECE = RT_COST_PIECE,
    RT_SHARE_FROM =
        32 << 10, /* bytes of a rank from where on all ranks of a machine carry a share */
};

/* What a transport can do; one file each.  Both move what they can without waiting and return
 * how many bytes that was; 0, too, when the other side has gone: the monitor finds out. */
struct rt_pipe_ops {
    const char *name;
    size_t (*write)(struct rt_group *g, uint32_t to, uint32_t lane, const struct iovec *v, int n);
    size_t (*read)(struct rt_group *g, uint32_t from, uint32_t lane, const struct iovec *v, int n);
};
extern const struct rt_pipe_ops rt_pipe_shm, rt_pipe_tcp;

static inline const struct rt_pipe_ops *rt_pipe_to(const struct rt_group *g, uint32_t rank) {
    return g->peers[rank].local != RT_NOT_LOCAL ? &rt_pipe_shm : &rt_pipe_tcp;
}

/* A message out and a message in, at the same time.  to or from g->size: none.  What comes in is
 * either put at recv or (with != NULL) reduced: recv = with op what comes, or the other way round
 * when what comes is first. */
struct rt_exchange_part {
    uint32_t to, from;
    const void *send;
    size_t send_bytes;
    void *recv;
    size_t recv_bytes;
    const void *with;
    bool first;
    enum rt_dtype dtype;
    enum rt_op op;
    uint32_t sign;
};
/* One direction of a message, as far as it has come. */
struct rt_flow {
    uint32_t peer, lanes;
    bool out;
    const struct rt_pipe_ops *ops;
    const struct rt_exchange_part *x;
    unsigned char *data;
    size_t bytes, left;      /* left: head and data */
    size_t at[RT_LANES_MAX]; /* where each lane goes on */
    uint32_t head_done;
    unsigned char head[RT_MESSAGE_HEAD];
};
/* x stays valid as long as the flow; without a peer there is nothing left from the beginning. */
void rt_flow_begin(
    const struct rt_group *g, struct rt_flow *f, const struct rt_exchange_part *x, bool out);
/* Moves what can be moved without waiting: 1, 0: nothing, or the code the group failed with. */
int rt_flow_move(struct rt_group *g, struct rt_flow *f);
/* What there is to wait for; their number, at most RT_LANES_MAX. */
nfds_t rt_flow_fds(const struct rt_group *g, const struct rt_flow *f, struct pollfd *ret_fds);
static inline bool rt_flow_rings(const struct rt_flow *f) {
    return f->left > 0 && f->ops == &rt_pipe_shm;
}
/* Gives the core away until something may have come; ring: rings are among what is waited for.
 * tries: how many there were in vain. */
void rt_flows_wait(struct pollfd *fds, nfds_t n, bool ring, uint32_t tries);

/* 0 or the code the group failed with. */
int rt_message_exchange(struct rt_group *g, const struct rt_exchange_part *x);

/* Ranks of the group that make a call together, and which of them this one is. */
struct rt_members {
    const uint32_t *rank;
    uint32_t n, me;
};
enum { RT_NOBODY = UINT32_MAX };
/* Of a call; to, from: places among the members, or RT_NOBODY. */
struct rt_exchange_part rt_msg_part(const struct rt_group *g, const struct rt_members *m,
    const struct rt_coll *c, uint32_t to, uint32_t from);
/* Calls as messages.  c->root and the order of parts are places among the members.  RT_AVG is
 * taken as a sum: the caller scales. */
typedef int (*rt_msg_fn)(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
extern const rt_msg_fn rt_msg_ways[RT_WAYS];
int rt_msg_doubling(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_halving(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_ring(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_reduce_tree(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_reduce_chain(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_broadcast_tree(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_broadcast_chain(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
/* The cheapest way. */
int rt_msg_all_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_reduce_scatter(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_broadcast(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_all_gather(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_scatter(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_gather(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_all_to_all(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_pair(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
int rt_msg_barrier(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c);
/* A send or a receive among all ranks. */
struct rt_exchange_part rt_msg_pair_part(const struct rt_group *g, const struct rt_coll *c);
