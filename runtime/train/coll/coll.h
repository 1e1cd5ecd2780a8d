/* What the files of this folder share.
 *
 *     group.c   open, close, split          run.c      a call: checks, which way
 *     form.c    who connects to whom        work.c     started calls: a queue and its thread
 *     door.c    accepting; join.c           monitor.c  who lives (a thread)
 *               connecting; hello.c         wait.c     patience: deadlines, failures
 *     shm.c     the memory of a machine     shm_reduce.c, shm_move.c: calls inside it
 *     arena.c   rt_group_alloc              shrink.c, grow.c   without the dead; with new ones
 *     message.c bytes between two ranks, over pipe_shm.c or pipe_tcp.c
 *     msg_all_reduce.c, msg_reduce.c, msg_move.c: calls made of messages; ways.c: which of them
 *     hier.c    machines of several ranks
 *     gpu.c     calls on GPUs, by runtime/train/nccl
 *
 * Threads: the caller's, or in its place that of work.c, makes calls; the monitor reads control
 * connections.  They share what is _Atomic or under `m`. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/coll/hello.h"
#include "runtime/train/coll/reduce.h"
#include "runtime/train/coll/shm.h"

enum { RT_NOT_LOCAL = UINT32_MAX, RT_ADDRESS_MAX = 300 };

struct rt_peer {
    int control;             /* -1: this rank */
    int lanes[RT_LANES_MAX]; /* -1: none */
    unsigned char node[RT_NODE_BYTES];
    uint32_t local;           /* place among the ranks of this machine, or RT_NOT_LOCAL */
    uint32_t unread;          /* bytes in `message`; the monitor's */
    unsigned char *message;   /* owned; the monitor's */
    _Atomic bool left;        /* closed its group */
    _Atomic bool gone;        /* its control connection ended */
    _Atomic int64_t heard_ms; /* last word of its monitor */
    bool has_memory;          /* form.c: has been given the machine's */
    _Atomic uint64_t place;   /* and which call it was in by then, as the group's */
    /* shrink.c, under m: */
    uint32_t round;      /* of the vote in which it has last told whom it takes for dead; 0: none */
    unsigned char *dead; /* owned, a bit a rank */
};

/* The socket that all groups of an endpoint are formed at; one forms at a time. */
struct rt_door {
    int fd;
    char *endpoint; /* owned */
    pthread_mutex_t forming;
    _Atomic uint32_t refs;
};

struct rt_group {
    uint32_t rank, size;
    char **endpoints;   /* owned, by rank */
    char *name, *token; /* owned */
    uint64_t job, id;   /* same job: may talk to each other; same id: the same group */
    enum rt_transport transport;
    int64_t call_ms, form_ms;
    uint32_t lanes;
    uint64_t children; /* groups made from this one so far */
    struct rt_door *door;
    struct rt_peer *peers; /* owned, by rank */
    unsigned char node[RT_NODE_BYTES];
    const struct rt_kernels *kernels;

    uint32_t local, n_local; /* of the ranks of this machine: this one, how many */
    uint32_t *locals;        /* owned [n_local], ranks */
    uint32_t n_nodes;
    uint32_t *all;     /* owned [size]: 0, 1, 2, ... */
    bool even;         /* all machines have n_local ranks */
    uint32_t *leaders; /* owned [n_nodes]: the first rank of each machine, by it ascending */
    uint32_t *share;   /* owned [n_nodes]; even: the rank at this one's place of each machine */
    struct rt_shm shm; /* base NULL: n_local is 1 */
    struct rt_arena *arena;
    int device;         /* gpu.h */
    struct rt_gpu *gpu; /* gpu.c; NULL: buffers are in main memory */
    /* gpu.c: the last call but send and recv: 32 bits of its number, 32 of its sign. */
    _Atomic uint64_t place;
    unsigned char *scratch; /* owned; message.c: what is reduced as it comes */

    pthread_t monitor;
    bool monitored;
    int epoll, wake, alarm; /* alarm: readable once the group has failed */
    _Atomic int failed;     /* enum co_code; 0 */
    pthread_mutex_t m;      /* guards what follows; and sending on control connections */
    pthread_cond_t changed; /* shrink.c waits for the monitor */
    struct co_err why;
    uint32_t failed_rank;   /* or size: none in particular */
    struct rt_group *child; /* one that is being made of this one, or NULL */
    const unsigned char
        *votes;            /* shrink.c: whom this rank has told to be dead; NULL: nothing yet */
    uint32_t agreed_round; /* shrink.c: the last round in which it was agreed who is dead: */
    unsigned char *agreed; /* owned, a bit a rank */

    uint32_t missing, lanes_here; /* form.c: connections still to come; lanes that have */
    int memory_fd;                /* form.c */
    struct rt_queue *queue;       /* work.c; NULL until something is started */
};

/* form.c: connects to all, finds the neighbours, maps their memory. */
CO_MUST_CHECK int rt_group_form(struct rt_group *g, int64_t deadline_ms, struct co_err *err);
/* group.c: a group of some ranks of g.  Fails when one of them dies meanwhile. */
CO_MUST_CHECK int rt_group_derive(struct rt_group *g, const uint32_t *ranks, uint32_t n,
    uint64_t id, int64_t deadline_ms, struct rt_group **ret, struct co_err *err);
