/* Golden pods: the whole body for every mode, and the rules one by one. */
#include "operator/plan/plan_testing.h"

static const struct plan_settings no_gate = {.gate_image = ""};
static const struct plan_settings with_gate = {
    .gate_image = "reg/gate:1", .gate_addr = "gate:8090", .gate_resources = "cpu=20m,memory=32Mi"};

static struct api_job *job_of(const char *text) {
    struct api_job *job = NULL;
    assert_int_equal(api_job_decode(tk_json(text), &job, NULL), 0);
    assert_int_equal(job->n_problems, 0);
    return job;
}

static json_t *pod_of(
    const char *job_text, enum api_role role, int32_t index, const struct plan_settings *settings) {
    CO_CLEANUP(api_job_freep) struct api_job *job = job_of(job_text);
    return plan_object_pod(job, job->role[role].tmpl, role, index, settings);
}

static void expect_json(const json_t *have, const char *expected) {
    CO_AUTOJSON json_t *want = expected ? tk_json(expected) : NULL;
    CO_AUTOFREE char *a = want ? co_json_dump_sorted(want) : co_xstrdup("absent");
    CO_AUTOFREE char *b = have ? co_json_dump_sorted(have) : co_xstrdup("absent");
    assert_string_equal(b, a);
}

static const json_t *first_container(const json_t *pod) {
    return json_array_get(co_json_at(pod, "spec", "containers"), 0);
}

#define META(name, role, index)                                                                    \
    "'apiVersion':'v1','kind':'Pod','metadata':{'name':'" name "','namespace':'ns','labels':{"     \
    "'paddle-res-name':'" name "','paddle-res-type':'" role "',"                                   \
    "'batch.paddlepaddle.org/job-name':'x','batch.paddlepaddle.org/index':'" index "',"            \
    "'batch.paddlepaddle.org/job-uid':'uid-x'},"                                                   \
    "'annotations':{'batch.paddlepaddle.org/containers':'main','paddle-resource':'" role "'},"     \
    "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob',"             \
    "'name':'x','uid':'uid-x','controller':true,'blockOwnerDeletion':true}]}"
#define FROM_POD "'valueFrom':{'fieldRef':{'fieldPath':'status.podIP'}}"
#define ENV(pod_ip, id, role)                                                                      \
    "{'name':'POD_IP'," pod_ip "},{'name':'PADDLE_TRAINER_ID','value':'" id "'},"                  \
    "{'name':'TRAINING_ROLE','value':'" role "'},{'name':'PADDLE_TRAINING_ROLE','value':'" role    \
    "'}"
#define RANKS(id) ",{'name':'RANK','value':'" id "'},{'name':'GROUP_RANK','value':'" id "'}"
#define LAST_WORDS "'terminationMessagePolicy':'FallbackToLogsOnError'"
#define FROM_MAP "'envFrom':[{'configMapRef':{'name':'x'}}]"

static void a_pod_in_pod_ip_mode(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod =
        pod_of(TK_JOB(TK_ROLE("ps", 2) "," TK_ROLE("worker", 2)), API_PS, 1, &no_gate);
    expect_json(pod,
        "{" META("x-ps-1", "ps",
            "1") ",'spec':{'hostname':'x-ps-1','subdomain':'x-ps-1','enableServiceLinks':false,"
                 "'restartPolicy':'Never','containers':[{'name':'main','image':'img'," LAST_WORDS
                 ",'env':[" ENV(FROM_POD, "1", "PSERVER") "]," FROM_MAP "}]}}");
}

static void a_pod_in_service_mode(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod =
        pod_of(TK_JOB(TK_ROLE("worker", 11) ",'intranet':'Service'"), API_WORKER, 10, &no_gate);
    expect_json(pod,
        "{" META("x-worker-10", "worker",
            "10") ",'spec':{'hostname':'x-worker-10',"
                  "'subdomain':'x-worker-10','enableServiceLinks':false,'restartPolicy':'OnFailure'"
                  ",'containers':[{'name':'"
                  "main',"
                  "'image':'img'," LAST_WORDS
                  ",'env':[" ENV("'value':'x-worker-10'", "10", "TRAINER")
                      RANKS("10") "]," FROM_MAP ",'ports':[{'containerPort':36000}]}]}}");
}

