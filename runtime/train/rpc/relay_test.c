/* A relay between a descriptor, as gRPC would have it, and a peer that speaks TLS by hand. */
#include "runtime/train/rpc/relay.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { WAIT_MS = 30000, LARGE = 3 << 20 };

struct line {
    struct rpc_relay *relay;
    int inner; /* gRPC's; -1: closed */
    int peer;
    struct co_tls *tls; /* the peer's */
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

static int setup(void **state) {
    struct line *l = co_xcalloc(1, sizeof(*l));
    struct co_tls *tls[2];
    int fd[2];
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
    shake(fd, tls);
    assert_int_equal(0, rpc_relay_open(&l->relay, NULL));
    assert_int_equal(0, rpc_relay_add(l->relay, fd[0], tls[0], &l->inner, NULL));
    l->peer = fd[1];
    l->tls = tls[1];
    *state = l;
    return 0;
}

static int teardown(void **state) {
    struct line *l = *state;
    if (l->inner >= 0) {
        co_close(l->inner);
    }
    rpc_relay_close(l->relay);
    if (l->peer >= 0) {
        co_close(l->peer);
    }
    co_tls_free(l->tls);
    free(l);
    return 0;
}

static void await(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(1, poll(&p, 1, WAIT_MS));
}

/* All that comes until n bytes are there, or an end; *ret_end says which. */
static size_t read_inner(int fd, unsigned char *to, size_t n, bool *ret_end) {
    size_t have = 0;
    *ret_end = false;
    while (have < n && !*ret_end) {
        await(fd, POLLIN);
        ssize_t got = recv(fd, to + have, n - have, 0);
        have += got > 0 ? (size_t)got : 0;
        *ret_end = got <= 0;
    }
    return have;
}

/* The same at the peer, decrypted; the end: its code. */
static size_t read_peer(struct line *l, unsigned char *to, size_t n, int *ret_code) {
    static unsigned char sealed[65536];
    size_t have = 0, got = 0;
    *ret_code = 0;
    while (have < n && *ret_code == 0) {
        await(l->peer, POLLIN);
        ssize_t came = recv(l->peer, sealed, sizeof(sealed), 0);
        if (came <= 0) {
            *ret_code = CO_UNAVAILABLE; /* a cut */
            break;
        }
        co_tls_feed(l->tls, sealed, (size_t)came);
        do {
            *ret_code = co_tls_read(l->tls, to + have, n + 1 - have, &got, NULL);
            have += got;
        } while (*ret_code == 0 && got > 0);
    }
    return have;
}

/* What the peer would send, encrypted. */
static size_t seal(struct line *l, const void *bytes, size_t n, const char **ret) {
    assert_int_equal(0, co_tls_write(l->tls, bytes, n, NULL));
    return co_tls_waiting(l->tls, ret);
}

static void say_peer(struct line *l, const char *wire, size_t n) {
    for (size_t at = 0; at < n;) {
        await(l->peer, POLLOUT);
        ssize_t sent = send(l->peer, wire + at, n - at, MSG_NOSIGNAL);
        at += sent > 0 ? (size_t)sent : 0;
    }
}

static void bytes_go_both_ways(void **state) {
    struct line *l = *state;
    unsigned char got[100];
    const char *wire = NULL;
    bool end = false;
    int code = 0;
    for (int i = 0; i < 20; i++) {
        size_t n = seal(l, "from the peer", 13, &wire);
        say_peer(l, wire, n);
        co_tls_sent(l->tls, n);
        assert_int_equal(13, read_inner(l->inner, got, 13, &end));
        assert_memory_equal("from the peer", got, 13);
        assert_int_equal(5, send(l->inner, "to it", 5, MSG_NOSIGNAL));
        assert_int_equal(5, read_peer(l, got, 5, &code));
        assert_memory_equal("to it", got, 5);
    }
}

/* gRPC closes at once after what it has written: all of it goes out, and an end that is meant. */
static void the_last_words_and_the_end_arrive(void **state) {
    struct line *l = *state;
    static unsigned char text[60000], got[sizeof(text) + 2];
    int code = 0;
    memset(text, 'x', sizeof(text));
    assert_int_equal(sizeof(text), send(l->inner, text, sizeof(text), MSG_NOSIGNAL));
    co_close(l->inner);
    l->inner = -1;
    assert_int_equal(sizeof(text), read_peer(l, got, sizeof(text) + 1, &code));
    assert_memory_equal(text, got, sizeof(text));
    assert_int_equal(CO_PEERLOST, code); /* reported; a cut would be another */
}

/* What came before a fault is gRPC's, then it reads an end; what it still writes is no error. */
static void a_relay_reports_faults_as_the_end(void **state) {
    struct line *l = *state;
    enum { CUT, CHANGED, ENDED, FAULTS };
    for (int fault = CUT; fault < FAULTS; fault++) {
        unsigned char got[100];
        char wire[400];
        const char *sealed = NULL;
        bool end = false;
        size_t first = seal(l, "good", 4, &sealed), n = seal(l, "changed", 7, &sealed);
        memcpy(wire, sealed, n);
        wire[first + 8] ^= 1;
        if (fault == ENDED) {
            co_tls_sent(l->tls, n);
            co_tls_end(l->tls);
            n = co_tls_waiting(l->tls, &sealed);
            memcpy(wire, sealed, n);
            assert_int_equal(n, send(l->peer, wire, n, MSG_NOSIGNAL));
        } else {
            assert_int_equal(first + (fault == CUT ? 10 : n - first),
                send(l->peer, wire, fault == CUT ? first + 10 : n, MSG_NOSIGNAL));
        }
        if (fault == CUT) {
            (void)shutdown(l->peer, SHUT_WR);
        }
        size_t have = read_inner(l->inner, got, sizeof(got), &end);
        assert_true(end);
        assert_int_equal(fault == ENDED ? 0 : 4, have);
        assert_int_equal(5, send(l->inner, "after", 5, MSG_NOSIGNAL));
        (void)teardown(state);
        (void)setup(state);
        l = *state;
    }
}

/* A peer that does not read stops gRPC, and costs what fits into the buffers. */
static void a_peer_that_does_not_read_blocks_the_writer(void **state) {
    struct line *l = *state;
    static unsigned char piece[65536];
    size_t taken = 0;
    struct pollfd out = {.fd = l->inner, .events = POLLOUT};
    while (taken < LARGE && poll(&out, 1, 300) == 1) {
        ssize_t n = send(l->inner, piece, sizeof(piece), MSG_NOSIGNAL);
        taken += n > 0 ? (size_t)n : 0;
    }
    assert_true(taken < LARGE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(bytes_go_both_ways),
        T(the_last_words_and_the_end_arrive),
        T(a_relay_reports_faults_as_the_end),
        T(a_peer_that_does_not_read_blocks_the_writer),
    };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
