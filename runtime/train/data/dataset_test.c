/* Samples in batches: what each format gives, whose lines they are, in which order, and that
 * reading continues at any position. */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/interrupt.h"
#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/data/feature.h"

CO_DEFINE_CLEANUP(struct rt_data *, rt_data_close)
CO_DEFINE_CLEANUP(struct rt_data_batch *, rt_data_batch_free)

enum { SAMPLES_MAX = 8192 };

struct fixture {
    char dir[64];
    char path[96]; /* of what file_write has written last */
    const char *paths[1];
};

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/dataset_test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->paths[0] = f->path;
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

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static void file_write(struct fixture *f, const char *name, const char *text) {
    struct co_err err = {0};

    (void)snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, name);
    must(co_file_write(f->path, text, strlen(text), 0644, &err), &err);
}

static struct rt_data *data_open(struct rt_data_options o, struct fixture *f) {
    struct rt_data *d = NULL;
    struct co_err err = {0};

    o.paths = f->paths;
    o.n_paths = 1;
    must(rt_data_open(&o, &d, &err), &err);
    return d;
}

static struct rt_data_batch *batch_next(struct rt_data *d) {
    struct rt_data_batch *b = NULL;
    struct co_err err = {0};

    must(rt_data_next(d, -1, &b, &err), &err);
    return b;
}

/* The error that the next batch ends with. */
static void next_fails(struct rt_data *d, int code, const char *part) {
    struct rt_data_batch *b = NULL;
    struct co_err err = {0};
    int rc = 0;

    while ((rc = rt_data_next(d, -1, &b, &err)) == 0 && b) {
        rt_data_batch_free(co_steal_ptr(b));
    }
    assert_int_equal(rc, code);
    if (!strstr(co_err_text(&err), part)) {
        fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), part);
    }
}

/* ---- formats -------------------------------------------------------------------------------- */

static const struct rt_data_field click_fields[] = {{.name = "click", .kind = RT_DATA_LABEL},
    {.name = "age", .kind = RT_DATA_DENSE, .n = 2}, {.name = "user", .kind = RT_DATA_IDS},
    {.name = "tag", .kind = RT_DATA_IDS}};

#define WITH(list) .fields = (list), .n_fields = CO_ARRAY_LEN(list)

/* All that samples hold, as text: labels | numbers | ids of each slot; a line a sample. */
static void samples_text(struct rt_data *d, char *ret, size_t size) {
    struct rt_data_batch *b;
    size_t labels, dense, slots, used = 0;

    rt_data_shape(d, &labels, &dense, &slots);
    ret[0] = '\0';
#define PUT(...) used += (size_t)snprintf(ret + used, size - used, __VA_ARGS__)
    while ((b = batch_next(d))) {
        const int64_t *at = b->offsets;

        for (size_t i = 0; i < b->n; i++) {
            size_t base = 0;

            for (size_t k = 0; k < labels; k++) {
                PUT("%g ", (double)b->labels[i * labels + k]);
            }
            PUT("|");
            for (size_t k = 0; k < dense; k++) {
                PUT(" %g", (double)b->dense[i * dense + k]);
            }
            for (size_t k = 0; k < slots; base += (size_t)at[k++ * (b->n + 1) + b->n]) {
                PUT(" |");
                for (int64_t j = at[k * (b->n + 1) + i]; j < at[k * (b->n + 1) + i + 1]; j++) {
                    PUT(" %llu", (unsigned long long)b->ids[base + (size_t)j]);
                }
            }
            PUT("\n");
        }
        rt_data_batch_free(b);
    }
}

