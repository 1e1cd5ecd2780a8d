/* Golden rows: no condition claims what has not happened. */
#include "operator/plan/expect_testing.h"

#define TWO TK_ROLE("worker", 2)
#define NO_WORKERS                                                                                 \
    "spec.worker.replicas is 0, so that the job has no pods; name a role with replicas and a "     \
    "template"
#define QUOTA "pods \"x-worker-1\" is forbidden: exceeded quota: q"
#define TIME_IS_UP "the job was active for 100 s, all that activeDeadlineSeconds allows"
#define REFUSED                                                                                    \
    "; it did not run: QuotaExceeded: Pod x-worker-1: pods \"x-worker-1\" is forbidden: exceeded " \
    "quota: q"

static struct tk_cluster begin(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    co_json_set(json_object_get(c.job, "metadata"), "creationTimestamp",
        json_string("1970-01-12T13:46:40Z"));
    return c;
}

/* From now on the API server rejects x-worker-1. */
static void reject(struct tk_cluster *c) {
    c->failures[0] = (struct plan_failure){.kind = PLAN_KIND_POD,
        .name = "x-worker-1",
        .code = CO_PERMISSION,
        .message = QUOTA,
        .count = 1,
        .retry_at = c->now + 1000};
    c->n_failures = 1;
}

static void where_no_pod_is_needed_none_was_created(void **state) {
    (void)state;
    struct tk_cluster c = begin(TK_ROLE("worker", 0) ",'activeDeadlineSeconds':100");
    rest(&c);
    expect_condition(&c, "Created", "False NoPods " NO_WORKERS);
    expect_status(&c, "phase", "Running"); /* as upstream's */
    expect_status(&c, "startTime", "");
    set_replicas(&c, "worker", 1);
    expect_condition(&c, "Created", "False Creating ");
    rest(&c);
    run_all(&c);
    expect_condition(&c, "Created", "True PodsCreated ");
    set_replicas(&c, "worker", 0);
    rest(&c);
    expect_condition(&c, "Created", "False NoPods " NO_WORKERS);
    tk_done(&c);
    c = begin("'cleanPodPolicy':7," TWO);
    rest(&c);
    expect_condition(&c, "Created", "False InvalidSpec spec.cleanPodPolicy is not a string");
    tk_done(&c);
}

static void a_job_that_ends_before_all_pods_are_there_says_so(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'activeDeadlineSeconds':100");
    reject(&c);
    rest(&c);
    expect_condition(&c, "Created", "False QuotaExceeded Pod x-worker-1: " QUOTA);
    c.now += 100;
    rest(&c);
    expect_status(&c, "phase", "Failed");
    expect_condition(&c, "Created", "False DeadlineExceeded " TIME_IS_UP REFUSED);
    expect_condition(&c, "Blocked", "False DeadlineExceeded ");
    tk_done(&c);
    c = begin(TWO ",'activeDeadlineSeconds':100");
    rest(&c);
    c.now += 100;
    rest(&c);
    expect_status(&c, "phase", "Failed");
    expect_condition(&c, "Created", "True PodsCreated ");
    tk_done(&c);
}

static void pods_that_are_to_go_are_not_being_created(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO);
    reject(&c);
    rest(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    expect_condition(&c, "Created", "False JobSuspended spec.suspend is true");
    expect_condition(&c, "Blocked", "False JobSuspended ");
    bury(&c);
    c.n_failures = 0;
    set_spec(&c, "suspend", json_false());
    expect_condition(&c, "Created", "False Creating ");
    rest(&c);
    expect_condition(&c, "Created", "True PodsCreated ");
    tk_done(&c);
}

static void while_a_pod_is_lacking_not_all_run(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO);
    rest(&c);
    run_all(&c);
    expect_condition(&c, "Running", "True AllPodsRunning ");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_condition(&c, "Running", "True SomePodsRunning ");
    reject(&c);
    rest(&c);
    expect_condition(&c, "Running", "True SomePodsRunning Pod x-worker-1: " QUOTA);
    tk_done(&c);
}

#define LOST_ONE "restart that is not counted: pod x-worker-1 was deleted"

/* The pods of a group know each other, whatever somebody edits meanwhile: a new pod alone would
 * have an address that none of the others knows. */
static void an_invalid_spec_takes_nothing_back(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'backoffLimit':2");
    rest(&c);
    run_all(&c);
    set_spec(&c, "cleanPodPolicy", json_integer(7));
    rest(&c);
    expect_condition(&c, "Blocked", "True InvalidSpec spec.cleanPodPolicy is not a string");
    expect_condition(&c, "Created", "True PodsCreated ");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_status(&c, "phase", "Restarting");
    expect_condition(&c, "Created", "False PodDeleted " LOST_ONE);
    tk_done(&c);
    c = begin(TWO);
    rest(&c);
    run_all(&c);
    set_spec(&c, "cleanPodPolicy", json_integer(7));
    rest(&c);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    expect_condition(&c, "Succeeded", "True AllPodsSucceeded ");
    expect_condition(&c, "Created", "True PodsCreated ");
    tk_done(&c);
}

static void a_group_that_cannot_grow_still_restarts_as_a_whole(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'backoffLimit':2");
    rest(&c);
    run_all(&c);
    set_replicas(&c, "worker", 3);
    reject(&c);
    c.failures[0].name = "x-worker-2";
    rest(&c);
    expect_condition(&c, "Created", "False QuotaExceeded Pod x-worker-2: " QUOTA);
    expect_status(&c, "phase", "Running");
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "message", "restart that is not counted: pod x-worker-0 was deleted");
    tk_done(&c);
}

