#include "runtime/launch/options/torchrun_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/parse.h"
#include "runtime/launch/options/options.h"

enum { WORDS_MAX = 12, TEXT_MAX = 1 << 16 };

static const struct {
    const char *given[WORDS_MAX];
    const char *words; /* behind --log_level; or */
    const char *error; /* a part of the message */
    bool inside;       /* in a pod */
} rows[] = {
    /* What is not said is as torchrun's: one process, no restart, all output here. */
    {{"train.py", "--nnodes", "3"},
        "--nproc_per_node=1 --max_restart=0 --log_dir= py -u train.py --nnodes 3", NULL, false},
    {{"--nproc-per-node=4", "train"}, "--nproc_per_node=4 --max_restart=0 --log_dir= py -u train",
        NULL, false},
    {{"--nproc_per_node", "gpu", "train.py"}, "--max_restart=0 --log_dir= py -u train.py", NULL,
        false},
    {{"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "t.py"},
        "--nproc_per_node=1 --master=10.0.0.1:29500 --nnodes=2 --rank=1 --max_restart=0 --log_dir= "
        "py -u t.py",
        NULL, false},
    {{"--nnodes=2", "--master_addr", "fd00::1", "--master_port", "5", "t.py"},
        "--nproc_per_node=1 --master=[fd00::1]:5 --nnodes=2 --max_restart=0 --log_dir= py -u t.py",
        NULL, false},
    {{"--nnodes=2:2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--rdzv-id=7", "t.py"},
        "--nproc_per_node=1 --master=h:29400 --nnodes=2 --max_restart=0 --log_dir= --job_id=7 py "
        "-u "
        "t.py",
        NULL, false},
    {{"--nnodes=1:4", "--max-restarts=3", "--rdzv_backend=c10d", "--rdzv_endpoint=h:1",
         "--node-rank=2", "t.py"},
        "--nproc_per_node=1 --master=h:1 --nnodes=1:4 --elastic_level=1 --max_restart=3 --log_dir= "
        "py -u t.py",
        NULL, false},
    {{"--nnodes=1:2", "--rdzv-backend=etcd-v2", "--rdzv-endpoint=e", "t.py"},
        "--nproc_per_node=1 --master=etcd://e:2379 --nnodes=1:2 --elastic_level=1 --max_restart=0 "
        "--log_dir= py -u t.py",
        NULL, false},
    /* A node that may restart meets itself; in a pod the others are known. */
    {{"--standalone", "--max-restarts=2", "--rdzv-endpoint=localhost:0", "t.py"},
        "--nproc_per_node=1 --nnodes=1:1 --master=127.0.0.1:4000 --elastic_level=1 --max_restart=2 "
        "--log_dir= py -u t.py",
        NULL, false},
    {{"--max-restarts=2", "t.py"},
        "--nproc_per_node=1 --elastic_level=1 --max_restart=2 --log_dir= py -u t.py", NULL, true},
    {{"-m", "pkg.train", "-m"},
        "--nproc_per_node=1 --max_restart=0 --log_dir= py -u -m pkg.train -m", NULL, false},
    {{"--no-python", "./t.sh"}, "--nproc_per_node=1 --max_restart=0 --log_dir= ./t.sh", NULL,
        false},
    {{"--run-path", "/t.py"}, "--nproc_per_node=1 --max_restart=0 --log_dir= py -u /t.py", NULL,
        false},
    {{"--log-dir=d", "t.py"}, "--nproc_per_node=1 --max_restart=0 --log_dir=d py -u t.py", NULL,
        false},
    {{"-r", "3", "-t=0", "t.py"}, "--nproc_per_node=1 --max_restart=0 --log_dir=log py -u t.py",
        NULL, false},
    {{"--local-addr=10.0.0.7", "--shutdown-timeout=9", "--dry-run", "t.py"},
        "--nproc_per_node=1 --max_restart=0 --log_dir= --host=10.0.0.7 --stop_timeout=9 --dry_run "
        "py "
        "-u t.py",
        NULL, false},
    {{"--role=a", "--monitor-interval=5", "--start-method=fork", "--signals-to-handle=SIGTERM",
         "t.py"},
        "--nproc_per_node=1 --max_restart=0 --log_dir= py -u t.py", NULL, false},
    {{"--nnodes=2:1", "t.py"}, NULL, "--nnodes is \"2:1\": MIN 2 is above MAX 1", false},
    {{"--nnodes=2", "--rdzv-backend=c10d", "t.py"}, NULL, "c10d needs --rdzv-endpoint", false},
    {{"--nnodes=2", "--rdzv-endpoint=h:0", "t.py"}, NULL, "must know its port", false},
    {{"--nnodes=2", "--rdzv-endpoint=http://h:1", "t.py"}, NULL,
        "--rdzv-endpoint is \"http://h:1\", expected HOST or HOST:PORT", false},
    {{"--nnodes=2", "--rdzv-endpoint=:1", "t.py"}, NULL, "--rdzv-endpoint is \":1\", expected",
        false},
    {{"--nnodes=2", "--master-addr=a:b", "t.py"}, NULL, "--master-addr is \"a:b\", expected HOST",
        false},
    {{"--nnodes=2", "--standalone", "t.py"}, NULL, "--standalone is for one node", false},
    {{"--nnodes=4:1", "t.py"}, NULL, "--nnodes is \"4:1\"", false},
    {{"--nnodes=", "t.py", "x"}, "--nproc_per_node=1 --max_restart=0 --log_dir= py -u t.py x", NULL,
        false},
    {{"--nproc-per-node=cpu", "t.py"}, NULL, "--nproc-per-node is \"cpu\"", false},
    {{"--rdzv-backend=zeus", "t.py"}, NULL, "--rdzv-backend is \"zeus\"", false},
    {{"--max-restarts=-1", "t.py"}, NULL, "--max-restarts", false},
    {{"--redirects=0:3", "t.py"}, NULL, "--redirects is \"0:3\", expected 0 or 3", false},
    {{"--tee=1", "t.py"}, NULL, "--tee is \"1\"", false},
    {{"--rdzv-conf=join_timeout=5", "t.py"}, NULL, "--rdzv-conf is not known here: write", false},
    {{"--virtual-local-rank", "t.py"}, NULL, "--virtual-local-rank is not known here", false},
    {{"--module", "--no-python", "t"}, NULL, "exclude each other", false},
    {{"--standalone"}, NULL, "no training script", false},
};

static void fail_with(size_t row, const char *have, const char *want) {
    fail_msg("row %zu (%s): have '%s', expected '%s'", row, rows[row].given[0], have, want);
}

static void words_of_torchrun_become_launchs(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct options_torchrun_given given = {.n_script = 0};
        struct co_flag flags[OPTIONS_TORCHRUN_FLAGS];
        const size_t n = options_torchrun_flags(&given, flags);
        char *argv[WORDS_MAX + 2] = {(char *)"torchrun"};
        int argc = 1, rest = 0;
        for (; rows[i].given[argc - 1]; argc++) {
            argv[argc] = (char *)rows[i].given[argc - 1];
        }
        struct co_err err = {0};
        assert_int_equal(co_flags_parse(flags, n, argc, argv, &rest, &err), 0);
        given.script = argv + rest;
        given.n_script = argc - rest;
        const struct options_torchrun_place at = {.python = "py",
            .inside = rows[i].inside,
            .port = options_torchrun_wants_port(&given, rows[i].inside) ? 4000 : 0};
        CO_CLEANUP(options_list_done) struct options_list words = {0};
        const int r = options_torchrun_words(&given, &at, &words, &err);
        if (rows[i].error) {
            if (!r || !strstr(err.msg, rows[i].error)) {
                fail_with(i, err.msg, rows[i].error);
            }
            continue;
        }
        CO_AUTOFREE char *text = options_list_join(&words, " ");
        CO_AUTOFREE char *want = co_xasprintf("launch --log_level=WARNING %s", rows[i].words);
        if (r || strcmp(text, want) != 0) {
            fail_with(i, r ? err.msg : text, want);
        }
    }
}

