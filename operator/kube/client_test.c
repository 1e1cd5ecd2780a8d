#include "operator/kube/client.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "operator/kube/fake_server_testing.h"

static const struct kube_type pods = {"", "v1", "pods", "Pod"};

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_config *cfg;
    struct kube_client_opts opts;
    struct kube_client *client;
    struct co_timer *deadline;
    bool late, drained;
    /* of the last answer */
    int calls, code, status;
    int64_t retry_after_ms;
    char reason[64], message[128], error[CO_ERR_MAX], text[128];
    bool had_body;
    struct kube_sample sample;
    size_t samples;
};

static void on_done(void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct world *w = arg;
    w->calls++;
    w->code = code;
    w->status = reply->status;
    w->retry_after_ms = reply->retry_after_ms;
    w->had_body = reply->body != NULL;
    snprintf(w->reason, sizeof(w->reason), "%s", reply->reason);
    snprintf(w->message, sizeof(w->message), "%s", reply->message);
    snprintf(w->error, sizeof(w->error), "%s", code ? err->msg : "");
    snprintf(w->text, sizeof(w->text), "%.100s", reply->text);
    assert_int_equal(strlen(reply->text), reply->len);
}

static void on_sample(void *arg, const struct kube_sample *s) {
    struct world *w = arg;
    w->sample = *s;
    w->sample.resource = NULL;
    w->sample.subresource = NULL;
    w->samples++;
}

static void on_drained(void *arg) {
    struct world *w = arg;
    w->drained = true;
}

static void on_deadline(void *arg) {
    struct world *w = arg;
    w->late = true;
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    w->cfg = fake_config(&w->server);
    w->opts.sample = on_sample;
    w->opts.sample_arg = w;
    w->deadline = co_timer_new(w->loop, on_deadline, w);
    co_timer_start(w->deadline, 60 * 1000);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    kube_client_free(w->client);
    kube_config_free(w->cfg);
    fake_stop(&w->server);
    co_timer_free(w->deadline);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static void begin(struct world *w, const struct fake_step *steps, size_t n) {
    fake_script(&w->server, steps, n);
    assert_int_equal(kube_client_new(w->loop, co_steal_ptr(w->cfg), &w->opts, &w->client, NULL), 0);
}

static void until_calls(struct world *w, int calls) {
    while (w->calls < calls && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->calls, calls);
}

static void until_served(struct world *w, size_t n) {
    while (w->server.served < n && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->server.served, n);
}

static struct kube_op *send_name(struct world *w, enum kube_class class, const char *name) {
    struct kube_req req = kube_req_for(KUBE_GET, &pods, "d", name, on_done, w);
    req.class = class;
    return kube_do(w->client, &req);
}

static void verbs_become_requests(void **state) {
    struct world *w = *state;
    static const struct {
        enum kube_verb verb;
        const char *name, *subresource;
        bool body;
        const char *expect[3];
    } rows[] = {
        {KUBE_GET, "x", NULL, false, {"GET /api/v1/namespaces/d/pods/x HTTP"}},
        {KUBE_CREATE, NULL, NULL, true,
            {"POST /api/v1/namespaces/d/pods HTTP", "Content-Type: application/json\r\n",
                "\r\n\r\n{\"a\":1}"}},
        {KUBE_UPDATE, "x", "status", true, {"PUT /api/v1/namespaces/d/pods/x/status HTTP"}},
        {KUBE_PATCH, "x", NULL, true,
            {"PATCH /api/v1/namespaces/d/pods/x HTTP",
                "Content-Type: application/merge-patch+json\r\n"}},
        {KUBE_DELETE, "x", NULL, true, {"DELETE /api/v1/namespaces/d/pods/x HTTP"}},
        {KUBE_DELETECOLLECTION, NULL, NULL, false,
            {"DELETE /api/v1/namespaces/d/pods HTTP", "User-Agent: paddle-operator/"}},
    };
    struct fake_step steps[CO_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        steps[i] = (struct fake_step){rows[i].expect[0], 200, FAKE_OBJECT("x"), FAKE_KEEP, NULL};
    }
    begin(w, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *body = json_pack("{s:i}", "a", 1);
        struct kube_req req = kube_req_for(rows[i].verb, &pods, "d", rows[i].name, on_done, w);
        req.subresource = rows[i].subresource;
        req.body = rows[i].body ? body : NULL;
        (void)kube_do(w->client, &req);
        until_calls(w, (int)i + 1);
        assert_int_equal(w->code, 0);
        assert_true(w->had_body);
        for (size_t k = 1; k < 3 && rows[i].expect[k]; k++) {
            assert_non_null(strstr(w->server.requests[i], rows[i].expect[k]));
        }
        assert_int_equal(w->sample.sent, rows[i].body ? 7 : 0);
        assert_int_equal(w->sample.received, strlen(FAKE_OBJECT("x")));
        assert_int_equal(w->sample.status, 200);
    }
    assert_false(w->server.wrong);
}

static void a_refusal_carries_the_servers_words(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{NULL, 409,
        "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"pods x exists\","
        "\"details\":{\"retryAfterSeconds\":2}}"}};
    begin(w, steps, 1);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 1);
    assert_int_equal(w->code, CO_EXISTS);
    assert_int_equal(w->status, 409);
    assert_string_equal(w->reason, "AlreadyExists");
    assert_string_equal(w->message, "pods x exists");
    assert_string_equal(w->error, "get pods d/x: pods x exists (409 AlreadyExists)");
    assert_int_equal(w->retry_after_ms, 2000);
    assert_false(w->had_body);
}

