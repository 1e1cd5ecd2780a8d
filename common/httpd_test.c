#include "common/httpd.h"

#include "common/buf.h"

#include <stdarg.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { KEPT = 3000 };

/* The server under test and what its handlers saw. */
struct world {
    struct co_loop *l;
    struct co_httpd *h;
    int64_t defer_ms;
    struct co_http_req *kept[KEPT];
    size_t n_kept;
    int timeouts, closes;
    uint64_t conn, disconnected; /* of the last hello; the last that ended */
    bool answer_on_timeout, close_in_handler;
};

static void hello(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    w->conn = co_http_conn(r);
    co_http_replyf(r, 200, "hello\n");
    co_http_replyf(r, 500, "ignored\n");
}

static void echo(void *arg, struct co_http_req *r) {
    (void)arg;
    size_t len;
    const char *body = co_http_body(r, &len);
    const char *q = co_http_query(r, "q");
    const char *x = co_http_header(r, "x-thing");
    CO_AUTOFREE char *text = co_xasprintf("%s %s q=%s x=%s body=%zu:%s", co_http_method(r),
        co_http_path(r), q ? q : "-", x ? x : "-", len, body);
    co_http_reply(r, 201, "text/special", text, strlen(text));
}

static void peer(void *arg, struct co_http_req *r) {
    char text[CO_HTTP_PEER_MAX];
    (void)arg;
    co_http_peer(r, text);
    co_http_replyf(r, 200, "%s\n", text);
}

static void nothing(void *arg, struct co_http_req *r) {
    (void)arg;
    (void)r;
}

static void on_timeout(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    w->timeouts++;
    if (w->answer_on_timeout) {
        co_http_replyf(r, 204, "%s", "");
    }
}

static void on_close(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    w->closes++;
    for (size_t i = 0; i < w->n_kept; i++) {
        if (w->kept[i] == r) {
            w->kept[i] = NULL;
        }
    }
}

static void later(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    assert_true(w->n_kept < KEPT);
    w->kept[w->n_kept++] = r;
    co_http_defer(r, w->defer_ms, on_timeout, on_close, w);
    if (w->close_in_handler) {
        co_httpd_close(co_steal_ptr(w->h));
    }
}

static void defer_and_answer(void *arg, struct co_http_req *r) {
    co_http_defer(r, 1, on_timeout, on_close, arg);
    co_http_replyf(r, 200, "at once\n");
}

static const struct co_http_route routes[] = {
    {"GET", "/hello", hello},
    {NULL, "/echo/*", echo},
    {"POST", "/only-post", hello},
    {"PUT", "/only-post", hello},
    {"GET", "/peer", peer},
    {"GET", "/nothing", nothing},
    {"GET", "/later", later},
    {"GET", "/both", defer_and_answer},
};

static void on_disconnected(void *arg, uint64_t conn) {
    struct world *w = arg;
    w->disconnected = conn;
}

static const struct co_httpd_options options = {.max_connections = 4096,
    .max_per_peer = 4096,
    .max_body = 100,
    .disconnected = on_disconnected};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct co_err err = {0};
    w->defer_ms = 3600 * 1000;
    assert_int_equal(co_loop_new(&w->l, &err), 0);
    int r =
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, &options, &w->h, &err);
    if (r) {
        fail_msg("%s", err.msg);
    }
    *state = w;
    alarm(60);
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    co_httpd_close(w->h);
    co_loop_free(w->l);
    free(w);
    return 0;
}

/* From 127.0.0.host. */
static int dial_from(uint16_t port, uint32_t host) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int dial(uint16_t port) {
    return dial_from(port, 1);
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void readable(void *arg, int events) {
    (void)arg;
    (void)events;
}

/* Turns the loop until fd has something to read; false at the end of the stream. */
static bool receive(struct world *w, int fd, struct co_buf *b) {
    struct co_poll *p = NULL;
    assert_int_equal(co_poll_new(w->l, fd, readable, NULL, &p, NULL), 0);
    co_poll_set(p, CO_POLL_IN);
    ssize_t n;
    char text[4096];
    while ((n = recv(fd, text, sizeof(text), 0)) < 0 && errno == EAGAIN) {
        co_loop_turn(w->l);
    }
    co_poll_free(p);
    if (n > 0) {
        assert_int_equal(co_buf_add(b, text, (size_t)n, NULL), 0);
    }
    return n > 0;
}

/* One request on a connection of its own, "Connection: close" added; the whole response. */
static char *ask(struct world *w, const char *request) {
    int fd = dial(co_httpd_port(w->h));
    say(fd, request);
    struct co_buf b = CO_BUF(1 << 20);
    while (receive(w, fd, &b)) {
    }
    close(fd);
    return co_buf_take(&b);
}

static void expect(struct world *w, const char *request, const char *status, const char *body) {
    CO_AUTOFREE char *text = ask(w, request);
    const char *end = strstr(text, "\r\n\r\n");
    if (!end || strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, status, 3) != 0 ||
        strcmp(end + 4, body) != 0) {
        fail_msg("%s\ngave\n%s\ninstead of %s %s", request, text, status, body);
    }
}

