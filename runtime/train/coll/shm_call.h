/* The steps that calls inside a machine are made of; shm_reduce.c defines them and shm_move.c uses
 * them, too.  They return 0 or the code with which the group failed.  All waits compare the signs
 * of calls (agree.h). */
#pragma once

#include "runtime/train/coll/coll.h"

/* The largest number of bytes of a small call.  It falls with the number of ranks, because in a
 * small call each rank reads the data of all others. */
static inline size_t coll_shm_small_max(const struct coll_shm *s) {
    return s->n <= 8 ? COLL_SHM_BODY : s->n <= 128 ? (64 << 10) / s->n : 512;
}

/* A small call: begin waits until this rank may write its body, and returns which of the two is
 * next; raise publishes this rank's data; wait returns the data of the rank with index i. */
int coll_shm_small_begin(struct rt_group *g, uint32_t *ret_turn);
void coll_shm_small_raise(struct rt_group *g, uint32_t turn, const void *data, size_t bytes);
int coll_shm_small_wait(
    struct rt_group *g, uint32_t turn, uint32_t i, size_t bytes, const void **ret_data);

/* A large call: begin waits until the areas in and out are free; raise adds one to this rank's
 * phase; wait_all waits until all ranks have reached a phase; sync does both. */
int coll_shm_large_begin(struct rt_group *g);
void coll_shm_raise(struct rt_group *g);
int coll_shm_wait_all(struct rt_group *g, uint32_t phase);
int coll_shm_sync(struct rt_group *g);
/* Waits until the rank with index i has reached a phase of this call. */
int coll_shm_wait_one(struct rt_group *g, uint32_t i, uint32_t phase);
