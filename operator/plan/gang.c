/* The table of gang schedulers, the group's object and patch, and what a group waits for. */
#include "operator/plan/gang.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "operator/api/resources.h"
#include "operator/plan/children.h"
#include "operator/plan/object_gate.h"
#include "operator/plan/objects.h"
#include "operator/plan/templates.h"
#include "operator/plan/tree.h"

/* The one pod group of a native Workload. */
#define NATIVE_GROUP "job"
#define KUEUE "kueue.x-k8s.io/"

static const char *policy_text(const struct api_job *job, const char *key) {
    const char *text = co_json_str(plan_gang_policy(job), key);
    return text ? text : "";
}

/* ---- the size: how many pods the scheduler must place at once, and their resources -------------
 */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elastic workers can start with their lower limit. */
static int64_t count_needed(const struct plan_children *w, enum api_role role, int32_t ended) {
    int32_t min = w->job->role[role].min;
    int32_t left = plan_children_replicas(w, role) - ended;
    return min >= 0 ? smaller(min, left) : left;
}

/* Pods that the scheduler does not count any more.  One that has succeeded needs no place: if it
 * still counted, the group would wait for it forever when another pod has to be replaced. */
static int32_t count_uncounted(const struct plan_children *w, enum api_role role) {
    const struct plan_counts *c = &w->counts[role];
    return w->settings->gang->counts_succeeded ? c->gone : c->succeeded;
}

/* Number of pods to be placed together: those that have not succeeded, or fewer if schedulingPolicy
 * or the lower limit of elastic workers says so. */
static int64_t count_members(const struct plan_children *w) {
    const json_t *given = json_object_get(plan_gang_policy(w->job), "minAvailable");
    int64_t n = 0, ended = 0, left = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        int32_t out = count_uncounted(w, r);
        n += count_needed(w, r, out);
        ended += out;
        left += plan_children_replicas(w, r) - out;
    }
    if (!json_is_integer(given)) {
        return n;
    }
    return ended ? smaller(json_integer_value(given), left) : json_integer_value(given);
}

/* The sum of what they request, as the API server counts it (operator/api/resources.h), with the
 * start gate; an object that the caller owns. */
static json_t *sum_resources(const struct plan_children *w) {
    json_t *given = json_object_get(plan_gang_policy(w->job), "minResources");
    if (json_is_object(given)) {
        return json_incref(given);
    }
    json_t *sums = json_object();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *spec = json_object_get(plan_templates_get(w, r), "spec");
        CO_AUTOJSON json_t *gate = plan_gate_requests(spec, w->settings);
        CO_AUTOJSON json_t *pod = api_resources_of_pod(spec, gate);
        api_resources_add(sums, pod, count_needed(w, r, w->counts[r].succeeded));
    }
    return sums;
}

static bool waits_for_place(const struct plan_slot *s) {
    return s->pod ? s->pod->phase == API_POD_PENDING && !s->pod->scheduled && !s->pod->c.deleting
                  : !s->done;
}

/* Some pod needs a place, so the group's size must be right.  Otherwise a group that is too large
 * does no harm, and updating it at each success would cost a request each. */
static bool size_matters(const struct plan_children *w) {
    bool ended = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        ended |= w->counts[r].succeeded > 0;
    }
    plan_slots_each(s, w) {
        if (waits_for_place(s)) {
            return true;
        }
    }
    return !ended;
}

/* ---- the kinds ------------------------------------------------------------------------------ */

static json_t *member_spec(const struct plan_children *w) {
    json_t *spec = json_object();
    co_json_set(spec, "minMember", json_integer(count_members(w)));
    CO_AUTOJSON json_t *resources = sum_resources(w);
    co_json_set(spec, "minResources", json_object_size(resources) ? json_incref(resources) : NULL);
    return spec;
}

static json_t *volcano_spec(const struct plan_children *w) {
    json_t *spec = member_spec(w);
    for (size_t i = 0; i < API_WISHES; i++) {
        const char *text = policy_text(w->job, api_wishes[i].policy);
        text = !*text && i == API_WISH_PRIORITY ? w->job->priority_class : text;
        co_json_set(spec, api_wishes[i].spec, *text ? co_json_string(text) : NULL);
    }
    return spec;
}

static void volcano_mark(
    const struct api_job *job, enum api_role role, json_t *meta, json_t *spec) {
    json_t *a = json_object_get(meta, "annotations");
    (void)spec;
    plan_tree_set_text(a, "scheduling.k8s.io/group-name", job->name);
    plan_tree_set_text(a, "volcano.sh/task-spec", api_role_name(role));
    plan_tree_set_text(a, "volcano.sh/job-name", job->name);
    plan_tree_set_text(a, "volcano.sh/job-version", "0");
    plan_tree_set_text(a, "volcano.sh/queue-name", policy_text(job, "queue"));
}

