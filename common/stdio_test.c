/* Each case is a process of its own, as main would be. */
#include "common/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOST "cannot write to stdout: "

/* A program that has printed `text`, flushed with `early`, and ends with `code`.  Its stdout is the
 * file at `out`; NULL: closed; "": a pipe whose reader has ended.  Returns its exit code. */
struct row {
    const char *out, *text;
    bool early;
    int code, want;
    const char *said;
};

static void become(const struct row *r) {
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    if (!r->out) {
        (void)close(STDOUT_FILENO);
    } else if (r->out[0] != '\0') {
        (void)dup2(open(r->out, O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    } else if (pipe2(ends, O_CLOEXEC) == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
    }
    co_stdio_open();
    (void)printf("%s", r->text);
    (void)(r->early ? fflush(stdout) : 0);
    _exit(co_stdio_close("program", r->code));
}

static int run(const struct row *r, char *ret_said, size_t size) {
    int err[2], status = 0;
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(err[1], STDERR_FILENO);
        become(r);
    }
    (void)close(err[1]);
    FILE *f = fdopen(err[0], "r");
    assert_non_null(f);
    ret_said[fread(ret_said, 1, size - 1, f)] = '\0';
    (void)fclose(f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void lost_output_is_reported_and_fails_the_program(void **state) {
    static const struct row rows[] = {
        {"/dev/null", "text\n", false, 0, 0, ""},
        {"/dev/null", "text\n", false, 2, 2, ""},
        {"/dev/full", "text\n", false, 0, 1, "program: " LOST "No space left on device\n"},
        {"/dev/full", "text\n", true, 0, 1,
            "program: " LOST "a full disk, or its reader has ended\n"},
        {"/dev/full", "text\n", false, 2, 2, "program: " LOST "No space left on device\n"},
        {"/dev/full", "", false, 0, 0, ""},
        {"", "text\n", false, 0, 1, "program: " LOST "Broken pipe\n"},
        {NULL, "text\n", false, 0, 1, "program: " LOST "Bad file descriptor\n"},
        {NULL, "", false, 0, 0, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char said[256];
        assert_int_equal(run(&rows[i], said, sizeof(said)), rows[i].want);
        assert_string_equal(said, rows[i].said);
    }
}

/* Whatever of the three is closed: the next file has another number. */
static void no_file_becomes_a_standard_stream(void **state) {
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        int status = 0;
        (void)fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            for (int fd = 0; fd <= STDERR_FILENO; fd++) {
                (void)(closed >> fd & 1 ? close(fd) : 0);
            }
            co_stdio_open();
            _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) > STDERR_FILENO ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* As with ulimit -f. */
static void a_file_at_its_limit_is_a_write_error(void **state) {
    (void)state;
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit few = {4, 4};
        int fd = memfd_create("limited", MFD_CLOEXEC);
        co_stdio_begin();
        bool set = setrlimit(RLIMIT_FSIZE, &few) == 0;
        bool fits = write(fd, "text\n", 5) == 4;
        _exit(set && fits && write(fd, "\n", 1) < 0 && errno == EFBIG ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_output_is_reported_and_fails_the_program),
        cmocka_unit_test(no_file_becomes_a_standard_stream),
        cmocka_unit_test(a_file_at_its_limit_is_a_write_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
