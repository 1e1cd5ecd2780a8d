/* Every example that users know: decodes without a problem, and comes to run and to end in the
 * cluster of plan_testing.h as its file says. */
#include "common/yaml/yaml.h"
#include "operator/plan/expect_testing.h"

struct example_row {
    const char *file;
    const char *name, *mode;
    int ps, workers;
    enum api_intranet intranet;
    enum api_clean clean;
    bool elastic, gloo;
    const char *restart_policy; /* of its workers */
};

static const struct example_row examples[] = {
    {"deploy/examples/wide_and_deep.yaml", "wide-ande-deep", "PS", 2, 2, API_POD_IP,
        API_CLEAN_NEVER, false, true, "Never"},
    {"deploy/examples/wide_and_deep_podip.yaml", "wide-ande-deep-podip", "PS", 2, 2, API_POD_IP,
        API_CLEAN_NEVER, false, false, "Never"},
    {"deploy/examples/wide_and_deep_service.yaml", "wide-ande-deep-service", "PS", 2, 2,
        API_SERVICE, API_CLEAN_NEVER, false, true, "OnFailure"},
    {"deploy/examples/wide_and_deep_volcano.yaml", "wide-ande-deep-volcano", "PS", 2, 2, API_POD_IP,
        API_CLEAN_NEVER, false, true, "Never"},
    {"deploy/examples/deepfm.yaml", "deepfm", "PS", 2, 2, API_POD_IP, API_CLEAN_OTHER, false, true,
        "Never"},
    {"deploy/examples/resnet.yaml", "resnet", "Collective", 0, 2, API_POD_IP, API_CLEAN_NEVER,
        false, false, "Never"},
    {"deploy/examples/restart.yaml", "restart", "PS", 1, 2, API_POD_IP, API_CLEAN_NEVER, false,
        false, "Never"},
    {"deploy/examples/simple.yaml", "simple", "Collective", 0, 2, API_POD_IP, API_CLEAN_NEVER,
        false, false, "Never"},
    {"deploy/elastic/resnet.yaml", "resnet-elastic", "Collective", 0, 3, API_POD_IP,
        API_CLEAN_NEVER, true, false, "OnFailure"},
};

static char *job_of(const char *file) {
    struct co_err err = {0};
    struct co_buf text = CO_BUF(1 << 20);
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_AUTOJSON json_t *doc = NULL;
    if (co_file_read(file, 1 << 20, &text, &err) ||
        co_yaml_open(file, text.data, text.len, &y, &err) || co_yaml_next(y, &doc, &err)) {
        fail_msg("%s", err.msg);
    }
    json_t *meta = json_object_get(doc, "metadata");
    co_json_set(meta, "uid", json_string("uid-x"));
    co_json_set(meta, "namespace", json_string("ns"));
    co_json_set(meta, "generation", json_integer(1));
    struct api_problem problem;
    if (api_job_validate(doc, true, &problem, 1)) {
        fail_msg("%s: %s", file, problem.message);
    }
    co_buf_done(&text);
    return co_json_dump(doc);
}

static void check_decoded(const struct example_row *row, const struct api_job *job) {
    assert_string_equal(job->name, row->name);
    assert_string_equal(api_mode_name(job->mode), row->mode);
    assert_int_equal(job->role[API_PS].replicas, row->ps);
    assert_int_equal(job->role[API_WORKER].replicas, row->workers);
    assert_int_equal(job->intranet, row->intranet);
    assert_int_equal(job->clean, row->clean);
    assert_int_equal(job->elastic, row->elastic);
    assert_int_equal(job->gloo > 0, row->gloo);
}

static void check_pods(const struct tk_cluster *c, const struct example_row *row) {
    assert_int_equal(json_object_size(c->objects[TK_PODS]), row->ps + row->workers);
    CO_AUTOFREE char *name = co_xasprintf("%s-worker-1", row->name);
    const json_t *spec = co_json_at(c->objects[TK_PODS], name, "spec");
    assert_string_equal(co_json_str(spec, "restartPolicy"), row->restart_policy);
    const json_t *from =
        json_object_get(json_array_get(json_object_get(spec, "containers"), 0), "envFrom");
    assert_int_equal(json_array_size(from), row->elastic ? 0 : 1);
    size_t services = row->intranet == API_SERVICE ? (size_t)(row->ps + row->workers) : 0;
    assert_int_equal(json_object_size(c->objects[TK_SERVICES]), services);
}

static void end_workers(struct tk_cluster *c) {
    const char *name;
    json_t *pod;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        if (strstr(name, "-worker-")) {
            co_json_set(pod, "status", tk_json(DONE));
        }
    }
}

static void every_example_runs_and_ends(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(examples); i++) {
        const struct example_row *row = &examples[i];
        CO_AUTOFREE char *text = job_of(row->file);
        struct tk_cluster c;
        tk_init(&c, text);
        tk_look(&c);
        check_decoded(row, c.seen_job);
        rest(&c);
        check_pods(&c, row);
        run_all(&c);
        expect_status(&c, "phase", "Running");
        const json_t *data = co_json_at(c.objects[TK_CONFIGMAPS], row->name, "data");
        assert_int_equal(
            json_object_get(data, "PADDLE_PSERVERS_IP_PORT_LIST") != NULL, row->ps > 0);
        assert_int_equal(json_object_get(data, "PADDLE_GLOO_HTTP_ENDPOINT") != NULL, row->gloo);
        end_workers(&c);
        rest(&c);
        c.now += PLAN_SERVER_GRACE_DEFAULT;
        rest(&c);
        expect_status(&c, "phase", "Completed");
        tk_done(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_example_runs_and_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
