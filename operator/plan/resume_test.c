/* Golden rows of a suspension and its end beside something else: a restart, pods that do not
 * terminate. */
#include "operator/plan/expect_testing.h"

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB(TK_ROLE("worker", 1) ",%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    return c;
}

static void suspend(struct tk_cluster *c, bool on) {
    set_spec(c, "suspend", json_boolean(on));
    rest(c);
}

static void a_suspension_ends_the_wait_for_a_restart(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster("'backoffLimit':3");
    tk_pod_status(&c, "x-worker-0", BROKEN);
    rest(&c);
    bury(&c);
    c.now += 3;
    expect_actions(&c, ""); /* 7 s to wait */
    suspend(&c, true);
    expect_status(&c, "restartTime", "1970-01-12T13:46:43Z");
    c.now += 2;
    set_spec(&c, "suspend", json_false());
    expect_actions(&c, "create Pod x-worker-0");
    expect_status(&c, "restartTime", "1970-01-12T13:46:43Z");
    expect_status(&c, "backoffSeconds", "10");
    tk_done(&c);
}

static void a_resumed_job_says_whom_it_waits_for(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster("'elastic':1");
    suspend(&c, true);
    c.now += 500;
    suspend(&c, false);
    expect_actions(&c, ""); /* the old pod has the name */
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "");
    c.now += 60;
    expect_status(&c, "reason", "WaitingForOldPods");
    expect_status(&c, "message",
        "pod x-worker-0 should have ended over 60 s ago, and its successor waits: its containers "
        "may still run: is its node lost?; kubectl get pod x-worker-0 -n ns -o wide");
    bury(&c);
    expect_status(&c, "reason", "");
    expect_actions(&c, "create Pod x-worker-0");
    tk_done(&c);
}

/* Were they published, a container of the old pod that kubelet starts again would read them. */
static void a_running_pod_that_may_not_be_deleted_holds_the_addresses_back(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster("'intranet':'Service'");
    suspend(&c, true);
    suspend(&c, false);
    json_object_del(co_json_at(c.objects[TK_PODS], "x-worker-0", "metadata"), "deletionTimestamp");
    c.failures[0] = (struct plan_failure){.kind = PLAN_KIND_POD,
        .name = "x-worker-0",
        .message = "denied by a webhook",
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    expect_actions(&c, "");
    c.now += 5;
    expect_actions(&c, "delete Pod x-worker-0");
    rest(&c); /* it ends: that is enough */
    assert_int_equal(json_object_size(c.objects[TK_CONFIGMAPS]), 1);
    tk_done(&c);
}

/* The deadline was lowered meanwhile: no pods are made to be deleted. */
static void a_job_that_has_no_time_left_is_not_resumed(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster("'activeDeadlineSeconds':100");
    co_json_set(json_object_get(c.job, "metadata"), "creationTimestamp",
        json_string("1970-01-12T13:46:40Z"));
    c.now += 50;
    suspend(&c, true);
    bury(&c);
    c.now += 500;
    set_spec(&c, "activeDeadlineSeconds", json_integer(50));
    expect_status(&c, "phase", "Suspended");
    set_spec(&c, "suspend", json_false());
    expect_actions(&c, "");
    expect_status(&c, "phase", "Failed");
    expect_status(&c, "reason", "DeadlineExceeded");
    set_spec(&c, "activeDeadlineSeconds", json_integer(51));
    expect_actions(&c, "create Pod x-worker-0");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspension_ends_the_wait_for_a_restart),
        cmocka_unit_test(a_resumed_job_says_whom_it_waits_for),
        cmocka_unit_test(a_running_pod_that_may_not_be_deleted_holds_the_addresses_back),
        cmocka_unit_test(a_job_that_has_no_time_left_is_not_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
