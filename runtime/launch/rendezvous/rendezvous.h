/* The rendezvous (`--master`): how the launchers of a job's nodes find one another, learn their
 * ranks, and learn when one of them ends.  One interface with two back ends:
 *
 *  host:port   a key-value service over HTTP with Paddle's paths and verbs, served by the node that
 *              has the address and binds it first.  Nodes started by Paddle's own launcher can take
 *              part, or serve.  Our service answers when there is news (long poll), finds nodes
 *              that are lost, and assigns new ranks when nodes come and go.
 *  etcd://     Paddle's elastic keys in an etcd.
 *
 * The steps of one node; each callback runs on the loop, never from inside a call of a function
 * below:
 *
 *      open ... met ... (changed, again() ... met)* ... ended, or leave() ... gone
 *
 * `met` brings the ranks: the launcher starts its workers.  `changed`: a node came or went; the
 * launcher stops its workers (SIGTERM, time to save) and calls rdzv_again.  `ended`: the job is
 * over for this node; the error names the reason and the node.  No function blocks; everything
 * belongs to the loop's thread. */
#pragma once

#include "common/loop.h"

struct rdzv;

enum { RDZV_VALUE_MAX = 64 * 1024 }; /* bytes of a node's value */

/* Strings are copied. */
struct rdzv_options {
    const char *job_id; /* NULL: "default" */
    /* "host:port", "[v6]:port" or "etcd://host:port", "etcds://host:port" (TLS); a host may be a
     * name.  NULL: this node serves on a free port, see `serving`. */
    const char *master;
    const char *host;         /* this node's address as the others reach it */
    const char *name;         /* this node's, unique in the job: Paddle's pod name */
    const char *value;        /* what the other nodes get to know of it: Paddle's JSON object */
    int rank;                 /* -1: in Paddle's order (the serving node first, then by name) */
    bool sort_ip;             /* order by the IPv4 address in the value's "candidate" */
    int min_nodes, max_nodes; /* equal: the job is not elastic */
    /* When a node is lost or fails: -1 ends the job on all others; with 0 and 1 the others stop
     * their workers, and continue with the nodes that are there within elastic_ms. */
    int level;
    int max_restart;     /* rounds that failures may end; one more failure ends the job */
    int64_t elastic_ms;  /* min_nodes are enough after so long without a new node; 0: 30 s */
    int64_t deadline_ms; /* from open or again to met, and from restart to changed; 0: 15 min */
    int64_t silent_ms;   /* after so long without a sign of life a node is lost; 0: 10 s */
    /* host:port only: the job's secret.  All nodes prove it to the master, and the master to them.
     * NULL: no proof is asked for. */
    const char *token;
    /* etcd only; NULL: none. */
    const char *user;                           /* "name:password" */
    const char *ca_file, *cert_file, *key_file; /* PEM; ca_file NULL: the system's */
};

struct rdzv_peer {
    const char *name;
    const char *value;
};

/* Valid until the next `met` or rdzv_close. */
struct rdzv_roster {
    const struct rdzv_peer *peers; /* by rank */
    size_t n, self;
    int round;    /* 1, 2, ... */
    bool watched; /* false: losses and the end are not reported, as Paddle's launcher serves */
};

struct rdzv_fns {
    /* No master was named and this node serves: others join with --master endpoint.  NULL: not
     * called. */
    void (*serving)(void *arg, const char *endpoint);
    /* A line for the log: which nodes are missing, a master that is not there yet.  It must not
     * close the rendezvous.  NULL: not called. */
    void (*note)(void *arg, bool warn, const char *line);
    void (*met)(void *arg, const struct rdzv_roster *roster);
    void (*changed)(void *arg, const char *why);
    /* rdzv_done was called on all nodes.  NULL: not called. */
    void (*all_done)(void *arg);
    /* After rdzv_done, once: no etcd has answered for deadline_ms (CO_UNAVAILABLE), so nobody says
     * when the workers of all nodes have ended.  The others read from this node that its workers
     * ended well.  The node stays a member: when etcd answers again, all_done may follow.  It must
     * not close the rendezvous.  NULL: not called. */
    void (*overdue)(void *arg, const struct co_err *err);
    /* CO_PEERLOST: a node or the master was lost or failed; CO_TIMEOUT: not all came in time;
     * CO_EXISTS: rank or name taken; CO_NORESOURCE: one node too many, or no restart left;
     * CO_INVALID, CO_PERMISSION: options or credentials.  No other callback follows. */
    void (*ended)(void *arg, const struct co_err *err);
};

/* fns is copied.  Returns errors of the options only; what fails later is reported by `ended`.  A
 * node that serves more nodes than the soft limit of open files allows raises that limit. */
CO_MUST_CHECK int rdzv_open(struct co_loop *l, const struct rdzv_options *options,
    const struct rdzv_fns *fns, void *arg, struct rdzv **ret, struct co_err *err);

/* Joins the next round: after `changed`, once the workers have ended. */
void rdzv_again(struct rdzv *m);
/* This node's workers failed and all must restart (level 1): all nodes, this one included, get
 * `changed`.  When that does not happen within deadline_ms, this node gets `ended`. */
void rdzv_restart(struct rdzv *m, const char *why);
/* This node's workers ended well.  It stays a member until those of all nodes have (all_done),
 * which is what jobs with parameter servers need. */
void rdzv_done(struct rdzv *m);
/* Leaves the job.  code 0: the workers ended well; < 0: this node was asked to stop (SIGTERM),
 * which does not count as a restart of the others; > 0: the workers failed.  The other nodes read
 * `why`
 * ("worker 3: exit code 1").  gone runs once they were notified, after 1 s at most in which
 * this process ran; then call close. No other callback follows. */
void rdzv_leave(struct rdzv *m, int code, const char *why, void (*gone)(void *arg));
/* Frees it without notifying the other nodes: they see a lost node.  NULL allowed; safe inside
 * callbacks. */
void rdzv_close(struct rdzv *m);
CO_DEFINE_CLEANUP(struct rdzv *, rdzv_close)
