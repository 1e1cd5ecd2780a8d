#include "operator/api/job.h"

#include <inttypes.h>
#include <stdio.h>

#include "operator/api/api_testing.h"
#include "operator/api/pack.h"
#include "operator/api/range.h"
#include "operator/api/words.h"

static struct api_job *decode(const char *text) {
    struct api_job *job = NULL;
    struct co_err err = {0};
    if (api_job_decode(tk_json(text), &job, &err)) {
        fail_msg("%s", err.msg);
    }
    return job;
}

#define TEMPLATE "'template':{'spec':{'containers':[{'name':'c','image':'i'}]}}"
#define PS_JOB                                                                                     \
    "{'metadata':{'name':'wide','namespace':'ns','uid':'u1','resourceVersion':'7',"                \
    "'generation':3,'finalizers':['a/b','finalizers.paddlepaddle.org']},"                          \
    "'spec':{'cleanPodPolicy':'OnFailed','intranet':'Service','withGloo':1,'elastic':null,"        \
    "'ps':{'replicas':2," TEMPLATE "},'worker':{'replicas':3," TEMPLATE "}},"                      \
    "'status':{'phase':'Running'}}"

static void a_job_is_decoded(void **state) {
    (void)state;
    struct api_job *job = decode(PS_JOB);
    assert_string_equal(job->name, "wide");
    assert_string_equal(job->ns, "ns");
    assert_string_equal(job->uid, "u1");
    assert_string_equal(job->resource_version, "7");
    assert_int_equal(job->generation, 3);
    assert_true(job->finalizer);
    assert_int_equal(job->n_finalizers, 2);
    assert_false(job->deleting);
    assert_int_equal(job->clean, API_CLEAN_OTHER);
    assert_int_equal(job->intranet, API_SERVICE);
    assert_int_equal(job->mode, API_MODE_PS);
    assert_int_equal(job->success, API_SUCCESS_WORKERS);
    assert_false(job->elastic);
    assert_int_equal(job->gloo, 1);
    assert_int_equal(job->role[API_PS].replicas, 2);
    assert_int_equal(job->role[API_WORKER].replicas, 3);
    assert_non_null(job->role[API_WORKER].tmpl);
    assert_false(job->role[API_HETER].present);
    assert_int_equal(job->phase, API_PHASE_RUNNING);
    assert_int_equal(job->n_problems, 0);
    api_job_free(job);
}

