/* Servers and trainers as threads of one process. */
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
#include "runtime/train/ps/client/job_testing.h"
#include "runtime/train/ps/server/server.h"

enum { SIZE = 1000, DIM = 6, TRAINERS_MAX = 4 };

static bool encrypt; /* all that the tests below do */

struct world {
    struct pss_server *servers[4];
    uint32_t n_servers, n_trainers;
    char endpoint[4][32];
    const char *endpoints[4];
};

static void world_start(struct world *w, uint32_t servers, uint32_t trainers, uint32_t shards) {
    memset(w, 0, sizeof(*w));
    w->n_servers = servers;
    w->n_trainers = trainers;
    for (uint32_t i = 0; i < servers; i++) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .index = i,
            .servers = servers,
            .trainers = trainers,
            .job = own_job(),
            .token = "secret",
            .encrypt = encrypt,
            .lease_ms = 60000,
            .return_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = shards,
            .memory_max = 1 << 30,
            .quiet = true};
        assert_int_equal(0, pss_server_start(&c, &w->servers[i], NULL));
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w->servers[i]));
        w->endpoints[i] = w->endpoint[i];
    }
}

static void world_end(struct world *w, int want) {
    for (uint32_t i = 0; i < w->n_servers; i++) {
        struct co_err err = {0};
        int rc = pss_server_wait(w->servers[i], &err);
        if (rc != want) {
            fail_msg("server %u: %d %s", i, rc, err.msg);
        }
        pss_server_stop(w->servers[i]);
    }
}

static const struct rt_table_spec specs[] = {
    {.name = "dense", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "rows",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "adagrad:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .seed = 3},
};

static struct rt_client *enter(
    struct world *w, uint32_t trainer, enum rt_mode mode, const char *token, struct co_err *err) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = w->n_trainers,
        .servers = w->n_servers,
        .endpoints = w->endpoints,
        .job = own_job(),
        .token = token,
        .encrypt = encrypt};
    struct rt_client_options o = {.mode = mode,
        .call_timeout_ms = 60000,
        .barrier_timeout_ms = 60000,
        .start_timeout_ms = 60000};
    struct rt_client *client = NULL;
    int rc = psc_client_connect(&c, &o, specs, 2, &client, err);
    return rc == 0 ? client : NULL;
}

