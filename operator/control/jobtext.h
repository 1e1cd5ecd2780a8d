/* The compact form in which the store keeps a job's JSON: without fields that are not read, and
 * compressed against a typical job. */
#pragma once

#include "common/squeeze.h"

/* Leaves out managedFields and annotations, which are not used and often half of the bytes. */
struct co_squeezed ctl_jobtext_keep(struct co_slab *slab, const char *text, size_t len);
/* kept->len bytes and a NUL; the caller frees them. */
char *ctl_jobtext_read(const struct co_squeezed *kept);
