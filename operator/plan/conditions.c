/* One row for each type of condition: whether it is true now, and its reason and message. */
#include "operator/plan/conditions.h"

#include "common/parse.h"
#include "operator/plan/gang.h"
#include "operator/plan/stale.h"
#include "operator/plan/stored.h"
#include "operator/plan/templates.h"

struct condition {
    const char *type;
    bool is; /* its status now */
    const char *reason, *message;
    bool always; /* listed even if it was never true */
    bool keeps;  /* when it becomes False it keeps the reason why it was True */
};

const struct plan_notice plan_notices[PLAN_NOTICES] = {
    {"ReplicasBounded", "OutOfBounds", "WithinBounds", plan_children_bound},
    {"SchedulingPolicyIgnored", "NotFollowed", "Followed", plan_gang_ignores},
    {"UnknownValue", "NotRecognized", "AllRecognized", plan_children_words},
    {"SpecChanged", "AppliesToNextAttempt", "UpToDate", plan_templates_changed, .attempt = true},
    {"StaleAddress", "AddressChanged", "AddressesKnown", plan_stale_say, .attempt = true},
};

bool plan_notice_say(const struct plan_notice *n, const struct plan_children *w,
    const struct plan_assessment *o, char ret[PLAN_NOTICE_MAX]) {
    bool continues = !api_phase_terminal(o->phase) && o->attempt == w->job->attempt;
    return (continues || !n->attempt) && n->say(w, ret, PLAN_NOTICE_MAX);
}

/* What was true at the job's end is stored.  Jobs that upstream's operator has ended have no
 * conditions yet; they had their pods. */
static bool has_final_conditions(const struct api_job *job) {
    return api_phase_terminal(job->phase) && plan_condition_stored(job, "Created");
}

static void add_condition(json_t *list, const struct plan_children *w, const struct condition *c) {
    const json_t *stored = plan_condition_stored(w->job, c->type);
    if (!c->is && !c->always && !stored) {
        return;
    }
    /* An edit of the spec does not change how the job has ended. */
    if (stored && api_phase_terminal(w->job->phase)) {
        json_t *kept = json_copy((json_t *)(uintptr_t)stored);
        co_json_set(kept, "observedGeneration", json_integer(w->job->generation));
        co_json_append(list, kept);
        return;
    }
    if (has_final_conditions(w->job)) {
        return;
    }
    const char *status = c->is ? "True" : "False";
    const char *since = co_json_str(stored, "lastTransitionTime");
    char text[32];
    if (!since || !co_streq(co_json_str(stored, "status"), status)) {
        co_time_format(w->now, text);
        since = text;
    }
    json_t *j = json_object();
    co_json_set(j, "type", json_string(c->type));
    co_json_set(j, "status", json_string(status));
    co_json_set(j, "observedGeneration", json_integer(w->job->generation));
    co_json_set(j, "lastTransitionTime", json_string(since));
    bool keep = c->keeps && !c->is;
    co_json_set(j, "reason", co_json_string(keep ? co_json_str(stored, "reason") : c->reason));
    co_json_set(j, "message", co_json_string(keep ? co_json_str(stored, "message") : c->message));
    co_json_append(list, j);
}

static const char *waiting_reason(const struct plan_assessment *o) {
    return *o->reason ? o->reason : api_phase_name(o->phase);
}

/* Why a condition is False: not for its usual reason once the job has ended. */
static const char *unless_ended(const struct plan_assessment *o, const char *usual) {
    return api_phase_terminal(o->phase) ? waiting_reason(o) : usual;
}

/* A job that is suspended or ends needs no pods; what kept them from being created may still be. */
static const char *unblocked_reason(const struct plan_assessment *o) {
    return o->phase == API_PHASE_SUSPENDED ? waiting_reason(o) : unless_ended(o, "Unblocked");
}

/* If it does not run: the reason, or else the phase.  It stays True while a pod is replaced. */
static struct condition make_running(const struct plan_assessment *o) {
    struct condition c = {.type = "Running", .always = true, .is = plan_assessment_runs(o)};
    c.reason = !c.is ? waiting_reason(o) : o->all_running ? "AllPodsRunning" : "SomePodsRunning";
    c.message = c.is && o->all_running ? "" : o->message;
    return c;
}

static bool needs_none(const struct api_job *job) {
    char text[API_LACK_MAX];
    return api_job_lack(job, text, sizeof(text)) == API_LACK_PODS;
}

/* The attempt's pods have been created.  It stays true while a single pod is replaced.  An invalid
 * spec does not say how many there should be; those that run on stay a whole group, which restarts
 * if one of them is lost (run_policy.c). */
static bool has_created_all(const struct plan_children *w, const struct plan_assessment *o) {
    bool was = plan_condition_true(w->job, "Created");
    int64_t judged = json_integer_value(
        json_object_get(plan_condition_stored(w->job, "Created"), "observedGeneration"));
    if (w->job->n_problems) {
        return was && plan_children_has_pods(w);
    }
    was = was && judged == w->job->generation;
    return needs_none(w->job) ? was && api_phase_terminal(o->phase) : was || o->all_created;
}

