/* Golden rows: how jobs of every shape start, and the variables of their pods. */
#include "operator/plan/expect_testing.h"

/* ---- a start -------------------------------------------------------------------------------- */

static void pod_ip_mode_publishes_with_the_last_address(void **state) {
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
    unsigned port = plan_port("uid-x", NULL, 0);
    CO_AUTOFREE char *expected = co_xasprintf(
        "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'x','namespace':'ns','labels':{"
        "'paddle-res-name':'x','batch.paddlepaddle.org/job-name':'x',"
        "'batch.paddlepaddle.org/attempt':'0'},'ownerReferences':[{"
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
    json_object_del(json_object_get(have, "metadata"), "annotations"); /* templates_test */
    CO_AUTOFREE char *a = co_json_dump_sorted(want);
    CO_AUTOFREE char *b = co_json_dump_sorted(have);
    assert_string_equal(a, b);
    tk_done(&c);
}

static void large_pods_are_made_in_parts(void **state) {
    (void)state;
    /* A value counts as 100 bytes, whatever it is: three pods are more than a plan holds.  They are
     * small in truth, so that the test takes no memory. */
    enum { VALUES = (6 << 20) / 100 };
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 8)));
    json_t *args = json_array();
    for (int i = 0; i < VALUES; i++) {
        json_array_append_new(args, json_null());
    }
    json_t *spec = co_json_at(c.job, "spec", "worker", "template", "spec");
    co_json_set(json_array_get(json_object_get(spec, "containers"), 0), "args", args);
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 8); /* without a bound */
    c.creates_max = 100;
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1; create Pod x-worker-2");
    (void)tk_pass(&c);
    expect_actions(&c, "create Pod x-worker-3; create Pod x-worker-4; create Pod x-worker-5");
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 8);
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

/* Names are known before there is a pod: the ConfigMap goes out with everything else. */
static void dns_mode_has_one_service_a_job(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 2) ",'intranet':'DNS',"
                                                                 "'withGloo':1"));
    expect_actions(&c, "create ConfigMap x; create Service x; create Pod x-ps-0; "
                       "create Pod x-worker-0; create Pod x-worker-1");
    rest(&c);
    expect_actions(&c, "");
    json_t *data = co_json_at(c.objects[TK_CONFIGMAPS], "x", "data");
    assert_string_equal(co_json_str(data, "PADDLE_PORT"), "36000");
    assert_string_equal(co_json_str(data, "PADDLE_PSERVERS_IP_PORT_LIST"), "x-ps-0.x:36000");
    assert_string_equal(co_json_str(data, "PADDLE_TRAINERS"), "x-worker-0.x,x-worker-1.x");
    assert_string_equal(co_json_str(data, "PADDLE_GLOO_HTTP_ENDPOINT"), "x-ps-0.x:36018");
    const json_t *spec = co_json_at(c.objects[TK_SERVICES], "x", "spec");
    assert_string_equal(co_json_str(spec, "clusterIP"), "None");
    assert_true(json_is_true(json_object_get(spec, "publishNotReadyAddresses")));
    assert_string_equal(co_json_str(spec, "selector", API_LABEL_JOB), "x");
    assert_int_equal(json_object_size(json_object_get(spec, "selector")), 1);
    /* More pods of the same job are in the Service by their label. */
    set_replicas(&c, "worker", 3);
    expect_actions(&c, "patch ConfigMap x; create Pod x-worker-2");
    tk_done(&c);
}

static void dns_mode_says_who_has_its_services_name(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'intranet':'DNS'"));
    co_json_set(c.objects[TK_SERVICES], "x",
        tk_json("{'metadata':{'name':'x','namespace':'ns','uid':'theirs'}}"));
    expect_status(&c, "reason", "NameTaken");
    expect_actions(&c, "create ConfigMap x; create Pod x-worker-0");
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
        CO_AUTOJSON json_t *data = plan_env(c.seen_job, &c.seen, &c.settings);
        assert_string_equal(co_json_str(data, "PADDLE_TRAINERS"), rows[i].host);
        assert_string_equal(
            rows[i].family ? co_json_str(data, "POD_IP_WORKER_0") : rows[i].host, rows[i].host);
        assert_int_equal(json_object_get(data, "POD_IP_WORKER_0") != NULL, rows[i].family != 0);
        const char *list = co_json_str(data, "PADDLE_TRAINER_ENDPOINTS");
        assert_memory_equal(list, rows[i].start, strlen(rows[i].start));
    }
    tk_done(&c);
}

