#include "runtime/launch/process/first.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/clock_testing.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/launch/process/tail.h"

enum { GRACE_MS = 5000 };

/* A first process, as a process; its stdout and stderr come through *ret_out. */
static pid_t start(const char *script, const struct proc_first_options *options, int *ret_out) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(out[1], STDERR_FILENO);
        (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
        char *shell[] = {"/bin/sh", "-c", (char *)script, NULL};
        char *plain[] = {(char *)script, NULL};
        int code = -1;
        proc_first_run(script[0] == '/' ? plain : shell, options, &code, NULL);
        _exit(code);
    }
    (void)close(out[1]);
    *ret_out = out[0];
    return pid;
}

static void read_line(int fd, char *ret, size_t size) {
    size_t n = 0;
    char c = 0;
    while (n < size - 1 && read(fd, &c, 1) == 1 && c != '\n') {
        ret[n++] = c;
    }
    ret[n] = '\0';
}

static int finish(pid_t pid, int out, struct co_buf *ret) {
    char buf[65536];
    ssize_t n;
    while ((n = read(out, buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(ret, buf, (size_t)n, NULL), 0);
    }
    (void)close(out);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run(const char *script, const struct proc_first_options *options, struct co_buf *ret) {
    int out = -1;
    pid_t pid = start(script, options, &out);
    return finish(pid, out, ret);
}

static const struct proc_first_options plain = {
    .termination_log = "/nonexistent", .grace_ms = GRACE_MS};

static void exit_codes_are_passed_on(void **state) {
    (void)state;
    static const struct {
        const char *script;
        int code;
    } rows[] = {
        {"exit 0", 0},
        {"exit 3", 3},
        {"exit 255", 255},
        {"kill -9 $$", 137},
        {"kill -TERM $$", 143},
        {"/no/such/program", 127},
        {"/etc/passwd", 126},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
        assert_int_equal(run(rows[i].script, &plain, &out), rows[i].code);
    }
}

static void signals_reach_the_whole_group(void **state) {
    (void)state;
    static const int signals[] = {SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        int out = -1;
        char line[64];
        CO_AUTOBUF struct co_buf rest = CO_BUF(1 << 16);
        /* The inner shell says "inner", too: it belongs to the group. */
        pid_t pid = start("trap 'echo outer; exit 7' TERM HUP USR1;"
                          "sh -c 'trap \"echo inner; exit\" TERM HUP USR1; echo up;"
                          "       while :; do sleep 0.05; done' & "
                          "while :; do sleep 0.05; done",
            &plain, &out);
        read_line(out, line, sizeof(line));
        assert_string_equal(line, "up");
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_int_equal(finish(pid, out, &rest), 7);
        assert_non_null(strstr(rest.data, "inner"));
        assert_non_null(strstr(rest.data, "outer"));
    }
}

static void a_signal_may_be_ignored_by_the_program(void **state) {
    (void)state;
    int out = -1;
    char line[64];
    CO_AUTOBUF struct co_buf rest = CO_BUF(1 << 16);
    pid_t pid = start(
        "trap '' TERM; trap 'exit 4' USR1; echo up; while :; do sleep 0.05; done", &plain, &out);
    read_line(out, line, sizeof(line));
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(kill(pid, SIGUSR1), 0);
    assert_int_equal(finish(pid, out, &rest), 4);
}

/* Who is left behind gets SIGTERM, then SIGKILL: in the group, in a session of its own, as a
 * grandchild whose parent ended.  The pipe is theirs, too: its end means that they are gone. */
static void processes_left_behind_get_sigterm_then_sigkill(void **state) {
    (void)state;
    static const char *const scripts[] = {
        "sleep 1000 & exit 5",
        "setsid sleep 1000 & exit 5",
        "(sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' &) ; read x <&3; exit 5",
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' &); exit 5",
    };
    struct proc_first_options options = {.termination_log = "/nonexistent", .grace_ms = 100};
    for (size_t i = 0; i < CO_ARRAY_LEN(scripts); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
        CO_AUTOFREE char *script = co_xasprintf("exec 3</dev/null; %s", scripts[i]);
        assert_int_equal(run(script, &options, &out), 5);
    }
}

/* In milliseconds it does not fit the int that poll takes. */
static void a_grace_period_of_weeks_does_not_overflow(void **state) {
    (void)state;
    const struct proc_first_options options = {
        .termination_log = "/nonexistent", .grace_ms = (INT64_C(1) << 32) + 1};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
    static const char script[] =
        "trap 'exit 5' USR1; sh -c 'trap \"sleep 0.3; echo left; exit\" TERM; kill -USR1 $PPID; "
        "while :; do sleep 0.02; done' & while :; do sleep 0.02; done";
    assert_int_equal(run(script, &options, &out), 5);
    assert_non_null(out.data ? strstr(out.data, "left\n") : NULL);
}

static void orphans_are_reaped_while_the_program_runs(void **state) {
    (void)state;
    int out = -1;
    char line[64];
    CO_AUTOBUF struct co_buf rest = CO_BUF(1 << 16);
    /* The middle shell ends at once; its child ends as a child of the first process. */
    pid_t pid = start(
        "trap 'exit 0' USR1; (sh -c 'echo $$' &); while :; do sleep 0.02; done", &plain, &out);
    read_line(out, line, sizeof(line));
    pid_t orphan = (pid_t)strtol(line, NULL, 10);
    assert_true(orphan > 1);
    while (kill(orphan, 0) == 0) { /* a zombie would stay; the alarm ends that */
        (void)sched_yield();
    }
    assert_int_equal(errno, ESRCH);
    assert_int_equal(kill(pid, SIGUSR1), 0);
    assert_int_equal(finish(pid, out, &rest), 0);
}

static void the_program_dies_with_a_killed_first_process(void **state) {
    (void)state;
    int out = -1;
    char line[64], c;
    pid_t pid = start("echo up; exec sleep 1000", &plain, &out);
    read_line(out, line, sizeof(line));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(read(out, &c, 1), 0); /* the program held the other end */
    (void)close(out);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A shell with job control and one job, a first process; 0 when the job stopped and continued. */
static int be_shell(void) {
    char *argv[] = {"/bin/sh", "-c", "echo up; read word; exit 7", NULL};
    int code = -1, status = 0;
    (void)signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    (void)setpgid(job, job);
    if (job == 0) {
        (void)tcsetpgrp(STDIN_FILENO, getpid());
        proc_first_run(argv, &plain, &code, NULL);
        return code;
    }
    if (job < 0 || waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status)) {
        return 1;
    }
    (void)tcsetpgrp(STDIN_FILENO, job);
    (void)kill(-job, SIGCONT);
    (void)!write(STDOUT_FILENO, "stopped\n", 8);
    return waitpid(job, &status, 0) == job && WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 2;
}

static void read_until(int fd, const char *text) {
    char seen[4096] = "";
    size_t n = 0;
    while (!strstr(seen, text)) {
        ssize_t got = read(fd, seen + n, sizeof(seen) - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
        seen[n] = '\0';
    }
}

static void ctrl_z_stops_and_fg_continues(void **state) {
    (void)state;
    int terminal = -1, status = 0;
    (void)fflush(NULL);
    pid_t shell = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(shell >= 0);
    if (shell == 0) {
        _exit(be_shell());
    }
    read_until(terminal, "up");
    assert_int_equal(write(terminal, "\x1a", 1), 1);
    read_until(terminal, "stopped");
    assert_int_equal(write(terminal, "word\n", 5), 5);
    assert_int_equal(waitpid(shell, &status, 0), shell);
    assert_int_equal(status, 0);
    (void)close(terminal);
}

static char *make_log(const char *content) {
    char *path = co_xstrdup("/tmp/rt-first-test-XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    (void)close(fd);
    return path;
}

static void the_termination_log_says_why(void **state) {
    (void)state;
    static const struct {
        const char *script, *before, *expected;
    } rows[] = {
        {"exit 0", "", ""},
        {"echo all is well >&2; exit 0", "", ""},
        {"echo one >&2; printf 'two\\tx\\n\\n' >&2; exit 1", "", "one\ntwo x\n"},
        {"exit 9", "", "exit code 9\n"},
        {"echo 'ValueError: bad' >&2; echo noise >&2; exit 1", "",
            "ValueError: bad\nnoise\nValueError: bad\n"},
        {"echo 'ERROR: bad' >&2; echo noise >&2; kill -ABRT $$", "",
            "ERROR: bad\nnoise\nkilled by SIGABRT"},
        {"echo a >&2; kill -SEGV $$", "", "a\nkilled by SIGSEGV"},
        {"echo a >&2; exit 1", "its own words", "its own words"},
        {"/no/such/program", "", "cannot start \"/no/such/program\""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = make_log(rows[i].before);
        struct proc_first_options options = {.termination_log = path, .grace_ms = GRACE_MS};
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 16);
        CO_AUTOBUF struct co_buf log = CO_BUF(1 << 16);
        (void)run(rows[i].script, &options, &out);
        assert_int_equal(co_file_read(path, 1 << 16, &log, NULL), 0);
        (void)unlink(path);
        size_t n = strlen(rows[i].expected);
        if (strncmp(log.data ? log.data : "", rows[i].expected, n ? n : 1) != 0) {
            fail_msg("%s: \"%s\"", rows[i].script, log.data);
        }
    }
}

static void a_flood_on_stderr_loses_nothing(void **state) {
    (void)state;
    CO_AUTOFREE char *path = make_log("");
    struct proc_first_options options = {.termination_log = path, .grace_ms = GRACE_MS};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 24);
    CO_AUTOBUF struct co_buf log = CO_BUF(1 << 16);
    assert_int_equal(run("seq 1 300000 >&2; printf end >&2; exit 1", &options, &out), 1);
    const char *p = out.data ? out.data : "";
    for (int i = 1; i <= 300000; i++) {
        char *end = NULL;
        assert_int_equal(strtol(p, &end, 10), i);
        assert_int_equal(*end, '\n');
        p = end + 1;
    }
    assert_string_equal(p, "end");
    assert_int_equal(co_file_read(path, 1 << 16, &log, NULL), 0);
    (void)unlink(path);
    assert_true(log.len <= PROC_TAIL_MAX + 1);
    assert_non_null(strstr(log.data, "\n300000\nend\n"));
}

static void signals_are_served_while_nobody_reads_stderr(void **state) {
    (void)state;
    CO_AUTOFREE char *path = make_log("");
    struct proc_first_options options = {.termination_log = path, .grace_ms = GRACE_MS};
    CO_AUTOBUF struct co_buf rest = CO_BUF(1 << 24);
    int out = -1;
    char line[64];
    pid_t pid = start("echo $$ >&2; exec yes >&2", &options, &out);
    read_line(out, line, sizeof(line));
    pid_t program = (pid_t)strtol(line, NULL, 10);
    assert_int_equal(kill(pid, SIGTERM), 0);
    while (kill(program, 0) == 0) { /* until it is reaped; the alarm bounds this */
        (void)sched_yield();
    }
    assert_int_equal(finish(pid, out, &rest), 143);
    (void)unlink(path);
}

/* Who asked counts, and what the program said on its way only if it did something else. */
static void a_program_that_was_stopped_says_so(void **state) {
    (void)state;
    static const struct {
        const char *script;
        int signo;
        const char *log;
    } rows[] = {
        {"echo ValueError: old >&2; echo $$ >&2; exec sleep 100", SIGTERM, "stopped by SIGTERM"},
        {"trap 'exit 143' TERM; echo ERROR: x >&2; echo $$ >&2; while :; do sleep .01; done",
            SIGTERM, "stopped by SIGTERM"},
        {"trap 'echo OSError: full >&2; exit 3' INT; echo $$ >&2; while :; do sleep .01; done",
            SIGINT, "OSError: full\nstopped by SIGINT, then exit code 3: OSError: full"},
        {"trap 'kill -KILL $$' TERM; echo $$ >&2; while :; do sleep .01; done", SIGTERM,
            "stopped by SIGTERM, then killed by SIGKILL: "},
        {"trap 'exit 0' TERM; echo $$ >&2; while :; do sleep .01; done", SIGTERM, ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = make_log("");
        struct proc_first_options options = {.termination_log = path, .grace_ms = GRACE_MS};
        CO_AUTOBUF struct co_buf rest = CO_BUF(1 << 16), log = CO_BUF(1 << 16);
        int out = -1;
        char line[64];
        pid_t pid = start(rows[i].script, &options, &out);
        do {
            read_line(out, line, sizeof(line));
        } while (line[0] < '0' || line[0] > '9'); /* the trap is set */
        assert_int_equal(kill(pid, rows[i].signo), 0);
        (void)finish(pid, out, &rest);
        assert_int_equal(co_file_read(path, 1 << 16, &log, NULL), 0);
        (void)unlink(path);
        size_t len = strlen(rows[i].log);
        const char *end = log.len > len ? log.data + log.len - len - 1 : log.data;
        bool part = len && rows[i].log[len - 1] == ' '; /* behind it the program's process id */
        if (part ? !strstr(log.data, rows[i].log) : strncmp(end, rows[i].log, len) != 0) {
            fail_msg("%s: \"%s\"", rows[i].script, log.data);
        }
        assert_true(i > 1 || log.len == len + 1);
    }
}

static void a_tail_keeps_whole_last_lines(void **state) {
    (void)state;
    struct proc_tail t = {0};
    assert_string_equal(proc_tail_text(&t), "");
    for (int i = 0; i < 2000; i++) {
        char line[32];
        int n = snprintf(line, sizeof(line), "line %d\n", i);
        proc_tail_add(&t, line, (size_t)n);
    }
    assert_int_equal(strncmp(proc_tail_text(&t), "line 1", 6), 0);
    assert_string_equal(proc_tail_last_line(&t), "line 1999");
    struct proc_tail one = {0};
    char big[PROC_TAIL_MAX * 2];
    memset(big, 'x', sizeof(big));
    proc_tail_add(&one, big, sizeof(big));
    assert_int_equal(strlen(proc_tail_text(&one)), PROC_TAIL_MAX);
}

static void serve_end(int fd) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nover\n";
    for (;;) {
        char asked[1024];
        int c = accept(fd, NULL, NULL);
        (void)!read(c, asked, sizeof(asked));
        (void)!write(c, answer, strlen(answer));
        (void)close(c);
    }
}

/* An operator that knows no other answer; the caller ends it. */
static pid_t start_operator(char where[64]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    (void)snprintf(where, 64, "127.0.0.1:%u/end/v1/ns/job/uid", ntohs(a.sin_port));
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else it outlives a test that fails */
        serve_end(fd);
    }
    (void)close(fd);
    return pid;
}

static void a_server_is_ended_when_training_is_over(void **state) {
    (void)state;
    static const struct {
        const char *script;
        int code;
        bool said;
    } rows[] = {
        {"trap 'exit 7' TERM; while :; do sleep 0.05; done", 0, true},
        {"sleep 1; exit 3", 3, false}, /* by itself, sooner, however long a shell takes to begin */
    };
    char where[64];
    pid_t operator= start_operator(where);
    struct proc_first_options options = plain;
    options.training_end = where;
    pid_t pid[CO_ARRAY_LEN(rows)];
    int out[CO_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        co_test_clock_slow(!rows[i].said);
        pid[i] = start(rows[i].script, &options, &out[i]);
        co_test_clock_slow(false);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf said = CO_BUF(1 << 16);
        assert_int_equal(finish(pid[i], out[i], &said), rows[i].code);
        assert_int_equal(said.data && strstr(said.data, "training is over"), rows[i].said);
    }
    (void)kill(operator, SIGKILL);
    assert_int_equal(waitpid(operator, NULL, 0), operator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_are_passed_on),
        cmocka_unit_test(signals_reach_the_whole_group),
        cmocka_unit_test(a_signal_may_be_ignored_by_the_program),
        cmocka_unit_test(processes_left_behind_get_sigterm_then_sigkill),
        cmocka_unit_test(a_grace_period_of_weeks_does_not_overflow),
        cmocka_unit_test(orphans_are_reaped_while_the_program_runs),
        cmocka_unit_test(the_program_dies_with_a_killed_first_process),
        cmocka_unit_test(ctrl_z_stops_and_fg_continues),
        cmocka_unit_test(the_termination_log_says_why),
        cmocka_unit_test(a_flood_on_stderr_loses_nothing),
        cmocka_unit_test(signals_are_served_while_nobody_reads_stderr),
        cmocka_unit_test(a_server_is_ended_when_training_is_over),
        cmocka_unit_test(a_program_that_was_stopped_says_so),
        cmocka_unit_test(a_tail_keeps_whole_last_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
