#include "operator/kube/exec.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json/json.h"

#define V1 "client.authentication.k8s.io/v1"
#define CREDENTIAL(status)                                                                         \
    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":{" status "}}"

static char version[] = V1;

static void the_output_of_a_plugin_is_parsed_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *token, *cert;
        int64_t expires;
    } rows[] = {
        {CREDENTIAL("\"token\":\"t\""), 0, "t", NULL, 0},
        {CREDENTIAL("\"token\":\"t\",\"expirationTimestamp\":\"1970-01-01T00:01:00Z\""), 0, "t",
            NULL, 60},
        {CREDENTIAL("\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\""), 0, NULL, "c", 0},
        {CREDENTIAL("\"clientCertificateData\":\"c\""), CO_INVALID, NULL, NULL, 0},
        {CREDENTIAL("\"token\":\"a\\r\\nX: y\""), CO_INVALID, NULL, NULL, 0},
        {CREDENTIAL("\"token\":\"t\",\"expirationTimestamp\":\"soon\""), CO_INVALID, NULL, NULL, 0},
        {CREDENTIAL(""), CO_INVALID, NULL, NULL, 0},
        {"{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\","
         "\"status\":{\"token\":\"t\"}}",
            CO_INVALID, NULL, NULL, 0},
        {"no json", CO_INVALID, NULL, NULL, 0},
        {"", CO_INVALID, NULL, NULL, 0},
    };
    const struct kube_exec e = {.api_version = version};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct kube_exec_result r = {0};
        struct co_err err = {0};
        int rc = kube_exec_parse(&e, rows[i].text, strlen(rows[i].text), &r, &err);
        assert_int_equal(rc, rows[i].code);
        assert_true(rc == 0 || err.msg[0]);
        assert_true(co_streq(r.token, rows[i].token));
        assert_true(co_streq(r.cert, rows[i].cert));
        assert_int_equal(r.expires, rows[i].expires);
        kube_exec_result_done(&r);
    }
}

struct got {
    struct co_loop *loop;
    int calls, code;
    char token[64];
    struct co_err err;
};

static void on_result(
    void *arg, int code, struct kube_exec_result *result, const struct co_err *err) {
    struct got *g = arg;
    g->calls++;
    g->code = code;
    g->err = *err;
    if (result->token) {
        snprintf(g->token, sizeof(g->token), "%s", result->token);
    }
    co_loop_stop(g->loop);
}

static void run_script(char *script, struct got *g) {
    char command[] = "sh";
    char dash_c[] = "-c";
    char env0[] = "PLUGIN_VALUE=from-env";
    char *args[] = {dash_c, script, NULL};
    char *env[] = {env0, NULL};
    const struct kube_exec e = {
        .command = command, .args = args, .env = env, .api_version = version};
    struct kube_exec_run *run;
    *g = (struct got){0};
    assert_int_equal(co_loop_new(&g->loop, NULL), 0);
    assert_int_equal(kube_exec_start(g->loop, &e, on_result, g, &run, NULL), 0);
    assert_int_equal(g->calls, 0);
    co_loop_run(g->loop);
    co_loop_free(g->loop);
    assert_int_equal(g->calls, 1);
}

static void a_plugin_runs_and_sees_its_environment(void **state) {
    (void)state;
    char script[] = "case $KUBERNETES_EXEC_INFO in *'\"interactive\":false'*) ;; *) exit 9;; esac\n"
                    "printf '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
                    "\",\"status\":{\"token\":\"%s\"}}' \"$PLUGIN_VALUE\"";
    struct got g;
    run_script(script, &g);
    assert_int_equal(g.code, 0);
    assert_string_equal(g.token, "from-env");
}

static void a_plugin_that_fails_says_why(void **state) {
    (void)state;
    char script[] = "echo log in first >&2; exit 3";
    struct got g;
    run_script(script, &g);
    assert_int_equal(g.code, CO_UNAVAILABLE);
    assert_string_equal(g.err.msg, "credential plugin \"sh\": exit code 3: log in first ");
}

static void a_plugin_that_floods_is_ended(void **state) {
    (void)state;
    char script[] = "exec cat /dev/zero";
    struct got g;
    run_script(script, &g);
    assert_int_equal(g.code, CO_INVALID);
    assert_non_null(strstr(g.err.msg, "more than"));
}

/* A grandchild that keeps the pipe open must not hold the answer back. */
static void a_child_of_a_plugin_does_not_delay_its_credential(void **state) {
    (void)state;
    char script[] = "tail -f /dev/null & echo '" CREDENTIAL("\"token\":\"t\"") "'";
    struct got g;
    run_script(script, &g);
    assert_int_equal(g.code, 0);
    assert_string_equal(g.token, "t");
}

static void a_missing_plugin_gives_the_install_hint(void **state) {
    (void)state;
    char command[] = "no-such-credential-plugin";
    char hint[] = "install it from there";
    char *none[] = {NULL};
    const struct kube_exec e = {.command = command,
        .args = none,
        .env = none,
        .api_version = version,
        .install_hint = hint};
    struct co_loop *loop;
    struct kube_exec_run *run;
    struct co_err err = {0};
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(kube_exec_start(loop, &e, on_result, NULL, &run, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, hint));
    co_loop_free(loop);
}

static void cancel_kills(void **state) {
    (void)state;
    char command[] = "tail";
    char f[] = "-f", null[] = "/dev/null";
    char *args[] = {f, null, NULL};
    char *none[] = {NULL};
    const struct kube_exec e = {
        .command = command, .args = args, .env = none, .api_version = version};
    struct co_loop *loop;
    struct kube_exec_run *run;
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(kube_exec_start(loop, &e, on_result, NULL, &run, NULL), 0);
    kube_exec_cancel(run);
    co_loop_run(loop); /* nothing is left armed */
    co_loop_free(loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_output_of_a_plugin_is_parsed_or_refused),
        cmocka_unit_test(a_plugin_runs_and_sees_its_environment),
        cmocka_unit_test(a_plugin_that_fails_says_why),
        cmocka_unit_test(a_plugin_that_floods_is_ended),
        cmocka_unit_test(a_child_of_a_plugin_does_not_delay_its_credential),
        cmocka_unit_test(a_missing_plugin_gives_the_install_hint),
        cmocka_unit_test(cancel_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
