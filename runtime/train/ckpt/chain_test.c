/* Checkpoints of several servers: what is written is read; what is torn or damaged is named and
 * passed over; a process killed at any step leaves a whole one. */
#include "runtime/train/ckpt/chain.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/folder_testing.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

enum { DIM = 3, SERVERS = 2, ROWS = 20 };

static struct ckpt_table table = {.name = "rows",
    .sparse = true,
    .dim = DIM,
    .state = 1,
    .seed = 255,
    .optimizer = "adagrad:lr=0.1",
    .init = "zero"};

/* ROWS rows whose floats are all `number`. */
static int write_part(
    const char *dir, uint64_t number, uint32_t server, struct ckpt_part *ret, struct co_err *err) {
    CO_AUTOFREE char *path = ckpt_point_part(dir, number, server);
    struct ckpt_part_origin place = {number, server, SERVERS, 1};
    struct ckpt_part_sum sum = {0};
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
    unsigned char data[ROWS * (8 + (DIM + 1) * 4)];
    for (uint64_t i = 0; i < ROWS; i++) {
        unsigned char *row = data + i * sizeof(data) / ROWS;
        co_put_u64(row, i * SERVERS + server);
        for (size_t k = 0; k < DIM + 1; k++) {
            float v = (float)number;
            memcpy(row + 8 + k * 4, &v, 4);
        }
    }
    struct ckpt_part_chunk rows = {.kind = CKPT_PART_ROWS, .items = ROWS, .bytes = sizeof(data)};
    struct ckpt_part_chunk erased = {.kind = CKPT_PART_ERASED, .items = 1, .bytes = 8};
    CO_TRY(ckpt_part_create(path, &place, &w, err));
    CO_TRY(ckpt_part_add(w, &erased, data, err));
    CO_TRY(ckpt_part_add(w, &rows, data, err));
    CO_TRY(ckpt_part_finish(w, &sum, err));
    *ret = (struct ckpt_part){server, 1, sum.bytes, sum.hash};
    return 0;
}

static uint64_t hash_after; /* what save puts into the manifest of a delta */

static int save(const char *dir, uint64_t number, uint64_t base, struct co_err *err) {
    struct ckpt_part parts[SERVERS];
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    struct ckpt_point p = {.number = number,
        .base = base,
        .previous = base == number ? 0 : number - 1,
        .after = base == number ? 0 : hash_after,
        .step = number * 100,
        .sync = true,
        .n_tables = 1,
        .n_parts = SERVERS,
        .tables = &table,
        .parts = parts};
    CO_TRY(ckpt_disk_mkdir(at, err));
    for (uint32_t i = 0; i < SERVERS; i++) {
        CO_TRY(write_part(dir, number, i, &parts[i], err));
    }
    CO_TRY(ckpt_disk_sync_dir(at, err));
    return ckpt_point_commit(dir, &p, err);
}

static void save_all(const char *dir, uint64_t from, uint64_t to, uint64_t base) {
    struct co_err err = {0};
    for (uint64_t i = from; i <= to; i++) {
        if (save(dir, i, base, &err) < 0) {
            fail_msg("%s", err.msg);
        }
    }
}

struct skipped {
    unsigned n;
    char text[4096];
};

static void note_skipped(void *arg, const struct co_err *why) {
    struct skipped *s = arg;
    s->n++;
    size_t at = strlen(s->text);
    (void)snprintf(s->text + at, sizeof(s->text) - at, "%s\n", why->msg);
}

/* ---- a file system that fails while a directory is read ---- */

static int entries_left = -1; /* then it fails; -1: never */

struct dirent *readdir(DIR *d) {
    static struct dirent *(*real)(DIR *);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    }
    if (entries_left == 0) {
        errno = EIO;
        return NULL;
    }
    entries_left -= entries_left > 0;
    return real(d);
}

static uint64_t hash_of(const char *dir, uint64_t number) {
    struct ckpt_point p = {0};
    assert_int_equal(ckpt_point_read(dir, number, &p, NULL), 0);
    uint64_t ret = p.hash;
    ckpt_point_done(&p);
    return ret;
}

