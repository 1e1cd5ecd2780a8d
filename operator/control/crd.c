/* Compares the status that was written with the one in the API server's answer. */
#include "operator/control/crd.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"

/* Whether the stored status has the field "attempt", or "worker.createdIndexes". */
static bool has_field(const struct co_jnode *stored, const char *path) {
    const char *dot = strchr(path, '.');
    char role[CTL_FIELD_MAX];
    (void)snprintf(role, sizeof(role), "%.*s", dot ? (int)(dot - path) : 0, path);
    return co_jnode_get(dot ? co_jnode_get(stored, role) : stored, dot ? dot + 1 : path);
}

/* Writes the first field of the status that was written, but is not stored; "" when all are. */
static void find_dropped(
    const json_t *status, const struct co_jnode *stored, char ret[CTL_FIELD_MAX]) {
    const char *key, *part;
    json_t *value, *v;
    *ret = '\0';
    json_object_foreach((json_t *)(uintptr_t)status, key, value) {
        if (!*ret && !json_is_null(value) && !co_jnode_get(stored, key)) {
            (void)snprintf(ret, CTL_FIELD_MAX, "%s", key);
        }
        json_object_foreach(value, part, v) { /* of a role; no other value is an object */
            if (!*ret && !json_is_null(v) && !co_jnode_get(co_jnode_get(stored, key), part)) {
                (void)snprintf(ret, CTL_FIELD_MAX, "%s.%s", key, part);
            }
        }
    }
}

void ctl_crd_check(struct ctl_crd *c, const struct api_job *job, const json_t *written,
    const struct co_jnode *stored) {
    char dropped[CTL_FIELD_MAX];
    if (*c->dropped && has_field(stored, c->dropped)) {
        co_log_info("the CRD has been replaced and stores the field", CO_S("field", c->dropped));
        *c->dropped = '\0';
    }
    find_dropped(written, stored, dropped);
    if (!*dropped || *c->dropped) {
        return;
    }
    memcpy(c->dropped, dropped, sizeof(dropped));
    co_log_error("the CRD is of an earlier version and drops fields of the status: apply the "
                 "crd.yaml of this one, else no job restarts, suspends or resumes",
        CO_S("field", dropped), CO_S("job", job->name), CO_S("namespace", job->ns));
}
