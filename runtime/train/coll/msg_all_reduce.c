/* Three algorithms for all_reduce with messages.  P members, n bytes:
 *
 *     doubling   Each member exchanges all its data with the member at distance 1, 2, 4, ...:
 *                log2 P steps of n bytes.
 *     halving    Rabenseifner's algorithm.  Each member exchanges half of what it still has with
 *                the member at distance P / 2, P / 4, ..., until it has a P-th of the result; then
 *                the same way back: 2 log2 P steps, 2 n (P - 1) / P bytes in all.
 *     ring       P slices go round twice and are reduced the first time: 2 (P - 1) steps of n / P
 *                bytes.
 *
 * Doubling and halving need a power of two.  Each member beyond that hands its data to a neighbour
 * first, and gets the result from it at the end ("fold").
 *
 * All members get the same bits, because each slice is reduced in one fixed order.  In doubling and
 * halving the data of the lower member is the first operand, in the ring the received data. */
#include <string.h>

#include "runtime/train/coll/message.h"

struct coll_exchange_part coll_msg_part(const struct rt_group *g, const struct coll_members *m,
    const struct rt_coll *c, uint32_t to, uint32_t from) {
    return (struct coll_exchange_part){.to = to == COLL_NOBODY ? g->size : m->rank[to],
        .from = from == COLL_NOBODY ? g->size : m->rank[from],
        .dtype = c->dtype,
        .op = c->op};
}

/* ---- powers of two ---- */

/* Which members take part, once `extra` members have handed their data to a neighbour. */
struct fold {
    uint32_t power, extra, me; /* me: this member's index among those that take part */
    const void *in;            /* the data with which this member begins */
    bool paired, gives;        /* it has such a neighbour; it is the one that hands its data over */
};

/* The i-th member that takes part: below 2 * extra only the odd members do. */
static uint32_t member(const struct fold *f, uint32_t i) {
    return i < f->extra ? 2 * i + 1 : i + f->extra;
}

static int fold_begin(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c,
    size_t bytes, struct fold *f) {
    *f = (struct fold){.power = 1, .in = c->in};
    while (f->power * 2 <= m->n) {
        f->power *= 2;
    }
    f->extra = m->n - f->power;
    f->paired = m->me < 2 * f->extra;
    f->gives = f->paired && m->me % 2 == 0;
    f->me = f->paired ? m->me / 2 : m->me - f->extra;
    if (!f->paired) {
        return 0;
    }
    struct coll_exchange_part x = coll_msg_part(
        g, m, c, f->gives ? m->me + 1 : COLL_NOBODY, f->gives ? COLL_NOBODY : m->me - 1);
    x.send = c->in;
    x.recv = c->out;
    x.send_bytes = x.recv_bytes = bytes;
    x.with = c->in;
    x.first = true;
    f->in = c->out;
    return coll_message_exchange(g, &x);
}

static int fold_end(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c,
    size_t bytes, const struct fold *f) {
    if (!f->paired) {
        return 0;
    }
    struct coll_exchange_part x = coll_msg_part(
        g, m, c, f->gives ? COLL_NOBODY : m->me - 1, f->gives ? m->me + 1 : COLL_NOBODY);
    x.send = x.recv = c->out;
    x.send_bytes = x.recv_bytes = bytes;
    return coll_message_exchange(g, &x);
}

static int double_all(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c,
    size_t bytes, const struct fold *f) {
    CO_AUTOFREE void *other = co_xmalloc(bytes + 1);
    if (c->out != f->in && bytes > 0) {
        memcpy(c->out, f->in, bytes);
    }
    for (uint32_t d = 1; d < f->power; d *= 2) {
        uint32_t with = member(f, f->me ^ d);
        struct coll_exchange_part x = coll_msg_part(g, m, c, with, with);
        x.send = c->out;
        x.recv = other;
        x.send_bytes = x.recv_bytes = bytes;
        CO_TRY(coll_message_exchange(g, &x));
        const void *in[2] = {with < m->me ? other : c->out, with < m->me ? c->out : other};
        coll_reduce_n(g->kernels, c->dtype, c->op, 1, c->out, in, 2, c->n);
    }
    return 0;
}

