#include "operator/control/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "operator/control/control_testing.h"
#include "operator/control/fake_feeds_testing.h"
#include "operator/kube/clock.h"

enum { ACTIONS = 50 };

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_client *client;
    struct ctl_metrics *metrics;
    struct ctl_load load;
    struct ctl_store store;
    struct ctl_feeds *feeds;
    struct ctl_apiserver api;
    struct co_timer *deadline;
    bool late;
    struct ctl_failures failures;
    struct plan_action action[ACTIONS];
    struct plan plan;
    struct api_job job;
    /* of the last plan */
    bool done;
    struct ctl_tally tally;
    bool tried[ACTIONS];
    char error[ACTIONS][128];
    char warnings[ACTIONS][128];
    size_t error_len; /* of the last */
};

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static void on_deadline(void *arg) {
    struct world *w = arg;
    w->late = true;
}

static void on_done(void *arg, const struct ctl_tally *tally, const struct plan_outcome *outcomes) {
    struct world *w = arg;
    assert_false(w->done);
    w->done = true;
    w->tally = *tally;
    for (size_t i = 0; i < w->plan.n_actions; i++) {
        w->error_len = outcomes[i].error ? strlen(outcomes[i].error) : 0;
        w->tried[i] = outcomes[i].tried;
        (void)snprintf(
            w->error[i], sizeof(w->error[i]), "%s", outcomes[i].error ? outcomes[i].error : "");
        (void)snprintf(w->warnings[i], sizeof(w->warnings[i]), "%s",
            outcomes[i].warnings ? outcomes[i].warnings : "");
    }
}

static void put_pod(struct world *w, const char *name) {
    CO_AUTOJSON json_t *pod =
        json_pack("{s:{s:s,s:s,s:s,s:s,s:[{s:s,s:s,s:s,s:s,s:b}]}}", "metadata", "name", name,
            "namespace", "ns", "uid", "p", "resourceVersion", "1", "ownerReferences", "apiVersion",
            API_VERSION, "kind", API_KIND, "name", "x", "uid", "u", "controller", 1);
    tk_put(&w->store, CTL_STORE_PODS, pod, 0);
}

