/* Reads the stored status, and the draft of one that is not stored yet.  Pure. */
#pragma once

#include "operator/plan/children.h"

/* The keys of "ready/replicas" in a status: "readyPS", ... */
extern const char *const plan_ready_keys[API_ROLES];

/* The condition of a status; NULL when absent. */
json_t *plan_condition_in(const json_t *status, const char *type);
/* A stored condition, NULL when absent. */
const json_t *plan_condition_stored(const struct api_job *job, const char *type);
bool plan_condition_true(const struct api_job *job, const char *type);
/* The condition in the draft, or else in the stored status. */
const json_t *plan_condition_known(const struct plan_children *w, const char *type);
/* Sets done, stored and had of all slots, which are zeroed, to what the status and the draft say of
 * the present attempt. */
void plan_stored_recall(struct plan_children *w);
