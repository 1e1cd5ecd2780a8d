/* What is written is seen: both formats, chains with rows that change, go and come again, little
 * memory, damage, and files of NumPy. */
#include "runtime/tools/inspect/inspect.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/folder_testing.h"
#include "runtime/tools/inspect/idmap.h"
#include "runtime/tools/inspect/npz.h"
#include "runtime/train/ckpt/disk.h"

enum { DIM = 2, STATE = 2, SERVERS = 2, SIZE = 6, EACH = 8 + (DIM + STATE) * 4 };

/* adagrad has one plane of state. */
static struct ckpt_table tables[] = {{.name = "rows",
                                         .sparse = true,
                                         .dim = DIM,
                                         .state = STATE,
                                         .optimizer = "adagrad:lr=0.1",
                                         .init = "zero"},
    {.name = "w", .size = SIZE, .state = SIZE, .optimizer = "adagrad:lr=0.1", .init = "zero"}};

static void put_f32(unsigned char *to, float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    co_put_u32(to, bits);
}

/* What a point has; ids are in the part of server id % 2. */
struct script {
    uint64_t number, base;
    const uint64_t *rows;
    size_t n_rows;
    const uint64_t *erased;
    size_t n_erased;
    float value;    /* of all rows, and of: */
    int begin, end; /* values of the dense table */
};

static int add_rows(struct ckpt_part_writer *w, const struct script *s, uint32_t server) {
    unsigned char data[1024];
    uint32_t n = 0;
    for (size_t i = 0; i < s->n_erased; i++) {
        if (s->erased[i] % SERVERS == server) {
            co_put_u64(data + n++ * 8UL, s->erased[i]);
        }
    }
    struct ckpt_part_chunk erased = {.kind = CKPT_PART_ERASED, .items = n, .bytes = n * 8};
    if (n > 0) {
        CO_TRY(ckpt_part_add(w, &erased, data, NULL));
    }
    n = 0;
    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->rows[i] % SERVERS == server) {
            unsigned char *row = data + n++ * (size_t)EACH;
            co_put_u64(row, s->rows[i]);
            for (int k = 0; k < DIM + STATE; k++) {
                put_f32(row + 8 + k * 4, k < DIM ? s->value + (float)s->rows[i] : -1);
            }
        }
    }
    struct ckpt_part_chunk rows = {.kind = CKPT_PART_ROWS, .items = n, .bytes = n * EACH};
    return ckpt_part_add(w, &rows, data, NULL);
}

static int add_values(struct ckpt_part_writer *w, const struct script *s, uint32_t server) {
    int half = SIZE / SERVERS, from = (int)server * half, to = from + half;
    from = from < s->begin ? s->begin : from;
    to = to > s->end ? s->end : to;
    unsigned char data[SIZE * 8];
    for (int i = from; i < to; i++) {
        put_f32(data + (i - from) * 4, s->value + (float)i);
        put_f32(data + (to - from + i - from) * 4, 100 + s->value + (float)i);
    }
    struct ckpt_part_chunk c = {.kind = CKPT_PART_DENSE,
        .table = 1,
        .items = (uint32_t)(to - from),
        .begin = (uint64_t)from,
        .bytes = (uint32_t)(to - from) * 8};
    unsigned char rate[CKPT_RATE_BYTES];
    double lr = 0.25;
    uint64_t bits;
    memcpy(&bits, &lr, 8);
    co_put_u64(rate, 7);
    co_put_u64(rate + 8, bits);
    struct ckpt_part_chunk r = {
        .kind = CKPT_PART_RATE, .table = 1, .items = 1, .bytes = sizeof(rate)};
    int rc = ckpt_part_add(w, &r, rate, NULL);
    return from < to && rc == 0 ? ckpt_part_add(w, &c, data, NULL) : rc;
}

