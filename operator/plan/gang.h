/* Gang scheduling: all pods of a job are placed or none is.
 *
 * Every scheduler that can do it knows a group object and marks on the pods; a row of op_gangs says
 * which.  The planner makes the group (named as the job) before the pods, makes pods when the
 * scheduler has let the group in, and deletes it when the job has ended.  Kueue's row has no body:
 * Kueue makes the object itself, from marks that pods of a job with its queue label always get; it
 * is followed for what it says about a job that waits.  Pure. */
#pragma once

#include "operator/plan/plan.h"

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
    bool fixed;    /* its spec cannot be changed: it is made anew */
    bool optional; /* without such objects in the cluster pods are placed one by one */
    json_t *(*spec)(const struct op_job *job);
    void (*mark)(const struct op_job *job, enum op_role role, json_t *meta, json_t *spec);
};

/* The row of a word; NULL: there is none. */
const struct op_gang *op_gang_find(const char *word);
/* "Pod"; a gang's group is called what it is there.  gang: NULL allowed. */
const char *op_kind_name(enum op_kind kind, const struct op_gang *gang);
/* "volcano, coscheduling, …" for messages and help. */
#define OP_GANG_WORDS "volcano, coscheduling, native, kueue"
