/* Calls inside one machine that move data: broadcast, all_gather(v), reduce_scatter, barrier.
 *
 * Large data passes in pieces through the `in` area of the rank that has it.  The area holds two
 * pieces: piece k goes into half k & 1 once all ranks have read piece k - 2.  A writer's phase flag
 * counts the pieces that it has written, a reader's those that it has read. */
#include <string.h>

#include "runtime/train/coll/shm_call.h"

int coll_shm_barrier(struct rt_group *g, const struct rt_coll *c) {
    (void)c;
    struct coll_shm *s = &g->shm;
    uint32_t turn;
    const void *none;
    int rc = coll_shm_small_begin(g, &turn);
    if (rc == 0) {
        coll_shm_small_raise(g, turn, NULL, 0);
    }
    for (uint32_t i = 0; i < s->n && rc == 0; i++) {
        rc = coll_shm_small_wait(g, turn, i, 0, &none);
    }
    s->entered = rc == 0 ? s->seq : s->entered;
    return rc;
}

/* ---- broadcast ---- */

static int small_broadcast(struct rt_group *g, const struct rt_coll *c, size_t bytes) {
    uint32_t turn, root = g->peers[c->root].local;
    CO_TRY(coll_shm_small_begin(g, &turn));
    bool mine = root == g->shm.me;
    coll_shm_small_raise(g, turn, c->out, mine ? bytes : 0);
    if (!mine) {
        const void *data;
        CO_TRY(coll_shm_small_wait(g, turn, root, bytes, &data));
        memcpy(c->out, data, bytes);
    }
    return 0;
}

static size_t half_of(const struct coll_shm *s) {
    return s->n * s->slice / 2 / 64 * 64;
}

static int large_broadcast(struct rt_group *g, const struct rt_coll *c, size_t bytes) {
    struct coll_shm *s = &g->shm;
    uint32_t root = g->peers[c->root].local, begin = s->phase, k = 0;
    size_t half = half_of(s);
    int rc = coll_shm_large_begin(g);
    s->idle = false;
    for (size_t at = 0; at < bytes && rc == 0; at += half, k++) {
        size_t m = bytes - at < half ? bytes - at : half;
        unsigned char *piece = coll_shm_in(s, root, 0) + (k & 1) * half;
        unsigned char *out = (unsigned char *)c->out + at;
        if (root == s->me) {
            rc = k < 2 ? 0 : coll_shm_wait_all(g, begin + k - 1);
            if (rc == 0) {
                memcpy(piece, out, m);
            }
        } else if ((rc = coll_shm_wait_one(g, root, begin + k + 1)) == 0) {
            memcpy(out, piece, m);
        }
        if (rc == 0) {
            coll_shm_raise(g);
        }
    }
    return rc;
}

int coll_shm_broadcast(struct rt_group *g, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    return bytes <= coll_shm_small_max(&g->shm) ? small_broadcast(g, c, bytes)
                                                : large_broadcast(g, c, bytes);
}

/* ---- all_gather, all_gatherv ---- */

/* The size of a rank's part, and its offset in `out`. */
struct rank_part {
    size_t at, bytes;
};

/* The part of the rank with index i. */
static struct rank_part part_of(const struct rt_coll *c, uint32_t i) {
    size_t size = rt_dtype_size(c->dtype);
    if (c->kind != RT_ALL_GATHERV) {
        return (struct rank_part){.at = i * c->n * size, .bytes = c->n * size};
    }
    struct rank_part p = {.bytes = c->counts[i] * size};
    for (uint32_t k = 0; k < i; k++) {
        p.at += c->counts[k] * size;
    }
    return p;
}

/* Copies this rank's own part to its place: before all others, as in place they go over `in`. */
static void take_own(const struct rt_coll *c, const struct rank_part *own) {
    unsigned char *to = (unsigned char *)c->out + own->at;
    if (to != c->in && own->bytes > 0) {
        memmove(to, c->in, own->bytes);
    }
}

