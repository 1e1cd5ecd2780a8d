/* Golden rows of the run policy: restarts, what failures mean, suspension, deadline, time to live.
 */
#include "operator/plan/expect_testing.h"

#define ONE TK_ROLE("worker", 1)
#define TWO TK_ROLE("worker", 2)
#define LIMIT(n) ",'backoffLimit':" #n

#define NO_DATA "pod x-worker-0, container main: exit code 3 (Error): no data"

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    return c;
}

static int64_t wakes_at(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    return plan.wake_at;
}

static void expect_attempts(struct tk_cluster *c, const char *attempt) {
    const char *name;
    json_t *pod;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        const char *label = co_json_str(pod, "metadata", "labels", API_LABEL_ATTEMPT);
        assert_string_equal(label ? label : "0", attempt);
    }
}

/* ---- a restart is one plan ------------------------------------------------------------------ */

static void a_group_is_restarted_as_a_whole(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(2));
    tk_pod_status(&c, "x-worker-0", BROKEN);
    /* Stored first: nothing else happens in the same plan. */
    expect_actions(&c, "");
    expect_events(&c, "!Restarting: in 10 s: restart 1 of 2: " NO_DATA);
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "reason", "PodFailed");
    expect_status(&c, "attempt", "1");
    expect_status(&c, "restarts", "1");
    expect_status(&c, "backoffSeconds", "10");
    expect_condition(&c, "Created", "False PodFailed restart 1 of 2: " NO_DATA);
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1; delete ConfigMap x");
    assert_int_equal(wakes_at(&c), c.now + 10);
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_actions(&c, ""); /* its time has not come */
    c.now += 10;
    /* The other name is not free yet. */
    expect_actions(&c, "create Pod x-worker-1");
    rest(&c);
    bury(&c);
    expect_actions(&c, "create Pod x-worker-0");
    expect_condition(&c, "Restarting", "True PodFailed restart 1 of 2: " NO_DATA);
    expect_status(&c, "message", "restart 1 of 2: " NO_DATA);
    rest(&c);
    expect_attempts(&c, "1");
    expect_status(&c, "phase", "Restarting");
    run_all(&c);
    expect_status(&c, "phase", "Running");
    expect_status(&c, "reason", "");
    expect_condition(&c, "Restarting", "False PodFailed restart 1 of 2: " NO_DATA);
    const json_t *cm = json_object_get(c.objects[TK_CONFIGMAPS], "x");
    assert_string_equal(co_json_str(cm, "metadata", "labels", API_LABEL_ATTEMPT), "1");
    tk_done(&c);
}

static void no_pod_of_a_new_attempt_starts_on_old_addresses(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(2));
    c.settings.restart_backoff = 0;
    tk_pod_status(&c, "x-worker-0", BROKEN);
    (void)tk_pass(&c);
    (void)tk_pass(&c);
    bury(&c);
    const char *why = NULL;
    rest(&c);
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(why, "addresses");
    assert_null(json_object_get(c.objects[TK_CONFIGMAPS], "x"));
    tk_pod_status(&c, "x-worker-0", "{'phase':'Pending','podIP':'10.0.0.1'}");
    tk_pod_status(&c, "x-worker-1", "{'phase':'Pending','podIP':'10.0.0.2'}");
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(why, "the ConfigMap");
    expect_actions(&c, "create ConfigMap x");
    rest(&c);
    tk_look(&c);
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    tk_done(&c);
}

static void fail_attempt(struct tk_cluster *c) {
    tk_pod_status(c, "x-worker-0", BROKEN);
    rest(c);
    bury(c);
}

static void start_attempt(struct tk_cluster *c) {
    c->now += 400;
    rest(c);
    run_all(c);
}

static void the_backoff_doubles_and_restarts_after_a_healthy_period(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE LIMIT(20));
    static const char *const seconds[] = {"10", "20", "40", "80", "160", "320", "360", "360"};
    for (size_t i = 0; i < CO_ARRAY_LEN(seconds); i++) {
        fail_attempt(&c);
        expect_status(&c, "backoffSeconds", seconds[i]);
        start_attempt(&c);
    }
    c.now += 599;
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_status(&c, "backoffSeconds", "360");
    c.now += 1;
    expect_status(&c, "backoffSeconds", "10");
    expect_status(&c, "restarts", "9"); /* the budget is for all of the job's life */
    tk_done(&c);
}

