#include "examples/resnet50/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "examples/nn/rng.h"

enum { SPANS = 200, ROUNDS = 50 };

/* The least that any plan needs: the most bytes that are alive at one time. */
static size_t bound(const struct rn_span *spans, size_t n) {
    size_t most = 0;

    /* The sum over time grows only where a span begins. */
    for (size_t i = 0; i < n; i++) {
        size_t alive = 0;

        for (size_t k = 0; k < n; k++) {
            if (spans[k].first <= spans[i].first && spans[i].first <= spans[k].last) {
                alive += rn_arena_aligned(spans[k].bytes);
            }
        }
        most = alive > most ? alive : most;
    }
    return most;
}

static void check(const struct rn_span *s, size_t n, size_t total) {
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].offset % RN_ARENA_ALIGN, 0);
        assert_true(s[i].offset + s[i].bytes <= total);
        for (size_t k = 0; k < i; k++) {
            int apart_in_time = s[i].last < s[k].first || s[k].last < s[i].first;
            int apart_in_place =
                s[i].offset + s[i].bytes <= s[k].offset || s[k].offset + s[k].bytes <= s[i].offset;

            assert_true(apart_in_time || apart_in_place);
        }
    }
    assert_true(total >= bound(s, n));
}

static void values_that_live_together_have_their_own_places(void **state) {
    struct rn_span s[SPANS];
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 7, 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SPANS; i++) {
            int first = (int)nn_rng_below(&r, 100);

            s[i] = (struct rn_span){.bytes = 1 + nn_rng_below(&r, 5000),
                .first = first,
                .last = first + (int)nn_rng_below(&r, 30)};
        }
        check(s, SPANS, rn_arena_plan(s, SPANS));
    }
}

/* Forward 0..3, backward 4..7, as in a network: what only backward needs takes no more room. */
static void a_place_is_used_again(void **state) {
    struct rn_span s[] = {
        {.bytes = 1024, .first = 0, .last = 1},
        {.bytes = 1024, .first = 1, .last = 2},
        {.bytes = 1024, .first = 2, .last = 3},
        {.bytes = 2048, .first = 4, .last = 5},
    };
    size_t total = rn_arena_plan(s, 4);

    (void)state;
    check(s, 4, total);
    assert_int_equal(total, 2048);
    assert_int_equal(bound(s, 4), 2048);
}

static void an_empty_plan_needs_no_memory(void **state) {
    (void)state;
    assert_int_equal(rn_arena_plan(NULL, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_live_together_have_their_own_places),
        cmocka_unit_test(a_place_is_used_again),
        cmocka_unit_test(an_empty_plan_needs_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
