/* What becomes of a job whose pods end in other ways than by an exit code, and where that is seen:
 * crash loops, disruptions, containers that webhooks add. */
#include "operator/plan/expect_testing.h"

#define TWO TK_ROLE("worker", 2)
#define LIMIT(n) ",'backoffLimit':" #n
#define RULES ",'failurePolicy':[{'action':'Fail','exitCodes':'3'}]"

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    return c;
}

static void set_of_pod(struct tk_cluster *c, const char *name, const char *key, json_t *value_own) {
    co_json_set(co_json_at(c->objects[TK_PODS], name, "spec"), key, value_own);
}

/* ---- containers that kubelet starts again --------------------------------------------------- */

/* At second n after the beginning of the test. */
#define LOOPS(now, n)                                                                              \
    "{'phase':'Running','podIP':'10.0.0.1','containerStatuses':[{'name':'main','restartCount':1,"  \
    "'ready':true,'state':{" now                                                                   \
    "},'lastState':{'terminated':{'exitCode':3,'reason':'Error','message':'no data',"              \
    "'finishedAt':'1970-01-12T13:46:" n "Z'}}}]}"
#define BACKS_OFF "'waiting':{'reason':'CrashLoopBackOff','message':'back-off 10s'}"
#define RUNS_AGAIN "'running':{}"
#define SAID "pod x-worker-0, container main: exit code 3 (Error): no data"

static void a_crash_loop_is_seen_and_reported_once(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    tk_pod_status(&c, "x-worker-0", LOOPS(RUNS_AGAIN, "40"));
    expect_status(&c, "phase", "Running");
    expect_status(&c, "reason", "ContainerRestarted");
    expect_status(&c, "message", SAID "; kubelet restarts it");
    expect_status(&c, "containerRestarts", "1");
    expect_events(&c, "!ContainerRestarted: " SAID "; kubelet restarts it");
    rest(&c);
    tk_pod_status(&c, "x-worker-0", LOOPS(BACKS_OFF, "42"));
    expect_status(&c, "phase", "Starting");
    expect_status(&c, "reason", "CrashLoopBackOff");
    expect_events(&c, "");
    rest(&c);
    tk_pod_status(&c, "x-worker-0", LOOPS(RUNS_AGAIN, "42"));
    expect_status(&c, "phase", "Running");
    expect_events(&c, "");
    rest(&c);
    /* It has recovered. */
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.wake_at, 1000002 + 600);
    c.now = 1000002 + 600;
    expect_status(&c, "reason", "");
    rest(&c);
    tk_pod_status(&c, "x-worker-0", LOOPS(BACKS_OFF, "59"));
    expect_events(&c, "!ContainerRestarted: " SAID "; kubelet restarts it");
    tk_done(&c);
}

/* It has never been Running, or not since the group's restart. */
static void a_job_that_runs_for_the_first_time_says_so_whatever_was_before(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO ",'intranet':'Service'"));
    rest(&c);
    tk_pod_status(&c, "x-worker-0", LOOPS(BACKS_OFF, "40"));
    tk_pod_status(&c, "x-worker-1", RUNS);
    rest(&c);
    tk_pod_status(&c, "x-worker-0", LOOPS(RUNS_AGAIN, "40"));
    expect_events(&c, "Running: all 2 pods are running");
    tk_done(&c);
}

/* The pods were made before the policy was set, or the container has a restartPolicy of its own;
 * sees every mix of what used to make a difference. */