static void a_spent_budget_fails_the_job_and_stops_what_runs(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(1) ",'cleanPodPolicy':'Never'");
    fail_attempt(&c);
    start_attempt(&c);
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_status(&c, "phase", "Failed");
    expect_status(&c, "reason", "BackoffLimitExceeded");
    expect_status(&c, "message", "after 1 restart: " NO_DATA);
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-1"); /* the failed one has logs */
    rest(&c);
    expect_status(&c, "attempt", "1");
    tk_done(&c);
}

static void a_clock_that_is_set_back_holds_no_restart(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE LIMIT(1));
    fail_attempt(&c);
    c.now -= 100000;
    expect_actions(&c, "create Pod x-worker-0");
    tk_done(&c);
}

static void old_pods_that_do_not_end_are_named(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE LIMIT(1));
    tk_pod_status(&c, "x-worker-0", BROKEN);
    rest(&c);
    c.now += 10;
    assert_int_equal(wakes_at(&c), c.now + 60);
    expect_status(&c, "reason", "PodFailed");
    c.now += 60;
    expect_status(&c, "reason", "WaitingForOldPods");
    expect_status(&c, "message",
        "pod x-worker-0 should have ended over 60 s ago, and its successor waits: its containers "
        "have ended: does a finalizer keep it?; kubectl get pod x-worker-0 -n ns -o "
        "jsonpath={.metadata.finalizers}");
    expect_actions(&c, "");
    tk_done(&c);
}

static void a_lost_status_does_not_end_an_attempt(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE LIMIT(3));
    fail_attempt(&c);
    start_attempt(&c);
    json_object_del(c.job, "status");
    expect_actions(&c, "");
    expect_status(&c, "attempt", "1");
    rest(&c);
    expect_actions(&c, "");
    expect_status(&c, "phase", "Running");
    tk_done(&c);
}

/* ---- what a failure means ------------------------------------------------------------------- */

#define CODE(code) TK_FAILED("10.0.0.1", code, "2026-01-01T00:00:01Z", "no data")
#define EVICTED "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}"
#define DISRUPTED                                                                                  \
    "{'phase':'Failed','conditions':[{'type':'DisruptionTarget','status':'True','reason':"         \
    "'PreemptionByScheduler'}],'containerStatuses':[{'name':'main','state':{'terminated':{"        \
    "'exitCode':137,'reason':'Error'}}}]}"
#define OOM                                                                                        \
    "{'phase':'Failed','containerStatuses':[{'name':'main','state':{'terminated':{"                \
    "'exitCode':137,'reason':'OOMKilled'}}}]}"
#define OVERFILLED                                                                                 \
    "{'phase':'Failed','reason':'Evicted','message':'Usage of EmptyDir volume s exceeds the "      \
    "limit 1Mi'}"
#define NOT_STARTED(list, name, why)                                                               \
    "{'phase':'Failed','podIP':'10.0.0.1','" list "':[{'name':'" name "','state':{'terminated':{"  \
    "'exitCode':128,'reason':'StartError','finishedAt':'2026-01-01T00:00:01Z','message':'" why     \
    "'}}}]}"
#define SHIM_LATE "failed to create shim task: context deadline exceeded: unknown"
#define GATE_LATE NOT_STARTED("initContainerStatuses", "coord-paddle", SHIM_LATE)
#define MAIN_LATE NOT_STARTED("containerStatuses", "main", SHIM_LATE)
#define NO_COMMAND                                                                                 \
    NOT_STARTED("containerStatuses", "main",                                                       \
        "unable to start container process: exec: \\'x\\': executable file not found")
#define RULES(rules) ",'failurePolicy':[" rules "]"
#define RULE(action, rest) "{'action':'" action "'" rest "}"

