#include <string.h>

#include "operator/api/api_testing.h"
#include "operator/api/job.h"

/* A job of two roles, whose workers have so many variables without a value. */
static json_t *job_with(size_t variables) {
    json_t *env = json_array();
    for (size_t i = 0; i < variables; i++) {
        co_json_append(env, json_object());
    }
    json_t *obj = tk_json(
        "{'metadata':{'name':'x','namespace':'ns','uid':'u','annotations':{'a':'b'}},'spec':{"
        "'intranet':'Service','ps':{'replicas':1,'template':{'spec':{'containers':[{'name':'a'}]}}}"
        ","
        "'worker':{'replicas':3,'template':{'spec':{'containers':[{'name':'a'}]}}}},"
        "'status':{'phase':'Running','attempt':2}}");
    co_json_set(
        json_array_get(co_json_at(obj, "spec", "worker", "template", "spec", "containers"), 0),
        "env", env);
    return obj;
}

static int read_job(const json_t *obj, size_t most, struct api_job **ret, struct co_err *err) {
    CO_AUTOFREE char *text = co_json_dump(obj);
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    assert_int_equal(co_jdoc_read(text, strlen(text), NULL, &doc, NULL), 0);
    return api_job_of_nodes(doc.node, most, ret, err);
}

static void a_job_within_the_limit_is_read_without_annotations(void **state) {
    (void)state;
    CO_AUTOJSON json_t *obj = job_with(10);
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    assert_int_equal(read_job(obj, 64 * 1024, &job, NULL), 0);
    json_object_del(json_object_get(obj, "metadata"), "annotations");
    assert_true(json_equal(job->json, obj));
    assert_int_equal(job->n_problems, 0);
}

static void a_job_above_the_limit_is_read_without_its_large_fields(void **state) {
    (void)state;
    CO_AUTOJSON json_t *obj = job_with(100000);
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    assert_int_equal(read_job(obj, 8 << 20, &job, NULL), 0);
    assert_int_equal(job->n_problems, 1);
    assert_string_equal(api_problem_code_name(job->problems[0].code), "TooLarge");
    assert_string_equal(job->problems[0].message,
        "spec takes 23 MiB of the operator's memory, which has 8 MiB for one job: make it smaller "
        "(many small values take most), or give the operator more memory");
    assert_string_equal(job->uid, "u");
    assert_int_equal(job->intranet, API_SERVICE);
    assert_int_equal(job->role[API_WORKER].replicas, 3);
    assert_non_null(job->role[API_PS].tmpl);
    assert_null(job->role[API_WORKER].tmpl);
    assert_int_equal(job->phase, API_PHASE_RUNNING);
    assert_int_equal(job->attempt, 2);
}

static void the_memory_of_a_job_above_the_limit_is_bounded(void **state) {
    (void)state;
    CO_AUTOJSON json_t *obj = job_with(100000);
    json_t *spec = json_object_get(obj, "spec");
    for (int i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        CO_AUTOFREE char *text = co_xcalloc(1, 8001);
        memset(text, 'x', 8000);
        co_json_set(spec, key, json_string(text));
    }
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    assert_int_equal(read_job(obj, 8 << 20, &job, NULL), 0);
    assert_in_range(json_object_size(json_object_get(job->json, "spec")), 2, 70);
}

static void a_status_without_an_end_is_refused(void **state) {
    (void)state;
    struct co_err err = {0};
    CO_AUTOJSON json_t *obj = job_with(0);
    CO_AUTOJSON json_t *large = job_with(40000);
    co_json_set(obj, "status", json_incref(json_object_get(large, "spec")));
    struct api_job *job = NULL;
    assert_int_equal(read_job(obj, 8 << 20, &job, &err), CO_INVALID);
}

static void objects_that_are_no_job_are_refused(void **state) {
    (void)state;
    static const char *const rows[] = {"[]", "{}", "{'metadata':[]}", "{'metadata':{'name':''}}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *obj = tk_json(rows[i]);
        struct api_job *job = NULL;
        assert_int_equal(read_job(obj, 8 << 20, &job, NULL), CO_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_within_the_limit_is_read_without_annotations),
        cmocka_unit_test(a_job_above_the_limit_is_read_without_its_large_fields),
        cmocka_unit_test(the_memory_of_a_job_above_the_limit_is_bounded),
        cmocka_unit_test(a_status_without_an_end_is_refused),
        cmocka_unit_test(objects_that_are_no_job_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
