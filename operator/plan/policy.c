#include "operator/plan/policy.h"

#include "common/parse.h"
#include "operator/plan/reason.h"
#include "operator/plan/reason_table.h"
#include "operator/plan/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BACKOFF_FACTOR_MAX = 36, /* with 10 s: 6 min, as a Job's */
    HEALTHY = 600,           /* Running for so many seconds, a group starts its backoff afresh */
};

/* ---- what was stored ------------------------------------------------------------------------ */

static int64_t stored_time(const json_t *obj, const char *key) {
    const char *text = co_json_str(obj, key);
    int64_t t = 0;
    return text && !co_parse_time(key, text, &t, NULL) ? t : 0;
}

static int64_t stored_number(const struct op_world *w, const char *key) {
    int64_t n = json_integer_value(json_object_get(w->job->status, key));
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : n;
}

void op_policy_recall(struct op_outlook *o, const struct op_world *w) {
    o->restarts = (int32_t)stored_number(w, "restarts");
    o->backoff = stored_number(w, "backoffSeconds");
    o->restart_time = stored_time(w->job->status, "restartTime");
    bool resumes = w->job->phase == OP_PHASE_SUSPENDED;
    int64_t resumed = resumes ? w->now : stored_time(w->job->status, "activeSince");
    o->due = o->restart_time > resumed ? o->restart_time : resumed;
    /* Farther away than it was put: the clock was set back. */
    if (o->restart_time > w->now && o->restart_time - w->now <= o->backoff) {
        o->hold_until = o->restart_time;
        op_outlook_wake(o, o->hold_until);
    }
}

/* ---- restarts ------------------------------------------------------------------------------- */

static void begin_attempt(struct op_outlook *o, const struct op_world *w, enum op_phase phase) {
    o->attempt = w->attempt + 1;
    o->phase = phase;
    o->hold_until = 0;
}

static bool was_healthy(const struct op_world *w) {
    int64_t since = stored_time(op_condition_stored(w->job, "Running"), "lastTransitionTime");
    return op_condition_true(w->job, "Running") && since && w->now - since >= HEALTHY;
}

static void restart_group(struct op_outlook *o, const struct op_world *w, bool counted,
    const char *reason, const char *cause) {
    int64_t first = w->settings->restart_backoff;
    int64_t next = o->backoff && !was_healthy(w) ? o->backoff * 2 : first;
    int64_t most = first * BACKOFF_FACTOR_MAX;
    if (w->job->suspend) {
        op_policy_suspend(o, w);
        return;
    }
    begin_attempt(o, w, OP_PHASE_RESTARTING);
    o->restarting = true;
    o->restarts += counted;
    o->backoff = next < most ? next : most;
    o->restart_time = w->now + o->backoff;
    if (counted) {
        op_reason_quote(o, reason, "restart %" PRId32 " of %" PRId32 ": %s", o->restarts,
            w->job->backoff_limit, cause);
    } else {
        op_reason_quote(o, reason, "restart that is not counted: %s", cause);
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

static bool rule_fits(const struct op_rule *rule, const struct op_pod *pod) {
    int32_t code = pod->cause->exit_code;
    bool coded = code >= 0 && code <= 255 && (rule->codes[code / 64] >> (code % 64) & 1);
    return (rule->role == OP_NO_ROLE || rule->role == pod->role) && (rule->any_code || coded) &&
           (!rule->reasons || names_reason(rule->reasons, pod->cause->reason));
}

/* The number of the rule that decides, or n_rules. */
static size_t find_rule(const struct op_job *job, const struct op_pod *pod) {
    size_t i = 0;
    while (i < job->n_rules && !rule_fits(&job->rules[i], pod)) {
        i++;
    }
    return i;
}

void op_policy_failed(struct op_outlook *o, const struct op_world *w, const struct op_pod *pod) {
    const struct op_job *job = w->job;
    char cause[sizeof(o->message) - 80];
    const char *reason = op_reason_of_pod(pod, cause, sizeof(cause));
    size_t rule = find_rule(job, pod);
    enum op_action_on_failure action = rule < job->n_rules ? job->rules[rule].action
                                       : pod->disrupted    ? OP_IGNORE
                                                           : OP_RESTART;
    /* Who lost a peer fails of that, and may be seen before the peer is. */
    if (rule == job->n_rules && !pod->disrupted && op_policy_lost(o, w)) {
        return;
    }
    o->phase = OP_PHASE_FAILED;
    if (!op_job_restarts(job)) {
        op_reason_quote(o, reason, "%s", cause);
    } else if (action == OP_FAIL) {
        op_reason_say(o, "FailurePolicy", "rule %zu of failurePolicy: %s", rule + 1, cause);
    } else if (action == OP_IGNORE) {
        restart_group(o, w, false, reason, cause);
    } else if (o->restarts < job->backoff_limit) {
        restart_group(o, w, true, reason, cause);
    } else {
        op_reason_say(
            o, "BackoffLimitExceeded", "after %" PRId32 " restarts: %s", o->restarts, cause);
    }
}

/* ---- pods that were taken away -------------------------------------------------------------- */

/* Some process of the group is past the start gate: it knows the addresses of its peers. */
static bool has_started(const struct op_world *w) {
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        for (int32_t i = 0; i < op_world_replicas(w, r); i++) {
            const struct op_slot *s = &w->slot[r][i];
            const struct op_pod *pod = s->pod;
            bool began = pod && (pod->passed ||
                                    (pod->phase != OP_POD_PENDING && pod->phase != OP_POD_UNKNOWN));
            if (began || s->done) {
                return true;
            }
        }
    }
    return false;
}

/* So many pods of the role were there once, in this attempt; one that is not any more was deleted.
 * Not as many as are asked for now: the job may have been edited since. */
static int32_t were_created(const struct op_job *job, enum op_role role) {
    return op_condition_true(job, "Created") ? op_status_wanted(job, role) : 0;
}

/* Elastic groups go on without the pod until it is back. */
bool op_policy_lost(struct op_outlook *o, const struct op_world *w) {
    if (!op_job_restarts(w->job) || w->job->elastic || !has_started(w)) {
        return false;
    }
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        int32_t created = were_created(w->job, r);
        for (int32_t i = 0; i < op_world_replicas(w, r); i++) {
            const struct op_slot *s = &w->slot[r][i];
            bool gone = !s->pod && !s->old && !s->done && i < created;
            if (!gone && !(s->pod && s->pod->c.deleting && s->pod->phase != OP_POD_SUCCEEDED)) {
                continue;
            }
            char name[OP_NAME_MAX + 1];
            char cause[OP_NAME_MAX + 32];
            op_pod_name(w->job->name, r, i, name, sizeof(name));
            (void)snprintf(cause, sizeof(cause), "pod %s was deleted", name);
            restart_group(o, w, false, "PodDeleted", cause);
            return true;
        }
    }
    return false;
}

