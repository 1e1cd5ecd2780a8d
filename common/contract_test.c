#include "common/contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void every_row_is_filled_and_named_once(void **state) {
    (void)state;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const struct co_contract_row *row = &co_contract[i];
        assert_non_null(row->name);
        assert_non_null(row->doc);
        assert_int_not_equal(row->generations, 0);
        assert_true((row->type == CO_TYPE_WORD) == (row->words != NULL));
        assert_true(row->type != CO_TYPE_INT || row->max > row->min);
        assert_true((row->when == CO_WHEN_NEVER) == (row->via == CO_VIA_USER));
        assert_int_equal(co_contract_find(row->name), i);
    }
    assert_int_equal(co_contract_find("PADDLE_NO_SUCH"), -1);
}

static void variables_of_a_job_are_recognized(void **state) {
    (void)state;
    assert_int_equal(co_contract_find("FLAGS_selected_gpus"), CO_VAR_SELECTED_GPUS);
    assert_int_equal(co_contract_find("FLAGS_selected_mlus"), CO_VAR_SELECTED_DEVICES);
    assert_true(co_contract_of_job("STAGE_ID"));
    assert_true(co_contract_of_job("FLAGS_selected_mlus"));
    assert_true(co_contract_of_job("PADDLE_NPROC_PER_NODE"));
    assert_false(co_contract_of_job("CUDA_VISIBLE_DEVICES"));
    assert_false(co_contract_of_job("PATH"));
}

static void count_link(void *arg, const char *name, const char *value) {
    assert_string_equal(name, "PADDLE_GLOO_PORT");
    assert_string_equal(value, "tcp://10.0.0.1:80");
    ++*(int *)arg;
}

/* Blanks from files and Secrets; and what Kubernetes says of a Service named paddle-gloo. */
static void values_lose_blanks_and_service_links_are_ignored(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *read;
        bool link;
    } rows[] = {
        {"PADDLE_NNODES", "2\n", "2", false}, {"PADDLE_NNODES", " \t2:3 \r\n", "2:3", false},
        {"PADDLE_JOB_TOKEN", "a b\n\n", "a b", false}, {"PADDLE_NNODES", "\n", NULL, false},
        {"PADDLE_GLOO_PORT", "tcp://10.0.0.1:80", NULL, true},
        {"MASTER_PORT", "udp://[fd00::1]:53", NULL, true},
        {"PADDLE_PORT", "\nsctp://10.0.0.1:1", NULL, true},
        {"FLAGS_START_PORT", "tcp://x", NULL, true},
        {"PADDLE_MASTER", "tcp://10.0.0.1:80", "tcp://10.0.0.1:80", false}, /* the user's, wrong */
        {"PADDLE_PORT", "tcp", "tcp", false},
        {"OTHER_PORT", "tcp://10.0.0.1:80", "tcp://10.0.0.1:80", false}, /* not ours to judge */
        {"OTHER", "", NULL, false}, {"CUDA_VISIBLE_DEVICES", " ", "", false}, /* no GPU */
    };
    const char *first = NULL;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(setenv(rows[i].name, rows[i].value, 1), 0);
        const char *read = co_contract_getenv_of(rows[i].name);
        assert_true(read ? rows[i].read && strcmp(read, rows[i].read) == 0 : !rows[i].read);
        assert_int_equal(co_contract_is_link(rows[i].name, rows[i].value), rows[i].link);
        first = i == 0 ? read : first;
        assert_int_equal(unsetenv(rows[i].name), 0);
    }
    assert_string_equal(first, "2"); /* as long as the process */
    assert_null(co_contract_getenv(CO_VAR_NNODES));
    char *const env[] = {(char[]){"OTHER_PORT=tcp://1"},
        (char[]){"PADDLE_GLOO_PORT=tcp://10.0.0.1:80"}, (char[]){"PADDLE_PORT=1"}, (char[]){"odd"},
        NULL};
    int n = 0;
    co_contract_links(env, count_link, &n);
    assert_int_equal(n, 1);
}

/* As a template gives it where its ConfigMap or chart has nothing. */
static void a_variable_that_is_empty_is_not_set(void **state) {
    (void)state;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const char *name = co_contract[i].name;
        bool none = strstr(name, "VISIBLE_DEVICES") || i == CO_VAR_INIT_SAVE_DIR;
        assert_int_equal(setenv(name, "", 1), 0);
        const char *read = co_contract_getenv((enum co_var)i);
        assert_true(none ? read && !*read : !read);
        assert_int_equal(unsetenv(name), 0);
    }
}

struct check_row {
    enum co_var var;
    const char *value;
    const char *error; /* part of the message; NULL: good */
};

