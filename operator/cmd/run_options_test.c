#include "operator/cmd/run_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "operator/plan/gang.h"

enum { WORDS_MAX = 6 };

static int parse(const char *const *words, struct opc_options *ret, struct co_err *err) {
    char *argv[WORDS_MAX + 1] = {co_xstrdup("run")};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    int r = opc_options_parse(argc, argv, ret, err);
    free(argv[0]);
    return r;
}

static struct opc_options parsed(const char *const *words) {
    struct opc_options o;
    struct co_err err = {0};
    if (parse(words, &o, &err)) {
        fail_msg("%s", co_err_text(&err));
    }
    return o;
}

#define PARSED(...) parsed((const char *const[]){__VA_ARGS__, NULL})

/* ---- flags ------------------------------------------------------------------------------ */

/* What the pages say of an operator without flags. */
static void defaults_are_those_of_the_reference(void **state) {
    (void)state;
    struct opc_options o = parsed((const char *const[]){NULL});
    assert_string_equal(o.namespace_, "");
    assert_string_equal(o.metrics_addr, ":8080");
    assert_string_equal(o.health_addr, ":8081");
    assert_string_equal(o.gate_bind, ":8082");
    assert_false(o.leader_elect);
    assert_false(o.metrics_secure);
    assert_false(o.json_only);
    assert_int_equal(o.watch_idle_ms, 150 * 1000);
    assert_int_equal(o.log_level, CO_LOG_INFO);
    assert_int_equal(o.log_format, CO_LOG_LOGFMT);
    assert_string_equal(o.settings.gate_image, "paddlejob/gate:dev");
    assert_null(o.settings.gang);
    assert_false(o.settings.services_all);
    assert_int_equal(o.settings.prefer_family, 0);
    assert_int_equal(o.settings.server_grace, PLAN_SERVER_GRACE_DEFAULT);
    assert_int_equal(o.settings.restart_backoff, PLAN_RESTART_BACKOFF_DEFAULT);
}

static void flags_become_settings(void **state) {
    (void)state;
    struct opc_options o = PARSED("--initImage=g", "--services=all", "--prefer-family=6",
        "--server-grace=1m", "--restart-backoff=1500ms", "--scheduling=volcano");
    assert_string_equal(o.settings.gate_image, "g");
    assert_true(o.settings.services_all);
    assert_int_equal(o.settings.prefer_family, 6);
    assert_int_equal(o.settings.server_grace, 60);
    assert_int_equal(o.settings.restart_backoff, 1);
    assert_ptr_equal(o.settings.gang, plan_gang_find("volcano"));
    assert_non_null(o.settings.gang);
    assert_true(PARSED("--kube-api-content-type=application/json").json_only);
}

static void flags_of_an_earlier_parse_are_reset(void **state) {
    (void)state;
    assert_true(PARSED("--services=all", "--namespace=a").settings.services_all);
    struct opc_options o = PARSED("--leader-elect");
    assert_false(o.settings.services_all);
    assert_string_equal(o.namespace_, "");
}

/* Upstream's flags of its logger still have a meaning. */
static void either_flag_sets_the_log_format(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        enum co_log_level level;
        enum co_log_format format;
    } rows[] = {
        {{"--log-level=warn"}, CO_LOG_WARN, CO_LOG_LOGFMT},
        {{"--zap-log-level=error"}, CO_LOG_ERROR, CO_LOG_LOGFMT},
        {{"--zap-log-level=error", "--log-level=debug"}, CO_LOG_ERROR, CO_LOG_LOGFMT},
        {{"--zap-log-level=1"}, CO_LOG_DEBUG, CO_LOG_LOGFMT},
        {{"--zap-log-level=9"}, CO_LOG_DEBUG, CO_LOG_LOGFMT},
        {{"--log-format=json"}, CO_LOG_INFO, CO_LOG_JSON},
        {{"--zap-encoder=json"}, CO_LOG_INFO, CO_LOG_JSON},
        {{"--zap-encoder=console"}, CO_LOG_INFO, CO_LOG_LOGFMT},
        {{"--zap-devel=false", "--zap-stacktrace-level=x", "--zap-time-encoding=y"}, CO_LOG_INFO,
            CO_LOG_LOGFMT},
        {{"--etcd-server=http://e:2379", "--port-range=35000,65000"}, CO_LOG_INFO, CO_LOG_LOGFMT},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct opc_options o = parsed(rows[i].words);
        if (o.log_level != rows[i].level || o.log_format != rows[i].format) {
            fail_msg("row %zu: level %d, format %d", i, o.log_level, o.log_format);
        }
    }
}

static void wrong_flags_are_named_with_what_was_expected(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX], *says;
    } rows[] = {
        {{"--kube-api-content-type=yaml"},
            "flag \"--kube-api-content-type\": \"yaml\" is neither "
            "application/vnd.kubernetes.protobuf nor application/json"},
        {{"--scheduling=nobody"},
            "flag \"--scheduling\": \"nobody\" is not one of " PLAN_GANG_WORDS},
        {{"--services=some"}, "flag \"--services\": \"some\" is neither empty nor all"},
        {{"--prefer-family=5"}, "flag \"--prefer-family\": expected 0, 4 or 6"},
        {{"--log-level=loud"},
            "flag \"--log-level\": \"loud\" is not a log level (error, warn, info, "
            "debug)"},
        {{"--zap-log-level=0"},
            "flag \"--log-level\": \"0\" is not a log level (error, warn, info, "
            "debug)"},
        {{"--log-format=xml"}, "flag \"--log-format\": \"xml\" is neither logfmt nor json"},
        {{"--leader-elect", "true"}, "\"true\" is not a flag"},
        {{"--", "x"}, "\"x\" is not a flag"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct opc_options o = {.shard = "untouched"};
        struct co_err err = {0};
        assert_int_equal(parse(rows[i].words, &o, &err), CO_INVALID);
        assert_string_equal(co_err_text(&err), rows[i].says);
        assert_string_equal(o.shard, "untouched");
    }
    struct opc_options o;
    assert_int_equal(parse((const char *const[]){"--help", NULL}, &o, NULL), CO_CANCELED);
}

