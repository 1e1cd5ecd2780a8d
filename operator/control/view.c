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
