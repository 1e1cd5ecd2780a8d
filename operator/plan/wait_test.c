/* Golden rows of jobs that stand still though nobody says why. */
#include "operator/plan/expect_testing.h"

static void create(struct tk_cluster *c, const char *name, const char *when) {
    co_json_set(
        co_json_at(c->objects[TK_PODS], name, "metadata"), "creationTimestamp", json_string(when));
}

static int64_t wakes_at(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    return plan.wake_at;
}

#define MINUTE_OVER(pod, scheduler)                                                                \
    "pod " pod                                                                                     \
    " has no node over 60 s after it was created, for no stated reason: does scheduler "           \
    "\"" scheduler "\" run?"

/* The clusters' clock begins at 1000000 s, 1970-01-12T13:46:40Z. */
static void a_pod_that_nobody_schedules_or_starts_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(
        &c, TK_JOB(TK_ROLE("ps", 1) ",'worker':{'replicas':1,'template':{'spec':{"
                                    "'schedulerName':'volcano','containers':[{'name':'main'}]}}}"));
    rest(&c);
    assert_int_equal(wakes_at(&c), 0);
    create(&c, "x-ps-0", "1970-01-12T13:46:40Z");
    create(&c, "x-worker-0", "1970-01-12T13:46:41Z");
    tk_pod_status(&c, "x-ps-0", GATED);
    expect_status(&c, "reason", "WaitingForAddresses");
    assert_int_equal(wakes_at(&c), 1000060);
    tk_pod_status(&c, "x-ps-0", "{'phase':'Pending','podIP':'10.0.0.1'}");
    assert_int_equal(wakes_at(&c), 1000061);
    c.now = 1000060;
    expect_status(&c, "reason", "");
    c.now = 1000061;
    expect_status(&c, "reason", "NoAddress");
    expect_status(&c, "message", MINUTE_OVER("x-worker-0", "volcano"));
    rest(&c);
    assert_int_equal(wakes_at(&c), 0);
    /* Who says something is believed. */
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
        "'reason':'Unschedulable','message':'no nodes'}]}");
    expect_status(&c, "reason", "Unschedulable");
    tk_pod_status(&c, "x-worker-0", RUNS);
    tk_pod_status(&c, "x-ps-0", "{'phase':'Pending'}");
    expect_status(&c, "message", MINUTE_OVER("x-ps-0", "default-scheduler"));
    /* A first image may take minutes, and kubelet reports no address before it is there. */
    co_json_set(co_json_at(c.objects[TK_PODS], "x-ps-0", "spec"), "nodeName", json_string("n"));
    expect_status(&c, "message",
        "pod x-ps-0 has a node but no address over 60 s after it was created: its image is being "
        "pulled, a volume is not there, or its node is not well; kubectl describe pod x-ps-0 -n ns "
        "says which");
    tk_pod_status(&c, "x-ps-0", RUNS);
    expect_status(&c, "reason", "");
    tk_done(&c);
}

#define NOT_READY                                                                                  \
    "{'phase':'Running','podIP':'10.0.0.2','containerStatuses':[{'name':'main','ready':false,"     \
    "'state':{'running':{'startedAt':'1970-01-12T13:46:50Z'}}}]}"

/* Only events say why a probe fails. */
static void a_pod_that_does_not_become_ready_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    create(&c, "x-worker-0", "1970-01-12T13:46:40Z");
    create(&c, "x-worker-1", "1970-01-12T13:46:40Z");
    run_all(&c);
    assert_int_equal(wakes_at(&c), 0);
    tk_pod_status(&c, "x-worker-1", NOT_READY);
    assert_int_equal(wakes_at(&c), 1000060);
    expect_status(&c, "reason", "");
    c.now = 1000060;
    expect_status(&c, "reason", "NotReady");
    expect_status(&c, "message",
        "pod x-worker-1 runs but is not ready over 60 s after it was created: does a readiness or "
        "startup probe of it fail?");
    rest(&c);
    assert_int_equal(wakes_at(&c), 0);
    tk_pod_status(&c, "x-worker-1", TK_RUNNING("10.0.0.2"));
    expect_status(&c, "reason", "");
    tk_done(&c);
}

#define HELD                                                                                       \
    "{'phase':'Pending','podIP':'10.0.0.1','initContainerStatuses':[{'name':'coord-paddle',"       \
    "'state':{'running':{}}}]}"

