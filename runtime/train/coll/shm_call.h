/* What calls inside a machine are made of; see shm_reduce.c.  0 or the code the group failed
 * with. */
#pragma once

#include "runtime/train/coll/coll.h"

/* Bytes up to which a call is small: everybody reads it from everybody. */
static inline size_t rt_shm_small_max(const struct rt_shm *s) {
    return s->n <= 8 ? RT_SHM_BODY : s->n <= 128 ? (64 << 10) / s->n : 512;
}

/* A small call: waits until this rank may write its body, says which one it is; tells the others
 * what it has; waits for what another one has. */
int rt_shm_small_begin(struct rt_group *g, uint32_t *ret_turn);
void rt_shm_small_raise(
    struct rt_group *g, uint32_t turn, uint32_t sign, const void *data, size_t bytes);
int rt_shm_small_wait(struct rt_group *g, uint32_t turn, uint32_t i, uint32_t sign, size_t bytes,
    const void **ret_data);

/* A large call: waits until the areas are free; raises the own phase by one; waits until all have
 * reached a phase; both. */
int rt_shm_large_begin(struct rt_group *g);
void rt_shm_raise(struct rt_group *g, uint32_t sign);
int rt_shm_wait_all(struct rt_group *g, uint32_t phase);
int rt_shm_sync(struct rt_group *g, uint32_t sign);
/* Until rank i has reached a phase of this call. */
int rt_shm_wait_one(struct rt_group *g, uint32_t i, uint32_t phase, uint32_t sign);
