/* Groups with buffers on GPUs.  Forming the group, watching its ranks and naming the one that
 * failed work as on CPUs; only calls on GPU buffers go through NCCL. */
#pragma once

#include "runtime/train/coll/coll.h"

/* Parses the `device` option into rt_group.device.  0: main memory; 1 + n: GPU n; COLL_DEVICE_ANY:
 * the GPU that the environment names, otherwise the one with the rank's index on its machine. */
enum { COLL_DEVICE_ANY = -1 };
CO_MUST_CHECK int coll_gpu_parse(const char *device, int *ret, struct co_err *err);

/* All ranks call it, once the group has formed. */
CO_MUST_CHECK int coll_gpu_form(struct rt_group *g, struct co_err *err);
void coll_gpu_close(struct rt_group *g); /* before coll_monitor_stop: it needs to see failures */
/* For a group with a GPU: does the call go to the GPU?  It does not if its buffers are in main
 * memory. */
bool coll_gpu_takes(const struct rt_group *g, const struct rt_coll *c);
CO_MUST_CHECK int coll_gpu_check(
    const struct rt_group *g, const struct rt_coll *c, struct co_err *err);
/* Makes n calls.  With n > 1 all are sends and receives, and NCCL runs them at the same time. */
int coll_gpu_make(struct rt_group *g, const struct rt_coll *calls, uint32_t n);
CO_MUST_CHECK int coll_gpu_alloc(
    struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err);
void coll_gpu_free(struct rt_group *g, void *memory);