static const struct {
    const char *policy, *failure;
    const char *phase, *reason, *restarts;
} meanings[] = {
    {"", CODE("3"), "Failed", "PodFailed", "0"},
    {"", EVICTED, "Failed", "Evicted", "0"},
    {LIMIT(0), CODE("3"), "Failed", "BackoffLimitExceeded", "0"},
    {LIMIT(1), CODE("3"), "Restarting", "PodFailed", "1"},
    {LIMIT(1), OOM, "Restarting", "OOMKilled", "1"},
    {LIMIT(0), EVICTED, "Restarting", "Evicted", "0"},
    {LIMIT(0), DISRUPTED, "Restarting", "PreemptionByScheduler", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'exitCodes':'1-255'")), DISRUPTED, "Restarting",
        "PreemptionByScheduler", "0"},
    {LIMIT(1) RULES(RULE("Fail", "")), DISRUPTED, "Restarting", "PreemptionByScheduler", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'reasons':['PreemptionByScheduler']")), DISRUPTED, "Failed",
        "FailurePolicy", "0"},
    {"", GATE_LATE, "Restarting", "StartError", "0"},
    {"", MAIN_LATE, "Restarting", "StartError", "0"},
    {LIMIT(0), GATE_LATE, "Restarting", "StartError", "0"},
    {LIMIT(0) RULES(RULE("Fail", ",'exitCodes':'1-255'")), MAIN_LATE, "Restarting", "StartError",
        "0"},
    {LIMIT(0) RULES(RULE("Fail", ",'reasons':['StartError']")), GATE_LATE, "Failed",
        "FailurePolicy", "0"},
    {"", NO_COMMAND, "Failed", "StartError", "0"},
    {LIMIT(0), NO_COMMAND, "Failed", "BackoffLimitExceeded", "0"},
    {LIMIT(1), OVERFILLED, "Restarting", "Evicted", "1"},
    {LIMIT(0), OVERFILLED, "Failed", "BackoffLimitExceeded", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'exitCodes':'3'")), CODE("3"), "Failed", "FailurePolicy", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'exitCodes':'1-2,4'")), CODE("3"), "Restarting", "PodFailed",
        "1"},
    {LIMIT(1) RULES(RULE("Ignore", ",'exitCodes':'1-127'")), CODE("3"), "Restarting", "PodFailed",
        "0"},
    {LIMIT(1) RULES(RULE("Restart", "") "," RULE("Fail", "")), CODE("3"), "Restarting", "PodFailed",
        "1"},
    {LIMIT(1) RULES(RULE("Fail", ",'role':'ps'")), CODE("3"), "Restarting", "PodFailed", "1"},
    {LIMIT(1) RULES(RULE("Fail", ",'role':'worker'")), CODE("3"), "Failed", "FailurePolicy", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'reasons':['OOMKilled']")), OOM, "Failed", "FailurePolicy", "0"},
    {LIMIT(1) RULES(RULE("Fail", ",'reasons':['OOMKilled']")), CODE("137"), "Restarting",
        "PodFailed", "1"},
    {LIMIT(1) RULES(RULE("Fail", ",'exitCodes':'0-255'")), EVICTED, "Restarting", "Evicted", "0"},
    {LIMIT(1) RULES(RULE("Restart", ",'reasons':['Evicted']")), EVICTED, "Restarting", "Evicted",
        "1"},
    {RULES(RULE("Ignore", ",'exitCodes':'3'")), CODE("3"), "Restarting", "PodFailed", "0"},
    {RULES(RULE("Ignore", ",'exitCodes':'4'")), CODE("3"), "Failed", "BackoffLimitExceeded", "0"},
};

static void failures_give_the_phase_and_reason_of_their_policy(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(meanings); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(TWO "%s", meanings[i].policy);
        struct tk_cluster c = running_cluster(spec);
        tk_pod_status(&c, "x-worker-0", meanings[i].failure);
        CO_AUTOFREE char *phase = status_text(&c, "phase");
        CO_AUTOFREE char *reason = status_text(&c, "reason");
        CO_AUTOFREE char *restarts = status_text(&c, "restarts");
        if (strcmp(phase, meanings[i].phase) != 0 || strcmp(reason, meanings[i].reason) != 0 ||
            strcmp(restarts, meanings[i].restarts) != 0) {
            fail_msg("row %zu: %s, %s, %s", i, phase, reason, restarts);
        }
        tk_done(&c);
    }
}

#define GATE_UNSTARTED                                                                             \
    "pod x-worker-0, container coord-paddle: its node could not start it (StartError): " SHIM_LATE

/* With and without a policy.  After 600 s of Running the tries begin again. */
/* Pods of a job without a policy are marked for Kueue as not to be replaced. */
static void a_queued_job_without_a_policy_is_not_restarted(void **state) {
    (void)state;
    static const struct {
        const char *policy, *phase;
    } rows[] = {{"", "Failed"}, {LIMIT(0), "Restarting"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB(TWO "%s"), rows[i].policy);
        struct tk_cluster c;
        tk_init(&c, job);
        json_t *meta = json_object_get(c.job, "metadata");
        (void)json_object_set_new(meta, "labels", tk_json("{'kueue.x-k8s.io/queue-name':'q'}"));
        rest(&c);
        run_all(&c);
        tk_pod_status(&c, "x-worker-0", GATE_LATE);
        expect_status(&c, "phase", rows[i].phase);
        tk_done(&c);
    }
}

