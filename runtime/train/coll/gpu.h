/* Groups with buffers on GPUs: the group itself forms, watches and names the dead as on CPUs; calls
 * of such buffers are NCCL's. */
#pragma once

#include "runtime/train/coll/coll.h"

/* rt_group.device, as options name it.  0: main memory; 1 + a GPU's number; RT_DEVICE_ANY: the one
 * of the environment, or by the rank's place on its machine. */
enum { RT_DEVICE_ANY = -1 };
CO_MUST_CHECK int rt_gpu_parse(const char *device, int *ret, struct co_err *err);

/* By all ranks, once the group has formed. */
CO_MUST_CHECK int rt_gpu_form(struct rt_group *g, struct co_err *err);
void rt_gpu_close(struct rt_group *g); /* before the monitor says goodbye */
/* Of a group with a GPU: is the call that GPU's?  One whose buffers are in main memory is made as
 * in any group. */
bool rt_gpu_takes(const struct rt_group *g, const struct rt_coll *c);
CO_MUST_CHECK int rt_gpu_check(
    const struct rt_group *g, const struct rt_coll *c, struct co_err *err);
int rt_gpu_make(struct rt_group *g, const struct rt_coll *c);
CO_MUST_CHECK int rt_gpu_alloc(
    struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err);
void rt_gpu_free(struct rt_group *g, void *memory);
