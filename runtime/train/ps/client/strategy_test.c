/* Strategies in fleet's names: what each key does, who wins, and what is said of wrong ones. */
#include "runtime/train/ps/client/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/contract.h"
#include "common/mem.h"
#include "runtime/train/ps/client/options.h"

static struct rt_client_options read_text(const char *text) {
    struct psc_strategy s;
    struct co_err err = {0};
    if (psc_strategy_parse("s.yaml", text, strlen(text), &s, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    psc_strategy_done(&s);
    return s.options;
}

static void modes_are_chosen_as_fleet_does(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum rt_mode mode;
    } texts[] = {
        {"a_sync: true", RT_ASYNC},
        {"a_sync: false", RT_SYNC},
        {"a_sync: 0", RT_SYNC},
        {"staleness: 3", RT_ASYNC}, /* fleet's own default is a_sync = True */
        {"a_sync: true\na_sync_configs: {}", RT_ASYNC},
        {"a_sync: true\na_sync_configs: {k_steps: -1}", RT_ASYNC},
        {"a_sync: true\na_sync_configs: {k_steps: 0}", RT_ASYNC},
        {"a_sync: yes\na_sync_configs: {k_steps: 400}", RT_GEO},
        {"a_sync_configs: {k_steps: 400}", RT_GEO},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct rt_client_options o = read_text(texts[i].text);
        assert_int_equal(texts[i].mode, o.mode);
        assert_int_equal(texts[i].mode == RT_GEO ? 400 : 0, o.k_steps);
    }
}

static void every_key_sets_its_option(void **state) {
    (void)state;
    struct rt_client_options o = read_text("a_sync: true\n"
                                           "staleness: 7\n"
                                           "a_sync_configs:\n"
                                           "  max_merge_var_num: 20\n"
                                           "  send_queue_size: 30\n"
                                           "  min_send_grad_num_before_recv: 4\n"
                                           "  thread_pool_size: 5\n"
                                           "  send_wait_times: 6\n"
                                           "  independent_recv_thread: true\n");
    assert_int_equal(20, o.merge_max);
    assert_int_equal(30, o.queue_max);
    assert_int_equal(4, o.recv_after);
    assert_int_equal(5, o.send_threads);
    assert_int_equal(60, o.send_wait_ms);
    assert_int_equal(7, o.staleness);
    assert_int_equal(2, read_text("{a_sync: off, backup: 2}").backup);
}

static void strategy_keys_without_effect_are_listed(void **state) {
    (void)state;
    static const char text[] = "a_sync_configs: {runtime_split_send_recv: true, launch_barrier: "
                               "false, heter_worker_device_guard: gpu, lr_decay_steps: 10, "
                               "use_ps_gpu: 1, use_gpu_graph: 0, independent_recv_thread: true}";
    struct psc_strategy s;
    assert_int_equal(0, psc_strategy_parse("s.yaml", text, strlen(text), &s, NULL));
    static const char *const keys[] = {"runtime_split_send_recv", "launch_barrier",
        "heter_worker_device_guard", "lr_decay_steps", "use_ps_gpu", "use_gpu_graph",
        "independent_recv_thread"};
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        assert_non_null(strstr(s.unused.data, keys[i]));
    }
    psc_strategy_done(&s);
}

static void wrong_files_are_refused_by_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } texts[] = {
        {"", "s.yaml is empty"},
        {"- a_sync", "s.yaml: expected keys and values"},
        {"a_sync: true\na_sync_configs: 3", "expected keys and values in a_sync_configs"},
        {"a_sync: true\na_sinc_configs: {}",
            "s.yaml:2: unknown key \"a_sinc_configs\": did you mean \"a_sync_configs\"?"},
        {"a_sync: true\na_sync_configs:\n  k_step: 3",
            "s.yaml:3: unknown key \"k_step\" in a_sync_configs: did you mean \"k_steps\"?"},
        {"a_sync: true\nzzzzzzz: 3", "s.yaml:2: unknown key \"zzzzzzz\""},
        {"a_sync: maybe", "s.yaml:1: a_sync is \"maybe\", expected true or false"},
        {"a_sync_configs:\n  send_queue_size: 0",
            "s.yaml:2: send_queue_size is 0, expected 1 to 65536"},
        {"a_sync_configs:\n  max_merge_var_num: 1.5",
            "s.yaml:2: max_merge_var_num is 1.5, expected 1 to 65536"},
        {"a_sync_configs:\n  max_merge_var_num: true", "expected 1 to 65536"},
        {"a_sync: false\na_sync_configs:\n  k_steps: 10",
            "s.yaml:3: k_steps is 10, which is geo mode and needs a_sync: true"},
        {"a_sync: [", "s.yaml:2:1: "},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        struct psc_strategy s;
        struct co_err err = {0};
        int rc = psc_strategy_parse("s.yaml", texts[i].text, strlen(texts[i].text), &s, &err);
        psc_strategy_done(&s);
        if (rc != CO_INVALID || !strstr(err.msg, texts[i].says)) {
            fail_msg("%d '%s' does not say '%s'", rc, err.msg, texts[i].says);
        }
    }
}

