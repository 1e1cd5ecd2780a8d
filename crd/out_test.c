/* YAML by lines: what is printed is read as one paragraph again. */
#include "crd/out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

/* The caller frees. */
static char *print_text(int depth, const char *text) {
    char *ret = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&ret, &length);
    const struct crd_out out = {.file = file, .depth = depth};

    assert_non_null(file);
    crd_out_text(&out, "k", text);
    assert_int_equal(fclose(file), 0);
    return ret;
}

#define W10 "123456789 "

static void a_text_is_broken_at_blanks(void **state) {
    static const struct {
        int depth;
        const char *text, *yaml;
    } rows[] = {
        {0, "", "k: >-\n"},
        {0, "a", "k: >-\n  a\n"},
        {2, "a b", "    k: >-\n      a b\n"},
        {0, "a  b", "k: >-\n  a  b\n"},
        /* 98 letters have room below two blanks, 99 do not */
        {0, W10 W10 W10 W10 W10 W10 W10 W10 W10 "12345678",
            "k: >-\n  " W10 W10 W10 W10 W10 W10 W10 W10 W10 "12345678\n"},
        {0, W10 W10 W10 W10 W10 W10 W10 W10 W10 "123456789",
            "k: >-\n  123456789 " W10 W10 W10 W10 W10 W10 W10 "123456789\n  123456789\n"},
        /* far to the right there is room for forty letters all the same */
        {60, W10 W10 W10 W10 "x", "%120sk: >-\n%122s123456789 " W10 W10 "123456789\n%122sx\n"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *is = print_text(rows[i].depth, rows[i].text);
        char want[1024] = "";
        size_t n = 0;

        for (const char *p = rows[i].yaml; *p != '\0'; p++) { /* "%120s" is so many blanks */
            char *end = NULL;
            const long blanks = *p == '%' ? strtol(p + 1, &end, 10) : 0;
            if (end != NULL) {
                memset(want + n, ' ', (size_t)blanks);
                n += (size_t)blanks;
                p = end;
            } else {
                want[n++] = *p;
            }
        }
        assert_string_equal(is, want);
    }
}

/* A word has no place to be broken. */
static void a_word_longer_than_a_line_has_one_of_its_own(void **state) {
    char word[302], text[400];

    (void)state;
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "a %s b", word);
    CO_AUTOFREE char *is = print_text(0, text);
    CO_AUTOFREE char *want = co_xasprintf("k: >-\n  a\n  %s\n  b\n", word);
    assert_string_equal(is, want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_broken_at_blanks),
        cmocka_unit_test(a_word_longer_than_a_line_has_one_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
