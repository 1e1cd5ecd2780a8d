/* A decoded PaddleJob: its fields, the names of the objects that it owns, and the problems of its
 * spec.
 *
 * The decoder accepts anything that an API server may return: unknown words, missing parts and
 * wrong types become defaults or problems, never a decoding error.  It knows nothing of requests,
 * plans or time.  A struct op_job is read-only after it was decoded; templates are borrowed
 * references into its JSON. */
#pragma once

#include "common/jdoc.h"
#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>

#define OP_GROUP "batch.paddlepaddle.org"
#define OP_API_VERSION OP_GROUP "/v1"
#define OP_KIND "PaddleJob"

/* Labels and annotations.  All our pods, Services, ConfigMaps and Secrets have OP_LABEL_NAME, which
 * is the selector of all child watches.  Pods and ConfigMaps of upstream's operator have it, too,
 * so its running jobs can be adopted.  Its Services do not: they are found when a create of that
 * name fails, and are labelled then. */
#define OP_LABEL_NAME "paddle-res-name" /* pod: its name; Service: its pod's; others: the job's */
#define OP_LABEL_ROLE "paddle-res-type" /* ps, worker, heter; pods */
#define OP_ANNOTATION_ROLE "paddle-resource" /* the same, as upstream */
#define OP_LABEL_JOB OP_GROUP "/job-name"    /* all of them */
#define OP_LABEL_UID OP_GROUP "/job-uid" /* pods: the job's uid, to delete them as a collection */
#define OP_LABEL_INDEX OP_GROUP "/index" /* pods */
#define OP_LABEL_ATTEMPT OP_GROUP "/attempt" /* pods but those of attempt 0; ConfigMap */
/* ConfigMap: since when its peer lists differ from what running pods have read (plan/stale.h) */
#define OP_ANNOTATION_CHANGED OP_GROUP "/changed"
/* Pods: the names of the template's containers, joined by commas.  Webhooks may add others, before
 * or after them. */
#define OP_ANNOTATION_CONTAINERS OP_GROUP "/containers"
#define OP_SELECTOR OP_LABEL_NAME /* labelSelector of the child watches */
#define OP_FINALIZER                                                                               \
    "finalizers.paddlepaddle.org" /* upstream's: we remove it, and never add it                    \
                                   */
#define OP_GATE_CONTAINER "coord-paddle"
/* spec.managedBy of jobs that we reconcile; absent means the same. */
#define OP_MANAGER OP_GROUP "/paddle-operator"

enum op_role { OP_PS, OP_WORKER, OP_HETER, OP_ROLES, OP_NO_ROLE = OP_ROLES };
enum op_clean {
    OP_CLEAN_DEFAULT,
    OP_CLEAN_ALWAYS,
    OP_CLEAN_NEVER,
    OP_CLEAN_ON_FAILURE,
    OP_CLEAN_ON_COMPLETION,
    OP_CLEAN_RUNNING, /* delete the pods that have not ended, however the job ends */
    OP_CLEAN_OTHER    /* any other word: never clean */
};
enum op_intranet { OP_POD_IP, OP_SERVICE, OP_HOST, OP_DNS };
enum op_mode { OP_MODE_SINGLE, OP_MODE_COLLECTIVE, OP_MODE_PS };
/* Each includes the one before it. */
enum op_peer_auth { OP_PEER_NONE, OP_PEER_TOKEN, OP_PEER_ENCRYPTED, OP_PEER_AUTHS };
extern const char *const op_peer_auths[OP_PEER_AUTHS];
enum op_success { OP_SUCCESS_WORKERS, OP_SUCCESS_ALL, OP_SUCCESS_WORKER_0 };

