/* What a trainer left for its restart: the last two pieces, and the one that fits a step. */
#include "runtime/train/ps/shard/kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void put(struct shard_kept kept[SHARD_KEPT_N], uint64_t step, const char *text) {
    shard_kept_put(kept, step, (const unsigned char *)text, (uint32_t)strlen(text));
}

static void assert_found(
    const struct shard_kept kept[SHARD_KEPT_N], uint64_t step, const char *text) {
    const struct shard_kept *k = shard_kept_find(kept, step);
    assert_int_equal(text != NULL, k != NULL);
    if (k && text) {
        assert_int_equal(strlen(text), k->bytes);
        assert_memory_equal(text, k->data, k->bytes);
    }
}

static void the_newest_piece_up_to_the_step_is_found(void **state) {
    static const struct {
        uint64_t step; /* of the piece that comes */
        const char *text;
        const char *found[5]; /* at steps 0, 3, 5, 7, all ones */
    } rows[] = {
        {5, "five", {NULL, NULL, "five", "five", "five"}},
        {3, "three", {NULL, "three", "five", "five", "five"}},
        {3, "", {NULL, "", "five", "five", "five"}}, /* in place of the same step's */
        {7, "seven", {NULL, NULL, "five", "seven", "seven"}},
        {7, "again", {NULL, NULL, "five", "again", "again"}},
        {5, "other", {NULL, NULL, "other", "again", "again"}},
        {0, "zero", {"zero", "zero", "zero", "again", "again"}}, /* after it went back */
        {UINT64_MAX, "last", {NULL, NULL, NULL, "again", "last"}},
    };
    static const uint64_t steps[] = {0, 3, 5, 7, UINT64_MAX};
    struct shard_kept kept[SHARD_KEPT_N] = {0};
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        put(kept, rows[i].step, rows[i].text);
        for (size_t k = 0; k < CO_ARRAY_LEN(steps); k++) {
            assert_found(kept, steps[k], rows[i].found[k]);
        }
    }
    shard_kept_clear(kept);
    assert_found(kept, UINT64_MAX, NULL);
    shard_kept_clear(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_piece_up_to_the_step_is_found),
    };
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