static void a_pod_in_dns_mode(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod =
        pod_of(TK_JOB(TK_ROLE("worker", 3) ",'intranet':'DNS'"), API_WORKER, 2, &no_gate);
    expect_json(pod,
        "{" META("x-worker-2", "worker",
            "2") ",'spec':{'hostname':'x-worker-2','subdomain':'x','enableServiceLinks':false,'"
                 "restartPolicy':'OnFailure',"
                 "'containers':[{'name':'main','image':'img'," LAST_WORDS
                 ",'env':[" ENV("'value':'x-worker-2.x'", "2", "TRAINER")
                     RANKS("2") "]," FROM_MAP ",'ports':[{'containerPort':36000}]}]}}");
}

static void a_pod_whose_family_is_chosen(void **state) {
    (void)state;
    static const struct plan_settings family6 = {.gate_image = "", .prefer_family = 6};
    CO_AUTOJSON json_t *pod = pod_of(TK_JOB(TK_ROLE("worker", 3)), API_WORKER, 2, &family6);
    expect_json(json_array_get(json_object_get(first_container(pod), "env"), 0),
        "{'name':'POD_IP','valueFrom':{'configMapKeyRef':{'name':'x','key':'POD_IP_WORKER_2'}}}");
    /* A name has no family, and an elastic pod no ConfigMap. */
    static const struct {
        const char *spec, *expected;
    } rows[] = {{"'intranet':'DNS'", "{'name':'POD_IP','value':'x-worker-2.x'}"},
        {"'intranet':'Service'", "{'name':'POD_IP','value':'x-worker-2'}"},
        {"'elastic':1", "{'name':'POD_IP'," FROM_POD "}"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB(TK_ROLE("worker", 3) ",%s"), rows[i].spec);
        CO_AUTOJSON json_t *other = pod_of(job, API_WORKER, 2, &family6);
        expect_json(
            json_array_get(json_object_get(first_container(other), "env"), 0), rows[i].expected);
    }
}

static void an_elastic_pod(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod =
        pod_of(TK_JOB("'elastic':0,'worker':{'replicas':3,'template':{'spec':{"
                      "'restartPolicy':'Never','containers':[{'name':'main'}]}}}"),
            API_WORKER, 0, &no_gate);
    expect_json(pod, "{" META("x-worker-0", "worker",
                         "0") ",'spec':{'hostname':'x-worker-0',"
                              "'subdomain':'x-worker-0','restartPolicy':"
                              "'OnFailure','containers':[{"
                              "'name':'main'," LAST_WORDS ","
                              "'env':[" ENV(FROM_POD, "0",
                                  "TRAINER") ",{'name':'PADDLE_ELASTIC_JOB_ID','value':'ns-x'},"
                                             "{'name':'PADDLE_ELASTIC_NP','value':'1:3'},{'name':'"
                                             "PADDLE_ELASTIC_TIMEOUT',"
                                             "'value':'60'}]}]}}");
}

/* The same words in every pod, whatever the number is when it is made. */
static void elastic_workers_get_their_bounds(void **state) {
    (void)state;
    static const struct {
        const char *bounds, *np;
        int32_t replicas;
    } rows[] = {
        {"'requests':2,'limits':8", "2:8", 3},
        {"'requests':2", "2:3", 3},
        {"'limits':8", "1:8", 3},
        {"'limits':2", "1:2", 2},
        {"'requests':5", "5:5", 5},
        {"'requests':4,'limits':4", "4:4", 4},
        {"'requests':-1,'limits':'x'", "1:3", 3},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text = co_xasprintf(
            TK_JOB("'elastic':0,'worker':{'replicas':3,%s," TK_TEMPLATE "}"), rows[i].bounds);
        struct api_job *job = NULL;
        assert_int_equal(api_job_decode(tk_json(text), &job, NULL), 0);
        assert_int_equal(job->role[API_WORKER].replicas, rows[i].replicas);
        CO_AUTOJSON json_t *pod =
            plan_object_pod(job, job->role[API_WORKER].tmpl, API_WORKER, 0, &no_gate);
        CO_AUTOFREE char *want =
            co_xasprintf("{'name':'PADDLE_ELASTIC_NP','value':'%s'}", rows[i].np);
        expect_json(json_array_get(json_object_get(first_container(pod), "env"), 5), want);
        api_job_free(job);
    }
}

