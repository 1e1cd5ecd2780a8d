/* Parts of a test program.  With TESTS_PART=2/4 in the environment it runs every fourth of its
 * tests, from the third on, counted over all its groups: four processes run all of them, and those
 * that wait for leases and deadlines do so side by side.  Every test program is linked with
 * -Wl,--wrap=_cmocka_run_group_tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/mem.h"

typedef int(run_group_fn)(const char *name, const struct CMUnitTest *tests, const size_t n,
    CMFixtureFunction group_setup, CMFixtureFunction group_teardown);
run_group_fn __real__cmocka_run_group_tests, __wrap__cmocka_run_group_tests;

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, const size_t n,
    CMFixtureFunction group_setup, CMFixtureFunction group_teardown) {
    static size_t seen; /* tests of this group and of those before it */
    size_t part = 0, parts = 1, mine = 0;
    const char *text = getenv("TESTS_PART");

    if (text && (sscanf(text, "%zu/%zu", &part, &parts) != 2 || part >= parts)) {
        (void)fprintf(stderr, "TESTS_PART is \"%s\", expected I/N with I < N\n", text);
        return 1;
    }
    CO_AUTOFREE struct CMUnitTest *chosen = co_xcalloc(n, sizeof(*chosen));
    for (size_t i = 0; i < n; i++) {
        if (seen++ % parts == part) {
            chosen[mine++] = tests[i];
        }
    }
    if (mine == 0) {
        return 0;
    }
    return __real__cmocka_run_group_tests(name, chosen, mine, group_setup, group_teardown);
}
