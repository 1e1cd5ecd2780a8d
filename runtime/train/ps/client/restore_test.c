/* rt_restore changes the tables of all servers or of none.  What is damaged, what does not fit and
 * what cannot be read are three things: in rt_restore, when a server starts, and for models. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/folder_testing.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/client_testing.h"

enum { ROWS = 400, MANY = 2000 };

static const struct rt_checkpoint_options full = {.full = true};

/* A success leaves the error as it was: a caller may look at it. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        struct co_err err = {0};                                                                   \
        if ((call) < 0 || err.code) {                                                              \
            fail_msg("%s: %s", #call, err.msg);                                                    \
        }                                                                                          \
    } while (0)

static struct rt_client *enter(struct client_world *w) {
    return world_enter(w, 0, (struct rt_client_options){.mode = RT_ASYNC});
}

static void leave(struct client_world *w, struct rt_client *c) {
    OK(rt_finish(c, &err));
    world_end(w);
}

static void push(struct rt_client *c, uint64_t n) {
    static float g[MANY * 64], d[SIZE];
    uint64_t ids[MANY];
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = i;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(g); i++) {
        g[i] = -1;
    }
    for (int i = 0; i < SIZE; i++) {
        d[i] = -1;
    }
    OK(rt_push_sparse(c, 1, ids, n, g, &err));
    OK(rt_push_dense(c, 0, d, &err));
    OK(rt_flush(c, &err));
}

/* There are so many rows, and all values of the vector come of so many pushes. */
static void check(struct rt_client *c, uint64_t rows, int pushes) {
    struct rt_table_stat stat;
    float w[SIZE];
    OK(rt_stat(c, 1, &stat, &err));
    assert_int_equal(rows, stat.rows);
    OK(rt_pull_dense(c, 0, w, &err));
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabsf(w[i] - 0.1F * (float)pushes) < 1e-5F);
    }
}

/* A job with n rows makes a full checkpoint. */
static void save(const char *dir, uint64_t n) {
    struct client_world w;
    world_start(&w, 2, 1);
    struct rt_client *c = enter(&w);
    push(c, n);
    OK(rt_checkpoint(c, dir, &full, NULL, &err));
    leave(&w, c);
}

static void flip(const char *path) {
    FILE *f = fopen(path, "r+e");
    assert_non_null(f);
    assert_int_equal(0, fseek(f, -100, SEEK_END));
    int b = fgetc(f);
    assert_int_equal(0, fseek(f, -1, SEEK_CUR));
    (void)fputc(b ^ 1, f);
    (void)fclose(f);
}

/* Shards of both servers have to load it, and one of them could not. */
static void a_damaged_part_changes_no_table(void **state) {
    const char *dir = *state;
    struct client_world w;
    struct co_err why = {0};
    struct rt_checkpoint got = {0};
    save(dir, ROWS);
    for (uint32_t part = 0; part < 2; part++) {
        CO_AUTOFREE char *path = ckpt_point_part(dir, 1, part);
        flip(path);
        world_start(&w, 2, 1);
        struct rt_client *c = enter(&w);
        push(c, 5);
        assert_int_equal(CO_DAMAGED, rt_restore(c, dir, NULL, &why));
        assert_non_null(strstr(why.msg, path));
        check(c, 5, 1);
        push(c, 6); /* and it continues */
        check(c, 6, 2);
        leave(&w, c);
        flip(path);
    }
    save(dir, 10);
    CO_AUTOFREE char *newest = ckpt_point_part(dir, 2, 1);
    flip(newest);
    world_start(&w, 2, 1);
    struct rt_client *c = enter(&w);
    OK(rt_restore(c, dir, &got, &err));
    assert_int_equal(1, got.number);
    check(c, ROWS, 1);
    leave(&w, c);
}

/* Rows that fill a small server. */
static const struct rt_table_spec wide[] = {
    {.name = "dense", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "rows", .kind = RT_SPARSE, .dim = 64, .optimizer = "sgd:lr=0.1"}};

