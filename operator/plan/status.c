/* Builds the status: counters and references of each role, times, what the attempt began with, and
 * conditions. */
#include "operator/plan/status.h"

#include <inttypes.h>

#include "operator/api/began.h"
#include "operator/plan/conditions.h"
#include "operator/plan/left.h"
#include "operator/plan/run_policy.h"
#include "operator/plan/stored.h"
#include "operator/plan/templates.h"
#include "operator/plan/tree.h"

/* A thousand references are some 200 KB; etcd takes objects of 1.5 MB. */
enum { REFS_MAX = 2000 };

/* ---- references to pods --------------------------------------------------------------------- */

/* The part that all references share; there may be thousands in every plan. */
static json_t *make_common_ref(const struct api_job *job) {
    return json_pack("{s:s,s:s,s:s}", "kind", "Pod", "apiVersion", "v1", "namespace", job->ns);
}

static json_t *make_ref(json_t *common, const struct api_pod *pod) {
    json_t *ref = json_copy(common);
    co_json_set(ref, "name", co_json_string(pod->c.name));
    co_json_set(ref, "uid", co_json_string(pod->c.uid));
    co_json_set(ref, "resourceVersion", co_json_string(pod->c.resource_version));
    return ref;
}

static bool is_ref_of(const json_t *ref, const struct api_pod *pod) {
    return co_streq(json_string_value(json_object_get(ref, "uid")), pod->c.uid);
}

/* Whether the references name the same pods in the same order.  resourceVersions are not compared:
 * they would cause a status write for every event of every pod. */
static bool same_refs(const struct plan_children *w, enum api_role role, const json_t *refs) {
    size_t n = 0;
    for (int32_t i = 0; i < plan_children_replicas(w, role); i++) {
        const struct api_pod *pod = w->slot[role][i].pod;
        if (pod && !is_ref_of(json_array_get(refs, n++), pod)) {
            return false;
        }
    }
    return n == json_array_size(refs);
}

static json_t *make_refs(const struct plan_children *w, enum api_role role) {
    int64_t wanted = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        wanted += plan_children_replicas(w, r);
    }
    if (wanted > REFS_MAX) {
        return NULL;
    }
    CO_AUTOJSON json_t *common = make_common_ref(w->job);
    json_t *list = json_array();
    for (int32_t i = 0; i < plan_children_replicas(w, role); i++) {
        if (w->slot[role][i].pod) {
            co_json_append(list, make_ref(common, w->slot[role][i].pod));
        }
    }
    return list;
}

/* ---- roles ---------------------------------------------------------------------------------- */

static int32_t stored_count(const json_t *role, const char *key) {
    int64_t n = json_integer_value(json_object_get(role, key));
    return n < 0 || n > API_REPLICAS_MAX ? 0 : (int32_t)n;
}

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t count_alive(const struct plan_children *w, enum api_role role) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan_children_replicas(w, role); i++) {
        const struct api_pod *pod = w->slot[role][i].pod;
        n += pod && !pod->c.deleting;
    }
    return n;
}

/* The counters of status.<role>.  A job that has ended still counts the pods that were cleaned up.
 */
static struct plan_counts final_counts(
    const struct plan_children *w, enum api_role role, const json_t *stored) {
    struct plan_counts c = w->counts[role];
    if (api_phase_terminal(w->job->phase)) {
        c.failed = larger(c.failed, stored_count(stored, "failed"));
        c.succeeded = larger(c.succeeded, stored_count(stored, "succeeded"));
    }
    return c;
}

/* The attempt has had a pod here, and it may still be there, with edited labels.  If it is lost
 * before any has started, it is replaced alone and does not count. */
static bool is_created(const struct plan_slot *s) {
    return s->pod || s->done || (s->had && s->pod_taken);
}

/* "0-3,5", as in an indexed Job; NULL when there is none. */
static json_t *make_indexes(
    const struct plan_children *w, enum api_role role, bool (*belongs)(const struct plan_slot *)) {
    struct co_buf b = CO_BUF(API_REPLICAS_MAX * 8);
    int32_t n = plan_children_replicas(w, role);
    for (int32_t i = 0; i < n; i++) {
        int32_t first = i;
        while (i < n && belongs(&w->slot[role][i])) {
            i++;
        }
        /* CO_BUF has room for all. */
        if (i > first) {
            (void)!co_buf_addf(&b, NULL, "%s%" PRId32, b.len ? "," : "", first);
        }
        if (i > first + 1) {
            (void)!co_buf_addf(&b, NULL, "-%" PRId32, i - 1);
        }
    }
    CO_AUTOFREE char *text = b.len ? co_buf_take(&b) : NULL;
    return text ? json_string(text) : NULL;
}

