/* Golden rows: what changes, name conflicts, deletion, and the text of events. */
#include "operator/plan/expect_testing.h"

/* ---- changes -------------------------------------------------------------------------------- */

static void scaling_makes_and_removes_and_republishes(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) ",'intranet':'Service'"));
    rest(&c);
    run_all(&c);
    set_replicas(&c, "worker", 3);
    expect_actions(&c, "patch ConfigMap x; create Service x-worker-2; create Pod x-worker-2");
    rest(&c);
    assert_string_equal(
        co_json_str(c.objects[TK_CONFIGMAPS], "x", "data", "PADDLE_TRAINERS_NUM"), "3");
    set_replicas(&c, "worker", 1);
    expect_actions(&c, "delete Pod x-worker-1; delete Pod x-worker-2; delete Service x-worker-1; "
                       "delete Service x-worker-2; patch ConfigMap x");
    expect_status(&c, "mode", "Single");
    rest(&c);
    set_replicas(&c, "worker", 0);
    expect_actions(&c, "delete Pod x-worker-0; delete Service x-worker-0; patch ConfigMap x");
    json_object_clear(c.objects[TK_PODS]);
    rest(&c);
    expect_status(&c, "phase", "Running");
    tk_done(&c);
}

static void a_removed_role_is_cleaned_up_with_its_variables(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) "," TK_ROLE("heter", 1)));
    rest(&c);
    run_all(&c);
    co_json_set(co_json_at(c.objects[TK_CONFIGMAPS], "x", "data"), "MINE", json_string("1"));
    json_object_del(json_object_get(c.job, "spec"), "heter");
    expect_actions(&c, "delete Pod x-heter-0; patch ConfigMap x");
    rest(&c);
    json_t *data = co_json_at(c.objects[TK_CONFIGMAPS], "x", "data");
    assert_null(json_object_get(data, "PADDLE_HETER_ENDPOINTS"));
    assert_string_equal(co_json_str(data, "MINE"), "1");
    expect_status(&c, "heter", "");
    tk_done(&c);
}

static void a_deleted_pod_comes_back_and_the_config_map_follows(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    c.settings.gate_image = "gate";
    c.settings.gate_addr = "gate:1";
    rest(&c);
    run_all(&c);
    json_t *pod = json_object_get(c.objects[TK_PODS], "x-worker-0");
    co_json_set(json_object_get(pod, "metadata"), "deletionTimestamp", json_string("t"));
    /* Killed by its deletion: that is no failure of the job. */
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_actions(&c, "");
    expect_status(&c, "phase", "Running");
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    expect_actions(&c, "create Pod x-worker-0");
    rest(&c);
    tk_look(&c);
    const char *why = NULL;
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(why, "addresses");
    tk_pod_status(&c, "x-worker-0", "{'phase':'Pending','podIP':'10.0.0.99'}");
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(why, "the ConfigMap");
    expect_actions(&c, "patch ConfigMap x");
    rest(&c);
    assert_string_equal(co_json_str(c.objects[TK_CONFIGMAPS], "x", "data", "PADDLE_TRAINERS"),
        "10.0.0.99,10.0.0.2");
    tk_look(&c);
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    tk_done(&c);
}

static void only_what_a_user_sees_is_written(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO));
    rest(&c);
    run_all(&c);
    const char *name;
    json_t *pod;
    json_object_foreach(c.objects[TK_PODS], name, pod) {
        tk_stamp(&c, pod, false);
    }
    c.now += 100;
    assert_false(tk_pass(&c));
    tk_done(&c);
}

/* ---- the start gate ------------------------------------------------------------------------- */

static void the_gate_is_closed_when_the_job_is_deleted(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    run_all(&c);
    tk_look(&c);
    const char *why = NULL;
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    co_json_set(json_object_get(c.job, "metadata"), "deletionTimestamp", json_string("t"));
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    tk_done(&c);
}

static void elastic_pods_start_when_those_that_are_there_have_addresses(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 3) ",'elastic':1"));
    rest(&c);
    tk_pod_status(&c, "x-worker-0", RUNS);
    tk_look(&c);
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
    tk_pod_status(&c, "x-worker-1", RUNS);
    json_object_del(c.objects[TK_PODS], "x-worker-2");
    tk_look(&c);
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
    tk_done(&c);
}

