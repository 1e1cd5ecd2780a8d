/* Two ends in one thread; what goes between them can be looked at and changed. */
#include "common/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"

enum { DIALS, ACCEPTS };

struct pair {
    struct co_tls *end[2];
    int fd[2];
};

static const unsigned char key[CO_TLS_KEY_BYTES] = {1, 2, 3};
static const unsigned char other_key[CO_TLS_KEY_BYTES] = {1, 2, 4};

static void open_pair(struct pair *p, const unsigned char *accepts_key) {
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p->fd));
    assert_int_equal(0, co_tls_new(false, key, &p->end[DIALS], NULL));
    assert_int_equal(0, co_tls_new(true, accepts_key, &p->end[ACCEPTS], NULL));
}

static void close_pair(struct pair *p) {
    for (size_t i = 0; i < 2; i++) {
        co_tls_free(p->end[i]);
        if (p->fd[i] >= 0) {
            co_close(p->fd[i]);
        }
    }
}

/* Until both are done or one has failed; the result of each. */
static void shake(struct pair *p, int ret[2], struct co_err err[2]) {
    ret[DIALS] = ret[ACCEPTS] = 0;
    for (size_t i = 0; i < 20 && (ret[DIALS] == 0 || ret[ACCEPTS] == 0); i++) {
        if (ret[i % 2] == 0) {
            ret[i % 2] = co_tls_shake(p->end[i % 2], p->fd[i % 2], &err[i % 2]);
        }
    }
}

static int setup(void **state) {
    struct pair *p = co_xcalloc(1, sizeof(*p));
    int rc[2];
    struct co_err err[2] = {{0}};
    open_pair(p, key);
    shake(p, rc, err);
    assert_int_equal(1, rc[DIALS]);
    assert_int_equal(1, rc[ACCEPTS]);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    close_pair(*state);
    free(*state);
    return 0;
}

/* What one end has to send, all of it. */
static struct co_buf take(struct pair *p, int from) {
    struct co_buf b = CO_BUF(1 << 22);
    const char *wire = NULL;
    size_t n = co_tls_waiting(p->end[from], &wire);
    assert_int_equal(0, co_buf_add(&b, wire, n, NULL));
    co_tls_sent(p->end[from], n);
    return b;
}

/* Everything that was fed; the result of the last read. */
static int read_all(struct co_tls *t, struct co_buf *ret, struct co_err *err) {
    unsigned char piece[5000];
    size_t n = 0;
    int rc = 0;
    do {
        rc = co_tls_read(t, piece, sizeof(piece), &n, err);
        assert_int_equal(0, co_buf_add(ret, piece, n, NULL));
    } while (rc == 0 && n > 0);
    return rc;
}

static void fill(unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)(i * 7 + i / 251);
    }
}

static void bytes_of_any_number_come_through_both_ways(void **state) {
    struct pair *p = *state;
    static const size_t sizes[] = {1, 40, 16384, 16385, 300000};
    static unsigned char text[300000];
    fill(text, sizeof(text));
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(sizes); i++) {
        int from = (int)(i % 2);
        size_t n = sizes[i / 2];
        assert_int_equal(0, co_tls_write(p->end[from], text, n, NULL));
        CO_AUTOBUF struct co_buf wire = take(p, from);
        CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
        assert_true(wire.len > n && wire.len < n + 64 + n / 100);
        co_tls_feed(p->end[!from], wire.data, wire.len);
        assert_int_equal(0, read_all(p->end[!from], &got, NULL));
        assert_int_equal(n, got.len);
        assert_memory_equal(text, got.data, n);
    }
}

/* Pieces as a socket gives them. */
static void bytes_come_byte_by_byte(void **state) {
    struct pair *p = *state;
    unsigned char text[600];
    fill(text, sizeof(text));
    assert_int_equal(0, co_tls_write(p->end[DIALS], text, 500, NULL));
    assert_int_equal(0, co_tls_write(p->end[DIALS], text + 500, 100, NULL));
    CO_AUTOBUF struct co_buf wire = take(p, DIALS);
    CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
    for (size_t i = 0; i < wire.len; i++) {
        co_tls_feed(p->end[ACCEPTS], wire.data + i, 1);
        assert_int_equal(0, read_all(p->end[ACCEPTS], &got, NULL));
    }
    assert_int_equal(sizeof(text), got.len);
    assert_memory_equal(text, got.data, sizeof(text));
}

static void plain_text_is_not_on_the_wire(void **state) {
    struct pair *p = *state;
    unsigned char text[4000];
    memset(text, 'x', sizeof(text));
    assert_int_equal(0, co_tls_write(p->end[DIALS], text, sizeof(text), NULL));
    CO_AUTOBUF struct co_buf wire = take(p, DIALS);
    assert_null(memmem(wire.data, wire.len, "xxxx", 4));
}

/* Every byte of a record but the first three: type and version outside mean nothing in TLS 1.3, the
 * type that counts is inside. */
