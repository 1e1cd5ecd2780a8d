/* Pods whose labels or owner somebody has edited: they still run, under the name that the job
 * needs.
 */
#include "operator/plan/expect_testing.h"

#define JOB TK_JOB(TK_ROLE("worker", 3) ",'backoffLimit':2")
#define UNLABELLED "Pod x-worker-1 has lost the labels that give its role: delete it"
#define NOT_OURS "Pod x-worker-1 does not belong to this job: delete it, or use another job name"

static json_t *metadata(struct tk_cluster *c) {
    return co_json_at(c->objects[TK_PODS], "x-worker-1", "metadata");
}

static void set_label(struct tk_cluster *c, const char *key, const char *value) {
    co_json_set(json_object_get(metadata(c), "labels"), key, json_string(value));
}

static void begin(struct tk_cluster *c) {
    tk_init(c, JOB);
    rest(c);
    run_all(c);
}

static const struct {
    const char *key, *value; /* NULL: the owner is removed */
    const char *message;
} edits[] = {
    {API_LABEL_ROLE, "ps", UNLABELLED},
    {API_LABEL_INDEX, "0", UNLABELLED},
    {API_LABEL_INDEX, "7", UNLABELLED},
    {NULL, NULL, NOT_OURS},
};

static void edit(struct tk_cluster *c, size_t i) {
    if (edits[i].key) {
        set_label(c, edits[i].key, edits[i].value);
    } else {
        json_object_del(metadata(c), "ownerReferences");
    }
}

/* Nothing was deleted, so the group does not restart; it does once that pod is deleted. */
static void a_pod_with_edited_labels_is_lost_only_once_deleted(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(edits); i++) {
        struct tk_cluster c;
        begin(&c);
        edit(&c, i);
        expect_status(&c, "phase", "Running");
        expect_status(&c, "reason", "NameTaken");
        expect_status(&c, "message", edits[i].message);
        rest(&c);
        expect_actions(&c, "");
        expect_status(&c, "attempt", "");
        expect_status(&c, "worker.createdIndexes", "0-2");
        json_object_del(c.objects[TK_PODS], "x-worker-1");
        expect_status(&c, "phase", "Restarting");
        expect_status(&c, "reason", "PodDeleted");
        tk_done(&c);
    }
}

/* Also at a suspension: it would hold its resources, and train on. */
static void a_pod_of_the_jobs_ends_with_its_attempt_whatever_its_labels_say(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(edits) && edits[i].key; i++) {
        struct tk_cluster c;
        begin(&c);
        edit(&c, i);
        rest(&c);
        set_spec(&c, "suspend", json_true());
        assert_true(tk_pass(&c)); /* the attempt is stored */
        rest(&c);
        const char *name;
        json_t *pod;
        json_object_foreach(c.objects[TK_PODS], name, pod) {
            assert_non_null(co_json_at(pod, "metadata", "deletionTimestamp"));
        }
        bury(&c);
        rest(&c);
        set_spec(&c, "suspend", json_false());
        rest(&c);
        run_all(&c);
        expect_status(&c, "phase", "Running");
        expect_status(&c, "reason", "");
        tk_done(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_with_edited_labels_is_lost_only_once_deleted),
        cmocka_unit_test(a_pod_of_the_jobs_ends_with_its_attempt_whatever_its_labels_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
