/* Golden rows: what is done about jobs of every shape. */
#include "operator/plan/testkit.h"

static void expect_actions(struct tk_cluster *c, const char *expected) {
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(c, &plan);
    CO_AUTOFREE char *text = tk_actions(&plan);
    assert_string_equal(text, expected);
}

/* The text at a path of the status that a plan would write now; "" when absent. */
static char *status_text(struct tk_cluster *c, const char *path) {
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(c, &plan);
    json_t *j = NULL;
    for (json_type t = JSON_OBJECT; t <= JSON_NULL && !j; t++) {
        if (co_json_get(plan.status, path, t, &j, NULL)) {
            j = NULL;
        }
    }
    if (!j) {
        return co_xstrdup("");
    }
    return json_is_string(j) ? co_xstrdup(json_string_value(j)) : co_json_dump(j);
}

static void expect_status(struct tk_cluster *c, const char *path, const char *expected) {
    CO_AUTOFREE char *text = status_text(c, path);
    assert_string_equal(text, expected);
}

/* "status reason message" of a condition that a plan would write now. */
static void expect_condition(struct tk_cluster *c, const char *type, const char *expected) {
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(c, &plan);
    char text[1024] = "absent";
    size_t i;
    json_t *j;
    json_array_foreach(json_object_get(plan.status, "conditions"), i, j) {
        if (co_streq(co_json_str(j, "type"), type)) {
            (void)snprintf(text, sizeof(text), "%s %s %s", co_json_str(j, "status"),
                co_json_str(j, "reason"), co_json_str(j, "message"));
        }
    }
    assert_string_equal(text, expected);
}

/* "reason: message; …", warnings with "!". */
static void expect_events(struct tk_cluster *c, const char *expected) {
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(c, &plan);
    struct co_buf b = CO_BUF(1 << 16);
    assert_int_equal(co_buf_adds(&b, "", NULL), 0);
    for (size_t i = 0; i < plan.n_events; i++) {
        assert_int_equal(
            co_buf_addf(&b, NULL, "%s%s%s: %s", i ? "; " : "", plan.events[i].warning ? "!" : "",
                plan.events[i].reason, plan.events[i].message),
            0);
    }
    CO_AUTOFREE char *text = co_buf_take(&b);
    assert_string_equal(text, expected);
}

static void rest(struct tk_cluster *c) {
    for (int i = 0; i < 5; i++) {
        if (!tk_pass(c)) {
            return;
        }
    }
    fail_msg("does not come to rest");
}

static void run_all(struct tk_cluster *c) {
    const char *name;
    json_t *pod;
    int n = 0;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        CO_AUTOFREE char *status = co_xasprintf(TK_RUNNING("10.0.0.%d"), ++n);
        co_json_set(pod, "status", tk_json(status));
    }
    rest(c);
}

#define TWO_TWO TK_ROLE("ps", 2) "," TK_ROLE("worker", 2)

/* ---- a start -------------------------------------------------------------------------------- */