static void a_container_that_no_node_starts_fails_the_job_after_three_restarts(void **state) {
    (void)state;
    static const struct {
        const char *policy, *reason, *before;
    } rows[] = {
        {"", "StartError", ""},
        {LIMIT(0), "BackoffLimitExceeded", "after 0 restarts: "},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(TWO "%s", rows[i].policy);
        struct tk_cluster c = running_cluster(spec);
        for (int attempt = 0, wait = 10; attempt < 6; attempt++, wait *= 2) {
            wait = attempt == 3 ? 10 : wait;
            c.now += attempt == 3 ? 600 : 1;
            tk_pod_status(&c, "x-worker-0", GATE_LATE);
            CO_AUTOFREE char *event = co_xasprintf(
                "!Restarting: in %d s: restart that is not counted: " GATE_UNSTARTED, wait);
            expect_events(&c, event);
            expect_status(&c, "phase", "Restarting");
            rest(&c);
            bury(&c);
            c.now += wait;
            rest(&c);
            run_all(&c);
            expect_status(&c, "phase", "Running");
            expect_status(&c, "restarts", "0");
        }
        tk_pod_status(&c, "x-worker-0", GATE_LATE);
        CO_AUTOFREE char *failed =
            co_xasprintf("True %s %s" GATE_UNSTARTED, rows[i].reason, rows[i].before);
        expect_status(&c, "phase", "Failed");
        expect_condition(&c, "Failed", failed);
        tk_done(&c);
    }
}

/* What kubelet 1.35 says of a pod whose template restarts its containers in place (KEP-5532): the
 * container that asked for it has ended, all are gone, the gate runs again, all run. */
static void containers_that_restart_in_place_restart_no_group(void **state) {
    (void)state;
#define INIT(state) "'initContainerStatuses':[{'name':'coord-paddle'," state "}],"
#define MAIN(state) "'containerStatuses':[{'name':'main'," state "}]}"
#define GONE(code)                                                                                 \
    "'restartCount':1,'state':{'waiting':{'reason':'RestartingAllContainers'}},'lastState':{"      \
    "'terminated':{'exitCode':" code ",'reason':'RestartingAllContainers'}}"
#define STATUS(phase) "{'phase':'" phase "','podIP':'10.0.0.1',"
    static const struct {
        const char *status, *phase, *reason, *container_restarts;
    } rows[] = {
        {STATUS("Running") INIT("'ready':true,'state':{'terminated':{'exitCode':0}}")
                MAIN("'state':{'terminated':{'exitCode':42,'reason':'Error','finishedAt':'t'}}"),
            "Starting", "ContainerFailed", ""},
        {STATUS("Running") INIT(GONE("137")) MAIN(GONE("137")), "Starting",
            "RestartingAllContainers", "2"},
        {STATUS("Pending") INIT("'restartCount':1,'state':{'running':{}}") MAIN(GONE("137")),
            "Starting", "RestartingAllContainers", "2"},
        {STATUS("Running") INIT("'restartCount':1,'ready':true,'state':{'terminated':{'exitCode':0}"
                                "}") MAIN("'restartCount':1,'ready':true,'state':{'running':{}}"),
            "Running", "", "2"},
    };
    struct tk_cluster c = running_cluster(TWO LIMIT(1));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        tk_pod_status(&c, "x-worker-0", rows[i].status);
        expect_actions(&c, "");
        expect_status(&c, "phase", rows[i].phase);
        expect_status(&c, "reason", rows[i].reason);
        expect_status(&c, "containerRestarts", rows[i].container_restarts);
        expect_status(&c, "restarts", "0");
        rest(&c);
    }
    tk_done(&c);
}

/* ---- pods that are taken away --------------------------------------------------------------- */

static void mark_deleted(struct tk_cluster *c, const char *name) {
    json_t *pod = json_object_get(c->objects[TK_PODS], name);
    co_json_set(json_object_get(pod, "metadata"), "deletionTimestamp", json_string("t"));
}

