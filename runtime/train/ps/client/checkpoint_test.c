/* Checkpoints that servers make: what N servers wrote M servers load; a chain of deltas is as good
 * as a full one; each is of one instant; what is damaged is passed over. */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/folder_testing.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/checkpoint_internal.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/job_testing.h"
#include "runtime/train/ps/server/server.h"
#include "runtime/train/ps/shard/restore.h"

enum { SIZE = 3000, DIM = 6, IDS = 4000, BATCH = 300, SERVERS_MAX = 4 };

struct world {
    struct pss_server *servers[SERVERS_MAX];
    uint32_t n;
    char endpoint[SERVERS_MAX][32];
    const char *endpoints[SERVERS_MAX];
    uint32_t trainers;
};

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adam:lr=0.01"},
    {.name = "rows",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "adagrad:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .seed = 3},
    {.name = "more", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd:lr=0.1"},
};

static const char *restore_dir; /* of the next world */

static void world_start(
    struct world *w, uint32_t servers, uint32_t shards, uint32_t trainers, const char *root) {
    memset(w, 0, sizeof(*w));
    w->n = servers;
    w->trainers = trainers;
    for (uint32_t i = 0; i < servers; i++) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .index = i,
            .servers = servers,
            .trainers = trainers,
            .job = own_job(),
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = shards,
            .memory_max = 1 << 30,
            .checkpoint_dir = root,
            .restore_dir = restore_dir,
            .quiet = true};
        assert_int_equal(0, pss_server_start(&c, &w->servers[i], NULL));
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w->servers[i]));
        w->endpoints[i] = w->endpoint[i];
    }
}

static void world_end(struct world *w) {
    for (uint32_t i = 0; i < w->n; i++) {
        struct co_err err = {0};
        if (pss_server_wait(w->servers[i], &err) < 0) {
            fail_msg("server %u: %s", i, err.msg);
        }
        pss_server_stop(w->servers[i]);
    }
}

static struct rt_client *enter(struct world *w, uint32_t trainer, struct rt_client_options o) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = w->trainers,
        .servers = w->n,
        .endpoints = w->endpoints,
        .job = own_job()};
    o.call_timeout_ms = 30000;
    o.barrier_timeout_ms = 30000;
    o.lease_ms = 60000;
    struct rt_client *client = NULL;
    struct co_err err = {0};
    if (psc_client_connect(&c, &o, specs, 3, &client, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return client;
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        struct co_err err = {0};                                                                   \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, err.msg);                                                    \
        }                                                                                          \
    } while (0)

/* ---- training ---- */

static uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* Pushes that are the same for the same seed. */
static void push_batch(struct rt_client *c, uint64_t seed, bool dense) {
    static _Thread_local float g[SIZE];
    uint64_t ids[BATCH];
    float rows[BATCH * DIM];
    for (uint32_t table = 1; table < 3; table++) {
        for (size_t i = 0; i < BATCH; i++) {
            ids[i] = random_next(&seed) % IDS;
        }
        for (size_t i = 0; i < BATCH * DIM; i++) {
            rows[i] = (float)(random_next(&seed) % 100) / 100 - 0.5F;
        }
        OK(rt_push_sparse(c, table, ids, BATCH, rows, &err));
    }
    for (size_t i = 0; i < SIZE; i++) {
        g[i] = (float)(random_next(&seed) % 100) / 100 - 0.5F;
    }
    if (dense) {
        OK(rt_push_dense(c, 0, g, &err));
    }
}

struct values {
    float dense[SIZE], rows[IDS * DIM], more[IDS];
};

static struct values *read_all(struct rt_client *c) {
    struct values *v = co_xcalloc(1, sizeof(*v));
    uint64_t *ids = co_xcalloc(IDS, sizeof(*ids));
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    OK(rt_flush(c, &err));
    OK(rt_pull_dense(c, 0, v->dense, &err));
    OK(rt_pull_sparse(c, 1, ids, IDS, v->rows, &err));
    OK(rt_pull_sparse(c, 2, ids, IDS, v->more, &err));
    free(ids);
    return v;
}

static uint64_t count_rows(struct rt_client *c, uint32_t table) {
    struct rt_table_stat st;
    OK(rt_stat(c, table, &st, &err));
    return st.rows;
}

/* Another byte at `at`, from the end when negative. */
static void damage(const char *dir, uint64_t number, const char *file, long at) {
    CO_AUTOFREE char *in = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", in, file);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(0, fseek(f, at, at < 0 ? SEEK_END : SEEK_SET));
    int byte = getc(f);
    assert_int_equal(0, fseek(f, -1, SEEK_CUR));
    assert_int_equal(byte ^ 1, putc(byte ^ 1, f));
    assert_int_equal(0, fclose(f));
}

/* ---- tests ---- */

/* Values are the same after the same pushes: so optimizer states were, too. */
static void check_same(const char *dir, uint32_t servers, uint32_t shards, uint64_t more,
    uint64_t rows, const struct values *want, const struct rt_checkpoint *made) {
    struct world w;
    world_start(&w, servers, shards, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    push_batch(c, 999, true); /* is gone afterwards */
    struct rt_checkpoint got = {0};
    OK(rt_restore(c, dir, &got, &err));
    assert_int_equal(made->number, got.number);
    assert_int_equal(made->full, got.full);
    assert_int_equal(made->deltas, got.deltas);
    assert_int_equal(rows, count_rows(c, 1));
    push_batch(c, more, true);
    CO_AUTOFREE struct values *have = read_all(c);
    assert_memory_equal(want->dense, have->dense, sizeof(have->dense));
    assert_memory_equal(want->rows, have->rows, sizeof(have->rows));
    assert_memory_equal(want->more, have->more, sizeof(have->more));
    OK(rt_finish(c, &err));
    world_end(&w);
}

static void m_servers_load_a_checkpoint_of_n_servers(void **state) {
    static const struct {
        uint32_t servers, shards, to_servers, to_shards;
    } rows[] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {1, 3, 3, 1}, {3, 1, 2, 2}, {4, 1, 1, 2}, {2, 2, 2, 3}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (uint32_t deltas = 0; deltas < 4; deltas += 3) {
            CO_AUTOFREE char *dir = co_xasprintf("%s/%zu-%u", (char *)*state, i, deltas);
            struct world w;
            world_start(&w, rows[i].servers, rows[i].shards, 1, NULL);
            struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
            struct rt_checkpoint made = {0};
            uint64_t seed = i * 100;
            push_batch(c, seed++, true);
            for (uint32_t k = 0; k <= deltas; k++) {
                push_batch(c, seed++, k != 2);
                OK(rt_checkpoint(c, dir, NULL, &made, &err));
                assert_int_equal(k + 1, made.number);
                assert_int_equal(k, made.deltas);
            }
            uint64_t n = count_rows(c, 1);
            push_batch(c, seed, true);
            CO_AUTOFREE struct values *want = read_all(c);
            OK(rt_finish(c, &err));
            world_end(&w);
            check_same(dir, rows[i].to_servers, rows[i].to_shards, seed, n, want, &made);
        }
    }
}

