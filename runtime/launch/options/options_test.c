#include "runtime/launch/options/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/contract.h"
#include "common/mem.h"

enum { WORDS_MAX = 12 };

/* "NAME=value"s, then NULL. */
static const char *from_list(void *arg, const char *name) {
    for (const char *const *e = arg; *e; e++) {
        size_t len = strlen(name);
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return NULL;
}

/* Options point into argv: it stays until the next call. */
static int parse(
    const char *const *words, const char *const *env, struct options *ret, struct co_err *err) {
    static const char *argv[WORDS_MAX + 2];
    int argc = 1;
    memset(argv, 0, sizeof(argv));
    argv[0] = "launch";
    for (; argc <= WORDS_MAX && words[argc - 1]; argc++) {
        argv[argc] = words[argc - 1];
    }
    return options_parse(argc, (char *const *)argv, from_list, (void *)env, ret, err);
}

static void values_and_where_they_come_from(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX], *env[3];
        enum options_option id;
        const char *text;
        int64_t number;
        enum options_format format;
    } rows[] = {
        /* defaults, both spellings, prefixes and aliases, as argparse takes them */
        {{"t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "log", -1, OPTIONS_FORMAT_3},
        {{"t.py"}, {0}, OPTIONS_OPT_RANK, "-1", -1, OPTIONS_FORMAT_3},
        {{"t.py"}, {0}, OPTIONS_OPT_MASTER, NULL, -1, OPTIONS_FORMAT_3},
        {{"--nproc_per_node", "2", "t.py"}, {0}, OPTIONS_OPT_NPROC_PER_NODE, "2", 2,
            OPTIONS_FORMAT_3},
        {{"--nproc_per_node=2", "t.py"}, {0}, OPTIONS_OPT_NPROC_PER_NODE, "2", 2, OPTIONS_FORMAT_3},
        {{"--nproc", "2", "t.py"}, {0}, OPTIONS_OPT_NPROC_PER_NODE, "2", 2, OPTIONS_FORMAT_3},
        {{"--gpus=6,7", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "6,7", -1, OPTIONS_FORMAT_3},
        {{"--xpus", "0", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "0", -1, OPTIONS_FORMAT_3},
        {{"--log_dir=", "t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "", -1, OPTIONS_FORMAT_3},
        /* the operator's word on a pod's grace period is a default */
        {{"t.py"}, {0}, OPTIONS_OPT_STOP_TIMEOUT, "25s", 25000, OPTIONS_FORMAT_3},
        {{"t.py"}, {"PADDLERUN_STOP_TIMEOUT=115"}, OPTIONS_OPT_STOP_TIMEOUT, "115", 115000,
            OPTIONS_FORMAT_3},
        {{"--stop_timeout=9", "t.py"}, {"PADDLERUN_STOP_TIMEOUT=115"}, OPTIONS_OPT_STOP_TIMEOUT,
            "9", 9000, OPTIONS_FORMAT_3},
        {{"--sort_ip", "yes", "t.py"}, {0}, OPTIONS_OPT_SORT_IP, "True", 1, OPTIONS_FORMAT_3},
        {{"--dry-run", "t.py"}, {0}, OPTIONS_OPT_DRY_RUN, "true", 1, OPTIONS_FORMAT_3},
        {{"--stop_timeout", "3", "t.py"}, {0}, OPTIONS_OPT_STOP_TIMEOUT, "3", 3000,
            OPTIONS_FORMAT_3},
        {{"--stop_timeout", "300ms", "t.py"}, {0}, OPTIONS_OPT_STOP_TIMEOUT, "300ms", 300,
            OPTIONS_FORMAT_3},
        {{"--log_max_size", "64M", "t.py"}, {0}, OPTIONS_OPT_LOG_MAX_SIZE, "64M", 64 << 20,
            OPTIONS_FORMAT_3},
        /* words that begin with a dash and are values all the same */
        {{"--rank", "-1", "t.py"}, {0}, OPTIONS_OPT_RANK, "-1", -1, OPTIONS_FORMAT_3},
        {{"--log_dir=-x", "t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "-x", -1, OPTIONS_FORMAT_3},
        {{"--log_dir", "-a b", "t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "-a b", -1, OPTIONS_FORMAT_3},
        {{"--log_dir", "-", "t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "-", -1, OPTIONS_FORMAT_3},
        /* what is behind the script is the script's */
        {{"t.py", "--rank", "7"}, {0}, OPTIONS_OPT_RANK, "-1", -1, OPTIONS_FORMAT_3},
        /* the environment beats the command line; the trainer's id beats both */
        {{"--rank", "1", "t.py"}, {"PADDLE_RANK=2"}, OPTIONS_OPT_RANK, "2", 2, OPTIONS_FORMAT_3},
        {{"--rank", "1", "t.py"}, {"PADDLE_TRAINER_ID=3", "PADDLE_RANK=2"}, OPTIONS_OPT_RANK, "3",
            3, OPTIONS_FORMAT_3},
        {{"t.py"}, {"PADDLE_SERVER_NUM=1"}, OPTIONS_OPT_SERVER_NUM, "1", 1, OPTIONS_FORMAT_3},
        {{"--host", "a.b", "t.py"}, {"POD_IP=10.0.0.1"}, OPTIONS_OPT_HOST, "10.0.0.1", -1,
            OPTIONS_FORMAT_3},
        /* which launcher Paddle would run */
        {{"--server_num=1", "--worker_num=2", "t.py"}, {0}, OPTIONS_OPT_WORKER_NUM, "2", 2,
            OPTIONS_FORMAT_2_0},
        {{"--worker_num", "2", "t.py"}, {0}, OPTIONS_OPT_WITH_GLOO, "0", -1, OPTIONS_FORMAT_2_0},
        {{"--worker_num", "2", "--master", "a:1", "t.py"}, {0}, OPTIONS_OPT_WITH_GLOO, "1", -1,
            OPTIONS_FORMAT_3},
        {{"--legacy", "true", "t.py"}, {0}, OPTIONS_OPT_IPS, "127.0.0.1", -1, OPTIONS_FORMAT_2_0},
        {{"--selected_gpus=0,1", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "0,1", -1, OPTIONS_FORMAT_2_0},
        {{"--selected_xpus", "3", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "3", -1, OPTIONS_FORMAT_2_0},
        {{"--cluster_node_ips=10.0.0.1", "--node_ip=10.0.0.1", "t.py"}, {0}, OPTIONS_OPT_IPS,
            "10.0.0.1", -1, OPTIONS_FORMAT_2_0},
        {{"--node_ip=10.0.0.1", "t.py"}, {0}, OPTIONS_OPT_HOST, "10.0.0.1", -1, OPTIONS_FORMAT_2_0},
        {{"--started_port=6170", "t.py"}, {0}, OPTIONS_OPT_START_PORT, "6170", 6170,
            OPTIONS_FORMAT_2_0},
        {{"--start", "6170", "t.py"}, {0}, OPTIONS_OPT_START_PORT, "6170", 6170, OPTIONS_FORMAT_3},
        {{"--use_paddlecloud", "t.py"}, {0}, OPTIONS_OPT_USE_PADDLECLOUD, "true", 1,
            OPTIONS_FORMAT_2_0},
        {{"--selected_gpus=0", "--master=a:1", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "0", -1,
            OPTIONS_FORMAT_3},
        {{"--backend", "gloo", "t.py"}, {0}, OPTIONS_OPT_BACKEND, "gloo", -1, OPTIONS_FORMAT_2_0},
        {{"--compat=2.3", "t.py"}, {0}, OPTIONS_OPT_WITH_GLOO, "0", -1, OPTIONS_FORMAT_2_3},
        {{"--compat=2.0", "t.py"}, {0}, OPTIONS_OPT_LOG_DIR, "log", -1, OPTIONS_FORMAT_2_0},
        {{"--compat=3", "--worker_num=1", "t.py"}, {0}, OPTIONS_OPT_WORKER_NUM, "1", 1,
            OPTIONS_FORMAT_3},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct options o;
        struct co_err err = {0};
        int r = parse(rows[i].words, rows[i].env, &o, &err);
        if (r || !co_streq(o.text[rows[i].id], rows[i].text) ||
            o.number[rows[i].id] != rows[i].number || o.format != rows[i].format) {
            fail_msg("row %zu: %d %s, \"%s\", %ld, format %d", i, r, err.msg,
                r || !o.text[rows[i].id] ? "None" : o.text[rows[i].id],
                r ? 0 : (long)o.number[rows[i].id], r ? -1 : (int)o.format);
        }
        assert_string_equal(o.script[0], "t.py");
        options_done(&o);
    }
}

static void errors_name_option_value_and_what_was_expected(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX], *env[2];
        int code;
        const char *text;
    } rows[] = {
        {{0}, {0}, CO_INVALID, "no training script"},
        {{"--rank"}, {0}, CO_INVALID, "--rank needs a value"},
        {{"--log_dir", "--rank", "1", "t.py"}, {0}, CO_INVALID,
            "--log_dir needs a value, but \"--rank\" follows"},
        {{"--log_dir", "-x", "t.py"}, {0}, CO_INVALID, "--log_dir=-x"},
        {{"--rank", "x", "t.py"}, {0}, CO_INVALID, "--rank: \"x\" is not an integer"},
        {{"--rank=-2", "t.py"}, {0}, CO_INVALID, "--rank: \"-2\""},
        {{"t.py"}, {"PADDLE_RANK=x"}, CO_INVALID, "PADDLE_RANK: \"x\""},
        {{"--log", "x", "t.py"}, {0}, CO_INVALID, "--log fits several options"},
        {{"--no_such=1", "t.py"}, {0}, CO_INVALID, "unknown option --no_such"},
        {{"--nprocs_per_node=2", "t.py"}, {0}, CO_INVALID,
            "unknown option --nprocs_per_node: did you mean --nproc_per_node? (--help"},
        {{"--logdir", "x", "t.py"}, {0}, CO_INVALID, "did you mean --log_dir?"},
        {{"--selected_gpu=0", "t.py"}, {0}, CO_INVALID, "did you mean --selected_gpus?"},
        {{"--cluster_node_ip=a", "t.py"}, {0}, CO_INVALID, "did you mean --cluster_node_ips?"},
        {{"--selected", "0", "t.py"}, {0}, CO_INVALID, "unknown option --selected"},
        {{"--backend=random_str", "t.py"}, {0}, CO_INVALID, "expected one of auto, nccl, gloo"},
        {{"-x", "t.py"}, {0}, CO_INVALID, "\"-x\" is not an option"},
        {{"--run_mode", "spark", "t.py"}, {0}, CO_INVALID, "expected one of collective, ps"},
        {{"--compat", "1.8", "t.py"}, {0}, CO_INVALID, "--compat is \"1.8\""},
        {{"--sort_ip", "maybe", "t.py"}, {0}, CO_INVALID, "--sort_ip"},
        {{"--log_max_size", "5X", "t.py"}, {0}, CO_INVALID, "--log_max_size"},
        {{"--join_timeout", "0", "t.py"}, {0}, CO_INVALID,
            "--join_timeout is \"0\", expected more"},
        {{"--silent_timeout=0s", "t.py"}, {0}, CO_INVALID, "--silent_timeout is \"0s\""},
        {{"--stop_timeout=-3s", "t.py"}, {0}, CO_INVALID,
            "--stop_timeout: \"-3s\" is not a duration"},
        {{"--auto_tuner_json", "x", "t.py"}, {0}, CO_UNSUPPORTED, "not here: its tuner"},
        {{"--auto_parallel_config=x", "t.py"}, {0}, CO_UNSUPPORTED,
            "start such a job with Paddle's launcher"},
        {{"--rank_mapping_file=x", "t.py"}, {0}, CO_UNSUPPORTED,
            "choose processes with --nproc_per_node, --devices and --rank"},
        {{"--rank_mapping_path", "x", "t.py"}, {0}, CO_UNSUPPORTED, "Paddle's planner decides it"},
        {{"--coordinators=a:1", "t.py"}, {0}, CO_UNSUPPORTED, "federated"},
        {{"--help"}, {0}, CO_CANCELED, ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct options o;
        struct co_err err = {0};
        int r = parse(rows[i].words, rows[i].env, &o, &err);
        if (r != rows[i].code || !strstr(err.msg, rows[i].text)) {
            fail_msg("row %zu: %d \"%s\"", i, r, err.msg);
        }
    }
}

static void what_the_environment_overrides_is_said(void **state) {
    (void)state;
    static const char *const words[] = {"--job_id", "mine", "t.py", NULL};
    static const char *const env[] = {"PADDLE_JOB_ID=theirs", NULL};
    struct options o;
    assert_int_equal(parse(words, env, &o, NULL), 0);
    assert_string_equal(o.notes.data,
        "LAUNCH WARNING args job_id will be overridden by env: PADDLE_JOB_ID value: theirs\n");
    options_done(&o);
}

static void rows_are_whole(void **state) {
    (void)state;
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        assert_non_null(row->name);
        assert_non_null(row->help);
        bool needs_note = row->support == OPTIONS_BETTER || row->support == OPTIONS_IGNORED ||
                          row->support == OPTIONS_REFUSED;
        assert_int_equal(needs_note, row->note != NULL);
        /* the configuration block is sorted */
        assert_true(i == 0 || strcmp(options_option_rows[i - 1].name, row->name) < 0);
    }
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    assert_int_equal(options_help(&b, NULL), 0);
    assert_non_null(strstr(b.data, "--nproc_per_node N"));
    co_buf_clear(&b);
    assert_int_equal(options_markdown(&b, NULL), 0);
    assert_non_null(strstr(b.data, "| `--auto_tuner_json` |  |  | refused |"));
}

/* So that a job that starts here strips them, and docs/env.md names them. */
static void every_variable_of_an_option_is_in_the_contract(void **state) {
    (void)state;
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const char *name = options_option_rows[i].env;
        if (name && co_contract_find(name) < 0) {
            fail_msg("%s of --%s has no row in the contract", name, options_option_rows[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_where_they_come_from),
        cmocka_unit_test(errors_name_option_value_and_what_was_expected),
        cmocka_unit_test(what_the_environment_overrides_is_said),
        cmocka_unit_test(every_variable_of_an_option_is_in_the_contract),
        cmocka_unit_test(rows_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
