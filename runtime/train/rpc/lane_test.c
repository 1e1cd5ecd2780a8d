/* Two ends of a lane, or one end and somebody who writes what he likes. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/train/rpc/rpc.h"

struct pair {
    struct rpc_lane *a;
    int b; /* the other end, bare */
    struct co_tls *tls;
    struct rpc_lane_room room;
};

static void shake(const int fd[2], struct co_tls *ret[2]) {
    static const unsigned char key[CO_TLS_KEY_BYTES] = "key";
    int rc[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(0, co_tls_new(i == 1, key, &ret[i], NULL));
    }
    for (size_t i = 0; i < 20; i++) {
        rc[i % 2] = rc[i % 2] ? rc[i % 2] : co_tls_shake(ret[i % 2], fd[i % 2], NULL);
    }
    assert_int_equal(1, rc[0]);
    assert_int_equal(1, rc[1]);
}

static int setup_as(void **state, bool encrypt) {
    struct pair *p = co_xcalloc(1, sizeof(*p));
    struct co_tls *tls[2] = {NULL};
    int fds[2];
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
    if (encrypt) {
        shake(fds, tls);
    }
    p->a = rpc_lane_new(fds[0], tls[0], "10.0.0.7:4711");
    p->b = fds[1];
    p->tls = tls[1];
    *state = p;
    return 0;
}

static int setup(void **state) {
    return setup_as(state, false);
}

static int setup_encrypted(void **state) {
    return setup_as(state, true);
}

static int teardown(void **state) {
    struct pair *p = *state;
    rpc_stream_unref(rpc_lane_stream(p->a));
    if (p->b >= 0) {
        co_close(p->b);
    }
    co_tls_free(p->tls);
    free(p);
    return 0;
}

static struct rpc_frame *make(uint64_t seq, uint32_t floats) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_DENSE, floats * 4UL, &f, NULL));
    f->head.seq = seq;
    f->head.count = floats;
    memset(f->payload, (int)(seq % 251), floats * 4UL);
    return f;
}

static void check(const struct rpc_frame *f, uint64_t seq, uint32_t floats) {
    assert_int_equal(seq, f->head.seq);
    assert_int_equal(floats, f->head.count);
    for (size_t i = 0; i < floats * 4UL; i++) {
        assert_int_equal(seq % 251, f->payload[i]);
    }
    assert_int_equal(0, (uintptr_t)f->payload % 32);
}

static void send_to(struct rpc_lane *l, struct rpc_frame *f_own) {
    assert_int_equal(0, rpc_stream_send(rpc_lane_stream(l), f_own, NULL));
}

/* As the other end would, encrypted or not. */
static void say(const struct pair *p, const void *bytes, size_t n) {
    if (p->tls) {
        const char *wire = NULL;
        assert_int_equal(0, co_tls_write(p->tls, bytes, n, NULL));
        n = co_tls_waiting(p->tls, &wire);
        assert_int_equal(n, send(p->b, wire, n, MSG_NOSIGNAL));
        co_tls_sent(p->tls, n);
        return;
    }
    assert_int_equal(n, send(p->b, bytes, n, MSG_NOSIGNAL));
}

/* The frames of one read must be n; the first of them. */
static struct rpc_frame *receive(struct pair *p, size_t n) {
    struct rpc_frame *first = NULL;
    assert_int_equal(0, rpc_lane_read(p->a, &p->room, &first, NULL));
    size_t have = 0;
    for (struct rpc_frame *f = first; f; f = f->next) {
        have++;
    }
    assert_int_equal(n, have);
    return first;
}

static void a_read_without_data_is_no_error(void **state) {
    struct pair *p = *state;
    assert_null(receive(p, 0));
    assert_string_equal("10.0.0.7:4711", rpc_stream_peer(rpc_lane_stream(p->a)));
}

static void frames_come_byte_by_byte(void **state) {
    struct pair *p = *state;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(7, 3);
    rpc_frame_seal(f);
    for (size_t i = 0; i + 1 < RPC_FRAME_HEAD + 12; i++) {
        say(p, f->wire + i, 1);
        assert_null(receive(p, 0));
    }
    say(p, f->wire + RPC_FRAME_HEAD + 11, 1);
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
    check(got, 7, 3);
}