/* A server that begins with what it was, whole or as one of another number. */
static void servers_begin_with_the_newest_whole_checkpoint(void **state) {
    const char *dir = *state;
    struct world w;
    struct rt_checkpoint made;
    world_start(&w, 2, 2, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    push_batch(c, 1, true);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    push_batch(c, 2, true);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    CO_AUTOFREE struct values *want = read_all(c);
    push_batch(c, 3, true);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    assert_int_equal(2, made.deltas);
    OK(rt_finish(c, &err));
    world_end(&w);
    damage(dir, 3, "part-00001", -100);
    for (uint32_t servers = 1; servers < 4; servers++) {
        restore_dir = dir;
        world_start(&w, servers, 2, 1, NULL);
        restore_dir = NULL;
        assert_int_equal(2, pss_server_restored(w.servers[0])->number);
        c = enter(&w, 0, (struct rt_client_options){0});
        CO_AUTOFREE struct values *have = read_all(c);
        assert_memory_equal(want, have, sizeof(*have));
        OK(rt_finish(c, &err));
        world_end(&w);
    }
}

/* Dense tables, of which each shard has other ones when they stand in another order; and all were
 * on the first shard before they took turns. */
static void tables_in_another_order_begin_with_what_was_saved(void **state) {
    enum { N = 5, FEW = 20 };
    static const char *const names[N] = {"a", "b", "c", "d", "e"};
    const char *dir = *state;
    for (int turned = 0; turned < 2; turned++) {
        struct rt_table_spec s[N];
        struct world w;
        struct rt_client *c = NULL;
        float values[FEW];
        restore_dir = turned ? dir : NULL;
        world_start(&w, 2, 2, 1, NULL);
        restore_dir = NULL;
        for (int i = 0; i < N; i++) {
            const char *name = names[turned ? N - 1 - i : i];
            s[i] = (struct rt_table_spec){
                .name = name, .kind = RT_DENSE, .size = FEW, .optimizer = "sgd:lr=1"};
        }
        struct psc_client_config config = {
            .trainers = 1, .servers = w.n, .endpoints = w.endpoints, .job = own_job()};
        struct rt_client_options o = {0};
        OK(psc_client_connect(&config, &o, s, N, &c, &err));
        for (uint32_t i = 0; i < N; i++) {
            for (uint32_t k = 0; k < FEW; k++) {
                values[k] = turned ? 0 : -(float)(i * FEW + k);
            }
            if (!turned) {
                OK(rt_push_dense(c, i, values, &err));
                continue;
            }
            OK(rt_pull_dense(c, i, values, &err));
            for (uint32_t k = 0; k < FEW; k++) {
                assert_true(values[k] == (float)((N - 1 - i) * FEW + k));
            }
        }
        OK(turned ? 0 : rt_checkpoint(c, dir, NULL, NULL, &err));
        OK(rt_finish(c, &err));
        world_end(&w);
    }
}

/* ---- of one instant ---- */

/* All values of w, and all rows of "more", count the pushes: by one each. */
static const struct rt_table_spec counters[] = {
    {.name = "w", .kind = RT_DENSE, .size = 40000, .optimizer = "sgd:lr=1"},
    {.name = "rows", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd:lr=1", .init = "zero"},
};

static struct rt_client *enter_counting(
    struct world *w, uint32_t trainer, struct rt_client_options o) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = w->trainers,
        .servers = w->n,
        .endpoints = w->endpoints,
        .job = own_job()};
    struct rt_client *client = NULL;
    OK(psc_client_connect(&c, &o, counters, 2, &client, &err));
    return client;
}

static void count_once(struct rt_client *c) {
    static _Thread_local float g[40000];
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(g); i++) {
        g[i] = -1;
    }
    OK(rt_push_sparse(c, 1, ids, IDS, g, &err));
    OK(rt_push_dense(c, 0, g, &err));
}

/* Of each shard's part of each table; fails where values of one shard differ.  What `want` says,
 * unless it is negative. */
static void check_counts(
    const char *dir, uint64_t number, uint32_t servers, uint32_t shards, float want) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    OK(ckpt_chain_open(dir, number, &chain, &err));
    OK(ckpt_chain_verify(chain, &err));
    for (uint32_t s = 0; s < servers; s++) {
        for (uint32_t k = 0; k < shards; k++) {
            struct ps_table tables[2];
            struct shard_tables t;
            struct shard_config c = {.index = k,
                .shards = shards,
                .server = s,
                .servers = servers,
                .trainers = 1,
                .tables = tables,
                .n_tables = 2};
            OK(ps_table_make(&counters[0], &tables[0], &err));
            OK(ps_table_make(&counters[1], &tables[1], &err));
            OK(shard_tables_init(&t, &c, &err));
            OK(shard_tables_restore(&t, chain, &err));
            const struct table_store *rows = t.tables[1].rows;
            float first = t.tables[0].blocks[0].w[0], row = -1;
            for (size_t i = 0; i < t.tables[0].blocks[0].n; i++) {
                assert_true(t.tables[0].blocks[0].w[i] == first);
            }
            for (uint32_t at = table_store_next(rows, 0); at != TABLE_SLOT_NONE;
                 at = table_store_next(rows, at + 1)) {
                float v;
                table_store_read(rows, at, &v);
                row = row < 0 ? v : row;
                assert_true(v == row);
            }
            /* A push brings rows first. */
            assert_true(row == first || row == first + 1);
            assert_true(want < 0 || (first == want && row == want));
            shard_tables_done(&t);
        }
    }
}

