#include "runtime/launch/options/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

static void values_are_read_from_words_variables_and_defaults(void **state) {
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
        /* the environment beats the command line; PADDLE_RANK beats the trainer's id, which says
         * nothing when it is negative */
        {{"--rank", "1", "t.py"}, {"PADDLE_RANK=2"}, OPTIONS_OPT_RANK, "2", 2, OPTIONS_FORMAT_3},
        {{"--rank", "1", "t.py"}, {"PADDLE_TRAINER_ID=3"}, OPTIONS_OPT_RANK, "3", 3,
            OPTIONS_FORMAT_3},
        {{"--rank", "1", "t.py"}, {"PADDLE_TRAINER_ID=3", "PADDLE_RANK=2"}, OPTIONS_OPT_RANK, "2",
            2, OPTIONS_FORMAT_3},
        {{"--rank", "1", "t.py"}, {"PADDLE_TRAINER_ID=-1"}, OPTIONS_OPT_RANK, "1", 1,
            OPTIONS_FORMAT_3},
        {{"t.py"}, {"PADDLE_TRAINER_ID=-1", "PADDLE_RANK=2"}, OPTIONS_OPT_RANK, "2", 2,
            OPTIONS_FORMAT_3},
        {{"t.py"}, {"PADDLE_TRAINER_ID=0"}, OPTIONS_OPT_RANK, "0", 0, OPTIONS_FORMAT_3},
        {{"t.py"}, {"PADDLE_TRAINER_ID="}, OPTIONS_OPT_RANK, "-1", -1, OPTIONS_FORMAT_3},
        /* values are not cut at blanks or at a second "=" */
        {{"t.py"}, {"PADDLE_LOG_DIR=/a b/c"}, OPTIONS_OPT_LOG_DIR, "/a b/c", -1, OPTIONS_FORMAT_3},
        {{"--job_id=a=b c", "t.py"}, {0}, OPTIONS_OPT_JOB_ID, "a=b c", -1, OPTIONS_FORMAT_3},
        {{"--job_id", " ", "t.py"}, {0}, OPTIONS_OPT_JOB_ID, " ", -1, OPTIONS_FORMAT_3},
        {{"--job_id", "--a b", "t.py"}, {0}, OPTIONS_OPT_JOB_ID, "--a b", -1, OPTIONS_FORMAT_3},
        {{"--master=", "t.py"}, {0}, OPTIONS_OPT_MASTER, "", -1, OPTIONS_FORMAT_3},
        {{"--nnodes", "2:4", "t.py"}, {0}, OPTIONS_OPT_NNODES, "2:4", -1, OPTIONS_FORMAT_3},
        {{"--nnodes", "2:4", "t.py"}, {"PADDLE_NNODES=3"}, OPTIONS_OPT_NNODES, "3", -1,
            OPTIONS_FORMAT_3},
        /* the last one counts, by whatever name */
        {{"--rank=1", "--rank", "2", "t.py"}, {0}, OPTIONS_OPT_RANK, "2", 2, OPTIONS_FORMAT_3},
        {{"--gpus=0", "--devices=1", "--xpu", "2", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "2", -1,
            OPTIONS_FORMAT_3},
        {{"--dry_run", "--dry-run=no", "t.py"}, {0}, OPTIONS_OPT_DRY_RUN, "no", 0,
            OPTIONS_FORMAT_3},
        {{"--log_level", "fatal", "t.py"}, {0}, OPTIONS_OPT_LOG_LEVEL, "fatal", -1,
            OPTIONS_FORMAT_3},
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
        /* it is the command that selects it, whatever another name or the environment says then */
        {{"--selected_gpus=0", "--gpus=1", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "1", -1,
            OPTIONS_FORMAT_2_0},
        {{"--gpus=1", "--selected_gpus=0", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "0", -1,
            OPTIONS_FORMAT_2_0},
        {{"--node_ip=10.0.0.1", "t.py"}, {"POD_IP=10.0.0.2"}, OPTIONS_OPT_HOST, "10.0.0.2", -1,
            OPTIONS_FORMAT_2_0},
        {{"--elastic_server=a:1", "t.py"}, {"PADDLE_ELASTIC_SERVER=b:1"},
            OPTIONS_OPT_ELASTIC_SERVER, "b:1", -1, OPTIONS_FORMAT_2_0},
        {{"t.py"}, {"PADDLE_ELASTIC_SERVER=b:1"}, OPTIONS_OPT_ELASTIC_SERVER, "b:1", -1,
            OPTIONS_FORMAT_3},
        {{"--selected_gpus=0", "t.py"}, {"PADDLE_MASTER=a:1"}, OPTIONS_OPT_DEVICES, "0", -1,
            OPTIONS_FORMAT_3},
        {{"--selected_gpus=0", "--master=", "t.py"}, {0}, OPTIONS_OPT_DEVICES, "0", -1,
            OPTIONS_FORMAT_2_0},
        {{"--legacy=no", "--np=2", "t.py"}, {0}, OPTIONS_OPT_NP, "2", -1, OPTIONS_FORMAT_2_0},
        {{"--legacy=YES", "--master=a:1", "t.py"}, {0}, OPTIONS_OPT_LEGACY, "True", 1,
            OPTIONS_FORMAT_2_0},
        {{"--legacy=1", "--compat=3.x", "t.py"}, {0}, OPTIONS_OPT_LEGACY, "True", 1,
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
        {{"--rank_mapping_file=x", "t.py"}, {0}, CO_UNSUPPORTED,
            "choose processes with --nproc_per_node, --devices and --rank"},
        {{"--rank_mapping_path", "x", "t.py"}, {0}, CO_UNSUPPORTED, "Paddle's planner decides it"},
        {{"--coordinators=a:1", "t.py"}, {0}, CO_UNSUPPORTED, "federated"},
        {{"--help"}, {0}, CO_CANCELED, ""},
        {{"--rank=1", "-h", "--rank=x"}, {0}, CO_CANCELED, ""},
        {{"--rank=x", "--help"}, {0}, CO_INVALID, "--rank: \"x\""},
        /* what an option is called where it stands */
        {{"--gpus"}, {0}, CO_INVALID, "--gpus needs a value"},
        {{"--xp"}, {0}, CO_INVALID, "--xpus needs a value"},
        {{"--nproc=x", "t.py"}, {0}, CO_INVALID, "--nproc_per_node: \"x\""},
        {{"--started_port=0", "t.py"}, {0}, CO_INVALID, "--started_port: \"0\""},
        {{"--rank=5", "t.py"}, {"PADDLE_TRAINER_ID=1x"}, CO_INVALID, "PADDLE_TRAINER_ID: \"1x\""},
        {{"t.py"}, {"PADDLE_TRAINER_ID=1000001"}, CO_INVALID,
            "PADDLE_TRAINER_ID: \"1000001\" is not an integer"},
        {{"t.py"}, {"PADDLERUN_STOP_TIMEOUT=soon"}, CO_INVALID, "PADDLERUN_STOP_TIMEOUT: \"soon\""},
        {{"t.py"}, {"PADDLE_SORT_IP=maybe"}, CO_INVALID, "PADDLE_SORT_IP: \"maybe\" is neither"},
        {{"t.py"}, {"PADDLE_RUN_MODE=spark"}, CO_INVALID, "PADDLE_RUN_MODE is \"spark\""},
        /* a value that is missing, and a word that is none */
        {{"--rank="}, {0}, CO_INVALID, "--rank: \"\" is not an integer"},
        {{"--rank", "--", "t.py"}, {0}, CO_INVALID, "--rank needs a value, but \"--\" follows"},
        {{"--rank", "-h"}, {0}, CO_INVALID,
            "but \"-h\" follows; a value that begins so: --rank=-h"},
        {{"--sort_ip", "t.py"}, {0}, CO_INVALID, "--sort_ip: \"t.py\" is neither"},
        {{"--dry_run=maybe", "t.py"}, {0}, CO_INVALID, "--dry_run: \"maybe\""},
        {{"-", "--rank"}, {"PADDLE_RANK=x"}, CO_INVALID, "PADDLE_RANK"},
        {{"---rank=1", "t.py"}, {0}, CO_INVALID, "unknown option ---rank: did you mean --rank?"},
        {{"--=1", "t.py"}, {0}, CO_INVALID, "-- fits several options"},
        {{"--"}, {0}, CO_INVALID, "no training script"},
        {{"--rank=1", "--"}, {0}, CO_INVALID, "no training script"},
        {{"-rank=1", "t.py"}, {0}, CO_INVALID, "\"-rank=1\" is not an option: expected --name"},
        {{"--Rank=1", "t.py"}, {0}, CO_INVALID, "unknown option --Rank: did you mean --rank?"},
        {{"--log-dir=x", "t.py"}, {0}, CO_INVALID, "did you mean --log_dir?"},
        {{"--nnode=2", "--nnodess=2", "t.py"}, {0}, CO_INVALID,
            "unknown option --nnodess: did you mean --nnodes?"},
        {{"--training_script=x", "t.py"}, {0}, CO_INVALID, "unknown option --training_script"},
        {{"--auto_tuner_jsn=x", "t.py"}, {0}, CO_INVALID, "unknown option --auto_tuner_jsn ("},
        /* refused by any name, but not as a default */
        {{"--rank_mapping_f=x", "t.py"}, {0}, CO_INVALID, "unknown option --rank_mapping_f ("},
        {{"--rank_map=x", "t.py"}, {0}, CO_UNSUPPORTED, "--rank_mapping_path: not here"},
        {{"--force=0", "t.py"}, {0}, CO_UNSUPPORTED, "nothing to overwrite"},
        {{"--scale=0", "t.py"}, {0}, CO_UNSUPPORTED, "kubectl scale"},
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

/* ---- one option, one value ----------------------------------------------------------------- */

struct value_row {
    const char *value;
    int64_t number; /* -1: refused */
};

/* By the command and, where a variable wins, by that: both read alike. */
static void assert_values(enum options_option id, const struct value_row *row, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CO_AUTOFREE char *word =
            co_xasprintf("--%s=%s", options_option_rows[id].name, row[i].value);
        const char *const words[] = {word, "t.py", NULL}, *const none[] = {NULL};
        struct options o = {0};
        struct co_err err = {0};
        int r = parse(words, none, &o, &err);
        if (r != (row[i].number < 0 ? CO_INVALID : 0) || (!r && o.number[id] != row[i].number)) {
            fail_msg("%s: %d %s, %lld", word, r, err.msg, r ? -1 : (long long)o.number[id]);
        }
        if (r && !strstr(err.msg, word + strlen(word) - strlen(row[i].value))) {
            fail_msg("\"%s\" does not have the value of %s", err.msg, word);
        }
        options_done(&o);
    }
}

static void a_duration_is_of_any_unit_and_at_most_ten_years(void **state) {
    (void)state;
    static const struct value_row rows[] = {{"0", 0}, {"0s", 0}, {"3", 3000}, {"+3", 3000},
        {"3s", 3000}, {"300ms", 300}, {".5s", 500}, {"1.5m", 90000}, {"1m30s", 90000},
        {"1h0m1ms", 3600001}, {"999us", 0}, {"1000000", 1000000000}, {"1000001", 1000001000},
        {"315360000", 315360000000}, {"87600h", 315360000000}, {"315360001", -1}, {"87600h1ms", -1},
        {"9223372036854775807", -1}, {"9223372036854775808", -1}, {"99999999999999999999h", -1},
        {"-1", -1}, {"-0", 0}, {"1.5", -1}, {"1e3", -1}, {"", -1}, {"s", -1}, {"5 s", -1},
        {" 5", -1}, {"5S", -1}, {"5d", -1}, {"1s2", -1}, {"0x5", -1}, {"inf", -1}, {"nan", -1},
        {"1..5s", -1}};
    assert_values(OPTIONS_OPT_STOP_TIMEOUT, rows, CO_ARRAY_LEN(rows));
    static const struct value_row some[] = {{"1ms", 1}, {"999us", -1}, {"0", -1}, {"0h", -1}};
    assert_values(OPTIONS_OPT_JOIN_TIMEOUT, some, CO_ARRAY_LEN(some));
}

static void a_size_is_of_bytes_or_binary_units(void **state) {
    (void)state;
    static const struct value_row rows[] = {{"0", 0}, {"1", 1}, {"1K", 1024}, {"64M", 64 << 20},
        {"1G", 1 << 30}, {"4294967296", 4294967296}, {"5000000000", 5000000000},
        {"9223372036854775807", INT64_MAX}, {"9223372036854775808", -1},
        {"8589934591G", INT64_MAX - (1 << 30) + 1}, {"8589934592G", -1},
        {"9007199254740991K", INT64_MAX - 1023}, {"9007199254740992K", -1}, {"-1", -1}, {"-1K", -1},
        {"", -1}, {"K", -1}, {"1KK", -1}, {"1k", -1}, {"64MB", -1}, {"64Mi", -1}, {"1.5G", -1},
        {"1 K", -1}, {"1T", -1}, {"0x10", -1}};
    assert_values(OPTIONS_OPT_LOG_MAX_SIZE, rows, CO_ARRAY_LEN(rows));
}

static void a_boolean_has_the_words_of_pythons_strtobool(void **state) {
    (void)state;
    static const struct value_row rows[] = {{"y", 1}, {"Y", 1}, {"yes", 1}, {"Yes", 1}, {"t", 1},
        {"true", 1}, {"TRUE", 1}, {"on", 1}, {"On", 1}, {"1", 1}, {"n", 0}, {"No", 0}, {"f", 0},
        {"False", 0}, {"off", 0}, {"OFF", 0}, {"0", 0}, {"", -1}, {"2", -1}, {"-1", -1},
        {"yes ", -1}, {"none", -1}, {"maybe", -1}};
    assert_values(OPTIONS_OPT_SORT_IP, rows, CO_ARRAY_LEN(rows));
    assert_values(OPTIONS_OPT_DRY_RUN, rows, CO_ARRAY_LEN(rows));
}

static void a_number_is_read_as_python_does_and_no_other(void **state) {
    (void)state;
    static const struct value_row rows[] = {{"1", 1}, {"+1", 1}, {"007", 7}, {"1024", 1024},
        {"-0", 0}, {"1025", -1}, {"-1", -1}, {"", -1}, {" 1", -1}, {"1 ", -1}, {"1.0", -1},
        {"1e2", -1}, {"0x1", -1}, {"1,2", -1}, {"--1", -1}, {"4294967297", -1},
        {"18446744073709551617", -1}, {"99999999999999999999999999", -1}};
    assert_values(OPTIONS_OPT_NPROC_PER_NODE, rows, CO_ARRAY_LEN(rows));
}

/* A number without a limit would become another one where it is counted in an int. */
static void every_number_ends_at_its_limits(void **state) {
    (void)state;
    for (int id = 0; id < OPTIONS_OPT_COUNT; id++) {
        const struct options_option_row *row = &options_option_rows[id];
        if (row->type != OPTIONS_OPTION_INT || row->support == OPTIONS_REFUSED) {
            continue;
        }
        assert_in_range(row->max, 1, INT32_MAX);
        char text[4][24];
        const int64_t number[] = {row->min, row->max, row->min - 1, row->max + 1};
        struct value_row rows[4];
        for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
            (void)snprintf(text[i], sizeof(text[i]), "%lld", (long long)number[i]);
            rows[i] = (struct value_row){text[i], number[i]};
        }
        assert_values((enum options_option)id, rows + 1, 1);
        rows[2].number = rows[3].number = -1;
        assert_values((enum options_option)id, rows + 2, 2);
        if (row->min >= 0) {
            assert_values((enum options_option)id, rows, 1);
        }
    }
}

/* ---- names --------------------------------------------------------------------------------- */

/* The shortest words that Python's argparse takes for the options of Paddle 3's launcher, and each
 * longer one up to the name. */
static void an_abbreviation_means_what_it_means_to_paddle(void **state) {
    (void)state;
    static const struct {
        const char *least, *name;
    } rows[] = {{"mas", "master"}, {"le", "legacy"}, {"ra", "rank"}, {"log_l", "log_level"},
        {"log_o", "log_overwrite"}, {"so", "sort_ip"}, {"en", "enable_gpu_log"}, {"nn", "nnodes"},
        {"npr", "nproc_per_node"}, {"log_d", "log_dir"}, {"ru", "run_mode"}, {"j", "job_id"},
        {"d", "devices"}, {"gp", "gpus"}, {"npu", "npus"}, {"x", "xpus"}, {"ho", "host"},
        {"i", "ips"}, {"st", "start_port"}, {"auto_p", "auto_parallel_config"},
        {"auto_c", "auto_cluster_config"}, {"auto_t", "auto_tuner_json"}, {"servers", "servers"},
        {"trainers", "trainers"}, {"trainer_", "trainer_num"}, {"server_", "server_num"},
        {"gl", "gloo_port"}, {"w", "with_gloo"}, {"max", "max_restart"},
        {"elastic_l", "elastic_level"}, {"elastic_t", "elastic_timeout"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (size_t len = strlen(rows[i].least); len <= strlen(rows[i].name); len++) {
            CO_AUTOFREE char *word = co_xasprintf("--%.*s", (int)len, rows[i].name);
            CO_AUTOFREE char *want = co_xasprintf("--%s needs a value", rows[i].name);
            const char *const words[] = {word, NULL}, *const none[] = {NULL};
            struct options o;
            struct co_err err = {0};
            assert_int_equal(parse(words, none, &o, &err), CO_INVALID);
            if (strcmp(err.msg, want) != 0) {
                fail_msg("%s: \"%s\", expected \"%s\"", word, err.msg, want);
            }
        }
    }
}

/* Abbreviations of what Paddle's launcher of today does not have, and what stays ambiguous. */
static void an_abbreviation_of_others_is_taken_where_it_is_the_only_one(void **state) {
    (void)state;
    static const struct {
        const char *word, *text;
    } rows[] = {{"--dr=x", "--dry_run: \"x\""}, {"--dry=x", "--dry_run: \"x\""},
        {"--dry-=x", "--dry-run: \"x\""}, {"--join=x", "--join_timeout: \"x\""},
        {"--sto=x", "--stop_timeout: \"x\""}, {"--worker_=x", "--worker_num: \"x\""},
        {"--requ=x", "--require_token: \"x\""}, {"--compa=x", "--compat is \"x\""},
        {"--cp=x", "--cpu_affinity is \"x\""}, {"--log=x", "--log fits several options"},
        {"--server=x", "--server fits several options"}, {"--n=x", "--n fits several options"},
        {"--worker=x", "--worker fits several options"}, {"--co=x", "--co fits several options"},
        {"--heter=x", "--heter fits several options"}, {"--started=x", "unknown option --started"},
        {"--node_i=x", "unknown option --node_i"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *const words[] = {rows[i].word, "t.py", NULL}, *const none[] = {NULL};
        struct options o;
        struct co_err err = {0};
        assert_int_equal(parse(words, none, &o, &err), CO_INVALID);
        if (!strstr(err.msg, rows[i].text)) {
            fail_msg("%s: \"%s\", expected \"%s\"", rows[i].word, err.msg, rows[i].text);
        }
    }
}

/* Names, old and new, do not depend on the order of rows: none is in two of them. */
static void option_names_are_unique(void **state) {
    (void)state;
    const char *names[OPTIONS_OPT_COUNT * 6];
    size_t n = 0;
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        for (size_t k = 0; options_option_name(row, k); k++) {
            names[n++] = options_option_name(row, k);
        }
        for (size_t k = 0; k < CO_ARRAY_LEN(row->old_alias) && row->old_alias[k]; k++) {
            names[n++] = row->old_alias[k];
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(names[i], names[k]);
        }
    }
}

/* ---- the script ---------------------------------------------------------------------------- */

static void arguments_after_the_script_belong_to_the_script(void **state) {
    (void)state;
    static const struct {
        const char *words[6], *script[4];
    } rows[] = {
        {{"t.py"}, {"t.py"}},
        {{"--rank=1", "t.py", "--rank", "x"}, {"t.py", "--rank", "x"}},
        {{"t.py", "--help"}, {"t.py", "--help"}},
        {{"t.py", "--", "-h"}, {"t.py", "--", "-h"}},
        {{"--", "t.py", "--"}, {"t.py", "--"}},
        {{"--rank=1", "--", "--rank=x", "a"}, {"--rank=x", "a"}},
        {{"--", "-h"}, {"-h"}},
        {{"-", "a"}, {"-", "a"}}, /* Python's name for stdin */
        {{"", "t.py"}, {"", "t.py"}},
        {{"a b.py", ""}, {"a b.py", ""}},
        {{"--dry_run", "true", "t.py"}, {"true", "t.py"}}, /* a switch takes no word */
        {{"--dry_run=true", "t.py"}, {"t.py"}},
        {{"run_check"}, {"run_check"}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        static const char *const none[] = {NULL};
        struct options o;
        struct co_err err = {0};
        if (parse(rows[i].words, none, &o, &err)) {
            fail_msg("row %zu: %s", i, err.msg);
        }
        int n = 0;
        for (; rows[i].script[n]; n++) {
            assert_true(n < o.n_script);
            assert_string_equal(o.script[n], rows[i].script[n]);
        }
        assert_int_equal(o.n_script, n);
        assert_null(o.script[n]);
        assert_string_equal(o.text[OPTIONS_OPT_SCRIPT], rows[i].script[0]);
        options_done(&o);
    }
}

/* ---- where a value is from ----------------------------------------------------------------- */

static void the_origin_of_each_value_is_known(void **state) {
    (void)state;
    static const struct {
        const char *words[3], *env[3];
        enum options_option id;
        enum options_option_origin origin;
        const char *name; /* on the command line */
    } rows[] = {
        {{"t.py"}, {0}, OPTIONS_OPT_RANK, OPTIONS_FROM_DEFAULT, NULL},
        {{"--rank=-1", "t.py"}, {0}, OPTIONS_OPT_RANK, OPTIONS_FROM_COMMAND_LINE, "rank"},
        {{"t.py"}, {"PADDLE_RANK=-1"}, OPTIONS_OPT_RANK, OPTIONS_FROM_ENVIRONMENT, NULL},
        {{"t.py"}, {"PADDLE_TRAINER_ID=1"}, OPTIONS_OPT_RANK, OPTIONS_FROM_ENVIRONMENT, NULL},
        {{"t.py"}, {"PADDLE_TRAINER_ID=-1"}, OPTIONS_OPT_RANK, OPTIONS_FROM_DEFAULT, NULL},
        {{"--rank=0", "t.py"}, {"PADDLE_TRAINER_ID=-1"}, OPTIONS_OPT_RANK,
            OPTIONS_FROM_COMMAND_LINE, "rank"},
        {{"--rank=0", "t.py"}, {"PADDLE_RANK=1"}, OPTIONS_OPT_RANK, OPTIONS_FROM_ENVIRONMENT,
            "rank"},
        {{"t.py"}, {"PADDLERUN_STOP_TIMEOUT=9"}, OPTIONS_OPT_STOP_TIMEOUT, OPTIONS_FROM_ENVIRONMENT,
            NULL},
        {{"--stop_t=9", "t.py"}, {"PADDLERUN_STOP_TIMEOUT=8"}, OPTIONS_OPT_STOP_TIMEOUT,
            OPTIONS_FROM_COMMAND_LINE, "stop_timeout"},
        {{"--xp=0", "t.py"}, {0}, OPTIONS_OPT_DEVICES, OPTIONS_FROM_COMMAND_LINE, "xpus"},
        {{"--selected_xpus=0", "t.py"}, {0}, OPTIONS_OPT_DEVICES, OPTIONS_FROM_COMMAND_LINE,
            "selected_xpus"},
        {{"--nproc=1", "t.py"}, {0}, OPTIONS_OPT_NPROC_PER_NODE, OPTIONS_FROM_COMMAND_LINE,
            "nproc_per_node"},
        {{"t.py"}, {"PADDLE_AUTO_PARALLEL_CONFIG=x"}, OPTIONS_OPT_AUTO_PARALLEL_CONFIG,
            OPTIONS_FROM_ENVIRONMENT, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct options o;
        struct co_err err = {0};
        if (parse(rows[i].words, rows[i].env, &o, &err)) {
            fail_msg("row %zu: %s", i, err.msg);
        }
        if (o.origin[rows[i].id] != rows[i].origin ||
            !co_streq(o.alias[rows[i].id], rows[i].name)) {
            fail_msg("row %zu: from %d, by the name %s", i, (int)o.origin[rows[i].id],
                o.alias[rows[i].id] ? o.alias[rows[i].id] : "None");
        }
        options_done(&o);
    }
}

static void an_error_stays_short_whatever_it_is_about(void **state) {
    (void)state;
    static const char *const forms[] = {"--%s", "--%s=1", "--rank=%s", "--sort_ip=%s",
        "--run_mode=%s", "--stop_timeout=%s", "--log_max_size=%s", "--nproc_per_node=%s", "-%s"};
    CO_AUTOFREE char *long_word = co_xcalloc(100001, 1);
    memset(long_word, 'x', 100000);
    for (size_t i = 0; i < CO_ARRAY_LEN(forms); i++) {
        CO_AUTOBUF struct co_buf word = CO_BUF(1 << 20);
        const size_t at = strcspn(forms[i], "%");
        assert_int_equal(co_buf_add(&word, forms[i], at, NULL), 0);
        assert_int_equal(co_buf_adds(&word, long_word, NULL), 0);
        assert_int_equal(co_buf_adds(&word, forms[i] + at + 2, NULL), 0);
        const char *const words[] = {word.data, "t.py", NULL}, *const none[] = {NULL};
        struct options o;
        struct co_err err = {0};
        assert_int_equal(parse(words, none, &o, &err), CO_INVALID);
        assert_in_range(strlen(err.msg), 20, 400);
    }
}

static void options_overridden_by_the_environment_are_reported(void **state) {
    (void)state;
    static const char *const words[] = {"--job_id", "mine", "t.py", NULL};
    static const char *const env[] = {"PADDLE_JOB_ID=theirs", NULL};
    struct options o;
    assert_int_equal(parse(words, env, &o, NULL), 0);
    assert_string_equal(o.notes.data,
        "LAUNCH WARNING args job_id will be overridden by env: PADDLE_JOB_ID value: theirs\n");
    options_done(&o);
}

/* A variable with a default of the operator is no setting of the user's: it is not in the notes. */
static void every_variable_that_wins_is_noted_in_the_order_of_options(void **state) {
    (void)state;
    static const char *const words[] = {"t.py", NULL};
    static const char *const env[] = {"PADDLE_RANK=1", "PADDLE_TRAINER_ID=4", "POD_IP=10.0.0.1",
        "PADDLERUN_STOP_TIMEOUT=7", "PADDLE_LOG_DIR=100%s", NULL};
    struct options o;
    assert_int_equal(parse(words, env, &o, NULL), 0);
    assert_string_equal(o.notes.data,
        "LAUNCH WARNING args host will be overridden by env: POD_IP value: 10.0.0.1\n"
        "LAUNCH WARNING args log_dir will be overridden by env: PADDLE_LOG_DIR value: 100%s\n"
        "LAUNCH WARNING args rank will be overridden by env: PADDLE_RANK value: 1\n");
    options_done(&o);
}

/* ---- pages --------------------------------------------------------------------------------- */

static void help_lists_every_option_that_has_an_effect_and_fits_a_terminal(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    assert_int_equal(options_help(&b, NULL), 0);
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        CO_AUTOFREE char *head = co_xasprintf("\n  --%s ", row->name);
        if (!strstr(b.data, head) == options_option_is_listed(row)) {
            fail_msg("--%s is %slisted", row->name, options_option_is_listed(row) ? "not " : "");
        }
    }
    for (const char *line = b.data; *line; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 98);
    }
}

/* A bar in a text would be a column more. */
static void the_page_is_a_table_of_five_columns(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    assert_int_equal(options_markdown(&b, NULL), 0);
    size_t lines = 0;
    for (const char *line = b.data; *line; line += strcspn(line, "\n") + 1, lines++) {
        size_t bars = 0, len = strcspn(line, "\n");
        for (size_t i = 0; i < len; i++) {
            bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
        }
        if (bars != 6 || line[0] != '|' || line[len - 1] != '|') {
            fail_msg("%zu bars in \"%.*s\"", bars, (int)len, line);
        }
    }
    assert_int_equal(lines, OPTIONS_OPT_COUNT + 2);
    assert_non_null(
        strstr(b.data, "\n| `--devices` `--gpus` `--npus` `--xpus`; before 2.4 `--selected_gpus` "
                       "`--selected_xpus` | `PADDLE_DEVICES` |"));
}

static void a_page_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    static const size_t most[] = {1, 40, 400, 4000};
    for (size_t i = 0; i < CO_ARRAY_LEN(most); i++) {
        CO_AUTOBUF struct co_buf help = CO_BUF(most[i]), page = CO_BUF(most[i]);
        assert_int_not_equal(options_help(&help, NULL), 0);
        assert_int_not_equal(options_markdown(&page, NULL), 0);
    }
}

static void option_rows_are_complete_and_sorted(void **state) {
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
        cmocka_unit_test(values_are_read_from_words_variables_and_defaults),
        cmocka_unit_test(errors_name_option_value_and_what_was_expected),
        cmocka_unit_test(a_duration_is_of_any_unit_and_at_most_ten_years),
        cmocka_unit_test(a_size_is_of_bytes_or_binary_units),
        cmocka_unit_test(a_boolean_has_the_words_of_pythons_strtobool),
        cmocka_unit_test(a_number_is_read_as_python_does_and_no_other),
        cmocka_unit_test(every_number_ends_at_its_limits),
        cmocka_unit_test(an_abbreviation_means_what_it_means_to_paddle),
        cmocka_unit_test(an_abbreviation_of_others_is_taken_where_it_is_the_only_one),
        cmocka_unit_test(option_names_are_unique),
        cmocka_unit_test(arguments_after_the_script_belong_to_the_script),
        cmocka_unit_test(the_origin_of_each_value_is_known),
        cmocka_unit_test(an_error_stays_short_whatever_it_is_about),
        cmocka_unit_test(options_overridden_by_the_environment_are_reported),
        cmocka_unit_test(every_variable_that_wins_is_noted_in_the_order_of_options),
        cmocka_unit_test(help_lists_every_option_that_has_an_effect_and_fits_a_terminal),
        cmocka_unit_test(the_page_is_a_table_of_five_columns),
        cmocka_unit_test(a_page_that_does_not_fit_is_an_error),
        cmocka_unit_test(every_variable_of_an_option_is_in_the_contract),
        cmocka_unit_test(option_rows_are_complete_and_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
