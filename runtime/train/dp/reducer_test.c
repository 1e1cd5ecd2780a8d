/* Averages of gradients over real processes against a serial sum. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/dp/dp.h"
#include "runtime/train/dp/dp_testing.h"

enum { N = 7, STEPS = 3 };

static const size_t floats[N] = {3000, 1, 64, 17, 5000, 33, 200};

/* One row a way to reduce. */
struct way {
    const char *what;
    uint32_t ranks;
    enum rt_transport transport;
    uint32_t nodes;
    struct rt_reducer_options options;
    bool own;         /* half of the gradients are in the caller's memory */
    double tolerance; /* of a value, which is at most merge_steps */
};

/* f32: ranks sum in an order of their own. f16 has 11 bits, bf16 8; twice: there and back. */
static const struct way ways[] = {
    {"alone", 1, 0, 0, {0}, true, 0},
    {"memory", 2, 0, 0, {0}, false, 1e-6},
    {"small buckets", 3, 0, 0, {.bucket_bytes = 4000, .last_bucket_bytes = 100}, true, 1e-6},
    {"tcp", 3, RT_TRANSPORT_TCP, 0, {.bucket_bytes = 8000, .last_bucket_bytes = 900}, true, 1e-6},
    {"machines", 4, 0, 2, {.bucket_bytes = 4000}, false, 1e-6},
    {"merged", 2, 0, 0, {.bucket_bytes = 4000, .merge_steps = 3}, true, 1e-6},
    {"merged sums", 3, 0, 0, {.bucket_bytes = 9000, .merge_steps = 2, .merge_sum = true}, false,
        4e-6},
    {"f16", 3, 0, 0, {.bucket_bytes = 4000, .wire = RT_F16}, true, 1e-3},
    {"bf16", 2, 0, 0, {.bucket_bytes = 4000, .wire = RT_BF16}, false, 8e-3},
    {"bf16, tcp, merged", 3, RT_TRANSPORT_TCP, 0, {.wire = RT_BF16, .merge_steps = 2}, true, 2e-2},
};
static const struct way *way;

static float memory[N][5000];

static int open_reducer(struct rt_group *g, struct rt_reducer **ret, struct co_err *err) {
    struct rt_gradient list[N];
    for (size_t i = 0; i < N; i++) {
        list[i] = (struct rt_gradient){
            .name = "x", .n = floats[i], .memory = way->own && i % 2 ? memory[i] : NULL};
    }
    return rt_reducer_open(g, list, N, &way->options, ret, err);
}

/* The last gradient of every step but the first is not there on rank 1. */
static bool made(uint32_t rank, uint32_t step, size_t i) {
    return !(rank == 1 && step > 0 && i == N - 1);
}

/* In another order on each rank.  One gradient of three is elsewhere in each step, one is handed
 * over where it is. */
static int make_all(struct rt_reducer *r, uint32_t rank, uint32_t step, struct co_err *err) {
    static const uint32_t strides[] = {1, 3, 5, 2};
    for (uint32_t k = 0; k < N; k++) {
        size_t i = (k * strides[rank] + rank + step) % N;
        CO_AUTOFREE float *elsewhere =
            k % 3 == 0 ? co_xcalloc(floats[i], sizeof(*elsewhere)) : NULL;
        float *values = elsewhere ? elsewhere : rt_reducer_values(r, i);
        for (size_t at = 0; at < floats[i]; at++) {
            values[at] = tk_value(rank, step, i, at);
        }
        if (made(rank, step, i)) {
            CO_TRY(k % 3 == 2 ? rt_reducer_ready(r, i, err)
                              : rt_reducer_put(r, &i, (const float *const[]){elsewhere}, 1, err));
        }
    }
    return 0;
}

