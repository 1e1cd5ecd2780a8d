#include "common/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cert.h"
#include "common/http/httpd.h"
#include "common/listen.h"
#include "common/mem.h"
#include "common/network_testing.h"
#include "common/ports_testing.h"

static const char request[] = "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

struct world {
    struct co_loop *loop;
    struct co_conn *conn;
    int ups, downs;
    struct co_err err;
    char got[1024];
    size_t n_got;
    bool close_when_up, flood_when_up;
    char files[2][64]; /* certificates: the server's, a stranger's */
};

/* More than may wait. */
static void flood(struct world *w) {
    enum { PIECE = 1 << 20, PIECES = 5 };
    CO_AUTOFREE char *piece = co_xcalloc(1, PIECE);
    for (int i = 0; i < PIECES; i++) {
        co_conn_send(w->conn, piece, PIECE);
    }
}

static void on_up(void *arg) {
    struct world *w = arg;
    w->ups++;
    if (w->flood_when_up) {
        flood(w);
    }
    if (w->close_when_up) {
        co_conn_close(co_steal_ptr(w->conn));
    }
}

static void on_data(void *arg, const char *data, size_t len) {
    struct world *w = arg;
    size_t room = sizeof(w->got) - 1 - w->n_got, n = len < room ? len : room;
    memcpy(w->got + w->n_got, data, n);
    w->n_got += n;
}

static void on_down(void *arg, const struct co_err *err) {
    struct world *w = arg;
    w->downs++;
    w->err = *err;
}

static const struct co_conn_fns fns = {.up = on_up, .data = on_data, .down = on_down};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    co_conn_close(w->conn);
    co_loop_free(w->loop);
    for (size_t i = 0; i < CO_ARRAY_LEN(w->files); i++) {
        if (w->files[i][0]) {
            (void)unlink(w->files[i]);
        }
    }
    free(w);
    return 0;
}

static void until_down(struct world *w) {
    while (!w->downs) {
        co_loop_turn(w->loop);
    }
    co_conn_close(co_steal_ptr(w->conn));
}

