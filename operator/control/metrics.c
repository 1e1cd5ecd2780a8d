#include "operator/control/metrics.h"

#include <stdio.h>
#include <string.h>

static const char *const results[] = {"success", "error", "requeue", NULL};
static const char *const verbs[] = {
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", NULL};
static const char *const codes[] = {"200", "201", "400", "401", "403", "404", "409", "410", "422",
    "429", "500", "503", "504", "other", "none", NULL};
static const char *const directions[] = {"sent", "received", NULL};
static const char *const actions[] = {"create pod", "create service", "create configmap",
    "delete pod", "delete service", "delete configmap", "patch job", "patch configmap", "other",
    NULL};
static const char *const ends[] = {"Completed", "Failed", NULL};
static const double seconds[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
static const double micro[] = {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .0025, .005, .01, .1};

#define CONTROLLER "controller=\"paddlejob\""

static const struct co_metric rows[OP_M_COUNT] = {
    [OP_M_RECONCILES] = {.name = "controller_runtime_reconcile_total",
        .help = "Looks at a job, by result",
        .label = "result",
        .label_values = results,
        .fixed = CONTROLLER},
    [OP_M_RECONCILE_ERRORS] = {.name = "controller_runtime_reconcile_errors_total",
        .help = "Looks at a job that ended with an error",
        .fixed = CONTROLLER},
    [OP_M_RECONCILE_SECONDS] = {.name = "controller_runtime_reconcile_time_seconds",
        .help = "Time of planning a job, requests not included",
        .type = CO_HISTOGRAM,
        .bounds = micro,
        .n_bounds = sizeof(micro) / sizeof(micro[0]),
        .fixed = CONTROLLER},
    [OP_M_ACTIONS] = {.name = "paddlejob_actions_total",
        .help = "Creates, deletes and patches that were sent",
        .label = "action",
        .label_values = actions},
    [OP_M_REQUESTS] = {.name = "rest_client_requests_total",
        .help = "Requests to the API server, by HTTP status; \"none\" when there was no answer",
        .label = "code",
        .label_values = codes},
    [OP_M_REQUEST_SECONDS] = {.name = "rest_client_request_duration_seconds",
        .help = "Time of a request from its start on the wire, watches not included",
        .type = CO_HISTOGRAM,
        .label = "verb",
        .label_values = verbs,
        .bounds = seconds,
        .n_bounds = sizeof(seconds) / sizeof(seconds[0])},
    [OP_M_REQUEST_BYTES] = {.name = "rest_client_body_bytes_total",
        .help = "Bytes of bodies of requests and answers",
        .label = "direction",
        .label_values = directions},
    [OP_M_WATCH_BREAKS] = {.name = "paddlejob_watch_errors_total",
        .help = "Watches or lists that broke off and went on"},
    [OP_M_JOBS] = {.name = "paddlejob_jobs", .help = "PaddleJobs that exist", .type = CO_GAUGE},
    [OP_M_PODS] = {.name = "paddlejob_pods", .help = "Pods of PaddleJobs", .type = CO_GAUGE},
    [OP_M_FINISHED] = {.name = "paddlejob_finished_total",
        .help = "Jobs that reached their end while this process led",
        .label = "phase",
        .label_values = ends},
    [OP_M_GATE_OPENED] = {.name = "paddlejob_gate_opened_total",
        .help = "Pods told to start their containers"},
    [OP_M_GATE_WAITING] = {.name = "paddlejob_gate_waiting",
        .help = "Pods waiting at the start gate",
        .type = CO_GAUGE},
    [OP_M_LEADER] = {.name = "leader_election_master_status",
        .help = "1 while this process leads",
        .type = CO_GAUGE,
        .fixed = "name=\"b2a304f2.paddlepaddle.org\""},
};

struct op_metrics *op_metrics_new(void) {
    struct op_metrics *m = co_xcalloc(1, sizeof(*m));
    memcpy(m->row, rows, sizeof(rows));
    return m;
}

void op_metrics_free(struct op_metrics *m) {
    if (m) {
        co_metrics_done(m->row, OP_M_COUNT);
        free(m);
    }
}

/* Index of a word, or that of the last one. */
static size_t index_of(const char *const *words, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return n - 1;
}

void op_metrics_sample(void *arg, const struct op_kube_sample *s) {
    struct op_metrics *m = arg;
    char code[16];
    (void)snprintf(code, sizeof(code), "%d", s->status);
    size_t i = s->status ? index_of(codes, CO_ARRAY_LEN(codes) - 2, code) : CO_ARRAY_LEN(codes) - 2;
    co_metric_add(&m->row[OP_M_REQUESTS], i, 1);
    if (s->verb != OP_KUBE_WATCH) {
        co_metric_observe(&m->row[OP_M_REQUEST_SECONDS], (size_t)s->verb, (double)s->ms / 1e3);
    }
    co_metric_add(&m->row[OP_M_REQUEST_BYTES], 0, (double)s->sent);
    co_metric_add(&m->row[OP_M_REQUEST_BYTES], 1, (double)s->received);
}

void op_metrics_action(struct op_metrics *m, const struct op_action *a) {
    static const char *const verb[] = {"create", "delete", "patch"};
    static const char *const kind[] = {"job", "pod", "service", "configmap"};
    char text[32];
    (void)snprintf(text, sizeof(text), "%s %s", verb[a->verb], kind[a->kind]);
    co_metric_add(&m->row[OP_M_ACTIONS], index_of(actions, CO_ARRAY_LEN(actions) - 1, text), 1);
}

void op_metrics_finished(struct op_metrics *m, enum op_phase phase) {
    co_metric_add(&m->row[OP_M_FINISHED], phase == OP_PHASE_FAILED, 1);
}

int op_metrics_render(const struct op_metrics *m, struct co_buf *ret, struct co_err *err) {
    int r = co_metrics_render(m->row, OP_M_COUNT, ret, err);
    return r ? r : co_metrics_process(ret, err);
}
