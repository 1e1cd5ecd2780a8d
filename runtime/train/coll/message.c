/* Moves a message between two ranks over several connections at once, with a deadline. */
#include "runtime/train/coll/message.h"

#include <string.h>

#include "common/bytes.h"

enum {
    MAGIC = 0x4d4c4f43,
    HEAD = COLL_MESSAGE_HEAD,
    EQUAL = 24,      /* bytes of the head that both sides know */
    GIVE_WAY = 2000, /* attempts at a ring, with a yield after each, before this rank sleeps */
    POLL_MS = 20,
};

void coll_flow_begin(
    const struct rt_group *g, struct coll_flow *f, const struct coll_exchange_part *x, bool out) {
    static unsigned char nothing; /* for messages without data: adding 0 to NULL is undefined */
    const void *data = out ? x->send : x->recv;
    *f = (struct coll_flow){.peer = out ? x->to : x->from,
        .out = out,
        .data = data ? (unsigned char *)data : &nothing,
        .bytes = out ? x->send_bytes : x->recv_bytes,
        .x = x};
    if (f->peer >= g->size) {
        return;
    }
    f->ops = coll_pipe_to(g, f->peer);
    f->lanes = f->ops == &coll_pipe_tcp ? g->lanes : 1;
    f->left = HEAD + f->bytes;
    for (uint32_t k = 0; k < f->lanes; k++) {
        f->at[k] = (size_t)k * COLL_PIECE;
    }
    struct coll_said said = x->pair ? coll_call_said(x->pair) : g->calls.now;
    co_put_u64(f->head, MAGIC);
    co_put_u64(f->head + 8, x->pair ? coll_pair_sign(x->pair) : said.sign);
    co_put_u64(f->head + 16, f->bytes);
    co_put_u64(f->head + 24, said.what);
    co_put_u64(f->head + 32, said.n);
}

/* The bytes that are left of a lane's current piece. */
static size_t piece_left(const struct coll_flow *f, uint32_t lane) {
    size_t at = f->at[lane];
    if (at >= f->bytes) {
        return 0;
    }
    size_t piece = COLL_PIECE - at % COLL_PIECE;
    return piece < f->bytes - at ? piece : f->bytes - at;
}

/* Notes that a lane has moved n bytes of data.  True: it reached the end of a piece, and continues
 * with its next one. */
static bool flow_step(struct coll_flow *f, uint32_t lane, size_t n) {
    f->at[lane] += n;
    f->left -= n;
    bool end = n > 0 && (f->at[lane] % COLL_PIECE == 0 || f->at[lane] == f->bytes);
    if (end && f->at[lane] < f->bytes) {
        f->at[lane] += (size_t)(f->lanes - 1) * COLL_PIECE;
    } else if (end) {
        f->at[lane] = f->bytes;
    }
    return end;
}

/* Notes that a lane has moved bytes, of the head first; returns how many of them were data. */
static size_t head_step(struct coll_flow *f, uint32_t lane, size_t moved) {
    uint32_t head = lane == 0 ? HEAD - f->head_done : 0;
    uint32_t n = moved < head ? (uint32_t)moved : head;
    f->head_done += n;
    f->left -= n;
    return moved - n;
}

/* Only this thread changes the number; the monitor reads it. */
static void count(_Atomic uint64_t *n, size_t more) {
    atomic_store_explicit(
        n, atomic_load_explicit(n, memory_order_relaxed) + more, memory_order_relaxed);
}

static int send_some(struct rt_group *g, struct coll_flow *f) {
    int moved = 0;
    size_t before = f->left;
    for (uint32_t k = 0; k < f->lanes && f->left > 0; k++) {
        size_t piece = piece_left(f, k);
        size_t head = k == 0 ? HEAD - f->head_done : 0;
        if (piece + head == 0) {
            continue;
        }
        struct iovec v[2] = {{f->head + f->head_done, head}, {f->data + f->at[k], piece}};
        ssize_t n = f->ops->write(g, f->peer, k, head ? v : v + 1, head ? 2 : 1);
        if (n < 0) {
            return (int)n;
        }
        moved |= n > 0;
        (void)flow_step(f, k, head_step(f, k, (size_t)n));
    }
    if (moved) {
        count(&g->peers[f->peer].sent, before - f->left);
    }
    return moved;
}

/* The head that came is not the expected one. */
static int other_head(struct rt_group *g, const struct coll_flow *f) {
    struct coll_said other = {.what = co_get_u64(f->came + 24), .n = co_get_u64(f->came + 32)};
    uint64_t kind = other.what & 0xff;
    bool pair = kind < RT_KINDS && coll_kinds[kind].peer;
    if (co_get_u64(f->came) == MAGIC && memcmp(f->came + 8, f->head + 8, 8) == 0) {
        char text[COLL_CALL_TEXT];
        return coll_group_fail(g, CO_INVALID, g->size, true,
            "rank %u sends %llu bytes to rank %u in %s, which expects %llu", f->peer,
            (unsigned long long)co_get_u64(f->came + 16), g->rank,
            coll_call_text(&g->calls.now, text), (unsigned long long)f->bytes);
    }
    if (f->x->pair) {
        return coll_pair_differs(g, f->x->pair, f->peer, &other);
    }
    return pair ? coll_call_differs_from(g, f->peer, &other) : coll_calls_differ(g, f->peer);
}