/* What get copies is what is in the values. */
static int compare_copies(const struct rt_reducer *r, struct co_err *err) {
    static float copies[N][5000];
    size_t which[N];
    float *to[N];
    for (size_t i = 0; i < N; i++) {
        which[i] = N - 1 - i;
        to[i] = copies[N - 1 - i];
    }
    CO_TRY(rt_reducer_get(r, which, to, N, err));
    for (size_t i = 0; i < N; i++) {
        if (memcmp(copies[i], rt_reducer_values(r, i), floats[i] * sizeof(float)) != 0) {
            return co_err_set(err, CO_INTERNAL, "%s: gradient %zu is another one", way->what, i);
        }
    }
    return 0;
}

/* Of the steps `step` - k + 1 .. step over all ranks. */
static double wanted(uint32_t ranks, uint32_t step, size_t i, size_t at) {
    uint32_t k = way->options.merge_steps ? way->options.merge_steps : 1;
    double sum = 0;
    for (uint32_t s = step + 1 - k; s <= step; s++) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            sum += made(rank, s, i) ? (double)tk_value(rank, s, i, at) : 0;
        }
    }
    return sum / ranks / (way->options.merge_sum ? 1 : k);
}

static int compare(struct rt_group *g, struct rt_reducer *r, uint32_t step, struct co_err *err) {
    for (size_t i = 0; i < N; i++) {
        const float *got = rt_reducer_values(r, i);
        for (size_t at = 0; at < floats[i]; at++) {
            double want = wanted(rt_group_size(g), step, i, at);
            if (!(fabs((double)got[at] - want) <= way->tolerance)) {
                return co_err_set(err, CO_INTERNAL, "%s: step %u, gradient %zu, at %zu: %g, not %g",
                    way->what, step, i, at, (double)got[at], want);
            }
        }
        int rc = tk_same(g, got, floats[i], err);
        if (rc < 0) {
            return co_err_wrap(err, "%s: gradient %zu", way->what, i);
        }
    }
    return 0;
}

static int averages(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(open_reducer(g, &r, err));
    uint32_t k = way->options.merge_steps ? way->options.merge_steps : 1;
    for (uint32_t step = 0; step < STEPS * k; step++) {
        bool due = false;
        CO_TRY(make_all(r, rank, step, err));
        CO_TRY(rt_reducer_wait(r, &due, err));
        if (due != ((step + 1) % k == 0)) {
            return co_err_set(err, CO_INTERNAL, "step %u: due %d", step, due);
        }
        CO_TRY(due ? compare(g, r, step, err) : 0);
        CO_TRY(due ? compare_copies(r, err) : 0);
    }
    return 0;
}

static void averages_are_those_of_a_serial_sum(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        struct coll_world w = {.n = way->ranks, .transport = way->transport, .nodes = way->nodes};
        assert_int_equal(world_run(&w, averages), 0);
    }
}

/* The same gradients twice: the same bits. */
static int repeats(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    static float before[N][5000];
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(open_reducer(g, &r, err));
    for (int turn = 0; turn < 3; turn++) {
        CO_TRY(make_all(r, rank, 0, err));
        CO_TRY(rt_reducer_wait(r, NULL, err));
        for (size_t i = 0; i < N; i++) {
            const float *got = rt_reducer_values(r, i);
            if (turn > 0 && memcmp(before[i], got, floats[i] * sizeof(float)) != 0) {
                return co_err_set(err, CO_INTERNAL, "%s: turn %d differs", way->what, turn);
            }
            memcpy(before[i], got, floats[i] * sizeof(float));
        }
    }
    return 0;
}

static void the_same_gradients_give_the_same_bits(void **state) {
    (void)state;
    for (size_t i = 1; i < 5; i++) {
        way = &ways[i];
        struct coll_world w = {.n = way->ranks, .transport = way->transport, .nodes = way->nodes};
        assert_int_equal(world_run(&w, repeats), 0);
    }
}

/* ---- what does not fit ---- */

