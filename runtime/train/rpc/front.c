/* The thread behind the front door: accepts, reads the few bytes of the greeting from each unproven
 * connection (a guest), and either hands the connection on or closes it.
 *
 *     accept -> greet (40 bytes) -> answer -> proof (32 bytes) -> welcome -> [TLS handshake] ->
 * enter() any failure, or no proof within prove_ms -> refuse()
 *
 * Everything is bounded: GUESTS connections, a fixed number of bytes each, one deadline each. */
#include "runtime/train/rpc/front.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/net/net.h"
#include "runtime/net/slots.h"

enum {
    GUESTS = 128,     /* unproven connections at a time */
    PROVE_MS = 10000, /* long enough for lost packets to be sent again */
    WAIT_MS = 50,     /* before accept() is tried again without a free descriptor */
};

/* A connection whose peer has not proved the token yet. */
struct pending_peer {
    int fd;        /* -1: free place */
    uint32_t have; /* bytes of greet, then of proof */
    struct rpc_greeting greeting;
    unsigned char proof[RPC_GREET_PROOF_BYTES];
    struct co_tls *tls; /* owned; the token is proved, and the TLS handshake is in progress */
    struct net_peer from;
};

struct rpc_front {
    const struct rpc_front_ops *ops;
    void *arg;
    struct rpc_peer_auth auth; /* the token is owned */
    int fd, stop_fd;
    int64_t prove_ms;
    pthread_t thread;
    struct pending_peer guests[GUESTS]; /* the thread's */
    struct net_slot slots[GUESTS];      /* of the guests with the same index */
};

/* Frees the place; the descriptor is the caller's. */
static int leave_place(struct rpc_front *f, struct pending_peer *g) {
    int fd = g->fd;
    net_slots_leave(f->slots, GUESTS, (size_t)(g - f->guests));
    g->fd = -1;
    return fd;
}

static void drop_guest(struct rpc_front *f, struct pending_peer *g) {
    co_close(leave_place(f, g));
    co_tls_free(co_steal_ptr(g->tls));
}

static void refuse_guest(struct rpc_front *f, struct pending_peer *g, const struct co_err *why) {
    f->ops->refuse(f->arg, g->from.text, why);
    drop_guest(f, g);
}

/* ---- accepting ---- */

static void take_place(struct rpc_front *f, struct pending_peer *g, int fd) {
    *g = (struct pending_peer){.fd = fd};
    net_peer_of(fd, &g->from);
    net_slots_take(f->slots, GUESTS, (size_t)(g - f->guests), g->from.host, net_now());
}

static void receive_guest(struct rpc_front *f) {
    /* no wait: the descriptor is non-blocking */
    int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            (void)poll(NULL, 0, WAIT_MS);
        }
        return;
    }
    struct pending_peer *g = &f->guests[net_slots_find(f->slots, GUESTS)];
    struct co_err why = {0};
    if (g->fd >= 0) {
        co_err_set(&why, CO_NORESOURCE, "%d connections wait for a proof of their token", GUESTS);
        refuse_guest(f, g, &why);
    }
    take_place(f, g, fd);
    if (net_is_scarce(fd)) {
        co_err_set(&why, CO_NORESOURCE, "no descriptors are left (RLIMIT_NOFILE)");
        refuse_guest(f, g, &why);
        return;
    }
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* ---- the greeting ---- */

/* False: more bytes are to come, or the peer has hung up. That is no error: port probes do it. */
static bool read_part(struct rpc_front *f, struct pending_peer *g, unsigned char *to,
    uint32_t offset, uint32_t bytes) {
    while (g->have < offset + bytes) {
        ssize_t n = recv(g->fd, to + (g->have - offset), offset + bytes - g->have, MSG_DONTWAIT);
        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                drop_guest(f, g);
            }
            return false;
        }
        g->have += (uint32_t)n;
    }
    return true;
}

/* A new connection's send buffer always has room for these few bytes, so a short write is a
 * failure. */
