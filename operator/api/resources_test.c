/* Rows against a kube-apiserver 1.35.4: each is what a quota counts for such a pod
 * (tests/integration/test_gang.py asks one for these kinds again). */
#include "operator/api/resources.h"

#include "operator/api/api_testing.h"

#define C(resources) "{'resources':{" resources "}}"
#define SIDECAR(resources) "{'restartPolicy':'Always','resources':{" resources "}}"
#define CPU(n) "'requests':{'cpu':" #n "}"

struct row {
    const char *spec, *last, *sum;
};

static const struct row rows[] = {
    {"'containers':[" C("") "]", NULL, "{}"},
    {"'containers':[" C("'requests':{'cpu':1}") "," C("'requests':{'cpu':'500m'}") "]", NULL,
        "{'cpu':'1500m'}"},
    /* Limits count one resource at a time. */
    {"'containers':[" C("'requests':{'cpu':1},'limits':{'cpu':2,'nvidia.com/gpu':1}") "]", NULL,
        "{'cpu':'1','nvidia.com/gpu':'1'}"},
    {"'containers':[" C("'requests':{},'limits':{'cpu':2,'nvidia.com/gpu':1}") "]", NULL,
        "{'cpu':'2','nvidia.com/gpu':'1'}"},
    {"'containers':[" C("'requests':null,'limits':{'memory':'1Gi'}") "]", NULL, "{'memory':'1Gi'}"},
    {"'containers':[" C("'requests':{'cpu':'much'},'limits':{'cpu':2}") "]", NULL, "{'cpu':'2'}"},
    /* Init containers run one after the other. */
    {"'initContainers':[" C(CPU(3)) "," C(CPU(2)) "],'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'3'}"},
    {"'initContainers':[" C("'limits':{'memory':'1Gi'}") "],'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'1','memory':'1Gi'}"},
    /* A native sidecar runs on, beside the init containers after it and beside the others. */
    {"'initContainers':[" SIDECAR(CPU(1)) "],'containers':[" C(CPU(1)) "]", NULL, "{'cpu':'2'}"},
    {"'initContainers':[" SIDECAR(CPU(1)) "," C(CPU(3)) "],'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'4'}"},
    {"'initContainers':[" C(CPU(3)) "," SIDECAR(CPU(1)) "],'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'3'}"},
    {"'initContainers':[" SIDECAR(CPU(1)) "," SIDECAR(CPU(2)) "],'containers':[" C(CPU(1)) "]",
        NULL, "{'cpu':'4'}"},
    /* The start gate is the last of them. */
    {"'initContainers':[" SIDECAR(CPU(1)) "],'containers':[" C(CPU(1)) "]", "{'cpu':'20m'}",
        "{'cpu':'2'}"},
    {"'containers':[" C(CPU(1)) "]", "{'cpu':'20m','memory':'32Mi'}",
        "{'cpu':'1','memory':'32Mi'}"},
    {"'overhead':{'cpu':'250m','memory':'64Mi'},'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'1250m','memory':'64Mi'}"},
    /* What the pod itself says; of devices it says nothing. */
    {"'resources':{'requests':{'cpu':4},'limits':{'memory':'2Gi'}},'containers':[" C(
         "'requests':{'cpu':1,'nvidia.com/gpu':1},'limits':{'nvidia.com/gpu':1}") "]",
        NULL, "{'cpu':'4','memory':'2Gi','nvidia.com/gpu':'1'}"},
    {"'resources':{'limits':{'cpu':4}},'containers':[" C(CPU(1)) "]", NULL, "{'cpu':'1'}"},
    {"'resources':{'requests':{'cpu':4}},'overhead':{'cpu':1},'containers':[" C(CPU(1)) "]", NULL,
        "{'cpu':'5'}"},
};

static void a_pod_counts_as_at_the_api_server(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_xasprintf("{%s}", rows[i].spec);
        CO_AUTOJSON json_t *spec = tk_json(text);
        CO_AUTOJSON json_t *last = rows[i].last ? tk_json(rows[i].last) : NULL;
        CO_AUTOJSON json_t *want = tk_json(rows[i].sum);
        CO_AUTOJSON json_t *sum = api_resources_of_pod(spec, last);
        CO_AUTOFREE char *a = co_json_dump_sorted(sum);
        CO_AUTOFREE char *b = co_json_dump_sorted(want);
        assert_string_equal(a, b);
    }
}

static void a_list_is_names_and_quantities(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"", "{}"},
        {"cpu=1000m,memory=32Mi", "{'cpu':'1','memory':'32Mi'}"}, {"cpu", NULL}, {"cpu=", NULL},
        {"=1", NULL}, {"cpu=-1", NULL}, {"cpu=1,", NULL}, {"cpu=1 memory=2", NULL}};
    for (size_t i = 0; i < CO_ARRAY_LEN(cases); i++) {
        CO_AUTOJSON json_t *list = NULL;
        struct co_err err = {0};
        int r = api_resources_parse(cases[i][0], &list, &err);
        assert_int_equal(r, cases[i][1] ? 0 : CO_INVALID);
        CO_AUTOJSON json_t *want = cases[i][1] ? tk_json(cases[i][1]) : NULL;
        assert_int_equal(json_equal(list, want), want != NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_counts_as_at_the_api_server),
        cmocka_unit_test(a_list_is_names_and_quantities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
