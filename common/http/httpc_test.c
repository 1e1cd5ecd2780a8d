#include "common/http/httpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/listen.h"
#include "common/mem.h"

/* A server that plays a script: the answer to request after request, whatever its connection. */
enum { CONNECTIONS = 8 };

struct world {
    struct co_loop *loop;
    int listening;
    struct co_poll *accepts;
    struct line {
        struct world *w;
        int fd;
        struct co_poll *poll;
    } lines[CONNECTIONS];
    size_t n_lines;
    const char *const *answers; /* NULL: closes without one */
    size_t n_answers, served;
    size_t n_ends;      /* lines that the client closed */
    int64_t stop_until; /* the whole process stands still until then, once it has answered */
    char request[1024]; /* the last one */
    struct co_httpc *client;
    /* of the last result */
    int done, code, status;
    char body[256], err[CO_ERR_MAX], pieces[256];
    enum doing { KEEPS, FREES_WHEN_DONE, FREES_ON_DATA, CANCELS_ON_DATA } does;
};

static void hang_up(struct line *l) {
    co_poll_free(co_steal_ptr(l->poll));
    if (l->fd >= 0) {
        co_close(l->fd);
        l->fd = -1;
    }
}

static void on_line(void *arg, int events) {
    struct line *l = arg;
    struct world *w = l->w;
    (void)events;
    ssize_t n = recv(l->fd, w->request, sizeof(w->request) - 1, 0);
    const char *answer = n > 0 && w->served < w->n_answers ? w->answers[w->served++] : NULL;
    if (n > 0) {
        w->request[n] = '\0';
    }
    w->n_ends += n == 0;
    if (!answer) {
        hang_up(l);
    } else if (*answer) { /* "": nothing, for ever */
        assert_int_equal(send(l->fd, answer, strlen(answer), MSG_NOSIGNAL), strlen(answer));
    }
    while (co_now_ms() < w->stop_until) {
    }
}

