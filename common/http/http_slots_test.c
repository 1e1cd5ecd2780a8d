#include "common/clock_testing.h"
#include "common/http/httpd_testing.h"

static void reopen(struct httpd_world *w, const struct co_httpd_options *o) {
    co_httpd_close(co_steal_ptr(w->h));
    assert_int_equal(
        co_httpd_open(w->l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, o, &w->h, NULL), 0);
}

enum { MANY = 64 };

static void dial_many(struct httpd_world *w, int fds[MANY], uint32_t host) {
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
    struct httpd_world *w = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int fds[MANY];
        reopen(w, &rows[i]);
        dial_many(w, fds, 1);
        expect(w, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
        close_many(fds);
        expect(w, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "200", "hello\n");
    }
}

static void ask_hello(struct httpd_world *w, int fd) {
    CO_AUTOBUF struct co_buf b = CO_BUF(4096);
    say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    while (!b.data || !strstr(b.data, "\r\n\r\nhello\n")) {
        assert_true(receive(w, fd, &b));
    }
}

/* All but the last n were closed; the very last. */
static int expect_open(struct httpd_world *w, const int fds[MANY], int n) {
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

static void connections_of_one_address_never_evict_those_of_another(void **state) {
    struct httpd_world *w = *state;
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
    struct httpd_world *w = *state;
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

/* However much of it comes. */
static void a_slow_first_request_ends_its_connection(void **state) {
    struct httpd_world *w = *state;
    enum { HALF_S = 900 };
    static const struct co_httpd_options hasty = {
        .first_seconds = 2 * HALF_S, .idle_seconds = 100 * HALF_S};
    reopen(w, &hasty);
    int slow = dial(co_httpd_port(w->h)), idle = dial(co_httpd_port(w->h));
    struct co_buf b = CO_BUF(4096);
    say(slow, "GET /");
    ask_hello(w, idle);
    int waits = start_later(w);
    co_test_clock_forward(HALF_S * 1000);
    say(slow, "x");
    ask_hello(w, idle);
    char c;
    assert_int_equal(recv(slow, &c, 1, 0), -1); /* still open */
    assert_int_equal(errno, EAGAIN);
    co_test_clock_forward(HALF_S * 1000);
    assert_false(receive(w, slow, &b));
    ask_hello(w, idle); /* it had its first request */
    co_http_replyf(w->kept[0], 200, "here");
    read_answer(w, waits, "200", "here");
    close(slow);
    close(idle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(silent_connections_make_room),
        T(connections_of_one_address_never_evict_those_of_another),
        T(requests_that_wait_keep_their_places),
        T(a_slow_first_request_ends_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
