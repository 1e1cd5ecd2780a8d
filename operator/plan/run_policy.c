/* Decisions about restarts, failures, suspension and deadline; what they need to remember is in the
 * status. */
#include "operator/plan/run_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"
#include "operator/plan/gang.h"
#include "operator/plan/lost_node.h"
#include "operator/plan/reason.h"
#include "operator/plan/reason_table.h"
#include "operator/plan/stored.h"
#include "operator/plan/tree.h"

enum {
    BACKOFF_FACTOR_MAX = 36, /* with 10 s: 6 min, as for a Job */
    HEALTHY = 600,           /* after so many seconds of Running the backoff starts over */
    /* A node could not start a container.  After so many times the first backoff, with 10 s three
     * restarts in a row, nodes are not why. */
    UNSTARTED_FACTOR = 4,
};

/* ---- what was stored ------------------------------------------------------------------------ */

static int64_t stored_number(const struct plan_children *w, const char *key) {
    int64_t n = json_integer_value(json_object_get(w->job->status, key));
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : n;
}

void plan_policy_recall(struct plan_assessment *o, const struct plan_children *w) {
    o->restarts = (int32_t)stored_number(w, "restarts");
    o->backoff = stored_number(w, "backoffSeconds");
    o->restart_time = co_time_of(co_json_str(w->job->status, "restartTime"));
    bool resumes = w->job->phase == API_PHASE_SUSPENDED;
    int64_t resumed = resumes ? w->now : co_time_of(co_json_str(w->job->status, "activeSince"));
    o->due = o->restart_time > resumed ? o->restart_time : resumed;
    /* If it is farther away than the backoff, the clock was set back; then it is ignored. */
    if (o->restart_time > w->now && o->restart_time - w->now <= o->backoff) {
        o->hold_until = o->restart_time;
        plan_wake_by(&o->wake_at, o->hold_until);
    }
}

/* ---- restarts ------------------------------------------------------------------------------- */

static void begin_attempt(
    struct plan_assessment *o, const struct plan_children *w, enum api_phase phase) {
    o->attempt = w->attempt + 1;
    o->phase = phase;
    o->hold_until = 0;
}

static bool was_healthy(const struct plan_children *w) {
    int64_t since =
        co_time_of(co_json_str(plan_condition_stored(w->job, "Running"), "lastTransitionTime"));
    return plan_condition_true(w->job, "Running") && since && w->now - since >= HEALTHY;
}

/* Twice the last backoff, up to the most. */
static int64_t next_backoff(const struct plan_assessment *o, const struct plan_children *w) {
    int64_t first = w->settings->restart_backoff;
    int64_t next = o->backoff && !was_healthy(w) ? o->backoff * 2 : first;
    int64_t most = first * BACKOFF_FACTOR_MAX;
    return next < most ? next : most;
}

int64_t plan_policy_begin_later(
    struct plan_assessment *o, const struct plan_children *w, int64_t least) {
    int64_t next = next_backoff(o, w);
    begin_attempt(o, w, API_PHASE_PENDING);
    o->backoff = next > least ? next : least;
    o->restart_time = w->now + o->backoff;
    return o->backoff;
}

static void restart_group(struct plan_assessment *o, const struct plan_children *w, bool counted,
    const char *reason, const char *cause) {
    if (w->job->suspend) {
        plan_policy_suspend(o, w);
        return;
    }
    int64_t backoff = next_backoff(o, w);
    begin_attempt(o, w, API_PHASE_RESTARTING);
    o->restarting = true;
    o->restarts += counted;
    o->backoff = backoff;
    o->restart_time = w->now + o->backoff;
    if (counted) {
        plan_reason_quote(o, reason, "restart %" PRId32 " of %" PRId32 ": %s", o->restarts,
            w->job->backoff_limit, cause);
    } else {
        plan_reason_quote(o, reason, "restart that is not counted: %s", cause);
    }
}

/* ---- pods that failed ----------------------------------------------------------------------- */

static bool names_reason(const json_t *reasons, const char *reason) {
    size_t i;
    json_t *j;
    json_array_foreach(reasons, i, j) {
        if (co_streq(json_string_value(j), reason)) {
            return true;
        }
    }
    return false;
}

/* What the node or a user did to a pod is none of the program's exit codes, nor its failure: such
 * a pod needs a rule that names its reason. */
static bool rule_fits(const struct api_rule *rule, const struct api_pod *pod, bool own) {
    int32_t code = pod->cause->exit_code;
    bool coded = code >= 0 && code <= 255 && (rule->codes[code / 64] >> (code % 64) & 1);
    bool named = rule->reasons ? names_reason(rule->reasons, pod->cause->reason) : own;
    return (rule->role == API_NO_ROLE || rule->role == pod->role) && (rule->any_code || coded) &&
           named;
}

/* The index of the first rule that matches, or n_rules. */
static size_t find_rule(const struct api_job *job, const struct api_pod *pod, bool own) {
    size_t i = 0;
    while (i < job->n_rules && !rule_fits(&job->rules[i], pod, own)) {
        i++;
    }
    return i;
}

