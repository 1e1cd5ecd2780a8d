/* Leader election by a coordination.k8s.io Lease, compatible with client-go's.
 *
 * The lock has the same name as that of upstream's operator, which holds a ConfigMap and a Lease.
 * Both must be free before this one leads, so that an old and a new operator never act together.
 * Another holder's lease has expired when its record has not changed here for its duration; the
 * holder's clock does not matter.  The lease is released at a stop.  Owned by the loop's thread. */
#pragma once

#include "common/loop.h"
#include "operator/control/operator_metrics.h"
#include "operator/kube/client.h"

#define CTL_LEASE_NAME "b2a304f2.paddlepaddle.org"

struct ctl_lease_opts {
    const char *ns;       /* where the lock lives */
    const char *name;     /* of the Lease; NULL: CTL_LEASE_NAME */
    const char *identity; /* unique: "<pod>_<random>" */
    int64_t duration_ms;  /* a standby may take over after this; 0: 15 s */
    int64_t renew_ms;     /* the holder gives up after so long without a renewal; 0: 10 s */
    int64_t retry_ms;     /* between attempts; 0: 2 s */
    struct ctl_metrics *metrics;
    /* true: this process leads now; false: it does not any more and must stop acting at once. */
    void (*changed)(void *arg, bool leading);
    void *arg;
};

struct ctl_lease;

/* For other files that read leases (shard.c). */
extern const struct kube_type ctl_lease_type;
/* Whether a record (a Lease's spec) has not changed for its leaseDurationSeconds.  The caller keeps
 * *hash and *since between calls, 0 at first: the record seen last, and since when. */
bool ctl_lease_expired(const json_t *record, uint64_t *hash, int64_t *since);
void ctl_lease_time(char ret_text[40]); /* the current time as a MicroTime */

/* opts' strings are borrowed for the lease's life. */
struct ctl_lease *ctl_lease_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_lease_opts *opts);
/* Releases the lease if this process holds it; done runs when that is written or has failed. */
void ctl_lease_release(struct ctl_lease *l, void (*done)(void *arg), void *arg);
void ctl_lease_free(struct ctl_lease *l);
CO_DEFINE_CLEANUP(struct ctl_lease *, ctl_lease_free)
