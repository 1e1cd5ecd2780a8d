/* The run policy: how a job reacts to failed and lost pods, suspension and deadline.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* A pod has failed: the job fails, or its group restarts. */
void op_policy_failed(struct op_outlook *o, const struct op_world *w, const struct op_pod *pod);
/* If a pod was deleted, or its node was lost, while others run, the group restarts; else false. */
bool op_policy_lost(struct op_outlook *o, const struct op_world *w);
/* If an elastic job has more replicas than its pods can grow to, the group restarts; else false. */
bool op_policy_outgrown(struct op_outlook *o, const struct op_world *w);
/* Begins the next attempt, whose pods are created after the backoff, `least` seconds at least,
 * which is returned. */
int64_t op_policy_begin_later(struct op_outlook *o, const struct op_world *w, int64_t least);
void op_policy_suspend(struct op_outlook *o, const struct op_world *w);
/* Fails the job when its deadline has passed. */
void op_policy_deadline(struct op_outlook *o, const struct op_world *w);
/* Stores in a status what must be remembered about restarts, suspension and deadline. */
void op_policy_remember(json_t *status, const struct op_world *w, const struct op_outlook *o);
/* Reads what was remembered about restarts into o. */
void op_policy_recall(struct op_outlook *o, const struct op_world *w);
/* Which pods of a job that ended in this phase and for this reason are deleted: none, those that
 * still run, or all. */
enum op_end { OP_END_NOTHING, OP_END_RUNNING, OP_END_ALL };
enum op_end op_policy_end(const struct op_job *job, enum op_phase phase, const char *reason);
