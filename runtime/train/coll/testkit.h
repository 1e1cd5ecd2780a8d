/* Groups of real processes on this machine, for tests. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/rt.h"

enum { WORLD_MAX = 8, WORLD_MS = 60000 };

/* What all ranks of a test have in common, and what they leave behind. */
struct world {
    uint32_t n;
    uint32_t nodes; /* simulated machines, ranks dealt in turn; 0: the real one */
    enum rt_transport transport;
    int64_t call_ms;
    uint32_t seed;
    /* What else a rank says of itself; NULL: nothing. */
    void (*set)(const struct world *w, uint32_t rank, struct rt_group_options *ret);
    char endpoint[WORLD_MAX][32];
    const char *endpoints[WORLD_MAX];
    struct shared *shared;
    pid_t pid[WORLD_MAX];
};

/* Written by the ranks. */
struct shared {
    _Atomic uint32_t ready;
    struct {
        int code;
        int64_t ms; /* when the code came */
        char text[200];
    } rank[WORLD_MAX];
};

typedef int (*world_fn)(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err);

static inline int64_t world_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Ports that were free a moment ago. */
static inline void world_ports(struct world *w) {
    int fds[WORLD_MAX];
    for (uint32_t r = 0; r < w->n; r++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(a);
        fds[r] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fds[r], (struct sockaddr *)&a, len) < 0 ||
            getsockname(fds[r], (struct sockaddr *)&a, &len) < 0) {
            abort();
        }
        (void)snprintf(w->endpoint[r], sizeof(w->endpoint[r]), "127.0.0.1:%u", ntohs(a.sin_port));
        w->endpoints[r] = w->endpoint[r];
    }
    for (uint32_t r = 0; r < w->n; r++) {
        close(fds[r]);
    }
}

static inline struct rt_group_options world_options(const struct world *w, uint32_t rank) {
    static char node[16];
    (void)snprintf(node, sizeof(node), "node%u", w->nodes ? rank % w->nodes : 0);
    return (struct rt_group_options){.endpoints = w->endpoints,
        .size = w->n,
        .rank = rank,
        .name = "test",
        .token = "secret",
        .node = w->nodes ? node : NULL,
        .transport = w->transport,
        .form_timeout_ms = 20000,
        .call_timeout_ms = w->call_ms ? w->call_ms : 20000};
}

/* Not _exit: sanitizers have their say at the end. */
static void (*const leave)(int) = exit;

static inline int world_child(struct world *w, uint32_t rank, world_fn fn) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options o = world_options(w, rank);
    if (w->set) {
        w->set(w, rank, &o);
    }
    int rc = rt_group_open(NULL, &o, &g, &err);
    rc = rc < 0 ? rc : fn(w, g, rank, &err);
    w->shared->rank[rank].ms = world_now();
    w->shared->rank[rank].code = rc;
    (void)snprintf(w->shared->rank[rank].text, sizeof(w->shared->rank[rank].text), "%.180s",
        rc ? co_err_text(&err) : "");
    rt_group_close(g);
    return rc ? 1 : 0;
}

static inline void world_start(struct world *w, world_fn fn) {
    world_ports(w);
    w->shared =
        mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)fflush(NULL);
    for (uint32_t r = 0; r < w->n; r++) {
        w->pid[r] = fork();
        if (w->pid[r] == 0) {
            leave(world_child(w, r, fn));
        }
    }
}

/* Waits for all; what does not end is killed.  Number of ranks that ended badly, those in
 * `expected` (bits) not counted. */
static inline uint32_t world_end(struct world *w, uint32_t expected) {
    int64_t end = world_now() + WORLD_MS;
    uint32_t bad = 0;
    for (uint32_t r = 0; r < w->n; r++) {
        int fd = (int)syscall(SYS_pidfd_open, w->pid[r], 0), status = 0;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - world_now();
        if (poll(&p, 1, left > 0 ? (int)left : 0) <= 0) {
            printf("# rank %u does not end\n", r);
            kill(w->pid[r], SIGKILL);
        }
        (void)waitpid(w->pid[r], &status, 0);
        close(fd);
        if (!(expected >> r & 1) && status != 0) {
            printf("# rank %u of %u, seed %u: status %x: %s\n", r, w->n, w->seed, (unsigned)status,
                w->shared->rank[r].text);
            bad++;
        }
    }
    return bad;
}

static inline void world_done(struct world *w) {
    (void)munmap(w->shared, sizeof(*w->shared));
}

static inline uint32_t world_run(struct world *w, world_fn fn) {
    world_start(w, fn);
    uint32_t bad = world_end(w, 0);
    world_done(w);
    return bad;
}
