/* Pods that have succeeded stay succeeded when they are deleted, until their group restarts. */
#include "operator/plan/expect_testing.h"

#define FOUR TK_ROLE("worker", 4)

static void gone(struct tk_cluster *c, const char *name) {
    assert_int_equal(json_object_del(c->objects[TK_PODS], name), 0);
}

/* All run, some have ended well, and the status says so. */
static void begin(struct tk_cluster *c, const char *job, const char *const *done) {
    tk_init(c, job);
    rest(c);
    run_all(c);
    for (; *done; done++) {
        tk_pod_status(c, *done, DONE);
    }
    rest(c);
}

/* What the last plan said of the workers, and nobody has stored. */
static void draft(struct tk_cluster *c, const char *indexes, int attempt) {
    json_decref(c->draft);
    c->draft =
        json_pack("{s:i,s:{s:s}}", "attempt", attempt, "worker", "completedIndexes", indexes);
}

struct row {
    const char *spec;
    const char *done[5]; /* have succeeded, and are deleted */
    const char *phase, *actions;
};

static const struct row rows[] = {
    {FOUR, {"x-worker-1"}, "Running", "patch ConfigMap x"},
    {FOUR ",'intranet':'Service'", {"x-worker-1"}, "Running", ""},
    {FOUR ",'backoffLimit':3", {"x-worker-0", "x-worker-3"}, "Running", "patch ConfigMap x"},
    {FOUR ",'elastic':1", {"x-worker-1"}, "Running", "patch ConfigMap x"},
    {TWO_TWO, {"x-worker-0"}, "Running", "patch ConfigMap x"},
    {TWO_TWO ",'successPolicy':'AllPods'", {"x-worker-0", "x-worker-1"}, "Running",
        "patch ConfigMap x"},
};

static void succeeded_pods_are_not_recreated(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), rows[i].spec);
        begin(&c, job, rows[i].done);
        for (const char *const *name = rows[i].done; *name; name++) {
            gone(&c, *name);
        }
        expect_actions(&c, rows[i].actions);
        expect_status(&c, "phase", rows[i].phase);
        expect_condition(&c, "Created", "True PodsCreated ");
        rest(&c);
        expect_actions(&c, "");
        expect_status(&c, "phase", rows[i].phase);
        tk_done(&c);
    }
}

static void the_job_completes_with_its_last_pod(void **state) {
    (void)state;
    static const char *const first[] = {"x-worker-0", "x-worker-2", "x-worker-3", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), first);
    expect_status(&c, "worker.completedIndexes", "0,2-3");
    for (size_t i = 0; first[i]; i++) {
        gone(&c, first[i]);
    }
    rest(&c);
    expect_status(&c, "worker.completedIndexes", "0,2-3");
    expect_status(&c, "worker.succeeded", "3");
    expect_status(&c, "worker.replicas", "1");
    expect_status(&c, "readyWorker", "4/4");
    tk_pod_status(&c, "x-worker-1", DONE);
    rest(&c);
    expect_status(&c, "phase", "Completed");
    expect_status(&c, "worker.completedIndexes", "0-3");
    expect_status(&c, "worker.succeeded", "4");
    tk_done(&c);
}

static void a_role_whose_succeeded_pods_are_deleted_stays_completed(void **state) {
    (void)state;
    static const char *const servers[] = {"x-ps-0", "x-ps-1", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(TWO_TWO ",'successPolicy':'AllPods'"), servers);
    gone(&c, "x-ps-0");
    gone(&c, "x-ps-1");
    rest(&c);
    expect_status(&c, "ps.completedIndexes", "0-1");
    expect_status(&c, "phase", "Running");
    expect_actions(&c, "");
    tk_done(&c);
}

static void worker_0_decides_though_it_is_gone(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(TK_ROLE("worker", 2) ",'successPolicy':'Worker0'"), none);
    gone(&c, "x-worker-0");
    draft(&c, "0", 0);
    expect_condition(&c, "Completing",
        "True Worker0Succeeded worker 0 has succeeded, the others may "
        "still end");
    expect_actions(&c, "");
    tk_done(&c);
}

/* What the last plan knew counts, stored or not; in its own attempt. */
static void completed_indexes_of_the_draft_count_in_their_attempt(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), none);
    gone(&c, "x-worker-2");
    draft(&c, "2", 1);
    expect_actions(&c, "create Pod x-worker-2");
    draft(&c, "2", 0);
    expect_actions(&c, "patch ConfigMap x");
    expect_status(&c, "worker.completedIndexes", "2");
    tk_done(&c);
}