/* The server plays `steps` once the feeds have asked for their lists. */
static void begin(struct world *w, const struct fake_step *steps, size_t n) {
    /* One request after the other, so that the answers come in the order of the plan. */
    const struct kube_client_opts opts = {.lane_limit = {[KUBE_CLASS_WORK] = 1}};
    fake_feeds(&w->server, steps, n, &opts, &w->store, w->metrics, &w->late, &w->client, &w->feeds);
    w->api = (struct ctl_apiserver){.client = w->client,
        .store = &w->store,
        .feeds = w->feeds,
        .metrics = w->metrics,
        .load = &w->load};
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    w->deadline = co_timer_new(w->loop, on_deadline, w);
    co_timer_start(w->deadline, 60 * 1000);
    w->metrics = ctl_metrics_new();
    ctl_store_init(&w->store, ignore, ignore, NULL);
    w->job = (struct api_job){.uid = "u", .phase = API_PHASE_RUNNING};
    w->plan = (struct plan){.actions = w->action};
    put_pod(w, "x-ps-0");
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    ctl_failures_clear(&w->failures);
    ctl_feeds_free(w->feeds);
    kube_client_free(w->client);
    ctl_store_done(&w->store);
    ctl_metrics_free(w->metrics);
    assert_false(w->server.wrong);
    fake_stop(&w->server);
    co_timer_free(w->deadline);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static struct ctl_requests *start(struct world *w, size_t room) {
    w->done = false;
    memset(w->tried, 0, sizeof(w->tried));
    struct ctl_requests *q = ctl_requests_new(&(struct ctl_requests_opts){.api = &w->api,
        .entry = ctl_store_entry(&w->store, "ns", "x"),
        .job = &w->job,
        .plan = &w->plan,
        .failures = &w->failures,
        .done = on_done,
        .arg = w});
    ctl_requests_send(q, room);
    return q;
}

static void carry_out(struct world *w, size_t room) {
    struct ctl_requests *q = start(w, room);
    while (!w->done && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_true(w->done);
    ctl_requests_free(q);
}

static struct plan_action action(enum plan_verb verb, enum plan_kind kind, const char *name) {
    return (struct plan_action){.verb = verb,
        .kind = kind,
        .name = (char *)(uintptr_t)name,
        .uid = (char *)(uintptr_t) "p",
        .body = verb == PLAN_DELETE ? NULL : json_pack("{s:{s:s}}", "metadata", "name", name),
        .why = "missing"};
}

/* ---- one answer ------------------------------------------------------------------------- */

#define LABELLED_POD                                                                               \
    "{\"metadata\":{\"name\":\"x-ps-0\",\"labels\":{\"" API_LABEL_NAME "\":\"x-ps-0\"}}}"
#define STATUS(reason) "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"no\"}"

static const struct {
    const char *what;
    enum plan_verb verb;
    enum plan_kind kind;
    struct fake_step step;
    bool tried;
    const char *error;
    struct ctl_tally tally;
} answers[] = {
    {"created", PLAN_CREATE, PLAN_KIND_POD, {"POST /api/v1/namespaces/ns/pods", 201, LABELLED_POD},
        true, "", {.created = 1}},
    {"created, but a webhook takes its labels", PLAN_CREATE, PLAN_KIND_POD,
        {"POST", 201, FAKE_OBJECT("x-ps-0")}, false, "", {.conflict = true}},
    {"created, it is said, but not what", PLAN_CREATE, PLAN_KIND_POD, {"POST", 201, "{}"}, false,
        "", {.unknown = true}},
    {"patched, it is said", PLAN_PATCH, PLAN_KIND_CONFIGMAP, {"PATCH", 200, ""}, false, "",
        {.unknown = true}},
    {"create refused", PLAN_CREATE, PLAN_KIND_POD, {"POST", 422, STATUS("Invalid")}, true, "no",
        {.rejected = 1, .refused = true}},
    {"the name is taken, perhaps by ours", PLAN_CREATE, PLAN_KIND_POD,
        {"POST", 409, STATUS("AlreadyExists")}, false, "", {.conflict = true}},
    {"no word", PLAN_CREATE, PLAN_KIND_POD, {"POST", 504, STATUS("Timeout")}, false, "",
        {.unknown = true}},
    {"deleted", PLAN_DELETE, PLAN_KIND_POD, {"\"uid\":\"p\"", 200, "{}"}, true, "", {0}},
    {"deleted by another", PLAN_DELETE, PLAN_KIND_POD, {"DELETE", 404, STATUS("NotFound")}, true,
        "", {0}},
    {"delete of its successor", PLAN_DELETE, PLAN_KIND_POD, {"DELETE", 409, STATUS("Conflict")},
        false, "", {.conflict = true}},
    {"delete refused", PLAN_DELETE, PLAN_KIND_POD, {"DELETE", 403, STATUS("Forbidden")}, true, "no",
        {.refused = true}},
    {"patched", PLAN_PATCH, PLAN_KIND_CONFIGMAP,
        {"PATCH /api/v1/namespaces/ns/configmaps/x-ps-0", 200, FAKE_OBJECT("x-ps-0")}, true, "",
        {0}},
    {"patch of what is gone", PLAN_PATCH, PLAN_KIND_CONFIGMAP, {"PATCH", 404, STATUS("NotFound")},
        true, "", {.conflict = true}},
    {"a token's Secret is made", PLAN_CREATE, PLAN_KIND_SECRET,
        {"POST /api/v1/namespaces/ns/secrets ", 201, FAKE_OBJECT("x-ps-0")}, true, "",
        {.created = 1, .token = true}},
    {"it was there before", PLAN_CREATE, PLAN_KIND_SECRET, {"POST", 409, STATUS("AlreadyExists")},
        false, "", {.token = true}},
    {"no right to make it", PLAN_CREATE, PLAN_KIND_SECRET, {"POST", 403, STATUS("Forbidden")}, true,
        "no", {.rejected = 1, .refused = true}},
    {"what says yes is no API server", PLAN_CREATE, PLAN_KIND_SECRET, {"POST", 200, "garbage"},
        false, "", {.unknown = true}},
    {"no word on it", PLAN_CREATE, PLAN_KIND_SECRET, {"POST", 504, STATUS("Timeout")}, false, "",
        {.unknown = true}},
    {"patch refused", PLAN_PATCH, PLAN_KIND_CONFIGMAP, {"PATCH", 422, STATUS("Invalid")}, true,
        "no", {.refused = true}},
};

static bool same_tally(const struct ctl_tally *a, const struct ctl_tally *b) {
    return a->created == b->created && a->rejected == b->rejected && a->conflict == b->conflict &&
           a->unknown == b->unknown && a->refused == b->refused && a->token == b->token;
}

static void an_answer_is_judged_by_verb_and_status(void **state) {
    for (size_t i = 0; i < CO_ARRAY_LEN(answers); i++) {
        struct world *w = *state;
        begin(w, &answers[i].step, 1);
        w->action[0] = action(answers[i].verb, answers[i].kind, "x-ps-0");
        w->plan.n_actions = 1;
        carry_out(w, SIZE_MAX);
        if (w->tried[0] != answers[i].tried || strcmp(w->error[0], answers[i].error) != 0 ||
            !same_tally(&w->tally, &answers[i].tally)) {
            fail_msg("%s: tried %d, error \"%s\", created %zu, rejected %zu, conflict %d, unknown "
                     "%d, refused %d",
                answers[i].what, w->tried[0], w->error[0], w->tally.created, w->tally.rejected,
                w->tally.conflict, w->tally.unknown, w->tally.refused);
        }
        teardown(state);
        setup(state);
    }
}

/* The value behind "token":" in a request; "" when there is none. */
static void token_in(const char *request, char ret[64]) {
    static const char before[] = "\"stringData\":{\"token\":\"";
    const char *at = strstr(request, before);
    (void)snprintf(ret, 64, "%.*s", at ? (int)strcspn(at + strlen(before), "\"") : 0,
        at ? at + strlen(before) : "");
}

static void each_secret_has_a_token_of_its_own(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {{"POST", 504, STATUS("Timeout"), FAKE_KEEP, NULL},
        {"POST", 201, FAKE_OBJECT("x-token-u"), FAKE_KEEP, NULL}};
    char token[2][64];
    begin(w, steps, CO_ARRAY_LEN(steps));
    w->plan.n_actions = 1;
    for (int i = 0; i < 2; i++) {
        w->action[0] = action(PLAN_CREATE, PLAN_KIND_SECRET, "x-token-u");
        carry_out(w, SIZE_MAX);
        assert_int_equal(w->tally.token, i);
        token_in(w->server.requests[w->server.served - 1], token[i]);
        assert_int_equal(strlen(token[i]), 44); /* 32 bytes */
    }
    assert_string_not_equal(token[0], token[1]);
    assert_int_equal(w->failures.n, 0); /* what was in doubt is settled */
}

/* ---- what is remembered, and what is not sent ------------------------------------------- */

#define LOOKS "GET /api/v1/namespaces/ns/pods?fieldSelector=metadata.name%3Dx-ps-1 "
#define OWNED(uid, more)                                                                           \
    "{\"items\":[{\"metadata\":{\"name\":\"x-ps-1\",\"namespace\":\"ns\",\"uid\":\"p1\"" more      \
    ",\"ownerReferences\":[{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"" API_KIND               \
    "\",\"name\":\"x\",\"uid\":\"" uid "\",\"controller\":true}]}}]}"
#define LABELS(...) ",\"labels\":{" __VA_ARGS__ "}"
#define ENDS ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""
#define TAKEN "pods \"x-ps-1\" already exists"

/* The job is in attempt 3. */
static const struct {
    const char *what, *found;
    struct fake_step then; /* a request that follows; no method: none */
    const char *error;     /* "": the create is tried again */
} taken_names[] = {
    {"gone since", "{\"items\":[]}", {0}, TAKEN},
    {"of another job", OWNED("v", LABELS("")), {0}, TAKEN},
    {"labelled, not seen yet",
        OWNED("u", LABELS("\"" API_LABEL_NAME "\":\"x-ps-1\",\"" API_LABEL_ATTEMPT "\":\"3\"")),
        {0}, TAKEN},
    {"without the label", OWNED("u", LABELS("\"" API_LABEL_ATTEMPT "\":\"3\"")), {0},
        "it has lost its label paddle-res-name, to somebody or to a webhook, so the operator does "
        "not see it: kubectl label pod -n ns x-ps-1 paddle-res-name=x-ps-1, or delete it"},
    {"without an owner", "{\"items\":[{\"metadata\":{\"name\":\"x-ps-1\"}}]}", {0},
        TAKEN ", without an owner: it is not this operator's, or somebody or a webhook has removed "
              "its ownerReferences; delete it"},
    {"of the attempt before, without the label",
        OWNED("u", LABELS("\"" API_LABEL_ATTEMPT "\":\"2\"")),
        {"DELETE /api/v1/namespaces/ns/pods/x-ps-1 ", 200, "{}"}, ""},
    {"the same, and it is gone", OWNED("u", ""),
        {"DELETE /api/v1/namespaces/ns/pods/x-ps-1 ", 404, STATUS("NotFound")}, ""},
    {"the same, and it may not be deleted", OWNED("u", ""),
        {"DELETE /api/v1/namespaces/ns/pods/x-ps-1 ", 403, STATUS("Forbidden")}, "no"},
    {"it ends already", OWNED("u", ENDS), {0}, ""},
};

static void a_taken_name_counts_when_it_stays_taken(void **state) {
    (void)state;
    const struct fake_step taken = {"POST", 409, STATUS("AlreadyExists"), FAKE_KEEP, NULL};
    for (size_t row = 0; row < CO_ARRAY_LEN(taken_names); row++) {
        void *one = NULL;
        (void)setup(&one);
        struct world *w = one;
        const char *error = taken_names[row].error;
        const struct fake_step steps[] = {taken, taken, taken,
            {LOOKS, 200, taken_names[row].found, FAKE_KEEP, NULL}, taken_names[row].then};
        begin(w, steps, taken_names[row].then.expect ? 5 : 4);
        w->job.attempt = 3;
        w->plan.n_actions = 1;
        for (int i = 1; i <= CTL_CREATE_GRACE; i++) {
            w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
            carry_out(w, SIZE_MAX);
            bool refused = i == CTL_CREATE_GRACE && *error;
            assert_int_equal(w->tally.conflict, !refused);
            assert_int_equal(w->tally.refused, refused);
        }
        if (strncmp(w->error[0], error, sizeof(w->error[0]) - 1) != 0) {
            fail_msg("%s: \"%s\"", taken_names[row].what, w->error[0]);
        }
        (void)teardown(&one);
    }
}

static bool nothing_is_overtaken(
    void *arg, enum plan_verb verb, enum plan_kind kind, const char *name) {
    (void)arg;
    (void)verb;
    (void)kind;
    (void)name;
    return false;
}

static void requests_without_an_answer_are_reported(void **state) {
    struct world *w = *state;
    const struct fake_step no = {"POST", 500, STATUS("InternalError"), FAKE_KEEP, NULL};
    const struct fake_step steps[] = {
        no, no, no, {"POST", 409, STATUS("AlreadyExists"), FAKE_KEEP, NULL}};
    const struct plan_failure *reported;
    size_t n;
    begin(w, steps, CO_ARRAY_LEN(steps));
    w->plan.n_actions = 1;
    for (int i = 1; i <= CTL_CREATE_GRACE; i++) {
        w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
        carry_out(w, SIZE_MAX);
        assert_true(w->tally.unknown);
        ctl_failures_view(&w->failures, nothing_is_overtaken, NULL, &reported, &n);
        assert_int_equal(n, i == CTL_CREATE_GRACE);
    }
    assert_string_equal(reported->message, "no");
    assert_true(reported->retry_at <= kube_clock_seconds());
    /* It was done, once. */
    w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
    carry_out(w, SIZE_MAX);
    assert_false(w->tally.refused);
    ctl_failures_view(&w->failures, nothing_is_overtaken, NULL, &reported, &n);
    assert_int_equal(n, 0);
}

static void long_refusals_are_cut_at_a_character(void **state) {
    struct world *w = *state;
    char words[3001] = "";
    for (size_t i = 0; i < 1000; i++) {
        memcpy(words + 3 * i, "\u914d", 4);
    }
    CO_AUTOFREE char *refusal =
        co_xasprintf("{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"%s\"}", words);
    begin(w, &(struct fake_step){"POST", 422, refusal}, 1);
    w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
    w->plan.n_actions = 1;
    carry_out(w, 1);
    assert_int_equal(w->error_len, 999); /* at most 1000, and the last character whole */
}

/* The cluster's users see why; the operator's have nothing to do about it. */
static void a_namespace_that_is_being_deleted_is_no_warning(void **state) {
    struct world *w = *state;
    static const struct {
        const char *message;
        bool warns;
    } rows[] = {
        {"unable to create new content in namespace ns because it is being terminated", false},
        {"exceeded quota", true},
    };
    struct fake_step steps[CO_ARRAY_LEN(rows)];
    char *body[CO_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        body[i] = co_xasprintf("{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":"
                               "\"pods is forbidden: %s\"}",
            rows[i].message);
        steps[i] = (struct fake_step){"POST", 403, body[i]};
    }
    begin(w, steps, CO_ARRAY_LEN(rows));
    w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
    w->plan.n_actions = 1;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int log = memfd_create("log", MFD_CLOEXEC);
        co_log_set_fd(log);
        carry_out(w, 1);
        co_log_set_fd(2);
        assert_non_null(strstr(w->error[0], rows[i].message));
        assert_int_equal(lseek(log, 0, SEEK_END) > 0, rows[i].warns);
        (void)close(log);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        free(body[i]);
    }
}

static void creates_beyond_the_maximum_are_not_sent(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {{"DELETE", 200, "{}", FAKE_KEEP, NULL}};
    begin(w, steps, CO_ARRAY_LEN(steps));
    w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
    w->action[1] = action(PLAN_DELETE, PLAN_KIND_POD, "x-ps-0");
    w->plan.n_actions = 2;
    carry_out(w, 0);
    assert_false(w->tried[0]);
    assert_true(w->tried[1]);
    assert_true(ctl_store_child(&w->store, CTL_STORE_PODS, "ns", "x-ps-0")->child->deleting);
    json_decref(w->action[0].body);
}

static void a_conflict_is_reported_beside_a_not_found(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {{"PATCH", 409, STATUS("Conflict"), FAKE_KEEP, NULL},
        {"DELETE", 404, STATUS("NotFound"), FAKE_KEEP, NULL}};
    begin(w, steps, CO_ARRAY_LEN(steps));
    w->action[0] = action(PLAN_PATCH, PLAN_KIND_CONFIGMAP, "x");
    w->action[1] = action(PLAN_DELETE, PLAN_KIND_POD, "x-ps-0");
    w->plan.n_actions = 2;
    carry_out(w, SIZE_MAX);
    assert_true(w->tally.conflict);
}

/* Whether a group was moved is asked only as long as the edit, or a failure, is remembered. */
static void a_patch_of_a_group_that_was_not_taken_is_remembered(void **state) {
    static const struct {
        int status;
        const char *body;
        bool unknown, conflict;
    } rows[] = {
        {504, STATUS("Timeout"), true, false},
        {409, STATUS("Conflict"), false, true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        const struct fake_step steps[] = {
            {"configmaps/x", rows[i].status, rows[i].body, FAKE_KEEP, NULL},
            {"podgroups/x", rows[i].status, rows[i].body, FAKE_KEEP, NULL}};
        begin(w, steps, CO_ARRAY_LEN(steps));
        w->action[0] = action(PLAN_PATCH, PLAN_KIND_CONFIGMAP, "x");
        w->action[1] = action(PLAN_PATCH, PLAN_KIND_PODGROUP, "x");
        w->plan.n_actions = 2;
        carry_out(w, SIZE_MAX);
        assert_int_equal(w->tally.unknown, rows[i].unknown);
        assert_int_equal(w->tally.conflict, rows[i].conflict);
        assert_int_equal(w->failures.n, 1);
        teardown(state);
        setup(state);
    }
}

static void canceled_creates_are_not_waited_for(void **state) {
    struct world *w = *state;
    const struct fake_step steps[] = {{"", 0, NULL, FAKE_HOLD, NULL}};
    begin(w, steps, CO_ARRAY_LEN(steps));
    w->action[0] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-1");
    w->plan.n_actions = 1;
    struct ctl_requests *q = start(w, SIZE_MAX);
    assert_false(w->done);
    ctl_requests_cancel_creates(q);
    assert_true(w->done);
    assert_int_equal(w->tally.created, 0);
    ctl_requests_free(q);
}

static void a_service_of_that_name_may_be_the_jobs_own(void **state) {
#define SERVICE(uid)                                                                               \
    "{\"metadata\":{\"name\":\"x-ps-0\",\"namespace\":\"ns\",\"uid\":\"s\",\"resourceVersion\":"   \
    "\"5\",\"ownerReferences\":[{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"" API_KIND          \
    "\",\"name\":\"x\",\"uid\":\"" uid "\",\"controller\":true}]}}"
    static const struct {
        const char *found;
        bool stored;
        int32_t noted;
    } rows[] = {
        {SERVICE("u"), true, 0},
        {SERVICE("another"), false, 1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        const struct fake_step steps[] = {{"POST", 409, STATUS("AlreadyExists"), FAKE_KEEP, NULL},
            {"GET /api/v1/namespaces/ns/services/x-ps-0", 200, rows[i].found, FAKE_KEEP, NULL}};
        begin(w, steps, CO_ARRAY_LEN(steps));
        w->action[0] = action(PLAN_CREATE, PLAN_KIND_SERVICE, "x-ps-0");
        w->plan.n_actions = 1;
        carry_out(w, SIZE_MAX);
        assert_true(w->tally.conflict);
        assert_false(w->tried[0]);
        bool stored = ctl_store_child(&w->store, CTL_STORE_SERVICES, "ns", "x-ps-0") != NULL;
        assert_int_equal(stored, rows[i].stored);
        assert_int_equal(w->failures.n, rows[i].noted);
        teardown(state);
        setup(state);
    }
}

/* ---- pods deleted together --------------------------------------------------------------- */

static const char *name_of(int i) {
    static char names[ACTIONS][32];
    (void)snprintf(names[i], sizeof(names[i]), "x-worker-%d", i);
    return names[i];
}

/* Fifty pods of a job that has ended, and a plan that deletes them. */
static void plan_sweep(struct world *w) {
    w->job.phase = API_PHASE_COMPLETED;
    w->plan.n_actions = ACTIONS;
    for (int i = 0; i < ACTIONS; i++) {
        CO_AUTOJSON json_t *pod = json_pack(
            "{s:{s:s,s:s,s:s,s:s,s:{s:s,s:o},s:[{s:s,s:s,s:s,s:s,s:b}]}}", "metadata", "name",
            name_of(i), "namespace", "ns", "uid", "p", "resourceVersion", "1", "labels",
            API_LABEL_UID, "u", API_LABEL_INDEX, json_sprintf("%d", i), "ownerReferences",
            "apiVersion", API_VERSION, "kind", API_KIND, "name", "x", "uid", "u", "controller", 1);
        tk_put(&w->store, CTL_STORE_PODS, pod, 0);
        w->action[i] = action(PLAN_DELETE, PLAN_KIND_POD, name_of(i));
    }
}

/* What the API server answers: pods below end are going, and the last one. */
static char *deleted_below(int end) {
    CO_AUTOJSON json_t *items = json_array();
    for (int i = 0; i < ACTIONS; i++) {
        if (i < end || i == ACTIONS - 1) {
            json_array_append_new(
                items, json_pack("{s:{s:s,s:s}}", "metadata", "name", name_of(i), "uid", "p"));
        }
    }
    CO_AUTOJSON json_t *list = json_pack("{s:O}", "items", items);
    return json_dumps(list, 0);
}

static void each_part_of_a_sweep_is_judged_by_its_own_answer(void **state) {
    static const struct {
        const char *what;
        struct fake_step second;
        bool tried; /* those of the second part */
        struct ctl_tally tally;
    } rows[] = {
        {"refused", {"index%3E24", 422, STATUS("Invalid"), FAKE_KEEP, NULL}, true,
            {.refused = true}},
        {"no right", {"index%3E24", 403, STATUS("Forbidden"), FAKE_KEEP, NULL}, false,
            {.conflict = true}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        plan_sweep(w);
        CO_AUTOFREE char *answer = deleted_below(24); /* pod 24 was not there for it */
        const struct fake_step steps[] = {
            {"index%3C25", 200, answer, FAKE_KEEP, NULL}, rows[i].second};
        begin(w, steps, CO_ARRAY_LEN(steps));
        carry_out(w, SIZE_MAX);
        for (int k = 0; k < ACTIONS; k++) {
            if (w->tried[k] != (k < 24 || (k > 24 && rows[i].tried))) {
                fail_msg("%s: pod %d", rows[i].what, k);
            }
            bool refused = rows[i].tried && k > 24 && k < ACTIONS - 1;
            assert_string_equal(w->error[k], refused ? "no" : "");
        }
        assert_true(same_tally(&w->tally, &rows[i].tally));
        assert_int_equal(w->api.cannot_sweep, rows[i].tally.conflict);
        teardown(state);
        setup(state);
    }
}

static void warnings_of_creates_are_kept(void **state) {
    static const char *const warned[] = {NULL, "a", "a", "b", "c", "d", "e"};
    static const char header[] = "Warning: 299 - \"unknown field \\\"%s\\\"\"\r\n";
    struct world *w = *state;
    struct fake_step steps[CO_ARRAY_LEN(warned)];
    char headers[CO_ARRAY_LEN(warned)][64];
    for (size_t i = 0; i < CO_ARRAY_LEN(warned); i++) {
        (void)snprintf(headers[i], sizeof(headers[i]), header, warned[i] ? warned[i] : "");
        steps[i] =
            (struct fake_step){"POST", 201, LABELLED_POD, FAKE_KEEP, warned[i] ? headers[i] : NULL};
        w->action[i] = action(PLAN_CREATE, PLAN_KIND_POD, "x-ps-0");
    }
    w->plan.n_actions = CO_ARRAY_LEN(warned);
    begin(w, steps, CO_ARRAY_LEN(steps));
    carry_out(w, SIZE_MAX);
    assert_string_equal(w->warnings[0], "");
    assert_string_equal(w->warnings[1], "unknown field \"a\"");
    assert_string_equal(w->warnings[2], w->warnings[1]);
    assert_string_equal(w->warnings[6], ""); /* one text too many */
    assert_string_equal(w->warnings[3], "unknown field \"b\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_is_judged_by_verb_and_status, setup, teardown),
        cmocka_unit_test_setup_teardown(each_secret_has_a_token_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_taken_name_counts_when_it_stays_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_without_an_answer_are_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(long_refusals_are_cut_at_a_character, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_namespace_that_is_being_deleted_is_no_warning, setup, teardown),
        cmocka_unit_test_setup_teardown(creates_beyond_the_maximum_are_not_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_conflict_is_reported_beside_a_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_patch_of_a_group_that_was_not_taken_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(canceled_creates_are_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_service_of_that_name_may_be_the_jobs_own, setup, teardown),
        cmocka_unit_test_setup_teardown(warnings_of_creates_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(
            each_part_of_a_sweep_is_judged_by_its_own_answer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