static void an_unknown_enum_value_is_named_with_the_expected_ones(void **state) {
    (void)state;
    static const struct {
        enum api_word_field field;
        const char *spec, *said; /* NULL: nothing */
    } rows[] = {
        {API_WORD_CLEAN, "{'cleanPodPolicy':'OnFailed'}",
            "spec.cleanPodPolicy is \"OnFailed\", expected Always, Never, OnFailure, "
            "OnCompletion or Running; Never is used"},
        {API_WORD_INTRANET, "{'intranet':'Hots'}",
            "spec.intranet is \"Hots\", expected PodIP, Service, DNS or Host; PodIP is used"},
        {API_WORD_SUCCESS, "{'successPolicy':'AllWorker'}",
            "spec.successPolicy is \"AllWorker\", expected AllWorkers, AllPods or Worker0; "
            "AllWorkers is used"},
        {API_WORD_INTRANET, "{'intranet':'DNS','cleanPodPolicy':'x'}", NULL},
        {API_WORD_INTRANET, "{'intranet':''}", NULL},
        {API_WORD_INTRANET, "{'intranet':7}", NULL}, /* a problem */
        {API_WORD_CLEAN, "{}", NULL},
        {API_WORD_CLEAN, "7", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *spec = tk_json(rows[i].spec);
        char said[160] = "";
        bool odd = api_word_is_odd(rows[i].field, spec, said, sizeof(said));
        if (odd != (rows[i].said != NULL) || (odd && strcmp(said, rows[i].said) != 0)) {
            fail_msg("%s: %s", rows[i].spec, said);
        }
    }
}

/* However long the word is, what is said about it fits. */
static void messages_about_long_enum_values_are_bounded(void **state) {
    (void)state;
    char word[4000], said[160];
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    CO_AUTOJSON json_t *spec =
        json_pack("{s:s,s:s,s:s}", "cleanPodPolicy", word, "intranet", word, "successPolicy", word);
    for (enum api_word_field f = 0; f < API_WORD_FIELDS; f++) {
        assert_true(api_word_is_odd(f, spec, said, sizeof(said)));
        assert_non_null(strstr(said, " is used"));
        assert_true(strlen(said) < sizeof(said) - 1);
        assert_true(api_word_is_odd(f, spec, said, 50));
        assert_int_equal(strlen(said), 49);
    }
}

static void the_run_policy_is_decoded(void **state) {
    (void)state;
    struct api_job *job = decode(
        "{'metadata':{'name':'x','creationTimestamp':'1970-01-02T00:00:00Z'},'spec':{"
        "'suspend':true,'activeDeadlineSeconds':60,'ttlSecondsAfterFinished':0,'backoffLimit':3,"
        "'priorityClassName':'high','managedBy':'kueue.x-k8s.io/multikueue','failurePolicy':["
        "{'action':'Fail','exitCodes':'2,10-12'},{'action':'Ignore','reasons':['OOMKilled'],"
        "'role':'ps'},{'action':'Restart'}]},'status':{'attempt':2}}");
    assert_true(job->suspend && job->elsewhere && api_job_restarts(job));
    assert_int_equal(job->deadline, 60);
    assert_int_equal(job->ttl, 0);
    assert_int_equal(job->backoff_limit, 3);
    assert_string_equal(job->priority_class, "high");
    assert_int_equal(job->created, 86400);
    assert_int_equal(job->attempt, 2);
    assert_int_equal(job->n_rules, 3);
    assert_int_equal(job->rules[0].action, API_FAIL);
    assert_int_equal(job->rules[0].role, API_NO_ROLE);
    assert_false(job->rules[0].any_code);
    assert_int_equal(job->rules[0].codes[0], 1 << 2 | 7 << 10);
    assert_int_equal(job->rules[1].action, API_IGNORE);
    assert_int_equal(job->rules[1].role, API_PS);
    assert_true(job->rules[1].any_code);
    assert_int_equal(json_array_size(job->rules[1].reasons), 1);
    assert_int_equal(job->rules[2].action, API_RESTART);
    assert_null(job->rules[2].reasons);
    assert_int_equal(job->n_problems, 0);
    api_job_free(job);
    /* What is stored may be anybody's: a number that no label reads back makes and deletes pods
     * for ever. */
    job = decode("{'metadata':{'name':'x'},'status':{'attempt':2000000000}}");
    char label[16];
    (void)snprintf(label, sizeof(label), "%" PRId32, job->attempt + 1);
    assert_int_equal(api_label_attempt(label), job->attempt + 1);
    api_job_free(job);
    job = decode("{'metadata':{'name':'x'},'spec':{'managedBy':'" API_MANAGER "'}}");
    assert_false(job->suspend || job->elsewhere || api_job_restarts(job));
    assert_int_equal(job->deadline, 0);
    assert_int_equal(job->ttl, -1);
    assert_int_equal(job->backoff_limit, -1);
    assert_int_equal(job->attempt, 0);
    api_job_free(job);
}

static void exit_codes_are_numbers_and_ranges(void **state) {
    (void)state;
    static const char *const bad[] = {
        "", ",", "1,", "-1", "1-", "3-1", "256", "1-256", "1 2", "x", "1-2-3", "0001"};
    uint64_t set[4];
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        if (api_exit_codes_parse(bad[i], set)) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
    assert_true(api_exit_codes_parse("0-63,65,255", set));
    assert_true(set[0] == UINT64_MAX && set[1] == 2 && set[2] == 0 && set[3] == UINT64_C(1) << 63);
}

struct word_row {
    const char *spec;
    enum api_clean clean;
    enum api_intranet intranet;
    enum api_success success;
    enum api_mode mode;
    bool elastic;
    int32_t gloo;
};

#define ROLE(name, n) "'" name "':{'replicas':" n "," TEMPLATE "}"
#define ON_NODE(name)                                                                              \
    "'" name "':{'replicas':1,'template':{'spec':{'hostNetwork':true,'containers':[{}]}}}"
static const struct word_row words[] = {
    /* Only Host mode has ports for pods on the network of a node. */
    {ON_NODE("worker"), API_CLEAN_DEFAULT, API_HOST, API_SUCCESS_WORKERS, API_MODE_SINGLE, false,
        0},
    {ON_NODE("ps") "," ROLE("worker", "1"), API_CLEAN_DEFAULT, API_HOST, API_SUCCESS_WORKERS,
        API_MODE_PS, false, 0},
    {ON_NODE("worker") ",'intranet':'PodIP'", API_CLEAN_DEFAULT, API_HOST, API_SUCCESS_WORKERS,
        API_MODE_SINGLE, false, 0},
    {ON_NODE("worker") ",'intranet':'Service'", API_CLEAN_DEFAULT, API_SERVICE, API_SUCCESS_WORKERS,
        API_MODE_SINGLE, false, 0},
    {"", API_CLEAN_DEFAULT, API_POD_IP, API_SUCCESS_WORKERS, API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'Always','intranet':'PodIP'", API_CLEAN_ALWAYS, API_POD_IP,
        API_SUCCESS_WORKERS, API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'Never','intranet':'Host','successPolicy':'AllPods'", API_CLEAN_NEVER,
        API_HOST, API_SUCCESS_ALL, API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'OnFailure','intranet':'host'", API_CLEAN_ON_FAILURE, API_POD_IP,
        API_SUCCESS_WORKERS, API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'Running'", API_CLEAN_RUNNING, API_POD_IP, API_SUCCESS_WORKERS,
        API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'OnCompletion','successPolicy':'AllWorkers'", API_CLEAN_ON_COMPLETION,
        API_POD_IP, API_SUCCESS_WORKERS, API_MODE_SINGLE, false, 0},
    {"'cleanPodPolicy':'always'", API_CLEAN_OTHER, API_POD_IP, API_SUCCESS_WORKERS, API_MODE_SINGLE,
        false, 0},
    {ROLE("worker", "1"), API_CLEAN_DEFAULT, API_POD_IP, API_SUCCESS_WORKERS, API_MODE_SINGLE,
        false, 0},
    {ROLE("worker", "2") ",'elastic':0,'withGloo':1", API_CLEAN_DEFAULT, API_POD_IP,
        API_SUCCESS_WORKERS, API_MODE_COLLECTIVE, true, 0},
    {ROLE("ps", "0") ",'withGloo':1", API_CLEAN_DEFAULT, API_POD_IP, API_SUCCESS_WORKERS,
        API_MODE_PS, false, 0},
    {ROLE("ps", "1") ",'withGloo':-1", API_CLEAN_DEFAULT, API_POD_IP, API_SUCCESS_WORKERS,
        API_MODE_PS, false, 0},
};

static void enum_values_decode_as_upstream_reads_them(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        const struct word_row *row = &words[i];
        CO_AUTOFREE char *text = co_xasprintf("{'metadata':{'name':'x'},'spec':{%s}}", row->spec);
        struct api_job *job = decode(text);
        if (job->clean != row->clean || job->intranet != row->intranet ||
            job->success != row->success || job->mode != row->mode ||
            job->elastic != row->elastic || job->gloo != row->gloo || job->n_problems) {
            fail_msg("row %zu: %s", i, row->spec);
        }
        api_job_free(job);
    }
}

