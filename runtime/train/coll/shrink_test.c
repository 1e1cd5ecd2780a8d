/* A group continues without a rank that was killed or stopped, or with one that has come back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cases_testing.h"
#include "common/map.h"
#include "runtime/train/coll/stage_testing.h"

enum { LATE_MS = 60000 };

static int shrinks(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool gone[WORLD_MAX];
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    int rc = world_endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    uint32_t one = 1, sum = 0;
    CO_TRY(rt_group_shrink(g, gone, &left, err));
    CO_TRY(rt_all_reduce(left, &one, &sum, 1, RT_I32, RT_SUM, err));
    if (sum != w->n - 1 || rt_group_size(left) != w->n - 1 || !gone[1] || gone[0] ||
        rt_group_rank(left) != (rank == 0 ? 0 : rank - 1)) {
        return co_err_set(err, CO_INTERNAL, "sum %u in a group of %u", sum, rt_group_size(left));
    }
    return 0;
}

static void survivors_continue(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 4,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        world_start(&w, shrinks);
        assert_true(world_ready(&w));
        kill(w.pid[1], SIGKILL);
        assert_int_equal(world_end(&w, 1U << 1), 0);
        world_done(&w);
    }
}

/* The stopped one wakes up when the others have continued, and is not let in again. */
static void survivors_continue_without_a_stopped_rank(void **state) {
    (void)state;
    struct coll_world w = {.n = 4, .call_ms = WORLD_STOP_MS};
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

/* ---- several groups at once ---- */

enum { AT_ONCE = 6 };

struct shrinking {
    struct rt_group *g, *left;
    pthread_t thread;
    struct co_err err;
    int rc;
};

static void *shrink_there(void *arg) {
    struct shrinking *s = arg;
    uint32_t one = 1, sum = 0;
    s->rc = rt_group_shrink(s->g, NULL, &s->left, &s->err);
    s->rc = s->rc < 0 ? s->rc : rt_all_reduce(s->left, &one, &sum, 1, RT_I32, RT_SUM, &s->err);
    if (s->rc == 0 && sum != 2) {
        s->rc = co_err_set(&s->err, CO_INTERNAL, "%u of 2 ranks", sum);
    }
    return NULL;
}

/* The last rank dies; the others shrink all their groups, each in a thread, every other rank from
 * the last group on. */
static int shrinks_several(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct shrinking s[AT_ONCE] = {0};
    uint32_t all[] = {0, 1, 2};
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        CO_TRY(rt_group_sub(g, all, w->n, i, &s[i].g, err));
    }
    int rc = rt_group_barrier(g, err);
    if (rc == 0 && rank == w->n - 1) {
        (void)raise(SIGKILL);
    }
    w->shared->rank[rank].hash = (uint64_t)co_now_ms();
    uint32_t started = 0;
    for (; started < AT_ONCE && rc == 0; started++) {
        struct shrinking *next = &s[rank % 2 ? AT_ONCE - 1 - started : started];
        rc = pthread_create(&next->thread, NULL, shrink_there, next) == 0 ? 0 : CO_NOMEMORY;
    }
    for (uint32_t i = 0; i < AT_ONCE && started == AT_ONCE; i++) {
        (void)pthread_join(s[i].thread, NULL);
        if (s[i].rc < 0 && rc == 0) {
            rc = s[i].rc;
            *err = s[i].err;
        }
    }
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        rt_group_close(s[i].left);
        rt_group_close(s[i].g);
    }
    return rc;
}

static void several_groups_shrink_at_once(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = 4 * LATE_MS};
        world_start(&w, shrinks_several);
        assert_int_equal(world_end(&w, 1U << 2), 0);
        for (uint32_t r = 0; r < 2; r++) {
            int64_t since = (int64_t)w.shared->rank[r].hash;
            assert_in_range(w.shared->rank[r].ms - since, 0, LATE_MS);
        }
        world_done(&w);
    }
}

