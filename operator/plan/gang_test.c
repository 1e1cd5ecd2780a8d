/* Gangs: bodies, marks, and when pods are made. */
#include "operator/plan/gang.h"

#include "operator/plan/expect_testing.h"

#define CPU(role, n, resources)                                                                    \
    "'" role "':{'replicas':" #n ",'template':{'spec':{'containers':[{'name':'main','image':"      \
    "'img'," resources "}]}}}"
/* As deploy/examples/wide_and_deep_volcano.yaml. */
#define EXAMPLE                                                                                    \
    CPU("ps", 2, "'resources':{'limits':{'cpu':'300m'}}")                                          \
    "," CPU("worker", 2, "'resources':{'requests':{'cpu':'200m'},'limits':{'cpu':'4'}}")

static void begin(struct tk_cluster *c, const char *job, const char *word) {
    tk_init(c, job);
    c->settings.gang = plan_gang_find(word);
    assert_non_null(c->settings.gang);
}

static void set_group_status(struct tk_cluster *c, const char *status) {
    json_t *group = json_object_get(c->objects[TK_PODGROUPS], "x");
    assert_non_null(group);
    co_json_set(group, "status", tk_json(status));
    tk_stamp(c, group, false);
}

/* Sorted text of what stands at a path of the object that a plan would make. */
static char *body_part(struct tk_cluster *c, enum plan_kind kind, const char *const *path) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    for (size_t i = 0; i < plan.n_actions; i++) {
        if (plan.actions[i].kind == kind) {
            return co_json_dump_sorted(co_json_atv(plan.actions[i].body, path));
        }
    }
    fail_msg("no such object is made");
    return NULL;
}

static void expect_part(
    struct tk_cluster *c, enum plan_kind kind, const char *const *path, const char *expected) {
    CO_AUTOFREE char *have = body_part(c, kind, path);
    CO_AUTOJSON json_t *j = tk_json(expected);
    CO_AUTOFREE char *want = co_json_dump_sorted(j);
    assert_string_equal(have, want);
}

/* ---- bodies --------------------------------------------------------------------------------- */

static void a_group_says_how_many_and_how_much(void **state) {
    (void)state;
    static const struct {
        const char *word, *job, *spec;
    } rows[] = {
        {"volcano", TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'default'}"),
            "{'minMember':4,'minResources':{'cpu':'1'},'queue':'default'}"},
        {"volcano",
            TK_JOB(EXAMPLE ",'schedulingPolicy':{'minAvailable':3,'queue':'q','priorityClass':'p',"
                           "'minResources':{'cpu':2,'memory':'1Gi'}}"),
            "{'minMember':3,'minResources':{'cpu':2,'memory':'1Gi'},'queue':'q',"
            "'priorityClassName':'p'}"},
        {"volcano", TK_JOB(EXAMPLE ",'priorityClassName':'high'"),
            "{'minMember':4,'minResources':{'cpu':'1'},'priorityClassName':'high'}"},
        {"volcano", TK_JOB(TWO_TWO), "{'minMember':4}"},
        /* a limit is a request where there is none; what is no quantity is left to the API server
         */
        {"volcano",
            TK_JOB(CPU("worker", 3,
                "'resources':{'requests':{},'limits':{'cpu':'1'}}},{'name':'b','image':'i',"
                "'resources':{'requests':{'cpu':'much','memory':'1.5Gi','nvidia.com/gpu':2}}")),
            "{'minMember':3,'minResources':{'cpu':'3','memory':'4608Mi','nvidia.com/gpu':'6'}}"},
        {"volcano",
            TK_JOB("'worker':{'replicas':2,'template':{'spec':{'initContainers':[{'name':'i',"
                   "'resources':{'requests':{'cpu':'8'}}}],'containers':[{'name':'m','resources':"
                   "{'requests':{'cpu':'0.1'}}}]}}}"),
            "{'minMember':2,'minResources':{'cpu':'16'}}"},
        /* elastic workers: as many as they can begin with */
        {"volcano",
            TK_JOB("'elastic':1,'worker':{'replicas':4,'requests':2,'limits':8,'template':{'spec':"
                   "{'containers':[{'name':'m','resources':{'requests':{'cpu':1}}}]}}}"),
            "{'minMember':2,'minResources':{'cpu':'2'}}"},
        {"coscheduling", TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'default'}"),
            "{'minMember':4,'minResources':{'cpu':'1'}}"},
        {"native", TK_JOB(EXAMPLE),
            "{'controllerRef':{'apiGroup':'batch.paddlepaddle.org','kind':'PaddleJob','name':'x'},"
            "'podGroups':[{'name':'job','policy':{'gang':{'minCount':4}}}]}"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, rows[i].job, rows[i].word);
        expect_actions(&c, "create PodGroup x");
        expect_part(&c, PLAN_KIND_PODGROUP, (const char *const[]){"spec", NULL}, rows[i].spec);
        tk_done(&c);
    }
}

