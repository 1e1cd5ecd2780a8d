/* The dialling side of the greeting, with many servers at the same time: one poll loop, one
 * deadline for all. */
#include "runtime/train/rpc/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "runtime/net/net.h"

/* The greeting with one server. */
struct talk {
    struct rpc_greeting greeting;
    unsigned char welcome[RPC_GREET_WELCOME_BYTES];
    uint32_t have; /* bytes of the answer, then of the welcome */
    bool over;
};

static int send_part(int fd, const unsigned char *wire, size_t n, struct co_err *err) {
    ssize_t sent = send(fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)n ? 0 : co_err_set(err, CO_PEERLOST, "it hung up at once");
}

/* 1: all bytes are here; 0: not yet. */
static int read_part(int fd, struct talk *t, unsigned char *to, uint32_t offset, uint32_t bytes,
    struct co_err *err) {
    while (t->have < offset + bytes) {
        ssize_t n = recv(fd, to + (t->have - offset), offset + bytes - t->have, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n <= 0) {
            return co_err_set(err, CO_PEERLOST, "it hung up before it had proved itself");
        }
        t->have += (uint32_t)n;
    }
    return 1;
}

static int begin_talk(
    struct rpc_connect *k, struct talk *t, const struct rpc_peer_auth *auth, struct co_err *err) {
    int fd = k->fd, one = 1, rc = rpc_greeting_begin(&t->greeting, auth, &k->pass, err);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return rc < 0 ? rc : send_part(fd, t->greeting.greet, sizeof(t->greeting.greet), err);
}

/* 1: the server has welcomed us, with a proof of its own; 0: not yet. */
static int greet(int fd, struct talk *t, const struct rpc_peer_auth *auth, struct co_err *err) {
    if (t->have < RPC_GREET_ANSWER_BYTES) {
        unsigned char proof[RPC_GREET_PROOF_BYTES];
        int rc = read_part(fd, t, t->greeting.answer, 0, RPC_GREET_ANSWER_BYTES, err);
        if (rc <= 0) {
            return rc;
        }
        rc = rpc_greeting_prove(&t->greeting, auth, proof, err);
        rc = rc < 0 ? rc : send_part(fd, proof, sizeof(proof), err);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = read_part(fd, t, t->welcome, RPC_GREET_ANSWER_BYTES, RPC_GREET_WELCOME_BYTES, err);
    if (rc <= 0) {
        return rc;
    }
    rc = rpc_greeting_check(&t->greeting, auth->token, t->welcome, err);
    return rc < 0 ? rc : 1;
}

static int begin_tls(struct rpc_connect *k, const struct talk *t, const char *token) {
    unsigned char key[CO_TLS_KEY_BYTES];
    rpc_greeting_key(&t->greeting, token, key);
    int rc = co_tls_new(false, key, &k->tls, &k->err);
    explicit_bzero(key, sizeof(key));
    return rc;
}

/* 1: the greeting and, if encrypted, the TLS handshake are complete; 0: not yet. */
static int read_talk(struct rpc_connect *k, struct talk *t, const struct rpc_peer_auth *auth) {
    if (!k->tls) {
        int rc = greet(k->fd, t, auth, &k->err);
        if (rc <= 0 || !auth->encrypt) {
            return rc;
        }
        rc = begin_tls(k, t, auth->token);
        if (rc < 0) {
            return rc;
        }
    }
    return co_tls_shake(k->tls, k->fd, &k->err);
}

/* rc: as of read_talk. A failed connection is closed. Returns whether the talk is over. */
static bool end_talk(struct rpc_connect *k, struct talk *t, int rc) {
    t->over = rc != 0;
    if (rc < 0) {
        co_close(k->fd);
        k->fd = -1;
        co_tls_free(co_steal_ptr(k->tls));
    }
    return t->over;
}

void rpc_connect_all(
    struct rpc_connect *attempts, size_t n, const struct rpc_peer_auth *auth, int timeout_ms) {
    CO_AUTOFREE struct talk *talks = co_xcalloc(n, sizeof(*talks));
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(n, sizeof(*fds));
    int64_t end = net_now() + timeout_ms;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        struct rpc_connect *k = &attempts[i];
        k->err = (struct co_err){0};
        talks[i].over =
            k->fd < 0 || end_talk(k, &talks[i], begin_talk(k, &talks[i], auth, &k->err));
        left += !talks[i].over;
    }
    for (int64_t now = net_now(); left > 0 && now < end; now = net_now()) {
        for (size_t i = 0; i < n; i++) {
            fds[i] = (struct pollfd){.fd = talks[i].over ? -1 : attempts[i].fd, .events = POLLIN};
        }
        (void)poll(fds, n, (int)(end - now));
        for (size_t i = 0; i < n; i++) {
            struct rpc_connect *k = &attempts[i];
            if (fds[i].fd >= 0 && fds[i].revents) {
                left -= end_talk(k, &talks[i], read_talk(k, &talks[i], auth));
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!talks[i].over) {
            (void)end_talk(&attempts[i], &talks[i],
                co_err_set(&attempts[i].err, CO_TIMEOUT, "it accepts and says nothing"));
        }
    }
}
