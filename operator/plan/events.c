/* The table of events, which docs/ prints, and the two kinds of them: performed actions, folded to
 * one event a verb and kind, and changes of the job's state. */
#include "operator/plan/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/utf8.h"
#include "operator/plan/conditions.h"
#include "operator/plan/gang.h"
#include "operator/plan/left.h"
#include "operator/plan/stored.h"
#include "operator/plan/transition.h"

enum { MESSAGE_MAX = 1000 /* of the API server's 1024 */, NAMES_MAX = 10 };

void plan_events_free(struct plan_event *events, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(events[i].message);
    }
    free(events);
}

/* ---- every event ---------------------------------------------------------------------------- */

static const struct event_row {
    const char *reason;
    bool warning;
    const char *when;
} rows[] = {
    {"Created", false, "objects of a kind were created; one event for all of a plan"},
    {"FailedCreate", true,
        "creates were rejected; ends with the API server's message about the first"},
    {"CreateWarned", true,
        "the API server has created an object, but warns of unknown fields in a template, or of a "
        "policy"},
    {"Deleted", false,
        "objects of a kind were deleted: beyond replicas, for a restart, by cleanPodPolicy"},
    {"FailedDelete", true, "deletes were rejected"},
    {"Updated", false, "the addresses in the ConfigMap, or a group's size, were changed"},
    {"FailedUpdate", true, "such a change was rejected"},
    {"Running", false,
        "all pods run, for the first time or again; not between two failures of a container that "
        "kubelet restarts"},
    {"Completing", false,
        "the pods that successPolicy names have succeeded; the others have their grace period"},
    {"Completed", false, "the job has succeeded"},
    {"Failed", true, "the job has failed; names the first cause"},
    {"Restarting", true, "the whole group restarts after so many seconds; names the cause"},
    {"GaveBack", true,
        "pods that had not started were deleted, because others of the job were rejected for too "
        "long; when they are created again"},
    {"Suspended", false, "spec.suspend: the pods are deleted, the job stays"},
    {"Resumed", false, "the job starts again after a suspension"},
    {"ReplicasBounded", true,
        "an elastic job has more replicas than limits, or fewer than requests; the limit is used"},
    {"SchedulingPolicyIgnored", true,
        "the scheduler does not support a part of schedulingPolicy, or a user created the group"},
    {"UnknownValue", true,
        "a field of the spec has an unknown word; what was expected, and how it is treated"},
    {"NoPods", true, "no role of the job has replicas, so it has no pods"},
    {"NoTrainers", true,
        "the job has servers, but no role that trains has replicas: it does not end by itself"},
    {"NodeLost", true, "a pod's node does not respond; names the pod, the node, and since when"},
    {"ContainerRestarted", true,
        "a container has ended, and kubelet starts it again; once, also when that repeats"},
    {"ContainerFailed", true,
        "a container has failed, and its pod runs on without it; exit code and last line"},
    {"PodDisrupted", true,
        "the cluster takes a pod away: eviction, drain, preemption, taint, shutdown of its node"},
    {"WaitingForOldPods", true,
        "a pod that should have ended keeps its successor from being created, or the job from "
        "being suspended or cleaned up; says what may keep it"},
    {"SpecChanged", true,
        "the spec was changed in a way that pods of the running attempt cannot follow; names the "
        "fields, and how to apply them"},
    {"StaleAddress", true,
        "a peer's address changed while pods run that have the old one; names the pods, since "
        "when, and what to do"},
    {"NameTaken", true,
        "an object that does not belong to the job has the name that it needs, or somebody has "
        "edited a pod's labels"},
    {"GangUnschedulable", true, "the scheduler cannot place the group; its message"},
    {"InvalidName", true, "no pods can have names made from the job's: too long, or no DNS label"},
    {"InvalidSpec", true, "a field of the job has an invalid value"},
    {"InvalidReplicas", true, "replicas are missing or out of range"},
    {"InvalidTemplate", true, "no pod can be created from a template"},
    {"TooLarge", true, "the job takes more memory than the operator has for one job"},
};

_Static_assert(CO_ARRAY_LEN(rows) <= PLAN_EVENT_KINDS, "kinds are bits (control/recorder.h)");

/* Every event must have a row in the table. */
static struct plan_event make_event(const char *reason, char *message_own) {
    size_t i = 0;
    while (i < CO_ARRAY_LEN(rows) && strcmp(rows[i].reason, reason) != 0) {
        i++;
    }
    assert(i < CO_ARRAY_LEN(rows));
    return (struct plan_event){.warning = rows[i].warning,
        .kind = (uint8_t)i,
        .reason = rows[i].reason,
        .message = message_own};
}