/* Restarts the group if a node does not respond and the policy allows that. */
static bool restart_without_node(struct plan_assessment *o, const struct plan_children *w) {
    char cause[256];
    bool restarts = api_job_restarts(w->job) || w->job->node_lost_after >= 0;
    if (w->job->elastic || !restarts || !plan_node_find_lost(w, cause, sizeof(cause))) {
        return false;
    }
    restart_group(o, w, false, "NodeLost", cause);
    return true;
}

/* Whether the program is why the pod failed.  A container that no node starts is the program's. */
static bool is_own_failure(
    const struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod) {
    bool in_vain = pod->cause->unstarted && !was_healthy(w) &&
                   o->backoff >= w->settings->restart_backoff * UNSTARTED_FACTOR;
    return pod->blame == API_BLAME_PROGRAM || in_vain;
}

void plan_policy_failed(
    struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod) {
    const struct api_job *job = w->job;
    char cause[sizeof(o->message) - 80];
    const char *reason = plan_reason_of_pod(pod, cause, sizeof(cause));
    bool own = is_own_failure(o, w, pod);
    size_t rule = find_rule(job, pod, own);
    /* Nothing of it has run that a policy could be about.  But Kueue ends a group of pods that are
     * not to be replaced. */
    bool restarts =
        api_job_restarts(job) || (pod->cause->unstarted && !own && !plan_gang_is_queued(job));
    enum api_action_on_failure action = rule < job->n_rules ? job->rules[rule].action
                                        : own               ? API_RESTART
                                                            : API_IGNORE;
    /* A pod that has lost its peer fails because of that, and its failure may be seen first. */
    if (rule == job->n_rules && own && (restart_without_node(o, w) || plan_policy_lost(o, w))) {
        return;
    }
    o->phase = API_PHASE_FAILED;
    if (!restarts) {
        plan_reason_quote(o, reason, "%s", cause);
    } else if (action == API_FAIL) {
        plan_reason_say(o, "FailurePolicy", "rule %zu of failurePolicy: %s", rule + 1, cause);
    } else if (action == API_IGNORE) {
        restart_group(o, w, false, reason, cause);
    } else if (o->restarts < job->backoff_limit) {
        restart_group(o, w, true, reason, cause);
    } else {
        plan_reason_say(o, "BackoffLimitExceeded", "after %" PRId32 " restart%s: %s", o->restarts,
            o->restarts == 1 ? "" : "s", cause);
    }
}

/* ---- pods that were taken away -------------------------------------------------------------- */

/* Writes what became of a pod that is deleted or gone, and returns the reason. */
static const char *say_taken_away(
    const struct plan_children *w, const struct plan_slot *s, char *ret, size_t size) {
    if (s->pod && s->pod->blame == API_BLAME_NODE) {
        plan_reason_of_disruption(s->pod, 1, ret, size);
        return "PodDisrupted";
    }
    char name[API_NAME_MAX + 1];
    api_pod_name(w->job->name, s->role, s->index, name, sizeof(name));
    (void)snprintf(ret, size, "pod %s was deleted", name);
    return "PodDeleted";
}

/* Elastic groups continue without the pod until it is replaced. */
bool plan_policy_lost(struct plan_assessment *o, const struct plan_children *w) {
    bool due = plan_node_is_due(o, w);
    /* Of a group that is gone as a whole only the status says that it ran.  Its ConfigMap is still
     * there, and without the start gate the next pods would begin with its addresses. */
    bool started = plan_children_has_started(w) || plan_condition_true(w->job, "Running");
    if (w->job->elastic || !started) {
        return false;
    }
    if (due && restart_without_node(o, w)) {
        return true;
    }
    if (!api_job_restarts(w->job)) {
        return false;
    }
    plan_slots_each(s, w) {
        bool gone = !s->pod && !s->old && !s->done && !s->pod_taken && s->had;
        if (!gone && !(s->pod && s->pod->c.deleting && s->pod->phase != API_POD_SUCCEEDED)) {
            continue;
        }
        char cause[sizeof(o->message) - 80];
        const char *reason = say_taken_away(w, s, cause, sizeof(cause));
        restart_group(o, w, false, reason, cause);
        return true;
    }
    return false;
}

bool plan_policy_outgrown(struct plan_assessment *o, const struct plan_children *w) {
    const struct api_role_spec *worker = &w->job->role[API_WORKER];
    bool given = co_json_str(w->job->status, "began") && plan_children_has_pods(w);
    if (!w->job->elastic || worker->max > 0 || !given || worker->replicas <= w->job->np) {
        return false;
    }
    begin_attempt(o, w, API_PHASE_RESTARTING);
    o->restarting = true;
    o->backoff = 0;
    o->restart_time = w->now;
    plan_reason_say(o, "ScaledOut",
        "%" PRId32 " workers are asked for, and those that run know of %" PRId32
        " at most: all restart; spec.worker.limits avoids that",
        worker->replicas, w->job->np);
    return true;
}

