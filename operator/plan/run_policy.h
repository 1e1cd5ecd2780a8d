/* The run policy: how a job reacts to failed and lost pods, suspension and deadline.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* A pod has failed: the job fails, or its group restarts. */
void plan_policy_failed(
    struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod);
/* If a pod was deleted, or its node was lost, while others run, the group restarts; else false. */
bool plan_policy_lost(struct plan_assessment *o, const struct plan_children *w);
/* If an elastic job has more replicas than its pods can grow to, the group restarts; else false. */
bool plan_policy_outgrown(struct plan_assessment *o, const struct plan_children *w);
/* Begins the next attempt, whose pods are created after the backoff, `least` seconds at least,
 * which is returned. */
int64_t plan_policy_begin_later(
    struct plan_assessment *o, const struct plan_children *w, int64_t least);
void plan_policy_suspend(struct plan_assessment *o, const struct plan_children *w);
/* Fails the job when its deadline has passed. */
void plan_policy_deadline(struct plan_assessment *o, const struct plan_children *w);
/* Stores in a status what must be remembered about restarts, suspension and deadline. */
void plan_policy_remember(
    json_t *status, const struct plan_children *w, const struct plan_assessment *o);
/* Reads what was remembered about restarts into o. */
void plan_policy_recall(struct plan_assessment *o, const struct plan_children *w);
/* Which pods of a job that ended in this phase and for this reason are deleted: none, those that
 * still run, or all. */
enum plan_end { PLAN_END_NOTHING, PLAN_END_RUNNING, PLAN_END_ALL };
enum plan_end plan_policy_end(const struct api_job *job, enum api_phase phase, const char *reason);
