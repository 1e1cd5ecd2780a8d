/* Tests every kind of call, type and operation in many sizes against a serial reference, on all
 * transports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/reference_testing.h"

enum { MOST = 700000 };

static const enum rt_kind checked[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_BARRIER};

static const size_t sizes[] = {0, 1, 7, 64, 1000, 2049, 30011, 140001};

static bool reduces(enum rt_kind k) {
    return k == RT_ALL_REDUCE || k == RT_REDUCE || k == RT_REDUCE_SCATTER;
}

/* All kinds and types, and operations where there are any, with drawn sizes, roots and places. */
static int all_calls(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    size_t counts[WORLD_MAX] = {0};
    uint32_t step = 0;
    for (size_t k = 0; k < CO_ARRAY_LEN(checked); k++) {
        for (uint32_t t = 0; t < RT_DTYPES; t++) {
            for (uint32_t o = 0; o < (reduces(checked[k]) ? RT_OPS : 1U); o++) {
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
                enum layout layout = (h >> 20) % LAYOUTS;
                if (!average_of_integers(&c)) {
                    CO_TRY(one_call(w, g, c, shared, layout, err));
                }
            }
        }
    }
    return 0;
}

static int all_sizes(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    for (size_t s = 0; s < CO_ARRAY_LEN(sizes); s++) {
        for (uint32_t k = 0; k < LAYOUTS * CO_ARRAY_LEN(checked); k++) {
            enum rt_kind kind = checked[k / LAYOUTS];
            size_t counts[WORLD_MAX] = {0};
            for (uint32_t r = 0; r < w->n; r++) { /* a part may be larger than those before it */
                counts[r] = sizes[s] / (s & 2 ? r + 1 : w->n - r);
            }
            struct rt_coll c = {.kind = kind,
                .dtype = RT_F32,
                .n = sizes[s],
                .root = w->n - 1,
                .counts = kind == RT_ALL_GATHERV ? counts : NULL};
            CO_TRY(one_call(w, g, c, s & 1, k % LAYOUTS, err));
        }
    }
    struct rt_coll big = {.kind = RT_ALL_REDUCE, .dtype = RT_F32, .n = MOST};
    CO_TRY(one_call(w, g, big, false, APART, err));
    return one_call(w, g, big, true, SAME, err);
}

/* What cannot be in place is refused, and the group continues. */
static int not_in_place(struct coll_world *w, struct rt_group *g, struct co_err *err) {
    int32_t v[WORLD_MAX] = {0};
    size_t counts[WORLD_MAX];
    for (uint32_t r = 0; r < w->n; r++) {
        counts[r] = 1;
    }
    for (enum rt_kind k = RT_ALL_TO_ALL; k <= RT_ALL_TO_ALLV; k++) {
        struct rt_coll c = {.kind = k,
            .dtype = RT_I32,
            .in = v,
            .out = v,
            .n = 1,
            .counts = counts,
            .out_counts = counts};
        struct co_err why = {0};
        int rc = rt_coll_run(g, &c, &why);
        if (rc != CO_INVALID || !strstr(co_err_text(&why), "not in place")) {
            return co_err_set(err, CO_INTERNAL, "%s in place: %d", rt_kind_name(k), rc);
        }
    }
    return 0;
}

/* Element i of what `from` has for `to`. */
static int32_t element(uint32_t from, uint32_t to, size_t i) {
    return (int32_t)(mix(from, to, (uint32_t)i) & 0xffffff);
}

/* Different numbers for everybody, some none. */
static size_t pair_count(uint32_t from, uint32_t to) {
    return (from + to) % 3 ? (size_t)from * 30000 + to * 7 + 1 : 0;
}

