#include "operator/kube/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct kube_type pods = {"", "v1", "pods", "Pod"};
static const struct kube_type jobs = {"batch.example.org", "v1", "jobs", "Job"};

static void paths(void **state) {
    (void)state;
    static const struct {
        const struct kube_type *type;
        const char *ns, *name, *subresource, *expected;
    } rows[] = {
        {&pods, NULL, NULL, NULL, "/api/v1/pods"},
        {&pods, "a", NULL, NULL, "/api/v1/namespaces/a/pods"},
        {&pods, "a", "p-0", "status", "/api/v1/namespaces/a/pods/p-0/status"},
        {&jobs, "a", "j", NULL, "/apis/batch.example.org/v1/namespaces/a/jobs/j"},
        {&jobs, NULL, "j", NULL, "/apis/batch.example.org/v1/jobs/j"},
        {&pods, "a", "../../b?x=1#y", NULL, "/api/v1/namespaces/a/pods/..%2F..%2Fb%3Fx%3D1%23y"},
        {&pods, "a b", "\xc3\xa9", NULL, "/api/v1/namespaces/a%20b/pods/%C3%A9"},
        {&pods, "a%2fb", "p", NULL, "/api/v1/namespaces/a%252fb/pods/p"},
        /* refused */
        {&pods, "", "p", NULL, NULL},
        {&pods, "a", "", NULL, NULL},
        {&pods, "..", "p", NULL, NULL},
        {&pods, "a", ".", NULL, NULL},
        {&pods, "a", "p\n", NULL, NULL},
        {&pods, "a", NULL, "status", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf b = CO_BUF(1024);
        struct co_err err = {0};
        int rc =
            kube_path_add(&b, rows[i].type, rows[i].ns, rows[i].name, rows[i].subresource, &err);
        if (rows[i].expected) {
            assert_int_equal(rc, 0);
            assert_string_equal(b.data, rows[i].expected);
        } else {
            assert_int_equal(rc, CO_INVALID);
            assert_true(err.msg[0]);
        }
    }
}

static void a_name_longer_than_kubernetes_allows_is_refused(void **state) {
    (void)state;
    char name[300];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CO_AUTOBUF struct co_buf b = CO_BUF(1024);
    assert_int_equal(kube_path_add(&b, &pods, "a", name, NULL, NULL), CO_INVALID);
    name[253] = '\0';
    CO_AUTOBUF struct co_buf c = CO_BUF(1024);
    assert_int_equal(kube_path_add(&c, &pods, "a", name, NULL, NULL), 0);
}

static void query_is_escaped_and_joined(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(1024);
    bool first = true;
    assert_int_equal(kube_query_add(&b, &first, "labelSelector", "a in (b,c),d=e", NULL), 0);
    assert_int_equal(kube_query_add(&b, &first, "x", "&=+", NULL), 0);
    assert_string_equal(b.data, "?labelSelector=a%20in%20%28b%2Cc%29%2Cd%3De&x=%26%3D%2B");
}

static void versions_compare_as_numbers(void **state) {
    (void)state;
    assert_true(kube_version("99") < kube_version("100"));
    assert_int_equal(kube_version("18446744073709551615"), 0);
    assert_int_equal(kube_version(NULL), 0);
    assert_int_equal(kube_version("12a"), 0);
    assert_int_equal(kube_version(""), 0);
}

static void delete_options(void **state) {
    (void)state;
    CO_AUTOJSON json_t *o = kube_delete_options("u-1", true);
    CO_AUTOFREE char *text = co_json_dump_sorted(o);
    assert_string_equal(text, "{\"apiVersion\":\"v1\",\"gracePeriodSeconds\":0,\"kind\":"
                              "\"DeleteOptions\",\"preconditions\":{\"uid\":\"u-1\"},"
                              "\"propagationPolicy\":\"Background\"}");
    CO_AUTOJSON json_t *bare = kube_delete_options(NULL, false);
    assert_int_equal(json_object_size(bare), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(a_name_longer_than_kubernetes_allows_is_refused),
        cmocka_unit_test(query_is_escaped_and_joined),
        cmocka_unit_test(versions_compare_as_numbers),
        cmocka_unit_test(delete_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
