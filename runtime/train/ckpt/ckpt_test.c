#include "runtime/train/ckpt/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/folder_testing.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

enum { DIM = 3, ROWS = 50, VALUES = 100, MOST = 1 << 16 };

static const struct ckpt_table sparse = {.name = "rows",
    .sparse = true,
    .dim = DIM,
    .state = 1,
    .seed = 255,
    .optimizer = "adagrad:lr=0.1",
    .init = "zero"};
static const struct ckpt_table dense = {
    .name = "w", .size = VALUES, .optimizer = "sgd:lr=0.1", .init = "zero"};

static int write_tables(struct ckpt_writer *w, float base, struct co_err *err) {
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
    CO_TRY(ckpt_begin(w, &sparse, err));
    CO_TRY(ckpt_chunk(w, ROWS, chunk, sizeof(chunk), err));
    CO_TRY(ckpt_chunk(w, ROWS, chunk, sizeof(chunk), err));
    CO_TRY(ckpt_end(w, err));
    CO_TRY(ckpt_begin(w, &dense, err));
    CO_TRY(ckpt_chunk(w, VALUES, values, sizeof(values), err));
    return ckpt_end(w, err);
}

static void save(const char *dir, float base) {
    struct ckpt_writer *w = NULL;
    struct co_err err = {0};
    assert_int_equal(0, ckpt_create(dir, &w, &err));
    assert_int_equal(0, write_tables(w, base, &err));
    assert_int_equal(0, ckpt_commit(w, &err));
}

