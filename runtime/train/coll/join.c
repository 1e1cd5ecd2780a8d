/* Connects to another rank: retries attempts of limited length until the deadline.  The error
 * gives the reason of the last attempt, or the refusal before one that the deadline cut short. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/interrupt.h"
#include "common/log.h"
#include "runtime/net/dial.h"
#include "runtime/net/net.h"
#include "runtime/train/coll/address.h"
#include "runtime/train/coll/coll.h"

enum {
    ATTEMPT_MS = 5000,
    AGAIN_MS = 2, /* backoff while the other rank is not there yet: doubles, up to */
    AGAIN_MAX_MS = 100,
    REFUSED_MS = 500, /* pause after a refusal: an older process may still hold the port */
};

static struct coll_hello hello_of(
    const struct rt_group *g, uint32_t to, enum coll_purpose purpose, uint8_t lane) {
    struct coll_hello h = {.purpose = purpose,
        .lane = lane,
        .rank = g->rank,
        .size = g->size,
        .to = to,
        .job = g->job,
        .group = g->id};
    memcpy(h.node, g->node, sizeof(h.node));
    return h;
}

int coll_form_end(struct rt_group *g) {
    return coll_group_fail(g, CO_CANCELED, g->rank, false, "the program has ended the wait");
}

void coll_wait_fd(struct rt_group *g, int fd, short events, int64_t end_ms) {
    struct pollfd f[2] = {{.fd = fd, .events = events}, {.fd = g->alarm, .events = POLLIN}};
    int64_t ask_ms = co_interrupt_next();
    if (co_interrupt_poll(f, 2, end_ms, &ask_ms) == 0 && co_interrupted(&ask_ms)) {
        (void)coll_form_end(g);
    }
}

int coll_move_all(
    struct rt_group *g, struct net_stream *s, void *data, size_t n, bool out, int64_t end_ms) {
    struct iovec v = {data, n};
    while (v.iov_len > 0) {
        size_t moved = 0;
        bool over = co_now_ms() >= end_ms; /* before the look: what came in time is not late */
        CO_TRY(out ? net_stream_write(s, &v, 1, &moved, NULL)
                   : net_stream_read(s, &v, 1, &moved, NULL));
        v = (struct iovec){(unsigned char *)v.iov_base + moved, v.iov_len - moved};
        if (moved > 0) {
            continue;
        }
        if (over || atomic_load(&g->failed) < 0) {
            return over ? CO_TIMEOUT : CO_PEERLOST;
        }
        coll_wait_fd(g, s->fd, out ? POLLOUT : POLLIN, end_ms);
    }
    return 0;
}

static int connect_wait(
    struct rt_group *g, int fd, const struct sockaddr *a, socklen_t len, int64_t end_ms) {
    /* no wait: the descriptor is non-blocking */
    if (connect(fd, a, len) == 0) {
        return 0;
    }
    if (errno != EINPROGRESS) {
        return errno;
    }
    coll_wait_fd(g, fd, POLLOUT, end_ms);
    struct pollfd f = {.fd = fd, .events = POLLOUT};
    int e = ETIMEDOUT;
    socklen_t size = sizeof(e);
    if (poll(&f, 1, 0) > 0) {
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size);
    }
    return e;
}

/* Tries all addresses of the rank; keeps the first connection that succeeds. */
static int connect_tcp(struct rt_group *g, uint32_t to, bool by_name, int64_t end_ms, int *ret_fd,
    struct co_err *err) {
    struct coll_addresses all;
    CO_TRY(coll_address_find(g, to, by_name, end_ms, &all, err));
    int e = EHOSTUNREACH;
    for (uint32_t i = 0; i < all.n && e != 0; i++) {
        const struct sockaddr *a = (const struct sockaddr *)&all.at[i];
        int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        e = fd < 0 ? errno : connect_wait(g, fd, a, all.bytes[i], end_ms);
        if (e == 0) {
            coll_tcp_tune(fd);
            *ret_fd = fd;
        } else if (fd >= 0) {
            co_close(fd);
        }
    }
    return e == 0 ? 0 : co_err_connect(err, e, "connect");
}

