/* What a PaddleJob is: its JSON decoded into a struct, names of what it owns, and what is wrong
 * with it.
 *
 * Decoding takes anything an API server may hand out: odd strings, missing parts and wrong types
 * become values or problems, never a failure to decode.  Knows nothing of requests, plans or
 * time.  A struct op_job is owned by whoever decoded it and is read-only afterwards; templates
 * are borrowed references into its JSON. */
#pragma once

#include "common/jdoc.h"
#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>

#define OP_GROUP "batch.paddlepaddle.org"
#define OP_API_VERSION OP_GROUP "/v1"
#define OP_KIND "PaddleJob"

/* Labels and annotations.  Every pod, Service, ConfigMap and Secret of ours carries OP_LABEL_NAME,
 * which is therefore the selector of all child watches (upstream's pods and ConfigMaps carry it,
 * too, so a running job is taken over; its Services do not, are found by name when one is to be
 * made, and get it then). */
#define OP_LABEL_NAME "paddle-res-name" /* pod: its name; Service: its pod's; others: the job's */
#define OP_LABEL_ROLE "paddle-res-type" /* ps, worker, heter; pods */
#define OP_ANNOTATION_ROLE "paddle-resource" /* the same, as upstream */
#define OP_LABEL_JOB OP_GROUP "/job-name"    /* all of them */
#define OP_LABEL_UID OP_GROUP "/job-uid"     /* pods: the job's; they are deleted together by it */
#define OP_LABEL_INDEX OP_GROUP "/index"     /* pods */
#define OP_LABEL_ATTEMPT OP_GROUP "/attempt" /* pods but those of attempt 0; ConfigMap */
#define OP_SELECTOR OP_LABEL_NAME            /* labelSelector of the child watches */
#define OP_FINALIZER "finalizers.paddlepaddle.org" /* upstream's: removed, never added */
#define OP_GATE_CONTAINER "coord-paddle"
/* spec.managedBy of our jobs; absent means the same. */
#define OP_MANAGER OP_GROUP "/paddle-operator"

enum op_role { OP_PS, OP_WORKER, OP_HETER, OP_ROLES, OP_NO_ROLE = OP_ROLES };
enum op_clean {
    OP_CLEAN_DEFAULT,
    OP_CLEAN_ALWAYS,
    OP_CLEAN_NEVER,
    OP_CLEAN_ON_FAILURE,
    OP_CLEAN_ON_COMPLETION,
    OP_CLEAN_OTHER /* any other word: never clean */
};
enum op_intranet { OP_POD_IP, OP_SERVICE, OP_HOST, OP_DNS };
enum op_mode { OP_MODE_SINGLE, OP_MODE_COLLECTIVE, OP_MODE_PS };
enum op_peer_auth { OP_PEER_NONE, OP_PEER_TOKEN };
enum op_success { OP_SUCCESS_WORKERS, OP_SUCCESS_ALL, OP_SUCCESS_WORKER_0 };

/* The order is that of the names in op_phase_name. */
enum op_phase {
    OP_PHASE_NONE, /* nothing stored yet, or a word that was never written */
    OP_PHASE_PENDING,
    OP_PHASE_STARTING,
    OP_PHASE_RUNNING,
    OP_PHASE_COMPLETED,
    OP_PHASE_FAILED,
    OP_PHASE_TERMINATING,
    OP_PHASE_RESTARTING, /* all pods anew, until they run */
    OP_PHASE_SUSPENDED,
    OP_PHASES
};

/* What makes a job impossible to carry out. */
enum op_problem_code {
    OP_PROBLEM_NAME,       /* not a DNS-1035 label, or its pods' names exceed 63 characters */
    OP_PROBLEM_TYPE,       /* a field of the wrong JSON type */
    OP_PROBLEM_REPLICAS,   /* missing, negative or beyond OP_REPLICAS_MAX */
    OP_PROBLEM_TEMPLATE,   /* no template, or none that a pod can be made of */
    OP_PROBLEM_CONTAINERS, /* no containers */
    OP_PROBLEM_ELASTIC,    /* elastic without workers, or bounds that nothing is within */
    OP_PROBLEM_SIZE,       /* its spec takes more memory than there is for one */
};

enum {
    OP_NAME_MAX = 63,
    OP_REPLICAS_MAX = 100000,
    OP_PROBLEMS_MAX = 16,
    OP_RULES_MAX = 32,
    OP_ATTEMPT_MAX = 999999998, /* a label's value has nine digits */
    OP_PATH_MAX = 128,          /* of the longest field that is named, with its end */
};

struct op_problem {
    enum op_problem_code code;
    char path[OP_PATH_MAX]; /* dotted: "spec.worker.template.spec.containers" */
    char message[256];      /* what is wrong and what to do; starts with the path */
};

