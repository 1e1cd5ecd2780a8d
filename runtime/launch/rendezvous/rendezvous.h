/* How the launchers of a job's nodes find one another, hear of one another's end, and part:
 * `--master`.  Two ways to meet, one face:
 *
 *  host:port   a key-value service over HTTP with Paddle's paths and verbs, served by the node that
 *              has the address and binds it first.  Nodes started by Paddle's own launcher can be
 *              among ours, or serve; among ours it answers when there is news (long poll), watches
 *              who is alive, and deals new ranks when nodes come and go.
 *  etcd://     Paddle's elastic keys in an etcd.
 *
 * One node's story, each step a callback on the loop, none from inside a call:
 *
 *      open ... met ... (changed, again() ... met)* ... ended, or leave() ... gone
 *
 * `met` deals the ranks: start the workers.  `changed`: a node came or went, stop the workers
 * (SIGTERM, time to save), then rl_rdzv_again.  `ended`: it is over for this node, the error says
 * why and who.  Nothing blocks; everything belongs to the loop's thread. */
#pragma once

#include "common/loop.h"

struct rl_rdzv;

enum { RL_RDZV_VALUE_MAX = 64 * 1024 }; /* bytes of a node's value */

/* Strings are copied. */
struct rl_rdzv_options {
    const char *job_id; /* NULL: "default" */
    /* "host:port", "[v6]:port" or "etcd://host:port", "etcds://host:port" (TLS); a host may be a
     * name.  NULL: this node serves on a free port, see `serving`. */
    const char *master;
    const char *host;  /* this node's address as the others reach it */
    const char *name;  /* this node's, other than any other's of the job: Paddle's pod name */
    const char *value; /* what the others get to know of it: Paddle's JSON object */
    int rank;          /* -1: by Paddle's order (the serving node first, then by name) */
    bool sort_ip;      /* order by the IPv4 address in the value's "candidate" */
    int min_nodes, max_nodes; /* alike: not elastic */
    /* A node that is lost or fails: -1 ends the job on all others; 0 and 1: the others hold, and
     * go on with those who are there within elastic_ms. */
    int level;
    int max_restart;     /* rounds that failures end; one more ends the job */
    int64_t elastic_ms;  /* min_nodes are enough after so long without a newcomer; 0: 30 s */
    int64_t deadline_ms; /* from open or again to met; 0: 15 min */
    int64_t silent_ms;   /* a node or master that is connected and mute this long; 0: 10 s */
    /* host:port only: the job's secret, which all nodes prove to the master, and it to them; NULL:
     * nobody proves anything. */
    const char *token;
    /* etcd only; NULL: none. */
    const char *user;                           /* "name:password" */
    const char *ca_file, *cert_file, *key_file; /* PEM; ca_file NULL: the system's */
};

struct rl_rdzv_peer {
    const char *name;
    const char *value;
};

/* Valid until the next `met` or rl_rdzv_close. */
struct rl_rdzv_roster {
    const struct rl_rdzv_peer *peers; /* by rank */
    size_t n, self;
    int round;    /* 1, 2, ... */
    bool watched; /* false: nobody will tell of losses or of the end (Paddle's launcher serves) */
};

struct rl_rdzv_fns {
    /* No master was named and this node serves: others join with --master endpoint.  NULL: not
     * told. */
    void (*serving)(void *arg, const char *endpoint);
    /* For the log: who waits for whom, a master that is not there yet.  May not close.  NULL: not
     * told. */
    void (*note)(void *arg, bool warn, const char *line);
    void (*met)(void *arg, const struct rl_rdzv_roster *roster);
    void (*changed)(void *arg, const char *why);
    /* rl_rdzv_done was called on all nodes.  NULL: not told. */
    void (*all_done)(void *arg);
    /* CO_PEERLOST: a node or the master was lost or failed; CO_TIMEOUT: not all came in time;
     * CO_EXISTS: rank or name taken; CO_NORESOURCE: one node too many, or no restart left;
     * CO_INVALID, CO_PERMISSION: options or credentials.  Nothing comes after it. */
    void (*ended)(void *arg, const struct co_err *err);
};

/* fns is copied.  Errors are those of the options; what fails later comes by `ended`.  Serving
 * more nodes than the soft limit of open files allows raises that limit. */
CO_MUST_CHECK int rl_rdzv_open(struct co_loop *l, const struct rl_rdzv_options *options,
    const struct rl_rdzv_fns *fns, void *arg, struct rl_rdzv **ret, struct co_err *err);

/* After `changed`, when the workers are gone: into the next round.  value NULL: as before. */
void rl_rdzv_again(struct rl_rdzv *m, const char *value);
/* Own workers failed and shall start again (level 1): all nodes, this one too, get `changed`. */
void rl_rdzv_restart(struct rl_rdzv *m, const char *why);
/* Own workers ended well; stays a member until all nodes' have (all_done): parameter servers. */
void rl_rdzv_done(struct rl_rdzv *m);
/* Out of the job: code 0 the workers ended well; < 0 this node was asked to stop (SIGTERM), which
 * costs the others no restart; else the workers failed.  `why` ("worker 3: exit code 1") is what
 * the others read.  gone runs when they were told, after 1 s at most; then close.  No other
 * callback follows. */
void rl_rdzv_leave(struct rl_rdzv *m, int code, const char *why, void (*gone)(void *arg));
/* Without a word: the others see a lost node.  NULL allowed; safe inside callbacks. */
void rl_rdzv_close(struct rl_rdzv *m);
