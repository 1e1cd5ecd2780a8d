#include <sys/resource.h>

#include "common/http/httpd_testing.h"

static void routes_answer_by_path_and_method(void **state) {
    static const struct {
        const char *request, *status, *body;
    } rows[] = {
        {"GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n"},
        {"HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", ""},
        {"GET /hello/ HTTP/1.1\r\n" CLOSE "\r\n", "404", "nothing at /hello/\n"},
        {"GET /echo HTTP/1.1\r\n" CLOSE "\r\n", "404", "nothing at /echo\n"},
        {"GET /echo/ HTTP/1.1\r\n" CLOSE "\r\n", "201", "GET /echo/ q=- x=- body=0:"},
        {"GET /echo/a%20b?q=1%2B1&r HTTP/1.1\r\nX-Thing: y\r\n" CLOSE "\r\n", "201",
            "GET /echo/a b q=1+1 x=y body=0:"},
        {"GET /echo/?q HTTP/1.1\r\n" CLOSE "\r\n", "201", "GET /echo/ q= x=- body=0:"},
        {"DELETE /echo/x HTTP/1.1\r\n" CLOSE "\r\n", "201", "DELETE /echo/x q=- x=- body=0:"},
        {"POST /echo/x HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "201",
            "POST /echo/x q=- x=- body=3:abc"},
        {"PUT /echo/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
         "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "201", "PUT /echo/x q=- x=- body=5:abcde"},
        {"POST /hello HTTP/1.1\r\nContent-Length: 1\r\n" CLOSE "\r\nx", "405",
            "POST is not possible here, only GET\n"},
        {"GET /only-post HTTP/1.1\r\n" CLOSE "\r\n", "405",
            "GET is not possible here, only POST, PUT\n"},
        {"GET /nothing HTTP/1.1\r\n" CLOSE "\r\n", "500", "no answer\n"},
        {"GET /both HTTP/1.1\r\n" CLOSE "\r\n", "200", "at once\n"},
    };
    struct httpd_world *w = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        expect(w, rows[i].request, rows[i].status, rows[i].body);
    }
    assert_int_equal(w->timeouts + w->closes, 0);
}

