/* Fills the store: one list and watch for each kind of object, and the answers to our own writes.
 *
 * Objects in namespaces of other shards are left out.  A kind that the API server does not know
 * (PodGroups of a scheduler that is not installed) does not delay the sync.  Also measures the
 * watch's lag: the time from a write of ours until the watch delivers it.  Owned by the loop's
 * thread. */
#pragma once

#include "operator/control/metrics.h"
#include "operator/control/shard.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"
#include "operator/plan/gang.h"

struct op_feeds_opts {
    const char *ns;             /* NULL: all namespaces */
    const char *selector;       /* label selector of jobs; NULL: all */
    struct op_shard_id shard;   /* of the jobs selected, only those of this shard */
    const struct op_gang *gang; /* whose PodGroups are watched; NULL: none */
    int64_t idle_ms;            /* 0: the watch's own default */
    struct op_store *store;
    struct op_metrics *metrics;
    void (*synced)(void *arg); /* all kinds have been listed; runs once */
    /* The API server does not know the gang's PodGroups, which are optional; they are not watched
     * any more.  Runs before synced, if at all. */
    void (*no_groups)(void *arg);
    void *arg;
};

struct op_feeds;

/* Everything in opts is borrowed.  Begins on the next turn of the loop. */
struct op_feeds *op_feeds_new(struct op_kube_client *client, const struct op_feeds_opts *opts);
void op_feeds_free(struct op_feeds *f);

bool op_feeds_synced(const struct op_feeds *f);
/* The API type of a kind; that of PodGroups is set with a gang only.  Valid as long as the feeds
 * are. */
const struct op_kube_type *op_feeds_type(const struct op_feeds *f, enum op_store_kind kind);
/* Puts the object in the answer to a write of ours into the store; the reply must have nodes. */
void op_feeds_answered(
    struct op_feeds *f, enum op_store_kind kind, const struct op_kube_reply *reply);
