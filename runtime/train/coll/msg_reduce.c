/* Reductions as messages.  P members, n bytes:
 *
 *     doubling        everybody exchanges all with the one at distance 1, 2, 4, ...: log2 P steps
 *                     of n; members beyond a power of two give theirs to a neighbour before
 *     ring            P slices go round twice, reduced the first time: 2 (P - 1) steps of n / P
 *     tree            to the root, pairs first: log2 P steps of n
 *     chain           to the root from one to the next, piece by piece
 *
 * The lower member's data is the first operand in doubling and tree; in ring and chain what comes
 * is the first: the same bits everywhere, as each slice is reduced once. */
#include <string.h>

#include "runtime/train/coll/message.h"

enum { NONE = UINT32_MAX };

static struct rt_exchange_part part_of(
    const struct rt_group *g, const struct rt_members *m, uint32_t to, uint32_t from) {
    return (struct rt_exchange_part){
        .to = to == NONE ? g->size : m->rank[to], .from = from == NONE ? g->size : m->rank[from]};
}

/* ---- all_reduce ---- */

static int send_all(struct rt_group *g, const struct rt_members *m, uint32_t to, const void *data,
    size_t bytes, uint32_t sign) {
    struct rt_exchange_part x = part_of(g, m, to, NONE);
    x.send = data;
    x.send_bytes = bytes;
    x.sign = sign;
    return rt_message_exchange(g, &x);
}

static int recv_all(struct rt_group *g, const struct rt_members *m, uint32_t from, void *data,
    size_t bytes, uint32_t sign) {
    struct rt_exchange_part x = part_of(g, m, NONE, from);
    x.recv = data;
    x.recv_bytes = bytes;
    x.sign = sign;
    return rt_message_exchange(g, &x);
}

/* acc = acc and what the other one has, which has come into `other`. */
static void merge(
    struct rt_group *g, const struct rt_coll *c, void *acc, const void *other, bool other_first) {
    const void *in[2] = {other_first ? other : acc, other_first ? acc : other};
    rt_reduce_n(g->kernels, c->dtype, c->op == RT_AVG ? RT_SUM : c->op, 1, acc, in, 2, c->n);
}

static int double_with(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c,
    uint32_t with, void *other, size_t bytes) {
    struct rt_exchange_part x = part_of(g, m, with, with);
    x.send = c->out;
    x.recv = other;
    x.send_bytes = x.recv_bytes = bytes;
    x.sign = rt_call_sign(c);
    int rc = rt_message_exchange(g, &x);
    if (rc == 0) {
        merge(g, c, c->out, other, with < m->me);
    }
    return rc;
}

/* The i-th of those that take part: below 2 * extra only the odd ones do. */
static uint32_t doubling_member(uint32_t i, uint32_t extra) {
    return i < extra ? 2 * i + 1 : i + extra;
}

static int doubling(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t power = 1, sign = rt_call_sign(c);
    while (power * 2 <= m->n) {
        power *= 2;
    }
    uint32_t extra = m->n - power;
    bool paired = m->me < 2 * extra;
    CO_AUTOFREE void *other = co_xmalloc(bytes ? bytes : 1);
    if (c->out != c->in && bytes > 0) {
        memcpy(c->out, c->in, bytes);
    }
    if (paired && m->me % 2 == 0) { /* gives, and gets the result */
        int rc = send_all(g, m, m->me + 1, c->out, bytes, sign);
        return rc < 0 ? rc : recv_all(g, m, m->me + 1, c->out, bytes, sign);
    }
    int rc = 0;
    if (paired) {
        rc = recv_all(g, m, m->me - 1, other, bytes, sign);
        if (rc == 0) {
            merge(g, c, c->out, other, true);
        }
    }
    uint32_t me = paired ? m->me / 2 : m->me - extra;
    for (uint32_t d = 1; d < power && rc == 0; d *= 2) {
        rc = double_with(g, m, c, doubling_member(me ^ d, extra), other, bytes);
    }
    return rc == 0 && paired ? send_all(g, m, m->me - 1, c->out, bytes, sign) : rc;
}

/* Slice i of the ring, in elements. */
static size_t slice_at(const struct rt_coll *c, uint32_t n, uint32_t i) {
    size_t slice = c->n / n, more = c->n % n;
    return i * slice + (i < more ? i : more);
}

static int ring(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    uint32_t n = m->n, next = (m->me + 1) % n, last = (m->me + n - 1) % n;
    size_t size = rt_dtype_size(c->dtype);
    unsigned char *out = c->out;
    int rc = 0;
    for (uint32_t s = 0; s < 2 * (n - 1) && rc == 0; s++) {
        uint32_t give = (m->me + 2 * n - s) % n, take = (m->me + 2 * n - s - 1) % n;
        size_t give_at = slice_at(c, n, give) * size, take_at = slice_at(c, n, take) * size;
        bool reduces = s < n - 1;
        struct rt_exchange_part x = part_of(g, m, next, last);
        x.send = (s == 0 ? (const unsigned char *)c->in : out) + give_at;
        x.send_bytes = slice_at(c, n, give + 1) * size - give_at;
        x.recv = out + take_at;
        x.recv_bytes = slice_at(c, n, take + 1) * size - take_at;
        x.with = reduces ? (const unsigned char *)c->in + take_at : NULL;
        x.first = true;
        x.dtype = c->dtype;
        x.op = c->op;
        x.sign = rt_call_sign(c);
        rc = rt_message_exchange(g, &x);
    }
    return rc;
}

