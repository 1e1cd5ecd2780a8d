/* A lease holder that dies between the status and its Event: the next one makes the same Event. */
#include "operator/plan/expect_testing.h"

enum { LATER = 20 };

/* The event of this reason that a plan would emit now; its reason is NULL: none. */
static struct plan_event event_now(struct tk_cluster *c, const char *reason) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    struct plan_event found = {0};
    for (size_t i = 0; i < plan.n_events; i++) {
        if (strcmp(plan.events[i].reason, reason) == 0) {
            assert_null(found.reason);
            found = plan.events[i];
            found.message = co_xstrdup(found.message);
        }
    }
    return found;
}

/* The state that the next plan stores is reported by the same Event later on. */
static void expect_same_event(struct tk_cluster *c, const char *reason) {
    struct plan_event first = event_now(c, reason);
    assert_non_null(first.reason);
    assert_true(first.id);
    assert_true(tk_pass(c)); /* the status is written */
    assert_null(event_now(c, reason).reason);
    c->now += LATER;
    c->led_from = c->now;
    struct plan_event again = event_now(c, reason);
    assert_non_null(again.reason);
    assert_string_equal(again.message, first.message);
    assert_true(again.id == first.id);
    assert_true(again.state && again.warning == first.warning);
    c->reported = true;
    assert_null(event_now(c, reason).reason);
    c->reported = false;
    c->led_from = c->now - 2 * LATER; /* it was this holder's own write */
    assert_null(event_now(c, reason).reason);
    c->led_from = c->now + 3600; /* long ago */
    assert_null(event_now(c, reason).reason);
    c->led_from = 0;
    free(first.message);
    free(again.message);
}

static struct tk_cluster cluster_of(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job =
        co_xasprintf(TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 1) "%s"), spec);
    tk_init(&c, job);
    rest(&c);
    return c;
}

static void set_all(struct tk_cluster *c, const char *ps, const char *worker) {
    tk_pod_status(c, "x-ps-0", ps);
    tk_pod_status(c, "x-worker-0", worker);
}

static void each_state_has_one_event_whoever_writes_it(void **state) {
    (void)state;
    struct tk_cluster c = cluster_of(",'backoffLimit':3,'intranet':'Service'");
    set_all(&c, RUNS, RUNS);
    expect_same_event(&c, "Running");
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_same_event(&c, "Restarting");
    rest(&c);
    bury(&c);
    c.now += 10;
    rest(&c);
    set_all(&c, RUNS, RUNS);
    expect_same_event(&c, "Running");
    tk_pod_status(&c, "x-worker-0", BROKEN);
    expect_same_event(&c, "Restarting"); /* the second of three */
    set_spec(&c, "suspend", json_true());
    expect_same_event(&c, "Suspended");
    rest(&c);
    bury(&c);
    set_spec(&c, "suspend", json_false());
    expect_same_event(&c, "Resumed");
    rest(&c);
    set_all(&c, RUNS, DONE);
    expect_same_event(&c, "Completing");
    c.now += 60;
    expect_same_event(&c, "Completed");
    tk_done(&c);
}

static void a_failed_job_has_one_event_whoever_writes_it(void **state) {
    (void)state;
    struct tk_cluster c = cluster_of(",'intranet':'Service'");
    set_all(&c, RUNS, BROKEN); /* the server stays, and the event names it */
    expect_same_event(&c, "Failed");
    tk_done(&c);
}

static void a_notice_has_one_event_whoever_writes_it(void **state) {
    (void)state;
    struct tk_cluster c = cluster_of(",'intranet':'Service'");
    set_all(&c, RUNS, RUNS);
    rest(&c);
    set_spec(&c, "cleanPodPolicy", json_string("Sometimes"));
    expect_same_event(&c, "UnknownValue");
    tk_done(&c);
}

/* Or the API server would take the second for the first. */
static void a_state_that_returns_is_another_event(void **state) {
    (void)state;
    struct tk_cluster c = cluster_of(",'intranet':'Service'");
    set_all(&c, RUNS, RUNS);
    struct plan_event first = event_now(&c, "Running");
    rest(&c);
    c.now += LATER;
    tk_pod_status(&c, "x-worker-0", UNREADY);
    rest(&c);
    tk_pod_status(&c, "x-worker-0", RUNS);
    struct plan_event second = event_now(&c, "Running");
    assert_true(first.id && second.id > first.id);
    free(first.message);
    free(second.message);
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_state_has_one_event_whoever_writes_it),
        cmocka_unit_test(a_failed_job_has_one_event_whoever_writes_it),
        cmocka_unit_test(a_notice_has_one_event_whoever_writes_it),
        cmocka_unit_test(a_state_that_returns_is_another_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
