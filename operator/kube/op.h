/* Inside of operator/kube: one request from its making to its end, and the queues it waits in.
 *
 * op.c moves requests between lists, request.c makes them, client.c starts and ends them.
 * Owned by the loop's thread. */
#pragma once

#include "common/map.h"
#include "operator/kube/client.h"
#include "operator/kube/cred.h"
#include "operator/kube/transport.h"

/* How late the deadline of a waiting request may be noticed. */
enum { OP_KUBE_TICK_MS = 500 };

/* Streams wait and fly like requests, without a bound of their own. */
enum {
    OP_KUBE_LANE_STREAM = OP_KUBE_LANES,
    OP_KUBE_ALL_LANES,
    OP_KUBE_STREAMS_MAX = 1000,
    OP_KUBE_FLOWS = 64
};

/* Where an op is; enter, set_state and free alone move it. */
enum op_kube_op_state {
    OP_KUBE_OP_WAITING, /* in a queue of its lane, for a free place or a credential */
    OP_KUBE_OP_FLYING,  /* xfer is on the wire */
    OP_KUBE_OP_FAILED,  /* in c->failed: its callback comes on the next turn */
    OP_KUBE_OP_LEAVING, /* in no list */
};

struct op_kube_op {
    struct op_kube_client *c;
    struct op_kube_op *prev, *next; /* in the list of its state */
    enum op_kube_op_state state;
    int lane; /* enum op_kube_lane or OP_KUBE_LANE_STREAM */
    struct op_kube_tenant *tenant;
    unsigned flow;
    enum op_kube_verb verb;
    char *path;        /* with query */
    char *resource;    /* plural, or the path asked for */
    char *subresource; /* or NULL */
    char *what;        /* "create pods default/x", for messages */
    char *body;
    size_t body_len;
    const char *content_type;
    const struct co_proto_message *proto; /* asks for protobuf, read by this; NULL: for JSON */
    int64_t created, started, deadline;   /* loop time; deadline 0: none */
    int64_t silence_ms;
    bool metadata_only, retried;
    enum op_kube_answer answer;
    unsigned credential;
    void (*data)(void *arg, const char *data, size_t len);
    op_kube_done_fn done;
    void *arg;
    struct op_kube_xfer *xfer;
    struct co_err *err; /* OP_KUBE_OP_FAILED: why */
};

struct op_kube_op_list {
    struct op_kube_op *first, *last;
};

/* The requests of a namespace ("": of none) in a lane; exists as long as there are any. */
struct op_kube_tenant {
    struct co_link link;                /* in op_kube_lane_queue.tenants, by its name; first */
    struct op_kube_tenant *prev, *next; /* in the ring of those with requests that wait */
    size_t ops;                         /* in whatever state */
    size_t waiting;
    unsigned turn; /* the flow served next */
    struct op_kube_op_list flows[OP_KUBE_FLOWS];
    char ns[];
};

struct op_kube_lane_queue {
    int limit, flying;
    int allowed;          /* at most limit: what the server bears, by its 429s */
    int64_t paused_until; /* loop time */
    size_t waiting;
    struct co_index tenants;
    struct op_kube_tenant *turn; /* the one served next, in a ring; NULL: none waits */
};

struct op_kube_client {
    struct co_loop *loop;
    struct op_kube_config *cfg;
    struct op_kube_client_opts opts;
    struct op_kube_transport *transport;
    struct op_kube_cred *cred;
    struct op_kube_lane_queue lanes[OP_KUBE_ALL_LANES];
    struct op_kube_op_list flying, failed;
    size_t n_flying, n_failed, n_streams; /* n_streams: in whatever state */
    size_t waiting;
    size_t bytes;            /* of bodies, in whatever state */
    struct co_timer *soon;   /* pump on the next turn */
    struct co_timer *tick;   /* deadlines of what waits */
    struct co_timer *resume; /* the end of a pause */
    void (*drained)(void *arg);
    void *drained_arg;
};

/* ns NULL: the one of no namespace.  NULL: it has no requests.  What tenant_need returns counts one
 * more request, until op_kube_op_free. */
struct op_kube_tenant *op_kube_op_tenant(const struct op_kube_lane_queue *lane, const char *ns);
struct op_kube_tenant *op_kube_op_tenant_need(struct op_kube_lane_queue *lane, const char *ns);
/* A new op joins a list. */
void op_kube_op_enter(struct op_kube_op *op, enum op_kube_op_state state);
void op_kube_op_set_state(struct op_kube_op *op, enum op_kube_op_state state);
/* Out of its list, off the wire, freed. */
void op_kube_op_free(struct op_kube_op *op);
/* The one in turn of a lane, which stays in its queue; NULL: none waits. */
struct op_kube_op *op_kube_op_next(struct op_kube_lane_queue *lane);
/* The oldest failed one, in no list any more; NULL: none. */
struct op_kube_op *op_kube_op_take_failed(struct op_kube_client *c);
/* It failed before it flew; its callback comes on the next turn. */
void op_kube_op_fail(struct op_kube_op *op, const struct co_err *err);
void op_kube_op_free_all(struct op_kube_client *c);

/* Makes and queues; data is a stream's. */
struct op_kube_op *op_kube_op_new(struct op_kube_client *c, const struct op_kube_req *req, int lane,
    void (*data)(void *arg, const char *data, size_t len));
