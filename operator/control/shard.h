/* Sharding by namespace: this operator is shard i of N.
 *
 * Each shard has a Lease of its own.  One more Lease, the layout, records which N is in force:
 *
 *   b2a304f2.paddlepaddle.org-0-of-3    lease of shard 0 of 3
 *   b2a304f2.paddlepaddle.org-1-of-3    ...
 *   b2a304f2.paddlepaddle.org-shards    the layout; its holderIdentity is N
 *
 * A shard that holds its lease acts only after it has been admitted, that is, has updated the
 * layout (with the resourceVersion that it read).  If the layout names another N, it first waits
 * until all leases of that N, and the lease of an operator without shards, are free or expired.  So
 * operators of two layouts never act at the same time, and when those of one are gone the next
 * layout takes over.  Owned by the loop's thread. */
#pragma once

#include "operator/control/lease.h"

enum { CTL_SHARDS_MAX = 64 };

struct ctl_shard_id {
    unsigned index, count; /* index of count; count 0: no shards */
};

/* "i/N", i from 0; CO_INVALID says what was expected. */
CO_MUST_CHECK int ctl_shard_parse(const char *text, struct ctl_shard_id *ret, struct co_err *err);
/* Whether a namespace belongs to this shard.  The hash must never change between versions. */
bool ctl_shard_has(const struct ctl_shard_id *id, const char *ns);
/* Name of its Lease. */
void ctl_shard_lease(const struct ctl_shard_id *id, char *ret, size_t size);

struct ctl_shard_opts {
    const char *ns; /* of the leases */
    struct ctl_shard_id id;
    int64_t retry_ms; /* between attempts; 0: 2 s */
    /* This shard's layout is in force, so it may act. */
    void (*admitted)(void *arg);
    void *arg;
};

struct ctl_shard;

struct ctl_shard *ctl_shard_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_shard_opts *opts);
/* true: the shard holds its lease now and seeks admission.  false: it has lost the lease. */
void ctl_shard_leased(struct ctl_shard *s, bool leased);
void ctl_shard_free(struct ctl_shard *s); /* NULL allowed */
CO_DEFINE_CLEANUP(struct ctl_shard *, ctl_shard_free)