/* The servers have other memory than those that saved: the load ends halfway. */
static void tables_that_could_not_be_loaded_refuse_all_requests(void **state) {
    CO_AUTOFREE char *large = co_xasprintf("%s/large", (char *)*state);
    CO_AUTOFREE char *small = co_xasprintf("%s/small", (char *)*state);
    struct client_world w;
    struct rt_client *c = NULL;
    struct co_err why = {0};
    struct rt_table_stat stat;
    float values[SIZE];
    world_start(&w, 2, 1);
    OK(world_open(&w, 0, (struct rt_client_options){0}, wide, &c, &err));
    push(c, 10);
    OK(rt_checkpoint(c, small, NULL, NULL, &err));
    push(c, MANY);
    OK(rt_checkpoint(c, large, NULL, NULL, &err));
    leave(&w, c);

    world_start_memory(&w, 2, 1, 160 << 10);
    OK(world_open(&w, 0, (struct rt_client_options){0}, wide, &c, &err));
    assert_int_equal(CO_NORESOURCE, rt_restore(c, large, NULL, &why));
    assert_true(rt_stat(c, 1, &stat, &why) < 0);
    assert_non_null(strstr(why.msg, "until rt_restore succeeds"));
    assert_true(rt_pull_dense(c, 0, values, &why) < 0);
    assert_true(rt_checkpoint(c, large, NULL, NULL, &why) < 0); /* it would be of empty tables */
    assert_non_null(strstr(why.msg, "until rt_restore succeeds"));
    (void)!rt_push_dense(c, 0, values, &why);
    assert_true(rt_flush(c, &why) < 0); /* as a push: once, and the client continues */
    assert_non_null(strstr(why.msg, "until rt_restore succeeds"));
    OK(rt_restore(c, small, NULL, &err));
    check(c, 10, 1);
    leave(&w, c);
}

/* The same for rt_load, where the servers do not know: the trainer that loads refuses. */
static void tables_that_are_loaded_in_part_are_refused(void **state) {
    CO_AUTOFREE char *large = co_xasprintf("%s/large", (char *)*state);
    CO_AUTOFREE char *small = co_xasprintf("%s/small", (char *)*state);
    CO_AUTOFREE char *points = co_xasprintf("%s/points", (char *)*state);
    struct client_world w;
    struct rt_client *c = NULL;
    struct co_err why = {0};
    struct rt_table_stat stat;
    float values[SIZE] = {0};
    world_start(&w, 2, 1);
    OK(world_open(&w, 0, (struct rt_client_options){0}, wide, &c, &err));
    push(c, 10);
    OK(rt_save(c, small, &err));
    OK(rt_checkpoint(c, points, NULL, NULL, &err));
    push(c, MANY);
    OK(rt_save(c, large, &err));
    leave(&w, c);

    world_start_memory(&w, 2, 1, 160 << 10);
    OK(world_open(&w, 0, (struct rt_client_options){0}, wide, &c, &err));
    assert_int_equal(CO_NORESOURCE, rt_load(c, large, &why));
    assert_non_null(strstr(why.msg, "loaded in part"));
    assert_non_null(strstr(why.msg, large));
    const int codes[] = {
        rt_stat(c, 1, &stat, &why),
        rt_pull_dense(c, 0, values, &why),
        rt_push_dense(c, 0, values, &why),
        rt_set_rate(c, 0, 1, &why),
        rt_step(c, &why),
        rt_save(c, small, &why),
        rt_checkpoint(c, points, NULL, NULL, &why),
        rt_barrier(c, &why),
        rt_finish(c, &why),
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(codes); i++) {
        assert_int_equal(CO_UNAVAILABLE, codes[i]);
    }
    assert_non_null(strstr(why.msg, "before rt_load or rt_restore succeeds"));
    assert_int_equal(CO_NOTFOUND, rt_load(c, *state, &why)); /* which changes nothing */
    assert_int_equal(CO_UNAVAILABLE, rt_pull_dense(c, 0, values, &why));
    OK(rt_restore(c, points, NULL, &err));
    check(c, 10, 1);
    leave(&w, c);
}

