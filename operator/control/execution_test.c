#include "operator/control/execution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "common/log.h"
#include "operator/control/control_testing.h"
#include "operator/control/fake_feeds_testing.h"

/* Plans whose status can wait, and that do nothing; for the others there is a server. */

#define MADE "{\"metadata\":{\"labels\":{\"" API_LABEL_NAME "\":\"x-ps-0\"}}}"

enum { PACE_MS = 2000 /* counters wait that long */, PART = 256 /* creates a plan */ };

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_client *client;
    struct ctl_feeds *feeds;
    struct co_timer *deadline;
    bool late;
    struct ctl_store store;
    struct ctl_metrics *metrics;
    struct ctl_load load, busy; /* the recorder's: events are for other tests */
    struct ctl_recorder recorder;
    struct ctl_executions executions;
    struct ctl_execution *execution;
    struct plan plan; /* of the execution that begins next */
    int64_t wake_ms;
    int over;
};

static void on_over(void *arg, struct ctl_entry *e, int64_t wake_ms) {
    struct world *w = arg;
    (void)e;
    w->wake_ms = wake_ms;
    w->over++;
}

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    ctl_store_init(&w->store, ignore, ignore, w);
    CO_AUTOJSON json_t *job = tk_json("{'metadata':{'name':'x','namespace':'ns','uid':'u',"
                                      "'resourceVersion':'1'}}");
    tk_put(&w->store, CTL_STORE_JOBS, job, 0);
    w->metrics = ctl_metrics_new();
    w->executions = (struct ctl_executions){
        .api = {.store = &w->store, .metrics = w->metrics, .load = &w->load},
        .over = on_over,
        .arg = w};
    w->execution = ctl_execution_new(&w->executions, ctl_store_entry(&w->store, "ns", "x"));
    *state = w;
    return 0;
}

static void on_deadline(void *arg) {
    struct world *w = arg;
    w->late = true;
}

/* Nothing becomes due because the machine stands still: only `pass` moves the clock.
 * The server plays the steps once the feeds have asked for their lists. */
static void serve(struct world *w, const struct fake_step *steps, size_t n) {
    const struct kube_client_opts opts = {.lane_limit = {[KUBE_CLASS_WORK] = 8}};
    co_test_clock_hold(true);
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    w->deadline = co_timer_new(w->loop, on_deadline, w);
    co_timer_start(w->deadline, 60 * 1000);
    fake_feeds(&w->server, steps, n, &opts, &w->store, w->metrics, &w->late, &w->client, &w->feeds);
    w->busy = (struct ctl_load){.ratio = 100, .noted_ms = co_now_ms()};
    ctl_recorder_init(&w->recorder, w->loop, w->client, "test", &w->busy);
    w->executions.recorder = &w->recorder;
    w->executions.api.client = w->client;
    w->executions.api.feeds = w->feeds;
}

static int teardown(void **state) {
    struct world *w = *state;
    co_test_clock_hold(false);
    ctl_execution_free(w->execution);
    if (w->loop) {
        ctl_recorder_done(&w->recorder);
        ctl_feeds_free(w->feeds);
        kube_client_free(w->client);
        assert_false(w->server.wrong);
        fake_stop(&w->server);
        co_timer_free(w->deadline);
        co_loop_free(w->loop);
    }
    ctl_store_done(&w->store);
    ctl_metrics_free(w->metrics);
    free(w);
    return 0;
}

static void begin_with(struct world *w, json_t *obj_own, const char *status, bool urgent) {
    struct api_job *job = NULL;
    assert_int_equal(api_job_decode(obj_own, &job, NULL), 0);
    w->plan.status = tk_json(status);
    w->plan.status_differs = true;
    w->plan.status_urgent = urgent;
    w->over = 0;
    ctl_execution_begin(w->execution, job, &w->plan);
}

/* A plan whose status differs from the job's by counters alone. */
static void begin(struct world *w, const char *status, bool urgent) {
    w->plan.phase = API_PHASE_RUNNING;
    begin_with(w,
        tk_json("{'metadata':{'name':'x','namespace':'ns','uid':'u'},'status':{"
                "'phase':'Running','attempt':3}}"),
        status, urgent);
}

static void await(struct world *w) {
    while (!w->over && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->over, 1);
}

static void carry_out(struct world *w, const char *status) {
    begin(w, status, false);
    assert_int_equal(w->over, 1);
    assert_true(w->wake_ms > 0); /* it waits to be written */
}