static void open_to(
    struct world *w, const char *host, uint16_t port, const struct co_conn_tls *tls) {
    struct co_err err = {0};
    w->ups = w->downs = 0;
    if (co_conn_open(w->loop, host, port, tls, &fns, w, &w->conn, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(w->ups + w->downs, 0);
}

/* ---- plain ------------------------------------------------------------------------------ */

static void bytes_sent_before_the_connection_is_up_arrive(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int listening = -1;
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    open_to(w, "127.0.0.1", co_listen_port(listening), NULL);
    co_conn_send(w->conn, "early ", 6);
    while (!w->ups) {
        co_loop_turn(w->loop);
    }
    co_conn_send(w->conn, "late", 4);
    CO_AUTOCLOSE int fd = accept(listening, NULL, NULL);
    assert_true(fd >= 0);
    char got[16] = "";
    size_t n = 0;
    while (n < 10) {
        co_loop_turn(w->loop);
        ssize_t more = recv(fd, got + n, sizeof(got) - 1 - n, MSG_DONTWAIT);
        n += more > 0 ? (size_t)more : 0;
    }
    assert_string_equal(got, "early late");
    assert_int_equal(send(fd, "answer", 6, MSG_NOSIGNAL), 6);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    until_down(w);
    assert_string_equal(w->got, "answer");
    assert_int_equal(w->err.code, CO_UNAVAILABLE);
    assert_string_equal(w->err.msg, "127.0.0.1 closed the connection");
}

static void a_refused_connection_names_the_address(void **state) {
    struct world *w = *state;
    uint16_t port = co_test_ports(1); /* one of the kernel's may be another process's soon */
    char place[64];
    (void)snprintf(place, sizeof(place), "cannot connect to 127.0.0.1 port %u", port);
    open_to(w, "127.0.0.1", port, NULL);
    until_down(w);
    assert_int_equal(w->ups, 0);
    assert_int_equal(w->err.code, CO_UNAVAILABLE);
    assert_non_null(strstr(w->err.msg, place));
}

/* "localhost" may be ::1 first, where nobody listens. */
static void all_addresses_of_a_name_are_tried(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int listening = -1;
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    open_to(w, "localhost", co_listen_port(listening), NULL);
    while (!w->ups && !w->downs) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->ups, 1);
}

static void a_connection_may_be_closed_in_every_state(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int listening = -1;
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    open_to(w, "127.0.0.1", co_listen_port(listening), NULL);
    co_conn_close(co_steal_ptr(w->conn)); /* before it knows the address */
    w->close_when_up = true;
    open_to(w, "127.0.0.1", co_listen_port(listening), NULL);
    while (!w->ups) {
        co_loop_turn(w->loop);
    }
    co_loop_turn(w->loop);
    assert_int_equal(w->ups, 1);
    assert_int_equal(w->downs, 0);
}

/* Reported at once with the cause, in every state of the connection: not when TCP or the caller
 * gives up.
 */
static void the_send_queue_of_a_connection_is_bounded(void **state) {
    struct world *w = *state;
    static const struct {
        const char *when, *host;
        bool up;
    } rows[] = {
        {"before its address is known", "127.0.0.1", false},
        {"before its name is known", "localhost", false},
        {"when it is up, and nobody reads", "127.0.0.1", true},
    };
    CO_AUTOCLOSE int listening = -1;
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        open_to(w, rows[i].host, co_listen_port(listening), NULL);
        while (rows[i].up && !w->ups) {
            co_loop_turn(w->loop);
        }
        flood(w);
        assert_int_equal(w->downs, 0);
        until_down(w);
        if (w->err.code != CO_NORESOURCE ||
            !strstr(w->err.msg, "more than 4 MiB wait to be sent to") || w->ups != rows[i].up) {
            fail_msg("%s: %d %s, ups %d", rows[i].when, w->err.code, w->err.msg, w->ups);
        }
    }
}

/* Also from the callback that says it is up: what follows there must not touch the socket. */
static void a_full_send_queue_in_the_up_callback_ends_the_connection(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int listening = -1;
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    w->flood_when_up = true;
    open_to(w, "127.0.0.1", co_listen_port(listening), NULL);
    until_down(w);
    assert_int_equal(w->ups, 1);
    assert_int_equal(w->err.code, CO_NORESOURCE);
}

/* ---- TLS -------------------------------------------------------------------------------- */

static void write_file(char *ret_path, size_t size, const char *text) {
    (void)snprintf(ret_path, size, "/tmp/conn_test.XXXXXX");
    CO_AUTOCLOSE int fd = mkstemp(ret_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void hello(void *arg, struct co_http_req *r) {
    (void)arg;
    co_http_replyf(r, 200, "hello\n");
}

static const struct co_http_route routes[] = {{"GET", "/x", hello}};

/* A server with a certificate for "localhost". */
static struct co_httpd *serve(struct world *w) {
    struct co_httpd *h = NULL;
    for (size_t i = 0; i < CO_ARRAY_LEN(w->files); i++) {
        CO_AUTOFREE char *cert = NULL;
        CO_AUTOFREE char *key = NULL;
        assert_int_equal(co_cert_self_signed("localhost", &cert, &key, NULL), 0);
        write_file(w->files[i], sizeof(w->files[i]), cert);
        const struct co_httpd_options options = {.cert = cert, .key = key};
        if (i == 0) {
            assert_int_equal(co_httpd_open(w->loop, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes),
                                 NULL, &options, &h, NULL),
                0);
        }
    }
    return h;
}

static void a_server_certificate_is_verified_by_ca_and_name(void **state) {
    struct world *w = *state;
    static const struct {
        const char *what, *host;
        int ca; /* number of the file */
        bool good;
    } rows[] = {
        {"its own", "localhost", 0, true},
        {"signed by a stranger", "localhost", 1, false},
        {"for another name", "127.0.0.1", 0, false},
    };
    struct co_httpd *h = serve(w);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct co_conn_tls tls = {.ca_file = w->files[rows[i].ca]};
        w->n_got = 0;
        memset(w->got, 0, sizeof(w->got));
        open_to(w, rows[i].host, co_httpd_port(h), &tls);
        co_conn_send(w->conn, request, strlen(request));
        until_down(w);
        bool answered = strstr(w->got, "hello\n") != NULL;
        if (answered != rows[i].good || w->ups != rows[i].good ||
            (!rows[i].good && w->err.code != CO_PERMISSION)) {
            fail_msg("%s: up %d, answered %d, %s", rows[i].what, w->ups, answered, w->err.msg);
        }
    }
    co_httpd_close(h);
}

