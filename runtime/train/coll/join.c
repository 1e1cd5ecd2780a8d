/* Connects to another rank: retries attempts of limited length until the deadline.  The error
 * gives the reason of the last attempt, or the refusal before one that the deadline cut short. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/train/coll/address.h"
#include "runtime/train/coll/coll.h"

enum {
    ATTEMPT_MS = 5000,
    AGAIN_MS = 2, /* backoff while the other rank is not there yet: doubles, up to */
    AGAIN_MAX_MS = 100,
    REFUSED_MS = 500, /* pause after a refusal: an older process may still hold the port */
};

static struct coll_hello hello_of(
    const struct rt_group *g, enum coll_purpose purpose, uint8_t lane) {
    struct coll_hello h = {.purpose = purpose,
        .lane = lane,
        .rank = g->rank,
        .size = g->size,
        .job = g->job,
        .group = g->id};
    memcpy(h.node, g->node, sizeof(h.node));
    return h;
}

void coll_wait_fd(const struct rt_group *g, int fd, short events, int64_t end_ms) {
    int64_t left = end_ms - coll_now_ms();
    struct pollfd f[2] = {{.fd = fd, .events = events}, {.fd = g->alarm, .events = POLLIN}};
    (void)poll(f, 2, left > 0 ? (int)left : 0);
}

int coll_move_all(
    const struct rt_group *g, int fd, void *data, size_t n, bool out, int64_t end_ms) {
    unsigned char *p = data;
    while (n > 0) {
        bool over = coll_now_ms() >= end_ms; /* before the look: what came in time is not late */
        /* no wait: the descriptor is non-blocking */
        ssize_t m = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
        if (m > 0) {
            p += m;
            n -= (size_t)m;
            continue;
        }
        if (m == 0 || (errno != EAGAIN && errno != EINTR)) {
            return CO_PEERLOST;
        }
        if (over || atomic_load(&g->failed) < 0) {
            return over ? CO_TIMEOUT : CO_PEERLOST;
        }
        coll_wait_fd(g, fd, out ? POLLOUT : POLLIN, end_ms);
    }
    return 0;
}

static int connect_wait(
    const struct rt_group *g, int fd, const struct sockaddr *a, socklen_t len, int64_t end_ms) {
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
    int rc = coll_address_find(g, to, by_name, end_ms, &all, err);
    if (rc < 0) {
        return rc;
    }
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
    return e == 0 ? 0 : co_err_errno(err, e, "connect");
}

static int connect_unix(const struct rt_group *g, const struct sockaddr_un *a, size_t bytes,
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

/* The connecting side of the handshake of hello.h.  Returns the verdict that ended it. */
static enum coll_answer_code talk(struct rt_group *g, int fd, uint32_t to, struct coll_hello *h,
    int64_t end_ms, struct co_err *err) {
    unsigned char hello[COLL_HELLO_BYTES], answer[COLL_ANSWER_BYTES], proof[COLL_PROOF_BYTES],
        welcome[COLL_WELCOME_BYTES];
    struct coll_answer a = {0};
    int rc = coll_hello_write(h, g->token, hello, err);
    rc = rc < 0 ? rc : coll_move_all(g, fd, hello, sizeof(hello), true, end_ms);
    rc = rc < 0 ? rc : coll_move_all(g, fd, answer, sizeof(answer), false, end_ms);
    if (rc < 0) {
        (void)co_err_set(
            err, rc, "it accepts, but %s", rc == CO_TIMEOUT ? "says nothing" : "hangs up");
        return COLL_ANSWER_CODE_LATER;
    }
    enum coll_answer_code v = coll_answer_read(answer, g->token, hello, &a);
    if (v == COLL_ANSWER_CODE_OK && a.rank != to) {
        v = COLL_ANSWER_CODE_RANK;
    }
    if (v == COLL_ANSWER_CODE_OK) {
        coll_proof_write(g->token, hello, answer, proof);
        rc = coll_move_all(g, fd, proof, sizeof(proof), true, end_ms);
        rc = rc < 0 ? rc : coll_move_all(g, fd, welcome, sizeof(welcome), false, end_ms);
        v = rc < 0 ? COLL_ANSWER_CODE_LATER : coll_welcome_read(welcome);
    }
    if (v != COLL_ANSWER_CODE_OK) {
        (void)co_err_set(err, CO_PERMISSION, "%s", coll_answer_code_text(v));
    } else {
        memcpy(h->node, a.node, sizeof(a.node));
    }
    return v;
}

int coll_join(struct rt_group *g, uint32_t to, enum coll_purpose purpose, uint8_t lane,
    const struct sockaddr_un *address, size_t address_bytes, int64_t deadline_ms, int *ret_fd,
    struct co_err *err) {
    int64_t again = AGAIN_MS;
    struct co_err why = {0};
    bool by_name = false;
    for (;;) {
        int64_t now = coll_now_ms();
        if (atomic_load(&g->failed) < 0) {
            return coll_group_why(g, err);
        }
        if (now >= deadline_ms) {
            return co_err_set(err, CO_TIMEOUT, "rank %u at \"%.200s\" cannot be reached: %s", to,
                g->endpoints[to], co_err_text(&why));
        }
        int64_t end = now + ATTEMPT_MS < deadline_ms ? now + ATTEMPT_MS : deadline_ms;
        int fd = -1;
        struct co_err last = {0};
        int rc = address ? connect_unix(g, address, address_bytes, end, &fd, &last)
                         : connect_tcp(g, to, by_name, end, &fd, &last);
        int64_t pause = again;
        bool later = false; /* a rank of this job has answered so: the address is right */
        if (rc == 0) {
            struct coll_hello h = hello_of(g, purpose, lane);
            enum coll_answer_code v = talk(g, fd, to, &h, end, &last);
            if (v == COLL_ANSWER_CODE_OK) {
                memcpy(g->peers[to].node, h.node, sizeof(h.node));
                *ret_fd = fd;
                return 0;
            }
            co_close(fd);
            later = v == COLL_ANSWER_CODE_LATER && last.code == CO_PERMISSION;
            pause = v == COLL_ANSWER_CODE_LATER ? again : REFUSED_MS;
        }
        /* An attempt for which no time was left says nothing about the other rank. */
        bool cut = why.code == CO_PERMISSION && coll_now_ms() >= deadline_ms;
        why = cut ? why : last;
        by_name = later ? by_name : !by_name; /* the inherited address may be wrong */
        /* A plain pause: there is no descriptor yet that could become ready. */
        int64_t until = coll_now_ms() + pause;
        coll_wait_fd(g, -1, 0, until < deadline_ms ? until : deadline_ms);
        again = again * 2 < AGAIN_MAX_MS ? again * 2 : AGAIN_MAX_MS;
    }
}
