/* The client of the Kubernetes API: asynchronous requests, multiplexed over few HTTP/2 connections.
 *
 * Requests are queued in classes with limits of their own, so that a burst of creates delays
 * neither status writes nor the lease.  The client knows verbs, paths and Status errors, but no
 * kinds: group, version and plural are parameters.  Owned by the loop's thread; nothing here
 * blocks.  A callback runs exactly once, never inside the call that started the request. */
#pragma once

#include "common/json/json.h"
#include "common/json/proto.h"
#include "common/loop.h"
#include "operator/kube/config.h"
#include "operator/kube/object.h"

/* A resource type.  Static rows of the caller; borrowed. */
struct kube_type {
    const char *group; /* "" is the core group */
    const char *version;
    const char *plural;
    const char *kind; /* may be NULL; not used in paths */
    /* Set: objects are requested in protobuf, and these fields of them are read.  NULL: in JSON,
     * the only format for custom resources. */
    const struct co_proto_message *proto;
};

enum kube_verb {
    KUBE_GET,
    KUBE_LIST,
    KUBE_WATCH,
    KUBE_CREATE,
    KUBE_UPDATE,
    KUBE_PATCH, /* the body is a JSON merge patch */
    KUBE_DELETE,
    KUBE_DELETECOLLECTION,
    KUBE_VERBS,
};
const char *kube_verb_name(enum kube_verb v);   /* "get", ... as in RBAC */
const char *kube_verb_method(enum kube_verb v); /* "GET", ... as in HTTP */

/* Each class has its own limit of requests in flight and queues the rest. */
enum kube_class {
    KUBE_CLASS_WORK,   /* pods, services, configmaps */
    KUBE_CLASS_STATUS, /* status writes */
    KUBE_CLASS_EVENTS, /* events: droppable */
    KUBE_CLASS_LEASE,  /* leader election: never waits for the others */
    KUBE_CLASS_LIST,   /* the lists of watches */
    KUBE_CLASSES,
};

struct kube_reply {
    int status;   /* HTTP status; 0: there was no answer */
    json_t *body; /* parsed; borrowed (json_incref to keep); NULL when none or error */
    const struct co_jnode *nodes; /* instead of body, where the request asked for them; borrowed */
    const char *text;             /* the raw answer, NUL-terminated; never NULL */
    size_t len;                   /* of text */
    const char *reason;           /* Status.reason ("AlreadyExists"); "" when none */
    const char *message;          /* Status.message; "" when none */
    const char *warnings;         /* texts of Warning headers; "" when none */
    int64_t retry_after_ms;       /* Retry-After of the answer; -1: none */
};

/* code: 0 or the enum co_code that the answer translates to; err is set when code is not 0:
 *   400, 413, 422        CO_INVALID
 *   401, 403             CO_PERMISSION
 *   403 for lack of quota or of a service account, a webhook that cannot be called (500), and a
 *     webhook that denies (any status)    CO_NORESOURCE
 *   404                  CO_NOTFOUND
 *   405, 406, 415        CO_UNSUPPORTED
 *   409                  CO_EXISTS (reason AlreadyExists) or CO_CONFLICT
 *   410                  CO_GONE
 *   429, 502, 503, other 5xx, no connection   CO_UNAVAILABLE (a 429 only after the retries of
 *     kube_do)
 *   504, deadline        CO_TIMEOUT
 *   queue full           CO_NORESOURCE
 *   client freed         CO_CANCELED
 *   anything else        CO_INTERNAL
 * After CO_TIMEOUT and CO_UNAVAILABLE without an HTTP status it is unknown whether the server has
 * executed the request. */
typedef void (*kube_done_fn)(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err);

enum { KUBE_PARAMS = 6 };

struct kube_param {
    const char *key; /* NULL ends the list */
    const char *value;
};

/* How a successful answer is parsed.  Of a list in protobuf the items are left out. */
enum kube_answer {
    KUBE_TREE,  /* as jansson's tree, for objects that are changed and sent back */
    KUBE_NODES, /* as read-only nodes (common/json/jdoc.h), which take less; no managedFields */
    KUBE_TEXT,  /* not at all */
};

