/* Golden rows of jobs with a token: its Secret, who gets it, when it is made, and who says that it
 * is not there. */
#include "operator/plan/expect_testing.h"
#include "operator/plan/gang.h"

#define SECRET "x-token-uid-x"
#define TOKEN ",'peerAuth':'Token'"
#define REFERENCE                                                                                  \
    "{'name':'PADDLE_JOB_TOKEN','valueFrom':{'secretKeyRef':{'name':'" SECRET "','key':'token'}}}"

static void expect_json(const json_t *have, const char *expected) {
    CO_AUTOJSON json_t *want = tk_json(expected);
    CO_AUTOFREE char *a = co_json_dump_sorted(want);
    CO_AUTOFREE char *b = have ? co_json_dump_sorted(have) : co_xstrdup("absent");
    assert_string_equal(b, a);
}

/* The entries for PADDLE_JOB_TOKEN of a container's env; *ret_n: how many there are. */
static const json_t *token_of(const json_t *container, size_t *ret_n) {
    const json_t *found = NULL;
    size_t i;
    json_t *e;
    *ret_n = 0;
    json_array_foreach(json_object_get(container, "env"), i, e) {
        if (co_streq(co_json_str(e, "name"), "PADDLE_JOB_TOKEN")) {
            found = e;
            ++*ret_n;
        }
    }
    return found;
}

static const json_t *first_of(const struct tk_cluster *c, const char *pod) {
    return json_array_get(co_json_at(c->objects[TK_PODS], pod, "spec", "containers"), 0);
}

static void the_secret_is_created_before_the_pods(void **state) {
    (void)state;
    static const char *const shapes[][2] = {
        {"", ""},
        {",'intranet':'Service'",
            "create ConfigMap x; create Service x-ps-0; create Service x-worker-0; "},
        {",'intranet':'DNS'", "create ConfigMap x; create Service x; "},
        {",'intranet':'Host'", ""},
        {",'elastic':1", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(shapes); i++) {
        CO_AUTOFREE char *job = co_xasprintf(
            TK_JOB(TK_ROLE("ps", 1) "," TK_ROLE("worker", 1) TOKEN "%s"), shapes[i][0]);
        CO_AUTOFREE char *first = co_xasprintf("%screate Secret " SECRET, shapes[i][1]);
        struct tk_cluster c;
        tk_init(&c, job);
        expect_actions(&c, first);
        assert_true(tk_pass(&c));
        expect_actions(&c, "create Pod x-ps-0; create Pod x-worker-0");
        rest(&c);
        expect_actions(&c, "");
        tk_done(&c);
    }
}

static void the_secret_is_the_jobs_and_has_no_token_yet(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) TOKEN));
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.n_actions, 1);
    expect_json(plan.actions[0].body,
        "{'apiVersion':'v1','kind':'Secret','metadata':{'name':'" SECRET "','namespace':'ns',"
        "'labels':{'paddle-res-name':'x','batch.paddlepaddle.org/job-name':'x'},"
        "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob',"
        "'name':'x','uid':'uid-x','controller':true,'blockOwnerDeletion':true}]},"
        "'immutable':true}");
    CO_AUTOJSON json_t *alone = plan_secret(c.seen_job);
    assert_true(json_equal(alone, plan.actions[0].body));
    tk_done(&c);
}

/* The first container has the contract; what is beside it has not. */
static void the_first_container_of_every_role_gets_the_token(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c,
        TK_JOB(TK_ROLE("ps", 2) ",'worker':{'replicas':2,'template':{'spec':{"
                                "'initContainers':[{'name':'fetch'}],'containers':["
                                "{'name':'main'},{'name':'side'}]}}}," TK_ROLE("heter", 1) TOKEN));
    c.settings.gate_image = "gate";
    c.settings.gate_addr = "gate:1";
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 5);
    const char *name;
    json_t *pod;
    size_t n;
    json_object_foreach(c.objects[TK_PODS], name, pod) {
        expect_json(token_of(first_of(&c, name), &n), REFERENCE);
        assert_int_equal(n, 1);
        CO_AUTOFREE char *text = co_json_dump(pod);
        const char *at = strstr(text, "PADDLE_JOB_TOKEN");
        assert_null(strstr(at + 1, "PADDLE_JOB_TOKEN")); /* in no other container */
    }
    tk_done(&c);
}

