/* Groups of groups; started calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/testkit.h"

enum { N = 40000 };

static int splits(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_group *part = NULL, *pair = NULL;
    uint32_t own = rank + 1, sum = 0, pairs[2] = {0, w->n - 1};
    int rc = rt_group_split(g, (int32_t)(rank % 2), -(int32_t)rank, &part, err);
    rc = rc < 0 ? rc : rt_all_reduce(part, &own, &sum, 1, RT_I32, RT_SUM, err);
    uint32_t want = rank % 2 ? 2 + 4 : 1 + 3 + 5;
    if (rc == 0 && (sum != want || (rank >= 3 && rt_group_rank(part) != 0))) {
        rc = co_err_set(err, CO_INTERNAL, "sum %u, rank %u", sum, rt_group_rank(part));
    }
    if (rc == 0 && (rank == 0 || rank == w->n - 1)) {
        rc = rt_group_sub(g, pairs, 2, 9, &pair, err);
        rc = rc < 0 ? rc : rt_group_barrier(pair, err);
    }
    rc = rc < 0 ? rc : rt_group_barrier(g, err);
    rt_group_close(pair);
    rt_group_close(part);
    return rc;
}

static void groups_split(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct world w = {
            .n = 5, .transport = world_places[p].transport, .nodes = world_places[p].nodes};
        assert_int_equal(world_run(&w, splits), 0);
    }
}

/* ---- started calls ---- */

static int starts(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float v[8][N];
    struct rt_work *work[8];
    int rc = 0;
    for (uint32_t i = 0; i < 8 && rc == 0; i++) {
        for (uint32_t k = 0; k < N; k++) {
            v[i][k] = (float)(rank + i);
        }
        struct rt_coll c = {.kind = RT_ALL_REDUCE, .in = v[i], .out = v[i], .n = N};
        rc = rt_coll_start(g, &c, &work[i], err);
    }
    rc = rc < 0 ? rc : rt_group_barrier(g, err); /* after all of them */
    for (uint32_t i = 0; i < 8 && rc == 0; i++) {
        uint32_t sum = w->n * i + w->n * (w->n - 1) / 2;
        float want = (float)sum;
        if (!rt_work_test(work[i])) {
            return co_err_set(err, CO_INTERNAL, "call %u has not ended", i);
        }
        rc = rt_work_wait(work[i], err);
        if (rc == 0 && (v[i][0] != want || v[i][N - 1] != want)) {
            rc = co_err_set(err, CO_INTERNAL, "call %u: %f", i, (double)v[i][0]);
        }
    }
    return rc;
}

static void started_calls_keep_their_order(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct world w = {
            .n = 3, .transport = world_places[p].transport, .nodes = world_places[p].nodes};
        assert_int_equal(world_run(&w, starts), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_split),
        cmocka_unit_test(started_calls_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
