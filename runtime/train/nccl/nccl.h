/* A communicator of NCCL: the same rank of the same ranks as the group that it belongs to.
 *
 *     rt_nccl_open     loads the library; rt_nccl_id, by one rank, names the communicator
 *     rt_nccl_join     begins, by all ranks; rt_nccl_pending until it is 0
 *     rt_nccl_call     puts a call into a stream; rt_nccl_pending until it is 0, then the stream
 *     rt_nccl_leave    begins to end; rt_nccl_pending until it is 0
 *     rt_nccl_close
 *
 * Nothing here waits for another rank: NCCL is told not to block, and whoever calls asks whether
 * it is done and looks at the clock.  One thread at a time, with the GPU entered (cuda.h).
 * After an error, rt_nccl_abort: it ends what hangs on the GPU, too.
 * Errors of NCCL: CO_PEERLOST of another rank, CO_UNAVAILABLE of the network or the system,
 * CO_INVALID of arguments, else CO_INTERNAL. */
#pragma once

#include "runtime/rt.h"

enum { RT_NCCL_ID_BYTES = 128 };

struct rt_nccl;

/* libnccl.so.2 of the folder, or (NULL, "") as the dynamic linker finds it.  CO_UNSUPPORTED: it
 * cannot be had, or is too old. */
CO_MUST_CHECK int rt_nccl_open(const char *folder, struct rt_nccl **ret, struct co_err *err);
/* NULL allowed; aborts a communicator that has not ended. */
void rt_nccl_close(struct rt_nccl *n);
uint32_t rt_nccl_version(const struct rt_nccl *n); /* 22703: 2.27.3 */

CO_MUST_CHECK int rt_nccl_id(
    struct rt_nccl *n, unsigned char ret_id[RT_NCCL_ID_BYTES], struct co_err *err);
CO_MUST_CHECK int rt_nccl_join(struct rt_nccl *n, const unsigned char id[RT_NCCL_ID_BYTES],
    uint32_t rank, uint32_t size, struct co_err *err);
/* 1: what was begun is not done yet; 0: it is. */
CO_MUST_CHECK int rt_nccl_pending(struct rt_nccl *n, struct co_err *err);
/* CO_UNSUPPORTED: not on GPUs. */
CO_MUST_CHECK int rt_nccl_check(const struct rt_coll *c, struct co_err *err);
/* one: an f32 of the GPU's, what a barrier sums.  Arguments are right, as run.c has checked. */
CO_MUST_CHECK int rt_nccl_call(
    struct rt_nccl *n, const struct rt_coll *c, void *one, void *stream, struct co_err *err);
CO_MUST_CHECK int rt_nccl_leave(struct rt_nccl *n, struct co_err *err);
/* The communicator is gone; what it had in the stream ends. */
void rt_nccl_abort(struct rt_nccl *n);