static void fields_of_the_users_template_are_kept(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod =
        pod_of(TK_JOB("'intranet':'Service','worker':{'replicas':1,'template':{'metadata':{"
                      "'name':'mine','labels':{'a':'b','paddle-res-type':'mine'},"
                      "'annotations':{'c':'d'},'finalizers':['e/f'],'uid':'mine'},'spec':{"
                      "'newField':{'x':1},'hostname':'mine','restartPolicy':'Always',"
                      "'initContainers':[{'name':'first'}],'containers':[{'name':'main',"
                      "'env':[{'name':'POD_IP','value':'mine'}],'envFrom':[{'configMapRef':{"
                      "'name':'mine'}}],'ports':[{'containerPort':80}]},{'name':'side',"
                      "'terminationMessagePolicy':'File'}]}}}"),
            API_WORKER, 0, &with_gate);
    const json_t *meta = json_object_get(pod, "metadata");
    assert_string_equal(co_json_str(meta, "name"), "x-worker-0");
    assert_string_equal(co_json_str(meta, "labels", "a"), "b");
    assert_string_equal(co_json_str(meta, "labels", "paddle-res-type"), "worker");
    assert_string_equal(co_json_str(meta, "annotations", "c"), "d");
    expect_json(json_object_get(meta, "finalizers"), "['e/f']");
    assert_null(json_object_get(meta, "uid"));
    const json_t *spec = json_object_get(pod, "spec");
    expect_json(json_object_get(spec, "newField"), "{'x':1}");
    assert_string_equal(co_json_str(spec, "hostname"), "x-worker-0");
    assert_string_equal(co_json_str(spec, "restartPolicy"), "Always");
    const json_t *first = first_container(pod);
    expect_json(json_array_get(json_object_get(first, "env"), 0),
        "{'name':'POD_IP','value':'mine'}"); /* ours comes later and wins */
    assert_int_equal(json_array_size(json_object_get(first, "env")), 5);
    expect_json(json_object_get(first, "envFrom"),
        "[{'configMapRef':{'name':'mine'}},{'configMapRef':{'name':'x'}}]");
    expect_json(json_object_get(first, "ports"), "[{'containerPort':80},{'containerPort':36000}]");
    expect_json(json_array_get(co_json_at(pod, "spec", "containers"), 1),
        "{'name':'side','terminationMessagePolicy':'File'}");
    expect_json(json_array_get(json_object_get(spec, "initContainers"), 0),
        "{'name':'first'," LAST_WORDS "}");
    const json_t *inits = json_object_get(spec, "initContainers");
    assert_int_equal(json_array_size(inits), 2);
    assert_string_equal(co_json_str(json_array_get(inits, 1), "name"), "coord-paddle");
}

static void null_fields_of_a_template_count_as_absent(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod = pod_of(
        TK_JOB("'intranet':'Host','worker':{'replicas':1,'template':{'metadata':null,'spec':{"
               "'affinity':null,'initContainers':null,'restartPolicy':'','containers':["
               "{'name':'main','env':null,'envFrom':null,'ports':null}]}}}"),
        API_WORKER, 0, &with_gate);
    assert_int_equal(json_array_size(json_object_get(first_container(pod), "env")), 4);
    assert_string_equal(co_json_str(pod, "spec", "restartPolicy"), "Never");
}

