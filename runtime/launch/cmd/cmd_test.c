#include "runtime/launch/cmd/cmd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "runtime/launch/cmd/commands.h"
#include "runtime/legacy/cluster/legacy_commands.h"
#include "runtime/tools/tools.h"

enum { WORDS_MAX = 8 };

/* A command in a process of its own, with this environment and no other; its exit code and all
 * that it printed. */
static int run(int (*command)(int argc, char **argv), const char *const *words,
    const char *const *env, struct co_buf *ret) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(out[1], STDERR_FILENO);
        (void)clearenv();
        (void)setenv("PATH", "/usr/bin:/bin", 1);
        (void)setenv("CUDA_VISIBLE_DEVICES", "", 1); /* whatever GPUs this machine has */
        for (; *env; env++) {
            (void)putenv((char *)*env);
        }
        char *argv[WORDS_MAX + 1] = {NULL};
        int argc = 0;
        for (; argc < WORDS_MAX && words[argc]; argc++) {
            argv[argc] = co_xstrdup(words[argc]);
        }
        int code = command(argc, argv);
        (void)fflush(NULL);
        _exit(code);
    }
    (void)close(out[1]);
    char buf[4096];
    ssize_t n;
    while ((n = read(out[0], buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(ret, buf, (size_t)n, NULL), 0);
    }
    (void)close(out[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct row {
    int (*command)(int argc, char **argv);
    const char *words[WORDS_MAX], *env[8];
    int code;
    const char *text; /* somewhere in what it prints */
};

#define LISTS                                                                                      \
    "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:1,[::1]:1", "TRAINING_ROLE=TRAINER",                   \
        "PADDLE_TRAINERS_NUM=2"

#define LAUNCH "launch", "--log_dir=", "--termination_log=", "--", "/bin/sh", "-c"

#define SHELL "--no-python", "/bin/sh", "-c",

static const struct row rows[] = {
    {tool_info, {"info"}, {NULL}, 0, "training    alone\nrole        worker 0 of 1\n"},
    {tool_info, {"info"}, {LISTS, "PADDLE_TRAINER_ID=1"}, 0, "role        worker 1 of 2\n"},
    {tool_info, {"info"}, {LISTS, "PADDLE_TRAINER_ID=1"}, 0,
        "server 0    127.0.0.1:1                  not reachable: Connection refused"},
    {tool_info, {"info", "--timeout=0"}, {LISTS, "PADDLE_TRAINER_ID=1"}, 0,
        "PADDLE_TRAINER_ID=1\n"},
    {tool_info, {"info"}, {LISTS, "PADDLE_TRAINER_ID=2"}, 2,
        "paddlerun info: PADDLE_TRAINER_ID is \"2\", expected less than PADDLE_TRAINERS_NUM 2\n"},
    {tool_info, {"info", "--timeout=x"}, {NULL}, 2, "paddlerun info: "},
    {tool_info, {"info", "--timeout=5s", "127.0.0.1:1"}, {NULL}, 1, "nobody answers"},
    {tool_info, {"info", "127.0.0.1:1"}, {NULL}, 1, "Connection refused"},
    {tool_info, {"info", "nonsense"}, {NULL}, 2, "paddlerun info: target"},
    {tool_top, {"top"}, {NULL}, 2, "no address given"},
    {tool_top, {"top", "--interval=1ms", "a:1"}, {NULL}, 2, "below 100ms"},
    {tool_top, {"top", "a:1", "--interval=1ms"}, {NULL}, 2, "below 100ms"},
    {tool_top, {"top", "Job"}, {NULL}, 2, "is neither a job's name nor HOST:PORT"},
    {tool_top, {"top", "job", "-n", "a/b"}, {NULL}, 2, "\"a/b\" is not a namespace"},
    {tool_top, {"top", "--count=2", "--interval=100ms", "127.0.0.1:1"}, {NULL}, 1,
        "nobody answers"},
    {tool_check, {"check", "more"}, {NULL}, 2, "expected flags only"},
    {tool_check, {"check", "--timeout=0"}, {NULL}, 2, "--timeout is 0"},
    {tool_version, {"version", "-x"}, {NULL}, 2, "paddlerun version: "},
    {tool_version, {"version"}, {NULL}, 0, "paddlerun "},
    {tool_version, {"version", "foo"}, {NULL}, 2, "\"foo\" is one word too many"},
    {tool_ckpt, {"ckpt"}, {NULL}, 2, "Usage: paddlerun ckpt COMMAND"},
    {tool_ckpt, {"ckpt", "--help"}, {NULL}, 0, "merge"},
    {tool_ckpt, {"ckpt", "none", "/"}, {NULL}, 2, "Usage: paddlerun ckpt COMMAND"},
    {tool_ckpt, {"ckpt", "ls", "/no/such"}, {NULL}, 1,
        "paddlerun ckpt ls: no checkpoint in \"/no/such\""},
    {tool_ckpt, {"ckpt", "show", "/no/such/ckpt-3"}, {NULL}, 1,
        "checkpoint \"/no/such/ckpt-000000000003\" was not completed"},
    {tool_ckpt, {"ckpt", "verify", "/no/such"}, {NULL}, 1, "no checkpoint in \"/no/such\""},
    {tool_ckpt, {"ckpt", "ls", "/dev/null"}, {NULL}, 1,
        "paddlerun ckpt ls: cannot list \"/dev/null\": Not a directory"},
    {tool_ckpt, {"ckpt", "verify", "/dev/null"}, {NULL}, 1,
        "paddlerun ckpt verify: cannot list \"/dev/null\": Not a directory"},
    {tool_ckpt, {"ckpt", "diff", "/a"}, {NULL}, 2, "1 words, expected: paddlerun ckpt diff"},
    {tool_ckpt, {"ckpt", "diff", "/a", "/b"}, {NULL}, 2, "no checkpoint in \"/a\""},
    {tool_ckpt, {"ckpt", "show", "--memory=0", "/a"}, {NULL}, 2, "paddlerun ckpt show: "},
    {tool_info, {"info", "--help"}, {NULL}, 0, "--timeout"},
    {cmd_exec, {"exec"}, {NULL}, 2, "no program given"},
    {cmd_exec, {"exec", "--", "sh", "-c", "echo hi; exit 4"}, {NULL}, 4, "hi\n"},
    {cmd_exec, {"exec", "--", "/no/such"}, {NULL}, 127,
        "paddlerun exec: cannot start \"/no/such\""},
    {cluster_cmd_train, {"train", "--num_passes=2"}, {NULL}, 2, "--config is not set"},
    {cluster_cmd_train, {"train", "--config=no.such"}, {NULL}, 2,
        "--config is \"no.such\": No such file or directory, neither here nor in the PATH"},
    {cluster_cmd_train, {"train", "--config=env", "--num_passes=3"}, {NULL}, 0,
        "PADDLE_INIT_NUM_PASSES=3"},
    {cluster_cmd_train, {"train", "config"}, {NULL}, 2, "\"config\", expected --flag=value"},
    {cluster_cmd_train,
        {"train", "--config=/usr/bin/env", "--save-dir=out", "--local=0", "--nonsense"}, {NULL}, 0,
        "PADDLE_INIT_SAVE_DIR=out\nPADDLE_INIT_LOCAL=0\nPADDLE_INIT_NONSENSE=true\n"},
    {cluster_cmd_mpi, {"mpi"}, {NULL}, 2, "no program given"},
    {cluster_cmd_cluster_train, {"cluster_train"}, {NULL}, 2,
        "--job_workspace or --job_dispatch_package should be set"},
    {cluster_cmd_cluster_train, {"cluster_train", "-j"}, {NULL}, 2, "job_workspace"},
    {cluster_cmd_cluster_train, {"cluster_train", "-j", "/w", "-p", "/tmp"}, {NULL}, 2,
        "both --job_workspace and --job_dispatch_package are set"},
    {cluster_cmd_cluster_train, {"cluster_train", "--job_workspace=w"}, {NULL}, 2,
        "--job_workspace is \"w\", expected an absolute path"},
    {cluster_cmd_cluster_train, {"cluster_train", "-p", "/dev/null"}, {NULL}, 2,
        "--job_dispatch_package is \"/dev/null\", expected a directory"},
    {cluster_cmd_cluster_train, {"cluster_train", "-j", "/w", "word"}, {NULL}, 2,
        "\"word\", expected --flag=value"},
    /* --conf is ours, --config the trainers'. */
    {cluster_cmd_cluster_train,
        {"cluster_train", "-j", "/w", "--config=x", "--conf", "/no/such.yaml"}, {NULL}, 2,
        "/no/such.yaml"},
    {cluster_cmd_cluster_train, {"cluster_train", "-j", "/w", "--conf=/dev/null"}, {NULL}, 2,
        "/dev/null: HOSTS is not there"},
    {cluster_cmd_cluster_train, {"cluster_train", "--nonsense=1", "--help"}, {NULL}, 0,
        "--server-grace"},
    {cluster_cmd_mpi, {"mpi", "--", "true"}, {NULL}, 2, "this process has no rank"},
    {cluster_cmd_mpi, {"mpi", "--port=0", "--", "true"}, {NULL}, 2, "port"},
    {cluster_cmd_mpi, {"mpi", "--", "true"}, {"PMI_RANK=1", "PMI_SIZE=2"}, 2,
        "expected --machines=FILE with one a line (\"machines\" is not there)"},
    {cluster_cmd_mpi, {"mpi", "--machines=/", "--", "true"}, {"PMI_RANK=1", "PMI_SIZE=2"}, 2,
        "Is a directory"},
    {cluster_cmd_mpi, {"mpi", "--", "true"},
        {"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_NODELIST=a["}, 2, "SLURM_JOB_NODELIST"},
    {cluster_cmd_mpi, {"mpi", "--", "env"},
        {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_STEP_NODELIST=a"}, 0,
        "PADDLE_INIT_PSERVERS=a\n"},
    {cmd_launch, {"launch", "--help"}, {NULL}, 0, "--nproc_per_node"},
    {cmd_launch, {"launch", "--no_such_flag=1"}, {NULL}, 2, "paddlerun launch: error: "},
    /* what a job's end is, and who decides it */
    {cmd_launch, {LAUNCH, "exit 0"}, {NULL}, 0, "Pod completed\n"},
    {cmd_launch, {LAUNCH, "exit 3"}, {NULL}, 3, "worker 0: exit code 3\n"},
    {cmd_launch, {LAUNCH, "kill -9 $$"}, {NULL}, 137, "code -9 log None\n"},
    {cmd_launch, {LAUNCH, "kill -TERM $PPID; exec sleep 600"}, {NULL}, 143,
        "Exit with signal 15\n"},
    {cmd_launch, {LAUNCH, "kill -INT $PPID; exec sleep 600"}, {NULL}, 130, "Exit with signal 2\n"},
    {cmd_launch, {LAUNCH, "kill -USR1 $PPID; exec sleep 600"}, {NULL}, 138,
        "worker 0: killed by SIGUSR1\n"}, /* the processes' own, all have it */
    {cmd_launch, {"launch", "--log_dir=", "--termination_log=", "/no/such"}, {NULL}, 127,
        "cannot start \"/no/such\""},
    {cmd_launch, {"launch", "--log_dir=", "--termination_log=", "/"}, {NULL}, 126,
        "cannot start \"/\""},
    {cmd_launch, {"launch", "--log_dir=", "--termination_log=", ""}, {NULL}, 127,
        "cannot start \"\""},
    {cmd_launch, {"launch", "--log_dir=", "--termination_log=", "t.py"},
        {"PADDLERUN_PYTHON=/no/python"}, 127, "\"t.py\" needs Python, PADDLERUN_PYTHON"},
    {cmd_launch, {"launch", "--log_dir=/proc/no/such", "--termination_log=", "/bin/true"}, {NULL},
        0, "log_dir \"/proc/no/such\": cannot make \"/proc/no\""},
    /* a process's environment: all of the launcher's, but proxies and what the job decides */
    {cmd_launch, {LAUNCH, "echo \"[$MY_OWN]$PADDLE_TRAINER_ID\""}, {"MY_OWN= a  b "}, 0,
        "[ a  b ]0\n"},
    {cmd_launch, {LAUNCH, "echo [$http_proxy$http_proxy_original]"}, {"http_proxy=p:1"}, 0,
        "[p:1]\n"},
    {cmd_launch, {LAUNCH, "exit $PADDLE_TRAINERS_NUM"}, {"PADDLE_NPROC_PER_NODE=2"}, 2,
        "will be overridden by env: PADDLE_NPROC_PER_NODE value: 2\n"},
    {cmd_launch, {LAUNCH, "echo \"[$0]\"", "--help"}, {NULL}, 0, "[--help]\n"},
    {cmd_launch, {"launch", "--dry_run", "--nproc_per_node=2", "t", "a b"}, {NULL}, 0,
        "PADDLE_TRAINER_ID=1"},
    {cmd_launch, {"launch", "--dry_run=no", "--log_dir=", "--termination_log=", "/bin/true"},
        {NULL}, 0, "Pod completed\n"},
    /* what cannot be is exit code 2, before anything starts */
    {cmd_launch, {"launch", "--nnodes=0", "t"}, {NULL}, 2, "nnodes is \"0\", expected the number"},
    {cmd_launch, {"launch", "--nnodes=1", "t"}, {"PADDLE_NNODES=2:"}, 2,
        "PADDLE_NNODES is \"2:\", expected the number of nodes, N or MIN:MAX"},
    {cmd_launch, {"launch", "--nnodes=2:1", "--master=a:1", "t"}, {NULL}, 2,
        "nnodes is \"2:1\": MIN 2 is above MAX 1"},
    {cmd_launch, {"launch", "--nnodes=2", "--master=127.0.0.1:0", "t"}, {NULL}, 2,
        "--master \"127.0.0.1:0\": expected host:port, with a port from 1 to 65535"},
    {cmd_launch, {"launch", "--ips=,", "t"}, {NULL}, 2,
        "--ips is \",\", expected hosts separated by commas"},
    {cmd_launch, {"launch", "--nnodes=1:2:3", "--master=a:1", "t"}, {NULL}, 2,
        "nnodes is \"1:2:3\""},
    {cmd_launch, {"launch", "--np=-1", "t"}, {NULL}, 2, "np is \"-1\""},
    {cmd_launch, {"launch", "--nnodes=100001", "t"}, {NULL}, 2, "from 1 to 100000"},
    {cmd_launch, {"launch", "--require_token", "t"}, {NULL}, 2, "without a token"},
    {cmd_launch, {"launch", "--server_num=0", "--trainer_num=1", "t"}, {NULL}, 2,
        "0 servers and 1 trainers on the only node"},
    {cmd_launch, {"launch", "t"}, {"PORT_RANGE=9"}, 2, "PORT_RANGE is \"9\", expected FIRST:LAST"},
    {cmd_launch, {"launch", "--nproc_per_node=3", "t"}, {"FLAGS_START_PORT=65534"}, 2,
        "expected none above 65535"},
    {cmd_exec, {"exec", "--", "sh", "-c", "echo hi; kill -9 $$"}, {NULL}, 137, "hi\n"},
    {cmd_exec, {"exec", "sh", "-c", "echo \"$0\"", "--grace=x"}, {NULL}, 0, "--grace=x\n"},
    {cmd_exec, {"exec", "--grace=x", "sh"}, {NULL}, 2, "\"x\" is not a duration"},
    {cmd_exec, {"exec", "--grace=-1s", "sh"}, {NULL}, 2, "\"-1s\" is not a duration"},
    {cmd_exec, {"exec", "--grac=1s", "sh"}, {NULL}, 2, "did you mean \"--grace\"?"},
    {cmd_exec, {"exec", "--grace=1s", "--"}, {NULL}, 2, "no program given"},
    {cmd_exec, {"exec", "--", ""}, {NULL}, 127, "cannot start \"\""},
    {cmd_exec, {"exec", "--", "/"}, {NULL}, 126, "cannot start \"/\""},
    {cmd_docs, {"docs", "--help"}, {NULL}, 0,
        "Usage: paddlerun docs launch|torchrun|hardware|rules|metrics|man|bash|zsh"},
    {cmd_docs, {"docs", "launch", "rules"}, {NULL}, 2, "Usage: paddlerun docs"},
    {cmd_docs, {"docs", "man"}, {NULL}, 0, ".TH "},
    {cmd_docs, {"docs", "bash"}, {NULL}, 0, "--nproc_per_node"},
    {cmd_docs, {"docs", "zsh"}, {NULL}, 0, "--nproc_per_node"},
    {cmd_torchrun, {"torchrun"}, {NULL}, 2, "paddlerun torchrun: no training script"},
    {cmd_torchrun, {"torchrun", "--tee=1", "t.py"}, {NULL}, 2, "paddlerun torchrun: --tee is"},
    {cmd_torchrun,
        {"torchrun", "--nproc_per_node=2", SHELL "echo $RANK/$WORLD_SIZE/$OMP_NUM_THREADS"}, {NULL},
        0, "1/2/1\n"},
    {cmd_torchrun, {"torchrun", "--nproc-per-node=2", SHELL "echo $OMP_NUM_THREADS"},
        {"OMP_NUM_THREADS=3"}, 0, "3\n"},
    {cmd_torchrun,
        {"torchrun", "--max-restarts=1", SHELL "exit $((1 - TORCHELASTIC_RESTART_COUNT))"}, {NULL},
        0, "starting again"},
    {cmd_torchrun, {"torchrun", "--max-restarts=1", SHELL "exit 0"},
        {"PADDLE_TRAINER_ENDPOINTS=127.0.0.1:1"}, 0, "write spec.backoffLimit\n"},
    {cmd_docs, {"docs"}, {NULL}, 2,
        "Usage: paddlerun docs launch|torchrun|hardware|rules|metrics|man|bash|zsh"},
    {cmd_docs, {"docs", "other"}, {NULL}, 2,
        "Usage: paddlerun docs launch|torchrun|hardware|rules|metrics|man|bash|zsh"},
    {cmd_docs, {"docs", "launch"}, {NULL}, 0, "nproc_per_node"},
    {cmd_docs, {"docs", "hardware"}, {NULL}, 0, "| `/dev/davinciN` |"},
    {cmd_docs, {"docs", "metrics"}, {NULL}, 0, "paddlert_server_rows"},
    {cmd_docs, {"docs", "rules"}, {NULL}, 0, "adagrad_ctr"},
    {cmd_local, {"local", "/no/such"}, {NULL}, 2, "/no/such"},
    {cmd_local, {"local", "a", "b"}, {NULL}, 2, "one file at most, got \"b\", too"},
    {cmd_local, {"local", "--image"}, {NULL}, 2, "expected NAME=COMMAND"},
    {cmd_local, {"local", "--image=x", "y"}, {NULL}, 2, "expected NAME=COMMAND"},
    {cmd_local, {"local", "/dev/null"}, {NULL}, 2, "there is no Pod in the input"},
    {cmd_local, {"local", "--color=allways", "/dev/null"}, {NULL}, 2,
        "--color is \"allways\", expected auto, always or never"},
    {cmd_local, {"local", "--color=", "/dev/null"}, {NULL}, 2, "--color is \"\""},
    {cmd_local, {"local", "--colour=never", "/dev/null"}, {NULL}, 2, "did you mean \"--color\"?"},
    {cmd_local, {"local", "/dev/null", "--grace", "soon"}, {NULL}, 2, "\"soon\" is not a duration"},
    {cmd_local, {"local", "--image==x"}, {NULL}, 2, "--image is \"=x\", expected NAME=COMMAND"},
    {cmd_local, {"local", "--image", "x="}, {NULL}, 2, "--image is \"x=\""},
    {cmd_local, {"local", "-image=a=b", "--", "/dev/null"}, {NULL}, 2, "no Pod in the input"},
    {cmd_local, {"local", "/"}, {NULL}, 2, "paddlerun local: "},
    {cmd_local, {"local", "--help"}, {NULL}, 0, "NAME=COMMAND"},
};

static void commands_print_their_results(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
        int code = run(rows[i].command, rows[i].words, rows[i].env, &out);
        if (code != rows[i].code || !out.data || !strstr(out.data, rows[i].text)) {
            fail_msg("row %zu: %d \"%s\"", i, code, out.data ? out.data : "");
        }
    }
}

static void a_word_is_a_command_by_name_alias_or_path(void **state) {
    (void)state;
    static const struct {
        const char *word, *name, *near; /* NULL: none */
    } words[] = {
        {"launch", "launch", "launch"},
        {"fleetrun", "launch", NULL},
        {"/usr/bin/fleetrun", "launch", NULL},
        {"./launch", "launch", "launch"},
        {"k8s", "mpi", NULL},
        {"--version", "version", "version"},
        {"-h", "help", NULL},
        {"--help", "help", "help"},
        {"h", "help", NULL},
        {"paddlerun", NULL, NULL},
        {"", NULL, NULL},
        {"/", NULL, NULL},
        {"-", NULL, NULL},
        {"Launch", NULL, "launch"},
        {"lauch", NULL, "launch"},
        {"launch ", NULL, "launch"},
        {"cluster-train", NULL, "cluster_train"},
        {"verison", NULL, "version"},
        {"x", NULL, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        int at = cmd_command_find(words[i].word);
        const char *name = at < 0 ? NULL : cmd_commands[at].name;
        if (!co_streq(name, words[i].name) ||
            !co_streq(cmd_command_near(words[i].word), words[i].near)) {
            fail_msg("\"%s\": %s, near %s", words[i].word, name ? name : "none",
                cmd_command_near(words[i].word));
        }
    }
}

static void the_image_flag_replaces_an_images_program(void **state) {
    (void)state;
    char path[] = "/tmp/rt-cmd-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    static const char pod[] = "kind: Pod\nmetadata: {name: p}\n"
                              "spec: {containers: [{image: 'my/own:v1', args: [a b, c]}]}\n";
    assert_int_equal(write(fd, pod, sizeof(pod) - 1), sizeof(pod) - 1);
    (void)close(fd);
    const char *words[] = {"local", "--image", "my/own=printf '[%s]\\n'", path, NULL};
    const char *env[] = {NULL};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
    assert_int_equal(run(cmd_local, words, env, &out), 0);
    (void)unlink(path);
    assert_non_null(strstr(out.data, "p | [a b]\np | [c]\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_print_their_results),
        cmocka_unit_test(a_word_is_a_command_by_name_alias_or_path),
        cmocka_unit_test(the_image_flag_replaces_an_images_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
