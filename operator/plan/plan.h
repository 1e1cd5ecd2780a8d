/* The planner: what to do about a job.
 *
 *   (job, its children, now, settings) -> actions, status, events, when to reconcile again
 *
 * The pods of a job belong to an attempt, a number in its status and a label on each pod.  A
 * restart or a suspension begins the next attempt: its number is stored first; then, in any order,
 * the pods and the ConfigMap of earlier attempts are deleted, and those of the present one are
 * created where their names are free.
 *
 * Pure: no I/O, clock, globals or threads; the output does not depend on the order of the input. It
 * must not know how requests are made.  The caller sends all actions at once (its slow start after
 * a rejection is its own business), then writes the status if it differs, then emits the events.  A
 * conflict discards the plan.  Executing any part of a plan, or nothing, and planning again always
 * converges to the same end. */
#pragma once

#include "common/buf.h"
#include "operator/api/child.h"

enum plan_kind {
    PLAN_KIND_JOB,
    PLAN_KIND_POD,
    PLAN_KIND_SERVICE,
    PLAN_KIND_CONFIGMAP,
    PLAN_KIND_PODGROUP, /* the gang's group; settings.gang has its API kind */
    PLAN_KIND_SECRET,   /* with the job's token; created, but never read */
    PLAN_KINDS
};
enum plan_verb {
    PLAN_CREATE, /* body: the object; the caller adds the token to a Secret */
    PLAN_DELETE, /* precondition uid; background propagation */
    PLAN_PATCH,  /* body: a JSON merge patch; metadata.resourceVersion or uid in it is the
                  * precondition */
};

struct plan_gang;

struct plan_settings {
    const char *gate_image; /* --initImage; "" or NULL: no start gate */
    const char *gate_addr;  /* host:port of the gate endpoint; "" or NULL: no start gate */
    const char
        *gate_resources; /* request and limit of the gate (api_resources_parse); NULL: none */
    int prefer_family;   /* 0: the cluster's first; 4; 6 */
    bool services_all;   /* create a Service for every pod in every intranet mode */
    const struct plan_gang *gang; /* operator/plan/gang.h; NULL: pods are placed one by one */
    int64_t server_grace;         /* seconds for servers to end after the workers; 0: at once */
    int64_t restart_backoff;      /* seconds before the first restart of a group */
    int64_t give_back_after;      /* seconds until pods without the others are deleted; 0: never */
};
#define PLAN_GATE_RESOURCES "cpu=20m,memory=32Mi"
enum {
    PLAN_SERVER_GRACE_DEFAULT = 30,
    PLAN_RESTART_BACKOFF_DEFAULT = 10,
    PLAN_GIVE_BACK_DEFAULT = 60
};

/* A create, delete or patch that was rejected.  control keeps it until it succeeds or is obsolete.
 */
struct plan_failure {
    enum plan_verb verb;
    enum plan_kind kind;
    const char *name;
    int code;            /* enum co_code: CO_EXISTS means that the name is taken */
    const char *message; /* the API server's, one line */
    int32_t count;
    int64_t retry_at; /* seconds; no retry before */
};

/* What the planner sees; everything is borrowed.  Children: all objects whose controlling owner is
 * a PaddleJob of this name in this namespace, with any uid, and all others that have a name that
 * the job needs. */
struct plan_seen {
    const struct api_pod *const *pods;
    size_t n_pods;
    const struct api_service *const *services;
    size_t n_services;
    const struct api_configmap *configmap; /* the one named as the job; NULL when absent */
    const struct api_podgroup *podgroup;   /* likewise */
    const struct plan_failure *failures;
    size_t n_failures;
    /* Pods that have disappeared since the last plan, and had succeeded before their deletion. */
    const struct api_pod *const *ended;
    size_t n_ended;
    /* plan_status_draft of the last plan's status, if that is not stored yet; NULL: none. */
    const json_t *draft;
    /* The job's Secret exists, for the pods that are still missing. */
    bool token;
    int64_t led_from; /* seconds: since when this process has been the lease holder; 0: unknown */
    bool reported;    /* since then it has emitted a plan's events for this job (transition.h) */
    /* A server has been notified that training is over: it ends by itself, and has twice the time,
     * since the kubelet of a busy node is late to say so and what is deleted loses its log. */
    bool notified;
    /* By role, the templates in the ConfigMap's annotations; NULL: not read.  The caller reads them
     * after a plan with lacks_templates. */
    const json_t *templates;
    /* An older job of the namespace does not run yet; used only if there are failures. */
    bool elder_waits;
    /* Ports of other live jobs in Host mode, ascending; used only if this job has none yet. */
    const uint16_t *ports_taken;
    size_t n_ports_taken;
    /* Most creates in one plan, fewer if pods are large; a later plan continues.  0: no limit. */
    size_t creates_max;
};

