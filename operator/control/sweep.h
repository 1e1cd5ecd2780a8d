/* Deletes the pods of an ended job with a few deletecollection requests, instead of one a pod.
 *
 * The API server executes such a request by listing what matches and deleting one pod after the
 * other by name, without a UID precondition.  So it is used only where no new pod of that name can
 * appear: for jobs that have ended, for pods that have the job's uid as a label, and only when all
 * of those are to be deleted.  Many pods are divided by their index into up to OP_SWEEP_PARTS
 * requests, which the API server executes in parallel. */
#pragma once

#include "operator/control/store.h"
#include "operator/kube/client.h"

enum { OP_SWEEP_PARTS = 4 };

struct op_sweep {
    size_t parts; /* requests; 0: the plan's deletes cannot be done so */
    int32_t step; /* indices in a part; the last part has all that remain */
};

/* Whether the deletes of a plan can be done by a sweep, and in how many parts.  A few pods are not
 * worth it, since the API server filters all pods of the namespace. */
struct op_sweep op_sweep_of(const struct op_store *s, const struct op_entry *e,
    const struct op_job *job, const struct op_plan *plan);
/* The part that a pod of this index belongs to. */
size_t op_sweep_part(const struct op_sweep *sweep, int32_t index);
char *op_sweep_selector(const struct op_sweep *sweep, size_t part, const char *uid);
struct op_kube_op *op_sweep_send(const struct op_sweep *sweep, size_t part,
    struct op_kube_client *client, const struct op_kube_type *pods, const struct op_entry *e,
    const struct op_job *job, op_kube_done_fn done, void *arg);
/* Takes the answer: the pods that it lists count as deleting from now on. */
void op_sweep_take(struct op_store *s, const char *ns, const struct co_jnode *list);
