/* Checkpoints that a shard cannot load, since a file is damaged after it was found: the server
 * ends, and a shard that loads another one serves again. */
#include <poll.h>
#include <stdlib.h>

#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/client_testing.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/saver.h"
#include "runtime/train/ps/shard/shard.h"

static int setup(void **state) {
    char *dir = co_xstrdup("/tmp/load_test_XXXXXX");
    struct client_world w;
    struct co_err err = {0};
    *state = dir;
    assert_non_null(mkdtemp(dir));
    world_start(&w, 1, 1);
    struct rt_client *c = world_enter(&w, 0, (struct rt_client_options){.mode = RT_SYNC});
    must(rt_checkpoint(c, dir, NULL, NULL, &err));
    must(rt_finish(c, &err));
    world_end(&w);
    return 0;
}

static int teardown(void **state) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", (char *)*state);
    int rc = system(cmd);
    free(*state);
    return rc;
}

/* Another bit in the middle of the only part; done twice, the file is as it was. */
static void flip(const char *dir) {
    CO_AUTOFREE char *path = ckpt_point_part(dir, 1, 0);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(0, fseek(f, -100, SEEK_END));
    int byte = getc(f);
    assert_int_equal(0, fseek(f, -1, SEEK_CUR));
    assert_int_equal(byte ^ 1, putc(byte ^ 1, f));
    assert_int_equal(0, fclose(f));
}

/* Otherwise it would stay, and refuse trainers that are started again, too. */
static void a_server_that_cannot_load_ends(void **state) {
    const char *dir = *state;
    struct client_world w = {.n_servers = 1, .n_trainers = 1};
    struct co_err err = {0};
    struct pss_server_config config = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .token = "secret",
        .lease_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 2,
        .memory_max = 1 << 30,
        .restore_dir = dir,
        .quiet = true};
    must(pss_server_start(&config, &w.servers[0], &err));
    (void)snprintf(w.endpoint[0], 32, "127.0.0.1:%u", pss_server_port(w.servers[0]));
    w.endpoints[0] = w.endpoint[0];
    flip(dir);
    struct rt_client *c = NULL; /* may join before the server knows */
    (void)!world_open(&w, 0, (struct rt_client_options){.mode = RT_SYNC}, NULL, &c, &err);
    struct pollfd over = {.fd = pss_server_fd(w.servers[0]), .events = POLLIN};
    assert_int_equal(1, poll(&over, 1, 60000));
    assert_int_equal(CO_DAMAGED, pss_server_wait(w.servers[0], &err));
    says(&err, CO_DAMAGED, "cannot load checkpoint 1: ");
    says(&err, CO_DAMAGED, "part-00000");
    rt_client_close(c);
    pss_server_stop(w.servers[0]);
}

/* What a shard says of its loads. */
struct loads {
    pthread_mutex_t m;
    pthread_cond_t changed;
    unsigned n;
    struct co_err last;
};

static void on_loaded(void *arg, const struct co_err *why) {
    struct loads *l = arg;
    pthread_mutex_lock(&l->m);
    l->n++;
    l->last = *why;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->m);
}

static int await_load(struct loads *l, unsigned n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 15;
    pthread_mutex_lock(&l->m);
    while (l->n < n) {
        assert_int_equal(0, pthread_cond_timedwait(&l->changed, &l->m, &end));
    }
    int code = l->last.code;
    pthread_mutex_unlock(&l->m);
    return code;
}

static void a_shard_that_loads_at_last_serves(void **state) {
    const char *dir = *state;
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    struct loads l = {.m = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct table_budget budget = {.max = 1 << 26};
    struct ps_table tables[2];
    struct co_err err = {0};
    for (size_t i = 0; i < 2; i++) {
        must(ps_table_make(&specs[i], &tables[i], &err));
    }
    must(ckpt_chain_open(dir, 1, &chain, &err));
    struct shard_config config = {.shards = 1,
        .servers = 1,
        .trainers = 1,
        .mode = RT_SYNC,
        .tables = tables,
        .n_tables = 2,
        .budget = &budget,
        .saver = shard_saver_new(&(struct shard_saver_config){.servers = 1, .shards = 1}),
        .restore = chain,
        .loaded = on_loaded,
        .arg = &l};
    struct shard *s = NULL;
    flip(dir);
    must(shard_start(&config, &s, &err));
    assert_int_equal(CO_DAMAGED, await_load(&l, 1));
    flip(dir);
    shard_restore(s, dir, 1, 0);
    assert_int_equal(0, await_load(&l, 2));
    shard_stop(s);
    shard_saver_free(config.saver);
}

/* A server that is asked to end does not first load what may take minutes. */
static void a_load_ends_with_its_server(void **state) {
    const char *dir = *state;
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    struct table_budget budget = {.max = 1 << 26};
    struct ps_table tables[2];
    struct shard_tables t;
    atomic_bool stop = false;
    struct co_err err = {0};
    for (size_t i = 0; i < 2; i++) {
        must(ps_table_make(&specs[i], &tables[i], &err));
    }
    must(ckpt_chain_open(dir, 1, &chain, &err));
    const struct shard_config config = {.shards = 1,
        .servers = 1,
        .trainers = 1,
        .mode = RT_SYNC,
        .tables = tables,
        .n_tables = 2,
        .budget = &budget};
    must(shard_tables_init(&t, &config, &err));
    t.stop = &stop;
    must(shard_tables_restore(&t, chain, &err));
    atomic_store(&stop, true);
    assert_int_equal(CO_CANCELED, shard_tables_restore(&t, chain, &err));
    shard_tables_done(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_that_cannot_load_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shard_that_loads_at_last_serves, setup, teardown),
        cmocka_unit_test_setup_teardown(a_load_ends_with_its_server, setup, teardown),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
