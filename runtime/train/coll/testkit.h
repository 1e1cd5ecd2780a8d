/* Groups of real processes on this machine, for tests. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
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

enum { WORLD_MAX = 8, WORLD_MS = 60000, WORLD_N = 40000 };

/* What all ranks of a test have in common, and what they leave behind. */
struct world {
    uint32_t n;
    uint32_t nodes; /* simulated machines, ranks dealt in turn; 0: the real one */
    enum rt_transport transport;
    int64_t call_ms, form_ms; /* 0: 20 s */
    uint64_t generation;
    uint32_t seed;
    bool v6; /* endpoints */
             /* What a rank does before it opens the group; NULL: nothing. */
    void (*enter)(struct world *w, uint32_t rank);
    enum rt_kind kind; /* world_endless */
    uint32_t victim;   /* of a stage, which is the how-manieth of a table */
    size_t stage;
    int signal;
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
    _Atomic int64_t struck_ms; /* when the victim was hit; 0: not yet */
    struct {
        int code;
        int64_t ms; /* when the code came */
        char text[200];
        uint64_t hash; /* of results that must be the same */
    } rank[WORLD_MAX];
};

typedef int (*world_fn)(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err);

static inline int64_t world_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Ports that were free a moment ago; none twice, and none that the kernel gives away by itself. */
static inline void world_ports(struct world *w) {
    static uint32_t next;
    enum { FIRST = 10000, PORTS = 20000 };
    next = next ? next : (uint32_t)getpid() * 1999;
    for (uint32_t r = 0; r < w->n;) {
        uint16_t port = (uint16_t)(FIRST + next++ % PORTS);
        struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
            (void)snprintf(w->endpoint[r], sizeof(w->endpoint[r]), "%s:%u",
                w->v6 ? "[::1]" : "127.0.0.1", port);
            w->endpoints[r] = w->endpoint[r];
            r++;
        }
        close(fd);
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
        .generation = w->generation,
        .form_timeout_ms = w->form_ms ? w->form_ms : 20000,
        .call_timeout_ms = w->call_ms ? w->call_ms : 20000};
}

/* Not _exit: sanitizers have their say at the end. */
static void (*const leave)(int) = exit;

static inline int world_child(struct world *w, uint32_t rank, world_fn fn) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options o = world_options(w, rank);
    if (w->enter) {
        w->enter(w, rank);
    }
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

static inline void world_start_rank(struct world *w, uint32_t rank, world_fn fn) {
    (void)fflush(NULL);
    w->pid[rank] = fork();
    if (w->pid[rank] == 0) {
        leave(world_child(w, rank, fn));
    }
}

static inline void world_start(struct world *w, world_fn fn) {
    world_ports(w);
    w->shared =
        mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < w->n; r++) {
        world_start_rank(w, r, fn);
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

/* ---- calls without end ---- */

_Alignas(4096) static unsigned char world_in[4 * WORLD_N * WORLD_MAX];
_Alignas(4096) static unsigned char world_out[4 * WORLD_N * WORLD_MAX];

static inline int world_call(struct rt_group *g, enum rt_kind kind, size_t n, struct co_err *err) {
    float *in = (float *)world_in, *out = (float *)world_out;
    size_t counts[WORLD_MAX];
    for (uint32_t r = 0; r < WORLD_MAX; r++) {
        counts[r] = n;
    }
    uint32_t me = rt_group_rank(g), size = rt_group_size(g);
    struct rt_coll c = {
        .kind = kind, .in = in, .out = out, .n = n, .counts = counts, .out_counts = counts};
    if (kind == RT_SEND || kind == RT_RECV) {
        /* Round in a circle; rank 0 begins. */
        c.kind = RT_SEND;
        c.root = (me + 1) % size;
        struct rt_coll r = {.kind = RT_RECV, .out = out, .n = n, .root = (me + size - 1) % size};
        int rc = me == 0 ? rt_coll_run(g, &c, err) : rt_coll_run(g, &r, err);
        return rc < 0 ? rc : me == 0 ? rt_coll_run(g, &r, err) : rt_coll_run(g, &c, err);
    }
    return rt_coll_run(g, &c, err);
}

/* Small calls and large ones in turn, until one fails. */
static inline int world_endless(
    struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        rc = world_call(g, w->kind, i & 1 ? WORLD_N : 100, err);
        if (i == 20) {
            atomic_fetch_add(&w->shared->ready, 1);
        }
    }
    return rc;
}

/* Until all ranks are in the middle of it. */
static inline bool world_ready(struct world *w) {
    int64_t end = world_now() + WORLD_MS;
    while (atomic_load(&w->shared->ready) < w->n && world_now() < end) {
        (void)sched_yield();
    }
    return atomic_load(&w->shared->ready) == w->n;
}

/* Where ranks are, for tests that are made everywhere. */
static const struct world_place {
    enum rt_transport transport;
    uint32_t nodes;
} world_places[] = {{RT_TRANSPORT_SHM, 0}, {RT_TRANSPORT_TCP, 0}, {RT_TRANSPORT_AUTO, 2}};