/* ---- what was started before ---- */

enum { STARTED = 3 };

struct started {
    uint32_t one, sums[STARTED];
    struct rt_work *work[STARTED];
};

static int start_calls(struct started *s, struct rt_group *g, struct co_err *err) {
    s->one = 1;
    for (uint32_t i = 0; i < STARTED; i++) {
        struct rt_coll c = {
            .kind = RT_ALL_REDUCE, .dtype = RT_I32, .in = &s->one, .out = &s->sums[i], .n = 1};
        CO_TRY(rt_coll_start(g, &c, &s->work[i], err));
    }
    return 0;
}

/* Rank 1 is killed.  The others wait for the first call, leave the group, and wait for the rest. */
static int waits_late(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    struct started s = {0};
    int rc = rank == 1 ? 0 : start_calls(&s, g, err);
    atomic_fetch_add(&w->shared->ready, 1);
    if (rank == 1) {
        return pause(); /* until it is killed */
    }
    CO_TRY(rc);
    int first = rt_work_wait(s.work[0], err);
    if (first != CO_PEERLOST) {
        return co_err_set(err, CO_INTERNAL, "call 0: %d", first);
    }
    CO_TRY(rt_group_shrink(g, NULL, &left, err));
    world_reuse();
    for (uint32_t i = 1; i < STARTED; i++) {
        int late = rt_work_test(s.work[i]) ? rt_work_wait(s.work[i], err) : 0;
        if (late != CO_PEERLOST) {
            return co_err_set(err, CO_INTERNAL, "shrunk: call %u: %d", i, late);
        }
    }
    CO_TRY(start_calls(&s, left, err));
    rt_group_closep(&left);
    world_reuse();
    for (uint32_t i = 0; i < STARTED; i++) {
        rc = rt_work_wait(s.work[i], err);
        if (rc < 0 || s.sums[i] != w->n - 1) {
            return co_err_set(err, CO_INTERNAL, "closed: call %u: %d, sum %u", i, rc, s.sums[i]);
        }
    }
    return 0;
}

static void started_calls_outlive_their_group(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = 4 * LATE_MS,
            .most_ms = LATE_MS};
        world_start(&w, waits_late);
        assert_true(world_ready(&w));
        kill(w.pid[1], SIGKILL);
        assert_int_equal(world_end(&w, 1U << 1), 0);
        world_done(&w);
    }
}

/* ---- a second one is hit while they agree ---- */

/* From the second death to a group that works: two votes and a group formed, of most. */
enum { AGAIN_MS = 10 * WORLD_SOON_MS };

/* Calls on sockets of a rank that shrinks a group of four, its monitor's among them, and some
 * more: about 60. */
static const uint32_t moments[] = {1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 25, 30, 36, 42, 50, 60};

/* Rank 1 has been killed; rank 2 is hit.  The others end up in a group of two. */
static int shrinks_until_two(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct kill_stage s = {.name = "shrink", .call = moments[w->stage]};
    struct rt_group *left = NULL;
    uint32_t members = 0;
    int rc = world_endless(w, g, rank, err);
    bool failed = rc == CO_PEERLOST;
    if (rank == w->victim) {
        stage_arm(w, &s, w->signal, NULL, 0);
    }
    for (uint32_t i = 0; failed && i < 3 && members != 2; i++) {
        bool gone[WORLD_MAX];
        struct rt_group *smaller = NULL;
        rc = rt_group_shrink(left ? left : g, gone, &smaller, err);
        rt_group_close(left);
        left = smaller;
        if (rc < 0) {
            break;
        }
        uint32_t one = 1;
        rc = rt_all_reduce(left, &one, &members, 1, RT_I32, RT_SUM, err);
        members = rc == 0 ? members : 0; /* undefined after a failure */
        /* CO_GONE: a rank that had its sum of three makes the next group already. */
        failed = rc == 0 || rc == CO_PEERLOST || rc == CO_GONE;
        if (rank == w->victim) {
            stage_end();
        }
    }
    if (rc == 0 &&
        (members != 2 || rt_group_size(left) != 2 || rt_group_rank(left) != (rank == 0 ? 0 : 1))) {
        rc = co_err_set(err, CO_INTERNAL, "%u members", members);
    }
    rt_group_close(left);
    return rc;
}

