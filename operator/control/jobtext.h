/* A job's JSON as the store keeps it: small. */
#pragma once

#include "common/json.h"
#include "common/squeeze.h"

/* Of obj without what is of no use here and often half of the bytes: its managedFields, and its
 * annotations, one of which is the whole job once more where kubectl has applied it. */
struct co_squeezed op_jobtext_keep(struct co_slab *slab, const json_t *obj);
/* The JSON, to be freed. */
char *op_jobtext_read(const struct co_squeezed *kept);
