/* A step that fails and begins again leaves the same bits as one that did not fail: in the
 * averages, and in what a rank keeps for later steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/dp/dp.h"
#include "runtime/train/dp/dp_testing.h"

enum { N = 4, MOST = 20000, LIVE = 2 };

static const size_t floats[N] = {MOST, 300, DP_DGC_MIN, 5000};

/* No clipping: its factor depends on how many ranks there are. */
static const float sparsity = 0.9F;
static const struct rt_dgc plain = {.momentum = 0.5F, .sparsity = &sparsity, .n_sparsity = 1};
static const struct rt_dgc nesterov = {
    .momentum = 0.9F, .nesterov = true, .sparsity = &sparsity, .n_sparsity = 1};

static const struct way {
    const char *what;
    struct rt_reducer_options options;
} ways[] = {
    {"dgc", {.dgc = &plain, .bucket_bytes = 4000}},
    {"dgc, one bucket", {.dgc = &nesterov}},
    {"bf16", {.wire = RT_BF16, .error_feedback = true, .bucket_bytes = 4000}},
    {"bf16 and dgc", {.wire = RT_BF16, .error_feedback = true, .dgc = &plain}},
};
static const struct way *way;

/* How step 1 fails: all leave it when all buckets have started; rank 1 leaves it, and it ends on
 * rank 0; another rank dies in it. */
enum fails { LEFT_BY_ALL, LEFT_BY_ONE, RANK_DIES, FAILS };

static int open_reducer(
    struct rt_group *g, float *own, struct rt_reducer **ret, struct co_err *err) {
    struct rt_gradient list[N];
    for (size_t i = 0; i < N; i++) {
        list[i] = (struct rt_gradient){.n = floats[i]};
    }
    list[2].memory = own;
    return rt_reducer_open(g, list, N, &way->options, ret, err);
}

static int make(struct rt_reducer *r, uint32_t rank, uint32_t step, struct co_err *err) {
    for (size_t i = 0; i < N; i++) {
        for (size_t at = 0; at < floats[i]; at++) {
            rt_reducer_values(r, i)[at] = tk_value(rank, step, i, at);
        }
        CO_TRY(rt_reducer_ready(r, i, err));
    }
    return 0;
}

static int run(struct rt_reducer *r, uint32_t rank, uint32_t step, struct co_err *err) {
    CO_TRY(make(r, rank, step, err));
    return rt_reducer_wait(r, NULL, err);
}

static bool equal(const float *a, const float *b, size_t n) {
    return !a == !b && (!a || memcmp(a, b, n * sizeof(*a)) == 0);
}

static int compare(const struct rt_reducer *r, const struct rt_reducer *calm, struct co_err *err) {
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        const struct dp_bucket *a = &r->buckets[k], *b = &calm->buckets[k];
        if (!equal(a->u, b->u, a->n) || !equal(a->v, b->v, a->n) ||
            !equal(a->lost, b->lost, a->n)) {
            return co_err_set(err, CO_INTERNAL, "%s: bucket %u keeps other values", way->what, k);
        }
    }
    return 0;
}

static int compare_averages(
    const struct rt_reducer *r, const struct rt_reducer *calm, struct co_err *err) {
    for (size_t i = 0; i < N; i++) {
        if (!equal(rt_reducer_values(r, i), rt_reducer_values(calm, i), floats[i])) {
            return co_err_set(
                err, CO_INTERNAL, "%s: gradient %zu has other averages", way->what, i);
        }
    }
    return compare(r, calm, err);
}

/* Step 1, which fails; and the group to continue with. */
static int fail_step(struct rt_reducer *r, struct rt_group *g, struct rt_group *of, enum fails how,
    struct rt_group **ret_next, struct co_err *err) {
    static const uint32_t live[LIVE] = {0, 1};
    uint32_t rank = rt_group_rank(g);
    if (how == RANK_DIES) {
        int rc = run(r, rank, 1, err);
        return rc == CO_PEERLOST ? rt_group_shrink(of, NULL, ret_next, err)
                                 : co_err_set(err, CO_INTERNAL, "code %d", rc);
    }
    CO_TRY(make(r, rank, 1, err));
    if (how == LEFT_BY_ONE && rank == 0) {
        CO_TRY(rt_reducer_wait(r, NULL, err));
    }
    return rt_group_sub(g, live, LIVE, 3, ret_next, err);
}