struct counter {
    struct rt_client *c;
    atomic_bool stop;
};

static void *count_on(void *arg) {
    struct counter *k = arg;
    while (!atomic_load(&k->stop)) {
        count_once(k->c);
    }
    return NULL;
}

static void a_checkpoint_beside_training_is_of_one_instant(void **state) {
    const char *dir = *state;
    struct world w;
    struct counter k = {0};
    pthread_t thread;
    world_start(&w, 2, 2, 2, NULL);
    k.c = enter_counting(&w, 0, (struct rt_client_options){0});
    struct rt_client *c = enter_counting(&w, 1, (struct rt_client_options){0});
    count_once(k.c);
    assert_int_equal(0, pthread_create(&thread, NULL, count_on, &k));
    struct rt_checkpoint made;
    const struct rt_checkpoint_options o = {.deltas = 3, .keep = UINT32_MAX};
    for (int i = 0; i < 12; i++) {
        OK(rt_checkpoint(c, dir, &o, &made, &err));
        assert_int_equal(i % 4, made.deltas);
        check_counts(dir, made.number, 2, 2, -1);
    }
    atomic_store(&k.stop, true);
    pthread_join(thread, NULL);
    OK(rt_finish(k.c, &err));
    OK(rt_finish(c, &err));
    world_end(&w);
}

static uint64_t last_number(const char *dir) {
    uint64_t last = 0;
    OK(ckpt_last_number(dir, &last, &err));
    return last;
}

struct stepper {
    struct world *w;
    const char *dir;
    uint32_t trainer;
    atomic_int *last; /* the step after which both end; 0: not yet known */
};

enum { MADE = 7 };

static void *step_on(void *arg) {
    const struct stepper *s = arg;
    struct rt_client *c = enter_counting(s->w, s->trainer,
        (struct rt_client_options){.mode = RT_SYNC,
            .checkpoint_dir = s->trainer == 0 ? s->dir : NULL,
            .checkpoint_steps = 3,
            .checkpoint_deltas = 2,
            .checkpoint_keep = 1000});
    for (int i = 1; atomic_load(s->last) != i - 1 || i == 1; i++) {
        count_once(c);
        OK(rt_step(c, &err));
        if (s->trainer == 0 && !atomic_load(s->last) && last_number(s->dir) >= MADE) {
            atomic_store(s->last, i + 2); /* nobody is further than i + 1 */
        }
    }
    OK(rt_finish(c, &err));
    return NULL;
}

