/* Ranks that are killed or stopped in every kind of call: the others name them, in time, and go
 * on without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>

#include "runtime/train/coll/testkit.h"

enum { N = 40000, CALL_MS = 1200 };

static enum rt_kind kind_now;

static int call_all(struct rt_group *g, enum rt_kind kind, size_t n, struct co_err *err) {
    static float in[N * WORLD_MAX], out[N * WORLD_MAX];
    size_t counts[WORLD_MAX];
    for (uint32_t r = 0; r < WORLD_MAX; r++) {
        counts[r] = n;
    }
    uint32_t me = rt_group_rank(g), size = rt_group_size(g);
    struct rt_coll c = {
        .kind = kind, .in = in, .out = out, .n = n, .counts = counts, .out_counts = counts};
    if (kind == RT_SEND || kind == RT_RECV) {
        /* Round in a circle; rank 0 begins. */
        c.kind = RT_SEND;
        c.root = (me + 1) % size;
        struct rt_coll r = {.kind = RT_RECV, .out = out, .n = n, .root = (me + size - 1) % size};
        int rc = me == 0 ? rt_coll_run(g, &c, err) : rt_coll_run(g, &r, err);
        return rc < 0 ? rc : me == 0 ? rt_coll_run(g, &r, err) : rt_coll_run(g, &c, err);
    }
    return rt_coll_run(g, &c, err);
}

/* Small calls and large ones in turn, until one fails. */
static int endless(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        rc = call_all(g, kind_now, i & 1 ? N : 100, err);
        if (i == 20) {
            atomic_fetch_add(&w->shared->ready, 1);
        }
    }
    return rc;
}

static void wait_ready(struct world *w) {
    int64_t end = world_now() + WORLD_MS;
    while (atomic_load(&w->shared->ready) < w->n && world_now() < end) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&w->shared->ready), w->n);
}

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
                fail_msg("%s: rank %u of %u: code %d after %lld ms: %s", rt_kind_name(kind_now), r,
                    w->n, w->shared->rank[r].code, (long long)took, w->shared->rank[r].text);
            }
        }
    }
}

static const enum rt_kind hit[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_ALL_TO_ALLV,
    RT_SEND, RT_BARRIER};

static const struct {
    enum rt_transport transport;
    uint32_t nodes;
} places[] = {{RT_TRANSPORT_SHM, 0}, {RT_TRANSPORT_TCP, 0}, {RT_TRANSPORT_AUTO, 2}};

/* Half of the calls' deadline: the monitor must have told, not the deadline. How soon it tells, 50
 * ms, is measured by `make bench-coll`: a machine whose cores are busy with others tells late. */
enum { KILLED_WITHIN_MS = 10000 };

static void killed_ranks_are_named(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
        for (size_t k = 0; k < CO_ARRAY_LEN(hit); k++) {
            struct world w = {.n = 4, .transport = places[p].transport, .nodes = places[p].nodes};
            uint32_t victim = (uint32_t)(k + p) % w.n;
            kind_now = hit[k];
            world_start(&w, endless);
            wait_ready(&w);
            int64_t since = world_now();
            kill(w.pid[victim], SIGKILL);
            assert_named(&w, victim, since, KILLED_WITHIN_MS);
            world_done(&w);
        }
    }
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
        for (size_t k = p; k < CO_ARRAY_LEN(hit); k += 3) {
            struct world w = {.n = 3,
                .transport = places[p].transport,
                .nodes = places[p].nodes,
                .call_ms = CALL_MS};
            uint32_t victim = (uint32_t)(k + p) % w.n;
            kind_now = hit[k];
            world_start(&w, endless);
            wait_ready(&w);
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

/* ---- going on ---- */

static int shrinks(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool gone[WORLD_MAX];
    struct rt_group *left = NULL;
    int rc = endless(w, g, rank, err);
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
    kind_now = RT_ALL_REDUCE;
    for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
        struct world w = {.n = 4, .transport = places[p].transport, .nodes = places[p].nodes};
        world_start(&w, shrinks);
        wait_ready(&w);
        kill(w.pid[1], SIGKILL);
        assert_int_equal(world_end(&w, 1U << 1), 0);
        world_done(&w);
    }
}

/* The stopped one wakes up when the others have gone on, and is not let in again. */
static void survivors_go_on_without_a_stopped_rank(void **state) {
    (void)state;
    kind_now = RT_ALL_REDUCE;
    struct world w = {.n = 4, .call_ms = CALL_MS};
    world_start(&w, shrinks);
    wait_ready(&w);
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
    for (size_t p = 0; p < CO_ARRAY_LEN(places) - 1; p++) {
        struct world w = {.n = 2, .transport = places[p].transport};
        assert_int_equal(world_run(&w, differs), 0);
    }
}

/* ---- groups of groups ---- */

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
    for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
        struct world w = {.n = 5, .transport = places[p].transport, .nodes = places[p].nodes};
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
    for (size_t p = 0; p < CO_ARRAY_LEN(places); p++) {
        struct world w = {.n = 3, .transport = places[p].transport, .nodes = places[p].nodes};
        assert_int_equal(world_run(&w, starts), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(survivors_go_on_without_a_stopped_rank),
        cmocka_unit_test(leaving_is_named_too),
        cmocka_unit_test(different_calls_are_noticed),
        cmocka_unit_test(groups_split),
        cmocka_unit_test(started_calls_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
