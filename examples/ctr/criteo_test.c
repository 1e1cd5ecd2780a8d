/* Tests parsing a line of each format: values, the fixed hash, and all kinds of malformed lines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"
#include "examples/ctr/gen.h"
#include "examples/ctr/parser.h"
#include "examples/ctr/slots.h"
#include "runtime/train/data/feature.h"

#define NUMBERS "\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13"
#define NAMES "\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz"
#define NO_NUMBERS "\t\t\t\t\t\t\t\t\t\t\t\t\t"
#define NO_NAMES "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"

struct parsed {
    uint64_t ids[CTR_SLOTS];
    float dense[CTR_NUMBERS];
    float label;
    char reason[DA_REASON_MAX];
};

/* A parser without a header. */
static struct ctr_parser *parser_of(const char *format) {
    const struct ctr_format *f = NULL;
    struct ctr_parser *p = NULL;

    assert_int_equal(ctr_format_find(format, &f, NULL), 0);
    assert_int_equal(ctr_parser_new(f, NULL, &p, NULL), 0);
    return p;
}

/* csv: NULL but for that. */
static int parse_as(const char *format, struct ctr_parser *csv, const char *line, size_t len,
    struct ctr_values *more, struct parsed *p) {
    CO_CLEANUP(ctr_parser_freep) struct ctr_parser *own = csv ? NULL : parser_of(format);
    struct da_why why = {.kind = NULL};

    memset(p, 0, sizeof(*p));
    struct ctr_sample s = {.vocabulary = 1000001, .ids = p->ids, .dense = p->dense, .more = more};
    int rc = ctr_parser_parse(csv ? csv : own, (struct da_text){line, len}, &s, &why);
    p->label = s.label;
    memcpy(p->reason, why.text, sizeof(p->reason));
    return rc;
}

static int parse(const char *line, size_t len, struct parsed *p) {
    return parse_as("auto", NULL, line, len, NULL, p);
}

static void a_whole_line(void **state) {
    static const char line[] = "1" NUMBERS NAMES;
    static const double dense[] = {1.0 / 20, 5.0 / 603, 3.0 / 100, 4.0 / 50, 5.0 / 64000, 6.0 / 500,
        7.0 / 100, 8.0 / 50, 9.0 / 500, 1.0, 1.1, 1.2, 13.0 / 50};
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, strlen(line), &p), 0);
    assert_true(p.label == 1.0F);
    for (size_t i = 0; i < CTR_NUMBERS; i++) {
        assert_true(fabs((double)p.dense[i] - dense[i]) < 1e-7);
    }
    for (size_t i = 0; i < CTR_SLOTS; i++) {
        char name = (char)('a' + (char)i);

        assert_int_equal(p.ids[i], da_feature_id((unsigned)(14 + i), &name, 1, 1000001));
    }
}

/* The hash is part of the format of saved models: computed apart from this code. */
static void ids_are_fixed(void **state) {
    static const struct {
        unsigned column;
        const char *value;
        uint64_t id;
    } rows[] = {
        {14, "", 200679},
        {14, "68fd1e64", 295750},
        {39, "68fd1e64", 668495},
        {26, "80e26c9b", 513320},
        {7, "x", 658375},
        {9999, "x", 236223},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            da_feature_id(rows[i].column, rows[i].value, strlen(rows[i].value), 1000001),
            rows[i].id);
    }
}

static void empty_features(void **state) {
    static const char line[] = "0" NO_NUMBERS NO_NAMES;
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, strlen(line), &p), 0);
    assert_true(p.label == 0.0F);
    for (size_t i = 0; i < CTR_NUMBERS; i++) {
        assert_true(p.dense[i] == 0.0F);
    }
    assert_int_equal(p.ids[0], da_feature_id(14, "", 0, 1000001));
    assert_int_not_equal(p.ids[0], p.ids[1]);
}

static void numbers_in_other_forms(void **state) {
    static const struct {
        const char *text;
        double x; /* of column 3, normalised */
    } rows[] = {{"-3", 0}, {"600", 1}, {"1.5", 4.5 / 603}, {"-0", 3.0 / 603}, {"1e2", 103.0 / 603},
        {"999999999999999", 1000000000000002.0 / 603}, {"+2", 5.0 / 603}, {"NULL", 0}, {"\\N", 0}};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char line[256];
        struct parsed p;
        int n =
            snprintf(line, sizeof(line), "0\t\t%s\t\t\t\t\t\t\t\t\t\t\t%s", rows[i].text, NO_NAMES);

        assert_int_equal(parse(line, (size_t)n, &p), 0);
        assert_true(fabs((double)p.dense[1] - rows[i].x) <= 1e-6 * (1.0 + fabs(rows[i].x)));
    }
}

