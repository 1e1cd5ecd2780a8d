/* Servers whose tables are larger than their memory, from the trainer's side: the same values as
 * servers with memory enough, in checkpoints, too, whoever reads them; and what a directory that
 * cannot be used says. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/contract.h"
#include "runtime/train/ps/client/client_testing.h"

enum { ROWS = 60000, WIDE = 64, BATCH = 1500, MEMORY = 8 << 20, STEPS = 80 };

static const struct rt_table_spec wide[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "rows",
        .kind = RT_SPARSE,
        .dim = WIDE,
        .optimizer = "sgd:lr=0.1",
        .init = "uniform:min=-1,max=1"},
};

static const struct rt_table_spec clicked[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "rows", .kind = RT_SPARSE, .dim = WIDE, .optimizer = "sgd:lr=0.1", .evict = "ctr"},
};

static char folder[64];

static void start(struct client_world *w, uint32_t servers, uint32_t shards, bool cold) {
    CO_AUTOFREE char *cold_dir = co_xasprintf("%s/cold", folder);
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", folder);
    memset(w, 0, sizeof(*w));
    w->n_servers = servers;
    w->n_trainers = 1;
    for (uint32_t i = 0; i < servers; i++) {
        struct co_err err = {0};
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .index = i,
            .servers = servers,
            .trainers = 1,
            .job = own_job(),
            .token = "secret",
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .return_ms = 120000, /* who asked while a checkpoint is read may ask again */
            .shards = shards,
            .memory_max = cold ? MEMORY : 1 << 28,
            .cold_dir = cold ? cold_dir : NULL,
            .restore_dir = dir,
            .quiet = true};
        must(pss_server_start(&c, &w->servers[i], &err));
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w->servers[i]));
        w->endpoints[i] = w->endpoint[i];
    }
}

static struct rt_client *enter(struct client_world *w, const struct rt_table_spec *tables) {
    struct rt_client *c = NULL;
    struct co_err err = {0};
    struct psc_client_config config = {.trainers = 1,
        .servers = w->n_servers,
        .endpoints = w->endpoints,
        .job = own_job(),
        .token = "secret"};
    /* A disk that others use, too, may be slow. */
    struct rt_client_options o = {.mode = RT_SYNC,
        .start_timeout_ms = 120000,
        .call_timeout_ms = 120000,
        .barrier_timeout_ms = 120000,
        .return_ms = 120000,
        .lease_ms = 60000};
    must(psc_client_connect(&config, &o, tables, 2, &c, &err));
    return c;
}

static void train(struct rt_client *c, uint64_t seed) {
    static float g[BATCH * WIDE];
    uint64_t ids[BATCH];
    struct co_err err = {0};
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < BATCH; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            ids[i] = (seed >> 33) % ((seed >> 20) % 2 ? ROWS / 8 : ROWS);
        }
        for (size_t i = 0; i < BATCH * WIDE; i++) {
            g[i] = (float)((seed + i * 31) % 100) / 100;
        }
        must(rt_push_sparse(c, 1, ids, BATCH, g, &err));
        must(rt_step(c, &err));
    }
}

static float *read_all(struct rt_client *c) {
    float *rows = co_xcalloc((size_t)ROWS * WIDE, sizeof(*rows));
    CO_AUTOFREE uint64_t *ids = co_xcalloc(ROWS, sizeof(*ids));
    struct co_err err = {0};
    for (uint64_t i = 0; i < ROWS; i++) {
        ids[i] = i;
    }
    must(rt_pull_sparse(c, 1, ids, ROWS, rows, &err));
    return rows;
}

static void same(struct rt_client *c, const float *want) {
    CO_AUTOFREE float *got = read_all(c);
    assert_memory_equal(want, got, (size_t)ROWS * WIDE * sizeof(*got));
}

static uint64_t count_cold(struct rt_client *c) {
    struct rt_table_stat st;
    struct co_err err = {0};
    must(rt_stat(c, 1, &st, &err));
    assert_true(st.rows_cold <= st.rows && st.bytes <= 4UL * MEMORY);
    assert_int_equal(st.bytes_cold > 0, st.rows_cold > 0);
    return st.rows_cold;
}

