/* Pods that are recreated in a running attempt get the template that it began with, which its
 * ConfigMap has. */
#include "operator/plan/expect_testing.h"
#include "operator/plan/gang.h"

#define PODS TK_ROLE("ps", 1) "," TK_ROLE("worker", 2)

static void begin(struct tk_cluster *c, const char *job) {
    tk_init(c, job);
    rest(c);
    run_all(c);
}

static void set_image(struct tk_cluster *c, const char *role, const char *image) {
    json_t *list = co_json_at(c->job, "spec", role, "template", "spec", "containers");
    co_json_set(json_array_get(list, 0), "image", json_string(image));
    set_spec(c, "suspend", json_false()); /* a generation more */
}

static void expect_image(struct tk_cluster *c, const char *pod, const char *image) {
    const json_t *list =
        co_json_at(json_object_get(c->objects[TK_PODS], pod), "spec", "containers");
    const char *have = co_json_str(json_array_get(list, 0), "image");
    assert_string_equal(have ? have : "", image);
}

static void lose(struct tk_cluster *c, const char *pod) {
    json_object_del(c->objects[TK_PODS], pod);
}

static void expect_recreated(struct tk_cluster *c, const char *pod, const char *image) {
    lose(c, pod);
    rest(c);
    expect_image(c, pod, image);
}

static json_t *notes(struct tk_cluster *c) {
    return co_json_at(c->objects[TK_CONFIGMAPS], "x", "metadata", "annotations");
}

static const char *note(struct tk_cluster *c, enum api_role role) {
    const char *text = co_json_str(notes(c), api_began_annotation(role));
    return text ? text : "";
}

#define TEXT "{\"spec\":{\"containers\":[{\"image\":\"img\",\"name\":\"main\"}]}}"
#define NEW_TEMPLATE(fields)                                                                       \
    "True AppliesToNextAttempt " fields                                                            \
    " changed; nothing happens until the group restarts: its pods keep what they began with, and " \
    "one that is recreated alone gets the new template; to apply the change now, suspend the job " \
    "and resume it"

static void templates_are_stored_in_the_configmap_not_in_the_status(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS));
    assert_string_equal(note(&c, API_PS), TEXT);
    assert_string_equal(note(&c, API_WORKER), TEXT);
    assert_string_equal(note(&c, API_HETER), "");
    expect_status(&c, "beganTemplates", "");
    set_image(&c, "worker", "other");
    rest(&c);
    expect_actions(&c, "");
    assert_string_equal(note(&c, API_WORKER), TEXT);
    tk_done(&c);
}

/* All else that the plan has to do is done meanwhile. */
static void a_pod_is_not_recreated_until_templates_are_read(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS));
    set_image(&c, "worker", "other");
    rest(&c);
    lose(&c, "x-worker-1");
    lose(&c, "x-ps-0");
    {
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan_once(&c, &plan);
        CO_AUTOFREE char *text = tk_actions(&plan);
        assert_string_equal(text, "create Pod x-ps-0");
        assert_true(plan.lacks_templates);
    }
    expect_actions(&c, "create Pod x-ps-0; create Pod x-worker-1");
    rest(&c);
    expect_image(&c, "x-worker-1", "img");
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan_once(&c, &plan);
    assert_false(plan.lacks_templates);
    tk_done(&c);
}

/* As 0.9 and earlier had it: no annotation, and all of it in the status. */
static void templates_in_the_status_are_moved_to_the_configmap(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS));
    json_object_clear(notes(&c));
    co_json_set(json_object_get(c.job, "status"), "beganTemplates",
        json_string("{\"ps\":" TEXT ",\"worker\":" TEXT "}"));
    set_image(&c, "worker", "other");
    expect_actions(&c, "patch ConfigMap x");
    expect_status(&c, "beganTemplates", "{\"ps\":" TEXT ",\"worker\":" TEXT "}");
    lose(&c, "x-worker-1"); /* also before they are moved */
    expect_actions(&c, "patch ConfigMap x; create Pod x-worker-1");
    json_t *data = json_deep_copy(co_json_at(c.objects[TK_CONFIGMAPS], "x", "data"));
    rest(&c);
    expect_image(&c, "x-worker-1", "img");
    assert_string_equal(note(&c, API_PS), TEXT);
    assert_string_equal(note(&c, API_WORKER), TEXT);
    assert_true(json_equal(data, co_json_at(c.objects[TK_CONFIGMAPS], "x", "data")));
    assert_null(co_json_at(c.job, "status", "beganTemplates"));
    run_all(&c);
    expect_recreated(&c, "x-worker-0", "img");
    json_decref(data);
    tk_done(&c);
}

/* The spec has them still, so the status' copy is not needed. */
static void a_job_that_nobody_edited_is_moved_at_once(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS));
    json_object_clear(notes(&c));
    co_json_set(json_object_get(c.job, "status"), "beganTemplates",
        json_string("{\"ps\":" TEXT ",\"worker\":" TEXT "}"));
    expect_actions(&c, "patch ConfigMap x");
    expect_status(&c, "beganTemplates", "");
    rest(&c);
    assert_string_equal(note(&c, API_WORKER), TEXT);
    expect_status(&c, "phase", "Running");
    tk_done(&c);
}

