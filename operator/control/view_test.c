#include "operator/control/view.h"

#include "operator/control/control_testing.h"

static void on_entry(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static void put(struct ctl_store *s, const char *version, const char *phase) {
    CO_AUTOFREE char *text =
        co_xasprintf("{'metadata':{'name':'x','namespace':'ns','uid':'u','resourceVersion':'%s'},"
                     "'spec':{},'status':{'phase':'%s'}}",
            version, phase);
    CO_AUTOJSON json_t *j = tk_json(text);
    tk_put(s, CTL_STORE_JOBS, j, 0);
}

static void a_job_is_parsed_once_per_version(void **state) {
    (void)state;
    struct ctl_store s;
    struct ctl_view_memo memo = {0};
    struct api_job *job[4];
    ctl_store_init(&s, on_entry, on_entry, NULL);
    put(&s, "1", "Pending");
    const struct ctl_entry *e = ctl_store_entry(&s, "ns", "x");
    assert_int_equal(ctl_view_job_again(&memo, e, &job[0], NULL), 0);
    assert_int_equal(ctl_view_job_again(&memo, e, &job[1], NULL), 0);
    assert_ptr_equal(job[0], job[1]);
    put(&s, "2", "Running");
    assert_int_equal(ctl_view_job_again(&memo, e, &job[2], NULL), 0);
    assert_int_equal(job[0]->phase, API_PHASE_PENDING);
    assert_int_equal(job[2]->phase, API_PHASE_RUNNING);
    /* The entry of another job may stand where this one stood. */
    CO_AUTOJSON json_t *gone = tk_json("{'metadata':{'name':'x','namespace':'ns'}}");
    tk_remove(&s, CTL_STORE_JOBS, gone);
    put(&s, "3", "Failed");
    assert_int_equal(ctl_view_job_again(&memo, ctl_store_entry(&s, "ns", "x"), &job[3], NULL), 0);
    assert_int_equal(job[3]->phase, API_PHASE_FAILED);
    for (size_t i = 0; i < CO_ARRAY_LEN(job); i++) {
        api_job_free(job[i]);
    }
    ctl_view_memo_done(&memo);
    ctl_store_done(&s);
}

static void put_job(
    struct ctl_store *s, const char *ns, const char *name, int second, const char *status) {
    CO_AUTOFREE char *text =
        co_xasprintf("{'metadata':{'name':'%s','namespace':'%s','uid':'%s','resourceVersion':'1',"
                     "'creationTimestamp':'2026-01-01T00:00:%02dZ'},'spec':{},'status':{%s}}",
            name, ns, name, second, status);
    CO_AUTOJSON json_t *j = tk_json(text);
    tk_put(s, CTL_STORE_JOBS, j, 0);
}

static void an_elder_is_an_older_job_that_does_not_run(void **state) {
    (void)state;
    static const struct {
        const char *ns, *name, *status;
        int second;
        bool elder;
    } rows[] = {
        {"ns", "a", "'phase':'Pending'", 5, true},
        {"ns", "a", "'phase':'Pending'", 7, false},
        {"ns", "a", "'phase':'Pending'", 6, true}, /* of the same second the first by name */
        {"ns", "z", "'phase':'Pending'", 6, false},
        {"other", "a", "'phase':'Pending'", 5, false},
        {"ns", "a", "", 5, true},
        {"ns", "a", "'phase':'Restarting'", 5, true},
        {"ns", "a", "'phase':'Running'", 5, false},
        {"ns", "a", "'phase':'Suspended'", 5, false},
        {"ns", "a", "'phase':'Failed'", 5, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_store s;
        ctl_store_init(&s, on_entry, on_entry, NULL);
        put_job(&s, "ns", "x", 6, "'phase':'Pending'");
        put_job(&s, rows[i].ns, rows[i].name, rows[i].second, rows[i].status);
        assert_int_equal(ctl_view_elder_waits(&s, ctl_store_entry(&s, "ns", "x")), rows[i].elder);
        ctl_store_done(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_parsed_once_per_version),
        cmocka_unit_test(an_elder_is_an_older_job_that_does_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
