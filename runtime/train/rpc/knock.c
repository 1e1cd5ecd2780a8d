#include "runtime/train/rpc/knock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "runtime/net/net.h"
#include "runtime/train/rpc/greeting.h"

struct talk {
    struct rt_greeting greeting;
    unsigned char welcome[RT_GREET_WELCOME_BYTES];
    uint32_t have; /* bytes of the answer, then of the welcome */
    bool over;
};

static int send_part(int fd, const unsigned char *wire, size_t n, struct co_err *err) {
    ssize_t sent = send(fd, wire, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)n ? 0 : co_err_set(err, CO_PEERLOST, "it hung up at once");
}

/* 1: whole; 0: not yet. */
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

static int begin_talk(int fd, struct talk *t, struct co_err *err) {
    int one = 1, rc = rt_greeting_begin(&t->greeting, err);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return rc < 0 ? rc : send_part(fd, t->greeting.greet, sizeof(t->greeting.greet), err);
}

/* 1: let in; 0: not yet. */
static int hear_talk(int fd, struct talk *t, const char *token, struct co_err *err) {
    if (t->have < RT_GREET_ANSWER_BYTES) {
        unsigned char proof[RT_GREET_PROOF_BYTES];
        int rc = read_part(fd, t, t->greeting.answer, 0, RT_GREET_ANSWER_BYTES, err);
        if (rc <= 0) {
            return rc;
        }
        rc = rt_greeting_prove(&t->greeting, token, proof, err);
        rc = rc < 0 ? rc : send_part(fd, proof, sizeof(proof), err);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = read_part(fd, t, t->welcome, RT_GREET_ANSWER_BYTES, RT_GREET_WELCOME_BYTES, err);
    if (rc <= 0) {
        return rc;
    }
    rc = rt_greeting_check(&t->greeting, token, t->welcome, err);
    return rc < 0 ? rc : 1;
}

/* Returns whether it is over. */
static bool end_talk(struct rt_knock *k, struct talk *t, int rc) {
    t->over = rc != 0;
    if (rc < 0) {
        co_close(k->fd);
        k->fd = -1;
    }
    return t->over;
}

void rt_knock_all(struct rt_knock *knocks, size_t n, const char *token, int timeout_ms) {
    CO_AUTOFREE struct talk *talks = co_xcalloc(n, sizeof(*talks));
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(n, sizeof(*fds));
    int64_t end = net_now() + timeout_ms;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        struct rt_knock *k = &knocks[i];
        k->err = (struct co_err){0};
        talks[i].over = k->fd < 0 || end_talk(k, &talks[i], begin_talk(k->fd, &talks[i], &k->err));
        left += !talks[i].over;
    }
    for (int64_t now = net_now(); left > 0 && now < end; now = net_now()) {
        for (size_t i = 0; i < n; i++) {
            fds[i] = (struct pollfd){.fd = talks[i].over ? -1 : knocks[i].fd, .events = POLLIN};
        }
        (void)poll(fds, n, (int)(end - now));
        for (size_t i = 0; i < n; i++) {
            struct rt_knock *k = &knocks[i];
            if (fds[i].fd >= 0 && fds[i].revents) {
                left -= end_talk(k, &talks[i], hear_talk(k->fd, &talks[i], token, &k->err));
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!talks[i].over) {
            (void)end_talk(&knocks[i], &talks[i],
                co_err_set(&knocks[i].err, CO_TIMEOUT, "it accepts and says nothing"));
        }
    }
}