static uint64_t last_number(const char *dir) {
    struct co_err err = {0};
    uint64_t last = 0;
    if (ckpt_last_number(dir, &last, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return last;
}

/* Of the newest whole one; 0: none. */
static uint64_t newest(const char *dir, struct skipped *s) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct ckpt_search search = {
        .dir = dir, .most = UINT64_MAX, .verify = true, .skip = s ? note_skipped : NULL, .arg = s};
    struct co_err err = {0};
    int rc = ckpt_chain_newest(&search, &c, &err);
    if (rc == CO_NOTFOUND || rc == CO_DAMAGED) {
        return 0;
    }
    assert_int_equal(0, rc);
    assert_int_equal(0, err.code);
    return ckpt_chain_number(c);
}

static void a_chain_begins_with_its_full_checkpoint(void **state) {
    const char *dir = *state;
    save_all(dir, 1, 1, 1);
    save_all(dir, 2, 4, 1);
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct ckpt_search all = {.dir = dir, .most = UINT64_MAX};
    assert_int_equal(0, ckpt_chain_newest(&all, &c, NULL));
    assert_int_equal(4, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        assert_int_equal(i + 1, c->points[i].number);
        assert_int_equal((i + 1) * 100, c->points[i].step);
        assert_true(c->points[i].sync);
        assert_string_equal("adagrad:lr=0.1", c->points[i].tables[0].optimizer);
        assert_int_equal(255, c->points[i].tables[0].seed);
    }
    assert_int_equal(0, ckpt_chain_verify(c, NULL));
    atomic_bool stop = true; /* as when the server ends */
    c->stop = &stop;
    assert_int_equal(CO_CANCELED, ckpt_chain_verify(c, NULL));
    CO_CLEANUP(ckpt_part_reader_closep) struct ckpt_part_reader *r = NULL;
    struct ckpt_part_chunk chunk;
    const unsigned char *data;
    assert_int_equal(0, ckpt_chain_part(c, 3, 1, &r, NULL));
    assert_int_equal(0, ckpt_part_next(r, &chunk, NULL)); /* erased: passed over */
    assert_int_equal(CKPT_PART_ERASED, chunk.kind);
    assert_int_equal(0, ckpt_part_next(r, &chunk, NULL));
    assert_int_equal(ROWS, chunk.items);
    assert_int_equal(0, ckpt_part_data(r, &data, NULL));
    float v;
    memcpy(&v, data + 8, 4);
    assert_true(v == 4 && co_get_u64(data + chunk.bytes / ROWS) == 3);
    assert_int_equal(1, ckpt_part_next(r, &chunk, NULL));
    assert_int_equal(4, last_number(dir));
}

static void torn_checkpoints_are_named_and_skipped(void **state) {
    const char *dir = *state;
    struct skipped s = {0};
    assert_int_equal(0, newest(dir, &s));
    save_all(dir, 1, 1, 1);
    save_all(dir, 2, 3, 1);
    CO_AUTOFREE char *torn = ckpt_point_dir(dir, 4);
    assert_int_equal(0, mkdir(torn, 0700));
    assert_int_equal(3, newest(dir, &s));
    assert_int_equal(1, s.n);
    assert_non_null(strstr(s.text, "ckpt-000000000004\" was not completed"));
    /* Without 2 there is no 3. */
    CO_AUTOFREE char *gone = ckpt_point_part(dir, 2, 1);
    assert_int_equal(0, unlink(gone));
    assert_int_equal(1, newest(dir, &s));
    assert_int_equal(4, s.n);
    assert_non_null(strstr(s.text, "ckpt-000000000002/part-00001"));
    assert_int_equal(4, last_number(dir));
}

/* Any byte changed, or the file cut anywhere. */
static void damage_of_any_byte_is_named(void **state) {
    const char *dir = *state;
    save_all(dir, 1, 1, 1);
    save_all(dir, 2, 2, 1);
    static const char *files[] = {"MANIFEST", "part-00000", "part-00001"};
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        CO_AUTOFREE char *at = ckpt_point_dir(dir, 2);
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", at, files[i]);
        CO_AUTOBUF struct co_buf good = CO_BUF(1 << 20);
        assert_int_equal(0, co_file_read(path, 1 << 20, &good, NULL));
        for (size_t k = 0; k < 2 * good.len; k++) {
            bool flip = k < good.len;
            size_t len = flip ? good.len : k - good.len;
            good.data[flip ? k : k - good.len] ^= flip ? 0x10 : 0;
            assert_int_equal(0, co_file_write(path, good.data, len, 0600, NULL));
            good.data[flip ? k : k - good.len] ^= flip ? 0x10 : 0;
            struct skipped s = {0};
            if (newest(dir, &s) != 1 || s.n != 1 || !strstr(s.text, path)) {
                fail_msg("%s, byte %zu of %zu: %u '%s'", files[i], k, good.len, s.n, s.text);
            }
        }
        assert_int_equal(0, co_file_write(path, good.data, good.len, 0600, NULL));
    }
    assert_int_equal(2, newest(dir, NULL));
}

