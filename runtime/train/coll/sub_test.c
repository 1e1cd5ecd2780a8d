/* Tests rt_group_sub: the ranks of a list make a group of it, if all of them give the same list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll_testing.h"

enum { TAG = 9 };
static const uint32_t all[] = {0, 1, 2};

static int make(struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag, bool barrier,
    struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    CO_TRY(rt_group_sub(g, ranks, n, tag, &part, err));
    return barrier ? rt_group_barrier(part, err) : 0;
}

/* ---- what the last rank does, where the others make a group of all ---- */

static int makes_another_list(struct rt_group *g, struct co_err *err) {
    return make(g, all + 1, 2, TAG, false, err);
}

static int takes_another_tag(struct rt_group *g, struct co_err *err) {
    return make(g, all, 3, TAG + 1, false, err);
}

static int sums(struct rt_group *g, struct co_err *err) {
    uint32_t own = 1, sum = 0;
    return rt_all_reduce(g, &own, &sum, 1, RT_I32, RT_SUM, err);
}

static int leaves(struct rt_group *g, struct co_err *err) {
    (void)g;
    (void)err;
    return 0;
}

static int gives_up(struct rt_group *g, struct co_err *err) {
    (void)err;
    rt_group_abort(g, "ValueError: bad batch");
    while (rt_group_check(g, NULL) == 0) {
    }
    return 0;
}

static const struct mistake {
    int (*last)(struct rt_group *g, struct co_err *err);
    int code, last_code;
    const char *says[3];
} mistakes[] = {
    {makes_another_list, CO_INVALID, CO_INVALID,
        {"ranks make different calls: ", ": sub of ranks 0, 1, 2, tag 9",
            "rank 2: sub of ranks 1, 2, tag 9"}},
    {takes_another_tag, CO_INVALID, CO_INVALID,
        {"ranks make different calls: ", ": sub of ranks 0, 1, 2, tag 9",
            "rank 2: sub of ranks 0, 1, 2, tag 10"}},
    {sums, CO_INVALID, CO_INVALID,
        {"ranks make different calls: ", ": sub of ranks 0, 1, 2, tag 9",
            "rank 2: all_reduce of 1 i32, sum"}},
    {leaves, CO_PEERLOST, 0, {"rank 2 (", ") has left the group", ""}},
    {gives_up, CO_PEERLOST, 0, {"rank 2 (", "has given the group up: ValueError: bad batch", ""}},
};

static int others_make_one_of_all(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const struct mistake *m = &mistakes[w->how];
    struct co_err why = {0};
    bool is_last = rank == w->n - 1;
    int rc = is_last ? m->last(g, &why) : make(g, all, 3, TAG, true, &why);
    bool right = rc == (is_last ? m->last_code : m->code);
    for (size_t i = 0; rc < 0 && i < CO_ARRAY_LEN(m->says); i++) {
        right &= strstr(co_err_text(&why), m->says[i]) != NULL;
    }
    return right ? 0 : co_err_set(err, CO_INTERNAL, "code %d: %s", rc, co_err_text(&why));
}

/* At once: before the time to form a group or to make a call is over, which has another code. */
static void different_calls_are_reported_to_all_ranks(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CO_ARRAY_LEN(mistakes); i++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            struct coll_world w = {.n = 3,
                .how = i,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt};
            assert_int_equal(world_run(&w, others_make_one_of_all), 0);
        }
    }
}

/* ---- what is no mistake ---- */

/* Each pair makes a group of the same tag, in the same order, twice. */
static int pairs(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    uint32_t own = 1, sum = 0;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t a = 0; a < w->n; a++) {
            for (uint32_t b = a + 1; b < w->n; b++) {
                const uint32_t list[] = {a, b};
                bool member = rank == a || rank == b;
                CO_TRY(member ? make(g, list, 2, TAG, turn == 0, err) : 0);
            }
        }
        CO_TRY(rt_all_reduce(g, &own, &sum, 1, RT_I32, RT_SUM, err));
    }
    return 0;
}

static void lists_with_the_same_ranks_and_tags_take_turns(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 4,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, pairs), 0);
    }
}

/* Rank 0 gives a bad list first, which the others do not learn of. */
static int corrects(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const uint32_t bad[] = {1, 0};
    (void)w;
    if (rank == 0 && make(g, bad, 2, TAG, false, NULL) != CO_INVALID) {
        return CO_INTERNAL;
    }
    CO_TRY(make(g, all, 3, TAG, true, err));
    return rt_group_barrier(g, err);
}

static void a_refused_list_does_not_count(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, corrects), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_are_reported_to_all_ranks),
        cmocka_unit_test(lists_with_the_same_ranks_and_tags_take_turns),
        cmocka_unit_test(a_refused_list_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