static void a_container_that_is_started_again_is_a_failed_pod_for_the_policy(void **state) {
    (void)state;
    static const char *const shapes[] = {"", ",'intranet':'Service'", ",'intranet':'DNS'",
        ",'elastic':1", ",'elastic':1,'intranet':'Service'"};
    static const char *const policies[] = {"OnFailure", "Always"};
    static const char *const states[] = {LOOPS(RUNS_AGAIN, "40"), LOOPS(BACKS_OFF, "40")};
    static const struct {
        const char *policy, *phase, *reason, *restarts;
    } rows[] = {
        {LIMIT(0), "Failed", "BackoffLimitExceeded", "0"},
        {LIMIT(1), "Restarting", "PodFailed", "1"},
        {LIMIT(1) RULES, "Failed", "FailurePolicy", "0"},
        {RULES, "Failed", "FailurePolicy", "0"},
    };
    for (size_t i = 0; i < 5 * 2 * 2 * CO_ARRAY_LEN(rows); i++) {
        size_t row = i / 20;
        CO_AUTOFREE char *spec = co_xasprintf(TWO "%s%s", shapes[i % 5], rows[row].policy);
        struct tk_cluster c = running_cluster(spec);
        set_of_pod(&c, "x-worker-0", "restartPolicy", json_string(policies[i / 5 % 2]));
        tk_pod_status(&c, "x-worker-0", states[i / 10 % 2]);
        expect_status(&c, "phase", rows[row].phase);
        expect_status(&c, "reason", rows[row].reason);
        expect_status(&c, "restarts", rows[row].restarts);
        tk_done(&c);
    }
}

static void a_sidecar_that_is_started_again_is_no_failure(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(0));
    set_of_pod(
        &c, "x-worker-0", "initContainers", tk_json("[{'name':'s','restartPolicy':'Always'}]"));
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Running','podIP':'10.0.0.1','initContainerStatuses':[{'name':'s','ready':true,"
        "'restartCount':1,'state':{'running':{}},'lastState':{'terminated':{'exitCode':1}}}],"
        "'containerStatuses':[{'name':'main','ready':true,'state':{'running':{}}}]}");
    expect_status(&c, "phase", "Running");
    expect_status(&c, "containerRestarts", "1");
    tk_done(&c);
}

#define FAILS(code, why)                                                                           \
    "'state':{'terminated':{'exitCode':" code ",'reason':'" why                                    \
    "','finishedAt':'1970-01-12T13:46:40Z'}}"
#define FAILED_BEFORE                                                                              \
    "'restartCount':1,'lastState':{'terminated':{'exitCode':3,'reason':'Error',"                   \
    "'finishedAt':'1970-01-12T13:46:40Z'}}"
#define NATIVE                                                                                     \
    "{'initContainers':[{'name':'coord-paddle'},{'name':'s','restartPolicy':'Always'}],"           \
    "'containers':[{'name':'main'}]}"
#define BESIDE "{'containers':[{'name':'main'},{'name':'s'}]}"
#define OF_S "pod x-worker-0, container s: exit code "

/* The training's container has not started: its image is being pulled, or it waits for the sidecar.
 */
static const struct sidecar_row {
    const char *spec, *state, *reason, *event, *message;
} sidecar_rows[] = {
    {NATIVE, FAILS("3", "Error"), "CrashLoopBackOff", "ContainerRestarted",
        OF_S "3 (Error); kubelet restarts it"},
    {NATIVE, "'state':{" BACKS_OFF "}," FAILED_BEFORE, "CrashLoopBackOff", "ContainerRestarted",
        OF_S "3 (Error); kubelet restarts it"},
    {NATIVE, "'state':{" RUNS_AGAIN "}," FAILED_BEFORE, "ContainerRestarted", "ContainerRestarted",
        OF_S "3 (Error); kubelet restarts it"},
    {BESIDE, "'state':{" BACKS_OFF "}," FAILED_BEFORE, "CrashLoopBackOff", "ContainerRestarted",
        OF_S "3 (Error); kubelet restarts it"},
    {BESIDE, FAILS("3", "Error"), "ContainerFailed", "ContainerFailed", OF_S "3 (Error)"},
    {BESIDE, FAILS("137", "OOMKilled"), "OOMKilled", "ContainerFailed", OF_S "137 (OOMKilled)"},
    {BESIDE, FAILS("128", "StartError"), "StartError", "ContainerFailed", OF_S "128 (StartError)"},
};

