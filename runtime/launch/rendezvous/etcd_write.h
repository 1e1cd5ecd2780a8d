/* What a node writes to an etcd, and how it reads all of it: operations for one transaction.  The
 * keys are those of etcd_view.h.  Pure; the caller owns what is returned. */
#pragma once

#include "runtime/launch/rendezvous/etcd_view.h"

/* Its own keys: it is alive, where it answers, what its value is, and (joins) that it is ready for
 * the next round. */
json_t *rt_etcd_write_node(const struct rt_etcd_view *v, const struct rt_rdzv_options *o,
    const char *id, uint16_t port, bool joins, const char *lease);

/* That a node is mute, or no more. */
json_t *rt_etcd_write_mute(
    const struct rt_etcd_view *v, const char *name, bool mute, const char *lease);
/* Another node is dead: its keys go before their lease ends, and words stand in for its last ones.
 * Where that node has not written anything since. */
json_t *rt_etcd_write_gone(
    const struct rt_etcd_view *v, const struct rt_etcd_node *n, const char *memo);
json_t *rt_etcd_node_unchanged(const struct rt_etcd_view *v, const struct rt_etcd_node *n);

/* What a node says at some time; bits. */
enum {
    RT_ETCD_SAY_DONE = 1,  /* its workers ended well */
    RT_ETCD_SAY_AGAIN = 2, /* the round shall end */
    RT_ETCD_SAY_WHY = 4,   /* why it goes */
    RT_ETCD_SAY_STATUS = 8 /* "completed", for Paddle's nodes: they do not start again then */
};

struct rt_etcd_words {
    unsigned what;
    int round; /* met last */
    int code;  /* with WHY */
    const char *why;
};

json_t *rt_etcd_write_words(const struct rt_etcd_view *v, const struct rt_rdzv_options *o,
    const struct rt_etcd_words *words, const char *lease);

/* The document of the next round, as decided; and how it is written. */
json_t *rt_etcd_next_round(const struct rt_etcd_view *v, const struct rt_etcd_decision *d);
json_t *rt_etcd_write_round(const struct rt_etcd_view *v, json_t *round_own);
/* That no other round has been written since the view was read. */
json_t *rt_etcd_round_unchanged(const struct rt_etcd_view *v);

/* The four ranges that rt_etcd_view_read takes. */
json_t *rt_etcd_read_all(const struct rt_etcd_view *v);