static int all_to_allv(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
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
static int peers(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { COUNT = 100003 };
    uint32_t next = (rank + 1) % w->n, last = (rank + w->n - 1) % w->n;
    CO_AUTOFREE int32_t *in = co_xcalloc(COUNT, 4), *out = co_xcalloc(COUNT, 4);
    for (size_t i = 0; i < COUNT; i++) {
        in[i] = element(rank, next, i);
    }
    for (uint32_t turn = 0; turn < 2 && w->n > 1; turn++) {
        bool sends = rank % 2 == turn;
        CO_TRY(sends ? rt_send(g, in, COUNT, RT_I32, next, err)
                     : rt_recv(g, out, COUNT, RT_I32, last, err));
    }
    for (size_t i = 0; i < COUNT && w->n > 1; i++) {
        if (out[i] != element(last, rank, i)) {
            return co_err_set(err, CO_INTERNAL, "recv: element %zu", i);
        }
    }
    return 0;
}

static int everything(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_TRY(all_sizes(w, g, rank, err));
    CO_TRY(not_in_place(w, g, err));
    CO_TRY(all_to_allv(w, g, rank, err));
    CO_TRY(peers(w, g, rank, err));
    return all_calls(w, g, rank, err);
}

/* Every type and operation, of none, one, an odd number, and more than goes in one chunk. */
static int all_operations(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const enum rt_kind kinds[] = {RT_ALL_REDUCE, RT_REDUCE, RT_REDUCE_SCATTER};
    (void)rank;
    int rc = 0;
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        for (uint32_t i = 0; i < RT_DTYPES * RT_OPS * 4 && rc == 0; i++) {
            struct rt_coll c = {
                .kind = kinds[k], .dtype = i % RT_DTYPES, .op = i / RT_DTYPES % RT_OPS};
            size_t chunk = (size_t)w->n * (256 << 10) / rt_dtype_size(c.dtype);
            size_t counts[] = {0, 1, 1001, chunk / (c.kind == RT_REDUCE_SCATTER ? w->n : 1) + 13};
            c.n = counts[i / (RT_DTYPES * RT_OPS)];
            rc = average_of_integers(&c) ? 0 : one_call(w, g, c, false, APART, err);
        }
    }
    return rc;
}

static void all_operations_on_all_types(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2 + (world_places[p].nodes > 0),
            .seed = seed_now(),
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, all_operations), 0);
    }
}

/* ---- more bytes than 32 bits count: memory of gigabytes, so only `make nightly` asks for it ----
 */

/* shared: in the group's own buffers. */
static const struct {
    enum rt_kind kind;
    enum rt_dtype dtype;
    bool shared;
} huge_calls[] = {
    {RT_ALL_REDUCE, RT_U8, false},
    {RT_ALL_REDUCE, RT_F32, false},
    {RT_ALL_REDUCE, RT_F32, true},
    {RT_REDUCE, RT_F32, false},
    {RT_BROADCAST, RT_U8, false},
    {RT_ALL_GATHER, RT_U8, false},
    {RT_REDUCE_SCATTER, RT_F32, false},
    {RT_SEND, RT_U8, false},
};

/* Every so manieth element has a value, the others are 0: a prime. */
enum { HUGE_STEP = 61 };

/* Element i of a rank: sums of six are exact in every type. */
static uint32_t huge_value(size_t i, uint32_t rank) {
    return (uint32_t)(i >> 20 ^ i * 7) % 40 + rank;
}

static void huge_put(enum rt_dtype t, void *values, size_t i, uint32_t v) {
    if (t == RT_U8) {
        ((unsigned char *)values)[i] = (unsigned char)v;
    } else {
        ((float *)values)[i] = (float)v;
    }
}

static uint32_t huge_get(enum rt_dtype t, const void *values, size_t i) {
    return t == RT_U8 ? ((const unsigned char *)values)[i] : (uint32_t)((const float *)values)[i];
}

