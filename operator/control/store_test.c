/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/store.h"

#include <stdio.h>
#include <string.h>

#include "common/loop.h"
#include "common/parse.h"
#include "operator/control/control_testing.h"
#include "operator/control/view.h"

static size_t changes, ends;

static void changed(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
    changes++;
}

static void gone(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
    ends++;
}

static int setup(void **state) {
    static struct ctl_store s;
    changes = ends = 0;
    ctl_store_init(&s, changed, gone, NULL);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    ctl_store_done(*state);
    return 0;
}

static json_t *object(const char *name, int version, const char *owner) {
    json_t *j = json_pack("{s:{s:s,s:s,s:s,s:o}}", "metadata", "name", name, "namespace", "ns",
        "uid", name, "resourceVersion", json_sprintf("%d", version));
    if (owner) {
        co_json_set(json_object_get(j, "metadata"), "ownerReferences",
            json_pack("[{s:s,s:s,s:s,s:s,s:b}]", "apiVersion", API_VERSION, "kind", API_KIND,
                "name", owner, "uid", "u", "controller", 1));
    }
    return j;
}

/* A pod's address shows its version. */
static json_t *pod_or_job(
    enum ctl_store_kind kind, const char *name, int version, const char *owner) {
    json_t *j = object(name, version, owner);
    if (kind == CTL_STORE_PODS) {
        co_json_set(j, "status",
            json_pack(
                "{s:s,s:o}", "phase", "Pending", "podIP", json_sprintf("10.0.0.%d", version)));
    }
    return j;
}

static void put(struct ctl_store *s, enum ctl_store_kind kind, const char *name, int version,
    const char *owner, uint64_t reached) {
    CO_AUTOJSON json_t *j = pod_or_job(kind, name, version, owner);
    tk_put(s, kind, j, reached);
}

/* As put, in a list. */
static bool list(struct ctl_store *s, enum ctl_store_kind kind, const char *name, int version,
    const char *owner) {
    CO_AUTOJSON json_t *j = pod_or_job(kind, name, version, owner);
    return tk_list(s, kind, j);
}

static void drop(struct ctl_store *s, enum ctl_store_kind kind, const char *name, int version) {
    CO_AUTOJSON json_t *j = object(name, version, NULL);
    tk_remove(s, kind, j);
}

static uint64_t version_of(const struct ctl_store *s, const char *pod) {
    const struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, "ns", pod);
    return st ? st->version : 0;
}

/* A pod's version with this address; NULL: none yet.  Without a node, if it is nowhere. */
static void put_pod_at(
    struct ctl_store *s, const char *uid, int version, const char *node, const char *ip) {
    CO_AUTOJSON json_t *j = object("j-ps-0", version, "j");
    co_json_set(json_object_get(j, "metadata"), "uid", json_string(uid));
    co_json_set(j, "spec", json_pack("{s:s*}", "nodeName", node));
    co_json_set(j, "status", json_pack("{s:s,s:s*}", "phase", "Pending", "podIP", ip));
    tk_put(s, CTL_STORE_PODS, j, 0);
}

static void put_pod(struct ctl_store *s, const char *uid, int version, const char *ip) {
    put_pod_at(s, uid, version, "n", ip);
}

static void an_address_that_a_pod_reports_counts_until_its_object_has_one(void **state) {
    struct ctl_store *s = *state;
    put_pod(s, "u1", 1, NULL);
    const struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, "ns", "j-ps-0");
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "another", "10.0.0.1"));
    assert_true(ctl_store_claim(s, "ns", "nobody", "u1", "10.0.0.1"));
    assert_string_equal(st->pod->ip[0], "");
    size_t before = changes;
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.0.0.1"));
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.0.0.2"));
    assert_int_equal(changes, before + 1);
    put_pod(s, "u1", 2, NULL);
    assert_string_equal(st->pod->ip[0], "10.0.0.1");
    assert_true(st->pod->reported);
    assert_int_equal(changes, before + 1);
    put_pod(s, "u1", 3, "10.0.0.3");
    assert_false(st->pod->reported);
    assert_string_equal(st->pod->ip[0], "10.0.0.3");
    assert_string_equal(st->pod->ip[1], "");
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.0.0.1"));
    assert_string_equal(st->pod->ip[0], "10.0.0.3");
}

