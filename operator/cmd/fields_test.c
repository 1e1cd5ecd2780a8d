/* The table of fields (crd/), by which the API server checks a job, and the operator's own check
 * (operator/api/validate.c), for jobs that no API server has checked, agree on every field of the
 * spec: its type, its least value, its words, how many there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "crd/crd.h"
#include "operator/api/api_testing.h"
#include "operator/api/job.h"

/* A job without problems that has every object of the spec. */
static json_t *full_job(void) {
    static const char template[] =
        "{'replicas':1,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}";
    json_t *job = tk_json("{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob','metadata':"
                          "{'name':'x','namespace':'ns','uid':'u'},'spec':{'schedulingPolicy':{},"
                          "'failurePolicy':[{'action':'Fail'}]}}");
    static const char *const roles[] = {"ps", "worker", "heter"};
    for (size_t i = 0; i < CO_ARRAY_LEN(roles); i++) {
        co_json_set(json_object_get(job, "spec"), roles[i], tk_json(template));
    }
    return job;
}

/* Sets the field; in a list, of its first item.  Returns whether the job has a problem then. */
static bool is_refused(const char *path, json_t *value_own) {
    CO_AUTOJSON json_t *job = full_job();
    CO_AUTOFREE char *text = co_xstrdup(path);
    json_t *in = job;
    char *rest = text, *key = strsep(&rest, ".");
    for (; rest; key = strsep(&rest, ".")) {
        in = json_object_get(in, key);
        in = json_is_array(in) ? json_array_get(in, 0) : in;
    }
    assert_non_null(in);
    co_json_set(in, key, value_own);
    struct api_problem problems[API_PROBLEMS_MAX];
    return api_job_validate(job, true, problems, API_PROBLEMS_MAX) > 0;
}

static json_t *fitting(enum crd_type type) {
    static const char *const texts[CRD_TYPES] = {
        [CRD_OBJECT] = "{}",
        [CRD_OBJECT_LIST] = "[]",
        [CRD_STRING] = "'1'",
        [CRD_STRING_LIST] = "['a']",
        [CRD_STRING_MAP] = "{'a':'b'}",
        [CRD_QUANTITY_MAP] = "{'cpu':1}",
        [CRD_INTEGER] = "1",
        [CRD_INT32] = "1",
        [CRD_INT64] = "1",
        [CRD_BOOLEAN] = "true",
        [CRD_TIME] = "'1970-01-12T13:46:40Z'",
    };
    CO_AUTOFREE char *list = co_xasprintf("[%s]", texts[type]);
    CO_AUTOJSON json_t *value = tk_json(list);
    return json_incref(json_array_get(value, 0));
}

static void try_value(const char *path, json_t *value_own, bool should, int *wrong) {
    if (is_refused(path, json_incref(value_own)) != should) {
        CO_AUTOFREE char *text = json_dumps(value_own, JSON_ENCODE_ANY);
        print_error(
            "%s: %.60s is %s by the table only\n", path, text, should ? "refused" : "taken");
        ++*wrong;
    }
    json_decref(value_own);
}

static bool is_number(enum crd_type t) {
    return t == CRD_INTEGER || t == CRD_INT32 || t == CRD_INT64;
}

/* One value of each type: those of another one are refused. */
static void try_types(const struct crd_field *f, const char *path, int *wrong) {
    for (enum crd_type t = 0; t < CRD_TYPES; t++) {
        CO_AUTOJSON json_t *value = fitting(t), *own = fitting(f->type);
        bool same =
            json_is_boolean(value) ? json_is_boolean(own) : json_typeof(value) == json_typeof(own);
        if (!same) {
            try_value(path, json_incref(value), true, wrong);
        }
    }
    try_value(path, json_real(1.5), true, wrong);
    try_value(path, fitting(CRD_INTEGER), !is_number(f->type), wrong);
    if (f->type == CRD_INT32) {
        try_value(path, json_integer((json_int_t)INT32_MAX), false, wrong);
        try_value(path, json_integer((json_int_t)INT32_MAX + 1), true, wrong);
    } else if (f->type == CRD_QUANTITY_MAP) {
        try_value(path, tk_json("{'cpu':'500m','memory':1}"), false, wrong);
        try_value(path, tk_json("{'cpu':'much'}"), true, wrong);
    } else if (f->type == CRD_STRING_LIST) {
        try_value(path, json_pack("[s,i]", "a", 1), true, wrong);
    }
}

static void try_rule(const struct crd_field *f, const char *path, int *wrong) {
    long long least = 0;
    const char *rule = f->rules ? f->rules->rule : "";
    if (sscanf(rule, "self >= %lld", &least) == 1) {
        try_value(path, json_integer(least - 1), true, wrong);
        try_value(path, json_integer(least), false, wrong);
    } else if (strncmp(rule, "self in ", 8) == 0) {
        CO_AUTOJSON json_t *words = tk_json(rule + 8);
        size_t i;
        json_t *word;
        json_array_foreach(words, i, word) {
            try_value(path, json_incref(word), false, wrong);
        }
        try_value(path, json_string("Other"), true, wrong);
    }
}

static void try_fields(/* NOLINT(misc-no-recursion) */
    const struct crd_field *fields, const char *base, int *wrong, int *n) {
    for (const struct crd_field *f = fields; f->name; f++) {
        CO_AUTOFREE char *path = co_xasprintf("%s.%s", base, f->name);
        try_types(f, path, wrong);
        try_rule(f, path, wrong);
        ++*n;
        if (f->fields && !f->open) { /* a template is Kubernetes' own: validate_pod.c */
            try_fields(f->fields, path, wrong, n);
        }
    }
}

static void every_field_is_checked_as_its_row_says(void **state) {
    (void)state;
    CO_AUTOJSON json_t *job = full_job();
    struct api_problem problems[1];
    assert_int_equal(api_job_validate(job, true, problems, 1), 0);
    const struct crd_field *spec = crd_job.fields;
    assert_string_equal(spec->name, "spec");
    int wrong = 0, n = 0;
    try_fields(spec->fields, "spec", &wrong, &n);
    assert_true(n > 30);
    assert_int_equal(wrong, 0);
}

static void a_list_has_no_more_items_than_its_row_says(void **state) {
    (void)state;
    for (const struct crd_field *f = crd_job.fields->fields; f->name; f++) {
        for (unsigned more = 0; f->type == CRD_OBJECT_LIST && f->max && more < 2; more++) {
            json_t *list = json_array();
            for (unsigned i = 0; i < f->max + more; i++) {
                co_json_append(list, tk_json("{'action':'Fail'}"));
            }
            CO_AUTOFREE char *path = co_xasprintf("spec.%s", f->name);
            assert_int_equal(is_refused(path, list), more);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_checked_as_its_row_says),
        cmocka_unit_test(a_list_has_no_more_items_than_its_row_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
