/* The relay's thread. Each connection (a wire) has two directions, which pause independently:
 *
 *     outer --> sealed --> TLS --> plain --> inner        outer is read when plain is empty
 *     inner --> clear --> TLS, what waits there --> outer  inner is read when nothing waits
 */
#include "runtime/train/rpc/relay.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/thread.h"
#include "runtime/net/net.h"

enum { EVENTS = 32, LINGER_MS = 2000, LOOK_MS = 500 };
enum { SEALED_BYTES = 256 << 10, CLEAR_BYTES = 64 << 10 };
/* Decrypted bytes are fewer than encrypted ones, except for a record that TLS had partly before. */
enum { PLAIN_BYTES = SEALED_BYTES + 2 * CO_TLS_RECORD_BYTES };
enum { INNER, OUTER };

struct wire {
    int fd[2];
    uint32_t events[2];  /* what epoll watches for, by side */
    struct co_tls *tls;  /* owned */
    struct co_buf plain; /* decrypted bytes that the inner side has not taken yet */
    bool ended[2];       /* nothing more comes from that side */
    bool broken;         /* nothing more can be sent to the outer side */
    bool deaf;           /* the inner side has closed; what it wrote before is still read */
    bool shown_end;      /* the inner side has been shown the end */
    int64_t end_ms;      /* set when a side ends: the other one has until then */
    struct wire *next;
};

struct rpc_relay {
    int epoll, wake;
    pthread_t thread;
    bool started;
    /* the thread's */
    struct wire *wires;
    bool ending; /* some have ended on a side */
    unsigned char sealed[SEALED_BYTES], plain[PLAIN_BYTES], clear[CLEAR_BYTES];

    pthread_mutex_t m; /* guards what follows */
    struct wire *fresh;
    bool stopping;
};

/* ---- a connection ---- */

static void free_wire(struct wire *w) {
    for (int i = 0; i < 2; i++) {
        if (w->fd[i] >= 0) {
            co_close(w->fd[i]);
        }
    }
    co_tls_free(w->tls);
    co_buf_done(&w->plain);
    free(w);
}

static size_t count_waiting(const struct wire *w) {
    const char *bytes = NULL;
    return w->broken ? 0 : co_tls_waiting(w->tls, &bytes);
}

static bool again(void) {
    return errno == EAGAIN || errno == EINTR;
}

static void break_outer(struct wire *w) {
    w->ended[OUTER] = w->broken = true;
}

static void write_outer(struct wire *w) {
    const char *bytes = NULL;
    size_t n = co_tls_waiting(w->tls, &bytes);
    ssize_t sent = send(w->fd[OUTER], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !again()) {
        break_outer(w);
    } else if (sent > 0) {
        co_tls_sent(w->tls, (size_t)sent);
    }
}

/* Returns how many bytes the inner side took; n if it has closed, since nobody wants them then. */
static size_t offer_inner(struct wire *w, const void *bytes, size_t n) {
    ssize_t sent = w->deaf ? 0 : send(w->fd[INNER], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !again()) {
        w->deaf = true;
        w->end_ms = co_now_ms() + LINGER_MS;
    }
    return w->deaf ? n : sent > 0 ? (size_t)sent : 0;
}

static void write_inner(struct wire *w) {
    co_buf_consume(&w->plain, offer_inner(w, w->plain.data, w->plain.len));
    if (w->plain.len == 0) {
        co_buf_done(&w->plain);
    }
}

/* Decrypts what was read into r->plain. A TLS fault counts as the end of the outer side. */
static size_t open_records(struct rpc_relay *r, struct wire *w, size_t n) {
    size_t have = 0, got = 0;
    co_tls_feed(w->tls, r->sealed, n);
    do {
        if (co_tls_read(w->tls, r->plain + have, sizeof(r->plain) - have, &got, NULL) < 0) {
            w->ended[OUTER] = true;
        }
        have += got;
    } while (got > 0 && !w->ended[OUTER]);
    return have;
}