#define CLOSE "Host: x\r\nConnection: close\r\n"

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
    struct world *w = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        expect(w, rows[i].request, rows[i].status, rows[i].body);
    }
    assert_int_equal(w->timeouts + w->closes, 0);
}

static void answers_carry_type_and_allowed_methods(void **state) {
    struct world *w = *state;
    CO_AUTOFREE char *special = ask(w, "GET /echo/ HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(special, "\r\nContent-Type: text/special\r\n"));
    CO_AUTOFREE char *plain = ask(w, "GET /only-post HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(plain, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(plain, "\r\nAllow: POST, PUT\r\n"));
    CO_AUTOFREE char *head = ask(w, "HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_non_null(strstr(head, "\r\nContent-Length: 6\r\n"));
}

static void a_body_too_large_is_answered_413(void **state) {
    struct world *w = *state;
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
    struct world *w = *state;
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
    struct world *w = *state;
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
    struct world *w = *state;
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

static int start_later(struct world *w) {
    int fd = dial(co_httpd_port(w->h));
    size_t before = w->n_kept;
    say(fd, "GET /later HTTP/1.1\r\n" CLOSE "\r\n");
    while (w->n_kept == before) {
        co_loop_turn(w->l);
    }
    return fd;
}

static void read_answer(struct world *w, int fd, const char *status, const char *body) {
    struct co_buf b = CO_BUF(1 << 20);
    while (receive(w, fd, &b)) {
    }
    assert_non_null(b.data);
    assert_memory_equal(b.data + 9, status, 3);
    const char *end = strstr(b.data, "\r\n\r\n");
    assert_non_null(end);
    assert_string_equal(end + 4, body);
    co_buf_done(&b);
    close(fd);
}

static void a_deferred_request_is_answered_later(void **state) {
    struct world *w = *state;
    int fd = start_later(w);
    co_http_replyf(w->kept[0], 200, "%d\n", 42);
    read_answer(w, fd, "200", "42\n");
    assert_int_equal(w->timeouts + w->closes, 0);
}

static void a_deferred_request_times_out(void **state) {
    struct world *w = *state;
    w->defer_ms = 5;
    w->answer_on_timeout = true;
    read_answer(w, start_later(w), "204", "");
    w->answer_on_timeout = false;
    read_answer(w, start_later(w), "504", "nothing happened in time\n");
    assert_int_equal(w->timeouts, 2);
    assert_int_equal(w->closes, 0);
}

static void a_client_that_goes_away_is_noticed(void **state) {
    struct world *w = *state;
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

static void a_connection_that_ends_without_a_request_is_told(void **state) {
    struct world *w = *state;
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
    struct world *w = *state;
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

static void closing_ends_what_is_deferred_and_sends_what_was_answered(void **state) {
    struct world *w = *state;
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
    struct world *w = *state;
    w->close_in_handler = true;
    int fd = start_later(w);
    struct co_buf b = CO_BUF(4096);
    assert_false(receive(w, fd, &b));
    assert_int_equal(w->closes, 1);
    close(fd);
}

static void thousands_of_deferred_requests_are_answered(void **state) {
    struct world *w = *state;
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
    struct world *w = *state;
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

/* ---- too many connections ---- */

static void reopen(struct world *w, const struct co_httpd_options *o) {
    co_httpd_close(co_steal_ptr(w->h));
    assert_int_equal(
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, o, &w->h, NULL), 0);
}

enum { MANY = 64 };

static void dial_many(struct world *w, int fds[MANY], uint32_t host) {
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial_from(co_httpd_port(w->h), host);
    }
}

static void close_many(int fds[MANY]) {
    for (int i = 0; i < MANY; i++) {
        close(fds[i]);
    }
}

static void silent_connections_make_room(void **state) {
    static const struct co_httpd_options rows[] = {{0}, {.max_connections = 4, .max_per_peer = 4},
        {.max_connections = 4, .max_per_peer = 100}, {.max_connections = 8, .max_per_peer = 1}};
    struct world *w = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int fds[MANY];
        reopen(w, &rows[i]);
        dial_many(w, fds, 1);
        expect(w, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
        close_many(fds);
        expect(w, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
    }
}

static void ask_hello(struct world *w, int fd) {
    CO_AUTOBUF struct co_buf b = CO_BUF(4096);
    say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    while (!b.data || !strstr(b.data, "\r\n\r\nhello\n")) {
        assert_true(receive(w, fd, &b));
    }
}

/* All but the last n were closed; the very last. */
static int expect_open(struct world *w, const int fds[MANY], int n) {
    struct co_buf b = CO_BUF(4096);
    for (int i = 0; i < MANY - n; i++) {
        assert_false(receive(w, fds[i], &b));
    }
    for (int i = MANY - n; i < MANY; i++) {
        char c;
        assert_int_equal(recv(fds[i], &c, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
    }
    return fds[MANY - 1];
}

static void one_address_takes_no_place_of_another(void **state) {
    struct world *w = *state;
    static const struct co_httpd_options narrow = {.max_connections = 4, .max_per_peer = 2};
    reopen(w, &narrow);
    int fds[MANY], idle = dial(co_httpd_port(w->h));
    ask_hello(w, idle);
    dial_many(w, fds, 2);
    ask_hello(w, expect_open(w, fds, 2));
    ask_hello(w, idle);
    close_many(fds);
    close(idle);
}

static void requests_that_wait_keep_their_places(void **state) {
    struct world *w = *state;
    static const struct co_httpd_options narrow = {.max_connections = 2, .max_per_peer = 2};
    reopen(w, &narrow);
    int fds[MANY], first = start_later(w), second = start_later(w);
    dial_many(w, fds, 1);
    (void)expect_open(w, fds, 0);
    close_many(fds);
    co_http_replyf(w->kept[0], 200, "1");
    co_http_replyf(w->kept[1], 200, "2");
    read_answer(w, first, "200", "1");
    read_answer(w, second, "200", "2");
    expect(w, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
}

struct trickle {
    struct co_timer *timer;
    int fd;
};

static void trickle(void *arg) {
    struct trickle *t = arg;
    (void)send(t->fd, "x", 1, MSG_NOSIGNAL);
    co_timer_start(t->timer, 50);
}

static void a_first_request_has_little_time(void **state) {
    struct world *w = *state;
    static const struct co_httpd_options hasty = {.first_seconds = 1};
    reopen(w, &hasty);
    struct trickle t = {.fd = dial(co_httpd_port(w->h))};
    int idle = dial(co_httpd_port(w->h));
    struct co_buf b = CO_BUF(4096);
    ask_hello(w, idle);
    int waits = start_later(w);
    say(t.fd, "GET /");
    t.timer = co_timer_new(w->l, trickle, &t);
    co_timer_start(t.timer, 50);
    int64_t before = co_now_ms();
    assert_false(receive(w, t.fd, &b));
    assert_true(co_now_ms() - before >= 900);
    co_timer_free(t.timer);
    ask_hello(w, idle); /* it had its first request */
    co_http_replyf(w->kept[0], 200, "here");
    read_answer(w, waits, "200", "here");
    close(t.fd);
    close(idle);
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
    struct world *w = *state;
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

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        T(a_client_that_goes_away_is_noticed),
        T(a_connection_that_ends_without_a_request_is_told),
        T(a_pipelined_request_waits_for_the_deferred_one),
        T(closing_ends_what_is_deferred_and_sends_what_was_answered),
        T(closing_from_a_handler_is_safe),
        T(thousands_of_deferred_requests_are_answered),
        T(a_peer_is_named_by_its_own_family),
        T(silent_connections_make_room),
        T(one_address_takes_no_place_of_another),
        T(requests_that_wait_keep_their_places),
        T(a_first_request_has_little_time),
        T(descriptors_close_on_exec_and_none_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
