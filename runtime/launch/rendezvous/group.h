/* Who is in a job, and what each of them is to be told: the rules of a rendezvous without clock,
 * socket or callback.  A round gathers nodes, deals ranks when all are there and runs; a node that
 * comes or goes starts the next round, or ends the job where that is not wanted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/deal.h"

enum {
    RL_GROUP_NODES_MAX = 100 * 1000,
    RL_GROUP_LISTED = 8,         /* names or ranks in a line */
    RL_GROUP_RECONNECT_MS = 400, /* a connection that broke may come back; then its node is lost */
    /* A node that runs is asked for a sign of life so often, and mute when it is late by that: the
     * others know within a second.  To be mute costs nothing, to be silent for long the job. */
    RL_GROUP_BEAT_MS = 250,
    RL_GROUP_PATIENCE_MS = 650,
};

struct rl_group_rules {
    int min, max;
    int level; /* < 0: whoever is lost ends the job */
    int max_restart;
    bool sort_ip;
    int64_t elastic_ms, silent_ms;
};

/* What one node is to be told. */
enum rl_group_news {
    RL_NEWS_NONE,
    RL_NEWS_MET,
    RL_NEWS_MUTE, /* who is mute has changed */
    RL_NEWS_CHANGED,
    RL_NEWS_ALL_DONE,
    RL_NEWS_OVER
};

enum rl_group_word { RL_WORD_JOIN, RL_WORD_RUN, RL_WORD_STOP, RL_WORD_DONE };

struct rl_group_node {
    char *name, *id, *host; /* owned; id NULL: started by Paddle's launcher, never heard of again */
    char *value;            /* owned */
    int rank;               /* asked for */
    size_t index;           /* in nodes */
    size_t place;           /* dealt in the running round */
    bool in_round;          /* has a place */
    bool ready;             /* for the round that gathers */
    bool done;              /* its workers ended well */
    int64_t deadline;       /* lost then unless heard of before; INT64_MAX: none */
    bool broken;            /* its connection; else it was silent when the deadline comes */
    bool mute;              /* for more than its patience, which grows when it was not dead */
    int64_t mute_at, patience_ms;
    uint64_t mutes_seen;     /* group's, when it was told last */
    enum rl_group_word word; /* it said last ... */
    int heard_round;         /* ... and of which round */
    bool told_over;          /* the caller's, as the next one */
    void *waiter;            /* the caller's: a request that waits for news */
    uint64_t conn;           /* the caller's: the connection it was on last */
};

enum rl_group_phase { RL_GROUP_GATHERING, RL_GROUP_RUNNING, RL_GROUP_OVER };

struct rl_group {
    struct rl_group_rules rules;
    struct rl_group_node **nodes; /* owned */
    size_t n;
    struct co_map by_name;
    enum rl_group_phase phase;
    int round;                     /* that gathers or runs: 1, 2, ... */
    struct rl_group_node **roster; /* owned; by rank, NULL for who left when its work was done */
    size_t n_roster;
    int restarts; /* rounds that a failure ended */
    bool any_done;
    int64_t calm_since; /* the last one came or went */
    char why[512];      /* the round before ended */
    struct co_err over;
    size_t working;   /* of the roster, whose work is not done */
    uint64_t news;    /* counts what may be news for somebody */
    uint64_t mutes;   /* counts changes of who is mute */
    uint64_t version; /* counts changes of who is here, with what value */
};

struct rl_group_hello {
    const char *name, *id, *host, *value;
    int rank, min, max;
    enum rl_group_word word;
    int round; /* that it was in last, 0: none */
};

void rl_group_init(struct rl_group *g, const struct rl_group_rules *rules);
void rl_group_done(struct rl_group *g);

/* A node says who and where it is.  A newcomer that does not fit is refused: the error names what
 * it clashes with. */
CO_MUST_CHECK int rl_group_hear(struct rl_group *g, const struct rl_group_hello *h, int64_t now,
    struct rl_group_node **ret, struct co_err *err);
enum rl_group_news rl_group_news(const struct rl_group *g, const struct rl_group_node *n);

/* It has a request waiting; its connection broke; it was told and should ask again. */
void rl_group_waits(struct rl_group *g, struct rl_group_node *n);
void rl_group_broke(struct rl_group_node *n, int64_t now);
void rl_group_told(const struct rl_group *g, struct rl_group_node *n, int64_t now);
/* How long a request may wait in a group of n: slower beats in a large one, and in one that has
 * little time. */
int64_t rl_group_beat_ms(size_t n, int64_t silent_ms);
/* A line of who is mute: its n-th, from 0; then its end, where n of none says that all are well. */
void rl_group_mute_add(struct co_buf *line, size_t n, const char *who);
void rl_group_mute_end(struct co_buf *line, size_t n, int64_t silent_ms);
/* "not heard of for a second: node b (rank 1, 10.0.0.7); ..."; returns how many are mute. */
size_t rl_group_mute_story(const struct rl_group *g, struct co_buf *ret);

/* It leaves; code 0: its work is done, < 0: it was asked to, else it failed.  The node is gone
 * afterwards. */
void rl_group_leave(
    struct rl_group *g, struct rl_group_node *n, int code, const char *why, int64_t now);
/* That round ends because a node wants it; if it has ended already, it was heard before. */
void rl_group_restart(
    struct rl_group *g, const struct rl_group_node *n, int round, const char *why, int64_t now);

/* Over, for no bad reason (over.code 0): the serving node has done its work. */
void rl_group_part(struct rl_group *g, const char *why);

/* What is due now; returns when to look again, INT64_MAX: not by itself.  heard: whatever nodes
 * had said until then is known, who was due by then is judged. */
int64_t rl_group_tick(struct rl_group *g, int64_t heard, int64_t now);

struct rl_group_node *rl_group_find(const struct rl_group *g, const char *name);
/* "node abc (rank 1, 10.0.0.7)" */
void rl_group_who(const struct rl_group_node *n, char *ret, size_t size);
/* Who was due by then is mute; returns when the next one would be. */
int64_t rl_group_judge(struct rl_group *g, int64_t heard);
/* "2 of 3 nodes are here, missing: rank 1" */
void rl_group_story(const struct rl_group *g, struct co_buf *ret);