static void the_start_gate_fits_quotas_and_restricted_namespaces(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod = pod_of(TK_JOB(TK_ROLE("worker", 1)), API_WORKER, 0, &with_gate);
    expect_json(co_json_at(pod, "spec", "initContainers"),
        "[{'name':'coord-paddle','image':'reg/gate:1','imagePullPolicy':'IfNotPresent'," LAST_WORDS
        ","
        "'command':['/paddle-gate'],'env':[{'name':'PADDLE_GATE_ADDR','value':'gate:8090'},"
        "{'name':'POD_NAMESPACE','valueFrom':{'fieldRef':{'fieldPath':'metadata.namespace'}}},"
        "{'name':'POD_NAME','valueFrom':{'fieldRef':{'fieldPath':'metadata.name'}}},"
        "{'name':'POD_UID','valueFrom':{'fieldRef':{'fieldPath':'metadata.uid'}}},"
        "{'name':'POD_IPS','valueFrom':{'fieldRef':{'fieldPath':'status.podIPs'}}}],"
        "'resources':{'requests':{'cpu':'20m','memory':'32Mi'},"
        "'limits':{'cpu':'20m','memory':'32Mi'}},"
        "'securityContext':{'allowPrivilegeEscalation':false,'readOnlyRootFilesystem':true,"
        "'runAsNonRoot':true,'capabilities':{'drop':['ALL']},"
        "'seccompProfile':{'type':'RuntimeDefault'}}}]");
    static const struct plan_settings none[] = {
        {.gate_image = NULL, .gate_addr = "a:1"}, {.gate_image = "i", .gate_addr = ""}};
    for (size_t i = 0; i < CO_ARRAY_LEN(none); i++) {
        CO_AUTOJSON json_t *plain = pod_of(TK_JOB(TK_ROLE("worker", 1)), API_WORKER, 0, &none[i]);
        assert_null(co_json_at(plain, "spec", "initContainers"));
    }
}

static json_t *gate_of(const char *pod_spec, const struct plan_settings *settings) {
    CO_AUTOFREE char *job =
        co_xasprintf(TK_JOB("'worker':{'replicas':1,'template':{'spec':{%s}}}"), pod_spec);
    CO_AUTOJSON json_t *pod = pod_of(job, API_WORKER, 0, settings);
    const json_t *inits = co_json_at(pod, "spec", "initContainers");
    return json_incref(json_array_get(inits, json_array_size(inits) - 1));
}

