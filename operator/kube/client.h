/* Requests to the Kubernetes API: asynchronous, multiplexed over few HTTP/2 connections, in
 * lanes with budgets of their own, so that a burst of creates delays neither status nor lease.
 *
 * Knows verbs, paths and Status errors; knows no kind: group, version and plural are
 * parameters.  Owned by the loop's thread; nothing here blocks.  A callback runs exactly once,
 * never inside the call that started the request. */
#pragma once

#include "common/json.h"
#include "common/loop.h"
#include "common/proto.h"
#include "operator/kube/config.h"
#include "operator/kube/object.h"

/* What a request is about.  Static rows of the caller; borrowed. */
struct op_kube_type {
    const char *group; /* "" is the core group */
    const char *version;
    const char *plural;
    const char *kind; /* may be NULL; not used in paths */
    /* Asked for in protobuf, of which these fields are read; NULL: in JSON, as are custom
     * resources, which API servers have in nothing else. */
    const struct co_proto_message *proto;
};

enum op_kube_verb {
    OP_KUBE_GET,
    OP_KUBE_LIST,
    OP_KUBE_WATCH,
    OP_KUBE_CREATE,
    OP_KUBE_UPDATE,
    OP_KUBE_PATCH, /* the body is a JSON merge patch */
    OP_KUBE_DELETE,
    OP_KUBE_DELETECOLLECTION,
    OP_KUBE_VERBS,
};
const char *op_kube_verb_name(enum op_kube_verb v); /* "get", ... as in RBAC */

/* Budgets apart from each other: a lane has so many requests in flight and queues the rest. */
enum op_kube_lane {
    OP_KUBE_LANE_WORK,   /* pods, services, configmaps */
    OP_KUBE_LANE_STATUS, /* status writes */
    OP_KUBE_LANE_EVENTS, /* events: droppable */
    OP_KUBE_LANE_LEASE,  /* leader election: never waits for the others */
    OP_KUBE_LANE_LIST,   /* lists of watches */
    OP_KUBE_LANES,
};

struct op_kube_reply {
    int status;   /* HTTP status; 0: there was no answer */
    json_t *body; /* parsed; borrowed (json_incref to keep); NULL when none or error */
    const struct co_jnode *nodes; /* instead of body, where the request asked for them; borrowed */
    const char *text;             /* the answer as it came, NUL-terminated; never NULL */
    size_t len;                   /* of text */
    const char *reason;           /* Status.reason ("AlreadyExists"); "" when none */
    const char *message;          /* Status.message, the API server's own words; "" when none */
    const char *warnings;         /* what it says though it did as asked; "" when none */
    int64_t retry_after_ms;       /* what the server asked for; -1: nothing */
};

/* code: 0 or the enum co_code that the answer translates to; err is set when code is not 0:
 *   400, 422 CO_INVALID; 401 CO_PERMISSION; 403 CO_PERMISSION, but CO_NORESOURCE for what a
 *   namespace lacks now (quota, service account), for a webhook that cannot be called (500) and for
 *   one that says no (whatever the status);
 *   404 CO_NOTFOUND; 405, 406, 415 CO_UNSUPPORTED; 409 CO_EXISTS (AlreadyExists) or CO_CONFLICT;
 *   410 CO_GONE; 413 CO_INVALID; 429, other 500s, 502, 503 CO_UNAVAILABLE (a 429 only when
 *   op_kube_do's patience ends); 504, deadline CO_TIMEOUT; no connection CO_UNAVAILABLE; queue full
 *   CO_NORESOURCE; client freed CO_CANCELED; anything else CO_INTERNAL. CO_TIMEOUT and
 *   CO_UNAVAILABLE without an HTTP status leave open whether the server acted. */
typedef void (*op_kube_done_fn)(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err);

enum { OP_KUBE_PARAMS = 6 };

struct op_kube_param {
    const char *key; /* NULL ends the list */
    const char *value;
};

/* How a good answer is read: a list in protobuf without its items. */
enum op_kube_answer {
    OP_KUBE_TREE,  /* for what is changed and sent back */
    OP_KUBE_NODES, /* for all else; managedFields are left out */
    OP_KUBE_TEXT,  /* not at all */
};

