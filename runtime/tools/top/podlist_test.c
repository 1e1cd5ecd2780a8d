#include "runtime/tools/top/podlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

#define POD(spec)                                                                                  \
    "{\"items\":[{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"team\"},"                         \
    "\"spec\":{\"containers\":[" spec "]},\"status\":{\"phase\":\"Running\"}}]}"
#define VARIABLE(value) "\"env\":[{\"name\":\"PADDLERT_METRICS\",\"value\":\"" value "\"}]"
#define PORT                                                                                       \
    "\"ports\":[{\"name\":\"metrics\",\"containerPort\":9500},{\"name\":\"http\","                 \
    "\"containerPort\":80}]"
#define PATH(port) "/api/v1/namespaces/team/pods/w-0:" port "/proxy/metrics"
#define NO_PORT "no port: set PADDLERT_METRICS in its container"

static const struct {
    const char *text, *path, *state;
} rows[] = {
    {POD("{" VARIABLE(":9400") "}"), PATH("9400"), NULL},
    {POD("{" VARIABLE("0.0.0.0:9401") "}"), PATH("9401"), NULL},
    {POD("{" PORT "}"), PATH("9500"), NULL},
    {POD("{" PORT "," VARIABLE(":9400") "}"), PATH("9400"), NULL},
    {POD("{},{" VARIABLE(":9400") "}"), PATH("9400"), NULL}, /* a sidecar before it */
    {POD("{" VARIABLE(":0") "}"), NULL, NO_PORT},            /* a free port: nobody knows which */
    {POD("{" VARIABLE("x") "}"), NULL, NO_PORT},
    {POD("{}"), NULL, NO_PORT},
    {"{\"items\":[{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"team\"}}]}", NULL, "Unknown"},
    {"{\"items\":[{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"team\"},"
     "\"status\":{\"phase\":\"Succeeded\"}}]}",
        NULL, "Succeeded"},
};

static void same(const char *is, const char *wanted) {
    if (wanted) {
        assert_non_null(is);
        assert_string_equal(is, wanted);
    } else {
        assert_null(is);
    }
}

static void the_metrics_path_of_a_pod_is_read_from_the_list(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct top_podlist p = {0};
        assert_int_equal(top_podlist_read(rows[i].text, strlen(rows[i].text), &p, NULL), 0);
        assert_int_equal(p.n, 1);
        assert_string_equal(p.all[0].name, "w-0");
        same(p.all[0].path, rows[i].path);
        same(p.all[0].state, rows[i].state);
        top_podlist_done(&p);
    }
}

static void malformed_pod_lists_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "[]", "{\"items\":{}}", "{\"items\":[", "page not found"};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct top_podlist p = {0};
        assert_int_equal(top_podlist_read(texts[i], strlen(texts[i]), &p, NULL), CO_INVALID);
        assert_null(p.all);
    }
    static const char odd[] = "{\"items\":[7,{},{\"metadata\":{\"name\":\"w-0\"}}]}";
    struct top_podlist p = {0};
    assert_int_equal(top_podlist_read(odd, strlen(odd), &p, NULL), 0);
    assert_int_equal(p.n, 0);
    top_podlist_done(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_metrics_path_of_a_pod_is_read_from_the_list),
        cmocka_unit_test(malformed_pod_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