static void the_address_of_a_pod_without_a_node_is_not_accepted(void **state) {
    struct ctl_store *s = *state;
    put_pod_at(s, "u1", 1, NULL, NULL);
    const struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, "ns", "j-ps-0");
    size_t before = changes;
    assert_false(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.9.9.9"));
    put_pod_at(s, "u1", 2, "n", NULL);
    assert_string_equal(st->pod->ip[0], "");
    assert_int_equal(changes, before);
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.0.0.1"));
    assert_string_equal(st->pod->ip[0], "10.0.0.1");
}

/* j's pods as their steps say: w0 or w1, where it stands, whether that turns the job. */
static void the_first_and_the_last_pod_of_a_phase_mark_progress(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *pod, *phase; /* NULL: gone */
        bool address, ready, progressed;
    } steps[] = {
        {"w0", "Pending", false, false, true},
        {"w1", "Pending", false, false, false},
        {"w0", "Pending", true, false, false},
        {"w1", "Pending", true, false, true}, /* all have one */
        {"w0", "Running", true, false, false},
        {"w0", "Running", true, true, true},
        {"w0", "Running", true, true, false},
        {"w1", "Running", true, true, true},
        {"w1", "Running", true, false, true},
        {"w1", "Running", true, true, true},
        {"w1", "Succeeded", true, false, false},
        {"w0", "Failed", true, false, true},
        {"w1", "Failed", true, false, false},
        {"w1", NULL, false, false, false},
        {"w0", NULL, false, false, true},
    };
    put(s, CTL_STORE_JOBS, "j", 1, NULL, 0);
    struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
    for (size_t i = 0; i < CO_ARRAY_LEN(steps); i++) {
        CO_AUTOJSON json_t *j = object(steps[i].pod, (int)i + 2, "j");
        if (steps[i].phase) {
            co_json_set(j, "status",
                json_pack("{s:s,s:s*,s:[{s:b,s:{s:{}}}]}", "phase", steps[i].phase, "podIP",
                    steps[i].address ? "10.0.0.1" : NULL, "containerStatuses", "ready",
                    (int)steps[i].ready, "state", "running"));
            tk_put(s, CTL_STORE_PODS, j, 0);
        } else {
            tk_remove(s, CTL_STORE_PODS, j);
        }
        if (ctl_store_take_progress(e) != steps[i].progressed) {
            fail_msg("step %zu", i);
        }
    }
}

/* What start gates wait for must not wait for the rest after the look that made it. */
static void a_new_configmap_marks_progress(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_JOBS, "j", 1, NULL, 0);
    struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
    assert_false(ctl_store_take_progress(e));
    put(s, CTL_STORE_CONFIGMAPS, "j", 2, "j", 0);
    assert_true(ctl_store_take_progress(e));
    put(s, CTL_STORE_CONFIGMAPS, "j", 3, "j", 0);
    assert_false(ctl_store_take_progress(e));
}

/* The clean-up of a job that has ended, as a restart's deletes, waits until that is stored. */
static void a_new_phase_marks_progress(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *phase;
        bool progressed;
    } steps[] = {{"Running", true}, {"Running", false}, {"Restarting", true}, {"Running", true},
        {"Completed", true}, {"Completed", false}};
    put(s, CTL_STORE_JOBS, "j", 1, NULL, 0);
    struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
    for (size_t i = 0; i < CO_ARRAY_LEN(steps); i++) {
        CO_AUTOJSON json_t *j = object("j", (int)i + 2, NULL);
        co_json_set(j, "status", json_pack("{s:s,s:i}", "phase", steps[i].phase, "step", (int)i));
        tk_put(s, CTL_STORE_JOBS, j, 0);
        if (ctl_store_take_progress(e) != steps[i].progressed) {
            fail_msg("step %zu", i);
        }
    }
}

/* With the address that it reports a pod can be in a list, with the one that the API server has it
 * can be found by its name. */