static void answers_that_no_api_server_gives_are_errors(void **state) {
    (void)state;
    static const struct {
        struct fake_step step;
        int code;
    } rows[] = {
        {{NULL, 200, "<html>login"}, CO_UNAVAILABLE},
        {{NULL, 200, ""}, CO_UNAVAILABLE},
        {{NULL, 200, "{}"}, CO_UNAVAILABLE},
        {{NULL, 200, "{\"kind\":\"Status\",\"status\":\"Success\"}"}, CO_UNAVAILABLE},
        {{NULL, 200, FAKE_OBJECT("y")}, CO_UNAVAILABLE},
        {{NULL, 302, ""}, CO_INTERNAL},
        {{NULL, 502, "<html>bad gateway"}, CO_UNAVAILABLE},
        {{NULL, 200, "{\"a\":", FAKE_CUT}, CO_UNAVAILABLE},
        {{NULL, 0, NULL, FAKE_CUT}, CO_UNAVAILABLE},
        {{NULL, 200, "{\"a\":\"0123456789012345678901234567890123456789\"}"}, CO_NORESOURCE},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        void *s;
        setup(&s);
        struct world *w = s;
        w->opts.reply_max = 45;
        begin(w, &rows[i].step, 1);
        (void)send_name(w, KUBE_CLASS_WORK, "x");
        until_calls(w, 1);
        assert_int_equal(w->code, rows[i].code);
        assert_true(w->error[0]);
        teardown(&s);
    }
}

static void wrong_arguments_come_back_through_the_callback(void **state) {
    struct world *w = *state;
    begin(w, NULL, 0);
    (void)send_name(w, KUBE_CLASS_WORK, "..");
    assert_int_equal(w->calls, 0);
    until_calls(w, 1);
    assert_int_equal(w->code, CO_INVALID);
    assert_string_equal(w->error, "get pods d/..: name \"..\" cannot be part of a path");
    assert_int_equal(kube_client_pending(w->client), 0);
}

static void a_refused_connection_is_unavailable(void **state) {
    struct world *w = *state;
    fake_stop(&w->server); /* its port stays this process's */
    begin(w, NULL, 0);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 1);
    assert_int_equal(w->code, CO_UNAVAILABLE);
    assert_int_equal(w->status, 0);
    w->server = (struct fake_server){.fd = -1};
}

static void a_deadline_holds_in_the_queue(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"/pods/a ", 0, NULL, FAKE_HOLD}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 1;
    begin(w, steps, CO_ARRAY_LEN(steps));
    struct kube_req b = kube_req_for(KUBE_GET, &pods, "d", "b", on_done, w);
    b.deadline_ms = 20;
    (void)send_name(w, KUBE_CLASS_WORK, "a");
    until_served(w, 1);
    (void)kube_do(w->client, &b);
    until_calls(w, 1);
    assert_int_equal(w->code, CO_TIMEOUT);
    assert_non_null(strstr(w->error, "get pods d/b: deadline passed"));
    assert_int_equal(kube_client_pending(w->client), 1);
}

static void a_deadline_ends_a_request_in_flight(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"/pods/a ", 0, NULL, FAKE_HOLD}, {"/pods/c ", 200, FAKE_OBJECT("c")}};
    begin(w, steps, CO_ARRAY_LEN(steps));
    struct kube_req a = kube_req_for(KUBE_GET, &pods, "d", "a", on_done, w);
    a.deadline_ms = 1000;
    (void)kube_do(w->client, &a);
    until_calls(w, 1);
    assert_int_equal(w->code, CO_TIMEOUT);
    assert_non_null(strstr(w->error, "get pods d/a"));
    /* What swallowed a request without a word is not trusted with the next. */
    (void)send_name(w, KUBE_CLASS_WORK, "c");
    until_calls(w, 2);
    assert_int_equal(w->code, 0);
    assert_int_equal(w->server.n_connections, 2);
}

