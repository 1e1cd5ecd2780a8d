/* Sorts a job's children into slots, and counts them. */
#include "operator/plan/children.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "operator/api/words.h"
#include "operator/plan/stored.h"

bool plan_children_wants_services(const struct plan_children *w) {
    return w->job->intranet == API_SERVICE || w->settings->services_all || w->names_asked;
}

bool plan_children_lacks_pods(const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (!s->pod && !s->done) {
            return true;
        }
    }
    return false;
}

bool plan_children_has_pods(const struct plan_children *w) {
    int64_t n = (int64_t)w->n_stale_pods;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        n += w->counts[r].pods + w->counts[r].gone;
    }
    return n > 0;
}

bool plan_children_has_started(const struct plan_children *w) {
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        bool began = pod && (pod->passed ||
                                (pod->phase != API_POD_PENDING && pod->phase != API_POD_UNKNOWN));
        if (began || s->done) {
            return true;
        }
    }
    return false;
}

bool plan_job_named(const struct api_job *job) {
    return job->intranet == API_SERVICE || job->intranet == API_DNS;
}

void plan_job_host(
    const struct api_job *job, enum api_role role, int32_t index, char *ret, size_t size) {
    char name[API_NAME_MAX + 1];
    api_pod_name(job->name, role, index, name, sizeof(name));
    bool dns = job->intranet == API_DNS; /* the pod's subdomain is the job's Service */
    (void)snprintf(ret, size, "%s%s%s", name, dns ? "." : "", dns ? job->name : "");
}

bool plan_children_bound(const struct plan_children *w, char *ret, size_t size) {
    const struct api_role_spec *r = &w->job->role[API_WORKER];
    bool above = r->asked > r->replicas;
    (void)snprintf(ret, size, "spec.worker.replicas is %" PRId32 ", spec.worker.%s %s %" PRId32,
        r->asked, above ? "limits" : "requests", above ? "allow" : "ask for", r->replicas);
    return r->asked != r->replicas;
}

bool plan_children_words(const struct plan_children *w, char *ret, size_t size) {
    const json_t *spec = json_object_get(w->job->json, "spec");
    size_t n = 0;
    for (enum api_word_field f = 0; f < API_WORD_FIELDS; f++) {
        char odd[160];
        if (n < size && api_word_is_odd(f, spec, odd, sizeof(odd))) {
            n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? "; " : "", odd);
        }
    }
    return n > 0;
}

bool plan_job_some_decide(const struct api_job *job) {
    int32_t workers = plan_job_replicas(job, API_WORKER);
    switch (job->success) {
    case API_SUCCESS_WORKERS: /* servers serve for ever */
        return job->mode == API_MODE_PS && (workers > 0 || plan_job_replicas(job, API_HETER) > 0);
    case API_SUCCESS_WORKER_0:
        return workers > 0;
    case API_SUCCESS_ALL:
    default:
        return false;
    }
}

const struct plan_success_text *plan_children_success_text(const struct plan_children *w) {
    static const struct plan_success_text texts[] = {
        [API_SUCCESS_WORKERS] = {"AllWorkersSucceeded", "all workers have succeeded", "servers"},
        [API_SUCCESS_WORKER_0] = {"Worker0Succeeded", "worker 0 has succeeded", "the others"},
        [API_SUCCESS_ALL] = {"AllPodsSucceeded", "all pods have succeeded", "none"},
    };
    return &texts[plan_job_some_decide(w->job) ? w->job->success : API_SUCCESS_ALL];
}

static bool is_ours(const struct plan_children *w, const struct api_child *c) {
    return strcmp(c->owner_uid, w->job->uid) == 0;
}

bool plan_children_is_predecessors(const struct plan_children *w, const struct api_child *c) {
    return strcmp(c->owner_job, w->job->name) == 0 && !is_ours(w, c) && !c->deleting && c->at &&
           c->at < w->job->created;
}

/* The role and index that a name belongs to; API_NO_ROLE when it is not a name of this job. */
static enum api_role slot_of_name(
    const struct plan_children *w, const char *name, int32_t *ret_index) {
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        int32_t i = api_pod_name_index(w->job->name, r, name);
        if (i >= 0) {
            *ret_index = i;
            return r;
        }
    }
    return API_NO_ROLE;
}

static struct plan_slot *slot_at(const struct plan_children *w, enum api_role role, int32_t index) {
    return index < plan_children_replicas(w, role) ? &w->slot[role][index] : NULL;
}