static void a_group_is_owned_by_its_job(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE), "volcano");
    CO_AUTOFREE char *version =
        body_part(&c, PLAN_KIND_PODGROUP, (const char *const[]){"apiVersion", NULL});
    CO_AUTOFREE char *kind = body_part(&c, PLAN_KIND_PODGROUP, (const char *const[]){"kind", NULL});
    assert_string_equal(version, "\"scheduling.volcano.sh/v1beta1\"");
    assert_string_equal(kind, "\"PodGroup\"");
    expect_part(&c, PLAN_KIND_PODGROUP, (const char *const[]){"metadata", NULL},
        "{'name':'x','namespace':'ns','labels':{'paddle-res-name':'x',"
        "'batch.paddlepaddle.org/job-name':'x'},'ownerReferences':[{'apiVersion':"
        "'batch.paddlepaddle.org/v1','kind':'PaddleJob','name':'x','uid':'uid-x',"
        "'controller':true,'blockOwnerDeletion':true}]}");
    tk_done(&c);
}

/* ---- marks ---------------------------------------------------------------------------------- */

struct mark_row {
    const char *word;     /* of --scheduling; NULL: none */
    const char *metadata; /* of the job, beside what all have */
    const char *spec;
    const char *labels, *annotations; /* of x-worker-0, without those of every pod */
    const char *scheduler, *workload;
};

static void drop(json_t *j, const char *const *keys) {
    for (; *keys; keys++) {
        json_object_del(j, *keys);
    }
}

static void expect_object(const json_t *have, const char *expected) {
    CO_AUTOJSON json_t *want = tk_json(expected);
    CO_AUTOFREE char *a = co_json_dump_sorted(have);
    CO_AUTOFREE char *b = co_json_dump_sorted(want);
    assert_string_equal(a, b);
}

static void check_marks(const struct mark_row *row) {
    static const char *const ours[] = {"paddle-res-name", "paddle-res-type",
        "batch.paddlepaddle.org/job-name", "batch.paddlepaddle.org/index",
        "batch.paddlepaddle.org/attempt", "batch.paddlepaddle.org/job-uid",
        "batch.paddlepaddle.org/containers", "paddle-resource", NULL};
    CO_AUTOFREE char *job = co_xasprintf("{'metadata':{'name':'x','namespace':'ns','uid':'u'%s},"
                                         "'spec':{%s}}",
        row->metadata, row->spec);
    struct tk_cluster c;
    tk_init(&c, job);
    c.settings.gang = row->word ? plan_gang_find(row->word) : NULL;
    tk_look(&c);
    CO_AUTOJSON json_t *pod =
        plan_object_pod(c.seen_job, c.seen_job->role[API_WORKER].tmpl, API_WORKER, 0, &c.settings);
    json_t *labels = co_json_at(pod, "metadata", "labels");
    json_t *annotations = co_json_at(pod, "metadata", "annotations");
    drop(labels, ours);
    drop(annotations, ours);
    expect_object(labels, row->labels);
    expect_object(annotations, row->annotations);
    const char *scheduler = co_json_str(pod, "spec", "schedulerName");
    assert_string_equal(scheduler ? scheduler : "", row->scheduler);
    const json_t *workload = co_json_at(pod, "spec", "workloadRef");
    if (workload || row->workload) {
        expect_object(workload, row->workload);
    }
    tk_done(&c);
}

#define NAMED(scheduler)                                                                           \
    "'worker':{'replicas':2,'template':{'spec':{'schedulerName':'" scheduler                       \
    "','containers':[{'name':'m'}]}}}"

