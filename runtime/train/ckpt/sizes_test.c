/* Files whose sizes do not fit together, with right checksums: the reader refuses them in one line
 * that says what it found and what it expected.  Nothing behind it multiplies them again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/folder_testing.h"
#include "common/size.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ckpt/format.h"

enum { DATA = 1 << 16 };

static void sums_and_products_end_at_the_largest_number(void **unused) {
    (void)unused;
    assert_int_equal(7, co_size_add(3, 4));
    assert_int_equal(12, co_size_mul(3, 4));
    assert_int_equal(0, co_size_mul(0, UINT64_MAX));
    assert_true(co_size_add(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(co_size_mul(1ULL << 32, 1ULL << 32) == UINT64_MAX);
    assert_true(co_size_mul(2, co_size_add(UINT64_MAX, 8)) == UINT64_MAX);
}

/* ---- chains ---- */

#define SPARSE                                                                                     \
    { .name = "rows", .sparse = true, .dim = 3, .state = 1, .optimizer = "adagrad", .init = "zero" }
#define DENSE                                                                                      \
    { .name = "w", .size = 100, .state = 201, .optimizer = "adam", .init = "zero" }
#define CHUNK(k, t, i, b, n)                                                                       \
    { .kind = CKPT_PART_##k, .table = (t), .items = (i), .begin = (b), .bytes = (n) }

/* Writes a full checkpoint of one chunk; returns what its verification says. */
static int verify(const char *dir, const struct ckpt_table tables[2],
    const struct ckpt_part_chunk *c, struct co_err *err) {
    static unsigned char data[DATA];
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    CO_AUTOFREE char *at = ckpt_point_dir(dir, 1);
    CO_AUTOFREE char *path = ckpt_point_part(dir, 1, 0);
    struct ckpt_part_origin place = {.number = 1, .servers = 1, .shards = 2};
    struct ckpt_part_sum sum = {0};
    (void)mkdir(at, 0700);
    assert_int_equal(0, ckpt_part_create(path, &place, &w, NULL));
    assert_int_equal(0, ckpt_part_add(w, c, data, NULL));
    assert_int_equal(0, ckpt_part_finish(w, &sum, NULL));
    struct ckpt_part part = {.shards = 2, .bytes = sum.bytes, .hash = sum.hash};
    struct ckpt_point p = {.number = 1,
        .base = 1,
        .n_tables = 2,
        .n_parts = 1,
        .tables = (struct ckpt_table *)(uintptr_t)tables,
        .parts = &part};
    assert_int_equal(0, ckpt_point_commit(dir, &p, NULL));
    CO_TRY(ckpt_chain_open(dir, 1, &chain, err));
    return ckpt_chain_verify(chain, err);
}

static void chunks_that_do_not_fit_their_tables_are_refused(void **state) {
    static const struct {
        struct ckpt_part_chunk chunk;
        const char *says; /* NULL: it fits */
    } rows[] = {
        {CHUNK(ROWS, 0, 2, 0, 48), NULL},
        {CHUNK(ERASED, 0, 2, 0, 16), NULL},
        {CHUNK(DENSE, 1, 100, 0, 1204), NULL},
        {CHUNK(DENSE, 1, 16, 84, 196), NULL},
        {CHUNK(RATE, 1, 1, 0, 16), NULL},
        {CHUNK(POSITION, 9, 1, 0, 8), NULL},
        {CHUNK(ROWS, 0, 2, 0, 47),
            "a chunk of 2 rows of table \"rows\" has 47 bytes, expected 48, at"},
        {CHUNK(ROWS, 0, UINT32_MAX, 0, 48), "has 48 bytes, expected 103079215080, at byte"},
        {CHUNK(ROWS, 1, 0, 0, 0), "rows of a dense table"},
        {CHUNK(ERASED, 0, 1U << 29, 0, 0),
            "erased ids of table \"rows\" has 0 bytes, expected 42949"},
        {CHUNK(DENSE, 0, 1, 0, 4), "values of a sparse table"},
        {CHUNK(DENSE, 1, 100, 0, 1200),
            "a chunk of 100 values of table \"w\" has 1200 bytes, expected 1204,"},
        {CHUNK(DENSE, 1, 0, 0, 4), "no values, or some behind the end"},
        {CHUNK(DENSE, 1, 16, 85, 196), "behind the end of their table"},
        {CHUNK(DENSE, 1, 16, UINT64_MAX - 7, 196), "behind the end of their table"},
        {CHUNK(RATE, 0, 1, 0, 8), "rate of table \"rows\" has 8 bytes, expected 16,"},
        {CHUNK(POSITION, 0, 1, 0, 7), "has 7 bytes, expected 8 to 65544,"},
        {CHUNK(ROWS, 2, 0, 0, 0), "a shard or table that the manifest does not have"},
        {{.kind = CKPT_PART_ROWS, .shard = 2}, "a shard or table that the manifest does not"},
    };
    static const struct ckpt_table tables[2] = {SPARSE, DENSE};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        int rc = verify(*state, tables, &rows[i].chunk, &err);
        if (!rows[i].says ? rc < 0 : rc != CO_DAMAGED || !strstr(err.msg, rows[i].says)) {
            fail_msg("row %zu: %d, %s", i, rc, err.msg);
        }
    }
}