static int small_gather(struct rt_group *g, const struct rt_coll *c, size_t bytes) {
    struct coll_shm *s = &g->shm;
    struct rank_part own = part_of(c, s->me);
    uint32_t turn;
    int rc = coll_shm_small_begin(g, &turn);
    if (rc < 0) {
        return rc;
    }
    coll_shm_small_raise(g, turn, c->in, bytes);
    take_own(c, &own);
    for (uint32_t i = 0; i < s->n && rc == 0; i++) {
        struct rank_part p = part_of(c, i);
        const void *data;
        if (i != s->me && (rc = coll_shm_small_wait(g, turn, i, bytes, &data)) == 0) {
            memcpy((unsigned char *)c->out + p.at, data, p.bytes);
        }
    }
    s->entered = rc == 0 ? s->seq : s->entered;
    return rc;
}

static void put_piece(struct coll_shm *s, const struct rt_coll *c, const struct rank_part *p,
    size_t at, size_t half, uint32_t k) {
    if (at < p->bytes) {
        size_t m = p->bytes - at < half ? p->bytes - at : half;
        const unsigned char *own = (const unsigned char *)c->out + p->at;
        memcpy(coll_shm_in(s, s->me, 0) + (k & 1) * half, own + at, m);
    }
}

static void take_piece(struct coll_shm *s, const struct rt_coll *c, uint32_t i,
    const struct rank_part *p, size_t at, size_t half, uint32_t k) {
    if (at < p->bytes) {
        size_t m = p->bytes - at < half ? p->bytes - at : half;
        memcpy((unsigned char *)c->out + p->at + at, coll_shm_in(s, i, 0) + (k & 1) * half, m);
    }
}

/* Every rank writes, from its own part of `out`, and reads.  One that has written piece k has read
 * all pieces k - 1 before, so one flag says both. */
static int large_gather(struct rt_group *g, const struct rt_coll *c, size_t most) {
    struct coll_shm *s = &g->shm;
    uint32_t begin = s->phase, k = 0;
    size_t half = half_of(s);
    struct rank_part own = part_of(c, s->me);
    int rc = coll_shm_large_begin(g);
    s->idle = false;
    take_own(c, &own);
    for (size_t at = 0; at < most && rc == 0; at += half, k++) {
        put_piece(s, c, &own, at, half, k);
        coll_shm_raise(g);
        for (uint32_t i = 0; i < s->n && rc == 0; i++) {
            struct rank_part p = part_of(c, i);
            if (i != s->me && (rc = coll_shm_wait_one(g, i, begin + k + 1)) == 0) {
                take_piece(s, c, i, &p, at, half, k);
            }
        }
    }
    if (most == 0 && rc == 0) {
        return coll_shm_sync(g); /* without data, too, all make this call */
    }
    coll_shm_raise(g);
    return rc;
}

int coll_shm_all_gather(struct rt_group *g, const struct rt_coll *c) {
    size_t most = 0;
    for (uint32_t i = 0; i < g->n_local; i++) {
        size_t bytes = part_of(c, i).bytes;
        most = bytes > most ? bytes : most;
    }
    bool small = c->kind != RT_ALL_GATHERV && most <= coll_shm_small_max(&g->shm);
    return small ? small_gather(g, c, most) : large_gather(g, c, most);
}

/* ---- reduce_scatter ---- */

/* Like the first half of a large all_reduce; each rank's share of a piece is one slice. */
int coll_shm_reduce_scatter(struct rt_group *g, const struct rt_coll *c) {
    struct coll_shm *s = &g->shm;
    size_t size = rt_dtype_size(c->dtype), bytes = c->n * size;
    const unsigned char *in = c->in;
    CO_TRY(coll_shm_large_begin(g));
    if (bytes == 0) {
        return coll_shm_sync(g);
    }
    for (size_t at = 0; at < bytes; at += s->slice) {
        size_t m = bytes - at < s->slice ? bytes - at : s->slice;
        const void *from[COLL_SHM_RANKS_MAX];
        for (uint32_t i = 0; i < s->n; i++) {
            bool mine = i == s->me;
            from[i] = mine ? in + i * bytes + at : coll_shm_in(s, i, s->me);
            if (!mine) {
                memcpy(coll_shm_in(s, s->me, i), in + i * bytes + at, m);
            }
        }
        CO_TRY(coll_shm_sync(g));
        coll_reduce_n(g->kernels, c->dtype, c->op, 1.0 / g->size, (unsigned char *)c->out + at,
            from, s->n, m / size);
        CO_TRY(coll_shm_sync(g));
    }
    return 0;
}
