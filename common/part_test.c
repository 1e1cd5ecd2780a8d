/* Each test of a program runs in exactly one of its parts. */
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

/* ---- the program that is run in parts: two groups ---- */

#define PRINTS(letter)                                                                             \
    static void prints_##letter(void **state) {                                                    \
        (void)state;                                                                               \
        (void)puts("ran " #letter);                                                                \
    }
PRINTS(a)
PRINTS(b)
PRINTS(c)
PRINTS(d)
PRINTS(e)
enum { PRINTED = 5 };

static int run_groups(void) {
    const struct CMUnitTest first[] = {
        cmocka_unit_test(prints_a), cmocka_unit_test(prints_b), cmocka_unit_test(prints_c)};
    const struct CMUnitTest second[] = {cmocka_unit_test(prints_d), cmocka_unit_test(prints_e)};
    int failed = cmocka_run_group_tests_name("first", first, NULL, NULL);
    return failed + cmocka_run_group_tests_name("second", second, NULL, NULL);
}

/* ---- */

/* Counts the letters that this program prints as that one; its exit status. */
static int run_part(const char *part, unsigned counts[PRINTED]) {
    char self[512], line[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    CO_AUTOFREE char *cmd = co_xasprintf("PART_TEST=1 TESTS_PART=%s '%s' 2>/dev/null", part, self);
    FILE *out = popen(cmd, "re");
    assert_non_null(out);
    while (fgets(line, sizeof(line), out)) {
        if (strncmp(line, "ran ", 4) == 0) {
            assert_in_range(line[4], 'a', 'a' + PRINTED - 1);
            counts[line[4] - 'a']++;
        }
    }
    return pclose(out);
}

static void each_test_is_in_one_part(void **state) {
    (void)state;
    for (unsigned parts = 1; parts <= PRINTED + 2; parts++) {
        unsigned counts[PRINTED] = {0};
        for (unsigned part = 0; part < parts; part++) {
            CO_AUTOFREE char *text = co_xasprintf("%u/%u", part, parts);
            assert_int_equal(0, run_part(text, counts));
        }
        for (unsigned i = 0; i < PRINTED; i++) {
            assert_int_equal(1, counts[i]);
        }
    }
}

static void malformed_parts_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"3/3", "0/0", "1", "x", "''"};
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        unsigned counts[PRINTED] = {0};
        assert_int_not_equal(0, run_part(bad[i], counts));
        assert_memory_equal(counts, (unsigned[PRINTED]){0}, sizeof(counts));
    }
}

int main(void) {
    if (getenv("PART_TEST")) {
        return run_groups();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_test_is_in_one_part),
        cmocka_unit_test(malformed_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
