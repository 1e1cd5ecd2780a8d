/* One thread's poll loop over a listener and its pending connections: accepts, reads the few bytes
 * of the handshake from each, and either hands the connection on or closes it. */
#include "runtime/net/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/net/net_stream.h"
#include "runtime/net/slots.h"

enum {
    PROVE_MS = 10000, /* long enough for lost packets to be sent again */
    AT_ONCE = 256,    /* connections that are accepted before the pending ones are read again */
    WAIT_MS = 50,     /* before accept() is tried again without a free descriptor */
    TURN_MS = 60000,  /* the longest wait of one turn */
};
/* What an acceptor waits for: its pending connections, by slot, and these. */
enum { LISTENER = NET_PENDING, HANDED, WAKE, FDS };

/* Without entries for free slots: poll() refuses more of them than the process may have
 * descriptors. */
struct waiting {
    size_t n;
    struct pollfd fds[FDS];
    size_t what[FDS];
};

_Static_assert(
    sizeof(struct net_pending) <= PIPE_BUF, "a pipe takes a connection whole or not at all");

struct net_acceptor {
    const struct net_acceptor_ops *ops;
    void *arg;
    const struct net_auth *auth;
    int fd;
    int64_t prove_ms;
    bool local;    /* fd is a unix socket */
    bool full;     /* no descriptor is free: no accept() for WAIT_MS */
    bool said;     /* that none is free, since the last connection */
    bool stopped;  /* by a callback */
    int handed[2]; /* a pipe of struct net_pending, from other acceptors */
    struct net_pending pending[NET_PENDING];
    struct net_slot slots[NET_PENDING]; /* of the pending connections with the same index */
};

/* ---- slots ---- */

/* Frees the slot; the descriptor is the caller's. */
static int leave_slot(struct net_acceptor *a, struct net_pending *p) {
    int fd = p->fd;
    net_slots_leave(a->slots, NET_PENDING, (size_t)(p - a->pending));
    p->fd = -1;
    return fd;
}

static void drop(struct net_acceptor *a, struct net_pending *p) {
    co_close(leave_slot(a, p));
    co_tls_free(co_steal_ptr(p->tls));
}

static void refuse(struct net_acceptor *a, struct net_pending *p, enum net_refusal refusal,
    const struct co_err *why) {
    bool said =
        p->have >= NET_HELLO_BYTES && net_head_check(a->auth, p->shake.hello) == NET_REFUSAL_NONE;
    const unsigned char *caller = said ? net_caller_bytes(p->shake.hello) : NULL;
    a->ops->refuse(a->arg, &p->from, caller, refusal, why);
    drop(a, p);
}

static struct net_pending *take_slot(
    struct net_acceptor *a, size_t i, const struct net_pending *came) {
    struct net_pending *p = &a->pending[i];
    if (p->fd >= 0) {
        struct co_err why = {0};
        co_err_set(
            &why, CO_NORESOURCE, "%d connections wait for a proof of their token", NET_PENDING);
        refuse(a, p, NET_REFUSAL_CROWDED, &why);
    }
    *p = *came;
    net_slots_take(a->slots, NET_PENDING, i, p->from.host, co_now_ms());
    return p;
}

/* ---- the handshake ---- */

/* False: more bytes are to come, or the peer has hung up. That is no error: port probes do it. */
static bool read_part(struct net_acceptor *a, struct net_pending *p, unsigned char *to,
    uint32_t offset, uint32_t bytes) {
    int rc = net_read_part(p->fd, to, offset, bytes, &p->have);
    if (rc < 0) {
        drop(a, p);
    }
    return rc > 0;
}

/* A new connection's send buffer always has room for these few bytes, so a short write is a
 * failure. */
