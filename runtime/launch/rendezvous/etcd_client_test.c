#include "runtime/launch/rendezvous/etcd_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/http/httpd.h"

/* The gateway answers every request as the test says. */
struct world {
    struct co_loop *loop;
    struct co_httpd *gateway;
    struct rdzv_etcd_client *client;
    int status;
    const char *answer;
    char path[64], body[256], token[64]; /* of the last request */
    int answers, failures, stirred, unwatched;
    enum rdzv_etcd_failure how;
    struct co_err err;
};

static void on_request(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    size_t len;
    const char *token = co_http_header(r, "authorization");
    (void)snprintf(w->path, sizeof(w->path), "%s", co_http_path(r));
    (void)snprintf(w->body, sizeof(w->body), "%s", co_http_body(r, &len));
    (void)snprintf(w->token, sizeof(w->token), "%s", token ? token : "");
    co_http_reply(r, w->status, "application/json", w->answer, strlen(w->answer));
}

static const struct co_http_route routes[] = {{"POST", "/v3/*", on_request}};

static void on_answer(void *arg, const json_t *answer) {
    struct world *w = arg;
    assert_non_null(answer);
    w->answers++;
}

static void on_failed(void *arg, enum rdzv_etcd_failure how, const struct co_err *err) {
    struct world *w = arg;
    w->failures++;
    w->how = how;
    w->err = *err;
}

static void on_stirred(void *arg) {
    struct world *w = arg;
    w->stirred++;
}

static void on_unwatched(void *arg) {
    struct world *w = arg;
    w->unwatched++;
}

static void begin(struct world *w, const char *user) {
    *w = (struct world){.status = 200, .answer = "{}"};
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(co_httpd_open(w->loop, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), w, NULL,
                         &w->gateway, NULL),
        0);
    w->client =
        rdzv_etcd_client_new(w->loop, &(struct rdzv_etcd_client_opts){.server = "etcd://e:2379",
                                          .host = "127.0.0.1",
                                          .port = co_httpd_port(w->gateway),
                                          .user = user,
                                          .failed = on_failed,
                                          .stirred = on_stirred,
                                          .unwatched = on_unwatched,
                                          .arg = w});
}

static void end(struct world *w) {
    rdzv_etcd_client_free(w->client);
    co_httpd_close(w->gateway);
    co_loop_free(w->loop);
}

static void until_answered(struct world *w) {
    int before = w->answers + w->failures;
    while (w->answers + w->failures == before) {
        co_loop_turn(w->loop);
    }
    assert_false(rdzv_etcd_client_busy(w->client));
}

static void refusals_have_different_codes(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *answer;
        enum rdzv_etcd_failure how;
        const char *text;
    } rows[] = {
        {503, "{\"code\":14,\"message\":\"no leader\"}", RDZV_ETCD_TROUBLE,
            "etcd://e:2379 answers 503: no leader"},
        {404, "{\"code\":5,\"message\":\"lease not found\"}", RDZV_ETCD_EXPIRED,
            "etcd://e:2379 answers 404: lease not found"},
        {403, "{\"code\":7,\"message\":\"permission denied\"}", RDZV_ETCD_FORBIDDEN,
            "etcd://e:2379 answers 403: permission denied"},
        {400, "{\"code\":3,\"message\":\"etcdserver: user name is empty\"}", RDZV_ETCD_FORBIDDEN,
            "user name is empty"},
        {400, "{\"code\":3,\"message\":\"duplicate key\"}", RDZV_ETCD_TROUBLE, "duplicate key"},
        {400, "{\"code\":3}", RDZV_ETCD_TROUBLE, "answers 400: "},
        {200, "<html>", RDZV_ETCD_TROUBLE, "etcd://e:2379 answers 200"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world w;
        begin(&w, NULL);
        w.status = rows[i].status;
        w.answer = rows[i].answer;
        rdzv_etcd_transact(w.client, json_array(), NULL, on_answer);
        assert_true(rdzv_etcd_client_busy(w.client));
        until_answered(&w);
        if (w.failures != 1 || w.how != rows[i].how || !strstr(w.err.msg, rows[i].text)) {
            fail_msg("row %zu: %d failures, how %d: %s", i, w.failures, w.how, w.err.msg);
        }
        end(&w);
    }
}

static void requests_say_what_they_are_about(void **state) {
    (void)state;
    struct world w;
    begin(&w, NULL);
    json_t *ops = json_array();
    co_json_append(ops, json_string("o"));
    rdzv_etcd_transact(w.client, ops, NULL, on_answer);
    until_answered(&w);
    assert_string_equal(w.path, "/v3/kv/txn");
    assert_string_equal(w.body, "{\"success\":[\"o\"]}");
    rdzv_etcd_transact(w.client, json_array(), json_string("c"), on_answer);
    until_answered(&w);
    assert_string_equal(w.body, "{\"compare\":\"c\",\"success\":[]}");
    w.answer = "{\"ID\":\"12\"}";
    rdzv_etcd_grant(w.client, 7, on_answer);
    until_answered(&w);
    assert_string_equal(w.path, "/v3/lease/grant");
    assert_string_equal(w.body, "{\"TTL\":7}");
    rdzv_etcd_keep_alive(w.client, "12", on_answer);
    until_answered(&w);
    assert_string_equal(w.path, "/v3/lease/keepalive");
    assert_string_equal(w.body, "{\"ID\":\"12\"}");
    rdzv_etcd_revoke(w.client, "12", on_answer);
    until_answered(&w);
    assert_string_equal(w.path, "/v3/lease/revoke");
    assert_int_equal(w.answers, 5);
    assert_int_equal(w.failures, 0);
    end(&w);
}

