/* Compares a pod that is gone with what the job's stored status says of its role. */
#include "operator/control/counted.h"

#include <string.h>

#include "operator/api/range.h"
#include "operator/plan/stored.h"

static bool has_index(const char *text, int32_t index) {
    int32_t first, last;
    while (text && *text && api_range_take(&text, 5, &first, &last)) {
        if (first <= index && index <= last) {
            return true;
        }
    }
    return false;
}

/* The replicas in "ready/replicas"; -1: unknown. */
static int32_t replicas_of(const struct co_jnode *status, enum api_role role) {
    const char *ready = co_jnode_str(status, plan_ready_keys[role]);
    const char *slash = ready ? strchr(ready, '/') : NULL;
    const char *text = slash ? slash + 1 : "";
    int32_t n, last;
    return api_range_take(&text, 6, &n, &last) ? n : -1;
}

bool ctl_pod_is_counted(
    const struct api_pod *pod, const struct api_job_head *h, const struct co_jnode *job) {
    const struct co_jnode *status = co_jnode_get(job, "status");
    enum api_role role = (enum api_role)pod->role;
    int64_t attempt = co_jnode_i64(co_jnode_get(status, "attempt"));
    if (role == API_NO_ROLE || api_phase_terminal(h->phase) || pod->attempt < attempt ||
        strcmp(pod->c.owner_uid, h->uid) != 0) {
        return true;
    }
    int32_t n = replicas_of(status, role);
    return (n >= 0 && pod->index >= n) ||
           (pod->attempt == attempt &&
               has_index(
                   co_jnode_str(status, api_role_name(role), "completedIndexes"), pod->index));
}
