/* Learning rates of tables: by schedules, by calls, over all shards of all servers. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/server/server.h"

enum { SERVERS = 2, TRAINERS = 2, SIZE = 100, DIM = 3, IDS = 9, STEPS = 6, CHANGE = 3 };
enum { DENSE, ROWS, COUNT, TABLES };

#define HALVES "step:steps=2,gamma=0.5"

static struct rt_table_spec specs[TABLES] = {
    [DENSE] =
        {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1", .schedule = HALVES},
    [ROWS] =
        {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=2", .schedule = HALVES},
    [COUNT] = {.name = "steps", .kind = RT_SPARSE, .dim = 1, .optimizer = "sum"},
};

struct world {
    uint32_t trainers;
    struct pss_server *servers[SERVERS];
    char endpoint[SERVERS][32];
    const char *endpoints[SERVERS];
};

static void world_start(struct world *w, uint32_t trainers) {
    w->trainers = trainers;
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .index = i,
            .servers = SERVERS,
            .trainers = trainers,
            .job = "rates",
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = 2,
            .memory_max = 1 << 30,
            .quiet = true};
        assert_int_equal(0, pss_server_start(&c, &w->servers[i], NULL));
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w->servers[i]));
        w->endpoints[i] = w->endpoint[i];
    }
}

static void world_end(struct world *w) {
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct co_err err = {0};
        if (pss_server_wait(w->servers[i], &err) != 0) {
            fail_msg("server %u: %s", i, err.msg);
        }
        pss_server_stop(w->servers[i]);
    }
}

#define must(e)                                                                                    \
    do {                                                                                           \
        struct co_err err = {0};                                                                   \
        if ((e) != 0) {                                                                            \
            fail_msg("%s: %s", #e, err.msg);                                                       \
        }                                                                                          \
    } while (0)

static struct rt_client *enter(struct world *w, uint32_t trainer, enum rt_mode mode) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = w->trainers,
        .servers = SERVERS,
        .endpoints = w->endpoints,
        .job = "rates"};
    struct rt_client_options o = {.mode = mode,
        .call_timeout_ms = 60000,
        .barrier_timeout_ms = 60000,
        .start_timeout_ms = 60000};
    struct rt_client *client = NULL;
    must(psc_client_connect(&c, &o, specs, TABLES, &client, &err));
    return client;
}

/* All gradients are 1. */
static void push_ones(struct rt_client *c) {
    float ones[SIZE];
    uint64_t ids[IDS];
    for (size_t i = 0; i < SIZE; i++) {
        ones[i] = 1;
    }
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_push_dense(c, DENSE, ones, &err));
    must(rt_push_sparse(c, ROWS, ids, IDS, ones, &err));
    must(rt_push_sparse(c, COUNT, ids, 1, ones, &err));
}

/* Everything of a table has become what updates by these rates make of 0. */
static void check_values(struct rt_client *c, double dense, double rows, double count) {
    float w[SIZE], e[IDS * DIM], n;
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_pull_dense(c, DENSE, w, &err));
    must(rt_pull_sparse(c, ROWS, ids, IDS, e, &err));
    must(rt_pull_sparse(c, COUNT, ids, 1, &n, &err));
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(w[i] == (float)-dense);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(e); i++) {
        assert_true(e[i] == (float)-rows);
    }
    assert_true(n == (float)count);
}

static void check_rate(struct rt_client *c, uint32_t table, double lr, uint64_t steps, double now) {
    struct rt_rate r;
    must(rt_get_rate(c, table, &r, &err));
    if (r.lr != lr || r.steps != steps || r.now != now) {
        fail_msg("table %u: lr %g steps %llu now %g, expected %g %llu %g", table, r.lr,
            (unsigned long long)r.steps, r.now, lr, (unsigned long long)steps, now);
    }
}

struct trainer {
    struct world *w;
    uint32_t index;
    pthread_t thread;
};

/* Rates by step: 1 1 .5 | 4 2 2, of which the last three are of lr 8; rows have twice as much. */
static void *train(void *arg) {
    struct trainer *t = arg;
    struct rt_client *c = enter(t->w, t->index, RT_SYNC);
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == CHANGE && t->index == 1) {
            check_rate(c, DENSE, 1, CHANGE, 0.5);
            push_ones(c);
            must(rt_set_rate(c, DENSE, 8, &err)); /* the other one may be in its step already */
            must(rt_set_rate(c, ROWS, 16, &err));
        } else {
            push_ones(c);
        }
        must(rt_step(c, &err));
    }
    check_rate(c, DENSE, 8, STEPS, 1);
    check_rate(c, ROWS, 16, STEPS, 2);
    check_rate(c, COUNT, 1, STEPS, 1);
    check_values(c, 1 + 1 + 0.5 + 4 + 2 + 2, 2 * (1 + 1 + 0.5 + 4 + 2 + 2), STEPS * TRAINERS);
    must(rt_finish(c, &err));
    return NULL;
}

static void sync_rates_go_by_completed_steps(void **state) {
    (void)state;
    struct world w;
    struct trainer all[TRAINERS];
    world_start(&w, TRAINERS);
    for (uint32_t i = 0; i < TRAINERS; i++) {
        all[i] = (struct trainer){.w = &w, .index = i};
        assert_int_equal(0, pthread_create(&all[i].thread, NULL, train, &all[i]));
    }
    for (uint32_t i = 0; i < TRAINERS; i++) {
        pthread_join(all[i].thread, NULL);
    }
    world_end(&w);
}