static void the_last_address_starts_a_job_whether_reported_or_in_its_object(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *pod, *reported, *there;
        bool progressed;
    } steps[] = {
        {"w0", NULL, NULL, true},
        {"w1", NULL, NULL, false},
        {"w0", "10.0.0.1", NULL, false},
        {"w0", NULL, "10.0.0.1", false},
        {"w1", "10.0.0.2", NULL, true},
        {"w1", NULL, NULL, false}, /* another version */
        {"w1", NULL, "10.0.0.2", true},
        {"w1", NULL, "10.0.0.2", false},
        {"w2", NULL, NULL, true},
        {"w2", NULL, "10.0.0.3", true},
    };
    put(s, CTL_STORE_JOBS, "j", 1, NULL, 0);
    struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
    for (size_t i = 0; i < CO_ARRAY_LEN(steps); i++) {
        if (steps[i].reported) {
            assert_true(ctl_store_claim(s, "ns", steps[i].pod, steps[i].pod, steps[i].reported));
        } else {
            CO_AUTOJSON json_t *j = object(steps[i].pod, (int)i + 2, "j");
            co_json_set(json_object_get(j, "metadata"), "uid", json_string(steps[i].pod));
            co_json_set(j, "spec", json_pack("{s:s}", "nodeName", "n"));
            co_json_set(
                j, "status", json_pack("{s:s,s:s*}", "phase", "Pending", "podIP", steps[i].there));
            tk_put(s, CTL_STORE_PODS, j, 0);
        }
        if (ctl_store_take_progress(e) != steps[i].progressed) {
            fail_msg("step %zu", i);
        }
    }
}

static void a_new_pod_does_not_inherit_the_address_of_the_old_one(void **state) {
    struct ctl_store *s = *state;
    put_pod(s, "u1", 1, NULL);
    assert_true(ctl_store_claim(s, "ns", "j-ps-0", "u1", "10.0.0.1"));
    put_pod(s, "u2", 2, NULL);
    assert_string_equal(ctl_store_child(s, CTL_STORE_PODS, "ns", "j-ps-0")->pod->ip[0], "");
}

/* j-ps-0 as a watch reports it, up to its end. */
static void a_pod_that_succeeded_before_its_deletion_is_kept(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        struct {
            const char *uid, *phase;
            bool deleting;
        } steps[4];
        const char *job; /* its phase */
        bool kept;
    } rows[] = {
        {{{"a", "Running", false}, {"a", "Succeeded", false}, {"a", "Succeeded", true}}, "Running",
            true},
        {{{"a", "Succeeded", false}}, "Running", true},
        {{{"a", "Succeeded", false}}, "Completed", false},
        {{{"a", "Failed", false}}, "Running", false},
        {{{"a", "Running", false}, {"a", "Running", true}, {"a", "Succeeded", true}}, "Running",
            false},
        {{{"a", "Succeeded", false}, {"b", "Succeeded", true}}, "Running", false},
    };
    int version = 1;
    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        CO_AUTOJSON json_t *job = object("j", version++, NULL);
        co_json_set(job, "status", json_pack("{s:s}", "phase", rows[r].job));
        tk_put(s, CTL_STORE_JOBS, job, 0);
        for (size_t i = 0; rows[r].steps[i].uid; i++) {
            CO_AUTOJSON json_t *j = object("j-ps-0", version++, "j");
            json_t *meta = json_object_get(j, "metadata");
            co_json_set(meta, "uid", json_string(rows[r].steps[i].uid));
            co_json_set(meta, "deletionTimestamp",
                rows[r].steps[i].deleting ? json_string("2026-01-01T00:00:00Z") : NULL);
            co_json_set(j, "status", json_pack("{s:s}", "phase", rows[r].steps[i].phase));
            tk_put(s, CTL_STORE_PODS, j, 0);
        }
        ctl_store_remove(s, CTL_STORE_PODS, "ns", "j-ps-0", NULL);
        struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
        struct ctl_view v;
        ctl_view_init(&v, e);
        if (v.seen.n_pods || v.seen.n_ended != rows[r].kept) {
            fail_msg("row %zu", r);
        }
        ctl_view_done(&v);
        ctl_store_mark_planned(e);
        assert_null(e->ended);
    }
    assert_int_equal(s->n_pods, 0);
}