static int differ(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    struct rt_gradient list[2] = {{.n = 10}, {.n = rank == 2 ? 11 : 10}};
    struct rt_reducer *r = NULL;
    int rc = rt_reducer_open(g, list, 2, NULL, &r, err);
    return rc == CO_INVALID && strstr(co_err_text(err), "rank 2 ")
               ? 0
               : co_err_set(err, CO_INTERNAL, "code %d", rc);
}

static void parameter_lists_that_differ_between_ranks_are_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, differ), 0);
}

/* ---- what all ranks must have alike ---- */

static const float sparsities[] = {0.5F, 0.75F};
static float parameter[DP_DGC_MIN];

/* A reducer to open, with all that its options point to. */
struct opened {
    struct rt_gradient list[3];
    struct rt_dgc dgc;
    struct rt_reducer_options options;
};

/* On rank 1, a field has another value. */
struct other {
    const char *said;
    size_t at, bytes;
    union {
        float f;
        bool b;
        uint32_t u;
        size_t z;
        const void *p;
    } value;
};
#define OTHER(field, of, member, given)                                                            \
    {                                                                                              \
        of, offsetof(struct opened, field), sizeof(((struct opened *)NULL)->field), {              \
            .member = (given)                                                                      \
        }                                                                                          \
    }
enum { REFUSED = 3 };
static const struct other others[] = {
    OTHER(list[1].name, "names of gradients", p, "fc.bias"),
    OTHER(list[1].n, "sizes of gradients", z, 11),
    OTHER(list[0].parameter, "parameters for rt_dgc.l2", p, NULL),
    OTHER(options.last_bucket_bytes, "last_bucket_bytes", z, 64),
    OTHER(options.wire, "rt_reducer_options.wire", u, RT_BF16),
    OTHER(options.merge_steps, "rt_reducer_options.merge_steps", u, 3),
    OTHER(options.merge_sum, "rt_reducer_options.merge_sum", b, true),
    OTHER(options.dgc, "rt_reducer_options.dgc", p, NULL),
    OTHER(options.error_feedback, "rt_reducer_options.error_feedback", b, true),
    OTHER(dgc.momentum, "rt_dgc.momentum", f, 0.25F),
    OTHER(dgc.nesterov, "rt_dgc.nesterov", b, true),
    OTHER(dgc.l2, "rt_dgc.l2", f, 0.125F),
    OTHER(dgc.clip_norm, "rt_dgc.clip_norm", f, 3),
    OTHER(dgc.rampup_begin_step, "rt_dgc.rampup_begin_step", z, 3),
    OTHER(dgc.rampup_step, "rt_dgc.rampup_step", z, 3),
    OTHER(dgc.sparsity, "rt_dgc.sparsity", p, sparsities + 1),
    OTHER(dgc.n_sparsity, "rt_dgc.n_sparsity", z, 2),
    /* REFUSED rows that rank 1 does not take itself. */
    OTHER(dgc.l2, "l2", f, NAN),
    OTHER(dgc.clip_norm, "clip_norm", f, -1),
    OTHER(list[1].n, "0 floats", z, 0),
};

static int differs(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        struct opened o = {.list = {{.name = "fc.weight", .n = DP_DGC_MIN, .parameter = parameter},
                               {.n = 10}, {.n = 20}},
            .dgc = {.momentum = 0.5F, .l2 = 0.25F, .sparsity = sparsities, .n_sparsity = 1},
            .options = {.merge_steps = 2, .dgc = &o.dgc}};
        struct rt_reducer *r = NULL;
        struct co_err why = {0};
        if (rank == 1) {
            memcpy((unsigned char *)&o + others[i].at, &others[i].value, others[i].bytes);
        }
        int rc = rt_reducer_open(g, o.list, 3, &o.options, &r, &why);
        bool alone = i >= CO_ARRAY_LEN(others) - REFUSED, own = alone && rank == 1;
        const char *said = alone && !own ? "could not open" : others[i].said;
        if (rc != CO_INVALID || !strstr(co_err_text(&why), said) ||
            (!own && !strstr(co_err_text(&why), "rank 1 "))) {
            return co_err_set(
                err, CO_INTERNAL, "%s: code %d: %.80s", others[i].said, rc, co_err_text(&why));
        }
    }
    return 0;
}