static void end_shrunk(struct coll_world *w) {
    for (uint32_t r = 0; r < w->n && w->signal == SIGSTOP; r++) {
        siginfo_t i;
        if (r != 1 && r != w->victim) {
            (void)waitid(P_PID, (id_t)w->pid[r], &i, WEXITED | WNOWAIT);
        }
    }
    kill(w->pid[w->victim], SIGCONT);
    if (world_end(w, 1U << 1 | 1U << w->victim) > 0) {
        fail_msg("signal %d at call %u of place %u", w->signal, moments[w->stage], w->nodes);
    }
    for (uint32_t r = 0; r < w->n; r += 3) {
        int64_t took = w->shared->rank[r].ms - atomic_load(&w->shared->struck_ms);
        assert_in_range(took, 0, w->signal == SIGKILL ? LATE_MS : 3 * w->call_ms + LATE_MS);
        world_took_add(took);
    }
    world_done(w);
}

static void shrink_at_moments(int signal, int64_t call_ms) {
    static struct coll_world worlds[CO_ARRAY_LEN(moments) * CO_ARRAY_LEN(world_places)];
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        const struct world_place *p = &world_places[i % CO_ARRAY_LEN(world_places)];
        worlds[i] = (struct coll_world){.n = 4,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .call_ms = call_ms,
            .kind = RT_ALL_REDUCE,
            .victim = 2,
            .stage = i / CO_ARRAY_LEN(world_places),
            .signal = signal};
        world_start(&worlds[i], shrinks_until_two);
        assert_true(world_ready(&worlds[i]));
        kill(worlds[i].pid[1], SIGKILL);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        end_shrunk(&worlds[i]);
    }
}

static void a_rank_may_die_while_others_shrink(void **state) {
    (void)state;
    shrink_at_moments(SIGKILL, 4 * LATE_MS);
    assert_in_range(world_took_median(), 0, AGAIN_MS);
}

static void a_rank_may_stop_while_others_shrink(void **state) {
    (void)state;
    shrink_at_moments(SIGSTOP, WORLD_STOP_MS);
    assert_in_range(world_took_median(), 0, 2 * WORLD_STOP_MS + AGAIN_MS);
}

/* ---- and come back ---- */

static struct coll_world new_ones; /* endpoints */
enum { SUMMED = 50000 };

/* Values whose sum depends on the order. */
static int sum_hash(struct rt_group *g, uint32_t rank, uint64_t *ret, struct co_err *err) {
    static float v[SUMMED], sum[SUMMED];
    for (uint32_t i = 0; i < SUMMED; i++) {
        v[i] = 1.0F / (float)(1 + i % 1009 + rank * 3);
    }
    int rc = rt_all_reduce(g, v, sum, SUMMED, RT_F32, RT_SUM, err);
    *ret = rc < 0 ? 0 : co_hash(sum, sizeof(sum));
    return rc;
}

static int expect_sum(struct rt_group *g, uint32_t own, uint32_t want, struct co_err *err) {
    uint32_t sum = 0;
    int rc = rt_all_reduce(g, &own, &sum, 1, RT_I32, RT_SUM, err);
    return rc < 0 || sum == want ? rc : co_err_set(err, CO_INTERNAL, "%u, not %u", sum, want);
}

static int work_together(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    uint64_t again = 0;
    CO_TRY(expect_sum(g, 1U << rank, (1U << w->n) - 1, err));
    CO_TRY(sum_hash(g, rank, &w->shared->rank[rank].hash, err));
    CO_TRY(sum_hash(g, rank, &again, err));
    if (again != w->shared->rank[rank].hash) {
        return co_err_set(err, CO_INTERNAL, "the same call, other bits");
    }
    return rt_group_barrier(g, err);
}

