/* Geo mode: what is pushed of a copy's changes, and that trainers learn by it. */
#include <stdlib.h>

#include "runtime/train/ps/client/client_testing.h"

enum { IDS = 20, STEPS = 57 };

static const struct rt_client_options geo = {.mode = RT_GEO, .k_steps = 5};

struct trainer {
    struct client_world *w;
    struct rt_client_options options;
    const struct rt_table_spec *tables;
    uint32_t index, steps;
    pthread_t thread;
    float v[SIZE];
    float rows[IDS * DIM];
    float local;             /* v[0] as this trainer saw it after its first step */
    pthread_barrier_t *meet; /* nobody pushes its changes before all have seen theirs; NULL: none */
};

/* Trainer i pushes to a part of the ids; some of them it never reads. */
static void push(struct rt_client *c, struct trainer *t, uint32_t step) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    float g[SIZE], rg[IDS * DIM], rows[IDS * DIM];
    for (uint32_t i = 0; i < SIZE; i++) {
        g[i] = pseudo(t->index, step, i);
    }
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i * (t->index + 1) % IDS;
        for (uint32_t k = 0; k < DIM; k++) {
            rg[i * DIM + k] = pseudo(t->index, step, ids[i] * DIM + k);
        }
    }
    must(rt_pull_sparse(c, 1, ids, step % IDS, rows, &err));
    must(rt_push_sparse(c, 1, ids, IDS, rg, &err));
    must(rt_exchange_dense(c, 0, g, t->v, &err));
}

static void *train(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    struct rt_client *c = NULL;
    uint64_t ids[IDS];
    must(world_open(t->w, t->index, t->options, t->tables, &c, &err));
    for (int i = 0; i < SIZE; i++) {
        t->v[i] = (float)i / SIZE;
    }
    must(rt_init_dense(c, 0, t->v, &err));
    for (uint32_t step = 0; step < t->steps; step++) {
        push(c, t, step);
        t->local = step == 0 ? t->v[0] : t->local;
        if (t->meet) {
            (void)pthread_barrier_wait(t->meet);
        }
        must(rt_step(c, &err));
    }
    must(rt_no_more(c, &err));
    must(rt_barrier(c, &err));
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_pull_sparse(c, 1, ids, IDS, t->rows, &err));
    must(rt_pull_dense(c, 0, t->v, &err));
    must(rt_finish(c, &err));
    return NULL;
}

