#include "runtime/launch/job/tuner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_file_says_whether_there_is_a_tuner(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        enum job_tuner want;
        const char *message;
    } rows[] = {
        {"{}", 0, JOB_TUNER_FIRST, NULL},
        {"{\"tuner_run_mode\": \"tuner_and_run\", \"max_time\": 3}", 0, JOB_TUNER_FIRST, NULL},
        {"{\"tuner_run_mode\": \"tuner_only\"}", 0, JOB_TUNER_ONLY, NULL},
        {"{\"tuner_run_mode\": \"run_only\"}", 0, JOB_TUNER_NONE, NULL},
        {"{\"tuner_run_mode\": \"never\"}", CO_INVALID, JOB_TUNER_NONE,
            "tuner_run_mode is \"never\", expected tuner_and_run, tuner_only or run_only"},
        {"{\"tuner_run_mode\": 1}", CO_INVALID, JOB_TUNER_NONE, "tuner_run_mode"},
        {"[]", CO_INVALID, JOB_TUNER_NONE, "expected a JSON object"},
        {"tuner_run_mode: x", CO_INVALID, JOB_TUNER_NONE, "1"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        enum job_tuner got = JOB_TUNER_NONE;
        int r = job_tuner_read(rows[i].text, strlen(rows[i].text), &got, &err);
        if (r != rows[i].code || got != rows[i].want || (r && !strstr(err.msg, rows[i].message))) {
            fail_msg("%s: %d %d %s", rows[i].text, r, (int)got, err.msg);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_whether_there_is_a_tuner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
