/* A worker's share of files and lines: each line is read once, however files are shared, and
 * reading can continue at any position.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"
#include "runtime/rt.h"

enum { LINES_MAX = 64 };

struct fixture {
    char dir[64];
    int seen[LINES_MAX]; /* how often line i was read: its text is i */
};

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/rt_input_test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *command = co_xasprintf("rm -rf %s", f->dir);

    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void file_write(const struct fixture *f, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir, name);
    struct co_err err = {0};

    must(co_file_write(path, text, strlen(text), 0644, &err), &err);
}

/* n files of three lines each: 0, 1, 2; 3, 4, 5; ... */
static void files_write(const struct fixture *f, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CO_AUTOFREE char *name = co_xasprintf("train.txt-%05zu", i);
        CO_AUTOFREE char *text =
            co_xasprintf("%zu\n%zu\r\n%zu%s", 3 * i, 3 * i + 1, 3 * i + 2, i % 2 ? "\n" : "");

        file_write(f, name, text);
    }
}

static struct rt_input *input_open(
    const struct fixture *f, const char *name, const struct rt_share *share) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir, name);
    struct rt_input *in = NULL;
    struct co_err err = {0};

    must(rt_input_open(path, share, &in, &err), &err);
    return in;
}

/* The next line's number; -1 at the end. */
static int number_next(struct rt_input *in) {
    const char *line = NULL;
    size_t len = 0;
    struct co_err err = {0};

    must(rt_input_next(in, &line, &len, &err), &err);
    if (!line) {
        return -1;
    }
    assert_int_equal(strlen(line), len);
    assert_in_range(len, 1, 2);
    return (int)strtol(line, NULL, 10);
}

static void share_read(struct fixture *f, const struct rt_share *share, char *ret_description) {
    struct rt_input *in = input_open(f, "", share);

    for (int i; (i = number_next(in)) >= 0;) {
        f->seen[i]++;
    }
    assert_int_equal(number_next(in), -1);
    (void)snprintf(ret_description, 96, "%s", rt_input_describe(in));
    rt_input_close(in);
}