/* The stored attempt; if the status was lost, the highest one among the pods. */
static int32_t present_attempt(const struct plan_children *w) {
    int32_t attempt = w->job->attempt;
    for (size_t i = 0; i < w->seen->n_pods && w->job->phase == API_PHASE_NONE; i++) {
        const struct api_pod *pod = w->seen->pods[i];
        attempt = is_ours(w, &pod->c) && pod->attempt > attempt ? pod->attempt : attempt;
    }
    return attempt;
}

static void place_pod(struct plan_children *w, const struct api_pod *pod) {
    enum api_role role = (enum api_role)pod->role; /* right unless somebody edited labels */
    int32_t index = role == API_NO_ROLE ? -1 : api_pod_name_index(w->job->name, role, pod->c.name);
    role = index < 0 ? slot_of_name(w, pod->c.name, &index) : role;
    if (role == API_NO_ROLE) {
        return;
    }
    struct plan_slot *slot = slot_at(w, role, index);
    bool ours = is_ours(w, &pod->c);
    if (ours && pod->attempt != w->attempt) {
        w->old_pods[w->n_old_pods++] = pod;
        if (slot) {
            slot->old = pod;
        }
    } else if (!ours || pod->role != role || pod->index != index) {
        if (slot) { /* somebody else's, or somebody has edited its labels */
            slot->pod_taken = &pod->c;
        }
    } else if (slot) {
        slot->pod = pod;
    } else {
        w->stale_pods[w->n_stale_pods++] = pod;
    }
}

static void place_service(struct plan_children *w, const struct api_service *service) {
    int32_t index = 0;
    enum api_role role = slot_of_name(w, service->c.name, &index);
    if (strcmp(service->c.name, w->job->name) == 0) {
        if (is_ours(w, &service->c)) {
            w->service = service;
        } else {
            w->service_taken = &service->c;
        }
        return;
    }
    if (role == API_NO_ROLE) {
        return;
    }
    struct plan_slot *slot = slot_at(w, role, index);
    bool ours = is_ours(w, &service->c);
    if (slot && ours) {
        slot->service = service;
    } else if (slot) {
        slot->service_taken = &service->c;
    } else if (ours) {
        w->stale_services[w->n_stale_services++] = service;
    }
}

static void place_failure(struct plan_children *w, const struct plan_failure *f) {
    int32_t index = 0;
    if (f->kind == PLAN_KIND_JOB || f->kind == PLAN_KIND_SECRET ||
        strcmp(f->name, w->job->name) == 0) {
        w->failure[f->kind] = f;
        return;
    }
    enum api_role role = slot_of_name(w, f->name, &index);
    struct plan_slot *slot = role == API_NO_ROLE ? NULL : slot_at(w, role, index);
    if (slot && f->kind == PLAN_KIND_POD) {
        slot->pod_failure = f;
    } else if (slot && f->kind == PLAN_KIND_SERVICE) {
        slot->service_failure = f;
    }
}

/* For jobs whose group restarts when a pod is lost: a pod in deletion that the last status does not
 * have was deleted by scaling down.  If the spec needs it again, it is replaced, but does not count
 * as lost. */
static void set_scaled_down_apart(struct plan_children *w) {
    size_t n = plan_job_restarts_whole(w->job) ? w->n_slots : 0;
    for (struct plan_slot *s = w->slots; s < w->slots + n; s++) {
        if (!s->had && s->pod && s->pod->c.deleting && s->pod->phase != API_POD_SUCCEEDED) {
            s->old = s->pod;
            s->pod = NULL;
        }
    }
}

static int compare_pods(const void *a, const void *b) {
    const struct api_pod *x = *(const struct api_pod *const *)a;
    const struct api_pod *y = *(const struct api_pod *const *)b;
    if (x->role != y->role) {
        return x->role < y->role ? -1 : 1;
    }
    if (x->index != y->index) {
        return x->index < y->index ? -1 : 1;
    }
    return strcmp(x->c.name, y->c.name); /* of those with edited labels */
}

static int compare_services(const void *a, const void *b) {
    const struct api_service *x = *(const struct api_service *const *)a;
    const struct api_service *y = *(const struct api_service *const *)b;
    return strcmp(x->c.name, y->c.name);
}

void plan_pods_sort(const struct api_pod **pods, size_t n) {
    qsort(pods, n, sizeof(void *), compare_pods);
}

void plan_services_sort(const struct api_service **services, size_t n) {
    qsort(services, n, sizeof(void *), compare_services);
}