static void a_pod_that_is_deleted_while_others_run_restarts_the_group(void **state) {
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        struct tk_cluster c = running_cluster(TWO LIMIT(0));
        mark_deleted(&c, "x-worker-1");
        if (gone) {
            bury(&c);
        }
        expect_status(&c, "phase", "Restarting");
        expect_status(&c, "restarts", "0");
        expect_status(&c, "message", "restart that is not counted: pod x-worker-1 was deleted");
        (void)tk_pass(&c);
        expect_actions(&c, "delete Pod x-worker-0; delete ConfigMap x");
        rest(&c);
        bury(&c);
        c.now += 10;
        expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
        rest(&c);
        /* Nothing of the new group runs yet: a pod is recreated alone. */
        json_object_del(c.objects[TK_PODS], "x-worker-1");
        expect_actions(&c, "create Pod x-worker-1");
        expect_status(&c, "attempt", "1");
        tk_done(&c);
    }
}

/* The edit is no reason to recreate it beside peers that have its old address. */
static void a_pod_that_is_lost_as_its_job_is_edited_restarts_the_group(void **state) {
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        struct tk_cluster c = running_cluster(TWO LIMIT(0));
        json_object_del(c.objects[TK_PODS], "x-worker-1");
        if (scaled) {
            set_replicas(&c, "worker", 3);
        } else {
            set_spec(&c, "ttlSecondsAfterFinished", json_integer(60));
        }
        expect_status(&c, "phase", "Restarting");
        expect_status(&c, "message", "restart that is not counted: pod x-worker-1 was deleted");
        tk_done(&c);
    }
}

#define EVICTED_AT(t)                                                                              \
    "{'phase':'Failed','reason':'Evicted','containerStatuses':[{'name':'main','state':{"           \
    "'terminated':{'exitCode':137,'finishedAt':'" t "'}}}]}"

/* Both seen at once, as after a change of the leader: worker 0 has failed for want of worker 1. */
static void a_pod_that_fails_because_a_peer_is_lost_does_not_fail_the_job(void **state) {
    (void)state;
    static const struct {
        const char *policy, *other; /* NULL: gone; "": going */
        const char *phase, *reason;
    } rows[] = {
        {LIMIT(0), NULL, "Restarting", "PodDeleted"},
        {LIMIT(0), "", "Restarting", "PodDeleted"},
        {LIMIT(0), EVICTED, "Restarting", "Evicted"},
        {LIMIT(0), EVICTED_AT("2026-01-01T00:00:01Z"), "Restarting", "Evicted"},
        {LIMIT(0), EVICTED_AT("2026-01-01T00:00:02Z"), "Failed", "BackoffLimitExceeded"},
        {LIMIT(0) RULES(RULE("Fail", ",'exitCodes':'3'")), "", "Failed", "FailurePolicy"},
        {"", "", "Failed", "PodFailed"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(TWO "%s", rows[i].policy);
        struct tk_cluster c = running_cluster(spec);
        tk_pod_status(&c, "x-worker-0", BROKEN);
        if (!rows[i].other) {
            json_object_del(c.objects[TK_PODS], "x-worker-1");
        } else if (!*rows[i].other) {
            mark_deleted(&c, "x-worker-1");
        } else {
            tk_pod_status(&c, "x-worker-1", rows[i].other);
        }
        CO_AUTOFREE char *phase = status_text(&c, "phase");
        CO_AUTOFREE char *reason = status_text(&c, "reason");
        if (strcmp(phase, rows[i].phase) != 0 || strcmp(reason, rows[i].reason) != 0) {
            fail_msg("row %zu: %s, %s", i, phase, reason);
        }
        expect_status(&c, "restarts", "0");
        tk_done(&c);
    }
}

/* A pod that was deleted on purpose is not lost, wanted again or not. */
static void a_terminating_pod_that_is_wanted_again_is_recreated(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TK_ROLE("ps", 1) "," TK_ROLE("worker", 3) LIMIT(3));
    tk_pod_status(&c, "x-worker-0", DONE);
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    rest(&c);
    set_replicas(&c, "worker", 2);
    rest(&c);
    set_replicas(&c, "worker", 3);
    expect_status(&c, "phase", "Running");
    rest(&c);
    expect_status(&c, "attempt", "");
    co_json_set(co_json_at(c.objects[TK_PODS], "x-worker-2", "metadata"), "deletionTimestamp",
        json_string("1970-01-12T13:45:40Z"));
    expect_status(&c, "reason", "WaitingForOldPods");
    bury(&c);
    expect_actions(&c, "create Pod x-worker-2");
    rest(&c);
    run_all(&c);
    expect_status(&c, "attempt", "");
    mark_deleted(&c, "x-worker-2");
    expect_status(&c, "phase", "Restarting");
    tk_done(&c);
}

