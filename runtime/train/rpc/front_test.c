/* What strangers do at the front door, and what they get. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/listen.h"
#include "common/mem.h"
#include "runtime/net/acceptor.h"
#include "runtime/train/rpc/dial_testing.h"
#include "runtime/train/rpc/pass.h"

/* What must come has WAIT_MS; strangers have much longer to prove that they know the token: that
 * distinguishes what waits for their end from what does not. */
enum { FLOOD = 1100, WAIT_MS = 60000, PROVE_MS = 10 * WAIT_MS };

struct house {
    struct net_listener *listener;
    struct net_auth auth;
    uint16_t port;
    char endpoint[32];
    pthread_mutex_t m;
    pthread_cond_t changed;
    size_t entered, refused;
    size_t sealed; /* of those that entered */
    char peer[64];
    struct rpc_pass pass; /* of the last one that entered */
    struct co_err why;    /* of the last refusal */
};

static const struct net_auth in_clear = {&rpc_protocol, "secret", false},
                             sealed = {&rpc_protocol, "secret", true};
static const struct rpc_pass for_stream = {RPC_FOR_STREAM, 0, 0, 0};
static const unsigned char stream[NET_CALLER_BYTES]; /* what a hello says that asks for one */

static enum net_refusal on_look(void *arg, const struct net_pending *p, bool proved,
    unsigned char ret_answer[NET_CALLER_BYTES]) { /* NOLINT(readability-non-const-parameter) */
    struct rpc_pass pass;
    (void)arg;
    (void)proved;
    (void)ret_answer;
    return rpc_pass_read(net_caller_bytes(p->shake.hello), &pass);
}

static void on_enter(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
    const unsigned char caller[NET_CALLER_BYTES]) {
    struct house *h = arg;
    pthread_mutex_lock(&h->m);
    h->sealed += tls_own != NULL;
    assert_int_equal(NET_REFUSAL_NONE, rpc_pass_read(caller, &h->pass));
    h->entered++;
    (void)snprintf(h->peer, sizeof(h->peer), "%s", from->text);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->m);
    co_tls_free(tls_own);
    co_close(fd_own);
}

static void on_refuse(void *arg, const struct net_peer *from, const unsigned char *caller,
    enum net_refusal refusal, const struct co_err *why) {
    struct house *h = arg;
    (void)caller;
    (void)refusal;
    pthread_mutex_lock(&h->m);
    h->refused++;
    (void)snprintf(h->peer, sizeof(h->peer), "%s", from->text);
    h->why = *why;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->m);
}

static void await(struct house *h, const size_t *what, size_t n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&h->m);
    while (*what < n) {
        assert_int_equal(0, pthread_cond_timedwait(&h->changed, &h->m, &end));
    }
    pthread_mutex_unlock(&h->m);
}

static struct house *open_house(const struct net_auth *auth, int prove_ms) {
    static const struct net_acceptor_ops ops = {on_look, on_enter, on_refuse};
    struct house *h = co_xcalloc(1, sizeof(*h));
    int fd = -1;
    h->auth = *auth;
    pthread_mutex_init(&h->m, NULL);
    pthread_cond_init(&h->changed, NULL);
    assert_int_equal(0, co_listen(":0", &fd, NULL));
    h->port = co_listen_port(fd);
    (void)snprintf(h->endpoint, sizeof(h->endpoint), "127.0.0.1:%u", h->port);
    assert_int_equal(0, net_listener_open(fd, &h->auth, prove_ms, &ops, h, &h->listener, NULL));
    return h;
}

static void close_house(struct house *h) {
    net_listener_close(h->listener);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->m);
    free(h);
}