static void malformed_lines_say_why(void **state) {
    static const struct {
        const char *line;
        const char *reason;
    } rows[] = {
        {"", "1 columns, expected 40 with tabs between"},
        {"1\t2", "2 columns, expected 40"},
        {"1,2,3", "1 columns, expected 40"},
        {"1" NUMBERS, "14 columns, expected 40"},
        {"1" NUMBERS NAMES "\t", "41 columns, expected 40"},
        {"0.5" NUMBERS NAMES, "column 1 is \"0.5\", expected 0 or 1"},
        {"2" NUMBERS NAMES, "column 1 is \"2\", expected 0 or 1"},
        {"-2" NUMBERS NAMES, "column 1 is \"-2\", expected 0 or 1 (-1 counts as 0)"},
        {"yes" NUMBERS NAMES, "column 1 is \"yes\", expected 0 or 1"},
        {"1\tx\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"x\", expected a number"},
        {"1\t-\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"-\", expected a number"},
        {"1\t1 1\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"1 1\", expected a number"},
        {"1\tinf\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"inf\", expected a number"},
        {"1\t\t\t\t\t\t\t\t\t\t\t\t\tnaN1" NO_NAMES,
            "column 14 is \"naN1\", expected a number from -1e15 to 1e15, or nothing"},
        {"1\t1e300\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"1e300\", expected a number"},
        {"1\t1234567890123456789012345678901234567890\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES,
            "column 2 is \"12345678901234567890...\", expected a number"},
        {"1\t\033[1m\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"?[1m\", expected a number"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct parsed p;

        assert_int_equal(parse(rows[i].line, strlen(rows[i].line), &p), -1);
        if (!strstr(p.reason, rows[i].reason)) {
            fail_msg("\"%s\" lacks \"%s\"", p.reason, rows[i].reason);
        }
    }
}

static void blanks_around_fields_are_ignored(void **state) {
    static const char *const lines[] = {"1" NUMBERS NAMES, "1" NUMBERS NAMES "\r",
        "1" NUMBERS NAMES "  \r", " 1 \t 1 \t2 \t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13" NAMES " ",
        "1.0" NUMBERS NAMES};
    struct parsed a, b;

    (void)state;
    assert_int_equal(parse(lines[0], strlen(lines[0]), &a), 0);
    for (size_t i = 1; i < CO_ARRAY_LEN(lines); i++) {
        assert_int_equal(parse(lines[i], strlen(lines[i]), &b), 0);
        assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
        assert_memory_equal(a.dense, b.dense, sizeof(a.dense));
        assert_true(a.label == b.label);
    }
}

/* Criteo's test.txt: the same features, and no label. */
static void a_line_without_label(void **state) {
    static const char *const lines[] = {"1" NUMBERS NAMES, (NUMBERS NAMES) + 1, NUMBERS NAMES};
    struct parsed a, b;

    (void)state;
    assert_int_equal(parse(lines[0], strlen(lines[0]), &a), 0);
    for (size_t i = 1; i < CO_ARRAY_LEN(lines); i++) {
        assert_int_equal(parse(lines[i], strlen(lines[i]), &b), 0);
        assert_true(isnan(b.label));
        assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
        assert_memory_equal(a.dense, b.dense, sizeof(a.dense));
    }
}

static void a_nul_inside_a_number_is_malformed(void **state) {
    static const char line[] = "1\t1\0002\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES;
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, sizeof(line) - 1, &p), -1);
}

static void ids_spread_evenly(void **state) {
    enum { BINS = 101, VALUES = 50500 };
    unsigned bins[BINS] = {0};

    (void)state;
    for (unsigned i = 0; i < VALUES; i++) {
        char value[16];
        int n = snprintf(value, sizeof(value), "%08x", i);
        uint64_t id = da_feature_id(14 + i % 26, value, (size_t)n, 1000001);

        assert_true(id < 1000001);
        bins[id / ((1000001 + BINS - 1) / BINS)]++;
    }
    for (size_t i = 0; i < BINS; i++) {
        assert_true(bins[i] > 380 && bins[i] < 620);
    }
}

