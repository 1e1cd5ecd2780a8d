/* What the status says that is stored, read back.  Pure. */
#pragma once

#include "operator/plan/world.h"

/* The replicas that were asked for when the status was stored; 0: it does not say. */
int32_t op_status_wanted(const struct op_job *job, enum op_role role);
/* How many pods of a role are ready of those asked for: the key of that in a status. */
extern const char *const op_ready_keys[OP_ROLES];

/* A stored condition, NULL when absent. */
const json_t *op_condition_stored(const struct op_job *job, const char *type);
bool op_condition_true(const struct op_job *job, const char *type);
/* As in the status that waits to be written, else as stored. */
const json_t *op_condition_known(const struct op_world *w, const char *type);
