/* Tests groups of groups, started calls, and the places where ranks may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "runtime/train/coll/coll_testing.h"

enum { N = 40000 };

static int splits(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    CO_CLEANUP(rt_group_closep) struct rt_group *pair = NULL;
    uint32_t own = rank + 1, sum = 0, pairs[2] = {0, w->n - 1};
    CO_TRY(rt_group_split(g, (int32_t)(rank % 2), -(int32_t)rank, &part, err));
    CO_TRY(rt_all_reduce(part, &own, &sum, 1, RT_I32, RT_SUM, err));
    uint32_t want = rank % 2 ? 2 + 4 : 1 + 3 + 5;
    if (sum != want || (rank >= 3 && rt_group_rank(part) != 0)) {
        return co_err_set(err, CO_INTERNAL, "sum %u, rank %u", sum, rt_group_rank(part));
    }
    if (rank == 0 || rank == w->n - 1) {
        CO_TRY(rt_group_sub(g, pairs, 2, 9, &pair, err));
        CO_TRY(rt_group_barrier(pair, err));
    }
    return rt_group_barrier(g, err);
}

static void groups_split(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 5,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, splits), 0);
    }
}

/* ---- started calls ---- */

static int starts(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float v[8][N];
    struct rt_work *work[8];
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t k = 0; k < N; k++) {
            v[i][k] = (float)(rank + i);
        }
        struct rt_coll c = {.kind = RT_ALL_REDUCE, .in = v[i], .out = v[i], .n = N};
        CO_TRY(rt_coll_start(g, &c, &work[i], err));
    }
    CO_TRY(rt_group_barrier(g, err)); /* after all of them */
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t sum = w->n * i + w->n * (w->n - 1) / 2;
        float want = (float)sum;
        if (!rt_work_test(work[i])) {
            return co_err_set(err, CO_INTERNAL, "call %u has not ended", i);
        }
        CO_TRY(rt_work_wait(work[i], err));
        if (v[i][0] != want || v[i][N - 1] != want) {
            return co_err_set(err, CO_INTERNAL, "call %u: %f", i, (double)v[i][0]);
        }
    }
    return 0;
}

static void started_calls_keep_their_order(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, starts), 0);
    }
}

/* Rank 1 has started a call that the others do not make, and fails for reasons of its own. */
static int gives_up(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float v[N];
    struct rt_work *work = NULL;
    struct rt_coll c = {.kind = RT_ALL_REDUCE, .in = v, .out = v, .n = N};
    struct co_err why = {0};
    int64_t since = co_now_ms();
    int rc = rt_group_barrier(g, &why); /* others may still be in it when rank 1 gives up */
    if (rc == 0 && rank == 1) {
        rc = rt_coll_start(g, &c, &work, &why);
        rt_group_abort(g, "ValueError: bad batch");
        if (rc == 0) {
            rc = rt_work_wait(work, &why);
        }
    }
    while (rc == 0 && rank != 1) {
        rc = rt_group_check(g, &why);
        (void)sched_yield();
    }
    bool right = rank == 1 ? rc == CO_CANCELED : rc == CO_PEERLOST;
    right &= strstr(co_err_text(&why), "rank 1 (127.0.0.1:") != NULL || rank == 1;
    right &= strstr(co_err_text(&why), " has given the group up: ValueError: bad batch") != NULL;
    return right && co_now_ms() - since < w->call_ms
               ? 0
               : co_err_set(err, CO_INTERNAL, "code %d: %s", rc, co_err_text(&why));
}

static void a_group_is_given_up_at_once(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = 100000};
        assert_int_equal(world_run(&w, gives_up), 0);
    }
}

/* ---- sends and receives ---- */

enum { MUCH = 3 << 20 /* more than sockets and rings hold */, BLOCK = 512 };

static void fill(unsigned char *p, size_t n, uint32_t from, uint32_t to, uint32_t k) {
    for (size_t i = 0; i < n; i += BLOCK) {
        memset(p + i, (int)(i / BLOCK * 31 + from * 7 + to * 3 + k) & 255, BLOCK);
    }
}

static int check(unsigned char *got, unsigned char *want, size_t n, uint32_t from, uint32_t to,
    uint32_t k, struct co_err *err) {
    fill(want, n, from, to, k);
    return memcmp(got, want, n) == 0
               ? 0
               : co_err_set(err, CO_INTERNAL, "message %u from %u to %u", k, from, to);
}

/* Everybody starts to send to all others, twice, before he receives: the last one without a
 * handle. */
