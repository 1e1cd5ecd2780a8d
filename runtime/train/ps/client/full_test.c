/* Deltas that a server has no room for: so many rows were evicted that the list of their ids does
 * not fit in what may wait for the disk.  A full checkpoint, which has no such list, follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/job_testing.h"
#include "runtime/train/ps/server/server.h"

/* An eighth of the memory, 256 KiB, may wait for the disk; IDS take 1.6 MB. */
enum { MEMORY = 2 << 20, IDS = 200000, BATCH = 500 };

#define must(e)                                                                                    \
    do {                                                                                           \
        struct co_err err = {0};                                                                   \
        if ((e) != 0) {                                                                            \
            fail_msg("%s: %s", #e, err.msg);                                                       \
        }                                                                                          \
    } while (0)

struct world {
    char dir[32];
    struct pss_server *server;
    struct rt_client *client;
};

static void world_start(struct world *w, struct rt_client_options o) {
    const struct rt_table_spec spec = {.name = "rows",
        .kind = RT_SPARSE,
        .dim = 1,
        .optimizer = "sgd:lr=1",
        .init = "zero",
        .evict = "lfu:capacity=100"};
    struct pss_server_config s = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .lease_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 1,
        .memory_max = MEMORY,
        .quiet = true};
    char endpoint[32];
    const char *endpoints[1] = {endpoint};
    struct psc_client_config c = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = own_job()};
    *w = (struct world){.dir = "/tmp/full_test_XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    must(pss_server_start(&s, &w->server, &err));
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(w->server));
    o.checkpoint_dir = o.checkpoint_steps > 0 ? w->dir : NULL;
    must(psc_client_connect(&c, &o, &spec, 1, &w->client, &err));
}

static void world_end(struct world *w) {
    must(rt_finish(w->client, &err));
    must(pss_server_wait(w->server, &err));
    pss_server_stop(w->server);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    assert_int_equal(0, system(cmd));
}

/* Each id takes the row of another one. */
static void evict_many(struct world *w) {
    static const float g[BATCH] = {0};
    uint64_t ids[BATCH];
    for (uint64_t id = 0; id < IDS; id += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++) {
            ids[i] = id + i;
        }
        must(rt_push_sparse(w->client, 0, ids, BATCH, g, &err));
    }
    must(rt_flush(w->client, &err));
}

static void a_checkpoint_call_makes_a_full_one_at_once(void **state) {
    (void)state;
    struct world w;
    struct rt_checkpoint made = {0};
    world_start(&w, (struct rt_client_options){0});
    must(rt_checkpoint(w.client, w.dir, NULL, &made, &err));
    evict_many(&w);
    must(rt_checkpoint(w.client, w.dir, NULL, &made, &err));
    assert_int_equal(3, made.number);
    assert_true(made.full);
    must(rt_checkpoint(w.client, w.dir, NULL, &made, &err));
    assert_int_equal(1, made.deltas);
    world_end(&w);
}

/* The options ask for checkpoints: it comes with the next step, and not with the next delta. */
static void the_next_checkpoint_step_makes_a_full_one(void **state) {
    (void)state;
    enum { STEPS = 5 };
    struct world w;
    struct ckpt_point p = {0};
    world_start(&w, (struct rt_client_options){.checkpoint_steps = STEPS});
    for (int i = 0; i < 2 * STEPS + 1; i++) {
        must(rt_step(w.client, &err));
        psc_saving_wait(w.client);
        if (i == STEPS) {
            evict_many(&w);
        }
    }
    must(ckpt_point_read(w.dir, 3, &p, &err));
    assert_true(ckpt_point_full(&p));
    ckpt_point_done(&p);
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_call_makes_a_full_one_at_once),
        cmocka_unit_test(the_next_checkpoint_step_makes_a_full_one),
    };
    return cmocka_run_group_tests_name("full", tests, NULL, NULL);
}