/* As after checkpoint `number` of a job that began with `restored` and wrote that one first; 0: it
 * wrote all. */
static void prune(const char *dir, uint32_t keep, uint64_t number, uint64_t restored) {
    struct ckpt_point p = {0};
    struct co_err err = {0};
    assert_int_equal(0, ckpt_point_read(dir, number, &p, &err));
    struct ckpt_read read = {0};
    const struct ckpt_past past = {
        .newest = &p, .restored = restored, .first = restored ? number : 1, .read = &read};
    if (ckpt_prune(dir, keep, &past, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    free(read.all);
    ckpt_point_done(&p);
}

/* The numbers whose directories are there. */
static const char *left(const char *dir) {
    static char text[256];
    text[0] = '\0';
    for (uint64_t i = 1; i < 20; i++) {
        CO_AUTOFREE char *at = ckpt_point_dir(dir, i);
        size_t n = strlen(text);
        if (access(at, F_OK) == 0) {
            (void)snprintf(text + n, sizeof(text) - n, "%llu ", (unsigned long long)i);
        }
    }
    return text;
}

/* Nobody, not even root, can open it: what it had may still be there. */
static void replace_by_loop(const char *path) {
    assert_int_equal(0, unlink(path));
    assert_int_equal(0, symlink(path, path));
}

static void pruning_keeps_the_newest_full_checkpoints_and_their_deltas(void **state) {
    const char *dir = *state;
    save_all(dir, 1, 1, 1);
    save_all(dir, 2, 3, 1);
    save_all(dir, 4, 4, 4);
    save_all(dir, 5, 5, 4);
    CO_AUTOFREE char *torn = ckpt_point_dir(dir, 6);
    assert_int_equal(0, mkdir(torn, 0700));
    save_all(dir, 7, 7, 7);
    CO_AUTOFREE char *begun = ckpt_point_dir(dir, 8);
    assert_int_equal(0, mkdir(begun, 0700));
    prune(dir, 3, 7, 0);
    assert_string_equal("1 2 3 4 5 7 8 ", left(dir));
    prune(dir, 2, 7, 0);
    assert_string_equal("4 5 7 8 ", left(dir));
    assert_int_equal(7, newest(dir, NULL));
}

/* What a link leads to is somebody's own copy; only the link is of this directory. */
static void pruning_a_link_leaves_what_it_leads_to(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *first = ckpt_point_dir(dir, 1), *copy = co_xasprintf("%s/copy", dir);
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", copy);
    CO_AUTOFREE char *part = co_xasprintf("%s/part-00000", copy);
    save_all(dir, 1, 1, 1);
    assert_int_equal(0, rename(first, copy));
    assert_int_equal(0, symlink("copy", first));
    save_all(dir, 2, 2, 2);
    prune(dir, 1, 2, 0);
    assert_string_equal("2 ", left(dir));
    struct stat st;
    assert_true(lstat(first, &st) < 0);
    assert_int_equal(0, stat(manifest, &st));
    assert_int_equal(0, stat(part, &st));
}

/* Seven full ones.  This job began with 3 and has made 6. */
/* Names that look like a checkpoint's: somebody's own. */
static void other_names_are_no_checkpoints(void **state) {
    static const char *const names[] = {"ckpt-9", "ckpt-0000000000009", "ckpt-000000000009.bak",
        "ckpt-", "ckpt-000000000000", "ckpt-00000000000x", "Ckpt-000000000009",
        "ckpt-18446744073709551616"};
    const char *dir = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *at = co_xasprintf("%s/%s", dir, names[i]);
        assert_int_equal(0, mkdir(at, 0700));
    }
    assert_int_equal(0, last_number(dir));
    save_all(dir, 1, 1, 1);
    save_all(dir, 1000000000000, 1000000000000, 1000000000000);
    assert_int_equal(1000000000000, last_number(dir));
    prune(dir, 1, 1000000000000, 0); /* fails where it takes one of them for its own */
    assert_string_equal("", left(dir));
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *at = co_xasprintf("%s/%s", dir, names[i]);
        assert_int_equal(0, access(at, F_OK));
    }
}

