/* For tests: a proxy between trainers and a server that fails on request.  It can stall, drop the
 * server's answers, or those after the first bytes, cut connections after a number of bytes, flip a
 * byte, and search what it carries for a string.  Each proxy has one thread; any thread may call
 * these functions. */
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/ps/client/job_testing.h"

enum {
    PROXY_PAIRS = 16,
    PROXY_PIECE = 4096,
    PROXY_GREETED =
        2000, /* bytes, more than greeting and handshake have: a flip in those would be refused */
};

enum proxy_way {
    PROXY_PASS,
    PROXY_STALL, /* connections stay open, nothing is forwarded */
    PROXY_MUTE,  /* what the server sends is dropped */
    PROXY_CUT,   /* connections end, also new ones, at once */
};

struct proxy_pair {
    int fd[2];   /* trainer, server; -1: none */
    size_t left; /* bytes until the connection is cut */
    size_t says; /* bytes that the server may still say; what follows is dropped */
    bool held;   /* nothing is forwarded while the proxy holds */
};

struct proxy {
    int listen, port;
    atomic_int to;            /* port of the server */
    int wake[2], received[2]; /* pipes: a byte asks to adopt `way`, a byte confirms it */
    pthread_t thread;
    atomic_int way; /* enum proxy_way */
    unsigned seed;
    size_t life; /* bytes of a connection, on average; 0: no limit */
    unsigned cuts;
    atomic_size_t lost; /* bytes dropped by PROXY_MUTE */
    size_t says;        /* of new connections; 0: no limit */
    atomic_uint whole;  /* so many new connections have no such limit, and are not held */
    atomic_bool holds;  /* new connections, from now on and until it is false again */
    atomic_uint taken;  /* connections that were held */
    bool flips; /* flip a byte instead of cutting; set this and the next two before proxy_start */
    /* For each side, so many TLS records of later connections than the first are said to be a byte
     * longer than they are. */
    atomic_uint stretch[2];
    const void *sought; /* bytes to search for; borrowed; NULL: none */
    size_t sought_bytes;
    bool found;
    struct proxy_pair pairs[PROXY_PAIRS];
};

