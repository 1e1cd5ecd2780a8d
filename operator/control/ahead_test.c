/* The choice is the file's own: it is included. */
#include "operator/control/ahead.c" /* NOLINT(bugprone-suspicious-include) */

#include "operator/control/control_testing.h"

static void ignore_entry(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static int setup(void **state) {
    static struct ctl_store s;
    ctl_store_init(&s, ignore_entry, ignore_entry, NULL);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    ctl_store_done(*state);
    return 0;
}

static struct ctl_entry *put_job(
    struct ctl_store *s, const char *name, const char *meta, const char *spec, const char *status) {
    CO_AUTOFREE char *text = co_xasprintf("{'metadata':{'name':'%s','namespace':'ns','uid':'%s',"
                                          "'resourceVersion':'1'%s},'spec':{%s},'status':{%s}}",
        name, name, meta, spec, status);
    CO_AUTOJSON json_t *job = tk_json(text);
    tk_put(s, CTL_STORE_JOBS, job, 0);
    return ctl_store_entry(s, "ns", name);
}

static char *choose_all(struct ctl_store *s, size_t *ret_n) {
    struct ahead_choice c = {.selector = CO_BUF(SELECTOR_MAX)};
    ctl_store_each(s, choose_entry, &c);
    *ret_n = c.n;
    return co_buf_take(&c.selector);
}

static void only_jobs_that_nobody_has_begun_are_chosen(void **state) {
    static const char long_name[] =
        "a234567890123456789012345678901234567890123456789012345678901234";
    static const struct {
        const char *name, *meta, *spec, *status;
        bool chosen;
    } rows[] = {
        {"new", "", "", "", true},
        {"begun", "", "", "'phase':'Pending'", false},
        {"runs", "", "", "'phase':'Running'", false},
        {"ended", "", "", "'phase':'Completed'", false},
        {"going", ",'deletionTimestamp':'2026-01-01T00:00:00Z'", "", "", false},
        {"others", "", "'managedBy':'kueue.x-k8s.io/multikueue'", "", false},
        {"odd", "", "", "'phase':'Odd','startTime':'2026-01-01T00:00:00Z'", false},
        {long_name, "", "", "", false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_entry *e =
            put_job(*state, rows[i].name, rows[i].meta, rows[i].spec, rows[i].status);
        assert_non_null(e);
    }
    size_t n;
    CO_AUTOFREE char *selector = choose_all(*state, &n);
    assert_int_equal(n, 1);
    assert_string_equal(selector, "batch.paddlepaddle.org/job-name in (new");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(ctl_store_entry(*state, "ns", rows[i].name)->ahead, rows[i].chosen);
    }
}

static void a_selector_has_a_bounded_number_of_names(void **state) {
    static const char pad[] = "a23456789012345678901234567890123456789012345678901234567890";
    for (int i = 0; i < JOBS_MAX + 3; i++) {
        CO_AUTOFREE char *name = co_xasprintf("%s-%02d", pad, i);
        assert_int_equal(strlen(name), LABEL_MAX);
        (void)put_job(*state, name, "", "", "");
    }
    size_t n;
    CO_AUTOFREE char *selector = choose_all(*state, &n);
    assert_int_equal(n, JOBS_MAX);
    assert_int_equal(
        strlen(selector), strlen(API_LABEL_JOB " in (") + (size_t)JOBS_MAX * (LABEL_MAX + 1) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            only_jobs_that_nobody_has_begun_are_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(a_selector_has_a_bounded_number_of_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
