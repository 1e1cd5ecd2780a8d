/* The serial reference of the tests: computes in one process what each call must return, and
 * compares. */
#pragma once

#include <assert.h>
#include <math.h>

#include "runtime/train/coll/coll_testing.h"
#include "runtime/train/coll/reduce.h"

enum { GUARD = 64 };

/* ---- values ---- */

static inline uint32_t mix(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t h = a * 0x9e3779b1U ^ (b + 0x85ebca6bU) * 0xc2b2ae35U ^ c * 0x27d4eb2fU;
    h ^= h >> 15;
    h *= 0x2c1b3c6dU;
    return h ^ h >> 13;
}

/* Values repeat after so many, which buffers of megabytes are quickly filled with; a prime, so that
 * no piece of a buffer that lands in another's place goes unseen. */
enum { PERIOD = 1021 };

/* Small whole numbers, so that sums, products and averages of a few are exact in every type. */
static inline double value(uint32_t rank, size_t i, uint32_t seed) {
    return (double)(mix(rank, (uint32_t)(i % PERIOD), seed) % 4) + 1;
}

/* Makes n values of `size` bytes from the first PERIOD. */
static inline void repeat(unsigned char *p, size_t n, size_t size) {
    for (size_t done = PERIOD; done < n; done *= 2) {
        memcpy(p + done * size, p, (done < n - done ? done : n - done) * size);
    }
}

static inline size_t first_period(size_t n) {
    return n < PERIOD ? n : PERIOD;
}

/* Finds the plain kernels only once: CPUID is slow in a virtual machine. */
static inline const struct coll_kernels *plain_kernels(void) {
    static const struct coll_kernels *plain;
    const struct coll_kernels *k = plain ? NULL : coll_kernels_get(0);
    for (uint32_t i = 1; k; i++) {
        plain = k;
        k = coll_kernels_get(i);
    }
    return plain;
}

static inline uint16_t to_half(enum rt_dtype t, double v) {
    return t == RT_F16 ? co_f16_narrow((float)v) : co_bf16_narrow((float)v);
}

static inline void put(enum rt_dtype t, void *p, size_t i, double v) {
    switch (t) {
    case RT_F32:
        ((float *)p)[i] = (float)v;
        break;
    case RT_F64:
        ((double *)p)[i] = v;
        break;
    case RT_F16:
    case RT_BF16:
        ((uint16_t *)p)[i] = to_half(t, v);
        break;
    case RT_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    case RT_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case RT_U8:
    case RT_DTYPES:
    default:
        ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; /* modulo 256, as sums are */
        break;
    }
}

static inline double apply(enum rt_op op, double a, double b) {
    switch (op) {
    case RT_PROD:
        return a * b;
    case RT_MAX:
        return a > b ? a : b;
    case RT_MIN:
        return a < b ? a : b;
    case RT_SUM:
    case RT_AVG:
    case RT_OPS:
    default:
        return a + b;
    }
}

static inline double reduced(uint32_t n, enum rt_op op, size_t i, uint32_t seed) {
    double v = value(0, i, seed);
    for (uint32_t r = 1; r < n; r++) {
        v = apply(op, v, value(r, i, seed));
    }
    return op == RT_AVG ? (double)((float)v * (float)(1.0 / n)) : v;
}

/* ---- one call in all ranks ---- */

struct buffers {
    unsigned char *in, *out, *want;
    size_t bytes; /* of each */
};

static inline void fill(
    const struct rt_coll *c, void *p, size_t n, uint32_t rank, size_t from, uint32_t seed) {
    for (size_t i = 0; i < first_period(n); i++) {
        put(c->dtype, p, i, value(rank, from + i, seed));
    }
    repeat(p, n, rt_dtype_size(c->dtype));
}