enum plan_end plan_policy_end(const struct api_job *job, enum api_phase phase, const char *reason) {
    /* by policy: on completion, on failure */
    static const bool cleaned[][2] = {
        [API_CLEAN_DEFAULT] = {true, false},
        [API_CLEAN_ALWAYS] = {true, true},
        [API_CLEAN_NEVER] = {false, false},
        [API_CLEAN_ON_FAILURE] = {false, true},
        [API_CLEAN_ON_COMPLETION] = {true, false},
        [API_CLEAN_RUNNING] = {false, false},
        [API_CLEAN_OTHER] = {false, false},
    };
    bool failed = phase == API_PHASE_FAILED;
    bool stops = !failed || api_job_restarts(job) || job->clean == API_CLEAN_RUNNING ||
                 strcmp(reason, "DeadlineExceeded") == 0;
    return cleaned[job->clean][failed] ? PLAN_END_ALL : stops ? PLAN_END_RUNNING : PLAN_END_NOTHING;
}

/* ---- suspension and deadline ---------------------------------------------------------------- */

/* How long the job has been active: `seconds` before `since`, plus the time since then.  since 0:
 * it is suspended. */
struct active {
    bool stored; /* else it was never suspended */
    int64_t seconds, since;
};

static struct active recall_active(const struct plan_children *w) {
    const json_t *seconds = json_object_get(w->job->status, "activeSeconds");
    if (!json_is_integer(seconds)) {
        return (struct active){.since = w->job->created};
    }
    return (struct active){.stored = true,
        .seconds = stored_number(w, "activeSeconds"),
        .since = co_time_of(co_json_str(w->job->status, "activeSince"))};
}

/* Suspends the job.  It begins a new attempt, so that pods whose create was in flight belong to the
 * old one and are deleted.  The backoff of a restart ends: a job that is resumed starts at once. */
void plan_policy_suspend(struct plan_assessment *o, const struct plan_children *w) {
    o->phase = API_PHASE_SUSPENDED;
    o->restart_time = o->restart_time < w->now ? o->restart_time : w->now;
    if (plan_children_has_pods(w) || w->configmap) {
        begin_attempt(o, w, API_PHASE_SUSPENDED);
    }
    plan_reason_say(o, "JobSuspended", "spec.suspend is true");
}

void plan_policy_deadline(struct plan_assessment *o, const struct plan_children *w) {
    struct active a = recall_active(w);
    if (a.stored && !a.since) { /* the job is resumed, now */
        a.since = w->now;
    }
    if (!w->job->deadline || !a.since || o->phase == API_PHASE_SUSPENDED) {
        return;
    }
    int64_t at = a.since + w->job->deadline - a.seconds;
    if (w->now < at) {
        plan_wake_by(&o->wake_at, at);
        return;
    }
    /* A job that does not run ends with what it waited for. */
    const char *reason = co_json_str(w->job->status, "reason");
    const char *message = co_json_str(w->job->status, "message");
    bool waited = reason && message && !plan_condition_true(w->job, "Running");
    plan_policy_recall(o, w); /* undoes a restart that was just decided */
    o->phase = API_PHASE_FAILED;
    o->attempt = w->attempt;
    o->restarting = false;
    plan_reason_say(o, "DeadlineExceeded",
        "the job was active for %" PRId64 " s, all that activeDeadlineSeconds allows%s%s%s%s",
        w->job->deadline, waited ? "; it did not run: " : "", waited ? reason : "",
        waited ? ": " : "", waited ? message : "");
}

/* ---- what is stored ------------------------------------------------------------------------- */

static void remember_active(
    json_t *status, const struct plan_children *w, const struct plan_assessment *o) {
    struct active a = recall_active(w);
    bool suspended = o->phase == API_PHASE_SUSPENDED;
    if (suspended && (a.since || !a.stored)) { /* begins, now */
        bool untouched = w->job->phase == API_PHASE_NONE;
        int64_t last = a.since && !untouched && w->now > a.since ? w->now - a.since : 0;
        a = (struct active){.stored = true, .seconds = a.seconds + last};
    } else if (!suspended && a.stored && !a.since && !api_phase_terminal(o->phase)) { /* ends */
        a.since = w->now;
    }
    if (a.stored) {
        co_json_set(status, "activeSeconds", json_integer(a.seconds));
        plan_tree_set_time(status, "activeSince", a.since);
    }
}

void plan_policy_remember(
    json_t *status, const struct plan_children *w, const struct plan_assessment *o) {
    co_json_set(status, "restarts", json_integer(o->restarts));
    plan_tree_set_count(status, "attempt", o->attempt);
    plan_tree_set_time(status, "restartTime", o->restart_time);
    plan_tree_set_count(status, "backoffSeconds", o->backoff);
    remember_active(status, w, o);
}