static void finish(struct client_world *w, struct rt_client *c) {
    struct co_err err = {0};
    must(rt_finish(c, &err));
    world_end(w);
}

static struct rt_checkpoint checkpoint(struct rt_client *c) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", folder);
    struct rt_checkpoint made = {0};
    struct co_err err = {0};
    must(rt_checkpoint(c, dir, NULL, &made, &err));
    return made;
}

static void tables_larger_than_memory_train_and_are_saved_alike(void **state) {
    (void)state;
    CO_AUTOFREE char *saved = co_xasprintf("%s/saved", folder);
    struct co_err err = {0};
    struct client_world w;
    start(&w, 2, 2, false);
    struct rt_client *c = enter(&w, wide);
    train(c, 7);
    train(c, 8);
    CO_AUTOFREE float *want = read_all(c);
    assert_int_equal(0, count_cold(c));
    finish(&w, c);

    start(&w, 2, 2, true);
    c = enter(&w, wide);
    train(c, 7);
    (void)checkpoint(c); /* a full one, a delta */
    train(c, 8);
    assert_true(count_cold(c) > ROWS / 10);
    (void)checkpoint(c);
    same(c, want);
    must(rt_save(c, saved, &err));
    finish(&w, c);

    start(&w, 1, 3, true); /* another number of both, which read the checkpoint */
    c = enter(&w, wide);
    assert_true(count_cold(c) > ROWS / 10);
    same(c, want);
    train(c, 9); /* and rows that were not saved, which go again */
    must(rt_load(c, saved, &err));
    same(c, want);
    finish(&w, c);
}

static void cold_rows_counted_by_a_save_are_in_the_next_delta(void **state) {
    (void)state;
    CO_AUTOFREE char *saved = co_xasprintf("%s/saved", folder);
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", folder);
    struct co_err err = {0};
    struct client_world w;
    start(&w, 1, 2, true);
    struct rt_client *c = enter(&w, clicked);
    train(c, 7);
    assert_true(count_cold(c) > ROWS / 10);
    uint64_t full = checkpoint(c).bytes;
    assert_true(checkpoint(c).bytes < full / 10);
    must(rt_save_as(c, saved, RT_SAVE_DAY, &err)); /* changes all */
    struct rt_checkpoint made = checkpoint(c);
    assert_false(made.full);
    assert_true(made.bytes > full / 10 * 9);

    /* A checkpoint would have to count in rows that it reads as they were. */
    for (enum rt_save_mode mode = RT_SAVE_DELTA; mode < RT_SAVE_MODES; mode++) {
        const struct rt_checkpoint_options o = {.mode = mode};
        CO_AUTOFREE char *other = co_xasprintf("%s/mode%u", dir, (unsigned)mode);
        CO_AUTOFREE char *name =
            co_xasprintf("save mode %u", (unsigned)(mode == RT_SAVE_DELTA ? RT_SAVE_BASE : mode));
        struct co_err why = {0};
        assert_int_equal(CO_INVALID, rt_checkpoint(c, other, &o, NULL, &why));
        says(&why, CO_INVALID, "table \"rows\"");
        says(&why, CO_INVALID, name);
    }
    finish(&w, c);
}

static void a_directory_that_cannot_be_used_ends_the_server_with_a_line(void **state) {
    (void)state;
    CO_AUTOFREE char *file = co_xasprintf("%s/file", folder);
    FILE *f = fopen(file, "we");
    (void)fclose(f);
    struct pss_server_config c = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .shards = 1,
        .memory_max = MEMORY,
        .cold_dir = file,
        .quiet = true};
    struct pss_server *s = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_INVALID, pss_server_start(&c, &s, &err));
    assert_non_null(strstr(err.msg, co_contract[CO_VAR_PS_COLD_DIR].name));
    assert_non_null(strstr(err.msg, file));
}

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/server_cold_test_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    CO_AUTOFREE char *cold = co_xasprintf("%s/cold", folder);
    assert_int_equal(0, access(cold, F_OK) == 0 ? rmdir(cold) : 0); /* servers clear it */
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", folder);
    return system(cmd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            tables_larger_than_memory_train_and_are_saved_alike, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(
            cold_rows_counted_by_a_save_are_in_the_next_delta, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_directory_that_cannot_be_used_ends_the_server_with_a_line,
            make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
