/* A decoded PaddleJob: its fields, the names of the objects that it owns, and the problems of its
 * spec.
 *
 * The decoder accepts anything that an API server may return: unknown words, missing parts and
 * wrong types become defaults or problems, never a decoding error.  It knows nothing of requests,
 * plans or time.  A struct api_job is read-only after it was decoded; templates are borrowed
 * references into its JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json/jdoc.h"
#include "common/json/json.h"

#define API_GROUP "batch.paddlepaddle.org"
#define API_VERSION API_GROUP "/v1"
#define API_KIND "PaddleJob"

/* Labels and annotations.  All our pods, Services, ConfigMaps and Secrets have API_LABEL_NAME,
 * which is the selector of all child watches.  Pods and ConfigMaps of upstream's operator have it,
 * too, so its running jobs can be adopted.  Its Services do not: they are found when a create of
 * that name fails, and are labelled then. */
#define API_LABEL_NAME "paddle-res-name" /* pod: its name; Service: its pod's; else: the job's */
#define API_LABEL_ROLE "paddle-res-type" /* ps, worker, heter; pods */
#define API_ANNOTATION_ROLE "paddle-resource"  /* the same, as upstream */
#define API_LABEL_JOB API_GROUP "/job-name"    /* all of them */
#define API_LABEL_UID API_GROUP "/job-uid"     /* pods: the job's uid, to delete them together */
#define API_LABEL_INDEX API_GROUP "/index"     /* pods */
#define API_LABEL_ATTEMPT API_GROUP "/attempt" /* pods but those of attempt 0; ConfigMap */
/* ConfigMap: since when its peer lists differ from what running pods have read (plan/stale.h) */
#define API_ANNOTATION_CHANGED API_GROUP "/changed"
/* Pods: the names of the template's containers, joined by commas.  Webhooks may add others, before
 * or after them. */
#define API_ANNOTATION_CONTAINERS API_GROUP "/containers"
#define API_SELECTOR API_LABEL_NAME /* labelSelector of the child watches */
#define API_FINALIZER                                                                              \
    "finalizers.paddlepaddle.org" /* upstream's: we remove it, and never add it                    \
                                   */
#define API_GATE_CONTAINER "coord-paddle"
/* spec.managedBy of jobs that we reconcile; absent means the same. */
#define API_MANAGER API_GROUP "/paddle-operator"

enum api_role { API_PS, API_WORKER, API_HETER, API_ROLES, API_NO_ROLE = API_ROLES };
enum api_clean {
    API_CLEAN_DEFAULT,
    API_CLEAN_ALWAYS,
    API_CLEAN_NEVER,
    API_CLEAN_ON_FAILURE,
    API_CLEAN_ON_COMPLETION,
    API_CLEAN_RUNNING, /* delete the pods that have not ended, however the job ends */
    API_CLEAN_OTHER    /* any other word: never clean */
};
enum api_intranet { API_POD_IP, API_SERVICE, API_HOST, API_DNS };
enum api_mode { API_MODE_SINGLE, API_MODE_COLLECTIVE, API_MODE_PS };
/* Each includes the one before it. */
enum api_peer_auth { API_PEER_NONE, API_PEER_TOKEN, API_PEER_ENCRYPTED, API_PEER_AUTHS };
extern const char *const api_peer_auths[API_PEER_AUTHS];
enum api_success { API_SUCCESS_WORKERS, API_SUCCESS_ALL, API_SUCCESS_WORKER_0 };

/* The order is that of the names in api_phase_name. */
enum api_phase {
    API_PHASE_NONE,        /* no status yet, or an unknown word */
    API_PHASE_PENDING,     /* some pod waits to be created or scheduled */
    API_PHASE_STARTING,    /* all pods have a node, some do not run yet */
    API_PHASE_RUNNING,     /* all pods run */
    API_PHASE_COMPLETED,   /* ended successfully; final */
    API_PHASE_FAILED,      /* ended with a failure; final */
    API_PHASE_TERMINATING, /* the job is being deleted */
    API_PHASE_RESTARTING,  /* all pods are being replaced, until the new ones run */
    API_PHASE_SUSPENDED,   /* spec.suspend; it has no pods */
    API_PHASES
};

