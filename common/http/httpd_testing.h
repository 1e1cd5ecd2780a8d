/* For the tests of httpd: a server whose handlers record what they see, and clients on sockets of
 * the same loop.  To be included once in a program. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/http/httpd.h"

enum { KEPT = 3000 };

/* The server under test and what its handlers saw. */
struct httpd_world {
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
    struct httpd_world *w = arg;
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
    struct httpd_world *w = arg;
    w->timeouts++;
    if (w->answer_on_timeout) {
        co_http_replyf(r, 204, "%s", "");
    }
}

static void on_close(void *arg, struct co_http_req *r) {
    struct httpd_world *w = arg;
    w->closes++;
    for (size_t i = 0; i < w->n_kept; i++) {
        if (w->kept[i] == r) {
            w->kept[i] = NULL;
        }
    }
}

static void later(void *arg, struct co_http_req *r) {
    struct httpd_world *w = arg;
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
    struct httpd_world *w = arg;
    w->disconnected = conn;
}

static const struct co_httpd_options options = {.max_connections = 4096,
    .max_per_peer = 4096,
    .max_body = 100,
    .disconnected = on_disconnected};

static int setup(void **state) {
    struct httpd_world *w = co_xcalloc(1, sizeof(*w));
    struct co_err err = {0};
    w->defer_ms = 3600 * 1000;
    assert_int_equal(co_loop_new(&w->l, &err), 0);
    int r =
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, &options, &w->h, &err);
    if (r) {
        fail_msg("%s", err.msg);
    }
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct httpd_world *w = *state;
    co_httpd_close(w->h);
    co_loop_free(w->l);
    free(w);
    return 0;
}

/* From 127.0.0.host. connect picks the port: one that bind picks is shared with nobody at that
 * address, and some programs with thousands of connections each use up the range; each bind then
 * searches all of it. */
static int dial_from(uint16_t port, uint32_t host) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), late = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof(late)), 0);
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
static bool receive(struct httpd_world *w, int fd, struct co_buf *b) {
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
static char *ask(struct httpd_world *w, const char *request) {
    int fd = dial(co_httpd_port(w->h));
    say(fd, request);
    struct co_buf b = CO_BUF(1 << 20);
    while (receive(w, fd, &b)) {
    }
    close(fd);
    return co_buf_take(&b);
}

static void expect(
    struct httpd_world *w, const char *request, const char *status, const char *body) {
    CO_AUTOFREE char *text = ask(w, request);
    const char *end = strstr(text, "\r\n\r\n");
    if (!end || strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, status, 3) != 0 ||
        strcmp(end + 4, body) != 0) {
        fail_msg("%s\ngave\n%s\ninstead of %s %s", request, text, status, body);
    }
}

#define CLOSE "Host: x\r\nConnection: close\r\n"

static void read_answer(struct httpd_world *w, int fd, const char *status, const char *body) {
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

static int start_later(struct httpd_world *w) {
    int fd = dial(co_httpd_port(w->h));
    size_t before = w->n_kept;
    say(fd, "GET /later HTTP/1.1\r\n" CLOSE "\r\n");
    while (w->n_kept == before) {
        co_loop_turn(w->l);
    }
    return fd;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