/* Other tables, first as the only ones in the directory, then with an older checkpoint that fits.
 */
static void a_checkpoint_of_other_tables_is_not_skipped(void **state) {
    const struct {
        struct rt_table_spec dense, rows;
        const char *says[3];
    } others[] = {
        {specs[0], {.name = "rows", .kind = RT_SPARSE, .dim = DIM * 2, .optimizer = "sgd:lr=0.1"},
            {"\"rows\"", "dim 6", "dim 12"}},
        {specs[0], {.name = "renamed", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=0.1"},
            {"no table \"renamed\"", "", ""}},
        {{.name = "dense", .kind = RT_DENSE, .size = SIZE / 2, .optimizer = "sgd:lr=0.1"}, specs[1],
            {"\"dense\"", "size 1000", "size 500"}},
    };
    const char *dir = *state;
    save(dir, ROWS);
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        const struct rt_table_spec tables[2] = {others[i].dense, others[i].rows};
        struct client_world w;
        struct rt_client *c = NULL;
        struct co_err why = {0};
        struct rt_table_stat stat;
        world_start(&w, 2, 1);
        OK(world_open(&w, 0, (struct rt_client_options){0}, tables, &c, &err));
        push(c, 5);
        assert_int_equal(CO_INVALID, rt_restore(c, dir, NULL, &why));
        for (size_t k = 0; k < 3; k++) {
            assert_non_null(strstr(why.msg, others[i].says[k]));
        }
        OK(rt_stat(c, 1, &stat, &err));
        assert_int_equal(5, stat.rows);
        /* The program begins afresh there.  It keeps one of its own, and all of the other's. */
        const struct rt_checkpoint_options one = {.full = true, .keep = 1};
        for (int k = 0; k < 3; k++) {
            OK(rt_checkpoint(c, dir, &one, NULL, &err));
        }
        leave(&w, c);
        world_start(&w, 2, 1);
        c = enter(&w);
        assert_int_equal(
            CO_INVALID, rt_restore(c, dir, NULL, &why)); /* the newest is of `tables` */
        leave(&w, c);
        CO_AUTOFREE char *cmd = co_xasprintf("cd %s && ls | tail -n +2 | xargs rm -r", dir);
        assert_int_equal(0, system(cmd));
        world_start(&w, 2, 1);
        c = enter(&w);
        OK(rt_restore(c, dir, NULL, &err));
        check(c, ROWS, 1);
        leave(&w, c);
    }
}

/* ---- what cannot be read ---- */

static int start_server(const char *dir, struct co_err *err) {
    struct pss_server *s = NULL;
    const struct pss_server_config config = lone_server(dir);
    int rc = pss_server_start(&config, &s, err);
    pss_server_stop(s);
    return rc;
}

static void expect(int want, int got, const struct co_err *err, const char *path) {
    if (got != want || !strstr(err->msg, path)) {
        fail_msg("%d, expected %d: '%s'", got, want, err->msg);
    }
}

/* Each file of the newest checkpoint, for each of those who read it.  Nobody can open what is in
 * its place, so what it had may still be there: an older one is no substitute. */
