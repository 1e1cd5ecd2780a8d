/* Fills areas piece by piece, across all changes from small pages to huge ones. */
#include "runtime/train/table/row_area.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PIECE = 64 << 10, PIECES = 1700 }; /* 106 MB: some areas of each kind */

static bool is_zero(const unsigned char *p, size_t n) {
    return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static void pieces_keep_their_bytes_and_places(void **unused) {
    (void)unused;
    struct table_areas a = {0};
    static uint64_t *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        size_t bytes = i % 3 ? PIECE : PIECE - 4; /* no multiple of 8 */
        void *p = NULL;
        assert_int_equal(0, table_areas_cut(&a, bytes, &p, NULL));
        assert_int_equal(0, (uintptr_t)p % 8);
        assert_true(is_zero(p, bytes));
        pieces[i] = p;
        for (size_t k = 0; k < PIECE / 8 - 1; k++) {
            pieces[i][k] = i * PIECE + k;
        }
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < PIECE / 8 - 1; k++) {
            if (pieces[i][k] != i * PIECE + k) {
                fail_msg("piece %zu, word %zu is %llu, expected %llu", i, k,
                    (unsigned long long)pieces[i][k], (unsigned long long)(i * PIECE + k));
            }
        }
    }
    table_areas_done(&a);
    assert_int_equal(0, a.n);
}

/* Resident pages of what was mapped and not cut off yet. */
static size_t pages_in_advance(const struct table_areas *a, size_t most) {
    static unsigned char resident[(32 << 20) / 4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = (a->used + page - 1) / page * page, n = 0;
    assert_int_equal(0, mincore(a->all[a->n - 1] + from, most - from, resident));
    for (size_t i = 0; i < (most - from) / page; i++) {
        n += resident[i] & 1;
    }
    return n;
}

static void a_small_table_takes_no_huge_page_in_advance(void **unused) {
    (void)unused;
    struct table_areas a = {0};
    void *p = NULL;
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(0, table_areas_cut(&a, PIECE, &p, NULL));
        memset(p, 1, PIECE);
    }
    assert_int_equal(0, pages_in_advance(&a, 8 << 20));
    table_areas_done(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_keep_their_bytes_and_places),
        cmocka_unit_test(a_small_table_takes_no_huge_page_in_advance),
    };
    return cmocka_run_group_tests_name("row_area", tests, NULL, NULL);
}
