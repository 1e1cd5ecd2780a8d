/* Sync mode: unequal numbers of steps, backup workers, and that trainers together compute what one
 * with all their batches would. */
#include <poll.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_testing.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/server/server_internal.h"

enum { IDS = 20 };

struct trainer {
    struct client_world *w;
    struct rt_client_options options;
    uint32_t index, steps, of; /* of: its gradient is the mean of so many trainers' */
    pthread_t thread;
    float v[SIZE];
    float rows[IDS * DIM];
};

static void push(struct rt_client *c, const struct trainer *t, uint32_t step, float *v) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    float g[SIZE] = {0}, rg[IDS * DIM] = {0};
    uint32_t of = t->of ? t->of : 1;
    for (uint32_t k = 0; k < of; k++) {
        for (uint32_t i = 0; i < SIZE; i++) {
            g[i] += pseudo(t->index + k, step, i) / (float)of;
        }
        for (uint32_t i = 0; i < IDS * DIM; i++) {
            ids[i / DIM] = i / DIM;
            rg[i] += pseudo(t->index + k, step, i) / (float)of;
        }
    }
    must(rt_push_sparse(c, 1, ids, IDS, rg, &err));
    must(rt_exchange_dense(c, 0, g, v, &err));
}

static void read_all(struct rt_client *c, struct trainer *t) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_pull_sparse(c, 1, ids, IDS, t->rows, &err));
    must(rt_pull_dense(c, 0, t->v, &err));
}

static void *train(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    struct rt_client *c = world_enter(t->w, t->index, t->options);
    for (int i = 0; i < SIZE; i++) {
        t->v[i] = (float)i / SIZE;
    }
    must(rt_init_dense(c, 0, t->v, &err));
    for (uint32_t step = 0; step < t->steps; step++) {
        push(c, t, step, t->v);
        must(rt_step(c, &err));
    }
    must(rt_no_more(c, &err));
    assert_int_equal(CO_INVALID, rt_step(c, &err));
    must(rt_barrier(c, &err));
    read_all(c, t);
    must(rt_finish(c, &err));
    return NULL;
}

static void train_all(struct trainer *t, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        t[i].index = i;
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, train, &t[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(t[i].thread, NULL);
    }
}

/* The mean over trainers is the gradient of the batch of all of them, so one process with that
 * batch comes to the same values, up to the rounding of sums in another order. */
static void trainers_compute_what_one_with_the_whole_batch_does(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= TRAINERS_MAX; n += 2) {
        struct trainer many[TRAINERS_MAX] = {0}, one = {0};
        struct client_world w;
        world_start(&w, 2, n);
        for (uint32_t i = 0; i < n; i++) {
            many[i] = (struct trainer){.w = &w, .options = {.mode = RT_SYNC}, .steps = 25};
        }
        train_all(many, n);
        world_end(&w);
        world_start(&w, 1, 1);
        one = (struct trainer){.w = &w, .options = {.mode = RT_SYNC}, .steps = 25, .of = n};
        train_all(&one, 1);
        world_end(&w);
        for (uint32_t i = 0; i < n; i++) {
            for (int k = 0; k < SIZE; k++) {
                assert_true(fabsf(many[i].v[k] - one.v[k]) < 2e-6F);
            }
            for (int k = 0; k < IDS * DIM; k++) {
                assert_true(fabsf(many[i].rows[k] - one.rows[k]) < 2e-6F);
            }
        }
    }
}

/* Trainer i has steps[i]; the mean of a step is over those who have data for it. */
static void unequal_numbers_of_steps_end_well(void **state) {
    (void)state;
    static const uint32_t steps[] = {9, 4, 0, 6};
    struct client_world w;
    world_start(&w, 2, 4);
    struct trainer t[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = (struct trainer){.w = &w, .options = {.mode = RT_SYNC}, .steps = steps[i]};
    }
    train_all(t, 4);
    world_end(&w);
    for (uint64_t k = 0; k < SIZE; k++) {
        float v = (float)k / SIZE;
        for (uint32_t s = 0; s < 9; s++) {
            float sum = 0, n = 0;
            for (uint32_t i = 0; i < 4; i++) {
                sum += s < steps[i] ? pseudo(i, s, k) : 0;
                n += s < steps[i] ? 1 : 0;
            }
            v -= 0.1F * sum / n;
        }
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(fabsf(v - t[i].v[k]) < 2e-6F);
        }
    }
}