static void pods_carry_labels_and_annotations_of_their_scheduler(void **state) {
    (void)state;
    static const struct mark_row rows[] = {
        {NULL, "", TWO_TWO, "{}", "{}", "", NULL},
        {"volcano", "", TWO_TWO ",'schedulingPolicy':{'queue':'q'}", "{}",
            "{'scheduling.k8s.io/group-name':'x','volcano.sh/task-spec':'worker',"
            "'volcano.sh/job-name':'x','volcano.sh/job-version':'0','volcano.sh/queue-name':'q'}",
            "volcano", NULL},
        {"volcano", "", NAMED("volcano"), "{}",
            "{'scheduling.k8s.io/group-name':'x','volcano.sh/task-spec':'worker',"
            "'volcano.sh/job-name':'x','volcano.sh/job-version':'0','volcano.sh/queue-name':''}",
            "volcano", NULL},
        /* one role that names another scheduler takes all of the job out */
        {"volcano", "", TK_ROLE("ps", 1) "," NAMED("other"), "{}", "{}", "other", NULL},
        {"coscheduling", "", NAMED("other"), "{'scheduling.x-k8s.io/pod-group':'x'}", "{}", "other",
            NULL},
        {"native", "", TWO_TWO, "{}", "{}", "", "{'name':'x','podGroup':'job'}"},
        /* Kueue's marks need no flag, only the job's label */
        {NULL, ",'labels':{'kueue.x-k8s.io/queue-name':'team','kueue.x-k8s.io/priority-class':'p'}",
            TWO_TWO,
            "{'kueue.x-k8s.io/queue-name':'team','kueue.x-k8s.io/priority-class':'p',"
            "'kueue.x-k8s.io/pod-group-name':'x'}",
            "{'kueue.x-k8s.io/pod-group-total-count':'4',"
            "'kueue.x-k8s.io/retriable-in-group':'false'}",
            "", NULL},
        {"kueue", ",'labels':{'kueue.x-k8s.io/queue-name':'team'}", TWO_TWO ",'backoffLimit':2",
            "{'kueue.x-k8s.io/queue-name':'team','kueue.x-k8s.io/pod-group-name':'x'}",
            "{'kueue.x-k8s.io/pod-group-total-count':'4'}", "", NULL},
        {"kueue", "", TWO_TWO, "{}", "{}", "", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        check_marks(&rows[i]);
    }
}

/* ---- when pods are made --------------------------------------------------------------------- */

#define PODS "create Pod x-ps-0; create Pod x-ps-1; create Pod x-worker-0; create Pod x-worker-1"

static void the_phase_of_a_volcano_group_admits_pods(void **state) {
    (void)state;
    static const struct {
        const char *status;
        bool open;
    } rows[] = {
        {"{}", false},
        {"{'phase':'Pending'}", false},
        {"{'phase':'Inqueue'}", true},
        {"{'phase':'Running'}", true},
        {"{'phase':'Unknown'}", true},
        {"{'phase':'Completed'}", true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(EXAMPLE), "volcano");
        rest(&c);
        set_group_status(&c, rows[i].status);
        expect_actions(&c, rows[i].open ? PODS : "");
        tk_done(&c);
    }
}

static void groups_of_other_schedulers_admit_pods_once_they_exist(void **state) {
    (void)state;
    static const char *const words[] = {"coscheduling", "native"};
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(EXAMPLE), words[i]);
        assert_true(tk_pass(&c));
        expect_actions(&c, PODS);
        tk_done(&c);
    }
}

static void a_waiting_job_says_for_what(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'team'}"), "volcano");
    rest(&c);
    expect_status(&c, "phase", "Pending");
    expect_status(&c, "reason", "WaitingForGang");
    expect_status(&c, "message", "PodGroup x waits for room in queue team for 4 pods, cpu 1");
    expect_events(&c, "");
    set_group_status(&c, "{'phase':'Pending','conditions':[{'type':'Unschedulable','status':'True',"
                         "'message':'4/4 tasks in gang unschedulable'}]}");
    expect_condition(&c, "Blocked",
        "True GangUnschedulable PodGroup x waits for room in queue team for 4 pods, cpu 1: 4/4 "
        "tasks "
        "in gang unschedulable");
    expect_events(&c,
        "!GangUnschedulable: PodGroup x waits for room in queue team for 4 pods, cpu 1: "
        "4/4 tasks in gang unschedulable");
    rest(&c);
    expect_events(&c, "");
    set_group_status(&c, "{'phase':'Inqueue'}");
    rest(&c);
    expect_condition(&c, "Blocked", "False Unblocked ");
    tk_done(&c);
}

