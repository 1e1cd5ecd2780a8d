/* Plans one job: collects actions for its children, then adds status and events.
 *
 *   plan_children (children sorted) -> plan_assessment (state of the job) -> plan_actions
 *     job ended ......... plan_ended: clean up
 *     new attempt ....... nothing before its number is stored
 *     otherwise ......... delete_old, then plan_live: create what is missing */
#include <string.h>

#include "common/parse.h"
#include "operator/plan/env.h"
#include "operator/plan/events.h"
#include "operator/plan/gang.h"
#include "operator/plan/lost_node.h"
#include "operator/plan/object_pod.h"
#include "operator/plan/objects.h"
#include "operator/plan/run_policy.h"
#include "operator/plan/stale.h"
#include "operator/plan/status.h"
#include "operator/plan/templates.h"
#include "operator/plan/tree.h"

/* ---- the list of actions -------------------------------------------------------------------- */

/* Most bytes, roughly, of all pods' bodies in a plan.  Users' templates may be large. */
enum { PODS_MAX_BYTES = 16 << 20 };

struct builder {
    const struct plan_children *w;
    struct plan *plan;
    size_t creates;
    size_t bytes;                 /* of all pods' bodies so far */
    size_t pod_bytes[API_ROLES];  /* of one body of the role; 0: not measured yet */
    const json_t *pod[API_ROLES]; /* the first body, from which the others are made; NULL: none */
};

/* True during the backoff of a rejected action; the plan then wakes at its end. */
static bool held_back(struct builder *b, const struct plan_failure *f) {
    if (!f || f->retry_at <= b->w->now) {
        return false;
    }
    plan_wake_by(&b->plan->wake_at, f->retry_at);
    return true;
}

static void add_action(struct builder *b, enum plan_verb verb, enum plan_kind kind,
    const char *name, const char *uid, json_t *body_own, const char *why) {
    struct plan *p = b->plan;
    b->creates += verb == PLAN_CREATE;
    p->actions = co_xgrow(p->actions, p->n_actions, sizeof(*p->actions));
    p->actions[p->n_actions++] = (struct plan_action){.verb = verb,
        .kind = kind,
        .name = co_xstrdup(name),
        .uid = co_xstrdup(uid),
        .body = body_own,
        .inits = json_incref(co_json_at(body_own, "spec", "initContainers")),
        .why = why};
}