static inline void want_reduced(
    const struct rt_coll *c, void *p, size_t n, uint32_t ranks, size_t from, uint32_t seed) {
    for (size_t i = 0; i < first_period(n); i++) {
        double v = reduced(ranks, c->op, from + i, seed);
        if (c->op == RT_AVG && c->dtype == RT_F64) { /* not through float */
            v = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                v += value(r, from + i, seed);
            }
            v *= 1.0 / ranks;
        }
        put(c->dtype, p, i, v);
    }
    repeat(p, n, rt_dtype_size(c->dtype));
}

/* Fills the input of rank `me` of P and the output that it must get; *ret_in and *ret_out get their
 * lengths in elements. */
static inline void prepare(const struct rt_coll *c, struct buffers *b, uint32_t me, uint32_t P,
    uint32_t seed, size_t *ret_in, size_t *ret_out) {
    size_t n = c->n, size = rt_dtype_size(c->dtype);
    bool root = c->root == me;
    *ret_in = *ret_out = n;
    switch (c->kind) {
    case RT_ALL_REDUCE:
    case RT_REDUCE:
        fill(c, b->in, n, me, 0, seed);
        want_reduced(c, b->want, n, P, 0, seed);
        *ret_out = c->kind == RT_REDUCE && !root ? 0 : n;
        break;
    case RT_BROADCAST:
        fill(c, b->out, n, me, 0, seed);
        fill(c, b->want, n, c->root, 0, seed);
        *ret_in = 0;
        break;
    case RT_ALL_GATHER:
    case RT_GATHER:
        fill(c, b->in, n, me, 0, seed);
        for (uint32_t r = 0; r < P; r++) {
            fill(c, b->want + r * n * size, n, r, 0, seed);
        }
        *ret_out = c->kind == RT_ALL_GATHER || root ? P * n : 0;
        break;
    case RT_ALL_GATHERV:
        *ret_out = 0;
        assert(c->counts);
        for (uint32_t r = 0; r < P; r++) {
            fill(c, b->want + *ret_out * size, c->counts[r], r, 0, seed);
            *ret_out += c->counts[r];
        }
        *ret_in = c->counts[me];
        fill(c, b->in, *ret_in, me, 0, seed);
        break;
    case RT_REDUCE_SCATTER:
        fill(c, b->in, n * P, me, 0, seed);
        want_reduced(c, b->want, n, P, me * n, seed);
        *ret_in = P * n;
        break;
    case RT_SCATTER:
        *ret_in = root ? P * n : 0;
        fill(c, b->in, *ret_in, me, 0, seed);
        fill(c, b->want, n, c->root, me * n, seed);
        break;
    case RT_ALL_TO_ALL:
        fill(c, b->in, n * P, me, 0, seed);
        for (uint32_t r = 0; r < P; r++) {
            fill(c, b->want + r * n * size, n, r, me * n, seed);
        }
        *ret_in = *ret_out = P * n;
        break;
    case RT_SEND:
    case RT_RECV:
    case RT_ALL_TO_ALLV:
    case RT_BARRIER:
    case RT_KINDS:
    default:
        *ret_in = *ret_out = 0;
        break;
    }
}

static inline bool buffers_get(
    struct rt_group *g, struct buffers *b, size_t bytes, bool shared, struct co_err *err) {
    b->bytes = bytes + 2 * (size_t)GUARD;
    b->want = co_xcalloc(1, b->bytes);
    if (shared) {
        return rt_group_alloc(g, b->bytes, (void **)&b->in, err) == 0 &&
               rt_group_alloc(g, b->bytes, (void **)&b->out, err) == 0;
    }
    b->in = co_xcalloc(1, b->bytes);
    b->out = co_xcalloc(1, b->bytes);
    return true;
}

static inline void buffers_done(struct rt_group *g, struct buffers *b, bool shared) {
    free(b->want);
    if (shared) {
        rt_group_free(g, b->in);
        rt_group_free(g, b->out);
    } else {
        free(b->in);
        free(b->out);
    }
}

/* Where a call's input is: apart from its output, where that begins, or where the rank's own part
 * of what is gathered goes. */