static void assert_draft(const struct plan_seen *seen, const char *expected) {
    CO_AUTOJSON json_t *want = tk_json(expected);
    assert_true(json_equal(seen->draft, want));
}

static void completed_indexes_are_recalled_before_the_status_is_written(void **state) {
    struct world *w = *state;
    struct plan_seen seen = {0};
    ctl_execution_recall(w->execution, "u", &seen);
    assert_null(seen.draft);
    carry_out(w, "{'phase':'Running','attempt':3,'worker':{'completedIndexes':'0,2',"
                 "'createdIndexes':'0-3'}}");
    ctl_execution_recall(w->execution, "u", &seen);
    assert_draft(&seen, "{'worker':{'completedIndexes':'0,2','createdIndexes':'0-3'},'attempt':3}");
    /* The next plan knows better. */
    carry_out(w, "{'phase':'Running','attempt':3,'ps':{'completedIndexes':'1'}}");
    ctl_execution_recall(w->execution, "u", &seen);
    assert_draft(&seen, "{'ps':{'completedIndexes':'1'},'attempt':3}");
    /* Another job of the name knows nothing. */
    ctl_execution_recall(w->execution, "v", &seen);
    assert_null(seen.draft);
}

/* Of the plan of the next execution. */
static void plan_actions(struct world *w, size_t n, enum plan_verb verb, enum plan_kind kind) {
    w->plan.actions = co_xcalloc(n, sizeof(*w->plan.actions));
    w->plan.n_actions = n;
    for (size_t i = 0; i < n; i++) {
        w->plan.actions[i] = (struct plan_action){.verb = verb,
            .kind = kind,
            .name = co_xasprintf("x-ps-%zu", i),
            .uid = co_xstrdup(""),
            .body = json_object()};
    }
}

static const struct fake_step conflict = {
    "PATCH ", 409, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}", FAKE_KEEP, NULL};
static const struct fake_step written = {"\"completedIndexes\":\"2\"", 200,
    "{\"metadata\":{\"name\":\"x\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"2\"}}",
    FAKE_KEEP, NULL};
static const char one_is_done[] =
    "{'phase':'Running','attempt':3,'worker':{'completedIndexes':'2'}}";

static void meet_a_conflict(struct world *w) {
    plan_actions(w, 1, PLAN_PATCH, PLAN_KIND_CONFIGMAP);
    begin(w, one_is_done, true);
    await(w);
}

static void a_conflict_before_the_status_write_keeps_completed_indexes(void **state) {
    struct world *w = *state;
    struct plan_seen seen = {0};
    serve(w, &conflict, 1);
    ctl_execution_recall(w->execution, "u", &seen);
    meet_a_conflict(w);
    assert_int_equal(w->server.served, FAKE_WATCHES + 1); /* no status write */
    ctl_execution_recall(w->execution, "u", &seen);
    assert_draft(&seen, "{'worker':{'completedIndexes':'2'},'attempt':3}");
}

static void assert_waiting(struct world *w, const char *sample) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1024);
    struct co_err err;
    assert_int_equal(co_metrics_render(&w->metrics->row[CTL_M_STATUS_WAITING], 1, &text, &err), 0);
    assert_non_null(strstr(text.data, sample));
}

static void an_execution_with_a_delayed_write_is_not_blank(void **state) {
    struct world *w = *state;
    assert_true(ctl_execution_is_blank(w->execution));
    for (int i = 0; i < 2; i++) {
        carry_out(w, "{'phase':'Running','attempt':3,'worker':{'completedIndexes':'0'}}");
        assert_false(ctl_execution_is_blank(w->execution));
        assert_waiting(w, "paddlejob_status_waiting 1\n");
    }
    struct plan_seen seen = {0};
    ctl_execution_recall(w->execution, "of another job", &seen);
    assert_waiting(w, "paddlejob_status_waiting 0\n");
}

static void urgent_status_writes_are_sent_at_once(void **state) {
    struct world *w = *state;
    serve(w, &written, 1);
    begin(w, one_is_done, true);
    assert_int_equal(w->over, 0); /* the write is on its way */
    await(w);
    assert_int_equal(w->server.served, FAKE_WATCHES + 1);
}

static void on_time(void *arg) {
    *(bool *)arg = true;
}

static void pass(struct world *w, int64_t ms) {
    bool passed = false;
    struct co_timer *timer = co_timer_new(w->loop, on_time, &passed);
    co_test_clock_forward(ms);
    co_timer_start(timer, 0); /* comes after what is due */
    while (!passed && !w->late) {
        co_loop_turn(w->loop);
    }
    co_timer_free(timer);
}