/* A rule for containers that the template's own pass, the gate passes, too. */
static void the_start_gate_takes_as_much_as_the_training(void **state) {
    (void)state;
    static const struct {
        const char *settings, *resources, *want;
    } rows[] = {
        {"cpu=20m,memory=32Mi", "", "{'cpu':'20m','memory':'32Mi'}"},
        {"cpu=20m,memory=32Mi", "'requests':{'cpu':2,'memory':'1Gi'}",
            "{'cpu':'2','memory':'1Gi'}"},
        {"cpu=20m,memory=32Mi", "'requests':{'cpu':'10m'},'limits':{'cpu':4,'memory':'1Gi'}",
            "{'cpu':'20m','memory':'1Gi'}"},
        {"cpu=20m,memory=32Mi", "'limits':{'nvidia.com/gpu':1,'ephemeral-storage':'1Gi'}",
            "{'cpu':'20m','memory':'32Mi','ephemeral-storage':'1Gi'}"},
        {"cpu=100m,memory=64Mi", "'requests':{'cpu':'x'}", "{'cpu':'100m','memory':'64Mi'}"},
        {"", "'requests':{'cpu':'50m'}", "{'cpu':'50m'}"},
        {"", "", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct plan_settings settings = with_gate;
        settings.gate_resources = rows[i].settings;
        CO_AUTOFREE char *spec =
            co_xasprintf("'containers':[{'name':'m','resources':{%s}}]", rows[i].resources);
        CO_AUTOJSON json_t *gate = gate_of(spec, &settings);
        expect_json(co_json_at(gate, "resources", "requests"), rows[i].want);
        expect_json(co_json_at(gate, "resources", "limits"), rows[i].want);
    }
}

/* So that a namespace may prescribe it. */
static void the_start_gate_has_no_user_of_its_own(void **state) {
    (void)state;
    static const struct {
        const char *pod, *container, *user, *group;
    } rows[] = {
        {"", "", NULL, NULL},
        {"'runAsUser':1000680000", "", NULL, NULL},
        {"", "'runAsUser':1000680000,'runAsGroup':5", "1000680000", "5"},
        {"", "'runAsUser':0", NULL, NULL},
        {"'runAsUser':0", "", "65532", NULL},
        {"'runAsUser':0", "'runAsUser':7", "7", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(
            "'securityContext':{%s},'containers':[{'name':'m','securityContext':{%s}}]",
            rows[i].pod, rows[i].container);
        CO_AUTOJSON json_t *gate = gate_of(spec, &with_gate);
        const json_t *own = json_object_get(gate, "securityContext");
        const json_t *user = json_object_get(own, "runAsUser");
        const json_t *group = json_object_get(own, "runAsGroup");
        expect_json(user, rows[i].user);
        expect_json(group, rows[i].group);
        assert_true(json_is_true(json_object_get(own, "runAsNonRoot")));
    }
}

/* Words of a Kubernetes 1.35, and of a webhook. */
static void a_rejection_because_of_the_start_gate_says_so(void **state) {
    (void)state;
    static const struct {
        const char *message;
        bool meant;
    } rows[] = {
        {"pods \"x-worker-0\" is forbidden: minimum cpu usage per Container is 100m, but request "
         "is 20m",
            true},
        {"pods \"x-worker-0\" is forbidden: [maximum cpu usage per Container is 10m, but limit is "
         "20m, maximum memory usage per Container is 16Mi, but limit is 32Mi]",
            true},
        {"minimum cpu usage per Container is 100m, but request is 20", false},
        {"minimum cpu usage per Container is 1, but request is 200m", false},
        {"minimum memory usage per Pod is 1Gi, but request is 32Mi", false},
        {"exceeded quota: q, requested: requests.cpu=20m, used: requests.cpu=1", false},
        {"failed quota: q: must specify limits.cpu for: coord-paddle", true},
        {"spec.initContainers[1].securityContext.runAsUser: Invalid value: 65532", true},
        {"spec.initContainers[0].securityContext.runAsUser: Invalid value: 65532", false},
        {"image reg/gate:1 is not of this registry", true},
        {"spec.containers[0].image: Required value", false},
    };
    CO_CLEANUP(api_job_freep)
    struct api_job *job =
        job_of(TK_JOB("'worker':{'replicas':1,'template':{'spec':{'initContainers':[{'name':'i'}],"
                      "'containers':[{'name':'m'}]}}}"));
    CO_AUTOJSON json_t *body =
        plan_object_pod(job, job->role[API_WORKER].tmpl, API_WORKER, 0, &with_gate);
    struct plan_action a = {.verb = PLAN_CREATE,
        .kind = PLAN_KIND_POD,
        .inits = co_json_at(body, "spec", "initContainers")};
    const struct plan_action bare = {.verb = PLAN_CREATE, .kind = PLAN_KIND_POD};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *advice = plan_advice(job, &a, rows[i].message);
        assert_int_equal(advice != NULL, rows[i].meant);
        assert_true(!advice || strstr(advice, "--gate-resources"));
        assert_null(plan_advice(job, &bare, rows[i].message));
    }
}

/* The gate takes as much as the first container: it is the job that asks for too much. */
static void a_rejection_because_of_the_training_does_not_blame_the_gate(void **state) {
    (void)state;
    CO_CLEANUP(api_job_freep)
    struct api_job *job = job_of(
        TK_JOB("'worker':{'replicas':1,'template':{'spec':{'containers':[{'name':'m','resources':{"
               "'requests':{'cpu':2},'limits':{'cpu':4}}},{'name':'s','resources':{'limits':{"
               "'memory':'32768Ki'}}}]}}}"));
    CO_AUTOJSON json_t *body =
        plan_object_pod(job, job->role[API_WORKER].tmpl, API_WORKER, 0, &with_gate);
    const struct plan_action a = {.verb = PLAN_CREATE,
        .kind = PLAN_KIND_POD,
        .inits = co_json_at(body, "spec", "initContainers")};
    expect_json(co_json_at(json_array_get(a.inits, 0), "resources", "limits"),
        "{'cpu':'2','memory':'32Mi'}");
    assert_null(plan_advice(job, &a, "maximum cpu usage per Container is 1, but limit is 2"));
    assert_null(
        plan_advice(job, &a, "minimum memory usage per Container is 1Gi, but request is 32Mi"));
}

/* Thousands of Services, and the program's arguments are too long. */
static void services_are_no_variables_unless_the_template_says_so(void **state) {
    (void)state;
    static const struct {
        const char *given, *spec;
        const char *links;
    } rows[] = {
        {"", "", "false"},
        {"'enableServiceLinks':null,", "", "false"},
        {"'enableServiceLinks':true,", "", "true"},
        {"'enableServiceLinks':false,", "", "false"},
        {"", ",'elastic':1,'intranet':'Service'", "false"},
        {"", ",'elastic':1", NULL}, /* PADDLE_ELASTIC_ETCD_SERVICE_HOST */
        {"'enableServiceLinks':false,", ",'elastic':1", "false"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB("'worker':{'replicas':1,'template':{'spec':{%s'containers':["
                                "{'name':'m'}]}}}%s"),
                rows[i].given, rows[i].spec);
        CO_AUTOJSON json_t *pod = pod_of(job, API_WORKER, 0, &no_gate);
        expect_json(co_json_at(pod, "spec", "enableServiceLinks"), rows[i].links);
    }
}

#define APART(roles)                                                                               \
    "{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{'labelSelector':{"     \
    "'matchLabels':{'batch.paddlepaddle.org/job-name':'x'},'matchExpressions':[{"                  \
    "'key':'paddle-res-type','operator':'In','values':" roles "}]},"                               \
    "'topologyKey':'kubernetes.io/hostname'}]}}"

static void host_mode_spreads_listening_pods_over_nodes(void **state) {
    (void)state;
    const char *ps_job = TK_JOB(TK_ROLE("ps", 2) "," TK_ROLE("worker", 2) ",'intranet':'Host'");
    CO_AUTOJSON json_t *server = pod_of(ps_job, API_PS, 0, &no_gate);
    CO_AUTOJSON json_t *trainer = pod_of(ps_job, API_WORKER, 0, &no_gate);
    assert_true(json_is_true(co_json_at(server, "spec", "hostNetwork")));
    assert_string_equal(co_json_str(server, "spec", "dnsPolicy"), "ClusterFirstWithHostNet");
    expect_json(co_json_at(server, "spec", "affinity"), APART("['ps']"));
    assert_null(co_json_at(trainer, "spec", "affinity")); /* it listens to nobody */
    assert_null(json_object_get(first_container(server), "ports"));

    CO_AUTOJSON json_t *worker =
        pod_of(TK_JOB(TK_ROLE("worker", 2) ",'intranet':'Host'"), API_WORKER, 1, &no_gate);
    expect_json(co_json_at(worker, "spec", "affinity"), APART("['worker']"));

    CO_AUTOJSON json_t *own =
        pod_of(TK_JOB("'intranet':'Host','worker':{'replicas':2,'template':{'spec':{"
                      "'dnsPolicy':'Default','affinity':{'nodeAffinity':{}},'containers':[{}]}}}"),
            API_WORKER, 1, &no_gate);
    assert_string_equal(co_json_str(own, "spec", "dnsPolicy"), "Default");
    assert_non_null(co_json_at(own, "spec", "affinity", "nodeAffinity"));
    assert_non_null(co_json_at(own, "spec", "affinity", "podAntiAffinity"));
}

struct restart_row {
    const char *intranet, *given, *rest; /* of the spec */
    enum api_role role;
    const char *policy;
};

static const struct restart_row restarts[] = {
    {"Service", "", "", API_WORKER, "OnFailure"},
    {"Service", "", "", API_PS, "Never"},
    {"Service", "", "", API_HETER, "Never"},
    {"PodIP", "", "", API_WORKER, "Never"},
    {"Host", "", "", API_WORKER, "Never"},
    {"odd", "", "", API_WORKER, "Never"},
    {"PodIP", "Always", "", API_WORKER, "Always"},
    {"PodIP", "OnFailure", ",'activeDeadlineSeconds':9", API_WORKER, "OnFailure"},
    {"PodIP", "Never", ",'elastic':1", API_WORKER, "OnFailure"},
    /* what a failed pod means is the operator's business */
    {"Service", "", ",'backoffLimit':0", API_WORKER, "Never"},
    {"DNS", "", ",'backoffLimit':3", API_WORKER, "Never"},
    {"PodIP", "OnFailure", ",'backoffLimit':3", API_WORKER, "Never"},
    {"PodIP", "Always", ",'backoffLimit':3", API_PS, "Never"},
    {"Service", "OnFailure", ",'failurePolicy':[{'action':'Ignore'}]", API_HETER, "Never"},
    {"Service", "Always", ",'elastic':1,'backoffLimit':3", API_WORKER, "Never"},
};

static void the_restart_policy_goes_by_role_intranet_and_run_policy(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(restarts); i++) {
        const struct restart_row *r = &restarts[i];
        CO_AUTOFREE char *role = co_xasprintf(
            "{'replicas':1,'template':{'spec':{'restartPolicy':'%s','containers':[{'name':'main'}]}"
            "}}",
            r->given);
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB("'ps':%s,'worker':%s,'heter':%s,'intranet':'%s'%s"), role, role,
                role, r->intranet, r->rest);
        CO_AUTOJSON json_t *pod = pod_of(job, r->role, 0, &no_gate);
        const char *policy = co_json_str(pod, "spec", "restartPolicy");
        if (strcmp(policy, r->policy) != 0) {
            fail_msg("row %zu: %s, expected %s", i, policy, r->policy);
        }
    }
}