/* No rank waits for one that has failed by itself. */
static void a_rank_with_other_options_is_named(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, differs), 0);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_reducer *r = NULL;
    struct rt_gradient list[] = {{.name = "fc.weight", .n = 10}, {.n = 4}}, none = {.n = 0};
    struct rt_group_options alone = {.size = 1, .endpoints = (const char *const[]){""}};
    assert_int_equal(rt_group_open(NULL, &alone, &g, &err), 0);
    assert_int_equal(rt_reducer_open(g, &none, 1, NULL, &r, &err), CO_INVALID);
    struct rt_reducer_options o = {.wire = RT_I32};
    assert_int_equal(rt_reducer_open(g, list, 2, &o, &r, &err), CO_INVALID);
    const float all = 1;
    struct rt_dgc dgc = {.sparsity = &all, .n_sparsity = 1};
    o = (struct rt_reducer_options){.dgc = &dgc};
    assert_int_equal(rt_reducer_open(g, list, 2, &o, &r, &err), CO_INVALID);
    assert_int_equal(rt_reducer_open(g, list, 2, NULL, &r, &err), 0);
    assert_int_equal(rt_reducer_ready(r, 0, &err), 0);
    assert_int_equal(rt_reducer_ready(r, 0, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "fc.weight"));
    assert_int_equal(rt_reducer_ready(r, 2, &err), CO_INVALID);
    float one = 1, *to = &one;
    const float *from = &one;
    for (size_t i = 0; i <= 2; i += 2) { /* twice in a step; none */
        assert_int_equal(rt_reducer_put(r, &i, &from, 1, &err), CO_INVALID);
    }
    assert_true(rt_reducer_values(r, 0)[0] == 0); /* it may be on its way */
    assert_int_equal(rt_reducer_get(r, (size_t[]){2}, &to, 1, &err), CO_INVALID);
    assert_int_equal(rt_reducer_wait(r, NULL, &err), 0);
    rt_reducer_close(r);
    rt_group_close(g);
}

/* ---- NaN and infinity ---- */

static int finds(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const float bad[] = {0, NAN, INFINITY, -INFINITY, 70000 /* more than f16 has */};
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(open_reducer(g, &r, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        CO_TRY(make_all(r, rank, 0, err));
        CO_TRY(rt_reducer_wait(r, NULL, err));
        float own = rank == w->n - 1 ? bad[i] : 1;
        for (size_t k = 0; k < N; k++) {
            rt_reducer_values(r, k)[floats[k] - 1] = own;
        }
        CO_TRY(rt_reducer_run(r, NULL, err));
        bool all = true, want = i == 0 || i == 4,
             averaged = i == 0 || (i == 4 && way->options.wire != RT_F16);
        CO_TRY(rt_all_finite(g, &own, 1, &all, err));
        if (all != want || rt_reducer_finite(r) != averaged) {
            return co_err_set(err, CO_INTERNAL, "%s: %g: %d %d", way->what, (double)bad[i], all,
                rt_reducer_finite(r));
        }
    }
    return 0;
}

static void all_ranks_see_gradients_that_are_not_finite(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        struct coll_world w = {.n = way->ranks, .transport = way->transport, .nodes = way->nodes};
        if (!way->options.merge_steps) {
            assert_int_equal(world_run(&w, finds), 0);
        }
    }
}

/* ---- ranks that die ---- */

/* Of two ranks that are the furthest the lower one. */
static int newest(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    static const uint64_t steps[] = {4, 7, 3, 7};
    float a[100], b = (float)rank;
    struct rt_values list[] = {{a, 100}, {NULL, 0}, {&b, 1}};
    uint64_t step = steps[rank];
    for (size_t i = 0; i < 100; i++) {
        a[i] = (float)rank;
    }
    int rc = rt_broadcast_newest(g, &step, list, 3, err);
    return rc < 0 || (step == 7 && a[0] == 1 && a[99] == 1 && b == 1)
               ? rc
               : co_err_set(
                     err, CO_INTERNAL, "step %d: %g, %g", (int)step, (double)a[99], (double)b);
}

