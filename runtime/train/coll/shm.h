/* The memory that the ranks of one machine share: one memfd, mapped by all, nowhere in a file
 * system.
 *
 *     +------+--------+--------+-----+---------+---------+-----+---------+---------+
 *     | head | rank 0 | rank 1 | ... | pipe 01 | pipe 02 | ... | arena 0 | arena 1 | ...
 *     +------+--------+--------+-----+---------+---------+-----+---------+---------+
 *
 *     rank i, written by rank i only:
 *     +-------+---------+---------+--------+--------+---------------------+-----------+
 *     | phase | small 0 | small 1 | body 0 | body 1 | in: slice 0, 1, ... | out: one  |
 *     +-------+---------+---------+--------+--------+---------------------+-----------+
 *      a line   a line    a line    8 KiB    8 KiB    a slice for each rank
 *
 * A line is 64 bytes: a flag, which only grows, and what fits beside it, so that small calls move
 * one line.  Small calls take turns at the two bodies (sequence number & 1): whoever writes one
 * knows that all have begun the call before, so nobody reads what stood there.  Large calls go
 * through in and out, step by step, with `phase` between the steps.
 *
 * The arenas (arena.c) are as large as the machine's memory, each; pages exist where something
 * was written. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/train/cost/cost.h"

enum {
    RT_SHM_RANKS_MAX = 256,
    RT_SHM_BODY = RT_COST_SMALL, /* bytes of a small call */
    RT_SHM_INLINE = 40,          /* bytes that fit beside the flag */
    RT_SHM_SLICE_MAX = 256 << 10,
    RT_SHM_SLICE_MIN = 8 << 10,
    RT_SHM_PIPE = 64 << 10, /* bytes a pipe holds */
};

struct rt_line {
    _Alignas(64) _Atomic uint32_t flag;
    /* Of the call: differs when ranks make different calls.  By phase & 3: nobody is
     * further ahead than by two phases. */
    uint32_t sign[4];
    _Atomic uint32_t core; /* phase: 1 + where the rank last began to wait for long */
    unsigned char data[RT_SHM_INLINE];
};

struct rt_shm_rank {
    struct rt_line phase; /* data: two u64, where in and out stand in the mapping, or 0 */
    struct rt_line small[2];
    unsigned char body[2][RT_SHM_BODY];
    unsigned char in[];
};

/* One direction between two ranks: bytes, head and tail only grow. */
struct rt_shm_pipe {
    _Alignas(64) _Atomic uint32_t head; /* written so far */
    _Alignas(64) _Atomic uint32_t tail; /* read so far */
    _Alignas(64) unsigned char bytes[RT_SHM_PIPE];
};

/* This process's view. */
struct rt_shm {
    unsigned char *base;
    size_t bytes;
    uint32_t n, me;
    uint32_t spins, yields;      /* looks at a flag before giving way; before sleeping */
    size_t slice;                /* bytes */
    size_t stride;               /* of a rank */
    size_t pipes, arenas, arena; /* offsets; size of one arena */
    uint32_t seq;                /* of small calls */
    uint32_t entered;            /* all have begun this small call */
    uint32_t phase;              /* own phase flag */
    bool idle;                   /* all are known to have finished the last large call */
    _Atomic uint32_t *sleepers;  /* in the head: ranks that wait in the kernel */
};

/* Sizes and offsets, for n ranks. */
void rt_shm_plan(struct rt_shm *s, uint32_t n, uint32_t me);
CO_MUST_CHECK int rt_shm_create(const struct rt_shm *s, int *ret_fd, struct co_err *err);
/* Checks what was got before it believes it. */
CO_MUST_CHECK int rt_shm_map(struct rt_shm *s, int fd, struct co_err *err);
void rt_shm_unmap(struct rt_shm *s);

static inline struct rt_shm_rank *rt_shm_of(const struct rt_shm *s, uint32_t i) {
    return (struct rt_shm_rank *)(s->base + 4096 + i * s->stride);
}
static inline unsigned char *rt_shm_in(const struct rt_shm *s, uint32_t i, uint32_t slice) {
    return rt_shm_of(s, i)->in + slice * s->slice;
}
static inline unsigned char *rt_shm_out(const struct rt_shm *s, uint32_t i) {
    return rt_shm_of(s, i)->in + s->n * s->slice;
}
static inline struct rt_shm_pipe *rt_shm_pipe(const struct rt_shm *s, uint32_t from, uint32_t to) {
    return (struct rt_shm_pipe *)(s->base + s->pipes) + (size_t)from * s->n + to;
}
static inline unsigned char *rt_shm_arena(const struct rt_shm *s, uint32_t i) {
    return s->base + s->arenas + i * s->arena;
}
/* Where p stands in this rank's arena, from the base of the mapping; 0: not in it. */
static inline uint64_t rt_shm_place(const struct rt_shm *s, const void *p, size_t bytes) {
    uint64_t at = (uint64_t)((uintptr_t)p - (uintptr_t)rt_shm_arena(s, s->me));
    return at < s->arena && bytes <= s->arena - at ? at + s->arenas + s->me * s->arena : 0;
}

struct rt_group;
/* Sets a flag, and wakes who sleeps at it. */
void rt_flag_wake(_Atomic uint32_t *flag);
static inline void rt_flag_raise(const struct rt_shm *s, _Atomic uint32_t *flag, uint32_t value) {
    atomic_store_explicit(flag, value, memory_order_release);
    /* No fence: who begins to sleep just now is not seen, and wakes by himself soon. */
    if (atomic_load_explicit(s->sleepers, memory_order_relaxed) != 0) {
        rt_flag_wake(flag);
    }
}
static inline bool rt_flag_is(_Atomic uint32_t *flag, uint32_t value) {
    return (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - value) >= 0;
}
/* Until flag of the rank at `local` is at least value; 0 or the code the group failed with. */
int rt_flag_wait_long(struct rt_group *g, _Atomic uint32_t *flag, uint32_t value, uint32_t local);
static inline void rt_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
static inline int rt_flag_wait(struct rt_group *g, const struct rt_shm *s, _Atomic uint32_t *flag,
    uint32_t value, uint32_t local) {
    for (uint32_t i = 0; i < s->spins; i++) {
        if (rt_flag_is(flag, value)) {
            return 0;
        }
        rt_relax();
    }
    return rt_flag_wait_long(g, flag, value, local);
}

/* Calls inside one machine, all ranks of it; sizes in bytes but for n.  0 or the code the group
 * failed with. */
struct rt_coll;
int rt_shm_all_reduce(struct rt_group *g, const struct rt_coll *c);
int rt_shm_reduce(struct rt_group *g, const struct rt_coll *c);
int rt_shm_broadcast(struct rt_group *g, const struct rt_coll *c);
int rt_shm_all_gather(struct rt_group *g, const struct rt_coll *c);
int rt_shm_reduce_scatter(struct rt_group *g, const struct rt_coll *c);
int rt_shm_barrier(struct rt_group *g, const struct rt_coll *c);