static void conflicts_delay_a_status_write_only_once(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {conflict, conflict, written};
    serve(w, steps, CO_ARRAY_LEN(steps));
    meet_a_conflict(w);
    assert_int_equal(w->server.served, FAKE_WATCHES + 1);
    assert_waiting(w, "paddlejob_status_waiting 1\n");
    pass(w, PACE_MS);
    meet_a_conflict(w);
    assert_int_equal(w->server.served, FAKE_WATCHES + 3);
    assert_waiting(w, "paddlejob_status_waiting 0\n");
}

#define STORED(status)                                                                             \
    {                                                                                              \
        "PATCH ", 200,                                                                             \
            "{\"metadata\":{\"name\":\"x\",\"namespace\":\"ns\",\"uid\":\"u\","                    \
            "\"resourceVersion\":"                                                                 \
            "\"2\"},\"status\":{" status "}}",                                                     \
            FAKE_KEEP, NULL                                                                        \
    }

/* The log of one status write. */
static size_t logged(struct world *w, char ret[1024]) {
    int log = memfd_create("log", MFD_CLOEXEC);
    co_log_set_fd(log);
    begin(w, one_is_done, true);
    await(w);
    co_log_set_fd(2);
    ssize_t n = pread(log, ret, 1023, 0);
    assert_true(n >= 0);
    ret[n] = '\0';
    (void)close(log);
    return (size_t)n;
}

/* The CRD drops the attempt: the write is repeated, as it may be replaced at any time.  Then the
 * store takes the answer, though it has that version already, without the attempt. */
static void an_attempt_that_is_not_stored_is_written_again(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {STORED("\"phase\":\"Running\",\"worker\":{}"),
        STORED("\"phase\":\"Running\",\"worker\":{}"),
        STORED("\"phase\":\"Running\",\"attempt\":3"),
        STORED("\"phase\":\"Running\",\"attempt\":3,\"worker\":{}")};
    static const struct {
        const char *logs[2]; /* none: nothing */
        bool again, stores;
    } rows[] = {{{"level=error", "field=attempt"}, true, true}, {{NULL}, true, false},
        {{"level=info", "drops fields of the status"}, false, true}, /* another one, in its place */
        {{"level=info", "field=worker.completedIndexes"}, false, false}};
    const struct ctl_entry *e = ctl_store_entry(&w->store, "ns", "x");
    char text[1024];
    serve(w, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        uint64_t edition = e->edition;
        assert_int_equal(logged(w, text) > 0, rows[i].logs[0] != NULL);
        assert_int_equal(e->edition != edition, rows[i].stores);
        for (size_t k = 0; k < 2 && rows[i].logs[k]; k++) {
            assert_non_null(strstr(text, rows[i].logs[k]));
        }
        assert_int_equal(w->wake_ms > 0, rows[i].again);
    }
}

/* Any other field costs one line of the log. */
static void a_field_that_is_not_stored_is_logged(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {STORED("\"phase\":\"Running\",\"attempt\":3")};
    char text[1024];
    serve(w, steps, CO_ARRAY_LEN(steps));
    (void)logged(w, text);
    assert_non_null(strstr(text, "field=worker"));
    assert_int_equal(w->wake_ms, 0);
}

/* The job was deleted, or the CRD has no status, which the second answer shows. */
static void a_status_that_is_not_found_is_tried_again(void **state) {
    struct world *w = *state;
    static const struct fake_step missing = {"PATCH ", 404, "{}", FAKE_KEEP, NULL};
    const struct fake_step steps[] = {missing, missing};
    char text[1024];
    serve(w, steps, CO_ARRAY_LEN(steps));
    assert_int_equal(logged(w, text), 0);
    assert_true(w->wake_ms > 0);
    (void)logged(w, text);
    assert_non_null(strstr(text, "status not written"));
}

#define AT(version, status)                                                                        \
    "{'metadata':{'name':'x','namespace':'ns','uid':'u','resourceVersion':'" version               \
    "'},'status':{" status "}}"
#define RUNS "'phase':'Running','attempt':3"
#define FAILS "'phase':'Failed','attempt':3"

/* The write gets no answer.  What the job's next version has decides what is reported, and nothing
 * is reported twice. */