#define ADDRESSED "{'phase':'Pending','podIP':'10.0.0.1'}"
#define REFUSED                                                                                    \
    "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"           \
    "'Unschedulable','message':'no nodes'}]}"

/* A gang has room for as many as `requests`: they held their place, and waited for the others. */
static void unschedulable_elastic_pods_do_not_keep_the_gate_closed(void **state) {
    (void)state;
    static const struct {
        const char *bounds, *pods[3], *deleted;
        bool open;
    } rows[] = {
        {"'requests':2,", {ADDRESSED, ADDRESSED, REFUSED}, NULL, true},
        {"'requests':1,", {REFUSED, ADDRESSED, REFUSED}, NULL, true},
        {"'requests':2,", {ADDRESSED, REFUSED, REFUSED}, NULL, false},
        {"'requests':2,", {ADDRESSED, ADDRESSED, PENDING}, NULL, false}, /* not refused yet */
        {"'requests':0,", {REFUSED, REFUSED, REFUSED}, NULL, false},
        {"", {ADDRESSED, ADDRESSED, REFUSED}, NULL, false},
        {"'requests':2,", {ADDRESSED, ADDRESSED, PENDING}, "x-worker-2", true},
        {"'requests':2,", {ADDRESSED, ADDRESSED, REFUSED}, "x-worker-1", false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job = co_xasprintf(
            TK_JOB("'elastic':1,'worker':{'replicas':3,%s" TK_TEMPLATE "}"), rows[i].bounds);
        tk_init(&c, job);
        rest(&c);
        tk_pod_status(&c, "x-worker-0", rows[i].pods[0]);
        tk_pod_status(&c, "x-worker-1", rows[i].pods[1]);
        tk_pod_status(&c, "x-worker-2", rows[i].pods[2]);
        if (rows[i].deleted) {
            co_json_set(co_json_at(c.objects[TK_PODS], rows[i].deleted, "metadata"),
                "deletionTimestamp", json_string("t"));
        }
        tk_look(&c);
        assert_int_equal(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL), rows[i].open);
        tk_done(&c);
    }
}

/* A quota of Services, say: behind the gate names would be asked for that lead nowhere. */
static void the_gate_stays_closed_while_services_are_missing(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"Service", "x-worker-1"}, {"DNS", "x"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB(TK_ROLE("worker", 2) ",'intranet':'%s'"), rows[i][0]);
        tk_init(&c, job);
        rest(&c);
        run_all(&c);
        const char *why = NULL;
        tk_look(&c);
        assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL));
        json_object_del(c.objects[TK_SERVICES], rows[i][1]);
        tk_look(&c);
        assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
        assert_string_equal(why, "the pods' Services");
        tk_done(&c);
    }
}

/* ---- name conflicts --------------------------------------------------------------------- */

static void a_bad_template_is_a_condition_and_an_event(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) ",'worker':{'replicas':1}"));
    expect_actions(&c, "");
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "InvalidTemplate");
    expect_events(&c, "!InvalidTemplate: spec.worker.template is missing: describe the role's "
                      "pods there, as in a Pod's metadata and spec");
    rest(&c);
    expect_events(&c, "");
    CO_AUTOJSON json_t *worker = tk_json("{" TK_ROLE("worker", 1) "}");
    co_json_set(
        json_object_get(c.job, "spec"), "worker", json_incref(json_object_get(worker, "worker")));
    expect_actions(&c, "create Pod x-ps-0; create Pod x-worker-0");
    rest(&c);
    expect_status(&c, "reason", "");
    expect_condition(&c, "Blocked", "False Unblocked ");
    tk_done(&c);
}

static void set_created(json_t *obj, const char *when) {
    co_json_set(json_object_get(obj, "metadata"), "creationTimestamp", json_string(when));
}

