/* A data lane. Its two directions without TLS:
 *
 *     socket --> the reader's room --> splitter --> frames
 *           \--> straight into the payload of an unfinished frame
 *     frames --> queue --> socket, up to RUN frames with one writev
 *
 * With TLS one system call a record would be too slow, so records are gathered:
 *
 *     socket --> room->sealed --> TLS --> room or payload, record by record
 *     frames --> queue --> TLS records, up to SEAL_BYTES --> socket
 *
 * An idle lane holds no buffers. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "runtime/train/rpc/wire.h"

enum {
    RUN = 64,
    FLUSH_BYTES = 256 << 10,
    SEAL_BYTES = 64 << 10,
    WINDOW = 32 << 20,
    BEHIND = 4096,
    GULP = 128 << 10,
};

struct rpc_lane {
    struct rpc_stream base;
    int fd;
    /* Used by the reading thread only: */
    struct rpc_splitter in;
    int low;           /* SO_RCVLOWAT: bytes that must be there before the socket is readable */
    struct co_err bad; /* a fault behind frames that were returned: the next read returns it */
    atomic_size_t delivered; /* bytes of frames that were read and not yet freed; any thread */

    pthread_mutex_t m; /* guards what follows; a leaf */
    struct rpc_frame *first, **last;
    size_t sent;          /* bytes of the first frame that were written, or encrypted */
    atomic_size_t queued; /* bytes, encrypted ones included; written with m held */
    struct co_tls *tls;   /* owned; NULL: no encryption */
    bool broken;
    void (*stir)(void *arg); /* the owner's */
    void *arg;
};

static struct rpc_lane *of(struct rpc_stream *s) {
    return (struct rpc_lane *)s;
}

struct rpc_stream *rpc_lane_stream(struct rpc_lane *l) {
    return &l->base;
}

int rpc_lane_fd(const struct rpc_lane *l) {
    return l->fd;
}

/* ---- life ---- */

static void drop_queue(struct rpc_lane *l) {
    for (struct rpc_frame *f = l->first, *next; f; f = next) {
        next = f->next;
        rpc_frame_free(f);
    }
    l->first = NULL;
    l->last = &l->first;
    l->sent = 0;
    atomic_store(&l->queued, 0);
}

/* Sends the peer that this is the end (TLS). Queued bytes are still sent as far as the socket takes
 * them. The caller holds the lock, or is the last owner. */
static void say_end(struct rpc_lane *l) {
    const char *wire = NULL;
    if (l->tls) {
        co_tls_end(l->tls);
        size_t n = co_tls_waiting(l->tls, &wire);
        ssize_t sent = send(l->fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        co_tls_sent(l->tls, sent > 0 ? (size_t)sent : 0);
    }
}

static void free_lane(struct rpc_stream *s) {
    struct rpc_lane *l = of(s);
    drop_queue(l);
    say_end(l);
    co_tls_free(l->tls);
    rpc_splitter_done(&l->in);
    co_close(l->fd);
    pthread_mutex_destroy(&l->m);
    free(l);
}

static void stop_lane(struct rpc_stream *s, const struct co_err *why) {
    struct rpc_lane *l = of(s);
    (void)why; /* the reader only sees the end of the connection */
    pthread_mutex_lock(&l->m);
    l->broken = true;
    l->stir = NULL;
    drop_queue(l);
    say_end(l);
    pthread_mutex_unlock(&l->m);
    (void)shutdown(l->fd, SHUT_RDWR);
}

void rpc_lane_shut(struct rpc_lane *l) {
    stop_lane(&l->base, NULL);
}

void rpc_lane_set_owner(struct rpc_lane *l, void (*fn)(void *arg), void *arg) {
    l->stir = fn;
    l->arg = arg;
}

/* Whatever errno says, to the caller the peer is lost. */
static int fail(int e, struct co_err *err) {
    bool gone = e == ECONNRESET || e == EPIPE;
    return co_err_set(err, CO_PEERLOST, "%s", gone ? "connection closed" : strerror(e));
}

/* ---- reading ---- */

/* n bytes have been read: first the rest of a payload, then bytes in the room. */
static int take_bytes(struct rpc_lane *l, size_t rest, const struct rpc_lane_room *room, size_t n,
    struct co_err *err) {
    size_t direct = n < rest ? n : rest;
    rpc_splitter_filled(&l->in, direct);
    /* The splitter sees one endless message; keep it endless. */
    l->in.left = SIZE_MAX;
    return rpc_splitter_feed(&l->in, room->bytes, n - direct, err);
}

/* In the middle of a large frame the kernel wakes the reader only for much at a time (SO_RCVLOWAT):
 * a wake-up for every segment costs both ends as much as the copying. */
static void set_low(struct rpc_lane *l) {
    unsigned char *to = NULL;
    size_t rest = rpc_splitter_rest(&l->in, &to);
    int low = rest < BEHIND ? 1 : rest < GULP ? (int)rest : GULP;
    if (low != l->low && setsockopt(l->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)) == 0) {
        l->low = low;
    }
}

