/* The rows of the operator's metrics.  Names and help texts are printed to docs/metrics.md. */
#include "operator/control/operator_metrics.h"

#include <stdio.h>
#include <string.h>

static const char *const results[] = {"success", "error", "requeue", "requeue_after", NULL};
static const char *const verbs[] = {
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", NULL};
static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", NULL};
static const char *const codes[] = {"200", "201", "400", "401", "403", "404", "409", "410", "422",
    "429", "500", "503", "504", "other", "none", NULL};
static const char *const resources[] = {"paddlejobs", "paddlejobs/status", "pods", "services",
    "configmaps", "secrets", "events", "leases", "podgroups", "tokenreviews",
    "subjectaccessreviews", "other", NULL};
static const char *const feeds[] = {
    [CTL_STORE_JOBS] = "paddlejobs",
    [CTL_STORE_PODS] = "pods",
    [CTL_STORE_SERVICES] = "services",
    [CTL_STORE_CONFIGMAPS] = "configmaps",
    [CTL_STORE_PODGROUPS] = "podgroups",
    [CTL_STORE_KINDS] = NULL,
};
static const char *const directions[] = {"sent", "received", NULL};
static const char *const actions[] = {"create pod", "create service", "create configmap",
    "create podgroup", "create secret", "delete pod", "delete service", "delete configmap",
    "delete podgroup", "patch job", "patch configmap", "patch podgroup", "patch service", "other",
    NULL};
static const char *const stages[] = {
    [CTL_M_STAGE_PODS_CREATED] = "pods_created",
    [CTL_M_STAGE_SCHEDULED] = "scheduled",
    [CTL_M_STAGE_RUNNING] = "running",
    [CTL_M_STAGE_FINISHED] = "finished",
    [CTL_M_STAGES] = NULL,
};
static const char *const causes[] = {"restart", "other", NULL};
static const double seconds[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
static const double micro[] = {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .0025, .005, .01, .1};
/* Bounds that controller-runtime and client-go use as well, so that quantiles can be compared. */
static const double reconcile[] = {
    .005, .01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 20, 30, 60};
static const double client[] = {.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60};
static const double sizes[] = {
    64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
static const double queueing[] = {1e-5, 1e-4, .001, .01, .1, 1, 10};
/* From a job that starts without pulling an image to a training of weeks. */
static const double lifetime[] = {
    .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400};

#define CONTROLLER "controller=\"paddlejob\""
#define QUEUE CONTROLLER ",name=\"paddlejob\""
#define BOUNDS(array) .bounds = (array), .n_bounds = sizeof(array) / sizeof((array)[0])

static const struct co_metric rows[CTL_M_COUNT] = {
    /* The names that controller-runtime and client-go use: dashboards of earlier versions read
     * them. */
    [CTL_M_RECONCILES] = {"controller_runtime_reconcile_total", CO_COUNTER,
        .label = {{"result", results}}, .fixed = CONTROLLER,
        .help = "Reconciles that ended, by result"},
    [CTL_M_RECONCILE_ERRORS] = {"controller_runtime_reconcile_errors_total", CO_COUNTER,
        .fixed = CONTROLLER, .help = "Reconciles that ended with an error"},
    [CTL_M_RECONCILE_TERMINAL] = {"controller_runtime_terminal_reconcile_errors_total", CO_COUNTER,
        .fixed = CONTROLLER, .help = "Reconciles of a job that could not be planned at all"},
    [CTL_M_RECONCILE_SECONDS] = {"controller_runtime_reconcile_time_seconds", CO_HISTOGRAM,
        BOUNDS(reconcile), .fixed = CONTROLLER,
        .help = "Time of a reconcile, its requests included"},
    [CTL_M_WORKERS_MAX] = {"controller_runtime_max_concurrent_reconciles", CO_GAUGE,
        .fixed = CONTROLLER,
        .help = "Plans computed at the same time; their requests overlap without a bound"},
    [CTL_M_WORKERS] = {"controller_runtime_active_workers", CO_GAUGE, .fixed = CONTROLLER,
        .help = "Reconciles whose requests are in flight"},
    [CTL_M_QUEUE_DEPTH] = {"workqueue_depth", CO_GAUGE, .fixed = QUEUE,
        .help = "Jobs that wait for a reconcile"},
    [CTL_M_QUEUE_ADDS] = {"workqueue_adds_total", CO_COUNTER, .fixed = QUEUE,
        .help = "Jobs added to the queue"},
    [CTL_M_QUEUE_SECONDS] = {"workqueue_queue_duration_seconds", CO_HISTOGRAM, BOUNDS(queueing),
        .fixed = QUEUE, .help = "Time that a job waits for a reconcile"},
    [CTL_M_WORK_SECONDS] = {"workqueue_work_duration_seconds", CO_HISTOGRAM, BOUNDS(queueing),
        .fixed = QUEUE, .help = "The same as controller_runtime_reconcile_time_seconds"},
    [CTL_M_UNFINISHED_SECONDS] = {"workqueue_unfinished_work_seconds", CO_GAUGE, .fixed = QUEUE,
        .help = "Sum of the ages of reconciles that have not ended"},
    [CTL_M_LONGEST_SECONDS] = {"workqueue_longest_running_processor_seconds", CO_GAUGE,
        .fixed = QUEUE, .help = "Age of the oldest reconcile that has not ended"},
    [CTL_M_QUEUE_RETRIES] = {"workqueue_retries_total", CO_COUNTER, .fixed = QUEUE,
        .help = "Reconciles repeated because of an error or a conflict"},
    [CTL_M_REQUESTS] = {"rest_client_requests_total", CO_COUNTER,
        .label = {{"code", codes}, {"method", methods}}, .fixed = "host=\"…\"",
        .help = "Requests to the API server, by HTTP status; \"none\" when there was no answer"},
    [CTL_M_CLIENT_SECONDS] = {"rest_client_request_duration_seconds", CO_HISTOGRAM,
        .label = {{"verb", methods}}, BOUNDS(client), .fixed = "host=\"…\"",
        .help = "The same as paddlejob_api_request_duration_seconds, by method alone"},
    [CTL_M_CLIENT_SENT] = {"rest_client_request_size_bytes", CO_HISTOGRAM,
        .label = {{"verb", methods}}, BOUNDS(sizes), .fixed = "host=\"…\"",
        .help = "Size of a request's body, watches not included"},
    [CTL_M_CLIENT_RECEIVED] = {"rest_client_response_size_bytes", CO_HISTOGRAM,
        .label = {{"verb", methods}}, BOUNDS(sizes), .fixed = "host=\"…\"",
        .help = "Size of an answer's body, watches not included"},
    [CTL_M_LEADER] = {"leader_election_master_status", CO_GAUGE,
        .fixed = "name=\"b2a304f2.paddlepaddle.org\"", .help = "1 while this process leads"},
    [CTL_M_LEADER_SLOW] = {"leader_election_slowpath_total", CO_COUNTER,
        .fixed = "name=\"b2a304f2.paddlepaddle.org\"",
        .help = "Renewals whose write failed, so that the lease is read before the next"},
    /* Our own. */
    [CTL_M_REQUEST_SECONDS] = {"paddlejob_api_request_duration_seconds", CO_HISTOGRAM,
        .label = {{"verb", verbs}, {"resource", resources}, {"code", codes}}, BOUNDS(seconds),
        .help = "Time from the first byte of a request on the wire to the end of its answer, "
                "watches not included"},
    [CTL_M_REQUEST_BYTES] = {"paddlejob_api_body_bytes_total", CO_COUNTER,
        .label = {{"direction", directions}}, .help = "Bytes of bodies of requests and answers"},
    [CTL_M_WATCH_BREAKS] = {"paddlejob_watch_errors_total", CO_COUNTER,
        .label = {{"resource", feeds}},
        .help = "Watches or lists that ended early and were resumed"},
    [CTL_M_WATCH_LAG] = {"paddlejob_watch_lag_seconds", CO_HISTOGRAM,
        .label = {{"resource", feeds}}, BOUNDS(seconds),
        .help = "Time from the answer to a write of ours until the watch delivers it, 0 when the "
                "watch was first; one write at a time is measured"},
    [CTL_M_ACTIONS] = {"paddlejob_actions_total", CO_COUNTER, .label = {{"action", actions}},
        .help = "Creates, deletes and patches that were sent"},
    [CTL_M_PLAN_SECONDS] = {"paddlejob_plan_seconds", CO_HISTOGRAM, BOUNDS(micro),
        .help = "Processor time of decoding and planning a job"},
    [CTL_M_JOBS] = {"paddlejob_jobs", CO_GAUGE, .label = {{"phase", NULL}},
        .help = "PaddleJobs that exist, by the phase in their status"},
    [CTL_M_NOT_CACHED] = {"paddlejob_jobs_not_cached", CO_GAUGE,
        .help =
            "PaddleJobs that are not cached, as they are too large or too many, and are fetched "
            "for each reconcile"},
    [CTL_M_NOT_AT_HAND] = {"paddlejob_jobs_not_at_hand", CO_GAUGE,
        .help = "The old name of paddlejob_jobs_not_cached, for one release"},
    [CTL_M_PODS] = {"paddlejob_pods", CO_GAUGE, .help = "Pods of PaddleJobs"},
    [CTL_M_OLDEST_SECONDS] = {"paddlejob_oldest_waiting_seconds", CO_GAUGE,
        .help = "Age of the oldest job that has not ended and has never been Running"},
    [CTL_M_STATUS_WAITING] = {"paddlejob_status_waiting", CO_GAUGE,
        .help = "Jobs whose status write is delayed for a few seconds, as only counters changed"},
    [CTL_M_EVENTS_WAITING] = {"paddlejob_events_waiting", CO_GAUGE,
        .help = "Events that are not written yet: Normal events gather for five seconds, up to "
                "thirty while the API server is busy"},
    [CTL_M_PHASES] = {"paddlejob_phase_changes_total", CO_COUNTER, .label = {{"phase", NULL}},
        .help = "Phases written to the status of a job"},
    [CTL_M_STAGE_SECONDS] = {"paddlejob_stage_seconds", CO_HISTOGRAM, .label = {{"stage", stages}},
        BOUNDS(lifetime),
        .help = "Time of a stage of a job: from its creation until all pods are created, all are "
                "scheduled, all are running (these three are counted when it is Running for the "
                "first time), and from then to its end"},
    [CTL_M_INTERRUPTED_SECONDS] = {"paddlejob_interruption_seconds", CO_HISTOGRAM,
        .label = {{"cause", causes}}, BOUNDS(lifetime),
        .help = "Time from when a job leaves Running without an end until it is Running again; "
                "cause restart: the whole group restarts, other: it was scaled, or lost a pod"},
    [CTL_M_GATE_OPENED] = {"paddlejob_gate_opened_total", CO_COUNTER,
        .help = "Pods that may start their containers"},
    [CTL_M_GATE_WAITING] = {"paddlejob_gate_waiting", CO_GAUGE,
        .help = "Pods waiting at the start gate"},
};

struct ctl_metrics *ctl_metrics_new(void) {
    struct ctl_metrics *m = co_xcalloc(1, sizeof(*m));
    memcpy(m->row, rows, sizeof(rows));
    for (enum api_phase p = 0; p < API_PHASES; p++) {
        m->phases[p] = p == API_PHASE_NONE ? "None" : api_phase_name(p);
    }
    m->row[CTL_M_JOBS].label[0].values = m->row[CTL_M_PHASES].label[0].values = m->phases;
    co_metric_set(&m->row[CTL_M_WORKERS_MAX], 0, 1);
    return m;
}

void ctl_metrics_server(struct ctl_metrics *m, const char *url) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    /* Cut at characters that no host has and that a label's value would have to escape. */
    int n = (int)strcspn(host, "/\"\\\n");
    (void)snprintf(m->host, sizeof(m->host), "host=\"%.*s\"", n < 200 ? n : 200, host);
    static const enum ctl_metric hosted[] = {
        CTL_M_REQUESTS, CTL_M_CLIENT_SECONDS, CTL_M_CLIENT_SENT, CTL_M_CLIENT_RECEIVED};
    for (size_t i = 0; i < CO_ARRAY_LEN(hosted); i++) {
        m->row[hosted[i]].fixed = m->host;
    }
}

void ctl_metrics_free(struct ctl_metrics *m) {
    if (m) {
        co_metrics_done(m->row, CTL_M_COUNT);
        free(m);
    }
}

void ctl_metrics_lease(struct ctl_metrics *m, const char *name) {
    (void)snprintf(m->lease, sizeof(m->lease), "name=\"%s\"", name);
    m->row[CTL_M_LEADER].fixed = m->row[CTL_M_LEADER_SLOW].fixed = m->lease;
}

/* Index of a word; that of the last one ("other") if it is not in the list. */
static size_t index_of(const char *const *words, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return n - 1;
}

void ctl_metrics_sample(void *arg, const struct kube_sample *s) {
    struct ctl_metrics *m = arg;
    size_t method = index_of(methods, CO_ARRAY_LEN(methods) - 1, kube_verb_method(s->verb));
    char text[64];
    (void)snprintf(text, sizeof(text), "%d", s->status);
    size_t code =
        s->status ? index_of(codes, CO_ARRAY_LEN(codes) - 2, text) : CO_ARRAY_LEN(codes) - 2;
    struct co_metric *total = &m->row[CTL_M_REQUESTS];
    co_metric_add(total, co_metric_series(total, (size_t[CO_METRIC_LABELS]){code, method}), 1);
    if (s->verb != KUBE_WATCH) {
        (void)snprintf(text, sizeof(text), "%s%s%s", s->resource, s->subresource ? "/" : "",
            s->subresource ? s->subresource : "");
        size_t resource = index_of(resources, CO_ARRAY_LEN(resources) - 1, text);
        struct co_metric *took = &m->row[CTL_M_REQUEST_SECONDS];
        size_t verb = index_of(verbs, CO_ARRAY_LEN(verbs) - 1, kube_verb_name(s->verb));
        size_t series =
            co_metric_series(took, (const size_t[CO_METRIC_LABELS]){verb, resource, code});
        co_metric_observe(took, series, (double)s->ms / 1e3);
        co_metric_observe(&m->row[CTL_M_CLIENT_SECONDS], method, (double)s->ms / 1e3);
        co_metric_observe(&m->row[CTL_M_CLIENT_SENT], method, (double)s->sent);
        co_metric_observe(&m->row[CTL_M_CLIENT_RECEIVED], method, (double)s->received);
    }
    co_metric_add(&m->row[CTL_M_REQUEST_BYTES], 0, (double)s->sent);
    co_metric_add(&m->row[CTL_M_REQUEST_BYTES], 1, (double)s->received);
}

void ctl_metrics_action(struct ctl_metrics *m, const struct plan_action *a) {
    static const char *const verb[] = {
        [PLAN_CREATE] = "create", [PLAN_DELETE] = "delete", [PLAN_PATCH] = "patch"};
    static const char *const kind[PLAN_KINDS] = {[PLAN_KIND_JOB] = "job",
        [PLAN_KIND_POD] = "pod",
        [PLAN_KIND_SERVICE] = "service",
        [PLAN_KIND_CONFIGMAP] = "configmap",
        [PLAN_KIND_PODGROUP] = "podgroup",
        [PLAN_KIND_SECRET] = "secret"};
    char text[32];
    (void)snprintf(text, sizeof(text), "%s %s", verb[a->verb], kind[a->kind]);
    co_metric_add(&m->row[CTL_M_ACTIONS], index_of(actions, CO_ARRAY_LEN(actions) - 1, text), 1);
}

void ctl_metrics_reconciled(struct ctl_metrics *m, size_t result, int64_t ms) {
    co_metric_observe(&m->row[CTL_M_RECONCILE_SECONDS], 0, (double)ms / 1e3);
    co_metric_observe(&m->row[CTL_M_WORK_SECONDS], 0, (double)ms / 1e3);
    co_metric_add(&m->row[CTL_M_RECONCILES], result, 1);
    co_metric_add(&m->row[CTL_M_RECONCILE_ERRORS], 0, result == CTL_M_ERROR);
    co_metric_add(
        &m->row[CTL_M_QUEUE_RETRIES], 0, result == CTL_M_ERROR || result == CTL_M_REQUEUE);
}

void ctl_metrics_stage(struct ctl_metrics *m, enum ctl_metric_stage stage, int64_t ms) {
    co_metric_observe(&m->row[CTL_M_STAGE_SECONDS], stage, ms > 0 ? (double)ms / 1e3 : 0);
}

int ctl_metrics_render(const struct ctl_metrics *m, struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_metrics_render(m->row, CTL_M_COUNT, ret, err));
    return co_metrics_process(ret, err);
}