/* A hash of 32 bits is no signature. */
static void a_template_without_containers_is_ignored(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}", "7", "{\"spec\":{\"containers\":[]}}", "{\"spec\":{\"containers\":7}}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(PODS));
        CO_AUTOJSON json_t *forged = api_began_parse(texts[i]);
        CO_AUTOFREE char *began = co_xasprintf(
            "spec generation 1, intranet PodIP, ps template 0215dd20, worker template %08x",
            api_began_hash(forged));
        co_json_set(json_object_get(c.job, "status"), "began", json_string(began));
        CO_AUTOFREE char *old = co_xasprintf("{\"worker\":%s}", texts[i]);
        co_json_set(json_object_get(c.job, "status"), "beganTemplates", json_string(old));
        co_json_set(notes(&c), api_began_annotation(API_WORKER), json_string(texts[i]));
        set_image(&c, "worker", "other");
        expect_recreated(&c, "x-worker-1", "other");
        tk_done(&c);
    }
}

static void a_template_of_another_hash_is_ignored(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "no JSON", "{\"spec\":{\"containers\":[{\"image\":\"forged\",\"name\":\"main\"}]}}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(PODS));
        set_image(&c, "worker", "other");
        rest(&c);
        co_json_set(notes(&c), api_began_annotation(API_WORKER), json_string(texts[i]));
        expect_condition(&c, "SpecChanged", NEW_TEMPLATE("spec.worker.template"));
        expect_recreated(&c, "x-worker-1", "other");
        tk_done(&c);
    }
}

/* In PodIP mode the ConfigMap is created last. */
static void a_template_edited_before_the_configmap_exists_is_not_stored(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(PODS));
    rest(&c);
    set_image(&c, "worker", "other");
    rest(&c);
    run_all(&c);
    assert_string_equal(note(&c, API_PS), TEXT);
    assert_string_equal(note(&c, API_WORKER), "");
    expect_condition(&c, "SpecChanged", NEW_TEMPLATE("spec.worker.template"));
    set_image(&c, "worker", "img"); /* undone */
    rest(&c);
    assert_string_equal(note(&c, API_WORKER), TEXT);
    tk_done(&c);
}

static void a_recreated_configmap_stores_only_unchanged_templates(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS));
    set_image(&c, "worker", "other");
    rest(&c);
    json_object_clear(c.objects[TK_CONFIGMAPS]);
    expect_actions(&c, "create ConfigMap x");
    rest(&c);
    assert_string_equal(note(&c, API_PS), TEXT);
    assert_string_equal(note(&c, API_WORKER), "");
    expect_condition(&c, "SpecChanged", NEW_TEMPLATE("spec.worker.template"));
    expect_recreated(&c, "x-worker-1", "other");
    tk_done(&c);
}

static void the_next_attempt_stores_its_own_templates(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(PODS ",'intranet':'DNS'"));
    set_image(&c, "worker", "other");
    rest(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    bury(&c);
    rest(&c);
    set_spec(&c, "suspend", json_false());
    rest(&c);
    run_all(&c);
    assert_non_null(strstr(note(&c, API_WORKER), "other"));
    assert_string_equal(note(&c, API_PS), TEXT);
    expect_actions(&c, "");
    expect_condition(&c, "SpecChanged", "False UpToDate ");
    tk_done(&c);
}

/* Its size follows from the pods that there are. */
static void a_group_is_not_patched_until_templates_are_read(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB("'worker':{'replicas':2,'template':{'spec':{'containers':[{'name':'main',"
                       "'image':'img','resources':{'limits':{'cpu':'1'}}}]}}}"));
    c.settings.gang = plan_gang_find("coscheduling");
    rest(&c);
    run_all(&c);
    json_t *list = co_json_at(c.job, "spec", "worker", "template", "spec", "containers");
    co_json_set(json_array_get(list, 0), "resources", tk_json("{'limits':{'cpu':'7'}}"));
    set_replicas(&c, "worker", 3);
    for (int lost = 0; lost < 2; lost++) { /* the group is there, and is not */
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan_once(&c, &plan);
        assert_int_equal(plan.n_actions, 0);
        assert_true(plan.lacks_templates);
        json_object_clear(c.objects[TK_PODGROUPS]);
    }
    rest(&c);
    const json_t *cpu = co_json_at(c.objects[TK_PODGROUPS], "x", "spec", "minResources", "cpu");
    assert_string_equal(json_string_value(cpu), "3");
    tk_done(&c);
}

static void large_templates_are_not_stored(void **state) {
    (void)state;
    CO_AUTOFREE char *large = co_xcalloc(1, API_BEGAN_TEMPLATE_MAX);
    memset(large, 'x', API_BEGAN_TEMPLATE_MAX - 1);
    struct tk_cluster c;
    tk_init(&c, TK_JOB(PODS));
    set_image(&c, "ps", large);
    rest(&c);
    run_all(&c);
    assert_string_equal(note(&c, API_PS), "");
    assert_string_equal(note(&c, API_WORKER), TEXT);
    expect_actions(&c, "");
    set_image(&c, "ps", "other");
    expect_condition(&c, "SpecChanged", NEW_TEMPLATE("spec.ps.template"));
    expect_recreated(&c, "x-ps-0", "other");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_stored_in_the_configmap_not_in_the_status),
        cmocka_unit_test(a_pod_is_not_recreated_until_templates_are_read),
        cmocka_unit_test(templates_in_the_status_are_moved_to_the_configmap),
        cmocka_unit_test(a_job_that_nobody_edited_is_moved_at_once),
        cmocka_unit_test(a_template_without_containers_is_ignored),
        cmocka_unit_test(a_template_of_another_hash_is_ignored),
        cmocka_unit_test(a_template_edited_before_the_configmap_exists_is_not_stored),
        cmocka_unit_test(a_recreated_configmap_stores_only_unchanged_templates),
        cmocka_unit_test(the_next_attempt_stores_its_own_templates),
        cmocka_unit_test(a_group_is_not_patched_until_templates_are_read),
        cmocka_unit_test(large_templates_are_not_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