static void answers_carry_type_and_allowed_methods(void **state) {
    struct httpd_world *w = *state;
    CO_AUTOFREE char *special = ask(w, "GET /echo/ HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(special, "\r\nContent-Type: text/special\r\n"));
    CO_AUTOFREE char *plain = ask(w, "GET /only-post HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(plain, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(plain, "\r\nAllow: POST, PUT\r\n"));
    CO_AUTOFREE char *head = ask(w, "HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(head, "\r\nContent-Length: 6\r\n"));
}

static void a_body_too_large_is_answered_413(void **state) {
    struct httpd_world *w = *state;
    static const struct {
        size_t declared, sent;
        bool chunked;
    } rows[] = {
        {101, 101, false}, {200000, 200000, false}, {1ul << 40, 0, false}, {300, 300, true}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_buf b = CO_BUF(1 << 20);
        char head[64] = "Transfer-Encoding: chunked";
        if (!rows[i].chunked) {
            (void)snprintf(head, sizeof(head), "Content-Length: %zu", rows[i].declared);
        }
        assert_int_equal(
            co_buf_addf(&b, NULL, "POST /echo/ HTTP/1.1\r\n%s\r\n" CLOSE "\r\n", head), 0);
        if (rows[i].chunked) {
            assert_int_equal(co_buf_addf(&b, NULL, "%zx\r\n", rows[i].sent), 0);
        }
        assert_int_equal(co_buf_reserve(&b, rows[i].sent, NULL), 0);
        memset(b.data + b.len, 'x', rows[i].sent);
        b.len += rows[i].sent;
        assert_int_equal(co_buf_adds(&b, rows[i].chunked ? "\r\n0\r\n\r\n" : "", NULL), 0);
        expect(w, b.data, "413", "a body has at most 100 bytes here\n");
        co_buf_done(&b);
    }
}

static void a_body_of_the_limit_is_taken(void **state) {
    CO_AUTOFREE char *request =
        co_xasprintf("POST /echo/ HTTP/1.1\r\nContent-Length: 100\r\n" CLOSE "\r\n%0100d", 0);
    CO_AUTOFREE char *body = co_xasprintf("POST /echo/ q=- x=- body=100:%0100d", 0);
    expect(*state, request, "201", body);
}

static void an_endless_chunked_body_ends_with_the_connection(void **state) {
    struct httpd_world *w = *state;
    int fd = dial(co_httpd_port(w->h));
    say(fd, "POST /echo/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    char chunk[4096 + 16];
    int n = snprintf(chunk, sizeof(chunk), "1000\r\n%04096d\r\n", 0);
    size_t sent = 0;
    char c;
    /* a chunk that is cut makes it no valid body any more, which ends it, too */
    while (sent < 64u << 20 && recv(fd, &c, 1, 0) < 0 && errno == EAGAIN) {
        ssize_t k = send(fd, chunk, (size_t)n, MSG_NOSIGNAL);
        sent += k > 0 ? (size_t)k : 0;
        co_loop_turn(w->l);
    }
    assert_true(sent < 16u << 20);
    close(fd);
}

static void headers_too_large_are_refused(void **state) {
    CO_AUTOFREE char *request =
        co_xasprintf("GET /hello HTTP/1.1\r\nX: %020000d\r\n" CLOSE "\r\n", 0);
    CO_AUTOFREE char *text = ask(*state, request);
    assert_true(strncmp(text, "HTTP/1.1 4", 10) == 0 || !*text);
}

static void garbage_is_refused(void **state) {
    CO_AUTOFREE char *text = ask(*state, "\x16\x03\x01 nothing like HTTP\r\n\r\n");
    assert_true(
        !*text || strncmp(text, "HTTP/1.1 400", 12) == 0 || strncmp(text, "HTTP/1.1 505", 12) == 0);
    expect(*state, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
}

static void a_connection_serves_many_requests(void **state) {
    struct httpd_world *w = *state;
    int fd = dial(co_httpd_port(w->h));
    struct co_buf b = CO_BUF(1 << 20);
    for (int i = 0; i < 3; i++) {
        say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        co_buf_clear(&b);
        while (!b.data || !strstr(b.data, "\r\n\r\nhello\n")) {
            assert_true(receive(w, fd, &b));
        }
    }
    co_buf_done(&b);
    close(fd);
}

static void an_idle_connection_is_closed(void **state) {
    struct httpd_world *w = *state;
    static const struct co_httpd_options hasty = {.idle_seconds = 1};
    co_httpd_close(co_steal_ptr(w->h));
    assert_int_equal(
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, &hasty, &w->h, NULL),
        0);
    int fd = dial(co_httpd_port(w->h));
    struct co_buf b = CO_BUF(4096);
    say(fd, "GET /hel");
    assert_false(receive(w, fd, &b));
    close(fd);
}

static void a_deferred_request_is_answered_later(void **state) {
    struct httpd_world *w = *state;
    int fd = start_later(w);
    co_http_replyf(w->kept[0], 200, "%d\n", 42);
    read_answer(w, fd, "200", "42\n");
    assert_int_equal(w->timeouts + w->closes, 0);
}

static void a_deferred_request_times_out(void **state) {
    struct httpd_world *w = *state;
    w->defer_ms = 5;
    w->answer_on_timeout = true;
    read_answer(w, start_later(w), "204", "");
    w->answer_on_timeout = false;
    read_answer(w, start_later(w), "504", "nothing happened in time\n");
    assert_int_equal(w->timeouts, 2);
    assert_int_equal(w->closes, 0);
}

static void a_client_that_disconnects_cancels_its_deferred_request(void **state) {
    struct httpd_world *w = *state;
    for (int i = 0; i < 3; i++) {
        int fd = start_later(w);
        if (i == 1) {
            struct linger reset = {.l_onoff = 1};
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
        }
        if (i == 2) {
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
        } else {
            close(fd);
        }
        while (w->closes == i) {
            co_loop_turn(w->l);
        }
        if (i == 2) {
            struct co_buf b = CO_BUF(4096);
            assert_false(receive(w, fd, &b));
            close(fd);
        }
        assert_null(w->kept[i]);
    }
    assert_int_equal(w->closes, 3);
    assert_int_equal(w->timeouts, 0);
}

static void a_connection_that_ends_without_a_request_is_reported(void **state) {
    struct httpd_world *w = *state;
    for (int i = 0; i < 2; i++) {
        int fd = dial(co_httpd_port(w->h));
        say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        CO_AUTOBUF struct co_buf b = CO_BUF(4096);
        assert_true(receive(w, fd, &b));
        uint64_t conn = w->conn;
        assert_true(conn > w->disconnected); /* another one than before */
        close(fd);
        while (w->disconnected != conn) {
            co_loop_turn(w->l);
        }
    }
}

static void set_true(void *arg) {
    *(bool *)arg = true;
}

static void a_pipelined_request_waits_for_the_deferred_one(void **state) {
    struct httpd_world *w = *state;
    int fd = dial(co_httpd_port(w->h));
    say(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    while (w->n_kept == 0) {
        co_loop_turn(w->l);
    }
    say(fd, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    bool over = false;
    struct co_timer *t = co_timer_new(w->l, set_true, &over);
    co_timer_start(t, 50);
    int turns = 0;
    while (!over) {
        co_loop_turn(w->l);
        turns++;
    }
    assert_true(turns < 20); /* waits, does not spin */
    co_timer_free(t);
    co_http_replyf(w->kept[0], 200, "first\n");
    struct co_buf b = CO_BUF(1 << 20);
    while (receive(w, fd, &b)) {
    }
    const char *first = strstr(b.data, "first\n");
    assert_non_null(first);
    assert_non_null(strstr(first, "hello\n"));
    co_buf_done(&b);
    close(fd);
}

static void closing_drops_deferred_requests_and_sends_finished_answers(void **state) {
    struct httpd_world *w = *state;
    int waiting = start_later(w), answered = start_later(w);
    co_http_replyf(w->kept[1], 200, "last words\n");
    co_httpd_close(co_steal_ptr(w->h));
    assert_int_equal(w->closes, 1);
    assert_null(w->kept[0]);
    struct co_buf b = CO_BUF(4096);
    assert_false(receive(w, waiting, &b));
    close(waiting);
    read_answer(w, answered, "200", "last words\n");
}

static void closing_from_a_handler_is_safe(void **state) {
    struct httpd_world *w = *state;
    w->close_in_handler = true;
    int fd = start_later(w);
    struct co_buf b = CO_BUF(4096);
    assert_false(receive(w, fd, &b));
    assert_int_equal(w->closes, 1);
    close(fd);
}

static void thousands_of_deferred_requests_are_answered(void **state) {
    struct httpd_world *w = *state;
    struct rlimit files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    size_t n = files.rlim_cur > 2 * KEPT + 100 ? KEPT : 300;
    int *fds = co_xcalloc(n, sizeof(*fds));
    for (size_t i = 0; i < n; i++) {
        fds[i] = dial(co_httpd_port(w->h));
        say(fds[i], "GET /later HTTP/1.1\r\n" CLOSE "\r\n");
        co_loop_turn(w->l);
    }
    while (w->n_kept < n) {
        co_loop_turn(w->l);
    }
    for (size_t i = 0; i < n; i++) {
        co_http_replyf(w->kept[i], 200, "x");
    }
    for (size_t i = 0; i < n; i++) {
        read_answer(w, fds[i], "200", "x");
    }
    free(fds);
}

static void a_peer_is_named_by_its_own_family(void **state) {
    struct httpd_world *w = *state;
    struct co_err err;
    co_httpd_close(co_steal_ptr(w->h));
    assert_int_equal(
        co_httpd_open(w->l, ":0", routes, CO_ARRAY_LEN(routes), w, NULL, &w->h, &err), 0);
    expect(w, "GET /peer HTTP/1.1\r\n" CLOSE "\r\n", "200", "127.0.0.1\n");
    struct sockaddr_in6 a = {.sin6_family = AF_INET6,
        .sin6_port = htons(co_httpd_port(w->h)),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0) {
        assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        say(fd, "GET /peer HTTP/1.1\r\n" CLOSE "\r\n");
        read_answer(w, fd, "200", "::1\n");
    } else {
        assert_true(errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL || errno == ENETUNREACH);
    }
}

static int count_fds_without_cloexec(int *ret_open) {
    int bad = 0;
    *ret_open = 0;
    for (int fd = 3; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        *ret_open += flags >= 0;
        bad += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return bad;
}

static void descriptors_close_on_exec_and_none_is_left(void **state) {
    struct httpd_world *w = *state;
    int open_before, open_after, during;
    int inherited = count_fds_without_cloexec(&open_before);
    int fd = start_later(w);
    assert_int_equal(count_fds_without_cloexec(&during), inherited);
    close(fd);
    co_httpd_close(co_steal_ptr(w->h));
    co_loop_turn(w->l);
    (void)count_fds_without_cloexec(&open_after);
    struct co_err err;
    assert_int_equal(
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, &options, &w->h, &err),
        0);
    (void)count_fds_without_cloexec(&during);
    assert_int_equal(during, open_before);
    assert_true(open_after < open_before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(routes_answer_by_path_and_method),
        T(answers_carry_type_and_allowed_methods),
        T(a_body_too_large_is_answered_413),
        T(a_body_of_the_limit_is_taken),
        T(an_endless_chunked_body_ends_with_the_connection),
        T(headers_too_large_are_refused),
        T(garbage_is_refused),
        T(a_connection_serves_many_requests),
        T(an_idle_connection_is_closed),
        T(a_deferred_request_is_answered_later),
        T(a_deferred_request_times_out),
        T(a_client_that_disconnects_cancels_its_deferred_request),
        T(a_connection_that_ends_without_a_request_is_reported),
        T(a_pipelined_request_waits_for_the_deferred_one),
        T(closing_drops_deferred_requests_and_sends_finished_answers),
        T(closing_from_a_handler_is_safe),
        T(thousands_of_deferred_requests_are_answered),
        T(a_peer_is_named_by_its_own_family),
        T(descriptors_close_on_exec_and_none_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