static void *enter_async(void *arg) {
    return enter(arg, 1, RT_ASYNC);
}

static void async_rates_go_by_the_steps_of_all(void **state) {
    (void)state;
    struct world w;
    pthread_t thread;
    void *second;
    world_start(&w, TRAINERS);
    assert_int_equal(0, pthread_create(&thread, NULL, enter_async, &w));
    struct rt_client *first = enter(&w, 0, RT_ASYNC);
    assert_int_equal(0, pthread_join(thread, &second));
    double sum = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        /* The second one makes no more steps after half of them: time goes half as fast. */
        bool both = step < STEPS / 2;
        double rate = step < 2 ? 1 : 0.5;
        push_ones(first);
        sum += rate;
        must(rt_step(first, &err));
        must(rt_flush(first, &err));
        if (both) {
            push_ones(second);
            sum += rate;
            must(rt_step(second, &err));
            must(rt_flush(second, &err));
        }
    }
    /* 9 steps of 2 trainers are 4. */
    check_rate(first, DENSE, 1, 4, 0.25);
    check_rate(second, ROWS, 2, 4, 0.5);
    /* 8 of them were made when the last gradient came: its rate was that of step 4. */
    check_values(first, sum - 0.25, 2 * (sum - 0.25), 9);
    must(rt_set_rate(first, DENSE, 0, &err));
    push_ones(first);
    check_values(first, sum - 0.25, 2 * (sum - 0.25) + 0.5, 10);
    must(rt_finish(first, &err));
    must(rt_finish(second, &err));
    world_end(&w);
}

/* A trainer's files, or the servers'. */
static void save(struct rt_client *c, const char *dir, bool servers) {
    must(servers ? rt_checkpoint(c, dir, NULL, NULL, &err) : rt_save(c, dir, &err));
}

/* A run of one trainer: loads if there is something, then makes so many steps. */
static struct rt_client *run(
    struct world *w, const char *dir, bool load, bool servers, uint32_t steps) {
    world_start(w, 1);
    struct rt_client *c = enter(w, 0, RT_SYNC);
    if (load) {
        must(rt_set_rate(c, DENSE, 7, &err)); /* is gone afterwards */
        must(rt_set_rate(c, ROWS, 7, &err));
        must(servers ? rt_restore(c, dir, NULL, &err) : rt_load(c, dir, &err));
    }
    for (uint32_t i = 0; i < steps; i++) {
        push_ones(c);
        must(rt_step(c, &err));
    }
    return c;
}

/* Rates of w: 1 1 .5 | 4 2 2 1 1: the bar is where lr is changed, and where a new job resumes. */
static void resume_from(bool servers) {
    char dir[] = "/tmp/rate_test_XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct world w;
    struct rt_client *c = run(&w, dir, false, servers, 3);
    must(rt_set_rate(c, DENSE, 8, &err));
    save(c, dir, servers);
    must(rt_finish(c, &err));
    world_end(&w);
    c = run(&w, dir, true, servers, 5);
    check_rate(c, DENSE, 8, 8, 0.5);
    check_rate(c, ROWS, 2, 8, 0.125);
    check_values(c, 2.5 + 4 + 2 + 2 + 1 + 1, 5 + 1 + 0.5 + 0.5 + 0.25 + 0.25, 8);
    must(rt_finish(c, &err));
    world_end(&w);
    /* Who changes the spec means it. */
    specs[DENSE].optimizer = "sgd:lr=0.5";
    c = run(&w, dir, true, servers, 0);
    check_rate(c, DENSE, 0.5, 3, 0.25);
    must(rt_finish(c, &err));
    world_end(&w);
    specs[DENSE].optimizer = "sgd:lr=1";
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", dir);
    assert_int_equal(0, system(cmd));
}

static void rates_resume_from_a_checkpoint(void **state) {
    (void)state;
    resume_from(false);
}

static void rates_resume_from_a_checkpoint_of_servers(void **state) {
    (void)state;
    resume_from(true);
}

static void rates_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t table;
        double lr;
        const char *said;
    } rows[] = {{DENSE, -1, "table \"w\": sgd: lr is -1"}, {ROWS, NAN, "table \"e\": sgd: lr is"},
        {ROWS, INFINITY, "lr is inf"}, {TABLES, 1, "there is no table 3"}};
    struct world w;
    world_start(&w, 1);
    struct rt_client *c = enter(&w, 0, RT_ASYNC);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        struct rt_rate r;
        assert_int_equal(CO_INVALID, rt_set_rate(c, rows[i].table, rows[i].lr, &err));
        if (!strstr(err.msg, rows[i].said)) {
            fail_msg("'%s' lacks '%s'", err.msg, rows[i].said);
        }
        assert_int_equal(
            rows[i].table < TABLES ? 0 : CO_INVALID, rt_get_rate(c, rows[i].table, &r, NULL));
    }
    check_rate(c, DENSE, 1, 0, 1);
    must(rt_finish(c, &err));
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_rates_go_by_completed_steps),
        cmocka_unit_test(async_rates_go_by_the_steps_of_all),
        cmocka_unit_test(rates_resume_from_a_checkpoint),
        cmocka_unit_test(rates_resume_from_a_checkpoint_of_servers),
        cmocka_unit_test(rates_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
