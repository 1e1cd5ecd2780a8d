/* Golden rows: phases, times, causes of failure, and how jobs end. */
#include "operator/plan/expect_testing.h"

struct phase_row {
    const char *spec, *stored;
    const char *pods[4]; /* ps 0, ps 1, worker 0, worker 1; NULL: not there */
    const char *phase;
};

#define WORKERS TK_ROLE("worker", 2)
static const struct phase_row phase_rows[] = {
    {TWO_TWO, "", {PENDING, PENDING, PENDING, PENDING}, "Pending"},
    {TWO_TWO, "", {RUNS, RUNS, GATED, PENDING}, "Starting"},
    {TWO_TWO, "", {RUNS, RUNS, UNREADY, RUNS}, "Starting"},
    {TWO_TWO, "Running", {RUNS, RUNS, UNREADY, RUNS}, "Starting"},
    {TWO_TWO, "Running", {RUNS, RUNS, PENDING, RUNS}, "Pending"},
    {TWO_TWO, "", {RUNS, RUNS, RUNS, RUNS}, "Running"},
    {TWO_TWO, "Running", {RUNS, RUNS, RUNS, DONE}, "Running"},
    {TWO_TWO, "", {RUNS, RUNS, RUNS, DONE}, "Running"},
    {TWO_TWO, "Running", {DONE, RUNS, RUNS, RUNS}, "Running"},
    {TWO_TWO, "Running", {RUNS, RUNS, LOST, RUNS}, "Running"},
    {TWO_TWO, "", {RUNS, RUNS, NULL, RUNS}, "Pending"},
    {TWO_TWO, "Running", {RUNS, RUNS, NULL, RUNS}, "Running"},
    {TWO_TWO, "Running", {RUNS, RUNS, DONE, DONE}, "Running"}, /* servers have their grace */
    {TWO_TWO, "Running", {DONE, DONE, DONE, DONE}, "Completed"},
    {TWO_TWO, "Running", {DONE, BROKEN, DONE, DONE}, "Completed"},
    {TWO_TWO, "Running", {RUNS, BROKEN, DONE, RUNS}, "Failed"},
    {TWO_TWO, "Running", {PENDING, RUNS, BROKEN, GATED}, "Failed"},
    {TWO_TWO, "Completed", {RUNS, RUNS, BROKEN, PENDING}, "Completed"},
    {TWO_TWO, "Failed", {RUNS, RUNS, RUNS, RUNS}, "Failed"},
    {TWO_TWO ",'successPolicy':'AllPods'", "Running", {RUNS, DONE, DONE, DONE}, "Running"},
    {TWO_TWO ",'successPolicy':'AllPods'", "Running", {DONE, DONE, DONE, DONE}, "Completed"},
    {TWO_TWO ",'successPolicy':'AllPods'", "Running", {BROKEN, DONE, DONE, DONE}, "Failed"},
    {TK_ROLE("ps", 2), "Running", {DONE, RUNS, NULL, NULL}, "Running"},
    {TK_ROLE("ps", 2), "Running", {DONE, DONE, NULL, NULL}, "Completed"},
    {WORKERS, "Running", {NULL, NULL, DONE, RUNS}, "Running"},
    {WORKERS, "", {NULL, NULL, DONE, DONE}, "Completed"},
    {WORKERS, "", {NULL, NULL, DONE, BROKEN}, "Failed"},
    {TK_ROLE("worker", 0), "", {NULL, NULL, NULL, NULL}, "Running"},
    {TK_ROLE("ps", 0) "," WORKERS, "", {NULL, NULL, RUNS, RUNS}, "Running"},
    {TK_ROLE("ps", 0) "," WORKERS, "", {NULL, NULL, DONE, DONE}, "Completed"},
    {"'cleanPodPolicy':''", "", {NULL, NULL, NULL, NULL}, "Running"},
    {"'elastic':1", "", {NULL, NULL, NULL, NULL}, "Pending"}, /* workers are missing */
    {"'worker':{'replicas':0}", "Running", {NULL, NULL, NULL, NULL}, "Running"},
    {TWO_TWO, "Scaling", {RUNS, RUNS, NULL, RUNS}, "Pending"},
};