static void the_end_of_a_job_is_reported_although_its_write_was_cut(void **state) {
    (void)state;
    static const struct fake_step cut = {"PATCH ", 0, NULL, FAKE_CUT, NULL};
    static const struct fake_step done = {"PATCH ", 200,
        "{\"metadata\":{\"name\":\"x\",\"namespace\":\"ns\",\"uid\":\"u\","
        "\"resourceVersion\":\"2\"},\"status\":{\"phase\":\"Failed\",\"attempt\":3}}",
        FAKE_KEEP, NULL};
    static const struct fake_step event = {"\"reason\":\"Failed\"", 201, "{}", FAKE_KEEP, NULL};
    const struct {
        const char *what;
        struct fake_step steps[3]; /* of the first write, of the second one, and an event */
        size_t n;
        const char *second, *then; /* versions of the job that the next plans see; NULL: none */
    } rows[] = {
        {"applied", {cut, event}, 2, NULL, AT("2", FAILS)},
        {"applied, and its version edited", {cut, event}, 2, NULL, AT("5", FAILS)},
        {"applied, which the watch shows late", {cut, conflict, event}, 3, AT("1", RUNS),
            AT("2", FAILS)},
        {"applied, with no answer twice", {cut, cut, event}, 3, AT("1", RUNS), AT("2", FAILS)},
        {"not applied", {cut, done, event}, 3, AT("1", RUNS), AT("2", FAILS)},
        {"not applied, as somebody was faster", {cut}, 1, NULL, AT("2", RUNS)},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        void *one = NULL;
        (void)setup(&one);
        struct world *w = one;
        serve(w, rows[i].steps, rows[i].n);
        struct plan_seen seen = {0};
        const char *versions[] = {AT("1", RUNS), rows[i].second, rows[i].then, rows[i].then};
        for (size_t n = 0; n < CO_ARRAY_LEN(versions); n++) {
            bool stored = n >= 2;
            if (!versions[n]) {
                continue;
            }
            ctl_execution_recall(w->execution, "u", &seen);
            w->plan.phase = stored ? API_PHASE_RUNNING : API_PHASE_FAILED;
            if (!stored) { /* the transition is the plan's own */
                w->plan.events = co_xcalloc(1, sizeof(*w->plan.events));
                w->plan.events[0] = (struct plan_event){.warning = true,
                    .state = true,
                    .reason = "Failed",
                    .message = co_xstrdup("no")};
                w->plan.n_events = 1;
            }
            json_t *job = tk_json(versions[n]);
            CO_AUTOFREE char *same = co_json_dump(json_object_get(job, "status"));
            begin_with(w, job, stored ? same : "{" FAILS "}", true);
            await(w);
        }
        while (w->recorder.flying && !w->late) {
            co_loop_turn(w->loop);
        }
        if (w->server.wrong || w->server.served != FAKE_WATCHES + rows[i].n) {
            fail_msg("%s: %zu requests", rows[i].what, w->server.served - FAKE_WATCHES);
        }
        assert_true(ctl_execution_is_blank(w->execution) || rows[i].n > 1);
        (void)teardown(&one);
    }
}

static void the_status_delay_of_a_job_created_in_parts_begins_once(void **state) {
    struct world *w = *state;
    static struct fake_step steps[PART];
    for (size_t i = 0; i < PART; i++) {
        steps[i] = (struct fake_step){"POST ", 201, MADE, FAKE_KEEP, NULL};
    }
    serve(w, steps, PART);
    plan_actions(w, PART, PLAN_CREATE, PLAN_KIND_POD);
    begin(w, one_is_done, false);
    int64_t began = co_now_ms();
    await(w);
    assert_waiting(w, "paddlejob_status_waiting 1\n");
    assert_true(w->wake_ms >= began + PACE_MS);
}

enum { OTHERS = 7, BYTES = 7 << 19 /* one more than six of them are too many */ };

/* Creates of other jobs, which are sent with the loop's next turn. */
static void crowd(struct world *w, const char *ns, struct kube_op *ret[OTHERS]) {
    CO_AUTOFREE char *text = co_xmalloc(BYTES);
    memset(text, 'a', BYTES);
    CO_AUTOJSON json_t *body = json_pack("{s:s%}", "a", text, (size_t)BYTES);
    for (size_t i = 0; i < OTHERS; i++) {
        struct kube_req req = kube_req_for(
            KUBE_CREATE, ctl_feeds_type(w->feeds, CTL_STORE_PODS), ns, NULL, NULL, NULL);
        req.body = body;
        assert_true(ctl_execution_creates_max(w->execution) == PART);
        ret[i] = kube_do(w->client, &req);
    }
}

static void disperse(struct kube_op *const others[OTHERS]) {
    for (size_t i = 0; i < OTHERS; i++) {
        kube_cancel(others[i]);
    }
}