static const struct check_row checks[] = {
    {CO_VAR_TRAINER_ID, "0", NULL},
    {CO_VAR_TRAINER_ID, "2147483647", NULL},
    {CO_VAR_TRAINER_ID, "-1", "PADDLE_TRAINER_ID"},
    {CO_VAR_TRAINER_ID, "1x", "PADDLE_TRAINER_ID"},
    {CO_VAR_TRAINER_ID, "", "PADDLE_TRAINER_ID"},
    {CO_VAR_PORT, "36000", NULL},
    {CO_VAR_PORT, "0", "PADDLE_PORT"},
    {CO_VAR_PORT, "65536", "PADDLE_PORT"},
    {CO_VAR_TRAINING_ROLE, "PSERVER", NULL},
    {CO_VAR_TRAINING_ROLE, "pserver",
        "TRAINING_ROLE is \"pserver\", expected one of PSERVER, TRAINER, HETER"},
    {CO_VAR_POD_IP, "10.0.0.1", NULL},
    {CO_VAR_POD_IP, "fd00::1", NULL},
    {CO_VAR_POD_IP, "fe80::1%eth0", NULL},
    {CO_VAR_POD_IP, "job-ps-0", NULL},
    {CO_VAR_POD_IP, "", "POD_IP"},
    {CO_VAR_POD_IP, "a b", "POD_IP"},
    {CO_VAR_PSERVERS, "10.89.176.11:36000,10.89.176.12:36000", NULL},
    {CO_VAR_PSERVERS, "[fd00::1]:36000,[fd00::2]:36000", NULL},
    {CO_VAR_PSERVERS, "a:1,b:1,", "element 2 is empty"},
    {CO_VAR_PSERVERS, "", "element 0 is empty"},
    {CO_VAR_PSERVERS, "a:1,,b:1", "element 1 is empty"},
    {CO_VAR_PSERVERS, "a:1,b:1,a:1", "has \"a:1\" twice"},
    {CO_VAR_PSERVERS, "a:0", "port 0"},
    {CO_VAR_PSERVERS, "a", "PADDLE_PSERVERS_IP_PORT_LIST"},
    {CO_VAR_PSERVERS, "a b:1", "PADDLE_PSERVERS_IP_PORT_LIST"},
    {CO_VAR_TRAINERS, "10.0.0.1,10.0.0.1", NULL}, /* two workers on a node in Host mode */
    {CO_VAR_TRAINERS, "10.0.0.1;10.0.0.1", "PADDLE_TRAINERS"},
    {CO_VAR_LAUNCH_BARRIER, "0", NULL},
    {CO_VAR_LAUNCH_BARRIER, "perhaps", "FLAGS_LAUNCH_BARRIER"},
    {CO_VAR_ELASTIC_JOB_ID, "", "is empty"},
    {CO_VAR_ELASTIC_NP, "2:4", NULL},
};

static void values_are_judged_by_their_row(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(checks); i++) {
        struct co_err err = {0};
        int r = co_contract_check(checks[i].var, checks[i].value, &err);
        if (checks[i].error == NULL) {
            if (r) {
                fail_msg("\"%s\" refused: %s", checks[i].value, err.msg);
            }
        } else {
            assert_int_equal(r, CO_INVALID);
            if (!strstr(err.msg, checks[i].error)) {
                fail_msg("\"%s\": message \"%s\"", checks[i].value, err.msg);
            }
        }
    }
}

static void long_elements_are_refused(void **state) {
    (void)state;
    char text[400];
    memset(text, 'a', sizeof(text));
    memcpy(text + sizeof(text) - 3, ":1", 3);
    struct co_err err = {0};
    assert_int_equal(co_contract_check(CO_VAR_PSERVERS, text, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "too long"));
}

static void the_reference_page_names_every_variable_once(void **state) {
    (void)state;
    struct co_buf page = CO_BUF(1 << 20);
    assert_int_equal(co_contract_markdown(&page, NULL), 0);
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        char cell[80];
        (void)snprintf(cell, sizeof(cell), "| `%s%s` |", co_contract[i].name,
            co_contract[i].prefix ? "…" : "");
        const char *at = strstr(page.data, cell);
        assert_non_null(at);
        assert_null(strstr(at + 1, cell));
    }
    assert_non_null(strstr(page.data,
        "| `PADDLE_WITH_GLOO` | integer | withGloo > 0 and a server | operator, launcher |"));
    co_buf_done(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_lose_blanks_and_service_links_are_ignored),
        cmocka_unit_test(a_variable_that_is_empty_is_not_set),
        cmocka_unit_test(every_row_is_filled_and_named_once),
        cmocka_unit_test(variables_of_a_job_are_recognized),
        cmocka_unit_test(values_are_judged_by_their_row),
        cmocka_unit_test(long_elements_are_refused),
        cmocka_unit_test(the_reference_page_names_every_variable_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