static void generated_lines_parse_repeat_and_are_not_random(void **state) {
    char line[CTR_GEN_LINE_MAX], again[CTR_GEN_LINE_MAX];
    size_t positives = 0, right = 0;
    struct ctr_gen g, other;

    (void)state;
    ctr_gen_init(&g, 7);
    ctr_gen_init(&other, 8);
    for (uint64_t i = 0; i < 4000; i++) {
        size_t n = ctr_gen_line(&g, i, line);
        struct parsed p;

        assert_true(n < CTR_GEN_LINE_MAX);
        if (parse(line, n, &p) < 0) {
            fail_msg("line %zu: %s", (size_t)i, p.reason);
        }
        positives += p.label > 0.5F;
        right += (ctr_gen_truth(&g, i) > 0.5) == (p.label > 0.5F);
        assert_int_equal(ctr_gen_line(&g, i, again), n);
        assert_memory_equal(line, again, n);
        (void)ctr_gen_line(&other, i, again);
        assert_string_not_equal(line, again);
    }
    assert_true(positives > 800 && positives < 2000);
    assert_true(right > 3120);
}

static void both_formats_give_the_same_sample(void **state) {
    CO_CLEANUP(ctr_parser_freep) struct ctr_parser *parser = parser_of("criteo");
    struct ctr_gen g;

    (void)state;
    ctr_gen_init(&g, 5);
    for (uint64_t i = 0; i < 50; i++) {
        char a[CTR_GEN_LINE_MAX], b[CTR_GEN_LINE_MAX];
        struct parsed p[2];
        size_t n = ctr_gen_line(&g, i, a), m = ctr_gen_slots(&g, parser, i, 1000001, b);

        assert_int_equal(parse(a, n, &p[0]), 0);
        assert_int_equal(parse(b, m, &p[1]), 0);
        assert_memory_equal(&p[0], &p[1], sizeof(p[0]));
    }
}

