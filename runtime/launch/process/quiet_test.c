/* Servers end when nobody has been connected for a while, and only if that is known. */
#include "runtime/launch/process/quiet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

static void on_quiet(void *arg) {
    *(bool *)arg = true;
}

/* Without a free descriptor nobody sees the kernel's table. */
static void an_unreadable_socket_table_is_not_quiet(void **state) {
    (void)state;
    const uint16_t port = 1; /* nobody's */
    struct rlimit limit, none;
    struct co_loop *loop = NULL;
    bool quiet = false;
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    struct proc_quiet *q = proc_quiet_new(loop, &port, 1, 0, true, on_quiet, &quiet);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CO_AUTOCLOSE int next = dup(0);
    none = limit;
    none.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int looks = 0; looks < 3; looks++) {
        co_loop_turn(loop);
        assert_false(quiet);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (!quiet) {
        co_loop_turn(loop);
    }
    proc_quiet_free(q);
    co_loop_free(loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unreadable_socket_table_is_not_quiet),
    };
    return cmocka_run_group_tests_name("quiet", tests, NULL, NULL);
}