static void a_sidecar_that_fails_before_the_training_is_named_once(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(sidecar_rows); i++) {
        const struct sidecar_row *row = &sidecar_rows[i];
        struct tk_cluster c;
        tk_init(&c, TK_JOB(TWO));
        rest(&c);
        tk_pod_status(&c, "x-worker-1", RUNS);
        rest(&c);
        CO_AUTOJSON json_t *spec = tk_json(row->spec);
        json_object_update(co_json_at(c.objects[TK_PODS], "x-worker-0", "spec"), spec);
        bool native = strcmp(row->spec, NATIVE) == 0;
        CO_AUTOFREE char *status = co_xasprintf(
            "{'phase':'Pending','podIP':'10.0.0.2','containerStatuses':[{'name':'main','state':{"
            "'waiting':{'reason':'PodInitializing'}}}%s{'name':'s',%s}%s{'name':'coord-paddle',"
            "'ready':true,'state':{'terminated':{'exitCode':0}}}]}",
            native ? "],'initContainerStatuses':[" : ",", row->state,
            native ? "," : "],'initContainerStatuses':[");
        CO_AUTOFREE char *event = co_xasprintf("!%s: %s", row->event, row->message);
        tk_pod_status(&c, "x-worker-0", status);
        expect_status(&c, "phase", "Starting");
        expect_status(&c, "reason", row->reason);
        expect_status(&c, "message", row->message);
        expect_events(&c, event);
        rest(&c);
        expect_events(&c, "");
        tk_done(&c);
    }
}

/* ---- jobs that have too little to run, or to end ----------------------------------------------
 */

#define SERVERS TK_ROLE("ps", 2)
#define ENDS_WITH_SERVERS ", so that nothing trains; the job ends only when all its servers have"
#define NAME_A_ROLE ", so that the job has no pods; name a role with replicas and a template"

static const struct lack_row {
    const char *spec, *reason, *message;
} lack_rows[] = {
    {"'cleanPodPolicy':''", "NoPods", "spec has no ps, worker or heter" NAME_A_ROLE},
    {"'suspend':false,'elastic':null", "NoPods", "spec has no ps, worker or heter" NAME_A_ROLE},
    {TK_ROLE("worker", 0), "NoPods", "spec.worker.replicas is 0" NAME_A_ROLE},
    {TK_ROLE("worker", 0) ",'elastic':1", "NoPods", "spec.worker.replicas is 0" NAME_A_ROLE},
    {TK_ROLE("heter", 0), "NoPods", "spec.heter.replicas is 0" NAME_A_ROLE},
    {TK_ROLE("ps", 0) "," TK_ROLE("worker", 0), "NoPods",
        "spec.ps.replicas is 0, spec.worker.replicas is 0" NAME_A_ROLE},
    {SERVERS, "NoTrainers", "spec has no worker or heter" ENDS_WITH_SERVERS},
    {SERVERS "," TK_ROLE("worker", 0), "NoTrainers", "spec.worker.replicas is 0" ENDS_WITH_SERVERS},
    {SERVERS "," TK_ROLE("worker", 0) ",'successPolicy':'Worker0'", "NoTrainers",
        "spec.worker.replicas is 0" ENDS_WITH_SERVERS},
    /* Who says that all pods must succeed means the servers. */
    {SERVERS ",'successPolicy':'AllPods'", "", ""},
    {SERVERS "," TK_ROLE("heter", 1), "", ""},
    {TK_ROLE("heter", 1), "", ""},
    {TK_ROLE("ps", 0) "," TK_ROLE("worker", 1), "", ""},
    {"'elastic':1,'worker':{'replicas':0,'requests':2," TK_TEMPLATE "}", "", ""},
};

static void a_job_that_cannot_run_or_end_says_what_is_missing(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(lack_rows); i++) {
        const struct lack_row *row = &lack_rows[i];
        struct tk_cluster c = running_cluster(row->spec);
        CO_AUTOFREE char *reason = status_text(&c, "reason");
        CO_AUTOFREE char *message = status_text(&c, "message");
        if (strcmp(reason, row->reason) != 0 || strcmp(message, row->message) != 0) {
            fail_msg("row %zu (%s): %s: %s", i, row->spec, reason, message);
        }
        expect_status(&c, "phase", "Running"); /* as upstream's */
        expect_events(&c, "");                 /* no more of them */
        tk_done(&c);
    }
}