static void the_newest_values_win(void **state) {
    (void)state;
    struct coll_world w = {.n = 4};
    assert_int_equal(world_run(&w, newest), 0);
}

/* Parameters count the steps: the gradient of step s is s + 1 everywhere, so that a step that is
 * lost or made twice shows. */
enum { LAST_STEP = 60, KILL_FROM = 20, VICTIM = 1 };

struct training {
    struct rt_reducer *r;
    float w[N][5000];
    uint64_t step;
};

static int train_step(struct training *t, uint32_t rank, struct co_err *err) {
    for (size_t k = 0; k < N; k++) {
        size_t i = (k + rank) % N;
        float *values = rt_reducer_values(t->r, i);
        for (size_t at = 0; at < floats[i]; at++) {
            values[at] = (float)(t->step + 1);
        }
        int rc = rt_reducer_ready(t->r, i, err);
        if (rc < 0) {
            return rc;
        }
    }
    bool due = false;
    int rc = rt_reducer_wait(t->r, &due, err);
    for (size_t i = 0; i < N && rc == 0 && due; i++) {
        const float *values = rt_reducer_values(t->r, i);
        for (size_t at = 0; at < floats[i]; at++) {
            t->w[i][at] += values[at];
        }
    }
    t->step += rc == 0 && due;
    return rc;
}

static uint32_t in_flight(const struct rt_reducer *r) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        n += r->buckets[k].work != NULL;
    }
    return n;
}

static int rebuild_smaller(struct training *t, struct rt_group **g, struct co_err *err) {
    struct rt_group *less = NULL;
    struct rt_values list[N];
    for (size_t i = 0; i < N; i++) {
        list[i] = (struct rt_values){.values = t->w[i], .n = floats[i]};
    }
    int rc = rt_group_shrink(*g, NULL, &less, err);
    if (rc < 0) {
        return co_err_wrap(err, "shrink");
    }
    world_reuse();
    rc = rt_reducer_rebuild(t->r, less, err);
    rt_group_close(*g);
    *g = less;
    if (rc == 0) {
        rc = rt_broadcast_newest(less, &t->step, list, N, err);
    }
    return rc < 0 ? co_err_wrap(err, "rebuild") : 0;
}

static int check_training(const struct training *t, struct rt_group *g, struct co_err *err) {
    double want = (double)LAST_STEP * (LAST_STEP + 1) / 2;
    want *= way->options.merge_sum ? way->options.merge_steps : 1;
    for (size_t i = 0; i < N; i++) {
        for (size_t at = 0; at < floats[i]; at++) {
            if (fabs((double)t->w[i][at] - want) > 0.01) {
                return co_err_set(err, CO_INTERNAL, "gradient %zu, at %zu: %g, not %g", i, at,
                    (double)t->w[i][at], want);
            }
        }
        CO_TRY(tk_same(g, t->w[i], floats[i], err));
    }
    return 0;
}

/* What was merged stays where all ranks have merged as much of the same step. */
static int agrees(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_gradient one = {.n = 8};
    struct rt_reducer_options o = {.merge_steps = 3};
    struct rt_reducer *r = NULL;
    int rc = rt_reducer_open(g, &one, 1, &o, &r, err);
    for (uint32_t turn = 0; turn < 3 && rc == 0; turn++) {
        bool even = turn == 0;
        r->step = rank == 1 && turn == 1 ? 5 : 4;
        r->merged = rank == 1 && turn == 2 ? 1 : 2;
        r->buckets[0].sums[7] = 3;
        rc = rt_reducer_rebuild(r, g, err);
        if (rc == 0 && (r->step != (turn == 1 ? 5 : 4) || r->merged != (even ? 2 : 0) ||
                           r->buckets[0].sums[7] != (even ? 3.0F : 0.0F))) {
            rc = co_err_set(err, CO_INTERNAL, "turn %u of %u ranks: step %d, %u merged, %g", turn,
                w->n, (int)r->step, r->merged, (double)r->buckets[0].sums[7]);
        }
    }
    rt_reducer_close(r);
    return rc;
}

