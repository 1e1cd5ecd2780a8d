/* Every kind of call, every type and operation, many sizes, against a serial reference; on all
 * transports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <assert.h>
#include <math.h>

#include "runtime/train/coll/reduce.h"
#include "runtime/train/coll/testkit.h"

enum { MOST = 700000, GUARD = 64 };

/* ---- values ---- */

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t h = a * 0x9e3779b1U ^ (b + 0x85ebca6bU) * 0xc2b2ae35U ^ c * 0x27d4eb2fU;
    h ^= h >> 15;
    h *= 0x2c1b3c6dU;
    return h ^ h >> 13;
}

/* Small whole numbers, so that sums, products and averages of a few are exact in every type. */
static double value(uint32_t rank, size_t i, uint32_t seed) {
    return (double)(mix(rank, (uint32_t)i, seed) % 4) + 1;
}

/* Asking the processor takes long: once. */
static const struct rt_kernels *plain_kernels(void) {
    static const struct rt_kernels *plain;
    const struct rt_kernels *k = plain ? NULL : rt_kernels_get(0);
    for (uint32_t i = 1; k; i++) {
        plain = k;
        k = rt_kernels_get(i);
    }
    return plain;
}

static uint16_t to_half(enum rt_dtype t, double v) {
    float f = (float)v;
    uint16_t h;
    plain_kernels()->narrow[t](&h, &f, 1);
    return h;
}