static void read_outer(struct rpc_relay *r, struct wire *w) {
    ssize_t n = recv(w->fd[OUTER], r->sealed, sizeof(r->sealed), MSG_DONTWAIT);
    if (n > 0) {
        size_t have = open_records(r, w, (size_t)n), took = offer_inner(w, r->plain, have);
        if (co_buf_add(&w->plain, r->plain + took, have - took, NULL) < 0) {
            w->ended[OUTER] = true; /* no memory for it */
        }
    } else if (n == 0 || !again()) {
        w->ended[OUTER] = true;
    }
}

static void read_inner(struct rpc_relay *r, struct wire *w) {
    ssize_t n = recv(w->fd[INNER], r->clear, sizeof(r->clear), MSG_DONTWAIT);
    if (n < 0 && again()) {
        return;
    }
    if (n <= 0) {
        w->ended[INNER] = true;
        w->end_ms = co_now_ms() + LINGER_MS;
        co_tls_end(w->tls);
    } else if (!w->ended[OUTER] && co_tls_write(w->tls, r->clear, (size_t)n, NULL) < 0) {
        break_outer(w);
    }
    write_outer(w);
}

/* What epoll must watch for on that side. */
static uint32_t wanted(const struct wire *w, int side) {
    bool read =
        !w->ended[side] && (side == INNER ? count_waiting(w) == 0 : w->plain.len == 0 && !w->deaf);
    bool write = side == INNER ? w->plain.len > 0 : count_waiting(w) > 0;
    return (read ? EPOLLIN : 0U) | (write ? EPOLLOUT : 0U);
}

/* When one side ends, the wire is over as soon as bytes in flight have arrived. The inner side must
 * end by itself first: if we closed it, gRPC's write would fail and it would not read what came. */
static bool is_over(const struct wire *w, int64_t now) {
    return (w->ended[INNER] && count_waiting(w) == 0) ||
           ((w->ended[INNER] || w->shown_end || w->deaf) && now >= w->end_ms);
}

static bool is_ending(const struct wire *w) {
    return w->ended[INNER] || w->ended[OUTER] || w->deaf;
}

static void end_inner(struct wire *w) {
    if (w->ended[OUTER] && w->plain.len == 0 && !w->shown_end && !w->ended[INNER]) {
        w->shown_end = true;
        w->end_ms = co_now_ms() + LINGER_MS;
        (void)shutdown(w->fd[INNER], SHUT_WR);
    }
}

/* ---- the thread ---- */

/* A descriptor with no events wanted is removed from epoll, which would report its hang-up again
 * and again otherwise. */
static void set_events(struct rpc_relay *r, struct wire *w) {
    for (int i = 0; i < 2; i++) {
        uint32_t want = wanted(w, i);
        struct epoll_event e = {.events = want, .data.ptr = w};
        if (want == w->events[i]) {
            continue;
        }
        int op = want == 0 ? EPOLL_CTL_DEL : w->events[i] == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
        if (epoll_ctl(r->epoll, op, w->fd[i], &e) < 0) {
            w->ended[i] = w->broken = true; /* no memory for it */
            co_buf_clear(&w->plain);
        }
        w->events[i] = want;
    }
}

/* Serves both sides, whichever had the event: one useless system call is cheaper than bookkeeping.
 */
static void serve_wire(struct rpc_relay *r, struct wire *w) {
    if (w->plain.len > 0) {
        write_inner(w);
    }
    if (count_waiting(w) > 0) {
        write_outer(w);
    }
    if (!w->ended[OUTER] && !w->deaf && w->plain.len == 0) {
        read_outer(r, w);
    }
    if (!w->ended[INNER] && count_waiting(w) == 0) {
        read_inner(r, w);
    }
    set_events(r, w);
    end_inner(w);
    r->ending = r->ending || is_ending(w);
}

static void take_fresh(struct rpc_relay *r, bool *ret_stopping) {
    pthread_mutex_lock(&r->m);
    struct wire *list = co_steal_ptr(r->fresh);
    *ret_stopping = r->stopping;
    pthread_mutex_unlock(&r->m);
    for (struct wire *w = list, *next; w; w = next) {
        next = w->next;
        w->next = r->wires;
        r->wires = w;
        serve_wire(r, w);
    }
}