static void a_predecessors_pods_are_deleted_and_waited_for(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 3)));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-1", BROKEN);
    co_json_set(json_object_get(c.job, "metadata"), "uid", json_string("uid-new"));
    set_created(c.job, "2026-01-01T00:00:09Z");
    json_object_del(c.job, "status");
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    set_created(json_object_get(c.objects[TK_PODS], "x-worker-1"), "2026-01-01T00:00:08Z");
    /* As old as the job: perhaps of the job that follows, which is not known yet. */
    set_created(json_object_get(c.objects[TK_PODS], "x-worker-2"), "2026-01-01T00:00:09Z");
    set_created(json_object_get(c.objects[TK_CONFIGMAPS], "x"), "2026-01-01T00:00:01Z");
    expect_actions(&c, "delete Pod x-worker-1; delete ConfigMap x; create Pod x-worker-0");
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "WaitingForPredecessor");
    expect_status(&c, "message",
        "Pod x-worker-1 of the deleted job of the same name is not gone "
        "yet");
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-2");
    expect_actions(&c, "create Pod x-worker-2");
    tk_done(&c);
}

static void a_rejected_create_waits_for_its_turn_and_says_why(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    c.failures[0] = (struct plan_failure){.kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = "pods \"x-worker-1\" is forbidden: exceeded quota: q",
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    expect_actions(&c, "create Pod x-worker-0");
    c.failures[0].message = "pods \"x-worker-1\" is forbidden: unable to create new content in "
                            "namespace ns because it is being terminated";
    expect_status(&c, "reason", "NamespaceTerminating");
    c.failures[0].message = "pods \"x-worker-1\" is forbidden: exceeded quota: q";
    expect_status(&c, "reason", "QuotaExceeded");
    expect_status(
        &c, "message", "Pod x-worker-1: pods \"x-worker-1\" is forbidden: exceeded quota: q");
    expect_condition(&c, "Created",
        "False QuotaExceeded Pod x-worker-1: pods \"x-worker-1\" is forbidden: exceeded quota: q");
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.wake_at, c.now + 5);
    c.now += 5;
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    rest(&c);
    expect_status(&c, "reason", ""); /* it is there now, whatever control remembers */
    tk_done(&c);
}

static void a_rejected_delete_waits_for_its_turn(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    set_replicas(&c, "worker", 1);
    rest(&c); /* the ConfigMap has followed */
    json_object_del(co_json_at(c.objects[TK_PODS], "x-worker-1", "metadata"), "deletionTimestamp");
    c.failures[0] = (struct plan_failure){.kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .message = "denied by a webhook",
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 0);
    assert_int_equal(plan.wake_at, c.now + 5);
    c.now += 5;
    expect_actions(&c, "delete Pod x-worker-1");
    tk_done(&c);
}

static void fail_request(
    struct tk_cluster *c, enum plan_verb verb, enum plan_kind kind, const char *name) {
    c->failures[0] = (struct plan_failure){.verb = verb,
        .kind = kind,
        .name = name,
        .code = CO_PERMISSION,
        .message = "denied by a webhook",
        .count = 1,
        .retry_at = c->now + 5};
    c->n_failures = 1;
}

static void conditions_of_others_stay(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    json_t *list = co_json_at(c.job, "status", "conditions");
    assert_int_equal(
        json_array_insert_new(list, 0,
            tk_json("{'type':'Audited','status':'True','reason':'Seen','message':'by whom'}")),
        0);
    run_all(&c);
    expect_condition(&c, "Running", "True AllPodsRunning ");
    expect_condition(&c, "Audited", "True Seen by whom");
    assert_int_equal(json_array_size(co_json_at(c.job, "status", "conditions")), 3);
    tk_done(&c);
}

static void a_refused_request_has_a_reason_of_its_verb(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) ",'backoffLimit':3"));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-1", TK_RUNNING("10.0.0.9"));
    expect_actions(&c, "patch ConfigMap x");
    fail_request(&c, PLAN_PATCH, PLAN_KIND_CONFIGMAP, "x");
    expect_status(&c, "phase", "Running");
    expect_status(&c, "reason", "FailedUpdate");
    expect_status(&c, "message", "ConfigMap x: denied by a webhook");
    expect_condition(&c, "Blocked", "absent");
    c.n_failures = 0;
    rest(&c);
    fail_request(&c, PLAN_PATCH, PLAN_KIND_CONFIGMAP, "x");
    expect_status(&c, "reason", "StaleAddress"); /* it says what it should by now */
    c.n_failures = 0;
    tk_pod_status(&c, "x-worker-1", BROKEN);
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1; delete ConfigMap x");
    fail_request(&c, PLAN_DELETE, PLAN_KIND_POD, "x-worker-0");
    expect_status(&c, "reason", "FailedDelete");
    expect_status(&c, "message", "Pod x-worker-0: denied by a webhook");
    tk_done(&c);
}

