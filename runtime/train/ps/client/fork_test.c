/* A child that the program forks, as data loaders do, cannot use its parent's client: it has none
 * of its threads, and would speak on its connections.  The parent continues as if there was
 * none. */
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/train/ps/client/client_testing.h"

static bool is_refused(int rc, struct co_err *err) {
    bool ok = rc == CO_INVALID && strstr(err->msg, "forked");
    if (!ok) {
        printf("# %d: %s\n", rc, err->msg);
    }
    *err = (struct co_err){0};
    return ok;
}

/* In the child.  started: a pull that the parent has not waited for. */
static bool all_is_refused(struct rt_client *c, struct rt_call *started) {
    static float v[SIZE];
    uint64_t ids[] = {1, 2}, erased;
    struct rt_pull pull = {.table = 1, .ids = ids, .n = 2, .ret_rows = v};
    struct rt_rate rate;
    struct rt_place place;
    struct rt_checkpoint made;
    struct rt_table_stat stat;
    struct rt_call *call = NULL;
    struct co_err err = {0};
    bool ok = true;
    ok &= is_refused(rt_wait(started, &err), &err);
    ok &= is_refused(rt_init_dense(c, 0, v, &err), &err);
    ok &= is_refused(rt_pull_dense(c, 0, v, &err), &err);
    ok &= is_refused(rt_push_dense(c, 0, v, &err), &err);
    ok &= is_refused(rt_exchange_dense(c, 0, v, v, &err), &err);
    ok &= is_refused(rt_pull_sparse(c, 1, ids, 2, v, &err), &err);
    ok &= is_refused(rt_pull_sparse_many(c, &pull, 1, &err), &err);
    ok &= is_refused(rt_pull_sparse_start(c, 1, ids, 2, v, &call, &err), &err);
    ok &= is_refused(rt_push_sparse(c, 1, ids, 2, v, &err), &err);
    ok &= is_refused(rt_push_sparse_clicks(c, 1, ids, 2, v, v, v, &err), &err);
    ok &= is_refused(rt_shrink(c, 1, &erased, &err), &err);
    ok &= is_refused(rt_step(c, &err), &err);
    ok &= is_refused(rt_no_more(c, &err), &err);
    ok &= is_refused(rt_get_rate(c, 0, &rate, &err), &err);
    ok &= is_refused(rt_set_rate(c, 0, 1, &err), &err);
    ok &= is_refused(rt_flush(c, &err), &err);
    ok &= is_refused(rt_barrier(c, &err), &err);
    ok &= is_refused(rt_keep(c, v, 1, &err), &err);
    ok &= is_refused(rt_resume(c, v, 1, &place, &err), &err);
    ok &= is_refused(rt_save(c, "/nowhere", &err), &err);
    ok &= is_refused(rt_load(c, "/nowhere", &err), &err);
    ok &= is_refused(rt_checkpoint(c, "/nowhere", NULL, &made, &err), &err);
    ok &= is_refused(rt_restore(c, "/nowhere", &made, &err), &err);
    ok &= is_refused(rt_stat(c, 0, &stat, &err), &err);
    ok &= is_refused(rt_finish(c, &err), &err);
    rt_client_close(c); /* no goodbye: the servers wait for the parent */
    return ok;
}

static void a_forked_child_is_refused(void **state) {
    (void)state;
    static const enum rt_mode modes[] = {RT_ASYNC, RT_SYNC, RT_GEO};
    for (size_t i = 0; i < CO_ARRAY_LEN(modes); i++) {
        static float w[SIZE], row[DIM];
        uint64_t id = 7;
        struct client_world job;
        struct co_err err = {0};
        struct rt_call *call = NULL;
        int status = 1;
        world_start(&job, 1, 1);
        struct rt_client *c = world_enter(&job, 0, (struct rt_client_options){.mode = modes[i]});
        must(rt_init_dense(c, 0, w, &err));
        must(rt_pull_sparse_start(c, 1, &id, 1, row, &call, &err));
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(all_is_refused(c, call) ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        must(rt_wait(call, &err));
        must(rt_push_sparse(c, 1, &id, 1, row, &err));
        must(rt_step(c, &err));
        must(rt_pull_dense(c, 0, w, &err));
        must(rt_finish(c, &err)); /* closes it */
        world_end(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
