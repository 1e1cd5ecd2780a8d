/* Tests reading one worker's samples: files, directories, shares, malformed and overlong lines. */
#include "examples/ctr/reader.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/log.h"
#include "examples/ctr/data.h"
#include "examples/ctr/gen.h"
#include "examples/ctr/net.h"
#include "examples/nn/nn_testing.h"
#include "runtime/rt.h"

enum { SEED = 3, LINES_MAX = 4096 };

static const struct ctr_config ctr_config_criteo = {
    .vocabulary = 1000001, .slots = CTR_SLOTS, .dense = CTR_NUMBERS};

struct fixture {
    struct ctr_gen gen;
    struct ctr_parser *parser;
    struct tk_dir dir;
    uint8_t seen[LINES_MAX]; /* how often line i of the data set was read */
};

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    ctr_gen_init(&f->gen, SEED);
    must(ctr_parser_new(&ctr_formats[0], NULL, &f->parser, NULL), NULL);
    tk_dir_make(&f->dir, "ctr_reader_test");
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tk_dir_remove(&f->dir);
    ctr_parser_free(f->parser);
    free(f);
    return 0;
}

static void file_write(const struct fixture *f, const char *name, const char *data, size_t len) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir.path, name);
    struct co_err err = {0};

    must(co_file_write(path, data, len, 0644, &err), &err);
}

/* A file of lines first .. first + n - 1 of the data set. */
static void lines_write(const struct fixture *f, const char *name, uint64_t first, uint64_t n) {
    CO_AUTOBUF struct co_buf text = CO_BUF(4 << 20);
    char line[CTR_GEN_LINE_MAX];

    for (uint64_t i = 0; i < n; i++) {
        size_t len = ctr_gen_line(&f->gen, first + i, line);

        line[len] = '\n';
        assert_int_equal(co_buf_add(&text, line, len + 1, NULL), 0);
    }
    file_write(f, name, text.data ? text.data : "", text.len);
}

