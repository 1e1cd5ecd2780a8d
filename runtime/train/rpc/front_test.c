/* What strangers do at the front door, and what they get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/listen.h"
#include "common/mem.h"
#include "runtime/net/net.h"
#include "runtime/train/rpc/front.h"
#include "runtime/train/rpc/greeting.h"
#include "runtime/train/rpc/knock.h"

enum { FLOOD = 1100 };

struct house {
    struct rt_front *front;
    uint16_t port;
    char endpoint[32];
    pthread_mutex_t m;
    pthread_cond_t changed;
    size_t entered, refused;
    char peer[64];
    struct co_err why; /* of the last refusal */
};

static void on_enter(void *arg, int fd_own, const char *peer) {
    struct house *h = arg;
    pthread_mutex_lock(&h->m);
    h->entered++;
    (void)snprintf(h->peer, sizeof(h->peer), "%s", peer);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->m);
    co_close(fd_own);
}

static void on_refuse(void *arg, const char *peer, const struct co_err *why) {
    struct house *h = arg;
    pthread_mutex_lock(&h->m);
    h->refused++;
    (void)snprintf(h->peer, sizeof(h->peer), "%s", peer);
    h->why = *why;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->m);
}

static void await(struct house *h, const size_t *what, size_t n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&h->m);
    while (*what < n) {
        assert_int_equal(0, pthread_cond_timedwait(&h->changed, &h->m, &end));
    }
    pthread_mutex_unlock(&h->m);
}

static struct house *open_house(const char *token, int prove_ms) {
    static const struct rt_front_ops ops = {on_enter, on_refuse};
    struct house *h = co_xcalloc(1, sizeof(*h));
    int fd = -1;
    pthread_mutex_init(&h->m, NULL);
    pthread_cond_init(&h->changed, NULL);
    assert_int_equal(0, co_listen(":0", &fd, NULL));
    h->port = co_listen_port(fd);
    (void)snprintf(h->endpoint, sizeof(h->endpoint), "127.0.0.1:%u", h->port);
    assert_int_equal(0, rt_front_open(fd, token, prove_ms, &ops, h, &h->front, NULL));
    return h;
}

static void close_house(struct house *h) {
    rt_front_close(h->front);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->m);
    free(h);
}

static int setup(void **state) {
    *state = open_house("secret", 0);
    return 0;
}

static int teardown(void **state) {
    close_house(*state);
    return 0;
}

/* From 127.0.0.host. */
static int dial_from(const struct house *h, uint32_t host) {
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons(h->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, bind(fd, (const struct sockaddr *)&from, sizeof(from)));
    assert_int_equal(0, connect(fd, (const struct sockaddr *)&to, sizeof(to)));
    return fd;
}

static struct co_err knock(const struct house *h, const char *token, int timeout_ms) {
    const char *endpoint = h->endpoint;
    struct net_reached reached;
    assert_int_equal(1, net_connect(&endpoint, 1, 5000, &reached));
    struct rt_knock k = {.fd = reached.fd};
    rt_knock_all(&k, 1, token, timeout_ms);
    if (k.fd >= 0) {
        co_close(k.fd);
    }
    return k.err;
}

static void say(int fd, const void *bytes, size_t n) {
    assert_int_equal(n, send(fd, bytes, n, MSG_NOSIGNAL));
}

/* Bytes until the other end closes. */
static size_t hear(int fd, unsigned char *ret, size_t size) {
    size_t have = 0;
    ssize_t n;
    while (have < size && (n = recv(fd, ret + have, size - have, 0)) > 0) {
        have += (size_t)n;
    }
    return have;
}

static void who_knows_the_token_comes_in(void **state) {
    struct house *h = *state;
    struct co_err err = knock(h, "secret", 5000);
    assert_int_equal(0, err.code);
    await(h, &h->entered, 1);
    assert_memory_equal("127.0.0.1:", h->peer, 10);
    assert_int_equal(0, h->refused);
}