static void every_line_is_read_once(void **state) {
    static const struct {
        size_t files;
        uint32_t workers;
        enum rt_share_by by;
        const char *first; /* what worker 0 has */
    } rows[] = {
        {5, 1, RT_SHARE_FILES, "5 of 5 files"},
        {5, 2, RT_SHARE_FILES, "3 of 5 files"},
        {5, 5, RT_SHARE_FILES, "1 of 5 files"},
        {5, 6, RT_SHARE_FILES, "1/6 of the lines of 5 files"},
        {1, 3, RT_SHARE_FILES, "1/3 of the lines of 1 file"},
        {5, 3, RT_SHARE_BLOCKS, "2 of 5 files"},
        {2, 3, RT_SHARE_BLOCKS, "1/3 of the lines of 2 files"},
        {5, 2, RT_SHARE_SUFFIX, "3 of 5 files"},
        {2, 3, RT_SHARE_SUFFIX, "1 of 2 files"},
        {5, 3, RT_SHARE_MIXED, "1/3 of the lines of 5 files"},
        {2, 1, RT_SHARE_MIXED, "2 of 2 files"},
    };

    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        struct fixture *f = *state;
        char description[96];

        memset(f->seen, 0, sizeof(f->seen));
        files_write(f, rows[r].files);
        for (uint32_t w = rows[r].workers; w-- > 0;) {
            share_read(f, &(struct rt_share){w, rows[r].workers, rows[r].by}, description);
        }
        assert_string_equal(description, rows[r].first);
        for (size_t i = 0; i < LINES_MAX; i++) {
            if (f->seen[i] != (i < 3 * rows[r].files)) {
                fail_msg("row %zu: line %zu was read %d times", r, i, f->seen[i]);
            }
        }
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

static void files_are_assigned_to_workers_by_the_way_of_sharing(void **state) {
    struct fixture *f = *state;
    struct rt_input *in;

    files_write(f, 5);
    in = input_open(f, "", &(struct rt_share){1, 2, RT_SHARE_FILES});
    assert_int_equal(number_next(in), 3); /* the second file */
    rt_input_close(in);
    in = input_open(f, "", &(struct rt_share){1, 2, RT_SHARE_BLOCKS});
    assert_int_equal(number_next(in), 9); /* the fourth */
    rt_input_close(in);
    file_write(f, "train.txt-00000", ""); /* numbers, not places, count */
    file_write(f, "a-7", "50\n");
    in = input_open(f, "", &(struct rt_share){1, 2, RT_SHARE_SUFFIX});
    assert_int_equal(number_next(in), 50);
    rt_input_close(in);
}

/* Which lines a worker has follows from the pass. */
static void mixed_lines_have_another_worker_in_each_pass(void **state) {
    enum { WORKERS = 3, PASSES = 4, LINES = 60 };
    struct fixture *f = *state;
    int owner[PASSES][LINES], moved = 0;
    char text[4 * LINES] = "";

    for (int i = 0; i < LINES; i++) {
        (void)snprintf(text + strlen(text), 4, "%d\n", i);
    }
    file_write(f, "a", text);
    memset(owner, -1, sizeof(owner));
    for (uint32_t w = 0; w < WORKERS; w++) {
        struct rt_input *in = input_open(f, "", &(struct rt_share){w, WORKERS, RT_SHARE_MIXED});

        for (int p = 0; p < PASSES; p++) {
            for (int i; (i = number_next(in)) >= 0;) {
                assert_int_equal(owner[p][i], -1);
                owner[p][i] = (int)w;
            }
            rt_input_rewind(in);
        }
        rt_input_close(in);
    }
    for (int p = 0; p < PASSES; p++) {
        int lines[WORKERS] = {0};

        for (int i = 0; i < LINES; i++) {
            lines[owner[p][i]]++;
            moved += p > 0 && owner[p][i] != owner[p - 1][i];
        }
        for (int w = 0; w < WORKERS; w++) {
            assert_in_range(lines[w], LINES / WORKERS / 3, LINES / WORKERS * 2);
        }
    }
    assert_in_range(moved, LINES * (PASSES - 1) / 3, LINES * (PASSES - 1) - 1);
}

/* From the position behind any line the rest follows, by a reader that is new, too. */
static void reading_resumes_from_any_position(void **state) {
    static const struct rt_share shares[] = {
        {0, 1, RT_SHARE_FILES}, {1, 7, RT_SHARE_FILES}, {1, 2, RT_SHARE_MIXED}};
    struct fixture *f = *state;
    struct co_err err = {0};

    files_write(f, 4);
    for (size_t s = 0; s < CO_ARRAY_LEN(shares); s++) {
        struct rt_input *in = input_open(f, "", &shares[s]);
        struct rt_position at;

        rt_input_rewind(in);
        do {
            struct rt_input *other = input_open(f, "", &shares[s]);

            rt_input_tell(in, &at);
            must(rt_input_seek(other, &at, &err), &err);
            assert_int_equal(rt_input_pass(other), 1);
            for (int i = 0, j = 0; j >= 0;) {
                i = number_next(in);
                j = number_next(other);
                assert_int_equal(i, j);
            }
            rt_input_close(other);
            must(rt_input_seek(in, &at, &err), &err);
        } while (number_next(in) >= 0);
        rt_input_close(in);
    }
}

static void a_position_of_other_files_is_refused(void **state) {
    static const struct rt_position rows[] = {{.file = 3}, {.file = 1, .offset = 1000}};
    struct fixture *f = *state;

    files_write(f, 2);
    struct rt_input *in = input_open(f, "", NULL);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};

        assert_int_equal(rt_input_seek(in, &rows[i], &err), CO_INVALID);
        assert_non_null(strstr(co_err_text(&err), "position"));
    }
    rt_input_close(in);
}

