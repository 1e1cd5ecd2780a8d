/* A GPU, through the CUDA driver: the primary context, which is shared with the program's own CUDA
 * code, memory, and two streams, one for calls and one for copies.
 *
 * nccl_cuda_mark and nccl_cuda_pending are for one thread at a time; other threads may use the
 * rest. Only nccl_cuda_enter changes the thread's current context, until nccl_cuda_leave.  Errors
 * of CUDA: CO_NOMEMORY, CO_UNSUPPORTED (no driver, no GPU), CO_INTERNAL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { NCCL_GPU_ID_BYTES = 16 };

struct nccl_cuda;

/* How many GPUs this process may use. */
CO_MUST_CHECK int nccl_cuda_count(uint32_t *ret, struct co_err *err);
/* CO_INVALID: there is no GPU with that number. */
CO_MUST_CHECK int nccl_cuda_open(uint32_t ordinal, struct nccl_cuda **ret, struct co_err *err);
void nccl_cuda_close(struct nccl_cuda *c); /* NULL allowed; frees its memory first */

/* NCCL_GPU_ID_BYTES: the same for the same GPU in every process. */
const void *nccl_cuda_id(const struct nccl_cuda *c);
void *nccl_cuda_stream(const struct nccl_cuda *c); /* the stream for calls */

/* Makes this GPU's context the thread's current one, until nccl_cuda_leave. */
CO_MUST_CHECK int nccl_cuda_enter(struct nccl_cuda *c, struct co_err *err);
void nccl_cuda_leave(struct nccl_cuda *c);

/* The memory is zeroed. */
CO_MUST_CHECK int nccl_cuda_alloc(
    struct nccl_cuda *c, size_t bytes, void **ret, struct co_err *err);
void nccl_cuda_free(struct nccl_cuda *c, void *memory); /* NULL allowed */
/* Whether CUDA allocated the memory or it was registered with CUDA.  Else it is main memory. */
bool nccl_cuda_knows(struct nccl_cuda *c, const void *memory);

/* CO_INVALID: a stream is being captured into a graph, of which no call can become a part, and
 * which what a call does would break.  To be asked before anything is begun. */
CO_MUST_CHECK int nccl_cuda_uncaptured(struct nccl_cuda *c, struct co_err *err);

/* Between main memory and the GPU's, or within either; returns when it is done. */
CO_MUST_CHECK int nccl_cuda_copy(
    struct nccl_cuda *c, void *to, const void *from, size_t bytes, struct co_err *err);

/* Between enter and leave: marks the current end of the stream for calls. */
CO_MUST_CHECK int nccl_cuda_mark(struct nccl_cuda *c, struct co_err *err);
/* Whether the GPU has reached the mark.  1: not yet; 0: yes. */
CO_MUST_CHECK int nccl_cuda_pending(struct nccl_cuda *c, struct co_err *err);
