/* The pods of a job that has ended, deleted by one request instead of one each.
 *
 * A collection is deleted by name, without a precondition: the API server lists what matches, then
 * deletes one after the other.  So it is for jobs that have ended only, which never get a pod
 * again, and for pods that carry their job's uid as a label, and only when all of those are to go.
 */
#pragma once

#include "operator/control/store.h"
#include "operator/kube/client.h"

/* Do a plan's deletes of pods amount to that?  Few are not worth it: the API server looks through
 * all pods of the namespace. */
bool op_sweep_fits(const struct op_store *s, const struct op_entry *e, const struct op_job *job,
    const struct op_plan *plan);
struct op_kube_op *op_sweep_send(struct op_kube_client *client, const struct op_kube_type *pods,
    const struct op_entry *e, const struct op_job *job, op_kube_done_fn done, void *arg);
/* The answer: what it lists counts as deleting from now on. */
void op_sweep_take(struct op_store *s, const char *ns, const json_t *list);
