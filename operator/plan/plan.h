/* What to do about a job: (job, what was seen, now, settings) -> actions, status, events, when
 * to look again.
 *
 * The pods of a job are those of its present attempt, a number in its status and a label on each.
 * A restart, and a suspension, is the next number: it is stored first; then, in any order, pods of
 * earlier attempts and their ConfigMap go and those of the present one come where a name is free.
 *
 * Pure: no I/O, clock, globals or threads; the output does not depend on the order of the input.
 * Must not know how requests are made.  The caller sends all actions at once (slow start after a
 * rejection is its business), then writes the status if it differs, then emits events.  A
 * conflict throws the plan away.  Performing any part of a plan, or none, and looking again
 * converges to the same end. */
#pragma once

#include "common/buf.h"
#include "operator/api/child.h"

enum op_kind {
    OP_KIND_JOB,
    OP_KIND_POD,
    OP_KIND_SERVICE,
    OP_KIND_CONFIGMAP,
    OP_KIND_PODGROUP, /* settings.gang says what that is in the cluster */
    OP_KIND_SECRET,   /* with the job's token; made, and never read */
    OP_KINDS
};
enum op_verb {
    OP_CREATE, /* body: the object; the caller puts the token into a Secret */
    OP_DELETE, /* precondition uid; background propagation */
    OP_PATCH,  /* body: a JSON merge patch; metadata.resourceVersion or uid in it is the
                * precondition */
};

struct op_gang;

struct op_settings {
    const char *gate_image;     /* --initImage; "" or NULL: no start gate */
    const char *gate_addr;      /* host:port of the gate endpoint; "" or NULL: no start gate */
    int prefer_family;          /* 0: as the cluster lists them; 4; 6 */
    bool services_all;          /* a Service for every pod in every intranet mode */
    const struct op_gang *gang; /* operator/plan/gang.h; NULL: pods are placed one by one */
    int64_t server_grace;       /* seconds for servers to end once workers are done; 0: at once */
    int64_t restart_backoff;    /* seconds before the first restart of a group */
};
enum { OP_SERVER_GRACE_DEFAULT = 30, OP_RESTART_BACKOFF_DEFAULT = 10 };

/* A create, delete or patch that was rejected: control's memory, kept until it succeeds or the
 * object is not wanted any more. */
struct op_failure {
    enum op_verb verb;
    enum op_kind kind;
    const char *name;
    int code;            /* enum co_code: CO_EXISTS means that the name is taken */
    const char *message; /* the API server's, one line */
    int32_t count;
    int64_t retry_at; /* seconds; not tried before */
};

/* Everything is borrowed.  Children: all whose controlling owner is a PaddleJob of this name in
 * this namespace (whatever the uid), and all others seen under a name that the job needs. */
struct op_seen {
    const struct op_pod *const *pods;
    size_t n_pods;
    const struct op_service *const *services;
    size_t n_services;
    const struct op_configmap *configmap; /* the one named as the job; NULL when absent */
    const struct op_podgroup *podgroup;   /* likewise */
    const struct op_failure *failures;
    size_t n_failures;
    /* Gone since the last look, and had succeeded before they were deleted. */
    const struct op_pod *const *ended;
    size_t n_ended;
    /* Of the last plan's status, when it is not stored yet (op_status_draft); NULL: nothing. */
    const json_t *draft;
    /* The job's Secret was made, or was there, for the pods that are still missing. */
    bool token;
    /* Ports held by other live jobs in Host mode, ascending; looked at only when this one has
     * none yet. */
    const uint16_t *ports_taken;
    size_t n_ports_taken;
    /* The plan stops there, where pods are large earlier; a later look goes on.  0: no bound */
    size_t creates_max;
};

struct op_action {
    enum op_verb verb;
    enum op_kind kind;
    char *name;      /* owned */
    char *uid;       /* owned; precondition of OP_DELETE, else "" */
    json_t *body;    /* owned; NULL for OP_DELETE */
    const char *why; /* static, for logs: "missing", "beyond replicas", "clean", … */
};

