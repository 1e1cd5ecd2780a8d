/* The memory that the ranks of one machine share: one memfd that all of them map.  It has no name
 * in a file system, so nothing is left behind when they die.
 *
 *     +------+--------+--------+-----+---------+---------+-----+---------+---------+
 *     | head | rank 0 | rank 1 | ... | pipe 01 | pipe 02 | ... | arena 0 | arena 1 | ...
 *     +------+--------+--------+-----+---------+---------+-----+---------+---------+
 *
 *     rank i; only rank i writes it, but for the bell:
 *     +-------+---------+---------+--------+--------+--------+---------------------+-----------+
 *     | phase | small 0 | small 1 | bell   | body 0 | body 1 | in: slice 0, 1, ... | out: one  |
 *     +-------+---------+---------+--------+--------+--------+---------------------+-----------+
 *      a line   a line    a line    a line   8 KiB    8 KiB    a slice for each rank
 *
 * A line is one cache line, 64 bytes: a flag, whose value only grows, and data that fits beside it,
 * so that a small call moves one cache line.  Small calls use the two bodies in turn (sequence
 * number & 1).  A rank writes a body only when all ranks have begun the call before this one; then
 * none still reads the body's old content, which is from two calls ago.  Large calls pass through
 * the areas `in` and `out` in steps; the flag `phase` separates the steps.
 *
 * Each arena (arena.c) is as large as the machine's memory, but all together have 1 TiB at most, as
 * every rank maps them all.  They take addresses only: pages exist once they are written. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/train/cost/cost.h"

enum {
    COLL_SHM_RANKS_MAX = 256,
    COLL_SHM_BODY = COST_SMALL, /* bytes of the largest small call */
    COLL_SHM_INLINE = 48,       /* bytes that fit into a line beside the flag */
    COLL_SHM_SLICE_MAX = 256 << 10,
    COLL_SHM_SLICE_MIN = 8 << 10,
    COLL_SHM_PIPE = 64 << 10, /* bytes that a pipe can hold */
};

/* Signs (agree.h) stand beside the flags, to find ranks that make different calls. */
struct coll_small {
    _Alignas(64) _Atomic uint32_t flag;
    uint64_t sign;
    unsigned char data[COLL_SHM_INLINE];
};
struct coll_phase {
    _Alignas(64) _Atomic uint32_t flag;
    _Atomic uint32_t core; /* 1 + the CPU on which the rank last began a long wait */
    uint64_t sign[4];      /* by phase & 3: no rank is ahead of another by more than two phases */
    uint64_t place[2];     /* the offsets of the caller's buffers in and out in the mapping; 0: the
                              buffer is elsewhere */
};

struct coll_shm_rank {
    struct coll_phase phase;
    struct coll_small small[2];
    /* Counts what has happened in the rank's pipes while some rank slept: it sleeps on this word,
     * as it may wait for several pipes. */
    _Alignas(64) _Atomic uint32_t bell;
    _Alignas(64) unsigned char body[2][COLL_SHM_BODY];
    unsigned char in[];
};

/* A ring buffer for one direction between two ranks.  head and tail only grow, modulo 2^32. */
struct coll_shm_pipe {
    _Alignas(64) _Atomic uint32_t head; /* written so far */
    _Alignas(64) _Atomic uint32_t tail; /* read so far */
    _Alignas(64) unsigned char bytes[COLL_SHM_PIPE];
};

/* Whether it pays to give the core away by sched_yield.  Among ranks alone it is the quickest way
 * to wait.  Where other processes want the core too, each yield costs a rank a whole time slice, of
 * milliseconds, while a rank that sleeps gets the core back as soon as it is woken.  Start with
 * zeroes. */
struct coll_yields {
    uint32_t slept;   /* waits since the last yield that took too long; 0: none has */
    int64_t after_ms; /* when that was, and COLL_YIELD_AGAIN_MS later */
};
/* A yield may be tried again when so many waits have slept and so much time has passed: waits that
 * are rare should not each pay for a try, nor should many. */
enum { COLL_YIELD_AGAIN_WAITS = 4096, COLL_YIELD_AGAIN_MS = 500 };
/* To be asked once in each wait.  Pure. */
bool coll_yields_pay(struct coll_yields *y, int64_t now_ms);
/* Notes that a yield took so long.  Pure. */
void coll_yields_took(struct coll_yields *y, int64_t took_ns, int64_t now_ms);
/* Yields if that pays; false: it did not yield, and the caller should sleep. */
bool coll_yield(struct coll_yields *y);

/* This rank's view of the memory; private to the process. */
struct coll_shm {
    unsigned char *base;
    size_t bytes;
    uint32_t n, me;
    uint32_t spins, yields;      /* tries before the first sched_yield; yields before a sleep */
    size_t slice;                /* bytes */
    size_t stride;               /* bytes from one rank's part to the next one's */
    size_t pipes, arenas, arena; /* two offsets; the size of one arena */
    struct coll_yields giving;
    uint32_t seq;               /* number of the last small call */
    uint32_t entered;           /* a small call that all ranks are known to have begun */
    uint32_t phase;             /* value of this rank's phase flag */
    bool idle;                  /* all ranks are known to have finished the last large call */
    _Atomic uint32_t *sleepers; /* in the head: how many ranks wait in the kernel */
};