/* Uses the err of the place where it stands. */
#define must(e)                                                                                    \
    do {                                                                                           \
        if ((e) != 0) {                                                                            \
            fail_msg("%s: %s", #e, err.msg);                                                       \
        }                                                                                          \
    } while (0)

/* A gradient that depends on trainer, step and place. */
static float pseudo(uint32_t trainer, uint32_t step, uint64_t i) {
    return (float)((trainer * 7 + step * 13 + i * 5) % 31) / 31.0F - 0.5F;
}

/* As `paddle pserver` of old: it gets ports and a number of trainers, no list. */
static void servers_without_a_list_learn_their_place(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 3, 1, 2);
    for (uint32_t i = 0; i < w.n_servers; i++) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .trainers = 1,
            .token = "secret",
            .encrypt = encrypt,
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = 1,
            .memory_max = 1 << 30,
            .quiet = true};
        pss_server_stop(w.servers[i]);
        assert_int_equal(0, pss_server_start(&c, &w.servers[i], NULL));
        (void)snprintf(w.endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w.servers[i]));
    }
    struct co_err err = {0};
    assert_null(enter(&w, 0, RT_ASYNC, "wrong", &err));
    assert_int_equal(err.code, CO_PERMISSION);
    struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    float v[SIZE], g[SIZE];
    for (int i = 0; i < SIZE; i++) {
        v[i] = (float)i;
        g[i] = 10;
    }
    must(rt_init_dense(c, 0, v, &err));
    must(rt_push_dense(c, 0, g, &err));
    must(rt_flush(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    for (int i = 0; i < SIZE; i++) {
        assert_true(v[i] == (float)i - 1);
    }
    must(rt_finish(c, &err));
    world_end(&w, 0);
}

static void one_trainer_reads_what_it_pushed(void **state) {
    (void)state;
    for (uint32_t servers = 1; servers <= 3; servers++) {
        struct world w;
        world_start(&w, servers, 1, 2);
        struct co_err err = {0};
        struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
        assert_non_null(c);
        float v[SIZE], g[SIZE];
        for (int i = 0; i < SIZE; i++) {
            v[i] = (float)i;
            g[i] = 10;
        }
        must(rt_init_dense(c, 0, v, &err));
        assert_true(v[999] == 999);
        must(rt_push_dense(c, 0, g, &err));
        must(rt_pull_dense(c, 0, v, &err));
        for (int i = 0; i < SIZE; i++) {
            assert_true(fabsf(v[i] - ((float)i - 1)) < 1e-4F);
        }
        uint64_t ids[5] = {7, UINT64_MAX, 7, 0, 123456789};
        float rows[5 * DIM], again[5 * DIM], fresh[DIM];
        must(rt_pull_sparse(c, 1, ids, 5, rows, &err));
        for (int i = 0; i < 5; i++) {
            must(rt_table_init_row(&specs[1], ids[i], fresh, &err));
            assert_memory_equal(fresh, rows + i * DIM, sizeof(fresh));
        }
        float grads[5 * DIM];
        for (int i = 0; i < 5 * DIM; i++) {
            grads[i] = 0.5F;
        }
        must(rt_push_sparse(c, 1, ids, 5, grads, &err));
        must(rt_pull_sparse(c, 1, ids, 5, again, &err));
        for (int i = 0; i < 5 * DIM; i++) {
            /* first step of adagrad: lr * sign, also for the summed gradient of the repeated id */
            assert_true(fabsf(again[i] - (rows[i] - 0.1F)) < 1e-4F);
        }
        struct rt_table_stat st;
        must(rt_stat(c, 1, &st, &err));
        assert_int_equal(4, st.rows);
        must(rt_finish(c, &err));
        world_end(&w, 0);
    }
}

/* ---- sync ---- */

struct trainer {
    struct world *w;
    uint32_t index, steps;
    bool leaves; /* finishes after its steps, whatever the others do */
    pthread_t thread;
    float v[SIZE];
    float rows[20 * DIM];
};

/* Pulls that travel together give what they give alone; one that is wrong stops all. */
static void many_pulls_at_once_are_many_pulls(void **state) {
    (void)state;
    enum { N = 40, EACH = 30 };
    struct world w;
    struct co_err err = {0};
    world_start(&w, 2, 1, 2);
    struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    uint64_t ids[N][EACH];
    float rows[N][EACH * DIM], alone[EACH * DIM];
    struct rt_pull pulls[N + 1];
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < EACH; k++) {
            ids[i][k] = i * 17 + k % 20;
        }
        pulls[i] = (struct rt_pull){1, ids[i], i == 3 ? 0 : EACH, rows[i]};
    }
    must(rt_push_sparse(c, 1, ids[0], EACH, memset(alone, 0x3f, sizeof(alone)), &err));
    must(rt_pull_sparse_many(c, pulls, N, &err));
    for (uint32_t i = 0; i < N; i++) {
        must(rt_pull_sparse(c, 1, ids[i], pulls[i].n, alone, &err));
        assert_memory_equal(alone, rows[i], pulls[i].n * DIM * sizeof(float));
    }
    must(rt_pull_sparse_many(c, pulls, 0, &err));
    pulls[N] = (struct rt_pull){0, ids[0], EACH, rows[0]}; /* a dense table */
    assert_int_equal(CO_INVALID, rt_pull_sparse_many(c, pulls, N + 1, &err));
    must(rt_finish(c, &err));
    world_end(&w, 0);
}