static void a_family_that_is_chosen_later_reaches_recreated_pods(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'intranet':'Host'"));
    rest(&c);
    run_all(&c);
    expect_actions(&c, "");
    c.settings.prefer_family = 4; /* the one that it has */
    expect_actions(&c, "patch ConfigMap x");
    rest(&c);
    const json_t *map = json_object_get(c.objects[TK_CONFIGMAPS], "x");
    assert_string_equal(co_json_str(map, "data", "POD_IP_WORKER_0"), "10.0.0.1");
    c.settings.prefer_family = 0;
    expect_actions(&c, "");
    set_replicas(&c, "worker", 0);
    rest(&c);
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
        uint16_t port = plan_port(uid, taken, n);
        assert_int_equal((port - CO_PORT_BASE) % CO_PORT_SPAN, 0);
        assert_in_range(port, CO_PORT_BASE, CO_PORT_BASE + CO_PORT_SPAN * (CO_PORT_SLOTS - 1));
        for (size_t j = 0; j < n; j++) {
            assert_int_not_equal(port, taken[j]);
        }
        taken[n++] = port;
    }
    /* Earlier versions took any port: twenty from there are theirs. */
    uint16_t first = plan_port("u", NULL, 0);
    for (int off = -(CO_PORT_SPAN - 1); off < CO_PORT_SPAN; off++) {
        uint16_t theirs = (uint16_t)(first + off);
        assert_int_not_equal(plan_port("u", &theirs, 1), first);
    }
    uint16_t beside[] = {(uint16_t)(first - CO_PORT_SPAN), (uint16_t)(first + CO_PORT_SPAN)};
    assert_int_equal(plan_port("u", beside, 2), first);
    assert_int_equal(plan_port("u", NULL, 0), plan_port("u", NULL, 0));
}

static void a_live_jobs_port_stays(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1) ",'intranet':'Host'"));
    rest(&c);
    run_all(&c);
    uint16_t taken[] = {plan_port("uid-x", NULL, 0)};
    tk_look(&c);
    c.seen.ports_taken = taken;
    c.seen.n_ports_taken = 1;
    PLAN_AUTOPLAN struct plan plan = {0};
    assert_int_equal(plan_compute(c.seen_job, &c.seen, c.now, &c.settings, &plan, NULL), 0);
    assert_int_equal(plan.n_actions, 0);
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    tk_look(&c);
    c.seen.ports_taken = taken;
    c.seen.n_ports_taken = 1;
    CO_AUTOJSON json_t *env = plan_env(c.seen_job, &c.seen, &c.settings);
    CO_AUTOFREE char *port = co_xasprintf("%u", taken[0]);
    assert_string_not_equal(co_json_str(env, "PADDLE_PORT"), port);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_ip_mode_publishes_with_the_last_address),
        cmocka_unit_test(large_pods_are_made_in_parts),
        cmocka_unit_test(service_mode_creates_everything_at_once),
        cmocka_unit_test(dns_mode_has_one_service_a_job),
        cmocka_unit_test(dns_mode_says_who_has_its_services_name),
        cmocka_unit_test(services_for_all_modes_when_asked_for),
        cmocka_unit_test(variables_are_there_when_their_role_is),
        cmocka_unit_test(ipv6_addresses_stand_in_brackets_and_the_family_can_be_chosen),
        cmocka_unit_test(a_family_that_is_chosen_later_reaches_recreated_pods),
        cmocka_unit_test(every_value_passes_the_contract),
        cmocka_unit_test(ports_are_spread_and_keep_out_of_each_others_way),
        cmocka_unit_test(a_live_jobs_port_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