/* What element i of n must be on this rank, where its part begins at `at`. */
static uint32_t huge_want(enum rt_kind kind, uint32_t ranks, size_t i, size_t at, size_t n) {
    switch (kind) {
    case RT_ALL_REDUCE:
    case RT_REDUCE:
    case RT_REDUCE_SCATTER:
        return ranks * huge_value(at + i, 0) + ranks * (ranks - 1) / 2;
    case RT_ALL_GATHER:
        return huge_value(i, (uint32_t)(i / n));
    default: /* rank 0's */
        return huge_value(i, 0);
    }
}

static int huge_call(
    struct rt_group *g, enum rt_kind kind, enum rt_dtype t, bool shared, struct co_err *err) {
    uint32_t rank = rt_group_rank(g), ranks = rt_group_size(g);
    bool parts = kind == RT_ALL_GATHER || kind == RT_REDUCE_SCATTER;
    size_t all = ((((size_t)1 << 31) / rt_dtype_size(t) + 4097) / ranks + 1) * ranks;
    size_t n = parts ? all / ranks : all, at = rank * n, bytes = all * rt_dtype_size(t);
    void *v = NULL;
    CO_AUTOFREE void *mine = shared ? NULL : co_xcalloc(bytes, 1);
    if (shared) {
        CO_TRY(rt_group_alloc(g, bytes, &v, err)); /* closing g frees it after a failure */
    } else {
        v = mine;
    }
    for (size_t i = 0; i < all; i += HUGE_STEP) {
        huge_put(t, v, i, huge_value(i, rank));
    }
    CO_AUTOFREE void *own = kind == RT_REDUCE_SCATTER ? co_xcalloc(n, rt_dtype_size(t)) : NULL;
    void *out = own ? own : v;
    struct rt_coll c = {.kind = kind, .dtype = t, .in = v, .out = out, .n = n};
    c.in = kind == RT_ALL_GATHER ? (unsigned char *)v + at * rt_dtype_size(t) : v;
    if (kind == RT_SEND && rank != 0) {
        c.kind = RT_RECV;
    } else if (kind == RT_SEND) {
        c.root = 1;
    }
    if (kind != RT_SEND || rank <= 1) {
        CO_TRY(rt_coll_run(g, &c, err));
    }
    bool gets = kind == RT_REDUCE ? rank == 0 : kind != RT_SEND || rank < 2;
    size_t from = kind == RT_REDUCE_SCATTER ? at : 0, len = kind == RT_ALL_GATHER ? all : n;
    size_t first = (HUGE_STEP - from % HUGE_STEP) % HUGE_STEP; /* which has a value */
    for (size_t i = first; gets && i < len; i += HUGE_STEP) {
        if (huge_get(t, out, i) != huge_want(kind, ranks, i, from, n)) {
            return co_err_set(err, CO_INTERNAL, "%s of %s: element %zu is %u", rt_kind_name(kind),
                rt_dtype_name(t), i, huge_get(t, out, i));
        }
    }
    if (shared) {
        rt_group_free(g, v);
    }
    return 0;
}

static int huge(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    (void)rank;
    for (size_t i = 0; i < CO_ARRAY_LEN(huge_calls); i++) {
        CO_TRY(huge_call(g, huge_calls[i].kind, huge_calls[i].dtype, huge_calls[i].shared, err));
        CO_TRY(rt_group_barrier(g, err));
    }
    return 0;
}

static void more_than_two_gigabytes(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2 + (world_places[p].nodes > 0),
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = 180000,
            .most_ms = 10 * WORLD_MS};
        assert_int_equal(world_run(&w, huge), 0);
    }
}

