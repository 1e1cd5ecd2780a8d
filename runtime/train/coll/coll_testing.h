/* A "world" for tests: a group whose ranks are real processes on this machine. */
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/rt.h"
#include "runtime/train/coll/coll.h"

enum { WORLD_MAX = 8, WORLD_MS = 200000, WORLD_N = 40000 };

/* The limit of a call where a rank is stopped.  Who is silent for half of it is lost, and a loaded
 * machine may stop any other rank for 10 s. */
enum { WORLD_STOP_MS = 24000 };

/* What all ranks of a test have in common; what they leave for the test's checks is `shared`. */
struct coll_world {
    uint32_t n;
    uint32_t nodes; /* simulated machines; ranks are dealt to them in turn.  0: the real one */
    enum rt_transport transport;
    bool encrypt;
    int64_t call_ms, form_ms; /* 0: 60 s */
    int64_t most_ms;          /* time limit of the whole world; 0: WORLD_MS */
    uint64_t generation;
    uint32_t seed;
    bool v6; /* endpoints */
    /* What a rank does before it opens the group; NULL: nothing. */
    void (*enter)(struct coll_world *w, uint32_t rank);
    enum rt_kind kind; /* world_endless */
    uint32_t victim;   /* the rank that stage number `stage` of the test's table hits */
    size_t stage;
    int signal;
    uint32_t how; /* index into a test's own table of ways to make calls */
    /* Sets further options of a rank; NULL: none. */
    void (*set)(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret);
    struct rt_job *job; /* a rank's job, made by `enter`; NULL: it has only the options */
    char endpoint[WORLD_MAX][32];
    const char *endpoints[WORLD_MAX];
    struct coll_shared *shared;
    pid_t pid[WORLD_MAX];
};

/* Written by the ranks. */
struct coll_shared {
    _Atomic uint32_t ready;
    _Atomic int64_t struck_ms; /* when the victim was hit; 0: not yet */
    struct {
        int code;
        int64_t ms; /* when the code came */
        char text[200];
        uint64_t hash; /* of results that must be equal in all ranks */
    } rank[WORLD_MAX];
};

typedef int (*world_fn)(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err);

static inline void world_ports(struct coll_world *w) {
    for (uint32_t r = 0; r < w->n; r++) {
        (void)snprintf(w->endpoint[r], sizeof(w->endpoint[r]), "%s:%u",
            w->v6 ? "[::1]" : "127.0.0.1", co_test_ports(1));
        w->endpoints[r] = w->endpoint[r];
    }
}

static inline struct rt_group_options world_options(const struct coll_world *w, uint32_t rank) {
    static char node[16];
    (void)snprintf(node, sizeof(node), "node%u", w->nodes ? rank % w->nodes : 0);
    return (struct rt_group_options){.endpoints = w->endpoints,
        .size = w->n,
        .rank = rank,
        .name = "test",
        .token = "secret",
        .node = w->nodes ? node : NULL,
        .transport = w->transport,
        .encrypt = w->encrypt ? RT_ENCRYPT_YES : RT_ENCRYPT_UNSET,
        .generation = w->generation,
        .form_timeout_ms = w->form_ms ? w->form_ms : 60000,
        .call_timeout_ms = w->call_ms ? w->call_ms : 60000};
}

/* exit, not _exit: sanitizers report when a process exits. */
static void (*const leave)(int) = exit;

static inline int world_child(struct coll_world *w, uint32_t rank, world_fn fn) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options o = world_options(w, rank);
    if (w->enter) {
        w->enter(w, rank);
    }
    if (w->set) {
        w->set(w, rank, &o);
    }
    int rc = rt_group_open(w->job, &o, &g, &err);
    if (rc == 0) {
        rc = fn(w, g, rank, &err);
    }
    w->shared->rank[rank].ms = co_now_ms();
    w->shared->rank[rank].code = rc;
    (void)snprintf(w->shared->rank[rank].text, sizeof(w->shared->rank[rank].text), "%.180s",
        rc ? co_err_text(&err) : "");
    rt_group_close(g);
    rt_done(w->job);
    return rc ? 1 : 0;
}

static inline void world_start_rank(struct coll_world *w, uint32_t rank, world_fn fn) {
    (void)fflush(NULL);
    w->pid[rank] = fork();
    if (w->pid[rank] == 0) {
        /* If the test fails, its ranks must not run on for ever. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handler would run the next test here */
        (void)signal(SIGBUS, SIG_DFL);
        leave(world_child(w, rank, fn));
    }
}

static inline void world_start(struct coll_world *w, world_fn fn) {
    world_ports(w);
    w->shared =
        mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < w->n; r++) {
        world_start_rank(w, r, fn);
    }
}

/* Waits for all ranks and kills those that do not end.  Returns how many ended badly, without those
 * whose bit is set in `expected`. */