/* ---- backup workers ---- */

static const struct rt_client_options one_backup = {.mode = RT_SYNC, .backup = 1};

static void *make_steps(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    struct rt_client *c = world_enter(t->w, t->index, t->options);
    must(rt_init_dense(c, 0, t->v, &err));
    for (uint32_t step = 0; step < t->steps; step++) {
        push(c, t, step, t->v);
        must(rt_step(c, &err));
    }
    must(rt_finish(c, &err));
    return NULL;
}

static uint64_t count_late(struct rt_client *c, uint32_t table) {
    struct rt_table_stat st;
    struct co_err err = {0};
    must(rt_stat(c, table, &st, &err));
    return st.late;
}

/* Trainer 2 has pushed for its first step and then stands still: the others go through their steps
 * without it, and without the part that it had pushed. */
static void a_stopped_backup_worker_delays_no_other(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 2, 3);
    struct trainer t[3] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        t[i] = (struct trainer){.w = &w, .options = one_backup, .index = i, .steps = 8};
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, make_steps, &t[i]));
    }
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 2, one_backup);
    must(rt_init_dense(c, 0, t[2].v, &err));
    push(c, &t[2], 0, t[2].v);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(t[i].thread, NULL);
    }
    must(rt_step(c, &err));
    assert_int_equal(SIZE, count_late(c, 0));
    assert_int_equal(IDS, count_late(c, 1));
    for (uint64_t k = 0; k < SIZE; k++) {
        float v = 0;
        for (uint32_t s = 0; s < 8; s++) {
            v -= 0.1F * (pseudo(0, s, k) + pseudo(1, s, k)) / 2;
        }
        assert_true(fabsf(v - t[2].v[k]) < 2e-6F);
    }
    /* It continues from where the job is, alone by now. */
    push(c, &t[2], 8, t[2].v);
    must(rt_step(c, &err));
    assert_int_equal(SIZE, count_late(c, 0));
    must(rt_finish(c, &err));
    world_end(&w);
}

/* As many may be lost as are not waited for; one more is the end. */
static void as_many_backup_workers_may_be_lost(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 3);
    struct co_err err = {0};
    struct rt_client *c[3];
    struct trainer t[2] = {{.index = 0}, {.index = 1}};
    for (uint32_t i = 0; i < 3; i++) {
        c[i] = world_enter(&w, i, one_backup);
    }
    rt_client_close(c[2]);
    push(c[0], &t[0], 0, t[0].v);
    push(c[1], &t[1], 0, t[1].v);
    must(rt_no_more(c[1], &err)); /* then trainer 0 and the lost one are left, one is enough */
    must(rt_step(c[0], &err));
    rt_client_close(c[1]);
    assert_int_equal(CO_PEERLOST, rt_barrier(c[0], &err));
    says(&err, CO_PEERLOST, "trainer 1 (");
    rt_client_close(c[0]);
    world_stop(&w);
}

/* With backups a push waits for its step, and what is wrong with it shows there. */
static void a_held_push_is_refused_in_its_step(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 0, one_backup);
    float g[SIZE] = {0}, v[SIZE];
    must(rt_step(c, &err));
    g[7] = NAN;
    must(rt_push_dense(c, 0, g, &err));
    must(rt_flush(c, &err));
    (void)!rt_step(c, &err);
    says(&err, CO_INVALID, "trainer 0 pushed NaN or Inf to table \"dense\", index 7");
    must(rt_pull_dense(c, 0, v, &err));
    assert_true(v[0] == 0);
    must(rt_finish(c, &err));
    world_end(&w);
}

