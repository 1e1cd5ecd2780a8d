#include "common/flag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static struct {
    const char *name, *empty;
    int64_t count, any, wait;
    double rate;
    bool on, off, secret, any_given;
} v;

static const struct co_flag flags[] = {
    {"name", CO_FLAG_STR, &v.name, "x", "a name | of things"},
    {"empty", CO_FLAG_STR, &v.empty, NULL, "empty unless given"},
    {"count", CO_FLAG_INT, &v.count, "3", "how many", .min = 1, .max = 10, .metavar = "n"},
    {"any", CO_FLAG_INT, &v.any, NULL, "any number", .given = &v.any_given},
    {"rate", CO_FLAG_FLOAT, &v.rate, "0.5", "how often"},
    {"wait", CO_FLAG_DURATION, &v.wait, "15s",
        "how long to wait before giving up, counted from "
        "the first attempt, not from the start of the program, so that slow starts do not matter"},
    {"on", CO_FLAG_BOOL, &v.on, "true", "on unless said otherwise"},
    {"off", CO_FLAG_BOOL, &v.off, NULL, "off unless said otherwise"},
    {"secret-of-the-house", CO_FLAG_BOOL, &v.secret, NULL, "for tests", .hidden = true},
};
enum { N = CO_ARRAY_LEN(flags) };

/* Parses a command line of words divided by one blank; "" is an empty command line. */
static int parse(const char *line, int *ret_rest, struct co_err *err) {
    static char text[512];
    static char *argv[32];
    int argc = 0;
    argv[argc++] = (char[]){"program"};
    assert_true(strlen(line) < sizeof(text));
    memcpy(text, line, strlen(line) + 1);
    for (char *p = *text ? text : NULL; p;) {
        argv[argc++] = p;
        p = strchr(p, ' ');
        if (p) {
            *p++ = '\0';
        }
    }
    argv[argc] = NULL;
    return co_flags_parse(flags, N, argc, argv, ret_rest, err);
}

static void defaults_are_set_before_anything_is_read(void **state) {
    (void)state;
    memset(&v, 0x55, sizeof(v));
    v.on = v.off = v.secret = true;
    int rest = -1;
    struct co_err err;
    assert_int_equal(parse("", &rest, &err), 0);
    assert_int_equal(rest, 1);
    assert_string_equal(v.name, "x");
    assert_string_equal(v.empty, "");
    assert_int_equal(v.count, 3);
    assert_int_equal(v.any, 0);
    assert_int_equal(v.wait, 15000);
    assert_true(v.rate == 0.5);
    assert_true(v.on);
    assert_false(v.off);
    assert_false(v.secret);
}

static void all_spellings_are_taken(void **state) {
    (void)state;
    int rest = -1;
    struct co_err err;
    assert_int_equal(parse("-name=a=b --count 10 -any -7 --rate=1e3 --wait 1m30s --on=false -off "
                           "--secret-of-the-house=T rest --count 99",
                         &rest, &err),
        0);
    assert_string_equal(v.name, "a=b");
    assert_int_equal(v.count, 10);
    assert_int_equal(v.any, -7);
    assert_true(v.rate == 1000);
    assert_int_equal(v.wait, 90000);
    assert_false(v.on);
    assert_true(v.off);
    assert_true(v.secret);
    assert_int_equal(rest, 12);
}

