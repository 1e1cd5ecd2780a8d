#include "operator/control/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "operator/kube/fake_server_testing.h"

/* A warning goes at once, with what was gathered before it: so tests need not wait for that. */

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_client *client;
    struct ctl_recorder recorder;
    struct ctl_load load;
    struct ctl_event_log event_log;
    struct co_timer *deadline;
    bool late;
};

static const struct api_job job = {.name = "x", .ns = "ns", .uid = "u", .resource_version = "7"};

static void on_deadline(void *arg) {
    struct world *w = arg;
    w->late = true;
}

/* Nothing is due because the machine stands still. */
static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    co_test_clock_hold(true);
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    w->deadline = co_timer_new(w->loop, on_deadline, w);
    co_timer_start(w->deadline, 60 * 1000);
    /* One after the other, so that they arrive in the order in which they are recorded. */
    const struct kube_client_opts opts = {.lane_limit = {[KUBE_CLASS_EVENTS] = 1}};
    assert_int_equal(kube_client_new(w->loop, fake_config(&w->server), &opts, &w->client, NULL), 0);
    ctl_recorder_init(&w->recorder, w->loop, w->client, "me", &w->load);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    ctl_event_log_done(&w->event_log);
    ctl_recorder_done(&w->recorder);
    kube_client_free(w->client);
    fake_stop(&w->server);
    co_timer_free(w->deadline);
    co_loop_free(w->loop);
    co_test_clock_hold(false);
    free(w);
    return 0;
}

static void emit(
    struct world *w, bool warning, bool deed, const char *reason, const char *message) {
    ctl_recorder_emit(&w->recorder, &job, &w->event_log,
        &(struct plan_event){.warning = warning,
            .deed = deed,
            .kind = (uint8_t)(reason[0] - 'A'),
            .reason = reason,
            .message = (char *)(uintptr_t)message});
}

static void until_recorded(struct world *w, size_t n) {
    while (w->recorder.flying && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_false(w->late);
    assert_false(w->server.wrong);
    assert_int_equal(w->server.served, n);
}

#define ANSWER 201, "{}", FAKE_KEEP, NULL

static void an_event_names_its_job(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"POST /api/v1/namespaces/ns/events HTTP", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    emit(w, true, false, "InvalidTemplate", "no image");
    until_recorded(w, CO_ARRAY_LEN(steps));
    static const char *const parts[] = {"\"involvedObject\":{", "\"uid\":\"u\"",
        "\"resourceVersion\":\"7\"", "\"reason\":\"InvalidTemplate\"", "\"message\":\"no image\"",
        "\"type\":\"Warning\"", "\"count\":1", "\"reportingInstance\":\"me\""};
    for (size_t i = 0; i < CO_ARRAY_LEN(parts); i++) {
        if (!strstr(w->server.requests[0], parts[i])) {
            fail_msg("no %s in %s", parts[i], w->server.requests[0]);
        }
    }
}

/* So that nothing is recorded before it has to be. */
static void make_busy(struct world *w) {
    w->load = (struct ctl_load){.ratio = 100, .noted_ms = co_now_ms()};
}

static void normal_events_are_gathered_into_one(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"\"message\":\"created Pod a; created ConfigMap x; all run\"", ANSWER},
        {"\"type\":\"Warning\"", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    make_busy(w);
    emit(w, false, true, "Created", "created Pod a");
    emit(w, false, true, "Created", "created ConfigMap x");
    emit(w, false, false, "Running", "all run");
    assert_int_equal(w->recorder.flying, 0);
    emit(w, true, false, "Failed", "no");
    until_recorded(w, CO_ARRAY_LEN(steps));
    assert_non_null(strstr(w->server.requests[0], "\"reason\":\"Running\""));
    assert_non_null(strstr(w->server.requests[0], "\"type\":\"Normal\""));
}

/* Whoever looks at a job that has just begun sees what it did, and then that it runs. */
static void the_first_event_of_a_kind_is_sent_at_once(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"\"message\":\"created 2 Pods\"", ANSWER},
        {"\"message\":\"created ConfigMap x; all run\"", ANSWER},
        {"\"message\":\"deleted Pod a\"", ANSWER},
        {"\"message\":\"created Pod a\"", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    emit(w, false, true, "Created", "created 2 Pods");
    until_recorded(w, 1);
    emit(w, false, true, "Created", "created ConfigMap x");
    assert_int_equal(w->recorder.flying, 0); /* of the same kind: it gathers */
    emit(w, false, false, "Running", "all run");
    until_recorded(w, 2);
    emit(w, false, true, "Deleted", "deleted Pod a");
    until_recorded(w, 3);
    emit(w, false, true, "Created", "created Pod a");
    assert_int_equal(w->recorder.flying, 0);
    w->event_log.news_at -= 30 * 1000; /* long ago it is news again */
    emit(w, false, true, "Created", "created Pod a");
    until_recorded(w, 4);
    assert_non_null(strstr(w->server.requests[3], "\"count\":2"));
}

static void gathered_events_are_recorded_by_a_flush(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"\"message\":\"all done\"", ANSWER}};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    ctl_recorder_flush(&w->recorder); /* nothing does */
    make_busy(w);
    emit(w, false, false, "Completed", "all done");
    assert_int_equal(w->recorder.flying, 0);
    ctl_recorder_flush(&w->recorder);
    until_recorded(w, CO_ARRAY_LEN(steps));
}

