/* Two ends of a connection in one thread.  What one sends may be changed before the other gets it.
 */
#include "runtime/net/net_stream.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/mem.h"

enum { HEAD = 40, LARGE = 300001, SMALL_BUFFER = 4096 };

static unsigned char sent[LARGE], came[LARGE];

struct ends {
    struct net_stream end[2];
};

static void open_ends(struct ends *e, bool tls) {
    static const unsigned char key[CO_TLS_KEY_BYTES] = "key";
    int fd[2], rc[2] = {0};
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
    for (size_t i = 0; i < 2; i++) {
        e->end[i] = (struct net_stream){.fd = fd[i]};
        if (tls) {
            assert_int_equal(0, co_tls_new(i == 1, key, &e->end[i].tls, NULL));
        }
    }
    for (size_t i = 0; tls && i < 20; i++) {
        rc[i % 2] = rc[i % 2] ? rc[i % 2] : co_tls_shake(e->end[i % 2].tls, fd[i % 2], NULL);
    }
    assert_int_equal(tls, rc[0]);
    assert_int_equal(tls, rc[1]);
}

static void close_ends(struct ends *e) {
    for (size_t i = 0; i < 2; i++) {
        net_stream_close(&e->end[i]);
        assert_int_equal(-1, e->end[i].fd);
        net_stream_close(&e->end[i]);
    }
}

static bool is_ready(const struct net_stream *s, short events) {
    struct pollfd f = {.fd = s->fd, .events = events};
    return poll(&f, 1, 0) == 1;
}

static void fill(void) {
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (unsigned char)(i * 7 + i / 256);
    }
    memset(came, 0, sizeof(came));
}

/* What is left of two buffers after `done` bytes; returns how many buffers. */
static int rest_of(unsigned char *bytes, size_t head, size_t all, size_t done, struct iovec *ret) {
    int n = 0;
    if (done < head) {
        ret[n].iov_base = bytes + done;
        ret[n++].iov_len = head - done;
    }
    size_t at = done < head ? head : done;
    if (at < all) {
        ret[n].iov_base = bytes + at;
        ret[n++].iov_len = all - at;
    }
    return n;
}

/* Reads all that has come of `all` bytes; *done counts. */
static int read_some(struct net_stream *s, size_t head, size_t all, size_t *done) {
    size_t n = 1;
    int rc = 0;
    while (rc == 0 && n > 0 && *done < all) {
        struct iovec v[2];
        int parts = rest_of(came, head, all, *done, v);
        rc = net_stream_read(s, v, parts, &n, NULL);
        *done += n;
    }
    return rc;
}

static void move_all(struct ends *e, size_t head, size_t all) {
    size_t out = 0, in = 0;
    for (int turns = 0; in < all; turns++) {
        struct iovec v[2];
        int parts = rest_of(sent, head, all, out, v);
        size_t n = 0;
        assert_int_equal(0, parts ? net_stream_write(&e->end[0], v, parts, &n, NULL) : 0);
        out += n;
        assert_int_equal(0, read_some(&e->end[1], head, all, &in));
        assert_true(turns < 100000);
    }
    assert_int_equal(all, out); /* nothing is left to send */
    assert_memory_equal(sent, came, all);
    assert_false(is_ready(&e->end[1], POLLIN));
}

static void all_bytes_arrive_in_order(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 5, HEAD, HEAD + 1, 16384, 16384 + HEAD, 16385 + HEAD, LARGE};
    for (int tls = 0; tls < 2; tls++) {
        struct ends e;
        open_ends(&e, tls);
        for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
            fill();
            move_all(&e, i % 2 ? HEAD < sizes[i] ? HEAD : sizes[i] : 0, sizes[i]);
        }
        close_ends(&e);
    }
}