static void lines_become_samples(void **state) {
    static const struct rt_data_field rated[] = {{.name = "y", .kind = RT_DATA_LABEL},
        {.name = "a", .kind = RT_DATA_DENSE}, {.name = "b", .kind = RT_DATA_IDS}};
    static const char *const columns[] = {"b", "other", "y", "a"};
    static const struct {
        const char *text;
        struct rt_data_options o;
        const char *samples;
    } rows[] = {
        {"click:1 user:7 tag:3 tag:18446744073709551615 age:0.5 age:-2e3\n\nclick:0 tag:9\n",
            {.format = RT_DATA_SLOTS, WITH(click_fields)},
            "1 | 0.5 -2000 | 7 | 3 18446744073709551615\n0 | 0 0 | | 9\n"},
        {"tag:3 user:8 x:1 tag:2 user:7 click:-1\n", /* out of order, and one that is no field */
            {.format = RT_DATA_SLOTS, WITH(click_fields)}, "-1 | 0 0 | 8 7 | 3 2\n"},
        {"user:12 click:0\n", {.format = RT_DATA_SLOTS, WITH(click_fields), .vocabulary = 10},
            "0 | 0 0 | 2 |\n"},
        {"user:12\n", {.format = RT_DATA_SLOTS, WITH(click_fields), .unlabelled = true},
            "nan | 0 0 | 12 |\n"},
        {"1 0 2 0.25 7 2 18446744073709551615 1 0\n1 1 2 1 2 0 3 4 5 6\n",
            {.format = RT_DATA_MULTISLOT, WITH(click_fields)},
            "0 | 0.25 7 | 18446744073709551615 1 |\n1 | 1 2 | | 4 5 6\n"},
        {"b,x,y,a\n000123456789012,z,1,123456.789012345\n1234567890123456789,z,0,0.5\n 7 "
         ",z,1,-0.1\r\n"
         "\"8\",z,\"1\",\"0.25\"\n",
            {.format = RT_DATA_CSV, WITH(rated), .whole = true},
            "1 | 123457 | 123456789012\n0 | 0.5 | 1234567890123456789\n1 | -0.1 | 7\n"
            "1 | 0.25 | 8\n"},
        {"b,x,y,a\n17,z,2.5,1e-3\n,z,3,NA\n", {.format = RT_DATA_CSV, WITH(rated), .whole = true},
            "2.5 | 0.001 | 17\n3 | 0 |\n"},
        {"\n\"b\";y;\"a\"\n 17 ;-1;\"4\"\n", {.format = RT_DATA_CSV, WITH(rated), .whole = true},
            "-1 | 4 | 17\n"},
        {"17\tx, y\ttrue\t-7\n",
            {.format = RT_DATA_TSV, WITH(rated), .whole = true, .columns = columns, .n_columns = 4},
            "1 | -7 | 17\n"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (uint32_t batch = 1; batch < 4; batch++) {
            struct rt_data_options o = rows[i].o;
            char text[1024];

            o.batch = batch;
            file_write(f, "lines", rows[i].text);
            CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
            samples_text(d, text, sizeof(text));
            assert_string_equal(text, rows[i].samples);
        }
    }
}

/* The same ids and numbers as those of the models in examples/ctr. */
static void lines_of_criteo(void **state) {
    struct fixture *f = *state;
    char text[512] = "-1\t20\t\t-3";
    size_t used = strlen(text);

    for (int i = 4; i < 14; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "\t%d", i);
    }
    for (int i = 0; i < 26; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, i == 3 ? "\t" : "\tc%d", i);
    }
    file_write(f, "criteo", text);
    CO_CLEANUP(rt_data_closep)
    struct rt_data *d = data_open((struct rt_data_options){.format = RT_DATA_CRITEO, .pad = 1}, f);
    CO_CLEANUP(rt_data_batch_freep) struct rt_data_batch *b = batch_next(d);
    assert_int_equal(b->n, 1);
    assert_true(b->labels[0] == 0.0F); /* -1 counts as 0 */
    assert_true(b->dense[0] == da_feature_scale(0, 20) && b->dense[1] == 0.0F &&
                b->dense[2] == da_feature_scale(2, -3) && b->dense[12] == da_feature_scale(12, 13));
    assert_int_equal(b->ids[0], da_feature_id(14, "c0", 2, 0));
    assert_int_equal(b->ids[3], da_feature_id(17, "", 0, 0));
    assert_int_equal(b->ids[25], da_feature_id(39, "c25", 3, 0));
}

static void slots_are_padded(void **state) {
    struct fixture *f = *state;

    file_write(f, "lines", "click:0 user:1 tag:2 tag:3\nclick:0\nclick:0 tag:1 tag:1 tag:1\n");
    struct rt_data_options o = {
        .format = RT_DATA_SLOTS, WITH(click_fields), .batch = 8, .pad = 2, .fill = 77};
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    CO_CLEANUP(rt_data_batch_freep) struct rt_data_batch *b = batch_next(d);
    static const uint64_t ids[] = {1, 77, 2, 3, 77, 77, 77, 77};
    static const uint32_t counts[] = {1, 2, 0, 0};
    struct rt_data_counts count;

    assert_int_equal(b->n, 2);
    assert_memory_equal(b->ids, ids, sizeof(ids));
    assert_memory_equal(b->counts, counts, sizeof(counts));
    rt_data_count(d, &count);
    assert_int_equal(count.bad, 1);
    assert_non_null(strstr(count.text, ":3: slot \"tag\" has 3 ids, expected at most 2"));
}

/* ---- lines that cannot be used -------------------------------------------------------------- */