static void *train_sync(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    struct rt_client *c = enter(t->w, t->index, RT_SYNC, "secret", &err);
    assert_non_null(c);
    for (int i = 0; i < SIZE; i++) {
        t->v[i] = (float)i / SIZE;
    }
    must(rt_init_dense(c, 0, t->v, &err));
    uint64_t ids[20];
    for (uint32_t step = 0; step < t->steps; step++) {
        float g[SIZE], rg[20 * DIM];
        for (uint32_t i = 0; i < SIZE; i++) {
            g[i] = pseudo(t->index, step, i);
        }
        for (uint32_t i = 0; i < 20; i++) {
            ids[i] = i * (t->index + 1); /* some in common, some not */
            for (uint32_t k = 0; k < DIM; k++) {
                rg[i * DIM + k] = pseudo(t->index, step, ids[i] * DIM + k);
            }
        }
        must(rt_push_sparse(c, 1, ids, 20, rg, &err));
        must(rt_exchange_dense(c, 0, g, t->v, &err));
        must(rt_step(c, &err));
    }
    if (!t->leaves) {
        must(rt_barrier(c, &err));
        for (uint32_t i = 0; i < 20; i++) {
            ids[i] = i;
        }
        must(rt_pull_sparse(c, 1, ids, 20, t->rows, &err));
    }
    must(rt_finish(c, &err));
    return NULL;
}

static float adagrad(float w, float *m, float g) {
    *m += g * g;
    return w - 0.1F * g / (sqrtf(*m) + 1e-6F);
}

/* What one process would compute from the mean of the gradients. */
static void check_sync(const struct trainer *t, uint32_t trainers, uint32_t steps) {
    for (uint64_t i = 0; i < SIZE; i++) {
        float v = (float)i / SIZE;
        for (uint32_t s = 0; s < steps; s++) {
            float sum = 0;
            for (uint32_t k = 0; k < trainers; k++) {
                sum += pseudo(k, s, i);
            }
            v -= 0.1F * sum / (float)trainers;
        }
        if (fabsf(v - t->v[i]) > 1e-6F) {
            fail_msg("value %u: %.8f, expected %.8f", (unsigned)i, t->v[i], v);
        }
    }
    for (uint64_t id = 0; id < 20; id++) {
        float first[DIM];
        assert_int_equal(0, rt_table_init_row(&specs[1], id, first, NULL));
        for (uint64_t k = 0; k < DIM; k++) {
            float v = first[k], m = 0;
            for (uint32_t s = 0; s < steps; s++) {
                float sum = 0;
                for (uint32_t tr = 0; tr < trainers; tr++) {
                    if (id % (tr + 1) == 0 && id / (tr + 1) < 20) {
                        sum += pseudo(tr, s, id * DIM + k);
                    }
                }
                v = sum != 0 ? adagrad(v, &m, sum / (float)trainers) : v;
            }
            if (fabsf(v - t->rows[id * DIM + k]) > 1e-5F) {
                fail_msg("row %u[%u]: %.8f, expected %.8f", (unsigned)id, (unsigned)k,
                    t->rows[id * DIM + k], v);
            }
        }
    }
}

static void sync_training_equals_one_process_with_mean_gradients(void **state) {
    (void)state;
    static const struct {
        uint32_t servers, trainers, shards;
    } rows[] = {{1, 1, 1}, {2, 2, 1}, {3, 4, 2}};
    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        struct world w;
        world_start(&w, rows[r].servers, rows[r].trainers, rows[r].shards);
        struct trainer t[TRAINERS_MAX];
        for (uint32_t i = 0; i < rows[r].trainers; i++) {
            t[i] = (struct trainer){.w = &w, .index = i, .steps = 20};
            assert_int_equal(0, pthread_create(&t[i].thread, NULL, train_sync, &t[i]));
        }
        for (uint32_t i = 0; i < rows[r].trainers; i++) {
            pthread_join(t[i].thread, NULL);
        }
        for (uint32_t i = 0; i < rows[r].trainers; i++) {
            check_sync(&t[i], rows[r].trainers, 20);
        }
        world_end(&w, 0);
    }
}

/* Steps continue without a trainer that has finished, and the mean is over those who are left. */
static void sync_training_continues_when_a_trainer_has_finished(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 2, 2, 2);
    struct trainer t[2] = {
        {.w = &w, .index = 0, .steps = 9}, {.w = &w, .index = 1, .steps = 4, .leaves = true}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, train_sync, &t[i]));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i].thread, NULL);
    }
    for (uint64_t i = 0; i < SIZE; i++) {
        float v = (float)i / SIZE;
        for (uint32_t s = 0; s < 9; s++) {
            v -= 0.1F * (s < 4 ? (pseudo(0, s, i) + pseudo(1, s, i)) / 2 : pseudo(0, s, i));
        }
        assert_true(fabsf(v - t[0].v[i]) < 1e-6F);
    }
    world_end(&w, 0);
}

