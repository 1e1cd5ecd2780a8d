/* What `validate` says of probes and other parts of templates, row by row: what a kube-apiserver
 * 1.35 accepts and rejects. */
#include "operator/api/validate_parts.h"

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

#define C(more) "'containers':[{'name':'m'," more "}]"
#define LIVE(more) C("'livenessProbe':{'tcpSocket':{'port':'http'}," more "}")
#define SPREAD(more) "'topologySpreadConstraints':[{'topologyKey':'zone'," more "}]"
#define PROBE "s.containers.0.livenessProbe"

static const struct {
    const char *spec;
    const char *message; /* its beginning; NULL: nothing is wrong */
} rows[] = {
    {C("'stdin':true"), NULL},
    {"'containers':7,'securityContext':'x','hostAliases':null", NULL}, /* of other checks */
    /* probes: 0 means the default */
    {LIVE("'periodSeconds':0,'timeoutSeconds':0,'failureThreshold':0,'successThreshold':0"), NULL},
    {LIVE("'somethingNewer':1,'periodSeconds':2.0"), NULL},
    {LIVE("'periodSeconds':'10'"), PROBE ".periodSeconds is \"10\", expected an integer"},
    {LIVE("'periodSeconds':1.5"), PROBE ".periodSeconds is 1.5, expected an integer"},
    {LIVE("'periodSeconds':-1"), PROBE ".periodSeconds is -1, expected 0 to 2147483647"},
    {LIVE("'successThreshold':2"), PROBE ".successThreshold is 2, expected 0 to 1"},
    {LIVE("'terminationGracePeriodSeconds':0"), PROBE ".terminationGracePeriodSeconds is 0"},
    {LIVE("'exec':{'command':['a']}"), PROBE " has several of exec, httpGet, tcpSocket, grpc"},
    {C("'livenessProbe':{}"), PROBE " has none of exec, httpGet, tcpSocket, grpc"},
    {C("'livenessProbe':'x'"), PROBE " is \"x\", expected an object"},
    {C("'livenessProbe':{'exec':{'command':'ls'}}"),
        PROBE ".exec.command is \"ls\", expected a list of strings"},
    {C("'livenessProbe':{'exec':{'command':['ls',1]}}"),
        PROBE ".exec.command.1 is 1, expected a string"},
    {C("'livenessProbe':{'exec':{'command':[]}}"), PROBE ".exec.command is missing"},
    {C("'livenessProbe':{'httpGet':{'port':80,'scheme':'','path':'/'}}"), NULL},
    {C("'livenessProbe':{'httpGet':{'port':80,'scheme':'http'}}"),
        PROBE ".httpGet.scheme is \"http\", expected one of HTTP, HTTPS"},
    {C("'livenessProbe':{'httpGet':{'path':'/'}}"), PROBE ".httpGet.port is missing"},
    {C("'livenessProbe':{'httpGet':{'port':'8080'}}"),
        PROBE ".httpGet.port is \"8080\", expected a number from 1 to 65535 or the name of"},
    {C("'livenessProbe':{'httpGet':{'port':80,'httpHeaders':[{'value':'v'}]}}"),
        PROBE ".httpGet.httpHeaders.0.name is missing"},
    {C("'livenessProbe':{'httpGet':{'port':80,'httpHeaders':[{'name':'X-A1','value':'v'}]}}"),
        NULL},
    {C("'livenessProbe':{'httpGet':{'port':80,'httpHeaders':[{'name':'X A'}]}}"),
        PROBE ".httpGet.httpHeaders.0.name is \"X A\", expected letters, digits and '-'"},
    {C("'livenessProbe':{'tcpSocket':{'port':0}}"), PROBE ".tcpSocket.port is 0, expected"},
    {C("'livenessProbe':{'tcpSocket':{'port':65536}}"), PROBE ".tcpSocket.port is 65536"},
    {C("'livenessProbe':{'tcpSocket':{'port':'a--b'}}"), PROBE ".tcpSocket.port is \"a--b\""},
    {C("'livenessProbe':{'grpc':{'port':'x'}}"), PROBE ".grpc.port is \"x\", expected an integer"},
    {C("'readinessProbe':{'grpc':{'port':1},'successThreshold':2}"), NULL},
    {C("'readinessProbe':{'grpc':{'port':1},'terminationGracePeriodSeconds':1}"),
        "s.containers.0.readinessProbe has a terminationGracePeriodSeconds, but"},
    {"'initContainers':[{'startupProbe':{'grpc':{'port':70000}}}]",
        "s.initContainers.0.startupProbe.grpc.port is 70000, expected 1 to 65535"},
    {C("'lifecycle':{'preStop':{'sleep':{'seconds':5}}}"), NULL},
    {C("'lifecycle':{'preStop':{'sleep':{}}}"), NULL},
    {C("'livenessProbe':{'exec':{'command':['a',null]}}"), NULL},
    {C("'livenessProbe':{'httpGet':{'port':80,'scheme':[]}}"),
        PROBE ".httpGet.scheme is [], expected a string"},
    {C("'lifecycle':{'preStop':{}}"), "s.containers.0.lifecycle.preStop has none of exec, httpGet"},
    /* topologySpreadConstraints */
    {SPREAD("'maxSkew':1,'whenUnsatisfiable':'DoNotSchedule','minDomains':2"), NULL},
    {SPREAD("'maxSkew':0,'whenUnsatisfiable':'DoNotSchedule'"),
        "s.topologySpreadConstraints.0.maxSkew is 0, expected 1 to"},
    {SPREAD("'whenUnsatisfiable':'DoNotSchedule'"),
        "s.topologySpreadConstraints.0.maxSkew is missing, expected an integer"},
    {SPREAD("'maxSkew':1"), "s.topologySpreadConstraints.0.whenUnsatisfiable is missing"},
    {SPREAD("'maxSkew':1,'whenUnsatisfiable':'Ignore'"),
        "s.topologySpreadConstraints.0.whenUnsatisfiable is \"Ignore\", expected one of DoNot"},
    {SPREAD("'maxSkew':1,'whenUnsatisfiable':'ScheduleAnyway','minDomains':2"),
        "s.topologySpreadConstraints.0 has minDomains, which goes with"},
    {SPREAD("'maxSkew':1,'whenUnsatisfiable':'ScheduleAnyway','matchLabelKeys':['a']"),
        "s.topologySpreadConstraints.0 has matchLabelKeys, which go with"},
    {"'topologySpreadConstraints':[{'maxSkew':1,'whenUnsatisfiable':'DoNotSchedule'}]",
        "s.topologySpreadConstraints.0 has no topologyKey"},
    {"'topologySpreadConstraints':[{'topologyKey':'a','maxSkew':1,"
     "'whenUnsatisfiable':'DoNotSchedule'},{'topologyKey':'a','maxSkew':1,"
     "'whenUnsatisfiable':'ScheduleAnyway'}]",
        NULL},
    {"'topologySpreadConstraints':[{'topologyKey':'a','maxSkew':1,"
     "'whenUnsatisfiable':'DoNotSchedule'},{'topologyKey':'a','maxSkew':2,"
     "'whenUnsatisfiable':'DoNotSchedule'}]",
        "s.topologySpreadConstraints.1 has the same topologyKey and whenUnsatisfiable as item 0"},
    {"'topologySpreadConstraints':{}", "s.topologySpreadConstraints is {}, expected a list of obj"},
    {"'topologySpreadConstraints':[1]", "s.topologySpreadConstraints.0 is 1, expected an object"},
    /* names and addresses */
    {"'hostAliases':[{'ip':'10.0.0.1','hostnames':['a.b','c']},{'ip':'::1'}]", NULL},
    {"'hostAliases':[{'ip':'010.0.00.1'}],'dnsConfig':{'nameservers':['00.1.1.1']}", NULL},
    {"'hostAliases':[{'ip':'010.0.0.256'}]", "s.hostAliases.0.ip is \"010.0.0.256\", expected an"},
    {"'nodeName':''", NULL},
    {"'nodeName':'A'", "s.nodeName is \"A\", expected a DNS name"},
    {"'hostAliases':[{'hostnames':['a']}]", "s.hostAliases.0.ip is missing, expected an IP"},
    {"'hostAliases':[{'ip':'10.0.0'}]", "s.hostAliases.0.ip is \"10.0.0\", expected an IP address"},
    {"'hostAliases':[{'ip':'10.0.0.1','hostnames':'a'}]", "s.hostAliases.0.hostnames is \"a\","},
    {"'hostAliases':[{'ip':'10.0.0.1','hostnames':['a_b']}]", "s.hostAliases.0.hostnames.0 is \"a"},
    {"'dnsPolicy':'None','dnsConfig':{'nameservers':['10.0.0.1'],'searches':['a_b.','.']}", NULL},
    {"'dnsPolicy':'None'", "s has dnsPolicy None, but no dnsConfig.nameservers"},
    {"'dnsPolicy':'None','dnsConfig':{'nameservers':[]}", "s has dnsPolicy None, but no"},
    {"'dnsConfig':{'nameservers':['dns']}", "s.dnsConfig.nameservers.0 is \"dns\", expected an IP"},
    {"'dnsConfig':{'nameservers':['1.1.1.1','1.1.1.2','1.1.1.3','1.1.1.4']}",
        "s.dnsConfig.nameservers has 4 items, expected at most 3"},
    {"'dnsConfig':{'searches':['svc.cluster.local','_tcp.a-b.','x_y']}", NULL},
    {"'dnsConfig':{'searches':['a','A.b']}",
        "s.dnsConfig.searches.1 is \"A.b\", expected a DNS domain"},
    {"'dnsConfig':{'searches':['-a']}", "s.dnsConfig.searches.0 is \"-a\""},
    {"'dnsConfig':{'searches':['a..b']}", "s.dnsConfig.searches.0 is \"a..b\""},
    {"'dnsConfig':{'searches':['x_.y']}", "s.dnsConfig.searches.0 is \"x_.y\""},
    {"'dnsConfig':{'searches':['__y']}", "s.dnsConfig.searches.0 is \"__y\""},
    {"'dnsConfig':{'searches':['..']}", "s.dnsConfig.searches.0 is \"..\""},
    {"'dnsConfig':{'searches':['']}", "s.dnsConfig.searches.0 is \"\""},
    {"'dnsConfig':{'options':[{'value':'1'}]}", "s.dnsConfig.options.0.name is missing"},
    /* resourceClaims */
    {"'resourceClaims':[{'name':'g','resourceClaimName':'x'}],"
     "'containers':[{'resources':{'claims':[{'name':'g'}]}}]",
        NULL},
    {"'resourceClaims':[{'name':'g'}]",
        "s.resourceClaims.0 has none of resourceClaimName, resourceClaimTemplateName"},
    {"'resourceClaims':[{'name':'g','resourceClaimName':'x','resourceClaimTemplateName':'y'}]",
        "s.resourceClaims.0 has several of"},
    {"'resourceClaims':[{'name':'g','resourceClaimName':'x'},{'name':'g','resourceClaimName':'y'}]",
        "s.resourceClaims.1 has the same name as item 0"},
    {"'resourceClaims':[{'name':'g.h','resourceClaimName':'x'}]",
        "s.resourceClaims.0.name is \"g.h\", expected a DNS label"},
    {"'resourceClaims':[{'resourceClaimName':'x'}]", "s.resourceClaims.0.name is missing"},
    {"'containers':[{'resources':{'claims':[{'name':'g'}]}}]",
        "s.containers.0.resources.claims.0 names \"g\", but spec.resourceClaims has no such"},
    /* security */
    {"'securityContext':{'runAsUser':0,'fsGroup':1000,'supplementalGroups':[1,2]}", NULL},
    {"'securityContext':{'runAsUser':'root'}", "s.securityContext.runAsUser is \"root\", expected"},
    {"'securityContext':{'runAsUser':-1}", "s.securityContext.runAsUser is -1, expected 0 to"},
    {"'securityContext':{'supplementalGroups':[-1]}", "s.securityContext.supplementalGroups.0 is"},
    {"'securityContext':{'supplementalGroups':['a']}",
        "s.securityContext.supplementalGroups.0 is \"a\", expected an integer"},
    {"'securityContext':{'sysctls':[{'name':'net/ipv4/ip_local-port.range','value':'1'},"
     "{'name':'kernel.shm_rmid_forced','value':'1'}]}",
        NULL},
    {"'securityContext':{'sysctls':[{'name':'kernel.Shm'}]}",
        "s.securityContext.sysctls.0.name is \"kernel.Shm\", expected a name such as"},
    {"'securityContext':{'sysctls':[{'name':'a.b'},{'name':'a.b'}]}",
        "s.securityContext.sysctls.1 has the same name as item 0"},
    {"'securityContext':{'fsGroupChangePolicy':'Never'}",
        "s.securityContext.fsGroupChangePolicy is \"Never\", expected one of OnRootMismatch, Al"},
    {"'securityContext':{'seccompProfile':{'type':'Localhost'}}",
        "s.securityContext.seccompProfile is of type Localhost, but has no localhostProfile"},
    {"'securityContext':{'seccompProfile':{'type':'Unconfined','localhostProfile':'p'}}",
        "s.securityContext.seccompProfile has a localhostProfile, which"},
    {"'securityContext':{'seccompProfile':{}}", "s.securityContext.seccompProfile.type is missing"},
    {C("'securityContext':{'runAsNonRoot':'true'}"),
        "s.containers.0.securityContext.runAsNonRoot is \"true\", expected true or false"},
    {C("'securityContext':{'capabilities':{'add':'IPC_LOCK'}}"),
        "s.containers.0.securityContext.capabilities.add is \"IPC_LOCK\", expected a list of"},
    {C("'securityContext':{'privileged':true,'allowPrivilegeEscalation':false}"),
        "s.containers.0.securityContext has privileged true and allowPrivilegeEscalation false"},
    {C("'securityContext':{'capabilities':{'add':['SYS_ADMIN','CAP_SYS_ADMIN']},"
       "'allowPrivilegeEscalation':false}"),
        "s.containers.0.securityContext has CAP_SYS_ADMIN and allowPrivilegeEscalation false"},
    {"'securityContext':{'seccompProfile':{'type':'Localhost','localhostProfile':'a/..b'}}", NULL},
    {"'securityContext':{'seccompProfile':{'type':'Localhost','localhostProfile':'/a'}}",
        "s.securityContext.seccompProfile has localhostProfile \"/a\", expected a path below"},
    {"'securityContext':{'seccompProfile':{'type':'Localhost','localhostProfile':'a/..'}}",
        "s.securityContext.seccompProfile has localhostProfile \"a/..\""},
    /* switches and numbers */
    {"'hostPID':true,'shareProcessNamespace':true", "s has hostPID and shareProcessNamespace"},
    {"'hostIPC':'yes'", "s.hostIPC is \"yes\", expected true or false"},
    {"'activeDeadlineSeconds':0", "s.activeDeadlineSeconds is 0, expected 1 to"},
};

static void parts_that_a_cluster_rejects_are_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_xasprintf("{%s}", rows[i].spec);
        CO_AUTOJSON json_t *spec = tk_json(text);
        struct findings h = {0};
        const char *want = rows[i].message ? rows[i].message : "";
        api_parts_validate(spec, "s", &(struct co_findings){collect, &h, 16});
        if (h.n != (rows[i].message != NULL) ||
            (h.n && strncmp(h.first, want, strlen(want)) != 0)) {
            fail_msg("%s: %zu messages, the first \"%s\", expected \"%s\"", rows[i].spec, h.n,
                h.first ? h.first : "", want);
        }
        free(h.first);
    }
}

static void findings_stop_at_the_given_maximum(void **state) {
    (void)state;
    CO_AUTOJSON json_t *spec = tk_json("{'hostIPC':1,'hostPID':1,'hostUsers':1}");
    struct findings h = {0};
    api_parts_validate(spec, "s", &(struct co_findings){collect, &h, 2});
    assert_int_equal(h.n, 2);
    free(h.first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_a_cluster_rejects_are_reported),
        cmocka_unit_test(findings_stop_at_the_given_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