static void pod_ip_mode_creates_pods_at_once_and_the_config_map_with_the_last_address(
    void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO ",'withGloo':1"));
    expect_actions(&c, "create Pod x-ps-0; create Pod x-ps-1; create Pod x-worker-0; "
                       "create Pod x-worker-1");
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "mode", "PS");
    expect_status(&c, "readyWorker", "0/2");
    rest(&c);
    expect_actions(&c, "");
    expect_condition(&c, "Created", "True PodsCreated ");
    tk_pod_status(&c, "x-ps-0", "{'phase':'Pending','podIP':'10.0.0.1'}");
    tk_pod_status(&c, "x-ps-1", "{'phase':'Pending','podIP':'10.0.0.2'}");
    tk_pod_status(&c, "x-worker-0", "{'phase':'Pending','podIP':'10.0.0.3'}");
    expect_actions(&c, "");
    tk_pod_status(&c, "x-worker-1", "{'phase':'Pending','podIP':'10.0.0.4'}");
    expect_actions(&c, "create ConfigMap x");
    rest(&c);
    unsigned port = op_plan_port("uid-x", NULL, 0);
    CO_AUTOFREE char *expected = co_xasprintf(
        "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'x','namespace':'ns','labels':{"
        "'paddle-res-name':'x','batch.paddlepaddle.org/job-name':'x'},'ownerReferences':[{"
        "'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob','name':'x','uid':'uid-x',"
        "'controller':true,'blockOwnerDeletion':true}]},'data':{'TRAINER_PORTS_NUM':'20',"
        "'PADDLE_PORT':'%u','PADDLE_PSERVERS_IP_PORT_LIST':'10.0.0.1:%u,10.0.0.2:%u',"
        "'PADDLE_TRAINER_ENDPOINTS':'10.0.0.3:%u,10.0.0.4:%u','PADDLE_TRAINERS':"
        "'10.0.0.3,10.0.0.4','PADDLE_TRAINERS_NUM':'2','PADDLE_WITH_GLOO':'1',"
        "'PADDLE_GLOO_RENDEZVOUS':'3','PADDLE_GLOO_HTTP_ENDPOINT':'10.0.0.1:%u'}}",
        port, port, port, port, port, port + 18);
    CO_AUTOJSON json_t *want = tk_json(expected);
    json_t *have = json_object_get(c.objects[TK_CONFIGMAPS], "x");
    json_object_del(json_object_get(have, "metadata"), "uid");
    json_object_del(json_object_get(have, "metadata"), "resourceVersion");
    CO_AUTOFREE char *a = co_json_dump_sorted(want);
    CO_AUTOFREE char *b = co_json_dump_sorted(have);
    assert_string_equal(a, b);
    tk_done(&c);
}

static void service_mode_creates_everything_at_once(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 1) ",'intranet':'Service',"
                                                                 "'withGloo':1"));
    expect_actions(&c, "create ConfigMap x; create Service x-ps-0; create Service x-worker-0; "
                       "create Pod x-ps-0; create Pod x-worker-0");
    rest(&c);
    expect_actions(&c, "");
    json_t *data = co_json_at(c.objects[TK_CONFIGMAPS], "x", "data");
    assert_string_equal(co_json_str(data, "PADDLE_PORT"), "36000");
    assert_string_equal(co_json_str(data, "PADDLE_PSERVERS_IP_PORT_LIST"), "x-ps-0:36000");
    assert_string_equal(co_json_str(data, "PADDLE_TRAINERS"), "x-worker-0");
    assert_string_equal(co_json_str(data, "PADDLE_GLOO_HTTP_ENDPOINT"), "x-ps-0:36018");
    json_t *svc = json_object_get(c.objects[TK_SERVICES], "x-ps-0");
    json_t *spec = json_object_get(svc, "spec");
    assert_string_equal(co_json_str(spec, "clusterIP"), "None");
    assert_true(json_is_true(json_object_get(spec, "publishNotReadyAddresses")));
    assert_string_equal(co_json_str(spec, "selector", "paddle-res-name"), "x-ps-0");
    assert_int_equal(json_array_size(json_object_get(spec, "ports")), 20);
    json_t *last = json_array_get(json_object_get(spec, "ports"), 19);
    assert_string_equal(co_json_str(last, "name"), "p-19");
    assert_int_equal(json_integer_value(json_object_get(last, "port")), 36019);
    tk_done(&c);
}

static void services_for_all_modes_when_asked_for(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    c.settings.services_all = true;
    expect_actions(&c, "create Service x-worker-0; create Pod x-worker-0");
    tk_done(&c);
}

struct env_row {
    const char *spec;
    const char *gone, *there; /* keys of the ConfigMap */
};

static const struct env_row envs[] = {
    {TK_ROLE("worker", 2), "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINERS_NUM"},
    {TK_ROLE("worker", 2) ",'withGloo':1", "PADDLE_WITH_GLOO", "PADDLE_TRAINERS"},
    {TK_ROLE("ps", 0) ",'withGloo':1", "PADDLE_WITH_GLOO", "PADDLE_PSERVERS_IP_PORT_LIST"},
    {TK_ROLE("heter", 1), "PADDLE_TRAINERS_NUM", "PADDLE_HETER_ENDPOINTS"},
    {"'cleanPodPolicy':''", "PADDLE_TRAINERS_NUM", "TRAINER_PORTS_NUM"},
};

