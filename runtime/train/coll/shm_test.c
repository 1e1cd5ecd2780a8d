/* How ranks of a machine wait: they spin if each has a core, and yield otherwise, or sleep where
 * yields do not pay.  And how much memory they map. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "common/limits.h"
#include "runtime/train/coll/arena.h"
#include "runtime/train/coll/message.h"

static struct coll_shm plan(uint32_t ranks) {
    struct coll_shm s = {0};
    coll_shm_plan(&s, ranks, 0);
    return s;
}

static void ranks_yield_where_they_outnumber_the_cores(void **state) {
    (void)state;
    uint32_t cores = co_limit_cpus("", NULL);
    struct coll_shm fits = plan(cores), crowd = plan(cores + 1);
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
    struct coll_shm alone = plan(1), crowd = plan(2);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(alone.yields, 0);
    assert_true(crowd.yields > 0);
}

/* Where other processes want the cores, too, a yield gives away a whole time slice.  One such yield
 * is enough: this wait and those that follow sleep, until many have and some time has passed. */
static void ranks_sleep_where_yields_take_long(void **state) {
    (void)state;
    enum { SOON_NS = 20 * 1000, SLICE_NS = 3 * 1000 * 1000, AT_MS = 1000 };
    int64_t again_ms = AT_MS + COLL_YIELD_AGAIN_MS;
    struct coll_yields y = {0};
    coll_yields_took(&y, SOON_NS, AT_MS);
    assert_true(coll_yields_pay(&y, AT_MS));
    coll_yields_took(&y, SLICE_NS, AT_MS);
    for (uint32_t i = 1; i < COLL_YIELD_AGAIN_WAITS; i++) {
        assert_false(coll_yields_pay(&y, again_ms)); /* rare waits */
    }
    assert_false(coll_yields_pay(&y, again_ms - 1)); /* many waits */
    assert_true(coll_yields_pay(&y, again_ms));
    assert_true(coll_yields_pay(&y, again_ms));
}

/* A rank that sleeps is woken by what another puts into their pipe or takes out of it; if nobody
 * sleeps, nobody is woken. */
static void writing_to_a_pipe_wakes_only_a_sleeping_rank(void **state) {
    (void)state;
    struct coll_peer peers[2] = {{.local = 0}, {.local = 1}};
    struct rt_group g = {.rank = 0, .size = 2, .local = 0, .n_local = 2, .peers = peers};
    unsigned char byte = 1;
    struct iovec v = {.iov_base = &byte, .iov_len = 1};
    CO_AUTOCLOSE int fd = -1;
    coll_shm_plan(&g.shm, 2, 0);
    assert_int_equal(coll_shm_create(&g.shm, &fd, NULL), 0);
    assert_int_equal(coll_shm_map(&g.shm, fd, NULL), 0);
    struct coll_flow comes = {.peer = 0, .left = 1, .ops = &coll_pipe_shm};
    struct rt_group other = {.rank = 1, .size = 2, .local = 1, .peers = peers, .shm = g.shm};
    other.shm.me = 1;
    uint32_t before = coll_bell_begin(&other.shm);
    coll_bell_end(&other.shm, before, true, 0);
    assert_int_equal(coll_pipe_shm.write(&g, 1, 0, &v, 1), 1);
    assert_int_equal(coll_bell_begin(&other.shm), before);
    assert_true(coll_ring_ready(&other, &comes)); /* so it would not sleep */
    assert_int_equal(coll_pipe_shm.write(&g, 1, 0, &v, 1), 1);
    assert_int_equal(coll_shm_of(&g.shm, 1)->bell, before + 1);
    coll_bell_end(&other.shm, before, false, 0); /* returns: the bell has rung */
    before = coll_bell_begin(&g.shm);
    assert_int_equal(coll_pipe_shm.read(&other, 0, 0, &v, 1), 1);
    assert_int_equal(coll_shm_of(&g.shm, 0)->bell, before + 1);
    coll_bell_end(&g.shm, before, true, 0);
    assert_int_equal(coll_pipe_shm.read(&other, 0, 0, &v, 1), 1);
    assert_false(coll_ring_ready(&other, &comes));
    coll_shm_unmap(&g.shm);
}