/* Which line of the data set a sample is: by all of its content. */
static void sample_mark(struct fixture *f, const struct ctr_batch *b, size_t at, size_t n_lines) {
    for (uint64_t i = 0; i < n_lines; i++) {
        uint64_t ids[CTR_SLOTS];
        float dense[CTR_NUMBERS];
        char line[CTR_GEN_LINE_MAX];
        size_t len = ctr_gen_line(&f->gen, i, line);
        struct ctr_sample s = {.vocabulary = 1000001, .ids = ids, .dense = dense};
        struct da_why why;

        assert_int_equal(ctr_parser_parse(f->parser, (struct da_text){line, len}, &s, &why), 0);
        if (memcmp(ids, b->ids + at * CTR_SLOTS, sizeof(ids)) == 0 &&
            /* bit for bit: NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
            memcmp(dense, b->dense + at * CTR_NUMBERS, sizeof(dense)) == 0) {
            f->seen[i]++;
            return;
        }
    }
    fail_msg("a sample that is not in the data");
}

/* Reads everything of one share and marks it; returns how many samples there were. */
static size_t share_read(
    struct fixture *f, const char *path, struct ctr_share share, size_t n_lines) {
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    struct co_err err = {0};
    size_t total = 0;

    must(ctr_batch_init(&ctr_config_criteo, 7, &b, &err), &err);
    must(ctr_reader_open(path, &ctr_config_criteo, share, &r, &err), &err);
    do {
        must(ctr_reader_next(r, &b, &err), &err);
        for (size_t i = 0; i < b.n; i++) {
            sample_mark(f, &b, i, n_lines);
        }
        total += b.n;
    } while (b.n);
    return total;
}

static void each_line_once(const struct fixture *f, size_t n_lines) {
    for (size_t i = 0; i < n_lines; i++) {
        if (f->seen[i] != 1) {
            fail_msg("line %zu was read %u times", i, f->seen[i]);
        }
    }
}

/* Files and workers in every proportion: each line goes to exactly one worker, and everybody has
 * some when there are enough lines. */
static void shares_cover_the_data_once(void **state) {
    static const struct {
        unsigned files, workers, lines;
    } rows[] = {{1, 1, 20}, {1, 3, 20}, {2, 3, 21}, {3, 3, 30}, {5, 2, 50}, {5, 3, 40}, {1, 4, 4}};
    struct fixture *f = *state;

    for (size_t at = 0; at < CO_ARRAY_LEN(rows); at++) {
        unsigned each = rows[at].lines / rows[at].files;

        for (unsigned i = 0; i < rows[at].files; i++) {
            char name[32];

            (void)snprintf(name, sizeof(name), "part-%u", i);
            lines_write(f, name, i * each, each);
        }
        memset(f->seen, 0, sizeof(f->seen));
        for (unsigned w = 0; w < rows[at].workers; w++) {
            assert_true(share_read(f, f->dir.path, (struct ctr_share){w, rows[at].workers},
                            LINES_MAX / 8) > 0);
        }
        each_line_once(f, (size_t)each * rows[at].files);
    }
}

/* 5 files on 2 workers: 3 and 2, contiguous. */
static void files_are_shared_contiguously(void **state) {
    struct fixture *f = *state;

    for (unsigned i = 0; i < 5; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "part-%u", i);
        lines_write(f, name, i * 10, 10);
    }
    lines_write(f, ".hidden", 1000, 10);
    lines_write(f, "_SUCCESS", 1000, 10);
    assert_int_equal(share_read(f, f->dir.path, (struct ctr_share){0, 2}, 50), 30);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(f->seen[i], i < 30);
    }
    assert_int_equal(share_read(f, f->dir.path, (struct ctr_share){1, 2}, 50), 20);
    each_line_once(f, 50);
}

static void generated_shares_are_the_same_data(void **state) {
    struct fixture *f = *state;
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    struct co_err err = {0};

    must(ctr_batch_init(&ctr_config_criteo, 8, &b, &err), &err);
    for (uint32_t w = 0; w < 3; w++) {
        CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;

        must(ctr_reader_open_generated(
                 SEED, 0, 40, &ctr_config_criteo, (struct ctr_share){w, 3}, &r, &err),
            &err);
        do {
            must(ctr_reader_next(r, &b, &err), &err);
            for (size_t i = 0; i < b.n; i++) {
                sample_mark(f, &b, i, 40);
            }
        } while (b.n);
    }
    each_line_once(f, 40);
}

static void malformed_lines_are_counted_and_named(void **state) {
    static const char data[] = "no\tdata\n";
    struct fixture *f = *state;
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    CO_AUTOFREE char *path = co_xasprintf("%s/mixed", f->dir.path);
    char line[CTR_GEN_LINE_MAX], expected[128], summary[DA_SUMMARY_MAX];
    struct co_err err = {0};

    for (uint64_t i = 0; i < 10; i++) {
        size_t len = ctr_gen_line(&f->gen, i, line);

        line[len] = '\n';
        must(co_buf_add(&text, line, len + 1, &err), &err);
        must(co_buf_add(&text, data, sizeof(data) - 1, &err), &err);
    }
    must(co_file_write(path, text.data, text.len - 1, 0644, &err), &err); /* no last newline */
    must(ctr_batch_init(&ctr_config_criteo, 100, &b, &err), &err);
    must(ctr_reader_open(path, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err), &err);
    for (size_t again = 0; again < 2; again++) {
        must(ctr_reader_next(r, &b, &err), &err);
        assert_int_equal(b.n, 10);
        assert_int_equal(ctr_reader_samples(r), 10);
        da_tally_text(ctr_reader_skipped(r), summary);
        (void)snprintf(
            expected, sizeof(expected), "10 skipped, first: %s:2: 2 columns, expected 40", path);
        assert_true(strncmp(summary, expected, strlen(expected)) == 0);
        must(ctr_reader_next(r, &b, &err), &err);
        assert_int_equal(b.n, 0);
        ctr_reader_rewind(r);
    }
}

/* Lines around the limit and around the size of the buffer do not disturb their neighbours. */
static void overlong_lines_are_skipped(void **state) {
    static const size_t lengths[] = {
        RT_LINE_MAX, RT_LINE_MAX + 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20};
    struct fixture *f = *state;

    for (size_t at = 0; at < CO_ARRAY_LEN(lengths); at++) {
        CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
        CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
        CO_AUTOFREE char *data = co_xmalloc(lengths[at] + 2 * CTR_GEN_LINE_MAX);
        CO_AUTOFREE char *path = co_xasprintf("%s/long", f->dir.path);
        struct co_err err = {0};
        size_t len = ctr_gen_line(&f->gen, 0, data);

        data[len++] = '\n';
        memset(data + len, 'x', lengths[at]);
        len += lengths[at];
        data[len++] = '\n';
        len += ctr_gen_line(&f->gen, 1, data + len);
        file_write(f, "long", data, len);
        must(ctr_batch_init(&ctr_config_criteo, 100, &b, &err), &err);
        must(ctr_reader_open(path, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err), &err);
        must(ctr_reader_next(r, &b, &err), &err);
        assert_int_equal(b.n, 2);
        assert_int_equal(ctr_reader_skipped(r)->n, 1);
        assert_non_null(strstr(ctr_reader_skipped(r)->first,
            lengths[at] > RT_LINE_MAX ? ":2: line longer than 65536 bytes" : ":2: 1 columns"));
    }
}

static void errors_name_missing_files(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *missing = co_xasprintf("%s/nothing", f->dir.path);
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
    struct ctr_config other = ctr_config_criteo;
    struct co_err err = {0};

    assert_int_equal(
        ctr_reader_open(missing, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err),
        CO_NOTFOUND);
    assert_non_null(strstr(co_err_text(&err), missing));
    assert_int_equal(
        ctr_reader_open(f->dir.path, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err),
        CO_NOTFOUND);
    assert_non_null(strstr(co_err_text(&err), "holds no data file"));
    other.slots = 3;
    assert_int_equal(
        ctr_reader_open(f->dir.path, &other, (struct ctr_share){0, 1}, &r, &err), CO_INVALID);
    assert_int_equal(
        ctr_reader_open(f->dir.path, &ctr_config_criteo, (struct ctr_share){2, 2}, &r, &err),
        CO_INVALID);
    assert_null(r);
}

/* To predict, each line has its place: a sample, without label, too, or a mark. */
static void a_prediction_reader_returns_every_line_in_order(void **state) {
    static const struct {
        const char *line;
        bool bad, labelled;
    } rows[] = {{"click:1 1:5", false, true}, {"", true, false}, {"1:5 2:7", false, false},
        {"1,2", true, false}, {"click:0 1:x", true, false}, {"click:0 1:6", false, true}};
    struct fixture *f = *state;
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    CO_AUTOFREE char *path = co_xasprintf("%s/lines", f->dir.path);
    char summary[DA_SUMMARY_MAX];
    struct co_err err = {0};

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        must(co_buf_addf(&text, &err, "%s\n", rows[i].line), &err);
    }
    must(co_file_write(path, text.data, text.len, 0644, &err), &err);
    must(ctr_batch_init(&ctr_config_criteo, 100, &b, &err), &err);
    must(ctr_reader_open(path, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err), &err);
    must(ctr_reader_probe(r, &err), &err);
    ctr_reader_keep(r);
    must(ctr_reader_next(r, &b, &err), &err);
    assert_int_equal(b.n, CO_ARRAY_LEN(rows));
    for (size_t i = 0; i < b.n; i++) {
        assert_int_equal(b.bad[i], rows[i].bad);
        assert_int_equal(!isnan(b.label[i]), rows[i].labelled);
    }
    assert_int_equal(ctr_reader_samples(r), 3);
    da_tally_text(ctr_reader_skipped(r), summary);
    assert_non_null(strstr(summary, "3 skipped (1 blank, 1 columns, 1 id), first: "));
}