/* The same Secret and reference, and in the first container of each pod that connections are
 * encrypted: what the template says of it comes before, and so counts for nothing. */
static void encrypted_peer_auth_adds_a_token_and_a_variable(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) ",'worker':{'replicas':2,'template':{'spec':{'containers':["
                                        "{'name':'main','env':[{'name':'PADDLE_JOB_ENCRYPT','value'"
                                        ":'0'}]},{'name':'side'}]}}},'peerAuth':'Encrypted'"));
    expect_actions(&c, "create Secret " SECRET);
    rest(&c);
    const char *name;
    json_t *pod;
    size_t n;
    json_object_foreach(c.objects[TK_PODS], name, pod) {
        size_t i;
        json_t *e;
        const char *said = NULL;
        expect_json(token_of(first_of(&c, name), &n), REFERENCE);
        json_array_foreach(json_object_get(first_of(&c, name), "env"), i, e) {
            if (co_streq(co_json_str(e, "name"), "PADDLE_JOB_ENCRYPT")) {
                said = co_json_str(e, "value");
            }
        }
        assert_string_equal("1", said);
        const json_t *side = json_array_get(co_json_at(pod, "spec", "containers"), 1);
        assert_int_equal(0, json_array_size(json_object_get(side, "env")));
    }
    tk_done(&c);
}

static void the_users_own_token_wins(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("ps", 1) ",'worker':{'replicas':2,'template':{'spec':{'containers':["
                                        "{'name':'main','env':[{'name':'PADDLE_JOB_TOKEN','value':"
                                        "'mine'},{'name':'A','value':'b'}]}]}}}" TOKEN));
    rest(&c);
    size_t n;
    expect_json(token_of(first_of(&c, "x-ps-0"), &n), REFERENCE);
    for (int i = 0; i < 2; i++) {
        expect_json(token_of(first_of(&c, i ? "x-worker-1" : "x-worker-0"), &n),
            "{'name':'PADDLE_JOB_TOKEN','value':'mine'}");
        assert_int_equal(n, 1);
    }
    tk_done(&c);
}

static void without_peer_auth_nothing_is_different(void **state) {
    (void)state;
    static const char *const specs[] = {"", ",'peerAuth':'None'"};
    CO_AUTOFREE char *before = NULL;
    for (size_t i = 0; i < CO_ARRAY_LEN(specs); i++) {
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB(TWO_TWO "%s"), specs[i]);
        struct tk_cluster c;
        tk_init(&c, job);
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan(&c, &plan);
        assert_int_equal(plan.n_actions, 4);
        assert_false(plan.lacks_pods);
        CO_AUTOFREE char *pod = co_json_dump(plan.actions[0].body);
        assert_null(strstr(pod, "TOKEN"));
        assert_null(strstr(pod, "ENCRYPT"));
        assert_true(!before || strcmp(before, pod) == 0);
        free(before);
        before = co_steal_ptr(pod);
        assert_null(plan_secret(c.seen_job));
        tk_done(&c);
    }
}

/* One request for all pods that are made in a row, in however many parts. */
static void the_secret_is_created_once_for_pods_created_in_parts(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 5) TOKEN));
    c.creates_max = 2;
    expect_actions(&c, "create Secret " SECRET);
    (void)tk_pass(&c);
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    (void)tk_pass(&c);
    expect_actions(&c, "create Pod x-worker-2; create Pod x-worker-3");
    (void)tk_pass(&c);
    expect_actions(&c, "create Pod x-worker-4");
    rest(&c);
    assert_false(c.token);
    run_all(&c);
    /* A pod that is made later is reason to ask again: somebody may have deleted the Secret. */
    json_object_del(c.objects[TK_PODS], "x-worker-3");
    expect_actions(&c, "create Secret " SECRET);
    (void)tk_pass(&c);
    expect_actions(&c, "create Pod x-worker-3");
    tk_done(&c);
}

/* An operator that starts remembers nothing, and there are pods. */
static void the_secret_is_not_created_while_no_pod_is_missing(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TWO_TWO ",'intranet':'DNS'" TOKEN));
    rest(&c);
    run_all(&c);
    c.token = false;
    expect_actions(&c, "");
    tk_pod_status(&c, "x-worker-0", DONE);
    rest(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-0"); /* has succeeded, is not made again */
    expect_actions(&c, "");
    tk_done(&c);
}

