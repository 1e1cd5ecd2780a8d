/* Golden rows: what a job that is suspended or has ended says of pods that stay. */
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

/* The delete of x-worker-1 was rejected, and is tried again later. */
static struct plan_failure denied(const struct tk_cluster *c) {
    return (struct plan_failure){.verb = PLAN_DELETE,
        .kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = DENIED,
        .retry_at = c->now + 30};
}

static void a_suspended_job_says_why_a_pod_is_not_deleted(void **state) {
    (void)state;
    struct tk_cluster c = suspended();
    json_object_del(metadata(&c), "deletionTimestamp");
    c.failures[0] = (struct plan_failure){.verb = PLAN_CREATE, /* from before the suspension */
        .kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .message = "exceeded quota"};
    c.failures[1] = denied(&c);
    c.n_failures = 2;
    expect_status(&c, "reason", "JobSuspended");
    expect_status(&c, "message", "spec.suspend is true; pod x-worker-1 is not deleted: " DENIED);
    tk_done(&c);
}

#define NOT_DELETED "pod x-worker-1 is not deleted: " DENIED
#define HELD                                                                                       \
    "pod x-worker-1 should have ended over 60 s ago: its containers have ended: does a finalizer " \
    "keep it?; kubectl get pod x-worker-1 -n ns -o jsonpath={.metadata.finalizers}"
#define CAUSE "after 0 restarts: pod x-worker-0, container main: exit code 3 (Error): no data"

/* What keeps the clean-up from its end is in the status until it is done, and is one event. */
static void an_ended_job_names_the_pods_that_stay(void **state) {
    (void)state;
    static const struct {
        bool fails, denied;
        const char *reason, *message, *events;
    } rows[] = {
        {false, true, "FailedDelete", NOT_DELETED, ""},
        {false, false, "WaitingForOldPods", HELD, "!WaitingForOldPods: " HELD},
        {true, true, "BackoffLimitExceeded", CAUSE "; " NOT_DELETED, ""},
        {true, false, "BackoffLimitExceeded", CAUSE "; " HELD,
            "!WaitingForOldPods: " CAUSE "; " HELD},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        tk_init(&c, TK_JOB(TK_ROLE("worker", 2) ",'cleanPodPolicy':'Always','backoffLimit':0"));
        rest(&c);
        run_all(&c);
        tk_pod_status(&c, "x-worker-1", DONE);
        tk_pod_status(&c, "x-worker-0", rows[i].fails ? BROKEN : DONE);
        assert_true(tk_pass(&c)); /* the end is stored */
        if (rows[i].denied) {
            c.failures[0] = denied(&c);
            c.n_failures = 1;
            expect_actions(&c, "delete Pod x-worker-0");
        }
        assert_int_equal(tk_pass(&c), true);
        json_object_del(c.objects[TK_PODS], "x-worker-0");
        if (!rows[i].denied) {
            co_json_set(metadata(&c), "deletionTimestamp", json_string(DELETED_AT));
            expect_status(&c, "reason", rows[i].fails ? rows[i].reason : "");
            expect_status(&c, "keptPod", "");
            assert_int_equal(wakes_in(&c), 90);
            c.now += 90;
        }
        expect_status(&c, "reason", rows[i].reason);
        expect_status(&c, "message", rows[i].message);
        expect_status(&c, "phase", rows[i].fails ? "Failed" : "Completed");
        expect_status(&c, "keptPod", rows[i].denied ? "" : "x-worker-1");
        expect_events(&c, rows[i].events);
        rest(&c);
        expect_events(&c, "");
        json_object_del(c.objects[TK_PODS], "x-worker-1");
        c.n_failures = 0;
        expect_status(&c, "keptPod", "");
        expect_status(&c, "reason", rows[i].fails ? rows[i].reason : "");
        expect_status(&c, "message", rows[i].fails ? CAUSE : "");
        tk_done(&c);
    }
}

/* A pod beyond replicas that a webhook keeps. */
static void a_job_that_shrinks_says_why_a_pod_is_not_deleted(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2)));
    rest(&c);
    run_all(&c);
    set_replicas(&c, "worker", 1);
    c.failures[0] = denied(&c);
    c.n_failures = 1;
    expect_status(&c, "phase", "Running");
    expect_status(&c, "reason", "FailedDelete");
    expect_status(&c, "message", NOT_DELETED);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspended_job_names_a_pod_that_stays),
        cmocka_unit_test(a_suspended_job_says_why_a_pod_is_not_deleted),
        cmocka_unit_test(an_ended_job_names_the_pods_that_stay),
        cmocka_unit_test(a_job_that_shrinks_says_why_a_pod_is_not_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
