/* A job in two network namespaces, which stand for two pods on different machines: two ranks in
 * each, and a veth pair between them.
 *
 *     namespace 0                          namespace 1
 *     ranks 0 1 -- shared memory           ranks 2 3 -- shared memory
 *     10.77.0.1 left <==== TCP ====> right 10.77.0.2
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/contract.h"
#include "common/network_testing.h"
#include "runtime/train/coll/coll_testing.h"

enum { RANKS = 4, EACH = 2, N = 300000, LATE_MS = 60000 };

static int namespaces[2] = {-1, -1};

/* ---- namespaces ---- */

static bool run_in(int which, const char *command) {
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(setns(namespaces[which], CLONE_NEWNET) < 0 || system(command) != 0);
    }
    int status = 1;
    (void)waitpid(pid, &status, 0);
    return status == 0;
}

/* Nobody has to take this apart: it goes with the last process in it. */
static int make_network(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        namespaces[i] =
            co_test_network_new() ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1;
        if (namespaces[i] < 0) {
            printf("# a network namespace: %s\n", strerror(errno));
            return 0;
        }
    }
    CO_AUTOFREE char *left = co_xasprintf("ip link set lo up && "
                                          "ip link add left type veth peer right netns %d && "
                                          "ip addr add 10.77.0.1/24 dev left && "
                                          "ip link set left up",
        (int)getpid()); /* which is in the second one */
    return run_in(0, left) &&
                   run_in(1, "ip link set lo up && ip addr add 10.77.0.2/24 dev right && "
                             "ip link set right up")
               ? 0
               : -1;
}

/* ---- ranks ---- */

/* Into its pod, with the environment that the operator or a launcher gives it. */
static void enter_pod(struct coll_world *w, uint32_t rank) {
    struct co_err err = {0};
    char address[RANKS][32], number[12];
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)snprintf(address[r], sizeof(address[r]), "10.77.0.%u%s", 1 + r / EACH,
            strrchr(w->endpoint[r], ':'));
    }
    CO_AUTOFREE char *list =
        co_xasprintf("%s,%s,%s,%s", address[0], address[1], address[2], address[3]);
    (void)snprintf(number, sizeof(number), "%u", rank);
    (void)setenv(co_contract[CO_VAR_TRAINING_ROLE].name, "TRAINER", 1);
    (void)setenv(co_contract[CO_VAR_TRAINER_ENDPOINTS].name, list, 1);
    (void)setenv(co_contract[CO_VAR_TRAINERS_NUM].name, "4", 1);
    (void)setenv(co_contract[CO_VAR_TRAINER_ID].name, number, 1);
    if (setns(namespaces[rank / EACH], CLONE_NEWNET) < 0 || rt_init(&w->job, &err) < 0) {
        printf("# rank %u: %s\n", rank, co_err_text(&err));
        exit(1);
    }
}

static void by_contract(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    (void)w;
    (void)rank;
    ret->endpoints = NULL;
}

static struct coll_world pods(void) {
    return (struct coll_world){
        .n = RANKS, .call_ms = WORLD_STOP_MS, .enter = enter_pod, .set = by_contract};
}

static void skip_without_namespaces(void) {
    if (namespaces[1] < 0) {
        skip();
    }
}

static int adds(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const size_t counts[] = {1, 1000, N};
    static float v[N];
    (void)w;
    if (rt_group_size(g) != RANKS || rt_group_local_size(g) != EACH) {
        return co_err_set(err, CO_INTERNAL, "%u ranks, %u share memory", rt_group_size(g),
            rt_group_local_size(g));
    }
    for (size_t k = 0; k < CO_ARRAY_LEN(counts); k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            v[i] = (float)(i % 1000 + rank * rank);
        }
        CO_TRY(rt_all_reduce(g, v, v, counts[k], RT_F32, RT_SUM, err));
        for (size_t i = 0; i < counts[k]; i++) {
            float want = (float)(RANKS * (i % 1000) + 0 + 1 + 4 + 9);
            if (v[i] != want) {
                return co_err_set(err, CO_INTERNAL, "element %zu of %zu is %g, not %g", i,
                    counts[k], (double)v[i], (double)want);
            }
        }
    }
    return rt_group_barrier(g, err);
}