/* In the template's order, which webhooks may change in the pod. */
static void a_pod_has_the_names_of_its_templates_containers(void **state) {
    (void)state;
    CO_AUTOJSON json_t *pod = pod_of(
        TK_JOB("'worker':{'replicas':1,'template':{'metadata':{'annotations':{"
               "'batch.paddlepaddle.org/containers':'of another pod'}},'spec':{'containers':["
               "{'name':'main'},{'name':'a'}]}}}"),
        API_WORKER, 0, &no_gate);
    assert_string_equal(
        co_json_str(pod, "metadata", "annotations", API_ANNOTATION_CONTAINERS), "main,a");
    CO_AUTOJSON json_t *nameless =
        pod_of(TK_JOB("'worker':{'replicas':1,'template':{'metadata':{'annotations':{"
                      "'batch.paddlepaddle.org/containers':'of another pod'}},'spec':{"
                      "'containers':[{}]}}}"),
            API_WORKER, 0, &no_gate);
    assert_null(co_json_str(nameless, "metadata", "annotations", API_ANNOTATION_CONTAINERS));
}

static void our_labels_are_read_back(void **state) {
    (void)state;
    /* Whatever the template says, copied from a pod perhaps. */
    CO_AUTOJSON json_t *body =
        pod_of(TK_JOB("'heter':{'replicas':13,'template':{'metadata':{'labels':{"
                      "'batch.paddlepaddle.org/attempt':'5','batch.paddlepaddle.org/index':'3',"
                      "'paddle-res-type':'ps'}},'spec':{'containers':[{'name':'main'}]}}}"),
            API_HETER, 12, &no_gate);
    struct api_pod *pod = (struct api_pod *)api_child_of_tree(api_pod_read, body);
    assert_int_equal(pod->role, API_HETER);
    assert_int_equal(pod->index, 12);
    assert_int_equal(pod->attempt, 0);
    assert_string_equal(pod->c.owner_uid, "uid-x");
    assert_string_equal(pod->c.owner_job, "x");
    free(pod);
}