static void a_recreated_pod_does_not_wait(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE), "volcano");
    rest(&c);
    set_group_status(&c, "{'phase':'Inqueue'}");
    rest(&c);
    run_all(&c);
    json_object_del(c.objects[TK_PODS], "x-worker-1");
    set_group_status(&c, "{'phase':'Pending'}");
    expect_actions(&c, "create Pod x-worker-1");
    tk_done(&c);
}

static void a_job_in_a_queue_of_kueue_says_so(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c,
        "{'metadata':{'name':'x','namespace':'ns','uid':'u','labels':{'kueue.x-k8s.io/queue-name':"
        "'team'}},'spec':{" TK_ROLE("worker", 1) "}}",
        "kueue");
    expect_actions(&c, "create Pod x-worker-0");
    rest(&c);
    tk_pod_status(&c, "x-worker-0",
        "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"
        "'SchedulingGated','message':'Scheduling is blocked due to non-empty scheduling gates'}]}");
    expect_status(&c, "reason", "WaitingInQueue");
    expect_status(&c, "message", "the pods wait until Kueue admits the job to queue team");
    co_json_set(c.objects[TK_PODGROUPS], "x",
        tk_json(
            "{'metadata':{'name':'x','namespace':'ns','uid':'w'},'status':{'conditions':[{"
            "'type':'QuotaReserved','status':'False','message':'insufficient unused quota'}]}}"));
    expect_status(&c, "message",
        "the pods wait until Kueue admits the job to queue team: insufficient unused quota");
    expect_actions(&c, "");
    tk_done(&c);
}

#define UNPLACED(words)                                                                            \
    "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"           \
    "'Unschedulable','message':'" words "'}]}"

static void the_message_is_of_the_pod_with_the_most_specific_cause(void **state) {
    (void)state;
    static const struct {
        const char *word, *first, *second, *message;
    } rows[] = {
        {"coscheduling", UNPLACED("optimistic rejection in PostFilter"), UNPLACED("no room"),
            "pod x-worker-1: no room"},
        {"coscheduling", UNPLACED("no room"), UNPLACED("podGroup ns/x failed recently"),
            "pod x-worker-0: no room"},
        {"coscheduling", UNPLACED("rejection in Unreserve"), UNPLACED("podGroup failed recently"),
            "pod x-worker-0: rejection in Unreserve"},
        {"native", UNPLACED("rejection in Unreserve"), UNPLACED("no room"),
            "pod x-worker-0: rejection in Unreserve"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(TK_ROLE("worker", 2)), rows[i].word);
        rest(&c);
        tk_pod_status(&c, "x-worker-0", rows[i].first);
        tk_pod_status(&c, "x-worker-1", rows[i].second);
        expect_status(&c, "reason", "Unschedulable");
        expect_status(&c, "message", rows[i].message);
        tk_done(&c);
    }
}

static void events_call_a_group_what_it_is(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"volcano", "created PodGroup x", "could not create PodGroup x: no"},
        {"coscheduling", "created PodGroup x", "could not create PodGroup x: no"},
        {"native", "created Workload x", "could not create Workload x: no"}};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        bool fails = i % 2;
        begin(&c, TK_JOB(EXAMPLE), rows[i / 2][0]);
        PLAN_AUTOPLAN struct plan plan = {0};
        tk_plan(&c, &plan);
        assert_int_equal(plan.n_actions, 1);
        const struct plan_outcome outcome = {.tried = true, .error = fails ? "no" : NULL};
        struct plan_event *events;
        size_t n;
        plan_action_events(&plan, &outcome, &events, &n);
        assert_int_equal(n, 1);
        assert_string_equal(events[0].message, rows[i / 2][1 + fails]);
        plan_events_free(events, n);
        tk_done(&c);
    }
}

/* ---- changes and the end -------------------------------------------------------------------- */