#define NO_TABS ":1: 1 columns, expected 40 with tabs between: label, 13 numbers, 26 categories"
#define SAY_CSV "; CSV needs --format=csv"

static void data_without_a_usable_line_is_known_before(void **state) {
    static const char *const rows[][4] = {
        {"", "it is empty, or has only blank lines", ""},
        {"\n\n", "2 skipped, first: ", ":1: a blank line"},
        {"1,2,3\n4,5,6\n", "2 skipped, first: ", NO_TABS SAY_CSV},
        {"1;2;3\n", "1 skipped, first: ", NO_TABS SAY_CSV, "lines.csv"},
        {"1;2;3\n", "1 skipped, first: ", NO_TABS},
        {"1,2\t3\n", "1 skipped, first: ", ":1: 2 columns"},
        {"1:5\n1:6\n1:x", "3 skipped (2 label, 1 id), first: ", ":1: no label"},
        {"\xef\xbb\xbf", "1 skipped, first: ", ":1: a blank line"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
        const char *name = rows[i][3] ? rows[i][3] : "lines";
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir.path, name);
        struct co_err err = {0};

        file_write(f, name, rows[i][0], strlen(rows[i][0]));
        must(ctr_reader_open(path, &ctr_config_criteo, (struct ctr_share){0, 1}, &r, &err), &err);
        assert_int_equal(ctr_reader_probe(r, &err), CO_INVALID);
        CO_AUTOFREE char *expected = co_xasprintf("no usable line in \"%s\": %s%s%s", path,
            rows[i][1], rows[i][2][0] != '\0' ? path : "", rows[i][2]);
        if (strncmp(co_err_text(&err), expected, strlen(expected)) != 0) {
            fail_msg("\"%s\" begins not with \"%s\"", co_err_text(&err), expected);
        }
    }
}