static size_t weigh_frame(const struct rpc_frame *f) {
    return sizeof(*f) + RPC_FRAME_HEAD + f->head.bytes;
}

static bool is_paused(struct rpc_stream *s) {
    return atomic_load(&of(s)->delivered) >= WINDOW;
}

/* Runs on any thread when one of the lane's frames is freed. */
static void on_released(struct rpc_frame *f) {
    struct rpc_lane *l = of(f->from);
    size_t n = weigh_frame(f), had = atomic_fetch_sub(&l->delivered, n);
    if (had >= WINDOW && had - n < WINDOW) {
        pthread_mutex_lock(&l->m);
        if (l->stir) {
            l->stir(l->arg);
        }
        pthread_mutex_unlock(&l->m);
    }
    rpc_stream_unref(&l->base);
}

static struct rpc_frame *deliver_frames(struct rpc_lane *l) {
    struct rpc_frame *first = rpc_splitter_pop(&l->in);
    size_t bytes = 0;
    for (struct rpc_frame *f = first; f; f = f->next) {
        f->from = rpc_stream_ref(&l->base);
        f->release = on_released;
        bytes += weigh_frame(f);
    }
    atomic_fetch_add(&l->delivered, bytes);
    return first;
}

/* The result of a read system call. 0 with *ret_n 0: no bytes at the moment. */
static int end_read(ssize_t n, size_t *ret_n, struct co_err *err) {
    *ret_n = n > 0 ? (size_t)n : 0;
    if (n > 0 || (n < 0 && errno == EAGAIN)) {
        return 0;
    }
    return fail(n == 0 ? ECONNRESET : errno, err);
}

static int read_clear(struct rpc_lane *l, struct rpc_lane_room *room, struct co_err *err) {
    unsigned char *to = NULL;
    size_t rest = rpc_splitter_rest(&l->in, &to);
    /* Bytes behind the payload go through the room and are copied once more. With a large payload
     * to fill anyway, reading few of them is cheaper. */
    size_t behind = rest > sizeof(room->bytes) ? BEHIND : sizeof(room->bytes);
    struct iovec iov[2] = {{to, rest}, {room->bytes, behind}};
    ssize_t n = 0;
    do {
        /* no wait: the descriptor is non-blocking */
        n = rest > 0 ? readv(l->fd, iov, 2) : recv(l->fd, room->bytes, sizeof(room->bytes), 0);
    } while (n < 0 && errno == EINTR);
    size_t got = 0;
    int rc = end_read(n, &got, err);
    if (rc == 0 && got > 0) {
        rc = take_bytes(l, rest, room, got, err);
        set_low(l);
    }
    return rc;
}

/* Decrypts one record to where it belongs; *ret_n 0: no record is complete. The lock is released
 * between records, so that writers need not wait for a long read. */