static void bad_lines_are_counted_and_the_first_is_named(void **state) {
    static const struct rt_data_field ab[] = {
        {.name = "a", .kind = RT_DATA_LABEL}, {.name = "b", .kind = RT_DATA_IDS}};
    static const struct {
        const char *line;
        struct rt_data_options o;
        const char *why;
    } rows[] = {
        {"click:1 user:x", {.format = RT_DATA_SLOTS, WITH(click_fields)},
            "word 2 is \"user:x\", expected an id"},
        {"click:1 user:18446744073709551616", {.format = RT_DATA_SLOTS, WITH(click_fields)},
            "whole number below 2^64"},
        {"click:1 user", {.format = RT_DATA_SLOTS, WITH(click_fields)}, "expected name:value"},
        {"click:1 click:1", {.format = RT_DATA_SLOTS, WITH(click_fields)}, "that name once"},
        {"click:1 age:1 user:1 age:2 age:3", {.format = RT_DATA_SLOTS, WITH(click_fields)},
            "as many numbers"},
        {"user:1", {.format = RT_DATA_SLOTS, WITH(click_fields)}, "no label \"click\""},
        {"u:1 v:1", {.format = RT_DATA_SLOTS, WITH(click_fields)}, "none of its 2 names"},
        {"1\t2", {.format = RT_DATA_CRITEO}, "2 columns, expected 40"},
        {"1 0 3 1 2 3 0 0", {.format = RT_DATA_MULTISLOT, WITH(click_fields)},
            "field \"age\" has 3 values, expected 2"},
        {"1 0 2 1 2 9 1", {.format = RT_DATA_MULTISLOT, WITH(click_fields)},
            "a value of field \"user\" is \"\", expected an id"},
        {"1 0 2 1 2 0 0 1", {.format = RT_DATA_MULTISLOT, WITH(click_fields)},
            "behind the last field"},
        {"1", {.format = RT_DATA_CSV, WITH(ab)}, "1 columns, the header has 2"},
        {"x,1", {.format = RT_DATA_CSV, WITH(ab)}, "column 1 (a) is \"x\""},
        {"1,\"x", {.format = RT_DATA_CSV, WITH(ab)}, "a quote is not closed"},
        {"1,-1", {.format = RT_DATA_CSV, WITH(ab), .whole = true}, "column 2 (b) is \"-1\""},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text =
            co_xasprintf("%s%s\n", rows[i].o.format == RT_DATA_CSV ? "a,b\n" : "", rows[i].line);

        file_write(f, "lines", text);
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(rows[i].o, f);
        next_fails(d, CO_INVALID, rows[i].why); /* no line can be used */
        next_fails(d, CO_INVALID, rows[i].o.format == RT_DATA_CSV ? "lines:2: " : "lines:1: ");
    }
}

static void too_many_bad_lines_are_an_error(void **state) {
    struct fixture *f = *state;

    file_write(f, "lines", "click:1\nx\nclick:0\ny\n");
    for (uint64_t max = 0; max < 4; max++) {
        struct rt_data_options o = {.format = RT_DATA_SLOTS, WITH(click_fields), .bad_max = max};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        char text[256];

        if (max == 1 || max == 2) {
            next_fails(d, CO_INVALID, "2 skipped, first: ");
        } else {
            samples_text(d, text, sizeof(text));
            assert_string_equal(text, "1 | 0 0 | |\n0 | 0 0 | |\n");
        }
    }
}

CO_DEFINE_CLEANUP(DIR *, closedir)
CO_DEFINE_CLEANUP(FILE *, fclose)

static size_t memory_used(void) {
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Commands that print without end what is no sample. */
static const char *const endless[] = {
    "cat >/dev/null; yes click:x", "cat >/dev/null; yes x | tr x '\\0'"};

static void endless_bad_lines_reach_their_limit(void **state) {
    struct fixture *f = *state;

    file_write(f, "lines", "x\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(endless); i++) {
        struct rt_data_options o = {.format = RT_DATA_SLOTS,
            WITH(click_fields),
            .pipe_command = endless[i],
            .bad_max = 3000};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);

        next_fails(d, CO_INVALID, "too many lines that cannot be used: ");
    }
}

/* As without a limit: what cannot be used is not kept. */
static void bad_lines_take_no_memory(void **state) {
    enum { LINES = 2000000 };
    struct fixture *f = *state;

    file_write(f, "lines", "x\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(endless); i++) {
        CO_AUTOFREE char *command =
            co_xasprintf("(%s) | head -n %d; echo click:1", endless[i], LINES);
        struct rt_data_options o = {
            .format = RT_DATA_SLOTS, WITH(click_fields), .pipe_command = command};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        struct rt_data_counts counts;
        size_t before = memory_used();

        CO_CLEANUP(rt_data_batch_freep) struct rt_data_batch *b = batch_next(d);
        assert_true(b->labels[0] == 1);
        rt_data_count(d, &counts);
        assert_int_equal(counts.bad, LINES);
        assert_true(memory_used() < before + ((size_t)LINES * 16));
    }
}