static void a_group_follows_its_job(void **state) {
    (void)state;
    static const struct {
        const char *word, *actions;
    } rows[] = {
        {"volcano", "patch PodGroup x; create Pod x-worker-2"},
        {"native", "delete PodGroup x; create Pod x-worker-2"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(EXAMPLE), rows[i].word);
        assert_true(tk_pass(&c));
        set_group_status(&c, "{'phase':'Inqueue'}");
        rest(&c);
        set_replicas(&c, "worker", 3);
        expect_actions(&c, rows[i].actions);
        rest(&c);
        json_t *group = json_object_get(c.objects[TK_PODGROUPS], "x");
        if (i == 0) {
            expect_object(
                json_object_get(group, "spec"), "{'minMember':5,'minResources':{'cpu':'1200m'}}");
        } else {
            assert_non_null(group);
        }
        tk_done(&c);
    }
}

static void edit_policy(struct tk_cluster *c, const char *policy) {
    co_json_set(json_object_get(c->job, "spec"), "schedulingPolicy", tk_json(policy));
    set_replicas(c, "ps", 2); /* a generation more */
}

/* A user's change is carried over once; what others change of the group stays. */
static void a_group_is_moved_when_the_job_says_so(void **state) {
    (void)state;
    static const struct {
        const char *policy, *patch, *spec;
    } rows[] = {
        {"{'queue':'b'}", "patch PodGroup x",
            "{'minMember':4,'minResources':{'cpu':'1'},'queue':'b'}"},
        {"{'queue':'a','priorityClass':'p'}", "patch PodGroup x",
            "{'minMember':4,'minResources':{'cpu':'1'},'queue':'a','priorityClassName':'p'}"},
        {"{'queue':'a','minAvailable':3}", "patch PodGroup x",
            "{'minMember':3,'minResources':{'cpu':'1'},'queue':'a'}"},
        {"{'queue':'a'}", "", "{'minMember':4,'minResources':{'cpu':'1'},'queue':'a'}"},
        {"{}", "patch PodGroup x", "{'minMember':4,'minResources':{'cpu':'1'}}"},
    };
    static const char *const phases[] = {"{'phase':'Pending'}", "{'phase':'Inqueue'}"};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'a'}"), "volcano");
        assert_true(tk_pass(&c));
        set_group_status(&c, phases[i % 2]);
        rest(&c);
        edit_policy(&c, rows[i / 2].policy);
        expect_actions(&c, rows[i / 2].patch);
        rest(&c);
        json_t *spec = co_json_at(c.objects[TK_PODGROUPS], "x", "spec");
        expect_object(spec, rows[i / 2].spec);
        co_json_set(spec, "queue", json_string("of an administrator"));
        expect_actions(&c, "");
        tk_done(&c);
    }
}

/* An edit carries over what it changed, and takes back what was asked for: nothing else. */
static void a_group_stays_where_others_have_put_it(void **state) {
    (void)state;
    static const struct {
        const char *before, *queue, *after; /* policy, where others put the group, policy */
        int workers;
        const char *spec;
    } rows[] = {
        {"{}", "z", "{}", 3, "{'minMember':5,'minResources':{'cpu':'1200m'},'queue':'z'}"},
        {"{'queue':'a'}", "z", "{'queue':'a'}", 3,
            "{'minMember':5,'minResources':{'cpu':'1200m'},'queue':'z'}"},
        {"{'queue':'a'}", "z", "{}", 2, "{'minMember':4,'minResources':{'cpu':'1'},'queue':'z'}"},
        {"{'queue':'a'}", "z", "{'queue':'b'}", 2,
            "{'minMember':4,'minResources':{'cpu':'1'},'queue':'b'}"},
        {"{'queue':'a'}", "b", "{'queue':'b'}", 2,
            "{'minMember':4,'minResources':{'cpu':'1'},'queue':'b'}"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB(EXAMPLE ",'schedulingPolicy':%s"), rows[i].before);
        begin(&c, job, "volcano");
        rest(&c);
        json_t *spec = co_json_at(c.objects[TK_PODGROUPS], "x", "spec");
        co_json_set(spec, "queue", json_string(rows[i].queue));
        edit_policy(&c, rows[i].after);
        set_replicas(&c, "worker", rows[i].workers);
        rest(&c);
        expect_object(co_json_at(c.objects[TK_PODGROUPS], "x", "spec"), rows[i].spec);
        tk_done(&c);
    }
}

