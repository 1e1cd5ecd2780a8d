/* How ranks of a machine wait: they spin if each has a core, and yield otherwise. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_yield_where_they_outnumber_the_cores),
        cmocka_unit_test(cores_are_those_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