/* Whether a thread of this process but the caller runs, by the letter behind its name in stat. */
static bool others_run(void) {
    CO_CLEANUP(closedirp) DIR *tasks = opendir("/proc/self/task");
    bool run = false;

    assert_non_null(tasks);
    for (struct dirent *e = readdir(tasks); e; e = readdir(tasks)) {
        CO_AUTOFREE char *path = co_xasprintf("/proc/self/task/%s/stat", e->d_name);
        CO_CLEANUP(fclosep) FILE *f = fopen(path, "r");
        char letter = 'S';

        if (f && e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != gettid() &&
            fscanf(f, "%*d (%*[^)]) %c", &letter) == 1) {
            run = run || letter == 'R';
        }
    }
    return run;
}

/* Passes over nothing end at the first; the reader makes no others in advance without end. */
static void passes_over_nothing_are_not_read_ahead(void **state) {
    struct fixture *f = *state;

    file_write(f, "lines", "");
    struct rt_data_options o = {.format = RT_DATA_SLOTS, WITH(click_fields), .passes = UINT64_MAX};
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    size_t before = memory_used();
    next_fails(d, CO_INVALID, "it is empty");
    do {
        assert_true(memory_used() < before + (256 << 20));
    } while (others_run());
}

static void what_is_wrong_with_options_and_headers_is_named(void **state) {
    static const struct rt_data_field twice[] = {{.name = "a"}, {.name = "a"}};
    static const struct rt_data_field wide[] = {{.name = "a", .kind = RT_DATA_DENSE, .n = 2}};
    static const struct rt_data_field newer[] = {{.name = "a", .spare = {1}}};
    static const struct rt_data_field label[] = {{.name = "label"}};
    static const struct {
        struct rt_data_options o;
        int code;
        const char *why;
    } rows[] = {
        {{.format = RT_DATA_UNSET}, CO_INVALID, "format is 0"},
        {{.format = RT_DATA_FORMATS}, CO_INVALID, "format is 6"},
        {{.format = RT_DATA_SLOTS}, CO_INVALID, "0 fields"},
        {{.format = RT_DATA_SLOTS, WITH(twice)}, CO_INVALID, "field \"a\" is there twice"},
        {{.format = RT_DATA_CSV, WITH(wide)}, CO_INVALID, "expected 1, as it is a column"},
        {{.format = RT_DATA_SLOTS, WITH(newer)}, CO_UNSUPPORTED, "rt_data_field"},
        {{.format = RT_DATA_CRITEO, WITH(label)}, CO_INVALID, "expected none"},
        {{.format = RT_DATA_CRITEO, .spare = {1}}, CO_UNSUPPORTED, "rt_data_options"},
        {{.format = RT_DATA_CRITEO, .share = {.worker = 2, .workers = 2}}, CO_INVALID, "2 of 2"},
        {{.format = RT_DATA_CSV, WITH(label)}, CO_INVALID,
            "lines:1: no column \"label\" in the header \"lable,b\", did you mean \"lable\"?"},
    };
    struct fixture *f = *state;

    file_write(f, "lines", "lable,b\n1,2\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_data_options o = rows[i].o;
        struct co_err err = {0};
        struct rt_data_batch *b = NULL;
        CO_CLEANUP(rt_data_closep) struct rt_data *d = NULL;

        o.paths = f->paths;
        o.n_paths = 1;
        int rc = rt_data_open(&o, &d, &err);
        rc = rc == 0 ? rt_data_next(d, -1, &b, &err) : rc;
        if (rc != rows[i].code || !strstr(co_err_text(&err), rows[i].why)) {
            fail_msg("row %zu: %d, \"%s\" lacks \"%s\"", i, rc, co_err_text(&err), rows[i].why);
        }
    }
}

/* ---- order, shares, positions --------------------------------------------------------------- */

static const struct rt_data_field number_fields[] = {
    {.name = "n", .kind = RT_DATA_LABEL}, {.name = "id", .kind = RT_DATA_IDS}};

/* n files of `lines` lines each, which hold 0, 1, 2 ..., and of which every seventh is bad. */
static void numbers_write(struct fixture *f, size_t n, size_t lines, const char *header) {
    size_t number = 0;

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(f->path, sizeof(f->path), "%s/part-%05zu", f->dir, i);
        FILE *file = fopen(f->path, "we");

        assert_non_null(file);
        assert_true(fputs(header, file) >= 0);
        for (size_t k = 0; k < lines; k++, number++) {
            bool slots = header[0] == '\0';

            assert_true((k % 7 == 3 ? fputs("bad\n", file)
                            : slots ? fprintf(file, "n:%zu id:%zu\n", number, number)
                                    : fprintf(file, "%zu,%zu\n", number, number)) > 0);
        }
        assert_int_equal(fclose(file), 0);
    }
    (void)snprintf(f->path, sizeof(f->path), "%s", f->dir);
}

