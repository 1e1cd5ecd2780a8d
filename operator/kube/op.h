/* Internal to operator/kube: one request (op) from its creation to its end, and its queues.
 *
 *   client -> class -> tenant (a namespace) -> flow -> op -> op ...
 *                     tenants in a ring       flows in turn
 *
 * op.c moves requests between lists, request.c creates them, client.c starts and ends them.
 * Owned by the loop's thread. */
#pragma once

#include <sys/queue.h>

#include "common/map.h"
#include "operator/kube/client.h"
#include "operator/kube/cred.h"
#include "operator/kube/transport.h"

/* Deadlines of waiting requests are checked this often. */
enum { KUBE_TICK_MS = 500 };

/* Streams use the same queues as requests, in one more class that is practically unlimited. */
enum { KUBE_CLASS_STREAM = KUBE_CLASSES, KUBE_ALL_LANES, KUBE_STREAMS_MAX = 1000, KUBE_FLOWS = 64 };

/* The state of an op says which list it is in.  Only enter, set_state and free change it. */
enum kube_op_state {
    KUBE_OP_WAITING, /* in its flow's list, until the class or the credential allows a start */
    KUBE_OP_FLYING,  /* in c->flying: xfer is on the wire */
    KUBE_OP_FAILED,  /* in c->failed: its callback runs on the next turn */
    KUBE_OP_LEAVING, /* in no list: being created or freed */
};

struct kube_op {
    struct kube_client *c;
    TAILQ_ENTRY(kube_op) link; /* in the list of its state */
    enum kube_op_state state;
    int class; /* enum kube_class or KUBE_CLASS_STREAM */
    struct kube_tenant *tenant;
    unsigned flow;
    enum kube_verb verb;
    char *path;        /* with query */
    char *resource;    /* plural, or the path asked for */
    char *subresource; /* or NULL */
    char *what;        /* "create pods default/x", for messages */
    char *object;      /* the name of what a success answers with; NULL: of no certain object */
    char *body;
    size_t body_len;
    const char *content_type;
    const struct co_proto_message *proto; /* asks for protobuf with this table; NULL: JSON */
    int64_t created, started, deadline;   /* loop time; deadline 0: none */
    int64_t silence_ms;
    bool metadata_only, retried; /* retried: after a 401, which happens once */
    enum kube_answer answer;
    unsigned credential; /* generation of the credential that it was sent with */
    void (*data)(void *arg, const char *data, size_t len);
    kube_done_fn done;
    void *arg;
    struct kube_xfer *xfer;
    struct co_err *err; /* owned: set in state KUBE_OP_FAILED */
};

TAILQ_HEAD(kube_op_list, kube_op);

/* The requests of a namespace ("": without one) in a class; exists as long as there are any. */
struct kube_tenant {
    struct co_link link;           /* in kube_class_queue.tenants; must be first */
    TAILQ_ENTRY(kube_tenant) turn; /* in kube_class_queue.turns, while it has requests that wait */
    size_t ops;                    /* requests in any state */
    size_t waiting;
    unsigned next_flow; /* that is served */
    struct kube_op_list flows[KUBE_FLOWS];
    char ns[];
};

struct kube_class_queue {
    int limit, flying;
    int allowed;          /* at most limit: lowered by 429s, raised by successes */
    int64_t paused_until; /* loop time */
    size_t waiting;
    struct co_index tenants;
    TAILQ_HEAD(, kube_tenant) turns; /* the first is served next, and goes to the end */
};

struct kube_client {
    struct co_loop *loop;
    struct kube_config *cfg;
    struct kube_client_opts opts;
    struct kube_transport *transport;
    struct kube_cred *cred;
    struct kube_class_queue classes[KUBE_ALL_LANES];
    struct kube_op_list flying, failed;
    size_t n_flying, n_failed, n_streams; /* n_streams: in any state */
    size_t waiting;
    size_t bytes;            /* of the bodies of requests in any state */
    struct co_timer *soon;   /* pump on the next turn */
    struct co_timer *tick;   /* checks the deadlines of waiting requests */
    struct co_timer *resume; /* due at the end of a class's pause */
    void (*drained)(void *arg);
    void *drained_arg;
};

/* The tenant of a namespace (NULL: of requests without one).  kube_op_tenant returns NULL when
 * it has no requests; tenant_need creates it and counts one request, until kube_op_free. */
struct kube_tenant *kube_op_tenant(const struct kube_class_queue *class, const char *ns);
struct kube_tenant *kube_op_tenant_need(struct kube_class_queue *class, const char *ns);
/* Puts a new op into the list of its state. */
void kube_op_enter(struct kube_op *op, enum kube_op_state state);
void kube_op_set_state(struct kube_op *op, enum kube_op_state state);
/* Cancels its transfer, removes it from its list, and frees it. */
void kube_op_free(struct kube_op *op);
/* The next request of a class, which stays in its queue; NULL: none waits. */
struct kube_op *kube_op_next(struct kube_class_queue *class);
/* Takes the oldest failed request out of its list; NULL: none. */
struct kube_op *kube_op_take_failed(struct kube_client *c);
/* The request has failed before it was sent; its callback runs on the next turn. */
void kube_op_fail(struct kube_op *op, const struct co_err *err);
void kube_op_free_all(struct kube_client *c);

/* Creates and queues a request; data: the callback of a stream, else NULL. */
struct kube_op *kube_op_new(struct kube_client *c, const struct kube_req *req, int class,
    void (*data)(void *arg, const char *data, size_t len));