CO_DEFINE_CLEANUP(struct rt_group *, rt_group_close)
/* As rt_group_open, with a group that the caller is in, or NULL: takes its door over, and fails
 * when one of its ranks dies meanwhile. */
CO_MUST_CHECK int rt_group_open_from(struct rt_group *from, const struct rt_job *job,
    const struct rt_group_options *options, struct rt_group **ret_group, struct co_err *err);
/* Rank of g has died: a group that is made of g with it cannot be.  Under g->m. */
void rt_group_lose_child(struct rt_group *g, uint32_t rank);
uint64_t rt_hash_more(uint64_t h, const void *data, size_t len);

/* door.c */
CO_MUST_CHECK int rt_door_open(const char *endpoint, struct rt_door **ret, struct co_err *err);
struct rt_door *rt_door_ref(struct rt_door *d);
void rt_door_unref(struct rt_door *d); /* NULL allowed */
/* Accepts at fd until *missing is 0.  take decides about who has proven himself, and owns the
 * descriptor when it says RT_VERDICT_OK; look decides about a hello before anything is proven. */
struct rt_accept {
    struct rt_group *g;
    int fd;
    bool local; /* a unix socket */
    uint32_t *missing;
    enum rt_verdict (*look)(struct rt_group *g, const struct rt_hello *h);
    enum rt_verdict (*take)(struct rt_group *g, const struct rt_hello *h, int fd);
};
CO_MUST_CHECK int rt_accept_run(const struct rt_accept *a, int64_t deadline_ms, struct co_err *err);

/* join.c: a proven connection to rank `to`, until the deadline.  address: of a unix socket, or
 * NULL: the endpoint. */
struct sockaddr_un;
CO_MUST_CHECK int rt_join(struct rt_group *g, uint32_t to, enum rt_purpose purpose, uint8_t lane,
    const struct sockaddr_un *address, size_t address_bytes, int64_t deadline_ms, int *ret_fd,
    struct co_err *err);
/* All bytes in or out of a non-blocking socket until the deadline; CO_PEERLOST: it has ended, or
 * the group has failed; CO_TIMEOUT. */
CO_MUST_CHECK int rt_move_all(
    const struct rt_group *g, int fd, void *data, size_t n, bool out, int64_t end_ms);
/* Until there is something to do at fd (-1: nothing), the group has failed, or the time has come.
 */
void rt_wait_fd(const struct rt_group *g, int fd, short events, int64_t end_ms);
struct rt_hello rt_hello_of(const struct rt_group *g, enum rt_purpose purpose, uint8_t lane);

/* monitor.c */
CO_MUST_CHECK int rt_monitor_start(struct rt_group *g, struct co_err *err);
void rt_monitor_stop(struct rt_group *g); /* says goodbye */
void rt_monitor_ping(struct rt_group *g);
/* wait.c.  The group has failed because of a rank (size: of none); the first reason stays, and is
 * told to the others when tell is set.  Returns the code that stays. */
int rt_group_fail(struct rt_group *g, int code, uint32_t rank, bool tell, const char *fmt, ...)
    CO_PRINTF(5, 6);
int rt_group_why(struct rt_group *g, struct co_err *err); /* the code, and the text into *err */
/* Fails the group because of a rank that: has closed its group; lives, but did not come in time. */
int rt_group_left(struct rt_group *g, uint32_t rank);
int rt_group_late(struct rt_group *g, uint32_t rank);
/* ... or, if there is one, that has said nothing since it was asked for a sign of life then. */
int rt_group_silent(struct rt_group *g, int64_t asked_ms);

/* A wait that takes long.  Zeroed: begins. */
struct rt_patience {
    int64_t begun_ms;
    bool pinged, left;
    uint32_t turns;
};
/* 0: go on waiting for `rank`; else the group has failed.  What is waited for must be looked at
 * once more afterwards. */
int rt_patience_check(struct rt_group *g, struct rt_patience *p, uint32_t rank);
int64_t rt_now_ms(void);

/* hier.c: ranks on several machines, or no shared memory way for the call. */
int rt_hier_make(struct rt_group *g, const struct rt_coll *c);

/* work.c */
bool rt_queue_busy(const struct rt_group *g);
void rt_queue_stop(struct rt_group *g);
/* run.c */
CO_MUST_CHECK int rt_call_check(
    const struct rt_group *g, const struct rt_coll *c, struct co_err *err);
/* Makes the call in this thread. */
int rt_call_make(struct rt_group *g, const struct rt_coll *call);
/* ... of buffers in main memory, whatever the group's device. */
int rt_call_host(struct rt_group *g, const struct rt_coll *call);
/* The same on all ranks that make the same call; and what it means when it is not. */
static inline uint32_t rt_call_sign(const struct rt_coll *c) {
    bool counted = c->kind == RT_ALL_GATHERV || c->kind == RT_ALL_TO_ALLV || c->kind == RT_BARRIER;
    uint64_t n = counted ? 0 : c->n;
    uint64_t h = (uint64_t)c->kind | (uint64_t)c->dtype << 8 | (uint64_t)c->op << 16 |
                 (uint64_t)c->root << 32;
    h = (h ^ n * 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU;
    return (uint32_t)(h >> 32);
}
int rt_call_differs(struct rt_group *g, uint32_t rank);