/* The labels from there to the end; positions[i]: before batch i. */
static size_t numbers_read(struct rt_data *d, uint64_t *ret, struct rt_data_position *positions) {
    struct rt_data_batch *b;
    size_t n = 0, batches = 0;

    for (;;) {
        if (positions) {
            rt_data_tell(d, &positions[batches++]);
        }
        b = batch_next(d);
        if (!b) {
            return n;
        }
        for (size_t i = 0; i < b->n; i++) {
            assert_true(n < SAMPLES_MAX);
            assert_true((uint64_t)b->labels[i] == b->ids[i]);
            ret[n++] = b->ids[i];
        }
        rt_data_batch_free(b);
    }
}

static void each_line_is_read_once_by_one_worker(void **state) {
    static const struct {
        size_t files, lines;
        uint32_t workers, shuffle;
        const char *header;
    } rows[] = {
        {5, 40, 1, 0, ""},
        {5, 40, 2, 0, ""},
        {2, 300, 3, 0, ""},
        {3, 1500, 2, 0, ""},
        {5, 40, 2, 16, ""},
        {3, 1500, 1, 1000, ""},
        {3, 1500, 1, 100000, ""},
        {1, 3000, 4, 64, "n,id\n"},
        {3, 50, 2, 0, "n,id\n"},
        {2, 50, 1, 7, "\nn,id\n"},
    };
    struct fixture *f = *state;
    CO_AUTOFREE uint64_t *numbers = co_xcalloc(SAMPLES_MAX, sizeof(*numbers));

    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        CO_AUTOFREE int *seen = co_xcalloc(SAMPLES_MAX, sizeof(*seen));
        bool csv = rows[r].header[0] != '\0';

        numbers_write(f, rows[r].files, rows[r].lines, rows[r].header);
        for (uint32_t w = 0; w < rows[r].workers; w++) {
            struct rt_data_options o = {.format = csv ? RT_DATA_CSV : RT_DATA_SLOTS,
                WITH(number_fields),
                .whole = true,
                .batch = 32,
                .pad = 1,
                .threads = 3,
                .shuffle = rows[r].shuffle,
                .share = {.worker = w, .workers = rows[r].workers}};
            CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
            size_t n = numbers_read(d, numbers, NULL);
            bool sorted = true;

            for (size_t i = 0; i < n; i++) {
                seen[numbers[i]]++;
                sorted = sorted && (i == 0 || numbers[i - 1] < numbers[i]);
            }
            assert_int_equal(sorted, rows[r].shuffle == 0);
        }
        for (size_t i = 0; i < rows[r].files * rows[r].lines; i++) {
            if (seen[i] != (i % rows[r].lines % 7 != 3)) {
                fail_msg("row %zu: line %zu was read %d times", r, i, seen[i]);
            }
        }
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
        f = *state;
    }
}

/* Of a short file: the others would wait for its steps, and nothing else would say why. */
static void a_worker_without_a_line_says_so(void **state) {
    struct fixture *f = *state;
    uint64_t numbers[8];

    numbers_write(f, 1, 2, "n,id\n");
    for (uint32_t w = 0; w < 3; w++) {
        struct rt_data_options o = {.format = RT_DATA_CSV,
            WITH(number_fields),
            .whole = true,
            .pad = 1,
            .passes = 2,
            .share = {.worker = w, .workers = 3}};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        struct rt_data_counts counts;
        CO_AUTOFREE char *text = co_xasprintf("worker 0 of 3 has no line of \"%s\" (", f->path);

        rt_data_count(d, &counts);
        assert_string_equal(counts.text, "");
        assert_int_equal(numbers_read(d, numbers, NULL), w == 0 ? 0 : 2);
        rt_data_count(d, &counts);
        assert_int_equal(strncmp(counts.text, text, strlen(text)) == 0, w == 0);
        assert_int_equal(strlen(counts.text) == 0, w != 0);
    }
}

