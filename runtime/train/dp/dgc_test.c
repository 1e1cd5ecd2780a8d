/* Compressed gradients over real processes against a serial form of the formulas in rt.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/dp/dp.h"
#include "runtime/train/dp/dp_testing.h"

enum { N = 4, MOST = 40000, STEPS = 9, RANKS_MAX = 3 };

static const size_t floats[N] = {20000, 300, 40000, DP_DGC_MIN};

static const float ramp[] = {0.75F, 0.99F, 0.999F};

static const struct way {
    const char *what;
    uint32_t ranks;
    struct rt_dgc dgc;
    double sparsity[STEPS]; /* of each step; below 0: dense */
    bool velocity;          /* what was momentum before is kept */
} ways[] = {
    {"by default", 2, {.momentum = 0.9F},
        {0.999, 0.999, 0.999, 0.999, 0.999, 0.999, 0.999, 0.999, 0.999}},
    {"decay and velocity", 2,
        {.momentum = 0.5F,
            .l2 = 0.25F,
            .clip_norm = 1,
            .rampup_begin_step = 1,
            .sparsity = ramp,
            .n_sparsity = 1},
        {-1, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75}, true},
    /* Five steps for three entries: since * 3 / 5 is 0 0 1 1 2. */
    {"ramp", 3,
        {.momentum = 0.9F,
            .rampup_begin_step = 2,
            .rampup_step = 5,
            .sparsity = ramp,
            .n_sparsity = 3},
        {-1, -1, 0.75, 0.75, 0.99, 0.99, 0.999, 0.999, 0.999}},
    {"nesterov, clipped", 3,
        {.momentum = 0.5F,
            .nesterov = true,
            .clip_norm = 3,
            .rampup_begin_step = 1,
            .sparsity = ramp,
            .n_sparsity = 2},
        {-1, 0.75, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99}},
};
static const struct way *way;

/* All ranks' state, as it is in the formulas.  It is computed once, before there are ranks. */
static struct { double u[RANKS_MAX][N][MOST], v[RANKS_MAX][N][MOST]; } serial;
static double wanted[STEPS][N][MOST]; /* means of all ranks */
static float parameter[MOST];         /* of gradient 0 */

static const double *sorted_by;

static int larger_first(const void *a, const void *b) {
    double x = fabs(sorted_by[*(const uint32_t *)a]), y = fabs(sorted_by[*(const uint32_t *)b]);
    return (x < y) - (x > y);
}

/* What a rank adds to the sums. */
static void serial_rank(uint32_t rank, uint32_t step, size_t i) {
    static uint32_t order[MOST];
    size_t n = floats[i];
    double *u = serial.u[rank][i], *v = serial.v[rank][i], sum = 0, scale = 1;
    for (size_t at = 0; at < n; at++) {
        order[at] = (uint32_t)at;
        sum += pow((double)tk_value(rank, step, i, at), 2);
    }
    double most = (double)way->dgc.clip_norm / sqrt(way->ranks), m = (double)way->dgc.momentum;
    scale = most > 0 && sqrt(sum) > most ? most / sqrt(sum) : 1;
    for (size_t at = 0; at < n; at++) {
        double g = scale * (double)tk_value(rank, step, i, at);
        g += i == 0 ? (double)way->dgc.l2 * (double)parameter[at] : 0;
        u[at] = way->dgc.nesterov ? m * (u[at] + g) : m * u[at] + g;
        v[at] += way->dgc.nesterov ? u[at] + g : u[at];
    }
    sorted_by = v;
    qsort(order, n, sizeof(*order), larger_first);
    size_t k = (size_t)((double)n * (1 - (double)(float)way->sparsity[step]));
    for (size_t e = 0; e < k; e++) {
        wanted[step][i][order[e]] += v[order[e]];
        u[order[e]] = v[order[e]] = 0;
    }
}

/* Each rank's velocity after it was carried over. */
static float carried(size_t i, size_t at) {
    return tk_value(8, 0, i, at);
}