/* Or goes: between two reconciles a watch may report all of it. */
static void a_pod_that_ended_between_two_reconciles_counts(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), none);
    tk_pod_status(&c, "x-worker-2", DONE);
    struct api_pod *pod = (struct api_pod *)api_child_of_tree(
        api_pod_read, json_object_get(c.objects[TK_PODS], "x-worker-2"));
    gone(&c, "x-worker-2");
    for (int attempt = 0; attempt < 2; attempt++) {
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_look(&c);
        pod->attempt = attempt;
        c.seen.ended = (const struct api_pod *const *)&pod;
        c.seen.n_ended = 1;
        assert_int_equal(plan_compute(c.seen_job, &c.seen, c.now, &c.settings, &plan, NULL), 0);
        const char *indexes = co_json_str(plan.status, "worker", "completedIndexes");
        assert_true(attempt ? !indexes : co_streq(indexes, "2"));
        assert_int_equal(plan.status_urgent, !attempt);
        assert_int_equal(plan.actions[0].verb, attempt ? PLAN_CREATE : PLAN_PATCH);
    }
    free(pod);
    tk_done(&c);
}

static void a_pod_that_ended_before_its_deletion_counts(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), none);
    tk_pod_status(&c, "x-worker-2", DONE);
    co_json_set(co_json_at(json_object_get(c.objects[TK_PODS], "x-worker-2"), "metadata"),
        "deletionTimestamp", json_string("2026-01-01T00:00:00Z"));
    expect_status(&c, "worker.completedIndexes", "");
    for (size_t i = 0; i < c.seen.n_pods; i++) {
        c.pods[i]->ended = strcmp(c.pods[i]->c.name, "x-worker-2") == 0;
    }
    PLAN_AUTOPLAN struct plan plan = {0};
    assert_int_equal(plan_compute(c.seen_job, &c.seen, c.now, &c.settings, &plan, NULL), 0);
    assert_string_equal(co_json_str(plan.status, "worker", "completedIndexes"), "2");
    assert_true(plan.status_urgent);
    tk_done(&c);
}

static bool is_urgent(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    assert_true(plan.status_differs);
    return plan.status_urgent;
}

/* While the pod is there anybody can see it; once it goes, only who has seen it knows. */
static void the_success_of_a_pod_being_deleted_is_written_at_once(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), none);
    tk_pod_status(&c, "x-worker-2", DONE);
    draft(&c, "2", 0);
    assert_false(is_urgent(&c));
    json_t *meta = co_json_at(c.objects[TK_PODS], "x-worker-2", "metadata");
    co_json_set(meta, "deletionTimestamp", json_string("2026-01-01T00:00:00Z"));
    assert_true(is_urgent(&c));
    gone(&c, "x-worker-2");
    assert_true(is_urgent(&c));
    rest(&c);
    gone(&c, "x-worker-0"); /* which made no difference to what is known of the other */
    assert_false(is_urgent(&c));
    tk_done(&c);
}

struct dying_row {
    bool remembered;
    const char *status, *indexes;
};

static const struct dying_row dying_rows[] = {
    {false, DONE, ""},  /* asked to end, it ended well */
    {true, DONE, "1"},  /* it had ended before */
    {true, RUNS, ""},   /* it is there and runs: that is the truth */
    {true, BROKEN, ""}, /* likewise */
};

static void the_state_of_an_existing_pod_beats_the_remembered_one(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    for (size_t i = 0; i < CO_ARRAY_LEN(dying_rows); i++) {
        const struct dying_row *row = &dying_rows[i];
        struct tk_cluster c;
        begin(&c, TK_JOB(FOUR), none);
        tk_pod_status(&c, "x-worker-1", row->status);
        co_json_set(co_json_at(c.objects[TK_PODS], "x-worker-1", "metadata"), "deletionTimestamp",
            json_string("2026-01-01T00:00:00Z"));
        draft(&c, row->remembered ? "1" : "", 0);
        expect_status(&c, "worker.completedIndexes", row->indexes);
        tk_done(&c);
    }
}

static void a_new_attempt_clears_completed_indexes(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-0", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR ",'backoffLimit':3"), done);
    gone(&c, "x-worker-0");
    rest(&c);
    tk_pod_status(&c, "x-worker-1", BROKEN);
    expect_status(&c, "attempt", "1");
    expect_status(&c, "worker.completedIndexes", "");
    (void)tk_pass(&c);
    static const char *const others[] = {"x-worker-1", "x-worker-2", "x-worker-3"};
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        gone(&c, others[i]);
    }
    (void)tk_pass(&c);
    (void)tk_pass(&c);
    c.now += 60;
    expect_actions(&c,
        "create Pod x-worker-0; create Pod x-worker-1; create Pod x-worker-2; create "
        "Pod x-worker-3");
    tk_done(&c);
}