/* What a failed pod means: a row of spec.failurePolicy.  A row fits when all that it names does. */
enum op_action_on_failure { OP_FAIL, OP_RESTART, OP_IGNORE };
struct op_rule {
    enum op_action_on_failure action;
    enum op_role role;     /* OP_NO_ROLE: any */
    bool any_code;         /* no exit codes are given */
    uint64_t codes[4];     /* bit set of 0..255 */
    const json_t *reasons; /* borrowed from op_job.json; NULL: any */
};

struct op_role_spec {
    bool present;
    int32_t replicas;   /* 0 when absent or a problem; of elastic workers within their bounds */
    int32_t asked;      /* as the spec has it */
    int32_t min, max;   /* bounds of elastic workers (requests, limits); -1: none */
    const json_t *tmpl; /* borrowed from op_job.json; NULL when missing or no object */
};

/* Not written to after it was decoded. */
struct op_job {
    unsigned owners; /* op_job_share */
    json_t *json;    /* owned: the whole object */
    /* borrowed from json; never NULL, "" when absent */
    const char *name, *ns, *uid, *resource_version;
    int64_t generation;
    bool deleting;       /* has a deletionTimestamp */
    bool finalizer;      /* OP_FINALIZER is there */
    size_t n_finalizers; /* all of them */
    enum op_clean clean;
    enum op_intranet intranet;
    enum op_mode mode;
    enum op_success success;
    enum op_peer_auth peer_auth;
    bool elastic;
    /* The run policy; absent values leave everything as it is without it. */
    bool suspend;
    bool elsewhere;        /* spec.managedBy names another controller */
    int64_t deadline;      /* activeDeadlineSeconds; 0: none */
    int32_t ttl;           /* ttlSecondsAfterFinished; -1: none */
    int32_t backoff_limit; /* -1: absent */
    struct op_rule *rules; /* owned */
    size_t n_rules;
    const char *priority_class; /* borrowed; "" when absent */
    int32_t gloo;               /* 0 off (also without servers), 1, 2, … as given */
    struct op_role_spec role[OP_ROLES];
    const json_t *status;        /* borrowed; NULL when none is stored */
    enum op_phase phase;         /* stored */
    int32_t attempt;             /* stored: the number of the present group of pods */
    int64_t created;             /* creationTimestamp, seconds; 0 when unknown */
    struct op_problem *problems; /* owned */
    size_t n_problems;
};

/* Takes `obj_own` even when it fails.  CO_INVALID only for what is no job at all: not an
 * object, no metadata.name.  kind and apiVersion are not looked at (watch items lack neither,
 * list items both). */
CO_MUST_CHECK int op_job_decode(json_t *obj_own, struct op_job **ret, struct co_err *err);
/* The same of an object's nodes, without its annotations, and in bounded memory: of a job whose
 * metadata and spec take more than `most` bytes as a tree only a part is decoded, and that it is
 * too large is its one problem.  CO_INVALID also for a status that takes more than half of that. */
CO_MUST_CHECK int op_job_of_nodes(
    const struct co_jnode *nodes, size_t most, struct op_job **ret, struct co_err *err);
/* One owner less; the last one's call frees.  NULL allowed. */
void op_job_free(struct op_job *job);
struct op_job *op_job_share(struct op_job *job); /* one owner more */
CO_DEFINE_CLEANUP(struct op_job *, op_job_free)

/* Writes at most max problems of a job's JSON, in order of the document, and returns how many
 * were written; 0 means that the job can be carried out.  Also checks kind and apiVersion when
 * strict (files given by a user). */
size_t op_job_validate(const json_t *obj, bool strict, struct op_problem *ret, size_t max);

/* Pods that fail restart the group, as far as the limit allows. */
static inline bool op_job_restarts(const struct op_job *job) {
    return job->backoff_limit >= 0 || job->n_rules > 0;
}

/* This spec.managedBy (or NULL) names another controller. */
bool op_managed_elsewhere(const char *manager);

/* Names of things, and back.  All pure. */
const char *op_role_name(enum op_role role);  /* "ps", "worker", "heter" */
enum op_role op_role_parse(const char *name); /* OP_NO_ROLE when it is none; NULL allowed */
const char *op_mode_name(enum op_mode mode);  /* "PS", "Collective", "Single" */
const char *op_phase_name(enum op_phase phase);
enum op_phase op_phase_parse(const char *name);
const char *op_problem_code_name(enum op_problem_code code);
bool op_phase_terminal(enum op_phase phase); /* Completed or Failed */

/* "<job>-<role>-<index>": name of the pod and of its Service.  Cut off at size. */
void op_pod_name(const char *job, enum op_role role, int32_t index, char *ret, size_t size);
/* "<job>-token-<uid>": name of the Secret with a job's token; the caller frees.  Nobody knows it
 * before the job is there, so that what is found under it was made for this job. */
char *op_token_name(const struct op_job *job);
/* Its key. */
#define OP_TOKEN_KEY "token"
/* The index for which op_pod_name gives `name`, or -1.  For pods without OP_LABEL_INDEX. */
int32_t op_pod_name_index(const char *job, enum op_role role, const char *name);