static void drop_over(struct rpc_relay *r, int64_t now) {
    bool ending = false;
    for (struct wire **at = &r->wires; *at;) {
        struct wire *w = *at;
        if (is_over(w, now)) {
            *at = w->next;
            free_wire(w);
        } else {
            ending = ending || is_ending(w);
            at = &w->next;
        }
    }
    r->ending = ending;
}

static void *run_relay(void *arg) {
    struct rpc_relay *r = arg;
    bool stopping = false;
    int64_t end = INT64_MAX;
    for (;;) {
        struct epoll_event events[EVENTS];
        take_fresh(r, &stopping);
        int64_t now = co_now_ms();
        if (r->ending) {
            drop_over(r, now);
        }
        end = stopping && end == INT64_MAX ? now + LINGER_MS : end;
        if (stopping && (!r->wires || now >= end)) {
            return NULL;
        }
        /* no deadline: until a wire has something, or wake_thread */
        int n = epoll_wait(r->epoll, events, EVENTS, r->ending || stopping ? LOOK_MS : -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) {
                serve_wire(r, events[i].data.ptr);
            } else {
                uint64_t count;
                /* no wait: the descriptor is non-blocking */
                (void)!read(r->wake, &count, sizeof(count));
            }
        }
    }
}

/* ---- life ---- */

static void wake_thread(struct rpc_relay *r) {
    (void)!write(r->wake, &(uint64_t){1}, sizeof(uint64_t));
}

static void free_list(struct wire *list) {
    for (struct wire *w = list, *next; w; w = next) {
        next = w->next;
        free_wire(w);
    }
}

void rpc_relay_close(struct rpc_relay *r) {
    if (!r) {
        return;
    }
    if (r->started) {
        pthread_mutex_lock(&r->m);
        r->stopping = true;
        pthread_mutex_unlock(&r->m);
        wake_thread(r);
        /* no deadline: it stops within LINGER_MS */
        pthread_join(r->thread, NULL);
    }
    free_list(r->wires);
    free_list(r->fresh);
    if (r->epoll >= 0) {
        co_close(r->epoll);
    }
    if (r->wake >= 0) {
        co_close(r->wake);
    }
    pthread_mutex_destroy(&r->m);
    free(r);
}

CO_DEFINE_CLEANUP(struct rpc_relay *, rpc_relay_close)

int rpc_relay_open(struct rpc_relay **ret, struct co_err *err) {
    CO_CLEANUP(rpc_relay_closep) struct rpc_relay *r = co_xcalloc(1, sizeof(*r));
    struct epoll_event e = {.events = EPOLLIN};
    pthread_mutex_init(&r->m, NULL);
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->epoll < 0 || r->wake < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wake, &e) < 0) {
        return co_err_errno(err, errno, "cannot watch encrypted connections");
    }
    int failed = co_thread_start(&r->thread, run_relay, r);
    if (failed) {
        return co_err_errno(err, failed, "cannot start the thread that encrypts");
    }
    r->started = true;
    *ret = co_steal_ptr(r);
    return 0;
}

int rpc_relay_add(
    struct rpc_relay *r, int fd_own, struct co_tls *tls_own, int *ret_fd, struct co_err *err) {
    struct wire *w = co_xcalloc(1, sizeof(*w));
    int pair[2];
    *w = (struct wire){.fd = {-1, fd_own}, .tls = tls_own, .plain = CO_BUF(PLAIN_BYTES)};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
        int rc = co_err_errno(err, errno, "a pair of sockets for an encrypted connection");
        free_wire(w);
        return rc;
    }
    w->fd[INNER] = pair[0];
    *ret_fd = pair[1];
    pthread_mutex_lock(&r->m);
    w->next = r->fresh;
    r->fresh = w;
    pthread_mutex_unlock(&r->m);
    wake_thread(r);
    return 0;
}
