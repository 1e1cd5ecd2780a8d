#include "operator/kube/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void codes_by_remedy(void **state) {
    (void)state;
    static const struct {
        int http;
        const char *reason, *message;
        int code;
    } rows[] = {
        {200, "", "", 0},
        {201, "", "", 0},
        {400, "BadRequest", "x", CO_INVALID},
        {401, "Unauthorized", "x", CO_PERMISSION},
        {403, "Forbidden", "pods is forbidden", CO_PERMISSION},
        {403, "Forbidden", "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1",
            CO_NORESOURCE},
        {403, "Forbidden",
            "pods \"p\" is forbidden: error looking up service account d/x: serviceaccount \"x\" "
            "not "
            "found",
            CO_NORESOURCE},
        {404, "NotFound", "x", CO_NOTFOUND},
        {405, "MethodNotAllowed", "x", CO_UNSUPPORTED},
        {409, "AlreadyExists", "x", CO_EXISTS},
        {409, "Conflict", "x", CO_CONFLICT},
        {410, "Expired", "x", CO_GONE},
        {410, "Gone", "x", CO_GONE},
        {413, "RequestEntityTooLarge", "x", CO_INVALID},
        {422, "Invalid", "x", CO_INVALID},
        {429, "TooManyRequests", "x", CO_UNAVAILABLE},
        {500, "InternalError", "x", CO_UNAVAILABLE},
        {500, "InternalError",
            "Internal error occurred: failed calling webhook \"x\": failed to call webhook: no "
            "service",
            CO_NORESOURCE},
        {500, "InternalError", "admission webhook \"x\" denied the request: no", CO_NORESOURCE},
        {429, "TooManyRequests", "admission webhook \"x\" denied the request", CO_NORESOURCE},
        {409, "Conflict", "admission webhook \"x\" denied the request", CO_NORESOURCE},
        {500, "InternalError", "etcdserver: request is too large", CO_INVALID},
        {503, "ServiceUnavailable", "x", CO_UNAVAILABLE},
        {504, "Timeout", "x", CO_TIMEOUT},
        {302, "", "", CO_INTERNAL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            kube_status_code(rows[i].http, rows[i].reason, rows[i].message), rows[i].code);
    }
}

static void the_servers_own_words_are_kept(void **state) {
    (void)state;
    static const char text[] =
        "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"pods \\\"a\\\" already "
        "exists\",\"details\":{\"retryAfterSeconds\":3}}";
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    struct co_err err = {0};
    assert_int_equal(co_jdoc_read(text, strlen(text), NULL, &doc, NULL), 0);
    assert_int_equal(kube_status_err(&err, "create pods d/a", 409, doc.node, text), CO_EXISTS);
    assert_string_equal(err.msg, "create pods d/a: pods \"a\" already exists (409 AlreadyExists)");
    assert_int_equal(kube_status_retry_ms(doc.node), 3000);
}

static void an_answer_that_is_no_status_speaks_for_itself(void **state) {
    (void)state;
    struct co_err err = {0};
    assert_int_equal(
        kube_status_err(&err, "list pods", 502, NULL, "<h1>Bad\nGateway"), CO_UNAVAILABLE);
    assert_string_equal(err.msg, "list pods: HTTP 502: <h1>Bad Gateway");
    assert_int_equal(kube_status_retry_ms(NULL), -1);
}

static void retry_after_header(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int64_t ms;
    } rows[] = {
        {" 1\r\n", 1000},
        {"0", 0},
        {"30", 30000},
        {"999999999999999999999", 32000},
        {"Wed, 21 Oct 2026 07:28:00 GMT", -1},
        {"", -1},
        {"-5", -1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(kube_retry_header_ms(rows[i].value, strlen(rows[i].value)), rows[i].ms);
    }
}

static void warnings_are_read_as_headers_have_them(void **state) {
    (void)state;
    static const struct {
        const char *value, *texts;
    } rows[] = {
        {" 299 - \"unknown field \\\"spec.x\\\"\"\r\n", "unknown field \"spec.x\""},
        {"299 a.b:80 \"one\" \"Sat, 21 Nov 2026 22:43:57 GMT\", 299 - \"a \\\\ b\",299 - \"c\"",
            "one; a \\ b; c"},
        {"299 - \"\xC3\xA4 \x01\x7F\"", "\xC3\xA4  \x7F"},
        {"299 - \"one\" , 299 - \"never ends", "one"},
        {"299 - \"never ends\\", ""},
        {"299 -", ""},
        {"\"", ""},
        {"\r\n", ""},
        {"", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char texts[KUBE_WARNINGS_MAX] = "";
        kube_warnings_add(texts, rows[i].value, strlen(rows[i].value));
        assert_string_equal(texts, rows[i].texts);
    }
}

static void warnings_that_do_not_fit_are_left_out(void **state) {
    (void)state;
    char texts[KUBE_WARNINGS_MAX] = "";
    char value[1024] = "299 - \"";
    memset(value + 7, 'x', 900);
    memcpy(value + 907, "\"", 2);
    kube_warnings_add(texts, value, strlen(value));
    assert_int_equal(strlen(texts), KUBE_WARNINGS_MAX - 1);
    kube_warnings_add(texts, "299 - \"y\"", 9);
    assert_int_equal(strlen(texts), KUBE_WARNINGS_MAX - 1);
    texts[KUBE_WARNINGS_MAX - 4] = '\0';
    kube_warnings_add(texts, "299 - \"y\"", 9);
    assert_string_equal(texts + KUBE_WARNINGS_MAX - 4, "; y");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_by_remedy),
        cmocka_unit_test(the_servers_own_words_are_kept),
        cmocka_unit_test(an_answer_that_is_no_status_speaks_for_itself),
        cmocka_unit_test(retry_after_header),
        cmocka_unit_test(warnings_are_read_as_headers_have_them),
        cmocka_unit_test(warnings_that_do_not_fit_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
