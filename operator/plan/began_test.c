/* Golden rows: a running attempt keeps the spec that it began with. */
#include "operator/api/began.h"

#include "operator/plan/expect_testing.h"

#define PODS TK_ROLE("ps", 1) "," TK_ROLE("worker", 2)

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    run_all(&c);
    return c;
}

static void set_image(struct tk_cluster *c, const char *role, const char *image) {
    json_t *list = co_json_at(c->job, "spec", role, "template", "spec", "containers");
    co_json_set(json_array_get(list, 0), "image", json_string(image));
    set_spec(c, "suspend", json_false()); /* a generation more */
}

#define CHANGED(fields, gets)                                                                      \
    fields " changed; nothing happens until the group restarts: its pods keep what they began "    \
           "with, and one that is recreated alone gets " gets                                      \
           "; to apply the change now, suspend the job and resume it"
#define SAID(fields) CHANGED(fields, "that too")
#define MIXED(fields) CHANGED(fields, "the new template")

static void a_changed_intranet_applies_to_the_next_attempt(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    expect_condition(&c, "SpecChanged", "absent");
    set_spec(&c, "intranet", json_string("Service"));
    expect_actions(&c, ""); /* no Services, and the same addresses in the ConfigMap */
    expect_condition(&c, "SpecChanged", "True AppliesToNextAttempt " SAID("spec.intranet"));
    expect_events(&c, "!SpecChanged: " SAID("spec.intranet"));
    expect_status(&c, "phase", "Running");
    rest(&c);
    expect_events(&c, "");
    /* Also for a pod that is recreated. */
    json_object_del(c.objects[TK_PODS], "x-ps-0");
    expect_actions(&c, "create Pod x-ps-0");
    rest(&c);
    run_all(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    bury(&c);
    rest(&c);
    expect_condition(&c, "SpecChanged", "False UpToDate ");
    set_spec(&c, "suspend", json_false());
    expect_actions(&c,
        "create ConfigMap x; create Service x-ps-0; create Service x-worker-0; "
        "create Service x-worker-1; create Pod x-ps-0; create Pod x-worker-0; create "
        "Pod x-worker-1");
    rest(&c);
    run_all(&c);
    expect_condition(&c, "SpecChanged", "False UpToDate ");
    tk_done(&c);
}

static void changed_fields_are_named_until_they_are_reverted(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    set_image(&c, "worker", "other");
    expect_condition(&c, "SpecChanged", "True AppliesToNextAttempt " SAID("spec.worker.template"));
    rest(&c);
    set_spec(&c, "withGloo", json_integer(1));
    expect_condition(&c, "SpecChanged",
        "True AppliesToNextAttempt " SAID("spec.withGloo, spec.worker.template"));
    expect_actions(&c, "");
    rest(&c);
    set_image(&c, "worker", "img");
    set_spec(&c, "withGloo", json_integer(0));
    expect_condition(&c, "SpecChanged", "False UpToDate ");
    tk_done(&c);
}

static const char *image_of(struct tk_cluster *c, const char *pod) {
    const json_t *list =
        co_json_at(json_object_get(c->objects[TK_PODS], pod), "spec", "containers");
    return co_json_str(json_array_get(list, 0), "image");
}

static void lose(struct tk_cluster *c, const char *pod) {
    json_object_del(c->objects[TK_PODS], pod);
    rest(c);
}

static void a_recreated_pod_gets_the_template_of_its_attempt(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    set_image(&c, "worker", "other");
    rest(&c);
    lose(&c, "x-worker-1");
    assert_string_equal(image_of(&c, "x-worker-1"), "img");
    run_all(&c);
    rest(&c);
    set_replicas(&c, "worker", 3); /* scaling is no attempt either */
    rest(&c);
    assert_string_equal(image_of(&c, "x-worker-2"), "img");
    set_image(&c, "worker", "another");
    rest(&c);
    lose(&c, "x-worker-0");
    assert_string_equal(image_of(&c, "x-worker-0"), "img");
    run_all(&c);
    set_spec(&c, "suspend", json_true());
    rest(&c);
    bury(&c);
    rest(&c);
    set_spec(&c, "suspend", json_false());
    rest(&c);
    assert_string_equal(image_of(&c, "x-worker-0"), "another");
    tk_done(&c);
}

/* An image's name that is wrong can be mended. */
static void pods_recreated_before_the_start_get_the_new_template(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(PODS));
    rest(&c);
    set_image(&c, "worker", "other");
    expect_condition(&c, "SpecChanged", "True AppliesToNextAttempt " MIXED("spec.worker.template"));
    rest(&c);
    lose(&c, "x-worker-1");
    assert_string_equal(image_of(&c, "x-worker-1"), "other");
    tk_done(&c);
}

#define ALL_FIELDS                                                                                 \
    "spec.intranet, spec.elastic, spec.withGloo, spec.peerAuth, spec.ps.template, "                \
    "spec.worker.template, spec.heter.template"

