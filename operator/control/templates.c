/* One list request, for which the operator needs no verb that its watch does not need. */
#include "operator/control/templates.h"

#include "operator/api/began.h"

static json_t *by_role(const struct co_jnode *configmap) {
    json_t *all = json_object();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const char *text =
            co_jnode_str(configmap, "metadata", "annotations", api_began_annotation(r));
        co_json_set(all, api_role_name(r), api_began_parse(text));
    }
    return all;
}

static void list_came(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_templates *t = arg;
    t->op = NULL;
    if (!code) { /* none if the ConfigMap is gone */
        const struct co_jnode *items = co_jnode_get(reply->nodes, "items");
        t->by_role = json_object();
        co_jnode_each(item, items) {
            co_json_decref(&t->by_role);
            t->by_role = by_role(item);
        }
    }
    t->done(t->arg, t, code, err);
}

void ctl_templates_read(
    struct ctl_templates *t, struct kube_client *client, const struct kube_type *configmaps) {
    const struct ctl_entry *e = t->entry;
    CO_AUTOFREE char *selector = co_xasprintf("metadata.name=%s", e->name);
    struct kube_req req = kube_req_for(KUBE_LIST, configmaps, e->ns, NULL, list_came, t);
    req.class = KUBE_CLASS_WORK;
    req.flow = e->serial;
    req.params[0] = (struct kube_param){"fieldSelector", selector};
    req.answer = KUBE_NODES;
    co_json_decref(&t->by_role);
    t->op = kube_do(client, &req);
}

bool ctl_templates_cancel(struct ctl_templates *t) {
    bool asked = t->op;
    kube_cancel(co_steal_ptr(t->op));
    return asked;
}

void ctl_templates_done(struct ctl_templates *t) {
    (void)ctl_templates_cancel(t);
    co_json_decref(&t->by_role);
}
