#include "runtime/launch/job/torchrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ENV_MAX = 8 };

/* Process 3 of 4, the second on the second of two nodes. */
static const struct {
    const char *what;
    const char *inherited[ENV_MAX], *given[ENV_MAX + 4];
    size_t local_n;
    enum job_mode mode;
} rows[] = {
    {"nothing is set: as torchrun has it", {NULL},
        {"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
            "GROUP_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=a-job", "TORCHELASTIC_RESTART_COUNT=5",
            "TORCHELASTIC_MAX_RESTARTS=3", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000"},
        2, JOB_MODE_COLLECTIVE},
    {"a user's own stay", {"WORLD_SIZE=9", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=mine"},
        {"RANK=3", "WORLD_SIZE=9", "MASTER_ADDR=", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=mine"},
        2, JOB_MODE_COLLECTIVE},
    {"no two processes get one rank", {"RANK=0", "LOCAL_RANK=0"}, {"RANK=3", "LOCAL_RANK=1"}, 2,
        JOB_MODE_COLLECTIVE},
    {"the only process of a node keeps the user's", {"RANK=7"}, {"RANK=7", "LOCAL_RANK=1"}, 1,
        JOB_MODE_COLLECTIVE},
    {"a pod's are the operator's",
        {"RANK=1", "WORLD_SIZE=2", "PADDLE_TRAINER_ID=1", "PADDLE_TRAINERS_NUM=2",
            "MASTER_ADDR=10.9.0.1", "MASTER_PORT=36019",
            "PADDLE_TRAINER_ENDPOINTS=10.9.0.1:36000,10.9.0.2:36000"},
        {"RANK=3", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000"}, 1,
        JOB_MODE_COLLECTIVE},
    {"an outer launcher's are of its job",
        {"RANK=1", "WORLD_SIZE=2", "PADDLE_TRAINER_ID=1", "PADDLE_TRAINERS_NUM=2",
            "MASTER_ADDR=fd00::1", "MASTER_PORT=5", "PADDLE_MASTER=[fd00::1]:5"},
        {"RANK=3", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000"}, 1,
        JOB_MODE_COLLECTIVE},
    {"addresses of pods may be of IPv6",
        {"MASTER_ADDR=fd00::1", "MASTER_PORT=36019", "PADDLE_TRAINER_ENDPOINTS=[fd00::1]:36000"},
        {"MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000"}, 1, JOB_MODE_COLLECTIVE},
    {"in a pod, too, a user's own stay",
        {"RANK=1", "PADDLE_TRAINER_ID=1", "WORLD_SIZE=8", "PADDLE_TRAINERS_NUM=2",
            "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=5"},
        {"RANK=3", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2", "GROUP_WORLD_SIZE=5"}, 2,
        JOB_MODE_COLLECTIVE},
    {"a user's rank in a pod leaves the others to the operator",
        {"RANK=7", "PADDLE_TRAINER_ID=1", "WORLD_SIZE=2", "PADDLE_TRAINERS_NUM=2", "LOCAL_RANK=0",
            "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=2"},
        {"RANK=7", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=1"}, 1, JOB_MODE_COLLECTIVE},
    {"a pod's job has its name, and its restarts count",
        {"RANK=1", "PADDLE_TRAINER_ID=1", "TORCHELASTIC_RUN_ID=train",
            "TORCHELASTIC_RESTART_COUNT=2"},
        {"TORCHELASTIC_RUN_ID=train", "TORCHELASTIC_RESTART_COUNT=7"}, 1, JOB_MODE_COLLECTIVE},
    {"another address is the user's, in a pod, too",
        {"MASTER_ADDR=10.9.0.1", "MASTER_PORT=29500",
            "PADDLE_TRAINER_ENDPOINTS=10.9.0.1:36000,10.9.0.2:36000"},
        {"MASTER_ADDR=10.9.0.1", "MASTER_PORT=29500"}, 1, JOB_MODE_COLLECTIVE},
    {"trainers of servers get none", {NULL}, {"RANK=", "WORLD_SIZE=", "MASTER_ADDR="}, 2,
        JOB_MODE_PS},
};

static void a_process_gets_what_torchrun_sets(void **state) {
    (void)state;
    struct options o = {.number[OPTIONS_OPT_MAX_RESTART] = 3};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct job j = {.options = &o,
            .mode = rows[i].mode,
            .id = "a-job",
            .n[JOB_ROLE_TRAINER] = rows[i].local_n};
        const struct job_plan plan = {.master = (char *)"10.0.0.1:4000",
            .node = 1,
            .n_nodes = 2,
            .restarts = 5,
            .endpoints[JOB_ROLE_TRAINER] = {.n = 4}};
        const struct job_process p = {.role = JOB_ROLE_TRAINER, .local = 1, .index = 3};
        CO_CLEANUP(job_env_done) struct job_env env = {0};
        CO_CLEANUP(job_env_done) struct job_env inherited = {0};
        job_env_inherit(&inherited, (char *const *)rows[i].inherited, true);
        job_env_inherit(&env, (char *const *)rows[i].inherited, true);
        job_torchrun_variables(&j, &plan, &p, &inherited, &env);
        for (const char *const *want = rows[i].given; *want; want++) {
            const size_t len = strcspn(*want, "=");
            CO_AUTOFREE char *name = co_xstrndup(*want, len);
            const char *value = job_env_get(&env, name);
            const char *wanted = *want + len + 1;
            if (strcmp(value ? value : "", wanted) != 0) {
                fail_msg("%s: %s is '%s', expected '%s'", rows[i].what, name, value, wanted);
            }
        }
    }
}

/* Process 3 of 4, alone on its node. */
static void a_users_number_that_differs_is_named(void **state) {
    (void)state;
    static const struct {
        const char *inherited[ENV_MAX], *said;
    } cases[] = {{{"WORLD_SIZE=8"}, "WORLD_SIZE is 8 in the environment and stays, this job has 4"},
        {{"RANK=0"}, "RANK is 0 in the environment and stays, this job has 3"},
        {{"WORLD_SIZE=4"}, NULL}, {{"WORLD_SIZE=x"}, NULL /* named before */},
        {{"MASTER_ADDR=h"}, NULL}, {{"RANK=1", "PADDLE_TRAINER_ID=1"}, NULL /* replaced */},
        {{NULL}, NULL}};
    const struct options o = {.n_script = 0};
    const struct job j = {
        .options = &o, .mode = JOB_MODE_COLLECTIVE, .id = "a", .n[JOB_ROLE_TRAINER] = 1};
    const struct job_plan plan = {
        .master = (char *)"10.0.0.1:4000", .n_nodes = 4, .endpoints[JOB_ROLE_TRAINER] = {.n = 4}};
    const struct job_process p = {.role = JOB_ROLE_TRAINER, .index = 3};
    for (size_t i = 0; i < CO_ARRAY_LEN(cases); i++) {
        CO_CLEANUP(job_env_done) struct job_env inherited = {0};
        CO_CLEANUP(options_list_done) struct options_list said = {0};
        job_env_inherit(&inherited, (char *const *)cases[i].inherited, true);
        job_torchrun_differences(&j, &plan, &p, &inherited, &said);
        assert_int_equal(said.n, cases[i].said != NULL);
        assert_true(!cases[i].said || strstr(said.item[0], cases[i].said));
    }
}

static const char *wrong_rank(void *arg, const char *name) {
    return strcmp(name, "RANK") == 0 ? arg : NULL;
}

static void a_users_value_of_the_wrong_form_is_named(void **state) {
    (void)state;
    static const struct {
        const char *rank;
        size_t local_n;
        enum job_mode mode;
        bool named;
    } cases[] = {{"x", 1, JOB_MODE_COLLECTIVE, true}, {"-1", 1, JOB_MODE_COLLECTIVE, true},
        {"7", 1, JOB_MODE_COLLECTIVE, false}, {"x", 2, JOB_MODE_COLLECTIVE, false /* replaced */},
        {"x", 1, JOB_MODE_PS, false}};
    for (size_t i = 0; i < CO_ARRAY_LEN(cases); i++) {
        struct job j = {.mode = cases[i].mode, .n[JOB_ROLE_TRAINER] = cases[i].local_n};
        job_torchrun_check(&j, wrong_rank, (char *)cases[i].rank);
        assert_int_equal(j.notes.n, cases[i].named);
        assert_true(!cases[i].named || strstr(j.notes.item[0], "WARNING RANK: \""));
        options_list_done(&j.notes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_gets_what_torchrun_sets),
        cmocka_unit_test(a_users_number_that_differs_is_named),
        cmocka_unit_test(a_users_value_of_the_wrong_form_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