/* A standby makes no plans: the status that is stored says what it need not keep any more. */
static void a_succeeded_pod_is_kept_until_a_status_has_it(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *status;
        bool kept;
    } rows[] = {
        {"{'phase':'Running','attempt':2}", true},
        {"{'phase':'Running','attempt':2,'readyWorker':'4/4'}", true},
        {"{'phase':'Running','attempt':1,'worker':{'completedIndexes':'1'}}", true},
        {"{'phase':'Running','attempt':2,'worker':{'completedIndexes':'0,2-3'}}", true},
        {"{'phase':'Running','attempt':2,'ps':{'completedIndexes':'1'}}", true},
        {"{'phase':'Running','attempt':2,'worker':{'completedIndexes':'0-2'}}", false},
        {"{'phase':'Restarting','attempt':3}", false},
        {"{'phase':'Running','attempt':2,'readyWorker':'1/1'}", false},
        {"{'phase':'Failed','attempt':2}", false},
    };
    int version = 1;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *job = object("j", version++, NULL);
        co_json_set(job, "status", tk_json("{'phase':'Running','attempt':2}"));
        tk_put(s, CTL_STORE_JOBS, job, 0);
        CO_AUTOJSON json_t *pod = object("j-worker-1", version++, "j");
        co_json_set(json_object_get(pod, "metadata"), "labels",
            tk_json("{'paddle-res-type':'worker','batch.paddlepaddle.org/index':'1',"
                    "'batch.paddlepaddle.org/attempt':'2'}"));
        co_json_set(json_array_get(co_json_at(pod, "metadata", "ownerReferences"), 0), "uid",
            json_incref(co_json_at(job, "metadata", "uid")));
        co_json_set(pod, "status", json_pack("{s:s}", "phase", "Succeeded"));
        tk_put(s, CTL_STORE_PODS, pod, 0);
        ctl_store_remove(s, CTL_STORE_PODS, "ns", "j-worker-1", NULL);
        co_json_set(job, "status", tk_json(rows[i].status));
        CO_AUTOFREE char *text = co_xasprintf("%d", version++);
        co_json_set(json_object_get(job, "metadata"), "resourceVersion", json_string(text));
        tk_put(s, CTL_STORE_JOBS, job, 0);
        struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
        if ((e->ended != NULL) != rows[i].kept || e->n_ended != rows[i].kept) {
            fail_msg("row %zu", i);
        }
        ctl_store_mark_planned(e);
    }
}

/* A watch that was down has missed the delete. */
static void a_succeeded_pod_is_kept_when_a_list_lacks_it(void **state) {
    struct ctl_store *s = *state;
    for (int reset = 0; reset < 2; reset++) {
        CO_AUTOJSON json_t *job = object("j", 1, NULL);
        CO_AUTOJSON json_t *pod = object("j-worker-1", 2, "j");
        tk_put(s, CTL_STORE_JOBS, job, 0);
        co_json_set(pod, "status", json_pack("{s:s}", "phase", "Succeeded"));
        tk_put(s, CTL_STORE_PODS, pod, 0);
        ctl_store_sync_begin(s, CTL_STORE_PODS, reset ? UINT64_MAX : 3);
        ctl_store_sync_end(s, CTL_STORE_PODS);
        struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
        assert_int_equal(e->n_children, 0);
        assert_int_equal(e->n_ended, !reset);
        ctl_store_remove(s, CTL_STORE_JOBS, "ns", "j", NULL);
        assert_null(ctl_store_entry(s, "ns", "j"));
    }
}

static void children_join_their_job_by_owner(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "j-ps-0", 1, "j", 0);
    struct ctl_entry *e = ctl_store_entry(s, "ns", "j");
    assert_non_null(e);
    assert_false(ctl_entry_has_job(e));
    put(s, CTL_STORE_JOBS, "j", 2, NULL, 0);
    assert_ptr_equal(e, ctl_store_entry(s, "ns", "j"));
    assert_true(ctl_entry_has_job(e));
    struct ctl_view v;
    ctl_view_init(&v, e);
    assert_int_equal(1, v.seen.n_pods);
    ctl_view_done(&v);
}

static void an_entry_ends_with_its_last_part(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_JOBS, "j", 1, NULL, 0);
    put(s, CTL_STORE_PODS, "j-ps-0", 2, "j", 0);
    drop(s, CTL_STORE_JOBS, "j", 3);
    assert_non_null(ctl_store_entry(s, "ns", "j"));
    drop(s, CTL_STORE_PODS, "j-ps-0", 4);
    assert_null(ctl_store_entry(s, "ns", "j"));
    assert_int_equal(1, ends);
    assert_int_equal(0, s->n_jobs);
    assert_int_equal(0, s->n_pods);
}

static void an_older_version_changes_nothing(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "p", 5, "j", 0);
    size_t before = changes;
    put(s, CTL_STORE_PODS, "p", 4, "j", 0);
    put(s, CTL_STORE_PODS, "p", 5, "j", 0);
    assert_int_equal(before, changes);
    assert_int_equal(5, version_of(s, "p"));
}

/* The answer to a create arrives after the watch reported the pod's deletion. */
static void a_late_create_answer_does_not_restore_a_deleted_pod(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "p", 5, "j", 0);
    drop(s, CTL_STORE_PODS, "p", 6);
    put(s, CTL_STORE_PODS, "p", 5, "j", 6);
    assert_int_equal(0, version_of(s, "p"));
    put(s, CTL_STORE_PODS, "p", 7, "j", 6); /* the watch has not reached this one */
    assert_int_equal(7, version_of(s, "p"));
}

