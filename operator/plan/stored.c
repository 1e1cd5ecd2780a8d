/* Access to the stored status, the draft that replaces it until it is written, and what both say
 * about the pods of the attempt. */
#include "operator/plan/stored.h"

#include <string.h>

#include "operator/api/range.h"

const char *const plan_ready_keys[API_ROLES] = {
    [API_PS] = "readyPS", [API_WORKER] = "readyWorker", [API_HETER] = "readyHeter"};

/* The replicas in the spec when the status was stored; 0: unknown. */
static int32_t stored_replicas(const struct api_job *job, enum api_role role) {
    const char *ready = co_json_str(job->status, plan_ready_keys[role]);
    const char *slash = ready ? strchr(ready, '/') : NULL;
    const char *text = slash ? slash + 1 : "";
    int32_t n, last;
    return api_range_take(&text, 6, &n, &last) ? n : 0;
}

json_t *plan_condition_in(const json_t *status, const char *type) {
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
    return plan_condition_in(job->status, type);
}

const json_t *plan_condition_known(const struct plan_children *w, const char *type) {
    const json_t *draft = w->seen->draft;
    bool same = w->attempt == json_integer_value(json_object_get(draft, "attempt"));
    const json_t *drafted = same ? plan_condition_in(draft, type) : NULL;
    return drafted ? drafted : plan_condition_in(w->job->status, type);
}

static json_t *draft_conditions(const json_t *status) {
    json_t *c = plan_condition_in(status, "Completing");
    return co_streq(co_json_str(c, "status"), "True") ? json_pack("[O]", c) : NULL;
}

bool plan_condition_true(const struct api_job *job, const char *type) {
    return co_streq(co_json_str(plan_condition_stored(job, type), "status"), "True") != 0;
}

json_t *plan_status_draft(const json_t *status) {
    enum { REFS_MIN = 32 }; /* fewer are built as fast as compared */
    static const char *const sets[] = {"completedIndexes", "createdIndexes"};
    CO_AUTOJSON json_t *draft = json_object();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        CO_AUTOJSON json_t *role = json_object();
        json_t *refs = co_json_at(status, api_role_name(r), "refs");
        for (size_t i = 0; i < CO_ARRAY_LEN(sets); i++) {
            json_t *set = co_json_at(status, api_role_name(r), sets[i]);
            co_json_set(role, sets[i], json_incref(set));
        }
        co_json_set(role, "refs", json_array_size(refs) < REFS_MIN ? NULL : json_incref(refs));
        co_json_set(draft, api_role_name(r), json_object_size(role) ? json_incref(role) : NULL);
    }
    co_json_set(draft, "conditions", draft_conditions(status));
    if (!json_object_size(draft)) {
        return NULL;
    }
    co_json_set(draft, "attempt", json_incref(json_object_get(status, "attempt")));
    return co_steal_ptr(draft);
}

/* ---- what slots have had ------------------------------------------------------------------------
 */

/* What a set of indexes in a status says about a slot. */
static void mark_done(struct plan_slot *s) {
    s->done = true;
}

static void mark_stored(struct plan_slot *s) {
    s->done = s->stored = true;
}

static void mark_had(struct plan_slot *s) {
    s->had = true;
}

/* Reads a set of indexes.  Anybody may have edited the status, so numbers must ascend: otherwise a
 * megabyte of ranges over all pods would take a minute for each plan. */
static void recall_indexes(struct plan_children *w, enum api_role role, const char *text,
    void (*mark)(struct plan_slot *)) {
    int32_t first, last;
    int32_t i = 0, n = plan_children_replicas(w, role);
    while (text && *text && api_range_take(&text, 5, &first, &last)) {
        for (i = first > i ? first : i; i <= last && i < n; i++) {
            mark(&w->slot[role][i]);
        }
    }
}

static void recall_done(struct plan_children *w, enum api_role role, const json_t *status,
    void (*mark)(struct plan_slot *)) {
    recall_indexes(w, role, co_json_str(status, api_role_name(role), "completedIndexes"), mark);
}

/* False: no role has such a set. */
static bool recall_created(struct plan_children *w, const json_t *status) {
    bool known = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const char *text = co_json_str(status, api_role_name(r), "createdIndexes");
        recall_indexes(w, r, text, mark_had);
        known |= text != NULL;
    }
    return known;
}

/* A status that an earlier version wrote has counts only, which may be those of a running group
 * that is to grow, and whose new pods are rejected. */
static void guess_created(struct plan_children *w, enum api_role role) {
    const char *name = api_role_name(role);
    int64_t n = plan_condition_true(w->job, "Created") ? stored_replicas(w->job, role)
                : w->job->phase == API_PHASE_RUNNING
                    ? json_integer_value(co_json_at(w->job->status, name, "replicas"))
                    : 0;
    for (int32_t i = 0; i < n && i < plan_children_replicas(w, role); i++) {
        w->slot[role][i].had = true;
    }
}

/* Which pods the present attempt has had: by the draft, which is newer, or else as stored. */
static void recall_had(struct plan_children *w, const json_t *draft, const json_t *stored) {
    if (!plan_job_restarts_whole(w->job) || recall_created(w, draft) || recall_created(w, stored)) {
        return;
    }
    for (enum api_role r = API_PS; stored && r < API_ROLES; r++) {
        guess_created(w, r);
    }
}

void plan_stored_recall(struct plan_children *w) {
    const json_t *draft = w->seen->draft;
    bool same = w->attempt == json_integer_value(json_object_get(draft, "attempt"));
    const json_t *stored = w->attempt == w->job->attempt ? w->job->status : NULL;
    draft = same ? draft : NULL;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        recall_done(w, r, stored, mark_stored);
        recall_done(w, r, draft, mark_done);
    }
    recall_had(w, draft, stored);
}
