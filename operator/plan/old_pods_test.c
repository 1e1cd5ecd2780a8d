/* Golden rows: what a suspended job says of pods that have not ended. */
#include "operator/plan/expect_testing.h"

#define DELETED_AT "1970-01-12T13:47:10Z" /* its grace period is over: 30 s after the beginning */
#define STAYS                                                                                      \
    "spec.suspend is true; pod x-worker-1 should have ended over 60 s ago: its containers "
#define RUN_ON STAYS "may still run: is its node lost?; kubectl get pod x-worker-1 -n ns -o wide"
#define KEPT                                                                                       \
    STAYS "have ended: does a finalizer keep it?; kubectl get pod x-worker-1 -n ns -o "            \
          "jsonpath={.metadata.finalizers}"
#define DENIED "admission webhook \"keep.example.com\" denied the request: budget"

/* Its pods are being deleted, and x-worker-0 has gone. */
static struct tk_cluster suspended(void) {
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    return c;
}

static json_t *metadata(struct tk_cluster *c) {
    return co_json_at(c->objects[TK_PODS], "x-worker-1", "metadata");
}

static int64_t wakes_in(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    return plan.wake_at ? plan.wake_at - c->now : 0;
}

static void a_suspended_job_names_a_pod_that_stays(void **state) {
    (void)state;
    struct tk_cluster c = suspended();
    co_json_set(metadata(&c), "deletionTimestamp", json_string("unknown"));
    assert_int_equal(wakes_in(&c), 60);
    co_json_set(metadata(&c), "deletionTimestamp", json_string(DELETED_AT));
    assert_int_equal(wakes_in(&c), 90);
    c.now += 89;
    expect_status(&c, "message", "spec.suspend is true");
    c.now++;
    expect_status(&c, "reason", "JobSuspended");
    expect_status(&c, "message", RUN_ON);
    expect_condition(&c, "Suspended", "True JobSuspended " RUN_ON);
    rest(&c);
    assert_int_equal(wakes_in(&c), 0);
    tk_pod_status(&c, "x-worker-1", BROKEN);
    expect_status(&c, "message", KEPT);
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_status(&c, "message", "spec.suspend is true");
    tk_done(&c);
}

static void a_suspended_job_says_why_a_pod_is_not_deleted(void **state) {
    (void)state;
    struct tk_cluster c = suspended();
    json_object_del(metadata(&c), "deletionTimestamp");
    c.failures[0] = (struct plan_failure){.verb = PLAN_CREATE, /* from before the suspension */
        .kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .message = "exceeded quota"};
    c.failures[1] = (struct plan_failure){.verb = PLAN_DELETE,
        .kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = DENIED,
        .retry_at = c.now + 30};
    c.n_failures = 2;
    expect_status(&c, "reason", "JobSuspended");
    expect_status(&c, "message", "spec.suspend is true; pod x-worker-1 is not deleted: " DENIED);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspended_job_names_a_pod_that_stays),
        cmocka_unit_test(a_suspended_job_says_why_a_pod_is_not_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