static void a_sync_sweeps_what_it_did_not_report(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "stays", 1, "j", 0);
    put(s, CTL_STORE_PODS, "goes", 2, "j", 0);
    put(s, CTL_STORE_JOBS, "j", 3, NULL, 0);
    put(s, CTL_STORE_JOBS, "k", 4, NULL, 0);
    ctl_store_sync_begin(s, CTL_STORE_PODS, 10);
    size_t before = changes;
    assert_false(list(s, CTL_STORE_PODS, "stays", 1, "j"));
    assert_int_equal(before, changes);
    put(s, CTL_STORE_PODS, "answered", 12, "j", 9); /* ours, made after the list */
    ctl_store_sync_end(s, CTL_STORE_PODS);
    assert_int_equal(1, version_of(s, "stays"));
    assert_int_equal(0, version_of(s, "goes"));
    assert_int_equal(12, version_of(s, "answered"));
    ctl_store_sync_begin(s, CTL_STORE_JOBS, 10);
    before = changes;
    assert_false(list(s, CTL_STORE_JOBS, "j", 3, NULL));
    assert_int_equal(before, changes);
    ctl_store_sync_end(s, CTL_STORE_JOBS);
    assert_non_null(ctl_store_entry(s, "ns", "j"));
    assert_null(ctl_store_entry(s, "ns", "k"));
}

static void a_sync_that_breaks_off_drops_nothing(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "p", 1, "j", 0);
    put(s, CTL_STORE_PODS, "q", 2, "j", 0);
    ctl_store_sync_begin(s, CTL_STORE_PODS, 5);
    list(s, CTL_STORE_PODS, "p", 1, "j");
    ctl_store_sync_begin(s, CTL_STORE_PODS, 6);
    list(s, CTL_STORE_PODS, "p", 1, "j");
    list(s, CTL_STORE_PODS, "q", 2, "j");
    ctl_store_sync_end(s, CTL_STORE_PODS);
    assert_int_equal(1, version_of(s, "p"));
    assert_int_equal(2, version_of(s, "q"));
}

/* The API server's data was restored from a backup: what a list shows counts, older or not, but for
 * what was answered since. */
static void a_list_decides_up_to_its_version(void **state) {
    static const struct {
        const char *what;
        int known, listed, after; /* versions; 0: none */
        uint64_t upto;
        bool other;
    } rows[] = {
        {"a change that is new", 5, 7, 7, 10, false},
        {"a change that never was", 9, 7, 7, 10, true},
        {"a write of ours that the list was too early for", 12, 7, 12, 10, false},
        {"a write of ours that the list shows", 10, 10, 10, 10, false},
        {"an object that is gone", 10, 0, 0, 10, false},
        {"a write of ours that made an object", 12, 0, 12, 10, false},
        {"versions begin anew", 100, 7, 7, UINT64_MAX, false},
        {"an object of before", 100, 0, 0, UINT64_MAX, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        static const enum ctl_store_kind kinds[] = {CTL_STORE_PODS, CTL_STORE_JOBS};
        for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
            struct ctl_store *s = *state;
            const char *owner = kinds[k] == CTL_STORE_PODS ? "j" : NULL;
            print_message("%s\n", rows[i].what);
            put(s, kinds[k], "o", rows[i].known, owner, 0);
            ctl_store_sync_begin(s, kinds[k], rows[i].upto);
            if (rows[i].listed) {
                assert_int_equal(rows[i].other, list(s, kinds[k], "o", rows[i].listed, owner));
            }
            ctl_store_sync_end(s, kinds[k]);
            const struct ctl_entry *e = ctl_store_entry(s, "ns", "o");
            assert_int_equal(rows[i].after, owner ? version_of(s, "o") : e ? e->version : 0);
            drop(s, kinds[k], "o", 1000);
        }
    }
}

static void a_name_that_changes_its_owner_moves(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODS, "p", 1, "j", 0);
    put(s, CTL_STORE_PODS, "p", 2, "k", 0);
    assert_null(ctl_store_entry(s, "ns", "j"));
    assert_int_equal(1, ctl_store_entry(s, "ns", "k")->n_children);
}

