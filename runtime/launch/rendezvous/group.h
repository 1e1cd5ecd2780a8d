/* The members of a job and the rules of its rounds, as the serving node keeps them (service.c).  It
 * has no clock, socket or callback: callers pass the time and ask for the notice of each node.
 *
 *     GATHERING  nodes join; it lasts until all are ready, or enough are in an elastic job
 *     RUNNING    ranks are assigned and workers run; a node that comes, fails or is lost ends the
 *                round (back to GATHERING), or the job where level and max_restart say so
 *     OVER       the job has ended with `over`; every node is notified, nobody may join
 *
 * A node that is late with its next request is not lost yet: the others only log it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/assign.h"

enum {
    RDZV_GROUP_NODES_MAX = 100 * 1000,
    RDZV_GROUP_LISTED = 8, /* names or ranks in a log line */
    /* A node whose connection broke is lost unless it returns by then, and by its retry before. */
    RDZV_GROUP_RECONNECT_MS = 400,
    /* A running node must send a request every BEAT_MS, and is late PATIENCE_MS after that:
     * together that is below a second.  A late node costs nothing but a log line; a node that is
     * silent for silent_ms costs the round. */
    RDZV_GROUP_BEAT_MS = 250,
    RDZV_GROUP_PATIENCE_MS = 650,
};

struct rdzv_group_rules {
    int min, max;
    int level; /* --elastic_level; < 0: the loss of any node ends the job */
    int max_restart;
    bool sort_ip;
    int64_t elastic_ms, silent_ms;
};

/* What a node must be notified of next. */
enum rdzv_group_notice {
    RDZV_NOTICE_NONE,
    RDZV_NOTICE_MET,
    RDZV_NOTICE_LATE, /* the set of late nodes has changed */
    RDZV_NOTICE_CHANGED,
    RDZV_NOTICE_ALL_DONE,
    RDZV_NOTICE_OVER
};

/* The state that a node reports of itself in each request: it wants to join, its workers run, are
 * being stopped, or ended well. */
enum rdzv_node_state { RDZV_NODE_JOINING, RDZV_NODE_RUNNING, RDZV_NODE_STOPPING, RDZV_NODE_DONE };

/* What a node is to the round, as the group has it. */
enum rdzv_group_part {
    RDZV_PART_AWAY,    /* it stops its workers: not yet ready for the round that gathers */
    RDZV_PART_READY,   /* for the round that gathers */
    RDZV_PART_WORKING, /* in the running round, of which it has a rank */
    RDZV_PART_DONE,    /* likewise, and its workers ended well */
};

struct rdzv_group_node {
    char *name, *id, *host; /* owned; id NULL: started by Paddle's launcher, which asks only once */
    char *value;            /* owned */
    int rank;               /* that it asks for */
    size_t index;           /* in nodes */
    enum rdzv_group_part part;
    size_t place;               /* its rank in the running round, while WORKING or DONE */
    int64_t deadline;           /* the node is lost unless it asks again by then; INT64_MAX: none */
    bool broken;                /* its connection broke: the deadline is a short one */
    bool late;                  /* it is late by more than patience_ms */
    int64_t late_at;            /* when it becomes late */
    int64_t patience_ms;        /* doubled each time it was late but came back */
    uint64_t late_seen;         /* group.late_version at its last notification */
    enum rdzv_node_state state; /* the state that it reported last ... */
    int received_round;         /* ... and the round that it meant */
    bool notified_over;         /* kept by the caller, as the two below */
    void *waiter;               /* its request that waits for news */
    uint64_t conn;              /* the connection that it used last */
};

enum rdzv_group_phase { RDZV_GROUP_GATHERING, RDZV_GROUP_RUNNING, RDZV_GROUP_OVER };

struct rdzv_group {
    struct rdzv_group_rules rules;
    struct rdzv_group_node **nodes; /* owned */
    size_t n;
    struct co_map by_name;
    enum rdzv_group_phase phase;
    int round; /* the one that gathers or runs: 1, 2, ... */
    struct rdzv_group_node *
        *roster; /* owned; by rank; NULL: that node left after its work was done */
    size_t n_roster;
    int restarts; /* rounds that a failure ended */
    bool any_done;
    int64_t quiet_since; /* when the last node came or went */
    char why[512];       /* why the round before ended */
    struct co_err over;  /* why the job ended */
    size_t working;      /* nodes whose part is WORKING */
    /* Three counters, so that callers see cheaply whether anything has changed. */
    uint64_t notices;      /* of changes that may be a notice for a node */
    uint64_t late_version; /* of changes to the set of late nodes */
    uint64_t version;      /* of changes to the set of nodes and their values */
};

