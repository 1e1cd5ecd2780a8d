/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/desk.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

static struct ctl_desk desk;
static struct ctl_seat a[6], b[6], c[6];
static char calls[64];

static void called(void *arg, struct ctl_seat *seat) {
    (void)arg;
    const struct {
        struct ctl_seat *seats;
        char name;
    } rows[] = {{a, 'a'}, {b, 'b'}, {c, 'c'}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (seat >= rows[i].seats && seat < rows[i].seats + 6) {
            size_t n = strlen(calls);
            (void)snprintf(
                calls + n, sizeof(calls) - n, "%c%d ", rows[i].name, (int)(seat - rows[i].seats));
        }
    }
}

static int setup(void **state) {
    (void)state;
    desk = (struct ctl_desk){.max = 100, .called = called};
    calls[0] = '\0';
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        ctl_desk_leave(&desk, &a[i]);
        ctl_desk_leave(&desk, &b[i]);
        ctl_desk_leave(&desk, &c[i]);
    }
    assert_int_equal(desk.used + desk.lines.nodes.len, 0);
    assert_null(desk.first);
    ctl_desk_done(&desk);
    return 0;
}

static bool sit(struct ctl_seat *seat, const char *ns, size_t bytes) {
    return ctl_desk_sit(&desk, seat, ns, bytes);
}

static void a_namespace_has_half(void **state) {
    (void)state;
    assert_true(sit(&a[0], "a", 30));
    assert_true(sit(&a[1], "a", 20));
    assert_false(sit(&a[2], "a", 1));
    assert_true(sit(&b[0], "b", 50));
    assert_false(sit(&c[0], "c", 1));
    assert_true(sit(&a[0], "a", 99)); /* as before */
    ctl_desk_leave(&desk, &a[1]);
    assert_string_equal(calls, "a2 c0 ");
    assert_true(sit(&a[2], "a", 1));
}

static void one_that_is_larger_reads_alone(void **state) {
    (void)state;
    assert_true(sit(&a[0], "a", 1000));
    assert_int_equal(desk.used, ctl_desk_share(&desk));
    assert_false(sit(&a[1], "a", 1));
    assert_true(sit(&b[0], "b", 1000));
    ctl_desk_leave(&desk, &a[0]);
    assert_string_equal(calls, "a1 ");
}

static void namespaces_take_turns(void **state) {
    (void)state;
    assert_true(sit(&a[0], "a", 50));
    assert_true(sit(&b[0], "b", 50));
    assert_false(sit(&a[1], "a", 50));
    assert_false(sit(&a[2], "a", 50));
    assert_false(sit(&a[3], "a", 50));
    assert_false(sit(&c[0], "c", 40));
    assert_false(sit(&c[1], "c", 40));
    ctl_desk_leave(&desk, &a[0]);
    ctl_desk_leave(&desk, &b[0]);
    assert_string_equal(calls, "a1 c0 ");
    ctl_desk_leave(&desk, &c[0]);
    ctl_desk_leave(&desk, &a[1]);
    assert_string_equal(calls, "a1 c0 c1 a2 ");
}

/* Small ones that come later do not pass it for ever. */
static void a_large_one_is_not_passed(void **state) {
    (void)state;
    assert_true(sit(&a[0], "a", 40));
    assert_true(sit(&b[0], "b", 40));
    assert_false(sit(&c[0], "c", 50));
    assert_false(sit(&b[1], "b", 5));
    ctl_desk_leave(&desk, &a[0]);
    assert_string_equal(calls, "c0 b1 ");
}

static void who_waits_may_go(void **state) {
    (void)state;
    assert_true(sit(&a[0], "a", 50));
    for (size_t i = 1; i < 5; i++) {
        assert_false(sit(&a[i], "a", 50));
    }
    ctl_desk_leave(&desk, &a[4]);
    ctl_desk_leave(&desk, &a[1]);
    ctl_desk_leave(&desk, &a[2]);
    assert_string_equal(calls, "");
    assert_false(sit(&a[5], "a", 50));
    ctl_desk_leave(&desk, &a[0]);
    ctl_desk_leave(&desk, &a[3]);
    assert_string_equal(calls, "a3 a5 ");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_namespace_has_half),
        TEST(one_that_is_larger_reads_alone),
        TEST(namespaces_take_turns),
        TEST(a_large_one_is_not_passed),
        TEST(who_waits_may_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