static void the_secret_is_created_once_per_attempt_and_not_while_suspended(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) TOKEN ",'suspend':true"));
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_SECRETS]), 0);
    set_spec(&c, "suspend", json_false());
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_SECRETS]), 1);
    run_all(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    bury(&c);
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 0);
    assert_int_equal(json_object_size(c.objects[TK_SECRETS]), 1); /* it stays */
    set_spec(&c, "suspend", json_false());
    expect_actions(&c, "create Secret " SECRET);
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_PODS]), 2);
    /* And when the job has ended. */
    run_all(&c);
    tk_pod_status(&c, "x-worker-0", DONE);
    tk_pod_status(&c, "x-worker-1", DONE);
    rest(&c);
    bury(&c);
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_SECRETS]), 1);
    tk_done(&c);
}

/* Which may be for ever. */
static void a_waiting_gang_has_no_secret(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) TOKEN));
    c.settings.gang = plan_gang_find("volcano");
    assert_non_null(c.settings.gang);
    expect_actions(&c, "create PodGroup x");
    rest(&c);
    assert_int_equal(json_object_size(c.objects[TK_SECRETS]), 0);
    tk_done(&c);
}

#define FORBIDDEN                                                                                  \
    "secrets is forbidden: User \"op\" cannot create resource \"secrets\" in API group \"\" in "   \
    "the namespace \"ns\""

static void a_refused_secret_is_the_reason(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) TOKEN));
    c.failures[0] = (struct plan_failure){.verb = PLAN_CREATE,
        .kind = PLAN_KIND_SECRET,
        .name = SECRET,
        .code = CO_PERMISSION,
        .message = FORBIDDEN,
        .count = 1,
        .retry_at = c.now + 5};
    c.n_failures = 1;
    expect_actions(&c, ""); /* neither it nor the pods */
    expect_status(&c, "reason", "FailedCreate");
    expect_status(&c, "message", "Secret " SECRET ": " FORBIDDEN);
    expect_condition(&c, "Blocked", "True FailedCreate Secret " SECRET ": " FORBIDDEN);
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(&c, &plan);
    assert_int_equal(plan.wake_at, c.now + 5);
    c.now += 5;
    expect_actions(&c, "create Secret " SECRET);
    /* It is nothing to a job that has its pods, or wants no token. */
    set_spec(&c, "peerAuth", json_string("None"));
    expect_status(&c, "reason", "");
    expect_actions(&c, "create Pod x-worker-0; create Pod x-worker-1");
    tk_done(&c);
}

#define WAITS(reason, message)                                                                     \
    "{'phase':'Pending','podIP':'10.0.0.9','containerStatuses':[{'name':'main','state':{"          \
    "'waiting':{'reason':'" reason "','message':'" message "'}}}]}"

static void a_deleted_secret_is_named(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(TK_ROLE("worker", 2) ",'intranet':'DNS'" TOKEN));
    rest(&c);
    run_all(&c);
    tk_pod_status(&c, "x-worker-1",
        WAITS("CreateContainerConfigError", "secret \\\"" SECRET "\\\" not found"));
    expect_status(&c, "reason", "CreateContainerConfigError");
    expect_status(&c, "message",
        "pod x-worker-1, container main: secret \"" SECRET "\" not found: it was deleted; "
        "suspend the job and resume it, so that all pods get a new one");
    tk_pod_status(
        &c, "x-worker-1", WAITS("CreateContainerConfigError", "secret \\\"other\\\" not found"));
    expect_status(&c, "message", "pod x-worker-1, container main: secret \"other\" not found");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_secret_is_created_before_the_pods),
        cmocka_unit_test(the_secret_is_the_jobs_and_has_no_token_yet),
        cmocka_unit_test(the_first_container_of_every_role_gets_the_token),
        cmocka_unit_test(the_users_own_token_wins),
        cmocka_unit_test(encrypted_peer_auth_adds_a_token_and_a_variable),
        cmocka_unit_test(without_peer_auth_nothing_is_different),
        cmocka_unit_test(the_secret_is_created_once_for_pods_created_in_parts),
        cmocka_unit_test(the_secret_is_not_created_while_no_pod_is_missing),
        cmocka_unit_test(the_secret_is_created_once_per_attempt_and_not_while_suspended),
        cmocka_unit_test(a_waiting_gang_has_no_secret),
        cmocka_unit_test(a_refused_secret_is_the_reason),
        cmocka_unit_test(a_deleted_secret_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
