/* torchrun's variables in pods that start their program without a launcher. */
#include "operator/plan/expect_testing.h"

static json_t *data_of(const struct tk_cluster *c) {
    return co_json_at(c->objects[TK_CONFIGMAPS], "x", "data");
}

static json_t *env_of(const struct tk_cluster *c, const char *pod) {
    const json_t *list =
        co_json_at(json_object_get(c->objects[TK_PODS], pod), "spec", "containers");
    return json_object_get(json_array_get(list, 0), "env");
}

/* How often the pod's env has the name, and the value that kubelet would take. */
static size_t count(
    const struct tk_cluster *c, const char *pod, const char *name, const char **ret_value) {
    size_t n = 0, i;
    json_t *e;
    json_array_foreach(env_of(c, pod), i, e) {
        if (co_streq(co_json_str(e, "name"), name)) {
            *ret_value = co_json_str(e, "value");
            n++;
        }
    }
    return n;
}

static void expect_env(
    const struct tk_cluster *c, const char *pod, const char *name, const char *expected) {
    const char *value = "";
    const size_t n = count(c, pod, name, &value);
    assert_int_equal(n, *expected != '\0');
    assert_string_equal(value, expected);
}

static void expect_data(const struct tk_cluster *c, const char *key, const char *expected) {
    const char *value = co_json_str(data_of(c), key);
    assert_string_equal(value ? value : "", expected);
}

static void begin(struct tk_cluster *c, const char *spec) {
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(c, job);
    rest(c);
    run_all(c);
}

static void restart(struct tk_cluster *c) {
    set_spec(c, "suspend", json_true());
    rest(c);
    bury(c);
    rest(c);
    set_spec(c, "suspend", json_false());
    rest(c);
    run_all(c);
}

static void workers_find_what_torchrun_sets(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 3));
    for (size_t i = 0; i < 3; i++) {
        CO_AUTOFREE char *pod = co_xasprintf("x-worker-%zu", i);
        CO_AUTOFREE char *index = co_xasprintf("%zu", i);
        expect_env(&c, pod, "RANK", index);
        expect_env(&c, pod, "GROUP_RANK", index);
    }
    CO_AUTOFREE char *port = co_xasprintf("%u", plan_port("uid-x", NULL, 0) + 19U);
    const char *const want[][2] = {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", port},
        {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"},
        {"GROUP_WORLD_SIZE", "3"}, {"TORCHELASTIC_RUN_ID", "x"},
        {"TORCHELASTIC_RESTART_COUNT", "0"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        expect_data(&c, want[i][0], want[i][1]);
    }
    tk_done(&c);
}

static void they_meet_at_a_name_where_pods_have_names(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 2) ",'intranet':'DNS'");
    expect_data(&c, "MASTER_ADDR", "x-worker-0.x");
    expect_data(&c, "MASTER_PORT", "36019");
    tk_done(&c);
}

static void restarts_of_the_group_are_counted(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 2) ",'backoffLimit':2");
    tk_pod_status(&c, "x-worker-0", BROKEN);
    rest(&c);
    bury(&c);
    c.now += 10;
    rest(&c);
    run_all(&c);
    expect_data(&c, "TORCHELASTIC_RESTART_COUNT", "1");
    tk_done(&c);
}

/* Trainers of servers do not meet, an elastic world changes, and what one worker starts by itself
 * must not take it for one of several. */
static void other_jobs_get_none(void **state) {
    (void)state;
    static const char *const specs[] = {TWO_TWO, TK_ROLE("worker", 1),
        TK_ROLE("worker", 2) ",'elastic':1", TK_ROLE("worker", 2) "," TK_ROLE("heter", 2)};
    for (size_t i = 0; i < CO_ARRAY_LEN(specs); i++) {
        struct tk_cluster c;
        begin(&c, specs[i]);
        expect_env(&c, "x-worker-0", "RANK", "");
        expect_data(&c, "WORLD_SIZE", "");
        expect_data(&c, "MASTER_ADDR", "");
        tk_done(&c);
    }
}

