/* Ranks go on without one that was killed or stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/testkit.h"

enum { CALL_MS = 1200 };

static int shrinks(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool gone[WORLD_MAX];
    struct rt_group *left = NULL;
    int rc = world_endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    rc = rt_group_shrink(g, gone, &left, err);
    uint32_t one = 1, sum = 0;
    rc = rc < 0 ? rc : rt_all_reduce(left, &one, &sum, 1, RT_I32, RT_SUM, err);
    if (rc == 0 && (sum != w->n - 1 || rt_group_size(left) != w->n - 1 || !gone[1] || gone[0] ||
                       rt_group_rank(left) != (rank == 0 ? 0 : rank - 1))) {
        rc = co_err_set(err, CO_INTERNAL, "sum %u in a group of %u", sum, rt_group_size(left));
    }
    rt_group_close(left);
    return rc;
}

static void survivors_go_on(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct world w = {
            .n = 4, .transport = world_places[p].transport, .nodes = world_places[p].nodes};
        world_start(&w, shrinks);
        assert_true(world_ready(&w));
        kill(w.pid[1], SIGKILL);
        assert_int_equal(world_end(&w, 1U << 1), 0);
        world_done(&w);
    }
}

/* The stopped one wakes up when the others have gone on, and is not let in again. */
static void survivors_go_on_without_a_stopped_rank(void **state) {
    (void)state;
    struct world w = {.n = 4, .call_ms = CALL_MS};
    world_start(&w, shrinks);
    assert_true(world_ready(&w));
    kill(w.pid[1], SIGSTOP);
    for (uint32_t r = 0; r < w.n; r++) {
        if (r != 1) {
            siginfo_t i;
            (void)waitid(P_PID, (id_t)w.pid[r], &i, WEXITED | WNOWAIT);
        }
    }
    kill(w.pid[1], SIGCONT);
    assert_int_equal(world_end(&w, 1U << 1), 0);
    assert_int_equal(w.shared->rank[1].code, CO_PEERLOST);
    world_done(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(survivors_go_on_without_a_stopped_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