struct op_event {
    bool warning;
    bool deed;  /* a request that was done; good news about where the job stands take it in */
    bool state; /* where the job stands: the last to be dropped */
    const char *reason; /* static */
    char *message;      /* owned */
};

struct op_plan {
    struct op_action *actions;
    size_t n_actions;
    json_t *status;      /* owned; complete; for the status subresource */
    bool status_differs; /* it must be written */
    bool status_urgent;  /* ... at once: it has what nobody can find out again */
    /* Pods of a job with a token are missing: op_seen.token stays what it is.  Once all are there,
     * or none is wanted, it is false again, as somebody may delete the Secret. */
    bool lacks_pods;
    enum op_phase phase;
    const struct op_gang *gang; /* as in the settings: what a group is called */
    struct op_event *events;    /* to emit after the status write */
    size_t n_events;
    int64_t wake_at; /* seconds; look again then; 0: not needed */
};

/* CO_INVALID only when the job has no uid or name (never from a server). */
CO_MUST_CHECK int op_plan_compute(const struct op_job *job, const struct op_seen *seen, int64_t now,
    const struct op_settings *settings, struct op_plan *ret, struct co_err *err);
/* What the next plan needs to know of a plan's status if it is not stored by then: the attempt,
 * since when the workers have been done, and of each role completedIndexes, which count in that
 * attempt, and long refs, which are used again while they are true.  NULL: nothing.  The caller
 * owns it. */
json_t *op_status_draft(const json_t *status);
void op_plan_done(struct op_plan *plan); /* zeroes it */
#define OP_AUTOPLAN CO_CLEANUP(op_plan_done)

/* How the actions went, by index: error NULL: done (also a delete answered "not found"). */
struct op_outcome {
    bool tried;
    const char *error;    /* one line */
    const char *warnings; /* of a create that was done, one line; NULL: none */
};

/* Events for performed actions, folded: one a kind and verb and result, e.g. "created Pod x-ps-0",
 * "created 4 Pods: x-ps-0, x-ps-1, x-worker-0, x-worker-1".  The caller frees with
 * op_events_free. */
void op_plan_action_events(const struct op_plan *plan, const struct op_outcome *outcomes,
    struct op_event **ret, size_t *ret_n);
void op_events_free(struct op_event *events, size_t n);
/* A Markdown table of all events, for docs/. */
CO_MUST_CHECK int op_events_markdown(struct co_buf *ret, struct co_err *err);
/* ... of all reasons that status.reason has and Kubernetes has not. */
CO_MUST_CHECK int op_reasons_markdown(struct co_buf *ret, struct co_err *err);

/* The start gate's decision for a pod of this job: true when its containers may start.  False
 * for a pod that is not of this job.  pod_uid NULL: decides for all pods of the job, which is one
 * walk over them as for a single one.  *ret_why (static; NULL allowed) says what it waits for. */
bool op_plan_gate_open(const struct op_job *job, const struct op_seen *seen,
    const struct op_settings *settings, const char *pod_uid, const char **ret_why);

/* Of a pod's addresses, as the cluster lists them ("": none), the one that lists get. */
const char *op_plan_address(const char *const ip[2], int prefer_family);

/* Port of a job without a ConfigMap: from its uid, the next free one when taken. */
uint16_t op_plan_port(const char *uid, const uint16_t *taken, size_t n_taken);

/* The ConfigMap's data when addresses are known (else NULL), and a pod's complete body, for
 * `render` and tests; bodies as op_plan_compute makes them.  The caller owns the result.  Needs
 * a job without problems. */
json_t *op_plan_env(
    const struct op_job *job, const struct op_seen *seen, const struct op_settings *settings);
json_t *op_plan_pod(
    const struct op_job *job, enum op_role role, int32_t index, const struct op_settings *settings);
/* The job's Secret without its token; NULL: it has none. */
json_t *op_plan_secret(const struct op_job *job);