static void on_time(void *arg) {
    bool *passed = arg;
    *passed = true;
}

/* As if it had been due so long ago. */
static void was_due(struct world *w, int64_t late_ms) {
    bool passed = false;
    struct co_timer *after = co_timer_new(w->loop, on_time, &passed);
    w->event_log.due = co_now_ms() - late_ms;
    co_timer_start(w->recorder.timer, 0);
    co_timer_start(after, 1);
    co_test_clock_forward(1);
    while (!passed) {
        co_loop_turn(w->loop);
    }
    co_timer_free(after);
}

static void good_news_waits_while_there_is_load(void **state) {
    struct world *w = *state;
    static const struct {
        bool deed; /* more can come of it; else it is where the job stands */
        double ratio;
        int64_t late_ms;
        bool recorded;
    } rows[] = {{true, 1, 0, true}, {true, 2, 0, true}, {true, 3, 0, false},
        {true, 100, 24000, false}, {true, 100, 25000, true}, {false, 100, 0, false},
        {false, 100, 2900, false}, {false, 100, 3000, true}, {false, 2, 0, true}};
    static const struct fake_step steps[] = {{"a word", ANSWER}, {"a word", ANSWER},
        {"a word", ANSWER}, {"a word", ANSWER}, {"a word", ANSWER}};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    size_t recorded = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        make_busy(w);
        emit(w, false, rows[i].deed, "Odd", "a word");
        assert_int_equal(ctl_recorder_waiting(&w->recorder), 1);
        w->load = (struct ctl_load){.ratio = rows[i].ratio, .noted_ms = co_now_ms()};
        was_due(w, rows[i].late_ms);
        recorded += rows[i].recorded;
        until_recorded(w, recorded);
        assert_int_equal(ctl_recorder_waiting(&w->recorder), !rows[i].recorded);
        assert_int_equal(co_timer_armed(w->recorder.timer), !rows[i].recorded);
        ctl_event_log_done(&w->event_log);
        co_timer_stop(w->recorder.timer);
    }
}

static void a_state_event_merges_only_what_came_before_it(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"\"message\":\"created Pod a; all run\"", ANSWER},
        {"\"message\":\"deleted Pod a; deleted Pod b\"", ANSWER},
        {"\"message\":\"created Pod a; all done\"", ANSWER},
        {"\"type\":\"Warning\"", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    make_busy(w);
    emit(w, false, true, "Created", "created Pod a");
    emit(w, false, false, "Running", "all run");
    emit(w, false, true, "Deleted", "deleted Pod a");
    emit(w, false, true, "Deleted", "deleted Pod b");
    emit(w, false, true, "Created", "created Pod a");
    emit(w, false, false, "Finished", "all done");
    emit(w, true, false, "Odd", "no");
    until_recorded(w, CO_ARRAY_LEN(steps));
    static const char *const reasons[] = {"Running", "Deleted", "Finished"};
    for (size_t i = 0; i < CO_ARRAY_LEN(reasons); i++) {
        CO_AUTOFREE char *part = co_xasprintf("\"reason\":\"%s\"", reasons[i]);
        assert_non_null(strstr(w->server.requests[i], part));
    }
}

