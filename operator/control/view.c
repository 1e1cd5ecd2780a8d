/* Builds the planner's view of an entry, and decodes its job. */
#include "operator/control/view.h"

#include "operator/control/jobtext.h"

#include <string.h>

void op_view_init(struct op_view *v, const struct op_entry *e) {
    *v = (struct op_view){0};
    v->pods = co_xcalloc(e->n_children, sizeof(struct op_pod *));
    v->services = co_xcalloc(e->n_children, sizeof(struct op_service *));
    for (const struct op_stored *st = e->children; st; st = st->next) {
        if (st->kind == OP_STORE_PODS) {
            v->pods[v->seen.n_pods++] = st->pod;
        } else if (st->kind == OP_STORE_SERVICES) {
            v->services[v->seen.n_services++] = st->service;
        } else if (strcmp(st->child->name, e->name) != 0) {
            continue;
        } else if (st->kind == OP_STORE_CONFIGMAPS) {
            v->seen.configmap = st->configmap;
        } else {
            v->seen.podgroup = st->podgroup;
        }
    }
    size_t n = 0;
    for (const struct op_stored *st = e->ended; st; st = st->next) {
        n++;
    }
    v->ended = co_xcalloc(n, sizeof(struct op_pod *));
    for (const struct op_stored *st = e->ended; st; st = st->next) {
        v->ended[v->seen.n_ended++] = st->pod;
    }
    v->seen.ended = v->ended;
    v->seen.pods = v->pods;
    v->seen.services = v->services;
}

void op_view_done(struct op_view *v) {
    free(v->pods);
    free(v->services);
    free(v->ended);
    *v = (struct op_view){0};
}

struct elder {
    const struct op_entry *of;
    bool waits;
};

/* Of two jobs of the same second the first by name is the older one. */
static bool is_older(const struct op_entry *a, const struct op_entry *b) {
    return a->created != b->created ? a->created < b->created : strcmp(a->name, b->name) < 0;
}

static void look_for_elder(void *arg, struct op_entry *e) {
    struct elder *elder = arg;
    bool waits = e->waits || e->phase == OP_PHASE_RESTARTING;
    elder->waits = elder->waits || (op_entry_has_job(e) && waits && !e->deleting &&
                                       strcmp(e->ns, elder->of->ns) == 0 && is_older(e, elder->of));
}

bool op_view_elder_waits(const struct op_store *s, const struct op_entry *e) {
    struct elder elder = {.of = e};
    op_store_each(s, look_for_elder, &elder);
    return elder.waits;
}

int op_view_job(const struct op_entry *e, struct op_job **ret, struct co_err *err) {
    json_t *obj = NULL;
    CO_AUTOFREE char *text = op_jobtext_read(&e->job);
    int r = co_json_parse_odd(text, e->job.len, &obj, err);
    return r ? r : op_job_decode(obj, ret, err);
}

int op_view_job_again(
    struct op_view_memo *m, const struct op_entry *e, struct op_job **ret, struct co_err *err) {
    if (!m->job || m->edition != e->edition) {
        op_view_memo_done(m);
        int r = op_view_job(e, &m->job, err);
        if (r) {
            return r;
        }
        m->edition = e->edition;
    }
    *ret = op_job_share(m->job);
    return 0;
}

void op_view_memo_done(struct op_view_memo *m) {
    op_job_free(co_steal_ptr(m->job));
}