/* Who asked for its queue is not known: nobody takes it back, but a new one is followed. */
static void a_group_of_an_earlier_version_is_moved_too(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'a'}"), "volcano");
    rest(&c);
    json_object_del(co_json_at(c.objects[TK_PODGROUPS], "x", "metadata"), "annotations");
    edit_policy(&c, "{}");
    expect_actions(&c, "");
    rest(&c);
    edit_policy(&c, "{'queue':'b'}");
    expect_actions(&c, "patch PodGroup x");
    tk_done(&c);
}

static void a_move_that_was_refused_is_tried_again(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE ",'schedulingPolicy':{'queue':'a'}"), "volcano");
    rest(&c);
    edit_policy(&c, "{'queue':'b'}");
    c.failures[c.n_failures++] = (struct plan_failure){.verb = PLAN_PATCH,
        .kind = PLAN_KIND_PODGROUP,
        .name = "x",
        .code = CO_PERMISSION,
        .message = "queue b is closed",
        .retry_at = c.now + 5};
    rest(&c);
    expect_actions(&c, "");
    c.now += 5;
    expect_actions(&c, "patch PodGroup x");
    tk_done(&c);
}

static void policy_fields_without_effect_are_reported(void **state) {
    (void)state;
    static const struct {
        const char *word, *policy, *message;
    } rows[] = {
        {"volcano", "{'queue':'q','priorityClass':'p','minAvailable':1}", NULL},
        {"coscheduling", "{'minAvailable':1,'minResources':{'cpu':1}}", NULL},
        {"coscheduling", "{'queue':'q'}",
            "schedulingPolicy.queue means nothing to --scheduling=coscheduling"},
        {"native", "{'minAvailable':1,'minResources':{'cpu':1}}",
            "schedulingPolicy.minResources means nothing to --scheduling=native"},
        {"kueue", "{'minAvailable':1}",
            "schedulingPolicy.minAvailable means nothing to --scheduling=kueue"},
        {"kueue", "{}", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        CO_AUTOFREE char *job =
            co_xasprintf(TK_JOB(EXAMPLE ",'schedulingPolicy':%s"), rows[i].policy);
        begin(&c, job, rows[i].word);
        const char *message = rows[i].message;
        CO_AUTOFREE char *event = co_xasprintf(
            "%s%s", message ? "!SchedulingPolicyIgnored: " : "", message ? message : "");
        CO_AUTOFREE char *condition =
            message ? co_xasprintf("True NotFollowed %s", message) : co_xstrdup("absent");
        expect_events(&c, event);
        expect_condition(&c, "SchedulingPolicyIgnored", condition);
        rest(&c);
        expect_events(&c, "");
        tk_done(&c);
    }
}

static void min_resources_are_removed_with_the_last_request(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(CPU("worker", 2, "'resources':{'requests':{'cpu':'1'}}")), "volcano");
    rest(&c);
    json_t *container =
        json_array_get(co_json_at(c.job, "spec", "worker", "template", "spec", "containers"), 0);
    json_object_del(container, "resources");
    rest(&c);
    expect_object(co_json_at(c.objects[TK_PODGROUPS], "x", "spec"), "{'minMember':2}");
    tk_done(&c);
}

static void a_users_group_is_used_as_it_is(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE), "volcano");
    co_json_set(c.objects[TK_PODGROUPS], "x",
        tk_json("{'metadata':{'name':'x','namespace':'ns','uid':'g'},'spec':{'minMember':1},"
                "'status':{'phase':'Inqueue'}}"));
    expect_actions(&c, PODS);
    expect_condition(&c, "SchedulingPolicyIgnored", "absent");
    edit_policy(&c, "{'minAvailable':2}");
    expect_condition(&c, "SchedulingPolicyIgnored",
        "True NotFollowed schedulingPolicy: PodGroup x was not made by the operator");
    expect_actions(&c, PODS);
    tk_done(&c);
}