static void scaling_and_elastic_jobs_restart_no_group(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO LIMIT(3));
    set_replicas(&c, "worker", 3);
    expect_actions(&c, "create Pod x-worker-2");
    rest(&c);
    expect_status(&c, "attempt", "");
    run_all(&c);
    set_replicas(&c, "worker", 1);
    rest(&c);
    expect_status(&c, "attempt", "");
    expect_status(&c, "phase", "Running");
    tk_done(&c);
    c = running_cluster(TWO LIMIT(3) ",'elastic':1");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_actions(&c, "create Pod x-worker-1");
    expect_status(&c, "attempt", "");
    tk_done(&c);
}

/* ---- suspension ----------------------------------------------------------------------------- */

static void a_suspended_job_has_no_pods_and_resumes_as_a_new_attempt(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    set_spec(&c, "suspend", json_true());
    expect_actions(&c, "");
    expect_events(&c, "Suspended: spec.suspend is true");
    expect_status(&c, "phase", "Suspended");
    expect_status(&c, "attempt", "1");
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1; delete ConfigMap x");
    rest(&c);
    expect_condition(&c, "Suspended", "True JobSuspended spec.suspend is true");
    bury(&c);
    rest(&c);
    expect_actions(&c, "");
    assert_int_equal(wakes_at(&c), 0);
    json_t *meta = json_object_get(c.job, "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("t"));
    expect_events(&c, "");
    json_object_del(meta, "deletionTimestamp");
    set_spec(&c, "suspend", json_false());
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    expect_events(&c, "Resumed: attempt 1 begins");
    expect_status(&c, "phase", "Pending");
    expect_condition(&c, "Suspended", "False JobResumed ");
    rest(&c);
    expect_attempts(&c, "1");
    run_all(&c);
    expect_status(&c, "phase", "Running");
    expect_status(&c, "restarts", "0");
    tk_done(&c);
}

static void a_job_that_is_suspended_from_the_beginning_creates_nothing(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO ",'suspend':true,'intranet':'Service'"));
    expect_actions(&c, "");
    rest(&c);
    expect_actions(&c, "");
    expect_status(&c, "phase", "Suspended");
    expect_status(&c, "attempt", "");
    set_spec(&c, "suspend", json_false());
    rest(&c);
    expect_attempts(&c, "0");
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 2);
    tk_done(&c);
}

static void a_failure_in_a_suspended_job_costs_no_restart(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE LIMIT(1) ",'elastic':1");
    tk_look(&c);
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
    set_spec(&c, "suspend", json_true());
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_status(&c, "phase", "Suspended");
    expect_status(&c, "restarts", "0");
    expect_status(&c, "attempt", "1");
    tk_done(&c);
}

static void a_job_that_is_done_is_not_suspended_any_more(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    set_spec(&c, "suspend", json_true());
    expect_status(&c, "phase", "Completed");
    rest(&c);
    expect_status(&c, "phase", "Completed");
    tk_done(&c);
}

/* ---- deadline ------------------------------------------------------------------------------- */

/* The clusters' clock begins at 1000000 s, 1970-01-12T13:46:40Z. */
#define CREATED "1970-01-12T13:46:40Z"

static struct tk_cluster deadline_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s,'activeDeadlineSeconds':100"), spec);
    tk_init(&c, job);
    co_json_set(json_object_get(c.job, "metadata"), "creationTimestamp", json_string(CREATED));
    return c;
}

static void a_deadline_ends_a_job_to_the_second(void **state) {
    (void)state;
    struct tk_cluster c = deadline_cluster(TWO ",'cleanPodPolicy':'Never'");
    rest(&c);
    run_all(&c);
    assert_int_equal(wakes_at(&c), 1000100);
    c.now = 1000099;
    expect_status(&c, "phase", "Running");
    c.now = 1000100;
    expect_status(&c, "phase", "Failed");
    expect_status(&c, "reason", "DeadlineExceeded");
    expect_status(
        &c, "message", "the job was active for 100 s, all that activeDeadlineSeconds allows");
    expect_actions(&c, "");
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1");
    tk_done(&c);
}

