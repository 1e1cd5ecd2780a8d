/* A communicator of NCCL.  It has the same ranks as the group that it belongs to.
 *
 *     nccl_open     loads the library; nccl_id, by one rank, names the communicator
 *     nccl_join     on all ranks; then nccl_pending until that is 0
 *     nccl_call     queues a call; nccl_pending until that is 0, then wait for the stream
 *     nccl_leave    finalizes; nccl_pending until that is 0
 *     nccl_close
 *
 * Nothing here waits for another rank: NCCL is set to non-blocking mode, and the caller polls and
 * applies its own timeout.  One thread at a time, with the GPU entered (cuda.h).  After an error
 * call nccl_abort, which also ends calls that hang on the GPU.
 * Errors of NCCL: CO_PEERLOST of another rank, CO_UNAVAILABLE of the network or the system,
 * CO_INVALID of arguments, else CO_INTERNAL. */
#pragma once

#include "runtime/rt.h"

enum { NCCL_ID_BYTES = 128 };

struct nccl;

/* libnccl.so.2 of the folder that FLAGS_nccl_dir names, otherwise as the dynamic linker finds it.
 * CO_UNSUPPORTED: it cannot be loaded, or is too old. */
CO_MUST_CHECK int nccl_open(struct nccl **ret, struct co_err *err);
/* NULL allowed; aborts a communicator that has not ended. */
void nccl_close(struct nccl *n);
uint32_t nccl_version(const struct nccl *n); /* 22703: 2.27.3 */

CO_MUST_CHECK int nccl_id(struct nccl *n, unsigned char ret_id[NCCL_ID_BYTES], struct co_err *err);
CO_MUST_CHECK int nccl_join(struct nccl *n, const unsigned char id[NCCL_ID_BYTES], uint32_t rank,
    uint32_t size, struct co_err *err);
/* 1: the last operation is still running; 0: it is done. */
CO_MUST_CHECK int nccl_pending(struct nccl *n, struct co_err *err);
/* CO_UNSUPPORTED: the call is not possible on GPUs. */
CO_MUST_CHECK int nccl_check(const struct rt_coll *c, struct co_err *err);
/* one: an f32 on the GPU, which a barrier sums.  n_calls > 1: sends and receives, which run at the
 * same time.  calls.c has checked the arguments. */
CO_MUST_CHECK int nccl_call(struct nccl *n, const struct rt_coll *calls, uint32_t n_calls,
    void *one, void *stream, struct co_err *err);
CO_MUST_CHECK int nccl_leave(struct nccl *n, struct co_err *err);
/* Destroys the communicator; its calls in the stream end. */
void nccl_abort(struct nccl *n);
