#include "runtime/launch/process/termination.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"

static void the_termination_log_is_written_if_it_exists_and_is_empty(void **state) {
    (void)state;
    static const struct {
        const char *before, *lines, *cause, *after;
    } rows[] = {
        {"", "one\ntwo", "exit code 3", "one\ntwo\nexit code 3\n"},
        {"", "one", "", "one\n"},
        {"", "", "exit code 3", "exit code 3\n"},
        {"its own words", "one", "exit code 3", "its own words"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char path[] = "/tmp/termination-test-XXXXXX";
        CO_AUTOCLOSE int fd = mkstemp(path);
        assert_true(fd >= 0 && dprintf(fd, "%s", rows[i].before) >= 0);
        CO_AUTOBUF struct co_buf after = CO_BUF(4096);
        bool wanted = proc_termination_wanted(path);
        proc_termination_write(path, rows[i].lines, rows[i].cause);
        int r = co_file_read(path, 4096, &after, NULL);
        (void)unlink(path);
        assert_int_equal(r, 0);
        assert_int_equal(wanted, !*rows[i].before);
        assert_string_equal(after.data, rows[i].after);
    }
}

static void the_termination_log_is_never_created_and_a_pipe_is_skipped(void **state) {
    (void)state;
    char dir[] = "/tmp/termination-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *pipe = co_xasprintf("%s/pipe", dir);
    CO_AUTOFREE char *none = co_xasprintf("%s/none", dir);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const char *const paths[] = {pipe, none, dir, ""};
    for (size_t i = 0; i < CO_ARRAY_LEN(paths); i++) {
        assert_false(proc_termination_wanted(paths[i]));
        proc_termination_write(paths[i], "lines", "cause");
    }
    assert_int_not_equal(access(none, F_OK), 0);
    (void)unlink(pipe);
    (void)rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_termination_log_is_written_if_it_exists_and_is_empty),
        cmocka_unit_test(the_termination_log_is_never_created_and_a_pipe_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