int plan_events_markdown(struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_adds(ret, "| reason | type | when |\n| --- | --- | --- |\n", err));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_TRY(co_buf_addf(ret, err, "| `%s` | %s | %s |\n", rows[i].reason,
            rows[i].warning ? "Warning" : "Normal", rows[i].when));
    }
    return 0;
}

/* ---- what was done -------------------------------------------------------------------------- */

static const struct {
    const char *done, *failed; /* reasons */
    const char *done_text, *failed_text;
} verbs[] = {
    [PLAN_CREATE] = {"Created", "FailedCreate", "created", "could not create"},
    [PLAN_DELETE] = {"Deleted", "FailedDelete", "deleted", "could not delete"},
    [PLAN_PATCH] = {"Updated", "FailedUpdate", "updated", "could not update"},
};

/* The actions of a plan that go into one event: with the same verb, kind and result. */
struct event_group {
    const struct plan *plan;
    const struct plan_outcome *outcomes;
    enum plan_verb verb;
    enum plan_kind kind;
    bool failed;
};

static bool in_fold(const struct event_group *f, size_t i) {
    const struct plan_action *a = &f->plan->actions[i];
    return f->outcomes[i].tried && a->verb == f->verb && a->kind == f->kind &&
           (f->outcomes[i].error != NULL) == f->failed;
}

static char *take_bounded(struct co_buf *b) {
    char *message = co_buf_take(b);
    if (strlen(message) > MESSAGE_MAX) {
        message[MESSAGE_MAX] = '\0';
        co_utf8_trim(message);
    }
    return message;
}

/* "created 12 Pods: a, b, … (2 more)"; a failure ends with the first cause. */
static int fold_text(const struct event_group *f, size_t n, size_t first, struct co_buf *ret) {
    const char *text = f->failed ? verbs[f->verb].failed_text : verbs[f->verb].done_text;
    const char *kind = plan_kind_name(f->kind, f->plan->gang);
    CO_TRY(n == 1 ? co_buf_addf(ret, NULL, "%s %s ", text, kind)
                  : co_buf_addf(ret, NULL, "%s %zu %ss: ", text, n, kind));
    size_t named = 0;
    for (size_t i = first; named < n && named < NAMES_MAX; i++) {
        if (in_fold(f, i)) {
            CO_TRY(co_buf_addf(ret, NULL, "%s%s", named ? ", " : "", f->plan->actions[i].name));
            named++;
        }
    }
    if (n > NAMES_MAX) {
        CO_TRY(co_buf_addf(ret, NULL, ", … (%zu more)", n - NAMES_MAX));
    }
    return f->failed ? co_buf_addf(ret, NULL, "%s%s",
                           n == 1 ? ": " : "; the first because: ", f->outcomes[first].error)
                     : 0;
}

static char *fold_message(const struct event_group *f, size_t n, size_t first) {
    struct co_buf b = CO_BUF(MESSAGE_MAX * 4);
    (void)!fold_text(f, n, first, &b); /* a cause beyond the buffer's maximum is left out */
    return take_bounded(&b);
}

/* All pods of a role, which have the same template, are named together: "x-worker-*". */
static void warned_name(const struct plan_action *a, char *ret, size_t size) {
    (void)snprintf(ret, size, "%s", a->name);
    char *dash = strrchr(ret, '-');
    if (a->kind == PLAN_KIND_POD && dash && (size_t)(dash - ret) + 2 < size) {
        memcpy(dash + 1, "*", 2);
    }
}

/* All different warnings of the API server; NULL when there were none. */
static char *warned_message(const struct plan *plan, const struct plan_outcome *outcomes) {
    CO_AUTOBUF struct co_buf b = CO_BUF(MESSAGE_MAX * 4);
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct plan_action *a = &plan->actions[i];
        if (!outcomes[i].warnings) {
            continue;
        }
        char name[API_NAME_MAX + 1];
        warned_name(a, name, sizeof(name));
        CO_AUTOFREE char *text = co_xasprintf(
            "%s %s: %s", plan_kind_name(a->kind, plan->gang), name, outcomes[i].warnings);
        if (!b.data || !strstr(b.data, text)) {
            (void)!co_buf_addf(&b, NULL, "%s%s", b.len ? "; " : "", text);
        }
    }
    return b.len ? take_bounded(&b) : NULL;
}