enum layout { APART, SAME, OWN_PART, LAYOUTS };

static inline bool can_be_in_place(enum rt_kind k) {
    return k != RT_BROADCAST && k != RT_ALL_TO_ALL && k != RT_ALL_TO_ALLV && k < RT_SEND;
}

/* The offset in the output at which the input begins, in elements. */
static inline size_t input_at(const struct rt_coll *c, enum layout layout, uint32_t me) {
    bool gathers = c->kind == RT_ALL_GATHER || c->kind == RT_GATHER;
    size_t at = gathers ? me * c->n : 0;
    for (uint32_t r = 0; c->counts && r < me; r++) {
        at += c->counts[r];
    }
    return layout == OWN_PART ? at : 0;
}

/* Compares the output, and what follows it up to `end`: that is input, and stays as it was. */
static inline int check_output(const struct rt_coll *c, const struct buffers *b, size_t n_out,
    size_t end, struct co_err *err) {
    size_t size = rt_dtype_size(c->dtype);
    bool same = memcmp(b->out, b->want, n_out * size) == 0 &&
                (end <= n_out ||
                    memcmp(b->out + n_out * size, b->in + n_out * size, (end - n_out) * size) == 0);
    for (size_t i = 0; i < end && !same; i++) { /* which one */
        const unsigned char *want = i < n_out ? b->want : b->in;
        if (memcmp(b->out + i * size, want + i * size, size) != 0) {
            return co_err_set(err, CO_INTERNAL, "%s %s %s n %zu root %u: element %zu is wrong%s",
                rt_kind_name(c->kind), rt_dtype_name(c->dtype), rt_op_name(c->op), c->n, c->root, i,
                c->in == b->in ? "" : ", in place");
        }
    }
    for (size_t i = 0; i < GUARD; i++) {
        if (b->out[end * size + i] != 0xa5) {
            return co_err_set(
                err, CO_INTERNAL, "%s n %zu wrote behind its end", rt_kind_name(c->kind), c->n);
        }
    }
    return 0;
}

/* Returns 0 or a negative code, with *err set. */
static inline int one_call(struct coll_world *w, struct rt_group *g, struct rt_coll c, bool shared,
    enum layout layout, struct co_err *err) {
    uint32_t me = rt_group_rank(g), P = rt_group_size(g),
             seed = mix(w->seed, (uint32_t)c.n, c.kind);
    size_t size = rt_dtype_size(c.dtype), n_in, n_out, most = c.n * P;
    for (uint32_t r = 0; c.counts && r < P; r++) {
        most += c.counts[r];
    }
    struct buffers b = {0};
    if (!buffers_get(g, &b, most * size, shared, err)) {
        return CO_NOMEMORY;
    }
    prepare(&c, &b, me, P, seed, &n_in, &n_out);
    c.in = b.in;
    c.out = b.out;
    size_t end = n_out;
    if (layout != APART && can_be_in_place(c.kind)) {
        /* A rank without output has no parts in it, either. */
        size_t at = n_out > 0 ? input_at(&c, layout, me) : 0;
        memcpy(b.out + at * size, b.in, n_in * size);
        c.in = b.out + at * size;
        end = at + n_in > n_out ? at + n_in : n_out;
    }
    memset(b.out + end * size, 0xa5, GUARD);
    int rc = rt_coll_run(g, &c, err);
    if (rc == 0) {
        rc = check_output(&c, &b, n_out, end, err);
    }
    buffers_done(g, &b, shared);
    return rc;
}

static inline bool average_of_integers(const struct rt_coll *c) {
    return c->op == RT_AVG && (c->dtype == RT_I64 || c->dtype == RT_I32 || c->dtype == RT_U8);
}

/* The seed of random tests; set COLL_SEED to repeat a failed run. */
static inline uint32_t seed_now(void) {
    const char *s = getenv("COLL_SEED");
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return s ? (uint32_t)strtoul(s, NULL, 10) : (uint32_t)t.tv_nsec;
}
