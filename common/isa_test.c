/* Tests what the processor has against what the kernel says of it, and that less can be asked for.
 * The variable is read once, so each value has a process of its own. */
#include "common/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/isa_testing.h"

static const char *name;

static enum co_isa of_machine(void) {
    return co_test_isa_there(CO_ISA_AVX512) ? CO_ISA_AVX512
           : co_test_isa_there(CO_ISA_AVX2) ? CO_ISA_AVX2
                                            : CO_ISA_PLAIN;
}

/* What co_isa says in a process with that variable; NULL: without. */
static int said_with(const char *value) {
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)(value ? setenv(name, value, 1) : unsetenv(name));
        _exit((int)co_isa());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_isa_is_the_one_of_proc_cpuinfo(void **state) {
    (void)state;
    assert_int_equal(said_with(NULL), of_machine());
}

static void the_variable_only_lowers_the_isa(void **state) {
    static const struct {
        const char *value;
        enum co_isa most;
    } rows[] = {{"plain", CO_ISA_PLAIN}, {"avx2", CO_ISA_AVX2}, {"avx512", CO_ISA_AVX512},
        {"", CO_ISA_AVX512}, {"sse2", CO_ISA_AVX512}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int most = rows[i].most < of_machine() ? (int)rows[i].most : (int)of_machine();

        assert_int_equal(said_with(rows[i].value), most);
    }
}

static void unknown_isa_names_are_refused(void **state) {
    static const char *const good[] = {"plain", "avx2\n", " avx512", " "};
    static const char *const bad[] = {"AVX2", "sse2", "avx512f", "avx2 512"};
    struct co_err err = {0};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        (void)setenv(name, good[i], 1);
        assert_int_equal(co_isa_check(NULL), 0);
        (void)setenv(name, bad[i], 1);
        assert_int_equal(co_isa_check(&err), CO_INVALID);
        assert_non_null(strstr(err.msg, "PADDLERT_MAX_CPU_ISA is \""));
        assert_non_null(strstr(err.msg, "expected one of plain, avx2, avx512"));
    }
    (void)unsetenv(name);
    assert_int_equal(co_isa_check(NULL), 0);
}

static void an_isa_limit_holds_until_it_is_lifted(void **state) {
    (void)state;
    enum co_isa all = co_isa();
    co_isa_limit(CO_ISA_PLAIN);
    assert_int_equal(co_isa(), CO_ISA_PLAIN);
    co_isa_limit(CO_ISA_AVX512);
    assert_int_equal(co_isa(), all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_isa_is_the_one_of_proc_cpuinfo),
        cmocka_unit_test(the_variable_only_lowers_the_isa),
        cmocka_unit_test(unknown_isa_names_are_refused),
        cmocka_unit_test(an_isa_limit_holds_until_it_is_lifted),
    };

    name = co_contract[CO_VAR_MAX_CPU_ISA].name;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