/* None when a new attempt begins. */
static json_t *completed_indexes(const struct plan_children *w, const struct plan_assessment *o,
    enum api_role role, const json_t *stored) {
    if (api_phase_terminal(w->job->phase)) {
        return json_incref(json_object_get(stored, "completedIndexes"));
    }
    return o->attempt == w->attempt ? make_indexes(w, role, plan_slot_succeeded) : NULL;
}

/* Only the next plan of a living attempt needs them (plan_policy_lost). */
static json_t *created_indexes(
    const struct plan_children *w, const struct plan_assessment *o, enum api_role role) {
    bool wanted = plan_job_restarts_whole(w->job) && !api_phase_terminal(o->phase);
    return wanted && o->attempt == w->attempt ? make_indexes(w, role, is_created) : NULL;
}

static json_t *make_role(const struct plan_children *w, const struct plan_assessment *o,
    enum api_role role, const json_t *stored) {
    const struct plan_counts c = final_counts(w, role, stored);
    bool ended = api_phase_terminal(w->job->phase);
    if (c.pods == 0 && c.gone == 0 && !(ended && stored)) {
        return NULL;
    }
    json_t *j = json_object();
    plan_tree_set_count(j, "pending", c.pending);
    plan_tree_set_count(j, "starting", c.starting);
    plan_tree_set_count(j, "running", c.running);
    plan_tree_set_count(j, "failed", c.failed);
    plan_tree_set_count(j, "succeeded", c.succeeded);
    plan_tree_set_count(j, "unknown", c.unknown);
    plan_tree_set_count(j, "replicas", c.pods);
    co_json_set(j, "completedIndexes", completed_indexes(w, o, role, stored));
    co_json_set(j, "createdIndexes", created_indexes(w, o, role));
    json_t *refs = json_object_get(stored, "refs");
    json_t *drafted = co_json_at(w->seen->draft, api_role_name(role), "refs");
    bool cleaned = ended && json_array_size(refs) > (size_t)count_alive(w, role);
    if (cleaned || (refs && same_refs(w, role, refs))) {
        co_json_set(j, "refs", json_incref(refs));
    } else if (drafted && same_refs(w, role, drafted)) {
        co_json_set(j, "refs", json_incref(drafted));
    } else {
        co_json_set(j, "refs", make_refs(w, role));
    }
    return j;
}

/* "ready/replicas".  A job that has ended keeps its last value, as edits have no effect any more.
 */
static void set_ready(json_t *status, const struct plan_children *w, enum api_role role) {
    const char *stored = co_json_str(w->job->status, plan_ready_keys[role]);
    if (api_phase_terminal(w->job->phase) && stored) {
        co_json_set(status, plan_ready_keys[role], co_json_string(stored));
    } else if (w->job->role[role].present) {
        const struct plan_counts *c = &w->counts[role];
        CO_AUTOFREE char *ready = co_xasprintf(
            "%" PRId32 "/%" PRId32, c->running + c->succeeded, plan_children_replicas(w, role));
        co_json_set(status, plan_ready_keys[role], json_string(ready));
    }
}

static void set_mode(json_t *status, const struct plan_children *w) {
    const char *stored = co_json_str(w->job->status, "mode");
    bool ended = api_phase_terminal(w->job->phase) && stored;
    co_json_set(
        status, "mode", ended ? co_json_string(stored) : json_string(api_mode_name(w->job->mode)));
}

static void set_roles(
    json_t *status, const struct plan_children *w, const struct plan_assessment *o) {
    int64_t restarts = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *stored = json_object_get(w->job->status, api_role_name(r));
        co_json_set(status, api_role_name(r), make_role(w, o, r, stored));
        set_ready(status, w, r);
        restarts += w->counts[r].restarts;
    }
    if (api_phase_terminal(w->job->phase)) {
        int64_t had = json_integer_value(json_object_get(w->job->status, "containerRestarts"));
        restarts = had > restarts ? had : restarts;
    }
    plan_tree_set_count(status, "containerRestarts", restarts);
    if (w->job->role[API_WORKER].present) {
        CO_AUTOFREE char *selector = co_xasprintf(
            "%s=%s,%s=%s", API_LABEL_JOB, w->job->name, API_LABEL_ROLE, api_role_name(API_WORKER));
        co_json_set(status, "selector", co_json_string(selector));
    }
}

