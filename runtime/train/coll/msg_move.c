/* Algorithms, with messages, for the calls that move data among P members.
 *
 *     broadcast       a binomial tree from the root; or a chain, piece by piece
 *     all_gather(v)   a ring: P - 1 steps, each moves one part
 *     scatter, gather the root exchanges with one member after the other
 *     all_to_all(v)   P - 1 steps; in step s with the members at distance s
 *     barrier         log2 P steps of empty messages, at distance 1, 2, 4, ... */
#include <string.h>

#include "runtime/train/coll/message.h"

static int exchange(struct rt_group *g, uint32_t to, const void *send, size_t send_bytes,
    uint32_t from, void *recv, size_t recv_bytes) {
    struct coll_exchange_part x = {.to = to,
        .from = from,
        .send = send,
        .send_bytes = send_bytes,
        .recv = recv,
        .recv_bytes = recv_bytes};
    return coll_message_exchange(g, &x);
}

/* In place the two may overlap. */
static void copy(void *to, const void *from, size_t bytes) {
    if (to != from && bytes > 0) {
        memmove(to, from, bytes);
    }
}

/* ---- broadcast ---- */

int coll_msg_broadcast_tree(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = (m->me + m->n - c->root) % m->n, d = 1;
    while (d < m->n && !(me & d)) {
        d *= 2;
    }
    if (me != 0) {
        uint32_t from = m->rank[(me - d + c->root) % m->n];
        CO_TRY(exchange(g, g->size, NULL, 0, from, c->out, bytes));
    }
    for (d /= 2; d > 0; d /= 2) {
        if (me + d < m->n) {
            uint32_t to = m->rank[(me + d + c->root) % m->n];
            CO_TRY(exchange(g, to, c->out, bytes, g->size, NULL, 0));
        }
    }
    return 0;
}

/* Bytes of the piece that begins there; 0: none does. */
static size_t piece_at(size_t at, size_t bytes) {
    if (at >= bytes) {
        return 0;
    }
    return bytes - at < COLL_PIECE ? bytes - at : COLL_PIECE;
}

int coll_msg_broadcast_chain(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = (m->me + m->n - c->root) % m->n;
    uint32_t before = me == 0 ? g->size : m->rank[(m->me + m->n - 1) % m->n];
    uint32_t after = me == m->n - 1 ? g->size : m->rank[(m->me + 1) % m->n];
    unsigned char *out = c->out;
    /* Piece k comes in while piece k - 1 goes out. */
    for (size_t at = 0; at < bytes + COLL_PIECE; at += COLL_PIECE) {
        size_t come = piece_at(at, bytes);
        size_t begin = at - COLL_PIECE;
        size_t go = at > 0 ? piece_at(begin, bytes) : 0;
        CO_TRY(exchange(g, go ? after : g->size, go ? out + begin : NULL, go,
            come ? before : g->size, out + (come ? at : 0), come));
    }
    return 0;
}

/* ---- gathering and scattering ---- */

static size_t offset(const size_t *counts, size_t n, uint32_t i, size_t size) {
    size_t at = counts ? 0 : i * n;
    for (uint32_t k = 0; counts && k < i; k++) {
        at += counts[k];
    }
    return at * size;
}

static size_t length(const size_t *counts, size_t n, uint32_t i, size_t size) {
    return (counts ? counts[i] : n) * size;
}

int coll_msg_all_gather(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    const size_t *counts = c->kind == RT_ALL_GATHERV ? c->counts : NULL;
    size_t size = rt_dtype_size(c->dtype);
    unsigned char *out = c->out;
    copy(out + offset(counts, c->n, m->me, size), c->in, length(counts, c->n, m->me, size));
    for (uint32_t s = 0; s < m->n - 1; s++) {
        uint32_t give = (m->me + m->n - s) % m->n, take = (m->me + 2 * m->n - s - 1) % m->n;
        CO_TRY(exchange(g, m->rank[(m->me + 1) % m->n], out + offset(counts, c->n, give, size),
            length(counts, c->n, give, size), m->rank[(m->me + m->n - 1) % m->n],
            out + offset(counts, c->n, take, size), length(counts, c->n, take, size)));
    }
    return 0;
}

int coll_msg_scatter(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    if (m->me != c->root) {
        return exchange(g, g->size, NULL, 0, m->rank[c->root], c->out, bytes);
    }
    const unsigned char *in = c->in;
    for (uint32_t i = 0; i < m->n; i++) {
        if (i == m->me) {
            copy(c->out, in + i * bytes, bytes);
        } else {
            CO_TRY(exchange(g, m->rank[i], in + i * bytes, bytes, g->size, NULL, 0));
        }
    }
    return 0;
}

int coll_msg_gather(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    if (m->me != c->root) {
        return exchange(g, m->rank[c->root], c->in, bytes, g->size, NULL, 0);
    }
    unsigned char *out = c->out;
    copy(out + m->me * bytes, c->in, bytes); /* first: in place, rank 0's part goes over `in` */
    for (uint32_t i = 0; i < m->n; i++) {
        if (i != m->me) {
            CO_TRY(exchange(g, g->size, NULL, 0, m->rank[i], out + i * bytes, bytes));
        }
    }
    return 0;
}

int coll_msg_all_to_all(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    bool v = c->kind == RT_ALL_TO_ALLV;
    const size_t *go = v ? c->counts : NULL, *come = v ? c->out_counts : NULL;
    size_t size = rt_dtype_size(c->dtype);
    const unsigned char *in = c->in;
    unsigned char *out = c->out;
    copy(out + offset(come, c->n, m->me, size), in + offset(go, c->n, m->me, size),
        length(go, c->n, m->me, size));
    for (uint32_t s = 1; s < m->n; s++) {
        uint32_t to = (m->me + s) % m->n, from = (m->me + m->n - s) % m->n;
        CO_TRY(exchange(g, m->rank[to], in + offset(go, c->n, to, size), length(go, c->n, to, size),
            m->rank[from], out + offset(come, c->n, from, size), length(come, c->n, from, size)));
    }
    return 0;
}

/* ---- send, recv, barrier ---- */

struct coll_exchange_part coll_msg_pair_part(const struct rt_group *g, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    struct coll_exchange_part x = {.to = g->size, .from = g->size, .pair = c};
    if (c->kind == RT_SEND) {
        x.to = c->root;
        x.send = c->in;
        x.send_bytes = bytes;
    } else {
        x.from = c->root;
        x.recv = c->out;
        x.recv_bytes = bytes;
    }
    return x;
}

int coll_msg_pair(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    (void)m;
    struct coll_exchange_part x = coll_msg_pair_part(g, c);
    struct coll_said said = coll_call_said(c);
    atomic_store(&g->calls.pair_n, said.n);
    atomic_store(&g->calls.pair, said.what);
    int rc = coll_message_exchange(g, &x);
    atomic_store(&g->calls.pair, 0);
    return rc;
}

int coll_msg_barrier(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    (void)c;
    for (uint32_t d = 1; d < m->n; d *= 2) {
        CO_TRY(exchange(
            g, m->rank[(m->me + d) % m->n], NULL, 0, m->rank[(m->me + m->n - d) % m->n], NULL, 0));
    }
    return 0;
}
