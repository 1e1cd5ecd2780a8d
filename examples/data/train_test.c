/* Tests where results can be saved, and what a program forgets of its job. */
#include "examples/data/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

/* A folder that is there or can be made; nothing is left behind. */
static void paths_of_results_are_checked_before_training(void **state) {
    static const struct {
        const char *below;
        const char *error; /* NULL: it can */
    } rows[] = {{"", NULL}, {"/new", NULL}, {"/a/b/c/", NULL}, {"/file", "nothing can be written"},
        {"/file/x", "nothing can be written"}, {"/lost", "nothing can be written"},
        {"/lost/x", "nothing can be written"}};
    char dir[] = "/tmp/da_text_test.XXXXXX";
    struct co_err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *file = co_xasprintf("%s/file", dir);
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    CO_AUTOFREE char *lost = co_xasprintf("%s/lost", dir); /* a link that leads nowhere */
    assert_int_equal(symlink("/nowhere/at/all", lost), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s%s", dir, rows[i].below);
        int rc = da_writable(path, &err);

        assert_int_equal(rc < 0, rows[i].error != NULL);
        assert_true(!rows[i].error ||
                    (strstr(co_err_text(&err), rows[i].error) && strstr(co_err_text(&err), path)));
    }
    assert_int_equal(da_writable("", &err), 0);
    assert_int_equal(da_writable(NULL, &err), 0);
    assert_int_equal(rt_save_check("", &err), CO_INVALID);
    assert_int_equal(unlink(lost), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* --local: nobody else takes part, and how to train stays as it was said. */
static void local_mode_unsets_variables_of_the_job(void **state) {
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {{"PADDLE_TRAINERS_NUM", false}, {"TRAINING_ROLE", false},
        {"PADDLE_JOB_TOKEN", false}, {"PADDLE_PSERVERS_IP_PORT_LIST", false},
        {"PADDLE_MASTER", false}, {"PADDLERT_TENSORBOARD", true}, {"PADDLERT_METRICS", true},
        {"PADDLE_PS_STRATEGY", true}, {"PADDLE_PS_CHECKPOINT_DIR", true},
        {"PADDLE_PS_CHECKPOINT_STEPS", true}, {"PADDLERT_MAX_CPU_ISA", true}, {"HOME", true}};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(setenv(rows[i].name, "x", 1), 0);
    }
    da_forget_job();
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if ((getenv(rows[i].name) != NULL) != rows[i].stays) {
            fail_msg("%s %s", rows[i].name, rows[i].stays ? "is gone" : "is still there");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_of_results_are_checked_before_training),
        cmocka_unit_test(local_mode_unsets_variables_of_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