void plan_action_events(const struct plan *plan, const struct plan_outcome *outcomes,
    struct plan_event **ret, size_t *ret_n) {
    enum { FOLDS = CO_ARRAY_LEN(verbs) * PLAN_KINDS * 2 };
    struct plan_event *events = co_xcalloc(FOLDS + 1, sizeof(*events));
    size_t n_events = 0;
    for (size_t i = 0; i < FOLDS; i++) {
        struct event_group f = {.plan = plan,
            .outcomes = outcomes,
            .kind = (enum plan_kind)(i / 2 % PLAN_KINDS),
            .verb = (enum plan_verb)(i / 2 / PLAN_KINDS),
            .failed = i % 2};
        size_t n = 0;
        size_t first = 0;
        for (size_t a = plan->n_actions; a-- > 0;) {
            if (in_fold(&f, a)) {
                n++;
                first = a;
            }
        }
        /* The removal of an old finalizer is not worth an event. */
        if (n == 0 || (f.kind == PLAN_KIND_JOB && !f.failed)) {
            continue;
        }
        events[n_events] = make_event(
            f.failed ? verbs[f.verb].failed : verbs[f.verb].done, fold_message(&f, n, first));
        events[n_events++].deed = !f.failed;
    }
    char *warned = warned_message(plan, outcomes);
    if (warned) {
        events[n_events++] = make_event("CreateWarned", warned);
    }
    *ret = events;
    *ret_n = n_events;
}

/* ---- changes of state ----------------------------------------------------------------------- */

static void add_event(struct plan *plan, const char *reason, char *message_own) {
    plan->events = co_xrealloc(plan->events, plan->n_events + 1, sizeof(*plan->events));
    plan->events[plan->n_events] = make_event(reason, message_own);
    plan->events[plan->n_events++].state = true;
}

static int64_t count_wanted(const struct plan_children *w) {
    int64_t n = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        n += plan_children_replicas(w, r);
    }
    return n;
}

static char *completed_message(const struct plan_children *w) {
    return co_xasprintf("job completed: %s", plan_children_success_text(w)->what);
}

static char *running_message(const struct plan_children *w) {
    int64_t n = count_wanted(w);
    return n == 1 ? co_xstrdup("its pod is running")
                  : co_xasprintf("all %" PRId64 " pods are running", n);
}

static char *failed_message(const char *why) {
    return co_xasprintf("job failed: %s", why);
}

static char *restarting_message(int64_t backoff, const char *why) {
    return co_xasprintf("in %" PRId64 " s: %s", backoff, why);
}

static char *resumed_message(int32_t attempt) {
    return co_xasprintf("attempt %" PRId32 " begins", attempt);
}

static char *completing_message(const struct plan_children *w) {
    const struct plan_success_text *text = plan_children_success_text(w);
    return co_xasprintf(
        "%s; %s have %" PRId64 " s to end", text->what, text->others, w->settings->server_grace);
}

