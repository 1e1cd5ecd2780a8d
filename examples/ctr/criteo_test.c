/* Tests parsing a line of the Criteo format: values, the fixed hash, and all kinds of malformed
 * lines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "examples/ctr/criteo.h"
#include "examples/ctr/slots.h"
#include "examples/ctr/gen.h"

#define NUMBERS "\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13"
#define NAMES "\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz"
#define NO_NUMBERS "\t\t\t\t\t\t\t\t\t\t\t\t\t"
#define NO_NAMES "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"

struct parsed {
    uint64_t ids[CTR_CRITEO_SLOTS];
    float dense[CTR_CRITEO_DENSE];
    float label;
    char reason[CTR_CRITEO_REASON_MAX];
};

static int parse(const char *line, size_t len, struct parsed *p) {
    memset(p, 0, sizeof(*p));
    return ctr_criteo_parse(line, len, 1000001, p->ids, p->dense, &p->label, p->reason);
}

static void test_a_whole_line(void **state) {
    static const char line[] = "1" NUMBERS NAMES;
    static const double dense[] = {1.0 / 20, 5.0 / 603, 3.0 / 100, 4.0 / 50, 5.0 / 64000, 6.0 / 500,
        7.0 / 100, 8.0 / 50, 9.0 / 500, 1.0, 1.1, 1.2, 13.0 / 50};
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, strlen(line), &p), 0);
    assert_true(p.label == 1.0F);
    for (size_t i = 0; i < CTR_CRITEO_DENSE; i++) {
        assert_true(fabs((double)p.dense[i] - dense[i]) < 1e-7);
    }
    for (size_t i = 0; i < CTR_CRITEO_SLOTS; i++) {
        char name = (char)('a' + (char)i);

        assert_int_equal(p.ids[i], ctr_criteo_id((unsigned)(14 + i), &name, 1, 1000001));
    }
}

/* The hash is part of the format of saved models: computed apart from this code. */
static void test_ids_are_fixed(void **state) {
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
            ctr_criteo_id(rows[i].column, rows[i].value, strlen(rows[i].value), 1000001),
            rows[i].id);
    }
}

static void test_empty_features(void **state) {
    static const char line[] = "0" NO_NUMBERS NO_NAMES;
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, strlen(line), &p), 0);
    assert_true(p.label == 0.0F);
    for (size_t i = 0; i < CTR_CRITEO_DENSE; i++) {
        assert_true(p.dense[i] == 0.0F);
    }
    assert_int_equal(p.ids[0], ctr_criteo_id(14, "", 0, 1000001));
    assert_int_not_equal(p.ids[0], p.ids[1]);
}

