/* During calls on GPUs a rank dies, stops, is late, leaves, or its libraries fail: the other ranks
 * must name it. */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/gpu_testing.h"

enum { SMALL = 100, SOON_MS = 60000, STARTED = 1 };

/* World w's kind of call, started or not, until it fails. */
static int endless(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const float zeros[SMALL * WORLD_MAX];
    void *in = gk_upload(g, zeros, sizeof(zeros)), *out = gk_upload(g, zeros, sizeof(zeros));
    (void)rank;
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        rc = world_call_in(g, w->kind, SMALL, in, out, w->how == STARTED, err);
        if (i == 5) {
            atomic_fetch_add(&w->shared->ready, 1);
        }
    }
    rt_group_free(g, in); /* which waits for the GPU: nothing hangs there any more */
    rt_group_free(g, out);
    return rc;
}

static void wait_ready(struct coll_world *w) {
    int64_t end = co_now_ms() + WORLD_MS;
    while (atomic_load(&w->shared->ready) < w->n && co_now_ms() < end) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&w->shared->ready), w->n);
}

/* All ranks but that one end with the code and a text that has this in it. */
static void assert_end(struct coll_world *w, uint32_t but, int code, const char *text) {
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    for (uint32_t r = 0; r < w->n; r++) {
        if (r != but &&
            (w->shared->rank[r].code != code || !strstr(w->shared->rank[r].text, text))) {
            fail_msg("%s: rank %u of %u: code %d: %s; expected %d: %s", rt_kind_name(w->kind), r,
                w->n, w->shared->rank[r].code, w->shared->rank[r].text, code, text);
        }
    }
}

/* On real GPUs as many ranks as there are, but no more than n; a test of several is skipped where
 * there is one. */
static uint32_t ranks_of(uint32_t n) {
    if (gk_least(n) < 2) {
        printf("# one GPU\n");
        skip();
    }
    return gk_least(n);
}

static void end_hit(struct coll_world *w, int signal) {
    for (uint32_t r = 0; r < w->n; r += 2) {
        siginfo_t s;
        (void)waitid(P_PID, (id_t)w->pid[r], &s, WEXITED | WNOWAIT);
    }
    kill(w->pid[1], SIGCONT);
    assert_end(w, 1, CO_PEERLOST, "rank 1 ");
    for (uint32_t r = 0; r < w->n; r += 2) {
        int64_t took = w->shared->rank[r].ms - w->shared->struck_ms;
        took -= signal == SIGSTOP ? w->call_ms : 0;
        world_took_add(took);
        assert_true(took < SOON_MS);
    }
    world_done(w);
}

/* Rank 1 is hit in the middle of calls of each kind, made and started; RT_RECV is in RT_SEND.
 * Worlds end side by side, but real GPUs have memory for one. */
static void hit_in_every_kind(int signal, int64_t call_ms) {
    static struct coll_world worlds[2 * RT_KINDS];
    uint32_t ranks = ranks_of(3), n = 0;
    for (uint32_t i = 0; i < 2 * RT_KINDS; i++) {
        struct coll_world *w = &worlds[n];
        if (i / 2 == RT_RECV) {
            continue;
        }
        *w = (struct coll_world){
            .n = ranks, .set = gk_on_gpus, .call_ms = call_ms, .kind = i / 2, .how = i % 2};
        world_start(w, endless);
        wait_ready(w);
        atomic_store(&w->shared->struck_ms, co_now_ms());
        kill(w->pid[1], signal);
        if (gk_real) {
            end_hit(w, signal);
        } else {
            n++;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        end_hit(&worlds[i], signal);
    }
    assert_in_range(world_took_median() + call_ms, 0, 2 * WORLD_SOON_MS + call_ms);
}

static void killed_ranks_are_named(void **state) {
    (void)state;
    hit_in_every_kind(SIGKILL, 4 * SOON_MS);
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    hit_in_every_kind(SIGSTOP, WORLD_STOP_MS);
}

static void fails_of_another(
    const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    gk_on_gpus(w, rank, ret);
    if (rank == 2) {
        (void)setenv("STANDIN_NCCL_FAIL", "7", 1);
    }
}

/* w->signal hits rank 1.  After SIGSTOP it may still answer, until all of its threads have noticed;
 * the test says when. */
static int hits_before_it_fails(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        if (i == 6 && rank == 2) {
            kill(w->pid[1], w->signal);
            int64_t end = co_now_ms() + WORLD_MS;
            while (w->signal == SIGSTOP && !atomic_load(&w->shared->ready) && co_now_ms() < end) {
                (void)poll(NULL, 0, 1);
            }
        }
        rc = rt_group_barrier(g, err);
    }
    return rc;
}

