/* What a program says counts, then the environment, then the default; and each wrong value is named
 * with its variable. */
#include "runtime/train/ps/client/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static const char *const names[] = {"PADDLE_PS_LEASE", "PADDLE_PS_RETURN",
    "PADDLE_PS_START_TIMEOUT", "PADDLE_PS_CALL_TIMEOUT", "PADDLE_PS_BARRIER_TIMEOUT",
    "PADDLE_PS_SHARDS", "FLAGS_rpc_deadline", "PADDLE_JOB_TOKEN", "PADDLE_PS_NONFINITE"};

static int clean(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    return 0;
}

static void defaults_are_those_of_the_header(void **state) {
    (void)state;
    struct rt_server_options s = {0};
    struct rt_client_options c = {0};
    assert_int_equal(0, psc_options_server(&s, NULL));
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(30000, s.lease_ms);
    assert_int_equal(600000, s.start_timeout_ms);
    assert_in_range(s.shards, 1, 16);
    assert_int_equal(RT_NONFINITE_REFUSE, s.nonfinite);
    assert_true(s.memory_max >= 1 << 28);
    assert_int_equal(30000, c.lease_ms);
    assert_true(s.return_ms == 30000 && c.return_ms == 30000);
    assert_int_equal(600000, c.start_timeout_ms);
    assert_int_equal(180000, c.call_timeout_ms);
    assert_int_equal(600000, c.barrier_timeout_ms);
    assert_int_equal(4, c.dense_merge_max);
    assert_string_equal("", psc_options_token());
}