static void deleting_is_known_before_the_watch_reports_it(void **state) {
    struct ctl_store *s = *state;
    CO_AUTOJSON json_t *j = object("p", 1, "j");
    json_t *meta = json_object_get(j, "metadata");
    co_json_set(meta, "creationTimestamp", json_string("1970-01-02T00:00:00Z"));
    tk_put(s, CTL_STORE_PODS, j, 0);
    const struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, "ns", "p");
    ctl_store_mark_deleting(s, CTL_STORE_PODS, "ns", "p", "another");
    assert_false(st->child->deleting);
    assert_int_equal(st->child->at, 86400);
    ctl_store_mark_deleting(s, CTL_STORE_PODS, "ns", "p", "p");
    assert_true(st->child->deleting);
    assert_int_equal(st->child->at, 0);
    co_json_set(meta, "resourceVersion", json_string("2"));
    co_json_set(meta, "deletionTimestamp", json_string("1970-01-03T00:00:00Z"));
    tk_put(s, CTL_STORE_PODS, j, 0);
    assert_int_equal(st->child->at, 2 * 86400);
}

static void many_entries_stay_findable(void **state) {
    struct ctl_store *s = *state;
    char name[32];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        put(s, CTL_STORE_PODS, name, i + 1, "j", 0);
    }
    assert_int_equal(5000, s->n_pods);
    for (int i = 0; i < 5000; i += 2) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        drop(s, CTL_STORE_PODS, name, 9999);
    }
    assert_int_equal(2500, ctl_store_entry(s, "ns", "j")->n_children);
    assert_int_equal(2, version_of(s, "p1"));
    assert_int_equal(0, version_of(s, "p2"));
}

static void objects_without_a_name_are_refused(void **state) {
    struct ctl_store *s = *state;
    CO_AUTOJSON json_t *nameless = tk_json("{'metadata':{'namespace':'ns'}}");
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(nameless);
    for (enum ctl_store_kind kind = 0; kind < CTL_STORE_KINDS; kind++) {
        bool lacks = false;
        assert_int_equal(ctl_store_put(s, kind, &t.object, 0, NULL), CO_INVALID);
        assert_int_equal(ctl_store_list(s, kind, &t.object, &lacks, NULL), CO_INVALID);
        assert_false(lacks);
    }
    assert_int_equal(changes, 0);
}

/* Whose a gang's group is: its owner's, a user's (nobody's: by name), or another controller's. */
static void groups_of_others_are_not_kept(void **state) {
    struct ctl_store *s = *state;
    put(s, CTL_STORE_PODGROUPS, "a", 1, "a", 0);
    put(s, CTL_STORE_PODGROUPS, "b", 2, NULL, 0);
    CO_AUTOJSON json_t *other = object("c", 3, "c");
    json_t *owner = json_array_get(co_json_at(other, "metadata", "ownerReferences"), 0);
    co_json_set(owner, "kind", json_string("Job"));
    tk_put(s, CTL_STORE_PODGROUPS, other, 0);
    assert_non_null(ctl_store_entry(s, "ns", "a"));
    assert_non_null(ctl_store_entry(s, "ns", "b"));
    assert_null(ctl_store_entry(s, "ns", "c"));
    struct ctl_view view;
    ctl_view_init(&view, ctl_store_entry(s, "ns", "b"));
    assert_non_null(view.seen.podgroup);
    assert_null(view.seen.configmap);
    ctl_view_done(&view);

    /* Schedulers write their groups often; only what a plan sees counts. */
    size_t before = changes;
    put(s, CTL_STORE_PODGROUPS, "a", 4, "a", 0);
    assert_int_equal(changes, before);
}

static void a_job_is_cached_without_unused_metadata(void **state) {
    struct ctl_store *s = *state;
    CO_AUTOJSON json_t *obj = object("x", 1, NULL);
    json_t *meta = json_object_get(obj, "metadata");
    co_json_set(meta, "managedFields", json_pack("[{s:s}]", "manager", "kubectl"));
    co_json_set(meta, "annotations", json_pack("{s:s}", "a", "b"));
    co_json_set(meta, "labels", json_pack("{s:s}", "kueue.x-k8s.io/queue-name", "q"));
    co_json_set(meta, "finalizers", json_pack("[s]", API_FINALIZER));
    tk_put(s, CTL_STORE_JOBS, obj, 0);
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    assert_int_equal(ctl_view_job(ctl_store_entry(s, "ns", "x"), &job, NULL), 0);
    json_object_del(meta, "managedFields");
    co_json_set(meta, "annotations", json_object());
    assert_true(json_equal(job->json, obj));
}

