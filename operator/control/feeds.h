/* Fills the store: one list and watch for each kind of object, and the answers to our own writes.
 *
 * Objects in namespaces of other shards are left out.  A kind that the API server does not know
 * (PodGroups of a scheduler that is not installed) does not delay the sync.  Also measures the
 * watch's lag: the time from a write of ours until the watch delivers it.  Owned by the loop's
 * thread. */
#pragma once

#include "operator/control/operator_metrics.h"
#include "operator/control/shard.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"
#include "operator/plan/gang.h"

struct ctl_feeds_opts {
    const char *ns;               /* NULL: all namespaces */
    const char *selector;         /* label selector of jobs; NULL: all */
    struct ctl_shard_id shard;    /* of the jobs selected, only those of this shard */
    const struct plan_gang *gang; /* whose PodGroups are watched; NULL: none */
    int64_t idle_ms;              /* 0: the watch's own default */
    struct ctl_store *store;
    struct ctl_metrics *metrics;
    /* A kind has been listed, or is known to be absent; runs before synced.  May be NULL. */
    void (*listed)(void *arg);
    void (*synced)(void *arg); /* all kinds have been listed; runs once */
    /* The API server does not know the gang's PodGroups, which are optional; they are not watched
     * any more.  Runs before synced, if at all. */
    void (*no_groups)(void *arg);
    void *arg;
};

struct ctl_feeds;

/* Everything in opts is borrowed.  Begins on the next turn of the loop. */
struct ctl_feeds *ctl_feeds_new(struct kube_client *client, const struct ctl_feeds_opts *opts);
void ctl_feeds_free(struct ctl_feeds *f);

bool ctl_feeds_synced(const struct ctl_feeds *f);
/* This kind has been listed, or there is nothing to list. */
bool ctl_feeds_listed(const struct ctl_feeds *f, enum ctl_store_kind kind);
/* The API type of a kind; that of PodGroups is set with a gang only.  Valid as long as the feeds
 * are. */
const struct kube_type *ctl_feeds_type(const struct ctl_feeds *f, enum ctl_store_kind kind);
/* Puts the object in the answer to a write of ours into the store; the reply must have nodes. */
void ctl_feeds_answered(
    struct ctl_feeds *f, enum ctl_store_kind kind, const struct kube_reply *reply);
/* The job's stored version lacks what the API server has in the same version, as in the reply:
 * while a CRD is replaced, a watch may still deliver objects without the fields that are new. */
void ctl_feeds_corrected(
    struct ctl_feeds *all, struct ctl_entry *e, const struct kube_reply *reply);