static struct rt_group_options grown_options(struct coll_world *w, uint32_t rank) {
    struct rt_group_options o = world_options(w, rank);
    o.endpoints = new_ones.n ? new_ones.endpoints : o.endpoints;
    o.generation = 1;
    return o;
}

/* Rank 1 is killed and comes back; the others continue meanwhile. */
static int grows(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    uint64_t before = 0;
    CO_TRY(sum_hash(g, rank, &before, err));
    int rc = world_endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    CO_TRY(rt_group_shrink(g, NULL, &left, err));
    CO_TRY(expect_sum(left, 1U << rank, ((1U << w->n) - 1) & ~2U, err));
    struct rt_group_options o = grown_options(w, rank);
    CO_TRY(rt_group_grow(left, &o, &grown, err));
    CO_TRY(work_together(w, grown, rank, err));
    CO_TRY(expect_sum(left, 1, w->n - 1, err)); /* that one is still there */
    if (w->shared->rank[rank].hash != before) {
        return co_err_set(err, CO_INTERNAL, "the same ranks in the same places, other bits");
    }
    return 0;
}

static void a_rank_comes_back(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 3; n++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            uint32_t fresh = n == 3 && p < 2;
            struct coll_world w = {.n = n,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt,
                .kind = RT_ALL_REDUCE};
            new_ones = (struct coll_world){.n = fresh * 3};
            world_ports(&new_ones);
            world_start(&w, grows);
            assert_true(world_ready(&w));
            kill(w.pid[1], SIGKILL);
            (void)waitpid(w.pid[1], NULL, 0);
            w.generation = 1;
            if (fresh) {
                memcpy(w.endpoint, new_ones.endpoint, sizeof(w.endpoint));
            }
            world_start_rank(&w, 1, work_together);
            assert_int_equal(world_end(&w, 0), 0);
            assert_int_equal(w.shared->rank[0].hash, w.shared->rank[1].hash);
            assert_int_equal(w.shared->rank[n - 1].hash, w.shared->rank[1].hash);
            world_done(&w);
        }
    }
}

/* Nobody comes, or one of the old ones cannot: everybody continues with what there is. */
static int grows_in_vain(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_group *grown = NULL;
    struct rt_group_options o = grown_options(w, rank);
    o.form_timeout_ms = 300;
    o.size = w->n + 1;
    int rc = rt_group_grow(g, &o, &grown, err);
    if (rc != CO_TIMEOUT) {
        return co_err_set(err, CO_INTERNAL, "grown by nobody: %d", rc);
    }
    o = grown_options(w, rank);
    o.rank = rank == 1 ? w->n : rank; /* there is no such rank */
    o.form_timeout_ms = 300;
    rc = rt_group_grow(g, &o, &grown, err);
    if (rc != CO_INVALID) {
        return co_err_set(err, CO_INTERNAL, "grown without one: %d", rc);
    }
    return expect_sum(g, 1, w->n, err);
}

static void a_group_that_cannot_grow_stays(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        new_ones = (struct coll_world){.n = 3};
        world_ports(&new_ones);
        assert_int_equal(world_run(&w, grows_in_vain), 0);
    }
}

/* Calls on sockets of a rank that grows a group of three over TCP, its monitor's among them: to
 * the first, and from the third on, when the others may be waiting for the new rank. */
enum { GROW_MS = 2000 }; /* nobody comes */
static const struct kill_stage growings[] = {
    {"1", .call = 1}, {"2", .call = 2}, {"3", .call = 3}, {"5", .call = 5}, {"8", .call = 8}};