static void a_job_without_pods_is_reported_once_and_runs_when_it_has_some(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 0)));
    expect_events(&c, "!NoPods: spec.worker.replicas is 0" NAME_A_ROLE);
    expect_condition(&c, "Running", "False NoPods spec.worker.replicas is 0" NAME_A_ROLE);
    expect_condition(&c, "Blocked", "True NoPods spec.worker.replicas is 0" NAME_A_ROLE);
    rest(&c);
    expect_events(&c, "");
    set_replicas(&c, "worker", 1);
    rest(&c);
    run_all(&c);
    expect_status(&c, "reason", "");
    expect_condition(&c, "Running", "True AllPodsRunning ");
    expect_condition(&c, "Blocked", "False Unblocked ");
    /* Scaled to nothing while it runs. */
    set_replicas(&c, "worker", 0);
    expect_events(&c, "!NoPods: spec.worker.replicas is 0" NAME_A_ROLE);
    tk_done(&c);
}

/* ---- pods that the cluster takes away ------------------------------------------------------- */

#define EVICTED                                                                                    \
    "{'phase':'Running','podIP':'10.0.0.2','conditions':[{'type':'DisruptionTarget','status':"     \
    "'True','reason':'EvictionByEvictionAPI','message':'Eviction API: evicting',"                  \
    "'lastTransitionTime':'1970-01-12T13:46:40Z'}],'containerStatuses':[{'name':'main',"           \
    "'ready':true,'state':{'running':{}}}]}"
#define TAKEN                                                                                      \
    "pod x-worker-1 is taken away by the cluster: EvictionByEvictionAPI: Eviction API: evicting"

static void mark_deleted(struct tk_cluster *c, const char *name) {
    json_t *meta = co_json_at(c->objects[TK_PODS], name, "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-12T13:47:10Z"));
    co_json_set(meta, "deletionGracePeriodSeconds", json_integer(30));
}

static void an_eviction_in_progress_is_seen_and_reported_once(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    tk_pod_status(&c, "x-worker-1", EVICTED);
    expect_status(&c, "phase", "Running");
    expect_status(&c, "reason", "PodDisrupted");
    expect_status(&c, "message", TAKEN);
    expect_events(&c, "!PodDisrupted: " TAKEN);
    rest(&c);
    mark_deleted(&c, "x-worker-1");
    expect_status(&c, "reason", "PodDisrupted");
    expect_events(&c, "");
    rest(&c);
    bury(&c);
    rest(&c);
    tk_done(&c);
}

static void a_disruption_restarts_the_group_under_its_own_name(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(0) RULES);
    tk_pod_status(&c, "x-worker-1", EVICTED);
    expect_status(&c, "phase", "Running"); /* it may still not come about */
    mark_deleted(&c, "x-worker-1");
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "reason", "PodDisrupted");
    expect_status(&c, "restarts", "0");
    expect_events(&c, "!Restarting: in 10 s: restart that is not counted: " TAKEN);
    tk_done(&c);
}

/* ---- containers of webhooks ----------------------------------------------------------------- */

#define BESIDE_PROXY(code)                                                                         \
    "{'phase':'Running','podIP':'10.0.0.1','containerStatuses':[{'name':'main','state':{"          \
    "'terminated':{'exitCode':" code ",'reason':'Error','finishedAt':'1970-01-12T13:46:40Z'}}},"   \
    "{'name':'proxy','ready':true,'state':{'running':{}}}]}"

static struct tk_cluster proxied(const char *spec, const char *status) {
    struct tk_cluster c = running_cluster(spec);
    static const char *const names[] = {"x-worker-0", "x-worker-1"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        set_of_pod(&c, names[i], "containers", tk_json("[{'name':'proxy'},{'name':'main'}]"));
        tk_pod_status(&c, names[i], status);
    }
    return c;
}

static void a_proxy_that_runs_on_keeps_no_job_from_its_end(void **state) {
    (void)state;
    struct tk_cluster c = proxied(TWO, BESIDE_PROXY("0"));
    expect_status(&c, "phase", "Completed");
    rest(&c);
    tk_done(&c);
    /* They are stopped, whatever cleanPodPolicy says: their proxies would run for ever. */
    c = proxied(TWO ",'cleanPodPolicy':'Never'", BESIDE_PROXY("0"));
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1");
    tk_done(&c);
    c = proxied(TWO, BESIDE_PROXY("7"));
    expect_status(&c, "phase", "Failed");
    expect_status(&c, "reason", "PodFailed");
    expect_condition(
        &c, "Failed", "True PodFailed pod x-worker-0, container main: exit code 7 (Error)");
    tk_done(&c);
    c = proxied(TWO LIMIT(1), BESIDE_PROXY("7"));
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "restarts", "1");
    tk_done(&c);
}

