/* How large a gang is while its pods end one by one. */
#include "operator/plan/expect_testing.h"
#include "operator/plan/gang.h"

#define CPU "'template':{'spec':{'containers':[{'name':'m','resources':{'requests':{'cpu':1}}}]}}"
#define FOUR "'worker':{'replicas':4," CPU "}"
#define ELASTIC "'elastic':1,'worker':{'replicas':4,'requests':2,'limits':8," CPU "}"
#define SERVED "'ps':{'replicas':2," CPU "},'worker':{'replicas':2," CPU "}"
#define NATIVE(n)                                                                                  \
    "{'controllerRef':{'apiGroup':'batch.paddlepaddle.org','kind':'PaddleJob','name':'x'},"        \
    "'podGroups':[{'name':'job','policy':{'gang':{'minCount':" #n "}}}]}"

/* All run. */
static void begin(struct tk_cluster *c, const char *word, const char *spec) {
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(c, job);
    c->settings.gang = plan_gang_find(word);
    assert_true(tk_pass(c));
    json_t *group = json_object_get(c->objects[TK_PODGROUPS], "x");
    co_json_set(group, "status", tk_json("{'phase':'Inqueue'}"));
    rest(c);
    run_all(c);
}

static void set_phase(struct tk_cluster *c, const char *phase) {
    json_t *group = json_object_get(c->objects[TK_PODGROUPS], "x");
    co_json_set(json_object_get(group, "status"), "phase", json_string(phase));
}

/* Names apart by spaces: their pods are deleted. */
static void gone(struct tk_cluster *c, const char *names) {
    CO_AUTOFREE char *copy = co_xstrdup(names);
    char *rest_of = copy;
    for (char *name; (name = strsep(&rest_of, " "));) {
        assert_int_equal(*name ? json_object_del(c->objects[TK_PODS], name) : 0, 0);
    }
}

static void done(struct tk_cluster *c, const char *names) {
    CO_AUTOFREE char *copy = co_xstrdup(names);
    char *rest_of = copy;
    for (char *name; (name = strsep(&rest_of, " "));) {
        if (*name) {
            tk_pod_status(c, name, DONE);
        }
    }
    rest(c);
}

static void expect_group(struct tk_cluster *c, const char *expected) {
    CO_AUTOJSON json_t *want = tk_json(expected);
    CO_AUTOFREE char *a = co_json_dump_sorted(co_json_at(c->objects[TK_PODGROUPS], "x", "spec"));
    CO_AUTOFREE char *b = co_json_dump_sorted(want);
    assert_string_equal(a, b);
}

struct row {
    const char *word, *spec;
    const char *done; /* have succeeded */
    const char *gone; /* ... and are deleted */
    const char *lost; /* ran, and are deleted */
    const char *group;
};

static const struct row rows[] = {
    /* Volcano counts a pod that has succeeded as long as it is there; room it needs none. */
    {"volcano", FOUR, "x-worker-0 x-worker-1", "x-worker-0 x-worker-1", "x-worker-2 x-worker-3",
        "{'minMember':2,'minResources':{'cpu':'2'}}"},
    {"volcano", FOUR, "x-worker-0 x-worker-1", "x-worker-0", "x-worker-3",
        "{'minMember':3,'minResources':{'cpu':'2'}}"},
    {"volcano", FOUR, "x-worker-0 x-worker-1", "", "x-worker-2 x-worker-3",
        "{'minMember':4,'minResources':{'cpu':'2'}}"},
    {"volcano", SERVED ",'successPolicy':'AllPods'", "x-ps-0 x-worker-0", "x-ps-0", "x-worker-1",
        "{'minMember':3,'minResources':{'cpu':'2'}}"},
    /* kube-scheduler never sees it again. */
    {"coscheduling", FOUR, "x-worker-0 x-worker-1", "", "x-worker-3",
        "{'minMember':2,'minResources':{'cpu':'2'}}"},
    {"coscheduling", FOUR, "x-worker-0 x-worker-1", "x-worker-1", "x-worker-3",
        "{'minMember':2,'minResources':{'cpu':'2'}}"},
    {"native", FOUR, "x-worker-0 x-worker-1", "", "x-worker-3", NATIVE(2)},
    {"native", FOUR, "x-worker-0", "x-worker-0", "x-worker-1 x-worker-2 x-worker-3", NATIVE(3)},
    /* A number that was given holds as far as there are pods. */
    {"volcano", FOUR ",'schedulingPolicy':{'minAvailable':3}", "x-worker-0 x-worker-1",
        "x-worker-0 x-worker-1", "x-worker-2", "{'minMember':2,'minResources':{'cpu':'2'}}"},
    {"volcano", FOUR ",'schedulingPolicy':{'minAvailable':1,'minResources':{'cpu':3}}",
        "x-worker-0", "x-worker-0", "x-worker-2", "{'minMember':1,'minResources':{'cpu':3}}"},
    {"volcano", FOUR ",'schedulingPolicy':{'minAvailable':6}", "", "", "x-worker-2",
        "{'minMember':6,'minResources':{'cpu':'4'}}"},
    /* So does the lower bound of elastic workers. */
    {"volcano", ELASTIC, "x-worker-0", "x-worker-0", "x-worker-1",
        "{'minMember':2,'minResources':{'cpu':'2'}}"},
    {"volcano", ELASTIC, "x-worker-0 x-worker-1 x-worker-2", "x-worker-0 x-worker-1 x-worker-2",
        "x-worker-3", "{'minMember':1,'minResources':{'cpu':'1'}}"},
};

