/* A GPU, through the CUDA driver: its primary context, which it shares with the program's own
 * CUDA, memory, and two streams, one of calls, one of copies.
 *
 * Calls and the question whether they are done: one thread at a time; the rest any other.  No
 * function leaves its context behind as the thread's current one.  Errors of CUDA: CO_NOMEMORY,
 * CO_UNSUPPORTED (no driver, no GPU), CO_INTERNAL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { RT_GPU_ID_BYTES = 16 };

struct rt_cuda;

/* How many GPUs this process may use. */
CO_MUST_CHECK int rt_cuda_count(uint32_t *ret, struct co_err *err);
/* CO_INVALID: there are not so many. */
CO_MUST_CHECK int rt_cuda_open(uint32_t ordinal, struct rt_cuda **ret, struct co_err *err);
void rt_cuda_close(struct rt_cuda *c); /* NULL allowed; frees its memory first */

uint32_t rt_cuda_ordinal(const struct rt_cuda *c);
/* RT_GPU_ID_BYTES: the same for the same GPU in every process. */
const void *rt_cuda_id(const struct rt_cuda *c);
void *rt_cuda_stream(const struct rt_cuda *c); /* of calls */

/* Makes this GPU the thread's, until leave. */
CO_MUST_CHECK int rt_cuda_enter(struct rt_cuda *c, struct co_err *err);
void rt_cuda_leave(struct rt_cuda *c);

/* Zeroed. */
CO_MUST_CHECK int rt_cuda_alloc(struct rt_cuda *c, size_t bytes, void **ret, struct co_err *err);
void rt_cuda_free(struct rt_cuda *c, void *memory); /* NULL allowed */
/* Is it memory that CUDA gave, or has been told of?  All other is main memory. */
bool rt_cuda_knows(struct rt_cuda *c, const void *memory);

/* Between main memory and the GPU's; they return when it is done. */
CO_MUST_CHECK int rt_cuda_write(
    struct rt_cuda *c, void *to, const void *from, size_t bytes, struct co_err *err);
CO_MUST_CHECK int rt_cuda_read(
    struct rt_cuda *c, void *to, const void *from, size_t bytes, struct co_err *err);

/* Between enter and leave: marks the end of what is in the stream of calls now. */
CO_MUST_CHECK int rt_cuda_mark(struct rt_cuda *c, struct co_err *err);
/* Has the GPU come to the mark?  1: not yet, 0: yes. */
CO_MUST_CHECK int rt_cuda_pending(struct rt_cuda *c, struct co_err *err);