/* False also where no pods are needed, or where the job ended before all were there. */
static struct condition make_created(
    const struct plan_children *w, const struct plan_assessment *o) {
    struct condition c = {.type = "Created", .always = true};
    bool again = o->attempt != w->job->attempt || o->phase == API_PHASE_SUSPENDED;
    bool waits = again || api_phase_terminal(o->phase) || o->blocked || w->now < o->hold_until;
    bool upstream = api_phase_terminal(w->job->phase);
    c.is = upstream || (has_created_all(w, o) && !again);
    c.reason = c.is ? "PodsCreated" : waits ? waiting_reason(o) : "Creating";
    c.message = !c.is && waits ? o->message : "";
    return c;
}

static struct condition make_suspended(const struct plan_assessment *o) {
    struct condition c = {.type = "Suspended", .is = o->phase == API_PHASE_SUSPENDED};
    c.reason = c.is ? o->reason : unless_ended(o, "JobResumed");
    c.message = c.is ? o->message : "";
    return c;
}

/* Keeps the cause of the last restart from when it was decided. */
static struct condition make_restarting(
    const struct plan_children *w, const struct plan_assessment *o) {
    struct condition c = {.type = "Restarting", .is = o->restarting, .keeps = true};
    const json_t *stored = plan_condition_stored(w->job, c.type);
    bool still = plan_condition_true(w->job, c.type) && o->attempt == w->job->attempt;
    const char *reason = still ? co_json_str(stored, "reason") : NULL;
    const char *message = still ? co_json_str(stored, "message") : NULL;
    c.reason = reason ? reason : o->reason;
    c.message = message ? message : o->message;
    return c;
}

/* From when the pods are given back until all have been created. */
static struct condition make_gave_back(
    const struct plan_children *w, const struct plan_assessment *o) {
    struct condition c = {.type = "GaveBack", .reason = "GaveBack", .keeps = true};
    const json_t *stored = plan_condition_stored(w->job, c.type);
    bool still = plan_condition_true(w->job, c.type) && o->attempt == w->job->attempt &&
                 !o->all_created && !api_phase_terminal(o->phase);
    c.is = o->gave_back || still;
    c.message = o->gave_back ? o->message : co_json_str(stored, "message");
    return c;
}

static struct condition make_completing(
    const struct plan_children *w, const struct plan_assessment *o) {
    struct condition c = {.type = "Completing", .is = o->completing};
    c.reason = c.is ? plan_children_success_text(w)->reason : waiting_reason(o);
    c.message = c.is ? o->message : "";
    return c;
}

static struct condition make_notice(const struct plan_notice *n, const struct plan_children *w,
    const struct plan_assessment *o, char text[PLAN_NOTICE_MAX]) {
    struct condition c = {.type = n->type, .is = plan_notice_say(n, w, o, text)};
    c.reason = c.is ? n->is : n->attempt ? unless_ended(o, n->is_not) : n->is_not;
    c.message = c.is ? text : "";
    return c;
}

/* Keeps conditions of other controllers: our own that were stored are in the list already. */
static void keep_others(json_t *list, const struct api_job *job) {
    const size_t n_ours = json_array_size(list);
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(job->status, "conditions"), i, c) {
        const char *type = co_json_str(c, "type");
        size_t k = 0;
        while (k < n_ours && !co_streq(co_json_str(json_array_get(list, k), "type"), type)) {
            k++;
        }
        if (type && k == n_ours) {
            co_json_append(list, json_incref(c));
        }
    }
}

/* A job that ends keeps its earlier conditions and gets those of its end. */
json_t *plan_conditions_make(const struct plan_children *w, const struct plan_assessment *o) {
    json_t *list = json_array();
    bool completed = o->phase == API_PHASE_COMPLETED;
    bool failed = o->phase == API_PHASE_FAILED;
    const struct condition rows[] = {
        make_created(w, o),
        make_running(o),
        make_suspended(o),
        make_restarting(w, o),
        make_gave_back(w, o),
        make_completing(w, o),
        {"Succeeded", completed,
            completed ? plan_children_success_text(w)->reason : waiting_reason(o), ""},
        {"Failed", failed, waiting_reason(o), o->message},
        {"Blocked", o->blocked, o->blocked ? o->reason : unblocked_reason(o),
            o->blocked ? o->message : ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        add_condition(list, w, &rows[i]);
    }
    for (size_t i = 0; i < PLAN_NOTICES; i++) {
        char text[PLAN_NOTICE_MAX];
        const struct condition c = make_notice(&plan_notices[i], w, o, text);
        add_condition(list, w, &c);
    }
    keep_others(list, w->job);
    return list;
}
