#include "operator/api/child.h"

#include <malloc.h>

#include "operator/api/api_testing.h"

static struct api_pod *pod_of(const char *text) {
    CO_AUTOJSON json_t *j = tk_json(text);
    struct api_pod *pod = (struct api_pod *)api_child_of_tree(api_pod_read, j);
    assert_non_null(pod);
    return pod;
}

#define OWNER                                                                                      \
    "'ownerReferences':[{'uid':'other'},{'apiVersion':'batch.paddlepaddle.org/v1',"                \
    "'kind':'PaddleJob','name':'x','uid':'u1','controller':true}]"
#define META(labels)                                                                               \
    "'metadata':{'name':'x-worker-3','namespace':'ns','uid':'p1','resourceVersion':'9'," OWNER     \
    ",'labels':{" labels "}}"

static void a_pod_is_known_by_its_labels(void **state) {
    (void)state;
    struct api_pod *pod = pod_of("{" META(
        "'paddle-res-type':'worker','batch.paddlepaddle.org/index':'3',"
        "'batch.paddlepaddle.org/attempt':'2'") ",'status':{'phase':'Running','hostIP':'10.0.0.9',"
                                                "'podIP':'10.1.0.1','podIPs':[{'ip':'10.1.0.1'},{'"
                                                "ip':'fd00::1'}]}}");
    assert_string_equal(pod->c.name, "x-worker-3");
    assert_string_equal(pod->c.ns, "ns");
    assert_string_equal(pod->c.uid, "p1");
    assert_string_equal(pod->c.resource_version, "9");
    assert_string_equal(pod->c.owner_uid, "u1");
    assert_string_equal(pod->c.owner_job, "x");
    assert_false(pod->c.deleting);
    assert_int_equal(pod->role, API_WORKER);
    assert_int_equal(pod->index, 3);
    assert_int_equal(pod->attempt, 2);
    assert_string_equal(pod->ip[0], "10.1.0.1");
    assert_string_equal(pod->ip[1], "fd00::1");
    assert_string_equal(pod->host_ip, "10.0.0.9");
    free(pod);
}

static void a_pod_of_upstream_is_known_by_annotation_and_owner(void **state) {
    (void)state;
    struct api_pod *pod =
        pod_of("{'metadata':{'name':'x-ps-1','deletionTimestamp':'2026-01-01T00:00:00Z'," OWNER
               ",'annotations':{'paddle-resource':'ps'}},'status':{'podIP':'10.1.0.1'}}");
    assert_int_equal(pod->role, API_PS);
    assert_int_equal(pod->index, 1);
    assert_int_equal(pod->attempt, 0);
    assert_true(pod->c.deleting);
    assert_int_equal(pod->phase, API_POD_UNKNOWN);
    assert_string_equal(pod->ip[0], "10.1.0.1");
    free(pod);
    pod = pod_of("{'metadata':{'name':'x-ps-1'}}");
    assert_int_equal(pod->role, API_NO_ROLE);
    assert_int_equal(pod->index, -1);
    assert_string_equal(pod->c.owner_uid, "");
    free(pod);
    CO_AUTOJSON json_t *nameless = tk_json("{'metadata':{}}");
    assert_null(api_child_of_tree(api_pod_read, nameless));
}

struct state_row {
    const char *status;
    bool ready, coord;
    int32_t restarts, exit_code;
    const char *container, *reason, *message;
    bool passed;
};

#define DONE(code, at, reason, message)                                                            \
    "'state':{'terminated':{'exitCode':" code ",'finishedAt':'" at "','reason':'" reason           \
    "','message':'" message "'}}"
