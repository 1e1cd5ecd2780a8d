/* A job's children, sorted into what the spec needs:
 *
 *   slot[role][index]     one for each pod in the spec: the pod, its Service, obstacles, failures
 *   old_pods              pods of earlier attempts
 *   stale_*               objects beyond the spec's replicas
 *   *_taken               objects of somebody else that have a name which the job needs
 *
 * Built once for each plan; borrows job and seen.  Pure. */
#pragma once

#include "operator/plan/plan.h"

/* One pod in the spec.  "Ours" means: the controlling owner has the job's uid. */
struct op_slot {
    const struct op_pod *pod;             /* ours, of the present attempt; NULL when missing;
                                           * may be in deletion */
    const struct op_pod *old;             /* ours, of another attempt, or deleted by scaling down:
                                           * it blocks the name */
    const struct op_service *service;     /* ours */
    const struct op_child *pod_taken;     /* somebody else's object with the name */
    const struct op_child *service_taken; /* likewise */
    const struct op_failure *pod_failure;
    const struct op_failure *service_failure;
    bool done;   /* a pod of this attempt has succeeded here, and may be gone since */
    bool stored; /* the job's stored status says so */
};

/* A pod that has succeeded counts as succeeded even after it was deleted.  A pod that exits with 0
 * after its deletion began has only reacted to SIGTERM and does not count. */
static inline bool op_slot_succeeded(const struct op_slot *s) {
    const struct op_pod *pod = s->pod;
    return pod ? pod->phase == OP_POD_SUCCEEDED && (s->done || pod->ended || !pod->c.deleting)
               : s->done;
}

/* The pod has failed.  Where failed pods are the operator's business, one whose container kubelet
 * starts again has, too: pods of such jobs have restartPolicy Never, but for those that were made
 * before the policy was set, and containers with a restartPolicy of their own. */
static inline bool op_pod_has_failed(const struct op_job *job, const struct op_pod *pod) {
    return pod->phase == OP_POD_FAILED || (pod->repeats && op_job_restarts(job));
}

/* Containers of it may run, so it has its node's resources. */
static inline bool op_pod_holds_node(const struct op_pod *pod) {
    return pod->runs_on || (pod->phase != OP_POD_SUCCEEDED && pod->phase != OP_POD_FAILED);
}

struct op_counts {
    int32_t pending, starting, running, failed, succeeded, unknown;
    int32_t lost; /* of the unknown ones, those whose node does not respond */
    int32_t pods; /* ours, including those in deletion */
    int32_t gone; /* have succeeded and do not exist any more */
    int32_t restarts;
};

struct op_world {
    const struct op_job *job;
    const struct op_seen *seen;
    const struct op_settings *settings;
    int64_t now;
    int32_t attempt;                /* the present attempt */
    struct op_slot *slot[OP_ROLES]; /* owned; as many as the role has replicas */
    struct op_counts counts[OP_ROLES];
    /* Ours, of another attempt, with any name. */
    const struct op_pod **old_pods;
    size_t n_old_pods;
    /* Ours, but without a slot: beyond replicas, or of a role that was removed. */
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
    bool names_asked; /* a pod of an earlier version waits for the names of Services */
};

void op_world_init(struct op_world *w, const struct op_job *job, const struct op_seen *seen,
    int64_t now, const struct op_settings *settings);
void op_world_done(struct op_world *w);

static inline int32_t op_job_replicas(const struct op_job *job, enum op_role role) {
    return job->role[role].present ? job->role[role].replicas : 0;
}
static inline int32_t op_world_replicas(const struct op_world *w, enum op_role role) {
    return op_job_replicas(w->job, role);
}

/* Each pod needs a Service: in Service mode, with services_all, or for pods of an earlier version,
 * which start only when they find them. */
bool op_world_wants_services(const struct op_world *w);
/* A pod in the spec does not exist and has to be created. */
bool op_world_lacks_pods(const struct op_world *w);
/* The present attempt has pods, including those that have succeeded and are gone. */
bool op_world_has_pods(const struct op_world *w);
/* Some pod has passed the start gate, so it knows the addresses of its peers. */
bool op_world_has_started(const struct op_world *w);
/* The template for the role's pods: once some have started, the one that the attempt began with. */
const json_t *op_world_template(const struct op_world *w, enum op_role role);
/* Pods are addressed by DNS names, which are known before the pods exist. */
bool op_job_named(const struct op_job *job);
/* The object belongs to a deleted job of the same name and still has to be deleted; the garbage
 * collector may be late, or stuck.  It must be older than this job: if our watch of jobs lags
 * behind that of pods, an owner with another uid may be the job's successor. */
bool op_world_is_predecessors(const struct op_world *w, const struct op_child *c);

/* The DNS name of a pod of such a job, for its peers and for itself. */
void op_job_host(
    const struct op_job *job, enum op_role role, int32_t index, char *ret, size_t size);

/* Writes why the number of workers differs from spec.worker.replicas; false when it does not. */
bool op_world_bound(const struct op_world *w, char *ret, size_t size);

/* Writes which words in the spec are unknown, and how they are treated; false when there are none.
 */
enum { OP_WORDS_MAX = 480 };
bool op_world_words(const struct op_world *w, char *ret, size_t size);

/* Writes which fields of the spec differ from what the present attempt began with, and what to do;
 * false when none does. */
enum { OP_CHANGED_MAX = 448 };
bool op_world_changed(const struct op_world *w, char *ret, size_t size);

/* By the success policy only some pods must succeed; the others are stopped then. */
bool op_job_some_decide(const struct op_job *job);
/* The texts about that, by success policy. */
struct op_success_text {
    const char *reason; /* of Succeeded and Completing */
    const char *what;   /* "all workers have succeeded" */
    const char *others; /* "servers" */
};
const struct op_success_text *op_world_success_text(const struct op_world *w);