static void lanes_have_budgets_of_their_own(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"/work", 0, NULL, FAKE_HOLD},
        {"/work", 0, NULL, FAKE_HOLD}, {"/status", 200, FAKE_OBJECT("status")},
        {"/work", 200, FAKE_OBJECT("work")}};
    struct kube_op *work[5];
    w->opts.lane_limit[KUBE_CLASS_WORK] = 2;
    begin(w, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < CO_ARRAY_LEN(work); i++) {
        work[i] = send_name(w, KUBE_CLASS_WORK, "work");
    }
    until_served(w, 2);
    (void)send_name(w, KUBE_CLASS_STATUS, "status");
    until_calls(w, 1);
    assert_int_equal(w->server.served, 3);
    assert_int_equal(kube_client_pending(w->client), 5);
    /* A place that falls free is taken. */
    kube_cancel(work[4]);
    kube_cancel(work[3]);
    kube_cancel(work[0]);
    until_calls(w, 2);
    kube_client_drain(w->client, on_drained, w);
    co_loop_turn(w->loop);
    assert_false(w->drained);
    kube_cancel(work[1]);
    while (!w->drained && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_true(w->drained);
    assert_int_equal(w->calls, 2);
    assert_false(w->server.wrong);
}

static void flows_take_turns(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"/big", 200, FAKE_OBJECT("big")},
        {"/small", 200, FAKE_OBJECT("small")}, {"/big", 200, FAKE_OBJECT("big")},
        {"/big", 200, FAKE_OBJECT("big")}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 1;
    begin(w, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < 4; i++) {
        struct kube_req req =
            kube_req_for(KUBE_GET, &pods, "d", i < 3 ? "big" : "small", on_done, w);
        req.flow = i < 3 ? 7 : 8;
        (void)kube_do(w->client, &req);
    }
    until_calls(w, 4);
    assert_false(w->server.wrong);
}

static void namespaces_take_turns_whatever_their_flows(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"/big/pods/a", 200, FAKE_OBJECT("a")},
        {"/small/pods/x", 200, FAKE_OBJECT("x")}, {"/big/pods/c", 200, FAKE_OBJECT("c")},
        {"/small/pods/y", 200, FAKE_OBJECT("y")}, {"/big/pods/b", 200, FAKE_OBJECT("b")}};
    static const struct {
        const char *ns, *name;
        uint64_t flow;
    } sent[] = {
        {"big", "a", 7}, {"big", "b", 7}, {"big", "c", 8}, {"small", "x", 7}, {"small", "y", 7}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 1;
    begin(w, steps, CO_ARRAY_LEN(steps));
    for (size_t i = 0; i < CO_ARRAY_LEN(sent); i++) {
        struct kube_req req = kube_req_for(KUBE_GET, &pods, sent[i].ns, sent[i].name, on_done, w);
        req.flow = sent[i].flow;
        (void)kube_do(w->client, &req);
    }
    until_calls(w, 5);
    assert_false(w->server.wrong);
}

static void a_429_is_waited_out(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{"/pods/", 429, "{}", FAKE_KEEP, "Retry-After: 1\r\n"},
        {"/pods/", 429, "{}", FAKE_KEEP, "Retry-After: 1\r\n"},
        {"/status ", 200, FAKE_OBJECT("status")}, {"/pods/a ", 200, FAKE_OBJECT("a")},
        {"/pods/b ", 200, FAKE_OBJECT("b")}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 2;
    begin(w, steps, CO_ARRAY_LEN(steps));
    (void)send_name(w, KUBE_CLASS_WORK, "a");
    (void)send_name(w, KUBE_CLASS_WORK, "b");
    while (w->samples < 2 && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->sample.status, 429);
    assert_int_equal(w->calls, 0);
    /* The other classes continue, and this one comes back one at a time. */
    (void)send_name(w, KUBE_CLASS_STATUS, "status");
    until_calls(w, 1);
    assert_int_equal(w->server.served, 3);
    until_calls(w, 3);
    assert_int_equal(w->code, 0);
    assert_int_equal(w->samples, 5);
    assert_false(w->server.wrong);
}