static void write_point(const char *dir, const struct script *s) {
    struct ckpt_part parts[SERVERS];
    CO_AUTOFREE char *at = ckpt_point_dir(dir, s->number);
    assert_int_equal(ckpt_disk_mkdir(at, NULL), 0);
    for (uint32_t i = 0; i < SERVERS; i++) {
        CO_AUTOFREE char *path = ckpt_point_part(dir, s->number, i);
        struct ckpt_part_origin place = {s->number, i, SERVERS, 1};
        struct ckpt_part_sum sum = {0};
        CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
        assert_int_equal(ckpt_part_create(path, &place, &w, NULL), 0);
        assert_int_equal(add_rows(w, s, i), 0);
        assert_int_equal(add_values(w, s, i), 0);
        assert_int_equal(ckpt_part_finish(w, &sum, NULL), 0);
        parts[i] = (struct ckpt_part){i, 1, sum.bytes, sum.hash};
    }
    struct ckpt_point p = {.number = s->number,
        .base = s->base,
        .previous = s->base == s->number ? 0 : s->number - 1,
        .step = s->number * 100,
        .n_tables = 2,
        .n_parts = SERVERS,
        .tables = tables,
        .parts = parts};
    assert_int_equal(ckpt_point_commit(dir, &p, NULL), 0);
}

/* 1: ids 1..4, values all; 2: 2 changes, 3 goes, 5 comes; 3: 3 comes again, 4 goes and comes in one
 * delta, 2 goes. */
static void write_chain(const char *dir) {
    static const uint64_t first[] = {1, 2, 3, 4}, second[] = {2, 5}, gone2[] = {3};
    static const uint64_t third[] = {3, 4}, gone3[] = {4, 2};
    write_point(dir, &(struct script){1, 1, first, 4, NULL, 0, 10, 0, SIZE});
    write_point(dir, &(struct script){2, 1, second, 2, gone2, 1, 20, 1, 3});
    write_point(dir, &(struct script){3, 1, third, 2, gone3, 2, 30, 2, 3});
}