static void encryption_is_what_the_program_says_or_the_job(void **state) {
    (void)state;
    static const struct {
        enum rt_encrypt said;
        const char *text, *token;
        int rc;
        bool on;
    } rows[] = {
        {RT_ENCRYPT_UNSET, NULL, "t", 0, false},
        {RT_ENCRYPT_UNSET, "", "t", 0, false},
        {RT_ENCRYPT_UNSET, "0", "", 0, false},
        {RT_ENCRYPT_UNSET, "1", "t", 0, true},
        {RT_ENCRYPT_UNSET, "true", "t", 0, true},
        {RT_ENCRYPT_UNSET, "1", "", CO_INVALID, false},
        {RT_ENCRYPT_UNSET, "tls", "t", CO_INVALID, false},
        {RT_ENCRYPT_NO, "1", "t", 0, false},
        {RT_ENCRYPT_YES, "0", "t", 0, true},
        {RT_ENCRYPT_YES, NULL, "", CO_INVALID, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        bool on = false;
        int rc = psc_options_encrypt(rows[i].said, rows[i].text, rows[i].token, &on, &err);
        if (rc != rows[i].rc || on != rows[i].on ||
            (rc < 0 && !strstr(err.msg, "PADDLE_JOB_ENCRYPT"))) {
            fail_msg("row %zu: %d, %d, %s", i, rc, on, err.msg);
        }
    }
}

static void the_environment_is_asked_for_what_the_program_leaves_open(void **state) {
    (void)state;
    (void)setenv("PADDLE_PS_LEASE", " 1m30s\n", 1);
    (void)setenv("PADDLE_PS_RETURN", "0s", 1); /* not at all */
    (void)setenv("PADDLE_PS_START_TIMEOUT", "2s", 1);
    (void)setenv("PADDLE_PS_CALL_TIMEOUT", "3s", 1);
    (void)setenv("PADDLE_PS_BARRIER_TIMEOUT", "4s", 1);
    (void)setenv("PADDLE_PS_SHARDS", "64\n", 1);
    (void)setenv("PADDLE_PS_NONFINITE", "skip\r\n", 1);
    (void)setenv("PADDLE_JOB_TOKEN", "t\n", 1);
    struct rt_server_options s = {0};
    struct rt_client_options c = {0};
    assert_int_equal(0, psc_options_server(&s, NULL));
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(90000, s.lease_ms);
    assert_int_equal(2000, s.start_timeout_ms);
    assert_int_equal(64, s.shards);
    assert_int_equal(RT_NONFINITE_SKIP, s.nonfinite);
    assert_int_equal(90000, c.lease_ms);
    assert_true(s.return_ms == -1 && c.return_ms == -1);
    assert_int_equal(2000, c.start_timeout_ms);
    assert_int_equal(3000, c.call_timeout_ms);
    assert_int_equal(4000, c.barrier_timeout_ms);
    assert_string_equal("t", psc_options_token());

    s = (struct rt_server_options){
        .lease_ms = 1, .start_timeout_ms = 2, .shards = 3, .memory_max = 4};
    c = (struct rt_client_options){.lease_ms = 5,
        .start_timeout_ms = 6,
        .call_timeout_ms = 7,
        .barrier_timeout_ms = 8,
        .dense_merge_max = 9};
    assert_int_equal(0, psc_options_server(&s, NULL));
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_true(s.lease_ms == 1 && s.start_timeout_ms == 2 && s.shards == 3 && s.memory_max == 4);
    assert_true(c.lease_ms == 5 && c.start_timeout_ms == 6 && c.call_timeout_ms == 7 &&
                c.barrier_timeout_ms == 8 && c.dense_merge_max == 9);
}

/* Paddle's own, in milliseconds: for jobs that know no other. */
static void paddles_deadline_counts_where_ours_is_not_there(void **state) {
    (void)state;
    (void)setenv("FLAGS_rpc_deadline", "5000", 1);
    struct rt_client_options c = {0};
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(5000, c.call_timeout_ms);
    c = (struct rt_client_options){.call_timeout_ms = 7};
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(7, c.call_timeout_ms);
    (void)setenv("PADDLE_PS_CALL_TIMEOUT", "3s", 1);
    c = (struct rt_client_options){0};
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(3000, c.call_timeout_ms);
}

static void wrong_values_are_named_with_their_variable(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
        bool server, client;
    } rows[] = {
        {"PADDLE_PS_LEASE", "soon", true, true},
        {"PADDLE_PS_LEASE", "0s", true, true},
        {"PADDLE_PS_LEASE", "-1s", true, true},
        {"PADDLE_PS_RETURN", "-1s", true, true},
        {"PADDLE_PS_START_TIMEOUT", "0s", true, true},
        {"PADDLE_PS_CALL_TIMEOUT", "5", false, true}, /* without a unit */
        {"PADDLE_PS_BARRIER_TIMEOUT", "x", false, true},
        {"PADDLE_PS_SHARDS", "0", true, false},
        {"PADDLE_PS_SHARDS", "65", true, false},
        {"PADDLE_PS_SHARDS", "two", true, false},
        {"PADDLE_PS_NONFINITE", "ignore", true, false},
        {"FLAGS_rpc_deadline", "0", false, true},
        {"FLAGS_rpc_deadline", "3s", false, true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        (void)clean(NULL);
        (void)setenv(rows[i].name, rows[i].value, 1);
        struct rt_server_options s = {0};
        struct rt_client_options c = {0};
        struct co_err es = {0}, ec = {0};
        assert_int_equal(rows[i].server ? CO_INVALID : 0, psc_options_server(&s, &es));
        assert_int_equal(rows[i].client ? CO_INVALID : 0, psc_options_client(&c, &ec));
        const struct co_err *both[] = {rows[i].server ? &es : NULL, rows[i].client ? &ec : NULL};
        for (size_t k = 0; k < CO_ARRAY_LEN(both); k++) {
            if (both[k] &&
                !(strstr(both[k]->msg, rows[i].name) && strstr(both[k]->msg, rows[i].value))) {
                fail_msg("row %zu: %s", i, both[k]->msg);
            }
        }
    }
    /* An empty one is one that is not set. */
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        (void)setenv(names[i], "", 1);
    }
    struct rt_server_options s = {0};
    struct rt_client_options c = {0};
    assert_int_equal(0, psc_options_server(&s, NULL));
    assert_int_equal(0, psc_options_client(&c, NULL));
    assert_int_equal(180000, c.call_timeout_ms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_are_those_of_the_header, clean, clean),
        cmocka_unit_test(encryption_is_what_the_program_says_or_the_job),
        cmocka_unit_test_setup_teardown(
            the_environment_is_asked_for_what_the_program_leaves_open, clean, clean),
        cmocka_unit_test_setup_teardown(
            paddles_deadline_counts_where_ours_is_not_there, clean, clean),
        cmocka_unit_test_setup_teardown(wrong_values_are_named_with_their_variable, clean, clean),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