static bool send_part(struct net_acceptor *a, struct net_pending *p, const void *wire, size_t n) {
    bool sent = send(p->fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
    if (!sent) {
        drop(a, p);
    }
    return sent;
}

/* What the hello is answered with, and this end's part of the answer. */
static enum net_refusal look_at(struct net_acceptor *a, const struct net_pending *p,
    unsigned char ret_answer[NET_CALLER_BYTES]) {
    enum net_refusal why = net_hello_read(a->auth, &p->shake);
    if (why != NET_REFUSAL_NONE) {
        return why;
    }
    bool proved = net_hello_check(a->auth, &p->shake);
    memset(ret_answer, 0, NET_CALLER_BYTES);
    why = a->ops->look(a->arg, p, proved, ret_answer);
    return why == NET_REFUSAL_NONE && !proved ? NET_REFUSAL_TOKEN : why;
}

static void refuse_hello(struct net_acceptor *a, struct net_pending *p, enum net_refusal refusal) {
    struct co_err why = {0};
    (void)net_refusal_error(a->auth, refusal, p->shake.hello, true, &why);
    if (refusal != NET_REFUSAL_FORM &&
        net_answer_write(a->auth, refusal, NULL, &p->shake, NULL) == 0) {
        (void)!send(p->fd, p->shake.answer, sizeof(p->shake.answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    refuse(a, p, refusal, &why);
}

/* It has a random number, so only who has recorded it sends it a second time. */
static bool is_repeated(const struct net_acceptor *a, const struct net_pending *p) {
    for (const struct net_pending *q = a->pending; q < a->pending + NET_PENDING; q++) {
        if (q != p && q->fd >= 0 && q->have >= NET_HELLO_BYTES &&
            memcmp(q->shake.hello, p->shake.hello, NET_HELLO_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static void take_hello(struct net_acceptor *a, struct net_pending *p) {
    unsigned char answer[NET_CALLER_BYTES];
    enum net_refusal refusal = look_at(a, p, answer);
    if (refusal == NET_HANDED) {
        (void)leave_slot(a, p);
        return;
    }
    if (refusal != NET_REFUSAL_NONE) {
        refuse_hello(a, p, refusal);
        return;
    }
    if (is_repeated(a, p)) {
        struct co_err why = {0};
        co_err_set(&why, CO_PERMISSION, "its hello repeats that of another connection");
        refuse(a, p, NET_REFUSAL_REPEATED, &why);
        return;
    }
    net_slots_know(a->slots, NET_PENDING, (size_t)(p - a->pending));
    if (net_answer_write(a->auth, NET_REFUSAL_NONE, answer, &p->shake, NULL) < 0) {
        drop(a, p); /* no random numbers */
    } else {
        (void)send_part(a, p, p->shake.answer, sizeof(p->shake.answer));
    }
}

static void let_in(struct net_acceptor *a, struct net_pending *p) {
    int fd = leave_slot(a, p);
    a->ops->enter(a->arg, fd, co_steal_ptr(p->tls), &p->from, net_caller_bytes(p->shake.hello));
}

/* The last message of the TLS handshake is the other end's, which would not know what became of
 * it. */
static void shake_tls(struct net_acceptor *a, struct net_pending *p) {
    static const unsigned char entry;
    struct co_err why = {0};
    int rc = co_tls_shake(p->tls, p->fd, &why);
    if (rc < 0) {
        refuse(a, p, NET_REFUSAL_TLS, &why);
    } else if (rc > 0) {
        struct net_stream s = {.fd = p->fd, .tls = p->tls};
        if (net_stream_post(&s, &entry, 1)) {
            let_in(a, p);
        } else {
            drop(a, p);
        }
    }
}

/* It gave up while this process stood still, and comes again. */
static bool has_left(const struct net_pending *p) {
    char c;
    ssize_t n = recv(p->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void take_proof(struct net_acceptor *a, struct net_pending *p) {
    unsigned char wire[NET_WELCOME_BYTES], answer[NET_CALLER_BYTES];
    struct co_err why = {0};
    if (has_left(p)) {
        drop(a, p);
        return;
    }
    enum net_refusal refusal = NET_REFUSAL_TOKEN;
    if (net_proof_check(a->auth, &p->shake, p->proof)) {
        refusal = look_at(a, p, answer);
    }
    net_welcome_write(a->auth, refusal, wire);
    if (!send_part(a, p, wire, sizeof(wire))) {
        return;
    }
    if (refusal != NET_REFUSAL_NONE) {
        (void)net_refusal_error(a->auth, refusal, p->shake.hello, true, &why);
        refuse(a, p, refusal, &why);
    } else if (!a->auth->encrypt) {
        let_in(a, p);
    } else if (net_handshake_tls(a->auth, &p->shake, true, &p->tls, &why) < 0) {
        refuse(a, p, NET_REFUSAL_TLS, &why);
    } else {
        shake_tls(a, p);
    }
}

static void read_pending(struct net_acceptor *a, struct net_pending *p) {
    if (p->tls) {
        shake_tls(a, p);
        return;
    }
    if (p->have < NET_HELLO_BYTES) {
        bool whole = read_part(a, p, p->shake.hello, 0, NET_HELLO_BYTES);
        /* Another version's hello may be shorter. */
        bool known = p->fd < 0 || p->have < NET_HEAD_BYTES ||
                     net_head_check(a->auth, p->shake.hello) == NET_REFUSAL_NONE;
        if (whole || !known) {
            take_hello(a, p);
        }
    }
    if (p->fd >= 0 && p->have >= NET_HELLO_BYTES &&
        read_part(a, p, p->proof, NET_HELLO_BYTES, NET_PROOF_BYTES)) {
        take_proof(a, p);
    }
}

/* ---- accepting ---- */

static bool is_same_user(int fd) {
    struct ucred c;
    socklen_t len = sizeof(c);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) == 0 &&
           (c.uid == geteuid() || c.uid == 0);
}

/* Why the connection is not wanted whatever it says. */
static enum net_refusal check_new(const struct net_acceptor *a, int fd, struct co_err *ret_why) {
    if (net_is_scarce(fd)) {
        co_err_set(ret_why, CO_NORESOURCE, "no descriptors are left (RLIMIT_NOFILE)");
        return NET_REFUSAL_FILES;
    }
    if (a->local && !is_same_user(fd)) {
        co_err_set(ret_why, CO_PERMISSION, "another user of the machine");
        return NET_REFUSAL_USER;
    }
    return NET_REFUSAL_NONE;
}

/* Connections wait in the kernel, and their peers do not learn why. */
static void say_full(struct net_acceptor *a, int number) {
    const struct net_peer nobody = {.host = "a peer", .text = "a peer"};
    struct co_err why = {0};
    if (!a->said && (number == EMFILE || number == ENFILE)) {
        a->said = true;
        (void)co_err_errno(&why, number, "no connection can be accepted");
        a->ops->refuse(a->arg, &nobody, NULL, NET_REFUSAL_FILES, &why);
    }
}

/* Accepts a connection, and reads it at once: its peer has said its hello by now.  False: there is
 * none, or no room. */
static bool accept_one(struct net_acceptor *a) {
    size_t i = net_slots_find(a->slots, NET_PENDING);
    /* no wait: the descriptor is non-blocking */
    int fd = i < NET_PENDING ? accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (fd < 0) {
        a->full = i < NET_PENDING && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        say_full(a, a->full ? errno : 0);
        return false;
    }
    a->said = false;
    struct net_pending came = {.fd = fd};
    struct co_err why = {0};
    int one = 1;
    net_peer_of(fd, &came.from);
    enum net_refusal refusal = check_new(a, fd, &why);
    if (refusal != NET_REFUSAL_NONE) {
        a->ops->refuse(a->arg, &came.from, NULL, refusal, &why);
        co_close(fd);
        return true;
    }
    if (!a->local) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    read_pending(a, take_slot(a, i, &came));
    return true;
}

/* Takes the connections that other acceptors have handed over, as far as there is room. */
static void take_handed(struct net_acceptor *a) {
    struct net_pending came;
    size_t i;
    /* no wait: the descriptor is non-blocking */
    while ((i = net_slots_find(a->slots, NET_PENDING)) < NET_PENDING &&
           read(a->handed[0], &came, sizeof(came)) == (ssize_t)sizeof(came)) {
        take_hello(a, take_slot(a, i, &came));
    }
}

bool net_acceptor_hand(struct net_acceptor *to, const struct net_pending *p) {
    /* no wait: the descriptor is non-blocking */
    return write(to->handed[1], p, sizeof(*p)) == (ssize_t)sizeof(*p);
}

/* ---- turns ---- */

/* Refuses those whose time is over.  Returns when the next one's is, or end_ms. */
static int64_t drop_slow(struct net_acceptor *a, int64_t now, int64_t end_ms) {
    for (size_t i = 0; i < NET_PENDING; i++) {
        struct net_pending *p = &a->pending[i];
        int64_t end = a->slots[i].since_ms + a->prove_ms;
        if (p->fd >= 0 && end <= now) {
            struct co_err why = {0};
            co_err_set(&why, CO_TIMEOUT, "%s within %.3g s",
                p->tls ? "no end of the TLS handshake" : "no proof of the token (PADDLE_JOB_TOKEN)",
                (double)a->prove_ms / 1000);
            refuse(a, p, NET_REFUSAL_SLOW, &why);
        } else if (p->fd >= 0 && end < end_ms) {
            end_ms = end;
        }
    }
    return end_ms;
}

static void add_waiting(struct waiting *w, size_t what, int fd) {
    if (fd >= 0) {
        w->fds[w->n] = (struct pollfd){.fd = fd, .events = POLLIN};
        w->what[w->n++] = what;
    }
}

/* Where no slot is left for strangers, or no descriptor, connections wait in the kernel. */
static void wait_for(struct net_acceptor *a, int wake_fd, int64_t wait_ms, struct waiting *ret) {
    bool room = net_slots_find(a->slots, NET_PENDING) < NET_PENDING;
    wait_ms = a->full && wait_ms > WAIT_MS ? WAIT_MS : wait_ms;
    ret->n = 0;
    for (size_t i = 0; i < NET_PENDING; i++) {
        add_waiting(ret, i, a->pending[i].fd);
    }
    add_waiting(ret, LISTENER, room && !a->full ? a->fd : -1);
    add_waiting(ret, HANDED, room ? a->handed[0] : -1);
    add_waiting(ret, WAKE, wake_fd);
    a->full = false;
    (void)poll(ret->fds, ret->n, wait_ms < 1 ? 1 : co_poll_ms(wait_ms));
}

static void accept_some(struct net_acceptor *a) {
    for (int i = 0; i < AT_ONCE && !a->stopped; i++) {
        if (!accept_one(a)) {
            break;
        }
    }
}

/* Returns whether wake_fd is readable. */
static bool turn(struct net_acceptor *a, int wake_fd, int64_t now, int64_t end_ms) {
    struct waiting w;
    bool woken = false;
    int64_t longest = now + TURN_MS < end_ms ? now + TURN_MS : end_ms;
    wait_for(a, wake_fd, drop_slow(a, now, longest) - now, &w);
    for (size_t i = 0; i < w.n && !a->stopped; i++) {
        if (!w.fds[i].revents) {
            continue;
        }
        if (w.what[i] < NET_PENDING) {
            read_pending(a, &a->pending[w.what[i]]);
        } else if (w.what[i] == LISTENER) {
            accept_some(a);
        } else if (w.what[i] == HANDED) {
            take_handed(a);
        } else {
            woken = true;
        }
    }
    return woken;
}

int net_acceptor_run(struct net_acceptor *a, int wake_fd, int64_t end_ms) {
    for (;;) {
        int64_t now = co_now_ms();
        if (now >= end_ms) {
            return CO_TIMEOUT;
        }
        bool woken = turn(a, wake_fd, now, end_ms);
        if (a->stopped || woken) {
            return a->stopped ? 0 : CO_CANCELED;
        }
    }
}

void net_acceptor_stop(struct net_acceptor *a) {
    a->stopped = true;
}

/* ---- open and close ---- */

int net_acceptor_open(int fd, const struct net_auth *auth, int prove_ms,
    const struct net_acceptor_ops *ops, void *arg, struct net_acceptor **ret, struct co_err *err) {
    int domain = AF_UNSPEC, handed[2];
    socklen_t len = sizeof(domain);
    if (pipe2(handed, O_CLOEXEC | O_NONBLOCK) < 0) {
        return co_err_errno(err, errno, "a pipe for connections");
    }
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    struct net_acceptor *a = co_xcalloc(1, sizeof(*a));
    *a = (struct net_acceptor){.ops = ops,
        .arg = arg,
        .auth = auth,
        .fd = fd,
        .prove_ms = prove_ms > 0 ? prove_ms : PROVE_MS,
        .local = domain == AF_UNIX,
        .handed = {handed[0], handed[1]}};
    for (size_t i = 0; i < NET_PENDING; i++) {
        a->pending[i].fd = -1;
    }
    *ret = a;
    return 0;
}

void net_acceptor_close(struct net_acceptor *a) {
    struct net_pending late;
    if (!a) {
        return;
    }
    /* no wait: the descriptor is non-blocking */
    while (read(a->handed[0], &late, sizeof(late)) == (ssize_t)sizeof(late)) {
        co_close(late.fd);
    }
    for (size_t i = 0; i < NET_PENDING; i++) {
        if (a->pending[i].fd >= 0) {
            drop(a, &a->pending[i]);
        }
    }
    co_close(a->handed[0]);
    co_close(a->handed[1]);
    free(a);
}
