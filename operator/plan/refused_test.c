/* A job that the API server lets have only a part of its pods does not keep them forever. */
#include "operator/plan/expect_testing.h"

/* The clusters' clock begins at 1000000 s, 1970-01-12T13:46:40Z. */
#define BEGIN "1970-01-12T13:46:40Z"
#define QUOTA "pods \"x-worker-1\" is forbidden: exceeded quota: q"
#define WAIT 60

/* Two workers, of which one has a pod, created when the clock began; the other is rejected. */
static void half(struct tk_cluster *c, const char *more) {
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB(TK_ROLE("worker", 2) "%s"), more);
    tk_init(c, job);
    c->settings.give_back_after = WAIT;
    rest(c);
    (void)json_object_del(c->objects[TK_PODS], "x-worker-1");
    co_json_set(co_json_at(c->objects[TK_PODS], "x-worker-0", "metadata"), "creationTimestamp",
        json_string(BEGIN));
    tk_pod_status(c, "x-worker-0", GATED);
    c->failures[0] = (struct plan_failure){.verb = PLAN_CREATE,
        .kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = QUOTA,
        .count = 3,
        .retry_at = c->now + 10000};
    c->n_failures = 1;
}

/* The same with what the controller adds, which tk_look does not know. */
static void plan(struct tk_cluster *c, bool elder, struct plan *ret) {
    tk_look(c);
    c->seen.elder_waits = elder;
    assert_int_equal(plan_compute(c->seen_job, &c->seen, c->now, &c->settings, ret, NULL), 0);
}

static bool gives_back(struct tk_cluster *c, bool elder) {
    PLAN_AUTOPLAN struct plan p = {0};
    plan(c, elder, &p);
    return json_integer_value(json_object_get(p.status, "attempt")) == 1;
}

static int64_t wakes_at(struct tk_cluster *c, bool elder) {
    PLAN_AUTOPLAN struct plan p = {0};
    plan(c, elder, &p);
    return p.wake_at;
}

static void the_younger_job_gives_its_pods_back_first(void **state) {
    (void)state;
    struct tk_cluster c;
    half(&c, "");
    assert_int_equal(wakes_at(&c, true), 1000000 + WAIT);
    assert_int_equal(wakes_at(&c, false), 1000000 + 5 * WAIT);
    c.now += WAIT - 1;
    assert_false(gives_back(&c, true));
    c.now++;
    assert_true(gives_back(&c, true));
    assert_false(gives_back(&c, false));
    c.now = 1000000 + 5 * WAIT;
    assert_true(gives_back(&c, false));
    tk_done(&c);
}

static void giving_pods_back_is_reported_and_creates_are_retried(void **state) {
    (void)state;
    struct tk_cluster c;
    half(&c, "");
    c.now += 5 * WAIT;
    const char *said =
        "gives 1 pod back, as nothing was created for 300 s, and tries again in 30 s: "
        "Pod x-worker-1: " QUOTA;
    CO_AUTOFREE char *event = co_xasprintf("!GaveBack: %s", said);
    CO_AUTOFREE char *condition = co_xasprintf("True GaveBack %s", said);
    expect_events(&c, event);
    expect_condition(&c, "GaveBack", condition);
    expect_actions(&c, ""); /* first it is stored */
    assert_true(tk_pass(&c));
    expect_actions(&c, "delete Pod x-worker-0");
    rest(&c);
    bury(&c);
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "GaveBack");
    expect_condition(&c, "GaveBack", condition);
    expect_condition(&c, "Blocked", condition);
    expect_events(&c, "");
    expect_actions(&c, "");
    assert_int_equal(wakes_at(&c, false), c.now + 30);
    c.n_failures = 0;
    c.now += 30;
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    assert_true(tk_pass(&c));
    expect_status(&c, "reason", "");
    CO_AUTOFREE char *over = co_xasprintf("False GaveBack %s", said);
    expect_condition(&c, "GaveBack", over);
    tk_done(&c);
}

static void the_backoff_after_giving_pods_back_doubles(void **state) {
    (void)state;
    struct tk_cluster c;
    half(&c, "");
    co_json_set(c.job, "status", tk_json("{'phase':'Pending','backoffSeconds':20}"));
    c.now += 5 * WAIT;
    expect_status(&c, "backoffSeconds", "40");
    tk_done(&c);
}