struct plan_action {
    enum plan_verb verb;
    enum plan_kind kind;
    char *name;      /* owned */
    char *uid;       /* owned; precondition of PLAN_DELETE, else "" */
    json_t *body;    /* owned; NULL for PLAN_DELETE */
    json_t *inits;   /* owned: init containers of a pod to be created, which outlive the body */
    bool at_once;    /* PLAN_DELETE of a pod: without waiting for its node */
    const char *why; /* static, for logs: "missing", "beyond replicas", "clean", … */
};

struct plan_event {
    bool warning;
    bool deed;    /* it reports requests that were done; may be merged with a state that follows */
    bool state;   /* it reports a new state of the job; dropped last */
    uint8_t kind; /* number of its reason, below PLAN_EVENT_KINDS */
    uint64_t id;  /* not 0: one of this id that exists is the same event; its number otherwise */
    const char *reason; /* static */
    char *message;      /* owned */
};
enum { PLAN_EVENT_KINDS = 64 };

struct plan {
    struct plan_action *actions;
    size_t n_actions;
    json_t *status;      /* owned; complete; for the status subresource */
    bool status_differs; /* it must be written */
    bool status_urgent;  /* at once, because it has facts that cannot be observed again */
    /* Pods of a job with a token are missing, so plan_seen.token keeps its value.  Otherwise the
     * caller sets it to false, because the Secret may be deleted before pods are missing again. */
    bool lacks_pods;
    /* Something waits for plan_seen.templates. */
    bool lacks_templates;
    enum api_phase phase;
    const struct plan_gang *gang; /* as in the settings, for the name of a group's kind */
    struct plan_event *events;    /* to emit after the status write */
    size_t n_events;
    int64_t wake_at; /* seconds: when to reconcile again; 0: no need */
};

/* CO_INVALID only when the job has no uid or name (never from a server). */
CO_MUST_CHECK int plan_compute(const struct api_job *job, const struct plan_seen *seen, int64_t now,
    const struct plan_settings *settings, struct plan *ret, struct co_err *err);
/* What the next plan needs of a plan's status if that is not stored by then: the attempt, the
 * condition Completing, and for each role completedIndexes and createdIndexes, which are valid in
 * that attempt, and long lists of references, which are reused as long as they are correct.  NULL:
 * nothing.  The caller owns it. */
json_t *plan_status_draft(const json_t *status);
void plan_done(struct plan *plan); /* zeroes it */
#define PLAN_AUTOPLAN CO_CLEANUP(plan_done)

/* The result of an action; error NULL: done (a delete that finds nothing is done, too). */
struct plan_outcome {
    bool tried;
    const char *error;    /* one line */
    const char *warnings; /* of a create that was done, one line; NULL: none */
};

/* Events for performed actions, one for each verb, kind and result: "created Pod x-ps-0", "created
 * 4 Pods: x-ps-0, x-ps-1, x-worker-0, x-worker-1".  The caller frees them with plan_events_free. */
void plan_action_events(const struct plan *plan, const struct plan_outcome *outcomes,
    struct plan_event **ret, size_t *ret_n);
void plan_events_free(struct plan_event *events, size_t n);
/* A Markdown table of all events, for docs/. */
CO_MUST_CHECK int plan_events_markdown(struct co_buf *ret, struct co_err *err);
/* The same for all values of status.reason that are not Kubernetes' own. */
CO_MUST_CHECK int plan_reasons_markdown(struct co_buf *ret, struct co_err *err);

/* What to say before the API server's message about a request that it rejected, because the message
 * is about something that the operator has added to the object; static.  NULL: nothing. */
const char *plan_advice(
    const struct api_job *job, const struct plan_action *a, const char *message);

/* The start gate's decision for all pods of the job: true when their containers may start. *ret_why
 * (static; NULL allowed) says what they wait for. */
bool plan_gate_open(const struct api_job *job, const struct plan_seen *seen,
    const struct plan_settings *settings, const char **ret_why);

/* The one of a pod's addresses, in the cluster's order ("": none), that peer lists contain. */
const char *plan_address(const char *const ip[2], int prefer_family);

/* The port of a job without a ConfigMap: derived from its uid, or the next free one. */
uint16_t plan_port(const char *uid, const uint16_t *taken, size_t n_taken);

/* For `render` and tests: the ConfigMap's data as in plan_compute, NULL if addresses are unknown.
 * The caller owns the result.  The job must have no problems. */
json_t *plan_env(
    const struct api_job *job, const struct plan_seen *seen, const struct plan_settings *settings);
/* The job's Secret without the token; NULL: the job has none. */
json_t *plan_secret(const struct api_job *job);
