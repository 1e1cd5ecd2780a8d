#include "common/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int freed;

static void thing_free(const int *thing) {
    freed += *thing;
}
CO_DEFINE_CLEANUP(const int *, thing_free)

static void cleanup_runs_at_the_end_of_the_scope_unless_stolen(void **state) {
    (void)state;
    static const int one = 1, ten = 10;
    freed = 0;
    const int *kept = NULL;
    {
        CO_CLEANUP(thing_freep) const int *a = &one;
        CO_CLEANUP(thing_freep) const int *b = &ten;
        CO_CLEANUP(thing_freep) const int *none = NULL;
        assert_null(none);
        assert_non_null(a);
        kept = co_steal_ptr(b);
        assert_null(b);
    }
    assert_int_equal(freed, 1);
    assert_ptr_equal(kept, &ten);
}

static void descriptors_close_with_their_scope_and_errno_stays(void **state) {
    (void)state;
    int seen;
    {
        CO_AUTOCLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CO_AUTOCLOSE int none = -1;
        assert_true(fd >= 0 && none < 0);
        seen = fd;
        errno = EXDEV;
    }
    assert_int_equal(errno, EXDEV);
    assert_int_equal(fcntl(seen, F_GETFD), -1);
    errno = EXDEV;
    co_close(seen); /* fails with EBADF */
    assert_int_equal(errno, EXDEV);
}

static void allocations_of_nothing_are_something(void **state) {
    (void)state;
    void *p = co_xmalloc(0), *q = co_xcalloc(0, 8), *r = co_xrealloc(NULL, 0, 8);
    assert_true(p && q && r);
    free(p);
    free(q);
    free(r);
    CO_AUTOFREE char *text = co_xasprintf("%s-%d", "a", 5);
    assert_string_equal(text, "a-5");
    CO_AUTOFREE char *part = co_xstrndup("abcdef", 3);
    assert_string_equal(part, "abc");
}

static void sizes_from_outside_are_capped(void **state) {
    (void)state;
    static const struct {
        size_t n, size, cap;
        int code;
    } rows[] = {{10, 8, 80, 0}, {0, 8, 80, 0}, {11, 8, 80, CO_NORESOURCE},
        {SIZE_MAX, 2, SIZE_MAX, CO_NORESOURCE}, {SIZE_MAX, 1, 80, CO_NORESOURCE}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        void *p = NULL;
        struct co_err err = {0};
        int r = co_try_alloc(rows[i].n, rows[i].size, rows[i].cap, "rows of the table", &p, &err);
        assert_int_equal(r, rows[i].code);
        assert_int_equal(p != NULL, r == 0);
        if (r) {
            assert_non_null(strstr(err.msg, "rows of the table"));
        }
        for (size_t k = 0; p && k < rows[i].n * rows[i].size; k++) {
            assert_int_equal(((char *)p)[k], 0);
        }
        free(p);
    }
}

static void an_overflowing_control_allocation_aborts(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)close(2);
        free(co_xrealloc(NULL, SIZE_MAX / 2, 4));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void strings_compare_with_null(void **state) {
    (void)state;
    assert_true(co_streq(NULL, NULL));
    assert_true(co_streq("a", "a"));
    assert_false(co_streq("a", NULL));
    assert_false(co_streq(NULL, "a"));
    assert_false(co_streq("a", "b"));
}

static void a_growing_array_keeps_its_items(void **state) {
    (void)state;
    CO_AUTOFREE size_t *items = NULL;
    for (size_t n = 0; n < 100; n++) {
        items = co_xgrow(items, n, sizeof(*items));
        items[n] = n;
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(items[i], i);
    }
}

static void ends_of_texts_are_compared(void **state) {
    (void)state;
    assert_true(co_ends_with("a.npz", ".npz"));
    assert_true(co_ends_with(".npz", ".npz"));
    assert_true(co_ends_with("a", ""));
    assert_false(co_ends_with("npz", ".npz"));
    assert_false(co_ends_with("a.npz.x", ".npz"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleanup_runs_at_the_end_of_the_scope_unless_stolen),
        cmocka_unit_test(descriptors_close_with_their_scope_and_errno_stays),
        cmocka_unit_test(allocations_of_nothing_are_something),
        cmocka_unit_test(sizes_from_outside_are_capped),
        cmocka_unit_test(an_overflowing_control_allocation_aborts),
        cmocka_unit_test(strings_compare_with_null),
        cmocka_unit_test(a_growing_array_keeps_its_items),
        cmocka_unit_test(ends_of_texts_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