static inline int proxy_socket(int port, bool connects, int *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc =
        connects ? connect(fd, (struct sockaddr *)&a, len) : bind(fd, (struct sockaddr *)&a, len);
    if (rc != 0) {
        co_close(fd);
        return -1;
    }
    (void)getsockname(fd, (struct sockaddr *)&a, &len);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static inline void proxy_cut(struct proxy_pair *p) {
    for (int i = 0; i < 2; i++) {
        if (p->fd[i] >= 0) {
            co_close(p->fd[i]);
        }
        p->fd[i] = -1;
    }
}

static inline void proxy_take(struct proxy *x) {
    int port, fd = accept4(x->listen, NULL, NULL, SOCK_CLOEXEC);
    if (x->way == PROXY_CUT && fd >= 0) {
        co_close(fd);
        return;
    }
    for (int i = 0; i < PROXY_PAIRS && fd >= 0; i++) {
        struct proxy_pair *p = &x->pairs[i];
        if (p->fd[0] < 0) {
            p->fd[0] = fd;
            p->fd[1] = proxy_socket(x->to, true, &port);
            p->left = x->life ? (size_t)rand_r(&x->seed) % (2 * x->life) : SIZE_MAX;
            p->left += x->flips && x->life ? PROXY_GREETED : 0;
            p->says = x->says && x->whole == 0 ? x->says : SIZE_MAX;
            p->held = x->holds && x->whole == 0;
            x->taken += p->held;
            x->whole -= x->whole > 0;
            if (p->fd[1] < 0) {
                proxy_cut(p);
            }
            return;
        }
    }
    fail_msg("no place for a connection");
}

/* The length of a TLS record: two bytes behind its kind and version. */
static inline void proxy_stretch(char *record) {
    record[4]++;
    record[3] = (char)(record[3] + (record[4] == 0));
}

/* Forwards one piece, up to the cut. */
static inline void proxy_move(struct proxy *x, struct proxy_pair *p, int from) {
    char piece[PROXY_PIECE];
    ssize_t n = recv(p->fd[from], piece, p->left < PROXY_PIECE ? p->left : PROXY_PIECE, 0);
    if (n > 0 && x->sought) {
        x->found = x->found || memmem(piece, (size_t)n, x->sought, x->sought_bytes);
    }
    if (x->stretch[from] > 0 && p != &x->pairs[0] && n > 5 && piece[0] == 0x17) {
        proxy_stretch(piece);
        x->stretch[from]--;
    }
    if (x->flips && n > 0 && (size_t)n == p->left) {
        piece[n - 1] ^= 1;
        p->left = SIZE_MAX;
        x->cuts++;
    }
    ssize_t said = from == 1 && x->way == PROXY_MUTE ? 0 : n;
    if (from == 1 && said > 0) {
        said = (size_t)said < p->says ? said : (ssize_t)p->says;
        p->says -= (size_t)said;
    }
    bool ok = n > 0 && (said <= 0 || send(p->fd[!from], piece, (size_t)said, MSG_NOSIGNAL) == said);
    x->lost += ok && x->way == PROXY_MUTE ? (size_t)(n - said) : 0;
    p->left -= ok ? (size_t)n : 0;
    if (!ok || p->left == 0) {
        __atomic_add_fetch(&x->cuts, p->left == 0, __ATOMIC_SEQ_CST);
        proxy_cut(p);
    }
}

static inline void proxy_cut_all(struct proxy *x) {
    for (int i = 0; i < PROXY_PAIRS; i++) {
        proxy_cut(&x->pairs[i]);
    }
}

/* Adopts the new `way`.  False: the proxy is to end. */
static inline bool proxy_receive(struct proxy *x) {
    char byte;
    if (read(x->wake[0], &byte, 1) != 1) {
        return false;
    }
    if (x->way == PROXY_CUT) {
        proxy_cut_all(x);
    }
    return write(x->received[1], "x", 1) == 1;
}

static inline void *proxy_run(void *arg) {
    struct proxy *x = arg;
    enum { LISTEN = 2 * PROXY_PAIRS, WAKE, ALL };
    for (bool on = true; on;) {
        struct pollfd fds[ALL];
        bool still = x->way == PROXY_STALL;
        for (int i = 0; i < LISTEN; i++) {
            const struct proxy_pair *p = &x->pairs[i / 2];
            int fd = still || (p->held && x->holds) ? -1 : p->fd[i % 2];
            fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        fds[LISTEN] = (struct pollfd){.fd = x->listen, .events = POLLIN};
        fds[WAKE] = (struct pollfd){.fd = x->wake[0], .events = POLLIN};
        (void)poll(fds, ALL, -1);
        for (int i = 0; i < LISTEN; i++) {
            struct proxy_pair *p = &x->pairs[i / 2];
            if (fds[i].fd >= 0 && fds[i].revents && p->fd[i % 2] == fds[i].fd) {
                proxy_move(x, p, i % 2);
            }
        }
        if (fds[LISTEN].revents) {
            proxy_take(x);
        }
        on = !fds[WAKE].revents || proxy_receive(x);
    }
    proxy_cut_all(x);
    return NULL;
}

/* Reserves a port; connections are refused until proxy_start. */
static inline void proxy_bind(struct proxy *x) {
    *x = (struct proxy){.listen = -1};
    x->listen = proxy_socket(0, false, &x->port);
    assert_true(x->listen >= 0);
}

/* life: bytes of a connection, on average; 0: no limit. */
static inline void proxy_start(struct proxy *x, int to, size_t life, unsigned seed) {
    x->to = to;
    x->life = life;
    x->seed = seed;
    for (int i = 0; i < PROXY_PAIRS; i++) {
        x->pairs[i] = (struct proxy_pair){.fd = {-1, -1}};
    }
    assert_int_equal(0, pipe(x->wake) | pipe(x->received));
    assert_int_equal(0, listen(x->listen, 16));
    assert_int_equal(0, pthread_create(&x->thread, NULL, proxy_run, x));
}

/* The new behaviour is in effect when this returns. */
static inline void proxy_set(struct proxy *x, enum proxy_way way) {
    char byte;
    x->way = way;
    assert_int_equal(1, write(x->wake[1], "x", 1));
    assert_int_equal(1, read(x->received[0], &byte, 1));
}

static inline void proxy_stop(struct proxy *x) {
    co_close(x->wake[1]);
    pthread_join(x->thread, NULL);
    co_close(x->wake[0]);
    co_close(x->received[0]);
    co_close(x->received[1]);
    co_close(x->listen);
}