static int setup(void **state) {
    *state = open_house(&in_clear, PROVE_MS);
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

static struct co_err knock_as(const struct house *h, const struct net_auth *auth, int timeout_ms) {
    const char *endpoint = h->endpoint;
    struct net_reached reached;
    assert_int_equal(1, net_connect(&endpoint, 1, WAIT_MS, &reached));
    struct net_dial k = rpc_prove(reached.fd, auth, &for_stream, timeout_ms);
    assert_true(!k.tls == !(k.fd >= 0 && auth->encrypt));
    if (k.fd >= 0) {
        co_close(k.fd);
        co_tls_free(k.tls);
    }
    return k.err;
}

static struct co_err knock(const struct house *h, const char *token, int timeout_ms) {
    return knock_as(h, &(struct net_auth){&rpc_protocol, token, h->auth.encrypt}, timeout_ms);
}

static void say(int fd, const void *bytes, size_t n) {
    assert_int_equal(n, send(fd, bytes, n, MSG_NOSIGNAL));
}

/* Bytes until the other end closes. */
static size_t receive(int fd, unsigned char *ret, size_t size) {
    size_t have = 0;
    ssize_t n;
    while (have < size && (n = recv(fd, ret + have, size - have, 0)) > 0) {
        have += (size_t)n;
    }
    return have;
}

/* Who has recorded it keeps one slot with it, and not all. */
static void a_recorded_hello_has_one_slot(void **state) {
    struct house *h = *state;
    struct net_handshake shake;
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES + 1];
    assert_int_equal(0, net_hello_write(&in_clear, stream, &shake, NULL));
    CO_AUTOCLOSE int first = dial_from(h, 1), again = dial_from(h, 2);
    say(first, shake.hello, sizeof(shake.hello));
    assert_int_equal(sizeof(shake.answer), receive(first, shake.answer, sizeof(shake.answer)));
    say(again, shake.hello, sizeof(shake.hello));
    assert_int_equal(0, receive(again, welcome, sizeof(welcome)));
    await(h, &h->refused, 1);
    assert_non_null(strstr(h->why.msg, "repeats that of another connection"));
    net_proof_write(&in_clear, &shake, proof);
    say(first, proof, sizeof(proof));
    await(h, &h->entered, 1);
    CO_AUTOCLOSE int later = dial_from(h, 2); /* it is no longer pending: as any other one */
    say(later, shake.hello, sizeof(shake.hello));
    assert_int_equal(sizeof(shake.answer), receive(later, shake.answer, sizeof(shake.answer)));
}

static void a_peer_that_knows_the_token_is_accepted(void **state) {
    struct house *h = *state;
    struct co_err err = knock(h, "secret", WAIT_MS);
    assert_int_equal(0, err.code);
    await(h, &h->entered, 1);
    assert_memory_equal("127.0.0.1:", h->peer, 10);
    assert_int_equal(0, h->refused);
}

static void both_sides_report_a_peer_without_the_token(void **state) {
    static const char *const tokens[] = {"", "Secret", "secretsecret", "secre"};
    struct house *h = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(tokens); i++) {
        struct co_err err = knock(h, tokens[i], WAIT_MS);
        assert_int_equal(CO_PERMISSION, err.code);
        assert_non_null(strstr(err.msg, "the token is not this job's (PADDLE_JOB_TOKEN"));
        await(h, &h->refused, i + 1);
        assert_int_equal(CO_PERMISSION, h->why.code);
        assert_non_null(strstr(h->why.msg, "PADDLE_JOB_TOKEN"));
    }
    assert_int_equal(0, h->entered);
}

/* What a connection is to be is inside the proof: nobody in between changes it. */
static void a_lane_says_whose_it_is(void **state) {
    struct house *h = *state;
    const char *endpoint = h->endpoint;
    struct net_reached reached;
    struct rpc_pass pass = {RPC_FOR_LANE, 3, 5, UINT64_C(0x1122334455667788)};
    assert_int_equal(1, net_connect(&endpoint, 1, WAIT_MS, &reached));
    struct net_dial k = rpc_prove(reached.fd, &in_clear, &pass, WAIT_MS);
    assert_int_equal(0, k.err.code);
    await(h, &h->entered, 1);
    assert_int_equal(pass.purpose, h->pass.purpose);
    assert_int_equal(pass.trainer, h->pass.trainer);
    assert_int_equal(pass.shard, h->pass.shard);
    assert_int_equal(pass.key, h->pass.key);
    co_close(k.fd);
}