/* In every process all arenas of all its groups must fit into 128 TiB of addresses. */
static void arenas_of_large_machines_fit_into_a_process(void **state) {
    (void)state;
    enum { GIB = 30, TIB = 40, MIB_2 = 2 << 20 };
    static const struct {
        uint64_t memory;
        uint32_t ranks;
        uint64_t arena;
        uint64_t limit; /* 0: none */
    } rows[] = {
        {(uint64_t)8 << GIB, 2, (uint64_t)8 << GIB},
        {((uint64_t)8 << GIB) + 4096, 2, (uint64_t)8 << GIB},
        {(uint64_t)512 << GIB, 2, (uint64_t)512 << GIB},
        {(uint64_t)3 << (TIB - 1), 1, (uint64_t)1 << TIB},
        {(uint64_t)3 << (TIB - 1), 96, ((uint64_t)1 << TIB) / 96 / MIB_2 * MIB_2},
        {(uint64_t)2 << TIB, COLL_SHM_RANKS_MAX, (uint64_t)4 << GIB},
        {UINT64_MAX, COLL_SHM_RANKS_MAX, (uint64_t)4 << GIB},
        {(uint64_t)8 << GIB, 2, (uint64_t)1 << GIB, (uint64_t)2 << GIB},
        {(uint64_t)8 << GIB, 4, 0, 4 * MIB_2 - 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(coll_shm_arena_bytes(rows[i].memory,
                             rows[i].limit ? rows[i].limit : UINT64_MAX, rows[i].ranks),
            rows[i].arena);
    }
    struct coll_shm s = plan(COLL_SHM_RANKS_MAX);
    assert_in_range(s.arena, MIB_2, ((uint64_t)1 << TIB) / COLL_SHM_RANKS_MAX);
    assert_int_equal(s.bytes, s.arenas + s.n * s.arena);
}

/* As by ulimit -f: more of it is death by SIGXFSZ. */
static void memory_fits_the_limit_of_files(void **state) {
    (void)state;
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    struct coll_shm whole = plan(2);
    const size_t limits[] = {whole.arenas + (16 << 20), whole.arenas, whole.arenas - 1};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        const struct rlimit l = {limits[i], was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
        struct coll_peer peers[2] = {{.local = 0}, {.local = 1}};
        struct rt_group g = {.size = 2, .n_local = 2, .peers = peers, .shm = plan(2)};
        struct co_err err = {0};
        CO_AUTOCLOSE int fd = -1;
        int rc = coll_shm_create(&g.shm, &fd, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        if (i == 2) {
            assert_int_equal(rc, CO_NORESOURCE);
            assert_non_null(strstr(err.msg, "ulimit -f"));
            continue;
        }
        assert_int_equal(rc, 0);
        /* What another rank planned, which may not have the limit, does not count. */
        g.shm = plan(2);
        assert_int_equal(coll_shm_map(&g.shm, fd, NULL), 0);
        assert_int_equal(g.shm.arena, i ? 0 : 8 << 20);
        void *memory = NULL;
        assert_int_equal(rt_group_alloc(&g, 4 << 20, &memory, NULL), i ? CO_NOMEMORY : 0);
        rt_group_free(&g, memory);
        coll_arena_free(g.arena);
        coll_shm_unmap(&g.shm);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_yield_where_they_outnumber_the_cores),
        cmocka_unit_test(cores_are_those_of_the_process),
        cmocka_unit_test(ranks_sleep_where_yields_take_long),
        cmocka_unit_test(writing_to_a_pipe_wakes_only_a_sleeping_rank),
        cmocka_unit_test(arenas_of_large_machines_fit_into_a_process),
        cmocka_unit_test(memory_fits_the_limit_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