static void variables_are_there_when_their_role_is(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(envs); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), envs[i].spec);
        tk_init(&c, job);
        rest(&c);
        run_all(&c);
        json_t *data = co_json_at(c.objects[TK_CONFIGMAPS], "x", "data");
        assert_null(json_object_get(data, envs[i].gone));
        assert_non_null(json_object_get(data, envs[i].there));
        tk_done(&c);
    }
}

static void ipv6_addresses_stand_in_brackets_and_the_family_can_be_chosen(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Running','podIP':'10.0.0.1','podIPs':[{'ip':'10.0.0.1'},{'ip':'fd00::1'}]}");
    static const struct {
        int family;
        const char *host, *start;
    } rows[] = {
        {0, "10.0.0.1", "10.0.0.1:"}, {4, "10.0.0.1", "10.0.0.1:"}, {6, "fd00::1", "[fd00::1]:"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        c.settings.prefer_family = rows[i].family;
        tk_look(&c);
        CO_AUTOJSON json_t *data = op_plan_env(c.seen_job, &c.seen, &c.settings);
        assert_string_equal(co_json_str(data, "PADDLE_TRAINERS"), rows[i].host);
        const char *list = co_json_str(data, "PADDLE_TRAINER_ENDPOINTS");
        assert_memory_equal(list, rows[i].start, strlen(rows[i].start));
    }
    tk_done(&c);
}

static void every_value_passes_the_contract(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO "," TK_ROLE("heter", 1) ",'withGloo':2"));
    rest(&c);
    run_all(&c);
    const char *key;
    json_t *value;
    json_object_foreach(co_json_at(c.objects[TK_CONFIGMAPS], "x", "data"), key, value) {
        struct co_err err = {0};
        int var = co_contract_find(key);
        assert_true(var >= 0);
        if (co_contract_check((enum co_var)var, json_string_value(value), &err)) {
            fail_msg("%s", err.msg);
        }
    }
    tk_done(&c);
}

static void ports_are_spread_and_keep_out_of_each_others_way(void **state) {
    (void)state;
    uint16_t taken[CO_PORT_SLOTS];
    size_t n = 0;
    for (int i = 0; i < 200; i++) {
        char uid[64];
        (void)snprintf(uid, sizeof(uid), "0f0e0d0c-0000-4000-8000-%012d", i);
        uint16_t port = op_plan_port(uid, taken, n);
        assert_int_equal((port - CO_PORT_BASE) % CO_PORT_SPAN, 0);
        assert_in_range(port, CO_PORT_BASE, CO_PORT_BASE + CO_PORT_SPAN * (CO_PORT_SLOTS - 1));
        for (size_t j = 0; j < n; j++) {
            assert_int_not_equal(port, taken[j]);
        }
        taken[n++] = port;
    }
    assert_int_equal(op_plan_port("u", NULL, 0), op_plan_port("u", NULL, 0));
}

static void a_live_jobs_port_stays(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'intranet':'Host'"));
    rest(&c);
    run_all(&c);
    uint16_t taken[] = {op_plan_port("uid-x", NULL, 0)};
    tk_look(&c);
    c.seen.ports_taken = taken;
    c.seen.n_ports_taken = 1;
    OP_AUTOPLAN struct op_plan plan = {0};
    assert_int_equal(op_plan_compute(c.seen_job, &c.seen, c.now, &c.settings, &plan, NULL), 0);
    assert_int_equal(plan.n_actions, 0);
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    tk_look(&c);
    c.seen.ports_taken = taken;
    c.seen.n_ports_taken = 1;
    CO_AUTOJSON json_t *env = op_plan_env(c.seen_job, &c.seen, &c.settings);
    CO_AUTOFREE char *port = co_xasprintf("%u", taken[0]);
    assert_string_not_equal(co_json_str(env, "PADDLE_PORT"), port);
    tk_done(&c);
}

/* ---- phases --------------------------------------------------------------------------------- */

#define PENDING "{'phase':'Pending'}"
#define GATED                                                                                      \
    "{'phase':'Pending','initContainerStatuses':[{'name':'coord-paddle','state':{'running':{}}}]}"
#define UNREADY                                                                                    \
    "{'phase':'Running','containerStatuses':[{'name':'main','ready':false,'state':{'running':{}}}" \
    "]}"