/* Reduces a piece, once it is whole in the lane's part of the scratch memory. */
static void reduce_piece(struct rt_group *g, const struct coll_exchange_part *x, size_t begin,
    size_t bytes, const unsigned char *came) {
    const unsigned char *with = (const unsigned char *)x->with + begin;
    const void *in[2] = {x->first ? came : with, x->first ? with : came};
    coll_reduce_n(g->kernels, x->dtype, x->op == RT_AVG ? RT_SUM : x->op, 1,
        (unsigned char *)x->recv + begin, in, 2, bytes / rt_dtype_size(x->dtype));
}

static int recv_some(struct rt_group *g, struct coll_flow *f) {
    const struct coll_exchange_part *x = f->x;
    int moved = 0;
    for (uint32_t k = 0; k < f->lanes && f->left > 0; k++) {
        size_t piece = piece_left(f, k), at = f->at[k], head = k == 0 ? HEAD - f->head_done : 0;
        if (piece + head == 0) {
            continue;
        }
        unsigned char *scratch = x->with ? g->scratch + (size_t)k * COLL_PIECE : NULL;
        unsigned char *to = x->with ? scratch + at % COLL_PIECE : f->data + at;
        struct iovec v[2] = {{f->came + f->head_done, head}, {to, piece}};
        ssize_t got = f->ops->read(g, f->peer, k, head ? v : v + 1, head ? 2 : 1);
        if (got < 0) {
            return (int)got;
        }
        moved |= got > 0;
        count(&g->peers[f->peer].received, (size_t)got);
        size_t n = head_step(f, k, (size_t)got);
        if (head > 0 && f->head_done == HEAD && memcmp(f->came, f->head, EQUAL) != 0) {
            return other_head(g, f);
        }
        size_t end = at + n;
        if (flow_step(f, k, n) && x->with) {
            size_t begin = (end - 1) / COLL_PIECE * COLL_PIECE;
            reduce_piece(g, x, begin, end - begin, scratch);
        }
    }
    return moved;
}

int coll_flow_move(struct rt_group *g, struct coll_flow *f) {
    return f->out ? send_some(g, f) : recv_some(g, f);
}

nfds_t coll_flow_fds(const struct rt_group *g, const struct coll_flow *f, struct pollfd *ret_fds) {
    nfds_t n = 0;
    for (uint32_t k = 0; f->left > 0 && f->ops == &coll_pipe_tcp && k < f->lanes; k++) {
        if (f->at[k] < f->bytes || (k == 0 && f->head_done < HEAD)) {
            ret_fds[n++] = (struct pollfd){
                .fd = g->peers[f->peer].lanes[k].fd, .events = f->out ? POLLOUT : POLLIN};
        }
    }
    return n;
}

void coll_flows_wait(struct rt_group *g, const struct coll_wait_set *w, uint32_t tries) {
    bool ring = false, ready = false;
    for (uint32_t i = 0; i < w->n_flows; i++) {
        ring |= coll_flow_rings(w->flows[i]);
    }
    if (ring && tries < GIVE_WAY && coll_yield(&g->shm.giving)) {
        return;
    }
    if (!ring || w->tcp) {
        (void)poll(w->fds, w->n_fds, ring ? 1 : POLL_MS);
        return;
    }
    uint32_t seen = coll_bell_begin(&g->shm);
    for (uint32_t i = 0; i < w->n_flows; i++) {
        ready |= coll_ring_ready(g, w->flows[i]);
    }
    coll_bell_end(&g->shm, seen, ready, tries / 2); /* a sleep takes half a millisecond and more */
}

static void wait_some(
    struct rt_group *g, const struct coll_flow *out, const struct coll_flow *in, uint32_t tries) {
    struct pollfd fds[2 * COLL_LANES_MAX + 1];
    struct coll_wait_set w = {
        .fds = fds, .flows = (const struct coll_flow *[]){out, in}, .n_flows = 2};
    w.n_fds = coll_flow_fds(g, out, fds);
    w.n_fds += coll_flow_fds(g, in, fds + w.n_fds);
    w.tcp = w.n_fds > 0;
    fds[w.n_fds++] = (struct pollfd){.fd = g->alarm, .events = POLLIN};
    coll_flows_wait(g, &w, tries);
}

int coll_message_exchange(struct rt_group *g, const struct coll_exchange_part *x) {
    struct coll_flow out, in;
    uint32_t tries = 0;
    coll_flow_begin(g, &out, x, true);
    coll_flow_begin(g, &in, x, false);
    if (x->with && !g->scratch) {
        g->scratch = co_xmalloc((size_t)g->lanes * COLL_PIECE);
    }
    while (out.left > 0 || in.left > 0) {
        int sent = coll_flow_move(g, &out), came = coll_flow_move(g, &in);
        if (sent < 0 || came < 0) {
            return sent < 0 ? sent : came;
        }
        if (sent + came > 0) {
            tries = 0;
        } else if (tries++ < COLL_TRIES) {
            continue;
        }
        if (in.left + out.left == 0) {
            break;
        }
        uint32_t peer = in.left > 0 ? x->from : x->to;
        CO_TRY(tries == 0 ? coll_deadline_check(g, &g->patience, peer, co_now_ms())
                          : coll_patience_check(g, &g->patience, peer, co_now_ms()));
        if (tries > 0) {
            wait_some(g, &out, &in, tries);
        }
    }
    return 0;
}
