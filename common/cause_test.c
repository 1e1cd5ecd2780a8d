#include "common/cause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FRAMES "  File \"train.py\", line 3, in <module>\n    main()\n"
#define TRACED(what) "Traceback (most recent call last):\n" FRAMES what "\n"
#define NOISE "E1123 10:00:00.1 tcp.cc:12] connection reset by peer\nterminate called\n"

static void the_line_that_says_why_is_found(void **state) {
    (void)state;
    static const struct {
        const char *text, *cause;
    } rows[] = {
        {"", ""},
        {" \n\n", ""},
        {"one\ntwo\n\n", "two"},
        {"one\r\ntwo \r\n", "two"},
        {TRACED("ValueError: bad batch"), "ValueError: bad batch"},
        {TRACED("ValueError: bad batch") NOISE, "ValueError: bad batch"},
        {"step 1\n" TRACED("KeyError: 'x'") "\nDuring handling of it:\n\n" TRACED("mod.Odd: second")
                NOISE,
            "mod.Odd: second"},
        {FRAMES "AssertionError\n" NOISE, "AssertionError"}, /* the tail of it */
        {TRACED("ValueError: a\n  b") "bye\n", "ValueError: a"},
        {"RuntimeError: no frames\nI0102 10:00:00 done\n", "RuntimeError: no frames"},
        {"2026-01-01 10:00:00,1 - trainer - ERROR - disk full\nclosing\n",
            "2026-01-01 10:00:00,1 - trainer - ERROR - disk full"},
        {"FATAL: no data\nbye\n", "FATAL: no data"},
        {"F0102 15:04:05.678 x.cc:1] check failed\n*** stack\n  @ 0x1\n",
            "F0102 15:04:05.678 x.cc:1] check failed"},
        {"no ERRORS here\nF0102x\nlast\n", "last"},
        {"SystemExitCode: 1\nlast\n", "last"},
        /* What says more than the cause. */
        {TRACED("ValueError: bad") "worker 0: exit code 1: ValueError: bad\n",
            "worker 0: exit code 1: ValueError: bad"},
        /* Progress is no cause: who was killed has none. */
        {"I0102 15:04:05.678 x.cc:1] trainer 0 joined\nTRAIN ---> pass: 0 loss: 0.4\n", ""},
        {"time=2026 level=info msg=\"worker starts\"\n2026 INFO step 7\n", ""},
        {"no space left\nI0102 15:04:05.678 x.cc:1] ends\n", "no space left"},
        {"/no/such/file \"File\" Traceback", "/no/such/file \"File\" Traceback"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = 0;
        const char *line = co_cause_line(rows[i].text, strlen(rows[i].text), &len);
        char have[200];
        (void)snprintf(have, sizeof(have), "%.*s", (int)len, line);
        assert_string_equal(have, rows[i].cause);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_that_says_why_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