/* NCCL of one rank fails of another one's death, and at once. */
static void a_killed_rank_is_named_although_nccl_fails_first(void **state) {
    (void)state;
    struct coll_world w = {.n = 3, .set = fails_of_another, .signal = SIGKILL};
    world_start(&w, hits_before_it_fails);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 ");
    world_done(&w);
}

/* As one that the kernel has not ended yet, on a machine with far too much to do. */
static void a_silent_rank_is_named_although_nccl_fails(void **state) {
    (void)state;
    struct coll_world w = {
        .n = 3, .set = fails_of_another, .signal = SIGSTOP, .call_ms = 4 * SOON_MS};
    siginfo_t s;
    world_start(&w, hits_before_it_fails);
    (void)waitid(P_PID, (id_t)w.pid[1], &s, WSTOPPED | WEXITED | WNOWAIT);
    atomic_store(&w.shared->ready, 1);
    for (uint32_t r = 0; r < w.n; r += 2) {
        (void)waitid(P_PID, (id_t)w.pid[r], &s, WEXITED | WNOWAIT);
    }
    kill(w.pid[1], SIGCONT);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 ");
    world_done(&w);
}

static int late(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    CO_TRY(rt_group_barrier(g, err));
    while (rank == 1) { /* until the others have given it up */
        CO_TRY(rt_group_check(g, err));
        (void)poll(NULL, 0, 5);
    }
    return rt_group_barrier(g, err);
}

static void late_ranks_are_named(void **state) {
    (void)state;
    struct coll_world w = {.n = ranks_of(3), .set = gk_on_gpus, .call_ms = WORLD_STOP_MS};
    world_start(&w, late);
    assert_end(&w, 1, CO_TIMEOUT, "rank 1 (127.0.0.1");
    world_done(&w);
}

static bool at_once(void) {
    return true;
}

/* Rank 0 waits for rank 1, which never comes, until the program of rank 0 wants to end that. */
static int ended(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    CO_TRY(rt_group_barrier(g, err));
    while (rank == 1) {
        CO_TRY(rt_group_check(g, err));
        (void)poll(NULL, 0, 5);
    }
    rt_interrupt(at_once);
    int rc = rt_group_barrier(g, err);
    rt_interrupt(NULL);
    return rc;
}

static void a_program_ends_its_wait_for_a_gpu(void **state) {
    (void)state;
    struct coll_world w = {.n = ranks_of(2), .set = gk_on_gpus, .call_ms = 4 * SOON_MS};
    world_start(&w, ended);
    assert_end(&w, 0, CO_PEERLOST, "rank 0 (127.0.0.1");
    assert_int_equal(w.shared->rank[0].code, CO_CANCELED);
    world_done(&w);
}

static int leaves(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    int rc = rt_group_barrier(g, err);
    return rc < 0 || rank == 1 ? rc : rt_group_barrier(g, err);
}

