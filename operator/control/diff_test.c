/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/diff.h"

#include <string.h>

static const struct {
    const char *from, *to, *patch; /* patch NULL: equal */
} rows[] = {
    {"{\"a\":1}", "{\"a\":1}", NULL},
    {"{\"a\":1}", "{\"a\":2}", "{\"a\":2}"},
    {"{\"a\":1}", "{}", "{\"a\":null}"},
    {"{}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
    {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1,\"c\":3}}", "{\"a\":{\"c\":3}}"},
    {"{\"a\":[1,2]}", "{\"a\":[1]}", "{\"a\":[1]}"},
    {"{\"a\":[1]}", "{\"a\":[1]}", NULL},
    {"{\"a\":{}}", "{\"a\":null}", "{\"a\":null}"},
    {"{}", "{\"a\":null}", NULL},
    {"null", "{\"phase\":\"Pending\"}", "{\"phase\":\"Pending\"}"},
};

static void the_merge_patch_is_minimal(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *from = json_loads(rows[i].from, JSON_DECODE_ANY, NULL);
        CO_AUTOJSON json_t *to = json_loads(rows[i].to, 0, NULL);
        CO_AUTOJSON json_t *patch = ctl_merge_diff(from, to);
        CO_AUTOFREE char *text = patch ? co_json_dump(patch) : NULL;
        if (!co_streq(text, rows[i].patch)) {
            fail_msg("row %zu: %s, expected %s", i, text, rows[i].patch);
        }
    }
}

#define RUNS(message)                                                                              \
    "'conditions':[{'type':'Running','status':'False','reason':'Pending','message':'" message "'}" \
    "]"

#define COMPLETES(status)                                                                          \
    "'conditions':[{'type':'Running','status':'False','reason':'Pending','message':''},{'type':"   \
    "'Completing','status':'" status "'}]"

static const struct {
    const char *stored, *wanted;
    bool can_wait;
} writes[] = {
    {NULL, "{'phase':'Pending','mode':'PS'}", true},
    {NULL, "{'phase':'Pending','reason':'NameTaken'}", false},
    {NULL, "{'phase':'Running'}", false},
    {"{'phase':'Pending','ps':{'pending':1}}", "{'phase':'Pending','ps':{'running':1}}", true},
    {"{'phase':'Pending','ps':{'pending':1}}", "{'phase':'Running','ps':{'running':1}}", false},
    {"{'phase':'Pending'}", "{'phase':'Pending','message':'1 of 2','readyWorker':'1/2'}", true},
    {"{'phase':'Pending'," RUNS("1") "}", "{'phase':'Pending'," RUNS("2") "}", true},
    {"{'phase':'Pending'," RUNS("1") "}", "{'phase':'Pending','conditions':[]}", false},
    {"{'phase':'Running'," RUNS("") "}",
        "{'phase':'Running','reason':'Done'," COMPLETES("True") "}", true},
    {"{'phase':'Running'," COMPLETES("False") "}",
        "{'phase':'Running','reason':'Done'," COMPLETES("True") "}", true},
    {"{'phase':'Running','reason':'Done'," COMPLETES("True") "}",
        "{'phase':'Running'," COMPLETES("False") "}", false},
    {"{'phase':'Running','reason':'Done'," COMPLETES("True") "}",
        "{'phase':'Running'," RUNS("") "}", false},
    {"{'phase':'Running'," RUNS("") "}", "{'phase':'Completed'," COMPLETES("True") "}", false},
    {"{'phase':'Running'}", "{'phase':'Running','reason':'NameTaken'}", false},
    {"{'phase':'Running','restarts':1}", "{'phase':'Running','restarts':2}", false},
    {"{'phase':'Running'}", "{'phase':'Running','attempt':1}", false},
};

static json_t *quoted(const char *text) {
    CO_AUTOFREE char *copy = co_xstrdup(text ? text : "null");
    for (char *p = copy; *p; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    return json_loads(copy, JSON_DECODE_ANY, NULL);
}

static void only_status_changes_that_nobody_waits_for_are_delayed(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(writes); i++) {
        CO_AUTOJSON json_t *stored = writes[i].stored ? quoted(writes[i].stored) : NULL;
        CO_AUTOJSON json_t *wanted = quoted(writes[i].wanted);
        CO_AUTOJSON json_t *diff = ctl_merge_diff(stored, wanted);
        if (ctl_status_can_wait(stored, wanted, diff) != writes[i].can_wait) {
            fail_msg("row %zu: %s -> %s", i, writes[i].stored, writes[i].wanted);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_merge_patch_is_minimal),
        cmocka_unit_test(only_status_changes_that_nobody_waits_for_are_delayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