static void a_worker_lost_beside_one_that_is_done_restarts_the_group(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-0", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(TK_ROLE("worker", 2) ",'backoffLimit':3"), done);
    gone(&c, "x-worker-0");
    rest(&c);
    gone(&c, "x-worker-1");
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "message", "restart that is not counted: pod x-worker-1 was deleted");
    tk_done(&c);
}

/* Whatever a suspended job still has: what begins when it is resumed is all of it. */
static void a_suspended_job_restarts(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-0", NULL};
    static const char *const pods[] = {"x-worker-0", "x-worker-1", "x-worker-2", "x-worker-3"};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), done);
    for (size_t i = 0; i < CO_ARRAY_LEN(pods); i++) {
        gone(&c, pods[i]);
    }
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    co_json_set(json_object_get(c.job, "spec"), "suspend", json_true());
    rest(&c);
    expect_status(&c, "attempt", "1");
    expect_status(&c, "worker.completedIndexes", "");
    json_object_del(json_object_get(c.job, "spec"), "suspend");
    expect_actions(&c,
        "create Pod x-worker-0; create Pod x-worker-1; create Pod x-worker-2; create "
        "Pod x-worker-3");
    tk_done(&c);
}

/* Scaled in and done in one look: nobody deleted them while the job lived. */
static void workers_beyond_replicas_stop_with_the_end(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-0", "x-worker-1", NULL};
    static const char *const policies[] = {"AllWorkers", "AllPods"};
    for (size_t i = 0; i < CO_ARRAY_LEN(policies); i++) {
        CO_AUTOFREE char *job = co_xasprintf(
            TK_JOB(FOUR ",'elastic':1,'cleanPodPolicy':'Never','successPolicy':'%s'"), policies[i]);
        struct tk_cluster c;
        begin(&c, job, done);
        set_replicas(&c, "worker", 2);
        assert_true(tk_pass(&c));
        expect_status(&c, "phase", "Completed");
        expect_actions(&c, "delete Pod x-worker-2; delete Pod x-worker-3");
        tk_done(&c);
    }
}

static void scaling_down_clears_completed_indexes(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-3", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(FOUR), done);
    set_replicas(&c, "worker", 3);
    expect_status(&c, "worker.completedIndexes", "");
    (void)tk_pass(&c);
    gone(&c, "x-worker-3");
    set_replicas(&c, "worker", 4);
    expect_actions(&c, "create Pod x-worker-3");
    tk_done(&c);
}

/* Who starts again finds all addresses: of whom nobody will answer, the name. */
static void recreated_pods_get_the_names_of_completed_pods(void **state) {
    (void)state;
    static const char *const done[] = {"x-worker-0", NULL};
    struct tk_cluster c;
    begin(&c, TK_JOB(TWO_TWO), done);
    gone(&c, "x-worker-0");
    gone(&c, "x-worker-1");
    rest(&c);
    expect_status(&c, "worker.pending", "1");
    tk_pod_status(&c, "x-worker-1", GATED);
    tk_look(&c);
    const char *why = NULL;
    assert_false(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(why, "addresses");
    tk_pod_status(&c, "x-worker-1", TK_RUNNING("10.0.0.9"));
    rest(&c);
    assert_true(plan_gate_open(c.seen_job, &c.seen, &c.settings, &why));
    assert_string_equal(co_json_str(c.objects[TK_CONFIGMAPS], "x", "data", "PADDLE_TRAINERS"),
        "x-worker-0,10.0.0.9");
    tk_done(&c);
}

static void malformed_completed_indexes_are_read_as_far_as_valid(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    static const char *const texts[][2] = {{"1", "1"}, {"0-99999", "0-3"}, {"2,x", "2"},
        {"3-1", ""}, {"-1", ""}, {"7", ""}, {"0,4294967297", "0"}, {"", ""}, {"2,", ""},
        {"1,1-2", "1-2"}, {"2,0-1", "2"}, {"2,0-3", "2-3"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(FOUR), none);
        CO_AUTOFREE char *status =
            co_xasprintf("{'phase':'Running','worker':{'completedIndexes':'%s'}}", texts[i][0]);
        co_json_set(c.job, "status", tk_json(status));
        for (int p = 0; p < 4; p++) {
            char name[32];
            (void)snprintf(name, sizeof(name), "x-worker-%d", p);
            gone(&c, name);
        }
        expect_status(&c, "worker.completedIndexes", texts[i][1]);
        tk_done(&c);
    }
}

static void pod_references_are_reused_while_unchanged(void **state) {
    (void)state;
    enum { MANY = 32 };
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 32)));
    (void)tk_pass(&c);
    PLAN_AUTOPLAN struct plan first = {0};
    tk_plan(&c, &first);
    const json_t *refs = co_json_at(first.status, "worker", "refs");
    assert_int_equal(json_array_size(refs), MANY);
    c.draft = plan_status_draft(first.status);
    PLAN_AUTOPLAN struct plan second = {0};
    tk_plan(&c, &second);
    assert_ptr_equal(co_json_at(second.status, "worker", "refs"), refs);
    gone(&c, "x-worker-7");
    PLAN_AUTOPLAN struct plan third = {0};
    tk_plan(&c, &third);
    assert_int_equal(json_array_size(co_json_at(third.status, "worker", "refs")), MANY - 1);
    tk_done(&c);
}