bool op_policy_stops_rest(const struct op_job *job) {
    return job->phase == OP_PHASE_COMPLETED || op_job_restarts(job) ||
           co_streq(co_json_str(job->status, "reason"), "DeadlineExceeded");
}

/* ---- suspension and deadline ---------------------------------------------------------------- */

/* How long the job has been active: seconds before `since`, and since then; since 0: it is not
 * active. */
struct active {
    bool stored; /* else it was never suspended */
    int64_t seconds, since;
};

static struct active recall_active(const struct op_world *w) {
    const json_t *seconds = json_object_get(w->job->status, "activeSeconds");
    if (!json_is_integer(seconds)) {
        return (struct active){.since = w->job->created};
    }
    return (struct active){.stored = true,
        .seconds = stored_number(w, "activeSeconds"),
        .since = stored_time(w->job->status, "activeSince")};
}

/* Of the present attempt, those that have succeeded and are gone included. */
static bool has_pods(const struct op_world *w) {
    int64_t n = (int64_t)w->n_stale_pods;
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        n += w->counts[r].pods + w->counts[r].gone;
    }
    return n > 0;
}

/* Pods whose create was on its way while the suspension was stored are of the old attempt, too.  A
 * restart waits no longer: who resumes the job wants it now. */
void op_policy_suspend(struct op_outlook *o, const struct op_world *w) {
    o->phase = OP_PHASE_SUSPENDED;
    o->restart_time = o->restart_time < w->now ? o->restart_time : w->now;
    if (has_pods(w) || w->configmap) {
        begin_attempt(o, w, OP_PHASE_SUSPENDED);
    }
    op_reason_say(o, "JobSuspended", "spec.suspend is true");
}

void op_policy_deadline(struct op_outlook *o, const struct op_world *w) {
    struct active a = recall_active(w);
    if (a.stored && !a.since) { /* the job is resumed, now */
        a.since = w->now;
    }
    if (!w->job->deadline || !a.since || o->phase == OP_PHASE_SUSPENDED) {
        return;
    }
    int64_t at = a.since + w->job->deadline - a.seconds;
    if (w->now < at) {
        op_outlook_wake(o, at);
        return;
    }
    op_policy_recall(o, w); /* a restart that was just decided upon does not happen */
    o->phase = OP_PHASE_FAILED;
    o->attempt = w->attempt;
    o->restarting = false;
    op_reason_say(o, "DeadlineExceeded",
        "the job was active for %" PRId64 " s, all that activeDeadlineSeconds allows",
        w->job->deadline);
}

/* ---- what is stored ------------------------------------------------------------------------- */

static void set_time(json_t *status, const char *key, int64_t t) {
    char text[32];
    if (t) {
        co_time_format(t, text);
        co_json_set(status, key, json_string(text));
    }
}

static void set_number(json_t *status, const char *key, int64_t n) {
    co_json_set(status, key, n ? json_integer(n) : NULL);
}

static void remember_active(json_t *status, const struct op_world *w, const struct op_outlook *o) {
    struct active a = recall_active(w);
    bool suspended = o->phase == OP_PHASE_SUSPENDED;
    if (suspended && (a.since || !a.stored)) { /* begins, now */
        bool untouched = w->job->phase == OP_PHASE_NONE;
        int64_t last = a.since && !untouched && w->now > a.since ? w->now - a.since : 0;
        a = (struct active){.stored = true, .seconds = a.seconds + last};
    } else if (!suspended && a.stored && !a.since && !op_phase_terminal(o->phase)) { /* ends */
        a.since = w->now;
    }
    if (a.stored) {
        co_json_set(status, "activeSeconds", json_integer(a.seconds));
        set_time(status, "activeSince", a.since);
    }
}

void op_policy_remember(json_t *status, const struct op_world *w, const struct op_outlook *o) {
    co_json_set(status, "restarts", json_integer(o->restarts));
    set_number(status, "attempt", o->attempt);
    set_time(status, "restartTime", o->restart_time);
    set_number(status, "backoffSeconds", o->backoff);
    remember_active(status, w, o);
}