static void peer_auth_is_decoded(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        enum api_peer_auth auth;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"", API_PEER_NONE, NULL},
        {"'peerAuth':null", API_PEER_NONE, NULL},
        {"'peerAuth':'None'", API_PEER_NONE, NULL},
        {"'peerAuth':'Token'", API_PEER_TOKEN, NULL},
        {"'peerAuth':'Encrypted'", API_PEER_ENCRYPTED, NULL},
        {"'peerAuth':'token'", API_PEER_NONE,
            "spec.peerAuth is \"token\": use None, Token or Encrypted"},
        {"'peerAuth':'TLS'", API_PEER_NONE,
            "spec.peerAuth is \"TLS\": use None, Token or Encrypted"},
        {"'peerAuth':''", API_PEER_NONE, "spec.peerAuth is \"\": use None, Token or Encrypted"},
        {"'peerAuth':1", API_PEER_NONE, "spec.peerAuth is not a string"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text =
            co_xasprintf("{'metadata':{'name':'x','uid':'u-1'},'spec':{%s}}", rows[i].spec);
        struct api_job *job = decode(text);
        const char *problem = job->n_problems ? job->problems[0].message : NULL;
        if (job->peer_auth != rows[i].auth || job->n_problems > 1 ||
            (problem != NULL) != (rows[i].problem != NULL) ||
            (problem && (strcmp(problem, rows[i].problem) != 0 ||
                            strcmp(job->problems[0].path, "spec.peerAuth") != 0))) {
            fail_msg("%s: %d, %s", rows[i].spec, job->peer_auth, problem ? problem : "no problem");
        }
        CO_AUTOFREE char *name = api_token_name(job);
        assert_string_equal(name, "x-token-u-1");
        api_job_free(job);
    }
}

