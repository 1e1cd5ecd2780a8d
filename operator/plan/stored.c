/* Access to the stored status, and the draft that replaces it until it is written. */
#include "operator/plan/stored.h"

#include "operator/api/range.h"

#include <string.h>

const char *const plan_ready_keys[API_ROLES] = {
    [API_PS] = "readyPS", [API_WORKER] = "readyWorker", [API_HETER] = "readyHeter"};

int32_t plan_status_wanted(const struct api_job *job, enum api_role role) {
    const char *ready = co_json_str(job->status, plan_ready_keys[role]);
    const char *slash = ready ? strchr(ready, '/') : NULL;
    const char *text = slash ? slash + 1 : "";
    int32_t n, last;
    return api_range_take(&text, 6, &n, &last) ? n : 0;
}

static json_t *find_condition(const json_t *status, const char *type) {
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(status, "conditions"), i, c) {
        if (co_streq(co_json_str(c, "type"), type)) {
            return c;
        }
    }
    return NULL;
}

const json_t *plan_condition_stored(const struct api_job *job, const char *type) {
    return find_condition(job->status, type);
}

const json_t *plan_condition_known(const struct plan_children *w, const char *type) {
    const json_t *draft = w->seen->draft;
    bool same = w->attempt == json_integer_value(json_object_get(draft, "attempt"));
    const json_t *drafted = same ? find_condition(draft, type) : NULL;
    return drafted ? drafted : find_condition(w->job->status, type);
}

static json_t *draft_conditions(const json_t *status) {
    json_t *c = find_condition(status, "Completing");
    return co_streq(co_json_str(c, "status"), "True") ? json_pack("[O]", c) : NULL;
}

bool plan_condition_true(const struct api_job *job, const char *type) {
    return co_streq(co_json_str(plan_condition_stored(job, type), "status"), "True") != 0;
}

json_t *plan_status_draft(const json_t *status) {
    enum { REFS_MIN = 32 }; /* fewer are built as fast as compared */
    json_t *draft = json_object();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        json_t *role = json_object();
        json_t *refs = co_json_at(status, api_role_name(r), "refs");
        co_json_set(role, "completedIndexes",
            json_incref(co_json_at(status, api_role_name(r), "completedIndexes")));
        co_json_set(role, "refs", json_array_size(refs) < REFS_MIN ? NULL : json_incref(refs));
        co_json_set(draft, api_role_name(r), json_object_size(role) ? json_incref(role) : NULL);
        json_decref(role);
    }
    co_json_set(draft, "conditions", draft_conditions(status));
    if (json_object_size(draft)) {
        co_json_set(draft, "attempt", json_incref(json_object_get(status, "attempt")));
        return draft;
    }
    json_decref(draft);
    return NULL;
}
