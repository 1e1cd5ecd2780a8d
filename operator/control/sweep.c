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
static bool is_labelled(const struct ctl_stored *st, const struct api_job *job) {
    return st && st->kind == CTL_STORE_PODS && st->pod->labelled && !st->child->deleting &&
           strcmp(st->child->owner_uid, job->uid) == 0;
}

struct ctl_sweep ctl_sweep_of(const struct ctl_store *s, const struct ctl_entry *e,
    const struct api_job *job, const struct plan *plan) {
    size_t left = 0;
    size_t wanted = 0;
    int32_t last = 0;
    if (!api_phase_terminal(job->phase)) {
        return (struct ctl_sweep){0};
    }
    for (const struct ctl_stored *st = e->children; st; st = st->next) {
        left += is_labelled(st, job);
    }
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct plan_action *a = &plan->actions[i];
        if (a->verb != PLAN_DELETE || a->kind != PLAN_KIND_POD) {
            continue;
        }
        const struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, e->ns, a->name);
        if (!is_labelled(st, job)) {
            return (struct ctl_sweep){0};
        }
        last = st->pod->index > last ? st->pod->index : last;
        wanted++;
    }
    if (wanted < FEW || wanted != left) {
        return (struct ctl_sweep){0};
    }
    size_t parts = wanted / PODS_A_PART;
    parts = parts < 1 ? 1 : parts > CTL_SWEEP_PARTS ? CTL_SWEEP_PARTS : parts;
    return (struct ctl_sweep){.parts = parts, .step = last / (int32_t)parts + 1};
}

size_t ctl_sweep_part(const struct ctl_sweep *sweep, int32_t index) {
    size_t part = (size_t)(index / sweep->step);
    return part < sweep->parts ? part : sweep->parts - 1;
}

/* The first part has no lower bound and the last one no upper bound. */
char *ctl_sweep_selector(const struct ctl_sweep *sweep, size_t part, const char *uid) {
    char from[64] = "";
    char to[64] = "";
    if (part > 0) {
        (void)snprintf(
            from, sizeof(from), "," API_LABEL_INDEX ">%d", (int32_t)part * sweep->step - 1);
    }
    if (part + 1 < sweep->parts) {
        (void)snprintf(
            to, sizeof(to), "," API_LABEL_INDEX "<%d", (int32_t)(part + 1) * sweep->step);
    }
    return co_xasprintf(API_SELECTOR "," API_LABEL_UID "=%s%s%s", uid, from, to);
}

struct kube_op *ctl_sweep_send(const struct ctl_sweep *sweep, size_t part,
    struct kube_client *client, const struct kube_type *pods, const struct ctl_entry *e,
    const struct api_job *job, kube_done_fn done, void *arg) {
    CO_AUTOFREE char *selector = ctl_sweep_selector(sweep, part, job->uid);
    CO_AUTOJSON json_t *options = kube_delete_options(NULL, false);
    struct kube_req req = kube_req_for(KUBE_DELETECOLLECTION, pods, e->ns, NULL, done, arg);
    req.class = KUBE_CLASS_WORK;
    req.flow = e->serial;
    req.params[0] = (struct kube_param){"labelSelector", selector};
    req.params[1] = (struct kube_param){"limit", MOST};
    req.body = options;
    req.metadata_only = true;
    req.answer = KUBE_NODES;
    req.deadline_ms = DEADLINE_MS;
    return kube_do(client, &req);
}

void ctl_sweep_take(struct ctl_store *s, const char *ns, const struct co_jnode *list) {
    co_jnode_each(item, co_jnode_get(list, "items")) {
        const char *name = co_jnode_str(item, "metadata", "name");
        const char *uid = co_jnode_str(item, "metadata", "uid");
        if (name && uid) {
            ctl_store_mark_deleting(s, CTL_STORE_PODS, ns, name, uid);
        }
    }
}
