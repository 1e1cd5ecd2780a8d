/* Reductions inside one machine, in one of three ways.
 *
 * Small: every rank copies its data into its body, raises its flag, waits for the others' flags
 * and reduces everything itself.
 *
 * Large, for each chunk of P slices (P ranks):
 *
 *     in     each rank copies those slices that others own         -> in areas
 *            all ranks wait for all
 *     own    each rank reduces its slice: its own from the caller's memory, the others' from
 *            their in areas, where they are still in cache         -> out area, caller's memory
 *            all ranks wait for all
 *     out    each rank copies the others' results                  <- out areas
 *
 * The in areas are free after the second wait, the out areas after the next chunk's first wait.
 *
 * Direct, if all buffers of all ranks are in arenas (rt_group_alloc): all ranks wait for all; each
 * rank reduces its part of all inputs, block by block, to its output, and copies it to the others';
 * all wait again.  Nothing is staged. */
#include <string.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/shm_call.h"

enum { BLOCK = 16 << 10, OWN_FIRST = 64 << 10, NO_ROOT = UINT32_MAX };

/* ---- small ---- */

int coll_shm_small_begin(struct rt_group *g, uint32_t *ret_turn) {
    struct coll_shm *s = &g->shm;
    uint32_t before = s->seq++;
    if (s->entered != before) {
        for (uint32_t i = 0; i < s->n; i++) {
            const struct coll_small *own = &coll_shm_of(s, s->me)->small[before & 1];
            struct coll_small *other = &coll_shm_of(s, i)->small[before & 1];
            CO_TRY(coll_flag_wait(g, s, &other->flag, before, i));
            if (__builtin_expect(other->sign != own->sign, 0)) {
                return coll_calls_differ(g, g->locals[i]);
            }
        }
        s->entered = before;
    }
    *ret_turn = s->seq & 1;
    return 0;
}

int coll_shm_small_wait(
    struct rt_group *g, uint32_t turn, uint32_t i, size_t bytes, const void **ret_data) {
    struct coll_shm *s = &g->shm;
    struct coll_shm_rank *r = coll_shm_of(s, i);
    int rc = coll_flag_wait(g, s, &r->small[turn].flag, s->seq, i);
    if (rc == 0 && __builtin_expect(r->small[turn].sign != g->calls.now.sign, 0)) {
        return coll_calls_differ(g, g->locals[i]);
    }
    *ret_data = bytes <= COLL_SHM_INLINE ? r->small[turn].data : r->body[turn];
    return rc;
}

void coll_shm_small_raise(struct rt_group *g, uint32_t turn, const void *data, size_t bytes) {
    struct coll_shm *s = &g->shm;
    struct coll_shm_rank *r = coll_shm_of(s, s->me);
    r->small[turn].sign = g->calls.now.sign;
    if (bytes > 0) {
        memcpy(bytes <= COLL_SHM_INLINE ? r->small[turn].data : r->body[turn], data, bytes);
    }
    coll_flag_raise(s, &r->small[turn].flag, s->seq);
}

static int small_reduce(struct rt_group *g, const struct rt_coll *c, size_t bytes, uint32_t root) {
    struct coll_shm *s = &g->shm;
    const void *in[COLL_SHM_RANKS_MAX];
    uint32_t turn = 0;
    int rc = coll_shm_small_begin(g, &turn);
    if (rc < 0) {
        return rc;
    }
    coll_shm_small_raise(g, turn, c->in, bytes);
    if (root != NO_ROOT && root != s->me) {
        return 0;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (i == s->me) {
            in[i] = c->in;
        } else if ((rc = coll_shm_small_wait(g, turn, i, bytes, &in[i])) < 0) {
            return rc;
        }
    }
    s->entered = s->seq;
    coll_reduce_n(g->kernels, c->dtype, c->op, 1.0 / g->size, c->out, in, s->n, c->n);
    return 0;
}

/* ---- large ---- */

int coll_shm_large_begin(struct rt_group *g) {
    int rc = g->shm.idle ? 0 : coll_shm_wait_all(g, g->shm.phase);
    g->shm.idle = rc == 0;
    return rc;
}

void coll_shm_raise(struct rt_group *g) {
    struct coll_shm *s = &g->shm;
    struct coll_shm_rank *r = coll_shm_of(s, s->me);
    s->phase++;
    r->phase.sign[s->phase & 3] = g->calls.now.sign;
    coll_flag_raise(s, &r->phase.flag, s->phase);
}