static int exchanges(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { TWICE = 2 };
    struct rt_work *work[2 * TWICE * WORLD_MAX];
    CO_AUTOFREE unsigned char *out = co_xcalloc((size_t)w->n * TWICE, MUCH);
    CO_AUTOFREE unsigned char *in = co_xcalloc((size_t)w->n * TWICE, MUCH);
    uint32_t n_work = 0, last = rank == 0 ? w->n - 1 : 0, all = w->n * TWICE;
    for (uint32_t i = 0; i < all; i++) {
        struct rt_coll c = {.kind = RT_SEND,
            .dtype = RT_U8,
            .in = out + (size_t)i * MUCH,
            .n = MUCH,
            .root = i / TWICE};
        fill(out + (size_t)i * MUCH, MUCH, rank, c.root, i % TWICE);
        if (c.root != rank) {
            CO_TRY(rt_coll_start(g, &c, &work[n_work++], err));
        }
    }
    for (uint32_t i = 0; i < all; i++) {
        struct rt_coll c = {.kind = RT_RECV,
            .dtype = RT_U8,
            .out = in + (size_t)i * MUCH,
            .n = MUCH,
            .root = i / TWICE};
        if (c.root != rank && (c.root != last || i % TWICE == 0)) {
            CO_TRY(rt_coll_start(g, &c, &work[n_work++], err));
        }
    }
    CO_TRY(rt_recv(g, in + (size_t)(last * TWICE + 1) * MUCH, MUCH, RT_U8, last, err));
    for (uint32_t i = 0; i < n_work; i++) {
        CO_TRY(rt_work_wait(work[i], err));
    }
    for (uint32_t i = 0; i < all; i++) {
        uint32_t from = i / TWICE;
        size_t at = (size_t)i * MUCH;
        if (from != rank) {
            CO_TRY(check(in + at, out + at, MUCH, from, rank, i % TWICE, err));
        }
    }
    return rt_group_barrier(g, err);
}

static void ranks_may_send_before_they_receive(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        for (uint32_t n = 2; n <= 4; n += 2) {
            struct coll_world w = {.n = n,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt};
            assert_int_equal(world_run(&w, exchanges), 0);
        }
    }
}

/* What is started between two calls of all ranks stays there. */
static int mixes(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static int32_t sent[4][N], got[4][N], sum[4][N];
    struct rt_work *work[12];
    uint32_t next = (rank + 1) % w->n, last = (rank + w->n - 1) % w->n, n = 0;
    for (uint32_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < N; i++) {
            sent[k][i] = (int32_t)(rank * 1000 + k);
        }
        struct rt_coll calls[3] = {
            {.kind = RT_SEND, .dtype = RT_I32, .in = sent[k], .n = N, .root = next},
            {.kind = RT_RECV, .dtype = RT_I32, .out = got[k], .n = N, .root = last},
            {.kind = RT_ALL_REDUCE, .dtype = RT_I32, .in = got[k], .out = sum[k], .n = N}};
        for (uint32_t i = 0; i < 3; i++) {
            CO_TRY(rt_coll_start(g, &calls[i], &work[n++], err));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        CO_TRY(rt_work_wait(work[i], err));
    }
    for (uint32_t k = 0; k < 4; k++) {
        int32_t want = (int32_t)(1000 * w->n * (w->n - 1) / 2 + w->n * k);
        if (got[k][N - 1] != (int32_t)(last * 1000 + k) || sum[k][0] != want ||
            sum[k][N - 1] != want) {
            return co_err_set(err, CO_INTERNAL, "turn %u: %d, sum %d", k, got[k][0], sum[k][0]);
        }
    }
    return 0;
}

static void sends_keep_their_place_among_calls_of_all(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, mixes), 0);
    }
}

/* ---- where ranks are ---- */

static void groups_form_over_ipv6(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 5,
            .v6 = true,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, splits), 0);
    }
}

/* A container of its own, in the pod's network: other processes, mounts, /dev/shm and IPC. */
static void enter_container(struct coll_world *w, uint32_t rank) {
    (void)w;
    (void)rank;
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) < 0) {
        exit(1);
    }
    pid_t pid = fork();
    if (pid != 0) {
        int status = 1;
        (void)waitpid(pid, &status, 0);
        exit(status != 0);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("shm", "/dev/shm", "tmpfs", 0, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0) {
        exit(1);
    }
}

static bool may_make_containers(void) {
    pid_t pid = fork();
    if (pid == 0) {
        enter_container(NULL, 0);
        exit(0);
    }
    int status = 1;
    (void)waitpid(pid, &status, 0);
    return status == 0;
}

static int shares_memory(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    if ((w->enter && getpid() != 1) || rt_group_local_size(g) != w->n) {
        return co_err_set(err, CO_INTERNAL, "process %d shares memory with %u of %u", (int)getpid(),
            rt_group_local_size(g), w->n);
    }
    return exchanges(w, g, rank, err);
}

static void containers_of_a_pod_share_memory(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    assert_int_equal(world_run(&w, shares_memory), 0);
    w.enter = enter_container;
    if (!may_make_containers()) {
        printf("# no namespaces may be made here\n");
        skip();
    }
    assert_int_equal(world_run(&w, shares_memory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_split),
        cmocka_unit_test(started_calls_keep_their_order),
        cmocka_unit_test(a_group_is_given_up_at_once),
        cmocka_unit_test(ranks_may_send_before_they_receive),
        cmocka_unit_test(sends_keep_their_place_among_calls_of_all),
        cmocka_unit_test(groups_form_over_ipv6),
        cmocka_unit_test(containers_of_a_pod_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