static void async_exchange_loses_no_gradient(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 2, 1, 1);
    struct co_err err = {0};
    struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    float v[SIZE] = {0}, g[SIZE];
    must(rt_init_dense(c, 0, v, &err));
    for (int i = 0; i < SIZE; i++) {
        g[i] = -0.01F;
    }
    for (int s = 0; s < 1000; s++) {
        must(rt_exchange_dense(c, 0, g, v, &err));
    }
    must(rt_flush(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabsf(v[i] - 1) < 1e-3F);
    }
    must(rt_finish(c, &err));
    world_end(&w, 0);
}

/* A trainer that died and is started again begins from the top of its program; the job does not. */
static void a_trainer_that_comes_back_finds_what_was_trained(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 2, 1, 1);
    struct co_err err = {0};
    float v[SIZE], g[SIZE];
    for (int life = 0; life < 3; life++) {
        struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
        assert_non_null(c);
        for (int i = 0; i < SIZE; i++) {
            v[i] = 5;
            g[i] = 10;
        }
        must(rt_init_dense(c, 0, v, &err));
        assert_true(fabsf(v[SIZE - 1] - (5 - (float)life)) < 1e-5F);
        must(rt_push_dense(c, 0, g, &err));
        must(rt_flush(c, &err));
        if (life < 2) {
            rt_client_close(c);
        } else {
            must(rt_barrier(c, &err));
            must(rt_finish(c, &err));
        }
    }
    world_end(&w, 0);
}

/* ---- many threads, large tables ---- */

struct puller {
    struct rt_client *c;
    uint64_t base;
    pthread_t thread;
    int bad;
};

/* Each thread has ids of its own; what it reads is what it pushed so far. */
static void *pull_and_push(void *arg) {
    struct puller *p = arg;
    struct co_err err = {0};
    uint64_t ids[40];
    float rows[40 * DIM], g[40 * DIM], again[40 * DIM];
    for (uint32_t i = 0; i < 40; i++) {
        ids[i] = p->base + i;
    }
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 40 * DIM; i++) {
            g[i] = (float)(round + 1);
        }
        p->bad += rt_pull_sparse(p->c, 1, ids, 40, rows, &err) != 0;
        p->bad += rt_push_sparse(p->c, 1, ids, 40, g, &err) != 0;
        p->bad += rt_pull_sparse(p->c, 1, ids, 40, again, &err) != 0;
        for (int i = 0; i < 40 * DIM; i++) {
            p->bad += !(again[i] < rows[i]);
        }
    }
    return NULL;
}

static void threads_share_a_client(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 2, 1, 2);
    struct co_err err = {0};
    struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    struct puller p[3];
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = (struct puller){.c = c, .base = i * 1000UL};
        assert_int_equal(0, pthread_create(&p[i].thread, NULL, pull_and_push, &p[i]));
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(p[i].thread, NULL);
        assert_int_equal(0, p[i].bad);
    }
    must(rt_finish(c, &err));
    world_end(&w, 0);
}

/* 36 MB: more than a frame may hold, in chunks of 4 MB. */
static void a_dense_table_may_be_larger_than_a_frame(void **state) {
    (void)state;
    enum { LARGE = 9 * 1000 * 1000 };
    static const struct rt_table_spec large[] = {
        {.name = "large", .kind = RT_DENSE, .size = LARGE, .optimizer = "sgd:lr=1"}};
    struct world w;
    world_start(&w, 1, 1, 1);
    struct co_err err = {0};
    struct psc_client_config config = {.trainers = 1,
        .servers = 1,
        .endpoints = w.endpoints,
        .job = own_job(),
        .token = "secret",
        .encrypt = encrypt};
    struct rt_client *c = NULL;
    must(psc_client_connect(&config, NULL, large, 1, &c, &err));
    CO_AUTOFREE float *v = co_xcalloc(LARGE, sizeof(*v));
    CO_AUTOFREE float *g = co_xcalloc(LARGE, sizeof(*g));
    for (size_t i = 0; i < LARGE; i++) {
        v[i] = (float)i;
        g[i] = 1;
    }
    must(rt_init_dense(c, 0, v, &err));
    for (int i = 0; i < 4; i++) {
        must(rt_exchange_dense(c, 0, g, v, &err));
    }
    must(rt_flush(c, &err));
    must(rt_pull_dense(c, 0, v, &err));
    for (size_t i = 0; i < LARGE; i += 1111) {
        assert_true(v[i] == (float)i - 4);
    }
    must(rt_finish(c, &err));
    world_end(&w, 0);
}