/* Workers that share a file's lines all know its header, and only one has it among its lines; blank
 * lines may be above it, and newlines in quotes. */
static void the_lines_of_a_file_with_a_header_are_shared(void **state) {
    static const char *const files[] = {
        "\n \t\ny,a\n1,1\n1,2\n1,3\n", "a,\"no\nte\",y\n4,\"b\n\"\"c\",1\n5,,1\n"};
    const struct ctr_columns columns = {"y", "a", ""};
    struct fixture *f = *state;
    const struct ctr_format *format = NULL;
    struct co_err err = {0};
    float sum = 0.0F;
    size_t n = 0;

    must(ctr_format_find("csv", &format, &err), &err);
    file_write(f, "a.csv", files[0], strlen(files[0]));
    file_write(f, "b.csv", files[1], strlen(files[1]));
    for (uint32_t i = 0; i < 6; i++) { /* one worker, two, three */
        const struct ctr_share share = {i - (i > 2 ? 3 : i > 0), i > 2 ? 3 : i > 0 ? 2 : 1};
        CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;
        CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
        struct ctr_parser *parser = NULL;

        must(ctr_parser_new(format, &columns, &parser, &err), &err);
        must(ctr_batch_init(&ctr_config_criteo, 100, &b, &err), &err);
        must(ctr_reader_open(f->dir.path, &ctr_config_criteo, share, &r, &err), &err);
        ctr_reader_parse(r, parser);
        must(ctr_reader_next(r, &b, &err), &err);
        for (size_t k = 0; k < b.n; k++) {
            sum += b.dense[k * CTR_NUMBERS];
            n++;
        }
        assert_int_equal(ctr_reader_skipped(r)->n, 0);
        if (share.index + 1 == share.count) {
            assert_true(n == 5 && sum == 15.0F);
            n = 0;
            sum = 0.0F;
        }
    }
}

/* A folder that nobody can look into is not taken for one that is not there. */
static void folders_that_cannot_be_read_are_named(void **state) {
    struct fixture *f = *state;
    static const char *const names[] = {"train", "test"};
    const struct ctr_net net = {.config = ctr_config_criteo};
    const struct ctr_options o = {.net = &net,
        .train = f->dir.path,
        .test = "",
        .format = "",
        .csv_label = "",
        .csv_numbers = "",
        .csv_categories = ""};

    lines_write(f, "part", 0, 3);
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir.path, names[i]);
        struct ctr_reader *r = NULL;
        struct co_err err = {0};

        must(i == 0 ? ctr_data_open_train(&o, (struct ctr_share){0, 1}, &r, &err)
                    : ctr_data_open_test(&o, &r, &err),
            &err);
        assert_int_equal(r != NULL, i == 0); /* nothing to test with */
        ctr_reader_free(r);
        assert_int_equal(symlink(path, path), 0);
        assert_int_equal(i == 0 ? ctr_data_open_train(&o, (struct ctr_share){0, 1}, &r, &err)
                                : ctr_data_open_test(&o, &r, &err),
            CO_INTERNAL);
        assert_non_null(strstr(co_err_text(&err), path));
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shares_cover_the_data_once, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_shared_contiguously, setup, teardown),
        cmocka_unit_test_setup_teardown(generated_shares_are_the_same_data, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_lines_are_counted_and_named, setup, teardown),
        cmocka_unit_test_setup_teardown(overlong_lines_are_skipped, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_missing_files, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_prediction_reader_returns_every_line_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(
            data_without_a_usable_line_is_known_before, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_lines_of_a_file_with_a_header_are_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be_read_are_named, setup, teardown),
    };

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
