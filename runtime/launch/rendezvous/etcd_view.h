/* A snapshot of a job's keys in an etcd ("view"), and what follows from it for one node.  Pure.
 *
 * Paddle's keys are used so that its launchers and ours see one another:
 *
 *     /paddle/{job}/heartbeat/{name}     a node is alive (lease)
 *     /{job}/info/{name}/{rank}          its value (our nodes: with a lease)
 *     /paddle/{job}                      "completed": the work of a node is done (10 minutes)
 *
 * and ours, all JSON:
 *
 *     /paddlerun/{job}/node/{name}       {"id", "host", "port": where it answers (neighbour.h),
 *                                         "ready": the round it is ready for} (lease)
 *     /paddlerun/{job}/round             {"round", "restarts", "nodes": [name by rank],
 *                                         "paddles": [name]}
 *     /paddlerun/{job}/again             {"round", "why"}: that round shall end
 *     /paddlerun/{job}/done/{name}       {"round"}: its workers ended well (10 minutes)
 *     /paddlerun/{job}/why/{name}        {"round", "code", "why"}: why it ended (10 minutes);
 *                                         code < 0: it was asked to stop, 0: another node was lost;
 *                                         with "gone": written by the node that found it dead
 *     /paddlerun/{job}/mute/{name}       {"round"}: another node gets no answer from it (with that
 *                                         node's lease)
 *
 * A late node has not answered in time but is not lost yet.  When all nodes are ready, the first of
 * our nodes writes the next round by compare-and-swap. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/backend.h"

struct rdzv_etcd_node {
    char *name; /* all strings here are owned */
    char *host, *id, *value;
    int rank;
    int ready;         /* ours: the round that it is ready for */
    bool ours;         /* started by our launcher, not by Paddle's */
    bool beats;        /* its heartbeat key exists */
    uint16_t port;     /* ours: where it answers its neighbour; 0: nowhere */
    int64_t key_mod;   /* ours: revision of its node key */
    int64_t value_mod; /* revision of its value; 0: it has none */
    int64_t created;   /* revision at which it came; a lower one came earlier */
};

struct rdzv_etcd_view {
    char *prefix_beat, *prefix_info, *prefix_ours, *key_status;
    int64_t revision;
    struct rdzv_etcd_node *nodes;
    size_t n;
    struct co_map by_name; /* -> index + 1 */
    int round, restarts;   /* 0: there was none */
    int64_t round_mod;
    json_t *roster;  /* names by rank; NULL: none */
    json_t *paddles; /* those of them that Paddle's launcher started */
    bool completed;
    json_t *again; /* a node asks to end this round; NULL: none does */
    json_t *done;  /* name -> document, of this round */
    json_t *why;   /* name -> document, of this round */
    json_t *late;  /* name -> document, of this round */
};

void rdzv_etcd_view_init(struct rdzv_etcd_view *v, const char *job_id);
void rdzv_etcd_view_done(struct rdzv_etcd_view *v);
/* Reads the answer to a transaction of four ranges: heartbeats, infos, our keys, the status.  The
 * content is not trusted: other programs may write those keys. */
CO_MUST_CHECK int rdzv_etcd_view_read(
    struct rdzv_etcd_view *v, const json_t *answer, struct co_err *err);
struct rdzv_etcd_node *rdzv_etcd_view_find(const struct rdzv_etcd_view *v, const char *name);
/* The node that `name` must ask for signs of life: the next of our nodes by rank whose workers
 * still run.  NULL: there is none. */
const struct rdzv_etcd_node *rdzv_etcd_view_neighbour(
    const struct rdzv_etcd_view *v, const char *name);
/* Keeps track of the nodes of the view's round that ended well, name -> document: `ended` gets
 * those that the view has, and the view those that were in `ended`.  A key of etcd may be missing:
 * its lease ends, or the node could not write it. */
void rdzv_etcd_view_remember_done(struct rdzv_etcd_view *v, json_t *ended);
/* Writes a log line about nodes without a sign of life for a second, "node b (rank 1, 10.0.0.7);
 * ...", without `self`. Returns how many nodes are late. */
size_t rdzv_etcd_view_describe_late(
    const struct rdzv_etcd_view *v, const char *self, int64_t silent_ms, struct co_buf *ret);
/* A number that changes when a node comes, goes or becomes ready. */
uint64_t rdzv_etcd_view_hash(const struct rdzv_etcd_view *v);

enum rdzv_etcd_next {
    RDZV_ETCD_WAIT,     /* read again when a key changes, or at `at` */
    RDZV_ETCD_REGISTER, /* write the node's own keys, ready for view.round + 1 */
    RDZV_ETCD_PROPOSE,  /* write the next round */
    RDZV_ETCD_MET,      /* the round is there: start workers */
    RDZV_ETCD_CHANGED,  /* the round ended: stop workers */
    RDZV_ETCD_ALL_DONE, /* the workers of all nodes ended well */
    RDZV_ETCD_END       /* the job is over for this node */
};

struct rdzv_etcd_self {
    const struct rdzv_options *o;
    const char *id;
    enum rdzv_state state;
    int round; /* the round that it met in last */
    int64_t now;
    int64_t quiet_since; /* when the view's hash changed last */
    int64_t since;       /* when this state began */
    bool done;           /* its own workers ended well */
    bool beat_deleted;   /* its own heartbeat was deleted, by one of Paddle's nodes */
};

struct rdzv_etcd_decision {
    enum rdzv_etcd_next next;
    int64_t at; /* when to decide again; INT64_MAX: only when a key changes */
    int code;   /* of END */
    char why[CO_ERR_MAX];
    size_t *order; /* of PROPOSE and MET: indexes of nodes by rank; owned */
    size_t n;
    int restarts; /* of PROPOSE */
};

void rdzv_etcd_decide(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *ret);
