/* Tests finding different ids, gathering their rows and summing their gradients. */
#include "examples/nn/embed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "examples/nn/rng.h"

static void distinct_keeps_first_occurrence_order(void **state) {
    const uint64_t ids[] = {7, 0, 7, UINT64_MAX, 0, 7, 3}, unique[] = {7, 0, UINT64_MAX, 3};
    const uint32_t index[] = {0, 1, 0, 2, 1, 0, 3};
    CO_CLEANUP(nn_distinct_freep) struct nn_distinct *d = NULL;
    uint64_t got[7];
    uint32_t places[7];

    (void)state;
    assert_int_equal(nn_distinct_new(7, &d, NULL), 0);
    for (size_t again = 0; again < 3; again++) {
        assert_int_equal(nn_distinct_find(d, 7, ids, got, places), 4);
        assert_memory_equal(got, unique, sizeof(unique));
        assert_memory_equal(places, index, sizeof(index));
    }
    assert_int_equal(nn_distinct_find(d, 0, ids, got, places), 0);
}

static void distinct_on_random_batches(void **state) {
    enum { K = 500 };
    CO_CLEANUP(nn_distinct_freep) struct nn_distinct *d = NULL;
    uint64_t ids[K], unique[K];
    uint32_t index[K];
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 1, 0);
    assert_int_equal(nn_distinct_new(K, &d, NULL), 0);
    for (size_t round = 0; round < 50; round++) {
        uint64_t range = 1 + nn_rng_below(&r, 2000);

        for (size_t i = 0; i < K; i++) {
            ids[i] = nn_rng_below(&r, range);
        }
        size_t found = nn_distinct_find(d, K, ids, unique, index);
        for (size_t i = 0; i < K; i++) {
            assert_true(index[i] < found);
            assert_int_equal(unique[index[i]], ids[i]);
        }
        for (size_t i = 0; i < found; i++) {
            for (size_t j = 0; j < i; j++) {
                assert_int_not_equal(unique[i], unique[j]);
            }
        }
    }
}

static void an_absurd_batch_is_refused(void **state) {
    struct nn_distinct *d = NULL;

    (void)state;
    assert_int_equal(nn_distinct_new((size_t)1 << 40, &d, NULL), CO_NORESOURCE);
    assert_null(d);
}

/* Two samples of three slots, rows of two floats, one further float a line. */
static void gather_and_scatter(void **state) {
    const struct nn_embed m = {.batch = 2, .slots = 3, .width = 2, .stride = 7};
    const uint32_t index[] = {0, 1, 0, 2, 1, 1};
    const float rows[] = {1, 2, 3, 4, 5, 6};
    const float expected_x[] = {1, 2, 3, 4, 1, 2, -1, 5, 6, 3, 4, 3, 4, -1};
    const float dx[] = {1, 1, 10, 20, 2, 2, 99, 7, 8, 30, 40, 100, 200, 99};
    const float expected_drows[] = {3, 3, 140, 260, 7, 8};
    float x[14], drows[6];

    (void)state;
    for (size_t i = 0; i < 14; i++) {
        x[i] = -1;
    }
    nn_embed_gather(&m, index, rows, x);
    assert_memory_equal(x, expected_x, sizeof(x));
    nn_embed_scatter(&m, index, dx, 3, drows);
    assert_memory_equal(drows, expected_drows, sizeof(drows));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distinct_keeps_first_occurrence_order),
        cmocka_unit_test(distinct_on_random_batches),
        cmocka_unit_test(an_absurd_batch_is_refused),
        cmocka_unit_test(gather_and_scatter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
