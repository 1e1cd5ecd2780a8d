/* A mirror's feed: list a collection in pages, then watch it, for ever.
 *
 * Tells one consumer what exists and what changes, and survives what an API server does: 410,
 * resets, torn lines, half-open connections, restarts.  Keeps no object.  Contract with the
 * consumer: between sync_begin and sync_end every object that exists is reported once as
 * OP_KUBE_ADDED; what was known before and was not reported by sync_end is gone (mark and
 * sweep).  A sync that breaks off begins again with sync_begin; nothing is to be dropped
 * before sync_end.  Outside a sync the same object may be reported again with the same
 * resourceVersion, never with an older one.  Owned by the loop's thread; callbacks run on it, never
 * inside a call to this file. */
#pragma once

#include "operator/kube/client.h"

enum op_kube_event { OP_KUBE_ADDED, OP_KUBE_MODIFIED, OP_KUBE_DELETED };

struct op_kube_watch_ops {
    /* upto: the list shows all writes up to this version.  UINT64_MAX: versions begin anew, the API
     * server's data was restored from a backup; op_kube_watch_version is 0 until sync_end. */
    void (*sync_begin)(void *arg, uint64_t upto);
    /* A code with err set: it is no such object, and the feed breaks off as it does over what is
     * no JSON. */
    int (*object)(void *arg, enum op_kube_event type, const struct op_kube_object *object,
        struct co_err *err);
    void (*sync_end)(void *arg);
    /* Going on by itself in retry_ms; for the log and a metric.  May be NULL. */
    void (*error)(void *arg, const struct co_err *err, int64_t retry_ms);
    /* The feed has reached this resourceVersion (bookmark or event).  May be NULL. */
    void (*progress)(void *arg, uint64_t version);
    /* Lists stay behind what was known; a sync anew begins next.  May be NULL. */
    void (*went_back)(void *arg);
};

struct op_kube_watch_opts {
    const struct op_kube_type *type;     /* borrowed, static */
    const char *ns;                      /* NULL: all namespaces; copied */
    const char *label_selector;          /* or NULL; copied */
    int page;                            /* objects a page; 0: 1000 */
    const struct op_kube_watch_ops *ops; /* borrowed, static */
    void *arg;
    /* For tests; 0 is the default given. */
    int64_t backoff_min_ms; /* 200 */
    int64_t backoff_max_ms; /* 8 s */
    int64_t idle_max_ms;    /* 150 s without a byte (bookmarks come every minute): reconnect */
    int64_t list_idle_ms;   /* 10 s without a byte of a page: asked for again, elsewhere */
    int64_t timeout_min_s;  /* 300: a watch asks for this to twice this */
};

struct op_kube_watch;

/* Begins on the next turn of the loop. */
struct op_kube_watch *op_kube_watch_new(
    struct op_kube_client *c, const struct op_kube_watch_opts *opts);
void op_kube_watch_free(struct op_kube_watch *w); /* NULL allowed; safe inside a callback */
CO_DEFINE_CLEANUP(struct op_kube_watch *, op_kube_watch_free)

/* A write was answered with this version: a list that is begun from now on and does not show it is
 * behind. */
void op_kube_watch_expect(struct op_kube_watch *w, uint64_t version);

/* Lists again, soon: the API server's data is another one than the watch goes by.  Not from a
 * callback of this watch. */
void op_kube_watch_relist(struct op_kube_watch *w);

/* True once a first sync has ended. */
bool op_kube_watch_synced(const struct op_kube_watch *w);
/* The resourceVersion reached: every write up to it has been reported.  0 before the end of a
 * first sync, and in one anew. */
uint64_t op_kube_watch_version(const struct op_kube_watch *w);

struct op_kube_watch_stats {
    uint64_t lists, watches; /* started */
    uint64_t events, bytes;  /* of watches */
    uint64_t gone;           /* 410s */
    uint64_t breaks;         /* connections lost or given up */
};
struct op_kube_watch_stats op_kube_watch_stats(const struct op_kube_watch *w);
