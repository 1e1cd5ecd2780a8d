#include "common/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void utf8_characters_have_lengths_and_invalid_bytes_none(void **state) {
    (void)state;
    static const struct {
        const char *s;
        size_t left, len;
    } rows[] = {
        {"a", 1, 1},
        {"", 1, 1}, /* NUL is a character; who ends at it looks first */
        {"\x7f", 1, 1},
        {"\x80", 4, 0},
        {"\xc1\xbf", 4, 0}, /* longer than needed */
        {"\xc2\x80", 2, 2},
        {"\xc2\x80", 1, 0}, /* cut */
        {"\xc2z", 4, 0},
        {"\xe0\x9f\xbf", 4, 0},
        {"\xe0\xa0\x80", 3, 3},
        {"\xe2\x82\xac", 2, 0},
        {"\xed\x9f\xbf", 4, 3},
        {"\xed\xa0\x80", 4, 0}, /* half of a pair */
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xf0\x9f\x98\x80", 4, 4},
        {"\xf0\x9f\x98", 4, 0}, /* the NUL ends it */
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xff", 4, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(co_utf8_len(rows[i].s, rows[i].left), rows[i].len);
    }
}

static void invalid_utf8_is_detected(void **state) {
    (void)state;
    static const char *const good[] = {"", "a", "\xe2\x82\xac/\xf0\x9f\x98\x80z"};
    static const char *const bad[] = {"\xff", "a\xe2\x82", "\xe2\x82/", "ok\xc0\x80"};
    for (size_t i = 0; i < CO_ARRAY_LEN(good); i++) {
        assert_true(co_utf8_valid(good[i]));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        assert_false(co_utf8_valid(bad[i]));
    }
}

static void a_cut_last_character_is_trimmed(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"", ""}, {"a", "a"}, {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"a\xe2\x82", "a"}, {"a\xe2", "a"}, {"\xe2\x82", ""}, {"a\xf0\x9f\x98", "a"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}, {"\xe2\x82\xac\xe2", "\xe2\x82\xac"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char text[8];
        (void)snprintf(text, sizeof(text), "%s", rows[i][0]);
        co_utf8_trim(text);
        assert_string_equal(text, rows[i][1]);
    }
}

static void a_text_is_cut_between_characters(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int max, fits;
    } rows[] = {{"", 3, 0}, {"abc", 0, 0}, {"abc", 2, 2}, {"abc", 3, 3}, {"abc", 4, 3},
        {"a\xe2\x82\xac", 3, 1}, {"a\xe2\x82\xac", 4, 4},
        {"a\xe2\x82\xac"
         "b",
            4, 4},
        {"\xf0\x9f\x98\x80", 3, 0}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(co_utf8_fit(rows[i].s, rows[i].max), rows[i].fits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_characters_have_lengths_and_invalid_bytes_none),
        cmocka_unit_test(invalid_utf8_is_detected),
        cmocka_unit_test(a_cut_last_character_is_trimmed),
        cmocka_unit_test(a_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
