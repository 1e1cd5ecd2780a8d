/* Reads the head of a job from its nodes. */
#include "operator/api/head.h"

#include "common/parse.h"

/* As completing_since in operator/plan: of this generation. */
static bool is_completing(const struct co_jnode *meta, const struct co_jnode *status) {
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        if (co_streq(co_jnode_str(c, "type"), "Completing")) {
            return co_streq(co_jnode_str(c, "status"), "True") &&
                   co_jnode_i64(co_jnode_get(c, "observedGeneration")) ==
                       co_jnode_i64(co_jnode_get(meta, "generation"));
        }
    }
    return false;
}

int api_job_head_read(const struct co_jnode *job, struct api_job_head *ret, struct co_err *err) {
    struct api_job_head h = {.ns = ""};
    const struct co_jnode *meta = co_jnode_get(job, "metadata");
    const struct co_jnode *status = co_jnode_get(job, "status");
    const struct co_jnode *deleted = co_jnode_get(meta, "deletionTimestamp");
    const char *ns = co_jnode_str(meta, "namespace");
    const char *uid = co_jnode_str(meta, "uid");
    h.name = co_jnode_str(meta, "name");
    h.ns = ns ? ns : "";
    h.uid = uid ? uid : "";
    h.version = co_jnode_str(meta, "resourceVersion");
    h.created = co_time_of(co_jnode_str(meta, "creationTimestamp"));
    h.phase = api_phase_parse(co_jnode_str(status, "phase"));
    h.started = co_jnode_str(status, "startTime") != NULL;
    h.elsewhere = api_managed_elsewhere(co_jnode_str(job, "spec", "managedBy"));
    h.deleting = deleted && !co_jnode_is(deleted, CO_J_NULL);
    h.trained = h.phase == API_PHASE_COMPLETED || is_completing(meta, status);
    if (!h.name || !*h.name) {
        return co_err_set(err, CO_INVALID, "job: no metadata.name");
    }
    *ret = h;
    return 0;
}
