/* Builds the transactions with which a node writes and reads the keys of etcd_view.h.  Pure.  The
 * caller owns what is returned. */
#pragma once

#include "runtime/launch/rendezvous/etcd_view.h"

/* The node's own keys: that it is alive, where it answers, its value, and, when it joins, that it
 * is ready for the next round. */
json_t *rdzv_etcd_write_node(const struct rdzv_etcd_view *v, const struct rdzv_options *o,
    const char *id, uint16_t port, bool joins, const char *lease);

/* Marks a node as late, or removes the mark. */
json_t *rdzv_etcd_write_late(
    const struct rdzv_etcd_view *v, const char *name, bool late, const char *lease);
/* For a node that was found dead: deletes its keys before their lease ends, and writes a reason in
 * its name.  To be run under rdzv_etcd_node_unchanged: a node that has written since is alive. */
json_t *rdzv_etcd_write_gone(
    const struct rdzv_etcd_view *v, const struct rdzv_etcd_node *n, const char *memo);
/* For nodes that ended well and could not write that themselves; docs: name -> document. */
json_t *rdzv_etcd_write_ended(const struct rdzv_etcd_view *v, const json_t *docs, const char *memo);
json_t *rdzv_etcd_node_unchanged(const struct rdzv_etcd_view *v, const struct rdzv_etcd_node *n);

/* Messages of a node that are written once; bits. */
enum {
    RDZV_ETCD_SEND_DONE = 1,  /* its workers ended well */
    RDZV_ETCD_SEND_AGAIN = 2, /* it asks to end the round and to begin another */
    RDZV_ETCD_SEND_WHY = 4,   /* why it leaves */
    RDZV_ETCD_SEND_STATUS = 8 /* "completed", for Paddle's nodes: they do not restart then */
};

struct rdzv_etcd_messages {
    unsigned what; /* RDZV_ETCD_SEND_... */
    int round;     /* the round that the node met in last */
    int code;      /* with WHY */
    const char *why;
};

json_t *rdzv_etcd_write_messages(const struct rdzv_etcd_view *v, const struct rdzv_options *o,
    const struct rdzv_etcd_messages *messages, const char *lease);

/* The document of the next round that was decided on, and the operation that writes it. */
json_t *rdzv_etcd_next_round(const struct rdzv_etcd_view *v, const struct rdzv_etcd_decision *d);
json_t *rdzv_etcd_write_round(const struct rdzv_etcd_view *v, json_t *round_own);
/* The condition that no other node has written a round since the view was read. */
json_t *rdzv_etcd_round_unchanged(const struct rdzv_etcd_view *v);

/* Reads the four ranges that rdzv_etcd_view_read expects. */
json_t *rdzv_etcd_read_all(const struct rdzv_etcd_view *v);
