#include "runtime/train/coll/message.h"

#include <poll.h>
#include <sched.h>
#include <string.h>

#include "common/bytes.h"

enum {
    MAGIC = 0x4d4c4f43,
    HEAD = 16,
    TRIES = 30,      /* before the kernel is asked to wake this rank */
    GIVE_WAY = 2000, /* rings: then it is asked with a timer */
    POLL_MS = 20,
};

/* One direction of a message. */
struct flow {
    uint32_t peer, lanes;
    const struct rt_pipe_ops *ops;
    unsigned char *data;
    size_t bytes, left;      /* left: head and data */
    size_t at[RT_LANES_MAX]; /* where each lane goes on */
    uint32_t head_done;
    unsigned char head[HEAD];
};

static struct flow flow_begin(
    const struct rt_group *g, uint32_t peer, const void *data, size_t bytes, uint32_t sign) {
    static unsigned char nothing; /* what offsets of a message without data begin at */
    struct flow f = {.peer = peer, .data = data ? (unsigned char *)data : &nothing, .bytes = bytes};
    if (peer >= g->size) {
        return f;
    }
    f.ops = rt_pipe_to(g, peer);
    f.lanes = f.ops == &rt_pipe_tcp ? g->lanes : 1;
    f.left = HEAD + bytes;
    for (uint32_t k = 0; k < f.lanes; k++) {
        f.at[k] = (size_t)k * RT_PIECE;
    }
    co_put_u32(f.head, MAGIC);
    co_put_u32(f.head + 4, sign);
    co_put_u64(f.head + 8, bytes);
    return f;
}

/* What is left of the piece a lane is at. */
static size_t piece_left(const struct flow *f, uint32_t lane) {
    size_t at = f->at[lane];
    if (at >= f->bytes) {
        return 0;
    }
    size_t piece = RT_PIECE - at % RT_PIECE;
    return piece < f->bytes - at ? piece : f->bytes - at;
}

/* A lane has moved n bytes of data; true: to the end of a piece. */
static bool flow_step(struct flow *f, uint32_t lane, size_t n) {
    f->at[lane] += n;
    f->left -= n;
    bool end = n > 0 && (f->at[lane] % RT_PIECE == 0 || f->at[lane] == f->bytes);
    if (end && f->at[lane] < f->bytes) {
        f->at[lane] += (size_t)(f->lanes - 1) * RT_PIECE;
    } else if (end) {
        f->at[lane] = f->bytes;
    }
    return end;
}

static size_t head_step(struct flow *f, uint32_t lane, size_t moved) {
    uint32_t head = lane == 0 ? HEAD - f->head_done : 0;
    uint32_t n = moved < head ? (uint32_t)moved : head;
    f->head_done += n;
    f->left -= n;
    return moved - n;
}

static bool send_some(struct rt_group *g, struct flow *f) {
    bool moved = false;
    for (uint32_t k = 0; k < f->lanes && f->left > 0; k++) {
        size_t piece = piece_left(f, k);
        size_t head = k == 0 ? HEAD - f->head_done : 0;
        if (piece + head == 0) {
            continue;
        }
        struct iovec v[2] = {{f->head + f->head_done, head}, {f->data + f->at[k], piece}};
        size_t n = f->ops->write(g, f->peer, k, head ? v : v + 1, head ? 2 : 1);
        moved |= n > 0;
        (void)flow_step(f, k, head_step(f, k, n));
    }
    return moved;
}

/* A whole piece has come into the lane's scratch. */
static void reduce_piece(struct rt_group *g, const struct rt_exchange_part *x, size_t begin,
    size_t bytes, const unsigned char *came) {
    const unsigned char *with = (const unsigned char *)x->with + begin;
    const void *in[2] = {x->first ? came : with, x->first ? with : came};
    rt_reduce_n(g->kernels, x->dtype, x->op == RT_AVG ? RT_SUM : x->op, 1,
        (unsigned char *)x->recv + begin, in, 2, bytes / rt_dtype_size(x->dtype));
}

/* -1: not the message that was expected. */
static int recv_some(struct rt_group *g, struct flow *f, const struct rt_exchange_part *x) {
    int moved = 0;
    for (uint32_t k = 0; k < f->lanes && f->left > 0; k++) {
        unsigned char got[HEAD];
        size_t piece = piece_left(f, k), at = f->at[k], head = k == 0 ? HEAD - f->head_done : 0;
        if (piece + head == 0) {
            continue;
        }
        unsigned char *scratch = g->scratch + (size_t)k * RT_PIECE;
        unsigned char *to = x->with ? scratch + at % RT_PIECE : f->data + at;
        struct iovec v[2] = {{got, head}, {to, piece}};
        size_t n = f->ops->read(g, f->peer, k, head ? v : v + 1, head ? 2 : 1);
        if (memcmp(got, f->head + f->head_done, n < head ? n : head) != 0) {
            return -1;
        }
        moved |= n > 0;
        n = head_step(f, k, n);
        size_t end = at + n;
        if (flow_step(f, k, n) && x->with) {
            size_t begin = (end - 1) / RT_PIECE * RT_PIECE;
            reduce_piece(g, x, begin, end - begin, scratch);
        }
    }
    return moved;
}

static nfds_t add_fds(
    const struct rt_group *g, const struct flow *f, short events, struct pollfd *fds) {
    nfds_t n = 0;
    for (uint32_t k = 0; f->left > 0 && f->ops == &rt_pipe_tcp && k < f->lanes; k++) {
        if (f->at[k] < f->bytes || (k == 0 && f->head_done < HEAD)) {
            fds[n++] = (struct pollfd){.fd = g->peers[f->peer].lanes[k], .events = events};
        }
    }
    return n;
}

static void wait_some(
    struct rt_group *g, const struct flow *out, const struct flow *in, uint32_t tries) {
    bool ring =
        (out->left > 0 && out->ops == &rt_pipe_shm) || (in->left > 0 && in->ops == &rt_pipe_shm);
    if (tries < TRIES) {
        return;
    }
    if (ring && tries < GIVE_WAY) {
        (void)sched_yield();
        return;
    }
    struct pollfd fds[2 * RT_LANES_MAX + 1];
    nfds_t n = add_fds(g, out, POLLOUT, fds);
    n += add_fds(g, in, POLLIN, fds + n);
    fds[n++] = (struct pollfd){.fd = g->alarm, .events = POLLIN};
    (void)poll(fds, n, ring ? 1 : POLL_MS);
}

int rt_message_exchange(struct rt_group *g, const struct rt_exchange_part *x) {
    struct flow out = flow_begin(g, x->to, x->send, x->send_bytes, x->sign);
    struct flow in = flow_begin(g, x->from, x->recv, x->recv_bytes, x->sign);
    struct rt_patience patience = {0};
    uint32_t tries = 0;
    if (!g->scratch) {
        g->scratch = co_xmalloc((size_t)g->lanes * RT_PIECE);
    }
    while (out.left > 0 || in.left > 0) {
        bool moved = send_some(g, &out);
        int came = recv_some(g, &in, x);
        if (came < 0) {
            return rt_call_differs(g, x->from);
        }
        if (moved || came > 0) {
            tries = 0;
            patience = (struct rt_patience){0};
            continue;
        }
        if (tries++ >= TRIES) {
            int rc = rt_patience_check(g, &patience, in.left > 0 ? x->from : x->to);
            if (rc < 0) {
                return rc;
            }
        }
        wait_some(g, &out, &in, tries);
    }
    return 0;
}
