/* The dialling end of the handshake, and TLS after it. */
#include "runtime/net/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/interrupt.h"
#include "common/mem.h"
#include "runtime/net/net.h"
#include "runtime/net/net_stream.h"

/* The handshake with one peer. */
struct talk {
    struct net_handshake shake;
    unsigned char welcome[NET_WELCOME_BYTES];
    uint32_t have;            /* bytes of the answer, then of the welcome */
    struct net_stream stream; /* borrowed; tls is set once its handshake is complete */
    bool over;
};

static int send_part(int fd, const unsigned char *wire, size_t n, struct co_err *err) {
    ssize_t sent = send(fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)n ? 0 : co_err_set(err, CO_PEERLOST, "it hung up at once");
}

/* 0, or the error of the refusal. */
static int judge(const struct net_auth *auth, struct net_dial *d, enum net_refusal refusal,
    const unsigned char *message) {
    d->refusal = refusal;
    return refusal == NET_REFUSAL_NONE ? 0
                                       : net_refusal_error(auth, refusal, message, false, &d->err);
}

/* 1: all bytes are here; 0: not yet.  As soon as the first are, another version is refused: its
 * messages may be shorter. */
static int read_part(const struct net_auth *auth, struct net_dial *d, struct talk *t,
    unsigned char *to, uint32_t offset, uint32_t bytes) {
    int rc = net_read_part(d->fd, to, offset, bytes, &t->have);
    if (t->have >= offset + NET_HEAD_BYTES && judge(auth, d, net_head_check(auth, to), to) < 0) {
        return d->err.code;
    }
    return rc < 0 ? co_err_set(&d->err, rc, "it hung up before it had proved itself") : rc;
}

static int begin_talk(const struct net_auth *auth, struct net_dial *d, struct talk *t) {
    int one = 1;
    (void)setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    CO_TRY(net_hello_write(auth, d->hello, &t->shake, &d->err));
    return send_part(d->fd, t->shake.hello, sizeof(t->shake.hello), &d->err);
}

static int take_answer(const struct net_auth *auth, struct net_dial *d, struct talk *t) {
    unsigned char proof[NET_PROOF_BYTES];
    CO_TRY(judge(auth, d, net_answer_read(auth, &t->shake), t->shake.answer));
    memcpy(d->answer, net_caller_bytes(t->shake.answer), sizeof(d->answer));
    net_proof_write(auth, &t->shake, proof);
    return send_part(d->fd, proof, sizeof(proof), &d->err);
}

/* 1: the other end has proved itself and welcomed us; 0: not yet. */
static int shake_hands(const struct net_auth *auth, struct net_dial *d, struct talk *t) {
    if (t->have < NET_ANSWER_BYTES) {
        int rc = read_part(auth, d, t, t->shake.answer, 0, NET_ANSWER_BYTES);
        rc = rc <= 0 ? rc : take_answer(auth, d, t);
        if (rc < 0 || t->have < NET_ANSWER_BYTES) {
            return rc;
        }
    }
    int rc = read_part(auth, d, t, t->welcome, NET_ANSWER_BYTES, NET_WELCOME_BYTES);
    int bad = rc <= 0 ? rc : judge(auth, d, net_welcome_read(auth, t->welcome), t->welcome);
    return bad < 0 ? bad : rc;
}

/* The other end lets us in by one byte.  1: it is here; 0: not yet. */
static int read_entry(struct net_dial *d, struct talk *t) {
    unsigned char entry;
    size_t n = 0;
    int rc = net_stream_read(&t->stream, &(struct iovec){&entry, 1}, 1, &n, NULL);
    if (rc < 0) {
        return co_err_set(&d->err, rc, "it hung up after the TLS handshake");
    }
    return n > 0;
}

/* 1: the handshake and, if encrypted, that of TLS are complete; 0: not yet. */
static int read_talk(const struct net_auth *auth, struct net_dial *d, struct talk *t) {
    if (!d->tls) {
        int rc = shake_hands(auth, d, t);
        if (rc <= 0 || !auth->encrypt) {
            return rc;
        }
        CO_TRY(net_handshake_tls(auth, &t->shake, false, &d->tls, &d->err));
    }
    if (!t->stream.tls) {
        int rc = co_tls_shake(d->tls, d->fd, &d->err);
        if (rc <= 0) {
            return rc;
        }
        t->stream = (struct net_stream){.fd = d->fd, .tls = d->tls};
    }
    return read_entry(d, t);
}

/* rc: as of read_talk.  A failed connection is closed.  Returns whether the talk is over. */
static bool end_talk(struct net_dial *d, struct talk *t, int rc) {
    t->over = rc != 0;
    if (rc < 0) {
        co_close(d->fd);
        d->fd = -1;
        co_tls_free(co_steal_ptr(d->tls));
    }
    return t->over;
}

/* One look at all connections, until end_ms.  Returns how many talks have ended; all if wake_fd,
 * the last of fds, is readable. */
static size_t turn_talks(const struct net_auth *auth, struct net_dial *dials, struct talk *talks,
    struct pollfd *fds, size_t n, int64_t end_ms, int64_t *ask_ms) {
    size_t ended = 0;
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = talks[i].over ? -1 : dials[i].fd, .events = POLLIN};
    }
    (void)co_interrupt_poll(fds, n + 1, end_ms, ask_ms);
    for (size_t i = 0; i < n; i++) {
        if (fds[i].fd >= 0 && fds[i].revents) {
            ended += end_talk(&dials[i], &talks[i], read_talk(auth, &dials[i], &talks[i]));
        }
    }
    return fds[n].revents ? n : ended;
}

void net_dial_all(
    const struct net_auth *auth, struct net_dial *dials, size_t n, int64_t end_ms, int wake_fd) {
    CO_AUTOFREE struct talk *talks = co_xcalloc(n, sizeof(*talks));
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(n + 1, sizeof(*fds));
    fds[n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    size_t over = 0;
    int64_t ask_ms = co_interrupt_next();
    for (size_t i = 0; i < n; i++) {
        struct net_dial *d = &dials[i];
        d->err = (struct co_err){0};
        d->refusal = NET_REFUSAL_NONE;
        talks[i].over = d->fd < 0 || end_talk(d, &talks[i], begin_talk(auth, d, &talks[i]));
        over += talks[i].over;
    }
    /* The last look is after the deadline: what came in time is not late. */
    for (bool last = false; !last && over < n;) {
        last = co_now_ms() >= end_ms || co_interrupted(&ask_ms);
        over += turn_talks(auth, dials, talks, fds, n, end_ms, &ask_ms);
    }
    for (size_t i = 0; i < n; i++) {
        if (!talks[i].over) {
            (void)end_talk(&dials[i], &talks[i],
                co_interrupted(&ask_ms)
                    ? co_interrupt_error("a connection", &dials[i].err)
                    : co_err_set(&dials[i].err, CO_TIMEOUT, "it accepts and says nothing"));
        }
    }
}