struct rdzv_group_hello {
    const char *name, *id, *host, *value;
    int rank, min, max;
    enum rdzv_node_state state;
    int round; /* the round that it was in last; 0: none */
};

void rdzv_group_init(struct rdzv_group *g, const struct rdzv_group_rules *rules);
void rdzv_group_done(struct rdzv_group *g);

/* Handles a node's request.  A new node that does not fit is refused; the error names the node that
 * it clashes with. */
CO_MUST_CHECK int rdzv_group_receive(struct rdzv_group *g, const struct rdzv_group_hello *h,
    int64_t now, struct rdzv_group_node **ret, struct co_err *err);
enum rdzv_group_notice rdzv_group_notice(
    const struct rdzv_group *g, const struct rdzv_group_node *n);

/* The node has a request that waits; its connection broke; it got an answer and must ask again. */
void rdzv_group_waits(struct rdzv_group *g, struct rdzv_group_node *n);
void rdzv_group_broke(const struct rdzv_group *g, struct rdzv_group_node *n, int64_t now);
void rdzv_group_notified(const struct rdzv_group *g, struct rdzv_group_node *n, int64_t now);
/* The caller stood still for so long: nobody was silent meanwhile.  Its nodes may have stood still
 * as well, with their machine. */
void rdzv_group_excuse(struct rdzv_group *g, int64_t ms);
/* How long a request may wait before it is answered without news.  The time is longer in a group of
 * many nodes, and shorter when silent_ms is short. */
int64_t rdzv_group_beat_ms(size_t n, int64_t silent_ms);
/* How long a node waits before it tries a master again that did not answer: many nodes wait longer,
 * not to overload it. */
int64_t rdzv_group_retry_ms(int max_nodes);
/* Build a log line that lists the late nodes: add is called for each, n counts from 0; then end
 * with the number of nodes.  With 0 the line says that all nodes answer again. */
void rdzv_group_late_add(struct co_buf *line, size_t n, const char *who);
void rdzv_group_late_end(struct co_buf *line, size_t n, int64_t silent_ms);
/* Writes such a line, of nodes without a sign of life for a second: "... node b (rank 1, 10.0.0.7);
 * ...".  Returns how many nodes are late. */
size_t rdzv_group_describe_late(const struct rdzv_group *g, struct co_buf *ret);

/* The node leaves.  code 0: its work is done; < 0: it was asked to leave; > 0: it failed.  Frees
 * n. */
void rdzv_group_leave(
    struct rdzv_group *g, struct rdzv_group_node *n, int code, const char *why, int64_t now);
/* Ends that round because a node asks for a restart.  Does nothing when the round has ended
 * already: a node may repeat its request. */
void rdzv_group_restart(
    struct rdzv_group *g, const struct rdzv_group_node *n, int round, const char *why, int64_t now);

/* Ends the job with code 0: the serving node has done its work, and nothing watches the others. */
void rdzv_group_part(struct rdzv_group *g, const char *why);

/* Does what is due now; returns when to call it again, INT64_MAX: only after a change. read_to: all
 * requests that arrived by then have been handled.  Only a node whose deadline is not after
 * `read_to` counts as lost: a busy server must not blame nodes whose requests it has not read
 * yet. */
int64_t rdzv_group_tick(struct rdzv_group *g, int64_t read_to, int64_t now);

struct rdzv_group_node *rdzv_group_find(const struct rdzv_group *g, const char *name);
/* Formats "node abc (rank 1, 10.0.0.7)". */
void rdzv_group_who(const struct rdzv_group_node *n, char *ret, size_t size);
/* Marks nodes as late that were due by `read_to`; returns when the next one would be. */
int64_t rdzv_group_judge(struct rdzv_group *g, int64_t read_to);
/* Formats "2 of 3 nodes are here, missing: rank 1". */
void rdzv_group_describe(const struct rdzv_group *g, struct co_buf *ret);
