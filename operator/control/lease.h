/* Who leads: a coordination.k8s.io Lease, as client-go's leader election keeps it.
 *
 * Same lock name as upstream's operator, whose lock is a ConfigMap and a Lease: both are looked
 * at before leading, so that an old and a new operator never act together.  Other holders are
 * judged by how long their record did not change here, never by their clock.  Released when
 * stopped.  Owned by the loop's thread. */
#pragma once

#include "common/loop.h"
#include "operator/control/metrics.h"
#include "operator/kube/client.h"

#define OP_LEASE_NAME "b2a304f2.paddlepaddle.org"

struct op_lease_opts {
    const char *ns;       /* where the lock lives */
    const char *name;     /* of the Lease; NULL: OP_LEASE_NAME */
    const char *identity; /* unique: "<pod>_<random>" */
    int64_t duration_ms;  /* others may take over after this; 0: 15 s */
    int64_t renew_ms;     /* given up when no renewal succeeded for this; 0: 10 s */
    int64_t retry_ms;     /* between attempts; 0: 2 s */
    struct op_metrics *metrics;
    /* true: this process leads now; false: it does not any more and must stop acting at once. */
    void (*changed)(void *arg, bool leading);
    void *arg;
};

struct op_lease;

/* For others who read leases. */
extern const struct op_kube_type op_lease_type;
/* Notes when a record (a Lease's spec) changed; true when it has been the same for the time it asks
 * for.  hash and since are the reader's memory of it, 0 at first. */
bool op_lease_expired(const json_t *record, uint64_t *hash, int64_t *since);
void op_lease_time(char ret_text[40]); /* now, as leases have it */

/* opts' strings are borrowed for the lease's life. */
struct op_lease *op_lease_new(
    struct co_loop *loop, struct op_kube_client *client, const struct op_lease_opts *opts);
/* Gives the lease back when it is held; done runs when that is written or failed. */
void op_lease_release(struct op_lease *l, void (*done)(void *arg), void *arg);
void op_lease_free(struct op_lease *l);
CO_DEFINE_CLEANUP(struct op_lease *, op_lease_free)