/* The order is that of the names in op_phase_name. */
enum op_phase {
    OP_PHASE_NONE,        /* no status yet, or an unknown word */
    OP_PHASE_PENDING,     /* some pod waits to be created or scheduled */
    OP_PHASE_STARTING,    /* all pods have a node, some do not run yet */
    OP_PHASE_RUNNING,     /* all pods run */
    OP_PHASE_COMPLETED,   /* ended successfully; final */
    OP_PHASE_FAILED,      /* ended with a failure; final */
    OP_PHASE_TERMINATING, /* the job is being deleted */
    OP_PHASE_RESTARTING,  /* all pods are being replaced, until the new ones run */
    OP_PHASE_SUSPENDED,   /* spec.suspend; it has no pods */
    OP_PHASES
};

/* Why a job cannot be run. */
enum op_problem_code {
    OP_PROBLEM_NAME,       /* not a DNS-1035 label, or its pods' names exceed 63 characters */
    OP_PROBLEM_TYPE,       /* a field of the wrong JSON type */
    OP_PROBLEM_REPLICAS,   /* missing, negative or beyond OP_REPLICAS_MAX */
    OP_PROBLEM_TEMPLATE,   /* no template, or no pod can be created from it */
    OP_PROBLEM_CONTAINERS, /* no containers */
    OP_PROBLEM_ELASTIC,    /* elastic without workers, or requests above limits */
    OP_PROBLEM_SIZE,       /* its spec takes more memory than the operator has for a job */
};

enum {
    OP_NAME_MAX = 63,
    OP_REPLICAS_MAX = 100000,
    OP_PROBLEMS_MAX = 16,
    OP_RULES_MAX = 32,
    OP_ATTEMPT_MAX = 999999998, /* a label's value has nine digits */
    OP_PATH_MAX = 128,          /* bytes of the longest path in a problem, with the NUL */
};

struct op_problem {
    enum op_problem_code code;
    char path[OP_PATH_MAX]; /* dotted: "spec.worker.template.spec.containers" */
    char message[256];      /* what is wrong and what to do; starts with the path */
};

/* What to do about a failed pod: a rule of spec.failurePolicy.  It matches when all of its
 * conditions do. */
enum op_action_on_failure { OP_FAIL, OP_RESTART, OP_IGNORE };
struct op_rule {
    enum op_action_on_failure action;
    enum op_role role;     /* OP_NO_ROLE: any */
    bool any_code;         /* the rule has no exit codes */
    uint64_t codes[4];     /* bit set of 0..255 */
    const json_t *reasons; /* borrowed from op_job.json; NULL: any */
};

struct op_role_spec {
    bool present;
    int32_t replicas;   /* 0 when absent or a problem; for elastic workers within min and max */
    int32_t asked;      /* replicas in the spec */
    int32_t min, max;   /* of elastic workers (requests, limits); -1: none */
    const json_t *tmpl; /* borrowed from op_job.json; NULL when missing or not an object */
    /* The template that the present attempt began with, if it differs and is known; else NULL. */
    const json_t *began;
};

/* What all pods of an attempt must have in common, and a running attempt keeps (api/began.h). */
struct op_shape {
    enum op_intranet intranet;
    enum op_peer_auth peer_auth;
    bool elastic;
    int32_t gloo; /* 0 off (also without servers), 1, 2, … as given */
    int32_t np;   /* largest number of workers requested for an elastic job; else 0 */
};

/* Read-only after it was decoded. */
struct op_job {
    unsigned owners; /* reference count, see op_job_share */
    json_t *json;    /* owned: the whole object */
    /* borrowed from json; never NULL, "" when absent */
    const char *name, *ns, *uid, *resource_version;
    int64_t generation;
    bool deleting;       /* has a deletionTimestamp */
    bool finalizer;      /* it has OP_FINALIZER */
    size_t n_finalizers; /* number of all its finalizers */
    enum op_clean clean;
    enum op_mode mode;
    enum op_success success;
    struct op_shape asked; /* as the spec has it now */
    /* The values that the present attempt began with, or else as asked. */
    enum op_intranet intranet;
    enum op_peer_auth peer_auth;
    bool elastic;
    int32_t gloo;
    int32_t np;
    /* The run policy; absent values have no effect. */
    bool suspend;
    bool elsewhere;          /* spec.managedBy names another controller */
    int64_t deadline;        /* activeDeadlineSeconds; 0: none */
    int32_t ttl;             /* ttlSecondsAfterFinished; -1: none */
    int32_t backoff_limit;   /* -1: absent */
    int32_t node_lost_after; /* seconds; -1: absent */
    struct op_rule *rules;   /* owned */
    size_t n_rules;
    json_t *templates;          /* owned: what role.began points into; or NULL */
    const char *priority_class; /* borrowed; "" when absent */
    struct op_role_spec role[OP_ROLES];
    const json_t *status;        /* borrowed; NULL when none is stored */
    enum op_phase phase;         /* stored */
    int32_t attempt;             /* stored: the number of the present group of pods */
    int64_t created;             /* creationTimestamp, seconds; 0 when unknown */
    struct op_problem *problems; /* owned */
    size_t n_problems;
};