/* The image is pulled behind the gate, and kubelet says "PodInitializing" all the while. */
static void a_pod_that_does_not_start_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    create(&c, "x-worker-0", "1970-01-12T13:46:40Z");
    create(&c, "x-worker-1", "1970-01-12T13:46:40Z");
    tk_pod_status(&c, "x-worker-0", HELD);
    c.now += 3000;
    expect_status(&c, "reason", "NoAddress"); /* of the other one */
    tk_pod_status(&c, "x-worker-1", HELD);
    rest(&c);
    expect_status(&c, "reason", "");
    json_t *meta = co_json_at(c.objects[TK_CONFIGMAPS], "x", "metadata");
    co_json_set(meta, "creationTimestamp", json_string("1970-01-12T14:36:40Z"));
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Pending','podIP':'10.0.0.1','initContainerStatuses':[{'name':'coord-paddle',"
        "'ready':true,'state':{'terminated':{'exitCode':0}}}],'containerStatuses':[{'name':'main',"
        "'ready':false,'state':{'waiting':{'reason':'PodInitializing'}}}]}");
    tk_pod_status(&c, "x-worker-1", RUNS);
    assert_int_equal(wakes_at(&c), 1003060);
    c.now = 1003059;
    expect_status(&c, "reason", "");
    c.now = 1003060;
    expect_status(&c, "reason", "NotStarted");
    expect_status(&c, "message",
        "pod x-worker-0 has an address, but its containers have not started over 60 s after it was "
        "created: an image is being pulled, a volume is not there, or an init container still "
        "runs; kubectl describe pod x-worker-0 -n ns says which");
    tk_pod_status(&c, "x-worker-0", RUNS);
    expect_status(&c, "reason", "");
    tk_done(&c);
}

#define STATUS(name, state) "{'name':'" name "','ready':false,'state':{" state "}}"
#define RUN "'running':{}"
#define END(code) "'terminated':{'exitCode':" code ",'finishedAt':'1970-01-12T13:46:40Z'}"
#define BESIDE(main, other)                                                                        \
    "{'phase':'Running','podIP':'10.0.0.1','containerStatuses':[" STATUS("a", other) "," STATUS(   \
        "main", main) "]}"

/* The classic of service meshes: training is over, the proxy is not, and the job never ends. */
static void a_pod_that_outlives_its_training_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB("'worker':{'replicas':1,'template':{'spec':{'containers':["
                       "{'name':'main'},{'name':'a'}]}}}"));
    rest(&c);
    create(&c, "x-worker-0", "1970-01-12T13:46:40Z");
    tk_pod_status(&c, "x-worker-0", BESIDE(END("0"), RUN));
    rest(&c);
    assert_int_equal(wakes_at(&c), 1000060);
    expect_status(&c, "reason", "");
    c.now = 1000060;
    expect_status(&c, "reason", "WaitingForSidecars");
    expect_status(&c, "message",
        "container main of pod x-worker-0 has ended well over 60 s ago, the others run on: those "
        "that are to end with it belong to initContainers, with restartPolicy Always");
    tk_pod_status(&c, "x-worker-0", BESIDE(RUN, END("0")));
    expect_status(&c, "reason", "NotReady"); /* the helper's end is nobody's trouble */
    tk_pod_status(&c, "x-worker-0", DONE);
    expect_status(&c, "phase", "Completed");
    tk_done(&c);
}

static void a_configmap_that_stays_after_its_deletion_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 1)));
    rest(&c);
    run_all(&c);
    json_t *meta = co_json_at(c.objects[TK_CONFIGMAPS], "x", "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-12T13:46:40Z"));
    assert_int_equal(wakes_at(&c), 1000060);
    expect_status(&c, "reason", "");
    c.now = 1000060;
    expect_status(&c, "reason", "WaitingForConfigMap");
    expect_status(&c, "message",
        "ConfigMap x was deleted over 60 s ago and is still there: does a finalizer keep it?");
    tk_done(&c);
}

static void a_pod_that_stays_after_its_deletion_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    json_t *meta = co_json_at(c.objects[TK_PODS], "x-worker-1", "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-12T13:47:10Z")); /* 30 s to end */
    assert_int_equal(wakes_at(&c), 1000090);
    c.now = 1000089;
    expect_status(&c, "reason", "");
    c.now = 1000090;
    expect_status(&c, "reason", "WaitingForOldPods");
    expect_status(&c, "message",
        "pod x-worker-1 should have ended over 60 s ago, and its successor waits: its containers "
        "may still run: is its node lost?; kubectl get pod x-worker-1 -n ns -o wide");
    expect_events(&c,
        "!WaitingForOldPods: pod x-worker-1 should have ended over 60 s ago, and its successor "
        "waits: its containers may still run: is its node lost?; kubectl get pod x-worker-1 -n ns "
        "-o wide");
    /* Nothing of it runs any more. */
    tk_pod_status(&c, "x-worker-1", BROKEN);
    expect_status(&c, "message",
        "pod x-worker-1 should have ended over 60 s ago, and its successor waits: its containers "
        "have ended: does a finalizer keep it?; kubectl get pod x-worker-1 -n ns -o "
        "jsonpath={.metadata.finalizers}");
    rest(&c);
    assert_int_equal(wakes_at(&c), 0);
    /* It had succeeded: nobody waits for it. */
    json_object_del(meta, "deletionTimestamp");
    tk_pod_status(&c, "x-worker-1", TK_SUCCEEDED("10.0.0.2"));
    rest(&c);
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-12T13:47:10Z"));
    expect_status(&c, "reason", "");
    bury(&c);
    expect_status(&c, "reason", "");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_nobody_schedules_or_starts_is_named),
        cmocka_unit_test(a_pod_that_does_not_become_ready_is_named),
        cmocka_unit_test(a_pod_that_does_not_start_is_named),
        cmocka_unit_test(a_pod_that_outlives_its_training_is_named),
        cmocka_unit_test(a_configmap_that_stays_after_its_deletion_is_named),
        cmocka_unit_test(a_pod_that_stays_after_its_deletion_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