/* Bodies of all pods but the first are made from the first: plan_env_direct_again. */
static void a_templates_own_rank_stays(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, "'worker':{'replicas':3,'template':{'spec':{'containers':[{'name':'main','env':["
              "{'name':'RANK','value':'7'}]}]}}}");
    for (size_t i = 0; i < 3; i++) {
        CO_AUTOFREE char *pod = co_xasprintf("x-worker-%zu", i);
        CO_AUTOFREE char *index = co_xasprintf("%zu", i);
        expect_env(&c, pod, "RANK", "7");
        expect_env(&c, pod, "GROUP_RANK", index);
        expect_env(&c, pod, "PADDLE_TRAINER_ID", index);
    }
    tk_done(&c);
}

/* As an operator that did not know these variables left a running job. */
static void forget_all(struct tk_cluster *c) {
    static const char *const keys[] = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT"};
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        assert_int_equal(json_object_del(data_of(c), keys[i]), 0);
    }
    const char *name;
    json_t *pod;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        json_t *env = env_of(c, name);
        for (size_t i = json_array_size(env); i-- > 0;) {
            const char *var = co_json_str(json_array_get(env, i), "name");
            if (co_streq(var, "RANK") || co_streq(var, "GROUP_RANK")) {
                json_array_remove(env, i);
            }
        }
    }
    static const char words[] = ", torchrun's variables 1";
    json_t *status = json_object_get(c->job, "status");
    CO_AUTOFREE char *began = co_xstrdup(co_json_str(status, "began"));
    char *at = strstr(began, words);
    assert_non_null(at);
    memmove(at, at + strlen(words), strlen(at + strlen(words)) + 1);
    co_json_set(status, "began", json_string(began));
}

static void a_job_of_an_earlier_version_gets_them_when_it_restarts(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 2));
    forget_all(&c);
    expect_actions(&c, ""); /* what its containers read when they start again stays the same */
    set_spec(&c, "backoffLimit", json_integer(3)); /* another generation of the spec */
    rest(&c);
    expect_condition(&c, "SpecChanged", "absent");
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    rest(&c);
    run_all(&c);
    expect_env(&c, "x-worker-1", "RANK", "");
    expect_data(&c, "WORLD_SIZE", "");
    restart(&c);
    expect_env(&c, "x-worker-1", "RANK", "1");
    expect_data(&c, "WORLD_SIZE", "2");
    tk_done(&c);
}

/* Names stay when a pod is recreated, and so does the ConfigMap: a rank alone would be of no use.
 */
static void a_job_of_upstreams_operator_gets_them_when_it_restarts(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 2) ",'intranet':'Service'");
    forget_all(&c);
    json_object_del(co_json_at(c.objects[TK_CONFIGMAPS], "x", "metadata", "labels"), API_LABEL_JOB);
    co_json_set(c.job, "status", tk_json("{'phase':'Running','mode':'Collective'}"));
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    rest(&c);
    run_all(&c);
    expect_env(&c, "x-worker-1", "PADDLE_TRAINER_ID", "1");
    expect_env(&c, "x-worker-1", "RANK", "");
    expect_data(&c, "WORLD_SIZE", "");
    restart(&c);
    expect_env(&c, "x-worker-1", "RANK", "1");
    expect_data(&c, "WORLD_SIZE", "2");
    tk_done(&c);
}

static void an_attempt_keeps_them_when_it_is_scaled(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_ROLE("worker", 2));
    set_replicas(&c, "worker", 1);
    rest(&c);
    expect_data(&c, "WORLD_SIZE", "1");
    tk_done(&c);
    begin(&c, TK_ROLE("worker", 1));
    set_replicas(&c, "worker", 2);
    rest(&c);
    run_all(&c);
    expect_env(&c, "x-worker-1", "RANK", "");
    expect_data(&c, "WORLD_SIZE", "");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_find_what_torchrun_sets),
        cmocka_unit_test(they_meet_at_a_name_where_pods_have_names),
        cmocka_unit_test(restarts_of_the_group_are_counted),
        cmocka_unit_test(other_jobs_get_none),
        cmocka_unit_test(a_templates_own_rank_stays),
        cmocka_unit_test(a_job_of_an_earlier_version_gets_them_when_it_restarts),
        cmocka_unit_test(a_job_of_upstreams_operator_gets_them_when_it_restarts),
        cmocka_unit_test(an_attempt_keeps_them_when_it_is_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