static void test_numbers_in_other_forms(void **state) {
    static const struct {
        const char *text;
        double x; /* of column 3, normalised */
    } rows[] = {{"-3", 0}, {"600", 1}, {"1.5", 4.5 / 603}, {"-0", 3.0 / 603}, {"1e2", 103.0 / 603},
        {"999999999999999", 1000000000000002.0 / 603}};

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

static void test_malformed_lines_say_why(void **state) {
    static const struct {
        const char *line;
        const char *reason;
    } rows[] = {
        {"", "1 columns, expected 40"},
        {"1\t2", "2 columns, expected 40"},
        {"1" NUMBERS, "14 columns, expected 40"},
        {"1" NUMBERS NAMES "\t", "41 columns, expected 40"},
        {"" NUMBERS NAMES, "column 1 is \"\", expected 0 or 1"},
        {"2" NUMBERS NAMES, "column 1 is \"2\", expected 0 or 1"},
        {"01" NUMBERS NAMES, "column 1 is \"01\", expected 0 or 1"},
        {"1\tx\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"x\", expected a number"},
        {"1\t-\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \"-\", expected a number"},
        {"1\t 1\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES, "column 2 is \" 1\", expected a number"},
        {"1\t\t\t\t\t\t\t\t\t\t\t\t\tnan" NO_NAMES, "column 14 is \"nan\", expected a number"},
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

static void test_a_carriage_return_at_the_end_is_dropped(void **state) {
    static const char unix_line[] = "1" NUMBERS NAMES, dos_line[] = "1" NUMBERS NAMES "\r";
    struct parsed a, b;

    (void)state;
    assert_int_equal(parse(unix_line, strlen(unix_line), &a), 0);
    assert_int_equal(parse(dos_line, strlen(dos_line), &b), 0);
    assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
}

static void test_a_nul_inside_a_number_is_malformed(void **state) {
    static const char line[] = "1\t1\0002\t\t\t\t\t\t\t\t\t\t\t\t" NO_NAMES;
    struct parsed p;

    (void)state;
    assert_int_equal(parse(line, sizeof(line) - 1, &p), -1);
}

static void test_ids_spread_evenly(void **state) {
    enum { BINS = 101, VALUES = 50500 };
    unsigned bins[BINS] = {0};

    (void)state;
    for (unsigned i = 0; i < VALUES; i++) {
        char value[16];
        int n = snprintf(value, sizeof(value), "%08x", i);
        uint64_t id = ctr_criteo_id(14 + i % 26, value, (size_t)n, 1000001);

        assert_true(id < 1000001);
        bins[id / ((1000001 + BINS - 1) / BINS)]++;
    }
    for (size_t i = 0; i < BINS; i++) {
        assert_true(bins[i] > 380 && bins[i] < 620);
    }
}

static void test_generated_lines_parse_repeat_and_are_not_random(void **state) {
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

static void test_both_formats_give_the_same_sample(void **state) {
    struct ctr_gen g;

    (void)state;
    ctr_gen_init(&g, 5);
    for (uint64_t i = 0; i < 50; i++) {
        char a[CTR_GEN_LINE_MAX], b[CTR_GEN_LINE_MAX], reason[CTR_CRITEO_REASON_MAX] = "";
        uint64_t ids[2][CTR_CRITEO_SLOTS];
        float dense[2][CTR_CRITEO_DENSE], label[2];
        size_t n = ctr_gen_line(&g, i, a), m = ctr_gen_slots(&g, i, 1000001, b);

        assert_int_equal(ctr_line_parse(a, n, 1000001, ids[0], dense[0], &label[0], reason), 0);
        assert_int_equal(ctr_line_parse(b, m, 1000001, ids[1], dense[1], &label[1], reason), 0);
        assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
        assert_memory_equal(dense[0], dense[1], sizeof(dense[0]));
        assert_true(label[0] == label[1]);
    }
}

static void test_lines_of_slots(void **state) {
    static const struct {
        const char *line;
        const char *reason; /* NULL: it is taken */
    } rows[] = {
        {"click:1", NULL},
        {" 26:1000002\tclick:1 dense_feature:0.5 99:7 user:x \r", NULL},
        {"1:5 2:6", "no click:0 or click:1"},
        {"click:2", "word 1 is \"click:2\", expected click once, 0 or 1"},
        {"click:1 click:1", "word 2 is \"click:1\", expected click once, 0 or 1"},
        {"click:0 3:1 3:2", "word 3 is \"3:2\", expected each slot once"},
        {"click:0 3:-1", "word 2 is \"3:-1\", expected an id"},
        {"click:0 dense_feature:nan", "word 2 is \"dense_feature:nan\", expected a number"},
        {"click:0 :5", "word 2 is \":5\", expected slot:value"},
        {"click:0 5", "word 2 is \"5\", expected slot:value"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char reason[CTR_CRITEO_REASON_MAX] = "";
        uint64_t ids[CTR_CRITEO_SLOTS];
        float dense[CTR_CRITEO_DENSE], label;
        int rc =
            ctr_line_parse(rows[i].line, strlen(rows[i].line), 1000001, ids, dense, &label, reason);

        assert_int_equal(rc, rows[i].reason ? -1 : 0);
        assert_string_equal(reason, rows[i].reason ? rows[i].reason : "");
        if (i == 1) {
            assert_true(ids[25] == 1 && ids[0] == 0 && dense[0] == 0.5F && dense[1] == 0.0F);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_formats_give_the_same_sample),
        cmocka_unit_test(test_lines_of_slots),
        cmocka_unit_test(test_a_whole_line),
        cmocka_unit_test(test_ids_are_fixed),
        cmocka_unit_test(test_empty_features),
        cmocka_unit_test(test_numbers_in_other_forms),
        cmocka_unit_test(test_malformed_lines_say_why),
        cmocka_unit_test(test_a_carriage_return_at_the_end_is_dropped),
        cmocka_unit_test(test_a_nul_inside_a_number_is_malformed),
        cmocka_unit_test(test_ids_spread_evenly),
        cmocka_unit_test(test_generated_lines_parse_repeat_and_are_not_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
