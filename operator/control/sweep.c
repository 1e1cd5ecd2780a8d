/* Plans and sends deletecollection requests for the pods of a job that has ended. */
#include "operator/control/sweep.h"

#include <stdio.h>
#include <string.h>

enum {
    FEW = 8,                 /* fewer deletes than this are sent one by one */
    PODS_A_PART = 25,        /* there are as many parts as have this many pods each */
    DEADLINE_MS = 60 * 1000, /* the server deletes up to MOST pods before it answers */
};

/* Pods in one request: bounds its answer and its time.  The next round deletes the rest. */
#define MOST "500"

/* A pod of the job that a sweep would find and that is not being deleted yet. */
static bool is_labelled(const struct op_stored *st, const struct op_job *job) {
    return st && st->kind == OP_STORE_PODS && st->pod->labelled && !st->child->deleting &&
           strcmp(st->child->owner_uid, job->uid) == 0;
}

struct op_sweep op_sweep_of(const struct op_store *s, const struct op_entry *e,
    const struct op_job *job, const struct op_plan *plan) {
    size_t left = 0;
    size_t wanted = 0;
    int32_t last = 0;
    if (!op_phase_terminal(job->phase)) {
        return (struct op_sweep){0};
    }
    for (const struct op_stored *st = e->children; st; st = st->next) {
        left += is_labelled(st, job);
    }
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct op_action *a = &plan->actions[i];
        if (a->verb != OP_DELETE || a->kind != OP_KIND_POD) {
            continue;
        }
        const struct op_stored *st = op_store_child(s, OP_STORE_PODS, e->ns, a->name);
        if (!is_labelled(st, job)) {
            return (struct op_sweep){0};
        }
        last = st->pod->index > last ? st->pod->index : last;
        wanted++;
    }
    if (wanted < FEW || wanted != left) {
        return (struct op_sweep){0};
    }
    size_t parts = wanted / PODS_A_PART;
    parts = parts < 1 ? 1 : parts > OP_SWEEP_PARTS ? OP_SWEEP_PARTS : parts;
    return (struct op_sweep){.parts = parts, .step = last / (int32_t)parts + 1};
}

size_t op_sweep_part(const struct op_sweep *sweep, int32_t index) {
    size_t part = (size_t)(index / sweep->step);
    return part < sweep->parts ? part : sweep->parts - 1;
}

/* The first part has no lower bound and the last one no upper bound. */
char *op_sweep_selector(const struct op_sweep *sweep, size_t part, const char *uid) {
    char from[64] = "";
    char to[64] = "";
    if (part > 0) {
        (void)snprintf(
            from, sizeof(from), "," OP_LABEL_INDEX ">%d", (int32_t)part * sweep->step - 1);
    }
    if (part + 1 < sweep->parts) {
        (void)snprintf(to, sizeof(to), "," OP_LABEL_INDEX "<%d", (int32_t)(part + 1) * sweep->step);
    }
    return co_xasprintf(OP_SELECTOR "," OP_LABEL_UID "=%s%s%s", uid, from, to);
}

struct op_kube_op *op_sweep_send(const struct op_sweep *sweep, size_t part,
    struct op_kube_client *client, const struct op_kube_type *pods, const struct op_entry *e,
    const struct op_job *job, op_kube_done_fn done, void *arg) {
    CO_AUTOFREE char *selector = op_sweep_selector(sweep, part, job->uid);
    CO_AUTOJSON json_t *options = op_kube_delete_options(NULL, false);
    struct op_kube_req req =
        op_kube_req_for(OP_KUBE_DELETECOLLECTION, pods, e->ns, NULL, done, arg);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = e->born;
    req.params[0] = (struct op_kube_param){"labelSelector", selector};
    req.params[1] = (struct op_kube_param){"limit", MOST};
    req.body = options;
    req.metadata_only = true;
    req.answer = OP_KUBE_NODES;
    req.deadline_ms = DEADLINE_MS;
    return op_kube_do(client, &req);
}

void op_sweep_take(struct op_store *s, const char *ns, const struct co_jnode *list) {
    co_jnode_each(item, co_jnode_get(list, "items")) {
        const char *name = co_jnode_str(item, "metadata", "name");
        const char *uid = co_jnode_str(item, "metadata", "uid");
        if (name && uid) {
            op_store_mark_deleting(s, OP_STORE_PODS, ns, name, uid);
        }
    }
}
