/* Jobs that an earlier version started: what it made is kept as it is, what it left out is made. */
#include "operator/plan/expect_testing.h"

/* The job and its objects as ours; then without the labels that earlier versions did not set. */
static void start_as_before(struct tk_cluster *c, const char *job) {
    tk_init(c, job);
    c->settings.services_all = true;
    rest(c);
    run_all(c);
    c->settings.services_all = false;
    for (size_t i = 0; i < 3; i++) {
        const char *name;
        json_t *obj;
        json_object_foreach(c->objects[i], name, obj) {
            json_t *labels = co_json_at(obj, "metadata", "labels");
            json_object_del(labels, "batch.paddlepaddle.org/job-name");
            json_object_del(labels, "batch.paddlepaddle.org/index");
            if (i == TK_SERVICES) {
                json_object_clear(labels);
            }
        }
    }
}

static json_t *published(const struct tk_cluster *c) {
    return co_json_at(c->objects[TK_CONFIGMAPS], "x", "data");
}

static void configmap_values_that_containers_have_read_stay(void **state) {
    (void)state;
    struct tk_cluster c;
    start_as_before(&c, TK_JOB(TWO_TWO ",'withGloo':1"));
    /* It gave the rendezvous the port of a server. */
    co_json_set(published(&c), "PADDLE_GLOO_HTTP_ENDPOINT", json_string("10.0.0.1:55327"));
    rest(&c);
    expect_actions(&c, "");
    expect_status(&c, "phase", "Running");
    /* Once an address is another, all of it is ours. */
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    expect_actions(&c, "create Pod x-worker-1");
    rest(&c);
    tk_pod_status(&c, "x-worker-1", TK_RUNNING("10.0.0.9"));
    expect_actions(&c, "patch ConfigMap x");
    rest(&c);
    expect_actions(&c, "");
    tk_done(&c);
}

static void services_of_an_earlier_version_are_labelled_once_cached(void **state) {
    (void)state;
    struct tk_cluster c;
    start_as_before(&c, TK_JOB(TK_ROLE("worker", 2) ",'intranet':'Service'"));
    json_t *services = json_deep_copy(c.objects[TK_SERVICES]);
    json_object_clear(c.objects[TK_SERVICES]); /* no watch reports them */
    expect_actions(&c, "create Service x-worker-0; create Service x-worker-1");
    json_decref(c.objects[TK_SERVICES]);
    c.objects[TK_SERVICES] = services;
    expect_actions(&c, "patch Service x-worker-0; patch Service x-worker-1");
    rest(&c);
    expect_actions(&c, "");
    const json_t *labels = co_json_at(services, "x-worker-0", "metadata", "labels");
    assert_string_equal(co_json_str(labels, "paddle-res-name"), "x-worker-0");
    tk_done(&c);
}

#define ASKS "{'name':'coord-paddle','image':'docker.io/library/alpine:3.10'}"

static const struct {
    const char *init, *label, *status;
    const char *actions;
} asking[] = {
    {ASKS, NULL, GATED, "create Service x-worker-0; create Service x-worker-1"},
    {ASKS, NULL, PENDING, "create Service x-worker-0; create Service x-worker-1"},
    {ASKS, NULL, RUNS, ""},
    {ASKS, NULL,
        "{'phase':'Pending','podIP':'10.0.0.1','initContainerStatuses':[{'name':'coord-paddle',"
        "'state':{'terminated':{'exitCode':0}}}]}",
        ""},
    {ASKS, "x", PENDING, ""}, /* ours asks the operator */
    {"{'name':'mine'}", NULL, PENDING, ""},
};

static void pods_that_ask_for_names_get_them_in_every_mode(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(asking); i++) {
        struct tk_cluster c;
        start_as_before(&c, TK_JOB(TK_ROLE("worker", 2)));
        json_object_clear(c.objects[TK_SERVICES]);
        json_t *pod = json_object_get(c.objects[TK_PODS], "x-worker-0");
        CO_AUTOFREE char *init = co_xasprintf("[%s]", asking[i].init);
        co_json_set(json_object_get(pod, "spec"), "initContainers", tk_json(init));
        if (asking[i].label) {
            co_json_set(co_json_at(pod, "metadata", "labels"), "batch.paddlepaddle.org/job-name",
                json_string(asking[i].label));
        }
        tk_pod_status(&c, "x-worker-0", asking[i].status);
        expect_actions(&c, asking[i].actions);
        tk_done(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configmap_values_that_containers_have_read_stay),
        cmocka_unit_test(services_of_an_earlier_version_are_labelled_once_cached),
        cmocka_unit_test(pods_that_ask_for_names_get_them_in_every_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
