#include "operator/control/sweep.h"

#include <stdio.h>
#include <string.h>

enum {
    FEW = 8,
    DEADLINE_MS = 60 * 1000,
};

/* At a time: it bounds the answer and how long the request takes.  The rest is the next round's. */
#define MOST "500"

static bool is_labelled(const struct op_stored *st, const struct op_job *job) {
    return st && st->kind == OP_STORE_PODS && st->pod->labelled && !st->child->deleting &&
           strcmp(st->child->owner_uid, job->uid) == 0;
}

bool op_sweep_fits(const struct op_store *s, const struct op_entry *e, const struct op_job *job,
    const struct op_plan *plan) {
    size_t left = 0;
    size_t wanted = 0;
    if (!op_phase_terminal(job->phase)) {
        return false;
    }
    for (const struct op_stored *st = e->children; st; st = st->next) {
        left += is_labelled(st, job);
    }
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct op_action *a = &plan->actions[i];
        if (a->verb != OP_DELETE || a->kind != OP_KIND_POD) {
            continue;
        }
        if (!is_labelled(op_store_child(s, OP_STORE_PODS, e->ns, a->name), job)) {
            return false;
        }
        wanted++;
    }
    return wanted >= FEW && wanted == left;
}

struct op_kube_op *op_sweep_send(struct op_kube_client *client, const struct op_kube_type *pods,
    const struct op_entry *e, const struct op_job *job, op_kube_done_fn done, void *arg) {
    char selector[256];
    (void)snprintf(selector, sizeof(selector), OP_SELECTOR "," OP_LABEL_UID "=%.128s", job->uid);
    CO_AUTOJSON json_t *options = op_kube_delete_options(NULL);
    struct op_kube_req req =
        op_kube_req_for(OP_KUBE_DELETECOLLECTION, pods, e->ns, NULL, done, arg);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = e->born;
    req.params[0] = (struct op_kube_param){"labelSelector", selector};
    req.params[1] = (struct op_kube_param){"limit", MOST};
    req.body = options;
    req.metadata_only = true;
    req.deadline_ms = DEADLINE_MS;
    return op_kube_do(client, &req);
}

void op_sweep_take(struct op_store *s, const char *ns, const json_t *list) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(list, "items"), i, item) {
        const char *name = co_json_str(item, "metadata", "name");
        const char *uid = co_json_str(item, "metadata", "uid");
        if (name && uid) {
            op_store_mark_deleting(s, OP_STORE_PODS, ns, name, uid);
        }
    }
}