static void train_all(struct trainer *t, uint32_t n) {
    struct client_world w;
    world_start(&w, 2, n);
    for (uint32_t i = 0; i < n; i++) {
        t[i].w = &w;
        t[i].index = i;
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, train, &t[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(t[i].thread, NULL);
    }
    world_end(&w);
}

/* What a trainer pushes of its changes: at each round a share of all that is not pushed yet,
 * whatever the others do and whenever answers come. */
static double pushed(const struct trainer *t, uint32_t trainers, uint64_t place, double times) {
    double rest = 0, all = 0;
    for (uint32_t s = 0; s < t->steps; s++) {
        rest -= 0.1 * times * (double)pseudo(t->index, s, place);
        if ((s + 1) % t->options.k_steps == 0 || s + 1 == t->steps) {
            all += rest / trainers;
            rest -= rest / trainers;
        }
    }
    return all;
}

static void check_dense(const struct trainer *t, uint32_t n) {
    for (uint32_t k = 0; k < SIZE; k++) {
        double v = (double)k / SIZE;
        for (uint32_t i = 0; i < n; i++) {
            v += pushed(&t[i], n, k, 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            assert_true(fabs(v - (double)t[i].v[k]) < 2e-5);
        }
    }
}

static void check_rows(const struct trainer *t, uint32_t n) {
    float first[DIM];
    for (uint32_t id = 0; id < IDS; id++) {
        assert_int_equal(0, rt_table_init_row(&specs[1], id, first, NULL));
        for (uint32_t k = 0; k < DIM; k++) {
            double v = (double)first[k];
            for (uint32_t i = 0; i < n; i++) {
                uint32_t times = 0;
                for (uint32_t j = 0; j < IDS; j++) {
                    times += j * (i + 1) % IDS == id;
                }
                v += pushed(&t[i], n, id * DIM + k, times);
            }
            for (uint32_t i = 0; i < n; i++) {
                assert_true(fabs(v - (double)t[i].rows[id * DIM + k]) < 2e-5);
            }
        }
    }
}

/* Gradients that do not depend on values, and descent: the servers end at the start and what all
 * trainers have pushed; every one reads that. */
static void the_servers_have_what_was_pushed(void **state) {
    (void)state;
    static const uint32_t k_steps[] = {1, 5, 40, 1000};
    for (size_t r = 0; r < CO_ARRAY_LEN(k_steps); r++) {
        uint32_t n = r == 0 ? 1 : 3;
        struct trainer t[3] = {0};
        for (uint32_t i = 0; i < n; i++) {
            t[i].options = (struct rt_client_options){.mode = RT_GEO, .k_steps = k_steps[r]};
            t[i].steps = STEPS - i * 7;
        }
        train_all(t, n);
        check_dense(t, n);
        check_rows(t, n);
    }
}

/* The trainer has the rule and its state; alone it comes to what a server with them does. */
static void one_trainer_with_any_rule_equals_async(void **state) {
    (void)state;
    static const char *const rules[] = {"adagrad:lr=0.1", "adam:lr=0.01", "momentum:lr=0.05"};
    for (size_t r = 0; r < CO_ARRAY_LEN(rules); r++) {
        struct rt_table_spec tables[2] = {specs[0], specs[1]};
        tables[0].optimizer = tables[1].optimizer = rules[r];
        struct trainer a = {.options = geo, .tables = tables, .steps = STEPS};
        struct trainer b = {
            .options = {.mode = RT_ASYNC, .dense_merge_max = 1}, .tables = tables, .steps = STEPS};
        train_all(&a, 1);
        train_all(&b, 1);
        for (int i = 0; i < SIZE; i++) {
            assert_true(fabsf(a.v[i] - b.v[i]) < 1e-4F);
        }
        for (int i = 0; i < IDS * DIM; i++) {
            assert_true(fabsf(a.rows[i] - b.rows[i]) < 1e-4F);
        }
    }
}

/* A trainer sees its own changes at once, and as its own alone. */
static void a_copy_is_trained_at_once(void **state) {
    (void)state;
    pthread_barrier_t meet;
    struct trainer t[2] = {
        {.options = geo, .steps = 1, .meet = &meet}, {.options = geo, .steps = 1, .meet = &meet}};
    assert_int_equal(0, pthread_barrier_init(&meet, NULL, 2));
    train_all(t, 2);
    (void)pthread_barrier_destroy(&meet);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(fabsf(t[i].local + 0.1F * pseudo(i, 0, 0)) < 1e-6F);
    }
}

enum { PLACES = 3 * IDS };

/* Place i has id i * i % IDS: some ids are there once, some often, some not at all. */
static void check_places(const float *before, const float *after) {
    for (uint64_t i = 0; i < PLACES; i++) {
        for (uint32_t k = 0; k < DIM; k++) {
            double sum = 0;
            for (uint64_t j = 0; j < PLACES; j++) {
                sum += i * i % IDS == j * j % IDS ? (double)pseudo(0, (uint32_t)j, k) : 0;
            }
            double is = (double)(after[i * DIM + k] - before[i * DIM + k]);
            assert_true(fabs(is + 0.1 * sum) < 1e-5);
        }
    }
}

/* At however many places of a call it is, and in how many pulls at a time. */
static void an_id_has_one_row(void **state) {
    (void)state;
    struct client_world w;
    struct rt_client *c = NULL;
    struct rt_call *calls[3] = {NULL};
    struct co_err err = {0};
    uint64_t ids[PLACES];
    float v[SIZE] = {0}, g[PLACES * DIM], rows[3][PLACES * DIM];
    for (uint32_t i = 0; i < PLACES * DIM; i++) {
        ids[i / DIM] = (i / DIM) * (i / DIM) % IDS;
        g[i] = pseudo(0, i / DIM, i % DIM);
    }
    world_start(&w, 2, 1);
    must(world_open(&w, 0, geo, NULL, &c, &err));
    must(rt_init_dense(c, 0, v, &err));
    for (size_t i = 0; i < 2; i++) {
        must(rt_pull_sparse_start(c, 1, ids, PLACES, rows[i], &calls[i], &err));
    }
    must(rt_pull_sparse_start(c, 1, ids, 0, NULL, &calls[2], &err));
    for (size_t i = 0; i < 3; i++) {
        must(rt_wait(calls[i], &err));
    }
    assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    must(rt_push_sparse(c, 1, ids, PLACES, g, &err));
    must(rt_pull_sparse(c, 1, ids, PLACES, rows[1], &err));
    check_places(rows[0], rows[1]);
    must(rt_no_more(c, &err));
    must(rt_barrier(c, &err));
    must(rt_pull_sparse(c, 1, ids, PLACES, rows[2], &err));
    check_places(rows[0], rows[2]); /* the servers' */
    must(rt_finish(c, &err));
    world_end(&w);
}

/* ---- convergence: y = x w, from rows of x that each trainer draws ---- */

enum { X = 10 };

struct learner {
    struct client_world *w;
    struct rt_client_options options;
    uint32_t index;
    pthread_t thread;
    float error; /* largest of |w - true|, at the end */
};

static const struct rt_table_spec weights[2] = {
    {.name = "w", .kind = RT_DENSE, .size = X, .optimizer = "sgd:lr=0.05"},
    {.name = "e", .kind = RT_SPARSE, .dim = 1, .optimizer = "adagrad:lr=0.3"}};

static float truth(uint32_t i) {
    return (float)i / X - 0.4F;
}

static void *learn(void *arg) {
    struct learner *l = arg;
    struct co_err err = {0};
    struct rt_client *c = NULL;
    float w[X] = {0}, g[X], x[X], rows[X], rg[X];
    uint64_t ids[X], seed = l->index + 1;
    must(world_open(l->w, l->index, l->options, weights, &c, &err));
    must(rt_init_dense(c, 0, w, &err));
    for (int step = 0; step < 1500; step++) {
        float e = 0;
        for (uint32_t i = 0; i < X; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            x[i] = (float)(seed >> 40) / 8388608.0F - 1;
            ids[i] = i;
        }
        must(rt_pull_sparse(c, 1, ids, X, rows, &err));
        for (uint32_t i = 0; i < X; i++) { /* the sum of both is to be learnt */
            e += x[i] * (w[i] + rows[i] - truth(i));
        }
        for (uint32_t i = 0; i < X; i++) {
            g[i] = rg[i] = e * x[i];
        }
        must(rt_push_sparse(c, 1, ids, X, rg, &err));
        must(rt_exchange_dense(c, 0, g, w, &err));
        must(rt_step(c, &err));
    }
    must(rt_no_more(c, &err));
    must(rt_barrier(c, &err));
    must(rt_pull_dense(c, 0, w, &err));
    must(rt_pull_sparse(c, 1, ids, X, rows, &err));
    l->error = 0;
    for (uint32_t i = 0; i < X; i++) {
        float d = fabsf(w[i] + rows[i] - truth(i));
        l->error = d > l->error ? d : l->error;
    }
    must(rt_finish(c, &err));
    return NULL;
}

/* Async, with and without queues, with a bound, and geo all come to the truth. */
static void all_modes_learn_the_same(void **state) {
    (void)state;
    static const struct rt_client_options modes[] = {{.mode = RT_SYNC},
        {.mode = RT_ASYNC, .staleness = 8}, {.mode = RT_ASYNC, .staleness = 8, .merge_max = 4},
        {.mode = RT_GEO, .k_steps = 1, .staleness = 8},
        {.mode = RT_GEO, .k_steps = 10, .staleness = 20}};
    for (size_t m = 0; m < CO_ARRAY_LEN(modes); m++) {
        struct client_world w;
        world_start(&w, 1, 2);
        struct learner l[2];
        for (uint32_t i = 0; i < 2; i++) {
            l[i] = (struct learner){.w = &w, .options = modes[m], .index = i};
            assert_int_equal(0, pthread_create(&l[i].thread, NULL, learn, &l[i]));
        }
        for (uint32_t i = 0; i < 2; i++) {
            pthread_join(l[i].thread, NULL);
            if (!(l[i].error < 0.01F)) {
                fail_msg("mode %zu, trainer %u: error %g", m, i, (double)l[i].error);
            }
        }
        world_end(&w);
    }
}

/* What was not pushed is lost with its trainer; the other continues. */
static void a_lost_trainer_is_not_waited_for(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 2);
    struct co_err err = {0};
    struct trainer t[2] = {{.index = 0}, {.index = 1}};
    struct rt_client *c[2] = {world_enter(&w, 0, geo), world_enter(&w, 1, geo)};
    for (uint32_t s = 0; s < 12; s++) {
        push(c[0], &t[0], s);
        push(c[1], &t[1], s);
        must(rt_step(c[0], &err));
        must(rt_step(c[1], &err));
    }
    rt_client_close(c[1]);
    for (uint32_t s = 12; s < 24; s++) {
        push(c[0], &t[0], s);
        must(rt_step(c[0], &err));
    }
    c[1] = world_enter(&w, 1, geo); /* and comes back with the servers' values */
    push(c[1], &t[1], 24);
    must(rt_finish(c[0], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
}

static void a_round_ends_when_the_server_is_gone(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct trainer t = {.index = 0};
    struct rt_client *c = world_enter(
        &w, 0, (struct rt_client_options){.mode = RT_GEO, .k_steps = 5, .return_ms = 500});
    for (uint32_t s = 0; s < 12; s++) {
        push(c, &t, s);
        must(rt_step(c, &err));
    }
    world_stop(&w);
    int rc = 0;
    for (uint32_t s = 0; s < 20 && rc == 0; s++) {
        rc = rt_step(c, &err);
    }
    says(&err, CO_PEERLOST, "server 0 (");
    rt_client_close(c);
}

/* What a trainer has not sent when it restores or loads tables is of another time. */
static void a_restore_leaves_no_copy(void **state) {
    (void)state;
    for (int load = 0; load < 2; load++) {
        struct client_world w;
        struct co_err err = {0};
        struct trainer t = {.index = 0};
        char dir[] = "/tmp/geo_test_XXXXXX";
        uint64_t id = 3;
        float before[DIM], after[DIM], v[SIZE];
        assert_non_null(mkdtemp(dir));
        world_start(&w, 1, 2);
        struct rt_client *c = world_enter(&w, 0, geo), *other = world_enter(&w, 1, geo);
        must(rt_pull_sparse(c, 1, &id, 1, before, &err));
        must(load ? rt_save(c, dir, &err) : rt_checkpoint(c, dir, NULL, NULL, &err));
        for (uint32_t s = 0; s < 12; s++) {
            push(c, &t, s);
            must(rt_step(c, &err));
        }
        must(load ? rt_load(c, dir, &err) : rt_restore(c, dir, NULL, &err));
        must(rt_pull_sparse(c, 1, &id, 1, after, &err));
        must(rt_pull_dense(c, 0, v, &err));
        for (int i = 0; i < SIZE; i++) {
            assert_true(v[i] == 0);
        }
        if (!load) { /* a load leaves rows alone that it does not have */
            assert_memory_equal(before, after, sizeof(before));
        }
        must(rt_finish(c, &err));
        must(rt_finish(other, &err));
        world_end(&w);
        CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", dir);
        assert_int_equal(0, system(cmd));
    }
}

/* Trains a little in a mode and saves; or loads that in a mode and trains on. */
static void train_with_a_save(
    const char *dir, enum rt_mode mode, bool load, float ret_v[SIZE], float ret_rows[IDS * DIM]) {
    struct client_world w;
    struct co_err err = {0};
    struct trainer t = {.index = 0};
    uint64_t ids[IDS];
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    world_start(&w, 2, 1);
    struct rt_client *c = world_enter(
        &w, 0, (struct rt_client_options){.mode = mode, .k_steps = mode == RT_GEO ? 5 : 0});
    if (load) {
        must(rt_load(c, dir, &err));
        must(rt_pull_dense(c, 0, ret_v, &err));
        must(rt_pull_sparse(c, 1, ids, IDS, ret_rows, &err));
    } else {
        must(rt_init_dense(c, 0, t.v, &err));
    }
    for (uint32_t s = 0; s < 7; s++) {
        push(c, &t, s);
        must(rt_step(c, &err));
    }
    if (!load) {
        must(rt_no_more(c, &err));
        must(rt_save(c, dir, &err));
        must(rt_pull_dense(c, 0, ret_v, &err));
        must(rt_pull_sparse(c, 1, ids, IDS, ret_rows, &err));
    }
    must(rt_finish(c, &err));
    world_end(&w);
}

static void a_save_of_any_mode_is_loaded_in_any_other(void **state) {
    (void)state;
    static const enum rt_mode modes[] = {RT_GEO, RT_ASYNC, RT_SYNC};
    float v[2][SIZE], rows[2][IDS * DIM];
    for (size_t i = 0; i < CO_ARRAY_LEN(modes) * CO_ARRAY_LEN(modes); i++) {
        char dir[] = "/tmp/geo-save-XXXXXX", remove[64];
        assert_non_null(mkdtemp(dir));
        train_with_a_save(dir, modes[i / CO_ARRAY_LEN(modes)], false, v[0], rows[0]);
        train_with_a_save(dir, modes[i % CO_ARRAY_LEN(modes)], true, v[1], rows[1]);
        assert_memory_equal(v[0], v[1], sizeof(v[0]));
        assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
        (void)snprintf(remove, sizeof(remove), "rm -r %s", dir);
        assert_int_equal(0, system(remove));
    }
}

/* A refusal may come with a later call, which then does nothing else. */
static int settle(struct rt_client *c, int refused) {
    for (int k = 0; k < 3; k++) {
        refused = rt_flush(c, NULL) < 0 ? CO_INVALID : refused;
    }
    return refused < 0 ? CO_INVALID : 0;
}

/* A finite gradient that would make a copy infinite, or its state, is as one with Inf: the copy
 * stays finite, learns on, and what the servers have is what it has. */
static void a_copy_that_would_overflow_stays_as_it_was(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        float g;
    } rows[] = {{"sgd:lr=10", 1e38F}, {"sgd:lr=10", -3e38F}, {"adagrad:lr=0.1", 2e19F},
        {"adam:lr=0.1", 1e21F}};
    const uint64_t ids[] = {3, 4};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        bool skip = i % 2;
        struct client_world w;
        struct rt_client *c = NULL;
        struct co_err err = {0};
        struct rt_table_stat stat;
        struct rt_table_spec tables[2] = {specs[0], specs[1]};
        float v[SIZE] = {0}, was[SIZE], g[SIZE] = {0}, rg[2 * DIM], row[2 * DIM], before[2 * DIM];
        tables[0].optimizer = tables[1].optimizer = rows[i / 2].rule;
        world_start_with(&w, 1, 1, skip ? RT_NONFINITE_SKIP : RT_NONFINITE_REFUSE);
        must(world_open(&w, 0, geo, tables, &c, &err));
        must(rt_init_dense(c, 0, v, &err));
        for (size_t k = 0; k < CO_ARRAY_LEN(rg); k++) {
            rg[k] = 1;
        }
        for (int step = 0; step < 3 * (int)geo.k_steps; step++) {
            bool large = step == 2;
            g[1] = 1;
            g[2] = rg[DIM + 1] = large ? rows[i / 2].g : 1;
            must(rt_pull_sparse(c, 1, ids, 2, before, &err));
            must(rt_pull_dense(c, 0, was, &err));
            int refused = settle(c, rt_push_sparse(c, 1, ids, 2, rg, NULL));
            refused = settle(c, rt_push_dense(c, 0, g, NULL)) < 0 ? CO_INVALID : refused;
            assert_int_equal(large && !skip ? CO_INVALID : 0, refused);
            must(rt_pull_sparse(c, 1, ids, 2, row, &err));
            must(rt_pull_dense(c, 0, v, &err));
            for (size_t k = 0; k < CO_ARRAY_LEN(row); k++) {
                bool still = large && (!skip || k >= DIM);
                assert_true(isfinite(row[k]) && (row[k] == before[k]) == still);
            }
            bool stays = large && (!skip || !strstr(rows[i / 2].rule, "adam")); /* has momentum */
            assert_true(isfinite(v[2]) && (v[2] == was[2]) == stays);
            must(rt_step(c, &err));
        }
        must(rt_flush(c, &err));
        for (uint32_t t = 0; t < 2; t++) {
            must(rt_stat(c, t, &stat, &err));
            assert_int_equal(1, stat.nonfinite);
        }
        must(rt_no_more(c, &err)); /* from now on the servers' values */
        must(rt_barrier(c, &err));
        must(rt_pull_sparse(c, 1, ids, 2, before, &err));
        for (size_t k = 0; k < CO_ARRAY_LEN(row); k++) {
            assert_true(fabsf(before[k] - row[k]) <= 1e-4F * fabsf(row[k]) + 1e-5F);
        }
        must(rt_finish(c, &err));
        world_end(&w);
    }
}

