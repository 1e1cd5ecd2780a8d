/* What `validate` says of templates, row by row; in words of a kube-apiserver 1.35 where it has
 * any. */
#include "operator/api/validate_pod.h"

#include "operator/api/api_testing.h"

struct findings {
    size_t n;
    char *first; /* owned: the first message */
};

static void collect(void *arg, const char *path, const char *message) {
    struct findings *h = arg;
    assert_int_equal(strncmp(message, path, strlen(path)), 0);
    if (h->n++ == 0) {
        h->first = co_xstrdup(message);
    }
}

#define BASE "spec.worker.template.spec"
#define C(more) "'containers':[{'name':'m','image':'i'" more "}]"
#define PROBE "{'tcpSocket':{'port':1}}"
#define WANTS(requests, limits) C(",'resources':{'requests':{" requests "},'limits':{" limits "}}")

static const struct {
    const char *spec;
    const char *message; /* its beginning, after BASE; NULL: nothing is wrong */
} rows[] = {
    {C(""), NULL},
    {C(",'env':null,'ports':null,'resources':null") ",'volumes':null", NULL},
    /* words */
    {"'restartPolicy':'Sometimes'," C(""),
        ".restartPolicy is \"Sometimes\", expected one of OnFailure, Never, Always"},
    {"'restartPolicy':7," C(""), ".restartPolicy is 7, expected"},
    {"'restartPolicy':''," C(""), NULL}, /* the operator sets it */
    {"'restartPolicy':'Always'," C(""), ".restartPolicy is Always: a container that has succeeded"},
    {"'restartPolicy':'OnFailure'," C(""), NULL},
    {"'dnsPolicy':'host'," C(""), ".dnsPolicy is \"host\""},
    {C(",'imagePullPolicy':'always'"), ".containers.0.imagePullPolicy is \"always\""},
    {C(",'ports':[{'containerPort':1,'protocol':'tcp'}]"), ".containers.0.ports.0.protocol is"},
    /* names */
    {"'containers':[{'image':'i'}]", ".containers.0.name is missing"},
    {"'containers':[{'name':'a_b','image':'i'}]", ".containers.0.name is \"a_b\": use small"},
    {"'containers':[{'name':'m'}]", ".containers.0 has no image"},
    {"'containers':[{'name':'m','image':'i'},{'name':'m','image':'i'}]",
        ".containers.1.name is \"m\", as another one before it"},
    {"'initContainers':[{'name':'m','image':'i'}]," C(""), ".containers.0.name is \"m\", as"},
    {"'containers':[{'name':'coord-paddle','image':'i'}]", ".containers.0 is called coord-paddle"},
    {"'containers':[{'name':"
     "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','image':'i'}]",
        ".containers.0.name is \"aaa"},
    /* env */
    {C(",'env':[{'name':'A','value':'1'},{'name':'A','value':'2'}]"),
        ".containers.0.env.1 is \"A\", as another one"},
    {C(",'env':[{'value':'1'}]"), ".containers.0.env.0 has no name"},
    {C(",'env':[{'name':'A','value':'','valueFrom':{}}]"), NULL},
    {C(",'env':[{'name':'a-b.c d'}]"), NULL},
    {C(",'env':[{'name':'A=1'}]"), ".containers.0.env.0 is \"A=1\": use printable ASCII"},
    {C(",'env':[{'name':'\u00c4'}]"), ".containers.0.env.0 is \"\u00c4\": use printable ASCII"},
    {C(",'env':[{'name':'A','value':'1','valueFrom':{}}]"), ".containers.0.env.0 has both"},
    /* ports */
    {C(",'ports':[{'containerPort':80},{'containerPort':80,'protocol':'UDP'}]"), NULL},
    {C(",'ports':[{'containerPort':80},{'containerPort':80,'protocol':'TCP'}]"),
        ".containers.0.ports.1 is \"80/TCP\", as another one"},
    {C(",'ports':[{'containerPort':80,'name':'a'},{'containerPort':81,'name':'a'}]"),
        ".containers.0.ports.1.name is \"a\", as another one"},
    {C(",'ports':[{'containerPort':80,'name':'a-very-long-name'}]"), ".containers.0.ports.0.name"},
    {C(",'ports':[{'containerPort':70000}]"),
        ".containers.0.ports.0 has containerPort 70000: expected 1 to 65535"},
    {C(",'ports':[{'name':'a'}]"), ".containers.0.ports.0 has containerPort 0: expected"},
    {C(",'ports':[{'containerPort':'80'}]"), NULL}, /* crd_find_mistyped says so */
    {C(",'ports':[{'containerPort':80,'hostPort':81}]"), NULL},
    {C(",'ports':[{'containerPort':80,'hostPort':0}]"), NULL}, /* none */
    {C(",'ports':[{'containerPort':80,'hostPort':-1}]"),
        ".containers.0.ports.0 has hostPort -1: expected 1 to 65535"},
    {C(",'ports':[{'containerPort':80,'hostPort':8080},{'containerPort':81,'hostPort':8080}]"),
        ".containers.0.ports.1 takes port 8080 of the node, as another one"},
    {C(",'ports':[{'containerPort':80,'hostPort':8080,'hostIP':'10.0.0.1'},{'containerPort':81,"
       "'hostPort':8080,'hostIP':'10.0.0.2'}]"),
        NULL},
    {"'hostNetwork':true," C(",'ports':[{'containerPort':80},{'containerPort':81,'hostPort':81}]"),
        NULL},
    {"'hostNetwork':true," C(",'ports':[{'containerPort':80,'hostPort':81}]"),
        ".containers.0.ports.0 has hostPort 81 and containerPort 80: on the network"},
    {"'hostNetwork':true,'initContainers':[{'name':'i','image':'i','ports':[{'containerPort':80,"
     "'hostPort':81}]}]," C(",'ports':[{'containerPort':80}]"),
        NULL},
    {"'hostNetwork':true,'containers':[{'name':'a','image':'i','ports':[{'containerPort':80}]},{"
     "'name':'b','image':'i','ports':[{'containerPort':80}]}]",
        ".containers.1.ports.0 takes port 80 of the node, as another one"},
    {C(",'ports':[{'containerPort':80,'name':'a-1-2'}]"), NULL},
    {C(",'ports':[{'containerPort':80,'name':'123'}]"),
        ".containers.0.ports.0.name is \"123\": use small letters, digits and '-', 15 "
        "at most, with a letter among them"},
    {C(",'ports':[{'containerPort':80,'name':'a--b'}]"),
        ".containers.0.ports.0.name is \"a--b\": use small"},
    {C(",'ports':[{'containerPort':80,'name':'a234567890123456'}]"),
        ".containers.0.ports.0.name is \"a234567890123456\": use small"},
    /* rules of restarts */
    {C(",'restartPolicy':'Never','restartPolicyRules':[{'action':'Restart','exitCodes':{'operator':"
       "'NotIn','values':[1]}}]"),
        NULL},
    {C(",'restartPolicyRules':[{'action':'Restart','exitCodes':{'operator':'In','values':[1]}}]"),
        ".containers.0 has restartPolicyRules, but no restartPolicy"},
    {C(",'restartPolicy':'Never','restartPolicyRules':[{'action':'restart'}]"),
        ".containers.0.restartPolicyRules.0.action is \"restart\", expected one of Restart,"},
    {C(",'restartPolicy':'Never','restartPolicyRules':[{'exitCodes':{'operator':'is'}}]"),
        ".containers.0.restartPolicyRules.0.exitCodes.operator is \"is\", expected one of In"},
    /* volumes */
    {C(",'volumeMounts':[{'name':'d','mountPath':'/d'}]") ",'volumes':[{'name':'d'}]", NULL},
    {C(",'volumeMounts':[{'name':'e','mountPath':'/d'}]") ",'volumes':[{'name':'d'}]",
        ".containers.0.volumeMounts.0 mounts \"e\", but spec.volumes has no volume"},
    {C(",'volumeMounts':[{'name':'d'}]") ",'volumes':[{'name':'d'}]",
        ".containers.0.volumeMounts.0 has no mountPath"},
    {C(",'volumeMounts':[{'name':'d','mountPath':'/d'},{'name':'d','mountPath':'/d'}]") ",'volumes'"
                                                                                        ":[{'name':"
                                                                                        "'d'}]",
        ".containers.0.volumeMounts.1 is \"/d\", as another one"},
    {C("") ",'volumes':[{'name':'d'},{'name':'d'}]", ".volumes.1.name is \"d\", as another one"},
    {C("") ",'volumes':[{'name':'d','emptyDir':{},'hostPath':{}}]", ".volumes.0 has more than one"},
    /* resources */
    {WANTS("'cpu':1,'nvidia.com/gpu':1", "'cpu':2,'nvidia.com/gpu':1"), NULL},
    {WANTS("'cpu':3", "'cpu':2"), ".containers.0.resources requests more cpu than its limit"},
    {WANTS("'nvidia.com/gpu':1", ""), ".containers.0.resources has no limit of nvidia.com/gpu"},
    {WANTS("'nvidia.com/gpu':1", "'nvidia.com/gpu':2"),
        ".containers.0.resources requests another number of nvidia.com/gpu"},
    {WANTS("", "'nvidia.com/gpu':2"), NULL},
    {WANTS("", "'gpu':2"), ".containers.0.resources.limits has \"gpu\", which is no resource"},
    {WANTS("'memory':'8GB'", ""), ".containers.0.resources.requests has memory: \"8GB\""},
    {WANTS("'memory':'-1'", ""), ".containers.0.resources.requests has memory, which is negative"},
    {"'resources':{'requests':{'cpu':2},'limits':{'cpu':1}}," C(""),
        ".resources requests more cpu than its limit"},
    {WANTS("", "'nvidia.com/gpu':0.5"),
        ".containers.0.resources.limits has a part of a nvidia.com/gpu, expected a whole number"},
    {WANTS("", "'nvidia.com/gpu':'2','cpu':0.5"), NULL},
    /* what a pod cannot be created with */
    {"'initContainers':[{'name':'i','image':'i','restartPolicy':'Sometimes'}]," C(""),
        ".initContainers.0.restartPolicy is \"Sometimes\", expected"},
    {"'initContainers':[{'name':'i','image':'i','readinessProbe':" PROBE "}]," C(""),
        ".initContainers.0 has a readinessProbe, which init containers may have with"},
    {"'initContainers':[{'name':'i','image':'i','restartPolicy':'Always','readinessProbe':" PROBE
     "}]," C(",'readinessProbe':" PROBE),
        NULL},
    {"'ephemeralContainers':[{'name':'e','image':'i'}]," C(""), " has ephemeralContainers"},
    {"'tolerations':[{'key':'a','operator':'exists'}]," C(""),
        ".tolerations.0.operator is \"exists\", expected one of Exists, Equal"},
    {"'tolerations':[{'key':'a','operator':'Exists','value':'b'}]," C(""),
        ".tolerations.0 has a value, but operator Exists"},
    {"'tolerations':[{'value':'b'}]," C(""), ".tolerations.0 has no key"},
    {"'tolerations':[{'operator':'Exists'},{'key':'a','value':'','effect':'NoSchedule'}]," C(""),
        NULL},
    /* labels: the rest is in validate_labels_test.c */
    {C("") ",'volumes':[{'name':'d'},{'name':'e','ephemeral':{'volumeClaimTemplate':{'spec':{"
           "'selector':{'matchExpressions':[{'key':'b c'}]}}}}}]",
        ".volumes.1.ephemeral.volumeClaimTemplate.spec.selector.matchExpressions.0.key has a key"},
    {C("") ",'volumes':[{'name':'d','csi':{'volumeAttributes':{'topologyKey':'a b'}}}]", NULL},
    {C("") ",'topologySpreadConstraints':[{'topologyKey':'a b','maxSkew':1,'whenUnsatisfiable':"
           "'ScheduleAnyway'}]",
        ".topologySpreadConstraints.0.topologyKey has a key"},
};