static void useful_pods_are_not_given_back(void **state) {
    (void)state;
    static const struct {
        const char *spec, *pod; /* of worker 0 */
        enum plan_verb verb;
        int code;
        int64_t after;
    } rows[] = {
        {"", "{'phase':'Running'}", PLAN_CREATE, CO_PERMISSION, WAIT}, /* training has begun */
        {"", TK_SUCCEEDED("10.0.0.1"), PLAN_CREATE, CO_PERMISSION, WAIT},
        {",'elastic':1", GATED, PLAN_CREATE, CO_PERMISSION,
            WAIT},                                 /* it starts with what there is */
        {"", GATED, PLAN_CREATE, CO_EXISTS, WAIT}, /* a name that is taken */
        {"", GATED, PLAN_CREATE, CO_PERMISSION, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        half(&c, rows[i].spec);
        c.settings.give_back_after = rows[i].after;
        c.failures[0].verb = rows[i].verb;
        c.failures[0].code = rows[i].code;
        tk_pod_status(&c, "x-worker-0", rows[i].pod);
        c.now += 100 * WAIT;
        assert_false(gives_back(&c, true));
        tk_done(&c);
    }
}

static void pods_that_wait_for_a_service_or_the_config_map_are_given_back_too(void **state) {
    (void)state;
    static const struct {
        const char *spec, *name;
        enum plan_kind kind;
    } rows[] = {
        {",'intranet':'Service'", "x-worker-0", PLAN_KIND_SERVICE},
        {",'intranet':'DNS'", "x", PLAN_KIND_SERVICE},
        {"", "x", PLAN_KIND_CONFIGMAP},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        half(&c, rows[i].spec);
        c.failures[0].kind = rows[i].kind;
        c.failures[0].name = rows[i].name;
        json_object_clear(c.objects[TK_SERVICES]);
        json_object_clear(c.objects[TK_CONFIGMAPS]);
        c.now += WAIT;
        assert_true(gives_back(&c, true));
        tk_done(&c);
    }
}

static void refuse(struct tk_cluster *c, enum plan_kind kind, const char *name, int64_t retry_at) {
    c->failures[c->n_failures++] = (struct plan_failure){.verb = PLAN_CREATE,
        .kind = kind,
        .name = name,
        .code = CO_PERMISSION,
        .message = QUOTA,
        .count = 9,
        .retry_at = retry_at};
}

/* One create at a time, as after a rejection: a group of three is to grow by two, and has lost a
 * pod. */
static void repeatedly_rejected_objects_do_not_block_other_creates(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB("'worker':{'replicas':3,'requests':1,'limits':5," TK_TEMPLATE
                       "},'elastic':1,'intranet':'Service'"));
    rest(&c);
    run_all(&c);
    c.creates_max = 1;
    refuse(&c, PLAN_KIND_SERVICE, "x-worker-3", c.now);
    refuse(&c, PLAN_KIND_SERVICE, "x-worker-4", c.now - 1);
    refuse(&c, PLAN_KIND_POD, "x-worker-3", c.now - 2);
    refuse(&c, PLAN_KIND_POD, "x-worker-4", c.now - 3);
    set_replicas(&c, "worker", 5);
    expect_actions(
        &c, "patch ConfigMap x; create Pod x-worker-4"); /* it has waited for the longest */
    c.failures[3].retry_at = c.now;
    expect_actions(&c, "patch ConfigMap x; create Pod x-worker-3");
    c.failures[2].retry_at = c.now;
    expect_actions(&c, "patch ConfigMap x; create Service x-worker-4");
    json_object_del(c.objects[TK_PODS], "x-worker-2");
    expect_actions(&c, "patch ConfigMap x; create Pod x-worker-2");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_younger_job_gives_its_pods_back_first),
        cmocka_unit_test(giving_pods_back_is_reported_and_creates_are_retried),
        cmocka_unit_test(the_backoff_after_giving_pods_back_doubles),
        cmocka_unit_test(useful_pods_are_not_given_back),
        cmocka_unit_test(repeatedly_rejected_objects_do_not_block_other_creates),
        cmocka_unit_test(pods_that_wait_for_a_service_or_the_config_map_are_given_back_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