/* The event of a trouble that does not change the phase; NULL: the reason is none. */
static const char *trouble_event(const char *reason) {
    static const struct {
        const char *reason, *event;
    } troubles[] = {
        {"CrashLoopBackOff", "ContainerRestarted"},
        {"ContainerRestarted", "ContainerRestarted"},
        /* kubelet's words for a container that is not started again; it writes no event of it. */
        {"ContainerFailed", "ContainerFailed"},
        {"OOMKilled", "ContainerFailed"},
        {"StartError", "ContainerFailed"},
        {"ContainerCannotRun", "ContainerFailed"},
        {"PodDisrupted", "PodDisrupted"},
        {"NodeLost", "NodeLost"},
        {"WaitingForOldPods", "WaitingForOldPods"},
        {"NoPods", "NoPods"},
        {"NoTrainers", "NoTrainers"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(troubles); i++) {
        if (co_streq(troubles[i].reason, reason)) {
            return troubles[i].event;
        }
    }
    return NULL;
}

/* The trouble is the one that was reported: not when a restarted container fails again, nor when
 * the next pod of the same trouble is named. */
static bool is_same_trouble(const struct plan_children *w, const struct plan_assessment *o) {
    return co_streq(trouble_event(o->reason), trouble_event(co_json_str(w->job->status, "reason")));
}

/* A container that fails again and again makes the job Running in between; each time would be an
 * event. */
static bool runs_between_failures(const struct plan_children *w, const struct plan_assessment *o) {
    return w->job->phase == API_PHASE_STARTING && co_json_str(w->job->status, "startTime") &&
           co_streq(trouble_event(o->reason), "ContainerRestarted") && is_same_trouble(w, o);
}

static void add_phase(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o) {
    CO_AUTOFREE char *message = NULL;
    switch (o->phase) {
    case API_PHASE_RUNNING:
        /* Without pods, NoPods says what there is to say. */
        if (count_wanted(w) > 0 && !runs_between_failures(w, o)) {
            add_event(plan, "Running", running_message(w));
        }
        break;
    case API_PHASE_COMPLETED:
        add_event(plan, "Completed", completed_message(w));
        break;
    case API_PHASE_FAILED:
        message = plan_left_add(w, o);
        add_event(plan, "Failed", failed_message(message));
        break;
    case API_PHASE_SUSPENDED:
        add_event(plan, "Suspended", co_xstrdup(o->message));
        break;
    default: /* others have no event of their own */
        break;
    }
}

/* The stored status does not have this condition with this message yet. */
static bool is_news(const struct plan_children *w, const char *condition, const char *message) {
    return !plan_condition_true(w->job, condition) ||
           !co_streq(co_json_str(plan_condition_stored(w->job, condition), "message"), message);
}

/* Reported only once, because the scheduler words the cause differently at every try. */
static bool is_refused(const struct plan_assessment *o, const json_t *stored) {
    return strcmp(o->reason, "GangUnschedulable") == 0 &&
           !co_streq(co_json_str(stored, "reason"), o->reason);
}

static void add_trouble(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o) {
    const char *event = trouble_event(o->reason);
    if (event && !is_same_trouble(w, o)) {
        add_event(plan, event, co_xstrdup(o->message));
    }
}

/* Obstacles that are not rejected requests, which have their own events. */
static void add_blocked(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o) {
    if (!is_news(w, "Blocked", o->message)) {
        return;
    }
    const json_t *stored = plan_condition_stored(w->job, "Blocked");
    if (w->job->n_problems) {
        add_event(plan, api_problem_code_name(w->job->problems[0].code), co_xstrdup(o->message));
    } else if (strcmp(o->reason, "NameTaken") == 0 || is_refused(o, stored)) {
        add_event(plan, o->reason, co_xstrdup(o->message));
    }
}

/* ---- what an earlier lease holder may not have reported ---------------------------------------
 */

static char *message_again(const struct plan_children *w, const struct plan_transition *t) {
    const json_t *status = w->job->status;
    const char *why = co_json_str(status, "message");
    if (strcmp(t->reason, "Running") == 0) {
        return running_message(w);
    }
    if (strcmp(t->reason, "Completing") == 0) {
        return completing_message(w);
    }
    if (strcmp(t->reason, "Completed") == 0) {
        return completed_message(w);
    }
    if (strcmp(t->reason, "Failed") == 0) {
        return failed_message(why ? why : t->message);
    }
    if (strcmp(t->reason, "Restarting") == 0) {
        return restarting_message(
            json_integer_value(json_object_get(status, "backoffSeconds")), t->message);
    }
    return strcmp(t->reason, "Resumed") == 0 ? resumed_message(w->job->attempt)
                                             : co_xstrdup(t->message);
}

static void add_unreported(struct plan *plan, const struct plan_children *w) {
    struct plan_transition t[PLAN_TRANSITIONS_MAX];
    size_t n = w->job->deleting ? 0 : plan_transitions_unreported(w, t);
    for (size_t i = 0; i < n; i++) {
        add_event(plan, t[i].reason, message_again(w, &t[i]));
        plan->events[plan->n_events - 1].id = t[i].id;
    }
}

/* Of a state that the stored status does not have yet. */
static void number_event(
    const struct plan *plan, const struct plan_children *w, struct plan_event *e) {
    struct plan_transition was = {0}, now;
    if (plan_transition_of(w->job, plan->status, e->reason, &now)) {
        (void)plan_transition_of(w->job, w->job->status, e->reason, &was);
        e->id = now.id != was.id ? now.id : 0;
    }
}

/* ---- */

static void add_news(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o) {
    if (o->phase != w->job->phase) {
        add_phase(plan, w, o);
    }
    if (o->restarting && o->attempt != w->job->attempt) {
        add_event(plan, "Restarting", restarting_message(o->backoff, o->message));
    }
    if (o->gave_back) {
        add_event(plan, "GaveBack", co_xstrdup(o->message));
    }
    bool active = !w->job->deleting && !api_phase_terminal(o->phase);
    if (w->job->phase == API_PHASE_SUSPENDED && o->phase != API_PHASE_SUSPENDED && active) {
        add_event(plan, "Resumed", resumed_message(o->attempt));
    }
    if (o->blocked) {
        add_blocked(plan, w, o);
    }
    if (active && !o->restarting) {
        add_trouble(plan, w, o);
    }
    if ((api_phase_terminal(w->job->phase) || o->phase == API_PHASE_SUSPENDED) && o->kept &&
        !co_json_str(w->job->status, "keptPod")) {
        add_event(plan, "WaitingForOldPods", co_xstrdup(o->message));
    }
    for (size_t i = 0; active && i < PLAN_NOTICES; i++) {
        const char *type = plan_notices[i].type;
        char text[PLAN_NOTICE_MAX];
        if (plan_notice_say(&plan_notices[i], w, o, text) && is_news(w, type, text)) {
            add_event(plan, type, co_xstrdup(text));
        }
    }
    if (o->completing && !plan_condition_true(w->job, "Completing")) {
        add_event(plan, "Completing", completing_message(w));
    }
}

void plan_events_phase(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o) {
    add_unreported(plan, w);
    size_t first = plan->n_events;
    add_news(plan, w, o);
    for (size_t i = first; i < plan->n_events; i++) {
        number_event(plan, w, &plan->events[i]);
    }
}