/* By a new reader, from before any batch, in any pass: the same samples, batch by batch. */
static void reading_resumes_from_before_any_batch(void **state) {
    static const struct {
        uint32_t workers, shuffle, batch;
        const char *header;
    } rows[] = {{1, 0, 32, ""}, {1, 50, 32, ""}, {1, 2500, 100, ""}, {3, 0, 7, "n,id\n"},
        {3, 64, 64, "n,id\n"}};
    struct fixture *f = *state;
    CO_AUTOFREE uint64_t *all = co_xcalloc(SAMPLES_MAX, sizeof(*all));
    CO_AUTOFREE uint64_t *rest = co_xcalloc(SAMPLES_MAX, sizeof(*rest));
    struct rt_data_position positions[512];
    struct co_err err = {0};

    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        struct rt_data_options o = {.format = rows[r].header[0] ? RT_DATA_CSV : RT_DATA_SLOTS,
            WITH(number_fields),
            .whole = true,
            .batch = rows[r].batch,
            .pad = 1,
            .passes = 2,
            .shuffle = rows[r].shuffle,
            .seed = 7,
            .share = {.worker = rows[r].workers - 1, .workers = rows[r].workers}};

        numbers_write(f, 2, rows[r].workers == 1 ? 1100 : 300, rows[r].header);
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        size_t n = numbers_read(d, all, positions), before = 0;
        struct rt_data_counts whole, counts;
        rt_data_count(d, &whole);
        assert_int_equal(whole.samples, n / 2);
        if (rows[r].shuffle) { /* another pass, another order */
            assert_memory_not_equal(all, all + n / 2, n / 2 * sizeof(*all));
        }
        for (size_t i = 0; before < n; i++) {
            CO_CLEANUP(rt_data_closep) struct rt_data *other = data_open(o, f);

            must(rt_data_seek(other, &positions[i], &err), &err);
            assert_int_equal(numbers_read(other, rest, NULL), n - before);
            assert_memory_equal(rest, all + before, (n - before) * sizeof(*all));
            rt_data_count(other, &counts);
            assert_int_equal(counts.samples, whole.samples);
            assert_int_equal(counts.bad, whole.bad);
            size_t left = n / 2 - before % (n / 2);
            before += left < o.batch ? left : o.batch;
        }
        must(rt_data_seek(d, &positions[1], &err), &err); /* the same reader, too */
        assert_int_equal(numbers_read(d, rest, NULL), n - o.batch);
        assert_memory_equal(rest, all + o.batch, (n - o.batch) * sizeof(*all));
    }
}

static void each_file_has_its_own_header(void **state) {
    struct fixture *f = *state;
    char text[256];

    file_write(f, "a.csv", "n,id\n1,11\n2,12\n");
    file_write(f, "b.csv", "\nid;x;n\n13;0;3\n");
    file_write(f, "c.csv", "n,id\n4,14\n");
    (void)snprintf(f->path, sizeof(f->path), "%s/?.csv", f->dir);
    struct rt_data_options o = {.format = RT_DATA_CSV, WITH(number_fields), .whole = true};
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    samples_text(d, text, sizeof(text));
    assert_string_equal(text, "1 | | 11\n2 | | 12\n3 | | 13\n4 | | 14\n");
}

static void a_position_of_other_data_is_refused(void **state) {
    struct fixture *f = *state;
    struct rt_data_options o = {.format = RT_DATA_SLOTS, WITH(number_fields), .shuffle = 8};
    struct rt_data_position at;
    struct co_err err = {0};

    numbers_write(f, 2, 10, "");
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    rt_data_tell(d, &at);
    o.seed = 1;
    CO_CLEANUP(rt_data_closep) struct rt_data *other = data_open(o, f);
    assert_int_equal(rt_data_seek(other, &at, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "of other files"));
}

/* Files that were cut where the position lies, but not as far as to end before its lines. */
static void a_position_behind_what_is_left_is_refused(void **state) {
    static const uint32_t shuffles[] = {0, 8, 64};
    struct fixture *f = *state;

    for (size_t i = 0; i < CO_ARRAY_LEN(shuffles); i++) {
        struct rt_data_options o = {
            .format = RT_DATA_SLOTS, WITH(number_fields), .batch = 8, .shuffle = shuffles[i]};
        struct rt_data_position at;
        struct co_err err = {0};

        numbers_write(f, 1, 40, ""); /* 34 that can be used */
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        for (int b = 0; b < 4; b++) {
            struct rt_data_batch *batch = NULL;

            must(rt_data_next(d, -1, &batch, &err), &err);
            rt_data_batch_free(batch);
        }
        rt_data_tell(d, &at);
        numbers_write(f, 1, 35, "");
        CO_CLEANUP(rt_data_closep) struct rt_data *cut = data_open(o, f);
        must(rt_data_seek(cut, &at, &err), &err);
        next_fails(cut, CO_INVALID, "the position is 2 samples behind the last one");
        numbers_write(f, 1, 37, "");
        CO_CLEANUP(rt_data_closep) struct rt_data *end = data_open(o, f);
        must(rt_data_seek(end, &at, &err), &err);
        struct rt_data_batch *batch = NULL;
        must(rt_data_next(end, -1, &batch, &err), &err);
        assert_null(batch);
    }
}