static void pruning_removes_only_checkpoints_of_this_job(void **state) {
    const char *dir = *state;
    for (uint64_t i = 1; i <= 7; i++) {
        save_all(dir, i, i, i);
    }
    CO_AUTOFREE char *at = ckpt_point_dir(dir, 1);
    CO_AUTOFREE char *locked = co_xasprintf("%s/MANIFEST", at);
    replace_by_loop(locked);
    prune(dir, 1, 6, 3);
    assert_string_equal(
        "1 4 5 6 7 ", left(dir)); /* 7 is newer, 4 and 5 are others', 1 is not read */
    assert_int_equal(0, unlink(locked));
    assert_int_equal(0, co_file_write(locked, "paddlert\n", 9, 0600, NULL)); /* damaged */
    prune(dir, 1, 6, 5); /* the next life began with 5 */
    assert_string_equal("1 6 7 ", left(dir));
}

static void flip_last(const char *path) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    assert_int_equal(0, co_file_read(path, 1 << 20, &text, NULL));
    text.data[text.len - 1] ^= 1;
    assert_int_equal(0, co_file_write(path, text.data, text.len, 0600, NULL));
}

static void cut(const char *path) {
    assert_int_equal(0, truncate(path, 5));
}

static void lose(const char *path) {
    assert_int_equal(0, unlink(path));
}

static int opened;

static void count_open(void) {
    opened++;
}

/* Five full ones.  This job began with 4 and has made 5; which of the others are whole it has to
 * read, but only once. */
static void pruning_counts_only_whole_checkpoints(void **state) {
    static void (*const harms[])(const char *path) = {flip_last, cut, lose, replace_by_loop};
    static const struct {
        uint64_t harmed;
        uint32_t keep;
        const char *left;
    } rows[] = {{3, 3, "2 3 4 5 "}, {4, 2, "3 4 5 "}, {2, 3, "3 4 5 "}, {2, 4, "1 2 3 4 5 "}};
    for (size_t i = 0; i < CO_ARRAY_LEN(harms) * CO_ARRAY_LEN(rows); i++) {
        uint64_t harmed = rows[i / CO_ARRAY_LEN(harms)].harmed;
        size_t h = i % CO_ARRAY_LEN(harms);
        if (harmed == 4 && harms[h] == flip_last) {
            continue; /* its bytes were right when this life began */
        }
        CO_AUTOFREE char *dir = co_xasprintf("%s/%zu", (char *)*state, i);
        for (uint64_t n = 1; n <= 5; n++) {
            save_all(dir, n, n, n);
        }
        CO_AUTOFREE char *part = ckpt_point_part(dir, harmed, 1);
        harms[h](part);
        prune(dir, rows[i / CO_ARRAY_LEN(harms)].keep, 5, 4);
        assert_string_equal(rows[i / CO_ARRAY_LEN(harms)].left, left(dir));
    }
}

static void pruning_reads_nothing_twice(void **state) {
    const char *dir = *state;
    struct ckpt_point p = {0};
    struct ckpt_read read = {0};
    const struct ckpt_past past = {.newest = &p, .restored = 4, .first = 5, .read = &read};
    for (uint64_t n = 1; n <= 5; n++) {
        save_all(dir, n, n, n);
    }
    CO_AUTOFREE char *part = ckpt_point_part(dir, 3, 1);
    flip_last(part);
    assert_int_equal(0, ckpt_point_read(dir, 5, &p, NULL));
    for (int i = 0; i < 2; i++) {
        opened = 0;
        ckpt_disk_opens = count_open;
        int rc = ckpt_prune(dir, 3, &past, NULL);
        ckpt_disk_opens = NULL;
        assert_int_equal(0, rc);
        assert_string_equal("2 3 4 5 ", left(dir));
    }
    assert_int_equal(5, opened); /* manifests: the four, and once more the one that it began with */
    free(read.all);
    ckpt_point_done(&p);
}