/* 900 bytes of it: cut inside of a character the status would be nothing but question marks. */
static void a_long_message_of_any_language_is_cut_at_a_character(void **state) {
    (void)state;
    struct tk_cluster c;
    char message[901] = "";
    for (size_t i = 0; i < 300; i++) {
        memcpy(message + 3 * i, "\u914d", 4);
    }
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    fail_request(&c, PLAN_CREATE, PLAN_KIND_POD, "x-worker-0");
    c.failures[0].message = message;
    CO_AUTOFREE char *expected = co_xasprintf("Pod x-worker-0: %.621s", message);
    expect_status(&c, "message", expected);
    tk_done(&c);
}

static void the_reason_a_pod_waits_is_in_the_status(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    static const char *const pull =
        "{'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{"
        "'reason':'%s','message':'%s'}}}]}";
    CO_AUTOFREE char *first = co_xasprintf(pull, "ErrImagePull", "not found");
    CO_AUTOFREE char *second = co_xasprintf(pull, "ImagePullBackOff", "Back-off");
    CO_AUTOFREE char *held = co_xasprintf(pull, "CreateContainerConfigError", "no ConfigMap");
    tk_pod_status(&c, "x-worker-1", held);
    expect_status(&c, "reason", ""); /* how a start without the gate goes */
    tk_pod_status(&c, "x-worker-1", first);
    rest(&c);
    expect_status(&c, "reason", "ImagePullBackOff");
    expect_status(&c, "message", "pod x-worker-1, container main: not found");
    expect_condition(
        &c, "Running", "False ImagePullBackOff pod x-worker-1, container main: not found");
    /* Kubelet's two words for one trouble are one write. */
    tk_pod_status(&c, "x-worker-1", second);
    assert_false(tk_pass(&c));
    tk_pod_status(&c, "x-worker-1",
        "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
        "'reason':'Unschedulable','message':'0/1 nodes are available: 1 Insufficient cpu.'}]}");
    expect_status(&c, "message", "pod x-worker-1: 0/1 nodes are available: 1 Insufficient cpu.");
    tk_pod_status(&c, "x-worker-1", GATED);
    expect_status(&c, "reason", "WaitingForAddresses");
    tk_pod_status(&c, "x-worker-1",
        "{'phase':'Running','containerStatuses':[{'name':'main','state':{'waiting':{'reason':"
        "'CrashLoopBackOff','message':'back-off "
        "10s'}},'lastState':{'terminated':{'exitCode':3}}}]}");
    expect_status(
        &c, "message", "pod x-worker-1, container main: exit code 3; kubelet restarts it");
    /* A sidecar of the template keeps the pod from failing. */
    co_json_set(co_json_at(c.objects[TK_PODS], "x-worker-1", "metadata", "annotations"),
        API_ANNOTATION_CONTAINERS, json_string("main,proxy"));
    tk_pod_status(&c, "x-worker-1",
        "{'phase':'Running','containerStatuses':[{'name':'main','state':{'terminated':{'exitCode':"
        "3,'reason':'Error','message':'no data','finishedAt':'2026-01-01T00:00:01Z'}}},"
        "{'name':'proxy','ready':true,'state':{'running':{}}}]}");
    expect_status(&c, "reason", "ContainerFailed");
    expect_status(&c, "message", "pod x-worker-1, container main: exit code 3 (Error): no data");
    tk_done(&c);
}

/* ---- deletion ------------------------------------------------------------------------------- */

static void a_job_being_deleted_only_loses_its_finalizer(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO));
    rest(&c);
    run_all(&c);
    json_t *meta = json_object_get(c.job, "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("t"));
    co_json_set(meta, "finalizers", tk_json("['keep/me','finalizers.paddlepaddle.org']"));
    json_object_clear(c.objects[TK_PODS]);
    expect_actions(&c, "patch Job x");
    expect_status(&c, "phase", "Terminating");
    rest(&c);
    CO_AUTOFREE char *left = co_json_dump(co_json_at(c.job, "metadata", "finalizers"));
    assert_string_equal(left, "[\"keep/me\"]");
    expect_actions(&c, "");
    expect_status(&c, "readyWorker", "2/2"); /* as it was */
    tk_done(&c);
}