static void coscheduling_mark(
    const struct api_job *job, enum api_role role, json_t *meta, json_t *spec) {
    (void)role;
    (void)spec;
    plan_tree_set_text(json_object_get(meta, "labels"), "scheduling.x-k8s.io/pod-group", job->name);
}

static json_t *native_spec(const struct plan_children *w) {
    int64_t n = count_members(w);
    return json_pack("{s:{s:s,s:s,s:s},s:[{s:s,s:{s:{s:I}}}]}", "controllerRef", "apiGroup",
        API_GROUP, "kind", API_KIND, "name", w->job->name, "podGroups", "name", NATIVE_GROUP,
        "policy", "gang", "minCount", (json_int_t)(n > 0 ? n : 1));
}

static void native_mark(const struct api_job *job, enum api_role role, json_t *meta, json_t *spec) {
    (void)role;
    (void)meta;
    co_json_set(
        spec, "workloadRef", json_pack("{s:s,s:s}", "name", job->name, "podGroup", NATIVE_GROUP));
}

static const struct plan_gang gangs[] = {
    /* Volcano's phases for groups that run partly or have run mean admitted, too. */
    {"volcano", "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", volcano_spec,
        volcano_mark, .scheduler = "volcano", .counts_succeeded = true,
        .open = {"Inqueue", "Running", "Unknown", "Completed"}},
    {"coscheduling", "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", member_spec,
        coscheduling_mark, .ignores = {"queue", "priorityClass"},
        .mates = {"cannot find enough sibling pods", "optimistic rejection in PostFilter",
            "rejection in Unreserve", "failed recently"}},
    {"native", "scheduling.k8s.io", "v1alpha1", "workloads", "Workload", native_spec, native_mark,
        .ignores = {"queue", "priorityClass", "minResources"}, .fixed = true, .optional = true},
    {"kueue", "kueue.x-k8s.io", "v1beta2", "workloads", "Workload", NULL, NULL,
        .ignores = {"queue", "priorityClass", "minResources", "minAvailable"}},
};

const struct plan_gang *plan_gang_find(const char *word) {
    for (size_t i = 0; i < CO_ARRAY_LEN(gangs); i++) {
        if (strcmp(gangs[i].word, word) == 0) {
            return &gangs[i];
        }
    }
    return NULL;
}

const char *plan_kind_name(enum plan_kind kind, const struct plan_gang *gang) {
    static const char *const names[] = {
        [PLAN_KIND_JOB] = API_KIND,
        [PLAN_KIND_POD] = "Pod",
        [PLAN_KIND_SERVICE] = "Service",
        [PLAN_KIND_CONFIGMAP] = "ConfigMap",
        [PLAN_KIND_PODGROUP] = "PodGroup",
        [PLAN_KIND_SECRET] = "Secret",
    };
    return kind == PLAN_KIND_PODGROUP && gang ? gang->kind : names[kind];
}

/* If a template names another scheduler, the job has no gang. */
const struct plan_gang *plan_gang_of(
    const struct api_job *job, const struct plan_settings *settings) {
    const struct plan_gang *gang = settings->gang;
    for (enum api_role r = API_PS; r < API_ROLES && gang && gang->scheduler; r++) {
        const char *name = co_json_str(job->role[r].tmpl, "spec", "schedulerName");
        if (name && *name && strcmp(name, gang->scheduler) != 0) {
            return NULL;
        }
    }
    return gang && gang->spec ? gang : NULL;
}

/* ---- objects -------------------------------------------------------------------------------- */

static const char *wanted_text(const json_t *spec, size_t wish) {
    const char *text = co_json_str(spec, api_wishes[wish].spec);
    return text ? text : "";
}

/* Whether the queue or priority of the group must be changed: the job's spec was edited since the
 * status was written last, or our patch failed.  Otherwise a different value was set by an
 * administrator, or by a webhook that puts all groups of a namespace into one queue, and is kept. A
 * value that the spec does not have any more is removed only if it is the one that we set. */
static bool is_moved(const struct plan_children *w, const json_t *spec, size_t wish) {
    const char *asked = w->podgroup->asked[wish], *has = w->podgroup->has[wish];
    const char *want = wanted_text(spec, wish);
    int64_t observed = json_integer_value(json_object_get(w->job->status, "observedGeneration"));
    bool edited = observed && observed != w->job->generation;
    return (edited || w->failure[PLAN_KIND_PODGROUP]) && strcmp(want, asked) != 0 &&
           (*want ? strcmp(want, has) != 0 : strcmp(asked, has) == 0);
}

