/* Samples of any process; lines made of two reads. */
#include "runtime/tools/top/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct top_samples parse(const char *text, double at) {
    struct top_samples s = {0};
    struct co_err err = {0};
    if (top_samples_parse(text, strlen(text), at, &s, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return s;
}

static void malformed_samples_are_skipped(void **state) {
    (void)state;
    struct top_samples s = parse("# HELP a b\na 1\na{x=\"1\",y=\"2\"} 2.5\nb{x=\"}\\\"\"} NaN\n\n"
                                 "c\n{} 1\nd{ 4\ne{x=\"1\"}5\n f 1\ng x\na{x=\"3\"} 4",
        1);
    assert_int_equal(s.n, 4);
    assert_true(top_samples_sum(&s, "a", NULL) == 7.5);
    assert_true(top_samples_sum(&s, "a", "2") == 2.5);
    assert_true(top_samples_sum(&s, "a", "4") == 0);
    assert_true(top_samples_have(&s, "a", "3") && !top_samples_have(&s, "a", "4"));
    assert_true(isnan(top_samples_sum(&s, "b", NULL)));
    top_samples_done(&s);
}

static void too_many_samples_are_refused(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    for (int i = 0; i <= TOP_SAMPLES_MAX; i++) {
        assert_int_equal(co_buf_addf(&b, NULL, "a %d\n", i), 0);
    }
    struct top_samples s = {0};
    struct co_err err = {0};
    assert_int_equal(top_samples_parse(b.data, b.len, 0, &s, &err), CO_NORESOURCE);
    assert_null(s.text);
}

#define BUCKETS(a, b, c)                                                                           \
    "h_bucket{op=\"x\",le=\"0.1\"} " #a "\nh_bucket{op=\"x\",le=\"1\"} " #b                        \
    "\nh_bucket{op=\"x\",le=\"+Inf\"} " #c "\n"

static void quantiles_cover_the_samples_since_the_last_table(void **state) {
    (void)state;
    struct top_samples old = parse(BUCKETS(100, 100, 100), 1),
                       now = parse(BUCKETS(101, 109, 110), 2);
    assert_true(top_samples_quantile(&now, NULL, "h", "x", .5) == .1);
    assert_true(top_samples_quantile(&now, &old, "h", "x", .5) == 1);
    assert_true(isinf(top_samples_quantile(&now, &old, "h", "x", .99)));
    assert_true(isnan(top_samples_quantile(&old, &old, "h", "x", .5)));
    assert_true(isnan(top_samples_quantile(&now, &old, "h", "y", .5)));
    top_samples_done(&old);
    top_samples_done(&now);
}

static void a_quantile_of_a_restarted_process_covers_all_its_samples(void **state) {
    (void)state;
    static const struct {
        const char *before, *now;
        double quantile, is; /* NaN: "-" */
    } rows[] = {
        {BUCKETS(100, 100, 100), BUCKETS(9, 10, 10), .5, .1},
        {BUCKETS(100, 100, 100), BUCKETS(0, 10, 10), .5, 1},
        {BUCKETS(100, 100, 100), BUCKETS(0, 0, 0), .5, NAN},
        {BUCKETS(0, 0, 0), BUCKETS(0, 0, 1), .99, INFINITY},
        {"", BUCKETS(1, 1, 1), .99, .1},
        {"h_bucket{op=\"x\",le=\"+Inf\"} 4\n", BUCKETS(4, 5, 5), .5, .1},
        {"", "h_bucket{op=\"x\",le=\"1\"} 5\n", .5, NAN}, /* no bucket has all */
        {"", "h_bucket{scale=\"7\",op=\"x\",le=\"1\"} 5\nh_bucket{op=\"x\",le=\"+Inf\"} 5\n", .5,
            1},
        {"", "h_bucket{op=\"x\"} 5\nh_bucket{op=\"x\",le=\"+Inf\"} 5\n", .5, NAN},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct top_samples old = parse(rows[i].before, 1), now = parse(rows[i].now, 2);
        const double is = top_samples_quantile(&now, &old, "h", "x", rows[i].quantile);
        if (isnan(is) ? !isnan(rows[i].is) : is != rows[i].is) {
            fail_msg("row %zu: %g, expected %g", i, is, rows[i].is);
        }
        top_samples_done(&old);
        top_samples_done(&now);
    }
}

static const char server_before[] =
    "process_start_time_seconds 90\npaddlert_server_memory_limit_bytes 2048\n"
    "paddlert_server_request_seconds_count{op=\"pull\"} 100\n";
static const char server_now[] =
    "process_start_time_seconds 90\npaddlert_server_memory_limit_bytes 2048\n"
    "paddlert_server_memory_bytes 1024\npaddlert_server_rows{table=\"a\"} 12000\n"
    "paddlert_server_rows{table=\"b\"} 500\n"
    "paddlert_server_request_seconds_count{op=\"pull\"} 160\n"
    "paddlert_server_trainers{state=\"alive\"} 2\npaddlert_server_trainers{state=\"lost\"} 1\n"
    "paddlert_server_checkpoint_number 7\npaddlert_server_checkpoint_timestamp_seconds 92\n";
static const char trainer[] =
    "process_start_time_seconds 90\npaddlert_trainer_steps_total 50\n"
    "paddlert_reported{name=\"loss\"} 0.25\npaddlert_trainer_call_seconds_sum{call=\"pull\"} 4\n";

static void servers_trainers_and_the_silent(void **state) {
    (void)state;
    struct top_samples before = parse(server_before, 100), now = parse(server_now, 102);
    struct top_samples t = parse(trainer, 100), other = parse("up 1\n", 1);
    struct top_target targets[] = {{.name = "silent:1", .why = "no route"},
        {.name = "t:2", .now = &t}, {.name = "s:3", .now = &now, .before = &before},
        {.name = "o:4", .now = &other}};
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    assert_int_equal(top_table_print(targets, 4, &b, NULL), 0);
    static const char *const want[] = {
        "SERVER      ROWS  MEMORY   USED  PULL/s ", /* as wide as the longest name */
        "\ns:3        12.5k    1.0K  50.0%      30      -       0 ",
        "   2/3 ",
        "    7/10s ",
        "\nTRAINER     STEP  STEP/s EXAMPLES/s     LOSS ",
        "\nt:2           50       5          -     0.25        -   40% ",
        "\nsilent:1 no route\n",
        "\no:4 neither a server nor a trainer\n",
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        if (!strstr(b.data, want[i])) {
            fail_msg("'%s' is not in\n%s", want[i], b.data);
        }
    }
    top_samples_done(&before);
    top_samples_done(&now);
    top_samples_done(&t);
    top_samples_done(&other);
}

/* A cell is as wide as its column whatever the number is; of a server, of a trainer. */
static void numbers_of_any_size_fit_their_columns(void **state) {
    (void)state;
#define S "process_start_time_seconds 90\npaddlert_server_memory_limit_bytes 100\n"
#define T "process_start_time_seconds 90\npaddlert_trainer_steps_total "
#define TOOK(bound)                                                                                \
    S "paddlert_server_request_seconds_bucket{op=\"pull\",le=\"" bound "\"} 5\n"                   \
      "paddlert_server_request_seconds_bucket{op=\"pull\",le=\"+Inf\"} 5\n"
    static const struct {
        const char *before, *now, *want;
    } rows[] = {
        {NULL, S "paddlert_server_rows 9999\n", "x    9999 "},
        {NULL, S "paddlert_server_rows 9999.4\n", "x    9999 "},
        {NULL, S "paddlert_server_rows 9999.5\n", "x   10.0k "},
        {NULL, S "paddlert_server_rows 1e15\n", "x 1000.0T "},
        {NULL, S "paddlert_server_rows -5\n", "x      -5 "},
        {NULL, S "paddlert_server_rows NaN\n", "x     nan "},
        {NULL, S "paddlert_server_memory_bytes 1023\n", "   1023B 1023.0% "},
        {NULL, S "paddlert_server_memory_bytes 1024\n", "    1.0K 1024.0% "},
        {NULL, S "paddlert_server_memory_bytes 1125899906842624\n", "   1024T "},
        {NULL, "paddlert_server_memory_limit_bytes 0\npaddlert_server_memory_bytes 5\n",
            "      5B   0.0% "}, /* no division by none */
        {NULL, TOOK("5e-06"), "    5us "},
        {NULL, TOOK("0.0005"), "  500us "},
        {NULL, TOOK("0.0025"), "  2.5ms "},
        {NULL, TOOK("0.999"), "  999ms "},
        {NULL, TOOK("0.9996"), "     1s "},
        {NULL, TOOK("10"), "    10s "},
        {NULL, TOOK("7200"), "   2.0h "},
        {NULL, TOOK("+Inf"), "  >10s "},
        {NULL, S "paddlert_server_request_seconds_bucket{op=\"pull\"} 5\n", "     - "},
        {NULL, S "paddlert_server_checkpoint_number 7\n", " 7/100s "},
        {NULL, S "paddlert_server_checkpoint_number 0\n", "        - "},
        {NULL, T "50\n", "x      50       5 "},
        {T "40\n", T "50\n", "x      50       5 "},
        {T "90\n", T "50\n", "x      50      25 "}, /* another process: its own 50 in 2 s */
        {T "50\n", T "50\n", "x      50       0 "},
        {NULL, T "5\npaddlert_reported_step 7\n", "x       7 "},
        {NULL, T "5\npaddlert_reported{name=\"loss\"} 123456\n", "  123.5k "},
        {NULL, T "5\npaddlert_reported{name=\"loss\"} 0.123456\n", " 0.12346 "},
        {NULL, T "5\npaddlert_reported{name=\"loss\"} NaN\n", "      nan "},
        {NULL, T "5\npaddlert_trainer_call_seconds_sum{call=\"checkpoint\"} 9\n", "    0% "},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct top_samples before = parse(rows[i].before ? rows[i].before : "", 98),
                           now = parse(rows[i].now, 100);
        const struct top_target target = {
            .name = "x", .now = &now, .before = rows[i].before ? &before : NULL};
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
        assert_int_equal(top_table_print(&target, 1, &b, NULL), 0);
        if (!strstr(b.data, rows[i].want)) {
            fail_msg("row %zu: '%s' is not in\n%s", i, rows[i].want, b.data);
        }
        top_samples_done(&before);
        top_samples_done(&now);
    }
}

/* A name that is longer than a cell is cut, the others stay below their heads. */
static void a_long_name_moves_no_column(void **state) {
    (void)state;
    struct top_samples now = parse(server_now, 102);
    char name[200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const struct top_target targets[] = {{.name = name, .now = &now}, {.name = "s", .now = &now}};
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    assert_int_equal(top_table_print(targets, 2, &b, NULL), 0);
    const char *line = b.data;
    const size_t len = strcspn(line, "\n");
    for (int i = 0; i < 3; i++, line += len + 1) {
        assert_int_equal(strcspn(line, "\n"), len);
    }
    assert_string_equal(line, "");
    top_samples_done(&now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_samples_are_skipped),
        cmocka_unit_test(too_many_samples_are_refused),
        cmocka_unit_test(quantiles_cover_the_samples_since_the_last_table),
        cmocka_unit_test(a_quantile_of_a_restarted_process_covers_all_its_samples),
        cmocka_unit_test(servers_trainers_and_the_silent),
        cmocka_unit_test(numbers_of_any_size_fit_their_columns),
        cmocka_unit_test(a_long_name_moves_no_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