/* Why a job cannot be run. */
enum api_problem_code {
    API_PROBLEM_NAME,       /* not a DNS-1035 label, or its pods' names exceed 63 characters */
    API_PROBLEM_TYPE,       /* a field of the wrong JSON type */
    API_PROBLEM_REPLICAS,   /* missing, negative or beyond API_REPLICAS_MAX */
    API_PROBLEM_TEMPLATE,   /* no template, or no pod can be created from it */
    API_PROBLEM_CONTAINERS, /* no containers */
    API_PROBLEM_ELASTIC,    /* elastic without workers, or requests above limits */
    API_PROBLEM_SIZE,       /* its spec takes more memory than the operator has for a job */
};

enum {
    API_NAME_MAX = 63,
    API_REPLICAS_MAX = 100000,
    API_PROBLEMS_MAX = 16,
    API_RULES_MAX = 32,
    API_ATTEMPT_MAX = 999999998, /* a label's value has nine digits */
    API_PATH_MAX = 128,          /* bytes of the longest path in a problem, with the NUL */
};

struct api_problem {
    enum api_problem_code code;
    char path[API_PATH_MAX]; /* dotted: "spec.worker.template.spec.containers" */
    char message[256];       /* what is wrong and what to do; starts with the path */
};

/* What to do about a failed pod: a rule of spec.failurePolicy.  It matches when all of its
 * conditions do. */
enum api_action_on_failure { API_FAIL, API_RESTART, API_IGNORE };
struct api_rule {
    enum api_action_on_failure action;
    enum api_role role;    /* API_NO_ROLE: any */
    bool any_code;         /* the rule has no exit codes */
    uint64_t codes[4];     /* bit set of 0..255 */
    const json_t *reasons; /* borrowed from api_job.json; NULL: any */
};

struct api_role_spec {
    bool present;
    int32_t replicas;   /* 0 when absent or a problem; for elastic workers within min and max */
    int32_t asked;      /* replicas in the spec */
    int32_t min, max;   /* of elastic workers (requests, limits); -1: none */
    const json_t *tmpl; /* borrowed from api_job.json; NULL when missing or not an object */
};

/* What all pods of an attempt must have in common, and a running attempt keeps (api/began.h). */
struct api_shape {
    enum api_intranet intranet;
    enum api_peer_auth peer_auth;
    bool elastic;
    int32_t gloo; /* 0 off (also without servers), 1, 2, … as given */
    int32_t np;   /* largest number of workers requested for an elastic job; else 0 */
    bool torch;   /* its pods have torchrun's variables: CO_WHEN_TORCH */
};

/* Read-only after it was decoded. */
struct api_job {
    unsigned owners; /* reference count, see api_job_share */
    json_t *json;    /* owned: the whole object */
    /* borrowed from json; never NULL, "" when absent */
    const char *name, *ns, *uid, *resource_version;
    int64_t generation;
    bool deleting;       /* has a deletionTimestamp */
    bool finalizer;      /* it has API_FINALIZER */
    size_t n_finalizers; /* number of all its finalizers */
    enum api_clean clean;
    enum api_mode mode;
    enum api_success success;
    struct api_shape asked; /* as the spec has it now */
    /* The values that the present attempt began with, or else as asked. */
    enum api_intranet intranet;
    enum api_peer_auth peer_auth;
    bool elastic;
    int32_t gloo;
    int32_t np;
    bool torch;
    /* The run policy; absent values have no effect. */
    bool suspend;
    bool elsewhere;          /* spec.managedBy names another controller */
    int64_t deadline;        /* activeDeadlineSeconds; 0: none */
    int32_t ttl;             /* ttlSecondsAfterFinished; -1: none */
    int32_t backoff_limit;   /* -1: absent */
    int32_t node_lost_after; /* seconds; -1: absent */
    struct api_rule *rules;  /* owned */
    size_t n_rules;
    json_t *templates; /* owned: by role, what an earlier version stored in the status; or NULL */
    const char *priority_class; /* borrowed; "" when absent */
    struct api_role_spec role[API_ROLES];
    const json_t *status;         /* borrowed; NULL when none is stored */
    enum api_phase phase;         /* stored */
    int32_t attempt;              /* stored: the number of the present group of pods */
    int64_t created;              /* creationTimestamp, seconds; 0 when unknown */
    struct api_problem *problems; /* owned */
    size_t n_problems;
};

