/* Algorithms for reduce and reduce_scatter with messages.  P members, n bytes:
 *
 *     tree            to the root along a binomial tree: log2 P steps of n bytes
 *     chain           from member to member to the root, piece by piece
 *     reduce_scatter  the parts go round the ring once and are reduced: P - 1 steps
 *
 * In the tree the lower member's data is the first operand, in the others the received data. */
#include <string.h>

#include "runtime/train/coll/message.h"

/* ---- reduce ---- */

/* A member's index when counting begins at the root; and back. */
static uint32_t from_root(const struct coll_members *m, uint32_t i, uint32_t root) {
    return (i + m->n - root) % m->n;
}
static uint32_t to_place(const struct coll_members *m, uint32_t i, uint32_t root) {
    return (i + root) % m->n;
}

int coll_msg_reduce_tree(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = from_root(m, m->me, c->root);
    CO_AUTOFREE void *room = NULL;
    const void *acc = c->in;
    for (uint32_t d = 1; d < m->n; d *= 2) {
        struct coll_exchange_part x = coll_msg_part(g, m, c, COLL_NOBODY, COLL_NOBODY);
        if (me & d) {
            x.to = m->rank[to_place(m, me - d, c->root)];
            x.send = acc;
            x.send_bytes = bytes;
            return coll_message_exchange(g, &x);
        }
        if (me + d < m->n) {
            int rc = 0;
            if (me != 0 && !room) {
                rc = co_try_alloc(bytes + 1, 1, SIZE_MAX, "partial sums", &room, NULL);
            }
            if (rc < 0) {
                return coll_group_fail(g, rc, g->size, true, "no memory for %zu bytes", bytes);
            }
            x.from = m->rank[to_place(m, me + d, c->root)];
            x.recv = me == 0 ? c->out : room;
            x.recv_bytes = bytes;
            x.with = acc;
            CO_TRY(coll_message_exchange(g, &x));
            acc = x.recv;
        }
    }
    return 0;
}

/* The member after the root begins, and the root is last.  A member sends a piece on while it
 * receives the next one. */
int coll_msg_reduce_chain(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t me = from_root(m, m->me, c->root);
    bool begins = me == 1, ends = me == 0;
    uint32_t before = (m->me + m->n - 1) % m->n, after = (m->me + 1) % m->n;
    CO_AUTOFREE unsigned char *room = co_xmalloc(2 * (size_t)COLL_PIECE);
    size_t held = 0, held_at = 0;
    int rc = 0;
    for (size_t at = 0, k = 0; (at < bytes || held > 0) && rc == 0; at += COLL_PIECE, k++) {
        size_t piece = at >= bytes ? 0 : bytes - at < COLL_PIECE ? bytes - at : COLL_PIECE;
        const unsigned char *in = (const unsigned char *)c->in + at;
        unsigned char *to = ends ? (unsigned char *)c->out + at : room + (k & 1) * COLL_PIECE;
        struct coll_exchange_part x = coll_msg_part(
            g, m, c, held ? after : COLL_NOBODY, begins || !piece ? COLL_NOBODY : before);
        x.send = begins ? (const unsigned char *)c->in + held_at : room + (~k & 1) * COLL_PIECE;
        x.send_bytes = held;
        x.recv = to;
        x.recv_bytes = piece;
        x.with = in;
        x.first = true;
        rc = coll_message_exchange(g, &x);
        held = ends ? 0 : piece;
        held_at = at;
    }
    return rc;
}

/* ---- reduce_scatter ---- */

/* Part me + P - 1 begins its way here.  After P - 1 steps it arrives, reduced, at its owner, the
 * member before this one. */
int coll_msg_reduce_scatter(
    struct rt_group *g, const struct coll_members *m, const struct rt_coll *c) {
    uint32_t n = m->n;
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    const unsigned char *in = c->in, *give = in + ((m->me + n - 1) % n) * bytes;
    CO_AUTOFREE unsigned char *room = NULL;
    int rc = co_try_alloc(2 * bytes + 1, 1, SIZE_MAX, "partial sums", (void **)&room, NULL);
    if (rc < 0) {
        return coll_group_fail(g, rc, g->size, true, "no memory for %zu bytes", 2 * bytes);
    }
    /* A piece is stored as soon as it has come, so not where data still has to go out from: in
     * place, one of two members sends what begins at `out`. */
    unsigned char *last = n == 2 && give == c->out ? room : c->out;
    for (uint32_t s = 0; s < n - 1; s++) {
        uint32_t take = (m->me + 2 * n - s - 2) % n;
        struct coll_exchange_part x = coll_msg_part(g, m, c, (m->me + 1) % n, (m->me + n - 1) % n);
        x.send = give;
        x.send_bytes = x.recv_bytes = bytes;
        x.recv = s + 2 == n ? last : room + (s & 1) * bytes;
        x.with = in + take * bytes;
        x.first = true;
        give = x.recv;
        CO_TRY(coll_message_exchange(g, &x));
    }
    if (last != c->out && bytes > 0) {
        memcpy(c->out, last, bytes);
    }
    return 0;
}
