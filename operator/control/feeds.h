/* What fills the store: a watch for each kind of object, and the answers to our own writes.
 *
 * Takes what is of this shard's namespaces and leaves out the rest.  A kind that the API server
 * does not know (groups of a scheduler that is not installed) keeps nobody waiting.  Measures how
 * long a write of ours takes to come back by the watch.  Owned by the loop's thread. */
#pragma once

#include "operator/control/metrics.h"
#include "operator/control/shard.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"
#include "operator/plan/gang.h"

struct op_feeds_opts {
    const char *ns;             /* NULL: all namespaces */
    const char *selector;       /* of jobs, by their labels; NULL: all */
    struct op_shard_id shard;   /* of these, its own only */
    const struct op_gang *gang; /* whose groups are followed; NULL: none */
    int64_t idle_ms;            /* 0: the watch's own default */
    struct op_store *store;
    struct op_metrics *metrics;
    void (*synced)(void *arg); /* all have listed once; runs once */
    /* The API server has none of the gang's groups, which are optional, and they are not followed
     * any more; before synced if ever. */
    void (*no_groups)(void *arg);
    void *arg;
};

struct op_feeds;

/* Everything in opts is borrowed.  Begins on the next turn of the loop. */
struct op_feeds *op_feeds_new(struct op_kube_client *client, const struct op_feeds_opts *opts);
void op_feeds_free(struct op_feeds *f);

bool op_feeds_synced(const struct op_feeds *f);
/* How requests name a kind; of groups, with a gang only.  Valid as long as the feeds are. */
const struct op_kube_type *op_feeds_type(const struct op_feeds *f, enum op_store_kind kind);
/* What a write was answered with: its nodes. */
void op_feeds_answered(
    struct op_feeds *f, enum op_store_kind kind, const struct op_kube_reply *reply);
