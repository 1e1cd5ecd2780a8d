#include "operator/control/gate_state.h"

#include "operator/control/control_testing.h"

static const struct plan_settings settings = {0};

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static int setup(void **state) {
    static struct ctl_store s;
    ctl_store_init(&s, ignore, ignore, NULL);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    ctl_store_done(*state);
    return 0;
}

#define JOB(more, spec)                                                                            \
    "{'apiVersion':'" API_VERSION "','kind':'" API_KIND "','metadata':{'name':'x','namespace':"    \
    "'ns','uid':'u','resourceVersion':'1'" more "},'spec':{" spec "}}"
#define WORKER                                                                                     \
    "'worker':{'replicas':1,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}"
#define OWNER(uid)                                                                                 \
    "'ownerReferences':[{'apiVersion':'" API_VERSION "','kind':'" API_KIND "','name':'x','uid':"   \
    "'" uid "','controller':true}]"
#define POD(owner, more)                                                                           \
    "{'metadata':{'name':'x-worker-0','namespace':'ns','uid':'p','resourceVersion':'1'," OWNER(    \
        owner) more "}}"

static void put(struct ctl_store *s, enum ctl_store_kind kind, const char *text) {
    CO_AUTOJSON json_t *j = tk_json(text);
    tk_put(s, kind, j, 0);
}

static int ask(
    const struct ctl_store *s, struct ctl_gate_state *v, const char *uid, const char **why) {
    return ctl_gate_state_answer(
        v, ctl_store_child(s, CTL_STORE_PODS, "ns", "x-worker-0"), uid, &settings, why);
}

static void a_pod_learns_what_its_job_is_waiting_for(void **state) {
    static const struct {
        const char *what, *job, *pod, *uid;
        int answer;
        const char *why;
    } rows[] = {
        {"another pod of that name", JOB("", WORKER), POD("u", ""), "p-after", -1,
            "the operator does not know this pod yet"},
        {"the job is over",
            "{'apiVersion':'" API_VERSION "','kind':'" API_KIND "','metadata':{"
            "'name':'x','namespace':'ns','uid':'u','resourceVersion':'1'},'spec':{" WORKER
            "},'status':{'phase':'Completed'}}",
            POD("u", ""), "p", -2, "the job is over"},
        {"the job is being deleted", JOB(",'deletionTimestamp':'2026-01-01T00:00:00Z'", WORKER),
            POD("u", ""), "p", -2, "the job is over"},
        {"the pod is", JOB("", WORKER), POD("u", ",'deletionTimestamp':'2026-01-01T00:00:00Z'"),
            "p", 0, "being a pod of the job"},
        {"a pod of the job's predecessor", JOB("", WORKER), POD("u-before", ""), "p", 0,
            "being a pod of the job"},
        {"a pod of the successor of a job that is over",
            "{'apiVersion':'" API_VERSION "','kind':'" API_KIND "','metadata':{"
            "'name':'x','namespace':'ns','uid':'u','resourceVersion':'1'},'spec':{" WORKER
            "},'status':{'phase':'Completed'}}",
            POD("u-after", ""), "p", 0, "being a pod of the job"},
        {"no address yet", JOB("", WORKER), POD("u", ""), "p", 0, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *why = NULL;
        struct ctl_gate_state v = {0};
        put(*state, CTL_STORE_JOBS, rows[i].job);
        put(*state, CTL_STORE_PODS, rows[i].pod);
        int answer = ask(*state, &v, rows[i].uid, &why);
        if (answer != rows[i].answer || !why || (rows[i].why && strcmp(why, rows[i].why) != 0)) {
            fail_msg("%s: %d, %s", rows[i].what, answer, why ? why : "no reason");
        }
        teardown(state);
        setup(state);
    }
}

static void an_open_gate_state_is_kept_until_it_is_reset(void **state) {
    struct ctl_gate_state v = {0};
    const char *why = NULL;
    put(*state, CTL_STORE_JOBS, JOB("", WORKER));
    put(*state, CTL_STORE_PODS, POD("u", ""));
    assert_int_equal(ask(*state, &v, "p", &why), 0);
    assert_true(v.known);
    v.open = true;
    assert_int_equal(ask(*state, &v, "p", &why), 1);
    v = (struct ctl_gate_state){0};
    assert_int_equal(ask(*state, &v, "p", &why), 0);
}

static void the_state_of_an_uncached_job_comes_from_its_decoded_form(void **state) {
    struct ctl_store *s = *state;
    struct ctl_gate_state v = {0};
    const char *why = NULL;
    s->text_lru.max = 1;
    put(s, CTL_STORE_JOBS, JOB("", WORKER));
    put(s, CTL_STORE_PODS, POD("u", ""));
    const struct ctl_entry *e = ctl_store_entry(s, "ns", "x");
    assert_false(ctl_entry_is_cached(e));
    assert_int_equal(ask(s, &v, "p", &why), 0);
    assert_string_equal(why, "a job that can be read");
    assert_false(v.known);
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    assert_int_equal(api_job_decode(tk_json(JOB("", WORKER)), &job, NULL), 0);
    ctl_gate_state_compute(&v, e, job, &settings);
    assert_int_equal(ask(s, &v, "p", &why), 0);
    assert_true(v.known);
    assert_string_equal(why, "addresses");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_pod_learns_what_its_job_is_waiting_for),
        T(an_open_gate_state_is_kept_until_it_is_reset),
        T(the_state_of_an_uncached_job_comes_from_its_decoded_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