/* Only another version of the library asks for it, and gets a sentence. */
static void a_purpose_that_is_not_known_is_refused(void **state) {
    struct house *h = *state;
    struct net_handshake g = {0};
    unsigned char caller[NET_CALLER_BYTES];
    rpc_pass_write(&(struct rpc_pass){.purpose = RPC_FOR_LANE + 1}, caller);
    assert_int_equal(0, net_hello_write(&in_clear, caller, &g, NULL));
    int fd = dial_from(h, 1);
    say(fd, g.hello, sizeof(g.hello));
    assert_int_equal(sizeof(g.answer), receive(fd, g.answer, sizeof(g.answer)));
    assert_int_equal(RPC_REFUSAL_PURPOSE, net_answer_read(&in_clear, &g));
    await(h, &h->refused, 1);
    assert_int_equal(0, h->entered);
    co_close(fd);
}

/* Who does not know it cannot play the server either. */
static void a_server_proves_itself_too(void **state) {
    (void)state;
    const struct net_auth guess = {&rpc_protocol, "guess", false};
    int pair[2];
    struct net_handshake g = {0};
    unsigned char welcome[NET_WELCOME_BYTES];
    assert_int_equal(0, net_hello_write(&guess, stream, &g, NULL));
    assert_int_equal(0, net_answer_write(&guess, NET_REFUSAL_NONE, stream, &g, NULL));
    net_welcome_write(&guess, NET_REFUSAL_NONE, welcome);
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    say(pair[1], g.answer, sizeof(g.answer));
    say(pair[1], welcome, sizeof(welcome));
    struct net_dial k = rpc_prove(pair[0], &in_clear, &for_stream, WAIT_MS);
    assert_int_equal(CO_PERMISSION, k.err.code);
    assert_int_equal(-1, k.fd);
    co_close(pair[1]);
}

/* What was recorded on the wire once opens nothing later. */
static void a_replayed_handshake_is_refused(void **state) {
    struct house *h = *state;
    struct net_handshake g = {0};
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES];
    assert_int_equal(0, net_hello_write(&in_clear, stream, &g, NULL));
    for (int round = 0; round < 2; round++) {
        int fd = dial_from(h, 1);
        say(fd, g.hello, sizeof(g.hello));
        assert_int_equal(sizeof(g.answer), receive(fd, g.answer, sizeof(g.answer)));
        if (round == 0) {
            net_proof_write(&in_clear, &g, proof);
        }
        say(fd, proof, sizeof(proof));
        assert_int_equal(sizeof(welcome), receive(fd, welcome, sizeof(welcome)));
        assert_int_equal(round == 0 ? NET_REFUSAL_NONE : NET_REFUSAL_TOKEN,
            net_welcome_read(&in_clear, welcome));
        co_close(fd);
    }
    await(h, &h->refused, 1);
    assert_int_equal(1, h->entered);
}

/* Also one whose messages are shorter, as those of releases before this handshake are: it reads 40
 * bytes of an answer, of which the first say the version. */
static void another_version_is_named_on_both_sides(void **state) {
    enum { OLD_BYTES = 40 };
    struct house *h = *state;
    for (uint16_t version = 3; version <= 9; version += 6) {
        struct net_handshake g = {0};
        assert_int_equal(0, net_hello_write(&in_clear, stream, &g, NULL));
        co_put_u16(g.hello + 4, version);
        int fd = dial_from(h, 1);
        say(fd, g.hello, version == 3 ? OLD_BYTES : sizeof(g.hello));
        await(h, &h->refused, version / 6 + 1);
        assert_int_equal(sizeof(g.answer), receive(fd, g.answer, sizeof(g.answer)));
        CO_AUTOFREE char *want = co_xasprintf("version %u of the protocol, expected 4", version);
        assert_non_null(strstr(h->why.msg, want));
        assert_memory_equal("PDPS", g.answer, 4);
        assert_int_equal(4, co_get_u16(g.answer + 4));
        co_close(fd);
        /* and the other way round */
        int pair[2];
        assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
        co_put_u16(g.answer + 4, version);
        say(pair[1], g.answer, OLD_BYTES);
        struct net_dial k = rpc_prove(pair[0], &in_clear, &for_stream, WAIT_MS);
        assert_int_equal(CO_INVALID, k.err.code);
        assert_non_null(strstr(k.err.msg, want));
        assert_non_null(strstr(k.err.msg, "the same version of the library"));
        co_close(pair[1]);
    }
}

