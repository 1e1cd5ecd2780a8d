#include "runtime/launch/process/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/ports_testing.h"

static int bind_port(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    int r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0;
    (void)close(fd);
    return r;
}

static void ports_are_held_until_released_and_locked_until_done(void **state) {
    (void)state;
    enum { PORTS = 60 }; /* connections of former users may be in TIME_WAIT at some */
    struct proc_ports a, b;
    /* This process's own: launchers of other tests take theirs from the usual range. */
    const uint16_t first = co_test_ports(PORTS);
    const struct proc_ports_range range = {first, first + PORTS - 1, 0};
    assert_int_equal(proc_ports_hold(&range, 8, 0, &a, NULL), 0);
    assert_int_equal(bind_port(a.port[0]), EADDRINUSE);
    proc_ports_release(&a);
    assert_int_equal(bind_port(a.port[0]), 0); /* the child's turn */
    /* another launcher of this machine does not take it meanwhile */
    struct proc_ports_range same = {a.port[0], a.port[0], 0};
    struct co_err err = {0};
    assert_int_equal(proc_ports_hold(&same, 1, 0, &b, &err), CO_NORESOURCE);
    proc_ports_done(&a);
    assert_int_equal(proc_ports_hold(&same, 1, 0, &b, NULL), 0);
    proc_ports_done(&b);
}

static void ranges(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
        int r, first, last, fixed;
    } rows[] = {
        {"PORT_RANGE", NULL, 0, 35100, 64000, 0},
        {"PORT_RANGE", "40000:40010", 0, 40000, 40010, 0},
        {"PORT_RANGE", "40000", CO_INVALID, 0, 0, 0},
        {"PORT_RANGE", "2:1", CO_INVALID, 0, 0, 0},
        {"PORT_RANGE", "1:70000", CO_INVALID, 0, 0, 0},
        {"FLAGS_FIXED_PORT", "7000", 0, 35100, 64000, 7000},
        {"FLAGS_START_PORT", "x", CO_INVALID, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct proc_ports_range range = {0};
        if (rows[i].value) {
            (void)setenv(rows[i].name, rows[i].value, 1);
        }
        assert_int_equal(proc_ports_range(&range, NULL), rows[i].r);
        (void)unsetenv(rows[i].name);
        assert_int_equal(range.first, rows[i].first);
        assert_int_equal(range.last, rows[i].last);
        assert_int_equal(range.fixed, rows[i].fixed);
    }
}

static void fixed_ports_are_taken_as_they_are(void **state) {
    (void)state;
    struct proc_ports_range range = {40000, 60000, 61901};
    static const size_t spares[] = {0, 2};
    for (size_t i = 0; i < 2; i++) {
        struct proc_ports p;
        assert_int_equal(proc_ports_hold(&range, 3, spares[i], &p, NULL), 0);
        assert_int_equal(p.port[i ? 0 : 1], 61901);
        assert_int_equal(p.port[i ? 1 : 2], 61902);
        assert_in_range(p.port[spares[i]], 40000, 60000);
        proc_ports_done(&p);
    }
    struct co_err err = {0};
    struct proc_ports p;
    range.fixed = 65535;
    assert_int_equal(proc_ports_hold(&range, 3, 0, &p, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "3 ports from 65535 on"));
}

static void a_low_open_files_limit_is_named(void **state) {
    (void)state;
    struct proc_ports_range range = {40000, 60000, 0};
    struct proc_ports p;
    struct co_err err = {0};
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = proc_ports_hold(&range, 30, 0, &p, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(r, CO_NORESOURCE);
    assert_non_null(strstr(err.msg, "30 ports take 60 open files"));
    assert_non_null(strstr(err.msg, "ulimit -n is 40"));
    assert_int_equal(proc_ports_hold(&range, 30, 0, &p, &err), 0); /* those were given back */
    proc_ports_done(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_are_held_until_released_and_locked_until_done),
        cmocka_unit_test(ranges),
        cmocka_unit_test(fixed_ports_are_taken_as_they_are),
        cmocka_unit_test(a_low_open_files_limit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