/* One of those that grow is killed while they wait for the new one, who does not come. */
static int grows_until_lost(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_group *grown = NULL;
    struct rt_group_options o = world_options(w, rank);
    const char *endpoints[WORLD_MAX];
    memcpy(endpoints, w->endpoints, sizeof(endpoints));
    endpoints[w->n] = new_ones.endpoints[0];
    o.endpoints = endpoints;
    o.size = w->n + 1;
    o.form_timeout_ms = w->signal ? GROW_MS : o.form_timeout_ms;
    o.generation = 1;
    int rc = rt_group_barrier(g, err);
    atomic_fetch_add(&w->shared->ready, 1);
    if (w->signal && rank == w->victim) {
        stage_arm(w, &growings[w->stage], w->signal, NULL, 0);
    }
    if (rc == 0) {
        rc = rt_group_grow(g, &o, &grown, err);
    }
    if (w->signal && rank == w->victim) {
        stage_end();
    }
    return rc;
}

/* Hit at each of its calls, or when growing was in vain.  Stopped, it is late for the others as
 * the new one is. */
static void a_rank_may_be_hit_while_the_group_grows(void **state) {
    (void)state;
    enum { EACH = 2 * CO_ARRAY_LEN(growings) };
    static struct coll_world worlds[EACH * CO_ARRAY_LEN(world_places)];
    const int64_t most = 2 * GROW_MS + WORLD_STOP_MS; /* of one that is stopped */
    new_ones = (struct coll_world){.n = 1};
    world_ports(&new_ones);
    for (uint32_t k = 0; k < CO_ARRAY_LEN(worlds); k++) {
        const struct world_place *p = &world_places[k / EACH];
        uint32_t i = k % EACH;
        worlds[k] = (struct coll_world){.n = 3,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .call_ms = WORLD_STOP_MS,
            .stage = i / 2,
            .signal = i % 2 ? SIGSTOP : SIGKILL,
            .victim = i / 2 % 3};
        world_start(&worlds[k], grows_until_lost);
    }
    for (uint32_t k = 0; k < CO_ARRAY_LEN(worlds); k++) {
        struct coll_world *w = &worlds[k];
        siginfo_t s;
        for (uint32_t r = 0; r < w->n; r++) {
            (void)(r == w->victim || waitid(P_PID, (id_t)w->pid[r], &s, WEXITED | WNOWAIT));
        }
        kill(w->pid[w->victim], SIGCONT);
        assert_int_equal(world_end(w, UINT32_MAX), 0);
        for (uint32_t r = 0; r < w->n; r++) {
            int64_t took = w->shared->rank[r].ms - w->shared->struck_ms;
            int64_t may = w->signal == SIGKILL ? 0 : most;
            int code = w->shared->rank[r].code;
            bool known = code == CO_PEERLOST || code == CO_TIMEOUT;
            if (r != w->victim && (!known || took > may + LATE_MS)) {
                fail_msg("signal %d at call %s: rank %u: code %d after %lld ms: %s", w->signal,
                    growings[w->stage].name, r, code, (long long)took, w->shared->rank[r].text);
            }
            if (r != w->victim) {
                world_took_add(took - may);
            }
        }
        world_done(w);
    }
    /* All stopped ones end at the same moment, in which 60 processes want a busy machine. */
    assert_in_range(world_took_median() + most, 0, AGAIN_MS + most);
}

/* ---- all that live use the same group ---- */

static struct rt_group_options larger_options(const struct coll_world *w, uint32_t rank) {
    static const char *endpoints[WORLD_MAX];
    struct rt_group_options o = world_options(w, rank);
    memcpy(endpoints, w->endpoints, 3 * sizeof(endpoints[0]));
    endpoints[3] = new_ones.endpoints[0];
    o.endpoints = endpoints;
    o.size = 4;
    o.generation = 1;
    return o;
}

static void join_larger(
    const struct coll_world *w, uint32_t rank, struct rt_group_options *ret_options) {
    if (rank == 3) {
        *ret_options = larger_options(w, rank);
    }
}

enum { GREW = 1, STAYED };