int coll_msg_doubling(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    struct fold f;
    CO_TRY(fold_begin(g, m, c, bytes, &f));
    if (!f.gives) {
        CO_TRY(double_all(g, m, c, bytes, &f));
    }
    return fold_end(g, m, c, bytes, &f);
}

/* The element at which slice i of n begins. */
static size_t slice_at(const struct rt_coll *c, uint32_t n, uint32_t i) {
    size_t slice = c->n / n, more = c->n % n;
    return i * slice + (i < more ? i : more);
}

/* Sends slices [begin, begin + n) and receives slices [other, other + n). */
static void halving_move(const struct rt_coll *c, const struct fold *f, const void *from,
    uint32_t begin, uint32_t other, uint32_t n, struct coll_exchange_part *x) {
    size_t size = rt_dtype_size(c->dtype), at = slice_at(c, f->power, begin) * size,
           to = slice_at(c, f->power, other) * size;
    x->send = (const unsigned char *)from + at;
    x->send_bytes = slice_at(c, f->power, begin + n) * size - at;
    x->recv = (unsigned char *)c->out + to;
    x->recv_bytes = slice_at(c, f->power, other + n) * size - to;
}

/* After the exchange at distance d this member is responsible for slices [own, own + d). */
static int halve_all(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c,
    const struct fold *f) {
    const unsigned char *from = f->in;
    size_t size = rt_dtype_size(c->dtype);
    int rc = 0;
    for (uint32_t d = f->power / 2; d > 0 && rc == 0; d /= 2) {
        uint32_t with = member(f, f->me ^ d), own = f->me & ~(d - 1);
        struct coll_exchange_part x = coll_msg_part(g, m, c, with, with);
        halving_move(c, f, from, own ^ d, own, d, &x);
        x.with = from + slice_at(c, f->power, own) * size;
        x.first = with < m->me;
        rc = coll_message_exchange(g, &x);
        from = c->out;
    }
    for (uint32_t d = 1; d < f->power && rc == 0; d *= 2) {
        uint32_t with = member(f, f->me ^ d), own = f->me & ~(d - 1);
        struct coll_exchange_part x = coll_msg_part(g, m, c, with, with);
        halving_move(c, f, c->out, own, own ^ d, d, &x);
        rc = coll_message_exchange(g, &x);
    }
    return rc;
}

int coll_msg_halving(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    struct fold f;
    CO_TRY(fold_begin(g, m, c, bytes, &f));
    if (!f.gives) {
        CO_TRY(halve_all(g, m, c, &f));
    }
    return fold_end(g, m, c, bytes, &f);
}

/* ---- ring ---- */

int coll_msg_ring(struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    uint32_t n = m->n, next = (m->me + 1) % n, last = (m->me + n - 1) % n;
    size_t size = rt_dtype_size(c->dtype);
    unsigned char *out = c->out;
    for (uint32_t s = 0; s < 2 * (n - 1); s++) {
        uint32_t give = (m->me + 2 * n - s) % n, take = (m->me + 2 * n - s - 1) % n;
        size_t give_at = slice_at(c, n, give) * size, take_at = slice_at(c, n, take) * size;
        bool reduces = s < n - 1;
        struct coll_exchange_part x = coll_msg_part(g, m, c, next, last);
        x.send = (s == 0 ? (const unsigned char *)c->in : out) + give_at;
        x.send_bytes = slice_at(c, n, give + 1) * size - give_at;
        x.recv = out + take_at;
        x.recv_bytes = slice_at(c, n, take + 1) * size - take_at;
        x.with = reduces ? (const unsigned char *)c->in + take_at : NULL;
        x.first = true;
        CO_TRY(coll_message_exchange(g, &x));
    }
    return 0;
}
