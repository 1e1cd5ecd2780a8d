#include "operator/control/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "operator/control/control_testing.h"

enum { BEGINNERS = 64, BEGINNERS_MIN = 4, STARTERS = 32, MANY = 70, LOOKS = 96, PLACES = 110 };

struct world {
    struct co_loop *loop;
    struct ctl_store store;
    struct ctl_metrics *metrics;
    struct ctl_load load;
    struct ctl_queue *queue;
    struct ctl_queued place[PLACES];
    size_t n, freed;
    bool runs_last;    /* each reconcile that is served lasts until the test ends it */
    char served[1024]; /* names, each with a space behind it */
    size_t n_served;
};

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static void on_gone(void *arg, struct ctl_entry *e) {
    struct world *w = arg;
    ctl_queue_leave(e->work);
    w->freed++;
}

static bool on_serve(void *arg, struct ctl_entry *e) {
    struct world *w = arg;
    size_t n = strlen(w->served);
    (void)snprintf(w->served + n, sizeof(w->served) - n, "%s ", e->name);
    w->n_served++;
    if (w->runs_last) {
        ctl_queue_begin(e->work);
    }
    return w->runs_last;
}

/* No job has had its time to start because the machine stands still. */
static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    co_test_clock_hold(true);
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    w->metrics = ctl_metrics_new();
    ctl_store_init(&w->store, ignore, on_gone, w);
    w->queue = ctl_queue_new(w->loop, &(struct ctl_queue_opts){.store = &w->store,
                                          .metrics = w->metrics,
                                          .load = &w->load,
                                          .serve = on_serve,
                                          .arg = w});
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    ctl_store_done(&w->store);
    ctl_queue_free(w->queue);
    ctl_metrics_free(w->metrics);
    co_loop_free(w->loop);
    co_test_clock_hold(false);
    free(w);
    return 0;
}

static json_t *object(const char *ns, const char *name, const char *owner) {
    return json_pack("{s:{s:s,s:s,s:s,s:s,s:[{s:s,s:s,s:s,s:s,s:b}]}}", "metadata", "name", name,
        "namespace", ns, "uid", name, "resourceVersion", "1", "ownerReferences", "apiVersion",
        API_VERSION, "kind", API_KIND, "name", owner, "uid", "u", "controller", 1);
}

static void put_pod(struct world *w, const struct ctl_entry *e, const char *refused) {
    CO_AUTOFREE char *name = co_xasprintf("%s-ps-0", e->name);
    CO_AUTOJSON json_t *pod = object(e->ns, name, e->name);
    if (refused) {
        json_object_set_new(json_object_get(pod, "metadata"), "resourceVersion", json_string("2"));
        json_object_set_new(pod, "status",
            json_pack("{s:s,s:[{s:s,s:s,s:s}]}", "phase", "Pending", "conditions", "type",
                "PodScheduled", "status", "False", "reason", refused));
    }
    tk_put(&w->store, CTL_STORE_PODS, pod, 0);
}

/* A job of the store, with its place in the queue. */
static struct ctl_queued *job_in(struct world *w, const char *ns, const char *name, bool has_pods) {
    CO_AUTOJSON json_t *j = object(ns, name, "nobody");
    tk_put(&w->store, CTL_STORE_JOBS, j, 0);
    struct ctl_entry *e = ctl_store_entry(&w->store, ns, name);
    if (has_pods) {
        put_pod(w, e, NULL);
    }
    assert_true(w->n < PLACES);
    struct ctl_queued *place = &w->place[w->n++];
    ctl_queue_join(w->queue, place, e);
    e->work = place;
    return place;
}

static struct ctl_queued *job(struct world *w, const char *name, bool has_pods) {
    return job_in(w, "ns", name, has_pods);
}

static void nothing(void *arg) {
    (void)arg;
}

/* Until all who may have had their turn. */
static void settle(struct world *w) {
    size_t before;
    do {
        before = w->n_served;
        for (int i = 0; i < 3; i++) {
            co_loop_post(w->loop, nothing, NULL);
            co_loop_turn(w->loop);
        }
    } while (w->n_served > before);
}

static void an_entry_waits_once_however_often_it_is_asked_for(void **state) {
    struct world *w = *state;
    struct ctl_queued *a = job(w, "a", true);
    ctl_queue_add(a);
    ctl_queue_add(a);
    ctl_queue_add(a);
    assert_int_equal(ctl_queue_waiting(w->queue), 1);
    settle(w);
    assert_string_equal(w->served, "a ");
    assert_int_equal(ctl_queue_waiting(w->queue), 0);
}