static void checkpoints_of_other_tables_stay(void **state) {
    static const struct ckpt_table others[] = {
        {.name = "rows", .sparse = true, .dim = 9, .optimizer = "sgd", .init = "zero"},
        {.name = "renamed", .sparse = true, .dim = DIM, .optimizer = "sgd", .init = "zero"},
        {.name = "rows", .size = DIM, .optimizer = "sgd", .init = "zero"}};
    const char *dir = *state;
    const struct ckpt_table mine = table;
    save_all(dir, 1, 1, 1);
    for (uint64_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        table = others[i];
        save_all(dir, 2 + i, 2 + i, 2 + i);
    }
    table = mine;
    (void)snprintf(
        table.optimizer, sizeof(table.optimizer), "adam:lr=0.5"); /* a job may change it */
    save_all(dir, 5, 6, 5);
    save_all(dir, 7, 7, 7);
    prune(dir, 1, 7, 7);
    assert_string_equal("2 3 4 7 ", left(dir));
    table = mine;
}

/* What is there in a file's place, which nobody, not even root, can read. */
static void put_loop(const char *path) {
    assert_int_equal(0, symlink(path, path));
}
static void put_lost_link(const char *path) {
    assert_int_equal(0, symlink("/a disk/that is not mounted", path));
}
static void put_fifo(const char *path) {
    assert_int_equal(0, mkfifo(path, 0600));
}
static void put_directory(const char *path) {
    assert_int_equal(0, mkdir(path, 0700));
}
static void put_device(const char *path) {
    assert_int_equal(0, symlink("/dev/zero", path));
}

static const struct {
    void (*put)(const char *path);
    const char *says;
} unreadable[] = {{put_directory, "it is a directory, expected a file"},
    {put_device, "it is a device or socket"}, {put_fifo, "it is a FIFO"},
    {put_loop, "Too many levels of symbolic links"},
    {put_lost_link, "a symbolic link on its way leads nowhere"}};

static void search_ends(const char *dir, const char *path, const char *says) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    struct skipped s = {0};
    struct co_err err = {0};
    const struct ckpt_search search = {
        .dir = dir, .most = UINT64_MAX, .skip = note_skipped, .arg = &s};
    int rc = ckpt_chain_newest(&search, &c, &err);
    if (rc != CO_INTERNAL || s.n > 0 || !strstr(err.msg, path) || !strstr(err.msg, says)) {
        fail_msg("%s: %d '%s', expected '%s'", path, rc, err.msg, says);
    }
}

/* Each file of the newest one. A damaged one has an older one in its place, but what cannot be read
 * may be whole. */
static void an_unreadable_checkpoint_ends_the_search(void **state) {
    static const char *files[] = {"MANIFEST", "part-00000", "part-00001"};
    const char *dir = *state;
    CO_AUTOFREE char *aside = co_xasprintf("%s/aside", dir);
    save_all(dir, 1, 2, 1);
    for (uint64_t number = 1; number <= 2; number++) { /* the full one, its delta */
        for (size_t i = 0; i < CO_ARRAY_LEN(files) * CO_ARRAY_LEN(unreadable); i++) {
            CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
            CO_AUTOFREE char *path = co_xasprintf("%s/%s", at, files[i % CO_ARRAY_LEN(files)]);
            assert_int_equal(0, rename(path, aside));
            unreadable[i / CO_ARRAY_LEN(files)].put(path);
            search_ends(dir, path, unreadable[i / CO_ARRAY_LEN(files)].says);
            assert_int_equal(0, remove(path));
            assert_int_equal(0, rename(aside, path));
        }
    }
    assert_int_equal(2, newest(dir, NULL));
}

/* After the library was replaced by an earlier one: an older checkpoint is no substitute. */
static void a_checkpoint_of_a_later_version_ends_the_search(void **state) {
    const char *dir = *state;
    save_all(dir, 1, 2, 1);
    CO_AUTOFREE char *at = ckpt_point_dir(dir, 2);
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", at);
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 10);
    assert_int_equal(0, co_buf_adds(&text, "paddlert checkpoint 3\nthings to come\n", NULL));
    assert_int_equal(0, ckpt_lines_end(&text, NULL));
    assert_int_equal(0, co_file_write(path, text.data, text.len, 0600, NULL));
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct ckpt_search search = {.dir = dir, .most = UINT64_MAX};
    struct co_err err = {0};
    assert_int_equal(CO_UNSUPPORTED, ckpt_chain_newest(&search, &c, &err));
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, "not of version 2: a later libpaddlert wrote it"));
    text.data[25] ^= 1;
    assert_int_equal(0, co_file_write(path, text.data, text.len, 0600, NULL));
    assert_int_equal(1, newest(dir, NULL));
}