/* So many empty objects, and a word. */
static json_t *large(const char *name, int version, size_t n, const char *word) {
    json_t *j = object(name, version, NULL);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        co_json_append(list, json_object());
    }
    co_json_set(j, "spec", json_pack("{s:o,s:s}", "list", list, "word", word));
    return j;
}

static void a_job_that_is_a_large_tree_is_not_cached(void **state) {
    struct ctl_store *s = *state;
    CO_AUTOJSON json_t *first = large("x", 1, 30000, "a");
    CO_AUTOJSON json_t *other = large("x", 1, 30000, "b");
    CO_AUTOJSON json_t *small = large("x", 2, 10, "a");
    tk_put(s, CTL_STORE_JOBS, first, 0);
    const struct ctl_entry *e = ctl_store_entry(s, "ns", "x");
    assert_true(ctl_entry_has_job(e));
    assert_false(ctl_entry_is_cached(e));
    assert_in_range(e->tree, 30000 * 200, 30000 * 300);
    uint64_t edition = e->edition;
    size_t before = changes;
    ctl_store_sync_begin(s, CTL_STORE_JOBS, 1);
    tk_list(s, CTL_STORE_JOBS, first); /* the same text again is no news */
    ctl_store_sync_end(s, CTL_STORE_JOBS);
    assert_int_equal(changes, before);
    ctl_store_sync_begin(s, CTL_STORE_JOBS, 1);
    tk_list(s, CTL_STORE_JOBS, other); /* of other data */
    ctl_store_sync_end(s, CTL_STORE_JOBS);
    assert_int_equal(changes, before + 1);
    assert_true(e->edition > edition);
    tk_put(s, CTL_STORE_JOBS, small, 0);
    assert_true(ctl_entry_is_cached(e));
    assert_int_equal(s->text_lru.n, 1);
    drop(s, CTL_STORE_JOBS, "x", 3);
    assert_null(ctl_store_entry(s, "ns", "x"));
    assert_int_equal(s->text_lru.texts + s->text_lru.others + s->n_jobs, 0);
}

/* With all references in its status, 2,000, and with what the Deployment's memory allows. */
static void a_job_of_2000_pods_is_cached(void **state) {
    struct ctl_store *s = *state;
    CO_AUTOJSON json_t *obj = object("x", 1, NULL);
    json_t *refs = json_array();
    for (int i = 0; i < 2000; i++) {
        co_json_append(refs,
            json_pack("{s:s,s:s,s:o,s:s,s:s,s:s}", "apiVersion", "v1", "kind", "Pod", "name",
                json_sprintf("usual-name-worker-%d", i), "namespace", "usual-namespace",
                "resourceVersion", "1234567890", "uid", "01234567-0123-0123-0123-012345678901"));
    }
    co_json_set(obj, "status", json_pack("{s:{s:o}}", "worker", "refs", refs));
    s->text_lru.max = 25 << 20;
    tk_put(s, CTL_STORE_JOBS, obj, 0);
    assert_true(ctl_entry_is_cached(ctl_store_entry(s, "ns", "x")));
}

/* What is known of them stays. */
static void cached_texts_are_bounded_and_all_jobs_are_kept(void **state) {
    struct ctl_store *s = *state;
    s->text_lru.max = 4096;
    for (int i = 0; i < 200; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%d", i);
        put(s, CTL_STORE_JOBS, name, i + 1, NULL, 0);
        assert_in_range(s->text_lru.texts, 0, 4096);
    }
    assert_int_equal(s->n_jobs, 200);
    assert_in_range(s->text_lru.n, 5, 100);
    assert_false(ctl_entry_is_cached(ctl_store_entry(s, "ns", "j0")));
    assert_true(ctl_entry_is_cached(ctl_store_entry(s, "ns", "j199")));
    size_t before = changes;
    put(s, CTL_STORE_JOBS, "j0", 500, NULL, 0);
    assert_int_equal(changes, before + 1);
    assert_true(ctl_entry_is_cached(ctl_store_entry(s, "ns", "j0")));
}