static void a_gang_counts_only_unfinished_pods(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c;
        begin(&c, rows[i].word, rows[i].spec);
        done(&c, rows[i].done);
        gone(&c, rows[i].gone);
        gone(&c, rows[i].lost);
        rest(&c);
        expect_group(&c, rows[i].group);
        tk_done(&c);
    }
}

static void the_group_is_changed_before_the_pod_is_created(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"volcano", "patch PodGroup x; create Pod x-worker-2"},
        {"coscheduling", "patch PodGroup x; create Pod x-worker-2"},
        {"native", "delete PodGroup x; create Pod x-worker-2"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(changes); i++) {
        struct tk_cluster c;
        begin(&c, changes[i][0], FOUR);
        done(&c, "x-worker-0");
        gone(&c, "x-worker-0");
        rest(&c);
        gone(&c, "x-worker-2");
        expect_actions(&c, changes[i][1]);
        tk_done(&c);
    }
}

static void the_group_is_not_patched_while_all_pods_are_placed(void **state) {
    (void)state;
    static const char *const words[] = {"volcano", "coscheduling", "native"};
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        struct tk_cluster c;
        begin(&c, words[i], FOUR);
        CO_AUTOFREE char *before =
            co_json_dump_sorted(co_json_at(c.objects[TK_PODGROUPS], "x", "spec"));
        done(&c, "x-worker-1");
        done(&c, "x-worker-2");
        gone(&c, "x-worker-1");
        expect_actions(&c, "patch ConfigMap x");
        rest(&c);
        CO_AUTOFREE char *after =
            co_json_dump_sorted(co_json_at(c.objects[TK_PODGROUPS], "x", "spec"));
        assert_string_equal(before, after);
        tk_done(&c);
    }
}

/* When it is recreated, a pod that has its node waits for no other. */
static void a_pod_that_is_placed_needs_no_place(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, "coscheduling", FOUR);
    done(&c, "x-worker-0");
    gone(&c, "x-worker-3");
    rest(&c);
    expect_group(&c, "{'minMember':3,'minResources':{'cpu':'3'}}");
    tk_pod_status(&c, "x-worker-1", DONE);
    expect_actions(&c, "patch PodGroup x");
    co_json_set(co_json_at(c.objects[TK_PODS], "x-worker-3", "spec"), "nodeName", json_string("n"));
    expect_actions(&c, "");
    tk_done(&c);
}

static void a_restarted_group_has_its_full_size(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, "volcano", ELASTIC ",'backoffLimit':1,'schedulingPolicy':{'minAvailable':4}");
    done(&c, "x-worker-0");
    gone(&c, "x-worker-0");
    gone(&c, "x-worker-1");
    rest(&c);
    expect_group(&c, "{'minMember':3,'minResources':{'cpu':'2'}}");
    tk_pod_status(&c, "x-worker-2", BROKEN);
    assert_true(tk_pass(&c));
    assert_true(tk_pass(&c));
    expect_group(&c, "{'minMember':4,'minResources':{'cpu':'2'}}");
    tk_done(&c);
}

/* Its own pods do not run any more, so they are no reason to make others without room. */
static void replacements_of_lost_pods_wait_for_their_own_room(void **state) {
    (void)state;
    struct tk_cluster c;
    begin(&c, "volcano", FOUR);
    done(&c, "x-worker-0 x-worker-1");
    gone(&c, "x-worker-0");
    gone(&c, "x-worker-2 x-worker-3");
    set_phase(&c, "Pending");
    expect_actions(&c, "patch PodGroup x");
    expect_status(&c, "message", "PodGroup x waits for room for 3 pods, cpu 2");
    rest(&c);
    set_phase(&c, "Inqueue");
    expect_actions(&c, "create Pod x-worker-2; create Pod x-worker-3");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gang_counts_only_unfinished_pods),
        cmocka_unit_test(the_group_is_changed_before_the_pod_is_created),
        cmocka_unit_test(the_group_is_not_patched_while_all_pods_are_placed),
        cmocka_unit_test(a_pod_that_is_placed_needs_no_place),
        cmocka_unit_test(a_restarted_group_has_its_full_size),
        cmocka_unit_test(replacements_of_lost_pods_wait_for_their_own_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
