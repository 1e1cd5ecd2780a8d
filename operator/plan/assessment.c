/* How pods decide a job's phase, in this order:
 *
 *   success policy met ...... completing (servers have their grace period), then Completed
 *   a pod has failed ........ Failed, or Restarting (run_policy.c)
 *   all pods succeeded ...... Completed
 *   spec.suspend ............ Suspended
 *   a pod was lost, or the group is too small ... Restarting (run_policy.c)
 *   cannot be completed ..... Pending, after its pods were given back (refused.c)
 *   otherwise ............... Pending, Starting, Running
 *
 * The deadline comes last and can end all but a job that is completing. */
#include "operator/plan/assessment.h"

#include <string.h>

#include "common/parse.h"
#include "operator/plan/reason.h"
#include "operator/plan/refused.h"
#include "operator/plan/run_policy.h"
#include "operator/plan/stored.h"

/* Sums over the roles in a mask (bit = role): pods in the spec, and pods by state. */
struct role_sums {
    int64_t wanted, pending, starting, running, failed, succeeded, created, lost;
};

static struct role_sums sum_roles(const struct plan_children *w, unsigned mask) {
    struct role_sums s = {0};
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        if (!(mask & (1U << r))) {
            continue;
        }
        const struct plan_counts *c = &w->counts[r];
        s.wanted += plan_children_replicas(w, r);
        s.pending += c->pending;
        s.starting += c->starting;
        s.running += c->running;
        s.failed += c->failed;
        s.succeeded += c->succeeded;
        s.created += c->pods + c->gone;
        s.lost += c->lost;
    }
    return s;
}

enum { SERVERS = 1U << API_PS, TRAINERS = 1U << API_WORKER | 1U << API_HETER };

static bool is_met(const struct plan_children *w, const json_t *completing) {
    return co_streq(co_json_str(completing, "status"), "True") &&
           json_integer_value(json_object_get(completing, "observedGeneration")) ==
               w->job->generation;
}

/* The success policy has been met before.  It is remembered in the status, so that a worker whose
 * pod is deleted during the servers' grace period does not train again. */
static bool was_met(const struct plan_children *w) {
    return is_met(w, plan_condition_known(w, "Completing"));
}

/* The pods that have not ended can know since then, or since a later time, that training is over:
 * they ask the lease holder, which says what is stored.  Otherwise an operator that was away, or
 * could not write the status, would delete pods that nobody has asked to end. */
static int64_t known_to_pods_since(const struct plan_children *w) {
    const json_t *c = plan_condition_stored(w->job, "Completing");
    int64_t stored = is_met(w, c) ? co_time_of(co_json_str(c, "lastTransitionTime")) : w->now;
    int64_t since = stored > w->seen->led_from ? stored : w->seen->led_from;
    return since < w->now ? since : w->now;
}

static bool is_disrupted(const struct api_pod *pod) {
    return pod->blame == API_BLAME_NODE;
}

/* The time of a failure, as text that can be compared.  kubelet may not record one for a pod that
 * was evicted; that sorts first, since pods that fail after it have only lost a peer. */
static const char *failed_at(const struct api_pod *pod) {
    const char *at = pod->cause->finished;
    return *at ? at : is_disrupted(pod) ? "" : "~";
}

/* Times are whole seconds; of two pods in the same second the evicted one counts as first. */
static bool failed_before(const struct api_pod *a, const struct api_pod *b) {
    int d = strcmp(failed_at(a), failed_at(b));
    return d < 0 || (d == 0 && is_disrupted(a) && !is_disrupted(b));
}

/* The pod that failed first: by time, then by role and index. */
static const struct api_pod *first_failed(const struct plan_children *w) {
    const struct api_pod *first = NULL;
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (!pod || !plan_pod_has_failed(w->job, pod) || pod->c.deleting || pod->lost) {
            continue;
        }
        first = !first || failed_before(pod, first) ? pod : first;
    }
    return first;
}

static enum api_phase phase_of_running(const struct plan_children *w) {
    struct role_sums all = sum_roles(w, SERVERS | TRAINERS);
    if (all.starting + all.lost > 0) {
        return API_PHASE_STARTING;
    }
    if (all.pending > 0) {
        return API_PHASE_PENDING;
    }
    /* A job with problems may seem to need no pods at all. */
    if (all.running + all.succeeded == all.wanted && !w->job->n_problems) {
        return API_PHASE_RUNNING;
    }
    enum api_phase stored = w->job->phase;
    return stored == API_PHASE_STARTING || stored == API_PHASE_RUNNING ? stored : API_PHASE_PENDING;
}

/* The success policy is met. */
static bool is_decided(const struct plan_children *w) {
    if (!plan_job_some_decide(w->job)) {
        return false;
    }
    if (w->job->success == API_SUCCESS_WORKER_0) {
        return plan_slot_succeeded(&w->slot[API_WORKER][0]) || was_met(w);
    }
    struct role_sums trainers = sum_roles(w, TRAINERS);
    return (trainers.succeeded == trainers.wanted || was_met(w)) && trainers.failed == 0;
}

/* The success policy is met; the other pods have a grace period to end. */
static void judge_rest(struct plan_assessment *o, const struct plan_children *w) {
    struct role_sums rest =
        sum_roles(w, w->job->success == API_SUCCESS_WORKER_0 ? SERVERS | TRAINERS : SERVERS);
    int64_t grace = w->settings->server_grace * (w->seen->notified ? 2 : 1);
    int64_t until = known_to_pods_since(w) + grace;
    /* A server that fails after training is over does not make the job fail. */
    bool ended = rest.succeeded + rest.failed == rest.wanted;
    o->completing = !ended && w->now < until;
    o->phase = o->completing ? phase_of_running(w) : API_PHASE_COMPLETED;
    plan_wake_by(&o->wake_at, o->completing ? until : 0);
}

/* A restarting group stays Restarting until it runs again. */
static void judge_live(struct plan_assessment *o, const struct plan_children *w) {
    o->phase = phase_of_running(w);
    o->restarting = plan_condition_true(w->job, "Restarting") && o->phase != API_PHASE_RUNNING;
    if (o->restarting) {
        o->phase = API_PHASE_RESTARTING;
    }
}

static void judge_job(struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    struct role_sums all = sum_roles(w, SERVERS | TRAINERS);
    o->all_created = all.created == all.wanted;
    o->all_running = all.running + all.succeeded == all.wanted;
    plan_policy_recall(o, w);
    if (is_decided(w)) {
        judge_rest(o, w);
    } else if (all.failed > 0) {
        plan_policy_failed(o, w, first_failed(w));
    } else if (all.wanted > 0 && all.succeeded == all.wanted) {
        o->phase = API_PHASE_COMPLETED;
    } else if (w->job->suspend) {
        plan_policy_suspend(o, w);
    } else if (!plan_policy_lost(o, w) && !plan_policy_outgrown(o, w) &&
               !plan_refused_give_back(o, w, env)) {
        judge_live(o, w);
    }
    if (!api_phase_terminal(o->phase) && !o->completing) {
        plan_policy_deadline(o, w);
    }
}

void plan_assessment_init(
    struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    *o = (struct plan_assessment){.reason = "", .attempt = w->attempt};
    if (w->job->deleting) {
        o->phase = API_PHASE_TERMINATING;
    } else if (api_phase_terminal(w->job->phase)) {
        o->phase = w->job->phase;
        plan_policy_recall(o, w);
    } else {
        judge_job(o, w, env);
    }
    plan_reason_find(o, w, env);
}