static void an_unreadable_checkpoint_is_not_skipped(void **state) {
    static const char *files[] = {"MANIFEST", "part-00000", "part-00001"};
    const char *dir = *state;
    save(dir, ROWS);
    save(dir, 10);
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        CO_AUTOFREE char *at = ckpt_point_dir(dir, 2);
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", at, files[i]);
        CO_AUTOFREE char *aside = co_xasprintf("%s/aside", dir);
        struct client_world w;
        struct rt_model *m = NULL;
        struct co_err why = {0};
        assert_int_equal(0, rename(path, aside));
        assert_int_equal(0, symlink(path, path));
        expect(CO_INTERNAL, start_server(dir, &why), &why, path);
        expect(CO_INTERNAL, rt_model_open(dir, &m, &why), &why, path);
        world_start(&w, 2, 1);
        struct rt_client *c = enter(&w);
        push(c, 5);
        expect(CO_INTERNAL, rt_restore(c, dir, NULL, &why), &why, path);
        check(c, 5, 1);
        assert_int_equal(0, rename(aside, path));
        /* It comes back.  Whatever this job saves, it removes neither. */
        const struct rt_checkpoint_options one = {.full = true, .keep = 1};
        OK(rt_checkpoint(c, dir, &one, NULL, &err));
        OK(rt_checkpoint(c, dir, &one, NULL, &err));
        leave(&w, c);
        CO_AUTOFREE char *cmd = co_xasprintf("cd %s && ls | tail -n +3 | xargs rm -r", dir);
        assert_int_equal(0, system(cmd));
        world_start(&w, 2, 1);
        c = enter(&w);
        OK(rt_restore(c, dir, NULL, &err));
        check(c, 10, 1);
        leave(&w, c);
    }
}

/* When all that there is is damaged, nobody begins afresh, and prunes it, unless asked to. */
static void only_damaged_checkpoints_are_not_a_fresh_start(void **state) {
    const char *dir = *state;
    struct co_err why = {0};
    struct rt_model *m = NULL;
    CO_AUTOFREE char *part = ckpt_point_part(dir, 1, 0);
    CO_AUTOFREE char *nothing = co_xasprintf("%s/nothing", dir);
    OK(start_server(nothing, &err));
    save(dir, 10);
    flip(part);
    expect(CO_DAMAGED, start_server(dir, &why), &why, part);
    expect(CO_DAMAGED, rt_model_open(dir, &m, &why), &why, part);
    flip(part);
    OK(start_server(dir, &err));
    OK(rt_model_open(dir, &m, &err));
    rt_model_close(m);
}

/* ---- rt_save ---- */

static void a_save_is_read_or_is_an_error(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOFREE char *aside = co_xasprintf("%s/aside", dir);
    struct client_world w;
    struct co_err why = {0};
    struct rt_model *m = NULL;
    world_start(&w, 2, 1);
    struct rt_client *c = enter(&w);
    assert_int_equal(CO_NOTFOUND, rt_load(c, dir, &why));
    push(c, 10);
    OK(rt_save(c, dir, &err));
    push(c, 20);
    OK(rt_load(c, dir, &err));
    assert_int_equal(0, rename(path, aside));
    assert_int_equal(0, symlink(path, path));
    expect(CO_INTERNAL, rt_save(c, dir, &why), &why, path);
    expect(CO_INTERNAL, rt_load(c, dir, &why), &why, path);
    expect(CO_INTERNAL, rt_model_open(dir, &m, &why), &why, path);
    assert_int_equal(0, rename(aside, path));
    OK(rt_load(c, dir, &err));
    OK(rt_model_open(dir, &m, &err));
    rt_model_close(m);
    CO_AUTOFREE char *file = co_xasprintf("%s/rows.0000000000000001.rtt", dir);
    flip(file);
    expect(CO_DAMAGED, rt_load(c, dir, &why), &why, file);
    expect(CO_DAMAGED, rt_model_open(dir, &m, &why), &why, file);
    leave(&w, c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(a_damaged_part_changes_no_table),
        CO_TEST_IN_FOLDER(tables_that_could_not_be_loaded_refuse_all_requests),
        CO_TEST_IN_FOLDER(tables_that_are_loaded_in_part_are_refused),
        CO_TEST_IN_FOLDER(a_checkpoint_of_other_tables_is_not_skipped),
        CO_TEST_IN_FOLDER(an_unreadable_checkpoint_is_not_skipped),
        CO_TEST_IN_FOLDER(only_damaged_checkpoints_are_not_a_fresh_start),
        CO_TEST_IN_FOLDER(a_save_is_read_or_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