static void many_small_frames_come_in_one_read(void **state) {
    struct pair *p = *state;
    for (uint64_t i = 0; i < 20; i++) {
        CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(i, (uint32_t)i);
        rpc_frame_seal(f);
        say(p, f->wire, RPC_FRAME_HEAD + (size_t)f->head.bytes);
    }
    struct rpc_frame *f = receive(p, 20);
    for (uint64_t i = 0; i < 20; i++) {
        struct rpc_frame *next = f->next;
        check(f, i, (uint32_t)i);
        rpc_frame_free(f);
        f = next;
    }
}

/* What the socket does not take waits in order, and goes when there is room. */
static void frames_that_the_socket_does_not_take_wait_in_order(void **state) {
    struct pair *p = *state;
    enum { N = 200, FLOATS = 20000 };
    struct rpc_lane *b = rpc_lane_new(dup(p->b), co_steal_ptr(p->tls), "other");
    size_t left = 0, most = 0;
    for (uint64_t i = 0; i < N; i++) {
        send_to(b, make(i, i % 3 == 0 ? FLOATS : (uint32_t)i));
    }
    assert_int_equal(0, rpc_lane_flush(b, &left, NULL));
    assert_true(left > 0);
    for (uint64_t i = 0; i < N;) {
        struct rpc_frame *first = NULL;
        assert_int_equal(0, rpc_lane_read(p->a, &p->room, &first, NULL));
        for (struct rpc_frame *f = first, *next; f; f = next, i++) {
            next = f->next;
            check(f, i, i % 3 == 0 ? FLOATS : (uint32_t)i);
            rpc_frame_free(f);
        }
        most = left > most ? left : most;
        assert_int_equal(0, rpc_lane_flush(b, &left, NULL));
        assert_int_equal(left, rpc_lane_queued(b));
    }
    assert_int_equal(0, left);
    rpc_stream_unref(rpc_lane_stream(b));
}

static void malformed_bytes_are_refused_after_the_frames_before_them(void **state) {
    struct pair *p = *state;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(1, 5);
    rpc_frame_seal(f);
    say(p, f->wire, RPC_FRAME_HEAD + 20);
    say(p, "GET / HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n", 44);
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
    check(got, 1, 5);
    for (int i = 0; i < 2; i++) {
        struct co_err err = {0};
        struct rpc_frame *none = NULL;
        assert_int_equal(CO_INVALID, rpc_lane_read(p->a, &p->room, &none, &err));
        assert_null(none);
        assert_non_null(strstr(err.msg, "frame version 71"));
    }
}

static void a_frame_above_the_limit_is_refused(void **state) {
    struct pair *p = *state;
    unsigned char head[RPC_FRAME_HEAD] = {RPC_FRAME_VERSION, RPC_FRAME_PUSH_DENSE};
    co_put_u32(head + 24, RPC_FRAME_BYTES_MAX / 4 + 1);
    co_put_u32(head + 28, RPC_FRAME_BYTES_MAX + 4);
    say(p, head, sizeof(head));
    struct rpc_frame *none = NULL;
    assert_int_equal(CO_INVALID, rpc_lane_read(p->a, &p->room, &none, NULL));
}

static void an_end_inside_a_frame_is_an_end(void **state) {
    struct pair *p = *state;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(1, 50000);
    rpc_frame_seal(f);
    say(p, f->wire, 1000);
    assert_null(receive(p, 0));
    say(p, f->wire + 1000, 1000);
    assert_null(receive(p, 0));
    co_close(p->b);
    p->b = -1;
    struct co_err err = {0};
    struct rpc_frame *none = NULL;
    assert_int_equal(CO_PEERLOST, rpc_lane_read(p->a, &p->room, &none, &err));
    size_t left = 1;
    send_to(p->a, make(1, 1));
    assert_int_equal(CO_PEERLOST, rpc_lane_flush(p->a, &left, &err));
    assert_int_equal(0, left);
    assert_int_equal(CO_PEERLOST, rpc_stream_send(rpc_lane_stream(p->a), make(2, 1), NULL));
    assert_int_equal(0, rpc_lane_queued(p->a));
}

static void a_lane_that_is_shut_ends_for_its_reader(void **state) {
    struct pair *p = *state;
    rpc_lane_shut(p->a);
    struct rpc_frame *none = NULL;
    assert_int_equal(CO_PEERLOST, rpc_lane_read(p->a, &p->room, &none, NULL));
}

