/* Golden rows: pods whose node does not answer. */
#include "operator/plan/expect_testing.h"

#define WORKERS TK_ROLE("worker", 2)
/* A minute before the tests' clock begins. */
#define SINCE "1970-01-12T13:45:40Z"
/* As the API server has it when a node died: all but Ready is as kubelet left it. */
#define SILENT_READY(rest)                                                                         \
    "{'phase':'Running','podIP':'10.0.0.2','conditions':["                                         \
    "{'type':'ContainersReady','status':'True'},"                                                  \
    "{'type':'Ready','status':'False','lastTransitionTime':'" SINCE "'" rest "}],"                 \
    "'containerStatuses':[{'name':'main','ready':true,'state':{'running':{}}}]}"
#define SILENT SILENT_READY("")

static void place(struct tk_cluster *c, const char *name, const char *node) {
    json_t *pod = json_object_get(c->objects[TK_PODS], name);
    co_json_set(json_object_get(pod, "spec"), "nodeName", json_string(node));
}

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    const char *name;
    json_t *pod;
    json_object_foreach(c.objects[TK_PODS], name, pod) {
        place(&c, name, "n1");
    }
    return c;
}

static void mark_deleted(struct tk_cluster *c, const char *name) {
    json_t *meta = json_object_get(json_object_get(c->objects[TK_PODS], name), "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-12T13:46:00Z"));
}

static const char said[] = "pod x-worker-1: node n1 does not answer since " SINCE;

static void a_pod_of_a_dead_node_is_unknown_and_named(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(WORKERS);
    tk_pod_status(&c, "x-worker-1", SILENT);
    expect_status(&c, "worker.unknown", "1");
    expect_status(&c, "worker.running", "1");
    expect_status(&c, "readyWorker", "1/2");
    expect_status(&c, "phase", "Starting");
    expect_status(&c, "reason", "NodeLost");
    expect_status(&c, "message", said);
    CO_AUTOFREE char *condition = co_xasprintf("False NodeLost %s", said);
    CO_AUTOFREE char *event = co_xasprintf("!NodeLost: %s", said);
    expect_condition(&c, "Running", condition);
    expect_events(&c, event);
    expect_actions(&c, "");
    rest(&c);
    expect_events(&c, "");
    tk_pod_status(&c, "x-worker-0", SILENT); /* the others follow in seconds, which is no news */
    expect_events(&c, "");
    tk_pod_status(&c, "x-worker-0", RUNS);
    c.now += 3600;
    expect_actions(&c, ""); /* no policy: the eviction is waited for */
    tk_pod_status(&c, "x-worker-1", RUNS);
    expect_status(&c, "phase", "Running");
    expect_status(&c, "worker.unknown", "");
    expect_events(&c, "Running: all 2 pods are running");
    tk_done(&c);
}

/* Kubelet, which is well, says why a pod is not ready. */
static void a_pod_that_is_not_ready_is_not_lost(void **state) {
    (void)state;
    static const struct {
        const char *status;
        const char *reason, *unknown;
    } rows[] = {
        {SILENT, "NodeLost", "1"},
        {SILENT_READY(",'reason':''"), "NodeLost", "1"},
        {SILENT_READY(",'reason':'NodeNotReady'"), "NodeLost", "1"},
        {SILENT_READY(",'reason':'ReadinessGatesNotReady'"), "", ""},
        {"{'phase':'Running','conditions':[{'type':'ContainersReady','status':'False'},"
         "{'type':'Ready','status':'False'}],'containerStatuses':[{'name':'main','ready':false,"
         "'state':{'running':{}}}]}",
            "", ""},
        {"{'phase':'Pending','conditions':[{'type':'Ready','status':'False',"
         "'reason':'ContainersNotReady'}]}",
            "", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(WORKERS);
        tk_pod_status(&c, "x-worker-1", rows[i].status);
        expect_status(&c, "reason", rows[i].reason);
        expect_status(&c, "worker.unknown", rows[i].unknown);
        tk_done(&c);
    }
}

static void lost_pods_above_one_are_counted(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TK_ROLE("ps", 1) "," TK_ROLE("worker", 2));
    tk_pod_status(&c, "x-ps-0", SILENT);
    tk_pod_status(&c, "x-worker-0", SILENT);
    expect_status(&c, "message", "pod x-ps-0 (and 1 more): node n1 does not answer since " SINCE);
    tk_done(&c);
}