#define RUNS "'ready':true,'state':{'running':{}}"
static const struct state_row states[] = {
    {"'phase':'Running','containerStatuses':[{'name':'a'," RUNS ",'restartCount':2}],"
     "'initContainerStatuses':[{'name':'i','ready':true,'restartCount':1," DONE(
         "0", "t", "", "") "}]",
        true, false, 3, -1, "", "", ""},
    {"'phase':'Running','containerStatuses':[{'name':'a'," RUNS "},{'name':'b','ready':false,"
     "'state':{'running':{}}}]",
        false, false, 0, -1, "", "", ""},
    {"'phase':'Pending','initContainerStatuses':[{'name':'coord-paddle','ready':false,"
     "'state':{'running':{}}}],'containerStatuses':[{'name':'a','ready':false,"
     "'state':{'waiting':{'reason':'PodInitializing'}}}]",
        false, true, 0, -1, "", "", ""},
    /* past the gate */
    {"'phase':'Pending','initContainerStatuses':[{'name':'coord-paddle','ready':true," DONE(
         "0", "t", "Completed", "") "}],'containerStatuses':[{'name':'a','ready':false,"
                                    "'state':{'waiting':{'reason':'PodInitializing'}}}]",
        false, false, 0, -1, "", "", "", true},
    /* one container is done, the pod not yet */
    {"'phase':'Running','containerStatuses':[{'name':'a','ready':false," DONE(
         "0", "t", "Completed", "") "},{'name':'b'," RUNS "}]",
        true, false, 0, -1, "", "", ""},
    {"'phase':'Pending','containerStatuses':[{'name':'a','state':{'waiting':{"
     "'reason':'ImagePullBackOff','message':'Back-off pulling'}}}]",
        false, false, 0, -1, "a", "ImagePullBackOff", "Back-off pulling"},
    {"'phase':'Running','containerStatuses':[{'name':'a','restartCount':4,'lastState':{"
     "'terminated':{'exitCode':3}},'state':{'waiting':{'reason':'CrashLoopBackOff',"
     "'message':'back-off'}}}]",
        false, false, 4, 3, "a", "", ""},
    {"'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
     "'reason':'Unschedulable','message':'0/1 nodes are available'}]",
        true, false, 0, -1, "", "Unschedulable", "0/1 nodes are available"},
    /* the one that failed first, not the one that was killed for it */
    {"'phase':'Failed','containerStatuses':[{'name':'side'," DONE("137", "2026-01-01T00:00:09Z",
         "Error", "") "},{'name':'main'," DONE("2", "2026-01-01T00:00:01Z", "Error",
         "Traceback\\n  File \\\"t.py\\\", line 3, in f\\nValueError: no data \\n"
         "E1123 10:00:00 tcp.cc:12] connection reset\\n\\n") "}]",
        false, false, 0, 2, "main", "Error", "ValueError: no data"},
    {"'phase':'Failed','reason':'Evicted','message':'node was low on memory',"
     "'containerStatuses':[{'name':'a'," DONE("137", "t", "Error", "") "}]",
        false, false, 0, 137, "a", "Evicted", "node was low on memory"},
    {"'phase':'Failed','reason':'DeadlineExceeded'", true, false, 0, -1, "", "DeadlineExceeded",
        ""},
    /* one has failed, the pod continues with the other */
    {"'phase':'Running','containerStatuses':[{'name':'a','ready':false," DONE(
         "1", "t", "Error", "no data") "},{'name':'b'," RUNS "}]",
        false, false, 0, 1, "a", "Error", "no data"},
    /* a sidecar is stopped once the others have: its code is nobody's failure */
    {"'phase':'Failed','initContainerStatuses':[{'name':'proxy'," DONE("143",
         "2026-01-01T00:00:01Z", "Error", "") "}],"
                                              "'containerStatuses':[{'name':'main'," DONE(
                                                  "3", "2026-01-01T00:00:01Z", "Error", "") "}]",
        false, false, 0, 3, "main", "Error", ""},
    /* the training has ended well, and kubelet stops its sidecars */
    {"'phase':'Running','initContainerStatuses':[{'name':'proxy','ready':false," DONE("0", "t",
         "Completed", "") "}],'containerStatuses':[{'name':'main','ready':false," DONE("0", "t",
         "Completed", "") "}]",
        true, false, 0, -1, "", "", ""},
    {"'phase':'Failed','initContainerStatuses':[{'name':'load'," DONE("4", "2026-01-01T00:00:01Z",
         "Error", "") "}],'containerStatuses':[{'name':'main','ready':false,'state':{'waiting':{"
                      "'reason':'PodInitializing'}}}]",
        false, false, 0, 4, "load", "Error", ""},
};