static void a_repeated_warning_is_counted_in_its_recorded_event(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"POST ", ANSWER},
        {"\"count\":2", ANSWER},
        {"\"count\":3", ANSWER},
        {"POST ", ANSWER}, /* another message */
        {"\"count\":4", ANSWER},
        {"\"count\":2", ANSWER},
        {"\"count\":5", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    emit(w, true, false, "Rejected", "quota");
    emit(w, true, false, "Rejected", "quota");
    emit(w, true, false, "Rejected", "quota");
    emit(w, true, false, "Rejected", "webhook");
    until_recorded(w, 4);
    emit(w, true, false, "Rejected", "quota");
    emit(w, true, false, "Rejected", "webhook");
    emit(w, true, false, "Rejected", "quota");
    until_recorded(w, CO_ARRAY_LEN(steps));
    assert_non_null(strstr(w->server.requests[1], "PATCH /api/v1/namespaces/ns/events/x."));
    assert_non_null(strstr(w->server.requests[5], "\"message\":\"webhook\""));
}

/* A webhook that names another request each time is one Event with a count, not a thousand. */
static void refusals_without_end_share_an_event(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"POST ", ANSWER},
        {"\"reason\":\"Created\"", ANSWER}, /* Warnings alone are remembered */
        {"POST ", ANSWER},
        {"POST ", ANSWER},
        {"POST ", ANSWER},
        {"\"count\":2,\"lastTimestamp\":", ANSWER}, /* d is the oldest with its reason */
        {"\"count\":3,\"lastTimestamp\":", ANSWER},
        {"POST ", ANSWER}, /* a state is reported, and takes the place of the oldest */
        {"POST ", ANSWER}, /* which is new again, but not that of e and f */
        {"\"count\":4,\"lastTimestamp\":", ANSWER},
    };
    static const struct {
        const char *reason, *message;
    } rows[] = {
        {"FailedDelete", "a"},
        {"Created", "all"},
        {"FailedUpdate", "b"},
        {"FailedUpdate", "c"},
        {"FailedCreate", "d"},
        {"FailedCreate", "e"},
        {"FailedCreate", "f"},
        {"Restarting", "g"},
        {"FailedDelete", "a"},
        {"FailedCreate", "h"},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        bool normal = strcmp(rows[i].reason, "Created") == 0;
        ctl_recorder_emit(&w->recorder, &job, &w->event_log,
            &(struct plan_event){.warning = !normal,
                .state = strcmp(rows[i].reason, "Restarting") == 0,
                .reason = rows[i].reason,
                .message = (char *)(uintptr_t)rows[i].message});
        until_recorded(w, i + 1);
    }
    assert_non_null(strstr(w->server.requests[9], "\"message\":\"h\""));
}

/* Otherwise `describe` has a line for each retry of a job that waits for its quota. */
static void refusals_that_differ_in_numbers_share_an_event(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"POST ", ANSWER},
        {"\"count\":2", ANSWER},
        {"POST ", ANSWER}, /* states: the first and the second restart */
        {"POST ", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    emit(w, true, false, "FailedCreate", "x-worker-9: exceeded quota: used: pods=8");
    emit(w, true, false, "FailedCreate", "x-worker-10: exceeded quota: used: pods=12");
    until_recorded(w, 2);
    assert_non_null(strstr(
        w->server.requests[1], "\"message\":\"x-worker-10: exceeded quota: used: pods=12\""));
    for (int i = 1; i < 3; i++) {
        CO_AUTOFREE char *text = co_xasprintf("restart %d of 3", i);
        ctl_recorder_emit(&w->recorder, &job, &w->event_log,
            &(struct plan_event){
                .warning = true, .state = true, .reason = "Restarting", .message = text});
    }
    until_recorded(w, CO_ARRAY_LEN(steps));
}

