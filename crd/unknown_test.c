#include "crd/unknown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"

static void note(void *arg, const char *path, const char *message) {
    struct co_buf *b = arg;
    assert_int_equal(strncmp(message, path, strlen(path)), 0);
    assert_int_equal(co_buf_addf(b, NULL, "%s%s", b->len ? "; " : "", message), 0);
}

#define NONE " is not a field of a PaddleJob"

/* JSON with ' for ". */
static json_t *parse(const char *row) {
    CO_AUTOFREE char *text = co_xstrdup(row);
    for (char *p = text; *p; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    json_t *parsed = NULL;
    assert_int_equal(co_json_parse(text, strlen(text), &parsed, NULL), 0);
    return parsed;
}

static void a_field_that_no_row_has_is_found(void **state) {
    (void)state;
    static const struct {
        const char *job, *said;
    } rows[] = {
        {"{'apiVersion':'x','kind':'y','metadata':{'any':1},'spec':{'ps':{'replicas':1}}}", ""},
        {"{'spec':{'bakoffLimit':1}}", "spec.bakoffLimit" NONE ": did you mean backoffLimit?"},
        {"{'spec':{'worker':{'replica':1,'templte':{}}}}",
            "spec.worker.replica" NONE ": did you mean replicas?; spec.worker.templte" NONE
            ": did you mean template?"},
        {"{'spec':{'workers':{}}}", "spec.workers" NONE ": did you mean worker?"},
        {"{'spec':{'nothingLikeThat':{}}}", "spec.nothingLikeThat" NONE},
        {"{'spec':{'PS':{}}}", "spec.PS" NONE ": did you mean ps?"},
        {"{'spec':{'Worker':{}}}", "spec.Worker" NONE ": did you mean worker?"},
        {"{'spec':{'worker':{'REPLICAS':1}}}",
            "spec.worker.REPLICAS" NONE ": did you mean replicas?"},
        {"{'spec':{'':1}}", "spec." NONE},
        {"{'':1}", NONE},
        {"{'spec':null,'status':null}", ""},
        {"{'spec':{'worker':null,'ps':7,'failurePolicy':'x'}}", ""},
        {"{'spec':{'failurePolicy':[null,7,{'x':1}]}}", "spec.failurePolicy.2.x" NONE},
        {"{'spec':{'queue':'q'}}", "spec.queue" NONE ": it is called spec.schedulingPolicy.queue"},
        {"{'spec':{'schedulingPolicy':{'queue':'q','minResources':{'a/b':1}}}}", ""},
        {"{'spec':{'ps':{'minAvailable':1}}}",
            "spec.ps.minAvailable" NONE ": it is called spec.schedulingPolicy.minAvailable"},
        {"{'metadata':{'x':1},'metadta':{}}", "metadta" NONE},
        {"{'spec':{'cleanPolicy':'x'}}", "spec.cleanPolicy" NONE ": it is called cleanPodPolicy"},
        {"{'spec':{'sampleSetRef':{}}}",
            "spec.sampleSetRef" NONE
            ": mount the data in the template: spec.volumes and volumeMounts of a container"},
        {"{'spec':{'failurePolicy':[{'action':'Fail'},{'exitCode':'3'}]}}",
            "spec.failurePolicy.1.exitCode" NONE ": did you mean exitCodes?"},
        {"{'spce':{}}", "spce" NONE ": did you mean spec?"},
        /* Kubernetes' own to judge. */
        {"{'spec':{'worker':{'template':{'spec':{'anything':1}}}}}", ""},
        {"{'status':{'worker':{'refs':[{'any':1}]}}}", ""},
        {"{'status':{'anythingElse':1}}", "status.anythingElse" NONE},
        {"{'spec':[1]}", ""},
        {"[]", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf said = CO_BUF(1 << 14);
        CO_AUTOJSON json_t *job = parse(rows[i].job);
        crd_find_unknown(job, &(struct co_findings){.fn = note, .arg = &said, .max = 16});
        assert_string_equal(said.data ? said.data : "", rows[i].said);
    }
}

#define C(more) "{'spec':{'containers':[{" more "}]}}"

static void a_value_of_another_type_is_found(void **state) {
    (void)state;
    static const struct {
        const char *tmpl, *said;
    } rows[] = {
        {C("'command':['a'],'args':null,'env':[{'name':'A','value':'1'}]"), ""},
        {C("'command':'python train.py'"),
            "t.spec.containers.0.command is \"python train.py\", expected a list of strings: write "
            "it as [...]"},
        {C("'args':['--n',2]"),
            "t.spec.containers.0.args.1 is 2, expected a string: write it in quotes"},
        {C("'env':[{'name':'A','value':true}]"),
            "t.spec.containers.0.env.0.value is true, expected a string: write it in quotes"},
        {C("'ports':[{'containerPort':'80'}]"),
            "t.spec.containers.0.ports.0.containerPort is \"80\", expected an integer"},
        {"{'metadata':{'labels':{'a':1}}}",
            "t.metadata.labels.a is 1, expected a string: write it in quotes"},
        {"{'spec':{'nodeSelector':{'gpu':true},'hostNetwork':'yes'}}",
            "t.spec.nodeSelector.gpu is true, expected a string: write it in quotes; "
            "t.spec.hostNetwork is \"yes\", expected a boolean"},
        {"{'spec':{'terminationGracePeriodSeconds':'30s','unknown':[1]}}",
            "t.spec.terminationGracePeriodSeconds is \"30s\", expected an integer"},
        {C("'resources':{'limits':{'cpu':2}}"), ""},
        {C("'ports':[{'containerPort':80.0},{'containerPort':8e1}]"), ""},
        {C("'ports':[{'containerPort':80.5}]"),
            "t.spec.containers.0.ports.0.containerPort is 80.5, expected an integer"},
        {C("'ports':[{'containerPort':[80]}]"),
            "t.spec.containers.0.ports.0.containerPort is [80], expected an integer"},
        {C("'command':{'a':'b'}"),
            "t.spec.containers.0.command is {\"a\":\"b\"}, expected a list of strings"},
        {C("'image':7"), "t.spec.containers.0.image is 7, expected a string: write it in quotes"},
        {C("'image':['a']"), "t.spec.containers.0.image is [\"a\"], expected a string"},
        {C("'image':null"), ""},
        {"{'metadata':{'labels':['a']}}",
            "t.metadata.labels is [\"a\"], expected a map of strings"},
        {"{'metadata':{'annotations':{'a':null,'b':'c'}}}",
            "t.metadata.annotations.a is null, expected a string"},
        /* a value is cut, but not within a letter */
        {C("'command':'0123456789012345678901234567890123456789012345'"),
            "t.spec.containers.0.command is \"012345678901234567890123456789012345678, expected a "
            "list of strings: write it as [...]"},
        {C("'command':'01234567890123456789012345678901234567\u00e9'"),
            "t.spec.containers.0.command is \"01234567890123456789012345678901234567, expected a "
            "list of strings: write it as [...]"},
        /* lists, objects, and what is in lists */
        {"{'spec':{'tolerations':{'key':'a'}}}", "t.spec.tolerations is {\"key\":\"a\"}, expected "
                                                 "a list of objects: write each as a list "
                                                 "item"},
        {"{'spec':{'imagePullSecrets':['a',{'name':'b'}]}}",
            "t.spec.imagePullSecrets.0 is \"a\", expected an object"},
        {"{'spec':{'imagePullSecrets':'a'}}",
            "t.spec.imagePullSecrets is \"a\", expected a list of objects"},
        {"{'spec':{'securityContext':'root','volumes':null}}",
            "t.spec.securityContext is \"root\", expected an object"},
        {C("'resources':['a']"), "t.spec.containers.0.resources is [\"a\"], expected an object"},
        {C("'resources':{'limits':1}"),
            "t.spec.containers.0.resources.limits is 1, expected a map of quantities"},
        {C("'env':['A=b']"), "t.spec.containers.0.env.0 is \"A=b\", expected an object"},
        {"[]", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf said = CO_BUF(1 << 14);
        CO_AUTOJSON json_t *tmpl = parse(rows[i].tmpl);
        crd_find_mistyped(tmpl, "t", &(struct co_findings){.fn = note, .arg = &said, .max = 16});
        assert_string_equal(said.data ? said.data : "", rows[i].said);
    }
}

#define NO(what) " is not a field of " what ", and would be dropped: "

static void a_name_that_kubernetes_would_drop_is_found(void **state) {
    (void)state;
    static const struct {
        const char *tmpl, *said;
    } rows[] = {
        {C("'comand':['a']"),
            "t.spec.containers.0.comand" NO("a container") "did you mean command?"},
        {C("'resource':{'limits':{'nvidia.com/gpu':1}}"),
            "t.spec.containers.0.resource" NO("a container") "did you mean resources?"},
        {C("'resources':{'limit':{}}"),
            "t.spec.containers.0.resources.limit" NO("resources") "did you mean limits?"},
        {C("'limits':{'cpu':1}"),
            "t.spec.containers.0.limits" NO("a container") "it belongs to resources"},
        {C("'volumes':[]"),
            "t.spec.containers.0.volumes" NO("a container") "it belongs to template.spec"},
        {"{'spec':{'env':[],'nodeSelecter':{}}}",
            "t.spec.env" NO("a pod's spec") "it belongs to spec.containers; "
                                            "t.spec.nodeSelecter" NO(
                                                "a pod's spec") "did you mean nodeSelector?"},
        {"{'spec':{'volumes':[{'name':'d','emptyDir':{'sizelimit':'1Gi'}}]}}",
            "t.spec.volumes.0.emptyDir.sizelimit" NO("emptyDir") "did you mean sizeLimit?"},
        {"{'metadata':{'label':{}}}", "t.metadata.label" NO("metadata") "did you mean labels?"},
        {"{'containers':[]}", "t.containers" NO("a template") "it belongs to spec"},
        /* Names of people, of a newer Kubernetes, and what stands in an object that nobody lists.
         */
        {"{'metadata':{'labels':{'nam':'x'}},'spec':{'nodeSelector':{'gpus':'1'},"
         "'somethingNewer':{'nam':1},'volumes':[{'name':'d','csi':{'drivr':'x'}}]}}",
            ""},
        {C("'resources':{'limits':{'nvidia.com/gpu':1}},'restartPolicyRules':[],'tty':true"), ""},
        {"{'spec':{'containers':'x','volumes':[1],'hostPID':true,'resources':{'requests':{}}}}",
            ""},
        {"[]", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf said = CO_BUF(1 << 14);
        CO_AUTOJSON json_t *tmpl = parse(rows[i].tmpl);
        crd_find_misspelt(tmpl, "t", &(struct co_findings){.fn = note, .arg = &said, .max = 16});
        assert_string_equal(said.data ? said.data : "", rows[i].said);
    }
}

static void reports_of_unknown_fields_are_bounded(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf said = CO_BUF(1 << 14);
    CO_AUTOJSON json_t *spec = json_object();
    char name[500];
    for (int i = 0; i < 40; i++) {
        memset(name, 'a' + i % 20, sizeof(name) - 1);
        name[300 + i] = '\0';
        co_json_set(spec, name, json_true());
    }
    CO_AUTOJSON json_t *job = json_pack("{s:O}", "spec", spec);
    struct co_findings to = {.fn = note, .arg = &said, .max = 16};
    crd_find_unknown(job, &to);
    assert_int_equal(to.n, 16);
    assert_true(said.len < (size_t)16 * 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_that_no_row_has_is_found),
        cmocka_unit_test(a_value_of_another_type_is_found),
        cmocka_unit_test(a_name_that_kubernetes_would_drop_is_found),
        cmocka_unit_test(reports_of_unknown_fields_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