static void phases_follow_the_pods(void **state) {
    (void)state;
    static const char *const names[] = {"x-ps-0", "x-ps-1", "x-worker-0", "x-worker-1"};
    for (size_t i = 0; i < CO_ARRAY_LEN(phase_rows); i++) {
        const struct phase_row *row = &phase_rows[i];
        struct tk_cluster c;
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), row->spec);
        tk_init(&c, job);
        (void)tk_pass(&c);
        for (size_t p = 0; p < CO_ARRAY_LEN(names); p++) {
            if (row->pods[p]) {
                tk_pod_status(&c, names[p], row->pods[p]);
            } else {
                json_object_del(c.objects[TK_PODS], names[p]);
            }
        }
        CO_AUTOFREE char *stored = co_xasprintf("{'phase':'%s'}", row->stored);
        co_json_set(c.job, "status", tk_json(stored));
        CO_AUTOFREE char *phase = status_text(&c, "phase");
        if (strcmp(phase, row->phase) != 0) {
            fail_msg("row %zu (%s): %s instead of %s", i, row->spec, phase, row->phase);
        }
        tk_done(&c);
    }
}

static void a_pod_of_an_unreachable_node_is_counted(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    expect_status(&c, "worker.unknown", "");
    tk_pod_status(&c, "x-worker-1", LOST);
    expect_status(&c, "worker.unknown", "1");
    expect_status(&c, "worker.running", "1");
    tk_done(&c);
}

static void times_are_set_when_the_phase_is_reached(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'cleanPodPolicy':'Never'"));
    rest(&c);
    expect_status(&c, "startTime", "");
    tk_pod_status(&c, "x-worker-0", RUNS);
    expect_events(&c, "Running: its pod is running");
    rest(&c);
    expect_status(&c, "startTime", "1970-01-12T13:46:40Z");
    expect_condition(&c, "Running", "True AllPodsRunning ");
    c.now += 60;
    tk_pod_status(&c, "x-worker-0", DONE);
    expect_events(&c, "Completed: job completed: all pods have succeeded");
    rest(&c);
    c.now += 60;
    expect_status(&c, "startTime", "1970-01-12T13:46:40Z");
    expect_status(&c, "completionTime", "1970-01-12T13:47:40Z");
    expect_condition(&c, "Running", "False Completed ");
    expect_condition(&c, "Succeeded", "True AllPodsSucceeded ");
    expect_condition(&c, "Failed", "absent");
    expect_events(&c, "");
    tk_done(&c);
}

static void a_failure_names_its_first_cause(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO ",'cleanPodPolicy':'OnFailure'"));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-ps-0", TK_FAILED("1.1.1.1", "1", "2026-01-01T00:00:09Z", "peer lost"));
    tk_pod_status(
        &c, "x-worker-1", TK_FAILED("1.1.1.1", "2", "2026-01-01T00:00:01Z", "log\\nno such file"));
    const char *message = "pod x-worker-1, container main: exit code 2 (Error): no such file";
    expect_status(&c, "phase", "Failed");
    expect_status(&c, "reason", "PodFailed");
    expect_status(&c, "message", message);
    CO_AUTOFREE char *condition = co_xasprintf("True PodFailed %s", message);
    expect_condition(&c, "Failed", condition);
    CO_AUTOFREE char *event = co_xasprintf("!Failed: job failed: %s", message);
    expect_events(&c, event);
    expect_actions(&c, "");
    rest(&c);
    expect_condition(&c, "Failed", condition);
    tk_done(&c);
}

static void an_oom_kill_and_an_eviction_are_reasons_of_their_own(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Failed','containerStatuses':[{'name':'main','state':{'terminated':{"
        "'exitCode':137,'reason':'OOMKilled'}}}]}");
    expect_status(&c, "reason", "OOMKilled");
    expect_status(&c, "message", "pod x-worker-0, container main: exit code 137 (OOMKilled)");
    tk_pod_status(
        &c, "x-worker-0", "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}");
    expect_status(&c, "reason", "Evicted");
    expect_status(&c, "message", "pod x-worker-0: Evicted: disk pressure");
    tk_pod_status(&c, "x-worker-0", "{'phase':'Failed'}");
    expect_status(&c, "message", "pod x-worker-0: failed");
    tk_done(&c);
}

