#include "common/err.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static void setting_returns_the_code_and_keeps_one_line(void **state) {
    (void)state;
    struct co_err err;
    assert_int_equal(co_err_set(&err, CO_GONE, "a\nb\t%d", 7), CO_GONE);
    assert_int_equal(err.code, CO_GONE);
    assert_string_equal(err.msg, "a b 7");
    assert_int_equal(co_err_set(NULL, CO_TIMEOUT, "nobody cares"), CO_TIMEOUT);
}

static void wrapping_puts_context_before(void **state) {
    (void)state;
    struct co_err err;
    (void)co_err_set(&err, CO_INVALID, "cause");
    assert_int_equal(co_err_wrap(&err, "job %s", "x"), CO_INVALID);
    assert_int_equal(co_err_wrap(&err, "file y"), CO_INVALID);
    assert_string_equal(co_err_text(&err), "file y: job x: cause");
    assert_int_equal(co_err_wrap(NULL, "nobody cares"), CO_INTERNAL);
}

static void long_messages_are_cut_visibly(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct co_err err;
    (void)co_err_set(&err, CO_INVALID, "%s", text);
    assert_int_equal(strlen(err.msg), CO_ERR_MAX - 1);
    assert_string_equal(err.msg + CO_ERR_MAX - 4, "...");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(co_err_wrap(&err, "%s", text), CO_INVALID);
        assert_int_equal(strlen(err.msg), CO_ERR_MAX - 1);
    }
    (void)co_err_errno(&err, ENOENT, "%s", text);
    assert_int_equal(strlen(err.msg), CO_ERR_MAX - 1);
    assert_string_equal(err.msg + CO_ERR_MAX - 4, "...");
    /* just fitting is not cut */
    text[CO_ERR_MAX - 1] = '\0';
    (void)co_err_set(&err, CO_INVALID, "%s", text);
    assert_string_equal(err.msg, text);
}

static void a_connection_without_an_answer_asks_what_forbids_it(void **state) {
    (void)state;
    static const struct {
        int errnum, code;
        bool asks;
    } rows[] = {
        {ETIMEDOUT, CO_TIMEOUT, true},
        {EHOSTUNREACH, CO_UNAVAILABLE, true},
        {ENETUNREACH, CO_UNAVAILABLE, true},
        {EPERM, CO_PERMISSION, true},
        {ECONNREFUSED, CO_UNAVAILABLE, false},
        {EMFILE, CO_NORESOURCE, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct co_err err = {0};
        assert_int_equal(co_err_connect(&err, rows[i].errnum, "connect to %s", "x"), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(strncmp(err.msg, "connect to x: ", 14), 0);
        assert_int_equal(strstr(err.msg, "does a NetworkPolicy") != NULL, rows[i].asks);
        assert_int_equal(co_err_connect(NULL, rows[i].errnum, "x"), rows[i].code);
    }
}

static void errno_is_translated_with_its_text(void **state) {
    (void)state;
    static const struct {
        int errnum, code;
    } rows[] = {{ENOENT, CO_NOTFOUND}, {EEXIST, CO_EXISTS}, {EACCES, CO_PERMISSION},
        {ENOMEM, CO_NOMEMORY}, {EMFILE, CO_NORESOURCE}, {ETIMEDOUT, CO_TIMEOUT},
        {ECONNREFUSED, CO_UNAVAILABLE}, {EADDRINUSE, CO_UNAVAILABLE}, {ECONNRESET, CO_PEERLOST},
        {EINVAL, CO_INVALID}, {ECANCELED, CO_CANCELED}, {EIO, CO_INTERNAL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct co_err err;
        assert_int_equal(co_err_errno(&err, rows[i].errnum, "cannot open %s", "x"), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_ptr_equal(strstr(err.msg, "cannot open x: "), err.msg);
        assert_non_null(strstr(err.msg, strerror(rows[i].errnum)));
        assert_int_equal(co_err_errno(NULL, rows[i].errnum, "x"), rows[i].code);
    }
}

static void a_process_that_has_no_descriptor_left_says_its_limit(void **state) {
    (void)state;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    const struct rlimit few = {.rlim_cur = 77, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct co_err err = {0};
    (void)co_err_errno(&err, EMFILE, "pipe");
    assert_string_equal(err.msg, "pipe: Too many open files (ulimit -n is 77): raise it");
    (void)co_err_errno(&err, ENFILE, "pipe");
    assert_null(strstr(err.msg, "ulimit"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void text_is_never_null(void **state) {
    (void)state;
    struct co_err err = {0};
    assert_string_equal(co_err_text(&err), "unknown error");
    assert_string_equal(co_err_text(NULL), "unknown error");
}

static void every_code_has_a_name_and_a_remedy(void **state) {
    (void)state;
    static const struct {
        int code;
        enum co_remedy remedy;
        const char *name;
    } rows[] = {{CO_OK, CO_ANSWER, "ok"}, {CO_CONFLICT, CO_RETRY_NOW, "conflict"},
        {CO_UNAVAILABLE, CO_BACK_OFF, "unavailable"}, {CO_TIMEOUT, CO_BACK_OFF, "timeout"},
        {CO_NORESOURCE, CO_BACK_OFF, "no resource"}, {CO_GONE, CO_REBUILD, "gone"},
        {CO_PEERLOST, CO_REBUILD, "peer lost"}, {CO_INVALID, CO_FIX_SPEC, "invalid"},
        {CO_UNSUPPORTED, CO_FIX_SPEC, "unsupported"}, {CO_INTERNAL, CO_STOP, "internal"},
        {CO_PERMISSION, CO_STOP, "permission"}, {CO_NOMEMORY, CO_STOP, "no memory"},
        {CO_NOTFOUND, CO_ANSWER, "not found"}, {CO_EXISTS, CO_ANSWER, "exists"},
        {CO_CANCELED, CO_ANSWER, "canceled"}, {CO_DAMAGED, CO_STOP, "damaged"},
        {-16, CO_STOP, "unknown"}, {1, CO_STOP, "unknown"}, {INT_MIN, CO_STOP, "unknown"},
        {INT_MAX, CO_STOP, "unknown"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(co_code_remedy(rows[i].code), rows[i].remedy);
        assert_int_equal(co_code_exit(rows[i].code), rows[i].code >= 0               ? 0
                                                     : rows[i].remedy == CO_FIX_SPEC ? 2
                                                                                     : 1);
        assert_string_equal(co_code_name(rows[i].code), rows[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_returns_the_code_and_keeps_one_line),
        cmocka_unit_test(wrapping_puts_context_before),
        cmocka_unit_test(long_messages_are_cut_visibly),
        cmocka_unit_test(errno_is_translated_with_its_text),
        cmocka_unit_test(a_connection_without_an_answer_asks_what_forbids_it),
        cmocka_unit_test(a_process_that_has_no_descriptor_left_says_its_limit),
        cmocka_unit_test(text_is_never_null),
        cmocka_unit_test(every_code_has_a_name_and_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