static bool carries(uint32_t step) {
    return way->velocity && step == way->dgc.rampup_begin_step;
}

static void serial_step(uint32_t step) {
    double(*want)[MOST] = wanted[step];
    for (size_t i = 0; i < N; i++) {
        bool sparse = floats[i] >= DP_DGC_MIN && way->sparsity[step] >= 0;
        for (uint32_t rank = 0; rank < way->ranks && sparse; rank++) {
            serial_rank(rank, step, i);
        }
        for (size_t at = 0; at < floats[i]; at++) {
            for (uint32_t rank = 0; rank < way->ranks && !sparse; rank++) {
                want[i][at] += (double)tk_value(rank, step, i, at);
            }
            want[i][at] /= way->ranks;
        }
    }
}

static void serial_run(void) {
    memset(&serial, 0, sizeof(serial));
    memset(wanted, 0, sizeof(wanted));
    for (size_t at = 0; at < MOST; at++) {
        parameter[at] = tk_value(9, 0, 0, at);
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < N && carries(step); i++) {
            for (size_t at = 0; at < floats[i] * way->ranks; at++) {
                serial.u[at / floats[i]][i][at % floats[i]] = (double)carried(i, at % floats[i]);
            }
        }
        serial_step(step);
    }
}

/* Of entries as large as each other to rounding another may be sent: that is at most a few. */
static int compare(
    struct rt_group *g, const struct rt_reducer *r, uint32_t step, struct co_err *err) {
    size_t others = 0, all = 0;
    double(*want)[MOST] = wanted[step];
    for (size_t i = 0; i < N; i++) {
        const float *got = rt_reducer_values(r, i);
        bool sparse = floats[i] >= DP_DGC_MIN && way->sparsity[step] >= 0;
        for (size_t at = 0; at < floats[i]; at++) {
            others += !(fabs((double)got[at] - want[i][at]) < 1e-5);
            all += want[i][at] != 0;
        }
        if (rt_reducer_compressed(r, i) != sparse) {
            return co_err_set(err, CO_INTERNAL, "%s: step %u, gradient %zu: compressed %d",
                way->what, step, i, !sparse);
        }
        CO_TRY(tk_same(g, got, floats[i], err));
    }
    return others * 1000 <= all ? 0
                                : co_err_set(err, CO_INTERNAL, "%s: step %u: %zu of %zu differ",
                                      way->what, step, others, all);
}

static void carry_velocity(struct rt_reducer *r) {
    for (size_t i = 0; i < N; i++) {
        float *u = rt_reducer_velocity(r, i);
        assert_true(!u == (floats[i] < DP_DGC_MIN));
        for (size_t at = 0; at < floats[i] && u; at++) {
            u[at] = carried(i, at);
        }
    }
}

static int compresses(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    struct rt_gradient list[N];
    static float own[MOST];
    for (size_t i = 0; i < N; i++) {
        list[i] = (struct rt_gradient){
            .n = floats[i], .memory = i == 2 ? own : NULL, .parameter = i == 0 ? parameter : NULL};
    }
    struct rt_reducer_options o = {.dgc = &way->dgc, .bucket_bytes = 100000};
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(rt_reducer_open(g, list, N, &o, &r, err));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < N; i++) {
            for (size_t at = 0; at < floats[i]; at++) {
                rt_reducer_values(r, i)[at] = tk_value(rank, step, i, at);
            }
        }
        if (carries(step)) {
            carry_velocity(r);
        }
        CO_TRY(rt_reducer_run(r, NULL, err));
        CO_TRY(compare(g, r, step, err));
    }
    return 0;
}

static void the_largest_entries_travel(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        serial_run();
        struct coll_world w = {.n = way->ranks};
        assert_int_equal(world_run(&w, compresses), 0);
    }
}

