#include "runtime/launch/job/env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void an_environment_is_inherited_with_or_without_the_contracts(void **state) {
    (void)state;
    static const char *const from[] = {"HOME=/root", "EMPTY=", "no equals", "=no name",
        "PADDLE_TRAINER_ID=3", "PADDLE_NNODES= 2\n", "MASTER_PORT=tcp://10.0.0.1:80", "STAGE_ID=2",
        "PADDLE_RANK=", "MASTER_ADDR= \n", "CUDA_VISIBLE_DEVICES=0", "FLAGS_selected_mlus=1",
        "X=a=b\n", NULL};
    static const struct {
        bool contract;
        const char *text[9];
    } rows[] = {
        {true, {"HOME=/root", "EMPTY=", "PADDLE_TRAINER_ID=3", "PADDLE_NNODES=2", "STAGE_ID=2",
                   "CUDA_VISIBLE_DEVICES=0", "FLAGS_selected_mlus=1", "X=a=b\n"}},
        {false, {"HOME=/root", "EMPTY=", "CUDA_VISIBLE_DEVICES=0", "X=a=b\n"}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct job_env e = {0};
        job_env_inherit(&e, (char *const *)(uintptr_t)from, rows[i].contract);
        for (size_t k = 0; k < e.n; k++) {
            assert_string_equal(e.item[k], rows[i].text[k]);
        }
        assert_null(rows[i].text[e.n]);
        assert_null(e.item[e.n]);
        job_env_set(&e, "HOME", "/");
        assert_string_equal(e.item[0], "HOME=/");
        job_env_remove(&e, "HOME");
        assert_null(job_env_get(&e, "HOME"));
        job_env_done(&e);
    }
}

/* Kubernetes gives a pod seven variables of every Service of its namespace. */
static void thousands_of_variables_take_no_time(void **state) {
    (void)state;
    enum { VARIABLES = 200 * 1000 };
    CO_AUTOFREE char **from = co_xcalloc(VARIABLES + 1, sizeof(*from));
    for (size_t i = 0; i < VARIABLES; i++) {
        from[i] = co_xasprintf("SOME_SERVICE_%zu_PORT=tcp://10.0.0.1:80", i);
    }
    struct job_env e = {0};
    job_env_inherit(&e, from, true); /* looked at each other, they take minutes: main's alarm */
    assert_int_equal(e.n, VARIABLES);
    assert_string_equal(job_env_get(&e, "SOME_SERVICE_199999_PORT"), "tcp://10.0.0.1:80");
    job_env_done(&e);
    for (size_t i = 0; i < VARIABLES; i++) {
        free(from[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_environment_is_inherited_with_or_without_the_contracts),
        cmocka_unit_test(thousands_of_variables_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
