#include "runtime/launch/process/spawn.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

static void put(const char *dir, const char *name, const char *text, mode_t mode) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void errors_say_why_a_program_cannot_be_started(void **state) {
    (void)state;
    static const struct {
        const char *path, *text;
        int code, exit_code;
    } rows[] = {
        {"./missing", "No such file or directory", CO_NOTFOUND, 127},
        {"./windows.sh", "(#!) names is not there", CO_NOTFOUND, 127},
        {"no-such-word", "not in PATH (if it is in this folder: ./", CO_NOTFOUND, 127},
        {"./plain.sh", "is not executable (chmod +x)", CO_PERMISSION, 126},
        {"./folder", "is a directory", CO_PERMISSION, 126},
        {"./plain.sh/below", "Not a directory", CO_INVALID, 126},
    };
    char dir[] = "/tmp/rt-spawn-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put(dir, "windows.sh", "#!/bin/sh\r\nexit 0\r\n", 0755);
    put(dir, "plain.sh", "#!/bin/sh\n", 0644);
    CO_AUTOFREE char *folder = co_xasprintf("%s/folder", dir);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(chdir(dir), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *const argv[] = {rows[i].path, NULL};
        const struct proc_spawn s = proc_spawn_session(argv);
        struct co_err err = {0};
        pid_t pid = 0;
        int r = proc_spawn(&s, &pid, &err);
        if (r != rows[i].code || !strstr(err.msg, rows[i].text)) {
            fail_msg("%s: %d %s", rows[i].path, r, err.msg);
        }
        assert_int_equal(proc_spawn_exit_code(r), rows[i].exit_code);
    }
    assert_int_equal(unlink("windows.sh") | unlink("plain.sh") | rmdir("folder"), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Of the process that runs handlers: whoever else does was forked from it. */
static pid_t own;
static int strange[2]; /* a pipe on which they report it */

static void on_signal(int signo) {
    (void)signo;
    if (getpid() != own) {
        (void)!write(strange[1], "s", 1);
    }
}

/* Until it is killed. */
static pid_t flood(pid_t group) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGUSR1, SIG_IGN);
        while (kill(-group, SIGUSR1) == 0) {
        }
        _exit(0);
    }
    return pid;
}

/* A signal for the whole group, as Ctrl-C is one, between fork and setsid. */
static void no_handler_runs_in_a_child(void **state) {
    (void)state;
    enum { CHILDREN = 200 };
    assert_int_equal(pipe2(strange, O_CLOEXEC), 0);
    pid_t tester = fork();
    assert_true(tester >= 0);
    if (tester == 0) {
        static const char *const argv[] = {"/bin/true", NULL};
        const struct proc_spawn s = proc_spawn_session(argv);
        own = getpid();
        (void)setpgid(0, 0);
        (void)signal(SIGUSR1, on_signal);
        pid_t flooder = flood(own), pid = 0;
        for (int i = 0; i < CHILDREN; i++) {
            if (proc_spawn(&s, &pid, NULL) == 0) {
                while (waitpid(pid, NULL, 0) < 0) { /* EINTR */
                }
            }
        }
        (void)kill(flooder, SIGKILL);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(tester, &status, 0), tester);
    assert_int_equal(status, 0);
    (void)close(strange[1]);
    char c;
    assert_int_equal(read(strange[0], &c, 1), 0);
    (void)close(strange[0]);
}

/* select in a child would write beyond its fd_set. */
static void a_raised_limit_of_open_files_is_this_processs_alone(void **state) {
    (void)state;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = 61;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    proc_files_raise();
    proc_files_raise(); /* changes nothing more */
    const char *const argv[] = {"/bin/sh", "-c", "test $(ulimit -Sn) = 61", NULL};
    const struct proc_spawn s = proc_spawn_session(argv);
    pid_t pid = 0;
    int status = 1;
    assert_int_equal(proc_spawn(&s, &pid, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(files.rlim_cur, files.rlim_max);
}

/* What a launcher ignores for itself is no affair of its children. */
static void a_child_has_the_signals_of_writes(void **state) {
    (void)state;
    static const int signals[] = {SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        void (*was)(int) = signal(signals[i], SIG_IGN);
        CO_AUTOFREE char *script = co_xasprintf("kill -%d $$", signals[i]);
        const char *const argv[] = {"/bin/sh", "-c", script, NULL};
        const struct proc_spawn s = proc_spawn_session(argv);
        pid_t pid = 0;
        int status = 0;
        assert_int_equal(proc_spawn(&s, &pid, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        (void)signal(signals[i], was);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_the_signals_of_writes),
        cmocka_unit_test(errors_say_why_a_program_cannot_be_started),
        cmocka_unit_test(no_handler_runs_in_a_child),
        cmocka_unit_test(a_raised_limit_of_open_files_is_this_processs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
