/* Log lines in JSON, by our own reader of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/json/json.h"
#include "common/log_testing.h"

static json_t *object(void) {
    const char *text = logged();
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    json_t *j = NULL;
    struct co_err err;
    if (co_json_parse(text, strlen(text), &j, &err)) {
        fail_msg("%s: %s", err.msg, text);
    }
    return j;
}

static void json_lines_are_objects(void **state) {
    (void)state;
    co_log_setup(CO_LOG_INFO, CO_LOG_JSON);
    co_log_info("job \"x\"", CO_S("job", "a\n\x01\\"), CO_I("pods", -4), CO_B("ok", true),
        CO_F("took", 0.25));
    CO_AUTOJSON json_t *j = object();
    assert_string_equal(co_json_str(j, "msg"), "job \"x\"");
    assert_string_equal(co_json_str(j, "level"), "info");
    assert_string_equal(co_json_str(j, "job"), "a\n\x01\\");
    assert_int_equal(json_integer_value(co_json_at(j, "pods")), -4);
    assert_true(json_is_true(co_json_at(j, "ok")));
    assert_true(json_real_value(co_json_at(j, "took")) == 0.25);
}

static void json_stays_valid_when_cut_or_fed_with_garbage(void **state) {
    (void)state;
    co_log_setup(CO_LOG_INFO, CO_LOG_JSON);
    static const char *const units[] = {"x", "\\", "\"", "\n", "\x01", "\xc3\xa9",
        "\xf0\x9f\x98\x80", "\xff", "\xc3", "\xed\xa0\x80"};
    for (size_t u = 0; u < CO_ARRAY_LEN(units); u++) {
        for (size_t shift = 0; shift < 8; shift++) {
            char text[6000] = "";
            memset(text, 'a', 3900 + shift);
            size_t len = 3900 + shift;
            while (len + strlen(units[u]) < sizeof(text)) {
                memcpy(text + len, units[u], strlen(units[u]) + 1);
                len += strlen(units[u]);
            }
            co_log_info("x", CO_S("long", text), CO_I("after", 1), CO_S("last", "y"));
            CO_AUTOJSON json_t *j = object();
            assert_non_null(co_json_str(j, "long"));
        }
    }
    /* numbers and keys at the edge */
    for (size_t len = 3950; len < 4096; len++) {
        char text[6000] = "";
        memset(text, 'a', len);
        co_log_info("x", CO_S("s", text), CO_I("number", 123456789), CO_F("inf", 1e308 * 10),
            CO_B("b", true), CO_S("k", "v"));
        json_decref(object());
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, log_begin, log_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(json_lines_are_objects),
        T(json_stays_valid_when_cut_or_fed_with_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