static void ranks_that_left_are_named(void **state) {
    (void)state;
    struct coll_world w = {.n = ranks_of(3), .set = gk_on_gpus, .call_ms = 4 * SOON_MS};
    world_start(&w, leaves);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 (127.0.0.1");
    assert_int_equal(w.shared->rank[1].code, 0);
    assert_true(w.shared->rank[0].ms - w.shared->rank[1].ms < SOON_MS);
    world_done(&w);
}

static int differ(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const float zeros[SMALL];
    void *memory = gk_upload(g, zeros, sizeof(zeros));
    (void)w;
    return rt_all_reduce(g, memory, memory, rank == 1 ? 10 : SMALL, RT_F32, RT_MAX, err);
}

static void calls_that_differ_are_noticed(void **state) {
    (void)state;
    struct coll_world w = {.n = ranks_of(2), .set = gk_on_gpus};
    world_start(&w, differ);
    assert_int_equal(world_end(&w, UINT32_MAX), 0);
    assert_int_equal(w.shared->rank[0].code, CO_INVALID);
    assert_int_equal(w.shared->rank[1].code, CO_INVALID);
    world_done(&w);
}

static const char *fault; /* a variable of the stand-ins, and its value, of rank 1 */

static void with_fault(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    gk_on_gpus(w, rank, ret);
    if (rank == 1) {
        CO_AUTOFREE char *name = co_xstrndup(fault, strcspn(fault, "="));
        (void)setenv(name, strchr(fault, '=') + 1, 1);
    }
}

/* What one rank's libraries do, and what all ranks say of it. */
static const struct {
    const char *fault;
    uint32_t but;
    int code;
    const char *text;
} faults[] = {
    {"STANDIN_NCCL_FAIL=5", UINT32_MAX, CO_UNAVAILABLE, "rank 1"},
    {"STANDIN_NCCL_FAIL=5", 0, CO_UNAVAILABLE, "unhandled system error: the stand-in was told"},
    {"STANDIN_NCCL_FAIL=0", UINT32_MAX, CO_UNAVAILABLE, "rank 1"},
    {"STANDIN_NCCL_DIE=1", 1, CO_PEERLOST, "rank 1 "},
    {"STANDIN_NCCL_STUCK=1", UINT32_MAX, CO_TIMEOUT, "rank"},
    {"STANDIN_NCCL_VERSION=22804", UINT32_MAX, CO_INVALID,
        "has NCCL 22804, rank 0 has 22703: all must have the same"},
    {"STANDIN_NCCL_VERSION=21203", UINT32_MAX, CO_UNSUPPORTED, "NCCL 21203, older than 21800"},
    {"STANDIN_GPUS=1", UINT32_MAX, CO_INVALID, "no GPU 1: this process sees 1"},
    {"STANDIN_GPUS=0", UINT32_MAX, CO_UNSUPPORTED, "no CUDA-capable device is detected"},
    {"STANDIN_INIT=3", UINT32_MAX, CO_UNSUPPORTED,
        "(3): a process that was forked from one with CUDA"},
    {"STANDIN_INIT=999", UINT32_MAX, CO_UNSUPPORTED, "look for GPUs"},
    {"STANDIN_MEMORY=1", UINT32_MAX, CO_NOMEMORY,
        "4 bytes on GPU 1: CUDA: allocate memory: out of"},
    {"FLAGS_nccl_dir=/none", UINT32_MAX, CO_UNSUPPORTED,
        "cannot load the library libnccl.so.2: /none/libnccl.so.2: cannot open shared object"},
};

static void faults_of_one_rank_are_reported_to_all(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(faults); i++) {
        bool hangs = faults[i].code == CO_TIMEOUT;
        struct coll_world w = {.n = 3, .set = with_fault, .call_ms = hangs ? WORLD_STOP_MS : 0};
        fault = faults[i].fault;
        world_start(&w, endless);
        uint32_t but = faults[i].but;
        assert_int_equal(world_end(&w, UINT32_MAX), 0);
        for (uint32_t r = 0; r < w.n; r++) {
            bool said = w.shared->rank[r].code == faults[i].code &&
                        strstr(w.shared->rank[r].text, faults[i].text);
            if (but == 0 ? r == 1 && !said : r != but && !said) {
                world_print(&w);
                fail_msg("%s: rank %u says something else", fault, r);
            }
        }
        world_done(&w);
    }
}

static int shrinks(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool gone[WORLD_MAX];
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    int rc = endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    CO_TRY(rt_group_shrink(g, gone, &left, err));
    CO_TRY(gk_ones(left, w->n - 1, err));
    return gone[1] ? 0 : co_err_set(err, CO_INTERNAL, "rank 1 is there");
}

static void surviving_ranks_continue(void **state) {
    (void)state;
    struct coll_world w = {.n = ranks_of(3), .set = gk_on_gpus};
    world_start(&w, shrinks);
    wait_ready(&w);
    kill(w.pid[1], SIGKILL);
    assert_int_equal(world_end(&w, 1 << 1), 0);
    world_done(&w);
}

static void a_gpu_is_not_used_twice(void **state) {
    (void)state;
    (void)setenv("STANDIN_SAME", "1", 1);
    struct coll_world w = {.n = 2, .set = gk_on_gpus};
    world_start(&w, endless);
    assert_end(&w, UINT32_MAX, CO_INVALID, "ranks 1 (127.0.0.1");
    world_done(&w);
    (void)unsetenv("STANDIN_SAME");
}

int main(int argc, char **argv) {
    static const struct CMUnitTest real[] = {
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(a_program_ends_its_wait_for_a_gpu),
        cmocka_unit_test(ranks_that_left_are_named),
        cmocka_unit_test(calls_that_differ_are_noticed),
        cmocka_unit_test(surviving_ranks_continue),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(a_killed_rank_is_named_although_nccl_fails_first),
        cmocka_unit_test(a_silent_rank_is_named_although_nccl_fails),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(a_program_ends_its_wait_for_a_gpu),
        cmocka_unit_test(ranks_that_left_are_named),
        cmocka_unit_test(calls_that_differ_are_noticed),
        cmocka_unit_test(faults_of_one_rank_are_reported_to_all),
        cmocka_unit_test(surviving_ranks_continue),
        cmocka_unit_test(a_gpu_is_not_used_twice),
    };
    return gk_begin(argc, argv) ? cmocka_run_group_tests_name("real", real, NULL, NULL)
                                : cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
