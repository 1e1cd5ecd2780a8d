/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/text_lru.h"

#include "common/mem.h"

/* "a1": the first text of namespace "a". */
static struct ctl_text_lru text_lru;
static struct ctl_text_node of[2][4];
static const char *const names[] = {"a", "b"};

static void begin(size_t max, size_t entry_bytes) {
    text_lru = (struct ctl_text_lru){.max = max};
    for (size_t i = 0; i < 8; i++) {
        ctl_text_lru_add(&text_lru, &of[i / 4][i % 4], names[i / 4], entry_bytes);
    }
}

static void end(size_t entry_bytes) {
    for (size_t i = 0; i < 8; i++) {
        ctl_text_lru_drop(&text_lru, &of[i / 4][i % 4]);
        ctl_text_lru_remove(&text_lru, &of[i / 4][i % 4], names[i / 4], entry_bytes);
    }
    assert_int_equal(text_lru.texts + text_lru.others + text_lru.n + text_lru.spaces.nodes.len, 0);
    ctl_text_lru_done(&text_lru);
}

static void texts_within_the_limit_are_kept(void **state) {
    (void)state;
    begin(100, 0);
    ctl_text_lru_put(&text_lru, &of[0][0], 60);
    ctl_text_lru_put(&text_lru, &of[1][0], 40);
    assert_null(ctl_text_lru_victim(&text_lru));
    assert_int_equal(text_lru.n, 2);
    end(0);
}

/* The one that has more goes without, whoever came last. */
static void the_largest_namespace_loses_its_oldest(void **state) {
    (void)state;
    begin(100, 0);
    ctl_text_lru_put(&text_lru, &of[0][0], 30);
    ctl_text_lru_put(&text_lru, &of[0][1], 30);
    ctl_text_lru_put(&text_lru, &of[0][2], 30);
    ctl_text_lru_put(&text_lru, &of[1][0], 20);
    assert_ptr_equal(ctl_text_lru_victim(&text_lru), &of[0][0]);
    ctl_text_lru_drop(&text_lru, &of[0][0]);
    assert_null(ctl_text_lru_victim(&text_lru));
    /* What changed is the newest. */
    ctl_text_lru_drop(&text_lru, &of[0][1]);
    ctl_text_lru_put(&text_lru, &of[0][1], 50);
    assert_null(ctl_text_lru_victim(&text_lru));
    ctl_text_lru_put(&text_lru, &of[1][1], 1);
    assert_ptr_equal(ctl_text_lru_victim(&text_lru), &of[0][2]);
    end(0);
}

static void a_text_above_the_limit_is_evicted(void **state) {
    (void)state;
    begin(100, 0);
    ctl_text_lru_put(&text_lru, &of[1][0], 10);
    ctl_text_lru_put(&text_lru, &of[0][0], 101);
    assert_ptr_equal(ctl_text_lru_victim(&text_lru), &of[0][0]);
    end(0);
}

/* Very many entries of one namespace cost it its own texts first. */
static void entries_count_against_the_limit_of_texts(void **state) {
    (void)state;
    begin(100, 10);
    ctl_text_lru_put(&text_lru, &of[1][0], 30);
    ctl_text_lru_put(&text_lru, &of[0][0], 20);
    assert_null(ctl_text_lru_victim(&text_lru)); /* 80 bytes of entries leave 50 */
    struct ctl_text_node many;
    ctl_text_lru_add(&text_lru, &many, "a", 1000);
    assert_null(ctl_text_lru_victim(&text_lru)); /* no less than that */
    ctl_text_lru_put(&text_lru, &of[1][1], 1);
    assert_ptr_equal(ctl_text_lru_victim(&text_lru), &of[0][0]);
    ctl_text_lru_remove(&text_lru, &many, "a", 1000);
    end(10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_within_the_limit_are_kept),
        cmocka_unit_test(the_largest_namespace_loses_its_oldest),
        cmocka_unit_test(a_text_above_the_limit_is_evicted),
        cmocka_unit_test(entries_count_against_the_limit_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