static void tables_beyond_what_is_written_are_refused(void **state) {
    static const struct {
        struct ckpt_table table;
        const char *says;
    } rows[] = {
        {{.sparse = true, .dim = 16382, .state = 1U << 30},
            "table \"a\": 1073741824 floats of state for 16382 values, at most 1048512"},
        {{.sparse = true, .dim = 65537}, "table \"a\": dim 65537, expected 1 to 65536"},
        {{.sparse = true}, "table \"a\": dim 0, expected 1 to 65536"},
        {{.size = (1ULL << 34) + 1}, "table \"a\": size 17179869185, expected 1 to 17179869184"},
        {{.size = 5, .state = 1ULL << 60}, "1152921504606846976 floats of state for 5 values"},
    };
    const struct ckpt_part_chunk none = CHUNK(ERASED, 0, 0, 0, 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ckpt_table tables[2] = {rows[i].table, DENSE};
        struct co_err err = {0};
        memcpy(tables[0].name, "a", 2);
        memcpy(tables[0].optimizer, "sgd", 4);
        memcpy(tables[0].init, "zero", 5);
        int rc = verify(*state, tables, &none, &err);
        if (rc != CO_DAMAGED || !strstr(err.msg, rows[i].says)) {
            fail_msg("row %zu: %d, %s", i, rc, err.msg);
        }
    }
    /* A vector of the largest size, with two planes: servers write such. */
    const struct ckpt_table large[2] = {
        {.name = "a", .size = 1ULL << 34, .state = 1ULL << 35, .optimizer = "ftrl", .init = "zero"},
        DENSE};
    const struct ckpt_part_chunk some = CHUNK(DENSE, 0, 16, 1ULL << 33, 16 * 3 * 4);
    assert_int_equal(0, verify(*state, large, &some, NULL));
}

/* ---- directories of rt_save ---- */

/* A file of one table whose only chunk is said to have `items` items. */
static int verify_saved(const char *dir, const struct ckpt_table *table, uint32_t items,
    uint32_t bytes, uint64_t total, struct co_err *err) {
    struct ckpt_table t = *table;
    unsigned char head[CKPT_HEAD], chunk[2][CKPT_CHUNK_HEAD];
    CO_AUTOBUF struct co_buf file = CO_BUF(1 << 20), text = CO_BUF(1 << 20);
    static const unsigned char data[DATA];
    uint64_t hash = ckpt_hash(data, bytes);
    t.hash = ckpt_hash_more(0, hash);
    t.items = total;
    memcpy(t.file, "a.rtt", 6);
    ckpt_head(&t, head);
    ckpt_chunk_head(items, bytes, hash, chunk[0]);
    ckpt_chunk_head(CKPT_TAIL, 0, t.hash, chunk[1]);
    assert_int_equal(0, co_buf_add(&file, head, sizeof(head), NULL));
    assert_int_equal(0, co_buf_add(&file, chunk[0], sizeof(chunk[0]), NULL));
    assert_int_equal(0, co_buf_add(&file, data, bytes, NULL));
    assert_int_equal(0, co_buf_add(&file, chunk[1], sizeof(chunk[1]), NULL));
    t.bytes = file.len;
    assert_int_equal(0, co_buf_addf(&text, NULL, "paddlert checkpoint 1 generation 1\n"));
    assert_int_equal(0, ckpt_fields_print("table", ckpt_fields, CKPT_FIELDS, &t, &text, NULL));
    assert_int_equal(0, ckpt_lines_end(&text, NULL));
    CO_AUTOFREE char *path = co_xasprintf("%s/a.rtt", dir);
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", dir);
    assert_int_equal(0, co_file_write(path, file.data, file.len, 0600, NULL));
    assert_int_equal(0, co_file_write(manifest, text.data, text.len, 0600, NULL));
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    CO_TRY(ckpt_open(dir, &c, err));
    return ckpt_verify(c, err);
}

static void saved_tables_that_do_not_fit_are_refused(void **state) {
    static const struct ckpt_table sparse = SPARSE, dense = DENSE,
                                   wide = {.name = "a",
                                       .sparse = true,
                                       .dim = 16382,
                                       .state = 1U << 30,
                                       .optimizer = "sgd",
                                       .init = "zero"};
    static const struct {
        const struct ckpt_table *table;
        uint32_t items, bytes;
        uint64_t total;
        const char *says;
    } rows[] = {
        {&sparse, 2, 48, 2, NULL},
        {&dense, 301, 1204, 301, NULL},
        {&sparse, 4294901761U, DATA - 1, 4294901761U, "expected 103077642264, at byte 72"},
        {&sparse, 2, 48, 1, "more items than the manifest says"},
        {&dense, 302, 1208, 301, "more items than the manifest says"},
        {&dense, 100, 400, 100, "100 items, expected 301 values with their state"},
        {&wide, 4294901761U, DATA - 1, 4294901761U, "1073741824 floats of state for 16382 values"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        int rc =
            verify_saved(*state, rows[i].table, rows[i].items, rows[i].bytes, rows[i].total, &err);
        if (!rows[i].says ? rc < 0 : rc != CO_DAMAGED || !strstr(err.msg, rows[i].says)) {
            fail_msg("row %zu: %d, %s", i, rc, err.msg);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_end_at_the_largest_number),
        CO_TEST_IN_FOLDER(chunks_that_do_not_fit_their_tables_are_refused),
        CO_TEST_IN_FOLDER(tables_beyond_what_is_written_are_refused),
        CO_TEST_IN_FOLDER(saved_tables_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