static const struct plan_failure *failure_of(
    const struct plan_children *w, enum plan_kind kind, const char *name) {
    for (size_t i = 0; i < w->seen->n_failures; i++) {
        const struct plan_failure *f = &w->seen->failures[i];
        if (f->kind == kind && strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

static void add_delete(
    struct builder *b, enum plan_kind kind, const struct api_child *c, const char *why) {
    if (!c->deleting && !held_back(b, failure_of(b->w, kind, c->name))) {
        add_action(b, PLAN_DELETE, kind, c->name, c->uid, NULL, why);
    }
}

/* Deletes a pod.  One whose node is lost is deleted with grace period 0, even if it is being
 * deleted already, because its node cannot confirm its end. */
static void delete_pod(struct builder *b, const struct api_pod *pod, const char *why) {
    if (!plan_node_is_given_up(b->w, pod)) {
        add_delete(b, PLAN_KIND_POD, &pod->c, why);
    } else if (!pod->at_once && !held_back(b, failure_of(b->w, PLAN_KIND_POD, pod->c.name))) {
        add_action(
            b, PLAN_DELETE, PLAN_KIND_POD, pod->c.name, pod->c.uid, NULL, "its node is lost");
        b->plan->actions[b->plan->n_actions - 1].at_once = true;
    }
}

/* ---- a job that lives ----------------------------------------------------------------------- */

/* Deletes what earlier attempts left, including their ConfigMap, so that no container of the
 * present attempt starts with old addresses. */
static void delete_old(struct builder *b) {
    const struct plan_children *w = b->w;
    for (size_t i = 0; i < w->n_old_pods; i++) {
        delete_pod(b, w->old_pods[i], "of an earlier attempt");
    }
    if (w->old_configmap) {
        add_delete(b, PLAN_KIND_CONFIGMAP, &w->old_configmap->c, "of an earlier attempt");
    }
}

static void delete_predecessors(struct builder *b) {
    const struct plan_children *w = b->w;
    const struct plan_seen *seen = w->seen;
    static const char why[] = "of the deleted job of the same name";
    for (size_t i = 0; i < seen->n_pods; i++) {
        if (plan_children_is_predecessors(w, &seen->pods[i]->c)) {
            add_delete(b, PLAN_KIND_POD, &seen->pods[i]->c, why);
        }
    }
    for (size_t i = 0; i < seen->n_services; i++) {
        if (plan_children_is_predecessors(w, &seen->services[i]->c)) {
            add_delete(b, PLAN_KIND_SERVICE, &seen->services[i]->c, why);
        }
    }
    const struct {
        enum plan_kind kind;
        const struct api_child *taken;
    } rows[] = {{PLAN_KIND_CONFIGMAP, w->configmap_taken}, {PLAN_KIND_PODGROUP, w->podgroup_taken}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].taken && plan_children_is_predecessors(w, rows[i].taken)) {
            add_delete(b, rows[i].kind, rows[i].taken, why);
        }
    }
}

static void delete_stale(struct builder *b) {
    const struct plan_children *w = b->w;
    for (size_t i = 0; i < w->n_stale_pods; i++) {
        delete_pod(b, w->stale_pods[i], "beyond replicas");
    }
    for (size_t i = 0; i < w->n_stale_services; i++) {
        add_delete(b, PLAN_KIND_SERVICE, &w->stale_services[i]->c, "beyond replicas");
    }
}

/* Replaces lost pods of a group that does not restart: an elastic one, or one that has not started.
 */
static void delete_lost(struct builder *b) {
    plan_slots_each(s, b->w) {
        if (s->pod && plan_node_is_given_up(b->w, s->pod)) {
            delete_pod(b, s->pod, "its node is lost");
        }
    }
}

/* The delete of a pod of an earlier attempt was rejected, so kubelet may still start its
 * containers, those of a running pod once more: they would read this attempt's addresses. */
static bool has_startable_old_pod(const struct plan_children *w) {
    for (size_t i = 0; i < w->n_old_pods; i++) {
        const struct api_pod *pod = w->old_pods[i];
        if (!pod->c.deleting && plan_pod_holds_node(pod)) {
            return true;
        }
    }
    return false;
}

/* Creates the ConfigMap, and updates it when addresses change, so that a replaced pod reads the
 * current ones.  Running pods keep what they have read. */
static void publish_env(struct builder *b, const json_t *env) {
    const struct plan_children *w = b->w;
    const struct api_configmap *have = w->configmap;
    bool stale = env && !plan_env_published(w, env) && !has_startable_old_pod(w);
    if ((!have && !stale) || w->configmap_taken || w->old_configmap || (have && have->c.deleting) ||
        held_back(b, w->failure[PLAN_KIND_CONFIGMAP])) {
        return;
    }
    json_t *data = stale ? plan_tree_copy(env) : NULL;
    json_t *templates = plan_templates_missing(w);
    if (!have) {
        add_action(b, PLAN_CREATE, PLAN_KIND_CONFIGMAP, w->job->name, "",
            plan_object_configmap(w->job, data, templates), "missing");
    } else if (data || templates) {
        int64_t changed = data ? plan_stale_since(w, env) : 0;
        add_action(b, PLAN_PATCH, PLAN_KIND_CONFIGMAP, w->job->name, "",
            plan_object_configmap_patch(have, data, changed, templates),
            data ? "endpoints changed" : "templates of an earlier version");
    }
}

/* The plan has enough creates: a job with very many or very large pods is created in parts. */
static bool is_full(const struct builder *b) {
    size_t most = b->w->seen->creates_max;
    return most && (b->creates >= most || b->bytes >= PODS_MAX_BYTES);
}

static void create_service(struct builder *b, const struct plan_slot *s) {
    if (s->service_taken || held_back(b, s->service_failure) || is_full(b)) {
        return;
    }
    if (s->service) {
        if (!s->service->labelled && !s->service->c.deleting) {
            add_action(b, PLAN_PATCH, PLAN_KIND_SERVICE, s->service->c.name, "",
                plan_object_service_patch(b->w->job, s->service), "of an earlier version");
        }
        return;
    }
    char name[API_NAME_MAX + 1];
    api_pod_name(b->w->job->name, s->role, s->index, name, sizeof(name));
    add_action(b, PLAN_CREATE, PLAN_KIND_SERVICE, name, "", plan_object_service(b->w->job, name),
        "missing");
}

static void create_job_service(struct builder *b) {
    const struct plan_children *w = b->w;
    if (!w->service && !w->service_taken && !held_back(b, w->failure[PLAN_KIND_SERVICE])) {
        add_action(b, PLAN_CREATE, PLAN_KIND_SERVICE, w->job->name, "",
            plan_object_job_service(w->job), "missing");
    }
}

static void create_pod(struct builder *b, const struct plan_slot *s) {
    if (s->pod || s->done || s->old || s->pod_taken || held_back(b, s->pod_failure) || is_full(b)) {
        return;
    }
    char name[API_NAME_MAX + 1];
    const struct api_job *job = b->w->job;
    const enum api_role role = s->role;
    api_pod_name(job->name, role, s->index, name, sizeof(name));
    size_t *bytes = &b->pod_bytes[role];
    const json_t *tmpl = plan_templates_get(b->w, role);
    if (!tmpl) {
        b->plan->lacks_templates = true;
        return;
    }
    *bytes = *bytes ? *bytes : plan_object_pod_bytes(tmpl);
    b->bytes += *bytes;
    json_t *body = b->pod[role]
                       ? plan_object_pod_like(b->pod[role], job, role, s->index, b->w->settings)
                       : plan_object_pod(job, tmpl, role, s->index, b->w->settings);
    b->pod[role] = body;
    add_action(b, PLAN_CREATE, PLAN_KIND_POD, name, "", body, "missing");
}

/* Creates the Secret; false: pods have to wait for it.  Without the Secret their containers would
 * fail to start, and wait for kubelet's next try. */
static bool has_token(struct builder *b) {
    const struct plan_children *w = b->w;
    b->plan->lacks_pods = plan_children_lacks_pods(w);
    if (!b->plan->lacks_pods || w->seen->token) {
        return true;
    }
    if (!held_back(b, w->failure[PLAN_KIND_SECRET])) {
        CO_AUTOFREE char *name = api_token_name(w->job);
        add_action(
            b, PLAN_CREATE, PLAN_KIND_SECRET, name, "", plan_object_secret(w->job), "pods need it");
    }
    return false;
}

/* Creates and updates the gang's group, before the pods.  A job that waits for its scheduler has no
 * pods, so it holds no resources. */
static void plan_gang(struct builder *b, const struct plan_gang *gang) {
    const struct plan_children *w = b->w;
    const struct api_job *job = w->job;
    const struct api_podgroup *have = w->podgroup;
    if (w->podgroup_taken || (have && have->c.deleting) ||
        held_back(b, w->failure[PLAN_KIND_PODGROUP])) {
        return;
    }
    if (!plan_templates_known(w)) {
        b->plan->lacks_templates = true;
    } else if (!have) {
        add_action(
            b, PLAN_CREATE, PLAN_KIND_PODGROUP, job->name, "", plan_gang_object(w), "missing");
    } else if (plan_gang_is_outdated(w) && gang->fixed) {
        add_action(
            b, PLAN_DELETE, PLAN_KIND_PODGROUP, have->c.name, have->c.uid, NULL, "pods changed");
    } else if (plan_gang_is_outdated(w)) {
        add_action(
            b, PLAN_PATCH, PLAN_KIND_PODGROUP, job->name, "", plan_gang_patch(w), "pods changed");
    }
}

/* Deletes the group, because it would keep occupying its queue. */
static void end_gang(struct builder *b) {
    const struct plan_children *w = b->w;
    if (w->podgroup && plan_gang_of(w->job, w->settings)) {
        add_delete(b, PLAN_KIND_PODGROUP, &w->podgroup->c, "no pods left");
    }
}

/* The next tries of creates that were rejected, the longest ago first. */
struct retry {
    int64_t at;
    const struct plan_slot *slot;
    void (*create)(struct builder *b, const struct plan_slot *s);
};

static int compare_retries(const void *a, const void *b) {
    const struct retry *x = a, *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void note_retry(struct retry *list, size_t *n, const struct plan_slot *s,
    const struct plan_failure *f, void (*create)(struct builder *b, const struct plan_slot *s)) {
    if (f) {
        list[(*n)++] = (struct retry){f->retry_at, s, create};
    }
}

/* After a rejection few creates are sent at a time.  If one that is rejected for ever came first,
 * no other would be tried, not even that of a pod that a running group has lost. */
static void create_rejected(struct builder *b, bool services, bool pods) {
    const struct plan_children *w = b->w;
    struct retry *list = co_xcalloc(w->seen->n_failures + 1, sizeof(*list));
    size_t n = 0;
    plan_slots_each(s, w) {
        note_retry(list, &n, s, services ? s->service_failure : NULL, create_service);
        note_retry(list, &n, s, pods ? s->pod_failure : NULL, create_pod);
    }
    qsort(list, n, sizeof(*list), compare_retries);
    for (size_t i = 0; i < n; i++) {
        list[i].create(b, list[i].slot);
    }
    free(list);
}

/* Creates what is missing.  In Service and DNS mode names are known before the pods exist, so all
 * of it is created at once; otherwise the ConfigMap follows when the last address is known. */
static void plan_live(struct builder *b, const struct plan_assessment *o, const json_t *env) {
    delete_predecessors(b);
    delete_stale(b);
    if (b->w->job->node_lost_after >= 0) {
        delete_lost(b);
    }
    publish_env(b, env);
    const struct plan_gang *gang = plan_gang_of(b->w->job, b->w->settings);
    if (gang) {
        plan_gang(b, gang);
    }
    if (!plan_gang_is_open(b->w)) {
        return;
    }
    if (b->w->job->intranet == API_DNS) {
        create_job_service(b);
    }
    const bool services = plan_children_wants_services(b->w);
    plan_slots_each(s, b->w) {
        if (services && !s->service_failure) {
            create_service(b, s);
        }
    }
    /* The old ConfigMap must be gone: without the start gate, only a missing ConfigMap keeps
     * containers from starting. */
    const bool pods = b->w->now >= o->hold_until && !b->w->old_configmap &&
                      (b->w->job->peer_auth == API_PEER_NONE || has_token(b));
    plan_slots_each(s, b->w) {
        if (pods && !s->pod_failure) {
            create_pod(b, s);
        }
    }
    create_rejected(b, services, pods);
}

/* ---- a job that has ended ------------------------------------------------------------------- */

static void end_pods(struct builder *b, enum plan_end end) {
    const struct plan_seen *seen = b->w->seen;
    const struct api_pod **pods = co_xcalloc(seen->n_pods + 1, sizeof(void *));
    memcpy(pods, seen->pods, seen->n_pods * sizeof(void *));
    plan_pods_sort(pods, seen->n_pods);
    for (size_t i = 0; i < seen->n_pods; i++) {
        if (strcmp(pods[i]->c.owner_uid, b->w->job->uid) != 0) {
            continue;
        }
        if (end == PLAN_END_ALL) {
            add_delete(b, PLAN_KIND_POD, &pods[i]->c, "cleanPodPolicy");
        } else if (end == PLAN_END_RUNNING && plan_pod_holds_node(pods[i])) {
            add_delete(b, PLAN_KIND_POD, &pods[i]->c, "the job has ended");
        }
    }
    free(pods);
}

static void end_services(struct builder *b) {
    const struct plan_seen *seen = b->w->seen;
    const struct api_service **services = co_xcalloc(seen->n_services + 1, sizeof(void *));
    memcpy(services, seen->services, seen->n_services * sizeof(void *));
    plan_services_sort(services, seen->n_services);
    for (size_t i = 0; i < seen->n_services; i++) {
        if (strcmp(services[i]->c.owner_uid, b->w->job->uid) == 0) {
            add_delete(b, PLAN_KIND_SERVICE, &services[i]->c, "cleanPodPolicy");
        }
    }
    free(services);
}

/* Cleans up after the end is stored.  If a pod were deleted before and the status write got lost,
 * the next plan would take the pod for a lost one and train again. */
static void plan_ended(struct builder *b) {
    const struct api_job *job = b->w->job;
    const char *reason = co_json_str(job->status, "reason");
    enum plan_end end = plan_policy_end(job, job->phase, reason ? reason : "");
    end_gang(b);
    if (b->w->seen->n_pods) {
        end_pods(b, end);
    }
    if ((end == PLAN_END_ALL || job->clean == API_CLEAN_RUNNING) && b->w->seen->n_services) {
        end_services(b);
    }
    int64_t ended = co_time_of(co_json_str(job->status, "completionTime"));
    if (job->ttl < 0 || !ended) {
        return;
    }
    if (b->w->now < ended + job->ttl) {
        plan_wake_by(&b->plan->wake_at, ended + job->ttl);
    } else if (!held_back(b, b->w->failure[PLAN_KIND_JOB])) {
        add_action(
            b, PLAN_DELETE, PLAN_KIND_JOB, job->name, job->uid, NULL, "ttlSecondsAfterFinished");
    }
}

/* ---- */

static void plan_actions(struct builder *b, const struct plan_assessment *o, const json_t *env) {
    const struct api_job *job = b->w->job;
    if (job->finalizer && !held_back(b, b->w->failure[PLAN_KIND_JOB])) {
        add_action(b, PLAN_PATCH, PLAN_KIND_JOB, job->name, "", plan_object_finalizer_patch(job),
            "finalizer guards nothing");
    }
    if (job->deleting) {
        return; /* Kubernetes' garbage collector deletes the children */
    }
    if (api_phase_terminal(job->phase)) {
        plan_ended(b);
        return;
    }
    /* A new attempt, like an end, is stored before anything is done about it.  If pods were deleted
     * first and the status write got lost, the next plan would not know why. */
    if (o->attempt != job->attempt || o->completing || api_phase_terminal(o->phase)) {
        return;
    }
    delete_old(b);
    if (o->phase == API_PHASE_SUSPENDED) {
        end_gang(b);
    } else if (!job->n_problems) {
        plan_live(b, o, env);
    }
}

int plan_compute(const struct api_job *job, const struct plan_seen *seen, int64_t now,
    const struct plan_settings *settings, struct plan *ret, struct co_err *err) {
    if (!*job->uid || !*job->name) {
        return co_err_set(err, CO_INVALID, "job \"%s\" has no metadata.uid", job->name);
    }
    if (job->elsewhere) { /* another controller's job: leave it alone */
        *ret = (struct plan){.phase = job->phase, .status = plan_tree_copy_or_new(job->status)};
        return 0;
    }
    CO_CLEANUP(plan_children_done) struct plan_children w;
    plan_children_init(&w, job, seen, now, settings);
    CO_AUTOJSON json_t *env = plan_env_data(&w);
    struct plan_assessment o;
    plan_assessment_init(&o, &w, env);
    struct plan plan = {.phase = o.phase, .gang = settings->gang};
    struct builder b = {.w = &w, .plan = &plan};
    plan_actions(&b, &o, env);
    plan.status = plan_status_make(&w, &o, &plan.status_differs);
    plan.status_urgent = plan_status_is_urgent(&w);
    plan_events_phase(&plan, &w, &o);
    plan_wake_by(&plan.wake_at, o.wake_at);
    *ret = plan;
    return 0;
}

void plan_done(struct plan *plan) {
    for (size_t i = 0; i < plan->n_actions; i++) {
        free(plan->actions[i].name);
        free(plan->actions[i].uid);
        json_decref(plan->actions[i].body);
        json_decref(plan->actions[i].inits);
    }
    free(plan->actions);
    json_decref(plan->status);
    plan_events_free(plan->events, plan->n_events);
    *plan = (struct plan){.n_actions = 0};
}

json_t *plan_env(
    const struct api_job *job, const struct plan_seen *seen, const struct plan_settings *settings) {
    CO_CLEANUP(plan_children_done) struct plan_children w;
    plan_children_init(&w, job, seen, 0, settings);
    return plan_env_data(&w);
}

json_t *plan_secret(const struct api_job *job) {
    return job->peer_auth != API_PEER_NONE ? plan_object_secret(job) : NULL;
}
