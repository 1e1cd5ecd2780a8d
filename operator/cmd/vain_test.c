#include "operator/cmd/vain.h"

#include "common/buf.h"
#include "common/mem.h"
#include "operator/api/api_testing.h"

#define RULES(...) "{'failurePolicy':[" __VA_ARGS__ "]}"
#define NEVER(n, by)                                                                               \
    "spec.failurePolicy." n " never applies: spec.failurePolicy." by                               \
    ", before it, fits the same pods"

static void note(void *arg, const char *path, const char *message) {
    struct co_buf *b = arg;
    assert_int_equal(strncmp(message, path, strlen(path)), 0);
    assert_int_equal(co_buf_addf(b, NULL, "%s%s", b->len ? "; " : "", message), 0);
}

static void spec_fields_without_effect_are_reported(void **state) {
    (void)state;
    static const struct {
        const char *spec, *said;
    } rows[] = {
        {"{}", ""},
        {RULES("{'action':'Fail','reasons':['OOMKiled']}"),
            "spec.failurePolicy.0.reasons.0 is \"OOMKiled\", which Kubernetes does not say: did "
            "you mean OOMKilled?"},
        {RULES("{'action':'Fail','reasons':['OOMKilled','evicted']}"),
            "spec.failurePolicy.0.reasons.1 is \"evicted\", which Kubernetes does not say: did "
            "you mean Evicted?"},
        {RULES("{'action':'Fail','reasons':['OOMKilled','Evicted','MyOwnControllersWord']}"), ""},
        {RULES("{'action':'Fail','reasons':[]}"),
            "spec.failurePolicy.0 has an empty list of reasons, so that it fits no pod: leave it "
            "out for any"},
        {RULES("{'action':'Fail'},{'action':'Restart','exitCodes':'3'}"), NEVER("1", "0")},
        {RULES("{'action':'Fail','role':'ps'},{'action':'Restart','exitCodes':'3'},{'action':"
               "'Ignore','role':'ps'}"),
            NEVER("2", "0")},
        /* A rule with reasons also fits pods that the cluster took away. */
        {RULES("{'action':'Fail'},{'action':'Ignore','reasons':['Evicted']}"), ""},
        {RULES("{'action':'Restart','exitCodes':'3'},{'action':'Fail'}"), ""},
        {RULES("{'action':'Fail','reasons':['Evicted']},{'action':'Fail'}"), ""},
        {"{'schedulingPolicy':{'minAvailable':4},'ps':{'replicas':1},'worker':{'replicas':2}}",
            "spec.schedulingPolicy.minAvailable is 4, but the job has at most 3 pods: the "
            "scheduler would wait for ever"},
        {"{'schedulingPolicy':{'minAvailable':4},'ps':{'replicas':1},'worker':{'replicas':2,"
         "'limits':3}}",
            ""},
        {"{'schedulingPolicy':7,'failurePolicy':{},'worker':[]}", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf said = CO_BUF(1 << 14);
        CO_AUTOJSON json_t *spec = tk_json(rows[i].spec);
        opc_vain_find(spec, &(struct co_findings){.fn = note, .arg = &said, .max = 16});
        assert_string_equal(said.data ? said.data : "", rows[i].said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_fields_without_effect_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
