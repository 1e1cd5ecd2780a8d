/* Builds the planner's view of an entry, and decodes its job. */
#include "operator/control/view.h"

#include <string.h>

void ctl_view_init(struct ctl_view *v, const struct ctl_entry *e) {
    *v = (struct ctl_view){0};
    v->pods = co_xcalloc(e->n_children, sizeof(struct api_pod *));
    v->services = co_xcalloc(e->n_children, sizeof(struct api_service *));
    for (const struct ctl_stored *st = e->children; st; st = st->next) {
        if (st->kind == CTL_STORE_PODS) {
            v->pods[v->seen.n_pods++] = st->pod;
        } else if (st->kind == CTL_STORE_SERVICES) {
            v->services[v->seen.n_services++] = st->service;
        } else if (strcmp(st->child->name, e->name) != 0) {
            continue;
        } else if (st->kind == CTL_STORE_CONFIGMAPS) {
            v->seen.configmap = st->configmap;
        } else {
            v->seen.podgroup = st->podgroup;
        }
    }
    size_t n = 0;
    for (const struct ctl_stored *st = e->ended; st; st = st->next) {
        n++;
    }
    v->ended = co_xcalloc(n, sizeof(struct api_pod *));
    for (const struct ctl_stored *st = e->ended; st; st = st->next) {
        v->ended[v->seen.n_ended++] = st->pod;
    }
    v->seen.ended = v->ended;
    v->seen.pods = v->pods;
    v->seen.services = v->services;
}

void ctl_view_done(struct ctl_view *v) {
    free(v->pods);
    free(v->services);
    free(v->ended);
    *v = (struct ctl_view){0};
}

struct elder {
    const struct ctl_entry *of;
    bool waits;
};

/* Of two jobs of the same second the first by name is the older one. */
static bool is_older(const struct ctl_entry *a, const struct ctl_entry *b) {
    return a->created != b->created ? a->created < b->created : strcmp(a->name, b->name) < 0;
}

static void look_for_elder(void *arg, struct ctl_entry *e) {
    struct elder *elder = arg;
    bool waits = e->waits || e->phase == API_PHASE_RESTARTING;
    elder->waits = elder->waits || (ctl_entry_has_job(e) && waits && !e->deleting &&
                                       strcmp(e->ns, elder->of->ns) == 0 && is_older(e, elder->of));
}

bool ctl_view_elder_waits(const struct ctl_store *s, const struct ctl_entry *e) {
    struct elder elder = {.of = e};
    ctl_store_each(s, look_for_elder, &elder);
    return elder.waits;
}

int ctl_view_job(const struct ctl_entry *e, struct api_job **ret, struct co_err *err) {
    json_t *obj = NULL;
    CO_TRY(co_json_parse_odd(e->text, e->text_node.size, &obj, err));
    return api_job_decode(obj, ret, err);
}

int ctl_view_job_again(
    struct ctl_view_memo *m, const struct ctl_entry *e, struct api_job **ret, struct co_err *err) {
    if (!m->job || m->edition != e->edition) {
        ctl_view_memo_done(m);
        CO_TRY(ctl_view_job(e, &m->job, err));
        m->edition = e->edition;
    }
    *ret = api_job_share(m->job);
    return 0;
}

void ctl_view_memo_done(struct ctl_view_memo *m) {
    api_job_free(co_steal_ptr(m->job));
}