static void lines_of_slots(void **state) {
    static const struct {
        const char *line;
        const char *reason; /* NULL: it is taken */
    } rows[] = {
        {"click:1", NULL},
        {" 26:1000002\tclick:1.0 dense_feature:0.5 99:7 user:x \r", NULL},
        {"1:5 2:6", NULL},
        {"click:0 3:18446744073709551615", NULL},
        {"click:0 3:18446744073709551616", "word 2 is \"3:184467440737095516...\", expected an id"},
        {"click:2", "word 1 is \"click:2\", expected click once, 0 or 1"},
        {"click:-1", NULL},
        {"click:null dense_feature:nan", NULL},
        {"click:1 click:1", "word 2 is \"click:1\", expected click once, 0 or 1"},
        {"click:0 3:1 3:2", "word 3 is \"3:2\", expected each slot once (--format slots-sum"},
        {"click:0 3:-1", "word 2 is \"3:-1\", expected an id, a whole number below 2^64"},
        {"click:0 3:0x1f", "word 2 is \"3:0x1f\", expected an id"},
        {"click:0 3:", "word 2 is \"3:\", expected an id"},
        {"click:0 dense_feature:x", "word 2 is \"dense_feature:x\", expected a number"},
        {"click:0 :5", "word 2 is \":5\", expected slot:value"},
        {"click:0 5", "word 2 is \"5\", expected slot:value"},
        {"click:0 101:5 102:7", "none of its slots is 1 to 26 or dense_feature"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct parsed p;
        int rc = parse_as("slots", NULL, rows[i].line, strlen(rows[i].line), NULL, &p);

        assert_int_equal(rc, rows[i].reason ? -1 : 0);
        if (rows[i].reason && !strstr(p.reason, rows[i].reason)) {
            fail_msg("\"%s\" lacks \"%s\"", p.reason, rows[i].reason);
        }
        if (i == 1) {
            assert_true(p.ids[25] == 1 && p.ids[0] == 0 && p.dense[0] == 0.5F && p.label == 1.0F);
        }
        assert_true((i != 2 && i != 7) || isnan(p.label));
        assert_true(i != 6 || p.label == -1.0F);
        assert_true(i != 3 || p.ids[2] == UINT64_MAX % 1000001);
    }
}

static void a_slot_that_the_model_lacks_is_named(void **state) {
    static const char line[] = "click:1 1:5 27:6 show:1", none[] = "click:1 1:5";
    uint64_t ids[CTR_SLOTS];
    float dense[CTR_NUMBERS];
    struct ctr_sample s = {.vocabulary = 10, .ids = ids, .dense = dense};
    struct da_why why;

    (void)state;
    assert_int_equal(ctr_slots_parse((struct da_text){line, strlen(line)}, &s, &why), 0);
    assert_true(da_is(s.left, "27") && ids[0] == 5);
    assert_int_equal(ctr_slots_parse((struct da_text){none, strlen(none)}, &s, &why), 0);
    assert_null(s.left.at);
}

static void slots_with_several_values(void **state) {
    static const char line[] = "click:1 2:17 3:5 2:99 2:18446744073709551615";
    struct ctr_values more = {.n = 0};
    struct parsed p;

    (void)state;
    assert_int_equal(parse_as("slots-sum", NULL, line, strlen(line), &more, &p), 0);
    assert_true(p.ids[1] == 17 && p.ids[2] == 5 && more.n == 2);
    assert_true(more.at[0].cell == 1 && more.at[0].id == 99);
    assert_true(more.at[1].cell == 1 && more.at[1].id == UINT64_MAX % 1000001);
    free(more.at);
}

static int csv_new(
    const struct ctr_columns *columns, struct ctr_parser **ret_csv, struct co_err *err) {
    const struct ctr_format *f = NULL;

    assert_int_equal(ctr_format_find("csv", &f, NULL), 0);
    return ctr_parser_new(f, columns, ret_csv, err);
}

static struct ctr_parser *csv_of(const struct ctr_columns *columns, const char *header) {
    struct ctr_parser *csv = NULL;
    struct co_err err = {0};

    if (csv_new(columns, &csv, &err) < 0 ||
        ctr_parser_header(csv, "f:1", (struct da_text){header, strlen(header)}, true, &err) < 0) {
        print_error("%s\n", co_err_text(&err));
        ctr_parser_free(csv);
        return NULL;
    }
    return csv;
}

/* Criteo's columns by name: the same sample, whatever their order. */
static void csv_with_criteos_names(void **state) {
    static const char line[] = "1" NUMBERS NAMES;
    static const struct ctr_columns names = {"", "", ""};
    char header[512], row[512];
    size_t h = 0, r = 0;
    struct parsed a, b;

    (void)state;
    for (unsigned i = 26; i > 0; i--) {
        h += (size_t)snprintf(header + h, sizeof(header) - h, "C%u;", i);
        r += (size_t)snprintf(row + r, sizeof(row) - r, "%c;", 'a' + (char)(i - 1));
    }
    for (unsigned i = 1; i <= 13; i++) {
        h += (size_t)snprintf(header + h, sizeof(header) - h, "I%u ;", i);
        r += (size_t)snprintf(row + r, sizeof(row) - r, "\"%u\";", i);
    }
    (void)snprintf(header + h, sizeof(header) - h, "id;\"label\"");
    (void)snprintf(row + r, sizeof(row) - r, "77;1");
    struct ctr_parser *csv = csv_of(&names, header);
    assert_non_null(csv);
    assert_int_equal(parse(line, strlen(line), &a), 0);
    assert_int_equal(parse_as("csv", csv, row, strlen(row), NULL, &b), 0);
    assert_memory_equal(&a, &b, sizeof(a));
    ctr_parser_free(csv);
}

static void csv_columns_may_have_any_names(void **state) {
    static const struct {
        const char *line, *reason;
    } rows[] = {
        {"1,\"Paris, \"\"1er\"\"\",-2.5,x", NULL},
        {"0, ,,", NULL},
        {"1,a,7", "3 columns, the header has 4"},
        {"1,a,2,3,4", "5 columns, the header has 4"},
        {"2,a,2,3", "column 1 (y) is \"2\", expected 0 or 1 (-1 counts as 0)"},
        {"\" -1\",a,NULL,3", NULL},
        {"NA,a,NULL,3", NULL},
        {"1,a,2x,3", "column 3 (age) is \"2x\", expected a number from -1e15 to 1e15, or nothing"},
        {"1,\"a,2,3", "column 2: a quote is not closed"},
        {"1,\"a\"b,2,3", "column 2: something follows a closing quote"},
        {"1,\"a\nb\",2,3", NULL},
    };
    const struct ctr_columns names = {"y", "age", "city"};
    struct ctr_parser *csv = csv_of(&names, "y,city,age,other");
    struct parsed p;

    (void)state;
    assert_non_null(csv);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int rc = parse_as("csv", csv, rows[i].line, strlen(rows[i].line), NULL, &p);

        assert_int_equal(rc, rows[i].reason ? -1 : 0);
        assert_string_equal(p.reason, rows[i].reason ? rows[i].reason : "");
        if (i == 0) {
            assert_true(p.label == 1.0F && p.dense[0] == -2.5F);
            assert_int_equal(p.ids[0], da_feature_id(14, "Paris, \"1er\"", 12, 1000001));
        }
        assert_true(i != 5 || (p.label == -1.0F && p.dense[0] == 0.0F));
        assert_true(i != 6 || isnan(p.label));
    }
    ctr_parser_free(csv);
}

