/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/sweep.h"

#include <stdio.h>

#include "operator/control/control_testing.h"

enum { PODS = 110 };

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static void put(struct ctl_store *s, int i, const char *label, const char *value) {
    CO_AUTOJSON json_t *pod =
        json_pack("{s:{s:o,s:s,s:o,s:s,s:{s:s,s:o},s:[{s:s,s:s,s:s,s:s,s:b}]}}", "metadata", "name",
            json_sprintf("x-worker-%d", i), "namespace", "ns", "uid", json_sprintf("p%d", i),
            "resourceVersion", "1", "labels", API_LABEL_UID, "u", API_LABEL_INDEX,
            json_sprintf("%d", i), "ownerReferences", "apiVersion", API_VERSION, "kind", API_KIND,
            "name", "x", "uid", "u", "controller", 1);
    if (label) {
        json_object_set_new(co_json_at(pod, "metadata", "labels"), label, json_string(value));
    }
    tk_put(s, CTL_STORE_PODS, pod, 0);
}

static void a_sweep_selects_all_pods_of_the_job_and_no_others(void **state) {
    (void)state;
    static const struct {
        const char *what;
        enum api_phase phase;
        const char *label, *value; /* of pod 0, instead of what it should be */
        int pods, deletes;         /* the plan's, from pod 0 on */
        struct ctl_sweep sweep;
    } rows[] = {
        {"all pods of a job that has ended", API_PHASE_COMPLETED, NULL, NULL, 10, 10, {1, 10}},
        {"many pods", API_PHASE_FAILED, NULL, NULL, 50, 50, {2, 25}},
        {"very many pods", API_PHASE_COMPLETED, NULL, NULL, 110, 110, {4, 28}},
        {"it goes on", API_PHASE_RUNNING, NULL, NULL, 10, 10, {0}},
        {"one stays", API_PHASE_FAILED, NULL, NULL, 10, 9, {0}},
        {"one of an earlier version", API_PHASE_COMPLETED, API_LABEL_UID, "other", 10, 10, {0}},
        {"one without an index", API_PHASE_COMPLETED, API_LABEL_INDEX, "first", 10, 10, {0}},
        {"few", API_PHASE_COMPLETED, NULL, NULL, 3, 3, {0}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_store s;
        struct plan_action actions[PODS] = {0};
        char names[PODS][32];
        ctl_store_init(&s, ignore, ignore, NULL);
        for (int k = 0; k < rows[i].pods; k++) {
            put(&s, k, k ? NULL : rows[i].label, rows[i].value);
            (void)snprintf(names[k], sizeof(names[k]), "x-worker-%d", k);
            actions[k] =
                (struct plan_action){.verb = PLAN_DELETE, .kind = PLAN_KIND_POD, .name = names[k]};
        }
        struct api_job job = {.uid = "u", .phase = rows[i].phase};
        struct plan plan = {.actions = actions, .n_actions = (size_t)rows[i].deletes};
        struct ctl_sweep got = ctl_sweep_of(&s, ctl_store_entry(&s, "ns", "x"), &job, &plan);
        if (got.parts != rows[i].sweep.parts || got.step != rows[i].sweep.step) {
            fail_msg("%s: %zu parts of %d", rows[i].what, got.parts, got.step);
        }
        ctl_store_done(&s);
    }
}

static void each_part_selects_its_own_indices(void **state) {
    (void)state;
#define ALL API_SELECTOR "," API_LABEL_UID "=u"
    static const struct {
        struct ctl_sweep sweep;
        size_t part;
        const char *selector;
        int32_t first, last; /* an index of it; an index of it */
    } rows[] = {
        {{1, 10}, 0, ALL, 0, 1000},
        {{2, 25}, 0, ALL "," API_LABEL_INDEX "<25", 0, 24},
        {{2, 25}, 1, ALL "," API_LABEL_INDEX ">24", 25, 1000},
        {{4, 28}, 1, ALL "," API_LABEL_INDEX ">27," API_LABEL_INDEX "<56", 28, 55},
        {{4, 28}, 2, ALL "," API_LABEL_INDEX ">55," API_LABEL_INDEX "<84", 56, 83},
        {{4, 28}, 3, ALL "," API_LABEL_INDEX ">83", 84, 111},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *got = ctl_sweep_selector(&rows[i].sweep, rows[i].part, "u");
        assert_string_equal(got, rows[i].selector);
        assert_int_equal(ctl_sweep_part(&rows[i].sweep, rows[i].first), rows[i].part);
        assert_int_equal(ctl_sweep_part(&rows[i].sweep, rows[i].last), rows[i].part);
    }
}

static void the_answer_to_a_sweep_marks_its_pods_as_deleting(void **state) {
    (void)state;
    struct ctl_store s;
    ctl_store_init(&s, ignore, ignore, NULL);
    put(&s, 0, NULL, NULL);
    put(&s, 1, NULL, NULL);
    CO_AUTOJSON json_t *list =
        json_pack("{s:[{s:{s:s,s:s}},{s:{s:s,s:s}},{}]}", "items", "metadata", "name", "x-worker-0",
            "uid", "p0", "metadata", "name", "x-worker-1", "uid", "its-predecessor");
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(list);
    ctl_sweep_take(&s, "ns", t.object.nodes);
    assert_true(ctl_store_child(&s, CTL_STORE_PODS, "ns", "x-worker-0")->child->deleting);
    assert_false(ctl_store_child(&s, CTL_STORE_PODS, "ns", "x-worker-1")->child->deleting);
    ctl_store_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_selects_all_pods_of_the_job_and_no_others),
        cmocka_unit_test(each_part_selects_its_own_indices),
        cmocka_unit_test(the_answer_to_a_sweep_marks_its_pods_as_deleting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