/* A server's 90000 is infinite in f16, and infinity minus infinity would be NaN for ever. */
static void a_copy_of_what_its_wire_cannot_hold_is_finite(void **state) {
    (void)state;
    static const struct {
        const char *wire;
        float g;
        bool all_sent; /* no step overflows f32 */
    } rows[] = {{"f16", 9e4F, true}, {"bf16", 1.5e38F, false}, {"f32", 1.5e38F, false}};
    const uint64_t ids[] = {3};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct client_world w;
        struct rt_client *c = NULL;
        struct co_err err = {0};
        struct rt_client_options each = {.mode = RT_GEO, .k_steps = 1};
        struct rt_table_spec tables[2] = {specs[0], specs[1]};
        struct rt_table_stat stat;
        float v[SIZE] = {0}, g[SIZE] = {0}, rg[DIM] = {0}, row[DIM];
        tables[0].optimizer = tables[1].optimizer = "sgd:lr=1";
        tables[0].wire = tables[1].wire = rows[i].wire;
        tables[1].init = "zero";
        world_start_with(&w, 1, 1, RT_NONFINITE_SKIP);
        must(world_open(&w, 0, each, tables, &c, &err));
        must(rt_init_dense(c, 0, v, &err));
        for (int step = 0; step < 8; step++) {
            g[2] = rg[1] = step < 4 ? -rows[i].g : 1;
            must(rt_push_sparse(c, 1, ids, 1, rg, &err));
            must(rt_push_dense(c, 0, g, &err));
            must(rt_step(c, &err));
            must(rt_flush(c, &err));
            must(rt_pull_sparse(c, 1, ids, 1, row, &err));
            must(rt_pull_dense(c, 0, v, &err));
            assert_true(row[1] > 0 && isfinite(row[1]) && v[2] > 0 && isfinite(v[2]));
        }
        for (uint32_t t = 0; t < 2 && rows[i].all_sent; t++) {
            must(rt_stat(c, t, &stat, &err));
            assert_int_equal(0, stat.nonfinite);
        }
        must(rt_finish(c, &err));
        world_end(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_of_any_mode_is_loaded_in_any_other),
        cmocka_unit_test(the_servers_have_what_was_pushed),
        cmocka_unit_test(one_trainer_with_any_rule_equals_async),
        cmocka_unit_test(a_copy_is_trained_at_once),
        cmocka_unit_test(an_id_has_one_row),
        cmocka_unit_test(all_modes_learn_the_same),
        cmocka_unit_test(a_copy_that_would_overflow_stays_as_it_was),
        cmocka_unit_test(a_copy_of_what_its_wire_cannot_hold_is_finite),
        cmocka_unit_test(a_lost_trainer_is_not_waited_for),
        cmocka_unit_test(a_round_ends_when_the_server_is_gone),
        cmocka_unit_test(a_restore_leaves_no_copy),
    };
    return cmocka_run_group_tests_name("geo", tests, NULL, NULL);
}