static void on_accept(void *arg, int events) {
    struct world *w = arg;
    (void)events;
    int fd = accept4(w->listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    assert_true(w->n_lines < CONNECTIONS);
    struct line *l = &w->lines[w->n_lines++];
    *l = (struct line){.w = w, .fd = fd};
    assert_int_equal(co_poll_new(w->loop, fd, on_line, l, &l->poll, NULL), 0);
    co_poll_set(l->poll, CO_POLL_IN);
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(co_listen("127.0.0.1:0", &w->listening, NULL), 0);
    assert_int_equal(co_poll_new(w->loop, w->listening, on_accept, w, &w->accepts, NULL), 0);
    co_poll_set(w->accepts, CO_POLL_IN);
    w->client = co_httpc_new(w->loop, "127.0.0.1", co_listen_port(w->listening), NULL, 100);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    co_httpc_free(w->client);
    for (size_t i = 0; i < w->n_lines; i++) {
        hang_up(&w->lines[i]);
    }
    co_poll_free(w->accepts);
    co_close(w->listening);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static void on_done(void *arg, const struct co_httpc_result *r) {
    struct world *w = arg;
    w->done++;
    w->code = r->code;
    w->status = r->status;
    (void)snprintf(w->body, sizeof(w->body), "%s", r->body);
    (void)snprintf(w->err, sizeof(w->err), "%s", r->code ? r->err->msg : "");
    assert_int_equal(strlen(r->body), r->len);
    if (w->does == FREES_WHEN_DONE) {
        co_httpc_free(co_steal_ptr(w->client));
    }
}

static void on_piece(void *arg, const char *data, size_t len) {
    struct world *w = arg;
    size_t n = strlen(w->pieces);
    (void)snprintf(w->pieces + n, sizeof(w->pieces) - n, "%.*s", (int)len, data);
    if (w->does == FREES_ON_DATA) {
        co_httpc_free(co_steal_ptr(w->client));
    } else if (w->does == CANCELS_ON_DATA) {
        co_httpc_cancel(w->client);
    }
}

static void post(struct world *w, bool streamed, int64_t timeout_ms) {
    co_httpc_send(w->client, &(struct co_httpc_request){.method = "POST",
                                 .path = "/p?q=1",
                                 .headers = "X-Thing: y\r\n",
                                 .body = "body",
                                 .len = 4,
                                 .timeout_ms = timeout_ms,
                                 .data = streamed ? on_piece : NULL,
                                 .done = on_done,
                                 .arg = w});
}

static void play(struct world *w, const char *const *answers, size_t n) {
    w->answers = answers;
    w->n_answers = n;
}

static void until_done(struct world *w, int n) {
    while (w->done < n) {
        co_loop_turn(w->loop);
    }
}

#define OK_HI "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
static const char ok_hi_and_more[] = OK_HI "more than was asked for";
enum { LONG_MS = 100 * 1000 };

static void a_request_carries_its_query_headers_and_body(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {OK_HI};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, LONG_MS);
    assert_true(co_httpc_busy(w->client));
    assert_int_equal(w->done, 0);
    until_done(w, 1);
    assert_false(co_httpc_busy(w->client));
    assert_int_equal(w->code, 0);
    assert_int_equal(w->status, 200);
    assert_string_equal(w->body, "hi");
    CO_AUTOFREE char *expected = co_xasprintf("POST /p?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                                              "Content-Length: 4\r\nX-Thing: y\r\n\r\nbody",
        co_listen_port(w->listening));
    assert_string_equal(w->request, expected);
}

#define FIFTY "01234567890123456789012345678901234567890123456789"

static void an_answer_is_accepted_or_its_error_is_named(void **state) {
    static const struct {
        const char *answer;
        int code, status;
        const char *body;
    } rows[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", 0, 404, "no\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0,
            200, "abc"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 0, 204, ""},
        {"SSH-2.0-OpenSSH\r\n\r\n", CO_INVALID, 0, ""},
        {"HTTP/1.1 200 OK\r\n\r\n" FIFTY FIFTY "x", CO_NORESOURCE, 200, ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        play(w, &rows[i].answer, 1);
        post(w, false, LONG_MS);
        until_done(w, 1);
        if (w->code != rows[i].code || w->status != rows[i].status ||
            strcmp(w->body, rows[i].body) != 0 || (w->code && !*w->err)) {
            fail_msg(
                "row %zu: %d, status %d, body \"%s\", %s", i, w->code, w->status, w->body, w->err);
        }
        teardown(state);
        setup(state);
    }
}

static void a_connection_is_kept_unless_the_answer_says_otherwise(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {OK_HI, OK_HI,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", OK_HI, ok_hi_and_more,
        OK_HI};
    static const size_t connections[] = {1, 1, 1, 2, 2, 3};
    play(w, answers, CO_ARRAY_LEN(answers));
    for (int i = 0; i < (int)CO_ARRAY_LEN(answers); i++) {
        post(w, false, LONG_MS);
        until_done(w, i + 1);
        assert_int_equal(w->code, 0);
        assert_int_equal(w->n_lines, connections[i]);
    }
}

static void a_kept_connection_that_was_closed_is_replaced_once(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {OK_HI, NULL, OK_HI, NULL, NULL};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, LONG_MS);
    until_done(w, 1);
    post(w, false, LONG_MS);
    until_done(w, 2);
    assert_int_equal(w->code, 0);
    assert_int_equal(w->n_lines, 2);
    post(w, false, LONG_MS);
    until_done(w, 3);
    assert_int_equal(w->code, CO_UNAVAILABLE);
    assert_int_equal(w->n_lines, 3);
    assert_int_equal(w->served, 5);
}

static void an_answer_cut_off_is_an_error(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, LONG_MS);
    while (!w->served) {
        co_loop_turn(w->loop);
    }
    hang_up(&w->lines[0]);
    until_done(w, 1);
    assert_int_not_equal(w->code, 0);
    assert_int_equal(w->n_lines, 1);
}

