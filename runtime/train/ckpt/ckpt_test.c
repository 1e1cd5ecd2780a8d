#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/train/ckpt/ckpt.h"

enum { DIM = 3, ROWS = 50, VALUES = 100, MOST = 1 << 16 };

static const struct rt_ckpt_table sparse = {.name = "rows",
    .sparse = true,
    .dim = DIM,
    .state = 1,
    .seed = 255,
    .optimizer = "adagrad:lr=0.1",
    .init = "zero"};
static const struct rt_ckpt_table dense = {
    .name = "w", .size = VALUES, .optimizer = "sgd:lr=0.1", .init = "zero"};

static int setup(void **state) {
    char *dir = co_xstrdup("/tmp/ckpt_test_XXXXXX");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", (char *)*state);
    int rc = system(cmd);
    free(*state);
    return rc;
}

static int write_tables(struct rt_ckpt_writer *w, float base, struct co_err *err) {
    unsigned char chunk[ROWS * (8 + (DIM + 1) * 4)];
    float values[VALUES];
    for (uint64_t i = 0; i < ROWS; i++) {
        memcpy(chunk + i * 8, &i, 8);
        for (size_t k = 0; k < DIM + 1; k++) {
            float v = base + (float)(i * 10 + k);
            memcpy(chunk + ROWS * 8 + (i * (DIM + 1) + k) * 4, &v, 4);
        }
    }
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = base + (float)i;
    }
    int rc = rt_ckpt_begin(w, &sparse, err);
    rc = rc < 0 ? rc : rt_ckpt_chunk(w, ROWS, chunk, sizeof(chunk), err);
    rc = rc < 0 ? rc : rt_ckpt_chunk(w, ROWS, chunk, sizeof(chunk), err);
    rc = rc < 0 ? rc : rt_ckpt_end(w, err);
    rc = rc < 0 ? rc : rt_ckpt_begin(w, &dense, err);
    rc = rc < 0 ? rc : rt_ckpt_chunk(w, VALUES, values, sizeof(values), err);
    return rc < 0 ? rc : rt_ckpt_end(w, err);
}

static void save(const char *dir, float base) {
    struct rt_ckpt_writer *w = NULL;
    struct co_err err = {0};
    assert_int_equal(0, rt_ckpt_create(dir, &w, &err));
    assert_int_equal(0, write_tables(w, base, &err));
    assert_int_equal(0, rt_ckpt_commit(w, &err));
}

/* The first value of "w". */
static float first_value(const char *dir) {
    struct co_err err = {0};
    CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *c = NULL;
    if (rt_ckpt_open(dir, &c, &err) < 0 || rt_ckpt_verify(c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    CO_CLEANUP(rt_ckpt_file_closep) struct rt_ckpt_file *f = NULL;
    uint32_t items;
    const void *data;
    size_t bytes;
    assert_int_equal(0, rt_ckpt_file_open(c, (uint32_t)rt_ckpt_find(c, "w"), &f, &err));
    assert_int_equal(0, rt_ckpt_next(f, &items, &data, &bytes, &err));
    assert_int_equal(VALUES, items);
    float v;
    memcpy(&v, data, 4);
    assert_int_equal(CO_NOTFOUND, rt_ckpt_next(f, &items, &data, &bytes, &err));
    return v;
}

static unsigned count_files(const char *dir) {
    unsigned n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return n;
}

static void what_was_written_is_read(void **state) {
    const char *dir = *state;
    save(dir, 7);
    assert_true(first_value(dir) == 7);
    CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *c = NULL;
    assert_int_equal(0, rt_ckpt_open(dir, &c, NULL));
    assert_int_equal(2, rt_ckpt_tables(c));
    assert_int_equal(-1, rt_ckpt_find(c, "x"));
    const struct rt_ckpt_table *t = rt_ckpt_table(c, 0);
    assert_true(t->sparse && t->dim == DIM && t->seed == 255 && t->items == 2 * ROWS);
    assert_string_equal("adagrad:lr=0.1", t->optimizer);
}

static void a_new_checkpoint_replaces_the_old_one(void **state) {
    const char *dir = *state;
    for (int i = 0; i < 4; i++) {
        save(dir, (float)i);
        assert_true(first_value(dir) == (float)i);
        assert_int_equal(3, count_files(dir));
    }
}

static void an_unfinished_save_leaves_the_old_one(void **state) {
    const char *dir = *state;
    save(dir, 5);
    struct rt_ckpt_writer *w = NULL;
    assert_int_equal(0, rt_ckpt_create(dir, &w, NULL));
    assert_int_equal(0, write_tables(w, 6, NULL));
    assert_true(first_value(dir) == 5); /* as after a kill */
    rt_ckpt_abort(w);
    assert_true(first_value(dir) == 5);
    assert_int_equal(3, count_files(dir));
}

static void no_manifest_is_not_found(void **state) {
    struct rt_ckpt *c = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_NOTFOUND, rt_ckpt_open(*state, &c, &err));
    assert_non_null(strstr(err.msg, *state));
}

/* Any byte of any file changed, or any file cut anywhere, is refused, and the file named. */
static void damage_is_refused_and_named(void **state) {
    const char *dir = *state;
    save(dir, 5);
    static const char *files[] = {
        "MANIFEST", "rows.0000000000000001.rtt", "w.0000000000000001.rtt"};
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, files[i]);
        CO_AUTOBUF struct co_buf good = CO_BUF(1 << 20);
        assert_int_equal(0, co_file_read(path, 1 << 20, &good, NULL));
        for (size_t at = 0; at < 2 * good.len; at += i == 0 ? 1 : 3) {
            size_t len = at < good.len ? good.len : at - good.len;
            char saved = at < good.len ? good.data[at] : 0;
            if (at < good.len) {
                good.data[at] = (char)(saved ^ 0x10);
            }
            assert_int_equal(0, co_file_write(path, good.data, len, 0600, NULL));
            if (at < good.len) {
                good.data[at] = saved;
            }
            CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *c = NULL;
            struct co_err err = {0};
            int rc = rt_ckpt_open(dir, &c, &err);
            rc = rc < 0 ? rc : rt_ckpt_verify(c, &err);
            if (rc != CO_INVALID || !strstr(err.msg, files[i])) {
                fail_msg("%s, byte %zu of %zu: %d '%s'", files[i], at, good.len, rc, err.msg);
            }
        }
        assert_int_equal(0, co_file_write(path, good.data, good.len, 0600, NULL));
    }
    assert_true(first_value(dir) == 5);
    CO_AUTOFREE char *gone = co_xasprintf("%s/%s", dir, files[1]);
    assert_int_equal(0, unlink(gone));
    CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *c = NULL;
    struct co_err err = {0};
    assert_int_equal(0, rt_ckpt_open(dir, &c, &err));
    assert_int_equal(CO_INVALID, rt_ckpt_verify(c, &err));
    assert_non_null(strstr(err.msg, files[1]));
}