/* All of it, or the newest one, was moved to another disk. */
static void a_link_to_nowhere_is_not_an_empty_directory(void **state) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/link", (const char *)*state);
    put_lost_link(dir);
    search_ends(dir, dir, "leads nowhere");
    CO_AUTOFREE char *below = co_xasprintf("%s/job", dir);
    search_ends(below, below, "leads nowhere");
    assert_int_equal(0, unlink(dir));
    assert_int_equal(0, mkdir(dir, 0700));
    save_all(dir, 1, 2, 1);
    CO_AUTOFREE char *at = ckpt_point_dir(dir, 3);
    put_lost_link(at);
    search_ends(dir, at, "leads nowhere");
    bool complete;
    assert_int_equal(CO_INTERNAL, ckpt_is_complete(dir, 3, &complete, NULL));
    prune(dir, 1, 2, 0);
    assert_string_equal("1 2 ", left(dir));
    struct stat st;
    assert_int_equal(0, lstat(at, &st));
}

static void a_search_names_the_skipped_and_the_chosen_checkpoint(void **state) {
    const char *dir = *state;
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct ckpt_search search = {.dir = dir, .most = UINT64_MAX};
    struct co_err err = {0};
    for (uint64_t i = 1; i <= 3; i++) {
        save_all(dir, i, i, i);
    }
    for (uint64_t i = 3; i > 0; i--) {
        CO_AUTOFREE char *part = ckpt_point_part(dir, i, 0);
        assert_int_equal(0, ckpt_chain_newest(&search, &c, &err));
        assert_int_equal(i, ckpt_chain_number(c));
        assert_int_equal(i == 3 ? 0 : 3, c->damaged);
        ckpt_chain_close(co_steal_ptr(c));
        assert_int_equal(0, truncate(part, 100));
    }
    assert_int_equal(0, err.code);
    assert_int_equal(CO_DAMAGED, ckpt_chain_newest(&search, &c, &err));
    assert_non_null(strstr(err.msg, "ckpt-000000000003/part-00000"));
}

/* All that lists the directory fails with this code, and says which one it is. */
static void cannot_list(const char *dir, int code) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    struct ckpt_numbers have = {0};
    struct co_err err[4] = {0};
    uint64_t last = 77;
    int left = entries_left;
    assert_int_equal(code, ckpt_numbers(dir, &have, &err[0]));
    entries_left = left;
    assert_int_equal(code, ckpt_last_number(dir, &last, &err[1]));
    entries_left = left;
    const struct ckpt_search search = {.dir = dir, .most = UINT64_MAX};
    assert_int_equal(code, ckpt_chain_newest(&search, &c, &err[2]));
    entries_left = left;
    const struct ckpt_point p = {.number = 3};
    const struct ckpt_past past = {.newest = &p, .first = 1};
    assert_int_equal(code, ckpt_prune(dir, 1, &past, &err[3]));
    entries_left = -1;
    assert_true(!have.all && have.n == 0 && last == 77 && !c);
    for (size_t i = 0; i < CO_ARRAY_LEN(err); i++) {
        assert_non_null(strstr(err[i].msg, dir));
    }
}

static void a_directory_that_cannot_be_listed_is_not_empty(void **state) {
    const char *dir = *state;
    CO_AUTOFREE char *missing = co_xasprintf("%s/missing", dir);
    CO_AUTOFREE char *file = co_xasprintf("%s/file", dir);
    assert_int_equal(0, last_number(missing));
    assert_int_equal(0, newest(missing, NULL));
    assert_int_equal(0, co_file_write(file, "", 0, 0600, NULL));
    cannot_list(file, CO_INVALID);
    for (uint64_t i = 1; i <= 3; i++) {
        save_all(dir, i, i, i);
    }
    for (int i = 0; i < 6; i++) { /* with ".", ".." and the file */
        entries_left = i;
        cannot_list(dir, CO_INTERNAL);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        CO_AUTOFREE char *at = ckpt_point_dir(dir, i);
        assert_int_equal(0, access(at, F_OK));
    }
    assert_int_equal(3, newest(dir, NULL));
}

/* ---- a kill before each step ---- */

static long steps_left;

static void kill_at_step(void) {
    if (steps_left-- == 0) {
        _exit(9);
    }
}

static bool prune_all(const char *dir, uint64_t number) {
    struct ckpt_point p = {0};
    bool ok = ckpt_point_read(dir, number, &p, NULL) == 0;
    const struct ckpt_past past = {.newest = &p, .restored = number};
    ok = ok && ckpt_prune(dir, 1, &past, NULL) == 0;
    ckpt_point_done(&p);
    return ok;
}