static void *queue_some(void *arg) {
    struct rpc_lane *l = arg;
    for (uint64_t i = 0; i < 500; i++) {
        size_t left = 0;
        send_to(l, make(i, 100));
        assert_int_equal(0, rpc_lane_flush(l, &left, NULL));
    }
    return NULL;
}

/* Any number of threads queue and flush while one reads: frames stay whole. */
static void threads_share_a_lane(void **state) {
    struct pair *p = *state;
    struct rpc_lane *b = rpc_lane_new(dup(p->b), co_steal_ptr(p->tls), "other");
    pthread_t threads[3];
    for (size_t i = 0; i < CO_ARRAY_LEN(threads); i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, queue_some, b));
    }
    for (size_t n = 0; n < 1500;) {
        struct pollfd fds[2] = {{.fd = rpc_lane_fd(p->a), .events = POLLIN},
            {.fd = rpc_lane_fd(b), .events = rpc_lane_queued(b) ? POLLOUT : 0}};
        struct rpc_frame *first = NULL;
        size_t left = 0;
        (void)poll(fds, 2, 100);
        assert_int_equal(0, rpc_lane_flush(b, &left, NULL));
        assert_int_equal(0, rpc_lane_read(p->a, &p->room, &first, NULL));
        for (struct rpc_frame *f = first, *next; f; f = next, n++) {
            next = f->next;
            check(f, f->head.seq, 100);
            rpc_frame_free(f);
        }
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    rpc_stream_unref(rpc_lane_stream(b));
}

/* Other than between local sockets, the kernel knows here how much a reader wants. */
static void tcp_pair(int ret[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&a, len));
    assert_int_equal(0, listen(listener, 1));
    assert_int_equal(0, getsockname(listener, (struct sockaddr *)&a, &len));
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(ret[0], (struct sockaddr *)&a, len));
    ret[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(ret[1] >= 0);
    co_close(listener);
}

static bool is_readable(int fd, int wait_ms) {
    struct pollfd in = {.fd = fd, .events = POLLIN};
    return poll(&in, 1, wait_ms) == 1;
}

/* Until so many bytes have come, readable or not. */
static void await_bytes(int fd, int n) {
    for (int i = 0, have = 0; have < n; i++) {
        assert_true(i < 10000);
        assert_int_equal(0, ioctl(fd, FIONREAD, &have));
        (void)poll(NULL, 0, 1);
    }
}

static void in_a_large_frame_the_reader_sleeps_until_much_is_there(void **state) {
    enum { FLOATS = 25000, BYTES = RPC_FRAME_HEAD + FLOATS * 4, FIRST = 10000 };
    struct pair *p = *state;
    int fds[2];
    tcp_pair(fds);
    rpc_stream_unref(rpc_lane_stream(p->a));
    co_close(p->b);
    p->a = rpc_lane_new(fds[1], NULL, "reader");
    p->b = fds[0];
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(7, FLOATS);
    rpc_frame_seal(f);
    for (int turn = 0; turn < 2; turn++) {
        say(p, f->wire, FIRST);
        await_bytes(fds[1], FIRST);
        assert_true(is_readable(fds[1], 0));
        assert_null(receive(p, 0));
        say(p, f->wire + FIRST, 5000);
        await_bytes(fds[1], 5000);
        assert_false(is_readable(fds[1], 0));
        say(p, f->wire + FIRST + 5000, BYTES - FIRST - 5000);
        assert_true(is_readable(fds[1], 60000));
        CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
        check(got, 7, FLOATS);
    }
}

/* A byte that was changed is an end, behind the frames that came before it; nothing of what it was
 * in is believed. */
static void bytes_changed_in_transit_are_no_frame(void **state) {
    struct pair *p = *state;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(1, 500);
    rpc_frame_seal(f);
    const char *wire = NULL;
    assert_int_equal(0, co_tls_write(p->tls, f->wire, RPC_FRAME_HEAD + 2000, NULL));
    size_t first = co_tls_waiting(p->tls, &wire);
    assert_int_equal(0, co_tls_write(p->tls, f->wire, RPC_FRAME_HEAD + 2000, NULL));
    size_t n = co_tls_waiting(p->tls, &wire);
    CO_AUTOFREE char *changed = co_xmalloc(n);
    memcpy(changed, wire, n);
    changed[first + 1000] ^= 1;
    assert_int_equal(n, send(p->b, changed, n, MSG_NOSIGNAL));
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
    check(got, 1, 500);
    struct pollfd in = {.fd = rpc_lane_fd(p->a), .events = POLLIN};
    assert_int_equal(1, poll(&in, 1, 60000)); /* though nothing more comes */
    for (int i = 0; i < 2; i++) {
        struct co_err err = {0};
        struct rpc_frame *none = NULL;
        assert_int_equal(CO_PEERLOST, rpc_lane_read(p->a, &p->room, &none, &err));
        assert_null(none);
        assert_non_null(strstr(err.msg, "changed on its way"));
    }
}

