/* A job from its start to its end.  Every host is a program of this test: in place of ssh it runs
 * what the row has for the host, which speaks as the hosts' script does. */
#include "runtime/legacy/cluster/ssh_job.h"

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

enum { HOSTS = 2, TEXT_MAX = 1 << 20 };

static char dir[] = "/tmp/rl-run-test-XXXXXX";

static void write_file(const char *name, const char *text, unsigned mode) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    assert_int_equal(co_file_write(path, text, strlen(text), mode, NULL), 0);
}

/* The job in a process of its own, whose exit code is the job's; 99: it was not started. */
static pid_t start(const struct cluster_conf *conf, const struct cluster_options *o, int out) {
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct co_err err = {0};
        int code = 0;
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
        if (cluster_run(conf, o, &code, &err)) {
            (void)printf("error: %s\n", co_err_text(&err));
            code = 99;
        }
        (void)fflush(NULL);
        _exit(code);
    }
    return pid;
}

struct row {
    const char *what;
    const char *host[HOSTS]; /* shell: $copy is not empty where the package is to be copied */
    bool package;
    int64_t connect_ms, ready_ms, grace_ms; /* 0: long */
    const char *ssh;                        /* NULL: the program of this test */
    int code;
    const char *text[4]; /* all of it printed */
    const char *not_text;
};

/* ssh, not the host's script, prints what follows. */
#define UNREACHED ": unreached; "
#define READY "echo @ready; read go; [ $go = go ] || exit 0; "
#define TRAINS READY "echo @train 0; echo @server 0; "
#define STOPS "read stop; [ $stop = stop ]"
/* Ctrl-C, as it were: to the job. */
#define TERM "kill -TERM $PPID; "
#define WAITS "while read w && [ $w != stop ]; do :; done"
/* Prints its log when it is asked to. */
#define TELLS "read tail name n; echo \"@| $tail $name $n\"; echo @.; " STOPS

