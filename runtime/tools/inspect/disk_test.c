/* What paddlerun ckpt writes, on a file system that fails: a directory of rt_save, NumPy's files,
 * text.  What was there before stays whole until the new is. */
#include <math.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "runtime/tools/inspect/inspect.h"
#include "runtime/train/ckpt/disk_testing.h"

enum { ROWS = 10, SIZE = 6 };

static struct ckpt_table tables[] = {
    {.name = "rows", .sparse = true, .dim = 1, .optimizer = "sgd:lr=0.1", .init = "zero"},
    {.name = "w", .size = SIZE, .optimizer = "sgd:lr=0.1", .init = "zero"}};

static void put_f32(unsigned char *to, float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    co_put_u32(to, bits);
}

/* A full checkpoint of one server, all of whose values are its number. */
static int add_point(const char *dir, uint64_t number, struct co_err *err) {
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = ckpt_point_part(dir, number, 0);
    struct ckpt_part_origin place = {.number = number, .servers = 1, .shards = 1};
    struct ckpt_part_sum sum = {0};
    unsigned char rows[ROWS * 12], values[SIZE * 4];
    struct ckpt_part_chunk r = {.kind = CKPT_PART_ROWS, .items = ROWS, .bytes = sizeof(rows)};
    struct ckpt_part_chunk v = {
        .kind = CKPT_PART_DENSE, .table = 1, .items = SIZE, .bytes = sizeof(values)};
    for (size_t i = 0; i < ROWS; i++) {
        co_put_u64(rows + i * 12, i);
        put_f32(rows + i * 12 + 8, (float)number);
        put_f32(values + i % SIZE * 4, (float)number);
    }
    (void)mkdir(at, 0777);
    CO_TRY(ckpt_part_create(path, &place, &w, err));
    CO_TRY(ckpt_part_add(w, &r, rows, err));
    CO_TRY(ckpt_part_add(w, &v, values, err));
    CO_TRY(ckpt_part_finish(w, &sum, err));
    struct ckpt_part part = {.shards = 1, .bytes = sum.bytes, .hash = sum.hash};
    struct ckpt_point p = {.number = number,
        .base = number,
        .n_tables = 2,
        .n_parts = 1,
        .tables = tables,
        .parts = &part};
    return ckpt_point_commit(dir, &p, err);
}

/* ---- what is written from the newest checkpoint ---- */

typedef int write_fn(const struct inspect_view *v, const char *dir, struct co_err *err);

static int merge(const struct inspect_view *v, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *to = co_xasprintf("%s/merged", dir);
    return inspect_view_merge(v, to, err);
}

static int export_to(
    const struct inspect_view *v, const char *dir, const char *name, struct co_err *err) {
    CO_AUTOFREE char *to = co_xasprintf("%s/%s", dir, name);
    struct inspect_export what = {.table = 1};
    return inspect_view_export(v, &what, to, err);
}

static int export_array(const struct inspect_view *v, const char *dir, struct co_err *err) {
    return export_to(v, dir, "w.npy", err);
}

static int export_text(const struct inspect_view *v, const char *dir, struct co_err *err) {
    return export_to(v, dir, "w.txt", err);
}

static int write_newest(write_fn *write, const char *dir, struct co_err *err) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    CO_AUTOFREE char *points = co_xasprintf("%s/points", dir);
    CO_TRY(inspect_view_open(points, NULL, NULL, &v, err));
    return write(v, dir, err);
}

static int prepare(write_fn *write, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *points = co_xasprintf("%s/points", dir);
    (void)mkdir(points, 0777);
    CO_TRY(add_point(points, 3, err));
    return write_newest(write, dir, err);
}

static int try(write_fn *write, const struct disk_trial *t, struct co_err *err) {
    CO_AUTOFREE char *points = co_xasprintf("%s/points", t->dir);
    int rc = add_point(points, 4, err);
    if (rc < 0) {
        return rc;
    }
    disk_begin(t);
    disk_note(write_newest(write, t->dir, err), err);
    disk_end(t);
    rc = add_point(points, 5, err);
    disk_report->again = rc < 0 ? rc : write_newest(write, t->dir, err);
    return disk_report->again;
}

#define WRITES(write)                                                                              \
    static int prepare_##write(const char *dir, struct co_err *err) {                              \
        return prepare(write, dir, err);                                                           \
    }                                                                                              \
    static int try_##write(const struct disk_trial *t, struct co_err *err) {                       \
        return try(write, t, err);                                                                 \
    }
WRITES(merge)
WRITES(export_array)
WRITES(export_text)

/* ---- what is there ---- */

static int look_merged(const char *dir, int *ret, struct co_err *err) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    CO_AUTOFREE char *from = co_xasprintf("%s/merged", dir);
    float w[SIZE] = {0};
    uint64_t rows = 0;
    *ret = -1;
    CO_TRY(inspect_view_open(from, NULL, NULL, &v, err));
    CO_TRY(ckpt_verify(v->saved, err));
    CO_TRY(inspect_view_dense(v, 1, 0, SIZE, w, err));
    CO_TRY(inspect_view_count(v, 0, &rows, err));
    *ret = rows == ROWS && w[0] == w[SIZE - 1] ? (int)w[0] : -1;
    return 0;
}

/* 128 bytes of header, then the values. */
static int look_array(const char *dir, int *ret, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/w.npy", dir);
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    int rc = co_file_read(path, 1 << 16, &b, err);
    float first = 0, last = -1;
    if (rc == 0 && b.len == 128 + SIZE * 4) {
        first = inspect_view_f32((const unsigned char *)b.data + 128);
        last = inspect_view_f32((const unsigned char *)b.data + b.len - 4);
    }
    *ret = first == last ? (int)first : -1;
    return rc;
}

static int look_text(const char *dir, int *ret, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/w.txt", dir);
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    int rc = co_file_read(path, 1 << 16, &b, err);
    *ret = rc == 0 && b.len == SIZE * 2UL && b.data[0] == b.data[b.len - 2] ? b.data[0] - '0' : -1;
    return rc;
}

static const struct disk_way ways[] = {
    {"merge", prepare_merge, try_merge, look_merged, 3, true},
    {"npy", prepare_export_array, try_export_array, look_array, 3, true},
    {"text", prepare_export_text, try_export_text, look_text, 3, true},
};

#define WAY(i, what)                                                                               \
    static void what(void **state) {                                                               \
        (void)state;                                                                               \
        disk_way_try(&ways[i]);                                                                    \
    }
WAY(0, a_chain_that_is_merged)
WAY(1, an_array)
WAY(2, a_text)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_that_is_merged),
        cmocka_unit_test(an_array),
        cmocka_unit_test(a_text),
    };
    (void)argc;
    disk_layer_load(argv);
    int failed = cmocka_run_group_tests_name("disk", tests, NULL, NULL);
    print_message("%u cases\n", disk_tried);
    return failed;
}