/* Without a call: of the options, by worker 0's steps. */
static void in_sync_mode_a_checkpoint_is_of_its_step(void **state) {
    const char *dir = *state;
    struct world w;
    struct stepper s[2];
    atomic_int end = 0;
    pthread_t threads[2];
    world_start(&w, 2, 2, 2, dir);
    for (uint32_t i = 0; i < 2; i++) {
        s[i] = (struct stepper){&w, dir, i, &end};
        assert_int_equal(0, pthread_create(&threads[i], NULL, step_on, &s[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    world_end(&w);
    uint64_t last = last_number(dir), step = 0, hash = 0;
    assert_true(last >= MADE);
    for (uint64_t n = 1; n <= last; n++) {
        struct ckpt_point p;
        OK(ckpt_point_read(dir, n, &p, &err));
        assert_true(p.sync && p.step >= step + 3 && p.step <= (uint64_t)end);
        assert_int_equal(n % 3 == 1, ckpt_point_full(&p));
        assert_int_equal(p.after, ckpt_point_full(&p) ? 0 : hash);
        hash = p.hash;
        step = p.step;
        check_counts(dir, n, 2, 2, (float)step);
        ckpt_point_done(&p);
    }
}

/* With a backup worker nobody waits for trainer 0, which asks for checkpoints. */
static void a_late_trainer_makes_checkpoints(void **state) {
    enum { AHEAD = 3 };
    const char *dir = *state;
    const struct rt_client_options o = {.mode = RT_SYNC, .backup = 1};
    struct world w;
    struct rt_client *c[2];
    struct rt_checkpoint made;
    world_start(&w, 2, 2, 2, dir);
    for (uint32_t i = 0; i < 2; i++) {
        c[i] = enter_counting(&w, i, o);
    }
    for (int i = 0; i < AHEAD; i++) {
        count_once(c[1]);
        OK(rt_step(c[1], &err));
    }
    OK(rt_checkpoint(c[0], dir, NULL, &made, &err));
    assert_int_equal(1, made.number);
    check_counts(dir, 1, 2, 2, AHEAD);
    for (uint32_t i = 0; i < 2; i++) {
        OK(rt_finish(c[i], &err));
    }
    world_end(&w);
}

/* A server that is restarted must not begin with the tables of before the load. */
static void a_load_is_followed_by_a_checkpoint(void **state) {
    const char *dir = *state;
    struct world w;
    world_start(&w, 1, 1, 1, dir);
    CO_AUTOFREE char *saved = co_xasprintf("%s.saved", dir);
    struct rt_client *c = enter_counting(&w, 0,
        (struct rt_client_options){
            .mode = RT_ASYNC, .checkpoint_dir = dir, .checkpoint_steps = 1000});
    for (uint64_t restores = 0; restores < 2; restores++) {
        count_once(c);
        OK(rt_step(c, &err));
        psc_saving_wait(c);
        assert_int_equal(restores, last_number(dir));
        if (restores) {
            OK(rt_restore(c, dir, NULL, &err));
        } else {
            OK(rt_save(c, saved, &err));
            OK(rt_load(c, saved, &err));
        }
        for (int i = 0; i < 2; i++) { /* after a restore a delta is tried first */
            OK(rt_step(c, &err));
            psc_saving_wait(c);
        }
        assert_int_equal(restores ? 3 : 1, last_number(dir));
    }
    OK(rt_finish(c, &err));
    world_end(&w);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", saved);
    assert_int_equal(0, system(cmd));
}

/* ---- what is refused, and what is said ---- */

static void servers_keep_to_their_directory(void **state) {
    const char *dir = *state;
    struct world w;
    struct co_err why = {0};
    world_start(&w, 1, 1, 1, dir);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    static const char *const outside[] = {"/tmp", "/", "%s/../x", "%sx", "%s/a/.."};
    for (size_t i = 0; i < CO_ARRAY_LEN(outside); i++) {
        char path[200];
        (void)snprintf(path, sizeof(path), i < 2 ? "%s" : "%s%s", i < 2 ? outside[i] : dir,
            i < 2 ? "" : outside[i] + 2);
        assert_int_equal(CO_PERMISSION, rt_checkpoint(c, path, NULL, NULL, &why));
        assert_non_null(strstr(why.msg, dir));
        const char *reason = strstr(path, "/..") ? "has '..' in it" : "is not below";
        assert_non_null(strstr(why.msg, reason));
        assert_int_equal(CO_PERMISSION, rt_restore(c, path, NULL, &why));
    }
    CO_AUTOFREE char *below = co_xasprintf("%s/below/it", dir);
    assert_int_equal(CO_NOTFOUND, rt_restore(c, below, NULL, &why));
    OK(rt_checkpoint(c, below, NULL, NULL, &err));
    OK(rt_checkpoint(c, dir, NULL, NULL, &err));
    push_batch(c, 1, true); /* and it continues */
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* ret: what it writes to stderr. */
static void open_model(const char *dir, char *ret, size_t size) {
    struct rt_model *m = NULL;
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    int rc = rt_model_open(dir, &m, NULL);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    assert_int_equal(0, rc);
    rt_model_close(m);
    rewind(file);
    ret[fread(ret, 1, size - 1, file)] = '\0';
    (void)fclose(file);
}

/* Who takes CO_NOTFOUND for a fresh start must not get it for the wrong call. */
static void loading_a_save_as_a_checkpoint_names_the_right_call(void **state) {
    CO_AUTOFREE char *saved = co_xasprintf("%s/saved", (char *)*state);
    CO_AUTOFREE char *points = co_xasprintf("%s/points", (char *)*state);
    CO_AUTOFREE char *point = co_xasprintf("%s/ckpt-%012d", points, 1);
    struct co_err why = {0};
    struct rt_model *m = NULL;
    struct world w;
    world_start(&w, 1, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    push_batch(c, 1, true);
    OK(rt_save(c, saved, &err));
    OK(rt_checkpoint(c, points, NULL, NULL, &err));
    assert_int_equal(CO_INVALID, rt_restore(c, saved, NULL, &why));
    assert_non_null(strstr(why.msg, "/saved\" has a model that rt_save wrote"));
    assert_non_null(strstr(why.msg, "rt_load (in Python: load) loads it"));
    assert_int_equal(CO_INVALID, rt_load(c, points, &why));
    assert_non_null(strstr(why.msg, "/points\" has checkpoints that servers wrote"));
    assert_non_null(strstr(why.msg, "rt_restore (in Python: restore) loads them"));
    static const char one[] = "is one checkpoint that servers wrote, expected the directory";
    assert_int_equal(CO_INVALID, rt_load(c, point, &why));
    assert_non_null(strstr(why.msg, one));
    assert_int_equal(CO_INVALID, rt_restore(c, point, NULL, &why));
    assert_non_null(strstr(why.msg, one));
    assert_int_equal(CO_INVALID, rt_model_open(point, &m, &why));
    assert_non_null(strstr(why.msg, one));
    assert_int_equal(CO_NOTFOUND, rt_restore(c, *state, NULL, &why)); /* neither */
    assert_int_equal(CO_NOTFOUND, rt_load(c, *state, &why));
    /* Both in one directory: each call takes its own, and who could take either says which. */
    static const struct timespec then[2] = {{5, 0}, {5, 0}}, before[2] = {{4, 0}, {4, 0}};
    static const char newer[] = "/points\" has a newer model, which rt_save wrote: checkpoint 1 of";
    CO_AUTOFREE char *of_save = co_xasprintf("%s/MANIFEST", points);
    CO_AUTOFREE char *of_point = co_xasprintf("%s/MANIFEST", point);
    OK(rt_save(c, points, &err));
    OK(rt_load(c, points, &err));
    OK(rt_restore(c, points, NULL, &err));
    char said[1000];
    assert_int_equal(0, utimensat(AT_FDCWD, of_point, then, 0));
    open_model(points, said, sizeof(said));
    assert_non_null(strstr(said, newer));
    assert_int_equal(0, utimensat(AT_FDCWD, of_save, before, 0));
    open_model(points, said, sizeof(said));
    assert_string_equal("", said);
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* Two jobs would number, prune and restore each other's. */
static void a_directory_is_one_jobs_at_a_time(void **state) {
    const char *dir = *state;
    struct pss_server_config config = lone_server(dir);
    struct pss_server *theirs = NULL, *s = NULL;
    struct rt_checkpoint made = {0};
    struct co_err why = {0};
    struct world w;
    config.job = "theirs";
    config.checkpoint_dir = dir;
    OK(pss_server_start(&config, &theirs, &err));
    config.job = own_job();
    config.endpoint = "127.0.0.1:1";
    assert_int_equal(CO_EXISTS, pss_server_start(&config, &s, &why));
    assert_non_null(strstr(why.msg, "is where job \"theirs\" writes its checkpoints"));
    world_start(&w, 1, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    assert_int_equal(CO_EXISTS, rt_checkpoint(c, dir, NULL, NULL, &why));
    assert_non_null(strstr(why.msg, "is where job \"theirs\" writes its checkpoints"));
    assert_int_equal(CO_NOTFOUND, rt_restore(c, dir, NULL, &why)); /* who reads disturbs nobody */
    pss_server_stop(theirs);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    assert_int_equal(1, made.number);
    assert_int_equal(CO_EXISTS, pss_server_start(&config, &s, &why));
    OK(rt_finish(c, &err));
    world_end(&w);
    OK(pss_server_start(&config, &s, &err)); /* its owner has ended */
    pss_server_stop(s);
}

static void file_is(const char *path, const char *want) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1000);
    assert_int_equal(0, co_file_read(path, 1000, &text, NULL));
    assert_string_equal(want, text.data);
}

static void a_server_without_its_port_takes_no_directory(void **state) {
    CO_AUTOFREE char *owner = co_xasprintf("%s/OWNER", (char *)*state);
    static const char dead[] = "job theirs\nmachine m\nlife 1\nprocess 7 8\nsince 1000000000\n";
    static const struct timespec long_ago[2] = {{5, 0}, {5, 0}};
    struct pss_server_config config = lone_server(NULL);
    struct pss_server *theirs = NULL, *s = NULL;
    struct co_err why = {0};
    char address[32];
    /* Of the kernel's own choice, the port could be another process's when theirs has stopped. */
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", co_test_ports(1));
    config.listen = address;
    OK(co_file_write(owner, dead, strlen(dead), 0600, &err));
    assert_int_equal(0, utimensat(AT_FDCWD, owner, long_ago, 0));
    OK(pss_server_start(&config, &theirs, &err));
    config.checkpoint_dir = *state;
    assert_int_equal(CO_UNAVAILABLE, pss_server_start(&config, &s, &why));
    assert_non_null(strstr(why.msg, address));
    file_is(owner, dead);
    pss_server_stop(theirs);
    OK(pss_server_start(&config, &s, &err));
    pss_server_stop(s);
    assert_int_equal(-1, access(owner, F_OK));
}

/* Nobody takes it for an empty one: a server would begin with empty tables, a checkpoint with a
 * number that is in use. */
static void a_directory_that_cannot_be_listed_is_an_error(void **state) {
    CO_AUTOFREE char *file = co_xasprintf("%s/file", (char *)*state);
    struct pss_server_config config = lone_server(file);
    struct co_err why[4] = {0};
    struct pss_server *s = NULL;
    struct rt_model *m = NULL;
    struct world w;
    OK(co_file_write(file, "", 0, 0600, &err));
    assert_int_equal(CO_INVALID, pss_server_start(&config, &s, &why[0]));
    assert_int_equal(CO_INVALID, rt_model_open(file, &m, &why[1]));
    world_start(&w, 1, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    assert_int_equal(CO_INVALID, rt_checkpoint(c, file, NULL, NULL, &why[2]));
    assert_int_equal(CO_INVALID, rt_restore(c, file, NULL, &why[3]));
    CO_AUTOFREE char *text = co_xasprintf("cannot list \"%s\"", file);
    for (size_t i = 0; i < CO_ARRAY_LEN(why); i++) {
        assert_non_null(strstr(why[i].msg, text));
    }
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* New servers know of no changes; what is damaged is passed over. */
static void the_first_checkpoint_after_a_restore_is_full(void **state) {
    const char *dir = *state;
    struct rt_checkpoint made = {0};
    for (int life = 0; life < 3; life++) {
        struct world w;
        world_start(&w, 2, 1, 1, NULL);
        struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
        if (life > 0) {
            uint64_t last = made.number;
            damage(dir, last, life == 1 ? "MANIFEST" : "part-00000", -1);
            OK(rt_restore(c, dir, &made, &err));
            assert_int_equal(last - 1, made.number);
            assert_int_equal(1, made.deltas);
        }
        for (int i = 0; i < 3; i++) {
            push_batch(c, (uint64_t)i, true);
            OK(rt_checkpoint(c, dir, NULL, &made, &err));
            assert_int_equal(i == 0, made.full);
        }
        OK(rt_finish(c, &err));
        world_end(&w);
    }
}

/* As by a clean-up of old files, which removes the full one first: a delta that nothing can load
 * any more would be reported as a checkpoint. */
static void a_delta_whose_chain_is_not_whole_is_made_full(void **state) {
    static const struct {
        uint64_t number;
        const char *file;
        bool cut; /* it is shorter; else it is gone */
    } rows[] = {
        {1, "MANIFEST", false},
        {1, "part-00001", false},
        {1, "part-00000", true},
        {2, "MANIFEST", false},
        {2, "part-00000", true},
        {3, "part-00001", false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *dir = co_xasprintf("%s/%zu", (const char *)*state, i);
        CO_AUTOFREE char *in = ckpt_point_dir(dir, rows[i].number);
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", in, rows[i].file);
        struct rt_checkpoint made = {0}, got = {0};
        struct world w;
        world_start(&w, 2, 1, 1, NULL);
        struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
        for (uint64_t n = 1; n <= 3; n++) {
            push_batch(c, n, true);
            OK(rt_checkpoint(c, dir, NULL, &made, &err));
            assert_int_equal(n == 1, made.full);
        }
        assert_int_equal(0, rows[i].cut ? truncate(path, 100) : unlink(path));
        push_batch(c, 4, true);
        CO_AUTOFREE struct values *want = read_all(c);
        OK(rt_checkpoint(c, dir, NULL, &made, &err));
        assert_true(made.full);
        OK(rt_restore(c, dir, &got, &err));
        assert_int_equal(made.number, got.number);
        CO_AUTOFREE struct values *have = read_all(c);
        assert_memory_equal(want, have, sizeof(*have));
        OK(rt_finish(c, &err));
        world_end(&w);
    }
}

/* Whoever asks for more deltas: a chain that is longer is damaged for all who read it. */
static void a_chain_is_no_longer_than_readers_take(void **state) {
    const struct rt_checkpoint_options o = {.deltas = UINT32_MAX};
    struct rt_checkpoint made = {0};
    struct world w;
    world_start(&w, 1, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    OK(rt_checkpoint(c, *state, &o, &made, &err));
    c->saving->deltas = CKPT_CHAIN_MAX - 1; /* as if it had made as many */
    OK(rt_checkpoint(c, *state, &o, &made, &err));
    assert_false(made.full);
    OK(rt_checkpoint(c, *state, &o, &made, &err));
    assert_true(made.full);
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* One that took over from another, which continues later: neither knows what the other made.  Each
 * checkpoint has the values of its instant. */
static void another_trainer_makes_the_next_checkpoint(void **state) {
    static const uint32_t makes[] = {0, 1, 0, 1, 1, 1, 0, 0, 1, 0};
    struct world w;
    uint64_t before = 0;
    world_start(&w, 2, 2, 2, NULL);
    struct rt_client *c[2] = {NULL};
    for (uint32_t t = 0; t < 2; t++) {
        c[t] = enter(&w, t, (struct rt_client_options){.mode = RT_ASYNC});
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(makes); i++) {
        struct rt_client *maker = c[makes[i]];
        struct rt_checkpoint made = {0}, got = {0};
        push_batch(maker, i, true);
        CO_AUTOFREE struct values *want = read_all(maker);
        const struct rt_checkpoint_options o = {.full = i % 4 == 1};
        OK(rt_checkpoint(maker, *state, &o, &made, &err));
        assert_true(made.number > before);
        before = made.number;
        if (i % 3 == 2) { /* not each time: after it the next one is full anyway */
            OK(rt_restore(maker, *state, &got, &err));
            assert_int_equal(made.number, got.number);
            CO_AUTOFREE struct values *have = read_all(maker);
            assert_memory_equal(want, have, sizeof(*have));
        }
    }
    OK(rt_finish(c[0], &err));
    OK(rt_finish(c[1], &err));
    world_end(&w);
}

/* A checkpoint that could not even make its directory leaves nothing behind that counts.  One that
 * comes after it, from a trainer that knows nothing of it, still gets a number of its own, not the
 * answer of the one that failed. */
static void a_checkpoint_after_a_failed_one_gets_its_own_number(void **state) {
    CO_AUTOFREE char *away = co_xasprintf("%s-away", (const char *)*state);
    const char *dir = *state;
    struct rt_checkpoint made = {0}, got = {0};
    struct world w;
    world_start(&w, 2, 2, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    push_batch(c, 1, true);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    assert_int_equal(0, rename(dir, away));
    FILE *f = fopen(dir, "w"); /* a file in its place */
    assert_non_null(f);
    assert_int_equal(0, fclose(f));
    for (int i = 0; i < 3; i++) { /* one for a delta that is refused as well */
        assert_true(rt_checkpoint(c, dir, NULL, &made, NULL) < 0);
    }
    assert_int_equal(0, unlink(dir));
    assert_int_equal(0, rename(away, dir));
    OK(rt_restore(c, dir, &got, &err)); /* forgets what is known of the directory */
    assert_int_equal(made.number, got.number);
    OK(rt_checkpoint(c, dir, NULL, &made, &err));
    assert_true(made.full && made.number > got.number);
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* ---- save modes ---- */

/* Rows 1 and 2; a show counts a tenth, a click one; base_threshold 1.5, delta_threshold 0.25. */
static const struct rt_table_spec scored[] = {{.name = "rows",
    .kind = RT_SPARSE,
    .dim = 1,
    .optimizer = "sgd:lr=1",
    .init = "zero",
    .evict = "ctr:delete_threshold=0.01"}};

static void push_seen(struct rt_client *c, uint64_t id, float show, float click) {
    OK(rt_push_sparse_clicks(c, 0, &id, 1, (const float[]){-1}, &show, &click, &err));
}

/* Bits of the ids. */
static int gather_ids(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    (void)err;
    for (uint32_t i = 0; i < c->items; i++) {
        *(unsigned *)arg |= 1U << co_get_u64(data + (size_t)i * c->bytes / c->items);
    }
    return 0;
}

static unsigned save_by(
    struct rt_client *c, const char *dir, enum rt_save_mode mode, bool full, uint32_t said) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    unsigned ids = 0;
    struct rt_checkpoint made;
    const struct rt_checkpoint_options o = {.mode = mode};
    OK(rt_checkpoint(c, dir, &o, &made, &err));
    assert_int_equal(full, made.full);
    OK(ckpt_chain_open(dir, made.number, &chain, &err));
    assert_int_equal(said, chain->points[chain->n - 1].save);
    const struct ckpt_walk walk = {
        .chain = chain, .kinds = 1U << CKPT_PART_ROWS, .take = gather_ids, .arg = &ids};
    OK(ckpt_walk_point(&walk, chain->n - 1, &err));
    return ids;
}

enum { ONE = 1 << 1, TWO = 1 << 2 };

static void modes_say_which_rows_are_saved(void **state) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/serve", (char *)*state);
    CO_AUTOFREE char *whole = co_xasprintf("%s/train", (char *)*state);
    struct world w;
    world_start(&w, 2, 2, 1, NULL);
    struct psc_client_config config = {
        .trainers = 1, .servers = 2, .endpoints = w.endpoints, .job = own_job()};
    struct rt_client *c = NULL;
    OK(psc_client_connect(&config, &(struct rt_client_options){0}, scored, 1, &c, &err));
    push_seen(c, 1, 12, 2);
    push_seen(c, 2, 2, 0);
    assert_int_equal(ONE, save_by(c, dir, RT_SAVE_DELTA, true, RT_SAVE_BASE));
    push_seen(c, 1, 1, 0);
    push_seen(c, 2, 1, 0);
    assert_int_equal(0, save_by(c, dir, RT_SAVE_DELTA, false, RT_SAVE_DELTA));
    push_seen(c, 1, 2, 0);
    push_seen(c, 2, 1, 0);
    assert_int_equal(ONE, save_by(c, dir, RT_SAVE_DELTA, false, RT_SAVE_DELTA));
    push_seen(c, 2, 2, 2);
    assert_int_equal(TWO, save_by(c, dir, RT_SAVE_BASE, false, RT_SAVE_BASE));
    assert_int_equal(0, save_by(c, dir, RT_SAVE_DELTA, false, RT_SAVE_DELTA));

    /* One that fails has counted as a save: what it had is in the next one all the same. */
    push_seen(c, 1, 3, 0);
    CO_AUTOFREE char *path = ckpt_point_dir(dir, 6);
    const struct rt_checkpoint_options delta = {.mode = RT_SAVE_DELTA};
    OK(co_file_write(path, "", 0, 0600, &err));
    assert_true(rt_checkpoint(c, dir, &delta, NULL, NULL) < 0);
    assert_int_equal(ONE, save_by(c, dir, RT_SAVE_DELTA, false, RT_SAVE_DELTA));

    /* The two sorts do not mix. */
    struct co_err why = {0};
    assert_int_equal(CO_INVALID, rt_checkpoint(c, dir, NULL, NULL, &why));
    assert_non_null(strstr(why.msg, "need a directory of their own"));
    assert_int_equal(ONE | TWO, save_by(c, whole, RT_SAVE_DAY, true, RT_SAVE_DAY));
    push_seen(c, 2, 1, 0);
    assert_int_equal(TWO, save_by(c, whole, RT_SAVE_ALL, false, RT_SAVE_ALL));
    assert_int_equal(CO_INVALID, rt_checkpoint(c, whole, &delta, NULL, &why));
    const struct rt_checkpoint_options none = {.mode = RT_SAVE_MODES};
    assert_int_equal(CO_INVALID, rt_checkpoint(c, whole, &none, NULL, &why));
    /* Of the other directory nothing is known any more. */
    assert_int_equal(ONE | TWO, save_by(c, dir, RT_SAVE_DELTA, true, RT_SAVE_BASE));
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* ---- models that follow ---- */

/* Each row's id once, as many as the servers have. */
static void check_ids(const struct rt_model *m, struct rt_client *c, uint32_t table) {
    struct rt_table_stat stat;
    uint64_t ids[IDS];
    bool seen[IDS] = {false};
    OK(rt_flush(c, &err));
    OK(rt_stat(c, table, &stat, &err));
    size_t n = rt_model_ids(m, table, ids, IDS);
    assert_int_equal(stat.rows, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(ids[i] < IDS && !seen[ids[i]]);
        seen[ids[i]] = true;
    }
    assert_int_equal(n, rt_model_ids(m, table, NULL, 0));
}

static void check_model(const struct rt_model *m, struct rt_client *c) {
    assert_int_equal(3, rt_model_tables(m));
    check_ids(m, c, 1);
    check_ids(m, c, 2);
    CO_AUTOFREE struct values *want = read_all(c);
    CO_AUTOFREE float *rows = co_xcalloc((size_t)IDS * DIM, sizeof(float));
    CO_AUTOFREE uint64_t *ids = co_xcalloc(IDS, sizeof(*ids));
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    rt_model_sparse(m, 1, ids, IDS, rows);
    assert_memory_equal(want->rows, rows, sizeof(want->rows));
    rt_model_sparse(m, 2, ids, IDS, rows);
    assert_memory_equal(want->more, rows, sizeof(want->more));
    assert_memory_equal(want->dense, rt_model_dense(m, 0), sizeof(want->dense));
}

static void a_model_refresh_loads_new_checkpoints(void **state) {
    const char *dir = *state;
    struct world w;
    struct rt_model *m = NULL;
    bool fresh = true;
    world_start(&w, 2, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    const struct rt_checkpoint_options four = {.deltas = 4, .keep = 2};
    push_batch(c, 0, true);
    OK(rt_checkpoint(c, dir, &four, NULL, &err));
    OK(rt_model_open(dir, &m, &err));
    check_model(m, c);
    OK(rt_model_refresh(m, &fresh, &err));
    assert_false(fresh);
    for (uint64_t i = 1; i < 16; i++) {
        const float *dense = rt_model_dense(m, 0);
        CO_AUTOFREE float *was = co_xcalloc(SIZE, sizeof(float));
        memcpy(was, dense, SIZE * sizeof(float));
        push_batch(c, i, i % 3 != 0);
        OK(rt_checkpoint(c, dir, &four, NULL, &err));
        if (i % 4 == 2) {
            continue; /* the next refresh brings two */
        }
        OK(rt_model_refresh(m, &fresh, &err));
        assert_true(fresh);
        assert_int_equal(i + 1, rt_model_number(m));
        check_model(m, c);
        assert_memory_equal(was, dense, SIZE * sizeof(float)); /* valid, and as it was */
    }
    /* What cannot be read leaves it as it is. */
    OK(rt_checkpoint(c, dir, &four, NULL, &err));
    damage(dir, 17, "part-00000", 60);
    push_batch(c, 99, true);
    struct co_err why = {0};
    assert_int_equal(CO_DAMAGED, rt_model_refresh(m, &fresh, &why));
    assert_non_null(strstr(why.msg, "part-00000"));
    assert_int_equal(16, rt_model_number(m));
    rt_model_close(m);
    OK(rt_finish(c, &err));
    world_end(&w);
}

/* A job with these tables makes a full checkpoint.  Returns its number. */
static uint64_t save_tables(const char *dir, const struct rt_table_spec *tables, size_t n) {
    const struct rt_checkpoint_options full = {.full = true};
    struct world w;
    struct rt_checkpoint made;
    world_start(&w, 1, 1, 1, NULL);
    struct psc_client_config config = {
        .trainers = 1, .servers = 1, .endpoints = w.endpoints, .job = own_job()};
    struct rt_client *c = NULL;
    OK(psc_client_connect(&config, &(struct rt_client_options){0}, tables, n, &c, &err));
    for (uint32_t i = 0; i < n; i++) {
        static const float g[SIZE] = {1};
        const uint64_t ids[] = {1, 2};
        if (tables[i].kind == RT_SPARSE) {
            OK(rt_push_sparse(c, i, ids, 2, g, &err));
        } else {
            OK(rt_push_dense(c, i, g, &err));
        }
    }
    OK(rt_checkpoint(c, dir, &full, &made, &err));
    OK(rt_finish(c, &err));
    world_end(&w);
    return made.number;
}

/* A later job in the same directory may have another init, or admit rows later. */
static void a_refreshed_model_reads_absent_rows_as_its_checkpoint_does(void **state) {
    static const struct {
        const char *init, *admit;
        float want;
    } rows[] = {{"constant:value=1", NULL, 1}, {"constant:value=2", NULL, 2},
        {"constant:value=2", "count:n=3", 0}, {"zero", NULL, 0}, {"constant:value=-4", NULL, -4}};
    const char *dir = *state;
    struct rt_model *m = NULL;
    const uint64_t absent = 99;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_table_spec two[] = {specs[0], specs[1]};
        float row[DIM];
        bool fresh = false;
        two[1].init = rows[i].init;
        two[1].admit = rows[i].admit;
        (void)save_tables(dir, two, 2);
        const struct rt_table_spec *before = m ? rt_model_spec(m, 1) : NULL;
        if (m) {
            OK(rt_model_refresh(m, &fresh, &err));
            assert_true(fresh);
            assert_string_equal(rows[i - 1].init, before->init); /* valid, and as it was */
        } else {
            OK(rt_model_open(dir, &m, &err));
        }
        rt_model_sparse(m, 1, &absent, 1, row);
        for (size_t k = 0; k < DIM; k++) {
            assert_float_equal(rows[i].want, row[k], 0);
        }
        assert_string_equal(rows[i].init, rt_model_spec(m, 1)->init);
    }
    rt_model_close(m);
}

/* A later job in the same directory has no table "w", so the others have other numbers. */
static void a_model_keeps_to_the_tables_of_its_checkpoint(void **state) {
    const char *dir = *state;
    struct world w;
    struct rt_model *m = NULL;
    struct co_err why = {0};
    bool fresh = false;
    world_start(&w, 2, 1, 1, NULL);
    struct rt_client *c = enter(&w, 0, (struct rt_client_options){0});
    push_batch(c, 0, true);
    OK(rt_checkpoint(c, dir, NULL, NULL, &err));
    uint64_t fewer = save_tables(dir, specs + 1, 2);
    damage(dir, fewer, "part-00000", 60);
    OK(rt_model_open(dir, &m, &err)); /* it begins with the damaged one's tables */
    assert_int_equal(1, rt_model_number(m));
    assert_non_null(rt_model_spec(m, 2));
    check_model(m, c);
    damage(dir, fewer, "part-00000", 60); /* whole again */
    assert_int_equal(CO_INVALID, rt_model_refresh(m, &fresh, &why));
    assert_non_null(strstr(why.msg, "it has 2 tables, this model has 3"));

    /* A refresh does not go back to that one either. */
    damage(dir, save_tables(dir, specs, 3), "part-00000", 60);
    assert_int_equal(CO_INVALID, rt_model_refresh(m, &fresh, &why));
    assert_non_null(strstr(why.msg, "it has 2 tables, this model has 3"));
    assert_false(fresh);
    assert_int_equal(1, rt_model_number(m));
    check_model(m, c);
    rt_model_close(m);
    OK(rt_finish(c, &err));
    world_end(&w);
}

struct reader {
    const struct rt_model *m;
    atomic_bool *end;
    atomic_uint turns;
    float last;
};

/* n values of one checkpoint: the same everywhere, and never fewer than in one that was seen. */
static void check_values(struct reader *r, const float *values, size_t n) {
    assert_true(values[0] >= r->last);
    for (size_t i = 1; i < n; i++) {
        assert_true(values[i] == values[0]);
    }
}

static void *read_model(void *arg) {
    static _Thread_local float rows[IDS];
    struct reader *r = arg;
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    while (!atomic_load(r->end)) {
        check_values(r, rt_model_dense(r->m, 0), counters[0].size);
        rt_model_sparse(r->m, 1, ids, IDS, rows);
        check_values(r, rows, IDS);
        r->last = rows[0];
        atomic_fetch_add(&r->turns, 1);
    }
    return NULL;
}

/* One that has begun now has ended: dense values are the reader's for that long. */
static void await_turn(struct reader *r) {
    unsigned turns = atomic_load(&r->turns);
    while (atomic_load(&r->turns) < turns + 2) {
        (void)poll(NULL, 0, 1);
    }
}

/* Any thread may read, while one refreshes: what it reads is of one checkpoint. */
static void a_model_is_read_while_it_follows(void **state) {
    enum { READERS = 2, ROUNDS = 12 };
    const char *dir = *state;
    const struct rt_checkpoint_options two = {.deltas = 2, .keep = 1};
    atomic_bool end = false;
    struct world w;
    struct rt_model *m = NULL;
    struct reader r[READERS];
    pthread_t threads[READERS];
    bool fresh = false;
    world_start(&w, 2, 2, 1, NULL);
    struct rt_client *c = enter_counting(&w, 0, (struct rt_client_options){0});
    count_once(c);
    OK(rt_checkpoint(c, dir, &two, NULL, &err));
    OK(rt_model_open(dir, &m, &err));
    for (int i = 0; i < READERS; i++) {
        r[i] = (struct reader){.m = m, .end = &end};
        assert_int_equal(0, pthread_create(&threads[i], NULL, read_model, &r[i]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        count_once(c);
        OK(rt_checkpoint(c, dir, &two, NULL, &err));
        OK(rt_model_refresh(m, &fresh, &err));
        assert_true(fresh);
        for (int i = 0; i < READERS; i++) {
            await_turn(&r[i]);
        }
    }
    atomic_store(&end, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(r[i].last == ROUNDS + 1);
    }
    rt_model_close(m);
    OK(rt_finish(c, &err));
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(m_servers_load_a_checkpoint_of_n_servers),
        CO_TEST_IN_FOLDER(a_checkpoint_beside_training_is_of_one_instant),
        CO_TEST_IN_FOLDER(in_sync_mode_a_checkpoint_is_of_its_step),
        CO_TEST_IN_FOLDER(a_load_is_followed_by_a_checkpoint),
        CO_TEST_IN_FOLDER(a_late_trainer_makes_checkpoints),
        CO_TEST_IN_FOLDER(servers_keep_to_their_directory),
        CO_TEST_IN_FOLDER(loading_a_save_as_a_checkpoint_names_the_right_call),
        CO_TEST_IN_FOLDER(a_directory_is_one_jobs_at_a_time),
        CO_TEST_IN_FOLDER(a_server_without_its_port_takes_no_directory),
        CO_TEST_IN_FOLDER(a_directory_that_cannot_be_listed_is_an_error),
        CO_TEST_IN_FOLDER(the_first_checkpoint_after_a_restore_is_full),
        CO_TEST_IN_FOLDER(a_delta_whose_chain_is_not_whole_is_made_full),
        CO_TEST_IN_FOLDER(a_chain_is_no_longer_than_readers_take),
        CO_TEST_IN_FOLDER(a_checkpoint_after_a_failed_one_gets_its_own_number),
        CO_TEST_IN_FOLDER(another_trainer_makes_the_next_checkpoint),
        CO_TEST_IN_FOLDER(modes_say_which_rows_are_saved),
        CO_TEST_IN_FOLDER(a_model_refresh_loads_new_checkpoints),
        CO_TEST_IN_FOLDER(a_model_keeps_to_the_tables_of_its_checkpoint),
        CO_TEST_IN_FOLDER(a_refreshed_model_reads_absent_rows_as_its_checkpoint_does),
        CO_TEST_IN_FOLDER(a_model_is_read_while_it_follows),
        CO_TEST_IN_FOLDER(servers_begin_with_the_newest_whole_checkpoint),
        CO_TEST_IN_FOLDER(tables_in_another_order_begin_with_what_was_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
