/* The start gate's decision: what a job's pods have to wait for before their containers start. */
#include "operator/plan/env.h"

/* The scheduler could not place the pod. */
static bool is_refused(const struct api_pod *pod) {
    return pod->phase == API_POD_PENDING && !pod->scheduled && *pod->cause->reason;
}

/* Elastic pods find each other through etcd, so those that exist may start.  They do not wait for a
 * worker that cannot be placed if there are as many as the lower limit, which is also the size of a
 * gang. */
static bool elastic_addressed(const struct plan_children *w) {
    int32_t there = 0, refused = 0;
    plan_slots_each(s, w) {
        bool waits = s->pod && !s->pod->c.deleting && !*s->pod->ip[0];
        if (s->old || (waits && (s->role != API_WORKER || !is_refused(s->pod)))) {
            return false;
        }
        refused += waits;
        there += s->role == API_WORKER && s->pod && !s->pod->c.deleting && !waits;
    }
    int32_t least = w->job->role[API_WORKER].min;
    return refused == 0 || (least > 0 && there >= least);
}

/* DNS has only addresses that the API server has, not those that pods have reported to us. */
static bool is_resolvable(const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (s->pod && s->pod->reported) {
            return false;
        }
    }
    return true;
}

/* All Services exist.  A Service may be late, if a quota rejects it, and training fails without the
 * name. */
static bool has_services(const struct plan_children *w) {
    if (w->job->intranet == API_DNS) {
        return w->service;
    }
    plan_slots_each(s, w) {
        if (!s->service) {
            return false;
        }
    }
    return true;
}

/* What the pods wait for; NULL: the gate is open. */
static const char *waits_for(const struct plan_children *w) {
    const struct api_job *job = w->job;
    if (job->deleting || api_phase_terminal(job->phase)) {
        return "nothing: the job has ended";
    }
    if (job->elsewhere || job->suspend) {
        return "a job that is not suspended";
    }
    if (job->n_problems) {
        return "a job that can be carried out";
    }
    if (job->elastic) {
        return elastic_addressed(w) ? NULL : "addresses";
    }
    /* In Service mode, too: a name resolves only when its pod has an address. */
    if (!plan_env_addressed(w)) {
        return "addresses";
    }
    if (plan_job_named(job) && !has_services(w)) {
        return "the pods' Services";
    }
    if (plan_job_named(job) && !is_resolvable(w)) {
        return "the pods' names";
    }
    CO_AUTOJSON json_t *env = plan_env_data(w);
    return env && plan_env_published(w, env) ? NULL : "the ConfigMap";
}

bool plan_gate_open(const struct api_job *job, const struct plan_seen *seen,
    const struct plan_settings *settings, const char **ret_why) {
    CO_CLEANUP(plan_children_done) struct plan_children w;
    plan_children_init(&w, job, seen, 0, settings);
    const char *why = waits_for(&w);
    if (why && ret_why) {
        *ret_why = why;
    }
    return why == NULL;
}