static int open_record(
    struct rpc_lane *l, struct rpc_lane_room *room, size_t *ret_n, struct co_err *err) {
    unsigned char *to = NULL;
    size_t rest = rpc_splitter_rest(&l->in, &to);
    pthread_mutex_lock(&l->m);
    int rc = rest > 0 ? co_tls_read(l->tls, to, rest, ret_n, err)
                      : co_tls_read(l->tls, room->bytes, sizeof(room->bytes), ret_n, err);
    pthread_mutex_unlock(&l->m);
    CO_TRY(rc);
    return take_bytes(l, rest, room, *ret_n, err);
}

static int read_sealed(struct rpc_lane *l, struct rpc_lane_room *room, struct co_err *err) {
    ssize_t n = 0;
    size_t got = 0;
    do {
        /* no wait: the descriptor is non-blocking */
        n = recv(l->fd, room->sealed, sizeof(room->sealed), 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        return co_err_set(err, CO_PEERLOST, "connection closed without a closing message");
    }
    CO_TRY(end_read(n, &got, err));
    if (got == 0) {
        return 0;
    }
    co_tls_feed(l->tls, room->sealed, got);
    do {
        CO_TRY(open_record(l, room, &got, err));
    } while (got > 0);
    return 0;
}

int rpc_lane_read(struct rpc_lane *l, struct rpc_lane_room *room, struct rpc_frame **ret_first,
    struct co_err *err) {
    *ret_first = NULL;
    int rc = l->bad.code;
    if (rc == 0) {
        rc = l->tls ? read_sealed(l, room, &l->bad) : read_clear(l, room, &l->bad);
        *ret_first = deliver_frames(l);
    }
    if (rc < 0 && *ret_first) {
        (void)shutdown(l->fd, SHUT_RD); /* makes the descriptor readable for the next call */
        return 0;
    }
    return rc < 0 ? co_err_set(err, rc, "%s", l->bad.msg) : 0;
}

/* ---- writing ---- */

size_t rpc_lane_queued(const struct rpc_lane *l) {
    return atomic_load(&l->queued);
}

/* Takes n sent bytes off the queue. The caller holds the lock. */
static void drop_sent(struct rpc_lane *l, size_t n) {
    atomic_fetch_sub(&l->queued, n);
    n += l->sent;
    while (l->first && n >= RPC_FRAME_HEAD + (size_t)l->first->head.bytes) {
        struct rpc_frame *f = l->first;
        n -= RPC_FRAME_HEAD + (size_t)f->head.bytes;
        l->first = f->next;
        rpc_frame_free(f);
    }
    l->sent = n;
    if (!l->first) {
        l->last = &l->first;
    }
}

/* Drops the queue after a failed write. The caller holds the lock. */
static int break_lane(struct rpc_lane *l, int e, struct co_err *err) {
    l->broken = true;
    int rc = fail(e, err);
    drop_queue(l);
    return rc;
}

/* 1: the socket takes no more for now. The caller holds the lock. */
static int write_clear(struct rpc_lane *l, struct co_err *err) {
    struct iovec iov[RUN];
    size_t n = 0, want = 0;
    for (struct rpc_frame *f = l->first; f && n < RUN; f = f->next, n++) {
        size_t from = n == 0 ? l->sent : 0;
        iov[n] = (struct iovec){f->wire + from, RPC_FRAME_HEAD + (size_t)f->head.bytes - from};
        want += iov[n].iov_len;
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent = 0;
    do {
        sent = sendmsg(l->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) {
        return break_lane(l, errno, err);
    }
    if (sent > 0) {
        drop_sent(l, (size_t)sent);
    }
    return sent < 0 || (size_t)sent < want;
}

/* Encrypts the next record: a piece of a large frame, or several small frames. The caller holds the
 * lock. */
static int seal_record(struct rpc_lane *l, struct co_err *err) {
    unsigned char record[CO_TLS_RECORD_BYTES];
    const unsigned char *from = l->first->wire + l->sent;
    size_t n = RPC_FRAME_HEAD + (size_t)l->first->head.bytes - l->sent;
    if (n < sizeof(record) && l->first->next) {
        memcpy(record, from, n);
        for (const struct rpc_frame *f = l->first->next; f && n < sizeof(record); f = f->next) {
            size_t all = RPC_FRAME_HEAD + (size_t)f->head.bytes, room = sizeof(record) - n;
            size_t part = all < room ? all : room;
            memcpy(record + n, f->wire, part);
            n += part;
        }
        from = record;
    }
    n = n < sizeof(record) ? n : sizeof(record);
    const char *wire = NULL;
    size_t had = co_tls_waiting(l->tls, &wire);
    CO_TRY(co_tls_write(l->tls, from, n, err));
    atomic_fetch_add(&l->queued, co_tls_waiting(l->tls, &wire) - had);
    drop_sent(l, n);
    return 0;
}

/* As write_clear. */
static int write_sealed(struct rpc_lane *l, struct co_err *err) {
    const char *wire = NULL;
    size_t n = co_tls_waiting(l->tls, &wire);
    int rc = 0;
    for (; rc == 0 && l->first && n < SEAL_BYTES; n = co_tls_waiting(l->tls, &wire)) {
        rc = seal_record(l, err);
    }
    if (rc < 0) {
        l->broken = true;
        drop_queue(l);
        return rc;
    }
    ssize_t sent = 0;
    do {
        sent = send(l->fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) {
        return break_lane(l, errno, err);
    }
    if (sent > 0) {
        co_tls_sent(l->tls, (size_t)sent);
        atomic_fetch_sub(&l->queued, (size_t)sent);
    }
    return sent < 0 || (size_t)sent < n;
}

static int write_run(struct rpc_lane *l, struct co_err *err) {
    return l->tls ? write_sealed(l, err) : write_clear(l, err);
}

int rpc_lane_flush(struct rpc_lane *l, size_t *ret_left, struct co_err *err) {
    int rc = 0;
    pthread_mutex_lock(&l->m);
    while (rpc_lane_queued(l) > 0 && rc == 0) {
        rc = write_run(l, err);
    }
    *ret_left = rpc_lane_queued(l);
    pthread_mutex_unlock(&l->m);
    return rc == 1 ? 0 : rc;
}

/* The caller holds the lock. */
static int queue_frame(struct rpc_lane *l, struct rpc_frame *f_own, struct co_err *err) {
    if (l->broken) {
        rpc_frame_free(f_own);
        return co_err_set(err, CO_PEERLOST, "the lane to %s is closed", l->base.peer);
    }
    f_own->next = NULL;
    *l->last = f_own;
    l->last = &f_own->next;
    atomic_fetch_add(&l->queued, RPC_FRAME_HEAD + (size_t)f_own->head.bytes);
    if (l->stir) {
        l->stir(l->arg);
    }
    if (rpc_lane_queued(l) >= FLUSH_BYTES) {
        CO_TRY(write_run(l, err));
    }
    return 0;
}

static int send_frame(struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err) {
    struct rpc_lane *l = of(s);
    pthread_mutex_lock(&l->m);
    int rc = queue_frame(l, f_own, err);
    pthread_mutex_unlock(&l->m);
    return rc;
}

static void end_lane(struct rpc_stream *s) {
    struct rpc_lane *l = of(s);
    size_t left = 0;
    (void)!rpc_lane_flush(l, &left, NULL);
    pthread_mutex_lock(&l->m);
    say_end(l);
    l->broken = true;
    drop_queue(l);
    pthread_mutex_unlock(&l->m);
    (void)shutdown(l->fd, SHUT_WR);
}

static const struct rpc_stream_ops lane_ops = {
    send_frame, stop_lane, end_lane, is_paused, free_lane};

struct rpc_lane *rpc_lane_new(int fd_own, struct co_tls *tls_own, const char *peer) {
    struct rpc_lane *l = co_xcalloc(1, sizeof(*l));
    rpc_stream_init(&l->base, &lane_ops, peer);
    l->fd = fd_own;
    l->tls = tls_own;
    l->low = 1;
    rpc_splitter_init(&l->in, SIZE_MAX);
    pthread_mutex_init(&l->m, NULL);
    l->last = &l->first;
    return l;
}
