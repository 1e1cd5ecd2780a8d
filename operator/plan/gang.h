/* Gang scheduling: all pods of a job are placed or none is.
 *
 * Every scheduler that can do it knows a group object and marks on the pods; a row of op_gangs says
 * which.  The planner makes the group (named as the job) before the pods, makes pods when the
 * scheduler has let the group in, and deletes it when the job has ended.  Kueue's row has no body:
 * Kueue makes the object itself, from marks that pods of a job with its queue label always get; it
 * is followed for what it says about a job that waits.  Pure. */
#pragma once

#include "operator/plan/plan.h"

struct op_world;

struct op_gang {
    const char *word; /* of --scheduling */
    const char *group, *version, *plural, *kind;
    const char *scheduler; /* schedulerName of the pods; NULL: as the templates say */
    /* Phases of the group in which pods may be made, up to the first NULL; none: as soon as it
     * exists. */
    const char *open[5];
    /* What the scheduler says of a pod when another pod of its group is the cause, up to the first
     * NULL. */
    const char *mates[5];
    /* What of schedulingPolicy means nothing to it, up to the first NULL. */
    const char *ignores[5];
    bool counts_succeeded; /* a pod that has succeeded is a member for as long as it is there */
    bool fixed;            /* its spec cannot be changed: it is made anew */
    bool optional;         /* without such objects in the cluster pods are placed one by one */
    json_t *(*spec)(const struct op_world *w);
    void (*mark)(const struct op_job *job, enum op_role role, json_t *meta, json_t *spec);
};

static inline const json_t *op_gang_policy(const struct op_job *job) {
    return co_json_at(job->json, "spec", "schedulingPolicy");
}

/* The row of a word; NULL: there is none. */
const struct op_gang *op_gang_find(const char *word);
/* "Pod"; a gang's group is called what it is there.  gang: NULL allowed. */
const char *op_kind_name(enum op_kind kind, const struct op_gang *gang);
/* "volcano, coscheduling, …" for messages and help. */
#define OP_GANG_WORDS "volcano, coscheduling, native, kueue"

/* The gang that the operator forms of this job; NULL: none. */
const struct op_gang *op_gang_of(const struct op_job *job, const struct op_settings *settings);
json_t *op_gang_object(const struct op_world *w);
json_t *op_gang_patch(const struct op_world *w);
/* Marks a pod's metadata (labels and annotations are there) and spec; for Kueue, too. */
void op_gang_mark(const struct op_job *job, enum op_role role, const struct op_settings *settings,
    json_t *meta, json_t *spec);
/* Pods may be made. */
bool op_gang_is_open(const struct op_world *w);
/* Our group does not say what the job asks for now. */
bool op_gang_is_outdated(const struct op_world *w);
/* Writes what of schedulingPolicy comes to nothing, and why; false when all of it is followed. */
bool op_gang_ignores(const struct op_world *w, char *ret, size_t size);
/* What a group that is not open waits for. */
bool op_gang_waits(const struct op_world *w, char *ret, size_t size);
/* The scheduler says of the pod only that its group is not complete: another pod knows why. */
bool op_gang_blames_mates(const struct op_world *w, const struct op_pod *pod);
/* What a group that is not open waits for, of a pod in Kueue's hands. */
bool op_gang_waits_in_queue(
    const struct op_world *w, const struct op_pod *pod, char *ret, size_t size);
