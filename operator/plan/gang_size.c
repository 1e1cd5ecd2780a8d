/* Counts members and adds up resources of a gang. */
#include "operator/plan/gang_size.h"

#include "operator/api/resources.h"
#include "operator/plan/gang.h"
#include "operator/plan/object_gate.h"
#include "operator/plan/templates.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elastic workers can start with their lower limit. */
static int64_t count_needed(const struct plan_children *w, enum api_role role, int32_t ended) {
    int32_t min = w->job->role[role].min;
    int32_t left = plan_children_replicas(w, role) - ended;
    return min >= 0 ? smaller(min, left) : left;
}

/* Pods that the scheduler does not count any more. */
static int32_t count_uncounted(const struct plan_children *w, enum api_role role) {
    const struct plan_counts *c = &w->counts[role];
    return w->settings->gang->counts_succeeded ? c->gone : c->succeeded;
}

int64_t plan_gang_members(const struct plan_children *w) {
    const json_t *given = json_object_get(plan_gang_policy(w->job), "minAvailable");
    int64_t n = 0, ended = 0, left = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        int32_t out = count_uncounted(w, r);
        n += count_needed(w, r, out);
        ended += out;
        left += plan_children_replicas(w, r) - out;
    }
    if (!json_is_integer(given)) {
        return n;
    }
    return ended ? smaller(json_integer_value(given), left) : json_integer_value(given);
}

json_t *plan_gang_resources(const struct plan_children *w) {
    json_t *given = json_object_get(plan_gang_policy(w->job), "minResources");
    if (json_is_object(given)) {
        return json_incref(given);
    }
    json_t *sums = json_object();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *spec = json_object_get(plan_templates_get(w, r), "spec");
        CO_AUTOJSON json_t *gate = plan_gate_requests(spec, w->settings);
        CO_AUTOJSON json_t *pod = api_resources_of_pod(spec, gate);
        api_resources_add(sums, pod, count_needed(w, r, w->counts[r].succeeded));
    }
    return sums;
}

static bool waits_for_place(const struct plan_slot *s) {
    return s->pod ? s->pod->phase == API_POD_PENDING && !s->pod->scheduled && !s->pod->c.deleting
                  : !s->done;
}

bool plan_gang_size_matters(const struct plan_children *w) {
    bool ended = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        ended |= w->counts[r].succeeded > 0;
    }
    plan_slots_each(s, w) {
        if (waits_for_place(s)) {
            return true;
        }
    }
    return !ended;
}