/* The one that made gRPC 1.51 take 2.5 GB: none of it gets there. */
static void http2_before_the_proof_is_refused(void **state) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct house *h = *state;
    int fd = dial_from(h, 1);
    unsigned char text[64];
    char flood[4096] = {0};
    say(fd, preface, sizeof(preface) - 1);
    (void)send(fd, flood, sizeof(flood), MSG_NOSIGNAL);
    assert_int_equal(0, receive(fd, text, sizeof(text)));
    await(h, &h->refused, 1);
    assert_int_equal(CO_INVALID, h->why.code);
    assert_int_equal(0, h->entered);
    co_close(fd);
}

static void a_trickle_does_not_extend_the_time(void **state) {
    (void)state;
    struct house *h = open_house(&in_clear, 300);
    struct net_handshake g = {0};
    assert_int_equal(0, net_hello_write(&in_clear, stream, &g, NULL));
    int fd = dial_from(h, 1);
    struct pollfd in = {.fd = fd, .events = POLLIN};
    for (size_t i = 0; i < 20 && poll(&in, 1, 30) == 0; i++) {
        (void)send(fd, g.hello + i, 1, MSG_NOSIGNAL);
    }
    await(h, &h->refused, 1);
    assert_int_equal(CO_TIMEOUT, h->why.code);
    assert_non_null(strstr(h->why.msg, "PADDLE_JOB_TOKEN"));
    co_close(fd);
    close_house(h);
}

/* More idle sockets than descriptors for them. */
static void silent_connections_keep_no_trainer_out(void **state) {
    struct house *h = *state;
    struct rlimit old, files = {.rlim_cur = 3 * FLOOD, .rlim_max = 3 * FLOOD};
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    files.rlim_max = old.rlim_max;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    int fds[FLOOD];
    for (size_t i = 0; i < FLOOD; i++) {
        fds[i] = dial_from(h, 2);
    }
    struct co_err err = knock(h, "secret", WAIT_MS); /* does not wait for their end */
    assert_int_equal(0, err.code);
    await(h, &h->entered, 1);
    assert_true(h->refused >= FLOOD - 256);
    for (size_t i = 0; i < FLOOD; i++) {
        co_close(fds[i]);
    }
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
}

