/* Rejected requests, the first first, and when a job gives up what it has. */
#include "operator/plan/refused.h"

#include "operator/plan/env.h"
#include "operator/plan/gang.h"
#include "operator/plan/policy.h"
#include "operator/plan/reason_table.h"

#include <inttypes.h>

enum {
    /* While no older job waits, a job keeps its pods so many times as long. */
    OLDEST_FACTOR = 5,
    /* Rejected creates are tried again after 30 s at most (control/failures.c): by then another job
     * has taken what was given back. */
    AWAY_MIN = 30,
};

static const struct op_failure *refused_slot(const struct op_world *w) {
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        for (int32_t i = 0; i < op_world_replicas(w, r); i++) {
            const struct op_slot *s = &w->slot[r][i];
            if (s->pod_failure && !s->pod) {
                return s->pod_failure;
            }
            if (s->service_failure && !s->service && op_world_wants_services(w)) {
                return s->service_failure;
            }
        }
    }
    return NULL;
}

const struct op_failure *op_refused_first(const struct op_world *w, const json_t *env) {
    if (w->secret_failure && w->job->peer_auth != OP_PEER_NONE && !w->seen->token &&
        op_world_lacks_pods(w)) {
        return w->secret_failure;
    }
    const struct op_failure *f = refused_slot(w);
    if (f) {
        return f;
    }
    if (w->service_failure && !w->service && w->job->intranet == OP_DNS) {
        return w->service_failure;
    }
    if (w->configmap_failure && !(w->configmap && (!env || op_env_published(w, env)))) {
        return w->configmap_failure;
    }
    bool gang = op_gang_of(w->job, w->settings);
    return gang && !w->podgroup ? w->podgroup_failure : NULL;
}

/* When the last pod was created; 0: there is none.  *ret_n: how many there are. */
static int64_t last_created(const struct op_world *w, int32_t *ret_n) {
    int64_t last = 0;
    *ret_n = 0;
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        for (int32_t i = 0; i < op_world_replicas(w, r); i++) {
            const struct op_pod *pod = w->slot[r][i].pod;
            if (pod && !pod->c.deleting) {
                last = pod->c.at > last ? pod->c.at : last;
                ++*ret_n;
            }
        }
    }
    return last;
}

bool op_refused_give_back(struct op_outlook *o, const struct op_world *w, const json_t *env) {
    const struct op_failure *f = op_refused_first(w, env);
    int64_t patience = w->settings->give_back_after * (w->seen->elder_waits ? 1 : OLDEST_FACTOR);
    /* Elastic pods start without the others. */
    if (!f || f->verb != OP_CREATE || f->code == CO_EXISTS || !patience || w->job->elastic ||
        w->job->n_problems || op_world_has_started(w)) {
        return false;
    }
    int32_t n = 0;
    int64_t last = last_created(w, &n);
    if (!last || w->now < last + patience) {
        op_outlook_wake(o, last ? last + patience : 0);
        return false;
    }
    int64_t away = op_policy_begin_later(o, w, AWAY_MIN);
    o->gave_back = o->blocked = true;
    op_reason_say(o, "GaveBack",
        "gives %" PRId32 " pod%s back, as nothing was created for %" PRId64
        " s%s, and tries again in %" PRId64 " s: %s %s: %s",
        n, n == 1 ? "" : "s", w->now - last,
        w->seen->elder_waits ? " and an older job of the namespace waits" : "", away,
        op_kind_name(f->kind, w->settings->gang), f->name, f->message);
    return true;
}
