/* Prints what the operator would create for a job, without a cluster: the planner's own bodies,
 * with the pods' names in place of addresses that only a cluster would know. */
#include <inttypes.h>
#include <stdio.h>

#include "common/loop.h"
#include "common/map.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/files.h"
#include "operator/plan/plan.h"

enum { PART = 4096 }; /* objects of a plan */

static void print_object(const json_t *obj) {
    CO_AUTOFREE char *text = json_dumps(obj, JSON_INDENT(2));
    (void)printf("---\n%s\n", text ? text : "null");
}

/* Fills in what an API server would have, of a job that is new: one that kubectl has printed may
 * have run. */
static void complete_job(json_t *obj) {
    json_t *meta = json_object_get(obj, "metadata");
    (void)json_object_del(obj, "status");
    (void)json_object_del(meta, "deletionTimestamp");
    if (!co_json_str(meta, "namespace")) {
        co_json_set(meta, "namespace", json_string("default"));
    }
    if (!co_json_str(meta, "uid")) {
        const char *name = co_json_str(meta, "name");
        char uid[40];
        (void)snprintf(uid, sizeof(uid), "00000000-0000-4000-8000-%012" PRIx64,
            co_hash_str(name ? name : "") & 0xffffffffffffUL);
        co_json_set(meta, "uid", json_string(uid));
    }
}

/* A pod as a cluster would show it once it has an address: its name. */
static struct api_pod *named_pod(const struct api_job *job, const json_t *body) {
    CO_AUTOJSON json_t *pod = json_deep_copy(body);
    json_t *meta = json_object_get(pod, "metadata");
    const char *name = co_json_str(meta, "name");
    co_json_set(meta, "uid", json_string(name));
    co_json_set(meta, "namespace", json_string(job->ns));
    co_json_set(pod, "status",
        json_pack("{s:s,s:s,s:[{s:s}]}", "phase", "Pending", "podIP", name, "podIPs", "ip", name));
    return (struct api_pod *)api_child_of_tree(api_pod_read, pod);
}

static struct api_service *named_service(const struct api_job *job, const json_t *body) {
    CO_AUTOJSON json_t *service = json_deep_copy(body);
    json_t *meta = json_object_get(service, "metadata");
    co_json_set(meta, "uid", json_string(co_json_str(meta, "name")));
    co_json_set(meta, "namespace", json_string(job->ns));
    return (struct api_service *)api_child_of_tree(api_service_read, service);
}

static void print_configmap(const struct api_job *job, const struct plan_settings *settings,
    const struct api_pod *const *pods, size_t n) {
    struct plan_seen seen = {.pods = pods, .n_pods = n};
    json_t *data = plan_env(job, &seen, settings);
    if (data) {
        CO_AUTOJSON json_t *map = json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s}},s:o}", "apiVersion", "v1",
            "kind", "ConfigMap", "metadata", "name", job->name, "namespace", job->ns, "labels",
            API_LABEL_NAME, job->name, "data", data);
        print_object(map);
    }
}

/* Without a token: that is made where the job is run. */
static void print_secret(const struct api_job *job) {
    CO_AUTOJSON json_t *secret = plan_secret(job);
    if (secret) {
        print_object(secret);
    }
}

/* What a cluster would hold so far.  All owned. */
struct rendered {
    struct api_pod **pods;
    struct api_service **services;
    size_t n_pods, n_services;
};

static void rendered_done(struct rendered *r) {
    for (size_t i = 0; i < r->n_pods; i++) {
        free(r->pods[i]);
    }
    for (size_t i = 0; i < r->n_services; i++) {
        free(r->services[i]);
    }
    free(r->pods);
    free(r->services);
}

/* Prints what the plan makes but for the ConfigMap, which waits for all pods; returns how many. */
static size_t print_created(
    const struct api_job *job, const struct plan *plan, struct rendered *r) {
    size_t n = 0;
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct plan_action *a = &plan->actions[i];
        if (a->verb != PLAN_CREATE || a->kind == PLAN_KIND_CONFIGMAP) {
            continue;
        }
        if (a->kind == PLAN_KIND_POD) {
            r->pods = co_xgrow(r->pods, r->n_pods, sizeof(r->pods[0]));
            r->pods[r->n_pods++] = named_pod(job, a->body);
        } else if (a->kind == PLAN_KIND_SERVICE) {
            r->services = co_xgrow(r->services, r->n_services, sizeof(r->services[0]));
            r->services[r->n_services++] = named_service(job, a->body);
        }
        print_object(a->body);
        n++;
    }
    return n;
}

/* In parts, as the operator makes them: the bodies of a hundred thousand pods take 500 MB. */
static int render_job(const struct api_job *job, struct co_err *err) {
    const struct plan_settings settings = {
        .server_grace = PLAN_SERVER_GRACE_DEFAULT, .restart_backoff = PLAN_RESTART_BACKOFF_DEFAULT};
    CO_CLEANUP(rendered_done) struct rendered done = {0};
    size_t n = 1;
    print_secret(job);
    while (n > 0) {
        PLAN_AUTOPLAN struct plan plan = {0};
        const struct plan_seen seen = {.pods = (const struct api_pod *const *)done.pods,
            .n_pods = done.n_pods,
            .services = (const struct api_service *const *)done.services,
            .n_services = done.n_services,
            .token = true, /* the Secret is printed first */
            .creates_max = PART};
        CO_TRY(plan_compute(job, &seen, co_wall_seconds(), &settings, &plan, err));
        n = print_created(job, &plan, &done);
    }
    print_configmap(job, &settings, (const struct api_pod *const *)done.pods, done.n_pods);
    return 0;
}

static int render_object(
    void *arg, const struct opc_position *at, json_t *obj, struct co_err *err) {
    size_t *jobs = arg;
    if (!opc_files_is_job(obj)) {
        print_object(obj); /* what stands beside a job goes along with it */
        return 0;
    }
    struct api_problem problem;
    if (api_job_validate(obj, true, &problem, 1)) {
        return co_err_set(err, CO_INVALID, "%s:%d: %s", at->file,
            opc_position_line(at, problem.path), problem.message);
    }
    ++*jobs;
    complete_job(obj);
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    CO_TRY(api_job_decode(json_incref(obj), &job, err));
    char text[API_LACK_MAX];
    if (api_job_lack(job, text, sizeof(text)) == API_LACK_PODS) {
        return co_err_set(
            err, CO_INVALID, "%s:%d: %s", at->file, opc_position_line(at, "spec"), text);
    }
    return render_job(job, err);
}

static const char usage[] = "paddle-operator render FILE|DIRECTORY|-...\n"
                            "\n"
                            "Prints the pods, Services, ConfigMap and Secret of each PaddleJob, "
                            "the pods' names standing for their addresses.\n"
                            "Run them here, without a cluster:\n"
                            "    paddle-operator render job.yaml | paddlerun local";

int opc_cmd_render(int argc, char *argv[]) {
    size_t jobs = 0;
    int code = opc_files_command(usage, argc, argv, render_object, &jobs);
    if (code < 0 && !jobs) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob found\n");
    }
    return code < 0 ? !jobs : code;
}