static void a_foreign_group_has_the_name(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(EXAMPLE), "volcano");
    co_json_set(c.objects[TK_PODGROUPS], "x",
        tk_json(
            "{'metadata':{'name':'x','namespace':'ns','uid':'g','ownerReferences':[{'kind':"
            "'Job','name':'y','uid':'other','controller':true}]},'status':{'phase':'Inqueue'}}"));
    expect_actions(&c, "");
    expect_status(&c, "reason", "NameTaken");
    expect_status(&c, "message",
        "PodGroup x does not belong to this job: delete it, or use another job name");
    c.settings.gang = plan_gang_find("native"); /* whose groups have another kind */
    expect_status(&c, "message",
        "Workload x does not belong to this job: delete it, or use another job name");
    tk_done(&c);
}

static void the_group_is_deleted_when_the_job_ends(void **state) {
    (void)state;
    static const char *const cleans[] = {"", ",'cleanPodPolicy':'Never'"};
    for (size_t i = 0; i < CO_ARRAY_LEN(cleans); i++) {
        CO_AUTOFREE char *spec = co_xasprintf(TK_JOB("%s%s"), TK_ROLE("worker", 1), cleans[i]);
        struct tk_cluster c;
        begin(&c, spec, "volcano");
        rest(&c);
        set_group_status(&c, "{'phase':'Running'}");
        rest(&c);
        tk_pod_status(&c, "x-worker-0", DONE);
        rest(&c);
        expect_status(&c, "phase", "Completed");
        assert_int_equal(json_object_size(c.objects[TK_PODGROUPS]), 0);
        tk_done(&c);
    }
}

static void a_suspended_job_has_no_group(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, TK_JOB(TK_ROLE("worker", 1)), "volcano");
    rest(&c);
    set_group_status(&c, "{'phase':'Inqueue'}");
    rest(&c);
    run_all(&c);
    co_json_set(json_object_get(c.job, "spec"), "suspend", json_true());
    assert_true(tk_pass(&c));
    assert_true(tk_pass(&c));
    assert_int_equal(json_object_size(c.objects[TK_PODGROUPS]), 0);
    tk_done(&c);
}

static void every_gang_word_of_the_help_is_in_the_table(void **state) {
    (void)state;
    CO_AUTOFREE char *copy = co_xstrdup(PLAN_GANG_WORDS);
    char *rest_of = copy;
    size_t n = 0;
    for (char *word; (word = strsep(&rest_of, ",")); n++) {
        word += *word == ' ';
        assert_non_null(plan_gang_find(word));
        assert_string_equal(plan_gang_find(word)->word, word);
    }
    assert_int_equal(n, 4);
    assert_null(plan_gang_find(""));
    assert_null(plan_gang_find("nobody"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_says_how_many_and_how_much),
        cmocka_unit_test(a_group_is_owned_by_its_job),
        cmocka_unit_test(pods_carry_labels_and_annotations_of_their_scheduler),
        cmocka_unit_test(the_phase_of_a_volcano_group_admits_pods),
        cmocka_unit_test(groups_of_other_schedulers_admit_pods_once_they_exist),
        cmocka_unit_test(a_waiting_job_says_for_what),
        cmocka_unit_test(a_recreated_pod_does_not_wait),
        cmocka_unit_test(a_job_in_a_queue_of_kueue_says_so),
        cmocka_unit_test(the_message_is_of_the_pod_with_the_most_specific_cause),
        cmocka_unit_test(events_call_a_group_what_it_is),
        cmocka_unit_test(a_group_follows_its_job),
        cmocka_unit_test(a_group_is_moved_when_the_job_says_so),
        cmocka_unit_test(a_group_stays_where_others_have_put_it),
        cmocka_unit_test(a_group_of_an_earlier_version_is_moved_too),
        cmocka_unit_test(a_move_that_was_refused_is_tried_again),
        cmocka_unit_test(policy_fields_without_effect_are_reported),
        cmocka_unit_test(min_resources_are_removed_with_the_last_request),
        cmocka_unit_test(a_users_group_is_used_as_it_is),
        cmocka_unit_test(a_foreign_group_has_the_name),
        cmocka_unit_test(the_group_is_deleted_when_the_job_ends),
        cmocka_unit_test(a_suspended_job_has_no_group),
        cmocka_unit_test(every_gang_word_of_the_help_is_in_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