static void time_in_suspension_does_not_count(void **state) {
    (void)state;
    struct tk_cluster c = deadline_cluster(TWO);
    rest(&c);
    run_all(&c);
    c.now += 40;
    set_spec(&c, "suspend", json_true());
    rest(&c);
    expect_status(&c, "activeSeconds", "40");
    c.now += 5000;
    rest(&c);
    bury(&c);
    set_spec(&c, "suspend", json_false());
    rest(&c);
    expect_status(&c, "activeSince", "1970-01-12T15:10:40Z");
    assert_int_equal(wakes_at(&c), c.now + 60);
    c.now += 59;
    expect_status(&c, "phase", "Pending");
    c.now += 1;
    expect_status(&c, "reason", "DeadlineExceeded");
    tk_done(&c);
    /* Suspended from the beginning: all of it is left. */
    c = deadline_cluster(TWO ",'suspend':true");
    c.now += 7;
    rest(&c);
    c.now += 5000;
    set_spec(&c, "suspend", json_false());
    rest(&c);
    assert_int_equal(wakes_at(&c), c.now + 100);
    tk_done(&c);
}

static void a_passed_deadline_prevents_a_restart(void **state) {
    (void)state;
    struct tk_cluster c = deadline_cluster(ONE LIMIT(3));
    rest(&c);
    run_all(&c);
    c.now += 100;
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_status(&c, "reason", "DeadlineExceeded");
    expect_status(&c, "restarts", "0");
    expect_status(&c, "attempt", "");
    tk_done(&c);
}

/* Or nobody would know why nothing came of it. */
static void a_job_that_does_not_run_by_its_deadline_says_what_it_waited_for(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'activeDeadlineSeconds':100"));
    co_json_set(json_object_get(c.job, "metadata"), "creationTimestamp",
        json_string("1970-01-12T13:46:40Z"));
    rest(&c);
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"
        "'Unschedulable','message':'0/2 nodes'}]}");
    rest(&c);
    c.now += 100;
    expect_status(&c, "message",
        "the job was active for 100 s, all that activeDeadlineSeconds allows; it did not run: "
        "Unschedulable: pod x-worker-0: 0/2 nodes");
    tk_done(&c);
}

/* ---- after the end -------------------------------------------------------------------------- */

static void a_job_whose_time_to_live_is_over_is_deleted(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(ONE ",'ttlSecondsAfterFinished':60");
    tk_pod_status(&c, "x-worker-0", DONE);
    rest(&c);
    bury(&c);
    assert_int_equal(wakes_at(&c), c.now + 60);
    c.now += 59;
    expect_actions(&c, "");
    c.now += 1;
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 1);
    assert_int_equal(plan.actions[0].verb, PLAN_DELETE);
    assert_int_equal(plan.actions[0].kind, PLAN_KIND_JOB);
    assert_string_equal(plan.actions[0].uid, "uid-x");
    assert_int_equal(plan.wake_at, 0); /* the watch will report it */
    tk_done(&c);
}

static void worker_0_may_decide_alone(void **state) {
    (void)state;
    struct tk_cluster c =
        running_cluster(TWO_TWO ",'successPolicy':'Worker0','cleanPodPolicy':'Never'");
    tk_pod_status(&c, "x-worker-1", DONE);
    expect_status(&c, "phase", "Running");
    rest(&c);
    tk_pod_status(&c, "x-worker-1", RUNS);
    tk_pod_status(&c, "x-worker-0", DONE);
    expect_events(&c, "Completing: worker 0 has succeeded; the others have 30 s to end");
    rest(&c);
    tk_pod_status(&c, "x-worker-1", BROKEN); /* it lost its chief */
    expect_status(&c, "phase", "Running");
    c.now += 30;
    expect_status(&c, "phase", "Completed");
    rest(&c);
    expect_condition(&c, "Succeeded", "True Worker0Succeeded ");
    expect_actions(&c, "");
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 4);
    tk_done(&c);
}

static void edits_of_an_ended_job_change_nothing(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO ",'cleanPodPolicy':'Never'");
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    rest(&c);
    set_replicas(&c, "worker", 1);
    set_spec(&c, "suspend", json_true());
    expect_actions(&c, "");
    expect_status(&c, "phase", "Completed");
    expect_status(&c, "readyWorker", "2/2");
    expect_status(&c, "mode", "Collective");
    expect_status(&c, "worker.succeeded", "2");
    tk_done(&c);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void a_job_of_another_controller_is_left_alone(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO ",'managedBy':'kueue.x-k8s.io/multikueue'"));
    co_json_set(c.job, "status", tk_json("{'phase':'Running','theirs':1}"));
    co_json_set(json_object_get(c.job, "metadata"), "finalizers",
        tk_json("['finalizers.paddlepaddle.org']"));
    assert_false(tk_pass(&c));
    expect_events(&c, "");
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
    tk_done(&c);
}

