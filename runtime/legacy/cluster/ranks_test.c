#include "runtime/legacy/cluster/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"

static const char *get(void *arg, const char *name) {
    const char *const *env = arg;
    size_t n = strlen(name);
    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            return *env + n + 1;
        }
    }
    return NULL;
}

static const struct {
    const char *env[6], *hostname;
    uint32_t size;
    const char *error; /* NULL: by, rank, size, local and here follow */
    const char *by;
    uint32_t rank, of, local, here;
} rank_rows[] = {
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
         "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
        "h", 0, NULL, "Open MPI", 1, 4, 1, 2},
    {{"PMI_RANK=2", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"}, "h", 0, NULL, "MPI", 2,
        3, 0, 1},
    {{"SLURM_PROCID=0", "SLURM_NTASKS=1"}, "h", 0, NULL, "Slurm", 0, 1, 0},
    /* srun --mpi=pmi2; mpirun in a job of Slurm's; something that knows no more than PMI */
    {{"PMI_RANK=1", "PMI_SIZE=4", "SLURM_PROCID=1", "SLURM_NTASKS=4", "SLURM_LOCALID=1"}, "h", 0,
        NULL, "Slurm", 1, 4, 1},
    {{"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "SLURM_PROCID=1", "SLURM_NTASKS=2"}, "h", 0,
        NULL, "MPI", 3, 4, 1},
    {{"PMI_RANK=1", "PMI_SIZE=2"}, "h", 0, NULL, "MPI", 1, 2, 0},
    {{"JOB_COMPLETION_INDEX=3"}, "j-3-x7k2p", 5, NULL, "an indexed Job", 3, 5, 0},
    {{NULL}, "web-2", 3, NULL, "a StatefulSet", 2, 3, 0},
    {{"OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=4"}, "h", 0,
        "OMPI_COMM_WORLD_RANK is 4, expected a number below 4, that of all ranks"},
    {{"OMPI_COMM_WORLD_RANK=x", "OMPI_COMM_WORLD_SIZE=4"}, "h", 0, "OMPI_COMM_WORLD_RANK"},
    {{"PMI_RANK=0", "PMI_SIZE=0"}, "h", 0, "PMI_SIZE"},
    {{"JOB_COMPLETION_INDEX=0"}, "h", 0, "expected --size"},
    {{NULL}, "web-2", 0, "this process has no rank"},
    {{NULL}, "web", 3, "this process has no rank"},
    {{NULL}, "web-3", 3, "the host name's number is 3, expected a number below 3"},
};

static void every_system_gives_the_rank_its_own_way(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rank_rows); i++) {
        struct cluster_rank r = {.by = ""};
        struct co_err err = {0};
        int rc = cluster_rank_find(get, (void *)(uintptr_t)rank_rows[i].env, rank_rows[i].hostname,
            rank_rows[i].size, &r, &err);
        if (rank_rows[i].error ? !rc || !strstr(err.msg, rank_rows[i].error)
                               : rc || strcmp(r.by, rank_rows[i].by) != 0 ||
                                     r.rank != rank_rows[i].rank || r.size != rank_rows[i].of ||
                                     r.local != rank_rows[i].local || r.here != rank_rows[i].here) {
            fail_msg(
                "row %zu: %s %u of %u, local %u: %s", i, r.by, r.rank, r.size, r.local, err.msg);
        }
    }
}

static const struct {
    uint32_t size, here;
    size_t hosts;
    bool fits;
} spread_rows[] = {
    {3, 1, 3, true},
    {3, 2, 2, true},
    {3, 3, 1, true},
    {3, 0, 3, true},
    {4, 2, 3, true},
    {3, 2, 3, false},
    {3, 3, 2, false},
    {2, 1, 3, false},
    {2, 9, 2, false},
};

static void a_host_without_a_rank_is_named_before_anybody_waits_for_it(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(spread_rows); i++) {
        struct cluster_rank r = {
            .by = "MPI", .size = spread_rows[i].size, .here = spread_rows[i].here};
        struct co_err err = {0};
        if ((cluster_rank_check_hosts(&r, spread_rows[i].hosts, &err) == 0) !=
            spread_rows[i].fits) {
            fail_msg("row %zu: %s", i, err.msg);
        }
    }
}