static void a_timeout_names_the_server_that_did_not_answer(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {""};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, 300);
    until_done(w, 1);
    assert_int_equal(w->code, CO_TIMEOUT);
    CO_AUTOFREE char *expected = co_xasprintf(
        "127.0.0.1 port %u does not answer within 0.3 s", co_listen_port(w->listening));
    assert_string_equal(w->err, expected);
}

static void an_answer_that_came_in_time_is_read_after_a_stop(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {OK_HI};
    enum { TIMEOUT_MS = 50 };
    play(w, answers, CO_ARRAY_LEN(answers));
    w->stop_until = co_now_ms() + 3 * (int64_t)TIMEOUT_MS;
    post(w, false, TIMEOUT_MS);
    until_done(w, 1);
    assert_int_equal(w->code, 0);
    assert_string_equal(w->body, "hi");
}

static void a_stream_comes_in_pieces_and_has_no_deadline(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, true, LONG_MS);
    while (strlen(w->pieces) < 2) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->done, 0);
    static const char rest[] = "1\r\nc\r\n0\r\n\r\n";
    assert_int_equal(send(w->lines[0].fd, rest, strlen(rest), MSG_NOSIGNAL), strlen(rest));
    until_done(w, 1);
    assert_int_equal(w->code, 0);
    assert_string_equal(w->pieces, "abc");
    assert_string_equal(w->body, "");
}

static void callbacks_may_free_or_cancel(void **state) {
    static const struct {
        enum doing does;
        bool streamed;
        int done;
    } rows[] = {{FREES_WHEN_DONE, false, 1}, {FREES_ON_DATA, true, 0}, {CANCELS_ON_DATA, true, 0}};
    static const char *const answers[] = {OK_HI, OK_HI};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        play(w, answers, 1);
        w->does = rows[i].does;
        post(w, rows[i].streamed, LONG_MS);
        while (!w->done && !*w->pieces) {
            co_loop_turn(w->loop);
        }
        assert_int_equal(w->done, rows[i].done);
        if (w->client) { /* and continues with the next one */
            w->does = KEEPS;
            play(w, answers, 2);
            post(w, false, LONG_MS);
            until_done(w, 1);
            assert_int_equal(w->code, 0);
        }
        teardown(state);
        setup(state);
    }
}

static void a_new_request_takes_the_place_of_the_old_one(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {"", OK_HI};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, LONG_MS);
    while (!w->served) {
        co_loop_turn(w->loop);
    }
    post(w, false, LONG_MS);
    until_done(w, 1);
    assert_int_equal(w->code, 0);
    assert_int_equal(w->served, 2);
}

/* A rendezvous would take a node whose connection ends for gone. */
static void the_old_connection_ends_after_the_new_answer(void **state) {
    struct world *w = *state;
    static const char *const answers[] = {
        "", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", OK_HI};
    play(w, answers, CO_ARRAY_LEN(answers));
    post(w, false, LONG_MS);
    while (!w->served) {
        co_loop_turn(w->loop);
    }
    for (int i = 1; i <= 2; i++) { /* not before the server has got a proof that it asks for */
        assert_int_equal(w->n_ends, 0);
        post(w, false, LONG_MS);
        until_done(w, i);
    }
    assert_int_equal(w->status, 200);
    assert_int_equal(w->n_lines, 2);
    while (!w->n_ends) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->lines[0].fd, -1);
    assert_true(w->lines[1].fd >= 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_request_carries_its_query_headers_and_body),
        T(an_answer_is_accepted_or_its_error_is_named),
        T(a_connection_is_kept_unless_the_answer_says_otherwise),
        T(a_kept_connection_that_was_closed_is_replaced_once),
        T(an_answer_cut_off_is_an_error),
        T(a_timeout_names_the_server_that_did_not_answer),
        T(an_answer_that_came_in_time_is_read_after_a_stop),
        T(a_stream_comes_in_pieces_and_has_no_deadline),
        T(callbacks_may_free_or_cancel),
        T(a_new_request_takes_the_place_of_the_old_one),
        T(the_old_connection_ends_after_the_new_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