static void who_does_not_is_told_so_on_both_sides(void **state) {
    static const char *const tokens[] = {"", "Secret", "secretsecret", "secre"};
    struct house *h = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(tokens); i++) {
        struct co_err err = knock(h, tokens[i], 5000);
        assert_int_equal(CO_PERMISSION, err.code);
        assert_non_null(strstr(err.msg, "the token is not this job's (PADDLE_JOB_TOKEN"));
        await(h, &h->refused, i + 1);
        assert_int_equal(CO_PERMISSION, h->why.code);
        assert_non_null(strstr(h->why.msg, "PADDLE_JOB_TOKEN"));
    }
    assert_int_equal(0, h->entered);
}

/* Who does not know it cannot play the server either. */
static void a_server_proves_itself_too(void **state) {
    (void)state;
    int pair[2];
    struct rt_greeting g = {0};
    unsigned char welcome[RT_GREET_WELCOME_BYTES] = {0}, proof[RT_GREET_PROOF_BYTES];
    bool send_it = false;
    assert_int_equal(0, rt_greeting_begin(&g, NULL));
    assert_int_equal(0, rt_greeting_answer(&g, &send_it, NULL));
    assert_int_equal(0, rt_greeting_prove(&g, "secret", proof, NULL));
    /* It says yes without knowing. */
    assert_int_equal(CO_PERMISSION, rt_greeting_welcome(&g, "guess", proof, welcome, NULL));
    memcpy(welcome, g.answer, 8);
    assert_int_equal(CO_PERMISSION, rt_greeting_check(&g, "secret", welcome, NULL));
    /* Nor is the trainer's own proof one of the server's. */
    memcpy(welcome + 8, proof, sizeof(proof));
    assert_int_equal(CO_PERMISSION, rt_greeting_check(&g, "secret", welcome, NULL));
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    say(pair[1], g.answer, sizeof(g.answer));
    say(pair[1], welcome, sizeof(welcome));
    struct rt_knock k = {.fd = pair[0]};
    rt_knock_all(&k, 1, "secret", 5000);
    assert_int_equal(CO_PERMISSION, k.err.code);
    assert_int_equal(-1, k.fd);
    co_close(pair[1]);
}

/* What was heard on the wire once opens nothing later. */
static void a_recorded_conversation_is_worth_nothing(void **state) {
    struct house *h = *state;
    struct rt_greeting g = {0};
    unsigned char proof[RT_GREET_PROOF_BYTES], welcome[RT_GREET_WELCOME_BYTES];
    assert_int_equal(0, rt_greeting_begin(&g, NULL));
    for (int round = 0; round < 2; round++) {
        int fd = dial_from(h, 1);
        say(fd, g.greet, sizeof(g.greet));
        unsigned char answer[RT_GREET_ANSWER_BYTES];
        assert_int_equal(sizeof(answer), hear(fd, answer, sizeof(answer)));
        if (round == 0) {
            memcpy(g.answer, answer, sizeof(answer));
            assert_int_equal(0, rt_greeting_prove(&g, "secret", proof, NULL));
        }
        say(fd, proof, sizeof(proof));
        assert_int_equal(sizeof(welcome), hear(fd, welcome, sizeof(welcome)));
        assert_int_equal(
            round == 0 ? 0 : CO_PERMISSION, rt_greeting_check(&g, "secret", welcome, NULL));
        co_close(fd);
    }
    await(h, &h->refused, 1);
    assert_int_equal(1, h->entered);
}

static void another_version_is_named_on_both_sides(void **state) {
    struct house *h = *state;
    struct rt_greeting g = {0};
    struct co_err err = {0};
    assert_int_equal(0, rt_greeting_begin(&g, NULL));
    co_put_u16(g.greet + 4, 9);
    int fd = dial_from(h, 1);
    say(fd, g.greet, sizeof(g.greet));
    unsigned char proof[RT_GREET_PROOF_BYTES];
    assert_int_equal(sizeof(g.answer), hear(fd, g.answer, sizeof(g.answer)));
    await(h, &h->refused, 1);
    assert_non_null(strstr(h->why.msg, "version 9 of the protocol, expected 1"));
    assert_int_equal(CO_INVALID, rt_greeting_prove(&g, "secret", proof, &err));
    assert_non_null(strstr(err.msg, "the same version of the library"));
    co_close(fd);
}