static const struct row rows[] = {
    {"all train well", {TRAINS STOPS, TRAINS STOPS}, .code = 0,
        .text = {"job of 2 hosts in ", "servers listen on all 2 hosts", "finished, 2 of 2",
            "job completed after"}},
    {"servers that do not end by themselves are stopped",
        {READY "echo @train 0; " STOPS, READY "echo @train 0; " STOPS}, .grace_ms = 1, .code = 0,
        .text = {"finished, 2 of 2", "job completed after"}},
    {"no trainer starts before all servers listen",
        {READY "[ -e ../both ] && echo @train 0; echo @server 0; " STOPS,
            "touch ../both; " TRAINS STOPS},
        .code = 0, .text = {"job completed"}},
    {"a trainer's failure is the job's", {READY WAITS, READY "echo @train 9; " TELLS}, .code = 9,
        .text = {"node 1 (127.0.0.2): the trainer ended with exit code 9", "    tail train 20\n",
            "job failed after"}},
    {"a log of nothing", {READY "echo @train 9; read tail; echo @.; " STOPS, READY WAITS},
        .code = 9, .text = {"    (nothing)\n"}},
    {"a trainer that was killed has failed, and nobody stopped the job",
        {READY "echo @train 137; " TELLS, READY WAITS}, .code = 137,
        .text = {"exit code 137", "job failed after"}, .not_text = "stopped"},
    {"another host's log is not the failed one's",
        {READY
            "while [ ! -e ../asked ]; do :; done; echo '@| other'; echo @.; touch ../told; " STOPS,
            READY
            "echo @train 9; read tail name n; touch ../asked; "
            "while [ ! -e ../told ]; do :; done; echo \"@| $tail $name $n\"; echo @.; " STOPS},
        .code = 9, .text = {"exit code 9", "    tail train 20"}, .not_text = "    other"},
    {"the first failure counts",
        {READY "echo @train 3; echo @train 4; echo @server 5; " TELLS, READY WAITS}, .code = 3,
        .text = {"exit code 3", "    tail train 20"}, .not_text = "exit code 4"},
    {"a host that cannot tell its log any more", {READY "echo @train 9", READY WAITS}, .code = 9,
        .text = {"exit code 9", "job failed"}},
    {"a server that fails while training", {READY "echo @server 7; " TELLS, READY WAITS}, .code = 7,
        .text = {"node 0 (127.0.0.1): the server ended with exit code 7", "    tail server 20"}},
    {"a server that ends well before all listen", {"echo @server 0; " TELLS, WAITS}, .code = 1,
        .text = {"node 0 (127.0.0.1): the server ended", "    tail server 20", "job failed"}},
    {"a server that ends well while others train",
        {READY "echo @server 0; echo @train 0; " STOPS, TRAINS STOPS}, .code = 0,
        .text = {"job completed"}},
    {"no server in time", {"echo @ready; " WAITS, TELLS}, .ready_ms = 50, .code = 1,
        .text = {"node 1 (127.0.0.2): no server on port 7164 within 0 s", "    tail server 20"}},
    {"a trainer that was not told to start has ended", {"echo @train 0; " TELLS, WAITS}, .code = 1,
        .text = {"the trainer ended with exit code 0"}},
    {"a host that says it is ready twice is one host",
        {"echo @ready; echo @ready; echo @ready; " WAITS, TELLS}, .ready_ms = 50, .code = 1,
        .text = {"node 1 (127.0.0.2): no server"}, .not_text = "servers listen"},
    {"a host that is not reached at first",
        {UNREACHED "[ -e ../tried ] || { touch ../tried; echo 'ssh: connect to host a port 22: "
                   "Connection refused' >&2; exit 255; }; echo @connected; " TRAINS STOPS,
            TRAINS STOPS},
        .code = 0,
        .text = {"node 0 (127.0.0.1): ssh does not reach it yet, trying for 20 s: ssh: connect to "
                 "host a port 22: Connection refused\n",
            "job completed"}},
    {"a host that is not reached at first, for the package",
        {UNREACHED
            "[ -e ../tried2 ] || { touch ../tried2; echo 'Connection timed out during banner "
            "exchange' >&2; exit 255; }; echo @connected; [ $copy ] && exec cat >/dev/null; " TRAINS
                STOPS,
            "[ $copy ] && exec cat >/dev/null; " TRAINS STOPS},
        .package = true, .code = 0,
        .text = {"trying for 20 s: Connection timed out during banner exchange\n",
            "copied to all 2 hosts", "job completed"}},
    {"a host that is lost while the package is copied",
        {"[ -e ../tried3 ] || { touch ../tried3; echo 'Timeout, server a not responding.' >&2; "
         "exit 255; }; [ $copy ] && exec cat >/dev/null; " TRAINS STOPS,
            "[ $copy ] && exec cat >/dev/null; " TRAINS STOPS},
        .package = true, .code = 0,
        .text = {"node 0 (127.0.0.1): ssh has lost it, trying for 20 s: Timeout, server a not "
                 "responding.\n",
            "copied to all 2 hosts", "job completed"}},
    {"an ssh that does not say why it ended",
        {UNREACHED
            "[ -e ../tried4 ] || { touch ../tried4; exit 255; }; echo @connected; " TRAINS STOPS,
            TRAINS STOPS},
        .code = 0,
        .text = {"ssh does not reach it yet, trying for 20 s: ssh does not say why\n",
            "job completed"}},
    {"a host that is never reached",
        {UNREACHED "echo 'ssh: Could not resolve hostname a: Name or service not known' >&2; exit "
                   "255",
            READY WAITS},
        .connect_ms = 1, .code = 1,
        .text = {"node 0 (127.0.0.1): ssh does not reach it yet", "node 0 (127.0.0.1): not reached",
            "Name or service not known", "job failed"}},
    {"an ssh that neither reaches its host nor ends", {UNREACHED WAITS, READY WAITS},
        .connect_ms = 1, .code = 1,
        .text = {"node 0 (127.0.0.1): not reached within 0 s: ssh says nothing", "job failed"}},
    {"servers have their time from when all hosts are reached",
        {UNREACHED "sleep .3; echo @connected; " TELLS, READY TELLS}, .ready_ms = 50, .code = 1,
        .text = {"node 0 (127.0.0.1): no server on port 7164 within 0 s"},
        .not_text = "not reached"},
    {"a wrong key is not tried again",
        {UNREACHED "echo 'a: Permission denied (publickey).' >&2; exit 255", READY WAITS},
        .code = 1, .text = {"not reached: ssh ended with exit code 255: a: Permission denied"},
        .not_text = "trying for"},
    {"told to stop while a host is not reached",
        {UNREACHED "echo 'ssh: connect to host a port 22: Connection refused' >&2; "
                   "( sleep .3; " TERM ") & exit 255",
            READY WAITS},
        .code = 128 + SIGTERM, .text = {"terminated", "job stopped"}},
    {"a connection is lost", {READY WAITS, "echo 'Connection reset' >&2; exit 255"}, .code = 1,
        .text = {"node 1 (127.0.0.2): connection lost: ssh ended with exit code 255: "
                 "Connection reset\n",
            "job failed"}},
    {"a connection that ends well, too early", {READY WAITS, READY "exit 0"}, .code = 1,
        .text = {"node 1 (127.0.0.2): connection lost: ssh ended with exit code 0\n"}},
    {"a greeting is no word of the protocol", {"echo Welcome; echo; " TRAINS STOPS, TRAINS STOPS},
        .code = 0, .text = {"job completed"}},
    {"ssh is not there", {"", ""}, .ssh = "/no/such/ssh", .code = 99, .text = {"/no/such/ssh"}},
    {"told to stop", {READY TERM WAITS, READY WAITS}, .code = 128 + SIGTERM,
        .text = {"terminated: stopping the job on all hosts", "job stopped"}},
    {"told to stop twice, as hosts do not answer",
        {TERM "read stop; sleep .3; " TERM "exec sleep 100", "exec sleep 100"},
        .code = 128 + SIGTERM,
        .text = {"node 0 (127.0.0.1) does not answer, giving up its ssh",
            "node 1 (127.0.0.2) does not answer", "job stopped"}},
    {"a package is copied to all, then they train",
        {"[ $copy ] && exec tar -tf - >../got; " TRAINS STOPS,
            "[ $copy ] && exec cat >/dev/null; " TRAINS STOPS},
        .package = true, .code = 0, .text = {"copied to all 2 hosts", "job completed"}},
    {"a host refuses the package",
        {"[ $copy ] && exec cat >/dev/null; " WAITS,
            "[ $copy ] && { echo 'No space left' >&2; exit 2; }"},
        .package = true, .code = 1,
        .text = {"node 1 (127.0.0.2): the package was not copied: ssh ended with exit code 2: "
                 "No space left\n",
            "job failed"}},
    {"told to stop while it is copied", {TERM "exec sleep 100", "exec sleep 100"}, .package = true,
        .code = 128 + SIGTERM, .text = {"terminated", "job stopped"}},
};

