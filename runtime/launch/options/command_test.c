#include "runtime/launch/options/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { WORDS = 8, TEXT = 1024 };

/* What is written to a stream between begin and end. */
struct capture {
    FILE *stream;
    int fd, before;
};

static struct capture begin(FILE *stream) {
    struct capture c = {.stream = stream, .fd = memfd_create("said", MFD_CLOEXEC)};
    assert_int_equal(fflush(stream), 0);
    c.before = dup(fileno(stream));
    assert_true(c.fd >= 0 && c.before >= 0 && dup2(c.fd, fileno(stream)) >= 0);
    return c;
}

static void end(struct capture *c, char ret[TEXT]) {
    assert_int_equal(fflush(c->stream), 0);
    assert_true(dup2(c->before, fileno(c->stream)) >= 0);
    ssize_t n = pread(c->fd, ret, TEXT - 1, 0);
    ret[n > 0 ? n : 0] = '\0';
    (void)close(c->before);
    (void)close(c->fd);
}

struct row {
    bool among; /* flags may stand among the words */
    const char *argv[WORDS];
    int code; /* -1: it continues */
    int64_t n;
    bool b;
    const char *rest[WORDS];
    const char *out, *err; /* somewhere in what it prints; NULL: nothing */
};

static const struct row rows[] = {
    {false, {"x"}, -1, 7, false, {0}, NULL, NULL},
    {false, {"x", "--n=1", "--b"}, -1, 1, true, {0}, NULL, NULL},
    {false, {"x", "-n", "1", "-b=no"}, -1, 1, false, {0}, NULL, NULL},
    {false, {"x", "--n", "-1"}, -1, -1, false, {0}, NULL, NULL},
    {false, {"x", "--n=1", "--n=2"}, -1, 2, false, {0}, NULL, NULL},
    {false, {"x", "--b", "true"}, -1, 7, true, {"true"}, NULL, NULL},
    {false, {"x", "w", "--n=1"}, -1, 7, false, {"w", "--n=1"}, NULL, NULL},
    {false, {"x", "--", "--n=1"}, -1, 7, false, {"--n=1"}, NULL, NULL},
    {false, {"x", "-", "--n=1"}, -1, 7, false, {"-", "--n=1"}, NULL, NULL},
    {false, {"x", "w", "--help"}, -1, 7, false, {"w", "--help"}, NULL, NULL},
    {true, {"x", "w", "--n=1", "v"}, -1, 1, false, {"w", "v"}, NULL, NULL},
    {true, {"x", "w", "--n", "1", "--", "--b"}, -1, 1, false, {"w", "--b"}, NULL, NULL},
    {true, {"x", "--", "--", "w"}, -1, 7, false, {"--", "w"}, NULL, NULL},
    {true, {"x", "a", "b", "c"}, -1, 7, false, {"a", "b", "c"}, NULL, NULL},
    {true, {"x", "", "--b"}, -1, 7, true, {""}, NULL, NULL},
    /* help is no error, and an error is one line with the command's name */
    {false, {"x", "--help"}, 0, 0, false, {0}, "how to use x\n", NULL},
    {false, {"x", "--n=1", "-h"}, 0, 0, false, {0}, "--n ", NULL},
    {true, {"x", "w", "--help"}, 0, 0, false, {0}, "(default 7)", NULL},
    {false, {"x", "--n=z", "--help"}, 2, 0, false, {0}, NULL,
        "paddlerun x: flag \"--n\": \"z\" is not an integer\n"},
    {false, {"x", "--n"}, 2, 0, false, {0}, NULL, "paddlerun x: flag \"--n\" needs a value\n"},
    {false, {"x", "--bb"}, 2, 0, false, {0}, NULL,
        "paddlerun x: unknown flag \"--bb\": did you mean \"--b\"?\n"},
    {true, {"x", "w", "--nothing"}, 2, 0, false, {0}, NULL, "(--help lists the flags)\n"},
    {true, {"x", "---b"}, 2, 0, false, {0}, NULL, "\"---b\" is not a flag"},
    {false, {"x", "--b=2"}, 2, 0, false, {0}, NULL, "\"2\" is neither true nor false"},
    {false, {"x", "--n=9223372036854775808"}, 2, 0, false, {0}, NULL, "9223372036854775808"},
};

static bool says(const char *text, const char *want) {
    return want ? strstr(text, want) != NULL : !*text;
}

static void a_command_continues_or_has_its_exit_code(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        int64_t n = 0;
        bool b = false;
        const struct co_flag flags[] = {{"n", CO_FLAG_INT, &n, "7", .help = "a number"},
            {"b", CO_FLAG_BOOL, &b, .help = "a switch"}};
        char *argv[WORDS + 1] = {NULL}, out[TEXT], err[TEXT];
        int argc = 0, rest = -1, code = -1;
        for (; argc < WORDS && row->argv[argc]; argc++) {
            argv[argc] = (char *)row->argv[argc];
        }
        struct capture to_out = begin(stdout), to_err = begin(stderr);
        bool more = (row->among ? options_command_words : options_command_flags)(
            "how to use x", flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code);
        end(&to_err, err);
        end(&to_out, out);
        if (more != (row->code < 0) || code != row->code || !says(out, row->out) ||
            !says(err, row->err)) {
            fail_msg("row %zu: %d, \"%s\", \"%s\"", i, code, out, err);
        }
        if (!more) {
            continue;
        }
        assert_int_equal(n, row->n);
        assert_int_equal(b, row->b);
        for (int k = 0; row->rest[k]; k++, rest++) {
            assert_true(rest < argc);
            assert_string_equal(argv[rest], row->rest[k]);
        }
        assert_int_equal(rest, argc);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_command_continues_or_has_its_exit_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