/* The one that made gRPC 1.51 take 2.5 GB: none of it gets there. */
static void http2_is_for_those_inside(void **state) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct house *h = *state;
    int fd = dial_from(h, 1);
    unsigned char text[64];
    char flood[4096] = {0};
    say(fd, preface, sizeof(preface) - 1);
    (void)send(fd, flood, sizeof(flood), MSG_NOSIGNAL);
    assert_int_equal(0, hear(fd, text, sizeof(text)));
    await(h, &h->refused, 1);
    assert_int_equal(CO_INVALID, h->why.code);
    assert_int_equal(0, h->entered);
    co_close(fd);
}

static void a_trickle_does_not_extend_the_time(void **state) {
    (void)state;
    struct house *h = open_house("secret", 300);
    struct rt_greeting g = {0};
    assert_int_equal(0, rt_greeting_begin(&g, NULL));
    int fd = dial_from(h, 1);
    struct pollfd in = {.fd = fd, .events = POLLIN};
    for (size_t i = 0; i < 20 && poll(&in, 1, 30) == 0; i++) {
        (void)send(fd, g.greet + i, 1, MSG_NOSIGNAL);
    }
    await(h, &h->refused, 1);
    assert_int_equal(CO_TIMEOUT, h->why.code);
    assert_non_null(strstr(h->why.msg, "PADDLE_JOB_TOKEN"));
    co_close(fd);
    close_house(h);
}

/* More idle sockets than descriptors for them. */
static void a_flood_of_silence_keeps_nobody_out(void **state) {
    struct house *h = *state;
    struct rlimit old, files = {.rlim_cur = 3 * FLOOD, .rlim_max = 3 * FLOOD};
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    files.rlim_max = old.rlim_max;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    int fds[FLOOD];
    for (size_t i = 0; i < FLOOD; i++) {
        fds[i] = dial_from(h, 2);
    }
    int64_t begin = net_now();
    struct co_err err = knock(h, "secret", 5000);
    assert_int_equal(0, err.code);
    assert_true(net_now() - begin < 4000); /* not by waiting for their end */
    await(h, &h->entered, 1);
    assert_true(h->refused >= FLOOD - 256);
    for (size_t i = 0; i < FLOOD; i++) {
        co_close(fds[i]);
    }
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
}

/* One address's many go before another's few. */
static void one_address_takes_no_place_of_another(void **state) {
    struct house *h = *state;
    int slow = dial_from(h, 2), fds[300];
    unsigned char answer[RT_GREET_ANSWER_BYTES];
    struct rt_greeting g = {0};
    assert_int_equal(0, rt_greeting_begin(&g, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        fds[i] = dial_from(h, 3);
    }
    await(h, &h->refused, 100);
    say(slow, g.greet, sizeof(g.greet));
    assert_int_equal(sizeof(answer), hear(slow, answer, sizeof(answer)));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        co_close(fds[i]);
    }
    co_close(slow);
}

static void one_that_accepts_and_is_silent_costs_the_timeout(void **state) {
    (void)state;
    int fd = -1;
    assert_int_equal(0, co_listen("127.0.0.1:0", &fd, NULL));
    struct house mute = {0};
    (void)snprintf(mute.endpoint, sizeof(mute.endpoint), "127.0.0.1:%u", co_listen_port(fd));
    struct co_err err = knock(&mute, "secret", 100);
    assert_int_equal(CO_TIMEOUT, err.code);
    co_close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(who_knows_the_token_comes_in),
        T(who_does_not_is_told_so_on_both_sides),
        T(a_server_proves_itself_too),
        T(a_recorded_conversation_is_worth_nothing),
        T(another_version_is_named_on_both_sides),
        T(http2_is_for_those_inside),
        T(a_trickle_does_not_extend_the_time),
        T(a_flood_of_silence_keeps_nobody_out),
        T(one_address_takes_no_place_of_another),
        T(one_that_accepts_and_is_silent_costs_the_timeout),
    };
    return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