/* Who asked would ask again at once, and so for ever. */
static void an_answer_without_the_requested_field_is_an_error(void **state) {
    (void)state;
    static const char *const texts[] = {"answers without \"token\"", "answers without \"ID\""};
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct world w;
        begin(&w, "ann:secret");
        if (i == 0) {
            rdzv_etcd_authenticate(w.client, on_answer);
        } else {
            rdzv_etcd_grant(w.client, 7, on_answer);
        }
        until_answered(&w);
        assert_int_equal(w.answers, 0);
        assert_int_equal(w.how, RDZV_ETCD_TROUBLE);
        assert_non_null(strstr(w.err.msg, texts[i]));
        end(&w);
    }
}

static void a_token_goes_with_every_request_until_it_expires(void **state) {
    (void)state;
    struct world w;
    begin(&w, "ann:secret");
    assert_true(rdzv_etcd_client_lacks_token(w.client));
    w.answer = "{\"token\":\"t1\"}";
    rdzv_etcd_authenticate(w.client, on_answer);
    until_answered(&w);
    assert_string_equal(w.body, "{\"name\":\"ann\",\"password\":\"secret\"}");
    assert_string_equal(w.token, "");
    assert_false(rdzv_etcd_client_lacks_token(w.client));
    w.answer = "{\"ID\":\"12\"}";
    rdzv_etcd_grant(w.client, 7, on_answer);
    until_answered(&w);
    assert_string_equal(w.token, "t1");
    w.status = 401;
    w.answer = "{\"code\":16,\"message\":\"invalid auth token\"}";
    rdzv_etcd_grant(w.client, 7, on_answer);
    until_answered(&w);
    assert_int_equal(w.how, RDZV_ETCD_TROUBLE);
    assert_true(rdzv_etcd_client_lacks_token(w.client));
    end(&w);
}

static void a_wrong_password_is_reported_as_forbidden(void **state) {
    (void)state;
    struct world w;
    begin(&w, "ann:wrong");
    w.status = 400;
    w.answer = "{\"code\":3,\"message\":\"authentication failed\"}";
    rdzv_etcd_authenticate(w.client, on_answer);
    until_answered(&w);
    assert_int_equal(w.how, RDZV_ETCD_FORBIDDEN);
    end(&w);
}

static void leases_are_read_from_answers(void **state) {
    (void)state;
    CO_AUTOJSON json_t *granted = json_pack("{s:s}", "ID", "77");
    CO_AUTOJSON json_t *alive = json_pack("{s:{s:s}}", "result", "TTL", "9");
    CO_AUTOJSON json_t *over = json_pack("{s:{s:s}}", "result", "ID", "77");
    CO_AUTOFREE char *lease = rdzv_etcd_lease_granted(granted);
    assert_string_equal(lease, "77");
    assert_null(rdzv_etcd_lease_granted(alive));
    assert_true(rdzv_etcd_lease_alive(alive));
    assert_false(rdzv_etcd_lease_alive(over));
}

static void the_watch_reports_changes_and_its_end(void **state) {
    (void)state;
    static const char *const prefixes[] = {"/a/", "/b/"};
    struct world w;
    begin(&w, NULL);
    w.answer = "{\"result\":{}}\n";
    rdzv_etcd_watch(w.client, prefixes, CO_ARRAY_LEN(prefixes));
    assert_true(rdzv_etcd_client_watching(w.client));
    assert_false(rdzv_etcd_client_busy(w.client));
    while (!w.unwatched) {
        co_loop_turn(w.loop);
    }
    assert_false(rdzv_etcd_client_watching(w.client));
    assert_true(w.stirred > 0);
    assert_string_equal(w.path, "/v3/watch");
    assert_string_equal(w.body, "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\"}}\n"
                                "{\"create_request\":{\"key\":\"L2Iv\",\"range_end\":\"L2Iw\"}}\n");
    end(&w);
}

static void canceled_requests_are_not_reported(void **state) {
    (void)state;
    static const char *const prefixes[] = {"/a/"};
    struct world w;
    begin(&w, NULL);
    rdzv_etcd_grant(w.client, 7, on_answer);
    rdzv_etcd_watch(w.client, prefixes, 1);
    rdzv_etcd_client_cancel(w.client);
    assert_false(rdzv_etcd_client_busy(w.client));
    assert_false(rdzv_etcd_client_watching(w.client));
    rdzv_etcd_revoke(w.client, "12", on_answer);
    until_answered(&w);
    assert_int_equal(w.answers + w.failures + w.stirred + w.unwatched, 1);
    assert_string_equal(w.path, "/v3/lease/revoke");
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_have_different_codes),
        cmocka_unit_test(requests_say_what_they_are_about),
        cmocka_unit_test(an_answer_without_the_requested_field_is_an_error),
        cmocka_unit_test(a_token_goes_with_every_request_until_it_expires),
        cmocka_unit_test(a_wrong_password_is_reported_as_forbidden),
        cmocka_unit_test(leases_are_read_from_answers),
        cmocka_unit_test(the_watch_reports_changes_and_its_end),
        cmocka_unit_test(canceled_requests_are_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
