/* The pods of a job that has ended, deleted by a few requests instead of one each.
 *
 * A collection is deleted by name, without a precondition: the API server lists what matches, then
 * deletes one after the other.  So it is for jobs that have ended only, which never get a pod
 * again, and for pods that carry their job's uid as a label, and only when all of those are to go;
 * and many pods are divided by their index, so that they do not wait for each other. */
#pragma once

#include "operator/control/store.h"
#include "operator/kube/client.h"

enum { OP_SWEEP_PARTS = 4 };

struct op_sweep {
    size_t parts; /* requests; 0: a plan's deletes of pods do not amount to that */
    int32_t step; /* indices of a part; the last one has all from its first on */
};

/* Few are not worth it: the API server looks through all pods of the namespace. */
struct op_sweep op_sweep_of(const struct op_store *s, const struct op_entry *e,
    const struct op_job *job, const struct op_plan *plan);
/* Whose a pod of that index is. */
size_t op_sweep_part(const struct op_sweep *sweep, int32_t index);
char *op_sweep_selector(const struct op_sweep *sweep, size_t part, const char *uid);
struct op_kube_op *op_sweep_send(const struct op_sweep *sweep, size_t part,
    struct op_kube_client *client, const struct op_kube_type *pods, const struct op_entry *e,
    const struct op_job *job, op_kube_done_fn done, void *arg);
/* The answer: what it lists counts as deleting from now on. */
void op_sweep_take(struct op_store *s, const char *ns, const struct co_jnode *list);
