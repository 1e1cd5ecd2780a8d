/* Arrays around the size from which they have huge pages. */
#include "common/huge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { TAIL = 300 << 10 };

static bool is_zero(const unsigned char *p, size_t n) {
    return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static void arrays_of_all_sizes_are_zeros(void **unused) {
    static const size_t sizes[] = {0, 1, 4096, CO_HUGE_PAGE, CO_HUGE_MIN - 1, CO_HUGE_MIN,
        CO_HUGE_MIN + 1, CO_HUGE_MIN + TAIL, 5 * CO_HUGE_PAGE - 1};
    (void)unused;
    for (int round = 0; round < 3; round++) {
        unsigned char *all[CO_ARRAY_LEN(sizes)];
        for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
            size_t n = sizes[i];
            all[i] = i % 2 ? co_huge_xalloc(n) : co_huge_alloc(n);
            assert_non_null(all[i]);
            assert_true(n == 0 || is_zero(all[i], n));
            memset(all[i], (int)i + 1, n);
        }
        for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
            size_t n = sizes[i];
            assert_true(n == 0 || (all[i][0] == i + 1 && all[i][n - 1] == i + 1));
            co_huge_free(all[i], n);
        }
    }
    co_huge_free(NULL, 1);
    co_huge_free(NULL, CO_HUGE_MIN);
}

/* Whether huge pages were asked for where p is. */
static bool is_advised(const void *p) {
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    char line[512];
    bool here = false, advised = false;
    while (fgets(line, sizeof(line), f)) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) {
            here = from <= (uintptr_t)p && (uintptr_t)p < to;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            advised = strstr(line, " hg") != NULL;
        }
    }
    (void)fclose(f);
    return advised;
}

/* A kernel that was built without huge pages refuses the advice. */
static void whole_huge_pages_alone_are_asked_for(void **unused) {
    (void)unused;
    bool has = access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
    unsigned char *p = co_huge_alloc(CO_HUGE_MIN + TAIL), *small = co_huge_alloc(CO_HUGE_MIN - 1);
    assert_non_null(p);
    assert_non_null(small);
    assert_int_equal(0, (uintptr_t)p % CO_HUGE_PAGE);
    assert_int_equal(has, is_advised(p));
    assert_int_equal(has, is_advised(p + CO_HUGE_MIN - 1));
    assert_false(is_advised(p + CO_HUGE_MIN));
    assert_false(is_advised(p + CO_HUGE_MIN + TAIL - 1));
    assert_false(is_advised(small));
    co_huge_free(p, CO_HUGE_MIN + TAIL);
    co_huge_free(small, CO_HUGE_MIN - 1);
}

static void freed_arrays_are_unmapped(void **unused) {
    (void)unused;
    unsigned char *p = co_huge_alloc(CO_HUGE_MIN + TAIL), resident;
    assert_non_null(p);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), last = (CO_HUGE_MIN + TAIL - 1) / page * page;
    assert_int_equal(0, mincore(p + last, page, &resident));
    co_huge_free(p, CO_HUGE_MIN + TAIL);
    assert_int_equal(-1, mincore(p, page, &resident));
    assert_int_equal(-1, mincore(p + last, page, &resident));
}

static void what_no_memory_can_hold_is_refused(void **unused) {
    (void)unused;
    assert_null(co_huge_alloc(SIZE_MAX));
    assert_null(co_huge_alloc(PTRDIFF_MAX));
    assert_null(co_huge_alloc((size_t)1 << 60));
    assert_null(co_huge_map(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_all_sizes_are_zeros),
        cmocka_unit_test(whole_huge_pages_alone_are_asked_for),
        cmocka_unit_test(freed_arrays_are_unmapped),
        cmocka_unit_test(what_no_memory_can_hold_is_refused),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