static int pods(const char *name, const char *text, struct cluster_names *ret, struct co_err *err) {
    (void)name;
    return cluster_pods_name(text, 1, 3, ret, err);
}

/* 248 characters. */
#define LONG                                                                                       \
    "n123456789012345678901234567890.n123456789012345678901234567890."                             \
    "n123456789012345678901234567890.n123456789012345678901234567890."                             \
    "n123456789012345678901234567890.n123456789012345678901234567890."                             \
    "n123456789012345678901234567890.n12345678901234567890123"

static const struct {
    int (*read)(const char *name, const char *text, struct cluster_names *ret, struct co_err *err);
    const char *text, *hosts, *error;
} host_rows[] = {
    {cluster_machines_read, "a\nb slots=4\n\n# c\n d:8 # e\na\r\n", "a b d", NULL},
    {cluster_machines_read, "fd00::1\nfd00::2", "fd00::1 fd00::2", NULL},
    {cluster_machines_read, "", NULL, "f has no host"},
    {cluster_machines_read, "a;b", NULL, "f: \"a;b\" is not a host"},
    {cluster_machines_read, "-x", NULL, "is not a host"},
    {cluster_nodelist_read, "a", "a", NULL},
    {cluster_nodelist_read, "n[01-03,7],m", "n01 n02 n03 n7 m", NULL},
    {cluster_nodelist_read, "n[098-101]", "n098 n099 n100 n101", NULL},
    {cluster_nodelist_read, "a[1-2],a[2-3]", "a1 a2 a3", NULL},
    {cluster_nodelist_read, "a[1", NULL, "has no \"]\""},
    {cluster_nodelist_read, "a[2-1]", NULL, "not a range"},
    {cluster_nodelist_read, "a[x]", NULL, "not a range"},
    {cluster_nodelist_read, "a[1-999999999]", NULL, "more than"},
    {cluster_nodelist_read, "", NULL, "has no host"},
    {pods, "web-1.nginx.default.svc.cluster.local",
        "web-0.nginx.default.svc.cluster.local web-1.nginx.default.svc.cluster.local "
        "web-2.nginx.default.svc.cluster.local",
        NULL},
    {pods, "web-1", "web-0 web-1 web-2", NULL},
    {pods, "web-11.x", NULL, "does not end with the rank 1"},
    {pods, "-1", NULL, "does not end with the rank 1"},
    /* A name is taken whole or refused. */
    {cluster_machines_read, LONG "1234567", LONG "1234567", NULL},
    {cluster_machines_read, LONG "12345678", NULL, "256 characters, expected at most 255"},
    {cluster_nodelist_read, LONG "123456[7-8]", LONG "1234567 " LONG "1234568", NULL},
    {cluster_nodelist_read, LONG "123456[9-10]", NULL, "256 characters, expected at most 255"},
    {pods, "web-1." LONG "1", "web-0." LONG "1 web-1." LONG "1 web-2." LONG "1", NULL},
    {pods, "web-1." LONG "12", NULL, "256 characters, expected at most 255"},
};

static void hosts_are_listed_once_each(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(host_rows); i++) {
        struct cluster_names l = {.n = 0};
        struct co_err err = {0};
        CO_AUTOBUF struct co_buf text = CO_BUF(4096);
        int rc = host_rows[i].read("f", host_rows[i].text, &l, &err);
        for (size_t k = 0; k < l.n; k++) {
            assert_int_equal(co_buf_addf(&text, NULL, "%s%s", k ? " " : "", l.item[k]), 0);
        }
        if (host_rows[i].error ? !rc || !strstr(err.msg, host_rows[i].error)
                               : rc || !co_streq(text.data, host_rows[i].hosts)) {
            fail_msg("%s: %s %s", host_rows[i].text, text.data ? text.data : "", err.msg);
        }
        cluster_names_done(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_system_gives_the_rank_its_own_way),
        cmocka_unit_test(a_host_without_a_rank_is_named_before_anybody_waits_for_it),
        cmocka_unit_test(hosts_are_listed_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