/* ---- what follows from them -------------------------------------------------------------- */

static void shards_need_the_lease(void **state) {
    (void)state;
    struct ctl_shard_id id = {.index = 7, .count = 9};
    struct co_err err = {0};
    struct opc_options o = PARSED("--shard=0/2");
    assert_int_equal(opc_options_shard(&o, &id, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "--shard needs --leader-elect"));
    assert_int_equal(id.count, 9);
    o = PARSED("--shard=2/2", "--leader-elect");
    assert_int_equal(opc_options_shard(&o, &id, &err), CO_INVALID);
    o = PARSED("--shard=1/2", "--leader-elect");
    assert_int_equal(opc_options_shard(&o, &id, &err), 0);
    assert_int_equal(id.index, 1);
    assert_int_equal(id.count, 2);
    o = PARSED("--leader-elect");
    assert_int_equal(opc_options_shard(&o, &id, &err), 0);
    assert_int_equal(id.count, 0);
}

#define NOWHERE                                                                                    \
    .gate_host = "", .gate_port = "", .pod_ip = "", .pod_name = "", .pod_uid = "", .pod_ns = ""

static void the_lease_is_where_the_flag_says_or_the_pod_is(void **state) {
    (void)state;
    static const struct opc_pod_env outside = {NOWHERE};
    struct opc_pod_env pod = outside;
    pod.pod_ns = "paddle-system";
    const char *ns = NULL;
    struct co_err err = {0};
    struct opc_options o = PARSED("--leader-elect-namespace=a");
    assert_int_equal(opc_options_lease_ns(&o, &pod, &ns, &err), 0);
    assert_string_equal(ns, "a");
    o = PARSED("--leader-elect");
    assert_int_equal(opc_options_lease_ns(&o, &pod, &ns, &err), 0);
    assert_string_equal(ns, "paddle-system");
    assert_int_equal(opc_options_lease_ns(&o, &outside, &ns, &err), CO_INVALID);
    assert_string_equal(
        co_err_text(&err), "--leader-elect outside a cluster needs --leader-elect-namespace");
}

static void the_gate_address_prefers_the_service_over_the_pod_ip(void **state) {
    (void)state;
    static const struct {
        const char *flag, *host, *port, *ip, *addr;
    } rows[] = {
        {"--namespace=", "", "", "", ""},
        {"--namespace=", "", "", "10.1.0.7", "10.1.0.7:8082"},
        {"--namespace=", "10.96.0.9", "80", "10.1.0.7", "10.96.0.9:80,10.1.0.7:8082"},
        {"--namespace=", "10.96.0.9", "80", "", "10.96.0.9:80"},
        {"--namespace=", "10.96.0.9", "", "", "10.96.0.9:8082"},
        {"--namespace=", "10.96.0.9", "0", "", "10.96.0.9:8082"},
        {"--namespace=", "10.96.0.9", "tcp://10.96.0.9:80", "", "10.96.0.9:8082"},
        {"--namespace=", "fd00::9", "80", "fd01::7", "[fd00::9]:80,[fd01::7]:8082"},
        {"--gate-address=g:1", "10.96.0.9", "80", "10.1.0.7", "g:1"},
        /* The Service leads to any of the shards. */
        {"--shard=0/2", "10.96.0.9", "80", "10.1.0.7", "10.1.0.7:8082"},
        {"--shard=0/2", "10.96.0.9", "80", "", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct opc_options o = PARSED(rows[i].flag);
        struct opc_pod_env place = {NOWHERE};
        place.gate_host = rows[i].host;
        place.gate_port = rows[i].port;
        place.pod_ip = rows[i].ip;
        char addr[300] = "?";
        opc_options_gate_addr(&o, &place, 8082, addr, sizeof(addr));
        assert_string_equal(addr, rows[i].addr);
    }
}

/* Two containers of one pod are one after the other; two processes of one machine are not. */
static void the_lease_identity_is_the_pod_or_the_process(void **state) {
    (void)state;
    static const struct {
        const char *name, *uid, *identity;
    } rows[] = {
        {"operator-0", "u-1", "operator-0_u-1"},
        {"", "u-1", "host_u-1"},
        {"operator-0", "", "operator-0_00000000000000ab"},
        {"", "", "host_00000000000000ab"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct opc_pod_env place = {NOWHERE};
        place.pod_name = rows[i].name;
        place.pod_uid = rows[i].uid;
        char identity[256];
        opc_pod_env_identity(&place, "host", 0xab, identity, sizeof(identity));
        assert_string_equal(identity, rows[i].identity);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_reference),
        cmocka_unit_test(flags_become_settings),
        cmocka_unit_test(flags_of_an_earlier_parse_are_reset),
        cmocka_unit_test(either_flag_sets_the_log_format),
        cmocka_unit_test(wrong_flags_are_named_with_what_was_expected),
        cmocka_unit_test(shards_need_the_lease),
        cmocka_unit_test(the_lease_is_where_the_flag_says_or_the_pod_is),
        cmocka_unit_test(the_gate_address_prefers_the_service_over_the_pod_ip),
        cmocka_unit_test(the_lease_identity_is_the_pod_or_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