/* Everything in it is borrowed for the duration of op_kube_do only. */
struct op_kube_req {
    enum op_kube_verb verb;
    enum op_kube_lane lane;
    const struct op_kube_type *type;
    const char *ns;          /* NULL: all namespaces, or a cluster-scoped object */
    const char *name;        /* NULL for create, list, deletecollection */
    const char *subresource; /* "status"; or NULL */
    const char *path;        /* instead of type to subresource: "/version" */
    struct op_kube_param params[OP_KUBE_PARAMS]; /* query; escaped here */
    json_t *body;                                /* serialised before op_kube_do returns; or NULL */
    int64_t deadline_ms;                         /* from now, queueing included; 0: 30 s */
    int64_t silence_ms; /* CO_TIMEOUT when not a byte came for so long; 0: no matter */
    uint64_t flow;      /* the namespaces in a lane are served in turn, and within each its
                           flows: a job with many requests does not starve the others */
    bool metadata_only; /* the answer has metadata of objects and nothing else */
    enum op_kube_answer answer;
    op_kube_done_fn done; /* NULL: nobody cares */
    void *arg;
};

/* What went over the wire, once a request; for metrics. */
struct op_kube_sample {
    enum op_kube_verb verb;
    const char *resource;    /* plural or path, with "/subresource" apart */
    const char *subresource; /* or NULL */
    int status;              /* HTTP; 0: none */
    int code;                /* enum co_code */
    int64_t ms;              /* from start on the wire to the end */
    int64_t queued_ms;       /* before that */
    size_t sent, received;   /* body bytes */
};

struct op_kube_client_opts {
    const char *user_agent;        /* NULL: "paddle-operator/<version>" */
    int lane_limit[OP_KUBE_LANES]; /* in flight; 0: 64, 16, 8, 2, 4 */
    size_t queue_max;              /* waiting requests a lane; 0: 65536 */
    size_t queue_max_bytes;        /* bodies of all requests; 0: 128 MiB */
    size_t reply_max;              /* bytes of one answer; 0: 64 MiB */
    bool json_only;                /* nothing is asked for in protobuf */
    bool at_once;                  /* what comes in a burst, too: for who measures when it came */
    void (*sample)(void *arg, const struct op_kube_sample *s); /* or NULL */
    void *sample_arg;
};

struct op_kube_client;
struct op_kube_op; /* a request on its way; valid until its callback has begun or it is canceled */

/* Takes the config, even on failure.  Connects at the first request.  opts NULL: defaults. */
CO_MUST_CHECK int op_kube_client_new(struct co_loop *loop, struct op_kube_config *config_own,
    const struct op_kube_client_opts *opts, struct op_kube_client **ret, struct co_err *err);
/* Cancels what is left; those callbacks do not run.  Watches must be freed before.  Not inside a
 * callback of a request; inside that of a drain it is allowed. */
void op_kube_client_free(struct op_kube_client *c);
CO_DEFINE_CLEANUP(struct op_kube_client *, op_kube_client_free)

/* Starts or queues; wrong arguments come back through the callback too.
 * A 429 slows its lane down, and the request is sent again once Retry-After is over, as long as
 * its deadline allows; so it is for all but lists, which their watch asks for again.  Leases wait
 * for a second at most: they are few, and lost if they are late. */
struct op_kube_op *op_kube_do(struct op_kube_client *c, const struct op_kube_req *req);
/* The callback does not run any more.  The server may have acted all the same.  NULL allowed. */
void op_kube_cancel(struct op_kube_op *op);

/* done runs once nothing is queued or in flight (at once, on the next turn, if so already);
 * watches do not count.  Requests made meanwhile are waited for too. */
void op_kube_client_drain(struct op_kube_client *c, void (*done)(void *arg), void *arg);
size_t op_kube_client_pending(const struct op_kube_client *c); /* queued and in flight */
/* Of the bodies of all that have no answer yet: most of what a burst takes. */
size_t op_kube_client_bytes(const struct op_kube_client *c);
/* Those of a namespace in a lane that have no answer yet. */
size_t op_kube_client_pending_of(
    const struct op_kube_client *c, enum op_kube_lane lane, const char *ns);
/* Gives back memory that only many requests at once are faster with. */
void op_kube_client_shrink(struct op_kube_client *c);

/* Fills verb, type, ns, name, done, arg and a lane (LIST for lists, else WORK); the rest is
 * zero. */
struct op_kube_req op_kube_req_for(enum op_kube_verb verb, const struct op_kube_type *type,
    const char *ns, const char *name, op_kube_done_fn done, void *arg);