static void the_last_batch_may_be_dropped(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE uint64_t *numbers = co_xcalloc(SAMPLES_MAX, sizeof(*numbers));

    numbers_write(f, 1, 10, ""); /* 9 of them can be used */
    for (uint32_t batch = 1; batch < 12; batch++) {
        struct rt_data_options o = {.format = RT_DATA_SLOTS,
            WITH(number_fields),
            .batch = batch,
            .pad = 1,
            .drop_last = true,
            .passes = batch > 9 ? 1 : 3};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);

        assert_int_equal(numbers_read(d, numbers, NULL), 3 * (9 / batch * batch));
    }
}

/* It would read pass after pass without end. */
static void passes_that_fill_no_batch_are_refused(void **state) {
    struct fixture *f = *state;
    struct rt_data_batch *b = NULL;
    struct co_err err = {0};
    struct rt_data_options o = {.format = RT_DATA_SLOTS,
        WITH(number_fields),
        .batch = 10,
        .drop_last = true,
        .passes = 1000};

    numbers_write(f, 1, 10, ""); /* 9 of them can be used */
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    assert_int_equal(rt_data_next(d, -1, &b, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "has 9 samples, which fill no batch of 10"));
}

static bool yes(void) {
    return true;
}

/* A pipe whose writer is slow: nothing is there yet, and nothing is lost. */
static void a_wait_ends_and_is_repeated(void **state) {
    struct fixture *f = *state;
    struct rt_data_batch *b = NULL;
    struct co_err err = {0};
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    (void)snprintf(f->path, sizeof(f->path), "/dev/fd/%d", ends[0]);
    struct rt_data_options o = {.format = RT_DATA_SLOTS, WITH(number_fields), .batch = 2, .pad = 1};
    CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
    assert_int_equal(rt_data_next(d, 1, &b, &err), CO_TIMEOUT);
    assert_int_equal(write(ends[1], "n:1 id:1\nn:2 id:2\n", 18), 18);
    assert_int_equal(rt_data_next(d, 1, &b, &err), CO_TIMEOUT);
    co_interrupt_set(yes); /* Ctrl-C in Python */
    assert_int_equal(rt_data_next(d, -1, &b, &err), CO_CANCELED);
    co_interrupt_set(NULL);
    assert_int_equal(close(ends[1]), 0);
    b = batch_next(d);
    assert_int_equal(b->n, 2);
    assert_int_equal(b->ids[1], 2);
    rt_data_batch_free(b);
    assert_null(batch_next(d));
    assert_int_equal(close(ends[0]), 0);
}

/* A command's output is read in place of a file: what it makes of one, or fetches. */
static void output_of_a_command(void **state) {
    static const struct {
        const char *command, *path; /* NULL: the file */
        int code;
        const char *text; /* samples, or a part of the error */
    } rows[] = {
        {"tr xy n,", NULL, 0, "1 | | 11\n2 | | 12\n"},
        {"sed s/x/n/ \"$1\" | tr y , | gzip", NULL, 0, "1 | | 11\n2 | | 12\n"},
        {"echo n,id; echo 7,${1#s3://*/}", "s3://bucket/8", 0, "7 | | 8\n"},
        {"cat; exit 3", "s3://bucket/8", CO_UNAVAILABLE,
            "the command \"cat; exit 3\" for \"s3://bucket/8\" ended with exit code 3"},
        {"echo n,id; kill -9 $$", NULL, CO_UNAVAILABLE, "ended with signal 9"},
        {"cat", "/no/such", CO_NOTFOUND, "/no/such"},
    };
    struct fixture *f = *state;
    char text[256];

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_data_options o = {.format = RT_DATA_CSV,
            WITH(number_fields),
            .whole = true,
            .paths = f->paths,
            .n_paths = 1,
            .pipe_command = rows[i].command};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = NULL;
        struct co_err err = {0};

        file_write(f, "lines", "xyid\n1y11\n2y12\n");
        if (rows[i].path) {
            (void)snprintf(f->path, sizeof(f->path), "%s", rows[i].path);
        }
        int rc = rt_data_open(&o, &d, &err);
        if (rc < 0) {
            assert_int_equal(rc, rows[i].code);
        } else if (rows[i].code < 0) {
            next_fails(d, rows[i].code, rows[i].text);
        } else {
            samples_text(d, text, sizeof(text));
            assert_string_equal(text, rows[i].text);
        }
    }
}