struct kit {
    struct rt_group *of, *other, *next;
    struct rt_reducer *r, *calm;
    float own[2][MOST];
};

/* The reducer of a step that fails, and one beside it on ranks that do not. */
static int train(struct coll_world *w, struct kit *k, struct rt_group *g, struct co_err *err) {
    enum fails how = (enum fails)w->how;
    static const uint32_t all[] = {0, 1, 2};
    uint32_t rank = rt_group_rank(g);
    CO_TRY(rt_group_sub(g, all, rt_group_size(g), 1, &k->of, err));
    CO_TRY(open_reducer(k->of, k->own[0], &k->r, err));
    CO_TRY(run(k->r, rank, 0, err));
    if (rank == LIVE) {
        atomic_fetch_add(&w->shared->ready, 1);
        return pause(); /* until it is killed */
    }
    CO_TRY(rt_group_sub(g, all, LIVE, 2, &k->other, err));
    CO_TRY(open_reducer(k->other, k->own[1], &k->calm, err));
    CO_TRY(run(k->calm, rank, 0, err));
    CO_TRY(compare(k->r, k->calm, err));
    atomic_fetch_add(&w->shared->ready, 1);
    CO_TRY(fail_step(k->r, g, k->of, how, &k->next, err));
    bool ended = how == LEFT_BY_ONE && rank == 0;
    CO_TRY(ended ? 0 : compare(k->r, k->calm, err));
    CO_TRY(rt_reducer_rebuild(k->r, k->next, err));
    if (k->r->step != (how == LEFT_BY_ONE ? 2 : 1)) {
        return co_err_set(err, CO_INTERNAL, "at step %d", (int)k->r->step);
    }
    CO_TRY(run(k->calm, rank, 1, err));
    if (how != LEFT_BY_ONE) {
        CO_TRY(run(k->r, rank, 1, err));
        CO_TRY(compare_averages(k->r, k->calm, err));
    }
    CO_TRY(compare(k->r, k->calm, err));
    CO_TRY(run(k->r, rank, 2, err));
    CO_TRY(run(k->calm, rank, 2, err));
    return compare_averages(k->r, k->calm, err);
}

static int trains(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    static struct kit k;
    int rc = train(w, &k, g, err);
    rt_reducer_close(k.r);
    rt_reducer_close(k.calm);
    rt_group_close(k.of);
    rt_group_close(k.other);
    rt_group_close(k.next);
    return rc;
}

static void a_step_that_begins_again_leaves_the_same_bits(void **state) {
    (void)state;
    for (uint32_t how = 0; how < FAILS; how++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
            way = &ways[i];
            struct coll_world w = {.n = how == RANK_DIES ? LIVE + 1 : LIVE, .how = how};
            world_start(&w, trains);
            assert_true(world_ready(&w));
            if (how == RANK_DIES) {
                kill(w.pid[LIVE], SIGKILL);
            }
            assert_int_equal(world_end(&w, how == RANK_DIES ? 1U << LIVE : 0), 0);
            world_done(&w);
        }
    }
}

/* Without a rebuild, too: the caller may repeat the step after an error of its own rank. */
static void a_step_that_was_left_does_not_count(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_group *g = NULL;
    static struct kit k;
    struct rt_group_options alone = {.size = 1, .endpoints = (const char *const[]){""}};
    assert_int_equal(rt_group_open(NULL, &alone, &g, &err), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        assert_int_equal(open_reducer(g, k.own[0], &k.r, &err), 0);
        assert_int_equal(open_reducer(g, k.own[1], &k.calm, &err), 0);
        assert_int_equal(make(k.r, 0, 0, &err), 0);
        dp_reducer_drain(k.r); /* as after a failure */
        for (uint32_t step = 0; step < 2; step++) {
            assert_int_equal(run(k.r, 0, step, &err), 0);
            assert_int_equal(run(k.calm, 0, step, &err), 0);
            assert_int_equal(compare_averages(k.r, k.calm, &err), 0);
        }
        rt_reducer_close(k.r);
        rt_reducer_close(k.calm);
    }
    rt_group_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_begins_again_leaves_the_same_bits),
        cmocka_unit_test(a_step_that_was_left_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