/* The size of each of n arenas on a machine with so many bytes of memory. */
size_t coll_shm_arena_bytes(uint64_t memory, uint64_t limit, uint32_t n);
/* Computes sizes and offsets for n ranks. */
void coll_shm_plan(struct coll_shm *s, uint32_t n, uint32_t me);
CO_MUST_CHECK int coll_shm_create(const struct coll_shm *s, int *ret_fd, struct co_err *err);
/* Maps fd after checking its size and seals, as another process made it. */
CO_MUST_CHECK int coll_shm_map(struct coll_shm *s, int fd, struct co_err *err);
void coll_shm_unmap(struct coll_shm *s);

static inline struct coll_shm_rank *coll_shm_of(const struct coll_shm *s, uint32_t i) {
    return (struct coll_shm_rank *)(s->base + 4096 + i * s->stride);
}
static inline unsigned char *coll_shm_in(const struct coll_shm *s, uint32_t i, uint32_t slice) {
    return coll_shm_of(s, i)->in + slice * s->slice;
}
static inline unsigned char *coll_shm_out(const struct coll_shm *s, uint32_t i) {
    return coll_shm_of(s, i)->in + s->n * s->slice;
}
static inline struct coll_shm_pipe *coll_shm_pipe(
    const struct coll_shm *s, uint32_t from, uint32_t to) {
    return (struct coll_shm_pipe *)(s->base + s->pipes) + (size_t)from * s->n + to;
}
static inline unsigned char *coll_shm_arena(const struct coll_shm *s, uint32_t i) {
    return s->base + s->arenas + i * s->arena;
}
/* The offset of p in the mapping if the buffer lies in this rank's arena; otherwise 0. */
static inline uint64_t coll_shm_place(const struct coll_shm *s, const void *p, size_t bytes) {
    uint64_t at = (uint64_t)((uintptr_t)p - (uintptr_t)coll_shm_arena(s, s->me));
    return at < s->arena && bytes <= s->arena - at ? at + s->arenas + s->me * s->arena : 0;
}

struct rt_group;
/* Wakes the ranks that sleep on a flag.  coll_flag_raise sets the flag, and wakes only if some rank
 * sleeps at all. */
void coll_flag_wake(_Atomic uint32_t *flag);
static inline void coll_flag_raise(
    const struct coll_shm *s, _Atomic uint32_t *flag, uint32_t value) {
    atomic_store_explicit(flag, value, memory_order_release);
    /* Without a fence a rank that is just going to sleep can be missed.  Its sleep has a short
     * limit, which costs less than a fence in each call. */
    if (atomic_load_explicit(s->sleepers, memory_order_relaxed) != 0) {
        coll_flag_wake(flag);
    }
}
static inline bool coll_flag_is(_Atomic uint32_t *flag, uint32_t value) {
    return (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - value) >= 0;
}
/* Wakes the rank with index `local` if it sleeps on its bell: something has happened in one of its
 * pipes. */
void coll_bell_ring_slow(const struct coll_shm *s, uint32_t local);
static inline void coll_bell_ring(const struct coll_shm *s, uint32_t local) {
    if (atomic_load_explicit(s->sleepers, memory_order_relaxed) != 0) { /* as in coll_flag_raise */
        coll_bell_ring_slow(s, local);
    }
}
/* To sleep on the own bell: begin; look once more at all pipes; then end, which sleeps unless one
 * of them was ready or the bell has rung since.  waited_ms: how long the wait is by now. */
uint32_t coll_bell_begin(const struct coll_shm *s);
void coll_bell_end(const struct coll_shm *s, uint32_t seen, bool ready, int64_t waited_ms);
/* Waits until a flag of the rank with index `local` is at least value.  Returns 0 or the code with
 * which the group failed. */
int coll_flag_wait_long(struct rt_group *g, _Atomic uint32_t *flag, uint32_t value, uint32_t local);
static inline void coll_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
static inline int coll_flag_wait(struct rt_group *g, const struct coll_shm *s,
    _Atomic uint32_t *flag, uint32_t value, uint32_t local) {
    for (uint32_t i = 0; i < s->spins; i++) {
        if (coll_flag_is(flag, value)) {
            return 0;
        }
        coll_relax();
    }
    return coll_flag_wait_long(g, flag, value, local);
}

/* Calls among all ranks of one machine.  They return 0 or the code with which the group failed. */
struct rt_coll;
int coll_shm_all_reduce(struct rt_group *g, const struct rt_coll *c);
int coll_shm_reduce(struct rt_group *g, const struct rt_coll *c);
int coll_shm_broadcast(struct rt_group *g, const struct rt_coll *c);
int coll_shm_all_gather(struct rt_group *g, const struct rt_coll *c);
int coll_shm_reduce_scatter(struct rt_group *g, const struct rt_coll *c);
int coll_shm_barrier(struct rt_group *g, const struct rt_coll *c);
