/* Messages between two ranks.  A message is a head of 40 bytes and its data.  Both sides know its
 * length from the call; the head only serves to notice that they make different calls (agree.h):
 *
 *     0 u64 magic   8 u64 sign of the call   16 u64 bytes   24 u64 what, 32 u64 n: the call itself
 *
 * Data is cut into pieces: piece k uses lane k mod lanes, and the head precedes piece 0 on lane 0.
 *
 *     lane 0   head | piece 0 | piece 2 | ...
 *     lane 1   piece 1 | piece 3 | ...
 *
 * Between machines a lane is a TCP connection, encrypted if the job says so.  Inside a machine
 * there is one lane, a ring in shared memory. */
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/cost/cost.h"

enum {
    COLL_MESSAGE_HEAD = 40,
    COLL_TRIES = 30, /* attempts to move something before this rank waits */
    COLL_PIECE = COST_PIECE,
    COLL_SHARE_FROM =
        32 << 10, /* hier.c: with this many bytes for each rank, all ranks of a machine send */
};

/* The operations of a transport; each has a file of its own.  write and read move what they can
 * without waiting and return the number of bytes, or the code with which the group has failed.
 * They return 0 also if the other side is gone: it is the monitor that notices this.  Bytes that
 * write has not counted are the first of the next one. */
struct coll_pipe_ops {
    const char *name;
    ssize_t (*write)(struct rt_group *g, uint32_t to, uint32_t lane, const struct iovec *v, int n);
    ssize_t (*read)(struct rt_group *g, uint32_t from, uint32_t lane, const struct iovec *v, int n);
};
extern const struct coll_pipe_ops coll_pipe_shm, coll_pipe_tcp;

static inline const struct coll_pipe_ops *coll_pipe_to(const struct rt_group *g, uint32_t rank) {
    return g->peers[rank].local != COLL_NOT_LOCAL ? &coll_pipe_shm : &coll_pipe_tcp;
}

/* A message to send and one to receive, at the same time.  to or from == g->size: none.  Received
 * data is stored at recv.  If `with` is set, it is reduced first: recv = with op received, or, if
 * `first` is set, recv = received op with. */
struct coll_exchange_part {
    uint32_t to, from;
    const void *send;
    size_t send_bytes;
    void *recv;
    size_t recv_bytes;
    const void *with;
    bool first;
    enum rt_dtype dtype;
    enum rt_op op;
    const struct rt_coll *pair; /* the send or receive; NULL: part of a call of all ranks */
};
/* The progress of one message, in one direction. */
struct coll_flow {
    uint32_t peer, lanes;
    bool out;
    const struct coll_pipe_ops *ops;
    const struct coll_exchange_part *x;
    unsigned char *data;
    size_t bytes, left;        /* bytes of data; bytes left to move, head included */
    size_t at[COLL_LANES_MAX]; /* for each lane, the offset of its next byte in the data */
    uint32_t head_done;
    unsigned char head[COLL_MESSAGE_HEAD],
        came[COLL_MESSAGE_HEAD]; /* the own one, the received one */
};
/* x must outlive the flow.  Without a peer, f->left is 0 from the beginning. */
void coll_flow_begin(
    const struct rt_group *g, struct coll_flow *f, const struct coll_exchange_part *x, bool out);
/* Moves what can be moved without waiting.  1: something; 0: nothing; negative: the code with which
 * the group failed. */
int coll_flow_move(struct rt_group *g, struct coll_flow *f);
/* The descriptors to wait for; returns their number, at most COLL_LANES_MAX. */
nfds_t coll_flow_fds(const struct rt_group *g, const struct coll_flow *f, struct pollfd *ret_fds);
/* pipe_shm.c: the flow goes through a ring, which has no descriptor, and can move. */
bool coll_ring_ready(const struct rt_group *g, const struct coll_flow *f);
static inline bool coll_flow_rings(const struct coll_flow *f) {
    return f->left > 0 && f->ops == &coll_pipe_shm;
}
/* What a rank waits for: descriptors, and flows of which some may go through rings. */
struct coll_wait_set {
    struct pollfd *fds;
    nfds_t n_fds;
    bool tcp; /* some of the descriptors are connections */
    const struct coll_flow **flows;
    uint32_t n_flows;
};
/* Gives the core away until something may have come.  tries: how many attempts in a row moved
 * nothing. */
void coll_flows_wait(struct rt_group *g, const struct coll_wait_set *w, uint32_t tries);

/* Sends and receives completely.  0 or the code with which the group failed. */
int coll_message_exchange(struct rt_group *g, const struct coll_exchange_part *x);

/* The ranks of the group that make a call together; `me` is this rank's index among them. */
struct coll_members {
    const uint32_t *rank;
    uint32_t n, me;
};
enum { COLL_NOBODY = UINT32_MAX };
/* An exchange of a call.  to and from are indexes among the members, or COLL_NOBODY. */
struct coll_exchange_part coll_msg_part(const struct rt_group *g, const struct coll_members *m,
    const struct rt_coll *c, uint32_t to, uint32_t from);
/* Calls made of messages.  c->root and the order of parts are indexes among the members.  RT_AVG
 * only sums up: the caller scales. */
typedef int (*coll_msg_fn)(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
extern const coll_msg_fn coll_msg_algorithms[COST_ALGORITHMS];
int coll_msg_doubling(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_halving(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_ring(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_reduce_tree(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_reduce_chain(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_broadcast_tree(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_broadcast_chain(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
/* These choose the cheapest algorithm by themselves, or have only one. */
int coll_msg_all_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_reduce(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_reduce_scatter(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_broadcast(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_all_gather(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_scatter(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_gather(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_all_to_all(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_pair(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
int coll_msg_barrier(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c);
/* The exchange of a send or a receive among all ranks. */
struct coll_exchange_part coll_msg_pair_part(const struct rt_group *g, const struct rt_coll *c);