/* Two full ones and deltas, as a server would; each committed number is written to fd. */
static void save_and_report(const char *dir, int fd) {
    uint64_t last = last_number(dir);
    for (uint64_t n = last + 1, base = n; n < last + 7; n++) {
        base = n - base == 3 ? n : base;
        if (save(dir, n, base, NULL) < 0 || write(fd, &n, sizeof(n)) != sizeof(n) ||
            !prune_all(dir, n)) {
            _exit(1);
        }
    }
}

static void a_kill_at_any_step_leaves_a_whole_checkpoint(void **state) {
    const char *dir = *state;
    uint64_t committed = 0;
    bool ended = false;
    long at = 0;
    for (; !ended; at++) {
        int fds[2];
        assert_int_equal(0, pipe(fds));
        pid_t pid = fork();
        if (pid == 0) {
            steps_left = at;
            ckpt_disk_watch = kill_at_step;
            save_and_report(dir, fds[1]);
            _exit(0);
        }
        int status;
        (void)close(fds[1]);
        while (read(fds[0], &committed, sizeof(committed)) > 0) {
        }
        (void)close(fds[0]);
        assert_int_equal(pid, waitpid(pid, &status, 0));
        ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        assert_true(ended || WEXITSTATUS(status) == 9);
        uint64_t found = newest(dir, NULL);
        if (found < committed) {
            fail_msg("killed at step %ld: %llu was committed, %llu is found", at,
                (unsigned long long)committed, (unsigned long long)found);
        }
    }
    assert_true(at > 60);
}

/* Copied over the job's own, as when a directory is put together from two. */
static void delta_is_refused_on_the_base_of_another_job(void **state) {
    const char *dir = *state;
    struct co_err err = {0};
    struct ckpt_chain *c = NULL;
    save_all(dir, 5, 5, 5);
    hash_after = hash_of(dir, 5);
    save_all(dir, 6, 6, 5);
    hash_after = hash_of(dir, 6);
    save_all(dir, 7, 7, 5);
    hash_after = 0;
    assert_int_equal(ckpt_chain_open(dir, 7, &c, &err), 0);
    assert_int_equal(c->n, 3);
    ckpt_chain_close(co_steal_ptr(c));
    (void)snprintf(table.optimizer, sizeof(table.optimizer), "adagrad:lr=0.2");
    save_all(dir, 5, 5, 5);
    (void)snprintf(table.optimizer, sizeof(table.optimizer), "adagrad:lr=0.1");
    assert_int_equal(ckpt_chain_open(dir, 7, &c, &err), CO_DAMAGED);
    assert_non_null(strstr(err.msg, "checkpoint 5 is another one than 6 builds on"));
    assert_null(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(a_chain_begins_with_its_full_checkpoint),
        CO_TEST_IN_FOLDER(torn_checkpoints_are_named_and_skipped),
        CO_TEST_IN_FOLDER(damage_of_any_byte_is_named),
        CO_TEST_IN_FOLDER(pruning_keeps_the_newest_full_checkpoints_and_their_deltas),
        CO_TEST_IN_FOLDER(pruning_a_link_leaves_what_it_leads_to),
        CO_TEST_IN_FOLDER(pruning_removes_only_checkpoints_of_this_job),
        CO_TEST_IN_FOLDER(pruning_counts_only_whole_checkpoints),
        CO_TEST_IN_FOLDER(other_names_are_no_checkpoints),
        CO_TEST_IN_FOLDER(pruning_reads_nothing_twice),
        CO_TEST_IN_FOLDER(checkpoints_of_other_tables_stay),
        CO_TEST_IN_FOLDER(an_unreadable_checkpoint_ends_the_search),
        CO_TEST_IN_FOLDER(a_checkpoint_of_a_later_version_ends_the_search),
        CO_TEST_IN_FOLDER(a_link_to_nowhere_is_not_an_empty_directory),
        CO_TEST_IN_FOLDER(a_search_names_the_skipped_and_the_chosen_checkpoint),
        CO_TEST_IN_FOLDER(a_directory_that_cannot_be_listed_is_not_empty),
        CO_TEST_IN_FOLDER(a_kill_at_any_step_leaves_a_whole_checkpoint),
        CO_TEST_IN_FOLDER(delta_is_refused_on_the_base_of_another_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
