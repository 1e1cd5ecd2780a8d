/* What was seen of a job, put in order: a slot for each pod that the spec asks for, what is beyond
 * that, and what stands in the way.  Built once a plan; borrows job and seen.  Pure. */
#pragma once

#include "operator/plan/gang.h"

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

/* ---- env.c: addresses and the ConfigMap -------------------------------------------------- */

/* Data of the ConfigMap, NULL while an address is missing.  The caller owns it. */
json_t *op_env_data(const struct op_world *w);
/* True when the ConfigMap says what it should.  One that an earlier version made is right while its
 * addresses are: the containers of that job have read the rest of it, and those that start again
 * must read the same. */
bool op_env_published(const struct op_world *w, const json_t *env);
/* Every pod that is asked for is there, not dying, and has an address. */
bool op_env_addressed(const struct op_world *w);
/* Appends the direct variables to a container's env list. */
void op_env_direct(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, json_t *env);
/* The list ends in those of another pod of the role: now they are this one's. */
void op_env_direct_again(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, json_t *env);

/* ---- objects.c: bodies ------------------------------------------------------------------- */

json_t *op_object_pod(
    const struct op_job *job, enum op_role role, int32_t index, const struct op_settings *settings);
/* The same from that of another index: what does not tell the index is shared between them. */
json_t *op_object_pod_like(const json_t *like, const struct op_job *job, enum op_role role,
    int32_t index, const struct op_settings *settings);
/* What a pod's body takes in memory, roughly. */
size_t op_object_pod_bytes(const struct op_job *job, enum op_role role);
json_t *op_object_service(const struct op_job *job, const char *name);
/* The one Service of a job in DNS mode; selects all pods of the job. */
json_t *op_object_job_service(const struct op_job *job);
/* An object of ours without a spec: v1, kind, metadata with owner and labels. */
json_t *op_object_new(
    const struct op_job *job, const char *kind, const char *name, json_t *meta_own);
json_t *op_object_service_patch(const struct op_job *job, const struct op_service *have);
json_t *op_object_configmap(const struct op_job *job, json_t *data_own);
json_t *op_object_configmap_patch(const struct op_configmap *have, json_t *data_own);
json_t *op_object_finalizer_patch(const struct op_job *job);

/* ---- gang.c ------------------------------------------------------------------------------ */

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

/* ---- status.c ---------------------------------------------------------------------------- */

/* What the pods say about the job as a whole. */
struct op_outlook {
    enum op_phase phase;
    int32_t attempt; /* other than the stored one: nothing is done before it is stored */
    bool completing; /* those that decide are done, the others have their grace period */
    bool all_created;
    bool restarting;    /* and not Running again yet */
    int64_t hold_until; /* no pods are created before; 0: none is held back */
    int64_t due;        /* since then there should be pods of a later attempt; 0: of the first */
    int64_t wake_at;    /* something is due then; 0: nothing */
    /* What the status is to say of restarts. */
    int32_t restarts;
    int64_t restart_time, backoff; /* 0: there was none */
    /* Why the job is not running or has failed; "" when there is nothing to say. */
    const char *reason;
    char message[640];
    bool blocked; /* the reason keeps objects from being created */
};

static inline void op_outlook_wake(struct op_outlook *o, int64_t at) {
    if (at > 0 && (o->wake_at == 0 || at < o->wake_at)) {
        o->wake_at = at;
    }
}

void op_outlook_init(struct op_outlook *o, const struct op_world *w, const json_t *env);
/* A pod that has succeeded goes or is gone, and the job's status does not say yet that it has. */
bool op_status_is_urgent(const struct op_world *w);
/* The replicas that were asked for when the status was stored; 0: it does not say. */
int32_t op_status_wanted(const struct op_job *job, enum op_role role);
/* The complete status; *ret_differs: something a user sees is not as stored. */
json_t *op_status_make(const struct op_world *w, const struct op_outlook *o, bool *ret_differs);

/* ---- conditions.c ------------------------------------------------------------------------ */

json_t *op_conditions_make(const struct op_world *w, const struct op_outlook *o);
/* A stored condition, NULL when absent. */
const json_t *op_condition_stored(const struct op_job *job, const char *type);
bool op_condition_true(const struct op_job *job, const char *type);
/* As in the status that waits to be written, else as stored. */
const json_t *op_condition_known(const struct op_world *w, const char *type);
/* Of those of a status, what op_status_draft keeps; NULL: nothing.  The caller owns it. */
json_t *op_conditions_draft(const json_t *status);

/* ---- reason.c ---------------------------------------------------------------------------- */

/* Fills reason, message and blocked of o, where nothing has been said yet. */
void op_reason_find(struct op_outlook *o, const struct op_world *w, const json_t *env);
/* Why a pod failed: the sentence, and the word, which is borrowed. */
const char *op_reason_of_pod(const struct op_pod *pod, char *ret_text, size_t size);

/* ---- reason_table.c ---------------------------------------------------------------------- */

/* Sets reason and message.  The reason is one of the table. */
void CO_PRINTF(3, 4) op_reason_say(struct op_outlook *o, const char *reason, const char *fmt, ...);
/* ... or a word of Kubernetes, or of the stored status. */
void CO_PRINTF(3, 4)
    op_reason_quote(struct op_outlook *o, const char *reason, const char *fmt, ...);

/* ---- policy.c ---------------------------------------------------------------------------- */

/* What a failed pod means: the job fails or its group is restarted. */
void op_policy_failed(struct op_outlook *o, const struct op_world *w, const struct op_pod *pod);
/* A pod of the group was taken away while others run: a restart; else false. */
bool op_policy_lost(struct op_outlook *o, const struct op_world *w);
void op_policy_suspend(struct op_outlook *o, const struct op_world *w);
/* The job takes longer than it may: it fails. */
void op_policy_deadline(struct op_outlook *o, const struct op_world *w);
/* Puts into a status what restarts, suspension and deadline need to be remembered. */
void op_policy_remember(json_t *status, const struct op_world *w, const struct op_outlook *o);
/* Reads what was remembered of restarts into o. */
void op_policy_recall(struct op_outlook *o, const struct op_world *w);
/* A job whose pods still run though nobody waits for them any more. */
bool op_policy_stops_rest(const struct op_job *job);

/* ---- events.c ---------------------------------------------------------------------------- */

void op_events_phase(struct op_plan *plan, const struct op_world *w, const struct op_outlook *o);