/* Waits for a phase of the rank with index i, and compares its sign with that of the same phase
 * here. */
static int phase_wait(struct rt_group *g, uint32_t i, uint32_t phase, uint64_t sign) {
    struct coll_shm *s = &g->shm;
    struct coll_phase *p = &coll_shm_of(s, i)->phase;
    CO_TRY(coll_flag_wait(g, s, &p->flag, phase, i));
    if (__builtin_expect(p->sign[phase & 3] != sign, 0)) {
        return coll_calls_differ(g, g->locals[i]);
    }
    return 0;
}

int coll_shm_wait_all(struct rt_group *g, uint32_t phase) {
    struct coll_shm *s = &g->shm;
    uint64_t sign = coll_shm_of(s, s->me)->phase.sign[phase & 3];
    for (uint32_t i = 0; i < s->n; i++) {
        CO_TRY(phase_wait(g, i, phase, sign));
    }
    return 0;
}

int coll_shm_wait_one(struct rt_group *g, uint32_t i, uint32_t phase) {
    if (i != g->shm.me) { /* this rank is not late for itself */
        CO_TRY(coll_deadline_check(g, &g->patience, g->locals[i], co_now_ms()));
    }
    return phase_wait(g, i, phase, g->calls.now.sign);
}

int coll_shm_sync(struct rt_group *g) {
    coll_shm_raise(g);
    for (uint32_t i = 0; i < g->shm.n; i++) {
        CO_TRY(coll_shm_wait_one(g, i, g->shm.phase));
    }
    return 0;
}

/* How a chunk is divided: rank i owns slice i, and the last ones may be short or empty. */
struct cut {
    size_t chunk, slice; /* bytes; a slice is a multiple of 64, so that ranks share no line */
};

static size_t own_begin(const struct cut *k, uint32_t i) {
    size_t at = i * k->slice;
    return at < k->chunk ? at : k->chunk;
}

static size_t own_bytes(const struct cut *k, uint32_t i) {
    return own_begin(k, i + 1) - own_begin(k, i);
}

static struct cut cut_of(size_t bytes, uint32_t n) {
    return (struct cut){.chunk = bytes, .slice = ((bytes + n - 1) / n + 63) / 64 * 64};
}

static void stage(struct rt_group *g, const unsigned char *in, const struct cut *k) {
    struct coll_shm *s = &g->shm;
    for (uint32_t i = 0; i < s->n; i++) {
        if (i != s->me && own_bytes(k, i) > 0) {
            memcpy(coll_shm_in(s, s->me, i), in + own_begin(k, i), own_bytes(k, i));
        }
    }
}

/* A large call as one rank sees it. */
struct shm_call_view {
    const struct rt_coll *c;
    size_t bytes;
    const unsigned char *in;
    unsigned char *out;                           /* NULL: the result goes to another rank only */
    const unsigned char *ins[COLL_SHM_RANKS_MAX]; /* inputs in arenas; NULL: go through in areas */
    unsigned char *outs[COLL_SHM_RANKS_MAX];
    bool direct; /* all inputs and outputs are in arenas */
};

/* Reduces this rank's slice, which begins at `at`, block by block.  The result goes to the caller's
 * memory and to the area, whose lines the other ranks have.  A large slice is written to the
 * caller's first, and copied from the L1 cache; of a small one the others wait for the area. */
static void reduce_own(struct rt_group *g, const struct shm_call_view *v, size_t at, size_t bytes) {
    struct coll_shm *s = &g->shm;
    size_t size = rt_dtype_size(v->c->dtype);
    unsigned char *shared = coll_shm_out(s, s->me);
    const void *from[COLL_SHM_RANKS_MAX];
    bool own_first = v->out && bytes > OWN_FIRST;
    for (size_t b = 0; b < bytes; b += BLOCK) {
        size_t m = bytes - b < BLOCK ? bytes - b : BLOCK;
        for (uint32_t i = 0; i < s->n; i++) {
            from[i] = i == s->me  ? v->in + at + b
                      : v->ins[i] ? v->ins[i] + at + b
                                  : coll_shm_in(s, i, s->me) + b;
        }
        unsigned char *to = own_first ? v->out + at + b : shared + b;
        coll_reduce_n(g->kernels, v->c->dtype, v->c->op, 1.0 / g->size, to, from, s->n, m / size);
        if (v->out) {
            memcpy(own_first ? shared + b : v->out + at + b, to, m);
        }
    }
}