static void a_tls_connection_to_a_plain_server_fails(void **state) {
    struct world *w = *state;
    struct co_httpd *h = serve(w), *plain = NULL;
    assert_int_equal(co_httpd_open(w->loop, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), NULL, NULL,
                         &plain, NULL),
        0);
    const struct co_conn_tls tls = {.ca_file = w->files[0]};
    open_to(w, "localhost", co_httpd_port(plain), &tls);
    until_down(w);
    assert_int_equal(w->ups, 0);
    assert_int_equal(w->err.code, CO_UNAVAILABLE);
    assert_non_null(strstr(w->err.msg, "TLS with localhost: "));
    co_httpd_close(plain);
    co_httpd_close(h);
}

static void errors_name_missing_tls_files(void **state) {
    struct world *w = *state;
    struct co_httpd *h = serve(w);
    static const struct {
        struct co_conn_tls tls;
        const char *text;
    } rows[] = {
        {{.ca_file = "/nonexistent/ca"}, "no CA certificate in /nonexistent/ca"},
        {{.ca_file = NULL, .cert_file = "/nonexistent/cert", .key_file = "/nonexistent/key"},
            "no certificate in /nonexistent/cert with its key in /nonexistent/key"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_conn_tls tls = rows[i].tls;
        struct co_err err = {0};
        tls.ca_file = tls.ca_file ? tls.ca_file : w->files[0];
        assert_int_equal(
            co_conn_open(w->loop, "localhost", 1, &tls, &fns, w, &w->conn, &err), CO_INVALID);
        assert_non_null(strstr(err.msg, rows[i].text));
        assert_null(w->conn);
    }
    co_httpd_close(h);
}

/* ---- the network goes away: the last test, as it takes this process out of the machine's ---- */

/* Nothing is sent: the answer is waited for. */
static void a_peer_that_is_gone_without_a_word_is_found(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int listening = -1;
    if (!co_test_network_new()) {
        skip();
    }
    assert_true(co_test_loopback(true));
    assert_int_equal(co_listen("127.0.0.1:0", &listening, NULL), 0);
    open_to(w, "127.0.0.1", co_listen_port(listening), NULL);
    while (!w->ups) {
        co_loop_turn(w->loop);
    }
    assert_true(co_test_loopback(false));
    until_down(w);
    assert_int_equal(w->err.code, CO_UNAVAILABLE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(bytes_sent_before_the_connection_is_up_arrive),
        T(a_refused_connection_names_the_address),
        T(all_addresses_of_a_name_are_tried),
        T(a_connection_may_be_closed_in_every_state),
        T(the_send_queue_of_a_connection_is_bounded),
        T(a_full_send_queue_in_the_up_callback_ends_the_connection),
        T(a_server_certificate_is_verified_by_ca_and_name),
        T(a_tls_connection_to_a_plain_server_fails),
        T(errors_name_missing_tls_files),
        T(a_peer_that_is_gone_without_a_word_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