static void a_job_that_vanishes_with_its_finalizer_gets_no_status(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO));
    json_t *meta = json_object_get(c.job, "metadata");
    co_json_set(meta, "finalizers", tk_json("['finalizers.paddlepaddle.org']"));
    expect_actions(&c, "patch Job x; create Pod x-ps-0; create Pod x-ps-1; create Pod x-worker-0; "
                       "create Pod x-worker-1");
    co_json_set(meta, "deletionTimestamp", json_string("t"));
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 1);
    assert_false(plan.status_differs);
    tk_done(&c);
}

/* ---- events of actions ---------------------------------------------------------------------- */

static void action_events_are_folded_by_kind_verb_and_result(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 14)));
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    struct plan_outcome outcomes[15];
    for (size_t i = 0; i < 15; i++) {
        outcomes[i] = (struct plan_outcome){.tried = i < 14, .error = i == 0 ? "no quota" : NULL};
    }
    struct plan_event *events;
    size_t n;
    plan_action_events(&plan, outcomes, &events, &n);
    assert_int_equal(n, 2);
    assert_string_equal(events[0].reason, "Created");
    assert_false(events[0].warning);
    assert_string_equal(events[0].message,
        "created 13 Pods: x-worker-0, x-worker-1, x-worker-2, x-worker-3, x-worker-4, x-worker-5, "
        "x-worker-6, x-worker-7, x-worker-8, x-worker-9, … (3 more)");
    assert_string_equal(events[1].reason, "FailedCreate");
    assert_true(events[1].warning);
    assert_string_equal(events[1].message, "could not create Pod x-ps-0: no quota");
    plan_events_free(events, n);
    for (size_t i = 0; i < 15; i++) {
        outcomes[i] = (struct plan_outcome){.tried = i == 3};
    }
    plan_action_events(&plan, outcomes, &events, &n);
    assert_int_equal(n, 1);
    assert_string_equal(events[0].message, "created Pod x-worker-2");
    plan_events_free(events, n);
    tk_done(&c);
}

static void server_warnings_are_reported_once_a_role(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 14)));
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    struct plan_outcome outcomes[15];
    for (size_t i = 0; i < 15; i++) {
        outcomes[i] = (struct plan_outcome){
            .tried = true, .warnings = i == 14 ? NULL : "unknown field \"spec.x\""};
    }
    struct plan_event *events;
    size_t n;
    plan_action_events(&plan, outcomes, &events, &n);
    assert_int_equal(n, 2);
    assert_string_equal(events[0].reason, "Created");
    assert_string_equal(events[1].reason, "CreateWarned");
    assert_true(events[1].warning);
    assert_string_equal(events[1].message,
        "Pod x-ps-*: unknown field \"spec.x\"; Pod x-worker-*: unknown field \"spec.x\"");
    plan_events_free(events, n);
    tk_done(&c);
}

/* kubectl scale beyond the bounds: the bound is used, said once, and survivors are left alone. */
static void elastic_workers_stay_within_their_bounds(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(
        &c, TK_JOB("'elastic':0,'worker':{'replicas':2,'requests':1,'limits':3," TK_TEMPLATE "}"));
    rest(&c);
    run_all(&c);
    expect_status(&c, "phase", "Running");
    set_replicas(&c, "worker", 10);
    expect_events(&c, "!ReplicasBounded: spec.worker.replicas is 10, spec.worker.limits allow 3");
    expect_actions(&c, "create Pod x-worker-2");
    rest(&c);
    run_all(&c);
    expect_condition(&c, "ReplicasBounded",
        "True OutOfBounds spec.worker.replicas is 10, spec.worker.limits allow 3");
    expect_events(&c, "");
    set_replicas(&c, "worker", 0);
    expect_events(
        &c, "!ReplicasBounded: spec.worker.replicas is 0, spec.worker.requests ask for 1");
    expect_actions(&c, "delete Pod x-worker-1; delete Pod x-worker-2; patch ConfigMap x");
    rest(&c);
    set_replicas(&c, "worker", 1);
    rest(&c);
    expect_condition(&c, "ReplicasBounded", "False WithinBounds ");
    tk_pod_status(&c, "x-worker-0", DONE);
    rest(&c);
    expect_status(&c, "phase", "Completed");
    set_replicas(&c, "worker", 10);
    expect_events(&c, "");
    tk_done(&c);
}