static bool send_part(struct pending_peer *g, const unsigned char *wire, size_t n) {
    return send(g->fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static void take_greet(struct rpc_front *f, struct pending_peer *g) {
    struct co_err why = {0};
    bool answer = false;
    int rc = rpc_greeting_answer(&g->greeting, &f->auth, &answer, &why);
    if (answer && !send_part(g, g->greeting.answer, sizeof(g->greeting.answer))) {
        drop_guest(f, g);
    } else if (rc < 0) {
        refuse_guest(f, g, &why);
    }
}

static void let_in(struct rpc_front *f, struct pending_peer *g) {
    const struct rpc_pass pass = rpc_greeting_pass(&g->greeting);
    f->ops->enter(f->arg, leave_place(f, g), co_steal_ptr(g->tls), g->from.text, &pass);
}

static void shake_hands(struct rpc_front *f, struct pending_peer *g) {
    struct co_err why = {0};
    int rc = co_tls_shake(g->tls, g->fd, &why);
    if (rc < 0) {
        refuse_guest(f, g, &why);
    } else if (rc > 0) {
        let_in(f, g);
    }
}

/* Only after the proof: the TLS key is derived from the token and the greeting. */
static void begin_tls(struct rpc_front *f, struct pending_peer *g) {
    unsigned char key[CO_TLS_KEY_BYTES];
    struct co_err why = {0};
    rpc_greeting_key(&g->greeting, f->auth.token, key);
    int rc = co_tls_new(true, key, &g->tls, &why);
    explicit_bzero(key, sizeof(key));
    if (rc < 0) {
        refuse_guest(f, g, &why);
    } else {
        shake_hands(f, g);
    }
}

static void take_proof(struct rpc_front *f, struct pending_peer *g) {
    unsigned char welcome[RPC_GREET_WELCOME_BYTES];
    struct co_err why = {0};
    int rc = rpc_greeting_welcome(&g->greeting, f->auth.token, g->proof, welcome, &why);
    bool sent = send_part(g, welcome, sizeof(welcome));
    if (rc < 0) {
        refuse_guest(f, g, &why);
    } else if (!sent) {
        drop_guest(f, g);
    } else if (f->auth.encrypt) {
        begin_tls(f, g);
    } else {
        let_in(f, g);
    }
}

static void read_hello(struct rpc_front *f, struct pending_peer *g) {
    if (g->tls) {
        shake_hands(f, g);
        return;
    }
    if (g->have < RPC_GREET_BYTES) {
        if (!read_part(f, g, g->greeting.greet, 0, RPC_GREET_BYTES)) {
            return;
        }
        take_greet(f, g);
    }
    if (g->fd >= 0 && read_part(f, g, g->proof, RPC_GREET_BYTES, RPC_GREET_PROOF_BYTES)) {
        take_proof(f, g);
    }
}

/* Refuses guests whose time is over. Returns the ms until the next one's time is over. */
static int64_t drop_slow(struct rpc_front *f, int64_t now) {
    int64_t next = f->prove_ms;
    for (size_t i = 0; i < GUESTS; i++) {
        struct pending_peer *g = &f->guests[i];
        int64_t left = f->slots[i].since_ms + f->prove_ms - now;
        if (g->fd >= 0 && left <= 0) {
            struct co_err why = {0};
            co_err_set(&why, CO_TIMEOUT, "%s within %.3g s",
                g->tls ? "no end of the TLS handshake" : "no proof of the token (PADDLE_JOB_TOKEN)",
                (double)f->prove_ms / 1000);
            refuse_guest(f, g, &why);
        } else if (g->fd >= 0 && left < next) {
            next = left;
        }
    }
    return next;
}

static void *run_door(void *arg) {
    struct rpc_front *f = arg;
    for (;;) {
        struct pollfd fds[GUESTS + 2] = {
            {.fd = f->stop_fd, .events = POLLIN}, {.fd = f->fd, .events = POLLIN}};
        int64_t wait = drop_slow(f, net_now());
        for (size_t i = 0; i < GUESTS; i++) {
            fds[i + 2] = (struct pollfd){.fd = f->guests[i].fd, .events = POLLIN};
        }
        (void)poll(fds, GUESTS + 2, (int)wait);
        if (fds[0].revents) {
            return NULL;
        }
        for (size_t i = 0; i < GUESTS; i++) {
            if (fds[i + 2].fd >= 0 && fds[i + 2].revents) {
                read_hello(f, &f->guests[i]);
            }
        }
        if (fds[1].revents) {
            receive_guest(f);
        }
    }
}

/* ---- life ---- */

static void free_front(struct rpc_front *f) {
    for (size_t i = 0; i < GUESTS; i++) {
        if (f->guests[i].fd >= 0) {
            drop_guest(f, &f->guests[i]);
        }
    }
    co_close(f->fd);
    if (f->stop_fd >= 0) {
        co_close(f->stop_fd);
    }
    free((char *)(uintptr_t)f->auth.token);
    free(f);
}

int rpc_front_open(int fd_own, const struct rpc_peer_auth *auth, int prove_ms,
    const struct rpc_front_ops *ops, void *arg, struct rpc_front **ret, struct co_err *err) {
    struct rpc_front *f = co_xcalloc(1, sizeof(*f));
    f->ops = ops;
    f->arg = arg;
    f->auth = (struct rpc_peer_auth){co_xstrdup(auth->token), auth->encrypt};
    f->fd = fd_own;
    f->prove_ms = prove_ms > 0 ? prove_ms : PROVE_MS;
    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    for (size_t i = 0; i < GUESTS; i++) {
        f->guests[i].fd = -1;
    }
    int rc = f->stop_fd < 0 ? co_err_errno(err, errno, "eventfd") : 0;
    if (rc == 0) { /* signals are for the program's threads */
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        int failed = pthread_create(&f->thread, NULL, run_door, f);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        rc = failed ? co_err_errno(err, failed, "cannot start the thread that accepts") : 0;
    }
    if (rc < 0) {
        free_front(f);
        return rc;
    }
    *ret = f;
    return 0;
}

void rpc_front_close(struct rpc_front *f) {
    if (f) {
        (void)!write(f->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
        /* no deadline: the thread reads and sends without blocking */
        pthread_join(f->thread, NULL);
        free_front(f);
    }
}
