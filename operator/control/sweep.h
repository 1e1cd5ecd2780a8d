/* Deletes the pods of an ended job with a few deletecollection requests, instead of one a pod.
 *
 * The API server executes such a request by listing what matches and deleting one pod after the
 * other by name, without a UID precondition.  So it is used only where no new pod of that name can
 * appear: for jobs that have ended, for pods that have the job's uid as a label, and only when all
 * of those are to be deleted.  Many pods are divided by their index into up to CTL_SWEEP_PARTS
 * requests, which the API server executes in parallel. */
#pragma once

#include "operator/control/store.h"
#include "operator/kube/client.h"

enum { CTL_SWEEP_PARTS = 4 };

struct ctl_sweep {
    size_t parts; /* requests; 0: the plan's deletes cannot be done so */
    int32_t step; /* indices in a part; the last part has all that remain */
};

/* Whether the deletes of a plan can be done by a sweep, and in how many parts.  A few pods are not
 * worth it, since the API server filters all pods of the namespace. */
struct ctl_sweep ctl_sweep_of(const struct ctl_store *s, const struct ctl_entry *e,
    const struct api_job *job, const struct plan *plan);
/* The part that a pod of this index belongs to. */
size_t ctl_sweep_part(const struct ctl_sweep *sweep, int32_t index);
char *ctl_sweep_selector(const struct ctl_sweep *sweep, size_t part, const char *uid);
struct kube_op *ctl_sweep_send(const struct ctl_sweep *sweep, size_t part,
    struct kube_client *client, const struct kube_type *pods, const struct ctl_entry *e,
    const struct api_job *job, kube_done_fn done, void *arg);
/* Takes the answer: the pods that it lists count as deleting from now on. */
void ctl_sweep_take(struct ctl_store *s, const char *ns, const struct co_jnode *list);