/* Nobody means no worker at all by it. */
static void limits_below_one_are_ignored(void **state) {
    (void)state;
    static const char *const rows[] = {"'limits':0", "'limits':-1", "'requests':2,'limits':-1"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB("'elastic':1,'worker':{'replicas':2,%s," TK_TEMPLATE "}"), rows[i]);
        tk_init(&c, job);
        expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
        expect_condition(&c, "ReplicasBounded", "absent");
        tk_done(&c);
    }
}

/* Upstream's CRD takes any word and its operator says nothing: a typo trained in another mode. */
static void an_unknown_enum_value_is_one_event_and_the_job_runs(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c,
        TK_JOB(
            "'intranet':'Hots','cleanPodPolicy':'never','worker':{'replicas':1," TK_TEMPLATE "}"));
    static const char said[] =
        "spec.cleanPodPolicy is \"never\", expected Always, Never, OnFailure, OnCompletion or "
        "Running; Never is used; spec.intranet is \"Hots\", expected PodIP, Service, DNS or Host; "
        "PodIP is used";
    CO_AUTOFREE char *event = co_xasprintf("!UnknownValue: %s", said);
    CO_AUTOFREE char *condition = co_xasprintf("True NotRecognized %s", said);
    expect_events(&c, event);
    rest(&c);
    run_all(&c);
    expect_status(&c, "phase", "Running");
    expect_condition(&c, "UnknownValue", condition);
    expect_events(&c, "");
    json_t *spec = json_object_get(c.job, "spec");
    co_json_set(spec, "intranet", json_string("PodIP"));
    co_json_set(spec, "cleanPodPolicy", json_string("Never"));
    rest(&c);
    expect_condition(&c, "UnknownValue", "False AllRecognized ");
    /* As much of it as is said is stored, or it would be news with every look. */
    co_json_set(spec, "intranet", json_string("容器网络模式应该是什么呢请问一下"));
    rest(&c);
    expect_events(&c, "");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_enum_value_is_one_event_and_the_job_runs),
        cmocka_unit_test(elastic_workers_stay_within_their_bounds),
        cmocka_unit_test(scaling_makes_and_removes_and_republishes),
        cmocka_unit_test(a_removed_role_is_cleaned_up_with_its_variables),
        cmocka_unit_test(a_deleted_pod_comes_back_and_the_config_map_follows),
        cmocka_unit_test(only_what_a_user_sees_is_written),
        cmocka_unit_test(the_gate_is_closed_when_the_job_is_deleted),
        cmocka_unit_test(elastic_pods_start_when_those_that_are_there_have_addresses),
        cmocka_unit_test(unschedulable_elastic_pods_do_not_keep_the_gate_closed),
        cmocka_unit_test(the_gate_stays_closed_while_services_are_missing),
        cmocka_unit_test(limits_below_one_are_ignored),
        cmocka_unit_test(a_bad_template_is_a_condition_and_an_event),
        cmocka_unit_test(a_predecessors_pods_are_deleted_and_waited_for),
        cmocka_unit_test(a_rejected_create_waits_for_its_turn_and_says_why),
        cmocka_unit_test(a_rejected_delete_waits_for_its_turn),
        cmocka_unit_test(conditions_of_others_stay),
        cmocka_unit_test(a_refused_request_has_a_reason_of_its_verb),
        cmocka_unit_test(a_long_message_of_any_language_is_cut_at_a_character),
        cmocka_unit_test(the_reason_a_pod_waits_is_in_the_status),
        cmocka_unit_test(a_job_being_deleted_only_loses_its_finalizer),
        cmocka_unit_test(a_job_that_vanishes_with_its_finalizer_gets_no_status),
        cmocka_unit_test(action_events_are_folded_by_kind_verb_and_result),
        cmocka_unit_test(server_warnings_are_reported_once_a_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