/* The reader keeps one buffer for all chunks of a file. */
static void a_chunk_may_be_larger_than_the_one_before(void **state) {
    static const uint32_t chunks[] = {1, 100, 10, MOST};
    const char *dir = *state;
    struct rt_ckpt_table table = dense;
    table.size = 0;
    CO_AUTOFREE float *values = co_xcalloc(MOST, sizeof(*values));
    for (size_t i = 0; i < MOST; i++) {
        values[i] = (float)i;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        table.size += chunks[i];
    }
    struct rt_ckpt_writer *w = NULL;
    assert_int_equal(0, rt_ckpt_create(dir, &w, NULL));
    assert_int_equal(0, rt_ckpt_begin(w, &table, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        assert_int_equal(0, rt_ckpt_chunk(w, chunks[i], values, chunks[i] * 4, NULL));
    }
    assert_int_equal(0, rt_ckpt_end(w, NULL));
    assert_int_equal(0, rt_ckpt_commit(w, NULL));
    CO_CLEANUP(rt_ckpt_closep) struct rt_ckpt *c = NULL;
    CO_CLEANUP(rt_ckpt_file_closep) struct rt_ckpt_file *f = NULL;
    uint32_t items;
    const void *data;
    size_t bytes;
    assert_int_equal(0, rt_ckpt_open(dir, &c, NULL));
    assert_int_equal(0, rt_ckpt_file_open(c, 0, &f, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        assert_int_equal(0, rt_ckpt_next(f, &items, &data, &bytes, NULL));
        assert_int_equal(chunks[i], items);
        assert_int_equal(chunks[i] * 4, bytes);
        assert_memory_equal(values, data, bytes);
    }
    assert_int_equal(CO_NOTFOUND, rt_ckpt_next(f, &items, &data, &bytes, NULL));
}

static void directories_are_made(void **state) {
    CO_AUTOFREE char *deep = co_xasprintf("%s/a/b/c", (char *)*state);
    save(deep, 9);
    assert_true(first_value(deep) == 9);
    CO_AUTOFREE char *file = co_xasprintf("%s/MANIFEST/x", deep);
    struct rt_ckpt_writer *w = NULL;
    struct co_err err = {0};
    assert_true(rt_ckpt_create(file, &w, &err) < 0);
    assert_non_null(strstr(err.msg, "MANIFEST"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_checkpoint_replaces_the_old_one, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unfinished_save_leaves_the_old_one, setup, teardown),
        cmocka_unit_test_setup_teardown(no_manifest_is_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_refused_and_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chunk_may_be_larger_than_the_one_before, setup, teardown),
        cmocka_unit_test_setup_teardown(directories_are_made, setup, teardown),
    };
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