int rt_msg_all_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    return c->n * rt_dtype_size(c->dtype) < RT_RING_FROM ? doubling(g, m, c) : ring(g, m, c);
}

/* ---- reduce ---- */

/* Place of a member when the root is 0, and back. */
static uint32_t from_root(const struct rt_members *m, uint32_t i, uint32_t root) {
    return (i + m->n - root) % m->n;
}
static uint32_t to_place(const struct rt_members *m, uint32_t i, uint32_t root) {
    return (i + root) % m->n;
}

static int tree(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = from_root(m, m->me, c->root), sign = rt_call_sign(c);
    CO_AUTOFREE unsigned char *room = co_xmalloc(2 * bytes + 1);
    void *acc = me == 0 ? c->out : room;
    if (acc != c->in && bytes > 0) {
        memcpy(acc, c->in, bytes);
    }
    for (uint32_t d = 1; d < m->n; d *= 2) {
        if (me & d) {
            return send_all(g, m, to_place(m, me - d, c->root), acc, bytes, sign);
        }
        if (me + d < m->n) {
            int rc = recv_all(g, m, to_place(m, me + d, c->root), room + bytes, bytes, sign);
            if (rc < 0) {
                return rc;
            }
            merge(g, c, acc, room + bytes, false);
        }
    }
    return 0;
}

/* The one after the root begins, the root is last; a piece is sent on while the next one comes. */
static int chain(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = from_root(m, m->me, c->root);
    bool begins = me == 1, ends = me == 0;
    uint32_t before = (m->me + m->n - 1) % m->n, after = (m->me + 1) % m->n;
    CO_AUTOFREE unsigned char *room = co_xmalloc(2 * (size_t)RT_PIECE);
    size_t held = 0, held_at = 0;
    int rc = 0;
    for (size_t at = 0, k = 0; (at < bytes || held > 0) && rc == 0; at += RT_PIECE, k++) {
        size_t piece = at >= bytes ? 0 : bytes - at < RT_PIECE ? bytes - at : RT_PIECE;
        const unsigned char *in = (const unsigned char *)c->in + at;
        unsigned char *to = ends ? (unsigned char *)c->out + at : room + (k & 1) * RT_PIECE;
        struct rt_exchange_part x =
            part_of(g, m, held ? after : NONE, begins || !piece ? NONE : before);
        x.send = begins ? (const unsigned char *)c->in + held_at : room + (~k & 1) * RT_PIECE;
        x.send_bytes = held;
        x.recv = to;
        x.recv_bytes = piece;
        x.with = in;
        x.first = true;
        x.dtype = c->dtype;
        x.op = c->op;
        x.sign = rt_call_sign(c);
        rc = rt_message_exchange(g, &x);
        held = ends ? 0 : piece;
        held_at = at;
    }
    return rc;
}

int rt_msg_reduce(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    return c->n * rt_dtype_size(c->dtype) <= RT_PIECE ? tree(g, m, c) : chain(g, m, c);
}

/* ---- reduce_scatter ---- */

/* Part me + P - 1 begins here and comes home reduced after P - 1 steps. */
int rt_msg_reduce_scatter(struct rt_group *g, const struct rt_members *m, const struct rt_coll *c) {
    uint32_t n = m->n;
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    const unsigned char *in = c->in, *give = in + ((m->me + n - 1) % n) * bytes;
    CO_AUTOFREE unsigned char *room = NULL;
    int rc = co_try_alloc(2 * bytes + 1, 1, SIZE_MAX, "partial sums", (void **)&room, NULL);
    if (rc < 0) {
        return rt_group_fail(g, rc, g->size, true, "no memory for %zu bytes", 2 * bytes);
    }
    for (uint32_t s = 0; s < n - 1 && rc == 0; s++) {
        uint32_t take = (m->me + 2 * n - s - 2) % n;
        struct rt_exchange_part x = part_of(g, m, (m->me + 1) % n, (m->me + n - 1) % n);
        x.send = give;
        x.send_bytes = x.recv_bytes = bytes;
        x.recv = s + 2 == n ? c->out : room + (s & 1) * bytes;
        x.with = in + take * bytes;
        x.first = true;
        x.dtype = c->dtype;
        x.op = c->op;
        x.sign = rt_call_sign(c);
        give = x.recv;
        rc = rt_message_exchange(g, &x);
    }
    return rc;
}
