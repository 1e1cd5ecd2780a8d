/* Ranks that are killed or stopped in every kind of call, or leave, or call something else: the
 * others name them, in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/testkit.h"

enum { N = 40000, CALL_MS = 1200 };

/* All but the victim name it within the time. */
static void assert_named(struct world *w, uint32_t victim, int64_t since, int64_t within_ms) {
    char name[16];
    (void)snprintf(name, sizeof(name), "rank %u ", victim);
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    for (uint32_t r = 0; r < w->n; r++) {
        if (r != victim) {
            int64_t took = w->shared->rank[r].ms - since;
            if (w->shared->rank[r].code != CO_PEERLOST || !strstr(w->shared->rank[r].text, name) ||
                took > within_ms) {
                fail_msg("%s: rank %u of %u: code %d after %lld ms: %s", rt_kind_name(w->kind), r,
                    w->n, w->shared->rank[r].code, (long long)took, w->shared->rank[r].text);
            }
        }
    }
}

static const enum rt_kind hit[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_ALL_TO_ALLV,
    RT_SEND, RT_BARRIER};

/* Half of the calls' deadline: the monitor must have told, not the deadline. How soon it tells, 50
 * ms, is measured by `make bench-coll`: a machine whose cores are busy with others tells late. */
enum { KILLED_WITHIN_MS = 10000 };

static void killed_ranks_are_named(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        for (size_t k = 0; k < CO_ARRAY_LEN(hit); k++) {
            struct world w = {
                .n = 4, .transport = world_places[p].transport, .nodes = world_places[p].nodes};
            uint32_t victim = (uint32_t)(k + p) % w.n;
            w.kind = hit[k];
            world_start(&w, world_endless);
            assert_true(world_ready(&w));
            int64_t since = world_now();
            kill(w.pid[victim], SIGKILL);
            assert_named(&w, victim, since, KILLED_WITHIN_MS);
            world_done(&w);
        }
    }
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        for (size_t k = p; k < CO_ARRAY_LEN(hit); k += 3) {
            struct world w = {.n = 3,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .call_ms = CALL_MS};
            uint32_t victim = (uint32_t)(k + p) % w.n;
            w.kind = hit[k];
            world_start(&w, world_endless);
            assert_true(world_ready(&w));
            int64_t since = world_now();
            kill(w.pid[victim], SIGSTOP);
            /* The others end; then the victim may go on, and learns what has become of it. */
            for (uint32_t r = 0; r < w.n; r++) {
                if (r != victim) {
                    siginfo_t i;
                    (void)waitid(P_PID, (id_t)w.pid[r], &i, WEXITED | WNOWAIT);
                }
            }
            kill(w.pid[victim], SIGCONT);
            assert_named(&w, victim, since, CALL_MS + KILLED_WITHIN_MS);
            world_done(&w);
        }
    }
}

static int leaves(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (int i = 0; i < 20; i++) {
        int rc = rt_group_barrier(g, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rank == 2 ? 0 : rt_group_barrier(g, err);
}

static void leaving_is_named_too(void **state) {
    (void)state;
    struct world w = {.n = 3};
    world_start(&w, leaves);
    assert_int_equal(world_end(&w, 3), 0);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(w.shared->rank[r].code, CO_PEERLOST);
        assert_non_null(strstr(w.shared->rank[r].text, "rank 2 "));
    }
    world_done(&w);
}

static int differs(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    static float v[N];
    int rc = rt_all_reduce(g, v, v, rank == 1 ? N : N - 1, RT_F32, RT_SUM, err);
    return rc == CO_INVALID ? 0 : co_err_set(err, CO_INTERNAL, "code %d", rc);
}

static void different_calls_are_noticed(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places) - 1; p++) {
        struct world w = {.n = 2, .transport = world_places[p].transport};
        assert_int_equal(world_run(&w, differs), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(leaving_is_named_too),
        cmocka_unit_test(different_calls_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
