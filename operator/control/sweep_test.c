/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/sweep.h"

#include <stdio.h>

enum { PODS = 10 };

static void ignore(void *arg, struct op_entry *e) {
    (void)arg;
    (void)e;
}

static void put(struct op_store *s, int i, const char *label) {
    CO_AUTOJSON json_t *pod =
        json_pack("{s:{s:o,s:s,s:o,s:s,s:{s:s},s:[{s:s,s:s,s:s,s:s,s:b}]}}", "metadata", "name",
            json_sprintf("x-worker-%d", i), "namespace", "ns", "uid", json_sprintf("p%d", i),
            "resourceVersion", "1", "labels", OP_LABEL_UID, label, "ownerReferences", "apiVersion",
            OP_API_VERSION, "kind", OP_KIND, "name", "x", "uid", "u", "controller", 1);
    op_store_put(s, OP_STORE_PODS, pod, 0);
}

/* One request for all pods of a job that has ended, and for nothing else. */
static void only_what_is_the_jobs_and_all_of_it(void **state) {
    (void)state;
    static const struct {
        const char *what;
        enum op_phase phase;
        const char *first_label; /* of pod 0 */
        int deletes;             /* the plan's, from pod 0 on */
        bool fits;
    } rows[] = {
        {"all pods of a job that has ended", OP_PHASE_COMPLETED, "u", PODS, true},
        {"it goes on", OP_PHASE_RUNNING, "u", PODS, false},
        {"one stays", OP_PHASE_FAILED, "u", PODS - 1, false},
        {"one of an earlier version", OP_PHASE_COMPLETED, "other", PODS, false},
        {"few", OP_PHASE_COMPLETED, "u", 3, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct op_store s;
        struct op_action actions[PODS] = {0};
        char names[PODS][32];
        op_store_init(&s, ignore, ignore, NULL);
        for (int k = 0; k < PODS; k++) {
            put(&s, k, k ? "u" : rows[i].first_label);
            (void)snprintf(names[k], sizeof(names[k]), "x-worker-%d", k);
            actions[k] =
                (struct op_action){.verb = OP_DELETE, .kind = OP_KIND_POD, .name = names[k]};
        }
        struct op_job job = {.uid = "u", .phase = rows[i].phase};
        struct op_plan plan = {.actions = actions, .n_actions = (size_t)rows[i].deletes};
        if (op_sweep_fits(&s, op_store_entry(&s, "ns", "x"), &job, &plan) != rows[i].fits) {
            fail_msg("%s", rows[i].what);
        }
        op_store_done(&s);
    }
}

static void the_answer_says_which_are_going(void **state) {
    (void)state;
    struct op_store s;
    op_store_init(&s, ignore, ignore, NULL);
    put(&s, 0, "u");
    put(&s, 1, "u");
    CO_AUTOJSON json_t *list =
        json_pack("{s:[{s:{s:s,s:s}},{s:{s:s,s:s}},{}]}", "items", "metadata", "name", "x-worker-0",
            "uid", "p0", "metadata", "name", "x-worker-1", "uid", "its-predecessor");
    op_sweep_take(&s, "ns", list);
    assert_true(op_store_child(&s, OP_STORE_PODS, "ns", "x-worker-0")->child->deleting);
    assert_false(op_store_child(&s, OP_STORE_PODS, "ns", "x-worker-1")->child->deleting);
    op_store_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_the_jobs_and_all_of_it),
        cmocka_unit_test(the_answer_says_which_are_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
