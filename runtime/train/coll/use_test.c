/* Who may use a group: one thread at a time, and only in the process that opened it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/coll_testing.h"

/* What is refused needs no second; what is not waits for other ranks, which wait for it. */
enum { N = 1000, MARK = 7, REFUSED_S = 60 };

/* ---- forked children ---- */

static bool is_refused(int rc, struct co_err *err) {
    bool ok = rc == CO_INVALID && strstr(co_err_text(err), "forked");
    if (!ok) {
        printf("# %d: %s\n", rc, co_err_text(err));
    }
    *err = (struct co_err){0};
    return ok;
}

/* In the child: every call is refused, at once. */
static bool all_is_refused(struct rt_group *g, struct rt_work *work, void *memory) {
    static float v[N];
    uint32_t list[] = {0, 1};
    struct rt_coll c = {.kind = RT_BROADCAST, .out = v, .n = N};
    struct rt_group *other = NULL;
    struct rt_work *more = NULL;
    struct co_err err = {0};
    void *m = NULL;
    bool ok = true;
    ok &= is_refused(rt_all_reduce(g, v, v, N, RT_F32, RT_SUM, &err), &err);
    ok &= is_refused(rt_send(g, v, N, RT_F32, 1 - rt_group_rank(g), &err), &err);
    ok &= is_refused(rt_coll_start(g, &c, &more, &err), &err);
    ok &= rt_work_test(work) && is_refused(rt_work_wait(work, &err), &err);
    ok &= is_refused(rt_group_barrier(g, &err), &err);
    ok &= is_refused(rt_group_split(g, 0, 0, &other, &err), &err);
    ok &= is_refused(rt_group_sub(g, list, 2, 0, &other, &err), &err);
    ok &= is_refused(rt_group_shrink(g, NULL, &other, &err), &err);
    ok &= is_refused(rt_group_grow(g, &(struct rt_group_options){0}, &other, &err), &err);
    ok &= is_refused(rt_group_check(g, &err), &err);
    ok &= is_refused(rt_group_alloc(g, 1, &m, &err), &err);
    rt_group_abort(g, "the child's own error");
    rt_group_free(g, memory);
    rt_group_close(g); /* without a goodbye */
    return ok;
}

/* All ranks fork while a call is started, and continue as if they had not. */
static int forks(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float v[N];
    struct rt_coll c = {.kind = RT_BARRIER};
    struct rt_work *work = NULL;
    unsigned char *memory = NULL;
    int status = 1;
    CO_TRY(rt_group_alloc(g, N, (void **)&memory, err));
    CO_TRY(rt_group_barrier(g, err));
    memset(memory, MARK, N);
    /* Rank 0's call cannot end before its child has: rank 1 starts its own after that. */
    if (rank == 0) {
        CO_TRY(rt_coll_start(g, &c, &work, err));
    }
    (void)fflush(NULL);
    pid_t pid = rank == 0 ? fork() : -1;
    if (pid == 0) {
        (void)alarm(REFUSED_S);
        _exit(all_is_refused(g, work, memory) ? 0 : 1);
    }
    bool ended = pid < 0 || (waitpid(pid, &status, 0) == pid && status == 0);
    atomic_fetch_add(&w->shared->ready, rank == 0);
    if (!ended) {
        return co_err_set(err, CO_INTERNAL, "the child: status %x", (unsigned)status);
    }
    while (rank == 1 && atomic_load(&w->shared->ready) == 0) {
        (void)sched_yield();
    }
    if (rank != 0) {
        CO_TRY(rt_coll_start(g, &c, &work, err));
    }
    CO_TRY(rt_work_wait(work, err));
    for (int i = 0; i < 3; i++) {
        v[N - 1] = (float)(rank + 1);
        CO_TRY(rt_all_reduce(g, v, v, N, RT_F32, RT_SUM, err));
        if (v[N - 1] != 3) {
            return co_err_set(err, CO_INTERNAL, "a wrong sum");
        }
    }
    return memory[N - 1] == MARK ? 0 : co_err_set(err, CO_INTERNAL, "memory is gone");
}

static void a_forked_child_is_refused(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, forks), 0);
    }
}

/* Rank 1 dies; a child of it lives on. */
static int leaves_a_child(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    CO_TRY(rt_group_barrier(g, err));
    if (rank == 0) {
        return rt_group_barrier(g, err);
    }
    if (fork() == 0) {
        (void)poll(NULL, 0, WORLD_MS); /* until rank 0 has seen it, and the test kills it */
        _exit(0);
    }
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_child_does_not_hide_the_end_of_its_parent(void **state) {
    (void)state;
    /* Children of the dead become this process's. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    struct coll_world w = {.n = 2, .transport = RT_TRANSPORT_TCP};
    world_start(&w, leaves_a_child);
    (void)world_end(&w, 3);
    assert_int_equal(w.shared->rank[0].code, CO_PEERLOST);
    assert_non_null(strstr(w.shared->rank[0].text, "its process or machine has ended"));
    world_done(&w);
    /* Only the child is left. */
    CO_AUTOFREE char *path = co_xasprintf("/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    int child = 0;
    assert_true(f && fscanf(f, "%d", &child) == 1 && child > 1);
    (void)fclose(f);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- threads ---- */

struct other {
    struct rt_group *g;
    struct co_err err;
    int rc;
};

static void *receive(void *arg) {
    struct other *o = arg;
    static float v[N];
    o->rc = rt_recv(o->g, v, N, RT_F32, 1, &o->err);
    return NULL;
}

/* Rank 0 is in two calls at a time; rank 1 is notified. */
static int two_threads(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static float v[N];
    (void)w;
    int rc = 0;
    while (rank == 1 && (rc = rt_group_check(g, err)) == 0) {
        (void)sched_yield();
    }
    if (rank == 1) {
        return rc;
    }
    struct other o = {.g = g};
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, &o) != 0) {
        return co_err_set(err, CO_INTERNAL, "a thread");
    }
    while (!atomic_load(&g->busy)) {
        (void)sched_yield();
    }
    rc = rt_all_reduce(g, v, v, N, RT_F32, RT_SUM, err);
    (void)pthread_join(thread, NULL);
    return o.rc == CO_INVALID ? rc : co_err_set(err, CO_INTERNAL, "the first call: %d", o.rc);
}

static void two_threads_at_a_time_are_refused(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = WORLD_MS / 2};
        world_start(&w, two_threads);
        (void)world_end(&w, 3);
        assert_int_equal(w.shared->rank[0].code, CO_INVALID);
        assert_int_equal(w.shared->rank[1].code, CO_INVALID);
        assert_non_null(strstr(w.shared->rank[0].text, "all_reduce, while another thread"));
        world_done(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_child_does_not_hide_the_end_of_its_parent),
        cmocka_unit_test(two_threads_at_a_time_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