static void pods_of_two_ranks_are_one_group(void **state) {
    (void)state;
    skip_without_namespaces();
    struct coll_world w = pods();
    assert_int_equal(world_run(&w, adds), 0);
}

/* ---- faults ---- */

/* All ranks but `but` have ended with this rank's name, those of the pods with their own. */
static void assert_named(
    struct coll_world *w, uint32_t but, int64_t since, int64_t ms, const uint32_t names[2]) {
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    for (uint32_t r = 0; r < w->n; r++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "rank %u (", names[r / EACH]);
        int64_t took = w->shared->rank[r].ms - since;
        if (r != but) {
            world_took_add(took - (w->call_ms < LATE_MS ? w->call_ms : 0));
        }
        if (r != but && (w->shared->rank[r].code != CO_PEERLOST || took > ms ||
                            !strstr(w->shared->rank[r].text, name))) {
            fail_msg("%s: rank %u: code %d after %lld ms: %s", rt_kind_name(w->kind), r,
                w->shared->rank[r].code, (long long)took, w->shared->rank[r].text);
        }
    }
}

static const enum rt_kind hit[] = {RT_ALL_REDUCE, RT_BROADCAST, RT_ALL_TO_ALL, RT_BARRIER};

static void a_killed_rank_is_named_in_both_pods(void **state) {
    (void)state;
    skip_without_namespaces();
    for (uint32_t i = 0; i < CO_ARRAY_LEN(hit); i++) {
        struct coll_world w = pods();
        w.kind = hit[i];
        w.call_ms = 4 * LATE_MS; /* it is not the deadline that reports it */
        world_start(&w, world_endless);
        assert_true(world_ready(&w));
        uint32_t victim = i % RANKS;
        int64_t now = co_now_ms();
        kill(w.pid[victim], SIGKILL);
        assert_named(&w, victim, now, LATE_MS, (const uint32_t[]){victim, victim});
        world_done(&w);
    }
    assert_in_range(world_took_median(), 0, 2 * WORLD_SOON_MS);
}

/* Nobody gets an error: packets vanish.  Each pod names the first rank of the other one. */
static void a_link_that_goes_down_ends_at_the_deadline(void **state) {
    (void)state;
    skip_without_namespaces();
    for (int side = 0; side < 2; side++) {
        struct coll_world worlds[CO_ARRAY_LEN(hit)];
        for (uint32_t i = 0; i < CO_ARRAY_LEN(hit); i++) {
            worlds[i] = pods();
            worlds[i].kind = hit[i];
            world_start(&worlds[i], world_endless);
            assert_true(world_ready(&worlds[i]));
        }
        int64_t now = co_now_ms();
        assert_true(run_in(side, side ? "ip link set right down" : "ip link set left down"));
        for (uint32_t i = 0; i < CO_ARRAY_LEN(hit); i++) {
            struct coll_world *w = &worlds[i];
            assert_named(w, RANKS, now, w->call_ms + LATE_MS, (const uint32_t[]){EACH, 0});
            world_done(w);
        }
        assert_true(run_in(side, side ? "ip link set right up" : "ip link set left up"));
    }
    /* Another turn of asking would take half of the limit. */
    assert_in_range(world_took_median() + WORLD_STOP_MS, 0, WORLD_STOP_MS + WORLD_STOP_MS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_of_two_ranks_are_one_group),
        cmocka_unit_test(a_killed_rank_is_named_in_both_pods),
        cmocka_unit_test(a_link_that_goes_down_ends_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, make_network, NULL);
}
