#include "common/word_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/mem.h"

static void items_are_joined_by_commas(void **state) {
    (void)state;
    char list[32] = "";
    co_word_list_add(list, sizeof(list), "%s", "a");
    assert_string_equal(list, "a");
    co_word_list_add(list, sizeof(list), "%u (%s)", 7U, "b");
    assert_string_equal(list, "a, 7 (b)");
}

/* An item is there in whole or not at all, and none comes after the dots. */
static void a_full_list_ends_with_dots(void **state) {
    (void)state;
    static const struct {
        const char *items[4], *list;
    } rows[] = {
        {{"0123456"}, "0123456"},
        {{"0123456789"}, "0123456789"},
        {{"0123456789a"}, "..."},
        {{"0123", "4567"}, "0123, 4567"},
        {{"0123", "45678"}, "0123, ..."},
        {{"0123", "4567", "8"}, "0123, 4567, ..."},
        {{"0123", "45678", "9"}, "0123, ..."},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char list[16] = "";
        for (size_t k = 0; rows[i].items[k]; k++) {
            co_word_list_add(list, sizeof(list), "%s", rows[i].items[k]);
        }
        assert_string_equal(list, rows[i].list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_joined_by_commas),
        cmocka_unit_test(a_full_list_ends_with_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