/* What is not there cannot be counted up: it would never be seen, however often it repeats itself.
 */
static void a_warning_that_was_not_written_is_recorded_again(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"POST ", 500, "{}", FAKE_KEEP, NULL}, /* the API server, in trouble */
        {"POST ", ANSWER}, {"\"count\":2", 404, "{}", FAKE_KEEP, NULL}, /* somebody deleted it */
        {"POST ", ANSWER}, {"\"count\":2", ANSWER},
        {"POST ", 500, "{}", FAKE_KEEP, NULL}, /* its job is gone when that is answered */
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 1; i < CO_ARRAY_LEN(steps); i++) {
        emit(w, true, false, "Rejected", "quota");
        until_recorded(w, i);
    }
    emit(w, true, false, "Rejected", "webhook");
    ctl_event_log_done(&w->event_log);
    until_recorded(w, CO_ARRAY_LEN(steps));
}

static void a_repeated_warning_is_counted_in_the_waiting_event(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"POST ", ANSWER}, {"POST ", ANSWER},
        {"POST ", ANSWER}, {"POST ", ANSWER}, {"\"count\":2", ANSWER}};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    static const char *const reasons[] = {"A", "B", "C", "D", "Rejected", "Rejected"};
    for (size_t i = 0; i < CO_ARRAY_LEN(reasons); i++) {
        emit(w, true, false, reasons[i], "quota");
    }
    assert_int_equal(w->event_log.n_waiting, 1);
    until_recorded(w, CO_ARRAY_LEN(steps));
}

static void event_names_sort_in_the_order_of_events(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"POST ", ANSWER}, {"POST ", ANSWER}};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    emit(w, true, false, "Failed", "one");
    emit(w, true, false, "Failed", "two");
    until_recorded(w, CO_ARRAY_LEN(steps));
    const char *name[2];
    for (size_t i = 0; i < 2; i++) {
        name[i] = strstr(w->server.requests[i], "\"name\":\"x.");
        assert_non_null(name[i]);
    }
    assert_true(strncmp(name[0], name[1], strlen("\"name\":\"x.0123456789abcdef")) < 0);
}

static void waiting_events_of_a_job_are_bounded(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"POST ", 0, NULL, FAKE_HOLD, NULL}};
    enum { FLYING = 4, WAITING = 8 };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    for (int i = 0; i < FLYING + WAITING + 5; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        emit(w, true, false, "Failed", text);
    }
    assert_int_equal(w->recorder.flying, FLYING);
    assert_int_equal(w->event_log.n_waiting, WAITING);
    ctl_event_log_done(&w->event_log);
    for (size_t i = 0; i < CTL_EVENT_LOG_QUEUES; i++) {
        assert_true(TAILQ_EMPTY(&w->recorder.queue[i].logs));
    }
}

struct flood_row {
    const char *events; /* nine: something was (d)one, (r)efused, where the job (s)tands */
    const char *kept;   /* the eight that are recorded, by number */
};