/* The first value of "w". */
static float first_value(const char *dir) {
    struct co_err err = {0};
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    if (ckpt_open(dir, &c, &err) < 0 || ckpt_verify(c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    uint32_t items;
    const void *data;
    size_t bytes;
    assert_int_equal(0, ckpt_file_open(c, (uint32_t)ckpt_find(c, "w"), &f, &err));
    assert_int_equal(0, ckpt_next(f, &items, &data, &bytes, &err));
    assert_int_equal(VALUES, items);
    float v;
    memcpy(&v, data, 4);
    assert_int_equal(1, ckpt_next(f, &items, &data, &bytes, &err));
    assert_int_equal(0, err.code); /* the end is no error */
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

static void saved_tables_are_read_back(void **state) {
    const char *dir = *state;
    save(dir, 7);
    assert_true(first_value(dir) == 7);
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    assert_int_equal(0, ckpt_open(dir, &c, NULL));
    assert_int_equal(2, ckpt_tables(c));
    assert_int_equal(-1, ckpt_find(c, "x"));
    const struct ckpt_table *t = ckpt_table(c, 0);
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
    struct ckpt_writer *w = NULL;
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(0, write_tables(w, 6, NULL));
    assert_true(first_value(dir) == 5); /* as after a kill */
    ckpt_abort(w);
    assert_true(first_value(dir) == 5);
    assert_int_equal(3, count_files(dir));
}

/* Each would remove the other's files.  The lock is the file's, not the name's: what a killed save
 * left keeps nobody out. */
static void one_save_at_a_time(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *left = co_xasprintf("%s/SAVING", dir);
    struct ckpt_writer *w = NULL, *other = NULL;
    struct co_err err = {0};
    assert_int_equal(0, co_file_write(left, "", 0, 0600, NULL));
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(CO_EXISTS, ckpt_create(dir, &other, &err));
    assert_non_null(strstr(err.msg, dir));
    assert_int_equal(0, write_tables(w, 6, NULL));
    assert_int_equal(0, ckpt_commit(w, NULL));
    assert_true(first_value(dir) == 6);
    assert_int_equal(3, count_files(dir));
    save(dir, 7);
    assert_true(first_value(dir) == 7);
}

/* ---- a file system without locks ---- */

static bool no_locks;

int fcntl(int fd, int cmd, ...) {
    va_list args;
    va_start(args, cmd);
    long arg = va_arg(args, long);
    va_end(args);
    if (no_locks && cmd == F_OFD_SETLK) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static int without_locks(void **state) {
    no_locks = true;
    return co_test_folder_make(state);
}

static int with_locks(void **state) {
    no_locks = false;
    return co_test_folder_remove(state);
}

static void a_save_leaves_the_files_of_one_that_no_lock_kept_out(void **state) {
    const char *dir = *state;
    struct ckpt_writer *w = NULL, *other = NULL;
    save(dir, 5);
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(0, write_tables(w, 6, NULL));
    assert_int_equal(0, ckpt_create(dir, &other, NULL));
    assert_int_equal(0, write_tables(other, 7, NULL));
    assert_int_equal(0, ckpt_commit(w, NULL));
    assert_true(first_value(dir) == 6);
    assert_int_equal(0, ckpt_commit(other, NULL));
    assert_true(first_value(dir) == 7);
}

static void a_save_does_not_write_over_one_that_no_lock_kept_out(void **state) {
    const char *dir = *state;
    struct ckpt_writer *w = NULL, *other = NULL;
    struct co_err err = {0};
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(0, ckpt_create(dir, &other, NULL));
    assert_int_equal(0, write_tables(w, 6, NULL));
    assert_int_equal(CO_EXISTS, ckpt_begin(other, &sparse, &err));
    assert_non_null(strstr(err.msg, dir));
    ckpt_abort(other);
    assert_int_equal(0, ckpt_commit(w, NULL));
    assert_true(first_value(dir) == 6);
    assert_int_equal(3, count_files(dir)); /* the lock's file is gone, too */
}

/* Of a save that was killed. */
static void files_that_no_save_touches_any_more_are_removed(void **state) {
    static const char *const left[] = {"w.0000000000000007.rtt", "rows.0000000000000008.rtt"};
    const char *dir = *state;
    CO_AUTOFREE char *old = co_xasprintf("%s/%s", dir, left[0]);
    CO_AUTOFREE char *fresh = co_xasprintf("%s/%s", dir, left[1]);
    struct timespec times[2] = {
        {.tv_sec = time(NULL) - 48 * 3600}, {.tv_sec = time(NULL) - 48 * 3600}};
    assert_int_equal(0, co_file_write(old, "x", 1, 0600, NULL));
    assert_int_equal(0, co_file_write(fresh, "x", 1, 0600, NULL));
    assert_int_equal(0, utimensat(AT_FDCWD, old, times, 0));
    save(dir, 5);
    assert_int_equal(4, count_files(dir));
    assert_int_equal(0, access(fresh, F_OK));
    save(dir, 6);
    assert_int_equal(4, count_files(dir));
}

/* ---- what readers see ---- */

/* Its files are gone, as they are removed, but nothing is damaged. */
static void a_save_that_was_replaced_says_so(void **state) {
    const char *dir = *state;
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    save(dir, 5);
    assert_int_equal(0, ckpt_open(dir, &c, NULL));
    assert_false(ckpt_is_replaced(c));
    save(dir, 6);
    assert_int_equal(CO_DAMAGED, ckpt_verify(c, NULL));
    assert_true(ckpt_is_replaced(c));
}

static void a_directory_without_a_manifest_is_not_found(void **state) {
    struct ckpt *c = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_NOTFOUND, ckpt_open(*state, &c, &err));
    assert_non_null(strstr(err.msg, *state));
}

static void a_save_of_a_later_version_is_unsupported_not_damaged(void **state) {
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", (const char *)*state);
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 10);
    struct ckpt *c = NULL;
    struct co_err err = {0};
    assert_int_equal(0, co_buf_adds(&text, "paddlert checkpoint 2 generation 7\n", NULL));
    assert_int_equal(0, ckpt_lines_end(&text, NULL));
    assert_int_equal(0, co_file_write(path, text.data, text.len, 0600, NULL));
    assert_int_equal(CO_UNSUPPORTED, ckpt_open(*state, &c, &err));
    assert_non_null(strstr(err.msg, "not of version 1: a later libpaddlert wrote it"));
}

static int open_and_verify(const char *dir, struct co_err *err) {
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    CO_TRY(ckpt_open(dir, &c, err));
    return ckpt_verify(c, err);
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
            struct co_err err = {0};
            int rc = open_and_verify(dir, &err);
            if (rc != CO_DAMAGED || !strstr(err.msg, files[i])) {
                fail_msg("%s, byte %zu of %zu: %d '%s'", files[i], at, good.len, rc, err.msg);
            }
        }
        assert_int_equal(0, co_file_write(path, good.data, good.len, 0600, NULL));
    }
    assert_true(first_value(dir) == 5);
    CO_AUTOFREE char *gone = co_xasprintf("%s/%s", dir, files[1]);
    assert_int_equal(0, unlink(gone));
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    struct co_err err = {0};
    assert_int_equal(0, ckpt_open(dir, &c, &err));
    assert_int_equal(CO_DAMAGED, ckpt_verify(c, &err));
    assert_non_null(strstr(err.msg, files[1]));
}