/* Where nobody gives the pod up, the job's message says what ends the wait. */
static void an_evicted_pod_of_a_dead_node_is_named(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(WORKERS ",'backoffLimit':1");
    tk_pod_status(&c, "x-worker-1", SILENT);
    rest(&c);
    mark_deleted(&c, "x-worker-1");
    expect_status(&c, "message", "restart that is not counted: pod x-worker-1 was deleted");
    (void)tk_pass(&c);
    CO_AUTOFREE char *waits =
        co_xasprintf("%s: the pod ends when the node is back or is deleted (kubectl delete node "
                     "n1); nodeLostAfter ends it sooner",
            said);
    expect_status(&c, "message", waits);
    tk_done(&c);
}

static void a_lost_pod_restarts_the_group_when_its_time_is_over(void **state) {
    (void)state;
    static const char *const policies[] = {
        ",'nodeLostAfter':90", ",'nodeLostAfter':90,'backoffLimit':0"};
    for (size_t i = 0; i < CO_ARRAY_LEN(policies); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(WORKERS "%s", policies[i]);
        struct tk_cluster c = running_cluster(spec);
        tk_pod_status(&c, "x-worker-1", SILENT);
        rest(&c);
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan(&c, &plan);
        assert_int_equal(plan.wake_at, c.now + 30); /* it has been silent for a minute */
        expect_actions(&c, "");
        c.now += 30;
        expect_status(&c, "phase", "Restarting");
        expect_status(&c, "restarts", "0");
        CO_AUTOFREE char *why = co_xasprintf("restart that is not counted: %s", said);
        expect_status(&c, "message", why);
        (void)tk_pass(&c);
        /* By force: kubelet will not say that it has ended. */
        plan_done(&plan);
        tk_plan(&c, &plan);
        CO_AUTOFREE char *text = tk_actions(&plan);
        assert_string_equal(
            text, "delete Pod x-worker-0; delete Pod x-worker-1; delete ConfigMap x");
        assert_false(plan.actions[0].at_once);
        assert_true(plan.actions[1].at_once);
        rest(&c);
        bury(&c);
        c.now += 10;
        expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
        tk_done(&c);
    }
}

/* It was deleted by somebody else before. */
static void an_evicted_pod_is_given_up_once(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(WORKERS ",'nodeLostAfter':60");
    tk_pod_status(&c, "x-worker-1", SILENT);
    mark_deleted(&c, "x-worker-1");
    (void)tk_pass(&c);
    expect_actions(&c, "delete Pod x-worker-0; delete Pod x-worker-1; delete ConfigMap x");
    json_t *pod = json_object_get(c.objects[TK_PODS], "x-worker-1");
    co_json_set(json_object_get(pod, "metadata"), "deletionGracePeriodSeconds", json_integer(0));
    expect_actions(&c, "delete Pod x-worker-0; delete ConfigMap x");
    tk_done(&c);
}

/* Its failure is the node's, and not counted. */
static void a_pod_that_fails_because_of_a_lost_peer_restarts_the_group(void **state) {
    (void)state;
    static const struct {
        const char *policy, *phase, *restarts;
    } rows[] = {
        {",'nodeLostAfter':600", "Restarting", "0"},
        {",'backoffLimit':1", "Restarting", "0"},
        {"", "Failed", "0"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(WORKERS "%s", rows[i].policy);
        struct tk_cluster c = running_cluster(spec);
        tk_pod_status(&c, "x-worker-1", SILENT);
        tk_pod_status(&c, "x-worker-0", BROKEN);
        expect_status(&c, "phase", rows[i].phase);
        expect_status(&c, "restarts", rows[i].restarts);
        tk_done(&c);
    }
}

static void an_elastic_group_continues_without_its_lost_pod(void **state) {
    (void)state;
    struct tk_cluster c =
        running_cluster(WORKERS ",'elastic':1,'intranet':'Service','nodeLostAfter':60");
    tk_pod_status(&c, "x-worker-1", SILENT);
    expect_status(&c, "attempt", "");
    expect_actions(&c, "delete Pod x-worker-1");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_actions(&c, "create Pod x-worker-1");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_of_a_dead_node_is_unknown_and_named),
        cmocka_unit_test(a_pod_that_is_not_ready_is_not_lost),
        cmocka_unit_test(lost_pods_above_one_are_counted),
        cmocka_unit_test(an_evicted_pod_of_a_dead_node_is_named),
        cmocka_unit_test(a_lost_pod_restarts_the_group_when_its_time_is_over),
        cmocka_unit_test(an_evicted_pod_is_given_up_once),
        cmocka_unit_test(a_pod_that_fails_because_of_a_lost_peer_restarts_the_group),
        cmocka_unit_test(an_elastic_group_continues_without_its_lost_pod),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