/* Eight wait: which one goes for the ninth? */
static void the_least_important_waiting_event_is_dropped(void **state) {
    struct world *w = *state;
    static const struct flood_row rows[] = {
        {"rrrrrrrrs", "12345678"},
        {"rrrrrrrrr", "12345678"},
        {"sssssssss", "12345678"},
        {"ssssssssr", "01234567"},
        {"srrrrrrrr", "02345678"},
        {"sdrsrsrss", "02345678"},
        {"srdrsrsrr", "01345678"},
        {"srsrsrsrd", "01234567"},
    };
    enum { ALL = CO_ARRAY_LEN(rows) * 8 };
    struct fake_step steps[ALL];
    char expected[ALL][32];
    for (size_t i = 0; i < ALL; i++) {
        (void)snprintf(
            expected[i], sizeof(expected[i]), "\"message\":\"%c\"", rows[i / 8].kept[i % 8]);
        steps[i] = (struct fake_step){expected[i], ANSWER};
    }
    fake_script(&w->server, steps, ALL);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        w->recorder.flying = 4; /* nothing is recorded meanwhile */
        for (size_t n = 0; n < 9; n++) {
            char kind = rows[i].events[n];
            char text[2] = {(char)('0' + n), '\0'};
            ctl_recorder_emit(&w->recorder, &job, &w->event_log,
                &(struct plan_event){.warning = kind != 'd',
                    .deed = kind == 'd',
                    .state = kind == 's',
                    .reason = "Odd",
                    .message = text});
        }
        assert_int_equal(w->event_log.n_waiting, 8);
        w->recorder.flying = 0;
        ctl_recorder_flush(&w->recorder);
        until_recorded(w, (i + 1) * 8);
        ctl_event_log_done(&w->event_log);
    }
}

static void events_of_invalid_utf8_are_dropped(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"\"message\":\"fine\"", ANSWER}};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    const struct api_job odd = {.name = "\xff", .ns = "ns", .uid = "u", .resource_version = "7"};
    struct ctl_event_log event_log = {0};
    ctl_recorder_emit(&w->recorder, &odd, &event_log,
        &(struct plan_event){.warning = true, .reason = "Failed", .message = (char[]){"no"}});
    emit(w, true, false, "Failed", "fine");
    until_recorded(w, CO_ARRAY_LEN(steps));
    ctl_event_log_done(&event_log);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The name of a state is made elsewhere, and may be that of a moment to come. */
static void an_event_after_a_state_has_a_later_name(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"\"name\":\"x.7000000000000000\"", ANSWER},
        {"\"name\":\"x.7000000000000001\"", ANSWER},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    ctl_recorder_emit(&w->recorder, &job, &w->event_log,
        &(struct plan_event){.state = true,
            .reason = "Completed",
            .message = (char *)(uintptr_t) "done",
            .id = 0x7000000000000000});
    until_recorded(w, 1);
    emit(w, true, false, "Deleted", "deleted Pod a");
    until_recorded(w, 2);
}

#define TAKEN 409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\"}", FAKE_KEEP, NULL

/* Its name is that of the state, so there is never a second one; the next time it counts. */
static void a_state_that_was_reported_before_is_the_same_event(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"\"name\":\"x.0000000000000abc\"", TAKEN},
        {"PATCH /api/v1/namespaces/ns/events/x.0000000000000abc ", ANSWER},
        {"\"name\":\"x.0000000000000abd\"", TAKEN},
    };
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    for (int i = 0; i < 3; i++) {
        ctl_recorder_emit(&w->recorder, &job, &w->event_log,
            &(struct plan_event){.warning = i < 2,
                .state = true,
                .reason = i < 2 ? "Failed" : "Running",
                .message = (char *)(uintptr_t) "no data",
                .id = i < 2 ? 0xabc : 0xabd});
        until_recorded(w, (size_t)i + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(an_event_names_its_job),
        T(normal_events_are_gathered_into_one),
        T(the_first_event_of_a_kind_is_sent_at_once),
        T(gathered_events_are_recorded_by_a_flush),
        T(good_news_waits_while_there_is_load),
        T(a_state_event_merges_only_what_came_before_it),
        T(a_repeated_warning_is_counted_in_its_recorded_event),
        T(refusals_without_end_share_an_event),
        T(refusals_that_differ_in_numbers_share_an_event),
        T(a_warning_that_was_not_written_is_recorded_again),
        T(a_repeated_warning_is_counted_in_the_waiting_event),
        T(event_names_sort_in_the_order_of_events),
        T(waiting_events_of_a_job_are_bounded),
        T(the_least_important_waiting_event_is_dropped),
        T(events_of_invalid_utf8_are_dropped),
        T(an_event_after_a_state_has_a_later_name),
        T(a_state_that_was_reported_before_is_the_same_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
