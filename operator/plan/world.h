/* What was seen of a job, put in order: a slot for each pod that the spec asks for, what is beyond
 * that, and what stands in the way.  Built once a plan; borrows job and seen.  Pure. */
#pragma once

#include "operator/plan/plan.h"

/* One pod that the spec asks for. */
struct op_slot {
    const struct op_pod *pod;             /* ours, by uid, of the present attempt; NULL when
                                           * missing; may be dying */
    const struct op_pod *old;             /* ours, of another attempt, or told to go when fewer were
                                           * asked for: holds the name */
    const struct op_service *service;     /* likewise */
    const struct op_child *pod_taken;     /* somebody else's under the name */
    const struct op_child *service_taken; /* likewise */
    const struct op_failure *pod_failure;
    const struct op_failure *service_failure;
    bool done;   /* a pod of this attempt has succeeded here, as was remembered, or is gone since */
    bool stored; /* ... by the job's status */
};

/* A pod that has succeeded stays that when it is deleted: by whom, and how soon, is not the
 * training's affair.  One that ends well only after it was deleted was told to end. */
static inline bool op_slot_succeeded(const struct op_slot *s) {
    const struct op_pod *pod = s->pod;
    return pod ? pod->phase == OP_POD_SUCCEEDED && (s->done || pod->ended || !pod->c.deleting)
               : s->done;
}

struct op_counts {
    int32_t pending, starting, running, failed, succeeded, unknown;
    int32_t pods; /* ours, dying ones included */
    int32_t gone; /* have succeeded and are not there any more */
    int32_t restarts;
};

struct op_world {
    const struct op_job *job;
    const struct op_seen *seen;
    const struct op_settings *settings;
    int64_t now;
    int32_t attempt;                /* the present one */
    struct op_slot *slot[OP_ROLES]; /* replicas of each */
    struct op_counts counts[OP_ROLES];
    /* Ours, of another attempt, whatever their names. */
    const struct op_pod **old_pods;
    size_t n_old_pods;
    /* Ours, but no slot's: beyond replicas, or of a role that was removed. */
    const struct op_pod **stale_pods;
    size_t n_stale_pods;
    const struct op_service **stale_services;
    size_t n_stale_services;
    /* The Service of the whole job, in DNS mode. */
    const struct op_service *service;     /* ours */
    const struct op_child *service_taken; /* somebody else's */
    const struct op_failure *service_failure;
    const struct op_configmap *configmap; /* ours, of the present attempt */
    const struct op_configmap *old_configmap;
    const struct op_child *configmap_taken; /* somebody else's */
    const struct op_failure *configmap_failure;
    const struct op_podgroup *podgroup;    /* ours, or a user's */
    const struct op_child *podgroup_taken; /* somebody else's */
    const struct op_failure *podgroup_failure;
    const struct op_failure *job_failure;
    const struct op_failure *secret_failure;
    bool names_asked; /* by a pod of an earlier version */
};

void op_world_init(struct op_world *w, const struct op_job *job, const struct op_seen *seen,
    int64_t now, const struct op_settings *settings);
void op_world_done(struct op_world *w);

static inline int32_t op_world_replicas(const struct op_world *w, enum op_role role) {
    return w->job->role[role].present ? w->job->role[role].replicas : 0;
}

/* A Service for each pod: in Service mode, when asked for, or for pods of
 * an earlier version that start only when they find them. */
bool op_world_wants_services(const struct op_world *w);
/* A pod that the spec asks for is not there, and is to be made. */
bool op_world_lacks_pods(const struct op_world *w);
/* Pods are addressed by names, which are known before there is any pod. */
bool op_job_named(const struct op_job *job);
/* Of the deleted job of the same name, and still to be deleted: the garbage collector may be late,
 * or stuck.  Only what is older than the job can be: with a view of jobs that lags behind the
 * pods', the owner that differs may be the one to come. */
bool op_world_is_predecessors(const struct op_world *w, const struct op_child *c);

/* Where others reach a pod of such a job; the pod knows itself by the same name. */
void op_job_host(
    const struct op_job *job, enum op_role role, int32_t index, char *ret, size_t size);

/* Writes why other replicas are used than were asked for; false when they are not. */
bool op_world_bound(const struct op_world *w, char *ret, size_t size);

/* Writes which words of the spec mean nothing, and what they are taken for; false when all do. */
enum { OP_WORDS_MAX = 480 };
bool op_world_words(const struct op_world *w, char *ret, size_t size);

/* Some pods decide by their success that the job is done, and the others are stopped. */
bool op_world_some_decide(const struct op_world *w);
/* The sentences about that, by success policy. */
struct op_success_text {
    const char *reason; /* of Succeeded and Completing */
    const char *what;   /* "all workers have succeeded" */
    const char *others; /* "servers" */
};
const struct op_success_text *op_world_success_text(const struct op_world *w);