/* kubelet takes the last 2048 bytes of a log for a message that is missing: what is left of their
 * first line is no cause. */
static void the_rest_of_a_line_that_kubelet_cut_is_no_cause(void **state) {
    (void)state;
    static const struct {
        const char *first;
        int total;
        const char *cause;
    } rows[] = {
        {"NFO 2026-11-26 LAUNCH auto_cluster_config: 0", 2048, ""},
        {"rror: no such thing", 2048, ""},
        {"NFO 2026-11-26 LAUNCH auto_cluster_config: 0", 2047,
            "NFO 2026-11-26 LAUNCH auto_cluster_config: 0"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int blanks = rows[i].total - (int)strlen(rows[i].first) - (int)strlen("\n\nINFO done");
        CO_AUTOFREE char *text = co_xasprintf(
            "{'metadata':{'name':'x-ps-0'},'status':{'phase':'Failed','containerStatuses':[{'name':"
            "'main','state':{'terminated':{'exitCode':1,'message':'%s\\n%*s\\nINFO done'}}}]}}",
            rows[i].first, blanks, "");
        struct api_pod *pod = pod_of(text);
        assert_string_equal(pod->cause->message, rows[i].cause);
        free(pod);
    }
}

static void container_states_become_one_cause(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(states); i++) {
        const struct state_row *row = &states[i];
        CO_AUTOFREE char *text =
            co_xasprintf("{'metadata':{'name':'x-ps-0'},'status':{%s}}", row->status);
        struct api_pod *pod = pod_of(text);
        if (pod->ready != row->ready || pod->coord != row->coord || pod->passed != row->passed ||
            pod->restarts != row->restarts || pod->cause->exit_code != row->exit_code ||
            strcmp(pod->cause->container, row->container) != 0 ||
            strcmp(pod->cause->reason, row->reason) != 0 ||
            strcmp(pod->cause->message, row->message) != 0) {
            fail_msg("row %zu: ready %d coord %d restarts %d code %d \"%s\" \"%s\" \"%s\"", i,
                pod->ready, pod->coord, (int)pod->restarts, (int)pod->cause->exit_code,
                pod->cause->container, pod->cause->reason, pod->cause->message);
        }
        free(pod);
    }
}

static void long_last_words_are_cut_at_a_character(void **state) {
    (void)state;
    char words[1001];
    for (size_t i = 0; i < 1000; i += 2) {
        memcpy(words + i, "\xc3\xa4", 2);
    }
    words[1000] = '\0';
    CO_AUTOFREE char *text = co_xasprintf(
        "{'metadata':{'name':'x-ps-0'},'status':{'phase':'Failed','reason':'R','message':'a%s'}}",
        words);
    struct api_pod *pod = pod_of(text);
    assert_int_equal(strlen(pod->cause->message), 399);
    free(pod);
}

/* There may be a hundred thousand of it. */
static void a_usual_pod_takes_a_quarter_of_a_kibibyte(void **state) {
    (void)state;
    struct api_pod *pod =
        pod_of("{'metadata':{'name':'j00000-worker-0','namespace':'default',"
               "'uid':'d0f3b0a4-7d3b-4f6e-9d3c-1f2e3d4c5b6a','resourceVersion':'1234567',"
               "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob',"
               "'name':'j00000','uid':'a1f3b0a4-7d3b-4f6e-9d3c-1f2e3d4c5b6a','controller':true}]},"
               "'status':{'phase':'Running','hostIP':'10.0.12.34','podIP':'10.12.34.56',"
               "'containerStatuses':[{'name':'paddle','ready':true,'state':{'running':{}}}]}}");
    assert_in_range(malloc_usable_size(pod), 1, 264);
    assert_int_equal(pod->cause->exit_code, -1);
    assert_string_equal(pod->cause->reason, "");
    free(pod);
}