static void a_signal_has_its_name(void **state) {
    (void)state;
    static const struct {
        const char *code, *said;
    } rows[] = {{"137", "exit code 137 (SIGKILL)"}, {"143", "exit code 143 (SIGTERM)"},
        {"139", "exit code 139 (SIGSEGV)"}, {"15", "exit code 15 (Error)"},
        {"255", "exit code 255 (Error)"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(TWO);
        CO_AUTOFREE char *status = co_xasprintf(TK_FAILED("10.0.0.1", "%s", "t", ""), rows[i].code);
        CO_AUTOFREE char *said =
            co_xasprintf("True PodFailed pod x-worker-0, container main: %s", rows[i].said);
        tk_pod_status(&c, "x-worker-0", status);
        expect_condition(&c, "Failed", said);
        tk_done(&c);
    }
}

#define STOPPED(words)                                                                             \
    "{'phase':'Failed','podIP':'10.0.0.1','containerStatuses':[{'name':'main','state':{"           \
    "'terminated':{'exitCode':143,'reason':'Error','message':'" words                              \
    "','startedAt':'1970-01-12T13:46:00Z','finishedAt':'1970-01-12T13:46:40Z'}}}]}"

static void a_probe_that_may_have_ended_a_container_is_named(void **state) {
    (void)state;
    static const struct {
        const char *probes, *asked;
    } rows[] = {
        {"'livenessProbe':{}", "; has its livenessProbe failed?"},
        {"'startupProbe':{}", "; has its startupProbe failed?"},
        {"'livenessProbe':{},'startupProbe':{}", "; has its livenessProbe or startupProbe failed?"},
    };
    CO_AUTOFREE char *line = co_xasprintf("%0399d", 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(TWO);
        CO_AUTOFREE char *spec = co_xasprintf("[{'name':'main',%s}]", rows[i].probes);
        CO_AUTOFREE char *said =
            co_xasprintf("True PodFailed pod x-worker-0, container main: exit code 143 (SIGTERM)%s "
                         "kubectl events -n ns --for pod/x-worker-0",
                rows[i].asked);
        set_of_pod(&c, "x-worker-0", "containers", tk_json(spec));
        tk_pod_status(&c, "x-worker-0", STOPPED(""));
        expect_condition(&c, "Failed", said);
        tk_done(&c);
    }
    /* A long last line does not cut the command off. */
    struct tk_cluster c = running_cluster(TWO LIMIT(0));
    CO_AUTOFREE char *status = co_xasprintf(STOPPED("%s"), line);
    CO_AUTOFREE char *said = co_xasprintf(
        "True BackoffLimitExceeded after 0 restarts: pod x-worker-0, container main: exit code 143 "
        "(SIGTERM): %0200d; has its startupProbe failed? kubectl events -n ns --for "
        "pod/x-worker-0",
        0);
    set_of_pod(&c, "x-worker-0", "containers", tk_json("[{'name':'main','startupProbe':{}}]"));
    tk_pod_status(&c, "x-worker-0", status);
    expect_condition(&c, "Failed", said);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_cannot_run_or_end_says_what_is_missing),
        cmocka_unit_test(a_job_without_pods_is_reported_once_and_runs_when_it_has_some),
        cmocka_unit_test(a_crash_loop_is_seen_and_reported_once),
        cmocka_unit_test(a_job_that_runs_for_the_first_time_says_so_whatever_was_before),
        cmocka_unit_test(a_container_that_is_started_again_is_a_failed_pod_for_the_policy),
        cmocka_unit_test(a_sidecar_that_is_started_again_is_no_failure),
        cmocka_unit_test(a_sidecar_that_fails_before_the_training_is_named_once),
        cmocka_unit_test(an_eviction_in_progress_is_seen_and_reported_once),
        cmocka_unit_test(a_disruption_restarts_the_group_under_its_own_name),
        cmocka_unit_test(a_proxy_that_runs_on_keeps_no_job_from_its_end),
        cmocka_unit_test(a_signal_has_its_name),
        cmocka_unit_test(a_probe_that_may_have_ended_a_container_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