static inline uint32_t world_end(struct coll_world *w, uint32_t expected) {
    int64_t end = co_now_ms() + (w->most_ms ? w->most_ms : WORLD_MS);
    uint32_t bad = 0;
    for (uint32_t r = 0; r < w->n; r++) {
        int fd = (int)syscall(SYS_pidfd_open, w->pid[r], 0), status = 0;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - co_now_ms();
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

/* Prints how each rank ended, for a test that expected something else. */
static inline void world_print(const struct coll_world *w) {
    for (uint32_t r = 0; r < w->n; r++) {
        printf("# rank %u of %u: code %d: %s\n", r, w->n, w->shared->rank[r].code,
            w->shared->rank[r].text);
    }
}

static inline void world_done(struct coll_world *w) {
    (void)munmap(w->shared, sizeof(*w->shared));
}

static inline uint32_t world_run(struct coll_world *w, world_fn fn) {
    world_start(w, fn);
    uint32_t bad = world_end(w, 0);
    world_done(w);
    return bad;
}

/* ---- calls without end ---- */

_Alignas(4096) static unsigned char world_in[4 * WORLD_N * WORLD_MAX];
_Alignas(4096) static unsigned char world_out[4 * WORLD_N * WORLD_MAX];

static inline int world_start_all(
    struct rt_group *g, const struct rt_coll *calls, uint32_t n, struct co_err *err) {
    struct rt_work *work[2] = {NULL};
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = rt_coll_start(g, &calls[i], &work[i], err);
    }
    for (uint32_t i = 0; i < n; i++) {
        int ended = work[i] ? rt_work_wait(work[i], rc == 0 ? err : NULL) : 0;
        rc = rc == 0 ? ended : rc;
    }
    return rc;
}

static inline int world_call_in(struct rt_group *g, enum rt_kind kind, size_t n, const void *in,
    void *out, bool started, struct co_err *err) {
    size_t counts[WORLD_MAX];
    for (uint32_t r = 0; r < WORLD_MAX; r++) {
        counts[r] = n;
    }
    uint32_t me = rt_group_rank(g), size = rt_group_size(g);
    struct rt_coll c = {
        .kind = kind, .in = in, .out = out, .n = n, .counts = counts, .out_counts = counts};
    if (kind == RT_SEND || kind == RT_RECV) {
        /* A message goes round all ranks; rank 0 begins. */
        c.kind = RT_SEND;
        c.root = (me + 1) % size;
        struct rt_coll r = {.kind = RT_RECV, .out = out, .n = n, .root = (me + size - 1) % size};
        if (started) {
            return world_start_all(g, (struct rt_coll[]){c, r}, 2, err);
        }
        CO_TRY(rt_coll_run(g, me == 0 ? &c : &r, err));
        return rt_coll_run(g, me == 0 ? &r : &c, err);
    }
    return started ? world_start_all(g, &c, 1, err) : rt_coll_run(g, &c, err);
}

static inline int world_call(struct rt_group *g, enum rt_kind kind, size_t n, struct co_err *err) {
    return world_call_in(g, kind, n, world_in, world_out, false, err);
}

/* Makes small and large calls in turn until one fails. */
static inline int world_endless(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
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

/* ---- what was freed ---- */

/* Takes small blocks that were freed just now, and fills them so that a mutex there is locked: who
 * still uses it waits for ever.  (The address sanitizer does not look into pthread_mutex_lock.) */
static inline void world_reuse(void) {
    enum { STEP = 16, SIZES = 64, EACH = 8 };
    static void **kept; /* until the process ends; each block points to the one before it */
    for (size_t i = 0; i < SIZES * EACH; i++) {
        size_t n = (i % SIZES + 1) * STEP;
        void **block = malloc(n); /* calloc does not take what was freed last */
        memset(block, 1, n);
        block[0] = kept;
        kept = block;
    }
}

/* ---- how soon errors come ---- */

/* Above what busy processors make of the milliseconds that it takes, and below the seconds of every
 * limit that an error must not wait for. */
enum { WORLD_SOON_MS = 500 };

/* How much longer than allowed errors took in a test.  On a busy machine a few take long.  If more
 * than half of them do, something waits that should not: tests check the median. */
static struct {
    int64_t ms[1024];
    size_t n;
} world_took;

static inline void world_took_add(int64_t ms) {
    world_took.ms[world_took.n++ % CO_ARRAY_LEN(world_took.ms)] = ms;
}

static inline int world_earlier(const void *a, const void *b) {
    return (*(const int64_t *)a > *(const int64_t *)b) -
           (*(const int64_t *)a < *(const int64_t *)b);
}

/* Returns the median and forgets the samples. */
static inline int64_t world_took_median(void) {
    size_t n =
        world_took.n < CO_ARRAY_LEN(world_took.ms) ? world_took.n : CO_ARRAY_LEN(world_took.ms);
    qsort(world_took.ms, n, sizeof(*world_took.ms), world_earlier);
    int64_t median = n ? world_took.ms[n / 2] : INT64_MAX;
    printf("# of %zu errors: median %lld ms, nine tenths %lld ms, last %lld ms\n", n,
        (long long)median, n ? (long long)world_took.ms[n * 9 / 10] : 0,
        n ? (long long)world_took.ms[n - 1] : 0);
    world_took.n = 0;
    return median;
}

static inline bool world_failed(const struct coll_world *w) {
    for (uint32_t r = 0; r < w->n; r++) {
        if (w->shared->rank[r].code != 0) {
            return true;
        }
    }
    return false;
}

/* Waits until all ranks are in the middle of their calls.  False: they will never be; says why. */
static inline bool world_ready(struct coll_world *w) {
    int64_t end = co_now_ms() + WORLD_MS;
    while (atomic_load(&w->shared->ready) < w->n && co_now_ms() < end && !world_failed(w)) {
        (void)sched_yield();
    }
    if (atomic_load(&w->shared->ready) == w->n) {
        return true;
    }
    for (uint32_t r = 0; r < w->n; r++) {
        printf("# rank %u of %u: %s\n", r, w->n, w->shared->rank[r].text);
        kill(w->pid[r], SIGKILL);
    }
    return false;
}

/* Where the ranks of a world are: tests run on each of these. */
static const struct world_place {
    enum rt_transport transport;
    uint32_t nodes;
    bool encrypt;
} world_places[] = {{RT_TRANSPORT_SHM, 0}, {RT_TRANSPORT_TCP, 0}, {RT_TRANSPORT_AUTO, 2},
    {RT_TRANSPORT_AUTO, 2, true}};