/* So a call that has written all has nothing left that only it could send. */
static void bytes_count_once_the_kernel_has_them(void **state) {
    (void)state;
    struct ends e;
    int small = SMALL_BUFFER;
    open_ends(&e, true);
    assert_int_equal(0, setsockopt(e.end[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
    fill();
    struct iovec v = {sent, LARGE};
    size_t n = 1;
    assert_int_equal(0, net_stream_write(&e.end[0], &v, 1, &n, NULL));
    assert_int_equal(0, n);
    assert_int_equal(0, net_stream_write(&e.end[0], &v, 1, &n, NULL));
    assert_int_equal(0, n);
    assert_false(is_ready(&e.end[0], POLLOUT));
    move_all(&e, 0, LARGE);
    close_ends(&e);
}

/* Else a poll would not show them. */
static void bytes_beyond_what_is_wanted_stay_in_the_kernel(void **state) {
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct ends e;
        open_ends(&e, tls);
        fill();
        for (size_t i = 0; i < 3; i++) {
            assert_true(net_stream_post(&e.end[0], sent + 100 * i, 100));
        }
        for (size_t i = 0; i < 3; i++) {
            struct iovec v = {came + 100 * i, 100};
            size_t n = 0;
            assert_true(is_ready(&e.end[1], POLLIN));
            assert_int_equal(0, net_stream_read(&e.end[1], &v, 1, &n, NULL));
            assert_int_equal(100, n);
        }
        assert_memory_equal(sent, came, 300);
        assert_false(is_ready(&e.end[1], POLLIN));
        close_ends(&e);
    }
}

static void an_end_is_reported(void **state) {
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct ends e;
        struct iovec v = {came, 10};
        size_t n = 1;
        open_ends(&e, tls);
        assert_int_equal(0, net_stream_read(&e.end[1], &v, 1, &n, NULL));
        assert_int_equal(0, n);
        net_stream_close(&e.end[0]);
        assert_int_equal(CO_PEERLOST, net_stream_read(&e.end[1], &v, 1, &n, NULL));
        assert_int_equal(CO_PEERLOST, net_stream_write(&e.end[1], &v, 1, &n, NULL));
        assert_int_equal(0, n);
        assert_false(net_stream_post(&e.end[1], sent, 10));
        close_ends(&e);
    }
}

/* The rest of a message that did not fit goes before the next one; what did not fit at all is
 * dropped. */
static void a_full_socket_drops_whole_messages(void **state) {
    (void)state;
    enum { MESSAGE = 600, TRIES = 1000 };
    struct ends e;
    int small = SMALL_BUFFER;
    uint32_t posted = 0, read = 0, last = 0;
    open_ends(&e, true);
    assert_int_equal(0, setsockopt(e.end[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
    for (uint32_t i = 1; i <= TRIES; i++) {
        unsigned char message[MESSAGE] = {0};
        memcpy(message, &i, sizeof(i));
        posted += net_stream_post(&e.end[0], message, sizeof(message));
        if (i == TRIES / 2) {
            assert_in_range(posted, 1, TRIES / 2 - 1);
        }
        size_t n = i > TRIES / 2;
        while (n > 0) {
            struct iovec v = {came, MESSAGE};
            uint32_t number = 0;
            assert_int_equal(0, net_stream_read(&e.end[1], &v, 1, &n, NULL));
            assert_true(n == 0 || n == MESSAGE);
            memcpy(&number, came, sizeof(number));
            assert_true(n == 0 || number > last);
            last = n ? number : last;
            read += n > 0;
        }
    }
    assert_int_equal(posted, read);
    assert_int_equal(TRIES, last);
    close_ends(&e);
}

/* ---- damage ---- */

/* Writes a head and a body, changes a bit in transit, and reads.  Returns the code. */
static int read_changed(size_t body, size_t at, unsigned bit, size_t *ret_n, size_t *ret_wire) {
    static unsigned char wire[LARGE];
    struct ends e, tap;
    size_t all = HEAD + body, n = 0;
    open_ends(&e, true);
    open_ends(&tap, false); /* what end 1 gets comes from here */
    fill();
    struct iovec v[2];
    assert_int_equal(0, net_stream_write(&e.end[0], v, rest_of(sent, HEAD, all, 0, v), &n, NULL));
    assert_int_equal(all, n);
    ssize_t got = recv(e.end[1].fd, wire, sizeof(wire), MSG_DONTWAIT);
    assert_true(got > 0);
    wire[at % (size_t)got] ^= (unsigned char)(1U << bit);
    int fd = e.end[1].fd;
    e.end[1].fd = tap.end[1].fd;
    tap.end[1].fd = fd;
    assert_int_equal(got, send(tap.end[0].fd, wire, (size_t)got, MSG_NOSIGNAL));
    *ret_n = 0;
    *ret_wire = (size_t)got;
    int rc = read_some(&e.end[1], HEAD, all, ret_n);
    if (rc == CO_INVALID) { /* and it stays so */
        size_t more = 0;
        assert_int_equal(CO_INVALID, read_some(&e.end[1], HEAD, all + 1, &more));
        assert_int_equal(0, more);
    }
    assert_memory_equal(sent, came, *ret_n);
    close_ends(&e);
    close_ends(&tap);
    return rc;
}

/* Whatever is changed, the lengths of records included: the reader gets the right bytes or an
 * error, and does not wait for more. */
static void a_changed_bit_is_noticed_at_once(void **state) {
    (void)state;
    enum { BODY = 60, OVERHEAD = 22, SECOND = HEAD + OVERHEAD, LENGTH = 3 };
    size_t wire = SECOND + BODY + OVERHEAD;
    for (size_t at = 0; at < wire; at++) {
        bool length = at % SECOND == LENGTH || at % SECOND == LENGTH + 1;
        for (unsigned bit = length ? 0 : at % 8; bit < (length ? 8 : at % 8 + 1); bit++) {
            size_t n = 0, had = 0;
            int rc = read_changed(BODY, at, bit, &n, &had);
            assert_int_equal(wire, had);
            /* The version in a record's head is not looked at. */
            if (rc != CO_INVALID && !(rc == 0 && n == HEAD + BODY && at % SECOND < LENGTH)) {
                fail_msg("byte %zu, bit %u: code %d after %zu bytes", at, bit, rc, n);
            }
            assert_true(rc == 0 || n == 0 || n == HEAD);
        }
    }
}

/* The reader is behind several records. */
static void a_changed_length_among_many_records_is_noticed(void **state) {
    (void)state;
    enum { BODY = 4 * 16384 - 1000, RECORD = 16384 + 22 };
    for (size_t k = 0; k < 4; k++) {
        for (unsigned bit = 0; bit < 16; bit++) {
            size_t n = 0, wire = 0, at = HEAD + 22 + k * RECORD + 3 + bit / 8;
            int rc = read_changed(BODY, at, bit % 8, &n, &wire);
            if (rc != CO_INVALID) {
                fail_msg("record %zu, bit %u: code %d after %zu bytes", k, bit, rc, n);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes_arrive_in_order),
        cmocka_unit_test(bytes_count_once_the_kernel_has_them),
        cmocka_unit_test(bytes_beyond_what_is_wanted_stay_in_the_kernel),
        cmocka_unit_test(an_end_is_reported),
        cmocka_unit_test(a_full_socket_drops_whole_messages),
        cmocka_unit_test(a_changed_bit_is_noticed_at_once),
        cmocka_unit_test(a_changed_length_among_many_records_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