json_t *plan_gang_object(const struct plan_children *w) {
    const struct plan_gang *gang = w->settings->gang;
    json_t *spec = gang->spec(w);
    json_t *meta = json_object();
    CO_AUTOJSON json_t *notes = json_object();
    for (size_t i = 0; i < API_WISHES; i++) {
        const char *want = wanted_text(spec, i);
        co_json_set(notes, api_wishes[i].annotation, *want ? co_json_string(want) : NULL);
    }
    co_json_set(meta, "annotations", json_object_size(notes) ? json_incref(notes) : NULL);
    json_t *obj = plan_object_new(w->job, gang->kind, w->job->name, meta);
    CO_AUTOFREE char *version = co_xasprintf("%s/%s", gang->group, gang->version);
    plan_tree_set_text(obj, "apiVersion", version);
    co_json_set(obj, "spec", spec);
    return obj;
}

/* Removes what the spec does not have any more; keeps what others have changed. */
json_t *plan_gang_patch(const struct plan_children *w) {
    json_t *spec = w->settings->gang->spec(w);
    json_t *notes = json_object();
    for (size_t i = 0; i < API_WISHES; i++) {
        const struct api_wish *wish = &api_wishes[i];
        bool moved = is_moved(w, spec, i);
        CO_AUTOJSON json_t *value =
            *wanted_text(spec, i) ? co_json_string(wanted_text(spec, i)) : json_null();
        (void)json_object_del(spec, wish->spec);
        co_json_set(spec, wish->spec, moved ? json_incref(value) : NULL);
        co_json_set(notes, wish->annotation, moved ? json_incref(value) : NULL);
    }
    if (!json_object_get(spec, "minResources")) {
        co_json_set(spec, "minResources", json_null());
    }
    return json_pack("{s:{s:s,s:o},s:o}", "metadata", "uid", w->podgroup->c.uid, "annotations",
        notes, "spec", spec);
}

bool plan_gang_is_queued(const struct api_job *job) {
    const char *queue = co_json_str(job->json, "metadata", "labels", KUEUE "queue-name");
    return queue && *queue;
}

/* Kueue creates one Workload for all pods that name the group.  Its webhook adds a scheduling gate
 * that holds them, and the quota is free again when all of them have ended. */
static void mark_for_kueue(const struct api_job *job, json_t *meta) {
    static const char *const copied[] = {KUEUE "queue-name", KUEUE "priority-class"};
    const json_t *from = co_json_at(job->json, "metadata", "labels");
    if (!plan_gang_is_queued(job)) {
        return;
    }
    json_t *labels = json_object_get(meta, "labels");
    json_t *annotations = json_object_get(meta, "annotations");
    for (size_t i = 0; i < CO_ARRAY_LEN(copied); i++) {
        const char *text = co_json_str(from, copied[i]);
        co_json_set(labels, copied[i], text ? co_json_string(text) : NULL);
    }
    char total[24];
    int64_t n = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        n += job->role[r].present ? job->role[r].replicas : 0;
    }
    (void)snprintf(total, sizeof(total), "%" PRId64, n);
    plan_tree_set_text(labels, KUEUE "pod-group-name", job->name);
    plan_tree_set_text(annotations, KUEUE "pod-group-total-count", total);
    /* If a failed pod ends the job, no pod will replace it, and Kueue may end the group. */
    if (!api_job_restarts(job)) {
        plan_tree_set_text(annotations, KUEUE "retriable-in-group", "false");
    }
}

void plan_gang_mark(const struct api_job *job, enum api_role role,
    const struct plan_settings *settings, json_t *meta, json_t *spec) {
    const struct plan_gang *gang = plan_gang_of(job, settings);
    mark_for_kueue(job, meta);
    if (!gang) {
        return;
    }
    gang->mark(job, role, meta, spec);
    if (gang->scheduler) {
        plan_tree_set_text(spec, "schedulerName", gang->scheduler);
    }
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool has_live_pods(const struct plan_children *w) {
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (pod && !pod->c.deleting && pod->phase != API_POD_SUCCEEDED) {
            return true;
        }
    }
    return false;
}

bool plan_gang_is_open(const struct plan_children *w) {
    const struct plan_gang *gang = plan_gang_of(w->job, w->settings);
    const struct api_podgroup *have = w->podgroup;
    /* A replacement for a pod of a running group does not wait: the queue may be full because of
     * this very job. */
    if (!gang || has_live_pods(w)) {
        return true;
    }
    if (!have || have->c.deleting) {
        return false;
    }
    bool open = !gang->open[0];
    for (size_t i = 0; i < CO_ARRAY_LEN(gang->open) && gang->open[i]; i++) {
        open |= strcmp(gang->open[i], have->phase) == 0;
    }
    return open;
}