static void foreigners_are_refused_with_the_reason(void **state) {
    (void)state;
    struct world w;
    world_start(&w, 1, 2, 1);
    struct co_err err = {0};
    assert_null(enter(&w, 0, RT_ASYNC, "guess", &err));
    assert_int_equal(CO_PERMISSION, err.code);
    assert_non_null(strstr(err.msg, "PADDLE_JOB_TOKEN"));
    struct rt_client *c = enter(&w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    assert_null(enter(&w, 1, RT_SYNC, "secret", &err));
    assert_non_null(strstr(err.msg, "sync"));
    assert_null(enter(&w, 5, RT_ASYNC, "secret", &err));
    assert_non_null(strstr(err.msg, "PADDLE_TRAINERS_NUM"));
    rt_client_close(c);
    for (uint32_t i = 0; i < w.n_servers; i++) {
        pss_server_stop(w.servers[i]);
    }
}

enum { SAVED = 3000 };

struct saved {
    uint64_t ids[SAVED];
    float gradients[SAVED * DIM], rows[SAVED * DIM];
    float dense[SIZE];
};

static struct rt_client *open_one(struct world *w, uint32_t servers) {
    struct co_err err = {0};
    world_start(w, servers, 1, servers);
    struct rt_client *c = enter(w, 0, RT_ASYNC, "secret", &err);
    assert_non_null(c);
    return c;
}

static void one_more_push(struct rt_client *c, struct saved *s) {
    struct co_err err = {0};
    must(rt_push_sparse(c, 1, s->ids, SAVED, s->gradients, &err));
    must(rt_push_dense(c, 0, s->gradients, &err));
    must(rt_pull_sparse(c, 1, s->ids, SAVED, s->rows, &err));
    must(rt_pull_dense(c, 0, s->dense, &err));
}

/* Three servers continue exactly from what one has saved, optimizer state included. */
static void a_checkpoint_fits_any_number_of_servers(void **state) {
    (void)state;
    char dir[] = "/tmp/ps_test_XXXXXX";
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE struct saved *a = co_xcalloc(1, sizeof(*a));
    for (uint32_t i = 0; i < SAVED; i++) {
        a->ids[i] = i * 977UL;
        for (uint32_t k = 0; k < DIM; k++) {
            a->gradients[i * DIM + k] = pseudo(1, 2, i + k);
        }
    }
    CO_AUTOFREE struct saved *b = co_xcalloc(1, sizeof(*b));
    *b = *a;
    struct co_err err = {0};
    struct world w;
    struct rt_client *c = open_one(&w, 1);
    one_more_push(c, a);
    must(rt_save(c, dir, &err));
    one_more_push(c, a);
    must(rt_finish(c, &err));
    world_end(&w, 0);

    c = open_one(&w, 3);
    must(rt_load(c, dir, &err));
    one_more_push(c, b);
    assert_memory_equal(a, b, sizeof(*a));
    must(rt_save(c, dir, &err));
    must(rt_finish(c, &err));
    world_end(&w, 0);

    struct rt_model *m = NULL;
    must(rt_model_open(dir, &m, &err));
    rt_model_sparse(m, 1, b->ids, SAVED, b->rows);
    assert_memory_equal(a->rows, b->rows, sizeof(a->rows));
    assert_memory_equal(a->dense, rt_model_dense(m, 0), sizeof(a->dense));
    rt_model_close(m);
    CO_AUTOFREE char *cmd = co_xasprintf("ls %s | wc -l | grep -qx 3 && rm -r %s", dir, dir);
    assert_int_equal(0, system(cmd));
}

enum { BIG = 4 << 20, BIG_ROWS = 60000, BIG_DIM = 64 };

/* Each call below is larger than what may wait to be sent; whoever has more queued is cut off. */
static void calls_of_any_size_stream(void **state) {
    (void)state;
    struct pss_server_config sc = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .lease_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 2,
        .memory_max = 1 << 30,
        .backlog = 9 << 20,
        .quiet = true};
    struct pss_server *server = NULL;
    struct co_err err = {0};
    must(pss_server_start(&sc, &server, &err));
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(server));
    const struct psc_client_config cc = {.trainers = 1,
        .servers = 1,
        .endpoints = (const char *const[]){endpoint},
        .job = own_job(),
        .window = 1 << 20,
        .backlog = 9 << 20};
    static const struct rt_table_spec big[] = {
        {.name = "dense", .kind = RT_DENSE, .size = BIG, .optimizer = "adagrad:lr=0.1"},
        {.name = "rows", .kind = RT_SPARSE, .dim = BIG_DIM, .optimizer = "sgd:lr=1"},
    };
    const struct rt_client_options o = {.mode = RT_ASYNC, .call_timeout_ms = 60000};
    struct rt_client *c = NULL;
    must(psc_client_connect(&cc, &o, big, 2, &c, &err));
    CO_AUTOFREE float *w = co_xmalloc(BIG * sizeof(float));
    CO_AUTOFREE float *back = co_xcalloc(BIG, sizeof(float));
    CO_AUTOFREE uint64_t *ids = co_xmalloc(BIG_ROWS * sizeof(*ids));
    for (size_t i = 0; i < BIG; i++) {
        w[i] = (float)(i % 997);
    }
    for (size_t i = 0; i < BIG_ROWS; i++) {
        ids[i] = i * 3;
    }
    must(rt_init_dense(c, 0, w, &err));
    must(rt_push_sparse(c, 1, ids, BIG_ROWS, w, &err));
    memset(w, 0, BIG * sizeof(float));
    must(rt_push_dense(c, 0, w, &err));
    must(rt_flush(c, &err));
    char dir[] = "/tmp/ps_test_XXXXXX";
    assert_non_null(mkdtemp(dir));
    must(rt_save(c, dir, &err));
    must(rt_load(c, dir, &err));
    must(rt_pull_dense(c, 0, back, &err));
    for (size_t i = 0; i < BIG; i++) {
        assert_true(back[i] == (float)(i % 997));
    }
    must(rt_exchange_dense(c, 0, w, back, &err));
    must(rt_flush(c, &err));
    memset(back, 0, BIG * sizeof(float));
    must(rt_pull_sparse(c, 1, ids, BIG_ROWS, back, &err));
    for (size_t i = 0; i < (size_t)BIG_ROWS * BIG_DIM; i++) {
        assert_true(back[i] == -(float)(i % 997));
    }
    must(rt_finish(c, &err));
    must(pss_server_wait(server, &err));
    pss_server_stop(server);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", dir);
    assert_int_equal(0, system(cmd));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_without_a_list_learn_their_place),
        cmocka_unit_test(one_trainer_reads_what_it_pushed),
        cmocka_unit_test(many_pulls_at_once_are_many_pulls),
        cmocka_unit_test(sync_training_equals_one_process_with_mean_gradients),
        cmocka_unit_test(sync_training_continues_when_a_trainer_has_finished),
        cmocka_unit_test(async_exchange_loses_no_gradient),
        cmocka_unit_test(a_checkpoint_fits_any_number_of_servers),
        cmocka_unit_test(a_trainer_that_comes_back_finds_what_was_trained),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(a_dense_table_may_be_larger_than_a_frame),
        cmocka_unit_test(calls_of_any_size_stream),
        cmocka_unit_test(foreigners_are_refused_with_the_reason),
    };
    /* the same over data lanes, and all over gRPC */
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    int failed = cmocka_run_group_tests_name("ps", tests, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "grpc", 1);
    failed += cmocka_run_group_tests_name("ps, gRPC", tests, NULL, NULL);
    encrypt = true;
    failed += cmocka_run_group_tests_name("ps, gRPC, encrypted", tests, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    return failed + cmocka_run_group_tests_name("ps, encrypted", tests, NULL, NULL);
}
