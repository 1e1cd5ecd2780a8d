/* Rows against testdata/init.txt, which init.py beside it makes of the same formulas. */
#include "runtime/train/optim/init.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"

#define GOLDENS "runtime/train/optim/testdata/init.txt"

enum { DIM_MAX = 64 };

/* text, seed, id, length, values; the tolerance is that of nine digits. */
static void line_check(char *line) {
    struct optim_initializer in;
    float got[DIM_MAX];
    char *at = strchr(line, ' ');

    *at++ = '\0';
    uint64_t seed = strtoull(at, &at, 10), id = strtoull(at, &at, 10);
    size_t dim = strtoul(at, &at, 10);
    assert_in_range(dim, 1, DIM_MAX);
    assert_int_equal(optim_initializer_parse(line, seed, &in, NULL), 0);
    optim_initializer_row(&in, id, dim, got);
    for (size_t k = 0; k < dim; k++) {
        double want = strtod(at, &at);

        if (!(fabs((double)got[k] - want) <= 1e-7 * (1e-3 + fabs(want)))) {
            fail_msg("%s id %llu [%zu]: %.9g, not %.9g", line, (unsigned long long)id, k,
                (double)got[k], want);
        }
    }
}

static void rows_are_what_their_formulas_say(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    size_t lines = 0;

    (void)state;
    assert_int_equal(co_file_read(GOLDENS, 1 << 20, &text, NULL), 0);
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        line_check(line);
    }
    assert_int_equal(lines, 45);
}

static void truncated_normal_values_stay_within_their_bounds(void **state) {
    static const struct {
        const char *text;
        float min, max;
    } rows[] = {{"truncated_normal", -2, 2},
        {"truncated_normal:mean=5,std=0.5,a=1,b=1.5", 5.5F, 5.75F},
        {"truncated_normal:a=7,b=8", 7, 8}, {"truncated_normal:a=-9,b=-8.5", -9, -8.5F},
        {"truncated_normal:a=50,b=51", 50, 51}, {"truncated_normal:a=-51,b=-50", -51, -50}};
    static float row[10000];

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct optim_initializer in;

        assert_int_equal(optim_initializer_parse(rows[i].text, 3, &in, NULL), 0);
        optim_initializer_row(&in, 1, CO_ARRAY_LEN(row), row);
        for (size_t k = 0; k < CO_ARRAY_LEN(row); k++) {
            assert_true(row[k] >= rows[i].min && row[k] <= rows[i].max);
        }
    }
}

/* 0.8796 is the deviation of a normal distribution that ends at 2 of its own. */
static void moments(void **state) {
    static const struct {
        const char *text;
        double mean, std;
    } rows[] = {{"truncated_normal:mean=3", 3, 0.8796}, {"xavier:fan_in=1,fan_out=2", 0, 0.8165},
        {"xavier:uniform=0,fan_in=1,fan_out=2", 0, 0.8165}};
    static float row[100000];
    size_t n = CO_ARRAY_LEN(row);

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct optim_initializer in;
        double sum = 0, squares = 0;

        assert_int_equal(optim_initializer_parse(rows[i].text, 3, &in, NULL), 0);
        optim_initializer_row(&in, 1, n, row);
        for (size_t k = 0; k < n; k++) {
            sum += (double)row[k];
            squares += ((double)row[k] - rows[i].mean) * ((double)row[k] - rows[i].mean);
        }
        assert_true(fabs(sum / (double)n - rows[i].mean) < 0.015);
        assert_true(fabs(sqrt(squares / (double)n) - rows[i].std) < 0.01);
    }
}

static void errors_name_the_invalid_parameter(void **state) {
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"xavier:fan=1", "\"xavier\" has no parameter \"fan\""},
        {"xavier:uniform=2", "uniform"},
        {"truncated_normal:a=2,b=2", "a 2 is not below b 2"},
        {"truncated_normal:std=-1", "std"},
        {"normal:std=-1", "std"},
        {"uniform:min=1,max=0", "initializer \"uniform\": min 1 is above max 0"},
        {"normal:std=1,mean=0,std=2", "initializer \"normal\": \"std\" is twice in "},
        {"normal:", "\"\" is not key=value"},
        {"kaiming", "expected one of zero, constant, uniform, normal, truncated_normal, xavier"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct optim_initializer in;
        struct co_err err = {0};

        assert_int_equal(optim_initializer_parse(rows[i].text, 0, &in, &err), CO_INVALID);
        if (!strstr(co_err_text(&err), rows[i].said)) {
            fail_msg("'%s' lacks '%s'", co_err_text(&err), rows[i].said);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_their_formulas_say),
        cmocka_unit_test(truncated_normal_values_stay_within_their_bounds),
        cmocka_unit_test(moments),
        cmocka_unit_test(errors_name_the_invalid_parameter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