/* Two servers run, and both workers are done. */
static void train(struct tk_cluster *c) {
    tk_init(c, TK_JOB(TWO_TWO));
    rest(c);
    run_all(c);
    tk_pod_status(c, "x-worker-0", DONE);
    tk_pod_status(c, "x-worker-1", DONE);
}

/* As long as nobody has stored it.  Servers can know it only then, so their time has not begun. */
static void that_workers_are_done_is_remembered(void **state) {
    (void)state;
    struct tk_cluster c;
    train(&c);
    PLAN_AUTOPLAN struct plan first = {0};
    tk_plan(&c, &first);
    c.draft = plan_status_draft(first.status);
    c.now += 100;
    gone(&c, "x-worker-1"); /* and does not train again */
    PLAN_AUTOPLAN struct plan second = {0};
    tk_plan(&c, &second);
    assert_int_equal(second.n_actions, 0);
    assert_int_equal(second.wake_at, c.now + c.settings.server_grace);
    assert_true(tk_pass(&c)); /* it is stored */
    c.now = second.wake_at - 1;
    expect_status(&c, "phase", "Running");
    c.now++;
    expect_status(&c, "phase", "Completed");
    tk_done(&c);
}

/* Its servers had nobody to ask. */
static void an_operator_that_was_away_leaves_servers_their_time(void **state) {
    (void)state;
    struct tk_cluster c;
    train(&c);
    assert_true(tk_pass(&c));
    c.now += 100;
    c.led_from = c.now - 5;
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 0);
    assert_int_equal(plan.wake_at, c.led_from + c.settings.server_grace);
    c.now = plan.wake_at;
    expect_status(&c, "phase", "Completed");
    c.notified = true; /* it ends by itself: its node may be late to say so */
    c.now = c.led_from + 2 * c.settings.server_grace - 1;
    expect_status(&c, "phase", "Running");
    c.now++;
    expect_status(&c, "phase", "Completed");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(succeeded_pods_are_not_recreated),
        cmocka_unit_test(the_job_completes_with_its_last_pod),
        cmocka_unit_test(a_role_whose_succeeded_pods_are_deleted_stays_completed),
        cmocka_unit_test(worker_0_decides_though_it_is_gone),
        cmocka_unit_test(completed_indexes_of_the_draft_count_in_their_attempt),
        cmocka_unit_test(a_pod_that_ended_between_two_reconciles_counts),
        cmocka_unit_test(a_pod_that_ended_before_its_deletion_counts),
        cmocka_unit_test(the_success_of_a_pod_being_deleted_is_written_at_once),
        cmocka_unit_test(the_state_of_an_existing_pod_beats_the_remembered_one),
        cmocka_unit_test(a_new_attempt_clears_completed_indexes),
        cmocka_unit_test(a_worker_lost_beside_one_that_is_done_restarts_the_group),
        cmocka_unit_test(a_suspended_job_restarts),
        cmocka_unit_test(workers_beyond_replicas_stop_with_the_end),
        cmocka_unit_test(scaling_down_clears_completed_indexes),
        cmocka_unit_test(recreated_pods_get_the_names_of_completed_pods),
        cmocka_unit_test(pod_references_are_reused_while_unchanged),
        cmocka_unit_test(that_workers_are_done_is_remembered),
        cmocka_unit_test(an_operator_that_was_away_leaves_servers_their_time),
        cmocka_unit_test(malformed_completed_indexes_are_read_as_far_as_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