static void a_changed_byte_ends_the_connection(void **state) {
    (void)state;
    for (size_t at = 3; at < 60; at++) {
        struct pair p;
        int rc[2];
        struct co_err err[2] = {{0}};
        unsigned char text[30] = {0};
        CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
        open_pair(&p, key);
        shake(&p, rc, err);
        assert_int_equal(0, co_tls_write(p.end[DIALS], text, sizeof(text), NULL));
        CO_AUTOBUF struct co_buf wire = take(&p, DIALS);
        if (at < wire.len) {
            wire.data[at] ^= 1;
            /* A longer record waits for the rest of it. */
            static const char zeros[600];
            assert_int_equal(0, co_buf_add(&wire, zeros, sizeof(zeros), NULL));
            co_tls_feed(p.end[ACCEPTS], wire.data, wire.len);
            assert_int_equal(CO_PEERLOST, read_all(p.end[ACCEPTS], &got, &err[ACCEPTS]));
            assert_int_equal(0, got.len);
            assert_non_null(strstr(err[ACCEPTS].msg, "changed on its way"));
        }
        close_pair(&p);
    }
}

/* Nor does one come twice, or before another. */
static void repeated_or_reordered_records_end_the_connection(void **state) {
    struct pair *p = *state;
    CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
    assert_int_equal(0, co_tls_write(p->end[DIALS], "one", 3, NULL));
    CO_AUTOBUF struct co_buf one = take(p, DIALS);
    co_tls_feed(p->end[ACCEPTS], one.data, one.len);
    assert_int_equal(0, read_all(p->end[ACCEPTS], &got, NULL));
    assert_int_equal(3, got.len);
    co_tls_feed(p->end[ACCEPTS], one.data, one.len);
    assert_int_equal(CO_PEERLOST, read_all(p->end[ACCEPTS], &got, NULL));
    assert_int_equal(3, got.len);
}

/* An end that is meant is reported; after a cut there is nothing. */
static void an_end_is_reported(void **state) {
    struct pair *p = *state;
    struct co_err err = {0};
    CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
    assert_int_equal(0, co_tls_write(p->end[ACCEPTS], "last", 4, NULL));
    co_tls_end(p->end[ACCEPTS]);
    co_tls_end(p->end[ACCEPTS]);
    CO_AUTOBUF struct co_buf wire = take(p, ACCEPTS);
    co_tls_feed(p->end[DIALS], wire.data, wire.len);
    assert_int_equal(CO_PEERLOST, read_all(p->end[DIALS], &got, &err));
    assert_int_equal(4, got.len);
    assert_string_equal("connection closed", err.msg);
}

static void another_key_is_refused_by_both(void **state) {
    (void)state;
    struct pair p;
    int rc[2];
    struct co_err err[2] = {{0}};
    open_pair(&p, other_key);
    shake(&p, rc, err);
    assert_int_equal(CO_PERMISSION, rc[DIALS]);
    assert_int_equal(CO_PERMISSION, rc[ACCEPTS]);
    close_pair(&p);
}

static void a_peer_that_closes_or_sends_no_tls_is_refused(void **state) {
    (void)state;
    static const char *const said[] = {"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff junk"};
    for (size_t i = 0; i < CO_ARRAY_LEN(said) * 2; i++) {
        struct pair p;
        struct co_err err = {0};
        size_t who = i % 2, n = strlen(said[i / 2]);
        open_pair(&p, key);
        assert_int_equal(0, co_tls_shake(p.end[who], p.fd[who], &err));
        assert_int_equal(n, send(p.fd[!who], said[i / 2], n, MSG_NOSIGNAL));
        co_close(p.fd[!who]);
        p.fd[!who] = -1;
        int rc = co_tls_shake(p.end[who], p.fd[who], &err);
        assert_int_equal(n == 0 ? CO_PEERLOST : CO_PERMISSION, rc);
        close_pair(&p);
    }
}

/* What was said with one connection's key opens no other one: each has an exchange of its own. */
static void each_connection_has_keys_of_its_own(void **state) {
    struct pair *p = *state, q;
    int rc[2];
    struct co_err err[2] = {{0}};
    CO_AUTOBUF struct co_buf got = CO_BUF(1 << 20);
    open_pair(&q, key);
    shake(&q, rc, err);
    assert_int_equal(0, co_tls_write(p->end[DIALS], "text", 4, NULL));
    CO_AUTOBUF struct co_buf wire = take(p, DIALS);
    co_tls_feed(q.end[ACCEPTS], wire.data, wire.len);
    assert_int_equal(CO_PEERLOST, read_all(q.end[ACCEPTS], &got, NULL));
    assert_int_equal(0, got.len);
    close_pair(&q);
}

static void unsent_bytes_are_bounded(void **state) {
    struct pair *p = *state;
    static const unsigned char text[1 << 20];
    int rc = 0;
    for (size_t i = 0; i < 6 && rc == 0; i++) {
        rc = co_tls_write(p->end[DIALS], text, sizeof(text), NULL);
    }
    assert_int_equal(CO_PEERLOST, rc);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(bytes_of_any_number_come_through_both_ways),
        T(bytes_come_byte_by_byte),
        T(plain_text_is_not_on_the_wire),
        cmocka_unit_test(a_changed_byte_ends_the_connection),
        T(repeated_or_reordered_records_end_the_connection),
        T(an_end_is_reported),
        cmocka_unit_test(another_key_is_refused_by_both),
        cmocka_unit_test(a_peer_that_closes_or_sends_no_tls_is_refused),
        T(each_connection_has_keys_of_its_own),
        T(unsent_bytes_are_bounded),
    };
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