/* Only who others outlive: what decides that the job is done ends by itself. */
/* 100 bytes a value, and its text. */
static void a_pods_memory_is_that_of_its_values_and_their_text(void **state) {
    (void)state;
    static const struct {
        const char *tmpl;
        size_t bytes;
    } rows[] = {{"{}", 100}, {"[null,1]", 300}, {"['abc']", 203}, {"{'ab':['c','']}", 403}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *tmpl = tk_json(rows[i].tmpl);
        assert_int_equal(plan_object_pod_bytes(tmpl), rows[i].bytes);
    }
}

static void a_server_learns_where_to_ask_for_the_end(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        enum api_role role;
        const struct plan_settings *settings;
        bool given;
    } rows[] = {
        {TK_ROLE("ps", 2) "," TK_ROLE("worker", 1), API_PS, &with_gate, true},
        {TK_ROLE("ps", 2) "," TK_ROLE("worker", 1), API_WORKER, &with_gate, false},
        {TK_ROLE("ps", 2) "," TK_ROLE("worker", 1), API_PS, &no_gate, false},
        {TK_ROLE("ps", 2) "," TK_ROLE("heter", 1), API_PS, &with_gate, true},
        {TK_ROLE("ps", 2), API_PS, &with_gate, false},
        {TK_ROLE("ps", 2) "," TK_ROLE("worker", 1) ",'successPolicy':'AllPods'", API_PS, &with_gate,
            false},
        {TK_ROLE("ps", 2) "," TK_ROLE("worker", 1) ",'successPolicy':'Worker0'", API_PS, &with_gate,
            true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), rows[i].spec);
        CO_AUTOJSON json_t *pod = pod_of(job, rows[i].role, 0, rows[i].settings);
        const json_t *env = json_object_get(first_container(pod), "env");
        expect_json(json_array_get(env, 4),
            rows[i].given ? "{'name':'PADDLE_TRAINING_END','value':'gate:8090/end/v1/ns/x/uid-x'}"
                          : NULL);
    }
}