/* ---- times ---------------------------------------------------------------------------------- */

static void set_time(json_t *status, const struct plan_children *w, const char *key, bool reached) {
    const char *stored = co_json_str(w->job->status, key);
    if (stored && *stored) {
        co_json_set(status, key, co_json_string(stored));
    } else if (reached) {
        plan_tree_set_time(status, key, w->now);
    }
}

/* ---- */

/* The stored line stays: the attempt is the same, and so is the spec's generation, or the spec
 * still differs, which SpecChanged reports. */
static bool keeps_began(
    const struct plan_children *w, const struct plan_assessment *o, const char *stored) {
    char fields[PLAN_NOTICE_MAX];
    struct api_shape shape;
    return o->attempt == w->job->attempt && api_began_read(stored, &shape) &&
           (api_phase_terminal(w->job->phase) || api_began_is_current(stored, w->job) ||
               api_began_differs(stored, w->job, fields, sizeof(fields)));
}

/* Set only once there are pods; until then the spec may change freely. */
static void set_began(
    json_t *status, const struct plan_children *w, const struct plan_assessment *o) {
    const char *stored = co_json_str(w->job->status, "began");
    bool ended = api_phase_terminal(w->job->phase);
    char text[API_BEGAN_MAX];
    if ((ended || plan_children_has_pods(w)) && keeps_began(w, o, stored)) {
        co_json_set(status, "began", co_json_string(stored));
        if (!ended && !api_phase_terminal(o->phase) && plan_templates_in_status_only(w)) {
            const char *templates = co_json_str(w->job->status, "beganTemplates");
            co_json_set(status, "beganTemplates", co_json_string(templates));
        }
    } else if (!ended && plan_children_has_pods(w) && o->attempt == w->attempt) {
        api_began_write(w->job, text);
        co_json_set(status, "began", json_string(text));
    }
}

/* A job that is being deleted keeps its status except for the phase, so that its end costs one
 * write, not one for each pod. */
static json_t *make_terminating(const struct plan_children *w) {
    json_t *status = plan_tree_copy_or_new(w->job->status);
    co_json_set(status, "phase", json_string(api_phase_name(API_PHASE_TERMINATING)));
    set_mode(status, w);
    return status;
}

static json_t *make_live(const struct plan_children *w, const struct plan_assessment *o) {
    json_t *status = json_object();
    co_json_set(status, "phase", json_string(api_phase_name(o->phase)));
    set_mode(status, w);
    if (*o->reason) {
        co_json_set(status, "reason", co_json_string(o->reason));
        CO_AUTOFREE char *message = plan_left_add(w, o);
        co_json_set(status, "message", co_json_string(message));
    }
    co_json_set(status, "keptPod", o->kept ? co_json_string(o->kept) : NULL);
    set_roles(status, w, o);
    plan_policy_remember(status, w, o);
    set_time(status, w, "startTime", plan_assessment_runs(o) || o->phase == API_PHASE_COMPLETED);
    set_time(status, w, "completionTime", api_phase_terminal(o->phase));
    set_began(status, w, o);
    co_json_set(status, "conditions", plan_conditions_make(w, o));
    co_json_set(status, "observedGeneration", json_integer(w->job->generation));
    return status;
}

/* As long as the pod exists, the success can be seen there. */
bool plan_status_is_urgent(const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (plan_slot_succeeded(s) && !s->stored && (!s->pod || s->pod->c.deleting)) {
            return true;
        }
    }
    return false;
}

json_t *plan_status_make(
    const struct plan_children *w, const struct plan_assessment *o, bool *ret_differs) {
    json_t *status = w->job->deleting ? make_terminating(w) : make_live(w, o);
    /* Without other finalizers than ours, the job is gone before its status could be written. */
    bool vanishes = w->job->deleting && w->job->n_finalizers == (size_t)w->job->finalizer;
    *ret_differs =
        !vanishes && (!w->job->status || !json_equal(status, (json_t *)(uintptr_t)w->job->status));
    return status;
}
