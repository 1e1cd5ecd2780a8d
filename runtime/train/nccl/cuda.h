/* A GPU, through the CUDA driver: the primary context, which is shared with the program's own CUDA
 * code, memory, and two streams, one for calls and one for copies.
 *
 * rt_cuda_mark and rt_cuda_pending are for one thread at a time; other threads may use the rest.
 * Only rt_cuda_enter changes the thread's current context, until rt_cuda_leave.  Errors of CUDA:
 * CO_NOMEMORY, CO_UNSUPPORTED (no driver, no GPU), CO_INTERNAL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { RT_GPU_ID_BYTES = 16 };

struct rt_cuda;

/* How many GPUs this process may use. */
CO_MUST_CHECK int rt_cuda_count(uint32_t *ret, struct co_err *err);
/* CO_INVALID: there is no GPU with that number. */
CO_MUST_CHECK int rt_cuda_open(uint32_t ordinal, struct rt_cuda **ret, struct co_err *err);
void rt_cuda_close(struct rt_cuda *c); /* NULL allowed; frees its memory first */

/* RT_GPU_ID_BYTES: the same for the same GPU in every process. */
const void *rt_cuda_id(const struct rt_cuda *c);
void *rt_cuda_stream(const struct rt_cuda *c); /* the stream for calls */

/* Makes this GPU's context the thread's current one, until rt_cuda_leave. */
CO_MUST_CHECK int rt_cuda_enter(struct rt_cuda *c, struct co_err *err);
void rt_cuda_leave(struct rt_cuda *c);

/* The memory is zeroed. */
CO_MUST_CHECK int rt_cuda_alloc(struct rt_cuda *c, size_t bytes, void **ret, struct co_err *err);
void rt_cuda_free(struct rt_cuda *c, void *memory); /* NULL allowed */
/* Whether CUDA allocated the memory or it was registered with CUDA.  Else it is main memory. */
bool rt_cuda_knows(struct rt_cuda *c, const void *memory);

/* Between main memory and the GPU's, or within either; returns when it is done. */
CO_MUST_CHECK int rt_cuda_copy(
    struct rt_cuda *c, void *to, const void *from, size_t bytes, struct co_err *err);

/* Between enter and leave: marks the current end of the stream for calls. */
CO_MUST_CHECK int rt_cuda_mark(struct rt_cuda *c, struct co_err *err);
/* Whether the GPU has reached the mark.  1: not yet; 0: yes. */
CO_MUST_CHECK int rt_cuda_pending(struct rt_cuda *c, struct co_err *err);