/* A NaN is the largest of all. */
static int spreads(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_gradient one = {.n = DP_DGC_MIN};
    struct rt_reducer_options o = {.dgc = &way->dgc};
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    CO_TRY(rt_reducer_open(g, &one, 1, &o, &r, err));
    for (size_t at = 0; at < one.n; at++) {
        rt_reducer_values(r, 0)[at] = rank == w->n - 1 && at == 9000 ? NAN : 1;
    }
    CO_TRY(rt_reducer_run(r, NULL, err));
    return rt_reducer_finite(r) ? co_err_set(err, CO_INTERNAL, "no NaN came") : 0;
}

static void a_nan_is_not_kept_back(void **state) {
    (void)state;
    way = &ways[0];
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, spreads), 0);
}

/* Without momentum, and with all entries sent, w counts the steps: step s adds s + 1. */
enum { LAST = 30, KILL_AT = 10 };

static int count_step(struct rt_reducer *r, float *w, uint64_t *step, struct co_err *err) {
    float *values = rt_reducer_values(r, 0);
    for (size_t at = 0; at < DP_DGC_MIN; at++) {
        values[at] = (float)(*step + 1);
    }
    int rc = rt_reducer_run(r, NULL, err);
    for (size_t at = 0; at < DP_DGC_MIN && rc == 0; at++) {
        w[at] += values[at];
    }
    *step += rc == 0;
    return rc;
}

static int rebuilds(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float values[DP_DGC_MIN];
    static const float none = 0;
    struct rt_gradient one = {.n = DP_DGC_MIN};
    struct rt_dgc dgc = {.rampup_begin_step = 2, .sparsity = &none, .n_sparsity = 1};
    struct rt_reducer_options o = {.dgc = &dgc};
    CO_CLEANUP(rt_group_closep) struct rt_group *less = NULL;
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    uint64_t step = 0;
    CO_TRY(rt_reducer_open(g, &one, 1, &o, &r, err));
    while (step < LAST) {
        if (rank == w->n - 1 && step == KILL_AT) {
            (void)raise(SIGKILL);
        }
        int rc = count_step(r, values, &step, err);
        if (rc == CO_PEERLOST && !less) {
            CO_TRY(rt_group_shrink(g, NULL, &less, err));
            CO_TRY(rt_reducer_rebuild(r, less, err));
            rc = rt_broadcast_newest(less, &step, &(struct rt_values){values, DP_DGC_MIN}, 1, err);
        }
        CO_TRY(rc);
    }
    double all = (double)LAST * (LAST + 1) / 2;
    for (size_t at = 0; at < DP_DGC_MIN; at++) {
        if (fabs((double)values[at] - all) > 0.01) {
            return co_err_set(err, CO_INTERNAL, "at %zu: %g, not %g", at, (double)values[at], all);
        }
    }
    return 0;
}

static void compression_continues_without_a_rank_that_died(void **state) {
    (void)state;
    struct coll_world w = {.n = 4};
    world_start(&w, rebuilds);
    assert_int_equal(world_end(&w, 1U << 3), 0);
    world_done(&w);
}

/* What a peer sends is looked at before it is used. */
static void a_place_outside_of_the_bucket_is_an_error(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options alone = {.size = 1, .endpoints = (const char *const[]){""}};
    assert_int_equal(rt_group_open(NULL, &alone, &g, &err), 0);
    float values[32];
    struct dp_pair pairs[] = {{31, 1}, {32, 1}};
    struct rt_reducer r = {.g = g};
    struct dp_bucket b = {.n = 32, .values = values, .pairs = pairs, .k = 1};
    assert_int_equal(dp_dgc_check(&r, &b, &err), 0);
    dp_dgc_decode(&r, &b);
    assert_true(values[31] == 1 && values[0] == 0);
    b.k = 2;
    assert_int_equal(dp_dgc_check(&r, &b, &err), CO_INVALID);
    rt_group_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_entries_travel),
        cmocka_unit_test(a_nan_is_not_kept_back),
        cmocka_unit_test(compression_continues_without_a_rank_that_died),
        cmocka_unit_test(a_place_outside_of_the_bucket_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