static void the_scale_subresource_finds_its_fields(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    expect_status(&c, "selector", "batch.paddlepaddle.org/job-name=x,paddle-res-type=worker");
    expect_status(&c, "worker.replicas", "2");
    tk_done(&c);
}

/* The API server does not look at them. */
static void invalid_references_are_replaced(void **state) {
    static const char *const rows[] = {
        "'none'", "7", "{'uid':'u'}", "['a',1]", "[{'uid':['u']},null]", "null"};
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(TWO);
        json_t *role = co_json_at(c.job, "status", "worker");
        json_t *wanted = json_incref(json_object_get(role, "refs"));
        CO_AUTOFREE char *text = co_xasprintf("{'refs':%s}", rows[i]);
        CO_AUTOJSON json_t *odd = tk_json(text);
        co_json_set(role, "refs", json_incref(json_object_get(odd, "refs")));
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan(&c, &plan);
        assert_true(json_equal(co_json_at(plan.status, "worker", "refs"), wanted));
        json_decref(wanted);
        tk_done(&c);
    }
}

static void references_are_left_out_where_they_would_not_fit(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TWO);
    expect_status(&c, "worker.running", "2");
    set_replicas(&c, "worker", 2000);
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(json_array_size(co_json_at(plan.status, "worker", "refs")), 1);
    set_replicas(&c, "worker", 2001);
    PLAN_AUTOPLAN struct plan large = {0};
    tk_plan(&c, &large);
    assert_null(co_json_at(large.status, "worker", "refs"));
    assert_int_equal(json_integer_value(co_json_at(large.status, "worker", "running")), 1);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_restarted_as_a_whole),
        cmocka_unit_test(no_pod_of_a_new_attempt_starts_on_old_addresses),
        cmocka_unit_test(the_backoff_doubles_and_restarts_after_a_healthy_period),
        cmocka_unit_test(a_spent_budget_fails_the_job_and_stops_what_runs),
        cmocka_unit_test(a_clock_that_is_set_back_holds_no_restart),
        cmocka_unit_test(old_pods_that_do_not_end_are_named),
        cmocka_unit_test(a_lost_status_does_not_end_an_attempt),
        cmocka_unit_test(failures_give_the_phase_and_reason_of_their_policy),
        cmocka_unit_test(a_queued_job_without_a_policy_is_not_restarted),
        cmocka_unit_test(a_container_that_no_node_starts_fails_the_job_after_three_restarts),
        cmocka_unit_test(containers_that_restart_in_place_restart_no_group),
        cmocka_unit_test(a_pod_that_is_deleted_while_others_run_restarts_the_group),
        cmocka_unit_test(a_pod_that_is_lost_as_its_job_is_edited_restarts_the_group),
        cmocka_unit_test(a_pod_that_fails_because_a_peer_is_lost_does_not_fail_the_job),
        cmocka_unit_test(a_terminating_pod_that_is_wanted_again_is_recreated),
        cmocka_unit_test(scaling_and_elastic_jobs_restart_no_group),
        cmocka_unit_test(a_suspended_job_has_no_pods_and_resumes_as_a_new_attempt),
        cmocka_unit_test(a_job_that_does_not_run_by_its_deadline_says_what_it_waited_for),
        cmocka_unit_test(a_job_that_is_suspended_from_the_beginning_creates_nothing),
        cmocka_unit_test(a_failure_in_a_suspended_job_costs_no_restart),
        cmocka_unit_test(a_job_that_is_done_is_not_suspended_any_more),
        cmocka_unit_test(a_deadline_ends_a_job_to_the_second),
        cmocka_unit_test(time_in_suspension_does_not_count),
        cmocka_unit_test(a_passed_deadline_prevents_a_restart),
        cmocka_unit_test(a_job_whose_time_to_live_is_over_is_deleted),
        cmocka_unit_test(worker_0_may_decide_alone),
        cmocka_unit_test(edits_of_an_ended_job_change_nothing),
        cmocka_unit_test(a_job_of_another_controller_is_left_alone),
        cmocka_unit_test(the_scale_subresource_finds_its_fields),
        cmocka_unit_test(invalid_references_are_replaced),
        cmocka_unit_test(references_are_left_out_where_they_would_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