#define RUNS TK_RUNNING("10.0.0.1")
#define DONE TK_SUCCEEDED("10.0.0.1")
#define BROKEN TK_FAILED("10.0.0.1", "3", "2026-01-01T00:00:01Z", "no data")
#define LOST "{'phase':'Unknown'}"

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
    tk_init(&c, TK_JOB(TWO_TWO));
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
        "True WorkersSucceeded all workers have succeeded, servers may still end");
    /* A worker's pod that is deleted now does not train again. */
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    c.now += 29;
    OP_AUTOPLAN struct op_plan plan = {0};
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
        expect_actions(&c, clean ? "delete Pod x-worker-0; delete Pod x-worker-1; "
                                   "delete Service x-worker-0; delete Service x-worker-1"
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

/* ---- changes -------------------------------------------------------------------------------- */

static void set_replicas(struct tk_cluster *c, const char *role, int n) {
    co_json_set(co_json_at(c->job, "spec", role), "replicas", json_integer(n));
    int64_t g = json_integer_value(co_json_at(c->job, "metadata", "generation"));
    co_json_set(json_object_get(c->job, "metadata"), "generation", json_integer(g + 1));
}

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
    assert_false(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, &why));
    assert_string_equal(why, "addresses");
    tk_pod_status(&c, "x-worker-0", "{'phase':'Pending','podIP':'10.0.0.99'}");
    tk_look(&c);
    assert_false(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, &why));
    assert_string_equal(why, "the ConfigMap");
    expect_actions(&c, "patch ConfigMap x");
    rest(&c);
    assert_string_equal(co_json_str(c.objects[TK_CONFIGMAPS], "x", "data", "PADDLE_TRAINERS"),
        "10.0.0.99,10.0.0.2");
    tk_look(&c);
    assert_true(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, &why));
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

static void the_gate_knows_its_pods(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    run_all(&c);
    tk_look(&c);
    const char *uid = c.pods[0]->c.uid;
    const char *why = NULL;
    assert_true(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, uid, &why));
    assert_false(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, "stranger", &why));
    assert_string_equal(why, "being a pod of the job");
    co_json_set(json_object_get(c.job, "metadata"), "deletionTimestamp", json_string("t"));
    tk_look(&c);
    assert_false(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, &why));
    tk_done(&c);
}

static void elastic_pods_start_when_those_that_are_there_have_addresses(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 3) ",'elastic':1"));
    rest(&c);
    tk_pod_status(&c, "x-worker-0", RUNS);
    tk_look(&c);
    assert_false(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, NULL));
    tk_pod_status(&c, "x-worker-1", RUNS);
    json_object_del(c.objects[TK_PODS], "x-worker-2");
    tk_look(&c);
    assert_true(op_plan_gate_open(c.seen_job, &c.seen, &c.settings, NULL, NULL));
    tk_done(&c);
}

/* ---- what is in the way --------------------------------------------------------------------- */

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

static void a_dying_predecessors_pods_are_waited_for(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-1", BROKEN);
    co_json_set(json_object_get(c.job, "metadata"), "uid", json_string("uid-new"));
    json_object_del(c.job, "status");
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    expect_actions(&c, "create Pod x-worker-0");
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "WaitingForPredecessor");
    expect_status(&c, "message",
        "Pod x-worker-1 of the deleted job of the same name is not gone "
        "yet");
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    expect_actions(&c, "create Pod x-worker-1");
    tk_done(&c);
}