/* Takes `obj_own` even when it fails.  CO_INVALID only if it is not a job at all: not an object, or
 * without metadata.name.  kind and apiVersion are not checked, as items of lists lack them. */
CO_MUST_CHECK int api_job_decode(json_t *obj_own, struct api_job **ret, struct co_err *err);
/* The same for an object's nodes, without annotations, and in bounded memory.  If metadata and spec
 * take more than `most` bytes as a tree, only a part is decoded, and the job's only problem is that
 * it is too large.  CO_INVALID also if the status takes more than half of that. */
CO_MUST_CHECK int api_job_of_nodes(
    const struct co_jnode *nodes, size_t most, struct api_job **ret, struct co_err *err);
/* Drops a reference; the last one frees the job.  NULL allowed. */
void api_job_free(struct api_job *job);
struct api_job *api_job_share(struct api_job *job); /* adds a reference */
CO_DEFINE_CLEANUP(struct api_job *, api_job_free)

/* Writes at most max problems of a job's JSON and returns how many were written; 0 means that the
 * job can be run.  strict: also checks kind and apiVersion (for a user's files). */
size_t api_job_validate(const json_t *obj, bool strict, struct api_problem *ret, size_t max);
/* Pods can be created from the template, whoever wrote it. */
bool api_job_template_is_good(const json_t *tmpl);

/* What a job without problems has none of.  Writes which fields say so, and what follows. */
enum api_lack { API_LACK_NOTHING, API_LACK_TRAINERS, API_LACK_PODS };
enum { API_LACK_MAX = 240 };
enum api_lack api_job_lack(const struct api_job *job, char *ret, size_t size);

/* Failed pods restart the whole group, as far as the backoff limit allows. */
static inline bool api_job_restarts(const struct api_job *job) {
    return job->backoff_limit >= 0 || job->n_rules > 0;
}

/* Whether a spec.managedBy (or NULL) names another controller. */
bool api_managed_elsewhere(const char *manager);

/* Names of enum constants, and back.  All pure. */
const char *api_role_name(enum api_role role);  /* "ps", "worker", "heter" */
enum api_role api_role_parse(const char *name); /* API_NO_ROLE when unknown; NULL allowed */
const char *api_mode_name(enum api_mode mode);  /* "PS", "Collective", "Single" */
const char *api_phase_name(enum api_phase phase);
enum api_phase api_phase_parse(const char *name);
const char *api_problem_code_name(enum api_problem_code code);
/* The API server's message refuses a create because the namespace is being deleted. */
bool api_says_namespace_ends(const char *message);
bool api_phase_terminal(enum api_phase phase); /* Completed or Failed */

/* "<job>-<role>-<index>": name of the pod and of its Service.  Cut at size. */
void api_pod_name(const char *job, enum api_role role, int32_t index, char *ret, size_t size);
/* "<job>-token-<uid>": name of the Secret with a job's token; the caller frees it.  The uid cannot
 * be guessed before the job exists, so a Secret of that name was created for this job. */
char *api_token_name(const struct api_job *job);
/* The key in that Secret. */
#define API_TOKEN_KEY "token"
/* The index for which api_pod_name gives `name`, or -1.  For pods without API_LABEL_INDEX. */
int32_t api_pod_name_index(const char *job, enum api_role role, const char *name);