static void a_429_is_reported_when_there_is_no_time_to_wait(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{NULL, 429, "{}", FAKE_KEEP, "Retry-After: 7\r\n"}};
    begin(w, steps, 1);
    struct kube_req req = kube_req_for(KUBE_GET, &pods, "d", "a", on_done, w);
    req.deadline_ms = 5000;
    (void)kube_do(w->client, &req);
    until_calls(w, 1);
    assert_int_equal(w->code, CO_UNAVAILABLE);
    assert_int_equal(w->status, 429);
    assert_int_equal(w->retry_after_ms, 7000);
}

/* A gateway's hour would stop the jobs of all namespaces. */
static void a_429_is_waited_out_for_half_a_minute_at_most(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{NULL, 429, "{}", FAKE_KEEP, "Retry-After: 3600\r\n"}};
    begin(w, steps, 1);
    struct kube_req req = kube_req_for(KUBE_GET, &pods, "d", "a", on_done, w);
    req.deadline_ms = 120 * 1000;
    (void)kube_do(w->client, &req);
    while (w->samples < 1 && !w->late) {
        co_loop_turn(w->loop);
    }
    req.name = "b";
    req.deadline_ms = 1;
    (void)kube_do(w->client, &req);
    until_calls(w, 1);
    assert_int_equal(w->code, CO_TIMEOUT);
    int64_t s = 0;
    assert_int_equal(
        sscanf(w->error, "get pods d/b: not sent: the API server asks to wait, %" SCNd64 " s", &s),
        1);
    assert_in_range(s, 1, 32);
    assert_int_equal(kube_client_pending(w->client), 1);
}

/* Else the server's load would cost the leader its lease. */
static void a_lease_waits_for_a_second_whatever_a_429_asks_for(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {NULL, 429, "{}", FAKE_KEEP, "Retry-After: 32\r\n"}, {NULL, 200, FAKE_OBJECT("a")}};
    begin(w, steps, CO_ARRAY_LEN(steps));
    struct kube_req req = kube_req_for(KUBE_GET, &pods, "d", "a", on_done, w);
    req.class = KUBE_CLASS_LEASE;
    req.deadline_ms = 5000;
    (void)kube_do(w->client, &req);
    until_calls(w, 1);
    assert_int_equal(w->code, 0);
    assert_int_equal(w->server.served, 2);
}

/* Of all tenants' requests, one webhook's word for one tenant would hold up all. */
static void a_webhooks_429_is_an_answer(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {NULL, 429,
            "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\",\"message\":\"admission "
            "webhook \\\"x\\\" denied the request: later\"}",
            FAKE_KEEP, "Retry-After: 3600\r\n"},
        {NULL, 200, FAKE_OBJECT("y")}};
    begin(w, steps, 2);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 1);
    assert_int_equal(w->code, CO_NORESOURCE);
    (void)send_name(w, KUBE_CLASS_WORK, "y");
    until_calls(w, 2);
    assert_int_equal(w->code, 0);
}

static void a_queue_has_a_maximum(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{NULL, 0, NULL, FAKE_HOLD}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 1;
    w->opts.queue_max = 2;
    begin(w, steps, 1);
    (void)send_name(w, KUBE_CLASS_WORK, "a");
    until_served(w, 1);
    for (size_t i = 0; i < 3; i++) {
        (void)send_name(w, KUBE_CLASS_WORK, "b");
    }
    until_calls(w, 1);
    assert_int_equal(w->code, CO_NORESOURCE);
    assert_int_equal(kube_client_pending(w->client), 3);
}

static void a_token_file_is_read_again_when_it_is_refused(void **state) {
    struct world *w = *state;
    char path[] = "/tmp/kube-token-XXXXXX";
    co_close(mkstemp(path));
    static const struct fake_step steps[] = {
        {"Authorization: Bearer one\r\n", 200, FAKE_OBJECT("x")},
        {"Authorization: Bearer one\r\n", 401, "{}"},
        {"Authorization: Bearer two\r\n", 200, FAKE_OBJECT("x")},
        {"Authorization: Bearer two\r\n", 401, "{}"}, {"Authorization: Bearer two\r\n", 401, "{}"}};
    assert_int_equal(co_file_write(path, "one\n", 4, 0600, NULL), 0);
    w->cfg->token_file = co_xstrdup(path);
    begin(w, steps, CO_ARRAY_LEN(steps));
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 1);
    assert_int_equal(co_file_write(path, "two\n", 4, 0600, NULL), 0);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 2);
    assert_int_equal(w->code, 0);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 3);
    assert_int_equal(w->code, CO_PERMISSION);
    assert_int_equal(w->server.served, 5);
    assert_false(w->server.wrong);
    assert_int_equal(unlink(path), 0);
}