static void a_reconcile_replaces_the_scheduled_one(void **state) {
    struct world *w = *state;
    struct ctl_queued *a = job(w, "a", true);
    ctl_queue_add_at(a, co_now_ms() + 60000);
    assert_false(ctl_queue_is_idle(a));
    ctl_queue_add(a);
    settle(w);
    assert_string_equal(w->served, "a ");
    assert_true(ctl_queue_is_idle(a));
}

static bool is_waiting(const struct ctl_queued *place) {
    return place->state == CTL_QUEUED_WAITING;
}

static bool is_busy(const struct ctl_queued *place) {
    return place->state == CTL_QUEUED_BUSY;
}

static void new_jobs_come_first_then_the_oldest_request(void **state) {
    struct world *w = *state;
    struct ctl_queued *a = job(w, "a", true), *b = job(w, "b", false), *c = job(w, "c", true),
                      *d = job(w, "d", false);
    ctl_queue_add(c);
    ctl_queue_add(d);
    ctl_queue_add(a);
    ctl_queue_add(b);
    settle(w);
    assert_string_equal(w->served, "d b c a ");
}

static void load_is(struct world *w, double ratio) {
    w->load = (struct ctl_load){.ratio = ratio, .noted_ms = co_now_ms()};
}

/* Returns the last one, which alone has a pod. */
static struct ctl_queued *ask_many(struct world *w) {
    struct ctl_queued *last = NULL;
    for (int i = 0; i < MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%d", i);
        last = job(w, name, i == MANY - 1);
        ctl_queue_add(last);
    }
    settle(w);
    return last;
}

static void beginning_jobs_are_bounded_and_do_not_delay_others(void **state) {
    struct world *w = *state;
    w->runs_last = true;
    load_is(w, 1);
    struct ctl_queued *begun = ask_many(w);
    assert_int_equal(w->n_served, BEGINNERS + 1);
    assert_true(is_busy(begun));
    assert_int_equal(ctl_queue_busy(w->queue), BEGINNERS + 1);
    ctl_queue_end(&w->place[0], 0);
    settle(w);
    assert_int_equal(w->n_served, BEGINNERS + 2);
    ctl_queue_end(begun, 0); /* makes no room: it had its pods */
    settle(w);
    assert_int_equal(w->n_served, BEGINNERS + 2);
}

static void fewer_jobs_begin_when_the_api_server_is_busy(void **state) {
    struct world *w = *state;
    w->runs_last = true;
    load_is(w, 1000);
    ask_many(w);
    assert_int_equal(w->n_served, BEGINNERS_MIN + 1);
}

/* The first n jobs get their pods, one after the other. */
static void begin_until(struct world *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put_pod(w, w->place[i].entry, NULL);
        ctl_queue_end(&w->place[i], 0);
        load_is(w, 1000);
        settle(w);
    }
}

static void on_a_busy_server_begun_jobs_run_before_others_begin(void **state) {
    struct world *w = *state;
    load_is(w, 1000);
    w->runs_last = true;
    ask_many(w);
    begin_until(w, STARTERS);
    assert_int_equal(w->n_served, STARTERS + 1);
    w->place[0].entry->waits = false; /* it runs */
    ctl_queue_add(&w->place[0]);
    settle(w);
    assert_int_equal(w->n_served, STARTERS + 3); /* it, and the next one */
    for (size_t i = 1; i < MANY; i++) {          /* they take their time */
        w->place[i].starting_until = w->place[i].starting_until ? 1 : 0;
    }
    ctl_queue_end(&w->place[STARTERS], 0);
    load_is(w, 1000);
    settle(w);
    assert_int_equal(w->n_served, STARTERS + 3 + BEGINNERS_MIN);
}

static void on_an_idle_server_all_jobs_begin_at_once(void **state) {
    struct world *w = *state;
    load_is(w, 1);
    w->runs_last = true;
    ask_many(w);
    for (size_t i = 0; i < MANY - BEGINNERS; i++) {
        ctl_queue_end(&w->place[i], 0);
    }
    settle(w);
    assert_int_equal(w->n_served, MANY);
}

/* Jobs of one namespace, as many as wait for ever. */
static void crowd(struct world *w, bool has_pods, int n) {
    w->runs_last = true;
    for (int i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%d", i);
        ctl_queue_add(job(w, name, has_pods));
    }
    settle(w);
}

static void reconciles_at_a_time_are_bounded(void **state) {
    struct world *w = *state;
    crowd(w, true, PLACES);
    assert_int_equal(ctl_queue_busy(w->queue), LOOKS);
    assert_int_equal(ctl_queue_waiting(w->queue), PLACES - LOOKS);
    ctl_queue_end(&w->place[LOOKS - 1], 0);
    settle(w);
    assert_int_equal(ctl_queue_busy(w->queue), LOOKS);
    assert_true(is_busy(&w->place[LOOKS]));
}

