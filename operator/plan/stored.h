/* Reads the stored status, and the draft of one that is not stored yet.  Pure. */
#pragma once

#include "operator/plan/world.h"

/* The replicas in the spec when the status was stored; 0: unknown. */
int32_t op_status_wanted(const struct op_job *job, enum op_role role);
/* The keys of "ready/replicas" in a status: "readyPS", ... */
extern const char *const op_ready_keys[OP_ROLES];

/* A stored condition, NULL when absent. */
const json_t *op_condition_stored(const struct op_job *job, const char *type);
bool op_condition_true(const struct op_job *job, const char *type);
/* The condition in the draft, or else in the stored status. */
const json_t *op_condition_known(const struct op_world *w, const char *type);