static void collect(struct rt_group *g, unsigned char *out, const struct cut *k) {
    struct coll_shm *s = &g->shm;
    for (uint32_t i = 0; i < s->n; i++) {
        if (i != s->me && own_bytes(k, i) > 0) {
            memcpy(out + own_begin(k, i), coll_shm_out(s, i), own_bytes(k, i));
        }
    }
}

static void reduce_direct(struct rt_group *g, const struct shm_call_view *v) {
    struct coll_shm *s = &g->shm;
    struct cut k = cut_of(v->bytes, s->n);
    size_t size = rt_dtype_size(v->c->dtype), end = own_begin(&k, s->me + 1);
    const void *from[COLL_SHM_RANKS_MAX];
    for (size_t at = own_begin(&k, s->me); at < end; at += BLOCK) {
        size_t m = end - at < BLOCK ? end - at : BLOCK;
        for (uint32_t i = 0; i < s->n; i++) {
            from[i] = v->ins[i] + at;
        }
        unsigned char *to = v->outs[s->me] + at;
        coll_reduce_n(g->kernels, v->c->dtype, v->c->op, 1.0 / g->size, to, from, s->n, m / size);
        for (uint32_t i = 0; i < s->n; i++) {
            if (i != s->me) {
                memcpy(v->outs[i] + at, to, m);
            }
        }
    }
}

/* Another rank wrote `place`: NULL unless it lies in the arenas. */
static unsigned char *in_mapping(const struct coll_shm *s, uint64_t place, size_t bytes) {
    bool fits = place >= s->arenas && place <= s->bytes && bytes <= s->bytes - place;
    return fits ? s->base + place : NULL;
}

/* Finds the buffers of all ranks, which these published before the first sync. */
static void view_others(const struct coll_shm *s, struct shm_call_view *v) {
    v->direct = true;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t *place = coll_shm_of(s, i)->phase.place;
        v->ins[i] = in_mapping(s, place[0], v->bytes);
        v->outs[i] = in_mapping(s, place[1], v->bytes);
        v->direct &= v->ins[i] && v->outs[i];
    }
}

static int reduce_chunk(
    struct rt_group *g, struct shm_call_view *v, size_t at, const struct cut *k) {
    struct coll_shm *s = &g->shm;
    if (!v->ins[s->me]) {
        stage(g, v->in + at, k);
    }
    CO_TRY(coll_shm_sync(g));
    if (at == 0) {
        view_others(s, v);
    }
    if (v->direct) {
        reduce_direct(g, v);
        return coll_shm_sync(g);
    }
    reduce_own(g, v, at + own_begin(k, s->me), own_bytes(k, s->me));
    CO_TRY(coll_shm_sync(g));
    if (v->out) {
        collect(g, v->out + at, k);
    }
    return 0;
}

static int large_reduce(struct rt_group *g, const struct rt_coll *c, size_t bytes, bool has_out) {
    struct coll_shm *s = &g->shm;
    struct shm_call_view v = {.c = c, .bytes = bytes, .in = c->in};
    v.out = has_out ? c->out : NULL;
    uint64_t place[2] = {
        coll_shm_place(s, c->in, bytes), has_out ? coll_shm_place(s, c->out, bytes) : 0};
    int rc = coll_shm_large_begin(g);
    memcpy(coll_shm_of(s, s->me)->phase.place, place, sizeof(place));
    v.ins[s->me] = in_mapping(s, place[0], bytes);
    size_t chunk = s->slice * s->n;
    for (size_t at = 0; at < bytes && rc == 0 && !v.direct; at += chunk) {
        struct cut k = cut_of(bytes - at < chunk ? bytes - at : chunk, s->n);
        rc = reduce_chunk(g, &v, at, &k);
    }
    return rc;
}

int coll_shm_all_reduce(struct rt_group *g, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    return bytes <= coll_shm_small_max(&g->shm) ? small_reduce(g, c, bytes, NO_ROOT)
                                                : large_reduce(g, c, bytes, true);
}

int coll_shm_reduce(struct rt_group *g, const struct rt_coll *c) {
    size_t bytes = c->n * rt_dtype_size(c->dtype);
    uint32_t root = g->peers[c->root].local;
    return bytes <= coll_shm_small_max(&g->shm) ? small_reduce(g, c, bytes, root)
                                                : large_reduce(g, c, bytes, root == g->shm.me);
}