static bool is_users(const struct plan_children *w) {
    return w->podgroup && strcmp(w->podgroup->c.owner_uid, w->job->uid) != 0;
}

bool plan_gang_ignores(const struct plan_children *w, char *ret, size_t size) {
    const struct plan_gang *gang = w->settings->gang;
    if (!gang || !json_object_size(plan_gang_policy(w->job))) {
        return false;
    }
    if (plan_gang_of(w->job, w->settings) && is_users(w)) {
        (void)snprintf(ret, size, "schedulingPolicy: %s %s was not made by the operator",
            gang->kind, w->job->name);
        return true;
    }
    size_t i = 0;
    while (i < CO_ARRAY_LEN(gang->ignores) && gang->ignores[i] &&
           !json_object_get(plan_gang_policy(w->job), gang->ignores[i])) {
        i++;
    }
    const char *key = i < CO_ARRAY_LEN(gang->ignores) ? gang->ignores[i] : NULL;
    (void)snprintf(ret, size, "schedulingPolicy.%s means nothing to --scheduling=%s",
        key ? key : "", gang->word);
    return key;
}

bool plan_gang_is_outdated(const struct plan_children *w) {
    const struct plan_gang *gang = plan_gang_of(w->job, w->settings);
    const struct api_podgroup *have = w->podgroup;
    if (!gang || !have || is_users(w) || !plan_templates_known(w)) {
        return false;
    }
    CO_AUTOJSON json_t *spec = gang->spec(w);
    bool outdated = size_matters(w) && api_podgroup_hash(spec) != have->hash;
    for (size_t i = 0; i < API_WISHES; i++) {
        outdated |= is_moved(w, spec, i);
    }
    return outdated;
}

/* Writes "4 pods, cpu 1, memory 2Gi". */
static void say_size(const struct plan_children *w, char *ret, size_t size) {
    CO_AUTOJSON json_t *resources = sum_resources(w);
    int64_t pods = count_members(w);
    size_t n = (size_t)snprintf(ret, size, "%" PRId64 " pod%s", pods, pods == 1 ? "" : "s");
    const char *name;
    json_t *j;
    json_object_foreach(resources, name, j) {
        CO_AUTOFREE char *number = json_is_integer(j) ? co_json_dump(j) : NULL;
        const char *text = json_string_value(j);
        if (n < size && (text || number)) {
            text = text ? text : number;
            n += (size_t)snprintf(ret + n, size - n, ", %.*s %.*s", co_utf8_fit(name, 63), name,
                co_utf8_fit(text, 40), text);
        }
    }
    co_utf8_trim(ret);
}

bool plan_gang_waits(const struct plan_children *w, char *ret, size_t size) {
    const struct plan_gang *gang = plan_gang_of(w->job, w->settings);
    if (plan_gang_is_open(w)) {
        return false;
    }
    const char *queue = policy_text(w->job, "queue");
    const char *message = w->podgroup ? w->podgroup->message : "";
    char room[256];
    say_size(w, room, sizeof(room));
    (void)snprintf(ret, size, "%s %s waits for room%s%.*s for %s%s%s", gang->kind, w->job->name,
        *queue ? " in queue " : "", co_utf8_fit(queue, 80), queue, room, *message ? ": " : "",
        message);
    return true;
}

/* The condition of a pod with Kueue's scheduling gate says only that it is gated. */
bool plan_gang_waits_in_queue(
    const struct plan_children *w, const struct api_pod *pod, char *ret, size_t size) {
    const char *queue = co_json_str(w->job->json, "metadata", "labels", KUEUE "queue-name");
    if (!queue || !*queue || strcmp(pod->cause->reason, "SchedulingGated") != 0) {
        return false;
    }
    const char *message = w->podgroup ? w->podgroup->message : "";
    (void)snprintf(ret, size, "the pods wait until Kueue admits the job to queue %.80s%s%s", queue,
        *message ? ": " : "", message);
    return true;
}

bool plan_gang_blames_mates(const struct plan_children *w, const struct api_pod *pod) {
    const struct plan_gang *gang = plan_gang_of(w->job, w->settings);
    bool found = false;
    for (size_t i = 0; gang && i < CO_ARRAY_LEN(gang->mates) && gang->mates[i] && !found; i++) {
        found = strstr(pod->cause->message, gang->mates[i]);
    }
    return found;
}
