/* The budget of a server holds: what its tables take is what the process grows by. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/train/ps/client/client_testing.h"

enum { TABLES = 4, BATCH = 5000, BUDGET = 64 << 20, SLACK = 16 << 20 };

static const struct rt_table_spec four[TABLES] = {
    {.name = "a", .kind = RT_SPARSE, .dim = 8, .optimizer = "sgd"},
    {.name = "b", .kind = RT_SPARSE, .dim = 16, .optimizer = "adam"},
    {.name = "c", .kind = RT_SPARSE, .dim = 1, .optimizer = "adagrad"},
    {.name = "d", .kind = RT_SPARSE, .dim = 64, .optimizer = "sgd", .storage = "f16"},
};

/* A server in a process of its own; *ret_port is where it listens. */
static pid_t serve(unsigned *ret_port) {
    int fds[2];
    assert_int_equal(0, pipe(fds));
    pid_t pid = fork();
    if (pid == 0) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .servers = 1,
            .trainers = 1,
            .job = "test",
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = 2,
            .memory_max = BUDGET,
            .quiet = true};
        struct pss_server *s = NULL;
        int rc = pss_server_start(&c, &s, NULL);
        unsigned port = rc < 0 ? 0 : pss_server_port(s);
        (void)!write(fds[1], &port, sizeof(port));
        (void)!pss_server_wait(s, NULL);
        _exit(0);
    }
    assert_int_equal(sizeof(*ret_port), read(fds[0], ret_port, sizeof(*ret_port)));
    assert_true(*ret_port > 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return pid;
}

/* The most that was resident, ever. */
static size_t peak(pid_t pid) {
    char path[64], line[256];
    size_t kib = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kib = strtoul(line + 6, NULL, 10);
        }
    }
    (void)fclose(f);
    return kib << 10;
}

/* New rows for each table in turn, until there is no room. */
static int fill(struct rt_client *c, struct co_err *err) {
    static float g[BATCH * 64];
    uint64_t ids[BATCH], next = 1;
    for (unsigned i = 0;; i++) {
        for (size_t k = 0; k < BATCH; k++) {
            ids[k] = next++;
        }
        CO_TRY(rt_push_sparse(c, i % TABLES, ids, BATCH, g, err));
        CO_TRY(rt_flush(c, err));
    }
    return 0;
}

static void four_tables_keep_to_one_budget(void **state) {
    (void)state;
    unsigned port = 0;
    pid_t pid = serve(&port);
    char endpoint[32];
    const char *endpoints[] = {endpoint};
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", port);
    struct psc_client_config config = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = "test"};
    struct rt_client_options o = {.mode = RT_ASYNC};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    must(psc_client_connect(&config, &o, four, TABLES, &c, &err));
    size_t before = peak(pid);
    assert_int_equal(CO_NORESOURCE, fill(c, &err));
    says(&err, CO_NORESOURCE, "memory_max");
    size_t grown = peak(pid) - before;
    rt_client_close(c);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    assert_true(grown > BUDGET / 2);
    if (grown >= BUDGET + SLACK && !getenv("PADDLE_SANITIZED")) { /* those take more */
        fail_msg("a budget of %d MiB, grown by %zu MiB", BUDGET >> 20, grown >> 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_tables_keep_to_one_budget),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