static void ranks_agree_on_the_step(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, agrees), 0);
}

/* A step that is only accumulated and begins again counts once; what was merged before it stays. */
static void a_step_that_begins_again_counts_once(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_reducer *r = NULL;
    float own[3] = {0};
    struct rt_gradient list[] = {{.n = 3, .memory = own}, {.n = 4}};
    struct rt_reducer_options o = {.merge_steps = 3, .merge_sum = true};
    struct rt_group_options alone = {.size = 1, .endpoints = (const char *const[]){""}};
    assert_int_equal(rt_group_open(NULL, &alone, &g, &err), 0);
    assert_int_equal(rt_reducer_open(g, list, 2, &o, &r, &err), 0);
    for (uint32_t turn = 0; turn < 4; turn++) {
        bool due = false;
        own[2] = rt_reducer_values(r, 1)[3] = turn == 1 ? 1000 : 1;
        if (turn == 1) {
            assert_int_equal(rt_reducer_ready(r, 0, &err), 0);
            assert_int_equal(rt_reducer_ready(r, 1, &err), 0);
            assert_int_equal(rt_reducer_rebuild(r, g, &err), 0);
        } else {
            assert_int_equal(rt_reducer_run(r, &due, &err), 0);
        }
        assert_int_equal(due, turn == 3);
    }
    assert_float_equal(own[2], 3, 0);
    assert_float_equal(rt_reducer_values(r, 1)[3], 3, 0);
    rt_reducer_close(r);
    rt_group_close(g);
}

static int survive(struct training *t, struct rt_group **own, uint32_t rank,
    const struct coll_world *w, struct co_err *err) {
    int lost = 0;
    CO_TRY(open_reducer(*own, &t->r, err));
    while (t->step < LAST_STEP) {
        if (t->step == KILL_FROM && rank == VICTIM) {
            for (size_t i = 0; i < w->seed % N; i++) {
                (void)!rt_reducer_ready(t->r, i, err);
            }
            (void)raise(SIGKILL);
        }
        int rc = train_step(t, rank, err);
        if (rc == CO_PEERLOST && lost++ == 0) {
            uint32_t n = in_flight(t->r);
            rc = n ? co_err_set(err, CO_INTERNAL, "%u buckets are in flight after a failure", n)
                   : rebuild_smaller(t, own, err);
        }
        CO_TRY(rc);
    }
    CO_TRY(check_training(t, *own, err));
    if (lost != 1 || rt_group_size(*own) != w->n - 1) {
        return co_err_set(err, CO_INTERNAL, "%d lost, %u left", lost, rt_group_size(*own));
    }
    return 0;
}

/* One rank kills itself, in the middle of its gradients. The group is one that rebuild_smaller can
 * close.
 */
static int survives(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static struct training t;
    struct rt_group *own = NULL;
    int rc = rt_group_split(g, 0, (int32_t)rank, &own, err);
    if (rc == 0) {
        rc = survive(&t, &own, rank, w, err);
    }
    rt_reducer_close(t.r);
    rt_group_close(own);
    return rc;
}

static void training_continues_without_a_rank_that_died(void **state) {
    (void)state;
    for (size_t i = 1; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        struct coll_world w = {.n = way->ranks < 3 ? 3 : way->ranks,
            .transport = way->transport,
            .nodes = way->nodes,
            .seed = (uint32_t)i};
        world_start(&w, survives);
        assert_int_equal(world_end(&w, 1U << VICTIM), 0);
        world_done(&w);
    }
}

enum { MOST_MS = 60000 };

