#include "runtime/launch/node/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_child_gets_the_plans_variables_and_no_proxy(void **state) {
    (void)state;
    char *const envp[] = {(char *)"HOME=/h", (char *)"http_proxy=p:1", (char *)"NAME=before",
        (char *)"https_proxy=p:2", NULL};
    const struct job j = {.mode = JOB_MODE_PS};
    const struct job_plan plan = {.n_nodes = 1};
    struct job_process p = {.role = JOB_ROLE_TRAINER};
    struct job_env env = {0};
    job_env_set(&p.set, "NAME", "a=b");
    job_env_set(&p.set, "EMPTY", "");
    node_child_env(&j, &plan, &p, envp, &env);
    assert_int_equal(env.n, 5);
    assert_string_equal(job_env_get(&env, "HOME"), "/h");
    assert_string_equal(job_env_get(&env, "NAME"), "a=b");
    assert_string_equal(job_env_get(&env, "EMPTY"), "");
    assert_string_equal(job_env_get(&env, "http_proxy_original"), "p:1");
    assert_string_equal(job_env_get(&env, "https_proxy_original"), "p:2");
    job_env_done(&p.set);
    job_env_done(&env);
}

/* Cores of this process and shares as texts: "x" is a core. */
static void cores_are_shared_equally(void **state) {
    (void)state;
    static const struct {
        const char *all;
        size_t n;
        const char *shares[4];
    } rows[] = {
        {"xxxx", 1, {"xxxx"}},
        {"xxxx", 2, {"xx..", "..xx"}},
        {"x.xxx", 2, {"x.x..", "...xx"}},
        {"xxx", 2, {"x..", ".xx"}},
        {".xx", 3, {".x.", ".x.", "..x"}},
        {"x", 2, {"x", "x"}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        cpu_set_t all, share;
        CPU_ZERO(&all);
        const size_t len = strlen(rows[i].all);
        for (size_t cpu = 0; cpu < len; cpu++) {
            if (rows[i].all[cpu] == 'x') {
                CPU_SET(cpu, &all);
            }
        }
        for (size_t k = 0; k < rows[i].n; k++) {
            char text[8] = "";
            node_child_cores(&all, k, rows[i].n, &share);
            for (size_t cpu = 0; cpu < len; cpu++) {
                text[cpu] = CPU_ISSET(cpu, &share) ? 'x' : '.';
            }
            assert_string_equal(text, rows[i].shares[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_gets_the_plans_variables_and_no_proxy),
        cmocka_unit_test(cores_are_shared_equally),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