/* Who cuts the connection, at a record's end too, does not pass for an end. */
static void a_cut_connection_is_not_a_clean_end(void **state) {
    struct pair *p = *state;
    struct co_err err = {0};
    struct rpc_frame *none = NULL;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make(1, 5);
    rpc_frame_seal(f);
    say(p, f->wire, RPC_FRAME_HEAD + 20);
    co_close(p->b);
    p->b = -1;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
    check(got, 1, 5);
    assert_int_equal(CO_PEERLOST, rpc_lane_read(p->a, &p->room, &none, &err));
    assert_string_equal("connection closed without a closing message", err.msg);
}

static void an_end_is_reported(void **state) {
    struct pair *p = *state;
    struct co_err err = {0};
    struct rpc_frame *none = NULL;
    struct rpc_lane *b = rpc_lane_new(dup(p->b), co_steal_ptr(p->tls), "other");
    size_t left = 0;
    send_to(b, make(1, 5));
    assert_int_equal(0, rpc_lane_flush(b, &left, NULL));
    rpc_stream_unref(rpc_lane_stream(b));
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *got = receive(p, 1);
    check(got, 1, 5);
    assert_int_equal(CO_PEERLOST, rpc_lane_read(p->a, &p->room, &none, &err));
    assert_string_equal("connection closed", err.msg);
}

/* Floats that all have the same bytes: of an encrypted lane nobody sees them in transit. */
static void an_encrypted_lane_hides_floats_in_transit(void **state) {
    struct pair *p = *state;
    enum { N = 5, FLOATS = 30000 };
    static unsigned char seen[N * FLOATS * 5];
    size_t n = 0, left = 1;
    for (uint64_t i = 0; i < N; i++) {
        send_to(p->a, make(0x5a, FLOATS));
    }
    while (left > 0) {
        assert_int_equal(0, rpc_lane_flush(p->a, &left, NULL));
        ssize_t got = recv(p->b, seen + n, sizeof(seen) - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    ssize_t got = recv(p->b, seen + n, sizeof(seen) - n, 0);
    n += got > 0 ? (size_t)got : 0;
    assert_true(n > (size_t)N * FLOATS * 4);
    bool plain = memmem(seen, n, "ZZZZ", 4) != NULL;
    assert_int_equal(p->tls == NULL, plain);
}

#define TLS(name) cmocka_unit_test_setup_teardown(name, setup_encrypted, teardown)
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_read_without_data_is_no_error),
        T(frames_come_byte_by_byte),
        T(many_small_frames_come_in_one_read),
        T(frames_that_the_socket_does_not_take_wait_in_order),
        T(malformed_bytes_are_refused_after_the_frames_before_them),
        T(a_frame_above_the_limit_is_refused),
        T(an_end_inside_a_frame_is_an_end),
        T(a_lane_that_is_shut_ends_for_its_reader),
        T(threads_share_a_lane),
        T(an_encrypted_lane_hides_floats_in_transit),
        TLS(a_read_without_data_is_no_error),
        TLS(frames_come_byte_by_byte),
        TLS(many_small_frames_come_in_one_read),
        TLS(frames_that_the_socket_does_not_take_wait_in_order),
        TLS(malformed_bytes_are_refused_after_the_frames_before_them),
        TLS(a_frame_above_the_limit_is_refused),
        TLS(an_end_inside_a_frame_is_an_end),
        TLS(a_lane_that_is_shut_ends_for_its_reader),
        TLS(threads_share_a_lane),
        TLS(bytes_changed_in_transit_are_no_frame),
        TLS(a_cut_connection_is_not_a_clean_end),
        TLS(an_end_is_reported),
        TLS(an_encrypted_lane_hides_floats_in_transit),
        T(in_a_large_frame_the_reader_sleeps_until_much_is_there),
    };
    return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