static void a_rejected_create_waits_for_its_turn_and_says_why(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    c.failures[0] = (struct op_failure){.kind = OP_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = "pods \"x-worker-1\" is forbidden: exceeded quota: q",
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    expect_actions(&c, "create Pod x-worker-0");
    expect_status(&c, "reason", "QuotaExceeded");
    expect_status(
        &c, "message", "Pod x-worker-1: pods \"x-worker-1\" is forbidden: exceeded quota: q");
    expect_condition(&c, "Created",
        "False QuotaExceeded Pod x-worker-1: pods \"x-worker-1\" is forbidden: exceeded quota: q");
    OP_AUTOPLAN struct op_plan plan = {0};
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
    c.failures[0] = (struct op_failure){.kind = OP_KIND_POD,
        .name = "x-worker-1",
        .message = "denied by a webhook",
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 0);
    assert_int_equal(plan.wake_at, c.now + 5);
    c.now += 5;
    expect_actions(&c, "delete Pod x-worker-1");
    tk_done(&c);
}

static void what_pods_wait_for_is_shown(void **state) {
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
    tk_done(&c);
}

/* ---- deletion ------------------------------------------------------------------------------- */

static void a_dying_job_gets_nothing_but_its_release(void **state) {
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
    OP_AUTOPLAN struct op_plan plan = {0};
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
    OP_AUTOPLAN struct op_plan plan = {0};
    tk_plan(&c, &plan);
    struct op_outcome outcomes[15];
    for (size_t i = 0; i < 15; i++) {
        outcomes[i] = (struct op_outcome){.tried = i < 14, .error = i == 0 ? "no quota" : NULL};
    }
    struct op_event *events;
    size_t n;
    op_plan_action_events(&plan, outcomes, &events, &n);
    assert_int_equal(n, 2);
    assert_string_equal(events[0].reason, "Created");
    assert_false(events[0].warning);
    assert_string_equal(events[0].message,
        "created 13 Pods: x-worker-0, x-worker-1, x-worker-2, x-worker-3, x-worker-4, x-worker-5, "
        "x-worker-6, x-worker-7, x-worker-8, x-worker-9, … (3 more)");
    assert_string_equal(events[1].reason, "Create");
    assert_true(events[1].warning);
    assert_string_equal(events[1].message, "create failed Pod x-ps-0: no quota");
    op_events_free(events, n);
    for (size_t i = 0; i < 15; i++) {
        outcomes[i] = (struct op_outcome){.tried = i == 3};
    }
    op_plan_action_events(&plan, outcomes, &events, &n);
    assert_int_equal(n, 1);
    assert_string_equal(events[0].message, "created Pod x-worker-2");
    op_events_free(events, n);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_ip_mode_creates_pods_at_once_and_the_config_map_with_the_last_address),
        cmocka_unit_test(service_mode_creates_everything_at_once),
        cmocka_unit_test(services_for_all_modes_when_asked_for),
        cmocka_unit_test(variables_are_there_when_their_role_is),
        cmocka_unit_test(ipv6_addresses_stand_in_brackets_and_the_family_can_be_chosen),
        cmocka_unit_test(every_value_passes_the_contract),
        cmocka_unit_test(ports_are_spread_and_keep_out_of_each_others_way),
        cmocka_unit_test(a_live_jobs_port_stays),
        cmocka_unit_test(phases_follow_the_pods),
        cmocka_unit_test(times_are_set_when_the_phase_is_reached),
        cmocka_unit_test(a_failure_names_its_first_cause),
        cmocka_unit_test(an_oom_kill_and_an_eviction_are_reasons_of_their_own),
        cmocka_unit_test(servers_have_their_grace_and_are_stopped),
        cmocka_unit_test(servers_that_end_by_themselves_end_the_job_at_once),
        cmocka_unit_test(the_clean_policy_decides_what_is_left),
        cmocka_unit_test(scaling_makes_and_removes_and_republishes),
        cmocka_unit_test(a_removed_role_is_cleaned_up_with_its_variables),
        cmocka_unit_test(a_deleted_pod_comes_back_and_the_config_map_follows),
        cmocka_unit_test(only_what_a_user_sees_is_written),
        cmocka_unit_test(the_gate_knows_its_pods),
        cmocka_unit_test(elastic_pods_start_when_those_that_are_there_have_addresses),
        cmocka_unit_test(a_bad_template_is_a_condition_and_an_event),
        cmocka_unit_test(a_dying_predecessors_pods_are_waited_for),
        cmocka_unit_test(a_rejected_create_waits_for_its_turn_and_says_why),
        cmocka_unit_test(a_rejected_delete_waits_for_its_turn),
        cmocka_unit_test(what_pods_wait_for_is_shown),
        cmocka_unit_test(a_dying_job_gets_nothing_but_its_release),
        cmocka_unit_test(a_job_that_vanishes_with_its_finalizer_gets_no_status),
        cmocka_unit_test(action_events_are_folded_by_kind_verb_and_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