static void the_message_has_room_for_all_changed_fields(void **state) {
    (void)state;
    CO_AUTOFREE char *large = co_xcalloc(1, API_BEGAN_TEMPLATE_MAX);
    memset(large, 'x', API_BEGAN_TEMPLATE_MAX - 1);
    struct tk_cluster c;
    tk_init(&c, TK_JOB(PODS "," TK_ROLE("heter", 1)));
    set_image(&c, "ps", large);
    rest(&c);
    run_all(&c);
    static const char *const roles[] = {"ps", "worker", "heter"};
    for (size_t i = 0; i < CO_ARRAY_LEN(roles); i++) {
        set_image(&c, roles[i], "other");
    }
    set_spec(&c, "intranet", json_string("Service"));
    set_spec(&c, "elastic", json_integer(1));
    set_spec(&c, "withGloo", json_integer(1));
    set_spec(&c, "peerAuth", json_string("Token"));
    expect_condition(&c, "SpecChanged", "True AppliesToNextAttempt " MIXED(ALL_FIELDS));
    expect_events(&c, "!SpecChanged: " MIXED(ALL_FIELDS));
    tk_done(&c);
}

static void a_restart_takes_what_was_changed(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS ",'backoffLimit':1");
    set_image(&c, "worker", "other");
    rest(&c);
    tk_pod_status(&c, "x-worker-0", BROKEN);
    rest(&c);
    bury(&c);
    c.now += 10;
    rest(&c);
    expect_condition(&c, "SpecChanged", "False UpToDate ");
    tk_done(&c);
}

/* Scaling and the run policy are followed at once, as ever. */
static void fields_that_apply_at_once_are_no_spec_change(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    set_replicas(&c, "worker", 3);
    expect_actions(&c, "create Pod x-worker-2");
    rest(&c);
    set_spec(&c, "backoffLimit", json_integer(3));
    set_spec(&c, "cleanPodPolicy", json_string("Never"));
    rest(&c);
    expect_condition(&c, "SpecChanged", "absent");
    tk_done(&c);
}

/* Nothing runs that would have to keep it. */
static void spec_changes_of_a_job_without_pods_apply_at_once(void **state) {
    (void)state;
    struct tk_cluster c;
    tk_init(&c, TK_JOB(PODS ",'suspend':true"));
    rest(&c);
    expect_status(&c, "began", "");
    set_spec(&c, "intranet", json_string("DNS"));
    expect_condition(&c, "SpecChanged", "absent");
    set_spec(&c, "suspend", json_false());
    expect_actions(&c, "create ConfigMap x; create Service x; create Pod x-ps-0; create Pod "
                       "x-worker-0; create Pod x-worker-1");
    tk_done(&c);
}

static void expect_np(struct tk_cluster *c, const char *name, const char *np) {
    json_t *pod = json_object_get(c->objects[TK_PODS], name);
    const json_t *first = json_array_get(co_json_at(pod, "spec", "containers"), 0);
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(first, "env"), i, e) {
        if (co_streq(co_json_str(e, "name"), "PADDLE_ELASTIC_NP")) {
            assert_string_equal(co_json_str(e, "value"), np);
            return;
        }
    }
    fail_msg("%s is told no number", name);
}

/* Launchers take one number for one that never changes. */
static void an_elastic_group_without_bounds_scales(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(TK_ROLE("worker", 3) ",'elastic':1,'intranet':'Service'");
    expect_np(&c, "x-worker-0", "1:3");
    /* In, and out again: those who stay are left alone. */
    set_replicas(&c, "worker", 1);
    expect_actions(&c, "delete Pod x-worker-1; delete Pod x-worker-2; delete Service x-worker-1; "
                       "delete Service x-worker-2; patch ConfigMap x");
    rest(&c);
    bury(&c);
    set_replicas(&c, "worker", 3);
    expect_actions(&c, "patch ConfigMap x; create Service x-worker-1; create Service x-worker-2; "
                       "create Pod x-worker-1; create Pod x-worker-2");
    rest(&c);
    run_all(&c);
    expect_np(&c, "x-worker-2", "1:3");
    expect_status(&c, "attempt", "");
    /* Beyond what their variables say. */
    set_replicas(&c, "worker", 5);
    expect_status(&c, "phase", "Restarting");
    expect_status(&c, "restarts", "0");
    expect_status(&c, "message",
        "5 workers are asked for, and those that run know of 3 at most: all restart; "
        "spec.worker.limits avoids that");
    rest(&c);
    bury(&c);
    rest(&c);
    run_all(&c);
    expect_np(&c, "x-worker-0", "1:5");
    expect_np(&c, "x-worker-4", "1:5");
    expect_status(&c, "attempt", "1");
    expect_status(&c, "phase", "Running");
    tk_done(&c);
}

