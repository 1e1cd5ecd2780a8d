/* What a node writes to an etcd, and how it reads all of it: operations for one transaction.  The
 * keys are those of etcd_view.h.  Pure; the caller owns what is returned. */
#pragma once

#include "runtime/launch/rendezvous/etcd_view.h"

/* Its own keys: it is alive, where it answers, what its value is, and (joins) that it is ready for
 * the next round. */
json_t *rl_etcd_write_node(const struct rl_etcd_view *v, const struct rl_rdzv_options *o,
    const char *id, uint16_t port, bool joins, const char *lease);

/* That a node is mute, or no more. */
json_t *rl_etcd_write_mute(
    const struct rl_etcd_view *v, const char *name, bool mute, const char *lease);
/* Another node is dead: its keys go before their lease ends, and words stand in for its last ones.
 * Where that node has not written anything since. */
json_t *rl_etcd_write_gone(
    const struct rl_etcd_view *v, const struct rl_etcd_node *n, const char *memo);
json_t *rl_etcd_node_unchanged(const struct rl_etcd_view *v, const struct rl_etcd_node *n);

/* What a node says at some time; bits. */
enum {
    RL_ETCD_SAY_DONE = 1,  /* its workers ended well */
    RL_ETCD_SAY_AGAIN = 2, /* the round shall end */
    RL_ETCD_SAY_WHY = 4,   /* why it goes */
    RL_ETCD_SAY_STATUS = 8 /* "completed", for Paddle's nodes: they do not start again then */
};

struct rl_etcd_words {
    unsigned what;
    int round; /* met last */
    int code;  /* with WHY */
    const char *why;
};

json_t *rl_etcd_write_words(const struct rl_etcd_view *v, const struct rl_rdzv_options *o,
    const struct rl_etcd_words *words, const char *lease);

/* The document of the next round, as decided; and how it is written. */
json_t *rl_etcd_next_round(const struct rl_etcd_view *v, const struct rl_etcd_decision *d);
json_t *rl_etcd_write_round(const struct rl_etcd_view *v, json_t *round_own);
/* That no other round has been written since the view was read. */
json_t *rl_etcd_round_unchanged(const struct rl_etcd_view *v);

/* The four ranges that rl_etcd_view_read takes. */
json_t *rl_etcd_read_all(const struct rl_etcd_view *v);