static void calls_in_shared_memory(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        struct coll_world w = {.n = n, .transport = RT_TRANSPORT_SHM, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

static void calls_over_tcp(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        struct coll_world w = {.n = n, .transport = RT_TRANSPORT_TCP, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

static void calls_over_machines(void **state) {
    (void)state;
    for (uint32_t n = 3; n <= 6; n++) {
        struct coll_world w = {.n = n, .nodes = n == 6 ? 3 : 2, .seed = seed_now()};
        assert_int_equal(world_run(&w, everything), 0);
    }
}

/* ---- buffers that overlap ---- */

/* The lengths of in and out in elements, for n = 4, three ranks and counts 2, 4, 3: on the root,
 * which is rank 1, and elsewhere; and where a rank's own part may be. */
static const struct {
    enum rt_kind kind;
    size_t in[3], out[3];
    bool in_place, own_part;
    size_t own[3];
} extents[] = {
    {RT_ALL_REDUCE, {4, 4, 4}, {4, 4, 4}, .in_place = true},
    {RT_REDUCE, {4, 4, 4}, {0, 4, 0}, .in_place = true},
    {RT_ALL_GATHER, {4, 4, 4}, {12, 12, 12}, .in_place = true, true, {0, 4, 8}},
    {RT_ALL_GATHERV, {2, 4, 3}, {9, 9, 9}, .in_place = true, true, {0, 2, 6}},
    {RT_REDUCE_SCATTER, {12, 12, 12}, {4, 4, 4}, .in_place = true},
    {RT_SCATTER, {0, 12, 0}, {4, 4, 4}, .in_place = true},
    {RT_GATHER, {4, 4, 4}, {0, 12, 0}, .in_place = true, true, {0, 4, 8}},
    {RT_ALL_TO_ALL, {12, 12, 12}, {12, 12, 12}},
    {RT_ALL_TO_ALLV, {9, 9, 9}, {9, 9, 9}},
};

/* `in` at every place around `out`: it is refused where it covers a part of `out`, but for the
 * places where it may be. */
static void buffers_that_overlap_are_refused(void **state) {
    enum { REACH = 13, N = 4 };
    static const size_t counts[] = {2, 4, 3};
    static int64_t memory[3 * REACH];
    (void)state;
    for (size_t k = 0; k < CO_ARRAY_LEN(extents) * 3; k++) {
        uint32_t rank = (uint32_t)k % 3;
        struct rt_group g = {.size = 3, .rank = rank};
        size_t n_in = extents[k / 3].in[rank], n_out = extents[k / 3].out[rank];
        for (size_t at = 0; at <= 2 * (size_t)REACH; at++) {
            struct rt_coll c = {.kind = extents[k / 3].kind,
                .dtype = RT_I64,
                .root = 1,
                .n = N,
                .in = memory + at,
                .out = memory + REACH,
                .counts = counts,
                .out_counts = counts};
            bool overlap = false, may = at == REACH && extents[k / 3].in_place;
            may |= extents[k / 3].own_part && at == REACH + extents[k / 3].own[rank];
            for (size_t i = 0; i < n_in; i++) {
                overlap |= at + i >= REACH && at + i < REACH + n_out;
            }
            struct co_err err = {0};
            int rc = coll_call_check(&g, &c, &err);
            if (rc != (overlap && !may ? CO_INVALID : 0)) {
                fail_msg("%s, rank %u, in at %zu, out at %d: code %d: %s", rt_kind_name(c.kind),
                    rank, at, REACH, rc, co_err_text(&err));
            }
        }
    }
}

static void an_overlap_is_reported_in_one_line(void **state) {
    (void)state;
    static float a[1000];
    struct rt_group g = {.size = 2};
    struct rt_coll c = {.kind = RT_ALL_REDUCE, .in = a, .out = a + 1, .n = 999};
    struct co_err err = {0};
    assert_int_equal(coll_call_check(&g, &c, &err), CO_INVALID);
    assert_string_equal(co_err_text(&err),
        "all_reduce: in (3996 bytes) begins 4 bytes before out (3996 bytes) and overlaps it, "
        "expected the same place, or buffers apart");
}

/* What would end the process, or the other ranks' call, later. */
static void buffers_that_cannot_be_are_refused(void **state) {
    static const size_t few[] = {2, 4, 3}, none[] = {0, 0, 0};
    static const size_t many[] = {SIZE_MAX / 4, SIZE_MAX / 2, SIZE_MAX / 2};
    static char memory[256] __attribute__((aligned(8)));
    static const struct {
        struct rt_coll call;
        const char *says; /* NULL: it is taken */
    } rows[] = {
        {{.kind = RT_ALL_REDUCE, .n = 4, .out = memory}, "all_reduce: in is NULL, expected 4 f32"},
        {{.kind = RT_ALL_REDUCE, .n = 4, .in = memory}, "all_reduce: out is NULL, expected 4 f32"},
        {{.kind = RT_ALL_REDUCE}, NULL},
        {{.kind = RT_REDUCE, .n = 4, .in = memory}, NULL},
        {{.kind = RT_REDUCE, .n = 4, .in = memory, .root = 1}, "reduce: out is NULL"},
        {{.kind = RT_BROADCAST, .n = 4, .in = memory}, "broadcast: out is NULL"},
        {{.kind = RT_SEND, .n = 4, .out = memory}, "send: in is NULL"},
        {{.kind = RT_SEND, .n = 4, .in = memory}, NULL},
        {{.kind = RT_RECV, .n = 4, .in = memory}, "recv: out is NULL"},
        {{.kind = RT_SCATTER, .n = 4, .out = memory}, NULL},
        {{.kind = RT_SCATTER, .n = 4, .out = memory, .root = 1},
            "scatter: in is NULL, expected 12 f32"},
        {{.kind = RT_BARRIER}, NULL},
        {{.kind = RT_ALL_GATHERV, .counts = none}, NULL},
        {{.kind = RT_ALL_GATHERV, .counts = few, .in = memory},
            "all_gatherv: out is NULL, expected 9 f32"},
        {{.kind = RT_ALL_GATHERV, .counts = many, .in = memory, .out = memory},
            "all_gatherv: in of 9223372036854775807 elements is too large"},
        {{.kind = RT_ALL_TO_ALLV,
             .counts = few,
             .out_counts = many,
             .in = memory,
             .out = memory + 128},
            "all_to_allv: out of 18446744073709551615 elements is too large"},
        {{.kind = RT_ALL_REDUCE, .n = 4, .in = memory + 2, .out = memory + 64},
            "aligned to 4 bytes for f32"},
        {{.kind = RT_ALL_REDUCE, .n = 4, .dtype = RT_F64, .in = memory, .out = memory + 68},
            "all_reduce: out is at"},
        {{.kind = RT_ALL_REDUCE, .n = 4, .dtype = RT_U8, .in = memory + 1, .out = memory + 67},
            NULL},
    };
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_group g = {.size = 3, .rank = 1};
        struct rt_coll c = rows[i].call;
        struct co_err err = {0};
        c.root = c.kind == RT_SEND || c.kind == RT_RECV ? 0 : c.root;
        int rc = coll_call_check(&g, &c, &err);
        if (rc != (rows[i].says ? CO_INVALID : 0) ||
            (rows[i].says && !strstr(co_err_text(&err), rows[i].says))) {
            fail_msg("row %zu: code %d: %s", i, rc, co_err_text(&err));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_that_cannot_be_are_refused),
        cmocka_unit_test(buffers_that_overlap_are_refused),
        cmocka_unit_test(an_overlap_is_reported_in_one_line),
        cmocka_unit_test(all_operations_on_all_types),
        cmocka_unit_test(calls_in_shared_memory),
        cmocka_unit_test(calls_over_tcp),
        cmocka_unit_test(calls_over_machines),
    };
    const struct CMUnitTest huge_ones[] = {
        cmocka_unit_test(more_than_two_gigabytes),
    };
    return getenv("COLL_HUGE") ? cmocka_run_group_tests(huge_ones, NULL, NULL)
                               : cmocka_run_group_tests(tests, NULL, NULL);
}