/* The program needs some itself: for checkpoints, for those who are in already. */
static void strangers_do_not_take_the_last_descriptors(void **state) {
    enum { FILES = 256, KEPT = 64 };
    struct house *h = *state;
    struct rlimit old, files;
    int taken[FILES], n = 0;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    files = (struct rlimit){.rlim_cur = FILES, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    do {
        taken[n++] = dup(STDERR_FILENO);
    } while (taken[n - 1] < FILES - KEPT);
    assert_int_not_equal(0, knock(h, "secret", WAIT_MS).code);
    await(h, &h->refused, 1);
    assert_int_equal(CO_NORESOURCE, h->why.code);
    assert_non_null(strstr(h->why.msg, "RLIMIT_NOFILE"));
    assert_int_equal(0, h->entered);
    while (n > 0) {
        co_close(taken[--n]);
    }
    assert_int_equal(0, knock(h, "secret", WAIT_MS).code);
    await(h, &h->entered, 1);
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
}

/* poll() refuses more entries than the process may have descriptors. */
static void few_descriptors_are_enough_for_a_door(void **state) {
    enum { FILES = 64 };
    struct house *h = *state;
    struct rlimit old, files;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    files = (struct rlimit){.rlim_cur = FILES, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    /* The first one ends the poll() that began with the old limit. */
    for (size_t i = 1; i <= 2; i++) {
        assert_int_equal(0, knock(h, "secret", WAIT_MS).code);
        await(h, &h->entered, i);
    }
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
}

static void a_door_that_has_no_descriptor_says_the_limit_once(void **state) {
    enum { FILES = 64 };
    struct house *h = *state;
    struct rlimit old, files;
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons(h->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int taken[FILES], n = 0;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    files = (struct rlimit){.rlim_cur = FILES, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    while ((taken[n] = dup(STDERR_FILENO)) >= 0) {
        n++;
    }
    assert_int_equal(0, connect(fd, (const struct sockaddr *)&to, sizeof(to)));
    await(h, &h->refused, 1);
    assert_int_equal(CO_NORESOURCE, h->why.code);
    assert_non_null(strstr(h->why.msg, "ulimit -n is 64"));
    while (n > 0) {
        co_close(taken[--n]);
    }
    assert_int_equal(0, knock(h, "secret", WAIT_MS).code);
    await(h, &h->entered, 1);
    assert_int_equal(1, h->refused);
    co_close(fd);
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
}

static size_t resident(void) {
    size_t pages[2] = {0};
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(2, fscanf(f, "%zu %zu", &pages[0], &pages[1]));
    (void)fclose(f);
    return pages[1] * (size_t)sysconf(_SC_PAGESIZE);
}

/* What made gigabytes where HTTP/2 read it: a compressed message, streams that are reset as soon as
 * they are there, connections that say nothing. */
static void strangers_take_no_memory(void **state) {
    enum { TIMES = 100, BYTES = 64 << 10, MOST = 16 << 20 };
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char reset[] = "\0\0\1\1\5\0\0\0\1\202\0\0\4\3\0\0\0\0\1\0\0\0\10";
    static char zeros[BYTES], resets[BYTES];
    struct house *h = *state;
    for (size_t at = 0; at + sizeof(reset) - 1 <= BYTES; at += sizeof(reset) - 1) {
        memcpy(resets + at, reset, sizeof(reset) - 1);
    }
    int idle[TIMES];
    size_t before = resident();
    for (int i = 0; i < TIMES; i++) {
        int fd = dial_from(h, 2);
        (void)send(fd, preface, sizeof(preface) - 1, MSG_NOSIGNAL);
        for (int k = 0; k < 32; k++) { /* 2 MiB, unless it is closed before */
            (void)send(fd, i % 2 ? zeros : resets, BYTES, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        co_close(fd);
        idle[i] = dial_from(h, 3);
    }
    await(h, &h->refused, TIMES);
    size_t after = resident();
    assert_true(after < before + MOST);
    assert_int_equal(0, h->entered);
    for (int i = 0; i < TIMES; i++) {
        co_close(idle[i]);
    }
}

/* One address's many go before another's few. */
static void connections_of_one_address_never_evict_those_of_another(void **state) {
    struct house *h = *state;
    int slow = dial_from(h, 2), fds[300];
    unsigned char answer[NET_ANSWER_BYTES];
    struct net_handshake g = {0};
    assert_int_equal(0, net_hello_write(&in_clear, stream, &g, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        fds[i] = dial_from(h, 3);
    }
    await(h, &h->refused, 100);
    say(slow, g.hello, sizeof(g.hello));
    assert_int_equal(sizeof(answer), receive(slow, answer, sizeof(answer)));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        co_close(fds[i]);
    }
    co_close(slow);
}

/* Many strangers come between the bytes of a trainer that is far away.  Its hello keeps its slot,
 * although they come from its own address. */
static void strangers_displace_nobody_whose_hello_was_right(void **state) {
    struct house *h = *state;
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES];
    struct net_handshake g = {0};
    int slow = dial_from(h, 2), fds[300];
    assert_int_equal(0, net_hello_write(&in_clear, stream, &g, NULL));
    say(slow, g.hello, sizeof(g.hello));
    assert_int_equal(sizeof(g.answer), receive(slow, g.answer, sizeof(g.answer)));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        fds[i] = dial_from(h, 2);
    }
    await(h, &h->refused, CO_ARRAY_LEN(fds) - NET_PENDING);
    net_proof_write(&in_clear, &g, proof);
    say(slow, proof, sizeof(proof));
    assert_int_equal(sizeof(welcome), receive(slow, welcome, sizeof(welcome)));
    await(h, &h->entered, 1);
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        co_close(fds[i]);
    }
    co_close(slow);
}

/* ---- encrypted ---- */

static void an_encrypting_server_accepts_only_tls(void **state) {
    (void)state;
    struct house *h = open_house(&sealed, PROVE_MS);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(0, knock(h, "secret", WAIT_MS).code);
        await(h, &h->entered, i);
    }
    assert_int_equal(3, h->sealed);
    assert_int_equal(CO_PERMISSION, knock(h, "guess", WAIT_MS).code);
    await(h, &h->refused, 1);
    assert_non_null(strstr(h->why.msg, "the token is not this job's (PADDLE_JOB_TOKEN"));
    assert_int_equal(3, h->entered);
    close_house(h);
}

static void disagreement_about_encryption_is_named_on_both_sides(void **state) {
    (void)state;
    static const struct {
        const struct net_auth *server, *trainer;
        const char *returned, *logged;
    } rows[] = {
        {&in_clear, &sealed, "the server does not encrypt, this trainer does",
            "the trainer encrypts, this server does not"},
        {&sealed, &in_clear, "the server encrypts, this trainer does not",
            "the trainer does not encrypt, this server does"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct house *h = open_house(rows[i].server, PROVE_MS);
        struct co_err err = knock_as(h, rows[i].trainer, WAIT_MS);
        assert_int_equal(CO_INVALID, err.code);
        assert_non_null(strstr(err.msg, rows[i].returned));
        assert_non_null(strstr(err.msg, "PADDLE_JOB_ENCRYPT must be the same everywhere"));
        await(h, &h->refused, 1);
        assert_non_null(strstr(h->why.msg, rows[i].logged));
        assert_non_null(strstr(h->why.msg, "PADDLE_JOB_ENCRYPT must be the same everywhere"));
        assert_int_equal(0, h->entered);
        close_house(h);
    }
}

/* On a connection that has proved the token to an encrypted house. */
static int prove_from(const struct house *h, struct net_handshake *g) {
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES];
    int fd = dial_from(h, 1);
    assert_int_equal(0, net_hello_write(&sealed, stream, g, NULL));
    say(fd, g->hello, sizeof(g->hello));
    assert_int_equal(sizeof(g->answer), receive(fd, g->answer, sizeof(g->answer)));
    assert_int_equal(NET_REFUSAL_NONE, net_answer_read(&sealed, g));
    net_proof_write(&sealed, g, proof);
    say(fd, proof, sizeof(proof));
    assert_int_equal(sizeof(welcome), receive(fd, welcome, sizeof(welcome)));
    assert_int_equal(NET_REFUSAL_NONE, net_welcome_read(&sealed, welcome));
    return fd;
}

/* The proof is not enough where all is encrypted. */
static void no_connection_falls_back_to_clear(void **state) {
    (void)state;
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct house *h = open_house(&sealed, PROVE_MS);
    struct net_handshake g = {0};
    int fd = prove_from(h, &g);
    say(fd, preface, sizeof(preface) - 1);
    await(h, &h->refused, 1);
    assert_int_equal(CO_PERMISSION, h->why.code);
    assert_non_null(strstr(h->why.msg, "TLS"));
    assert_int_equal(0, h->entered);
    co_close(fd);
    close_house(h);
}

static void a_handshake_has_the_time_of_the_proof(void **state) {
    (void)state;
    struct house *h = open_house(&sealed, 300);
    struct net_handshake g = {0};
    int fd = prove_from(h, &g);
    await(h, &h->refused, 1);
    assert_int_equal(CO_TIMEOUT, h->why.code);
    assert_non_null(strstr(h->why.msg, "TLS handshake"));
    co_close(fd);
    close_house(h);
}

/* The key is of this handshake: what another one's would open is not this connection. */
static void tls_is_of_this_handshake(void **state) {
    (void)state;
    struct house *h = open_house(&sealed, PROVE_MS);
    struct net_handshake g = {0};
    struct co_tls *tls = NULL;
    int fd = prove_from(h, &g);
    g.answer[20] ^= 1;
    assert_int_equal(0, net_handshake_tls(&sealed, &g, false, &tls, NULL));
    assert_true(co_tls_shake(tls, fd, NULL) <= 0);
    await(h, &h->refused, 1);
    assert_int_equal(CO_PERMISSION, h->why.code);
    assert_int_equal(0, h->entered);
    co_tls_free(tls);
    co_close(fd);
    close_house(h);
}

static void play_handshake(int fd, struct net_handshake *g) {
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES];
    assert_int_equal(sizeof(g->hello), receive(fd, g->hello, sizeof(g->hello)));
    assert_int_equal(0, net_answer_write(&sealed, NET_REFUSAL_NONE, stream, g, NULL));
    say(fd, g->answer, sizeof(g->answer));
    assert_int_equal(sizeof(proof), receive(fd, proof, sizeof(proof)));
    net_welcome_write(&sealed, NET_REFUSAL_NONE, welcome);
    say(fd, welcome, sizeof(welcome));
}

/* A server that knows the token and speaks no TLS after it. */
static void *play_server(void *arg) {
    int fd = *(int *)arg;
    struct net_handshake g = {0};
    play_handshake(fd, &g);
    say(fd, "\0\0\0\4\0\0\0\0\0", 9);
    (void)shutdown(fd, SHUT_WR);
    return NULL;
}

/* One that hangs up when the TLS handshake is complete. */
static void *play_busy_server(void *arg) {
    int fd = *(int *)arg, rc = 0;
    struct net_handshake g = {0};
    struct co_tls *tls = NULL;
    play_handshake(fd, &g);
    assert_int_equal(0, net_handshake_tls(&sealed, &g, true, &tls, NULL));
    for (struct pollfd f = {.fd = fd, .events = POLLIN}; rc == 0;) {
        assert_int_equal(1, poll(&f, 1, WAIT_MS));
        rc = co_tls_shake(tls, fd, NULL);
    }
    assert_int_equal(1, rc);
    (void)shutdown(fd, SHUT_RDWR);
    co_tls_free(tls);
    return NULL;
}

/* The trainer tries again: it knows that it was not let in. */
static void a_trainer_dropped_after_the_tls_handshake_gets_an_error(void **state) {
    (void)state;
    int pair[2];
    pthread_t server;
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    assert_int_equal(0, pthread_create(&server, NULL, play_busy_server, &pair[1]));
    struct net_dial k = rpc_prove(pair[0], &sealed, &for_stream, WAIT_MS);
    assert_int_equal(CO_PEERLOST, k.err.code);
    assert_int_equal(-1, k.fd);
    assert_null(k.tls);
    pthread_join(server, NULL);
    co_close(pair[1]);
}

static void a_trainer_does_not_fall_back_to_clear_either(void **state) {
    (void)state;
    int pair[2];
    pthread_t server;
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    assert_int_equal(0, pthread_create(&server, NULL, play_server, &pair[1]));
    struct net_dial k = rpc_prove(pair[0], &sealed, &for_stream, WAIT_MS);
    assert_int_equal(CO_PERMISSION, k.err.code);
    assert_int_equal(-1, k.fd);
    assert_null(k.tls);
    pthread_join(server, NULL);
    co_close(pair[1]);
}

static void a_silent_server_fails_the_dial_at_its_timeout(void **state) {
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
        cmocka_unit_test_setup_teardown(a_recorded_hello_has_one_slot, setup, teardown),
        T(a_peer_that_knows_the_token_is_accepted),
        T(both_sides_report_a_peer_without_the_token),
        T(a_lane_says_whose_it_is),
        T(a_purpose_that_is_not_known_is_refused),
        T(a_server_proves_itself_too),
        T(a_replayed_handshake_is_refused),
        T(another_version_is_named_on_both_sides),
        T(http2_before_the_proof_is_refused),
        T(a_trickle_does_not_extend_the_time),
        T(silent_connections_keep_no_trainer_out),
        T(strangers_do_not_take_the_last_descriptors),
        T(few_descriptors_are_enough_for_a_door),
        T(a_door_that_has_no_descriptor_says_the_limit_once),
        T(strangers_take_no_memory),
        T(connections_of_one_address_never_evict_those_of_another),
        T(strangers_displace_nobody_whose_hello_was_right),
        T(a_silent_server_fails_the_dial_at_its_timeout),
        cmocka_unit_test(an_encrypting_server_accepts_only_tls),
        cmocka_unit_test(disagreement_about_encryption_is_named_on_both_sides),
        cmocka_unit_test(no_connection_falls_back_to_clear),
        cmocka_unit_test(a_handshake_has_the_time_of_the_proof),
        cmocka_unit_test(tls_is_of_this_handshake),
        cmocka_unit_test(a_trainer_does_not_fall_back_to_clear_either),
        cmocka_unit_test(a_trainer_dropped_after_the_tls_handshake_gets_an_error),
    };
    return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
