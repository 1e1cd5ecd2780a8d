/* A job's JSON as the store keeps it: small. */
#pragma once

#include "common/squeeze.h"

/* Without what is of no use here and often half of the bytes: managedFields and annotations. */
struct co_squeezed op_jobtext_keep(struct co_slab *slab, const char *text, size_t len);
/* kept->len bytes and a NUL, to be freed. */
char *op_jobtext_read(const struct co_squeezed *kept);