/* The reader keeps one buffer for all chunks of a file. */
static void a_chunk_may_be_larger_than_the_one_before(void **state) {
    static const uint32_t chunks[] = {1, 100, 10, MOST};
    const char *dir = *state;
    struct ckpt_table table = dense;
    table.size = 0;
    CO_AUTOFREE float *values = co_xcalloc(MOST, sizeof(*values));
    for (size_t i = 0; i < MOST; i++) {
        values[i] = (float)i;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        table.size += chunks[i];
    }
    struct ckpt_writer *w = NULL;
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(0, ckpt_begin(w, &table, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        assert_int_equal(0, ckpt_chunk(w, chunks[i], values, chunks[i] * 4, NULL));
    }
    assert_int_equal(0, ckpt_end(w, NULL));
    assert_int_equal(0, ckpt_commit(w, NULL));
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    uint32_t items;
    const void *data;
    size_t bytes;
    assert_int_equal(0, ckpt_open(dir, &c, NULL));
    assert_int_equal(0, ckpt_file_open(c, 0, &f, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(chunks); i++) {
        assert_int_equal(0, ckpt_next(f, &items, &data, &bytes, NULL));
        assert_int_equal(chunks[i], items);
        assert_int_equal(chunks[i] * 4, bytes);
        assert_memory_equal(values, data, bytes);
    }
    assert_int_equal(1, ckpt_next(f, &items, &data, &bytes, NULL));
}

/* ---- syncs: each one fails once, and each is noted ---- */

static long syncs, failing = -1; /* how many there were; which one fails */
static ino_t synced[64];

int fsync(int fd) {
    struct stat st;
    assert_int_equal(0, fstat(fd, &st));
    synced[syncs % 64] = st.st_ino;
    if (syncs++ == failing) {
        errno = EIO;
        return -1;
    }
    return 0;
}

static int try_save(const char *dir, float base) {
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = NULL;
    CO_TRY(ckpt_create(dir, &w, NULL));
    CO_TRY(write_tables(w, base, NULL));
    return ckpt_commit(co_steal_ptr(w), NULL);
}

/* Nothing of the old save is removed before the new one is durable. */
static void a_failed_sync_fails_the_save_and_keeps_the_old_one(void **state) {
    const char *dir = *state;
    bool failed = true;
    save(dir, 1);
    for (long at = 0; failed; at++) {
        float before = first_value(dir);
        syncs = 0;
        failing = at;
        failed = try_save(dir, before + 1) < 0;
        assert_true(failed == (syncs > at)); /* no failure of a sync is passed over */
        failing = -1;
        float after = first_value(dir);
        assert_true(after == before + 1 || (failed && after == before));
    }
    assert_true(syncs >= 4); /* two files, the directory, the manifest, the directory */
    assert_int_equal(3, count_files(dir));
}

static bool was_synced(const char *path) {
    struct stat st;
    assert_int_equal(0, stat(path, &st));
    for (size_t i = 0; i < CO_ARRAY_LEN(synced); i++) {
        if (synced[i] == st.st_ino) {
            return true;
        }
    }
    return false;
}

static void the_names_of_new_directories_are_durable(void **state) {
    CO_AUTOFREE char *deep = co_xasprintf("%s/a/b//c/", (char *)*state);
    CO_AUTOFREE char *a = co_xasprintf("%s/a", (char *)*state);
    CO_AUTOFREE char *b = co_xasprintf("%s/a/b", (char *)*state);
    memset(synced, 0, sizeof(synced));
    syncs = 0;
    save(deep, 9);
    assert_true(was_synced(*state) && was_synced(a) && was_synced(b) && was_synced(deep));
    /* If one cannot be, the next attempt does it. */
    CO_AUTOFREE char *other = co_xasprintf("%s/x/y", (char *)*state);
    CO_AUTOFREE char *x = co_xasprintf("%s/x", (char *)*state);
    for (failing = 0; failing < 2; failing++) {
        syncs = 0;
        assert_true(try_save(other, 3) < 0);
    }
    failing = -1;
    memset(synced, 0, sizeof(synced));
    syncs = 0;
    save(other, 4);
    assert_true(was_synced(x));
}

/* ---- what is there already ---- */

/* A manifest that cannot be read may name a good save, so nothing is written beside it. */
static void a_save_beside_one_that_cannot_be_read_is_refused(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOFREE char *aside = co_xasprintf("%s/aside", dir);
    struct ckpt_writer *w = NULL;
    struct ckpt *c = NULL;
    struct co_err err = {0};
    save(dir, 5);
    assert_int_equal(0, rename(path, aside));
    assert_int_equal(0, symlink(path, path));
    assert_int_equal(CO_INTERNAL, ckpt_create(dir, &w, &err));
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(CO_INTERNAL, ckpt_open(dir, &c, &err));
    assert_int_equal(0, rename(aside, path));
    assert_true(first_value(dir) == 5);
    assert_int_equal(3, count_files(dir));
}

/* Whatever the manifest says: the files that are there are not written over. */
static void a_new_save_takes_names_that_no_file_has(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOFREE char *old = co_xasprintf("%s/w.0000000000000001.rtt", dir);
    struct ckpt_writer *w = NULL;
    struct stat before, after;
    save(dir, 5);
    assert_int_equal(0, stat(old, &before));
    assert_int_equal(0, co_file_write(path, "torn", 4, 0600, NULL));
    assert_int_equal(0, ckpt_create(dir, &w, NULL));
    assert_int_equal(0, write_tables(w, 6, NULL));
    ckpt_abort(w); /* as on a full disk */
    assert_int_equal(0, stat(old, &after));
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    save(dir, 7);
    assert_true(first_value(dir) == 7);
    assert_int_equal(3, count_files(dir));
}

/* Servers' checkpoints could no longer be restored, another program could not read its own file. */
static void a_save_leaves_the_manifest_of_something_else(void **state) {
    static const struct {
        const char *text, *what;
        bool whole, large;
    } rows[] = {
        {"paddlert checkpoint 2\nnumber 7\n", "of a checkpoint that servers wrote", true, false},
        {"paddlert checkpoint 2\nnumber 7\n", "of a checkpoint that servers wrote", false, false},
        {"paddlert checkpoint 3\n", "of a later libpaddlert", true, false},
        {"Manifest-Version: 1.0\n", "of another program", false, false},
        {"Manifest-Version: 1.0\n", "of another program", false, true},
    };
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", (const char *)*state);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_SAVED_MAX * 2), after = CO_BUF(0);
        struct ckpt_writer *w = NULL;
        struct co_err err = {0};
        assert_int_equal(0, co_buf_adds(&text, rows[i].text, NULL));
        while (rows[i].large && text.len <= CKPT_SAVED_MAX) {
            assert_int_equal(0, co_buf_adds(&text, rows[i].text, NULL));
        }
        if (rows[i].whole) {
            assert_int_equal(0, ckpt_lines_end(&text, NULL));
        }
        assert_int_equal(0, co_file_write(path, text.data, text.len, 0600, NULL));
        assert_int_equal(CO_INVALID, ckpt_create(*state, &w, &err));
        assert_non_null(strstr(err.msg, path));
        assert_non_null(strstr(err.msg, rows[i].what));
        assert_int_equal(0, co_file_read(path, text.len, &after, NULL));
        assert_int_equal(text.len, after.len);
        assert_memory_equal(text.data, after.data, text.len);
        assert_int_equal(1, count_files(*state));
    }
}

/* Empty, or cut anywhere, also where no table's file is left. */
static void a_save_replaces_a_damaged_one(void **state) {
    static const char *const rows[] = {"", "paddlert checkpoint 1 generation 3\ntable na"};
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", (const char *)*state);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (int k = 0; k < 2; k++) {
            assert_int_equal(0, co_file_write(path, rows[i], strlen(rows[i]), 0600, NULL));
            save(*state, (float)k);
            assert_true(first_value(*state) == (float)k);
        }
    }
}