/* A step of the survivors ends in its middle, by a call on another group: all but one of the
 * gradients are ready, and buckets are being reduced.  With merge_steps, it is a step that is only
 * accumulated. */
static int interrupted(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static struct training t;
    struct rt_group *own = NULL;
    bool merges = way->options.merge_steps > 1;
    int rc = rt_group_split(g, 0, (int32_t)rank, &own, err);
    if (rc == 0) {
        rc = open_reducer(own, &t.r, err);
    }
    while (rc == 0 && (t.step < KILL_FROM || (merges && t.r->merged < 1))) {
        rc = train_step(&t, rank, err);
    }
    for (size_t i = 0; i + 1 < N && rc == 0 && rank != VICTIM; i++) {
        float *values = rt_reducer_values(t.r, i);
        for (size_t at = 0; at < floats[i]; at++) {
            values[at] = 1000;
        }
        rc = rt_reducer_ready(t.r, i, err);
    }
    atomic_fetch_add(&w->shared->ready, 1);
    if (rank == VICTIM) {
        return pause(); /* until it is killed */
    }
    bool started = rc == 0 && in_flight(t.r) > 0;
    if (rc == 0) {
        rc = rt_group_barrier(g, err);
    }
    rc = rc == CO_PEERLOST ? rebuild_smaller(&t, &own, err) : rc;
    while (t.step < LAST_STEP && rc == 0) {
        rc = train_step(&t, rank, err);
    }
    if (rc == 0) {
        rc = check_training(&t, own, err);
    }
    if (rc == 0 && started == merges) {
        rc = co_err_set(err, CO_INTERNAL, "%d: buckets were under way", started);
    }
    rt_reducer_close(t.r);
    rt_group_close(own);
    return rc;
}

static void a_step_may_end_in_its_middle(void **state) {
    (void)state;
    static const size_t in_ways[] = {2, 3, 5};
    for (size_t i = 0; i < CO_ARRAY_LEN(in_ways); i++) {
        way = &ways[in_ways[i]];
        struct coll_world w = {
            .n = 3, .transport = way->transport, .call_ms = 4 * MOST_MS, .most_ms = MOST_MS};
        world_start(&w, interrupted);
        assert_true(world_ready(&w));
        kill(w.pid[VICTIM], SIGKILL);
        assert_int_equal(world_end(&w, 1U << VICTIM), 0);
        world_done(&w);
    }
}

/* ---- what ranks wait in ---- */

static int compares(struct rt_group *g, struct co_err *err) {
    struct rt_reducer *r = NULL;
    int rc = open_reducer(g, &r, err);
    rt_reducer_close(r);
    return rc;
}

static int normalises(struct rt_group *g, struct co_err *err) {
    static const struct rt_bn shape = {.n = 1, .channels = 3, .inner = 1};
    static const float x[3];
    float mean[3], variance[3], inv_std[3];
    uint64_t count = 0;
    return rt_bn_forward(g, &shape, x, 1e-5F, mean, variance, inv_std, &count, err);
}

static int finds_newest(struct rt_group *g, struct co_err *err) {
    uint64_t step = 1;
    return rt_broadcast_newest(g, &step, NULL, 0, err);
}

/* What rank 0 calls, where the others make a barrier. */
static const struct {
    int (*call)(struct rt_group *g, struct co_err *err);
    const char *text;
} own_calls[] = {
    {compares, "rank: comparison of gradient lists"},
    {normalises, "rank: batch normalisation, 7 f64"},
    {finds_newest, "rank: broadcast of the newest values"},
};

static int alone_in_a_call(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const char *text = own_calls[w->how].text;
    struct co_err why = {0};
    int rc = rank == 0 ? own_calls[w->how].call(g, &why) : rt_group_barrier(g, &why);
    text = rank == 0 ? text : text + strlen("rank: ");
    bool said = strstr(co_err_text(&why), text) != NULL;
    return rc == CO_INVALID && said
               ? 0
               : co_err_set(err, CO_INTERNAL, "code %d: %s", rc, co_err_text(&why));
}