static void pods_that_differ_only_in_resource_version_are_equal(void **state) {
    (void)state;
    struct api_pod *a = pod_of("{'metadata':{'name':'a','resourceVersion':'1'}}");
    struct api_pod *b = pod_of("{'metadata':{'name':'a','resourceVersion':'2'}}");
    struct api_pod *c = pod_of("{'metadata':{'name':'a'},'status':{'podIP':'1.2.3.4'}}");
    assert_false(api_pod_differs(&a->c, &b->c));
    assert_true(api_pod_differs(&a->c, &c->c));
    free(a);
    free(b);
    free(c);
}

static void a_config_map_is_known_by_its_values(void **state) {
    (void)state;
    CO_AUTOJSON json_t *a = tk_json("{'metadata':{'name':'x'},'data':{'PADDLE_PORT':'36020',"
                                    "'PADDLE_TRAINERS_NUM':'2'}}");
    CO_AUTOJSON json_t *b = tk_json("{'metadata':{'name':'x'},'data':{'PADDLE_TRAINERS_NUM':'2',"
                                    "'MINE':'1','PADDLE_PORT':'36020'}}");
    CO_AUTOJSON json_t *c = tk_json("{'metadata':{'name':'x'},'data':{'PADDLE_PORT':'x'}}");
    struct api_configmap *ma = (struct api_configmap *)api_child_of_tree(api_configmap_read, a);
    struct api_configmap *mb = (struct api_configmap *)api_child_of_tree(api_configmap_read, b);
    struct api_configmap *mc = (struct api_configmap *)api_child_of_tree(api_configmap_read, c);
    assert_int_equal(ma->port, 36020);
    assert_int_equal(mc->port, 0);
    assert_true(ma->hash == mb->hash); /* the user's own key and the order do not count */
    assert_true(ma->hash != mc->hash);
    assert_true(ma->hash == api_env_hash(json_object_get(a, "data")));
    free(ma);
    free(mb);
    free(mc);
}

static void a_group_is_known_by_its_amounts(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        {"{'minResources':{'cpu':'1000m','memory':'1024Mi'}}",
            "{'minResources':{'memory':'1Gi','cpu':1},'queue':'default'}", true},
        {"{'minResources':{'cpu':'1'}}", "{'minResources':{'cpu':'2'}}", false},
        {"{'minResources':{'cpu':'odd'}}", "{'minResources':{'cpu':'ood'}}", false},
        {"{'minMember':1}", "{'minMember':2}", false},
        {"{'minMember':1,'minResources':null}", "{'minMember':1}", true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *a = tk_json(rows[i].a);
        CO_AUTOJSON json_t *b = tk_json(rows[i].b);
        if ((api_podgroup_hash(a) == api_podgroup_hash(b)) != rows[i].same) {
            fail_msg("%s, %s", rows[i].a, rows[i].b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_is_known_by_its_labels),
        cmocka_unit_test(a_pod_of_upstream_is_known_by_annotation_and_owner),
        cmocka_unit_test(the_rest_of_a_line_that_kubelet_cut_is_no_cause),
        cmocka_unit_test(container_states_become_one_cause),
        cmocka_unit_test(long_last_words_are_cut_at_a_character),
        cmocka_unit_test(a_usual_pod_takes_a_quarter_of_a_kibibyte),
        cmocka_unit_test(pods_that_differ_only_in_resource_version_are_equal),
        cmocka_unit_test(a_config_map_is_known_by_its_values),
        cmocka_unit_test(a_group_is_known_by_its_amounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