static void objects_that_are_no_job_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"[]", "{}", "{'metadata':{}}", "{'metadata':{'name':7}}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct api_job *job = NULL;
        struct co_err err = {0};
        assert_int_equal(api_job_decode(tk_json(texts[i]), &job, &err), CO_INVALID);
        assert_null(job);
    }
}

struct problem_row {
    const char *text;
    const char *path; /* of the first problem; NULL: none */
    const char *message;
};

#define JOB(spec) "{'metadata':{'name':'x'},'spec':{" spec "}}"
#define WORKER(tmpl) JOB("'worker':{'replicas':1,'template':" tmpl "}")
#define NAMED(name) "{'metadata':{'name':'" name "'},'spec':{" ROLE("worker", "11") "}}"
#define IN(ns) "{'metadata':{'name':'x','namespace':" ns "},'spec':{" ROLE("worker", "11") "}}"
static const struct problem_row problems[] = {
    {JOB(ROLE("worker", "2")), NULL, NULL},
    {"{'metadata':{'name':'x'}}", NULL, NULL},
    {JOB("'schedulingPolicy':null,'ps':null"), NULL, NULL},
    {NAMED("a.b"), "metadata.name", "small letters"},
    {NAMED("1a"), "metadata.name", "beginning with a letter"},
    {NAMED("a-"), "metadata.name", "not ending"},
    {NAMED("Abc"), "metadata.name", "small letters"},
    {IN("'team-1'"), NULL, NULL},
    {IN("'1'"), NULL, NULL},
    {IN("null"), NULL, NULL},
    {IN("123"), "metadata.namespace", "is 123, expected a string: write it in quotes"},
    {IN("'Team_1'"), "metadata.namespace", "is \"Team_1\", which no namespace can be called: use "},
    {IN("'-a'"), "metadata.namespace", "beginning and ending with a letter or digit"},
    {IN("'a.b'"), "metadata.namespace", "small letters"},
    {IN("'\u56e2\u961f'"), "metadata.namespace", "\u56e2\u961f"},
    /* 53 characters + "-worker-10" = 63 */
    {NAMED("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), NULL, NULL},
    {NAMED("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "metadata.name",
        "has 54 characters, so that pod <name>-worker-10 would have more than 63: use at most 53"},
    /* Elastic workers are raised to requests. */
    {"{'metadata':{'name':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'},'spec':{"
     "'elastic':1,'worker':{'replicas':1,'requests':101," TEMPLATE "}}}",
        "metadata.name", "so that pod <name>-worker-100 would have more than 63"},
    {JOB("'worker':{" TEMPLATE "}"), "spec.worker.replicas", "is missing"},
    {JOB("'worker':{'replicas':-1," TEMPLATE "}"), "spec.worker.replicas",
        "is -1: use 0 for no pods"},
    {JOB("'worker':{'replicas':'2'," TEMPLATE "}"), "spec.worker.replicas", "not an integer"},
    {JOB("'worker':{'replicas':1000000," TEMPLATE "}"), "spec.worker.replicas", "the most is"},
    {JOB("'worker':{'replicas':1}"), "spec.worker.template", "is missing"},
    {WORKER("7"), "spec.worker.template", "not a pod template"},
    {WORKER("{}"), "spec.worker.template", "not a pod template"},
    {WORKER("{'spec':{}}"), "spec.worker.template.spec.containers", "missing or empty"},
    {WORKER("{'spec':{'containers':[]}}"), "spec.worker.template.spec.containers",
        "missing or empty"},
    {WORKER("{'spec':{'containers':{}}}"), "spec.worker.template.spec.containers", "not a list"},
    {WORKER("{'spec':{'containers':['a']}}"), "spec.worker.template.spec.containers",
        "not an object"},
    {WORKER("{'spec':{'containers':[{'env':{}}]}}"), "spec.worker.template.spec.containers.0.env",
        "not a list"},
    {WORKER("{'spec':{'containers':[{}],'initContainers':{}}}"),
        "spec.worker.template.spec.initContainers", "not a list"},
    {WORKER("{'metadata':{'labels':[]},'spec':{'containers':[{}]}}"),
        "spec.worker.template.metadata.labels", "not an object"},
    {WORKER("{'spec':{'containers':[{}],'affinity':{'podAntiAffinity':{"
            "'requiredDuringSchedulingIgnoredDuringExecution':7}}}}"),
        "spec.worker.template.spec.affinity.podAntiAffinity."
        "requiredDuringSchedulingIgnoredDuringExecution",
        "not a list"},
    {JOB("'worker':[]"), "spec.worker", "not an object"},
    {"{'metadata':{'name':'x'},'spec':7}", "spec", "not an object"},
    {JOB("'cleanPodPolicy':3"), "spec.cleanPodPolicy", "not a string"},
    {JOB("'elastic':1," ROLE("ps", "1")), "spec.elastic", "needs workers"},
    {JOB("'suspend':1"), "spec.suspend", "not true or false"},
    {JOB("'suspend':false,'backoffLimit':0,'ttlSecondsAfterFinished':0"), NULL, NULL},
    {JOB("'activeDeadlineSeconds':0"), "spec.activeDeadlineSeconds", "is 0: the least is 1"},
    {JOB("'ttlSecondsAfterFinished':-1"), "spec.ttlSecondsAfterFinished", "the least is 0"},
    {JOB("'backoffLimit':-5"), "spec.backoffLimit", "is -5: the least is 0"},
    {JOB("'failurePolicy':{}"), "spec.failurePolicy", "not a list"},
    {JOB("'failurePolicy':[{'action':'Retry'}]"), "spec.failurePolicy.0",
        "Fail, Restart or Ignore"},
    {JOB("'failurePolicy':[{'action':'Fail'},7]"), "spec.failurePolicy.1", "needs an action"},
    {JOB("'failurePolicy':[{'action':'Fail','exitCodes':'256'}]"), "spec.failurePolicy.0",
        "exitCodes"},
    {JOB("'failurePolicy':[{'action':'Fail','exitCodes':3}]"), "spec.failurePolicy.0", "exitCodes"},
    {JOB("'failurePolicy':[{'action':'Fail','role':'chief'}]"), "spec.failurePolicy.0", "role"},
    {JOB("'failurePolicy':[{'action':'Fail','reasons':'x'}]"), "spec.failurePolicy.0", "reasons"},
};

static void problems_name_the_field_and_what_to_do(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(problems); i++) {
        const struct problem_row *row = &problems[i];
        struct api_job *job = decode(row->text);
        if (!row->path) {
            assert_int_equal(job->n_problems, 0);
        } else {
            if (!job->n_problems || strcmp(job->problems[0].path, row->path) != 0 ||
                strncmp(job->problems[0].message, row->path, strlen(row->path)) != 0 ||
                !strstr(job->problems[0].message, row->message)) {
                fail_msg("%s: %s", row->text,
                    job->n_problems ? job->problems[0].message : "no problem found");
            }
        }
        api_job_free(job);
    }
}

static void all_problems_are_found_and_files_are_held_to_kind_and_version(void **state) {
    (void)state;
    struct api_problem found[API_PROBLEMS_MAX];
    CO_AUTOJSON json_t *j =
        tk_json("{'kind':'Job','metadata':{'name':'X'},'spec':{'ps':{'replicas':1},"
                "'worker':{'replicas':-2,'template':{'spec':{}}}}}");
    size_t n = api_job_validate(j, true, found, API_PROBLEMS_MAX);
    assert_int_equal(n, 6);
    static const char *const paths[] = {"apiVersion", "kind", "metadata.name", "spec.ps.template",
        "spec.worker.replicas", "spec.worker.template.spec.containers"};
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(found[i].path, paths[i]);
    }
    assert_int_equal(api_job_validate(j, true, found, 2), 2);
    co_json_set(json_object_get(j, "metadata"), "name", json_true()); /* YAML's y */
    assert_int_equal(api_job_validate(j, true, found, API_PROBLEMS_MAX), 6);
    assert_string_equal(
        found[2].message, "metadata.name is true, expected a string: write it in quotes");
}

static void pod_names_are_formatted_and_parsed_back(void **state) {
    (void)state;
    char name[80];
    api_pod_name("my-ps-job", API_PS, 12, name, sizeof(name));
    assert_string_equal(name, "my-ps-job-ps-12");
    assert_int_equal(api_pod_name_index("my-ps-job", API_PS, name), 12);
    assert_int_equal(api_pod_name_index("my-ps-job", API_WORKER, name), -1);
    assert_int_equal(api_pod_name_index("my", API_PS, name), -1);
    assert_int_equal(api_pod_name_index("my-ps-job", API_PS, "my-ps-job-ps-012"), -1);
    assert_int_equal(api_pod_name_index("my-ps-job", API_PS, "my-ps-job-ps-"), -1);
    assert_int_equal(api_pod_name_index("j", API_PS, "j-ps-99999999999999999999"), -1);
    for (enum api_phase p = API_PHASE_NONE; p < API_PHASES; p++) {
        assert_int_equal(api_phase_parse(api_phase_name(p)), p);
    }
    assert_int_equal(api_phase_parse("Scaling"), API_PHASE_NONE);
    assert_int_equal(api_phase_parse(NULL), API_PHASE_NONE);
    assert_int_equal(api_role_parse("master"), API_NO_ROLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_decoded),
        cmocka_unit_test(the_run_policy_is_decoded),
        cmocka_unit_test(an_unknown_enum_value_is_named_with_the_expected_ones),
        cmocka_unit_test(messages_about_long_enum_values_are_bounded),
        cmocka_unit_test(exit_codes_are_numbers_and_ranges),
        cmocka_unit_test(enum_values_decode_as_upstream_reads_them),
        cmocka_unit_test(peer_auth_is_decoded),
        cmocka_unit_test(objects_that_are_no_job_are_refused),
        cmocka_unit_test(problems_name_the_field_and_what_to_do),
        cmocka_unit_test(all_problems_are_found_and_files_are_held_to_kind_and_version),
        cmocka_unit_test(pod_names_are_formatted_and_parsed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
