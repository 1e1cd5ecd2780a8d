#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log_testing.h"
#include "common/mem.h"

/* The line without its time; fails when there is no single line. */
static const char *line(void) {
    const char *text = logged();
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_memory_equal(text, "time=20", 7);
    assert_memory_equal(text + strlen("time=2021-02-08T07:43:24.000"), "Z ", 2);
    return strchr(text, ' ') + 1;
}

static void a_message_is_one_line_of_pairs(void **state) {
    (void)state;
    struct co_err err;
    (void)co_err_set(&err, CO_GONE, "it is gone");
    co_log_info("job finished", CO_S("job", "a/b"), CO_I("pods", 4), CO_F("took", 1.5),
        CO_B("ok", true), CO_B("late", false), CO_E(&err));
    assert_string_equal(line(), "level=info msg=\"job finished\" job=a/b pods=4 took=1.5 ok=true "
                                "late=false err=\"it is gone\"\n");
    co_log_warn("plain");
    assert_string_equal(line(), "level=warn msg=plain\n");
}

static void values_that_would_break_a_line_are_quoted(void **state) {
    (void)state;
    static const struct {
        const char *value, *text;
    } rows[] = {
        {"bare-1.2:3/x", "v=bare-1.2:3/x\n"},
        {"", "v=\"\"\n"},
        {NULL, "v=\"\"\n"},
        {"a b", "v=\"a b\"\n"},
        {"a=b", "v=\"a=b\"\n"},
        {"a\"b", "v=\"a\\\"b\"\n"},
        {"a\\b", "v=\"a\\\\b\"\n"},
        {"a\nlevel=error", "v=\"a\\nlevel=error\"\n"},
        {"a\x1b[31m\x7f", "v=\"a\\u001b[31m\\u007f\"\n"},
        {"\xc3\xa9", "v=\xc3\xa9\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        co_log_info("x", CO_S("v", rows[i].value));
        assert_string_equal(line() + strlen("level=info msg=x "), rows[i].text);
    }
}

static void levels_above_the_set_one_are_silent(void **state) {
    (void)state;
    for (int set = CO_LOG_ERROR; set <= CO_LOG_DEBUG; set++) {
        co_log_setup((enum co_log_level)set, CO_LOG_LOGFMT);
        for (int used = CO_LOG_ERROR; used <= CO_LOG_DEBUG; used++) {
            co_log((enum co_log_level)used, "x");
            assert_int_equal(*logged() != '\0', used <= set);
        }
    }
}

static void logfmt_lines_are_cut_at_their_maximum(void **state) {
    (void)state;
    char text[9000];
    memset(text, ' ', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    co_log_info("x", CO_S("long", text), CO_I("after", 1));
    const char *got = logged();
    assert_true(strlen(got) <= 4096);
    assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
    assert_int_equal(got[strlen(got) - 2], '"');
}

static void levels_are_parsed_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    enum co_log_level level;
    struct co_err err;
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        assert_int_equal(co_log_level_parse(names[i], &level, &err), 0);
        assert_int_equal(level, i);
    }
    assert_int_equal(co_log_level_parse("INFO", &level, &err), CO_INVALID);
    assert_string_equal(err.msg, "\"INFO\" is not a log level (error, warn, info, debug)");
}

static void logging_keeps_errno(void **state) {
    (void)state;
    co_log_set_fd(-1);
    errno = EXDEV;
    co_log_info("into nothing");
    assert_int_equal(errno, EXDEV);
}

enum { THREADS = 4, LINES = 200 };

static void *log_many(void *arg) {
    for (int i = 0; i < LINES; i++) {
        co_log_info("many", CO_S("who", arg), CO_I("i", i));
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    (void)state;
    assert_true(fcntl(log_ends[1], F_SETPIPE_SZ, 1 << 20) > 0);
    pthread_t threads[THREADS];
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, log_many, (void *)(uintptr_t)names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    static char text[1 << 20];
    size_t len = 0, lines = 0;
    ssize_t n;
    while ((n = read(log_ends[0], text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    for (char *p = text, *end; p < text + len; p = end + 1) {
        end = strchr(p, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_non_null(strstr(p, " level=info msg=many who="));
        assert_null(strstr(p + 1, "time="));
        lines++;
    }
    assert_int_equal(lines, THREADS * LINES);
}

#define T(name) cmocka_unit_test_setup_teardown(name, log_begin, log_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_message_is_one_line_of_pairs),
        T(values_that_would_break_a_line_are_quoted),
        T(levels_above_the_set_one_are_silent),
        T(logfmt_lines_are_cut_at_their_maximum),
        T(levels_are_parsed_by_name),
        T(logging_keeps_errno),
        T(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
