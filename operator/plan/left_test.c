/* Golden rows: pods that run on when their job has failed. */
#include "operator/plan/expect_testing.h"

#define HOW                                                                                        \
    "; to end them: kubectl delete pod -n ns -l batch.paddlepaddle.org/job-name=x "                \
    "--field-selector "                                                                            \
    "status.phase!=Failed,status.phase!=Succeeded"
#define CAUSE "pod x-worker-1, container main: exit code 3 (Error): no data"

static struct tk_cluster failed_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-1", BROKEN);
    return c;
}

static void remaining_pods_of_a_failed_job_are_named_until_deleted(void **state) {
    (void)state;
    static const char both[] =
        CAUSE "; still there, with all that they ask for: x-ps-0, x-worker-0" HOW;
    struct tk_cluster c = failed_cluster(TK_ROLE("ps", 1) "," TK_ROLE("worker", 2));
    expect_status(&c, "message", both);
    expect_events(&c, "!Failed: job failed: " CAUSE
                      "; still there, with all that they ask for: x-ps-0, x-worker-0" HOW);
    expect_condition(&c, "Failed", "True PodFailed " CAUSE);
    rest(&c);
    expect_actions(&c, "");
    expect_status(&c, "message", both);
    json_object_del(c.objects[TK_PODS], "x-worker-0");
    expect_status(&c, "message", CAUSE "; still there, with all that they ask for: x-ps-0" HOW);
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-ps-0");
    expect_status(&c, "message", CAUSE);
    expect_events(&c, "");
    rest(&c);
    expect_status(&c, "message", CAUSE);
    expect_condition(&c, "Failed", "True PodFailed " CAUSE);
    tk_done(&c);
}

static void remaining_pods_above_three_are_counted(void **state) {
    (void)state;
    struct tk_cluster c = failed_cluster(TK_ROLE("worker", 7));
    expect_status(&c, "message",
        CAUSE "; still there, with all that they ask for: x-worker-0, x-worker-2, x-worker-3 and 3 "
              "more" HOW);
    tk_done(&c);
}

static void pods_that_the_clean_policy_deletes_are_not_named(void **state) {
    (void)state;
    static const struct {
        const char *policy, *actions;
    } rows[] = {
        {",'cleanPodPolicy':'Running'", "delete Pod x-ps-0; delete Pod x-worker-0"},
        {",'cleanPodPolicy':'Always'",
            "delete Pod x-ps-0; delete Pod x-worker-0; delete Pod x-worker-1"},
        {",'cleanPodPolicy':'OnFailure'",
            "delete Pod x-ps-0; delete Pod x-worker-0; delete Pod x-worker-1"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *spec =
            co_xasprintf(TK_ROLE("ps", 1) "," TK_ROLE("worker", 2) "%s", rows[i].policy);
        struct tk_cluster c = failed_cluster(spec);
        expect_status(&c, "message", CAUSE);
        (void)tk_pass(&c);
        expect_status(&c, "message", CAUSE);
        expect_actions(&c, rows[i].actions);
        tk_done(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remaining_pods_of_a_failed_job_are_named_until_deleted),
        cmocka_unit_test(remaining_pods_above_three_are_counted),
        cmocka_unit_test(pods_that_the_clean_policy_deletes_are_not_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