static void pod_templates_that_a_cluster_rejects_are_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_xasprintf("{'spec':{%s}}", rows[i].spec);
        CO_AUTOJSON json_t *tmpl = tk_json(text);
        struct findings h = {0};
        api_template_validate(tmpl, (struct api_template_use){.ends = true}, "spec.worker.template",
            &(struct co_findings){collect, &h, 16});
        CO_AUTOFREE char *want =
            rows[i].message ? co_xasprintf("%s%s", BASE, rows[i].message) : co_xstrdup("");
        if (h.n != (rows[i].message != NULL) ||
            (h.n && strncmp(h.first, want, strlen(want)) != 0)) {
            fail_msg("%s: %zu messages, the first \"%s\", expected \"%s\"", rows[i].spec, h.n,
                h.first ? h.first : "", want);
        }
        free(h.first);
    }
}

static void pods_that_need_not_end_may_be_restarted_always(void **state) {
    (void)state;
    CO_AUTOJSON json_t *tmpl = tk_json("{'spec':{'restartPolicy':'Always'," C("") "}}");
    struct findings h = {0};
    api_template_validate(tmpl, (struct api_template_use){0}, "spec.ps.template",
        &(struct co_findings){collect, &h, 16});
    assert_int_equal(h.n, 0);
}

static void findings_stop_at_the_given_maximum(void **state) {
    (void)state;
    CO_AUTOJSON json_t *tmpl = tk_json("{'spec':{'containers':[{},{},{}]}}");
    struct findings h = {0};
    api_template_validate(tmpl, (struct api_template_use){0}, "spec.ps.template",
        &(struct co_findings){collect, &h, 4});
    assert_int_equal(h.n, 4);
    free(h.first);
}

static void intranet_host_gives_pods_the_network_of_their_nodes(void **state) {
    (void)state;
    CO_AUTOJSON json_t *tmpl =
        tk_json("{'spec':{" C(",'ports':[{'containerPort':80,'hostPort':81}]") "}}");
    struct findings h = {0};
    const struct api_template_use use = {.host = true};
    api_template_validate(tmpl, use, "spec.ps.template", &(struct co_findings){collect, &h, 16});
    assert_int_equal(h.n, 1);
    free(h.first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_templates_that_a_cluster_rejects_are_reported),
        cmocka_unit_test(pods_that_need_not_end_may_be_restarted_always),
        cmocka_unit_test(intranet_host_gives_pods_the_network_of_their_nodes),
        cmocka_unit_test(findings_stop_at_the_given_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
