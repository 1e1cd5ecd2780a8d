/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <string.h>

#include "common/buf.h"
#include "common/json/json.h"

static const struct {
    const char *text, *want; /* want NULL: refused */
} rows[] = {
    {"{\"a\":1}", "{\"a\":1}"},
    {"{\"a\":99999999999999999999}", "{\"a\":1e20}"},
    {"[-99999999999999999999,9223372036854775807,9223372036854775808]",
        "[-1e20,9223372036854775807,9.2233720368547758e18]"},
    {"[12345678901234567890123,1.5,-2e3]", "[1.2345678901234568e22,1.5,-2000.0]"},
    {"{\"a\\u0000b\":\"\\\\u0000\"}", "{\"a\357\277\275b\":\"\\\\u0000\"}"},
    {"{\"\\u0000\":[{\"b\":\"}]\\\"{\"}]}", "{\"\357\277\275\":[{\"b\":\"}]\\\"{\"}]}"},
    {"[99999999999999999999", NULL},
    {"{\"\\u0000\":\"", NULL},
    {"[99999999999999999999,\"\\", NULL},
    {"", NULL},
};

static void odd_values_become_valid_json(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *j = NULL;
        struct co_err err = {0};
        int r = co_json_parse_odd(rows[i].text, strlen(rows[i].text), &j, &err);
        assert_int_equal(r != 0, rows[i].want == NULL);
        if (!r) {
            CO_AUTOFREE char *text = co_json_dump(j);
            CO_AUTOJSON json_t *want = NULL;
            assert_int_equal(co_json_parse(rows[i].want, strlen(rows[i].want), &want, &err), 0);
            CO_AUTOFREE char *wanted = co_json_dump(want);
            assert_string_equal(text, wanted);
        }
    }
}

static void nested(struct co_buf *b, size_t depth, const char *after) {
    for (size_t i = 0; i < depth; i++) {
        assert_int_equal(co_buf_adds(b, i % 2 ? "[" : "{\"a\":", NULL), 0);
    }
    assert_int_equal(co_buf_adds(b, "\"x]\"", NULL), 0);
    for (size_t i = depth; i-- > 0;) {
        assert_int_equal(co_buf_adds(b, i % 2 ? "]" : "}", NULL), 0);
    }
    assert_int_equal(co_buf_adds(b, after, NULL), 0);
}

static void only_values_nested_too_deep_are_cut(void **state) {
    (void)state;
    static const size_t depths[] = {900, 2046, 2047, 2100, 20000};
    for (size_t i = 0; i < CO_ARRAY_LEN(depths); i++) {
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
        assert_int_equal(co_buf_adds(&b, "{\"odd\":", NULL), 0);
        nested(&b, depths[i], ",\"good\":[1,{\"b\":2}]}");
        CO_AUTOJSON json_t *j = NULL;
        struct co_err err = {0};
        if (co_json_parse_odd(b.data, b.len, &j, &err)) {
            fail_msg("%zu levels: %s", depths[i], co_err_text(&err));
        }
        assert_int_equal(json_array_size(co_json_at(j, "good")), 2);
        assert_true(json_is_object(co_json_at(j, "odd")));
        CO_AUTOFREE char *text = co_json_dump(j);
        assert_int_equal(strstr(text, "null") != NULL, depths[i] >= 2047);
        CO_AUTOJSON json_t *again = NULL;
        assert_int_equal(co_json_parse(text, strlen(text), &again, NULL), 0);
        assert_true(json_equal(j, again));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_values_become_valid_json),
        cmocka_unit_test(only_values_nested_too_deep_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