static int connect_unix(struct rt_group *g, const struct sockaddr_un *a, size_t bytes,
    int64_t end_ms, int *ret_fd, struct co_err *err) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int e =
        fd < 0 ? errno : connect_wait(g, fd, (const struct sockaddr *)a, (socklen_t)bytes, end_ms);
    if (e != 0) {
        if (fd >= 0) {
            co_close(fd);
        }
        return co_err_errno(err, e, "connect to the unix socket");
    }
    *ret_fd = fd;
    return 0;
}

static void warn_of(
    const struct rt_group *g, uint32_t to, int64_t waited_ms, const struct co_err *why) {
    char text[320];
    (void)snprintf(text, sizeof(text), "waiting for rank %u (%.200s) for %lld s to form the group",
        to, g->endpoints[to], (long long)(waited_ms / 1000));
    co_log_warn(text, CO_S("error", co_err_text(why)), CO_I("rank", g->rank));
}

/* At once: a retry may not help, and the other ranks wait for this one. */
static void warn_refused(const struct rt_group *g, uint32_t to, const struct co_err *why) {
    char text[320];
    (void)snprintf(
        text, sizeof(text), "refused by rank %u (%.200s), trying again", to, g->endpoints[to]);
    co_log_warn(text, CO_S("error", co_err_text(why)), CO_I("rank", g->rank));
}

int coll_join(struct rt_group *g, uint32_t to, enum coll_purpose purpose, uint8_t lane,
    const struct sockaddr_un *address, size_t address_bytes, int64_t deadline_ms,
    struct net_stream *ret, struct co_err *err) {
    const struct net_auth auth = {&coll_protocol, g->token, g->encrypt && !address};
    const struct coll_hello hello = hello_of(g, to, purpose, lane);
    int64_t again = AGAIN_MS, begun = co_now_ms(), warn = COLL_WARN_MS;
    int64_t ask_ms = co_interrupt_next();
    struct co_err why = {0};
    bool by_name = false, said = false, was_refused = false; /* why is a refusal */
    for (;;) {
        int64_t now = co_now_ms();
        if (co_interrupted(&ask_ms)) {
            (void)coll_form_end(g);
        }
        if (atomic_load(&g->failed) < 0) {
            return coll_group_why(g, err);
        }
        if (now >= deadline_ms) {
            return co_err_set(err, CO_TIMEOUT, "rank %u at \"%.200s\" cannot be reached: %s", to,
                g->endpoints[to], co_err_text(&why));
        }
        if (now - begun >= warn) {
            warn_of(g, to, now - begun, &why);
            warn *= 2;
        }
        int64_t end = now + ATTEMPT_MS < deadline_ms ? now + ATTEMPT_MS : deadline_ms;
        struct net_dial d = {.fd = -1};
        int rc = address ? connect_unix(g, address, address_bytes, end, &d.fd, &d.err)
                         : connect_tcp(g, to, by_name, end, &d.fd, &d.err);
        if (rc == CO_NORESOURCE || rc == CO_NOMEMORY) { /* of this process: others wait for it */
            (void)co_err_set(err, rc, "%s", co_err_text(&d.err));
            return co_err_wrap(err, "rank %u at \"%.200s\"", to, g->endpoints[to]);
        }
        if (rc == 0) {
            coll_hello_write(&hello, d.hello);
            net_dial_all(&auth, &d, 1, end, g->alarm);
        }
        if (d.fd >= 0) {
            memcpy(g->peers[to].node, coll_hello_node(d.answer), COLL_NODE_BYTES);
            *ret = (struct net_stream){.fd = d.fd, .tls = d.tls};
            return 0;
        }
        bool refused = d.refusal != NET_REFUSAL_NONE;
        bool later = d.refusal == COLL_REFUSAL_LATER; /* of this job: the address is right */
        if (refused && !later && !said) {
            said = true;
            warn_refused(g, to, &d.err);
        }
        /* An attempt for which no time was left says nothing about the other rank. */
        bool cut = was_refused && co_now_ms() >= deadline_ms;
        why = cut ? why : d.err;
        was_refused = cut || refused;
        by_name = later ? by_name : !by_name; /* the inherited address may be wrong */
        /* A plain pause: there is no descriptor yet that could become ready. */
        int64_t until = co_now_ms() + (refused && !later ? REFUSED_MS : again);
        coll_wait_fd(g, -1, 0, until < deadline_ms ? until : deadline_ms);
        again = again * 2 < AGAIN_MAX_MS ? again * 2 : AGAIN_MAX_MS;
    }
}
