#include "common/parse.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void integers_are_read_whole_and_in_range(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int64_t min, max, v;
        const char *error;
    } rows[] = {
        {"0", 0, 10, 0, NULL},
        {"10", 0, 10, 10, NULL},
        {"-5", -5, 10, -5, NULL},
        {"+7", 0, 10, 7, NULL},
        {"007", 0, 10, 7, NULL},
        {"9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, NULL},
        {"-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, NULL},
        {"11", 0, 10, 0, "x: \"11\" is not an integer from 0 to 10"},
        {"-1", 0, 10, 0, "x: \"-1\" is not an integer from 0 to 10"},
        {"", 0, 10, 0, "x: \"\" is not an integer"},
        {"-", 0, 10, 0, "x: \"-\" is not an integer"},
        {"--1", 0, 10, 0, "x: \"--1\" is not an integer"},
        {"5 ", 0, 10, 0, "x: \"5 \" is not an integer"},
        {" 5", 0, 10, 0, "x: \" 5\" is not an integer"},
        {"- 5", -10, 10, 0, "x: \"- 5\" is not an integer"},
        {"5x", 0, 10, 0, "x: \"5x\" is not an integer"},
        {"0x5", 0, 10, 0, "x: \"0x5\" is not an integer"},
        {"5.0", 0, 10, 0, "x: \"5.0\" is not an integer"},
        {"9223372036854775808", INT64_MIN, INT64_MAX, 0, "\" is not an integer"},
        {"99999999999999999999", 0, 10, 0, "\" is not an integer from 0 to 10"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int64_t v = 77;
        struct co_err err = {0};
        int r = co_parse_i64("x", rows[i].s, rows[i].min, rows[i].max, &v, &err);
        assert_int_equal(r, rows[i].error ? CO_INVALID : 0);
        assert_int_equal(v, rows[i].error ? 77 : rows[i].v);
        if (rows[i].error && !strstr(err.msg, rows[i].error)) {
            fail_msg("%s", err.msg);
        }
    }
}

static void numbers_are_read_whole_and_in_range(void **state) {
    (void)state;
    static const struct {
        const char *s;
        double min, max;
        int code;
        double v;
    } rows[] = {
        {"0.5", 0, 1, 0, 0.5},
        {"1e-3", 0, 1, 0, 0.001},
        {".5", 0, 1, 0, 0.5},
        {"-2", -DBL_MAX, DBL_MAX, 0, -2},
        {"1.5", 0, 1, CO_INVALID, 0},
        {"nan", -INFINITY, INFINITY, CO_INVALID, 0},
        {"inf", -DBL_MAX, DBL_MAX, CO_INVALID, 0},
        {"1e999", -DBL_MAX, DBL_MAX, CO_INVALID, 0},
        {"", 0, 1, CO_INVALID, 0},
        {" 1", 0, 1, CO_INVALID, 0},
        {"1 ", 0, 1, CO_INVALID, 0},
        {"0,5", 0, 1, CO_INVALID, 0},
        {"x", 0, 1, CO_INVALID, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        double v = 77;
        struct co_err err = {0};
        assert_int_equal(
            co_parse_f64("x", rows[i].s, rows[i].min, rows[i].max, &v, &err), rows[i].code);
        assert_true(v == (rows[i].code ? 77 : rows[i].v));
    }
}

static void booleans_are_the_usual_words(void **state) {
    (void)state;
    static const char *const yes[] = {
        "1", "t", "T", "true", "True", "TRUE", "tRUE", "y", "Y", "yes", "Yes", "on", "ON"};
    static const char *const no[] = {
        "0", "f", "F", "false", "False", "FALSE", "fALSE", "n", "N", "no", "No", "off", "OFF"};
    static const char *const neither[] = {"", "2", "true ", "yess", "-1", "01", "o"};
    bool v;
    struct co_err err;
    for (size_t i = 0; i < CO_ARRAY_LEN(yes); i++) {
        v = false;
        assert_int_equal(co_parse_bool("x", yes[i], &v, &err), 0);
        assert_true(v);
        assert_int_equal(co_parse_bool("x", no[i], &v, &err), 0);
        assert_false(v);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(neither); i++) {
        assert_int_equal(co_parse_bool("x", neither[i], &v, &err), CO_INVALID);
    }
}

static void a_word_is_one_of_the_list(void **state) {
    (void)state;
    static const char *const words[] = {"one", "two", NULL};
    struct co_err err = {0};
    unsigned v = 9;
    assert_int_equal(co_parse_word("x", "two", words, false, &v, &err), 0);
    assert_int_equal(v, 1);
    assert_int_equal(co_parse_word("x", "One", words, true, &v, &err), 0);
    assert_int_equal(v, 0);
    v = 9;
    assert_int_equal(co_parse_word("x", "One", words, false, &v, &err), CO_INVALID);
    assert_string_equal(err.msg, "x is \"One\", expected one of one, two");
    assert_int_equal(v, 9);
}

static void durations_are_those_of_go(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int64_t ms;
    } rows[] = {
        {"0", 0},
        {"300ms", 300},
        {"15s", 15000},
        {"1m30s", 90000},
        {"1.5h", 5400000},
        {".5s", 500},
        {"+2s", 2000},
        {"1h1m1s1ms", 3661001},
        {"1500us", 1},
        {"1000000ns", 1},
        {"0s", 0},
        {"1.001s", 1001},
        {"4.35h", 15660000},
        {"2.s", 2000},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {".s", -1},
        {"1d", -1},
        {"1s ", -1},
        {" 1s", -1},
        {"1 s", -1},
        {"-1s", -1},
        {"1e3s", -1},
        {"0x10s", -1},
        {"1.2.3s", -1},
        {"infs", -1},
        {"1s5", -1},
        {"9999999999999999999h", -1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int64_t v = 77;
        struct co_err err = {0};
        int r = co_parse_duration("x", rows[i].s, &v, &err);
        if (r != (rows[i].ms < 0 ? CO_INVALID : 0) || v != (r ? 77 : rows[i].ms)) {
            fail_msg("\"%s\": %d, %lld", rows[i].s, r, (long long)v);
        }
    }
}

static void addresses_have_host_and_port(void **state) {
    (void)state;
    static const struct {
        const char *s, *host;
        int port;
        bool v6;
    } rows[] = {
        {"a.b:80", "a.b", 80, false},
        {"10.0.0.1:65535", "10.0.0.1", 65535, false},
        {":8080", "", 8080, false},
        {"[::1]:0", "::1", 0, true},
        {"[fe80::1:2]:36000", "fe80::1:2", 36000, true},
        {"", NULL, 0, false},
        {"a", NULL, 0, false},
        {"a:", NULL, 0, false},
        {"a:x", NULL, 0, false},
        {"a:65536", NULL, 0, false},
        {"a:-1", NULL, 0, false},
        {"a:+1", NULL, 0, false},
        {"a: 1", NULL, 0, false},
        {"a b:1", NULL, 0, false},
        {"::1:80", NULL, 0, false},
        {"::1", NULL, 0, false},
        {"[::1]", NULL, 0, false},
        {"[::1]80", NULL, 0, false},
        {"[::1:80", NULL, 0, false},
        {"[]:80", NULL, 0, false},
        {"[a]:80", NULL, 0, false},
        {"http://a:80", NULL, 0, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_hostport hp = {.host = "kept"};
        struct co_err err = {0};
        int r = co_parse_hostport("x", rows[i].s, &hp, &err);
        if (r != (rows[i].host ? 0 : CO_INVALID)) {
            fail_msg("\"%s\": %d %s", rows[i].s, r, err.msg);
        }
        assert_string_equal(hp.host, rows[i].host ? rows[i].host : "kept");
        if (r == 0) {
            assert_int_equal(hp.port, rows[i].port);
            assert_int_equal(hp.v6, rows[i].v6);
            char text[CO_HOST_MAX + 10];
            co_hostport_format(hp.host, hp.port, text, sizeof(text));
            assert_string_equal(text, rows[i].s);
        }
    }
    char longest[CO_HOST_MAX + 16];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + CO_HOST_MAX - 1, ":1", 3);
    struct co_hostport hp;
    assert_int_equal(co_parse_hostport("x", longest, &hp, NULL), 0);
    assert_int_equal(strlen(hp.host), CO_HOST_MAX - 1);
    longest[CO_HOST_MAX - 1] = 'a';
    memcpy(longest + CO_HOST_MAX, ":1", 3);
    assert_int_equal(co_parse_hostport("x", longest, &hp, NULL), CO_INVALID);
}

static void times_are_rfc_3339_in_utc(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int64_t seconds;
        int code;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"2021-02-08T07:43:24Z", 1612770204, 0},
        {"2021-02-08T07:43:24.123456Z", 1612770204, 0},
        {"2024-02-29T23:59:59Z", 1709251199, 0},
        {"0221-02-08T07:43:24Z", -55189786596, 0},
        {"9999-12-31T23:59:59Z", 253402300799, 0},
        {"2023-02-29T00:00:00Z", 0, CO_INVALID},
        {"2021-13-01T00:00:00Z", 0, CO_INVALID},
        {"2021-00-01T00:00:00Z", 0, CO_INVALID},
        {"2021-02-00T00:00:00Z", 0, CO_INVALID},
        {"2021-02-08T24:00:00Z", 0, CO_INVALID},
        {"2021-02-08T23:60:00Z", 0, CO_INVALID},
        {"2021-02-08T23:00:61Z", 0, CO_INVALID},
        {"2021-02-08T07:59:60Z", 1612771200, 0}, /* a leap second */
        {"2021-02-08T07:43:24", 0, CO_INVALID},
        {"2021-02-08T07:43:24+01:00", 0, CO_INVALID},
        {"2021-02-08 07:43:24Z", 0, CO_INVALID},
        {"2021-2-8T7:43:24Z", 0, CO_INVALID},
        {"2021-02-08T 7:43:24Z", 0, CO_INVALID},
        {" 2021-02-08T07:43:24Z", 0, CO_INVALID},
        {"2021-02-08T07:43:24Zx", 0, CO_INVALID},
        {"2021-02-08T07:43:24.Z", 0, CO_INVALID},
        {"2021-02-08", 0, CO_INVALID},
        {"", 0, CO_INVALID},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int64_t v = 77;
        struct co_err err = {0};
        int r = co_parse_time("x", rows[i].s, &v, &err);
        if (r != rows[i].code || v != (r ? 77 : rows[i].seconds)) {
            fail_msg("\"%s\": %d, %lld", rows[i].s, r, (long long)v);
        }
        char text[32];
        co_time_format(v, text);
        if (r == 0 && strlen(rows[i].s) == 20 && !strstr(rows[i].s, ":60Z")) {
            assert_string_equal(text, rows[i].s);
        }
    }
}

static void messages_quote_at_most_a_hundred_bytes(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'z', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct co_err err;
    int64_t i;
    bool b;
    struct co_hostport hp;
    assert_int_equal(co_parse_i64("x", text, 0, 9, &i, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 200);
    assert_int_equal(co_parse_bool("x", text, &b, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 200);
    assert_int_equal(co_parse_duration("x", text, &i, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 200);
    assert_int_equal(co_parse_time("x", text, &i, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 200);
    assert_int_equal(co_parse_hostport("x", text, &hp, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 250);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_whole_and_in_range),
        cmocka_unit_test(numbers_are_read_whole_and_in_range),
        cmocka_unit_test(booleans_are_the_usual_words),
        cmocka_unit_test(a_word_is_one_of_the_list),
        cmocka_unit_test(durations_are_those_of_go),
        cmocka_unit_test(addresses_have_host_and_port),
        cmocka_unit_test(times_are_rfc_3339_in_utc),
        cmocka_unit_test(messages_quote_at_most_a_hundred_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