static const char *no_environment(void *arg, const char *name) {
    (void)arg;
    (void)name;
    return NULL;
}

static void launch_understands_all_that_torchrun_becomes(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].error) {
            continue;
        }
        CO_CLEANUP(options_list_done) struct options_list words = {0};
        options_list_add(&words, "launch");
        options_list_split_at(&words, rows[i].words, ' ');
        CO_CLEANUP(options_done) struct options o = {.n_script = 0};
        struct co_err err = {0};
        if (options_parse((int)words.n, words.item, no_environment, NULL, &o, &err)) {
            fail_with(i, err.msg, rows[i].words);
        }
    }
}

static void launch_sends_who_writes_torchruns_options_there(void **state) {
    (void)state;
    static const char *const names[] = {"--node-rank=1", "--node_rank=1", "--rdzv-endpoint=h:1",
        "--max-restarts=3", "--standalone", "--tee=3"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        char *const argv[] = {(char *)"launch", (char *)names[i], (char *)"t.py", NULL};
        struct options o = {.n_script = 0};
        struct co_err err = {0};
        assert_int_equal(options_parse(3, argv, no_environment, NULL, &o, &err), CO_INVALID);
        assert_non_null(strstr(err.msg, "is an option of torchrun's: write paddlerun torchrun"));
    }
}

static void every_option_has_a_row_on_the_page(void **state) {
    (void)state;
    struct options_torchrun_given given = {.n_script = 0};
    struct co_flag flags[OPTIONS_TORCHRUN_FLAGS];
    const size_t n = options_torchrun_flags(&given, flags);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    assert_int_equal(options_torchrun_markdown(&b, NULL), 0);
    size_t lines = 0;
    for (const char *p = b.data; (p = strchr(p, '\n')); p++) {
        lines++;
    }
    assert_int_equal(lines, OPTIONS_TORCHRUN_COUNT + 2);
    for (size_t i = 0; i < n; i++) {
        assert_true(flags[i].name[1] == '\0' ||
                    options_torchrun_knows(flags[i].name, strlen(flags[i].name)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_torchrun_become_launchs),
        cmocka_unit_test(launch_understands_all_that_torchrun_becomes),
        cmocka_unit_test(launch_sends_who_writes_torchruns_options_there),
        cmocka_unit_test(every_option_has_a_row_on_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
