/* How ranks of a machine wait: they spin if each has a core, and yield otherwise.  And how much
 * memory they map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>

#include "common/limits.h"
#include "runtime/train/coll/shm.h"

static struct rt_shm plan(uint32_t ranks) {
    struct rt_shm s = {0};
    rt_shm_plan(&s, ranks, 0);
    return s;
}

static void ranks_yield_where_they_outnumber_the_cores(void **state) {
    (void)state;
    uint32_t cores = co_limit_cpus("");
    struct rt_shm fits = plan(cores), crowd = plan(cores + 1);
    assert_int_equal(fits.yields, 0);
    assert_true(crowd.yields > 0 && crowd.spins < fits.spins);
}

static void cores_are_those_of_the_process(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    struct rt_shm alone = plan(1), crowd = plan(2);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(alone.yields, 0);
    assert_true(crowd.yields > 0);
}

/* In every process all arenas of all its groups must fit into 128 TiB of addresses. */
static void arenas_of_large_machines_fit_into_a_process(void **state) {
    (void)state;
    enum { GIB = 30, TIB = 40, MIB_2 = 2 << 20 };
    static const struct {
        uint64_t memory;
        uint32_t ranks;
        uint64_t arena;
    } rows[] = {
        {(uint64_t)8 << GIB, 2, (uint64_t)8 << GIB},
        {((uint64_t)8 << GIB) + 4096, 2, (uint64_t)8 << GIB},
        {(uint64_t)512 << GIB, 2, (uint64_t)512 << GIB},
        {(uint64_t)3 << (TIB - 1), 1, (uint64_t)1 << TIB},
        {(uint64_t)3 << (TIB - 1), 96, ((uint64_t)1 << TIB) / 96 / MIB_2 * MIB_2},
        {(uint64_t)2 << TIB, RT_SHM_RANKS_MAX, (uint64_t)4 << GIB},
        {UINT64_MAX, RT_SHM_RANKS_MAX, (uint64_t)4 << GIB},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(rt_shm_arena_bytes(rows[i].memory, rows[i].ranks), rows[i].arena);
    }
    struct rt_shm s = plan(RT_SHM_RANKS_MAX);
    assert_in_range(s.arena, MIB_2, ((uint64_t)1 << TIB) / RT_SHM_RANKS_MAX);
    assert_int_equal(s.bytes, s.arenas + s.n * s.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_yield_where_they_outnumber_the_cores),
        cmocka_unit_test(cores_are_those_of_the_process),
        cmocka_unit_test(arenas_of_large_machines_fit_into_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