/* Without a command a store's path says which one reads it. */
static void path_of_a_store_names_its_command(void **state) {
    static const struct {
        const char *path, *text;
    } rows[] = {
        {"s3://bucket/8", "\"s3://bucket/8\" is no file of this machine, expected a "
                          "pipe_command that fetches it (docs/data.md): aws s3 cp \"$1\" -"},
        {"s3://bucket/*", "docs/data.md): aws s3 cp \"$1\" -"},
        {"hdfs://node:9000/all.list", "docs/data.md): hadoop fs -cat \"$1\""},
        {"store://8", "docs/data.md): COMMAND \"$1\""},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        struct rt_data_options o = {
            .format = RT_DATA_CSV, WITH(number_fields), .paths = f->paths, .n_paths = 1};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = NULL;
        const char *path = rows[i / 2].path;
        struct co_err err = {0};

        (void)snprintf(f->path, sizeof(f->path), "%s", path);
        if (i % 2) {
            file_write(f, "names.list", path);
        }
        assert_int_equal(rt_data_open(&o, &d, &err), CO_NOTFOUND);
        assert_non_null(strstr(co_err_text(&err), rows[i / 2].text));
    }
}

/* Its lines are shared, and a position in them is found again. */
static void output_of_a_command_has_shares_and_positions(void **state) {
    struct fixture *f = *state;
    uint64_t numbers[64] = {0};
    struct co_err err = {0};

    (void)snprintf(f->path, sizeof(f->path), "x:/y");
    for (uint32_t w = 0; w < 2; w++) {
        struct rt_data_options o = {.format = RT_DATA_CSV,
            WITH(number_fields),
            .whole = true,
            .pad = 1,
            .batch = 5,
            .share = {.worker = w, .workers = 2},
            .passes = 2,
            .pipe_command = "echo n,id; seq 20 | sed 's/.*/&,&/'"};
        CO_CLEANUP(rt_data_closep) struct rt_data *d = data_open(o, f);
        struct rt_data_position positions[8];

        assert_int_equal(numbers_read(d, numbers, positions), 20);
        assert_int_equal(numbers[1], 3 + (w == 0)); /* the header is line 0 */
        must(rt_data_seek(d, &positions[3], &err), &err);
        assert_int_equal(numbers_read(d, numbers, NULL), 5);
        assert_int_equal(numbers[4], 19 + (w == 0));
    }
}

/* Whatever the reader waits for: a writer, or a command that does nothing. */
static void closing_waits_for_nobody(void **state) {
    struct fixture *f = *state;
    struct rt_data_batch *b = NULL;
    struct co_err err = {0};
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    static const char *const commands[] = {
        NULL, "exec sleep 100000", "exec >&-; exec sleep 100000" /* its output has ended */};
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        struct rt_data_options o = {
            .format = RT_DATA_SLOTS, WITH(number_fields), .pipe_command = commands[i]};

        if (commands[i]) {
            (void)snprintf(f->path, sizeof(f->path), "x:/y");
        } else {
            (void)snprintf(f->path, sizeof(f->path), "/dev/fd/%d", ends[0]);
        }
        struct rt_data *d = data_open(o, f);
        assert_int_equal(rt_data_next(d, 20, &b, &err), CO_TIMEOUT);
        rt_data_close(d);
    }
    assert_int_equal(close(ends[0]) + close(ends[1]), 0);
}

static void a_forked_child_is_refused(void **state) {
    struct fixture *f = *state;
    int status = 0;

    numbers_write(f, 1, 10, "");
    struct rt_data_options o = {.format = RT_DATA_SLOTS, WITH(number_fields)};
    struct rt_data *d = data_open(o, f);
    rt_data_batch_free(batch_next(d));
    pid_t child = fork();
    if (child == 0) {
        struct rt_data_batch *b = NULL;
        struct co_err err = {0};
        int rc = rt_data_next(d, -1, &b, &err);

        rt_data_close(d);
        _exit(rc == CO_INVALID && strstr(co_err_text(&err), "reader of samples") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rt_data_close(d);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(lines_become_samples),
        TEST(lines_of_criteo),
        TEST(slots_are_padded),
        TEST(bad_lines_are_counted_and_the_first_is_named),
        TEST(too_many_bad_lines_are_an_error),
        TEST(endless_bad_lines_reach_their_limit),
        TEST(bad_lines_take_no_memory),
        TEST(passes_over_nothing_are_not_read_ahead),
        TEST(what_is_wrong_with_options_and_headers_is_named),
        TEST(each_line_is_read_once_by_one_worker),
        TEST(reading_resumes_from_before_any_batch),
        TEST(each_file_has_its_own_header),
        TEST(a_position_of_other_data_is_refused),
        TEST(a_position_behind_what_is_left_is_refused),
        TEST(the_last_batch_may_be_dropped),
        TEST(passes_that_fill_no_batch_are_refused),
        TEST(a_wait_ends_and_is_repeated),
        TEST(output_of_a_command),
        TEST(path_of_a_store_names_its_command),
        TEST(output_of_a_command_has_shares_and_positions),
        TEST(closing_waits_for_nobody),
        TEST(a_worker_without_a_line_says_so),
        TEST(a_forked_child_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