/* What stands in a name is not between names. */
static void csv_is_cut_where_its_header_is(void **state) {
    static const struct {
        const char *header, *line;
    } rows[] = {
        {"\"price, EUR, net, old, used\";label;age;city", "\"9,5\";1;7;x"},
        {"label;age;\"city|town|place\";city", "1;7;z;x"},
        {"label\tage\tcity\tprice, EUR", "1\t7\tx\t9,5"},
        {"label|age|city", "1|7|x"},
    };
    const struct ctr_columns names = {"", "age", "city"};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctr_parser *csv = csv_of(&names, rows[i].header);
        struct parsed p;

        assert_non_null(csv);
        assert_int_equal(parse_as("csv", csv, rows[i].line, strlen(rows[i].line), NULL, &p), 0);
        assert_true(p.label == 1.0F && p.dense[0] == 7.0F);
        assert_int_equal(p.ids[0], da_feature_id(14, "x", 1, 1000001));
        ctr_parser_free(csv);
    }
}

static void csv_headers_that_do_not_fit_are_refused(void **state) {
    static const struct {
        struct ctr_columns columns;
        const char *header, *error;
    } rows[] = {
        {{"", "", ""}, "label,I1,I2",
            "f:1: no column \"I3\" in the header \"label,I1,I2\", did you mean \"I1\"?: "
            "--csv-label"},
        {{"", "a", "b"}, "label,a", "f:1: no column \"b\""},
        {{"", "a", "b"}, "a,b,a", "f:1: column \"a\" is there twice"},
        {{"", "a", "b"}, "a,\"b", "f:1: column 2: a quote is not closed"},
        {{"", "a", "b"}, "a,b,y", "f:1: no column \"label\" in the header \"a,b,y\": --csv-label"},
        {{"clickd", "a", "b"}, "a,b,\"clicked\"", "no column \"clickd\" in the header"},
        {{"clickd", "a", "b"}, "a|b|\"clicked\"", ", did you mean \"clicked\"?"},
        {{"", "a", "b,a"}, "a,b", "--csv-categories: column \"a\" is named twice"},
        {{"", "a", ","}, "a,b", "--csv-categories is \",\", expected names of columns, commas"},
        {{"", "1,2,3,4,5,6,7,8,9,10,11,12,13,14", ""}, "", "--csv-numbers: more than 13 columns"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctr_parser *csv = NULL;
        struct co_err err = {0};
        const char *header = rows[i].header;
        int rc = csv_new(&rows[i].columns, &csv, &err);

        rc = rc == 0 ? ctr_parser_header(
                           csv, "f:1", (struct da_text){header, strlen(header)}, true, &err)
                     : rc;
        assert_int_equal(rc, CO_INVALID);
        if (!strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i].error);
        }
        ctr_parser_free(csv);
    }
}

/* The README's table is that of the code. */
static void the_documented_formats(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20), table = CO_BUF(1 << 16);
    struct co_err err = {0};

    (void)state;
    assert_int_equal(co_file_read("examples/wide_and_deep/README.md", 1 << 20, &text, &err), 0);
    assert_int_equal(
        co_buf_adds(&table, "| `--format` | what | a line |\n| --- | --- | --- |\n", &err), 0);
    for (size_t i = 0; i < CTR_FORMATS; i++) {
        const struct ctr_format *f = &ctr_formats[i];
        const char *quote = f->example[0] != '\0' ? "`" : "";

        assert_int_equal(co_buf_addf(&table, &err, "| `%s` | %s | %s%s%s |\n", f->name, f->what,
                             quote, f->example, quote),
            0);
    }
    if (!strstr(text.data, table.data)) {
        fail_msg("examples/wide_and_deep/README.md lacks this table:\n%s", table.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_formats_give_the_same_sample),
        cmocka_unit_test(lines_of_slots),
        cmocka_unit_test(a_whole_line),
        cmocka_unit_test(ids_are_fixed),
        cmocka_unit_test(empty_features),
        cmocka_unit_test(numbers_in_other_forms),
        cmocka_unit_test(malformed_lines_say_why),
        cmocka_unit_test(blanks_around_fields_are_ignored),
        cmocka_unit_test(a_line_without_label),
        cmocka_unit_test(a_slot_that_the_model_lacks_is_named),
        cmocka_unit_test(slots_with_several_values),
        cmocka_unit_test(csv_with_criteos_names),
        cmocka_unit_test(csv_columns_may_have_any_names),
        cmocka_unit_test(csv_is_cut_where_its_header_is),
        cmocka_unit_test(csv_headers_that_do_not_fit_are_refused),
        cmocka_unit_test(the_documented_formats),
        cmocka_unit_test(a_nul_inside_a_number_is_malformed),
        cmocka_unit_test(ids_spread_evenly),
        cmocka_unit_test(generated_lines_parse_repeat_and_are_not_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