/* Everything in it is borrowed for the duration of kube_do only. */
struct kube_req {
    enum kube_verb verb;
    enum kube_class class;
    const struct kube_type *type;
    const char *ns;                        /* NULL: all namespaces, or a cluster-scoped object */
    const char *name;                      /* NULL for create, list, deletecollection */
    const char *subresource;               /* "status"; or NULL */
    const char *path;                      /* instead of type to subresource: "/version" */
    struct kube_param params[KUBE_PARAMS]; /* query; escaped here */
    json_t *body;                          /* serialised before kube_do returns; or NULL */
    int64_t deadline_ms;                   /* from now, queueing included; 0: 30 s */
    int64_t silence_ms; /* CO_TIMEOUT after so long without a byte; 0: no such limit */
    uint64_t flow;      /* namespaces in a class are served round-robin, and so are the flows of
                           a namespace: a job with many requests does not starve the others */
    bool metadata_only; /* ask for PartialObjectMetadata instead of whole objects */
    enum kube_answer answer;
    kube_done_fn done; /* NULL: the result is ignored */
    void *arg;
};

/* One sample for each request on the wire; for metrics. */
struct kube_sample {
    enum kube_verb verb;
    const char *resource;    /* plural or path, with "/subresource" apart */
    const char *subresource; /* or NULL */
    int status;              /* HTTP; 0: none */
    int code;                /* enum co_code */
    int64_t ms;              /* from start on the wire to the end */
    int64_t queued_ms;       /* before that */
    size_t sent, received;   /* body bytes */
};

struct kube_client_opts {
    const char *user_agent;       /* NULL: "paddle-operator/<version>" */
    int lane_limit[KUBE_CLASSES]; /* in flight; 0: 64, 16, 8, 2, 4 */
    size_t queue_max;             /* waiting requests a class; 0: 65536 */
    size_t queue_max_bytes;       /* bodies of all requests; 0: 128 MiB */
    size_t reply_max;             /* bytes of one answer; 0: 64 MiB */
    bool json_only;               /* never ask for protobuf */
    int64_t connect_ms;           /* for tests: for a connection at first; 0: 10 s */
    bool at_once;                 /* read bursts without batching: for measurements of latency */
    void (*sample)(void *arg, const struct kube_sample *s); /* or NULL */
    void *sample_arg;
};

struct kube_client;
struct kube_op; /* a request; valid until its callback begins or it is canceled */

/* Takes the config, even on failure.  Connects at the first request.  opts NULL: defaults. */
CO_MUST_CHECK int kube_client_new(struct co_loop *loop, struct kube_config *config_own,
    const struct kube_client_opts *opts, struct kube_client **ret, struct co_err *err);
/* Cancels all requests; their callbacks do not run.  Watches must be freed before.  Not to be
 * called inside a request's callback; inside that of kube_client_drain it is allowed. */
void kube_client_free(struct kube_client *c);
CO_DEFINE_CLEANUP(struct kube_client *, kube_client_free)

/* Starts or queues a request.  Invalid arguments are reported through the callback, too.
 * A 429 lowers the class's concurrency; the request is sent again after Retry-After, as long as its
 * deadline allows.  Lists are not repeated here, as their watch does that.  Lease requests wait for
 * one second at most: they are few, and a late renewal loses the lease. */
struct kube_op *kube_do(struct kube_client *c, const struct kube_req *req);
/* The callback will not run.  The server may execute the request nevertheless.  NULL allowed. */
void kube_cancel(struct kube_op *op);

/* done runs once nothing is queued or in flight, on the next turn at the earliest.  Watches do not
 * count; requests that are made meanwhile do. */
void kube_client_drain(struct kube_client *c, void (*done)(void *arg), void *arg);
size_t kube_client_pending(const struct kube_client *c); /* queued and in flight */
/* Bytes of the bodies of all requests without an answer: most of the memory in a burst. */
size_t kube_client_bytes(const struct kube_client *c);
/* Requests of a namespace in a class that have no answer yet. */
size_t kube_client_pending_of(const struct kube_client *c, enum kube_class class, const char *ns);
/* Frees memory that is kept only to make bursts of requests faster. */
void kube_client_shrink(struct kube_client *c);

/* Fills verb, type, ns, name, done, arg and a class (LIST for lists, else WORK); the rest is
 * zero. */
struct kube_req kube_req_for(enum kube_verb verb, const struct kube_type *type, const char *ns,
    const char *name, kube_done_fn done, void *arg);
