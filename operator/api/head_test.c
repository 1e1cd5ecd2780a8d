#include "operator/api/head.h"

#include "common/json/json.h"
#include "operator/api/api_testing.h"

#define COMPLETING(is, generation)                                                                 \
    "{'metadata':{'name':'x','generation':2},'status':{'phase':'Running','conditions':[{'type':"   \
    "'Running','status':'True'},{'type':'Completing','status':'" is                                \
    "','observedGeneration':" #generation "}]}}"

static const struct {
    const char *text; /* with ' for " */
    const char *want; /* ns name version created phase started elsewhere deleting trained; NULL:
                       * refused */
} rows[] = {
    {"{'metadata':{'name':'x','namespace':'n','resourceVersion':'7',"
     "'creationTimestamp':'1970-01-01T00:01:40Z'},'status':{'phase':'Running','startTime':'t'}}",
        "n x 7 100 Running 1 0 0 0"},
    {"{'metadata':{'deletionTimestamp':'t','name':'x'}}", " x - 0  0 0 1 0"},
    {"{'metadata':{'deletionTimestamp':null,'name':'x','creationTimestamp':'soon'},'status':[]}",
        " x - 0  0 0 0 0"},
    {"{'metadata':{'name':'x','managedFields':[{'phase':{'deletionTimestamp':'t'}}]}}",
        " x - 0  0 0 0 0"},
    {"{'metadata':{'name':'x'},'spec':{'metadata':{'name':'y'},'status':{'phase':'Failed'},"
     "'managedBy':'other'}}",
        " x - 0  0 1 0 0"},
    {"{'metadata':{'name':'x'},'status':{'phase':'Completed'}}", " x - 0 Completed 0 0 0 1"},
    {"{'metadata':{'name':'x'},'status':{'phase':'Failed'}}", " x - 0 Failed 0 0 0 0"},
    {COMPLETING("True", 2), " x - 0 Running 0 0 0 1"},
    {COMPLETING("True", 1), " x - 0 Running 0 0 0 0"}, /* the spec is another one since */
    {COMPLETING("False", 2), " x - 0 Running 0 0 0 0"},
    {"{'metadata':{'name':''}}", NULL},
    {"{'metadata':{'name':7}}", NULL},
    {"[]", NULL},
};

static void job_metadata_is_read_or_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_xstrdup(rows[i].text);
        for (char *p = text; *p; p++) {
            *p = *p == '\'' ? '"' : *p;
        }
        struct co_err err = {0};
        struct api_job_head h = {.name = NULL};
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        assert_int_equal(co_jdoc_read(text, strlen(text), NULL, &doc, NULL), 0);
        int r = api_job_head_read(doc.node, &h, &err);
        if (!rows[i].want) {
            assert_int_equal(r, CO_INVALID);
            assert_non_null(strstr(co_err_text(&err), "job"));
            continue;
        }
        assert_int_equal(r, 0);
        CO_AUTOFREE char *have = co_xasprintf("%s %s %s %d %s %d %d %d %d", h.ns, h.name,
            h.version ? h.version : "-", (int)h.created, api_phase_name(h.phase), h.started,
            h.elsewhere, h.deleting, h.trained);
        assert_string_equal(have, rows[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(job_metadata_is_read_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