/* A launcher's own default fits Kubernetes' default, so nothing is said where the template is
 * silent.
 */
static void a_launcher_learns_the_grace_period(void **state) {
    (void)state;
    static const struct {
        const char *grace, *given;
    } rows[] = {
        {"", NULL},
        {"'terminationGracePeriodSeconds':null,", NULL},
        {"'terminationGracePeriodSeconds':30,", "25"},
        {"'terminationGracePeriodSeconds':120,", "115"},
        {"'terminationGracePeriodSeconds':12,", "10"},
        {"'terminationGracePeriodSeconds':1,", "1"},
        {"'terminationGracePeriodSeconds':0,", "0"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB("'worker':{'replicas':1,'template':{'spec':{%s'containers':"
                                "[{'name':'main','image':'img'}]}}}"),
                rows[i].grace);
        for (int32_t index = 0; index < 2; index++) {
            CO_AUTOJSON json_t *pod = pod_of(job, API_WORKER, index, &no_gate);
            const json_t *env = json_object_get(first_container(pod), "env");
            CO_AUTOFREE char *want = co_xasprintf("{'name':'PADDLERUN_STOP_TIMEOUT','value':'%s'}",
                rows[i].given ? rows[i].given : "");
            expect_json(json_array_get(env, 4), rows[i].given ? want : NULL);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pods_memory_is_that_of_its_values_and_their_text),
        cmocka_unit_test(a_launcher_learns_the_grace_period),
        cmocka_unit_test(a_server_learns_where_to_ask_for_the_end),
        cmocka_unit_test(a_pod_in_pod_ip_mode),
        cmocka_unit_test(a_pod_in_service_mode),
        cmocka_unit_test(a_pod_in_dns_mode),
        cmocka_unit_test(a_pod_whose_family_is_chosen),
        cmocka_unit_test(an_elastic_pod),
        cmocka_unit_test(elastic_workers_get_their_bounds),
        cmocka_unit_test(fields_of_the_users_template_are_kept),
        cmocka_unit_test(null_fields_of_a_template_count_as_absent),
        cmocka_unit_test(the_start_gate_fits_quotas_and_restricted_namespaces),
        cmocka_unit_test(the_start_gate_takes_as_much_as_the_training),
        cmocka_unit_test(the_start_gate_has_no_user_of_its_own),
        cmocka_unit_test(a_rejection_because_of_the_start_gate_says_so),
        cmocka_unit_test(a_rejection_because_of_the_training_does_not_blame_the_gate),
        cmocka_unit_test(services_are_no_variables_unless_the_template_says_so),
        cmocka_unit_test(host_mode_spreads_listening_pods_over_nodes),
        cmocka_unit_test(the_restart_policy_goes_by_role_intranet_and_run_policy),
        cmocka_unit_test(a_pod_has_the_names_of_its_templates_containers),
        cmocka_unit_test(our_labels_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