/* Some of the new pods came, and others are rejected: whichever of the group is lost, the rest
 * knows addresses that nobody has any more. */
static void a_group_that_grew_in_part_restarts_as_a_whole(void **state) {
    (void)state;
    static const char *const lost[] = {"x-worker-0", "x-worker-2"};
    for (size_t i = 0; i < CO_ARRAY_LEN(lost); i++) {
        struct tk_cluster c = begin(TWO ",'backoffLimit':2");
        rest(&c);
        run_all(&c);
        expect_status(&c, "worker.createdIndexes", "0-1");
        set_replicas(&c, "worker", 5);
        reject(&c);
        c.failures[1] = c.failures[0];
        c.failures[0].name = "x-worker-3";
        c.failures[1].name = "x-worker-4";
        c.n_failures = 2;
        rest(&c);
        run_all(&c);
        expect_status(&c, "phase", "Pending");
        expect_status(&c, "worker.createdIndexes", "0-2");
        c.n_failures = 1; /* the next one comes, out of order */
        c.failures[0].name = "x-worker-3";
        rest(&c);
        expect_status(&c, "worker.createdIndexes", "0-2,4");
        json_object_del(c.objects[TK_PODS], lost[i]);
        CO_AUTOFREE char *why =
            co_xasprintf("restart that is not counted: pod %s was deleted", lost[i]);
        expect_status(&c, "phase", "Restarting");
        expect_status(&c, "message", why);
        expect_status(&c, "worker.createdIndexes", "");
        tk_done(&c);
    }
}

/* All pods deleted by label, or their nodes by an autoscaler. */
static void a_group_of_which_nothing_is_left_restarts_as_a_whole(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'backoffLimit':0");
    rest(&c);
    run_all(&c);
    json_object_clear(c.objects[TK_PODS]);
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "restarts", "0");
    assert_true(tk_pass(&c)); /* the attempt is stored */
    expect_actions(&c, "delete ConfigMap x");
    rest(&c);
    c.now += 10;
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    tk_done(&c);
    c = begin(TWO);
    rest(&c);
    run_all(&c);
    json_object_clear(c.objects[TK_PODS]);
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1"); /* as upstream */
    tk_done(&c);
}

/* Before any of them has started, nobody knows the lost one. */
static void a_pod_that_is_lost_before_the_start_is_replaced_alone(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'backoffLimit':2");
    rest(&c);
    expect_status(&c, "worker.createdIndexes", "0-1");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    reject(&c);
    rest(&c);
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "worker.createdIndexes", "0");
    tk_pod_status(&c, "x-worker-0", RUNS);
    rest(&c);
    expect_status(&c, "attempt", "");
    c.n_failures = 0;
    expect_actions(&c, "create Pod x-worker-1");
    tk_done(&c);
}

/* Their operator stored how many there were. */
static void a_status_of_an_earlier_version_says_what_the_attempt_has_had(void **state) {
    (void)state;
    for (int grows = 0; grows < 2; grows++) {
        struct tk_cluster c = begin(TWO ",'backoffLimit':2");
        rest(&c);
        run_all(&c);
        if (grows) {
            set_replicas(&c, "worker", 3);
            reject(&c);
            c.failures[0].name = "x-worker-2";
            rest(&c);
        }
        json_object_del(co_json_at(c.job, "status", "worker"), "createdIndexes");
        json_object_del(c.objects[TK_PODS], "x-worker-1");
        expect_status(&c, "phase", "Restarting");
        tk_done(&c);
    }
}

/* Neither the words for its success nor what its pods had can come true afterwards. */
static void an_edit_after_the_end_changes_no_condition(void **state) {
    (void)state;
    struct tk_cluster c = begin(TWO ",'successPolicy':'Worker0'");
    rest(&c);
    run_all(&c);
    set_spec(&c, "intranet", json_string("Service"));
    rest(&c);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    rest(&c);
    expect_condition(&c, "Succeeded", "True Worker0Succeeded ");
    expect_condition(&c, "SpecChanged", "False Completed ");
    set_spec(&c, "successPolicy", json_string("AllPods"));
    set_replicas(&c, "worker", 0);
    rest(&c);
    expect_condition(&c, "Succeeded", "True Worker0Succeeded ");
    expect_condition(&c, "Created", "True PodsCreated ");
    expect_status(&c, "observedGeneration", "4");
    set_spec(&c, "elastic", json_integer(1));
    co_json_set(co_json_at(c.job, "spec", "worker"), "requests", json_integer(1));
    set_spec(&c, "intranet", json_string("Hots"));
    expect_condition(&c, "ReplicasBounded", "absent");
    expect_condition(&c, "UnknownValue", "absent");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_no_pod_is_needed_none_was_created),
        cmocka_unit_test(a_job_that_ends_before_all_pods_are_there_says_so),
        cmocka_unit_test(pods_that_are_to_go_are_not_being_created),
        cmocka_unit_test(while_a_pod_is_lacking_not_all_run),
        cmocka_unit_test(an_invalid_spec_takes_nothing_back),
        cmocka_unit_test(a_group_that_cannot_grow_still_restarts_as_a_whole),
        cmocka_unit_test(a_group_that_grew_in_part_restarts_as_a_whole),
        cmocka_unit_test(a_group_of_which_nothing_is_left_restarts_as_a_whole),
        cmocka_unit_test(a_pod_that_is_lost_before_the_start_is_replaced_alone),
        cmocka_unit_test(a_status_of_an_earlier_version_says_what_the_attempt_has_had),
        cmocka_unit_test(an_edit_after_the_end_changes_no_condition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
