/* Gang scheduling: all pods of a job are placed, or none.
 *
 * Each scheduler that supports it has a kind of group object, and marks on the pods that belong to
 * a group; a row of the table describes both.  The planner creates the group, with the job's name,
 * before the pods; it creates the pods when the scheduler has admitted the group, and deletes the
 * group when the job has ended.
 *
 * Kueue is different: it creates the object (a Workload) itself, from marks on the pods of a job
 * with its queue label.  We only watch it, for its messages about jobs that wait.  Pure. */
#pragma once

#include "operator/plan/plan.h"

struct plan_children;

struct plan_gang {
    const char *word; /* the value of --scheduling */
    const char *group, *version, *plural, *kind;
    json_t *(*spec)(const struct plan_children *w); /* of the group; NULL: others make it */
    void (*mark)(const struct api_job *job, enum api_role role, json_t *meta, json_t *spec);
    const char *scheduler; /* schedulerName of the pods; NULL: as in the templates */
    /* Phases of the group in which pods may be created, ended by NULL; none: as soon as it exists.
     */
    const char *open[5];
    /* Parts of scheduler messages about a pod whose group lacks another pod, ended by NULL. */
    const char *mates[5];
    /* Fields of schedulingPolicy that it does not support, ended by NULL. */
    const char *ignores[5];
    bool counts_succeeded; /* a pod that has succeeded is a member as long as it exists */
    bool fixed;            /* its spec is immutable: to change it, it is deleted and recreated */
    bool optional;         /* if the cluster has no such kind, pods are placed one by one */
};

static inline const json_t *plan_gang_policy(const struct api_job *job) {
    return co_json_at(job->json, "spec", "schedulingPolicy");
}

/* The row for a value of --scheduling; NULL: there is none. */
const struct plan_gang *plan_gang_find(const char *word);
/* "Pod", ...; for a group, the gang's kind.  gang: NULL allowed. */
const char *plan_kind_name(enum plan_kind kind, const struct plan_gang *gang);
/* "volcano, coscheduling, …" for messages and help. */
#define PLAN_GANG_WORDS "volcano, coscheduling, native, kueue"

/* The gang for which the operator creates a group for this job; NULL: none. */
const struct plan_gang *plan_gang_of(
    const struct api_job *job, const struct plan_settings *settings);
json_t *plan_gang_object(const struct plan_children *w);
json_t *plan_gang_patch(const struct plan_children *w);
/* Whether Kueue admits its pods as one group. */
bool plan_gang_is_queued(const struct api_job *job);
/* Adds the marks of the gang, and of Kueue, to a pod's metadata (which has labels and annotations)
 * and spec. */
void plan_gang_mark(const struct api_job *job, enum api_role role,
    const struct plan_settings *settings, json_t *meta, json_t *spec);
/* The group is admitted (or there is none), so pods may be created. */
bool plan_gang_is_open(const struct plan_children *w);
/* Our group does not match the job's spec any more. */
bool plan_gang_is_outdated(const struct plan_children *w);
/* Writes which part of schedulingPolicy has no effect, and why; false when all of it has. */
bool plan_gang_ignores(const struct plan_children *w, char *ret, size_t size);
/* Writes what the group waits for; false when it is open. */
bool plan_gang_waits(const struct plan_children *w, char *ret, size_t size);
/* The scheduler only says that the pod's group is incomplete, so the cause is another pod's. */
bool plan_gang_blames_mates(const struct plan_children *w, const struct api_pod *pod);
/* Writes what the job waits for, if the pod is held by Kueue; else false. */
bool plan_gang_waits_in_queue(
    const struct plan_children *w, const struct api_pod *pod, char *ret, size_t size);
