/* Any JSON as {"job": …, "pods": […], "services": […], "configmap": …, "podgroup": …,
 * "scheduling": a word of the flag, "token": true, "now": n}: whatever was seen, planning twice
 * gives the same, and no dying or finished job gets anything created. */
#include <string.h>

#include "operator/plan/gang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHILDREN_MAX = 16 };

struct view {
    struct api_pod *pods[CHILDREN_MAX];
    struct api_service *services[CHILDREN_MAX];
    struct api_configmap *configmap;
    struct api_podgroup *podgroup;
    struct plan_seen seen;
};

static void view_init(struct view *v, const json_t *in) {
    *v = (struct view){.configmap = NULL};
    v->seen.token = json_is_true(json_object_get(in, "token"));
    size_t i;
    json_t *j;
    json_array_foreach(json_object_get(in, "pods"), i, j) {
        struct api_pod *pod = v->seen.n_pods < CHILDREN_MAX
                                  ? (struct api_pod *)api_child_of_tree(api_pod_read, j)
                                  : NULL;
        if (pod) {
            v->pods[v->seen.n_pods++] = pod;
        }
    }
    json_array_foreach(json_object_get(in, "services"), i, j) {
        struct api_service *s = v->seen.n_services < CHILDREN_MAX
                                    ? (struct api_service *)api_child_of_tree(api_service_read, j)
                                    : NULL;
        if (s) {
            v->services[v->seen.n_services++] = s;
        }
    }
    v->configmap = (struct api_configmap *)api_child_of_tree(
        api_configmap_read, json_object_get(in, "configmap"));
    v->seen.pods = (const struct api_pod *const *)v->pods;
    v->seen.services = (const struct api_service *const *)v->services;
    v->seen.configmap = v->configmap;
    v->podgroup = (struct api_podgroup *)api_child_of_tree(
        api_podgroup_read, json_object_get(in, "podgroup"));
    v->seen.podgroup = v->podgroup;
}

static void view_done(struct view *v) {
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        free(v->pods[i]);
        free(v->services[i]);
    }
    free(v->configmap);
    free(v->podgroup);
}

static void check(const struct api_job *job, const struct plan *p, const struct plan *q) {
    if (p->n_actions != q->n_actions || !json_equal(p->status, q->status)) {
        abort();
    }
    for (size_t i = 0; i < p->n_actions; i++) {
        bool over = job->deleting || api_phase_terminal(job->phase) || job->n_problems ||
                    job->suspend || job->elsewhere;
        if (p->actions[i].verb == PLAN_CREATE && over) {
            abort();
        }
    }
}

/* A job of thousands takes long and teaches nothing new. */
static bool is_small(const struct api_job *job) {
    int64_t n = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        n += job->role[r].replicas;
    }
    return n <= 64;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOJSON json_t *in = NULL;
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    if (co_json_parse((const char *)data, size, &in, NULL)) {
        return 0;
    }
    json_t *obj = json_object_get(in, "job");
    if (!obj || api_job_decode(json_incref(obj), &job, NULL) || !is_small(job)) {
        return 0;
    }
    struct plan_settings settings = {
        .gate_image = "g", .gate_addr = "g:1", .server_grace = 30, .restart_backoff = 10};
    const char *word = co_json_str(in, "scheduling");
    settings.gang = plan_gang_find(word ? word : "");
    struct view v;
    view_init(&v, in);
    int64_t now = json_integer_value(json_object_get(in, "now")) % 4000000000;
    PLAN_AUTOPLAN struct plan p = {0};
    PLAN_AUTOPLAN struct plan q = {0};
    if (!plan_compute(job, &v.seen, now, &settings, &p, NULL) &&
        !plan_compute(job, &v.seen, now, &settings, &q, NULL)) {
        check(job, &p, &q);
    }
    (void)plan_gate_open(job, &v.seen, &settings, NULL);
    view_done(&v);
    return 0;
}