/* One that grows is killed at any moment, just before the decision and after it, too. */
static int grows_or_not(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    if (rank == 3) {
        return rt_group_barrier(g, err); /* the new one */
    }
    struct rt_group_options o = larger_options(w, rank);
    const struct kill_stage at = {.call = (uint32_t)w->stage};
    CO_TRY(rt_group_barrier(g, err));
    atomic_fetch_add(&w->shared->ready, 1);
    if (rank == w->victim) {
        stage_arm(w, &at, SIGKILL, NULL, 0);
    }
    int rc = rt_group_grow(g, &o, &grown, err);
    w->shared->rank[rank].hash = rc == 0 ? GREW : STAYED;
    if (rank == w->victim) {
        stage_end();
    }
    return rc == 0 ? rt_group_barrier(grown, err) : rc;
}

static void survivors_of_a_group_that_grows_agree(void **state) {
    (void)state;
    enum { FIRST = 48, CALLS = 100 }; /* rank 2 decides in about its 60th, rank 0 in its 100th */
    const uint32_t step = CALLS / co_test_cases(CALLS, CALLS / 10);
    static struct coll_world w;
    for (uint32_t call = FIRST; call < FIRST + CALLS; call += step) {
        for (uint32_t victim = 0; victim < 3; victim++) {
            w = (struct coll_world){.n = 3,
                .transport = RT_TRANSPORT_TCP,
                .set = join_larger,
                .stage = call,
                .victim = victim};
            new_ones = (struct coll_world){.n = 1};
            world_ports(&new_ones);
            world_start(&w, grows_or_not);
            assert_true(world_ready(&w));
            world_start_rank(&w, 3, grows_or_not);
            assert_int_equal(world_end(&w, UINT32_MAX), 0);
            kill(w.pid[3], SIGKILL); /* it may wait for a group that does not form */
            (void)waitpid(w.pid[3], NULL, 0);
            uint64_t first = w.shared->rank[victim == 0].hash;
            uint64_t last = w.shared->rank[victim == 2 ? 1 : 2].hash;
            if (first == 0 || first != last) {
                world_print(&w);
                fail_msg("rank %u killed at call %u: %llu and %llu", victim, call,
                    (unsigned long long)first, (unsigned long long)last);
            }
            world_done(&w);
        }
    }
}

static void a_rank_that_dies_while_the_group_grows_is_named(void **state) {
    (void)state;
    struct coll_world w = {.n = 3, .call_ms = 4 * LATE_MS, .form_ms = 4 * LATE_MS};
    new_ones = (struct coll_world){.n = 1};
    world_ports(&new_ones);
    world_start(&w, grows_until_lost);
    assert_true(world_ready(&w));
    int64_t since = co_now_ms();
    kill(w.pid[1], SIGKILL);
    assert_int_equal(world_end(&w, 7), 0);
    for (uint32_t r = 0; r < w.n; r += 2) {
        assert_int_equal(w.shared->rank[r].code, CO_PEERLOST);
        assert_non_null(strstr(w.shared->rank[r].text, "rank 1 "));
        assert_in_range(w.shared->rank[r].ms - since, 0, LATE_MS);
    }
    world_done(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_continue),
        cmocka_unit_test(survivors_continue_without_a_stopped_rank),
        cmocka_unit_test(several_groups_shrink_at_once),
        cmocka_unit_test(started_calls_outlive_their_group),
        cmocka_unit_test(a_rank_may_die_while_others_shrink),
        cmocka_unit_test(a_rank_may_stop_while_others_shrink),
        cmocka_unit_test(a_rank_comes_back),
        cmocka_unit_test(a_group_that_cannot_grow_stays),
        cmocka_unit_test(a_rank_that_dies_while_the_group_grows_is_named),
        cmocka_unit_test(a_rank_may_be_hit_while_the_group_grows),
        cmocka_unit_test(survivors_of_a_group_that_grows_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