static void the_deadline_of_a_pod_is_not_the_jobs(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    tk_pod_status(
        &c, "x-worker-0", "{'phase':'Failed','reason':'DeadlineExceeded','message':'too long'}");
    expect_status(&c, "reason", "PodFailed");
    expect_condition(&c, "Failed", "True PodFailed pod x-worker-0: DeadlineExceeded: too long");
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 2);
    tk_done(&c);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void servers_have_their_grace_and_are_stopped(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO ",'cleanPodPolicy':'Never'"));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    expect_events(&c, "Completing: all workers have succeeded; servers have 30 s to end");
    rest(&c);
    expect_status(&c, "phase", "Running");
    expect_condition(&c, "Completing",
        "True AllWorkersSucceeded all workers have succeeded, servers may still end");
    /* A worker's pod that is deleted now does not train again. */
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    c.now += 29;
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 0);
    assert_int_equal(plan.wake_at, c.now + 1);
    (void)tk_pass(&c);
    c.now += 1;
    expect_actions(&c, ""); /* first the end is stored */
    expect_status(&c, "phase", "Completed");
    expect_condition(&c, "Succeeded", "True AllWorkersSucceeded ");
    assert_true(tk_pass(&c));
    expect_actions(&c, "delete Pod x-ps-0; delete Pod x-ps-1");
    rest(&c);
    expect_condition(&c, "Completing", "False Completed ");
    tk_done(&c);
}

static void servers_that_end_by_themselves_end_the_job_at_once(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO ",'cleanPodPolicy':'Never'"));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    rest(&c);
    tk_pod_status(&c, "x-ps-0", DONE);
    expect_status(&c, "phase", "Running");
    tk_pod_status(&c, "x-ps-1", DONE);
    expect_status(&c, "phase", "Completed");
    rest(&c);
    expect_actions(&c, "");
    expect_status(&c, "readyPS", "2/2");
    tk_done(&c);
}

static void servers_without_workers_end_when_all_have_ended(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) ",'cleanPodPolicy':'Never'"));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-ps-0", DONE);
    expect_events(&c, "Completed: job completed: all pods have succeeded");
    rest(&c);
    expect_condition(&c, "Succeeded", "True AllPodsSucceeded ");
    tk_done(&c);
}

struct clean_row {
    const char *policy;
    bool on_completed, on_failed;
};

static const struct clean_row clean_rows[] = {
    {"", true, false},
    {"Always", true, true},
    {"Never", false, false},
    {"OnFailure", false, true},
    {"OnCompletion", true, false},
    {"Running", false, false},
    {"OnFailed", false, false},
};

static void the_clean_policy_decides_what_is_left(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(clean_rows) * 2; i++) {
        const struct clean_row *row = &clean_rows[i / 2];
        bool fails = i % 2;
        struct tk_cluster c;
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB(TK_ROLE("worker", 2) ",'intranet':'Service','cleanPodPolicy':'%s'"),
                row->policy);
        tk_init(&c, job);
        rest(&c);
        run_all(&c);
        tk_pod_status(&c, "x-worker-0", DONE);
        tk_pod_status(&c, "x-worker-1", fails ? BROKEN : DONE);
        assert_true(tk_pass(&c));
        bool clean = fails ? row->on_failed : row->on_completed;
        bool running = strcmp(row->policy, "Running") == 0; /* all have ended */
        expect_actions(&c, clean     ? "delete Pod x-worker-0; delete Pod x-worker-1; "
                                       "delete Service x-worker-0; delete Service x-worker-1"
                           : running ? "delete Service x-worker-0; delete Service x-worker-1"
                                     : "");
        rest(&c);
        /* Counts and references outlive the pods. */
        json_object_clear(c.objects[TK_PODS]);
        rest(&c);
        expect_actions(&c, "");
        json_t *status = json_object_get(c.job, "status");
        assert_int_equal(json_array_size(co_json_at(status, "worker", "refs")), 2);
        assert_int_equal(json_integer_value(co_json_at(status, "worker", "succeeded")), 2 - fails);
        assert_int_equal(json_integer_value(co_json_at(status, "worker", "failed")), fails);
        tk_done(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_follow_the_pods),
        cmocka_unit_test(a_pod_of_an_unreachable_node_is_counted),
        cmocka_unit_test(times_are_set_when_the_phase_is_reached),
        cmocka_unit_test(a_failure_names_its_first_cause),
        cmocka_unit_test(an_oom_kill_and_an_eviction_are_reasons_of_their_own),
        cmocka_unit_test(the_deadline_of_a_pod_is_not_the_jobs),
        cmocka_unit_test(servers_have_their_grace_and_are_stopped),
        cmocka_unit_test(servers_that_end_by_themselves_end_the_job_at_once),
        cmocka_unit_test(servers_without_workers_end_when_all_have_ended),
        cmocka_unit_test(the_clean_policy_decides_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
