#include "runtime/launch/options/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void a_text_is_split_without_blanks_and_empty_parts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        char between;
        const char *joined; /* with "|"; NULL: nothing */
    } rows[] = {
        {"", ',', NULL},
        {"a", ',', "a"},
        {"a,b", ',', "a|b"},
        {"a,,b", ',', "a|b"},
        {",a,", ',', "a"},
        {",,,", ',', NULL},
        {"   ", ',', NULL},
        {" , ,", ',', NULL},
        {" a , b ", ',', "a|b"},
        {"a b,c", ',', "a b|c"},
        {" , a", ',', "a"},
        {"a;b,c", ';', "a|b,c"},
        {"a,b", ';', "a,b"},
        {"cpu; gpu;", ';', "cpu|gpu"},
        {"[::1]:1,[::2]:2", ',', "[::1]:1|[::2]:2"},
        {"0", ',', "0"},
        {"\ta", ',', "\ta"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(options_list_done) struct options_list l = {0};
        options_list_split_at(&l, rows[i].text, rows[i].between);
        CO_AUTOFREE char *joined = options_list_join(&l, "|");
        if (strcmp(joined ? joined : "", rows[i].joined ? rows[i].joined : "") != 0) {
            fail_msg("\"%s\": \"%s\"", rows[i].text, joined);
        }
        assert_int_equal(l.n == 0, rows[i].joined == NULL);
        assert_true(l.n == 0 || l.item[l.n] == NULL);
    }
}

/* What execve gets: a list grows, and stays one that ends with NULL. */
static void a_list_of_any_length_ends_with_null(void **state) {
    (void)state;
    CO_CLEANUP(options_list_done) struct options_list l = {0};
    for (size_t i = 0; i < 100; i++) {
        options_list_add_own(&l, co_xasprintf("%zu", i));
        assert_int_equal(l.n, i + 1);
        assert_null(l.item[l.n]);
    }
    assert_string_equal(l.item[99], "99");
    assert_true(options_list_has(&l, "15") && options_list_has(&l, "16"));
    assert_false(options_list_has(&l, "100") || options_list_has(&l, ""));
    options_list_done(&l);
    assert_false(options_list_has(&l, "1"));
    options_list_add(&l, "");
    assert_true(options_list_has(&l, ""));
    assert_int_equal(l.n, 1);
}

/* As Python 3.11 prints them. */
static void words_are_printed_as_python_prints_them(void **state) {
    (void)state;
    static const struct {
        const char *word[3], *text;
    } rows[] = {
        {{0}, "[]"},
        {{"a"}, "['a']"},
        {{"a", "b c"}, "['a', 'b c']"},
        {{""}, "['']"},
        {{"it's"}, "[\"it's\"]"},
        {{"say \"hi\""}, "['say \"hi\"']"},
        {{"both ' and \""}, "['both \\' and \"']"},
        {{"tab\there"}, "['tab\\there']"},
        {{"nl\nx\r"}, "['nl\\nx\\r']"},
        {{"esc\x1b[31m"}, "['esc\\x1b[31m']"},
        {{"del\x7f"}, "['del\\x7f']"},
        {{"\x01"}, "['\\x01']"},
        {{"back\\slash"}, "['back\\\\slash']"},
        {{"\xc3\xa9"}, "['\xc3\xa9']"},
        {{"100%s"}, "['100%s']"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        size_t n = 0;
        for (; n < 3 && rows[i].word[n]; n++) {
        }
        CO_AUTOFREE char *text = options_list_python((char *const *)rows[i].word, n);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_split_without_blanks_and_empty_parts),
        cmocka_unit_test(a_list_of_any_length_ends_with_null),
        cmocka_unit_test(words_are_printed_as_python_prints_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
