#include "runtime/train/cost/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void steps_and_bytes_are_those_of_the_algorithms(void **state) {
    (void)state;
    static const struct {
        enum cost_algorithm way;
        uint32_t ranks;
        uint64_t bytes, steps, moved;
    } rows[] = {
        {COST_ALGORITHM_DOUBLING, 2, 1000, 1, 1000},
        {COST_ALGORITHM_DOUBLING, 8, 1000, 3, 3000},
        {COST_ALGORITHM_DOUBLING, 6, 1000, 4, 4000},
        {COST_ALGORITHM_HALVING, 2, 1000, 2, 1000},
        {COST_ALGORITHM_HALVING, 8, 8000, 6, 14000},
        {COST_ALGORITHM_HALVING, 5, 1000, 6, 3500},
        {COST_ALGORITHM_RING, 2, 1000, 2, 1000},
        {COST_ALGORITHM_RING, 8, 8000, 14, 14000},
        {COST_ALGORITHM_RING, 5, 1000, 8, 1600},
        {COST_ALGORITHM_REDUCE_TREE, 5, 1000, 3, 3000},
        {COST_ALGORITHM_BROADCAST_TREE, 8, 1000, 3, 3000},
        {COST_ALGORITHM_REDUCE_CHAIN, 5, 1000, 4, 4000},
        {COST_ALGORITHM_BROADCAST_CHAIN, 4, 4 * COST_PIECE, 6, 6 * COST_PIECE},
        {COST_ALGORITHM_BROADCAST_CHAIN, 2, 0, 1, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        uint64_t steps = cost_algorithm_steps(rows[i].way, rows[i].ranks, rows[i].bytes);
        uint64_t moved = cost_algorithm_bytes(rows[i].way, rows[i].ranks, rows[i].bytes);
        if (steps != rows[i].steps || moved != rows[i].moved) {
            fail_msg("%s %s, %u ranks: %llu steps, %llu bytes", cost_algorithm_call(rows[i].way),
                cost_algorithm_name(rows[i].way), rows[i].ranks, (unsigned long long)steps,
                (unsigned long long)moved);
        }
    }
}

/* None is ever dearer than the one that is taken, whichever of a call is asked for. */
static void the_cheapest_is_taken(void **state) {
    (void)state;
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        for (uint32_t ranks = 2; ranks <= 4096; ranks += 1 + ranks / 5) {
            for (uint64_t bytes = 1; bytes <= (uint64_t)1 << 40; bytes *= 4) {
                enum cost_algorithm best = cost_algorithm_cheapest(w, ranks, bytes);
                assert_string_equal(cost_algorithm_call(best), cost_algorithm_call(w));
                assert_true(
                    cost_algorithm_ns(best, ranks, bytes) <= cost_algorithm_ns(w, ranks, bytes));
            }
        }
    }
}

/* What nobody would measure otherwise: many steps are worth it only for many bytes. */
static void small_calls_take_few_steps_and_large_calls_few_bytes(void **state) {
    (void)state;
    assert_int_equal(cost_algorithm_cheapest(COST_ALGORITHM_RING, 64, 8), COST_ALGORITHM_DOUBLING);
    assert_int_not_equal(
        cost_algorithm_cheapest(COST_ALGORITHM_RING, 64, 64 << 20), COST_ALGORITHM_DOUBLING);
    assert_int_equal(
        cost_algorithm_cheapest(COST_ALGORITHM_REDUCE_CHAIN, 64, 8), COST_ALGORITHM_REDUCE_TREE);
    assert_int_equal(cost_algorithm_cheapest(COST_ALGORITHM_REDUCE_TREE, 64, 1 << 30),
        COST_ALGORITHM_REDUCE_CHAIN);
    assert_int_equal(cost_algorithm_cheapest(COST_ALGORITHM_BROADCAST_CHAIN, 64, 8),
        COST_ALGORITHM_BROADCAST_TREE);
    assert_int_equal(cost_algorithm_cheapest(COST_ALGORITHM_BROADCAST_TREE, 64, 1 << 30),
        COST_ALGORITHM_BROADCAST_CHAIN);
}

static void the_table_names_every_algorithm(void **state) {
    (void)state;
    char text[8192], cut[20], row[40];
    int n = cost_algorithm_table(text, sizeof(text));
    assert_in_range(n, 500, sizeof(text) - 1);
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        (void)snprintf(
            row, sizeof(row), "\n%-11s %-9s ", cost_algorithm_call(w), cost_algorithm_name(w));
        assert_non_null(strstr(text, row));
    }
    assert_non_null(strstr(text, "\nall_reduce     64  0 doubling, "));
    assert_int_equal(cost_algorithm_table(cut, sizeof(cut)), n);
    assert_int_equal(strlen(cut), sizeof(cut) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_bytes_are_those_of_the_algorithms),
        cmocka_unit_test(the_cheapest_is_taken),
        cmocka_unit_test(small_calls_take_few_steps_and_large_calls_few_bytes),
        cmocka_unit_test(the_table_names_every_algorithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