/* A program does not know that these are all_gathers. */
static void what_the_library_gathers_is_named(void **state) {
    (void)state;
    way = &ways[1];
    uint32_t bad = 0;
    for (uint32_t i = 0; i < 2 * CO_ARRAY_LEN(own_calls) && bad == 0; i++) {
        struct coll_world w = {
            .n = 2, .transport = i % 2 ? RT_TRANSPORT_TCP : RT_TRANSPORT_SHM, .how = i / 2};
        bad += world_run(&w, alone_in_a_call);
    }
    assert_int_equal(bad, 0);
}

/* What 8 bits of bf16 do not hold of 1 + 2^-10 is all that a sum of 64 steps lacks without it.
 */
static int feeds_back(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    (void)rank;
    struct rt_gradient list[] = {{.n = 40}, {.n = 3}};
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(rt_reducer_open(g, list, 2, &way->options, &r, err));
    double sum = 0;
    for (int step = 0; step < 64; step++) {
        for (size_t i = 0; i < 2; i++) {
            for (size_t at = 0; at < list[i].n; at++) {
                rt_reducer_values(r, i)[at] = 1 + 0x1p-10F;
            }
        }
        CO_TRY(rt_reducer_run(r, NULL, err));
        sum += (double)rt_reducer_values(r, 1)[2];
    }
    double want = way->options.error_feedback ? 64 + 64 * 0x1p-10 : 64;
    return fabs(sum - want) <= 0x1p-8
               ? 0
               : co_err_set(err, CO_INTERNAL, "the sum is %g, not %g", sum, want);
}

static void what_rounding_took_is_sent_later(void **state) {
    (void)state;
    static const struct way rounded[] = {
        {.options = {.wire = RT_BF16, .error_feedback = true}},
        {.options = {.wire = RT_BF16}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rounded); i++) {
        way = &rounded[i];
        struct coll_world w = {.n = 2};
        assert_int_equal(world_run(&w, feeds_back), 0);
    }
}

static void an_overflow_is_not_fed_back(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_reducer *r = NULL;
    struct rt_reducer_options o = {.wire = RT_F16, .error_feedback = true};
    static const char *const endpoints[] = {"127.0.0.1:6170"};
    struct rt_group_options alone = {.endpoints = endpoints, .size = 1};
    assert_int_equal(rt_group_open(NULL, &alone, &g, &err), 0);
    assert_int_equal(rt_reducer_open(g, &(struct rt_gradient){.n = 2}, 1, &o, &r, &err), 0);
    static const float given[] = {1e6F, NAN, 3};
    for (size_t i = 0; i < CO_ARRAY_LEN(given); i++) {
        rt_reducer_values(r, 0)[0] = rt_reducer_values(r, 0)[1] = given[i];
        assert_int_equal(rt_reducer_run(r, NULL, &err), 0);
        assert_int_equal(rt_reducer_finite(r), given[i] < 1e6F);
    }
    assert_float_equal(rt_reducer_values(r, 0)[1], 3, 0);
    rt_reducer_close(r);
    rt_group_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_are_those_of_a_serial_sum),
        cmocka_unit_test(what_rounding_took_is_sent_later),
        cmocka_unit_test(an_overflow_is_not_fed_back),
        cmocka_unit_test(the_same_gradients_give_the_same_bits),
        cmocka_unit_test(parameter_lists_that_differ_between_ranks_are_refused),
        cmocka_unit_test(a_rank_with_other_options_is_named),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(all_ranks_see_gradients_that_are_not_finite),
        cmocka_unit_test(the_newest_values_win),
        cmocka_unit_test(ranks_agree_on_the_step),
        cmocka_unit_test(a_step_that_begins_again_counts_once),
        cmocka_unit_test(training_continues_without_a_rank_that_died),
        cmocka_unit_test(a_step_may_end_in_its_middle),
        cmocka_unit_test(what_the_library_gathers_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
