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

/* ---- gang_size.c: of the gang in the settings ------------------------------------------------ */

/* So many pods are placed together: those that are still to end, as far as schedulingPolicy and
 * elastic workers ask for them. */
int64_t op_gang_members(const struct op_world *w);
/* What they need in sum, by name; an object, the caller owns it. */
json_t *op_gang_resources(const struct op_world *w);
/* Some pod needs a place.  If not, a group that is larger than what is left keeps nobody waiting,
 * and to say so at each success would be a request each. */
bool op_gang_size_matters(const struct op_world *w);