static void a_list_names_files_beside_it(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *list = co_xasprintf("train.txt-00001\n\n%s/train.txt-00000\r\n", f->dir);

    files_write(f, 3);
    file_write(f, "train.list", list);
    struct rt_input *in = input_open(f, "train.list", NULL);
    assert_int_equal(number_next(in), 3);
    assert_int_equal(number_next(in), 4);
    assert_non_null(strstr(rt_input_where(in), "/train.txt-00001:2"));
    assert_int_equal(number_next(in), 5);
    assert_int_equal(number_next(in), 0);
    rt_input_close(in);
}

static void a_line_that_is_too_long_is_passed_over(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *text = co_xmalloc((3 << 20) + 8);
    const char *line = NULL;
    size_t len;

    memset(text, 'x', 3 << 20);
    memcpy(text + (3 << 20), "\n7\n", 4);
    file_write(f, "long", text);
    struct rt_input *in = input_open(f, "long", NULL);
    struct co_err err = {0};
    assert_int_equal(rt_input_next(in, &line, &len, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "/long:1: line longer than 65536 bytes"));
    assert_int_equal(number_next(in), 7);
    assert_int_equal(number_next(in), -1);
    rt_input_close(in);
}

static void errors_name_missing_inputs(void **state) {
    static const struct {
        const char *name;
        struct rt_share share;
        const char *error;
    } rows[] = {
        {"none", {0, 1, RT_SHARE_FILES}, "/none"},
        {"", {0, 1, RT_SHARE_FILES}, "holds no data file"},
        {"empty.list", {0, 1, RT_SHARE_FILES}, "holds no data file"},
        {"no.list", {0, 1, RT_SHARE_SUFFIX}, "_odd\": expected a number behind the first"},
        {"lost.list", {0, 1, RT_SHARE_FILES}, "_gone"},
        {"", {2, 2, RT_SHARE_FILES}, "worker 2 of 2"},
        {"", {0, 1, RT_SHARES}, "shared by 4"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir, rows[i].name);
        struct rt_input *in = NULL;
        struct co_err err = {0};

        if (i == 2) {
            file_write(f, "empty.list", "\n");
            file_write(f, "no.list", "_odd\n");
            file_write(f, "_odd", "1\n");
            file_write(f, "lost.list", "_gone\n");
        }
        assert_true(rt_input_open(path, &rows[i].share, &in, &err) < 0);
        if (!strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i].error);
        }
    }
}

static void shell(const struct fixture *f, const char *command) {
    CO_AUTOFREE char *text = co_xasprintf("cd %s && %s", f->dir, command);

    assert_int_equal(system(text), 0);
}

/* Reads lines 0 to n - 1 and the end. */
static void numbers_are(struct rt_input *in, int n) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(number_next(in), i);
    }
    assert_int_equal(number_next(in), -1);
}

