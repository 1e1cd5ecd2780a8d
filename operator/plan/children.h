/* A job's children, sorted into what the spec needs:
 *
 *   slots                 one for each pod in the spec: the pod, its Service, obstacles, failures
 *   old_pods              pods of earlier attempts
 *   stale_*               objects beyond the spec's replicas
 *   *_taken               objects of somebody else that have a name which the job needs
 *
 * Built once for each plan; borrows job and seen.  Pure. */
#pragma once

#include "operator/plan/plan.h"

/* One pod in the spec.  "Ours" means: the controlling owner has the job's uid. */
struct plan_slot {
    enum api_role role;
    int32_t index;
    const struct api_pod *pod;             /* ours, of the present attempt; NULL when missing;
                                            * may be in deletion */
    const struct api_pod *old;             /* ours, of another attempt, or deleted by scaling down:
                                            * it blocks the name */
    const struct api_service *service;     /* ours */
    const struct api_child *pod_taken;     /* somebody else's object with the name */
    const struct api_child *service_taken; /* likewise */
    const struct plan_failure *pod_failure;
    const struct plan_failure *service_failure;
    bool done;   /* a pod of this attempt has succeeded here, and may be gone since */
    bool stored; /* the job's stored status says so */
    /* The present attempt has had a pod here, as the last status says, and the spec has asked for
     * it ever since.  Only of jobs whose group restarts as a whole. */
    bool had;
};

/* A pod that has succeeded counts as succeeded even after it was deleted.  A pod that exits with 0
 * after its deletion began has only reacted to SIGTERM and does not count. */
static inline bool plan_slot_succeeded(const struct plan_slot *s) {
    const struct api_pod *pod = s->pod;
    return pod ? pod->phase == API_POD_SUCCEEDED && (s->done || pod->ended || !pod->c.deleting)
               : s->done;
}

/* The pod has failed.  Where failed pods are the operator's business, one whose container kubelet
 * starts again has, too: pods of such jobs have restartPolicy Never, but for those that were made
 * before the policy was set, and containers with a restartPolicy of their own. */
static inline bool plan_pod_has_failed(const struct api_job *job, const struct api_pod *pod) {
    return pod->phase == API_POD_FAILED || (pod->repeats && api_job_restarts(job));
}

/* Containers of it may run, so it has its node's resources. */
static inline bool plan_pod_holds_node(const struct api_pod *pod) {
    return pod->runs_on || (pod->phase != API_POD_SUCCEEDED && pod->phase != API_POD_FAILED);
}

struct plan_counts {
    int32_t pending, starting, running, failed, succeeded, unknown;
    int32_t lost; /* of the unknown ones, those whose node does not respond */
    int32_t pods; /* ours, including those in deletion */
    int32_t gone; /* have succeeded and do not exist any more */
    int32_t restarts;
};

struct plan_children {
    const struct api_job *job;
    const struct plan_seen *seen;
    const struct plan_settings *settings;
    int64_t now;
    int32_t attempt;         /* the present attempt */
    struct plan_slot *slots; /* owned; by role and index */
    size_t n_slots;
    struct plan_slot *slot[API_ROLES]; /* the role's first one; as many as it has replicas */
    struct plan_counts counts[API_ROLES];
    /* Ours, of another attempt, with any name. */
    const struct api_pod **old_pods;
    size_t n_old_pods;
    /* Ours, but without a slot: beyond replicas, or of a role that was removed. */
    const struct api_pod **stale_pods;
    size_t n_stale_pods;
    const struct api_service **stale_services;
    size_t n_stale_services;
    /* The Service of the whole job, in DNS mode. */
    const struct api_service *service;     /* ours */
    const struct api_child *service_taken; /* somebody else's */
    const struct api_configmap *configmap; /* ours, of the present attempt */
    const struct api_configmap *old_configmap;
    const struct api_child *configmap_taken;        /* somebody else's */
    const struct api_podgroup *podgroup;            /* ours, or a user's */
    const struct api_child *podgroup_taken;         /* somebody else's */
    const struct plan_failure *failure[PLAN_KINDS]; /* of objects that a job has one of */
    bool names_asked; /* a pod of an earlier version waits for the names of Services */
};

#define plan_slots_each(s, w)                                                                      \
    for (const struct plan_slot *s = (w)->slots; s < (w)->slots + (w)->n_slots; s++)

void plan_children_init(struct plan_children *w, const struct api_job *job,
    const struct plan_seen *seen, int64_t now, const struct plan_settings *settings);
void plan_children_done(struct plan_children *w);

/* By role, index and name, so that a plan does not depend on the store's order. */
void plan_pods_sort(const struct api_pod **pods, size_t n);
void plan_services_sort(const struct api_service **services, size_t n);

static inline int32_t plan_job_replicas(const struct api_job *job, enum api_role role) {
    return job->role[role].present ? job->role[role].replicas : 0;
}
static inline int32_t plan_children_replicas(const struct plan_children *w, enum api_role role) {
    return plan_job_replicas(w->job, role);
}

/* The group restarts as a whole when it has lost a pod; elastic ones continue without it. */
static inline bool plan_job_restarts_whole(const struct api_job *job) {
    return api_job_restarts(job) && !job->elastic;
}
/* Each pod needs a Service: in Service mode, with services_all, or for pods of an earlier version,
 * which start only when they find them. */
bool plan_children_wants_services(const struct plan_children *w);
/* A pod in the spec does not exist and has to be created. */
bool plan_children_lacks_pods(const struct plan_children *w);
/* The present attempt has pods, including those that have succeeded and are gone. */
bool plan_children_has_pods(const struct plan_children *w);
/* Some pod has passed the start gate, so it knows the addresses of its peers. */
bool plan_children_has_started(const struct plan_children *w);
/* Pods are addressed by DNS names, which are known before the pods exist. */
bool plan_job_named(const struct api_job *job);
/* The object belongs to a deleted job of the same name and still has to be deleted; the garbage
 * collector may be late, or stuck.  It must be older than this job: if our watch of jobs lags
 * behind that of pods, an owner with another uid may be the job's successor. */
bool plan_children_is_predecessors(const struct plan_children *w, const struct api_child *c);

/* The DNS name of a pod of such a job, for its peers and for itself. */
void plan_job_host(
    const struct api_job *job, enum api_role role, int32_t index, char *ret, size_t size);

/* Writes why the number of workers differs from spec.worker.replicas; false when it does not. */
bool plan_children_bound(const struct plan_children *w, char *ret, size_t size);

/* Writes which words in the spec are unknown, and how they are treated; false when there are none.
 */
bool plan_children_words(const struct plan_children *w, char *ret, size_t size);

/* By the success policy only some pods must succeed; the others are stopped then. */
bool plan_job_some_decide(const struct api_job *job);
/* The texts about that, by success policy. */
struct plan_success_text {
    const char *reason; /* of Succeeded and Completing */
    const char *what;   /* "all workers have succeeded" */
    const char *others; /* "servers" */
};
const struct plan_success_text *plan_children_success_text(const struct plan_children *w);