/* ---- who wins ---- */

static const enum co_var vars[] = {CO_VAR_PS_STRATEGY, CO_VAR_COMM_MERGE, CO_VAR_COMM_QUEUE,
    CO_VAR_COMM_RECV, CO_VAR_COMM_MIN_SEND, CO_VAR_COMM_THREADS, CO_VAR_COMM_WAIT, CO_VAR_COMM_SGD};

static int clean(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(vars); i++) {
        (void)unsetenv(co_contract[vars[i]].name);
    }
    return 0;
}

static void set_var(enum co_var var, const char *value) {
    assert_int_equal(0, co_contract_check(var, value, NULL));
    (void)setenv(co_contract[var].name, value, 1);
}

static void use_file(const char *text, char path[32]) {
    (void)snprintf(path, 32, "/tmp/strategyXXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(strlen(text), write(fd, text, strlen(text)));
    co_close(fd);
    set_var(CO_VAR_PS_STRATEGY, path);
}

static void the_program_beats_environment_file_and_default(void **state) {
    (void)state;
    char path[32];
    use_file(
        "a_sync: true\na_sync_configs: {k_steps: 8, max_merge_var_num: 2, send_queue_size: 40, "
        "thread_pool_size: 3, send_wait_times: 1, lr_decay_steps: 5}",
        path);
    set_var(CO_VAR_COMM_QUEUE, "50");
    set_var(CO_VAR_COMM_MERGE, "20");
    set_var(CO_VAR_COMM_WAIT, "7");
    set_var(CO_VAR_COMM_MIN_SEND, "9");
    set_var(CO_VAR_COMM_SGD, "0");
    set_var(CO_VAR_COMM_RECV, "1");
    struct rt_client_options o = {.merge_max = 30};
    struct co_err err = {0};
    assert_int_equal(0, psc_options_client(&o, &err));
    assert_int_equal(RT_GEO, o.mode);
    assert_int_equal(8, o.k_steps);
    assert_int_equal(30, o.merge_max);
    assert_int_equal(50, o.queue_max);
    assert_int_equal(3, o.send_threads);
    assert_int_equal(70, o.send_wait_ms);
    assert_int_equal(9, o.recv_after);
    assert_true(o.merge_mean);
    o = (struct rt_client_options){.mode = RT_SYNC, .k_steps = 5};
    assert_int_equal(0, psc_options_client(&o, &err));
    assert_int_equal(RT_SYNC, o.mode);
    assert_int_equal(5, o.k_steps);
    (void)unlink(path);
}

static void default_options_send_each_push_at_once(void **state) {
    (void)state;
    struct rt_client_options o = {0};
    assert_int_equal(0, psc_options_client(&o, NULL));
    assert_int_equal(RT_ASYNC, o.mode);
    assert_int_equal(1, o.merge_max);
    assert_int_equal(0, o.queue_max);
    assert_int_equal(0, o.send_wait_ms);
    assert_int_equal(1, o.recv_after);
    assert_int_equal(100, o.k_steps);
    assert_int_equal(0, o.staleness);
    /* What is merged must be able to wait. */
    o = (struct rt_client_options){.merge_max = 40, .queue_max = 8};
    assert_int_equal(0, psc_options_client(&o, NULL));
    assert_int_equal(40, o.queue_max);
    assert_int_equal(40, o.dense_merge_max);
}

static void wrong_variables_and_files_are_named(void **state) {
    (void)state;
    struct rt_client_options o = {0};
    struct co_err err = {0};
    (void)setenv("FLAGS_communicator_send_queue_size", "many", 1);
    assert_int_equal(CO_INVALID, psc_options_client(&o, &err));
    assert_non_null(strstr(err.msg, "FLAGS_communicator_send_queue_size"));
    (void)clean(NULL);
    (void)setenv("PADDLE_PS_STRATEGY", "/nowhere/s.yaml", 1);
    assert_true(psc_options_client(&o, &err) < 0);
    assert_non_null(strstr(err.msg, "PADDLE_PS_STRATEGY"));
    assert_non_null(strstr(err.msg, "/nowhere/s.yaml"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_are_chosen_as_fleet_does),
        cmocka_unit_test(every_key_sets_its_option),
        cmocka_unit_test(strategy_keys_without_effect_are_listed),
        cmocka_unit_test(wrong_files_are_refused_by_line),
        cmocka_unit_test_setup_teardown(
            the_program_beats_environment_file_and_default, clean, clean),
        cmocka_unit_test_setup_teardown(default_options_send_each_push_at_once, clean, clean),
        cmocka_unit_test_setup_teardown(wrong_variables_and_files_are_named, clean, clean),
    };
    return cmocka_run_group_tests_name("strategy", tests, NULL, NULL);
}