static void limits_spare_an_elastic_group_the_restart(void **state) {
    (void)state;
    struct tk_cluster c =
        running_cluster("'elastic':1,'worker':{'replicas':2,'limits':8," TK_TEMPLATE "}");
    expect_np(&c, "x-worker-0", "1:8");
    set_replicas(&c, "worker", 5);
    expect_status(&c, "attempt", "");
    rest(&c);
    expect_np(&c, "x-worker-4", "1:8");
    tk_done(&c);
}

static void a_malformed_began_line_is_refused(void **state) {
    (void)state;
    static const char good[] =
        "generation=3 np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Token "
        "ps=- worker=0123abcd heter=-";
    static const char *const bad[] = {NULL, "", "generation=3",
        "generation=3 np=4 intranet=Odd elastic=1 withGloo=2 peerAuth=Token ps=- worker=- heter=-",
        "generation=3 np=4 intranet=Host elastic=1 withGloo=x peerAuth=Token ps=- worker=- heter=-",
        "generation=3 np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Odd ps=- worker=- heter=-",
        "generation=3 np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Token ps=- worker=- heter=- "
        "x=1",
        "generation= np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Token ps=- worker=- heter=-",
        "generation=3 np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Token ps=- "
        "worker=0123456789012345678901234567890123456789 heter=-"};
    static const char encrypted[] =
        "generation=3 np=4 intranet=Host elastic=1 withGloo=2 peerAuth=Encrypted "
        "ps=- worker=0123abcd heter=-";
    struct api_shape shape;
    assert_true(api_began_read(encrypted, &shape));
    assert_int_equal(shape.peer_auth, API_PEER_ENCRYPTED);
    assert_true(api_began_read(good, &shape));
    assert_int_equal(shape.intranet, API_HOST);
    assert_int_equal(shape.peer_auth, API_PEER_TOKEN);
    assert_int_equal(shape.gloo, 2);
    assert_true(shape.elastic);
    assert_int_equal(shape.np, 4);
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        assert_false(api_began_read(bad[i], &shape));
    }
}

/* It is a line of kubectl describe. */
static void the_began_line_is_readable_and_parsed_back(void **state) {
    (void)state;
    static const struct {
        const char *spec, *line;
    } rows[] = {
        {TK_ROLE("worker", 2),
            "spec generation 1, torchrun's variables 1, intranet PodIP, worker template 0215dd20"},
        {TK_ROLE("ps", 1) "," TK_ROLE("worker", 2) ",'intranet':'Host','withGloo':2,"
                                                   "'peerAuth':'Token'",
            "spec generation 1, intranet Host, withGloo 2, peerAuth Token, ps template 0215dd20, "
            "worker template 0215dd20"},
        {TK_ROLE("worker", 4) ",'elastic':0,'intranet':'DNS'",
            "spec generation 1, most workers 4, intranet DNS, elastic 1, worker template 0215dd20"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(rows[i].spec);
        expect_status(&c, "began", rows[i].line);
        tk_look(&c);
        struct api_shape shape;
        assert_true(api_began_read(rows[i].line, &shape));
        assert_int_equal(shape.intranet, c.seen_job->asked.intranet);
        assert_int_equal(shape.elastic, c.seen_job->asked.elastic);
        assert_int_equal(shape.gloo, c.seen_job->asked.gloo);
        assert_int_equal(shape.np, c.seen_job->asked.np);
        assert_int_equal(shape.peer_auth, c.seen_job->asked.peer_auth);
        assert_int_equal(shape.torch, c.seen_job->asked.torch);
        tk_done(&c);
    }
    static const char *const bad[] = {"spec generation 3", "intranet PodIP",
        "spec generation 3, intranet PodIP, odd 1", "spec generation 3, intranet Odd",
        "spec generation 3,intranet PodIP", "spec generation 3, intranet "};
    struct api_shape shape;
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        assert_false(api_began_read(bad[i], &shape));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_intranet_applies_to_the_next_attempt),
        cmocka_unit_test(changed_fields_are_named_until_they_are_reverted),
        cmocka_unit_test(a_recreated_pod_gets_the_template_of_its_attempt),
        cmocka_unit_test(pods_recreated_before_the_start_get_the_new_template),
        cmocka_unit_test(the_message_has_room_for_all_changed_fields),
        cmocka_unit_test(a_restart_takes_what_was_changed),
        cmocka_unit_test(fields_that_apply_at_once_are_no_spec_change),
        cmocka_unit_test(spec_changes_of_a_job_without_pods_apply_at_once),
        cmocka_unit_test(an_elastic_group_without_bounds_scales),
        cmocka_unit_test(limits_spare_an_elastic_group_the_restart),
        cmocka_unit_test(a_malformed_began_line_is_refused),
        cmocka_unit_test(the_began_line_is_readable_and_parsed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