/* However people's tools have written it, the same lines come out, twice. */
static void text_in_all_its_forms(void **state) {
    static const struct {
        const char *name, *command;
    } rows[] = {
        {"plain", "printf '0\\n1\\n2' > plain"},
        {"dos", "printf '\\357\\273\\2770\\r\\n1\\r\\n2\\r\\n' > dos"},
        {"packed", "printf '0\\n1\\n2\\n' | gzip > packed"},
        {"dos.gz", "printf '\\357\\273\\2770\\r\\n1\\r\\n2' | gzip > dos.gz"},
        {"members", "printf '0\\n1' | gzip > members; printf '\\n2\\n' | gzip >> members"},
        {"mac", "printf '0\\r1\\r2\\r' > mac"},
        {"mac.gz", "printf '\\357\\273\\2770\\r1\\r2' | gzip > mac.gz"},
        {"padded", "(printf '0\\n1\\n2\\n' | gzip; printf '\\0\\0\\0\\0') > padded"},
        {"tree",
            "mkdir -p tree/b/c tree/_old && printf 0 > tree/a && printf 1 | gzip > tree/b/c/x && "
            "printf 2 > tree/c && printf 9 > tree/_old/x && mkdir tree/empty && mkfifo tree/pipe"},
        {"tree.list", "printf '\\357\\273\\277 tree/a \\r\\n\\ttree/b\\r\\ntree/c' > tree.list"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        shell(f, rows[i].command);
        struct rt_input *in = input_open(f, rows[i].name, NULL);
        numbers_are(in, 3);
        rt_input_rewind(in);
        numbers_are(in, 3);
        rt_input_close(in);
    }
}

/* Also behind any line of a file that is packed, and whose lines end as on old Macs. */
static void reading_resumes_from_any_position_of_a_packed_file(void **state) {
    struct fixture *f = *state;
    struct rt_position at;
    struct co_err err = {0};

    shell(f, "seq 0 29 | tr '\\n' '\\r' > p; gzip < p > p.gz");
    struct rt_input *in = input_open(f, "p.gz", NULL);
    for (int i = 0; i < 30; i++) {
        struct rt_input *other = input_open(f, i % 2 ? "p" : "p.gz", NULL);

        rt_input_tell(in, &at);
        must(rt_input_seek(other, &at, &err), &err);
        assert_int_equal(number_next(other), i);
        rt_input_close(other);
        assert_int_equal(number_next(in), i);
    }
    at.offset = 1000;
    assert_int_equal(rt_input_seek(in, &at, &err), CO_INVALID);
    rt_input_close(in);
}

/* Lines with newlines between quotes, for every worker, and from any position. */
static void newlines_between_quotes(void **state) {
    static const struct {
        const char *text;
        const char *lines[6];
        unsigned number[6];
    } rows[] = {
        {"a,b\n1,\"x\ny\"\n2,z\n", {"a,b", "1,\"x\ny\"", "2,z"}, {1, 2, 4}},
        {"\"a\n\",b\n1,\"\n\"\"\n\"\r\n2,3", {"\"a\n\",b", "1,\"\n\"\"\n\"", "2,3"}, {1, 3, 6}},
        {"\xef\xbb\xbf\"a\nb\"\n1, \"\n\"", {"\"a\nb\"", "1, \"\n\""}, {1, 3}},
        {"5\" pipe,1\n6\",2\n", {"5\" pipe,1", "6\",2"}, {1, 2}}, /* no field begins so */
        {"\"never\n1\n2\n", {"\"never", "1", "2"}, {1, 2, 3}},    /* not closed: one line */
        {"a;\"x\n1,\"y\"\n", {"a;\"x", "1,\"y\""}, {1, 2}},       /* behind a comma only */
    };
    struct fixture *f = *state;
    struct rt_position at;
    struct co_err err = {0};

    for (size_t row = 0; row < CO_ARRAY_LEN(rows); row++) {
        file_write(f, "q.csv", rows[row].text);
        for (uint32_t workers = 1; workers < 3; workers++) {
            for (uint32_t w = 0; w < workers; w++) {
                const struct rt_share share = {w, workers, RT_SHARE_FILES};
                struct rt_input *in = input_open(f, "q.csv", &share);

                rt_input_quotes(in, ",");
                for (uint32_t i = w; i < 6 && rows[row].lines[i]; i += workers) {
                    struct rt_input *other = input_open(f, "q.csv", &share);
                    const char *line = NULL, *again = NULL;
                    size_t len = 0;

                    rt_input_quotes(other, ",");
                    rt_input_tell(in, &at);
                    must(rt_input_seek(other, &at, &err), &err);
                    must(rt_input_next(in, &line, &len, &err), &err);
                    must(rt_input_next(other, &again, &len, &err), &err);
                    assert_string_equal(line, rows[row].lines[i]);
                    assert_string_equal(again, rows[row].lines[i]);
                    CO_AUTOFREE char *place = co_xasprintf("q.csv:%u", rows[row].number[i]);
                    assert_non_null(strstr(rt_input_where(in), place));
                    rt_input_close(other);
                }
                assert_int_equal(number_next(in), -1);
                rt_input_close(in);
            }
        }
    }
}

static void errors_name_inputs_that_are_no_text(void **state) {
    static const struct {
        const char *name, *command;
        int code;
        const char *error;
    } rows[] = {
        {"cut.gz", "seq 99999 | gzip | head -c 5000 > cut.gz", CO_DAMAGED, "ends in the middle"},
        {"bad.gz", "seq 9 | gzip | tr '\\377\\301' '\\301\\377' > bad.gz; truncate -s -1 bad.gz",
            CO_DAMAGED, "gzip data"},
        {"wide", "printf '\\377\\3760\\0\\n\\0' > wide", CO_UNSUPPORTED,
            "is text in UTF-16, expected"},
        {"nul", "printf '0\\0001\\n' > nul", CO_INVALID, "/nul:1: a NUL at byte 2"},
        {"x.zip", "printf 'PK\\003\\004xxxx' > x.zip", CO_UNSUPPORTED, "is a zip archive"},
        {"x.zst", "printf '\\050\\265\\057\\375xxxx' > x.zst", CO_UNSUPPORTED, "packed by zstd"},
        {"loop", "mkdir loop && ln -s . loop/l", CO_INVALID, "a link that leads back"},
        {"dangling", "mkdir dangling && ln -s nothing dangling/l", CO_NOTFOUND, "dangling/l"},
        {"zero", "ln -s /dev/zero zero", CO_UNSUPPORTED, "is a device or socket, expected a file"},
        {"void.list", "mkdir void.list", CO_NOTFOUND, "holds no data file"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir, rows[i].name);
        struct rt_input *in = NULL;
        struct co_err err = {0};
        const char *line = "";
        size_t len;

        shell(f, rows[i].command);
        int rc = rt_input_open(path, NULL, &in, &err);
        while (rc == 0 && line) {
            rc = rt_input_next(in, &line, &len, &err);
        }
        if (rc != rows[i].code || !strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("row %zu: %d, \"%s\" lacks \"%s\"", i, rc, co_err_text(&err), rows[i].error);
        }
        rt_input_close(in);
    }
}

/* A pipe gives its lines once, and says so where they are asked for again. */
static void a_pipe_is_read_once(void **state) {
    int ends[2];
    const char *line = NULL;
    struct rt_input *in = NULL;
    struct co_err err = {0};
    size_t len;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    CO_AUTOFREE char *path = co_xasprintf("/dev/fd/%d", ends[0]);
    assert_int_equal(write(ends[1], "0\n1\n2", 5), 5);
    assert_int_equal(close(ends[1]), 0);
    must(rt_input_open(path, NULL, &in, &err), &err);
    must(rt_input_seek(in, &(struct rt_position){.pass = 0}, &err), &err);
    numbers_are(in, 3);
    rt_input_rewind(in);
    assert_int_equal(rt_input_next(in, &line, &len, &err), CO_UNSUPPORTED);
    assert_non_null(strstr(co_err_text(&err), "is a pipe, which can be read once"));
    rt_input_close(in);
    assert_int_equal(close(ends[0]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_line_is_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            files_are_assigned_to_workers_by_the_way_of_sharing, setup, teardown),
        cmocka_unit_test_setup_teardown(
            mixed_lines_have_another_worker_in_each_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_resumes_from_any_position, setup, teardown),
        cmocka_unit_test_setup_teardown(a_position_of_other_files_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_names_files_beside_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_missing_inputs, setup, teardown),
        cmocka_unit_test_setup_teardown(text_in_all_its_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(
            reading_resumes_from_any_position_of_a_packed_file, setup, teardown),
        cmocka_unit_test_setup_teardown(newlines_between_quotes, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_inputs_that_are_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_is_read_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
