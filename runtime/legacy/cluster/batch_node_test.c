#include "runtime/legacy/cluster/batch_node.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"

enum { TEXT_MAX = 1 << 16, LONG_MS = 600 * 1000 };

static char dir[] = "/tmp/rl-node-test-XXXXXX";

/* What a node prints and ends with; $0 of the trainer is the test's directory. */
static const struct {
    const char *what, *server, *trainer; /* shell; server NULL: not there */
    uint32_t local;
    const char *log_dir;
    int code;
    const char *text[3];
    bool alone; /* the job's only trainer */
} rows[] = {
    {"the trainer ends, then the server", "read x <$0.fifo", "echo trains >$0/server.fifo", 0, "",
        0, {NULL}},
    {"the server is told the job", "echo \"$*\"; read x <$0.fifo", "echo x >$0/server.fifo", 0, "",
        0, {"--num_gradient_servers=3 --port=7000 --ports_num=2 --ports_num_for_sparse=4\n"}},
    {"the trainer is told its place", NULL, "env | grep PADDLE_ | sort", 1, "", 0,
        {"PADDLE_INIT_NUM_GRADIENT_SERVERS=3\n", "PADDLE_INIT_PORT=7000\n",
            "PADDLE_INIT_PSERVERS=a,b\n"}},
    {"and which of them it is", NULL, "env | grep PADDLE_ | sort", 1, "", 0,
        {"PADDLE_INIT_TRAINER_ID=2\n", "PADDLE_INIT_PORTS_NUM_FOR_SPARSE=4\n",
            "PADDLE_INIT_USE_GPU=mine\n"}},
    {"a trainer's failure ends the server", "exec sleep 100", "exit 5", 0, "", 5,
        {"paddlerun: rank 2: the trainer: exit code 5\n"}},
    {"a server's failure ends the trainer", "exit 6", "exec sleep 100", 0, "", 6,
        {"paddlerun: rank 2: the server: exit code 6\n"}},
    {"a trainer that is killed", "exec sleep 100", "kill -KILL $$", 0, "", 128 + SIGKILL,
        {"the trainer: killed by SIGKILL\n"}},
    {"a server that ends well goes first", "exit 0", "exit 0", 0, "", 0, {NULL}},
    {"a server waits for a trainer that has ended", "exec sleep 100", "exit 0", 0, "", 0,
        {"rank 0: the only trainer has ended and its server has not: stopping it\n"}, true},
    {"told to stop", "exec sleep 100", "kill -TERM $PPID; exec sleep 100", 0, "", 128 + SIGTERM,
        {NULL}},
    {"told to stop, which a server does not", "trap '' TERM; echo x >$0.fifo; exec sleep 100",
        "read x <$0/server.fifo; kill -INT $PPID; exec sleep 100", 0, "", 128 + SIGINT,
        {"did not end after SIGTERM: SIGKILL\n"}}, /* the trainer may be one of them, as well */
    {"told to stop once more", "trap '' TERM; exec sleep 70",
        "trap '' TERM; for i in $(seq 60); do kill -TERM $PPID; sleep 1; done", 0, "",
        128 + SIGTERM,
        {"rank 2: stopping (SIGTERM; once more to kill), 600.0 s to end\n",
            "2 processes did not end after SIGTERM: SIGKILL\n"}},
    {"told to quit", "exec sleep 100", "kill -QUIT $PPID; exec sleep 100", 0, "", 128 + SIGQUIT,
        {"stopping (SIGQUIT; once more to kill)"}},
    {"a signal for the trainer", "trap 'exit 6' USR1; read x <$0.fifo",
        "trap 'echo taken; echo x >$0/server.fifo; exit 0' USR1; kill -USR1 $PPID; "
        "while :; do sleep 0.1; done",
        0, "", 0, {"taken\n"}},
    {"no server there", NULL, "exit 0", 0, "", 127, {"server"}},
    {"a folder for logs in no folder", "exit 0", "test -e $0/a/b/train.log || exit 5", 0, "a/b", 0,
        {NULL}},
    {"no place for logs", "exit 0", "exit 0", 0, "/dev/null/log", 1,
        {"log_dir \"/dev/null/log\": cannot make \"/dev/null/log\": Not a directory"}},
};

static void in_child(size_t row, int out) {
    CO_AUTOFREE char *server = co_xasprintf("%s/server", dir);
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)rows[row].trainer, dir, NULL};
    const struct cluster_rank among = {.rank = 2, .size = 3, .local = rows[row].local};
    const struct cluster_node n = {
        .rank = rows[row].alone ? (struct cluster_rank){.size = 1} : among,
        .servers = "a,b",
        .port = 7000,
        .ports_num = 2,
        .ports_num_for_sparse = 4,
        .pserver = server,
        .log_dir = rows[row].log_dir,
        .grace_ms = rows[row].code == 128 + SIGINT ? 100 : LONG_MS,
        .linger_ms = 100,
        .argv = argv};
    struct co_err err = {0};
    int code = 0;
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)setenv("PADDLE_INIT_USE_GPU", "mine", 1);
    assert_int_equal(chdir(dir), 0);
    if (cluster_node_run(&n, &code, &err)) {
        (void)printf("%s\n", co_err_text(&err));
    }
    (void)fflush(NULL);
    _exit(code);
}

static int run(size_t row, struct co_buf *ret) {
    CO_AUTOFREE char *server = co_xasprintf("%s/server", dir);
    char buf[4096];
    int out[2], status = 0;
    ssize_t n;
    (void)unlink(server);
    if (rows[row].server) {
        CO_AUTOFREE char *text = co_xasprintf("#!/bin/sh\n%s\n", rows[row].server);
        assert_int_equal(co_file_write(server, text, strlen(text), 0755, NULL), 0);
    }
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        in_child(row, out[1]);
    }
    (void)close(out[1]);
    while ((n = read(out[0], buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(ret, buf, (size_t)n, NULL), 0);
    }
    (void)close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_node_ends_as_its_trainer_and_server_do(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
        int code = run(i, &out);
        const char *text = out.data ? out.data : "";
        bool well = code == rows[i].code;
        for (size_t k = 0; k < CO_ARRAY_LEN(rows[i].text) && rows[i].text[k]; k++) {
            well = well && strstr(text, rows[i].text[k]);
        }
        if (!well) {
            fail_msg("%s: %d\n%s", rows[i].what, code, text);
        }
    }
}

static int make_directory(void **state) {
    (void)state;
    if (!mkdtemp(dir)) {
        return -1;
    }
    CO_AUTOFREE char *fifo = co_xasprintf("%s/server.fifo", dir);
    return mkfifo(fifo, 0644);
}

static int remove_directory(void **state) {
    (void)state;
    CO_AUTOFREE char *command = co_xasprintf("rm -fr %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_ends_as_its_trainer_and_server_do),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