/* Names and flags in any order; behind "--" all are names. */
static void flags_and_names_come_in_any_order(void **state) {
    (void)state;
    static const struct {
        char *argv[8];
        int count, rest;
        const char *words[5], *error;
    } rows[] = {
        {{"p", "a", "--count", "7", "b", "--off"}, 7, 4, {"a", "b"}, NULL},
        {{"p", "--count=7", "a"}, 7, 2, {"a"}, NULL},
        {{"p", "a", "-", "--", "b", "--count=9"}, 3, 2, {"a", "-", "b", "--count=9"}, NULL},
        {{"p", "--off"}, 3, 2, {NULL}, NULL},
        {{"p"}, 3, 1, {NULL}, NULL},
        {{"p", "a", "--count"}, 0, 0, {NULL}, "flag \"--count\" needs a value"},
        {{"p", "a", "--cuont=1"}, 0, 0, {NULL}, "did you mean \"--count\"?"},
        {{"p", "a", "--help"}, 0, 0, {NULL}, "help was asked for"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char *argv[8];
        int argc = 0, rest = -1;
        struct co_err err = {0};
        for (; rows[i].argv[argc]; argc++) {
            argv[argc] = rows[i].argv[argc];
        }
        argv[argc] = NULL;
        int r = co_flags_parse_among(flags, N, argc, argv, &rest, &err);
        if (rows[i].error) {
            assert_true(r < 0 && strstr(co_err_text(&err), rows[i].error));
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(rest, rows[i].rest);
        assert_int_equal(v.count, rows[i].count);
        for (int k = rest; k < argc; k++) {
            assert_string_equal(argv[k], rows[i].words[k - rest]);
        }
        assert_null(rows[i].words[argc - rest]);
        assert_null(argv[argc]);
    }
}

static void a_zero_that_was_given_is_no_default(void **state) {
    (void)state;
    struct co_err err;
    int rest;
    assert_int_equal(parse("--any=0", &rest, &err), 0);
    assert_true(v.any_given && v.any == 0);
    assert_int_equal(parse("--count=1", &rest, &err), 0);
    assert_true(!v.any_given && v.any == 0);
}

static void the_last_of_repeated_flags_wins(void **state) {
    (void)state;
    int rest;
    struct co_err err;
    assert_int_equal(parse("--count 1 --count 2", &rest, &err), 0);
    assert_int_equal(v.count, 2);
}

static void two_values_of_a_once_flag_are_an_error(void **state) {
    (void)state;
    const char *kind = NULL;
    const struct co_flag one = {"kind", CO_FLAG_STR, &kind, NULL, "", .once = true};
    static const struct {
        char *argv[4];
        const char *error; /* NULL: none */
    } rows[] = {
        {{"program", "--kind=a", "--kind=a"}, NULL},
        {{"program", "--kind=", "--kind=a"}, NULL},
        {{"program", "--kind=a", "--kind=b"},
            "flag \"--kind\" is given as \"a\" and as \"b\": it can have one value only"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int rest;
        struct co_err err = {0};
        int r = co_flags_parse(&one, 1, 3, rows[i].argv, &rest, &err);
        assert_int_equal(r, rows[i].error ? CO_INVALID : 0);
        assert_string_equal(rows[i].error ? co_err_text(&err) : kind, rows[i].error ?: "a");
    }
}

static void flags_end_at_two_dashes_one_dash_or_a_word(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int rest;
    } rows[] = {
        {"--off -- --count 99", 3},
        {"--off - --count 99", 2},
        {"--off word --count 99", 2},
        {"--off", 2},
        {"--", 2},
        /* a boolean takes no value from the next word */
        {"--off false", 2},
        /* a value may look like a flag */
        {"--name --off", 3},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int rest = -1;
        struct co_err err = {0};
        assert_int_equal(parse(rows[i].line, &rest, &err), 0);
        assert_int_equal(rest, rows[i].rest);
    }
}

static void errors_name_flag_value_and_expectation(void **state) {
    (void)state;
    static const struct {
        const char *line;
        const char *text;
    } rows[] = {
        {"--count abc", "flag \"--count\": \"abc\" is not an integer from 1 to 10"},
        {"--count=11", "flag \"--count\": \"11\" is not an integer from 1 to 10"},
        {"--count=", "flag \"--count\": \"\" is not an integer from 1 to 10"},
        {"--any 1.5", "flag \"--any\": \"1.5\" is not an integer"},
        {"--rate fast", "flag \"--rate\": \"fast\" is not a number"},
        {"--on=perhaps", "flag \"--on\": \"perhaps\" is neither true nor false"},
        {"--wait 5", "flag \"--wait\": \"5\" is not a duration"},
        {"--count", "flag \"--count\" needs a value"},
        {"--coutn 5", "unknown flag \"--coutn\": did you mean \"--count\"?"},
        {"--nam", "unknown flag \"--nam\": did you mean \"--name\"?"},
        {"-zzzzzz=5", "unknown flag \"--zzzzzz\" (--help lists the flags)"},
        {"--z", "unknown flag \"--z\" (--help lists the flags)"},
        {"--secret-of-the-hous", "(--help lists the flags)"},
        {"---count=5", "\"---count=5\" is not a flag"},
        {"--=5", "\"--=5\" is not a flag"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int rest = -1;
        struct co_err err = {0};
        assert_int_equal(parse(rows[i].line, &rest, &err), CO_INVALID);
        if (!strstr(err.msg, rows[i].text)) {
            fail_msg("%s: %s", rows[i].line, err.msg);
        }
        assert_int_equal(rest, -1);
    }
}

static void long_garbage_is_an_error_of_bounded_length(void **state) {
    (void)state;
    char line[400] = "--";
    memset(line + 2, 'q', 300);
    int rest;
    struct co_err err = {0};
    assert_int_equal(parse(line, &rest, &err), CO_INVALID);
    assert_true(strlen(err.msg) < 200);
}

static void help_flags_return_canceled(void **state) {
    (void)state;
    static const char *const rows[] = {"-h", "--h", "-help", "--help", "--count 5 --help"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int rest;
        struct co_err err;
        assert_int_equal(parse(rows[i], &rest, &err), CO_CANCELED);
    }
}

static void a_bad_default_is_our_own_error(void **state) {
    (void)state;
    const struct co_flag bad = {"count", CO_FLAG_INT, &v.count, "many", "how many"};
    int rest;
    struct co_err err;
    char *argv[] = {(char[]){"program"}, NULL};
    assert_int_equal(co_flags_parse(&bad, 1, 1, argv, &rest, &err), CO_INTERNAL);
}

static void names_are_refused_where_only_flags_are_allowed(void **state) {
    (void)state;
    struct co_err err;
    char *flag[] = {(char[]){"program"}, (char[]){"--count=3"}, NULL};
    char *word[] = {(char[]){"program"}, (char[]){"--count=3"}, (char[]){"now"}, NULL};
    const struct co_flag one = {"count", CO_FLAG_INT, &v.count, "1", "how many"};
    assert_int_equal(co_flags_parse_all("program", &one, 1, 2, flag, &err), 0);
    assert_int_equal(v.count, 3);
    assert_int_equal(co_flags_parse_all("program", &one, 1, 3, word, &err), CO_INVALID);
    assert_string_equal(co_err_text(&err), "unexpected \"now\"");
}

static char *printed(void (*print)(FILE *out)) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    print(out);
    (void)fclose(out);
    return text;
}

static void print_help(FILE *out) {
    co_flags_help(out, "usage: program [flags] [word]", flags, N);
}

static void help_lists_what_is_not_hidden_in_lines_that_fit(void **state) {
    (void)state;
    CO_AUTOFREE char *text = printed(print_help);
    assert_ptr_equal(strstr(text, "usage: program [flags] [word]\n\nFlags:\n"), text);
    assert_non_null(strstr(text, "  --count n                       how many (default 3)\n"));
    assert_non_null(strstr(text, "  --name string                   a name | of things "
                                 "(default \"x\")\n"));
    assert_non_null(strstr(text, "  --off                           off unless said otherwise\n"));
    assert_non_null(strstr(text, "(default 15s)\n"));
    assert_null(strstr(text, "secret"));
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        assert_true(len <= 100);
        p += len + 1;
    }
}

static void print_markdown(FILE *out) {
    co_flags_markdown(out, flags, N);
}

static void markdown_has_a_row_for_every_flag(void **state) {
    (void)state;
    CO_AUTOFREE char *text = printed(print_markdown);
    assert_non_null(strstr(text, "| `--name` | string | `x` | a name \\| of things |\n"));
    assert_non_null(strstr(text, "| `--count` | n 1…10 | `3` | how many |\n"));
    assert_non_null(strstr(text, "| `--empty` | string |  | empty unless given |\n"));
    assert_non_null(strstr(text, "| `--secret-of-the-house` | bool | `false` | for tests (not in"));
    size_t lines = 0;
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
    }
    assert_int_equal(lines, N + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_set_before_anything_is_read),
        cmocka_unit_test(all_spellings_are_taken),
        cmocka_unit_test(flags_and_names_come_in_any_order),
        cmocka_unit_test(a_zero_that_was_given_is_no_default),
        cmocka_unit_test(the_last_of_repeated_flags_wins),
        cmocka_unit_test(two_values_of_a_once_flag_are_an_error),
        cmocka_unit_test(flags_end_at_two_dashes_one_dash_or_a_word),
        cmocka_unit_test(errors_name_flag_value_and_expectation),
        cmocka_unit_test(long_garbage_is_an_error_of_bounded_length),
        cmocka_unit_test(help_flags_return_canceled),
        cmocka_unit_test(a_bad_default_is_our_own_error),
        cmocka_unit_test(names_are_refused_where_only_flags_are_allowed),
        cmocka_unit_test(help_lists_what_is_not_hidden_in_lines_that_fit),
        cmocka_unit_test(markdown_has_a_row_for_every_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