/* Takes `obj_own` even when it fails.  CO_INVALID only if it is not a job at all: not an object, or
 * without metadata.name.  kind and apiVersion are not checked, as items of lists lack them. */
CO_MUST_CHECK int op_job_decode(json_t *obj_own, struct op_job **ret, struct co_err *err);
/* The same for an object's nodes, without annotations, and in bounded memory.  If metadata and spec
 * take more than `most` bytes as a tree, only a part is decoded, and the job's only problem is that
 * it is too large.  CO_INVALID also if the status takes more than half of that. */
CO_MUST_CHECK int op_job_of_nodes(
    const struct co_jnode *nodes, size_t most, struct op_job **ret, struct co_err *err);
/* Drops a reference; the last one frees the job.  NULL allowed. */
void op_job_free(struct op_job *job);
struct op_job *op_job_share(struct op_job *job); /* adds a reference */
CO_DEFINE_CLEANUP(struct op_job *, op_job_free)

/* Writes at most max problems of a job's JSON and returns how many were written; 0 means that the
 * job can be run.  strict: also checks kind and apiVersion (for a user's files). */
size_t op_job_validate(const json_t *obj, bool strict, struct op_problem *ret, size_t max);

/* What a job without problems has none of.  Writes which fields say so, and what follows. */
enum op_lack { OP_LACK_NOTHING, OP_LACK_TRAINERS, OP_LACK_PODS };
enum { OP_LACK_MAX = 240 };
enum op_lack op_job_lack(const struct op_job *job, char *ret, size_t size);

/* Failed pods restart the whole group, as far as the backoff limit allows. */
static inline bool op_job_restarts(const struct op_job *job) {
    return job->backoff_limit >= 0 || job->n_rules > 0;
}

/* Whether a spec.managedBy (or NULL) names another controller. */
bool op_managed_elsewhere(const char *manager);

/* Names of enum constants, and back.  All pure. */
const char *op_role_name(enum op_role role);  /* "ps", "worker", "heter" */
enum op_role op_role_parse(const char *name); /* OP_NO_ROLE when unknown; NULL allowed */
const char *op_mode_name(enum op_mode mode);  /* "PS", "Collective", "Single" */
const char *op_phase_name(enum op_phase phase);
enum op_phase op_phase_parse(const char *name);
const char *op_problem_code_name(enum op_problem_code code);
/* The API server's message refuses a create because the namespace is being deleted. */
bool op_says_namespace_ends(const char *message);
bool op_phase_terminal(enum op_phase phase); /* Completed or Failed */

/* "<job>-<role>-<index>": name of the pod and of its Service.  Cut at size. */
void op_pod_name(const char *job, enum op_role role, int32_t index, char *ret, size_t size);
/* "<job>-token-<uid>": name of the Secret with a job's token; the caller frees it.  The uid cannot
 * be guessed before the job exists, so a Secret of that name was created for this job. */
char *op_token_name(const struct op_job *job);
/* The key in that Secret. */
#define OP_TOKEN_KEY "token"
/* The index for which op_pod_name gives `name`, or -1.  For pods without OP_LABEL_INDEX. */
int32_t op_pod_name_index(const char *job, enum op_role role, const char *name);
