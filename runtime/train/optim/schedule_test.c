/* Schedules against testdata/schedule.txt, made by schedule.py beside it: real Paddle 3.3.1, and
 * the formulas of its ancestors' documents. */
#include "runtime/train/optim/schedule.h"

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

#define GOLDENS "runtime/train/optim/testdata/schedule.txt"

/* f64 here and there; Paddle makes its cosines step by step, which costs digits near 0. */
static void line_check(char *line) {
    struct rt_schedule s;
    char *at = strchr(line, ' ');

    *at++ = '\0';
    double lr = strtod(at, &at);
    uint64_t t = strtoull(at, &at, 10);
    double want = strtod(at, NULL);
    double tolerance = strncmp(line, "cosine", 6) == 0 ? 1e-9 : 1e-12;
    assert_int_equal(optim_schedule_parse(line, &s, NULL), 0);
    double got = optim_schedule_rate(&s, lr, t);
    if (!(fabs(got - want) <= tolerance * fabs(want) + 1e-17)) {
        fail_msg("%s lr %g t %llu: %.17g, not %.17g", line, lr, (unsigned long long)t, got, want);
    }
}

static void rates_are_paddles(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    size_t lines = 0;

    (void)state;
    assert_int_equal(co_file_read(GOLDENS, 1 << 20, &text, NULL), 0);
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        line_check(line);
    }
    assert_int_equal(lines, 26 * 12);
}

static void schedules_have_a_text_form(void **state) {
    static const struct {
        const char *text;
        const char *said; /* NULL: fine */
    } rows[] = {
        {NULL, NULL},
        {"", NULL},
        {"constant:", "\"\" is not key=value"},
        {"cosines", "expected one of constant, exponential"},
        {"cosine:steps", "\"steps\" is not key=value"},
        {"cosine:steps=0", "steps"},
        {"cosine:steps=1,steps=2", "schedule \"cosine\": \"steps\" is twice in "},
        {"piecewise:at=1,values=1:2,at=2", "\"at\" is twice in "},
        {"cosine:gamma=1", "schedule \"cosine\": there is no parameter \"gamma\""},
        {"cosine:at=1", "no parameter \"at\""},
        {"multi_step", "at is missing"},
        {"multi_step:at=", "at"},
        {"multi_step:at=1:", "at"},
        {"multi_step:at=3:3", "3 is not above 3"},
        {"multi_step:at=1,values=1", "no parameter \"values\""},
        {"piecewise:at=1:2,values=1:2", "2 values for 2 steps of at, expected 3"},
        {"manual:at=1:2,values=1:2", NULL},
        {"manual:at=1:2,values=1", "1 values for 2 steps of at, expected 2"},
        {"manual:at=1,values=-1", "values"},
        {"manual:at=0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24:25:26:27:28:"
         "29:"
         "30:31:32,values=1",
            "more than 32"},
        {"exponential:gamma=nan", "gamma"},
        {"constant:warmup=-1", "warmup"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_schedule s;
        struct co_err err = {0};

        assert_int_equal(
            optim_schedule_parse(rows[i].text, &s, &err), rows[i].said ? CO_INVALID : 0);
        if (rows[i].said && !strstr(co_err_text(&err), rows[i].said)) {
            fail_msg("'%s' lacks '%s'", co_err_text(&err), rows[i].said);
        }
    }
}

/* Whatever the parameters, t and lr. */
static void rates_are_numbers_within_bounds(void **state) {
    static const char *const texts[] = {"exponential:gamma=1e30", "natural_exp:gamma=1e30",
        "polynomial:steps=1,power=1e30,end=1e30", "polynomial:steps=1e30,cycle=1,power=0",
        "poly:a=1e30,b=1e30", "exp:a=0,b=1e-30", "caffe_poly:a=1e-30,b=0", "linear:a=1e30",
        "noam:d_model=1e-30,warmup_steps=1", "pass_manual:at=1,values=1e30"};
    static const uint64_t ts[] = {0, 1, 1000, 1ULL << 53, UINT64_MAX};
    static const double lrs[] = {0, 1e-30, 0.1, 1e30};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct rt_schedule s;

        assert_int_equal(optim_schedule_parse(texts[i], &s, NULL), 0);
        for (size_t k = 0; k < CO_ARRAY_LEN(ts) * CO_ARRAY_LEN(lrs); k++) {
            double rate =
                optim_schedule_rate(&s, lrs[k % CO_ARRAY_LEN(lrs)], ts[k / CO_ARRAY_LEN(lrs)]);

            assert_true(rate >= 0 && rate <= 1e30);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_paddles),
        cmocka_unit_test(schedules_have_a_text_form),
        cmocka_unit_test(rates_are_numbers_within_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