static void creates_wait_while_too_many_bytes_are_in_flight(void **state) {
    struct world *w = *state;
    static const struct fake_step made = {"POST ", 201, MADE, FAKE_KEEP, NULL};
    struct kube_op *others[OTHERS];
    serve(w, &made, 1);
    crowd(w, "ns", others);
    assert_int_equal(ctl_execution_creates_max(w->execution), 1);
    plan_actions(w, 1, PLAN_CREATE, PLAN_KIND_POD);
    int64_t began = co_now_ms();
    begin(w, one_is_done, false);
    assert_int_equal(w->over, 1);
    assert_in_range(w->wake_ms, began + 1, began + PACE_MS - 1);
    disperse(others);
    plan_actions(w, 1, PLAN_CREATE, PLAN_KIND_POD);
    begin(w, one_is_done, false);
    await(w);
    assert_int_equal(w->server.served, FAKE_WATCHES + 1);
}

static void creates_are_few_while_another_namespace_fills_the_client(void **state) {
    struct world *w = *state;
    enum { LITTLE = 4 };
    struct kube_op *others[OTHERS];
    serve(w, &written, 0);
    crowd(w, "another", others);
    assert_int_equal(ctl_execution_creates_max(w->execution), LITTLE);
    size_t before = kube_client_pending(w->client);
    plan_actions(w, LITTLE, PLAN_CREATE, PLAN_KIND_POD);
    begin(w, one_is_done, false);
    assert_int_equal(kube_client_pending(w->client), before + LITTLE);
    assert_int_equal(
        ctl_execution_creates_max(w->execution), 1); /* it has something on its way now */
    ctl_execution_abort(w->execution);
    disperse(others);
}

/* Until the pods that it is for are there; then the next ones ask again. */
static void a_token_is_remembered_while_pods_are_missing(void **state) {
    struct world *w = *state;
    static const struct {
        enum plan_kind kind;
        bool lacks_pods, token;
    } rows[] = {
        {PLAN_KIND_SECRET, true, true}, {PLAN_KIND_POD, true, true},
        {PLAN_KIND_CONFIGMAP, false, false},
        {PLAN_KIND_SECRET, false, false}, /* made for pods that nobody wants any more */
    };
    struct fake_step steps[CO_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        steps[i] = (struct fake_step){"POST ", 201, MADE, FAKE_KEEP, NULL};
    }
    struct plan_seen seen = {0};
    serve(w, steps, CO_ARRAY_LEN(steps));
    ctl_execution_recall(w->execution, "u", &seen);
    assert_false(seen.token);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        plan_actions(w, 1, PLAN_CREATE, rows[i].kind);
        w->plan.lacks_pods = rows[i].lacks_pods;
        begin(w, one_is_done, false);
        await(w);
        ctl_execution_recall(w->execution, "u", &seen);
        assert_int_equal(seen.token, rows[i].token);
        bool at_once = w->wake_ms <= co_now_ms();
        assert_int_equal(at_once, rows[i].kind == PLAN_KIND_SECRET); /* the pods follow */
    }
}

static void another_job_of_the_name_has_another_token(void **state) {
    struct world *w = *state;
    static const struct fake_step made = {"POST ", 201, MADE, FAKE_KEEP, NULL};
    struct plan_seen seen = {0};
    serve(w, &made, 1);
    ctl_execution_recall(w->execution, "u", &seen);
    plan_actions(w, 1, PLAN_CREATE, PLAN_KIND_SECRET);
    w->plan.lacks_pods = true;
    begin(w, one_is_done, false);
    await(w);
    ctl_execution_recall(w->execution, "u", &seen);
    assert_true(seen.token);
    ctl_execution_recall(w->execution, "of another job", &seen);
    assert_false(seen.token);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            completed_indexes_are_recalled_before_the_status_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_conflict_before_the_status_write_keeps_completed_indexes, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_execution_with_a_delayed_write_is_not_blank, setup, teardown),
        cmocka_unit_test_setup_teardown(urgent_status_writes_are_sent_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(conflicts_delay_a_status_write_only_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_attempt_that_is_not_stored_is_written_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_field_that_is_not_stored_is_logged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_status_that_is_not_found_is_tried_again, setup, teardown),
        cmocka_unit_test(the_end_of_a_job_is_reported_although_its_write_was_cut),
        cmocka_unit_test_setup_teardown(
            the_status_delay_of_a_job_created_in_parts_begins_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            creates_wait_while_too_many_bytes_are_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(
            creates_are_few_while_another_namespace_fills_the_client, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_token_is_remembered_while_pods_are_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(another_job_of_the_name_has_another_token, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