static struct inspect_view *open_at(const char *dir, const char *below) {
    CO_AUTOFREE char *path = co_xasprintf("%s%s", dir, below);
    struct inspect_view *v = NULL;
    struct co_err err = {0};
    if (inspect_view_open(path, NULL, NULL, &v, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return v;
}

/* By id, the first value; NaN: not there. */
struct seen {
    float row[8];
    unsigned twice;
};

static int note_rows(void *arg, const struct inspect_view_rows *rows, struct co_err *err) {
    struct seen *s = arg;
    (void)err;
    for (uint32_t i = 0; i < rows->n; i++) {
        assert_true(rows->ids[i] < 8);
        s->twice += isnan(s->row[rows->ids[i]]) ? 0 : 1;
        s->row[rows->ids[i]] = inspect_view_f32(rows->rows + i * (DIM + STATE) * 4UL);
    }
    return 0;
}

static struct seen look(const struct inspect_view *v, struct inspect_view_share share) {
    struct seen s = {{NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, 0};
    struct co_err err = {0};
    if (inspect_view_sparse(v, 0, share, note_rows, &s, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(s.twice, 0);
    return s;
}

static const float third_rows[8] = {NAN, 11, NAN, 33, 34, 25, NAN, NAN};

static void assert_rows(const struct seen *s, const float want[8]) {
    for (int i = 0; i < 8; i++) {
        if (isnan(want[i]) ? !isnan(s->row[i]) : s->row[i] != want[i]) {
            fail_msg("id %d is %g, expected %g", i, (double)s->row[i], (double)want[i]);
        }
    }
}

static void a_chain_shows_the_rows_that_a_load_would_read(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    assert_int_equal(v->chain->points[v->chain->n - 1].number, 3);
    struct seen s = look(v, (struct inspect_view_share){0});
    assert_rows(&s, third_rows);
    uint64_t n = 0;
    assert_int_equal(inspect_view_count(v, 0, &n, NULL), 0);
    assert_int_equal(n, 4);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *second = open_at(*state, "/ckpt-2/");
    s = look(second, (struct inspect_view_share){0});
    assert_rows(&s, (float[]){NAN, 11, 22, NAN, 14, 25, NAN, NAN});
    float w[SIZE * 2];
    assert_int_equal(inspect_view_dense(v, 1, 0, SIZE * 2, w, NULL), 0);
    const float want[] = {10, 21, 32, 13, 14, 15, 110, 121, 132, 113, 114, 115};
    assert_memory_equal(w, want, sizeof(want));
    assert_int_equal(inspect_view_dense(v, 1, 2, 3, w, NULL), 0);
    assert_memory_equal(w, want + 2, 12);
    double lr;
    uint64_t steps;
    assert_int_equal(inspect_view_rate(v, 1, &lr, &steps, NULL), 0);
    assert_true(lr == 0.25);
    assert_int_equal(steps, 7);
    struct inspect_view_sum sum;
    assert_int_equal(inspect_view_sum(v, 0, &sum, NULL), 0);
    assert_int_equal(sum.rows, 2);
    assert_int_equal(sum.erased, 2);
}

static void shares_and_several_passes_show_the_same_rows(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    v->memory = 1; /* a pass for every byte */
    struct seen s = look(v, (struct inspect_view_share){0});
    assert_rows(&s, third_rows);
    for (uint32_t n = 2; n < 5; n++) {
        struct seen all = {{NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, 0};
        for (uint32_t i = 0; i < n; i++) {
            s = look(v, (struct inspect_view_share){n, i});
            for (int k = 0; k < 8; k++) {
                assert_true(isnan(s.row[k]) || isnan(all.row[k]));
                all.row[k] = isnan(s.row[k]) ? all.row[k] : s.row[k];
            }
        }
        assert_rows(&all, third_rows);
    }
}

static void two_points_are_compared(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *a = open_at(*state, "/ckpt-1");
    CO_CLEANUP(inspect_view_closep) struct inspect_view *b = open_at(*state, "/ckpt-3");
    struct inspect_diff d;
    for (int little = 0; little < 2; little++) {
        a->memory = little ? 16 : INSPECT_VIEW_MEMORY;
        assert_int_equal(inspect_view_diff(a, 0, b, 0, &d, NULL), 0);
        assert_int_equal(d.before, 4);
        assert_int_equal(d.after, 4);
        assert_int_equal(d.added, 1);
        assert_int_equal(d.erased, 1);
        assert_int_equal(d.changed, 2);
        assert_true(d.max_abs == 20);
        assert_true(d.max_at == 3 || d.max_at == 4);
    }
    assert_int_equal(inspect_view_diff(a, 1, b, 1, &d, NULL), 0);
    assert_int_equal(d.changed, 2);
    assert_true(d.max_abs == 20 && d.max_at == 2);
    assert_int_equal(inspect_view_diff(a, 0, a, 0, &d, NULL), 0);
    assert_int_equal(d.changed + d.added + d.erased, 0);
    struct co_err err = {0};
    assert_int_equal(inspect_view_diff(a, 0, b, 1, &d, &err), CO_INVALID);
}

static void a_chain_becomes_a_directory_of_rt_save(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    CO_AUTOFREE char *to = co_xasprintf("%s/merged", (char *)*state);
    struct co_err err = {0};
    if (inspect_view_merge(v, to, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    CO_CLEANUP(inspect_view_closep) struct inspect_view *m = open_at(to, "");
    assert_non_null(m->saved);
    assert_int_equal(ckpt_verify(m->saved, &err), 0);
    struct inspect_diff d;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(inspect_view_diff(v, i, m, i, &d, NULL), 0);
        assert_int_equal(d.changed + d.added + d.erased, 0);
        assert_int_equal(d.after, i == 0 ? 4 : SIZE);
    }
    float w[SIZE * 2];
    assert_int_equal(inspect_view_dense(m, 1, 0, SIZE * 2, w, NULL), 0);
    assert_true(w[SIZE + 2] == 132); /* state, too */
    struct seen s = look(m, (struct inspect_view_share){0});
    assert_rows(&s, third_rows);
}

static void damage_is_named(void **state) {
    write_chain(*state);
    CO_AUTOFREE char *path = ckpt_point_part(*state, 2, 1);
    FILE *f = fopen(path, "r+e");
    assert_non_null(f);
    assert_int_equal(fseek(f, 120, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, 120, SEEK_SET), 0);
    (void)fputc(c ^ 1, f);
    (void)fclose(f);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    struct seen s = {0};
    struct co_err err = {0};
    assert_int_equal(
        inspect_view_sparse(v, 0, (struct inspect_view_share){0}, note_rows, &s, &err), CO_DAMAGED);
    assert_non_null(strstr(err.msg, "ckpt-000000000002/part-00001"));
    struct inspect_view *none = NULL;
    assert_int_equal(inspect_view_open("/tmp/no/such", NULL, NULL, &none, &err), CO_NOTFOUND);
}

static void text_and_keys(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    CO_AUTOFREE char *file = co_xasprintf("%s/out.txt", (char *)*state);
    static const struct {
        struct inspect_export what;
        const char *text;
    } rows[] = {
        {{.table = 0, .one = true, .key = 5}, "5 25 25\n"},
        {{.table = 0, .one = true, .key = 3, .state = true}, "3 33 33 -1 -1\n"},
        {{.table = 1, .one = true, .key = 2}, "32\n"},
        {{.table = 1}, "10\n21\n32\n13\n14\n15\n"},
        {{.table = 0}, "4 34 34\n3 33 33\n5 25 25\n1 11 11\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct inspect_export what = rows[i].what;
        struct co_err err = {0};
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
        if (inspect_view_export(v, &what, file, &err) < 0) {
            fail_msg("row %zu: %s", i, err.msg);
        }
        assert_int_equal(co_file_read(file, 1 << 16, &b, &err), 0);
        assert_string_equal(b.data, rows[i].text);
    }
    struct inspect_export none = {.table = 0, .one = true, .key = 2};
    struct co_err err = {0};
    assert_int_equal(unlink(file), 0);
    assert_int_equal(inspect_view_export(v, &none, file, &err), CO_NOTFOUND);
    assert_int_equal(access(file, F_OK), -1);
}

/* Of one row: the header, then id and values as they are. */
static void arrays_have_numpys_bytes(void **state) {
    write_chain(*state);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = open_at(*state, "");
    CO_AUTOFREE char *npy = co_xasprintf("%s/out.npy", (char *)*state);
    CO_AUTOFREE char *npz = co_xasprintf("%s/out.npz", (char *)*state);
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    struct inspect_export what = {.table = 0, .one = true, .key = 5};
    assert_int_equal(inspect_view_export(v, &what, npy, NULL), 0);
    assert_int_equal(co_file_read(npy, 1 << 16, &b, NULL), 0);
    static const char header[] = "{'descr': [('id', '<u8'), ('values', '<f4', (2,))], "
                                 "'fortran_order': False, 'shape': (1,), }";
    assert_memory_equal(b.data, "\x93NUMPY\x01\x00", 8);
    assert_memory_equal(b.data + 10, header, sizeof(header) - 1);
    size_t begin = 10UL + co_get_u16((unsigned char *)b.data + 8);
    assert_int_equal(begin % 64, 0);
    assert_int_equal(b.data[begin - 1], '\n');
    assert_int_equal(b.len, begin + 16);
    assert_int_equal(co_get_u64((unsigned char *)b.data + begin), 5);
    assert_true(inspect_view_f32((unsigned char *)b.data + begin + 8) == 25);
    what = (struct inspect_export){.table = -1, .state = true};
    assert_int_equal(inspect_view_export(v, &what, npz, NULL), 0);
    assert_int_equal(what.items, 4 + SIZE);
    assert_int_equal(inspect_view_export(v, &what, npy, NULL), CO_INVALID);
}

/* "e" has "e.ids", and so may a dense table of that name; "m" has "m.state". */
static void two_arrays_of_one_name_are_refused(void **state) {
    CO_CLEANUP(inspect_npz_closep) struct inspect_npz *z = NULL;
    CO_AUTOFREE char *npz = co_xasprintf("%s/out.npz", (char *)*state);
    struct co_err err = {0};
    uint32_t i = 0;
    assert_int_equal(inspect_npz_create(npz, false, &z, NULL), 0);
    assert_int_equal(inspect_npz_add(z, "e.ids", "'<u8'", 1, 0, 8, &i, NULL), 0);
    assert_int_equal(inspect_npz_add(z, "e.values", "'<f4'", 1, 2, 4, &i, NULL), 0);
    assert_int_equal(inspect_npz_add(z, "e.ids", "'<f4'", 3, 0, 4, &i, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "out.npz\": two tables both make the array \"e.ids\", expected "
                                    "one: export them one by one, by --table=NAME"));
    assert_int_equal(i, 1);
}

static void the_idmap_finds_all_of_many_ids(void **state) {
    (void)state;
    struct inspect_idmap m = {0};
    assert_int_equal(inspect_idmap_find(&m, 0), INSPECT_IDMAP_NONE);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(inspect_idmap_add(&m, i * i << 20, (uint32_t)i));
        assert_false(inspect_idmap_add(&m, i * i << 20, 1));
    }
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(inspect_idmap_find(&m, i * i << 20), i);
    }
    assert_int_equal(inspect_idmap_find(&m, 3), INSPECT_IDMAP_NONE);
    inspect_idmap_done(&m);
}

/* What no checksum shows: the description is that of another table than what a load makes of it. */
static void a_table_that_no_load_takes_is_not_whole(void **state) {
    static const struct {
        struct ckpt_table table;
        const char *says; /* NULL: it is right */
    } rows[] = {
        {{.size = 5, .state = 11, .optimizer = "adam", .init = "zero"}, NULL},
        {{.sparse = true, .dim = 4, .state = 6, .optimizer = "adagrad", .init = "zero"}, NULL},
        {{.size = 5, .state = 10, .optimizer = "adam", .init = "zero"},
            "optimizer \"adam\" with 10 floats of state, expected 11"},
        {{.sparse = true, .dim = 4, .state = 3, .optimizer = "adagrad", .init = "zero"},
            "optimizer \"adagrad\" with 3 floats of state, expected at least 4"},
        {{.size = 5, .optimizer = "adamant", .init = "zero"}, "adamant"},
        {{.size = 5, .optimizer = "sgd", .init = "zeros"}, "zeros"},
        {{.size = 5, .optimizer = "sgd", .init = "zero", .lr = "fast"}, "fast"},
    };
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        int rc = inspect_view_table_check(&rows[i].table, &err);
        if (!rows[i].says ? rc < 0 : rc != CO_INVALID || !strstr(err.msg, rows[i].says)) {
            fail_msg("row %zu: %d, %s", i, rc, err.msg);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_no_load_takes_is_not_whole),
        CO_TEST_IN_FOLDER(a_chain_shows_the_rows_that_a_load_would_read),
        CO_TEST_IN_FOLDER(shares_and_several_passes_show_the_same_rows),
        CO_TEST_IN_FOLDER(two_points_are_compared),
        CO_TEST_IN_FOLDER(a_chain_becomes_a_directory_of_rt_save),
        CO_TEST_IN_FOLDER(damage_is_named),
        CO_TEST_IN_FOLDER(text_and_keys),
        CO_TEST_IN_FOLDER(arrays_have_numpys_bytes),
        CO_TEST_IN_FOLDER(two_arrays_of_one_name_are_refused),
        cmocka_unit_test(the_idmap_finds_all_of_many_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