static void directories_are_made(void **state) {
    CO_AUTOFREE char *deep = co_xasprintf("%s/a/b/c", (char *)*state);
    save(deep, 9);
    assert_true(first_value(deep) == 9);
    CO_AUTOFREE char *file = co_xasprintf("%s/MANIFEST/x", deep);
    struct ckpt_writer *w = NULL;
    struct co_err err = {0};
    assert_true(ckpt_create(file, &w, &err) < 0);
    assert_non_null(strstr(err.msg, "MANIFEST"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(saved_tables_are_read_back),
        CO_TEST_IN_FOLDER(a_new_checkpoint_replaces_the_old_one),
        CO_TEST_IN_FOLDER(an_unfinished_save_leaves_the_old_one),
        CO_TEST_IN_FOLDER(one_save_at_a_time),
        cmocka_unit_test_setup_teardown(
            a_save_leaves_the_files_of_one_that_no_lock_kept_out, without_locks, with_locks),
        cmocka_unit_test_setup_teardown(
            a_save_does_not_write_over_one_that_no_lock_kept_out, without_locks, with_locks),
        cmocka_unit_test_setup_teardown(
            files_that_no_save_touches_any_more_are_removed, without_locks, with_locks),
        CO_TEST_IN_FOLDER(a_save_that_was_replaced_says_so),
        CO_TEST_IN_FOLDER(a_directory_without_a_manifest_is_not_found),
        CO_TEST_IN_FOLDER(a_save_of_a_later_version_is_unsupported_not_damaged),
        CO_TEST_IN_FOLDER(damage_is_refused_and_named),
        CO_TEST_IN_FOLDER(a_chunk_may_be_larger_than_the_one_before),
        CO_TEST_IN_FOLDER(a_save_leaves_the_manifest_of_something_else),
        CO_TEST_IN_FOLDER(a_save_replaces_a_damaged_one),
        CO_TEST_IN_FOLDER(directories_are_made),
        CO_TEST_IN_FOLDER(a_failed_sync_fails_the_save_and_keeps_the_old_one),
        CO_TEST_IN_FOLDER(the_names_of_new_directories_are_durable),
        CO_TEST_IN_FOLDER(a_save_beside_one_that_cannot_be_read_is_refused),
        CO_TEST_IN_FOLDER(a_new_save_takes_names_that_no_file_has),
    };
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