static void namespaces_are_served_in_turn(void **state) {
    struct world *w = *state;
    static const char *const jobs[][2] = {{"a", "a1"}, {"a", "a2"}, {"a", "a3"}, {"a", "a4"},
        {"b", "b1"}, {"c", "c1"}, {"c", "c2"}, {"b", "b2"}, {"d", "d1"}};
    for (int has_pods = 0; has_pods < 2; has_pods++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(jobs); i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "%s%s", jobs[i][1], has_pods ? "-" : "");
            ctl_queue_add(job_in(w, jobs[i][0], name, has_pods));
        }
    }
    settle(w);
    assert_string_equal(w->served, "a1 b1 c1 d1 a2 b2 c2 a3 a4 "
                                   "a1- b1- c1- d1- a2- b2- c2- a3- a4- ");
}

static size_t starts(const struct world *w, const char *ns) {
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        n += w->place[i].starting && strcmp(w->place[i].entry->ns, ns) == 0;
    }
    return n;
}

static void a_namespace_that_begins_nothing_does_not_wait_for_one_that_begins_much(void **state) {
    struct world *w = *state;
    load_is(w, 1000);
    crowd(w, false, MANY);
    assert_int_equal(w->n_served, BEGINNERS_MIN);
    struct ctl_queued *first = job_in(w, "other", "first", false),
                      *second = job_in(w, "other", "second", false),
                      *third = job_in(w, "third", "third", false);
    ctl_queue_add(first);
    ctl_queue_add(second);
    ctl_queue_add(third);
    settle(w);
    assert_true(is_busy(first) && is_busy(third));
    assert_false(is_busy(second));
    assert_int_equal(w->n_served, BEGINNERS_MIN + 2);
    for (size_t i = 0; i < BEGINNERS_MIN; i++) { /* then all wait for their turn */
        ctl_queue_end(&w->place[i], 0);
    }
    settle(w);
    assert_true(is_busy(second));
    assert_int_equal(w->n_served, BEGINNERS_MIN + 4);
}

static void a_namespace_without_reconciles_gets_one_beyond_the_limit(void **state) {
    struct world *w = *state;
    crowd(w, true, LOOKS + 2);
    assert_int_equal(ctl_queue_busy(w->queue), LOOKS);
    struct ctl_queued *other = job_in(w, "other", "first", true);
    ctl_queue_add(other);
    ctl_queue_add(job_in(w, "other", "second", true));
    settle(w);
    assert_true(is_busy(other));
    assert_int_equal(ctl_queue_busy(w->queue), LOOKS + 1);
}

static void a_namespace_that_starts_nothing_takes_a_place_of_one_that_starts_much(void **state) {
    struct world *w = *state;
    load_is(w, 1000);
    crowd(w, false, MANY);
    begin_until(w, STARTERS);
    assert_int_equal(w->n_served, STARTERS);
    assert_int_equal(starts(w, "ns"), STARTERS);
    struct ctl_queued *other = job_in(w, "other", "first", false);
    ctl_queue_add(other);
    ctl_queue_add(job_in(w, "other", "second", false));
    settle(w);
    assert_true(is_busy(other) && other->starting);
    assert_int_equal(starts(w, "ns"), STARTERS - 1);
    assert_int_equal(w->n_served, STARTERS + 1);
}

static void many_namespaces_wait_for_each_other_as_many_jobs_do(void **state) {
    struct world *w = *state;
    w->runs_last = true;
    load_is(w, 1000);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%d", i);
        ctl_queue_add(job_in(w, name, name, false));
    }
    settle(w);
    assert_int_equal(w->n_served, BEGINNERS_MIN);
    begin_until(w, STARTERS);
    assert_int_equal(w->n_served, STARTERS);
}

static void a_job_that_cannot_start_delays_no_other(void **state) {
    struct world *w = *state;
    load_is(w, 1000);
    crowd(w, false, MANY);
    begin_until(w, STARTERS);
    assert_int_equal(w->n_served, STARTERS);
    put_pod(w, w->place[0].entry, "Unschedulable");
    ctl_queue_add(&w->place[0]);
    settle(w);
    assert_false(w->place[0].starting);
    assert_int_equal(w->n_served, STARTERS + 2); /* it, and the next one */
    ctl_queue_end(&w->place[STARTERS], 0);       /* whose pods a quota refuses */
    load_is(w, 1000);
    settle(w);
    assert_int_equal(w->n_served, STARTERS + 3);
}