static int run(const struct row *row, struct co_buf *ret) {
    static const struct cluster_host hosts[HOSTS] = {
        {.user = (char *)"", .name = (char *)"127.0.0.1"},
        {.user = (char *)"", .name = (char *)"127.0.0.2"}};
    CO_AUTOFREE char *ssh = co_xasprintf("%s/ssh", dir);
    CO_AUTOFREE char *package = co_xasprintf("%s/package", dir);
    struct cluster_conf conf = {.hosts = (struct cluster_host *)(uintptr_t)hosts,
        .n_hosts = HOSTS,
        .root_dir = dir,
        .nic = (char *)"",
        .ld_library_path = (char *)"",
        .port = 7164,
        .ports_num = 1};
    const struct cluster_options o = {.workspace = row->package ? NULL : "/w",
        .package = row->package ? package : NULL,
        .ssh = row->ssh ? row->ssh : ssh,
        .paddle = "paddle",
        .connect_ms = row->connect_ms ? row->connect_ms : 20000,
        .ready_ms = row->ready_ms ? row->ready_ms : 20000,
        .grace_ms = row->grace_ms ? row->grace_ms : 20000,
        .stop_ms = 20000};
    char buf[4096];
    ssize_t n;
    int out[2], status = 0;
    for (size_t i = 0; i < HOSTS; i++) {
        write_file(hosts[i].name, row->host[i], 0644);
    }
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = start(&conf, &o, out[1]);
    (void)close(out[1]);
    while ((n = read(out[0], buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(ret, buf, (size_t)n, NULL), 0);
    }
    (void)close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_job_ends_as_its_hosts_say(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
        int code = run(&rows[i], &out);
        const char *text = out.data ? out.data : "";
        bool well = code == rows[i].code && !(rows[i].not_text && strstr(text, rows[i].not_text));
        for (size_t k = 0; k < CO_ARRAY_LEN(rows[i].text) && rows[i].text[k]; k++) {
            well = well && strstr(text, rows[i].text[k]);
        }
        if (!well) {
            fail_msg("%s: %d\n%s", rows[i].what, code, text);
        }
    }
    CO_AUTOBUF struct co_buf got = CO_BUF(TEXT_MAX);
    CO_AUTOFREE char *path = co_xasprintf("%s/got", dir);
    assert_int_equal(co_file_read(path, TEXT_MAX, &got, NULL), 0);
    assert_string_equal(got.data, "./\n./file\n");
}

static void a_package_that_cannot_be_read_whole_is_not_trained_on(void **state) {
    (void)state;
    static const struct row row = {"",
        {"[ $copy ] && exec cat >/dev/null; " WAITS, "[ $copy ] && exec cat >/dev/null; " WAITS},
        .package = true};
    CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
    CO_AUTOFREE char *package = co_xasprintf("%s/package", dir);
    CO_AUTOFREE char *aside = co_xasprintf("%s/aside", dir);
    assert_int_equal(rename(package, aside), 0);
    int code = run(&row, &out);
    assert_int_equal(rename(aside, package), 0);
    if (code != 1 || !strstr(out.data, "the package could not be read whole, see tar's message")) {
        fail_msg("%d\n%s", code, out.data);
    }
}

static int make_directory(void **state) {
    (void)state;
    if (!mkdtemp(dir)) {
        return -1;
    }
    CO_AUTOFREE char *package = co_xasprintf("%s/package", dir);
    CO_AUTOFREE char *ssh = co_xasprintf("#!/bin/sh\n"
                                         "while [ $# -gt 2 ]; do shift; done\n"
                                         "cd %s || exit 98\n"
                                         "case $2 in *tar*-xf*) copy=1 ;; *) copy= ;; esac\n"
                                         "grep -q unreached \"$1\" || echo @connected\n"
                                         "cd package 2>/dev/null || cd aside || exit 98\n"
                                         ". \"../$1\"\n",
        dir);
    write_file("ssh", ssh, 0755);
    int r = mkdir(package, 0755);
    write_file("package/file", "x", 0644);
    return r;
}

static int remove_directory(void **state) {
    (void)state;
    CO_AUTOFREE char *command = co_xasprintf("rm -fr %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_as_its_hosts_say),
        cmocka_unit_test(a_package_that_cannot_be_read_whole_is_not_trained_on),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
