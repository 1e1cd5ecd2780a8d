#include "common/http/http_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *what, *text;
    bool end; /* the connection is closed behind it */
    int code, status;
    const char *body;
    bool close;
    size_t rest; /* bytes that are not the answer's */
};

#define LONG                                                                                       \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxx"

static const struct row rows[] = {
    {"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", false, 0, 200, "abc", false, 1},
    {"HTTP/1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 0, 200, "abc",
        true, 0},
    {"HTTP/1.0 that is kept", "HTTP/1.0 200 OK\nConnection: Keep-Alive\nContent-Length: 0\n\n",
        false, 0, 200, "", false, 0},
    {"close", "HTTP/1.1 404 Not Found\r\nconnection: x, close\r\nContent-Length: 0\r\n\r\n", false,
        0, 404, "", true, 0},
    {"until close", "HTTP/1.1 200 OK\r\n\r\nabc", true, 0, 200, "abc", true, 0},
    {"chunks",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
        "chunked\r\n\r\n2\r\nab\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
        false, 0, 200, "ab0123456789", false, 0},
    {"no body", "HTTP/1.1 204 No Content\r\n\r\nx", false, 0, 204, "", false, 1},
    {"no body, whatever its length would be",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nx", false, 0, 304, "", false, 1},
    {"no body, nor a length", "HTTP/1.1 304 Not Modified\r\n\r\nx", false, 0, 304, "", false, 1},
    {"no body in chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\nx", false,
        0, 204, "", false, 1},
    {"hints first, which have no body",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        false, 0, 200, "a", false, 0},
    {"hints first, which have no chunks",
        "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        false, 0, 200, "a", false, 0},
    {"continue first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        false, 0, 200, "a", false, 0},
    {"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, 0, 200, "", false, 0},
    {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true, CO_UNAVAILABLE, 200, NULL,
        false, 0},
    {"nothing", "", true, CO_UNAVAILABLE, 0, NULL, false, 0},
    {"no HTTP", "SSH-2.0-OpenSSH\r\n", false, CO_INVALID, 0, NULL, false, 0},
    {"no status", "HTTP/1.1 20x OK\r\n", false, CO_INVALID, 0, NULL, false, 0},
    {"HTTP/2", "HTTP/2.0 200 OK\r\n", false, CO_INVALID, 0, NULL, false, 0},
    {"no colon", "HTTP/1.1 200 OK\r\nfoo\r\n\r\n", false, CO_INVALID, 200, NULL, false, 0},
    {"negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, CO_INVALID, 200, NULL,
        false, 0},
    {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", false,
        CO_INVALID, 200, NULL, false, 0},
    {"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false, CO_UNSUPPORTED, 200, NULL,
        false, 0},
    {"chunk without size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false,
        CO_INVALID, 200, NULL, false, 0},
    {"chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        false, CO_INVALID, 200, NULL, false, 0},
    {"body too long", "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" LONG "x", false,
        CO_NORESOURCE, 200, NULL, false, 0},
};

/* step 0: all at once; else so many bytes at a time. */
static void check(const struct row *row, size_t step) {
    struct co_http_answer a;
    struct co_err err = {0};
    size_t len = strlen(row->text), at = 0, used = 0;
    int r = 0;
    co_http_answer_init(&a, 100);
    while (at < len && !r && !a.complete) {
        size_t n = step && step < len - at ? step : len - at;
        r = co_http_answer_feed(&a, row->text + at, n, &used, &err);
        at += used;
    }
    if (!r && row->end) {
        r = co_http_answer_end(&a, &err);
    }
    const char *body = a.body.data ? a.body.data : "";
    if (r != row->code || a.status != row->status ||
        (!r && (!a.complete || strcmp(body, row->body) != 0 || a.close != row->close ||
                   len - at != row->rest))) {
        fail_msg("%s, by %zu: %d %s status %d body %s close %d rest %zu", row->what, step, r,
            err.msg, a.status, body, a.close, len - at);
    }
    co_http_answer_done(&a);
}

static void answers_are_parsed_from_chunks_of_any_size(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (size_t step = 0; step < 8; step++) {
            check(&rows[i], step);
        }
    }
}

static void headers_have_a_bound(void **state) {
    (void)state;
    struct co_http_answer a;
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    size_t used;
    co_http_answer_init(&a, 100);
    (void)!co_buf_adds(&text, "HTTP/1.1 200 OK\r\n", NULL);
    for (int i = 0; i < 101; i++) {
        (void)!co_buf_adds(&text, "a: b\r\n", NULL);
    }
    assert_int_equal(co_http_answer_feed(&a, text.data, text.len, &used, NULL), CO_INVALID);
    co_http_answer_done(&a);
    co_http_answer_init(&a, 100);
    memset(text.data, 'x', text.len);
    int r = 0;
    for (int i = 0; i < 100 && !r; i++) {
        r = co_http_answer_feed(&a, text.data, text.len, &used, NULL);
    }
    assert_int_equal(r, CO_NORESOURCE);
    co_http_answer_done(&a);
}

/* By any case of its name, cut to fit; those whose names only begin so are others. */
static void the_wanted_header_is_found_in_any_case(void **state) {
    (void)state;
    static const struct {
        const char *line, *wanted;
    } lines[] = {
        {"X-Proof: abc", "abc"},
        {"x-PROOF:abc", "abc"},
        {"X-Proo: abc", ""},
        {"X-Proofs: abc", ""},
        {"Other: X-Proof", ""},
        {"X-Proof: " LONG LONG, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(lines); i++) {
        struct co_http_answer a;
        size_t used = 0;
        CO_AUTOFREE char *text =
            co_xasprintf("HTTP/1.1 200 OK\r\n%s\r\nContent-Length: 0\r\n\r\n", lines[i].line);
        co_http_answer_init(&a, 10);
        a.want = "X-Proof";
        assert_int_equal(0, co_http_answer_feed(&a, text, strlen(text), &used, NULL));
        assert_true(a.complete);
        if (lines[i].wanted) {
            assert_string_equal(lines[i].wanted, a.wanted);
        } else {
            assert_int_equal(sizeof(a.wanted) - 1, strlen(a.wanted));
        }
        co_http_answer_done(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_parsed_from_chunks_of_any_size),
        cmocka_unit_test(headers_have_a_bound),
        cmocka_unit_test(the_wanted_header_is_found_in_any_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
