/* What a node's environment says of its programs and place. */
#include "runtime/launch/node/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/folder_testing.h"

enum { VARIABLES = 3 };

/* "NAME=value"s of this process until the next call. */
static void set_variables(const char *const variable[VARIABLES]) {
    static const char *const names[] = {"PADDLERUN_PYTHON", "KUBERNETES_SERVICE_HOST"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        assert_int_equal(unsetenv(names[i]), 0);
    }
    for (size_t i = 0; i < VARIABLES && variable[i]; i++) {
        const size_t len = strcspn(variable[i], "=");
        CO_AUTOFREE char *name = co_xstrndup(variable[i], len);
        assert_int_equal(setenv(name, variable[i] + len + 1, 1), 0);
    }
}

static void python_is_the_named_one_or_the_first_in_path(void **state) {
    static const struct {
        const char *variable[VARIABLES];
        const char *program[2]; /* in two folders of PATH; NULL: empty */
        const char *python;     /* below the test's folder, unless it is named or not there */
        bool named;
        mode_t mode;
    } rows[] = {
        {{"PADDLERUN_PYTHON=my own"}, {"python3", NULL}, "my own", true, 0755},
        {{"PADDLERUN_PYTHON="}, {"python3", NULL}, "/a/python3", false, 0755},
        {{0}, {"python3", "python3"}, "/a/python3", false, 0755},
        {{0}, {NULL, "python3"}, "/b/python3", false, 0755},
        {{0}, {"python", "python3"}, "/b/python3", false, 0755},
        {{0}, {"python", NULL}, "/a/python", false, 0755},
        {{0}, {NULL, NULL}, "python3", false, 0755},
        {{0}, {"python3.11", NULL}, "python3", false, 0755},
        {{0}, {"python3", NULL}, "python3", false, 0644}, /* no program */
    };
    const char *dir = *state;
    CO_AUTOFREE char *before = co_xstrdup(getenv("PATH"));
    CO_AUTOFREE char *path = co_xasprintf(":%s/none:%s/a:%s/b:", dir, dir, dir);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char file[2][256] = {"", ""};
        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(file[k], sizeof(file[k]), "%s/%c", dir, (int)('a' + k));
            (void)mkdir(file[k], 0755);
            if (rows[i].program[k]) {
                (void)snprintf(
                    file[k], sizeof(file[k]), "%s/%c/%s", dir, (int)('a' + k), rows[i].program[k]);
                FILE *f = fopen(file[k], "we");
                assert_non_null(f);
                assert_int_equal(fclose(f), 0);
                assert_int_equal(chmod(file[k], rows[i].mode), 0);
            }
        }
        struct job_node n;
        set_variables(rows[i].variable);
        assert_int_equal(setenv("PATH", path, 1), 0);
        node_look(NULL, false, &n);
        assert_int_equal(setenv("PATH", before, 1), 0);
        const char *is =
            strncmp(n.python, dir, strlen(dir)) == 0 ? n.python + strlen(dir) : n.python;
        if (strcmp(is, rows[i].python) != 0 || n.python_named != rows[i].named) {
            fail_msg("row %zu: %s, %snamed", i, n.python, n.python_named ? "" : "not ");
        }
        node_done(&n);
        (void)unlink(file[0]);
        (void)unlink(file[1]);
    }
}

static void a_node_has_a_name_and_a_place(void **state) {
    (void)state;
    static const char *const none[VARIABLES] = {0};
    static const char *const pod[VARIABLES] = {"KUBERNETES_SERVICE_HOST=10.0.0.1"};
    struct job_node n, other;
    char cwd[4096];
    set_variables(pod);
    node_look(NULL, false, &n);
    set_variables(none);
    node_look(NULL, false, &other);
    assert_true(n.in_pod && !other.in_pod);
    assert_int_equal(strlen(n.pod), 6);
    assert_int_equal(strspn(n.pod, "abcdefghijklmnopqrstuvwxyz"), 6);
    assert_string_not_equal(n.pod, other.pod);
    assert_string_equal(n.dir, getcwd(cwd, sizeof(cwd)));
    assert_string_equal(n.ip, "127.0.0.1"); /* nobody wanted it */
    node_done(&n);
    node_done(&other);
    assert_null(n.pod);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(python_is_the_named_one_or_the_first_in_path),
        cmocka_unit_test(a_node_has_a_name_and_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
