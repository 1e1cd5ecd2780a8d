#include "common/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void text_and_bytes(void **state) {
    (void)state;
    static const struct {
        const char *plain, *text;
    } rows[] = {{"", ""}, {"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {"\xff\xfe", "//4="}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_base64(rows[i].plain, strlen(rows[i].plain));
        CO_AUTOFREE char *plain = NULL;
        size_t len;
        assert_string_equal(text, rows[i].text);
        assert_int_equal(co_base64_decode(text, &plain, &len, NULL), 0);
        assert_int_equal(len, strlen(rows[i].plain));
        assert_string_equal(plain, rows[i].plain);
    }
}

static void white_space_is_skipped(void **state) {
    (void)state;
    CO_AUTOFREE char *plain = NULL;
    size_t len;
    assert_int_equal(co_base64_decode(" Y W\tJ\r\nj\n", &plain, &len, NULL), 0);
    assert_string_equal(plain, "abc");
}

static void malformed_base64_is_refused(void **state) {
    (void)state;
    static const char *const rows[] = {"Y", "YQ", "YQ=", "YQ=a",
        "Y===", "====", "Y*==", "YQ==YQ==", "YR==", "YWJj-", "YWJj-YWJj", "-", "\n"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char *plain;
        size_t len;
        assert_int_equal(co_base64_decode(rows[i], &plain, &len, NULL), CO_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_bytes),
        cmocka_unit_test(white_space_is_skipped),
        cmocka_unit_test(malformed_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
