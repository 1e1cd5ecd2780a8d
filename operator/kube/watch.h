/* A list and watch that never ends, the equivalent of client-go's reflector: lists a collection in
 * pages, then watches it, and relists when it must.
 *
 * Reports to one consumer what exists and what changes, and survives 410s, resets, incomplete
 * lines, half-open connections and restarts of the API server.  Stores no objects.
 *
 * The contract with the consumer: between sync_begin and sync_end every object that exists is
 * reported once as KUBE_ADDED.  An object that was known before and is not reported by sync_end
 * does not exist any more (mark and sweep).  A list that breaks off starts over with sync_begin;
 * the consumer must drop nothing before sync_end.  Outside of a list, an object may be reported
 * again with the same resourceVersion, but never with an older one.  Owned by the loop's thread;
 * callbacks run on it, never inside a call to this file. */
#pragma once

#include "operator/kube/client.h"

enum kube_event { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

struct kube_watch_ops {
    /* upto: the list contains all writes up to this version.  UINT64_MAX: the API server's data was
     * restored from a backup, so versions cannot be compared with those from before;
     * kube_watch_version is 0 until sync_end. */
    void (*sync_begin)(void *arg, uint64_t upto);
    /* Any result but 0 (with err set) rejects the object; the watch then breaks off, as it does
     * after invalid JSON. */
    int (*object)(
        void *arg, enum kube_event type, const struct kube_object *object, struct co_err *err);
    void (*sync_end)(void *arg);
    /* The watch retries by itself in retry_ms; this is for the log and a metric.  May be NULL. */
    void (*error)(void *arg, const struct co_err *err, int64_t retry_ms);
    /* The watch has reached this resourceVersion (bookmark or event).  May be NULL. */
    void (*progress)(void *arg, uint64_t version);
    /* The API server's data was reset: its lists remain older than what was known.  sync_begin
     * follows.  May be NULL. */
    void (*went_back)(void *arg);
};

struct kube_watch_opts {
    const struct kube_type *type;     /* borrowed, static */
    const char *ns;                   /* NULL: all namespaces; copied */
    const char *label_selector;       /* or NULL; copied */
    int page;                         /* objects a page; 0: 1000 */
    const struct kube_watch_ops *ops; /* borrowed, static */
    void *arg;
    bool held; /* does not begin before kube_watch_begin */
    /* For tests; 0 is the default given. */
    int64_t backoff_min_ms; /* 200 */
    int64_t backoff_max_ms; /* 8 s */
    int64_t idle_max_ms;    /* 150 s without a byte (bookmarks come every minute): reconnect */
    int64_t list_idle_ms;   /* 10 s without a byte of a page: request it on a new connection, with
                             * twice the patience each time */
    int64_t healthy_ms;     /* 3 s: a stream that lives longer resets the backoff */
    int64_t timeout_min_s; /* 300: the server is asked to end a watch after one to two times this */
};

struct kube_watch;

/* Begins on the next turn of the loop, unless it is held. */
struct kube_watch *kube_watch_new(struct kube_client *c, const struct kube_watch_opts *opts);
void kube_watch_begin(struct kube_watch *w); /* nothing if it has begun */
void kube_watch_free(struct kube_watch *w);  /* NULL allowed; safe inside a callback */
CO_DEFINE_CLEANUP(struct kube_watch *, kube_watch_free)

/* A write was answered with this version.  A list that starts from now on and is older is stale. */
void kube_watch_expect(struct kube_watch *w, uint64_t version);

/* Relists soon, because the API server's data was reset.  Not to be called from a callback of this
 * watch. */
void kube_watch_relist(struct kube_watch *w);

/* True once the first list has ended. */
bool kube_watch_synced(const struct kube_watch *w);
/* The resourceVersion reached: every write up to it has been reported.  0 before the end of the
 * first list, and during a list after a reset. */
uint64_t kube_watch_version(const struct kube_watch *w);