static void options_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 2);
    struct co_err err = {0};
    struct rt_client *c = NULL, *ok = world_enter(&w, 0, one_backup);
    (void)!world_open(&w, 1, (struct rt_client_options){.mode = RT_SYNC}, NULL, &c, &err);
    says(&err, CO_PERMISSION, "trainer 1 comes with 0 backup workers, the others with 1");
    (void)!world_open(&w, 1, (struct rt_client_options){.backup = 1}, NULL, &c, &err);
    says(&err, CO_INVALID, "backup workers are for sync mode");
    struct rt_table_spec tables[2] = {specs[0], specs[1]};
    tables[1].mode = RT_ASYNC;
    (void)!world_open(&w, 1, one_backup, tables, &c, &err);
    says(&err, CO_PERMISSION, "table 1 (\"rows\") of trainer 1 differs");
    tables[1].mode = RT_SYNC;
    (void)!world_open(&w, 1, (struct rt_client_options){.mode = RT_ASYNC}, tables, &c, &err);
    says(&err, CO_INVALID, "table \"rows\" is in sync mode, which needs a job in sync mode");
    rt_client_close(ok);
    world_stop(&w);
}

/* A job in sync mode whose rows are applied at once, as Paddle's are from 2.3 on. */
static void a_table_may_have_a_mode_of_its_own(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 1);
    struct rt_table_spec tables[2] = {specs[0], specs[1]};
    tables[1].mode = RT_ASYNC;
    struct co_err err = {0};
    struct rt_client *c = NULL;
    must(world_open(&w, 0, (struct rt_client_options){.mode = RT_SYNC}, tables, &c, &err));
    uint64_t id = 5;
    float g[SIZE], v[SIZE], before[DIM], after[DIM];
    for (int i = 0; i < SIZE; i++) {
        g[i] = 1;
    }
    must(rt_pull_sparse(c, 1, &id, 1, before, &err));
    must(rt_push_dense(c, 0, g, &err));
    must(rt_push_sparse(c, 1, &id, 1, g, &err));
    must(rt_flush(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    must(rt_pull_sparse(c, 1, &id, 1, after, &err));
    assert_true(v[0] == 0);
    assert_true(fabsf(before[0] - 0.1F - after[0]) < 1e-6F);
    must(rt_step(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    assert_true(fabsf(v[0] + 0.1F) < 1e-6F);
    must(rt_finish(c, &err));
    world_end(&w);
}

/* Asked for with the step, the values are those that the step makes; of a step that nobody said
 * there are none, and the trainer continues. */
static void values_may_be_asked_for_with_the_step(void **state) {
    (void)state;
    static float g[SIZE], v[SIZE];
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 0, (struct rt_client_options){.mode = RT_SYNC});
    struct rt_call *call = NULL;
    must(psc_values_call(c, 0, v, 1, &call, &err));
    psc_call_start(call);
    assert_int_equal(CO_INVALID, psc_call_wait(call, 60000, &err));
    says(&err, CO_INVALID, "step 1, which it has not said");
    for (int step = 1; step <= 3; step++) {
        for (int i = 0; i < SIZE; i++) {
            g[i] = 1;
        }
        must(rt_exchange_dense(c, 0, g, v, &err));
        must(rt_step(c, &err));
        assert_true(fabsf(v[SIZE - 1] + 0.1F * (float)step) < 1e-6F);
    }
    must(rt_finish(c, &err));
    world_end(&w);
}

/* STEP 1 to a shard, and then so many pulls of what it makes, each of which fills a window. */
static struct rt_call *say_step(struct rt_client *c, uint32_t shard, uint32_t pulls) {
    struct rt_call *call = psc_call_new(c, "step", NULL, 1 + pulls);
    psc_call_part(
        call, 0, 0, &(struct rpc_frame_head){.kind = RPC_FRAME_STEP, .shard = shard, .aux = 1}, 0);
    for (uint32_t i = 1; i <= pulls; i++) {
        const struct rpc_frame_head pull = {
            .kind = RPC_FRAME_PULL_DENSE, .shard = shard, .count = SIZE / 2, .number = 1};
        psc_call_part(call, i, 0, &pull, PSC_LINK_WINDOW);
    }
    psc_call_start(call);
    return call;
}

static void a_shard_that_waits_delays_no_other(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 2);
    struct co_err err = {0};
    const struct rt_client_options o = {.mode = RT_SYNC};
    struct rt_client *c[2] = {world_enter(&w, 0, o), world_enter(&w, 1, o)};
    struct rt_call *calls[4] = {say_step(c[0], 0, 3)};
    uint64_t id = 0;
    float row[DIM];
    while (ps_sparse_shard(id, 2) != 1) {
        id++;
    }
    must(rt_pull_sparse(c[0], 1, &id, 1, row, &err));
    calls[1] = say_step(c[0], 1, 0);
    calls[2] = say_step(c[1], 0, 0);
    calls[3] = say_step(c[1], 1, 0);
    for (int i = 0; i < 4; i++) {
        must(psc_call_wait(calls[i], 60000, &err));
    }
    must(rt_finish(c[0], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
}

/* ---- one shard is a step ahead of the other ---- */

static void *make_step(void *client) {
    struct co_err err = {0};
    must(rt_step(client, &err));
    return NULL;
}

static void await_shard(
    const struct client_world *w, uint32_t shard, uint64_t step, uint32_t trainer, uint64_t said) {
    const struct shard *s = w->servers[0]->shards[shard];
    int64_t deadline = co_now_ms() + 60000;
    while (shard_step(s) < step || shard_said(s, trainer) < said) {
        assert_true(co_now_ms() < deadline);
        (void)poll(NULL, 0, 1);
    }
}

/* A caller may have given up its thread's step, which waits for the other trainer. */
static void steps_and_barriers_are_one_at_a_time(void **state) {
    (void)state;
    static float g[SIZE], v[SIZE];
    struct client_world w;
    world_start(&w, 1, 2);
    struct co_err err = {0};
    const struct rt_client_options o = {.mode = RT_SYNC};
    struct rt_client *c[2] = {world_enter(&w, 0, o), world_enter(&w, 1, o)};
    pthread_t thread;
    g[0] = 1;
    must(rt_exchange_dense(c[0], 0, g, v, &err));
    assert_int_equal(0, pthread_create(&thread, NULL, make_step, c[0]));
    await_shard(&w, 0, 0, 0, 1);
    static int (*const calls[])(struct rt_client *, struct co_err *) = {
        rt_step, rt_barrier, rt_no_more};
    static const char *const names[] = {"step", "barrier", "no_more"};
    for (size_t i = 0; i < CO_ARRAY_LEN(calls); i++) {
        char says_it[64];
        (void)snprintf(says_it, sizeof(says_it), "%s: a step of this trainer", names[i]);
        assert_int_equal(CO_INVALID, calls[i](c[0], &err));
        says(&err, CO_INVALID, says_it);
    }
    must(rt_step(c[1], &err));
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) { /* and the next one is right */
        must(rt_exchange_dense(c[i], 0, g, v, &err));
        must(rt_no_more(c[i], &err));
    }
    for (int i = 0; i < 2; i++) {
        must(rt_finish(c[i], &err));
    }
    world_end(&w);
}

/* Trainer 0 says step 2 to shard 0 alone and is lost then.  Shard 0 applies the step with it, shard
 * 1 still needs the step from both others.  Trainer 2 was late for step 1 on both. */
static void a_step_that_reached_one_shard_of_two_delays_no_trainer(void **state) {
    (void)state;
    struct client_world w;
    struct co_err err = {0};
    struct rt_client *c[3];
    pthread_t other;
    world_start(&w, 1, 3);
    for (uint32_t i = 0; i < 3; i++) {
        c[i] = world_enter(&w, i, one_backup);
    }
    assert_int_equal(0, pthread_create(&other, NULL, make_step, c[0]));
    must(rt_step(c[1], &err));
    pthread_join(other, NULL);
    struct rt_call *half = psc_call_new(c[0], "step", NULL, 1);
    psc_call_part(half, 0, 0, &(struct rpc_frame_head){.kind = RPC_FRAME_STEP, .aux = 2}, 0);
    psc_call_start(half);
    await_shard(&w, 0, 1, 0, 2);
    assert_int_equal(0, pthread_create(&other, NULL, make_step, c[1]));
    await_shard(&w, 0, 2, 1, 2);
    await_shard(&w, 1, 1, 1, 2);
    must(psc_call_wait(half, 60000, &err));
    rt_client_close(c[0]);
    must(rt_step(c[2], &err)); /* its first; the answers are 2 and 1 */
    assert_int_equal(1, c[2]->progress.steps);
    must(rt_step(c[2], &err));
    pthread_join(other, NULL);
    assert_int_equal(2, c[1]->progress.steps);
    assert_int_equal(2, c[2]->progress.steps);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(2, shard_step(w.servers[0]->shards[i]));
    }
    rt_client_close(c[1]);
    rt_client_close(c[2]);
    world_stop(&w);
}

/* A shard that refuses what a trainer had pushed has its step all the same. */
static void a_trainer_continues_after_a_refused_step(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 0, one_backup);
    float g[SIZE] = {0}, v[SIZE];
    g[7] = g[SIZE - 1] = NAN; /* one for each shard */
    must(rt_push_dense(c, 0, g, &err));
    must(rt_flush(c, &err));
    assert_int_equal(CO_INVALID, rt_step(c, &err));
    assert_int_equal(1, c->progress.steps);
    g[7] = g[SIZE - 1] = 1;
    must(rt_push_dense(c, 0, g, &err));
    must(rt_step(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    assert_true(v[7] < 0 && v[SIZE - 1] < 0);
    must(rt_finish(c, &err));
    world_end(&w);
}

/* One shard refuses what was pushed to it while the STEP to the other waits for room. */
static void a_step_reaches_all_shards_though_one_refuses_it(void **state) {
    (void)state;
    enum { PULLS = 2000 };
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 0, one_backup);
    float g[SIZE] = {0};
    g[7] = NAN;
    must(rt_push_dense(c, 0, g, &err));
    must(rt_flush(c, &err));
    c->links->at[0].inflight.window = 1; /* one frame to a shard at a time */
    struct rt_call *before = psc_call_new(c, "pull", NULL, PULLS);
    for (uint32_t i = 0; i < PULLS; i++) {
        const struct rpc_frame_head pull = {
            .kind = RPC_FRAME_PULL_DENSE, .shard = 1, .count = SIZE / 2};
        psc_call_part(before, i, 0, &pull, SIZE / 2 * sizeof(float));
    }
    psc_call_start(before);
    assert_int_equal(CO_INVALID, rt_step(c, &err));
    must(psc_call_wait(before, 60000, &err));
    must(rt_step(c, &err));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(2, shard_step(w.servers[0]->shards[i]));
    }
    must(rt_finish(c, &err));
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_compute_what_one_with_the_whole_batch_does),
        cmocka_unit_test(unequal_numbers_of_steps_end_well),
        cmocka_unit_test(a_stopped_backup_worker_delays_no_other),
        cmocka_unit_test(as_many_backup_workers_may_be_lost),
        cmocka_unit_test(a_held_push_is_refused_in_its_step),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
        cmocka_unit_test(a_table_may_have_a_mode_of_its_own),
        cmocka_unit_test(values_may_be_asked_for_with_the_step),
        cmocka_unit_test(a_shard_that_waits_delays_no_other),
        cmocka_unit_test(steps_and_barriers_are_one_at_a_time),
        cmocka_unit_test(a_step_that_reached_one_shard_of_two_delays_no_trainer),
        cmocka_unit_test(a_trainer_continues_after_a_refused_step),
        cmocka_unit_test(a_step_reaches_all_shards_though_one_refuses_it),
    };
    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
