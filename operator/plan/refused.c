/* Rejected requests, the first first, and when a job gives up what it has. */
#include "operator/plan/refused.h"

#include <inttypes.h>

#include "operator/plan/env.h"
#include "operator/plan/gang.h"
#include "operator/plan/reason_table.h"
#include "operator/plan/run_policy.h"

enum {
    /* While no older job waits, a job keeps its pods so many times as long. */
    OLDEST_FACTOR = 5,
    /* Rejected creates are tried again after 30 s at most (control/failures.c): by then another job
     * has taken what was given back. */
    AWAY_MIN = 30,
};

static const struct plan_failure *refused_slot(const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (s->pod_failure && !s->pod) {
            return s->pod_failure;
        }
        if (s->service_failure && !s->service && plan_children_wants_services(w)) {
            return s->service_failure;
        }
    }
    return NULL;
}

const struct plan_failure *plan_refused_first(const struct plan_children *w, const json_t *env) {
    if (w->failure[PLAN_KIND_SECRET] && w->job->peer_auth != API_PEER_NONE && !w->seen->token &&
        plan_children_lacks_pods(w)) {
        return w->failure[PLAN_KIND_SECRET];
    }
    const struct plan_failure *f = refused_slot(w);
    if (f) {
        return f;
    }
    if (w->failure[PLAN_KIND_SERVICE] && !w->service && w->job->intranet == API_DNS) {
        return w->failure[PLAN_KIND_SERVICE];
    }
    if (w->failure[PLAN_KIND_CONFIGMAP] &&
        !(w->configmap && (!env || plan_env_published(w, env)))) {
        return w->failure[PLAN_KIND_CONFIGMAP];
    }
    bool gang = plan_gang_of(w->job, w->settings);
    return gang && !w->podgroup ? w->failure[PLAN_KIND_PODGROUP] : NULL;
}

/* When the last pod was created; 0: there is none.  *ret_n: how many there are. */
static int64_t last_created(const struct plan_children *w, int32_t *ret_n) {
    int64_t last = 0;
    *ret_n = 0;
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (pod && !pod->c.deleting) {
            last = pod->c.at > last ? pod->c.at : last;
            ++*ret_n;
        }
    }
    return last;
}

bool plan_refused_give_back(
    struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    const struct plan_failure *f = plan_refused_first(w, env);
    int64_t patience = w->settings->give_back_after * (w->seen->elder_waits ? 1 : OLDEST_FACTOR);
    /* Elastic pods start without the others. */
    if (!f || f->verb != PLAN_CREATE || f->code == CO_EXISTS || !patience || w->job->elastic ||
        w->job->n_problems || plan_children_has_started(w)) {
        return false;
    }
    int32_t n = 0;
    int64_t last = last_created(w, &n);
    if (!last || w->now < last + patience) {
        plan_wake_by(&o->wake_at, last ? last + patience : 0);
        return false;
    }
    int64_t away = plan_policy_begin_later(o, w, AWAY_MIN);
    o->gave_back = o->blocked = true;
    plan_reason_say(o, "GaveBack",
        "gives %" PRId32 " pod%s back, as nothing was created for %" PRId64
        " s%s, and tries again in %" PRId64 " s: %s %s: %s",
        n, n == 1 ? "" : "s", w->now - last,
        w->seen->elder_waits ? " and an older job of the namespace waits" : "", away,
        plan_kind_name(f->kind, w->settings->gang), f->name, f->message);
    return true;
}