static void requests_during_a_reconcile_are_served_after_it(void **state) {
    struct world *w = *state;
    struct ctl_queued *a = job(w, "a", true);
    w->runs_last = true;
    ctl_queue_add(a);
    settle(w);
    ctl_queue_add(a);
    ctl_queue_add(a);
    settle(w);
    assert_string_equal(w->served, "a ");
    ctl_queue_end(a, 0);
    settle(w);
    assert_string_equal(w->served, "a a ");
    ctl_queue_end(a, 0);
    settle(w);
    assert_string_equal(w->served, "a a ");
}

static void an_entry_stays_in_the_store_until_its_reconcile_ends(void **state) {
    struct world *w = *state;
    struct ctl_queued *a = job(w, "a", false);
    w->runs_last = true;
    ctl_queue_add(a);
    settle(w);
    CO_AUTOJSON json_t *gone =
        json_pack("{s:{s:s,s:s}}", "metadata", "name", "a", "namespace", "ns");
    tk_remove(&w->store, CTL_STORE_JOBS, gone);
    assert_int_equal(w->freed, 0);
    ctl_queue_end(a, 0);
    assert_int_equal(w->freed, 1);
    assert_null(ctl_store_entry(&w->store, "ns", "a"));
}

static void the_earlier_of_two_requested_times_wins(void **state) {
    struct world *w = *state;
    static const int64_t rows[][2] = {{0, 3600 * 1000}, {3600 * 1000, 0}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%zu", i);
        struct ctl_queued *place = job(w, name, true);
        int64_t now = co_now_ms();
        ctl_queue_add_at(place, now + rows[i][0]);
        ctl_queue_add_at(place, now + rows[i][1]);
        while (w->n_served == i) {
            co_loop_turn(w->loop);
        }
    }
    assert_string_equal(w->served, "j0 j1 ");
}

static void the_backoff_grows_with_the_time_of_the_reconcile(void **state) {
    struct world *w = *state;
    static const struct {
        double took_seconds;
        int64_t rest_ms;
    } rows[] = {{0, 0}, {0.001, 100}, {0.03, 3000}, {1000, 5000}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%zu", i);
        struct ctl_queued *place = job(w, name, true);
        int64_t before = co_now_ms();
        ctl_queue_back_off(place, rows[i].took_seconds);
        assert_in_range(place->not_before, before + rows[i].rest_ms, co_now_ms() + rows[i].rest_ms);
        ctl_queue_add(place);
        assert_true(is_waiting(place) ? co_now_ms() >= place->not_before
                                      : place->wake_ms == place->not_before);
    }
}

static void the_backoff_grows_with_the_number_of_children(void **state) {
    struct world *w = *state;
    struct ctl_queued *place = job(w, "j", true);
    size_t n = place->entry->n_children;
    int64_t before = co_now_ms();
    place->entry->n_children = 1000;
    ctl_queue_back_off(place, 0.0001);
    place->entry->n_children = n;
    assert_in_range(place->not_before, before + 500, co_now_ms() + 500);
}

static void a_hurried_entry_skips_its_backoff(void **state) {
    struct world *w = *state;
    struct ctl_queued *place = job(w, "a", true);
    settle(w);
    ctl_queue_add(place);
    settle(w);
    ctl_queue_back_off(place, 10);
    ctl_queue_add(place);
    assert_false(is_waiting(place));
    ctl_queue_skip_back_off(place);
    ctl_queue_add(place);
    assert_true(is_waiting(place));
    settle(w);
    assert_string_equal(w->served, "a a ");
    assert_false(place->skips_back_off);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(an_entry_waits_once_however_often_it_is_asked_for),
        T(a_reconcile_replaces_the_scheduled_one),
        T(new_jobs_come_first_then_the_oldest_request),
        T(beginning_jobs_are_bounded_and_do_not_delay_others),
        T(fewer_jobs_begin_when_the_api_server_is_busy),
        T(on_a_busy_server_begun_jobs_run_before_others_begin),
        T(on_an_idle_server_all_jobs_begin_at_once),

        T(reconciles_at_a_time_are_bounded),
        T(namespaces_are_served_in_turn),
        T(a_namespace_that_begins_nothing_does_not_wait_for_one_that_begins_much),
        T(a_namespace_without_reconciles_gets_one_beyond_the_limit),
        T(a_namespace_that_starts_nothing_takes_a_place_of_one_that_starts_much),
        T(many_namespaces_wait_for_each_other_as_many_jobs_do),
        T(a_job_that_cannot_start_delays_no_other),
        T(requests_during_a_reconcile_are_served_after_it),
        T(an_entry_stays_in_the_store_until_its_reconcile_ends),
        T(the_earlier_of_two_requested_times_wins),
        T(the_backoff_grows_with_the_time_of_the_reconcile),
        T(the_backoff_grows_with_the_number_of_children),
        T(a_hurried_entry_skips_its_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