static void count_slot(
    struct plan_counts *c, const struct api_job *job, const struct plan_slot *slot) {
    const struct api_pod *pod = slot->pod;
    bool succeeded = plan_slot_succeeded(slot);
    c->succeeded += succeeded;
    c->gone += succeeded && !pod;
    if (!pod) {
        return;
    }
    c->pods++;
    c->restarts = c->restarts > INT32_MAX - pod->restarts ? INT32_MAX : c->restarts + pod->restarts;
    /* A pod in deletion ends because of that, so its phase means nothing. */
    if (pod->c.deleting) {
        return;
    }
    bool failed = plan_pod_has_failed(job, pod) && !pod->lost;
    switch (pod->lost ? API_POD_UNKNOWN
            : failed  ? API_POD_FAILED
                      : (enum api_pod_phase)pod->phase) {
    case API_POD_PENDING:
        /* A pod that has passed the gate is starting (for upstream it is pending again). */
        *(pod->coord || pod->passed ? &c->starting : &c->pending) += 1;
        break;
    case API_POD_RUNNING:
        *(pod->ready ? &c->running : &c->starting) += 1;
        break;
    case API_POD_FAILED:
        c->failed++;
        break;
    case API_POD_SUCCEEDED:
        break;
    case API_POD_UNKNOWN:
    default:
        c->unknown++;
        c->lost += pod->lost;
        break;
    }
}

static void note_ended(struct plan_children *w, const struct api_pod *pod) {
    enum api_role role = (enum api_role)pod->role;
    struct plan_slot *slot =
        role == API_NO_ROLE || pod->index < 0 ? NULL : slot_at(w, role, pod->index);
    if (slot && is_ours(w, &pod->c) && pod->attempt == w->attempt) {
        slot->done = true;
    }
}

static void make_slots(struct plan_children *w) {
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        w->n_slots += (size_t)plan_children_replicas(w, r);
    }
    w->slots = co_xcalloc(w->n_slots + 1, sizeof(struct plan_slot));
    struct plan_slot *s = w->slots;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        w->slot[r] = s;
        for (int32_t i = 0; i < plan_children_replicas(w, r); i++) {
            *s++ = (struct plan_slot){.role = r, .index = i};
        }
    }
}

void plan_children_init(struct plan_children *w, const struct api_job *job,
    const struct plan_seen *seen, int64_t now, const struct plan_settings *settings) {
    *w = (struct plan_children){.job = job, .seen = seen, .settings = settings, .now = now};
    w->attempt = present_attempt(w);
    make_slots(w);
    plan_stored_recall(w);
    for (size_t i = 0; i < seen->n_ended; i++) {
        note_ended(w, seen->ended[i]);
    }
    w->old_pods = co_xcalloc(seen->n_pods + 1, sizeof(void *));
    w->stale_pods = co_xcalloc(seen->n_pods + 1, sizeof(void *));
    w->stale_services = co_xcalloc(seen->n_services + 1, sizeof(void *));
    for (size_t i = 0; i < seen->n_pods; i++) {
        place_pod(w, seen->pods[i]);
    }
    set_scaled_down_apart(w);
    for (size_t i = 0; i < seen->n_services; i++) {
        place_service(w, seen->services[i]);
    }
    for (size_t i = 0; i < seen->n_failures; i++) {
        place_failure(w, &seen->failures[i]);
    }
    plan_pods_sort(w->old_pods, w->n_old_pods);
    plan_pods_sort(w->stale_pods, w->n_stale_pods);
    plan_services_sort(w->stale_services, w->n_stale_services);
    if (seen->configmap && is_ours(w, &seen->configmap->c)) {
        bool present = seen->configmap->attempt == w->attempt;
        *(present ? &w->configmap : &w->old_configmap) = seen->configmap;
    } else if (seen->configmap) {
        w->configmap_taken = &seen->configmap->c;
    }
    /* A group without an owner was created by a user for this job. */
    if (seen->podgroup && (is_ours(w, &seen->podgroup->c) || !*seen->podgroup->c.owner_uid)) {
        w->podgroup = seen->podgroup;
    } else if (seen->podgroup) {
        w->podgroup_taken = &seen->podgroup->c;
    }
    plan_slots_each(s, w) {
        count_slot(&w->counts[s->role], job, s);
        w->names_asked |= s->pod && s->pod->asks_names;
    }
}

void plan_children_done(struct plan_children *w) {
    free(w->slots);
    free(w->old_pods);
    free(w->stale_pods);
    free(w->stale_services);
    *w = (struct plan_children){.job = NULL};
}