/* For paddlejob_oldest_waiting_seconds. */
static void jobs_that_wait_are_those_without_a_start_time(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *spec, *status;
        bool waits;
    } rows[] = {{"{}", "{}", true}, {"{}", "{\"phase\":\"Starting\"}", true},
        {"{}", "{\"phase\":\"Starting\",\"startTime\":\"t\"}", false},
        {"{}", "{\"phase\":\"Failed\"}", false},
        {"{\"managedBy\":\"" API_MANAGER "\"}", "{}", true},
        {"{\"managedBy\":\"kueue.x-k8s.io/multikueue\"}", "{}", false}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *job = object("x", (int)i + 1, NULL);
        co_json_set(job, "spec", json_loads(rows[i].spec, 0, NULL));
        co_json_set(job, "status", json_loads(rows[i].status, 0, NULL));
        tk_put(s, CTL_STORE_JOBS, job, 0);
        assert_int_equal(ctl_store_entry(s, "ns", "x")->waits, rows[i].waits);
    }
}

/* The watch was down when the first one was deleted. */
static void a_recreated_job_has_its_own_creation_time(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *uid, *made;
        int64_t created;
    } rows[] = {{"a", "1970-01-01T00:00:10Z", 10}, {"a", "1970-01-01T00:00:10Z", 10},
        {"b", "1970-01-01T00:00:20Z", 20}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *job = object("x", (int)i + 1, NULL);
        json_t *meta = json_object_get(job, "metadata");
        co_json_set(meta, "uid", json_string(rows[i].uid));
        co_json_set(meta, "creationTimestamp", json_string(rows[i].made));
        tk_put(s, CTL_STORE_JOBS, job, 0);
        assert_int_equal(ctl_store_entry(s, "ns", "x")->created, rows[i].created);
        assert_int_equal(s->n_jobs, 1);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* How long ago a job counts as made, by its status and its age; -1: it is not new. */
static void only_jobs_without_a_status_are_new(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *phase;
        int64_t age_s, expected_s;
    } rows[] = {{NULL, 0, 0}, {NULL, 1, 0}, {NULL, 60, 60}, {NULL, -60, 0}, {"Pending", 60, -1},
        {"Running", 0, -1}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char name[16], made[32];
        (void)snprintf(name, sizeof(name), "j%zu", i);
        co_time_format(co_wall_seconds() - rows[i].age_s, made);
        CO_AUTOJSON json_t *j = object(name, 5, NULL);
        co_json_set(json_object_get(j, "metadata"), "creationTimestamp", json_string(made));
        if (rows[i].phase) {
            co_json_set(j, "status", json_pack("{s:s}", "phase", rows[i].phase));
        }
        tk_put(s, CTL_STORE_JOBS, j, 0);
        const struct ctl_entry *e = ctl_store_entry(s, "ns", name);
        if (rows[i].expected_s < 0) {
            assert_int_equal(e->stages.born, 0);
        } else {
            assert_in_range(
                co_now_ms() - e->stages.born - rows[i].expected_s * 1000 + 20000, 0, 40000);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_cached_without_unused_metadata),
        TEST(a_job_that_is_a_large_tree_is_not_cached),
        TEST(a_job_of_2000_pods_is_cached),
        TEST(cached_texts_are_bounded_and_all_jobs_are_kept),
        TEST(jobs_that_wait_are_those_without_a_start_time),
        TEST(a_recreated_job_has_its_own_creation_time),
        TEST(a_pod_that_succeeded_before_its_deletion_is_kept),
        TEST(a_succeeded_pod_is_kept_until_a_status_has_it),
        TEST(a_succeeded_pod_is_kept_when_a_list_lacks_it),
        TEST(children_join_their_job_by_owner),
        TEST(an_address_that_a_pod_reports_counts_until_its_object_has_one),
        TEST(the_address_of_a_pod_without_a_node_is_not_accepted),
        TEST(a_new_pod_does_not_inherit_the_address_of_the_old_one),
        TEST(the_first_and_the_last_pod_of_a_phase_mark_progress),
        TEST(a_new_configmap_marks_progress),
        TEST(a_new_phase_marks_progress),
        TEST(the_last_address_starts_a_job_whether_reported_or_in_its_object),
        TEST(an_entry_ends_with_its_last_part),
        TEST(an_older_version_changes_nothing),
        TEST(a_late_create_answer_does_not_restore_a_deleted_pod),
        TEST(a_sync_sweeps_what_it_did_not_report),
        TEST(a_sync_that_breaks_off_drops_nothing),
        TEST(a_list_decides_up_to_its_version),
        TEST(a_name_that_changes_its_owner_moves),
        TEST(deleting_is_known_before_the_watch_reports_it),
        TEST(many_entries_stay_findable),
        TEST(only_jobs_without_a_status_are_new),
        TEST(objects_without_a_name_are_refused),
        TEST(groups_of_others_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