static void put(enum rt_dtype t, void *p, size_t i, double v) {
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

static double apply(enum rt_op op, double a, double b) {
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

static double reduced(uint32_t n, enum rt_op op, size_t i, uint32_t seed) {
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

static void fill(
    const struct rt_coll *c, void *p, size_t n, uint32_t rank, size_t from, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        put(c->dtype, p, i, value(rank, from + i, seed));
    }
}

static void want_reduced(
    const struct rt_coll *c, void *p, size_t n, uint32_t ranks, size_t from, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
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
}

/* What goes in and what must come out at rank `me` of P; in elements, *ret_in and *ret_out. */
static void prepare(const struct rt_coll *c, struct buffers *b, uint32_t me, uint32_t P,
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

static bool buffers_get(
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

static void buffers_done(struct rt_group *g, struct buffers *b, bool shared) {
    free(b->want);
    if (shared) {
        rt_group_free(g, b->in);
        rt_group_free(g, b->out);
    } else {
        free(b->in);
        free(b->out);
    }
}

static bool can_be_in_place(enum rt_kind k) {
    return k == RT_ALL_REDUCE || k == RT_REDUCE || k == RT_ALL_GATHER;
}

/* 0 or a bad code, said in *err. */
static int one_call(struct world *w, struct rt_group *g, struct rt_coll c, bool shared,
    bool in_place, struct co_err *err) {
    uint32_t me = rt_group_rank(g), P = w->n, seed = mix(w->seed, (uint32_t)c.n, c.kind);
    size_t size = rt_dtype_size(c.dtype), n_in, n_out, most = c.n * P;
    for (uint32_t r = 0; c.counts && r < P; r++) {
        most += c.counts[r];
    }
    struct buffers b;
    if (!buffers_get(g, &b, most * size, shared, err)) {
        return CO_NOMEMORY;
    }
    prepare(&c, &b, me, P, seed, &n_in, &n_out);
    c.in = b.in;
    c.out = b.out;
    if (in_place && can_be_in_place(c.kind) && (n_out > 0)) {
        size_t at = c.kind == RT_ALL_GATHER ? me * c.n * size : 0;
        memcpy(b.out + at, b.in, n_in * size);
        c.in = b.out + at;
    }
    memset(b.out + n_out * size, 0xa5, GUARD);
    int rc = rt_coll_run(g, &c, err);
    for (size_t i = 0; rc == 0 && i < n_out; i++) {
        if (memcmp(b.out + i * size, b.want + i * size, size) != 0) {
            rc = co_err_set(err, CO_INTERNAL, "%s %s %s n %zu root %u: element %zu is wrong",
                rt_kind_name(c.kind), rt_dtype_name(c.dtype), rt_op_name(c.op), c.n, c.root, i);
        }
    }
    for (size_t i = 0; rc == 0 && i < GUARD; i++) {
        if (b.out[n_out * size + i] != 0xa5) {
            rc = co_err_set(
                err, CO_INTERNAL, "%s n %zu wrote behind its end", rt_kind_name(c.kind), c.n);
        }
    }
    buffers_done(g, &b, shared);
    return rc;
}

static const enum rt_kind checked[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_BARRIER};

static const size_t sizes[] = {0, 1, 7, 64, 1000, 2049, 30011, 140001};

static bool average_of_integers(const struct rt_coll *c) {
    return c->op == RT_AVG && (c->dtype == RT_I64 || c->dtype == RT_I32 || c->dtype == RT_U8);
}

/* All kinds, types and operations with sizes in turn; and again in random order. */
static int all_calls(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    size_t counts[WORLD_MAX];
    uint32_t step = 0;
    for (size_t k = 0; k < CO_ARRAY_LEN(checked); k++) {
        for (uint32_t t = 0; t < RT_DTYPES; t++) {
            for (uint32_t o = 0; o < RT_OPS; o++) {
                uint32_t h = mix(w->seed, ++step, 7);
                struct rt_coll c = {.kind = checked[k], .dtype = t, .op = o};
                c.n = sizes[h % CO_ARRAY_LEN(sizes)] / (h >> 8 & 3 ? 1 : w->n);
                c.root = (h >> 12) % w->n;
                for (uint32_t r = 0; r < w->n; r++) {
                    counts[r] = mix(h, r, 1) % 3 ? mix(h, r, 2) % 9000 : 0;
                }
                c.counts = c.kind == RT_ALL_GATHERV ? counts : NULL;
                /* Some ranks in their own memory, some not. */
                bool shared = (h >> 16 & 1) && (!(h >> 17 & 1) || mix(h, rank, 3) & 1);
                int rc = average_of_integers(&c) ? 0 : one_call(w, g, c, shared, h >> 20 & 1, err);
                if (rc < 0) {
                    return rc;
                }
            }
        }
    }
    return 0;
}

static int all_sizes(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    int rc = 0;
    for (size_t s = 0; s < CO_ARRAY_LEN(sizes) && rc == 0; s++) {
        for (uint32_t k = 0; k < CO_ARRAY_LEN(checked) && rc == 0; k++) {
            size_t counts[WORLD_MAX];
            for (uint32_t r = 0; r < w->n; r++) {
                counts[r] = sizes[s] / (r + 1);
            }
            struct rt_coll c = {.kind = checked[k],
                .dtype = RT_F32,
                .n = sizes[s],
                .root = w->n - 1,
                .counts = checked[k] == RT_ALL_GATHERV ? counts : NULL};
            rc = one_call(w, g, c, s & 1, s & 2, err);
        }
    }
    struct rt_coll big = {.kind = RT_ALL_REDUCE, .dtype = RT_F32, .n = MOST};
    rc = rc < 0 ? rc : one_call(w, g, big, false, false, err);
    return rc < 0 ? rc : one_call(w, g, big, true, true, err);
}

/* Element i of what `from` has for `to`. */
static int32_t element(uint32_t from, uint32_t to, size_t i) {
    return (int32_t)(mix(from, to, (uint32_t)i) & 0xffffff);
}

/* Different numbers for everybody, some none. */
static size_t pair_count(uint32_t from, uint32_t to) {
    return (from + to) % 3 ? (size_t)from * 30000 + to * 7 + 1 : 0;
}

static int all_to_allv(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    size_t go[WORLD_MAX], come[WORLD_MAX], n_in = 0, n_out = 0;
    for (uint32_t r = 0; r < w->n; r++) {
        n_in += go[r] = pair_count(rank, r);
        n_out += come[r] = pair_count(r, rank);
    }
    CO_AUTOFREE int32_t *in = co_xcalloc(n_in + 1, 4), *out = co_xcalloc(n_out + 1, 4);
    int32_t *p = in;
    for (uint32_t r = 0; r < w->n; r++) {
        for (size_t i = 0; i < go[r]; i++) {
            *p++ = element(rank, r, i);
        }
    }
    struct rt_coll c = {.kind = RT_ALL_TO_ALLV,
        .dtype = RT_I32,
        .in = in,
        .out = out,
        .counts = go,
        .out_counts = come};
    int rc = rt_coll_run(g, &c, err);
    p = out;
    for (uint32_t r = 0; r < w->n && rc == 0; r++) {
        for (size_t i = 0; i < come[r] && rc == 0; i++) {
            if (*p++ != element(r, rank, i)) {
                rc = co_err_set(err, CO_INTERNAL, "all_to_allv: element %zu from %u", i, r);
            }
        }
    }
    return rc;
}

/* Each rank to the next, the even ones first. */
static int peers(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { COUNT = 100003 };
    uint32_t next = (rank + 1) % w->n, last = (rank + w->n - 1) % w->n;
    CO_AUTOFREE int32_t *in = co_xcalloc(COUNT, 4), *out = co_xcalloc(COUNT, 4);
    for (size_t i = 0; i < COUNT; i++) {
        in[i] = element(rank, next, i);
    }
    int rc = 0;
    for (uint32_t turn = 0; turn < 2 && rc == 0 && w->n > 1; turn++) {
        bool sends = rank % 2 == turn;
        rc = sends ? rt_send(g, in, COUNT, RT_I32, next, err)
                   : rt_recv(g, out, COUNT, RT_I32, last, err);
    }
    for (size_t i = 0; i < COUNT && rc == 0 && w->n > 1; i++) {
        if (out[i] != element(last, rank, i)) {
            rc = co_err_set(err, CO_INTERNAL, "recv: element %zu", i);
        }
    }
    return rc;
}

static int everything(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    int rc = all_sizes(w, g, rank, err);
    rc = rc < 0 ? rc : all_to_allv(w, g, rank, err);
    rc = rc < 0 ? rc : peers(w, g, rank, err);
    return rc < 0 ? rc : all_calls(w, g, rank, err);
}

static uint32_t seed_now(void) {
    const char *s = getenv("COLL_SEED");
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return s ? (uint32_t)strtoul(s, NULL, 10) : (uint32_t)t.tv_nsec;
}

static void calls_in_shared_memory(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        struct world w = {.n = n, .transport = RT_TRANSPORT_SHM, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

static void calls_over_tcp(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        struct world w = {.n = n, .transport = RT_TRANSPORT_TCP, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

static void calls_over_machines(void **state) {
    (void)state;
    for (uint32_t n = 3; n <= 6; n++) {
        struct world w = {.n = n, .nodes = n == 6 ? 3 : 2, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

/* ---- kernels ---- */

enum { VALUES = 1003 };

/* Of any bits, NaN and infinity among them. */
static void random_values(enum rt_dtype t, void *p, uint32_t seed) {
    size_t size = rt_dtype_size(t), bytes = VALUES * size;
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)p)[i] = (uint8_t)mix(seed, (uint32_t)i, t);
    }
}

/* NaN have many bit patterns, and which one comes out is not said. */
static bool same(enum rt_dtype t, const void *a, const void *b) {
    if (t == RT_F32) {
        return memcmp(a, b, 4) == 0 || (isnan(*(const float *)a) && isnan(*(const float *)b));
    }
    if (t == RT_F64) {
        return memcmp(a, b, 8) == 0 || (isnan(*(const double *)a) && isnan(*(const double *)b));
    }
    if (t == RT_F16 || t == RT_BF16) {
        float x, y;
        plain_kernels()->widen[t](&x, a, 1);
        plain_kernels()->widen[t](&y, b, 1);
        return memcmp(a, b, 2) == 0 || (isnan(x) && isnan(y));
    }
    return memcmp(a, b, rt_dtype_size(t)) == 0;
}

static void fast_kernels_give_the_bits_of_the_plain_ones(void **state) {
    (void)state;
    _Alignas(64) static uint8_t a[VALUES * 8], b[VALUES * 8], c[VALUES * 8], fast[VALUES * 8],
        slow[VALUES * 8];
    const struct rt_kernels *k;
    for (uint32_t i = 0; (k = rt_kernels_get(i)) && k != plain_kernels(); i++) {
        for (uint32_t t = 0; t < RT_DTYPES; t++) {
            for (uint32_t o = 0; o < RT_OPS; o++) {
                const void *in[3] = {a, b, c};
                random_values(t, a, 1);
                random_values(t, b, 2);
                random_values(t, c, 3);
                struct rt_coll call = {.dtype = t, .op = o};
                for (uint32_t n_in = 1; n_in <= 3 && !average_of_integers(&call); n_in++) {
                    rt_reduce_n(k, t, o, 1.0 / n_in, fast, in, n_in, VALUES);
                    rt_reduce_n(plain_kernels(), t, o, 1.0 / n_in, slow, in, n_in, VALUES);
                    for (size_t v = 0; v < VALUES; v++) {
                        size_t at = v * rt_dtype_size(t);
                        if (!same(t, fast + at, slow + at)) {
                            fail_msg("%s %s %s of %u inputs: value %zu differs", k->name,
                                rt_dtype_name(t), rt_op_name(o), n_in, v);
                        }
                    }
                }
            }
        }
    }
}

/* Every half there is, widened and narrowed again; and what lies between two of them. */
static void halves_are_rounded_to_nearest(void **state) {
    (void)state;
    const struct rt_kernels *k = plain_kernels();
    for (uint32_t h = 0; h < 0x7c00; h++) {
        uint16_t in[2] = {(uint16_t)h, (uint16_t)(h + 1)}, back;
        float f[2], middle;
        k->widen[RT_F16](f, in, 2);
        k->narrow[RT_F16](&back, f, 1);
        assert_int_equal(back, h);
        middle = (f[0] + f[1]) / 2; /* a tie: to the even one */
        k->narrow[RT_F16](&back, &middle, 1);
        assert_int_equal(back, h + 1 == 0x7c00 ? back : h + (h & 1));
        uint32_t tie = h << 16 | 0x8000;
        memcpy(&middle, &tie, sizeof(middle));
        k->narrow[RT_BF16](&back, &middle, 1);
        assert_int_equal(back, h + (h & 1));
    }
}

static void the_table_of_costs_names_all_that_is_reduced(void **state) {
    (void)state;
    char text[8192], cut[20];
    int n = rt_coll_costs(text, sizeof(text));
    assert_in_range(n, 500, sizeof(text) - 1);
    assert_non_null(strstr(text, "\nall_reduce      tcp        32768  ring"));
    assert_int_equal(rt_coll_costs(cut, sizeof(cut)), n);
    assert_int_equal(strlen(cut), sizeof(cut) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_kernels_give_the_bits_of_the_plain_ones),
        cmocka_unit_test(halves_are_rounded_to_nearest),
        cmocka_unit_test(the_table_of_costs_names_all_that_is_reduced),
        cmocka_unit_test(calls_in_shared_memory),
        cmocka_unit_test(calls_over_tcp),
        cmocka_unit_test(calls_over_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
