#include "common/limits.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

static uint32_t cores(void) {
    cpu_set_t may;
    assert_int_equal(sched_getaffinity(0, sizeof(may), &may), 0);
    return (uint32_t)CPU_COUNT(&may);
}

static void put_file(const char *root, const char *path, const char *text) {
    CO_AUTOFREE char *cmd = co_xasprintf(
        "mkdir -p \"$(dirname %s%s)\" && echo '%s' > %s%s", root, path, text, root, path);
    assert_int_equal(0, system(cmd));
}

/* The least of the cgroup's limits and those above it; the machine's where there is none. */
static void limits_are_those_of_the_container(void **state) {
    (void)state;
    static const struct {
        const char *cgroup;
        const char *path[3], *text[3];
        uint64_t memory; /* 0: the machine's */
        uint32_t cpus;
    } rows[] = {
        {"0::/", {0}, {0}, 0, 0},
        {"0::/", {"/memory.max", "/cpu.max"}, {"1048576", "50000 100000"}, 1048576, 1},
        {"0::/", {"/memory.max", "/cpu.max"}, {"max", "max 100000"}, 0, 0},
        {"0::/a/b", {"/a/b/memory.max", "/a/memory.max"}, {"max", "4096"}, 4096, 0},
        {"0::/not/here", {"/memory.max"}, {"8192"}, 8192, 0},
        {"5:cpu,cpuacct:/p\n4:memory:/p\n0::/p",
            {"/memory/p/memory.limit_in_bytes", "/cpu/p/cpu.cfs_quota_us",
                "/cpu/p/cpu.cfs_period_us"},
            {"12288", "20000", "100000"}, 12288, 1},
        {"5:cpu,cpuacct:/p\n4:memory:/p",
            {"/memory/p/memory.limit_in_bytes", "/cpu/p/cpu.cfs_quota_us",
                "/cpu/p/cpu.cfs_period_us"},
            {"9223372036854771712", "-1", "100000"}, 0, 0},
    };
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t cpus = cores();
    struct co_err unread = {0};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char root[] = "/tmp/limits_test_XXXXXX";
        assert_non_null(mkdtemp(root));
        put_file(root, "/proc/self/cgroup", rows[i].cgroup);
        for (int k = 0; k < 3 && rows[i].path[k]; k++) {
            CO_AUTOFREE char *path = co_xasprintf("/sys/fs/cgroup%s", rows[i].path[k]);
            put_file(root, path, rows[i].text[k]);
        }
        assert_int_equal(rows[i].memory ? rows[i].memory : memory, co_limit_memory(root, &unread));
        assert_int_equal(rows[i].cpus ? rows[i].cpus : cpus, co_limit_cpus(root, &unread));
        CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", root);
        assert_int_equal(0, system(cmd));
    }
    assert_true(
        co_limit_memory("/nowhere", &unread) == memory && co_limit_cpus("/nowhere", NULL) == cpus);
    assert_int_equal(unread.code, 0);
}

/* They limit nothing, and are named. */
static void files_that_cannot_be_read_are_named(void **state) {
    (void)state;
    static const struct {
        const char *path, *text; /* text NULL: a directory, which root cannot read either */
        const char *why;
        bool cpus;
    } rows[] = {
        {"/sys/fs/cgroup/a/memory.max", NULL, "Is a directory", false},
        {"/sys/fs/cgroup/memory.max", "much", "\"much\", expected a number or max", false},
        {"/sys/fs/cgroup/a/cpu.max", "50000", "\"50000\", expected two numbers or max", true},
        {"/sys/fs/cgroup/cpu.max", NULL, "Is a directory", true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char root[] = "/tmp/limits_test_XXXXXX";
        struct co_err unread = {0};
        assert_non_null(mkdtemp(root));
        put_file(root, "/proc/self/cgroup", "0::/a");
        CO_AUTOFREE char *below = co_xasprintf("%s/x", rows[i].path);
        put_file(root, rows[i].text ? rows[i].path : below, rows[i].text ? rows[i].text : "");
        (void)(rows[i].cpus ? co_limit_cpus(root, &unread) : co_limit_memory(root, &unread));
        CO_AUTOFREE char *want = co_xasprintf("%s%s: %s", root, rows[i].path, rows[i].why);
        assert_string_equal(unread.msg, want);
        CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", root);
        assert_int_equal(0, system(cmd));
    }
}

static void cores_are_those_of_the_affinity_mask(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(co_limit_cpus("/nowhere", NULL), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_the_container),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(cores_are_those_of_the_affinity_mask),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