static void name_and_password_become_basic_auth(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"Authorization: Basic dTpwOnE=\r\n", 200, FAKE_OBJECT("x")}};
    w->cfg->username = co_xstrdup("u");
    w->cfg->password = co_xstrdup("p:q");
    begin(w, steps, 1);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    until_calls(w, 1);
    assert_false(w->server.wrong);
}

/* A plugin's failure is not an answer about the object, least of all "not found". */
static void requests_fail_with_their_credential(void **state) {
    struct world *w = *state;
    struct kube_exec *e = co_xcalloc(1, sizeof(*e));
    e->command = co_xstrdup("no-such-credential-plugin");
    e->args = co_xcalloc(1, sizeof(*e->args));
    e->env = co_xcalloc(1, sizeof(*e->env));
    e->api_version = co_xstrdup("client.authentication.k8s.io/v1");
    w->cfg->exec = e;
    begin(w, NULL, 0);
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    (void)send_name(w, KUBE_CLASS_LEASE, "y");
    until_calls(w, 2);
    assert_int_equal(w->code, CO_PERMISSION);
    assert_non_null(strstr(w->error, "no-such-credential-plugin"));
}

static void a_plugin_is_asked_once_for_many_requests(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {"Authorization: Bearer from-plugin\r\n", 200, FAKE_OBJECT("x")},
        {"Authorization: Bearer from-plugin\r\n", 200, FAKE_OBJECT("y")},
        {"Authorization: Bearer from-plugin\r\n", 401, "{}"}};
    struct kube_exec *e = co_xcalloc(1, sizeof(*e));
    e->command = co_xstrdup("sh");
    e->args = co_xcalloc(3, sizeof(*e->args));
    e->args[0] = co_xstrdup("-c");
    e->args[1] = co_xstrdup("printf '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                            "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":"
                            "\"from-plugin\"}}'");
    e->env = co_xcalloc(1, sizeof(*e->env));
    e->api_version = co_xstrdup("client.authentication.k8s.io/v1");
    w->cfg->exec = e;
    begin(w, steps, CO_ARRAY_LEN(steps));
    (void)send_name(w, KUBE_CLASS_WORK, "x");
    (void)send_name(w, KUBE_CLASS_STATUS, "y");
    until_calls(w, 2);
    assert_int_equal(w->code, 0);
    /* Refused right after it was made: a plugin is not run in a circle. */
    (void)send_name(w, KUBE_CLASS_STATUS, "y");
    until_calls(w, 3);
    assert_int_equal(w->code, CO_PERMISSION);
    assert_false(w->server.wrong);
}

static void freeing_the_client_cancels_all_requests(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {{NULL, 0, NULL, FAKE_HOLD}};
    w->opts.lane_limit[KUBE_CLASS_WORK] = 1;
    begin(w, steps, 1);
    (void)send_name(w, KUBE_CLASS_WORK, "flying");
    (void)send_name(w, KUBE_CLASS_WORK, "waiting");
    until_served(w, 1);
    (void)send_name(w, KUBE_CLASS_WORK, "..");
    kube_client_free(co_steal_ptr(w->client));
    co_loop_turn(w->loop);
    assert_int_equal(w->calls, 0);
}

#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(verbs_become_requests),
        WORLD_TEST(a_refusal_carries_the_servers_words),
        cmocka_unit_test(answers_that_no_api_server_gives_are_errors),
        WORLD_TEST(wrong_arguments_come_back_through_the_callback),
        WORLD_TEST(a_refused_connection_is_unavailable),
        WORLD_TEST(a_deadline_holds_in_the_queue),
        WORLD_TEST(a_deadline_ends_a_request_in_flight),
        WORLD_TEST(lanes_have_budgets_of_their_own),
        WORLD_TEST(flows_take_turns),
        WORLD_TEST(namespaces_take_turns_whatever_their_flows),
        WORLD_TEST(a_429_is_waited_out),
        WORLD_TEST(a_429_is_reported_when_there_is_no_time_to_wait),
        WORLD_TEST(a_429_is_waited_out_for_half_a_minute_at_most),
        WORLD_TEST(a_lease_waits_for_a_second_whatever_a_429_asks_for),
        WORLD_TEST(a_webhooks_429_is_an_answer),
        WORLD_TEST(a_queue_has_a_maximum),
        WORLD_TEST(a_token_file_is_read_again_when_it_is_refused),
        WORLD_TEST(name_and_password_become_basic_auth),
        WORLD_TEST(requests_fail_with_their_credential),
        WORLD_TEST(a_plugin_is_asked_once_for_many_requests),
        WORLD_TEST(freeing_the_client_cancels_all_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
