/* When a pod is replaced while others run, it gets another address, and the ConfigMap is updated;
 * but running pods have read the old ConfigMap.  So the ConfigMap records the creation time of the
 * first replacement ("changed"): a running pod that is older has the old address.
 *
 *      group made   ConfigMap made   x-ps-0 recreated   ConfigMap changed
 *     ----+---------------+------------------+-----------------+----------> time
 *         older: have the old address        |  younger: have the new one
 *                                         changed
 */
#include "operator/plan/stale.h"

#include <stdio.h>

#include "common/parse.h"

static bool is_waiting(const struct api_pod *pod) {
    return !pod->c.deleting && (pod->phase == API_POD_PENDING || pod->phase == API_POD_UNKNOWN);
}

/* The pod runs and has read its environment only once; a restarted container may have read it
 * again.
 */
static bool has_begun(const struct api_pod *pod) {
    return !pod->c.deleting && pod->phase == API_POD_RUNNING && pod->restarts == 0;
}

int64_t plan_stale_since(const struct plan_children *w, const json_t *env) {
    const struct api_configmap *have = w->configmap;
    int64_t first = w->now;
    bool some = false;
    if (!have || have->old || w->job->elastic || have->n_peers != api_env_peers(env) ||
        have->peers == api_env_peers_hash(env)) {
        return 0;
    }
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        some = some || (pod && has_begun(pod));
        first = pod && is_waiting(pod) && pod->c.at && pod->c.at < first ? pod->c.at : first;
    }
    return some ? first : 0;
}

bool plan_stale_say(const struct plan_children *w, char *ret, size_t size) {
    int64_t changed = w->configmap ? w->configmap->changed : 0;
    const struct api_pod *stale = NULL, *moved = NULL;
    if (!changed) {
        return false;
    }
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        bool older = pod && pod->c.at < changed;
        moved = moved || !pod || older ? moved : pod;
        stale = stale || !older || !has_begun(pod) ? stale : pod;
    }
    if (!stale) {
        return false;
    }
    char since[32];
    co_time_format(changed, since);
    (void)snprintf(ret, size,
        "%s%s has another address since %s, and those that began before, as pod %s, have the old "
        "one: suspend the job and resume it, so that all begin with the same",
        moved ? "pod " : "a peer", moved ? moved->c.name : "", since, stale->c.name);
    return true;
}
