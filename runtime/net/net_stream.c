/* Reads and writes of a connection, in TLS record by record. */
#include "runtime/net/net_stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/mem.h"

enum {
    RECORD = CO_TLS_RECORD_BYTES,
    TAG = 17, /* of a record: the type of its content, and what authenticates it */
    OVERHEAD = NET_RECORD_HEAD + TAG,
    KEY_UPDATE = 5,            /* TLS sends one by itself, before a key has been used too often */
    STREAM_BATCH = 4 * RECORD, /* one system call a record would be too slow */
};

static void close_fd(struct net_stream *s) {
    if (s->fd >= 0) {
        co_close(s->fd);
    }
    *s = (struct net_stream){.fd = -1};
}

void net_stream_close(struct net_stream *s) {
    co_tls_free(s->tls);
    close_fd(s);
}

void net_stream_disown(struct net_stream *s) {
    close_fd(s); /* tls may be in the middle of an operation, so nothing of it can be freed */
}

/* The result of a system call.  0 with *ret_n 0: not at the moment. */
static int end_call(ssize_t n, size_t *ret_n, struct co_err *err) {
    *ret_n = n > 0 ? (size_t)n : 0;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        return 0;
    }
    return co_err_set(err, CO_PEERLOST, "%s", n == 0 ? "connection closed" : strerror(errno));
}

/* ---- writing ---- */

/* Encrypts the beginning of what is to be written, each buffer in records of its own. */
static int seal(struct net_stream *s, const struct iovec *v, int n, struct co_err *err) {
    for (int i = 0; i < n; i++) {
        const unsigned char *base = v[i].iov_base;
        for (size_t at = 0; at < v[i].iov_len && s->sealed < STREAM_BATCH;) {
            size_t part = v[i].iov_len - at < RECORD ? v[i].iov_len - at : RECORD;
            CO_TRY(co_tls_write(s->tls, base + at, part, err));
            at += part;
            s->sealed += part;
        }
    }
    return 0;
}

/* Sends what is encrypted.  1: all is sent; 0: the socket takes no more at the moment. */
static int flush(struct net_stream *s, struct co_err *err) {
    const char *wire = NULL;
    size_t n = co_tls_waiting(s->tls, &wire), sent = 0;
    if (n == 0) {
        return 1;
    }
    int rc = end_call(send(s->fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT), &sent, err);
    co_tls_sent(s->tls, sent);
    CO_TRY(rc);
    return sent == n;
}

static int write_sealed(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err) {
    *ret_n = 0;
    if (s->sealed == 0) {
        CO_TRY(seal(s, v, n, err));
    }
    int all = flush(s, err);
    CO_TRY(all);
    *ret_n = all ? s->sealed : 0;
    s->sealed -= *ret_n;
    return 0;
}

int net_stream_write(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err) {
    struct msghdr m = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
    if (s->tls) {
        return write_sealed(s, v, n, ret_n, err);
    }
    return end_call(sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT), ret_n, err);
}

bool net_stream_post(struct net_stream *s, const void *bytes, size_t n) {
    if (!s->tls) {
        return send(s->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
    }
    /* The rest of an earlier message comes first. */
    return flush(s, NULL) > 0 && co_tls_write(s->tls, bytes, n, NULL) == 0 && flush(s, NULL) >= 0;
}

/* ---- reading ---- */

/* How many bytes the records of what is wanted have; *ret_want: of the content. */
static size_t wire_bytes(const struct iovec *v, int n, size_t *ret_want) {
    size_t all = 0;
    *ret_want = 0;
    for (int i = 0; i < n; i++) {
        *ret_want += v[i].iov_len;
        all += v[i].iov_len + (v[i].iov_len + RECORD - 1) / RECORD * OVERHEAD;
    }
    return all;
}

/* Behind its head, which is here. */
static uint32_t record_bytes(const struct net_stream *s) {
    return (uint32_t)s->head[3] << 8 | s->head[4];
}

static size_t take_head(struct net_stream *s, const unsigned char *bytes, size_t n) {
    size_t part = NET_RECORD_HEAD - s->have;
    part = part < n ? part : n;
    memcpy(s->head + s->have, bytes, part);
    s->have += (uint32_t)part;
    return part;
}

/* The record whose head is here has more content than is wanted. */
static bool is_too_long(const struct net_stream *s, size_t want) {
    size_t most = want > KEY_UPDATE ? want : KEY_UPDATE;
    return record_bytes(s) > most + TAG;
}

/* Follows the records in n bytes of wire.  Returns how many bytes precede a damaged one. */
static size_t check_records(
    struct net_stream *s, const unsigned char *wire, size_t n, size_t want) {
    size_t at = 0;
    while (at < n) {
        if (s->have < NET_RECORD_HEAD) {
            at += take_head(s, wire + at, n - at);
            continue;
        }
        s->damaged = is_too_long(s, want);
        if (s->damaged) {
            break;
        }
        size_t rest = NET_RECORD_HEAD + record_bytes(s) - s->have;
        size_t part = rest < n - at ? rest : n - at;
        at += part;
        s->have = part == rest ? 0 : s->have + (uint32_t)part;
    }
    return at;
}

/* Decrypts all of wire; *ret_n is increased. */
static int open_records(struct net_stream *s, const unsigned char *wire, size_t n_wire,
    const struct iovec *v, int n, size_t *ret_n, struct co_err *err) {
    int rc = 0;
    size_t got = 1;
    co_tls_feed(s->tls, wire, n_wire);
    for (int i = 0; i < n && got > 0; i++) {
        for (size_t at = 0; at < v[i].iov_len && got > 0; at += got) {
            unsigned char *base = v[i].iov_base;
            rc = co_tls_read(s->tls, base + at, v[i].iov_len - at, &got, err);
            *ret_n += got;
        }
    }
    co_tls_feed(s->tls, NULL, 0); /* wire is the caller's */
    return rc;
}

static int read_sealed(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err) {
    unsigned char wire[STREAM_BATCH + 4 * OVERHEAD];
    size_t want = 0, all = wire_bytes(v, n, &want), got = 0;
    int rc = 0;
    /* One that has begun may have had room in a read that wanted more. */
    s->damaged |= s->have >= NET_RECORD_HEAD && is_too_long(s, want);
    all = all > s->have ? all - s->have : NET_RECORD_HEAD + record_bytes(s) - s->have;
    if (!s->damaged) {
        ssize_t came = recv(s->fd, wire, all < sizeof(wire) ? all : sizeof(wire), MSG_DONTWAIT);
        rc = end_call(came, &got, err);
        got = check_records(s, wire, got, want);
    }
    if (got > 0 && open_records(s, wire, got, v, n, ret_n, NULL) < 0) {
        s->damaged = true;
    }
    if (s->damaged && *ret_n == 0) {
        return co_err_set(err, CO_INVALID, "what came was changed in transit");
    }
    return rc;
}

int net_stream_read(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err) {
    struct msghdr m = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
    *ret_n = 0;
    if (s->tls) {
        return read_sealed(s, v, n, ret_n, err);
    }
    return end_call(recvmsg(s->fd, &m, MSG_DONTWAIT), ret_n, err);
}
