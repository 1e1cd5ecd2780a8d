/* What a server holds of requests and answers over gRPC is bounded for all its trainers together.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cases_testing.h"
#include "runtime/train/ps/client/client_testing.h"
#include "runtime/train/ps/client/link_internal.h"

/* GROWS_MAX: rows of 5 MiB, frames in flight (an eighth of the budget), what gRPC reads ahead of
 * the server (16 MiB) and keeps for each connection.  Without a bound it is more than a gigabyte.
 */
enum { TRAINERS = 32, WIDTH = 64, BATCH = 20000, TIMES = 6, TIMES_SANITIZED = 2 };
enum { WAIT_MS = 120000 };
enum { BUDGET = 64 << 20, GROWS_MAX = 96 << 20 };

static const struct rt_table_spec one[] = {
    {.name = "e", .kind = RT_SPARSE, .dim = WIDTH, .optimizer = "sgd:lr=0.1"},
};

/* A server in a process of its own; *ret_port is where it listens.  gRPC does not survive a fork,
 * so all of them start before the first trainer.  A server waits 10 s for trainers to learn that
 * the job is over; its process, until something is written to *ret_leave: trainers may stand
 * still. */
static pid_t serve(unsigned *ret_port, int *ret_leave) {
    int fds[2], leave[2];
    assert_int_equal(0, pipe(fds));
    assert_int_equal(0, pipe(leave));
    pid_t pid = fork();
    if (pid == 0) {
        struct pss_server_config c = {.listen = "127.0.0.1:0",
            .servers = 1,
            .trainers = TRAINERS,
            .job = "test",
            .lease_ms = WAIT_MS,
            .start_timeout_ms = WAIT_MS,
            .shards = 2,
            .memory_max = BUDGET,
            .quiet = true};
        struct pss_server *s = NULL;
        int rc = pss_server_start(&c, &s, NULL);
        unsigned port = rc < 0 ? 0 : pss_server_port(s);
        (void)!write(fds[1], &port, sizeof(port));
        (void)!pss_server_wait(s, NULL);
        (void)close(leave[1]);
        (void)!read(leave[0], &port, 1);
        _exit(0);
    }
    assert_int_equal(sizeof(*ret_port), read(fds[0], ret_port, sizeof(*ret_port)));
    assert_true(*ret_port > 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(leave[0]);
    *ret_leave = leave[1];
    return pid;
}

static size_t read_status(pid_t pid, const char *what) {
    char path[64], line[256];
    size_t kib = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, what, strlen(what)) == 0) {
            kib = strtoul(line + strlen(what), NULL, 10);
        }
    }
    (void)fclose(f);
    return kib << 10;
}

struct trainer {
    uint32_t index;
    bool obeys; /* has no more in flight than the server allows; else it only pushes */
    const char *endpoint;
    pthread_barrier_t *meet;
    pthread_t thread;
};

/* Sends and asks for much more than may be in flight at a time. */
static void *flood(void *arg) {
    struct trainer *t = arg;
    struct psc_client_config config = {.trainer = t->index,
        .trainers = TRAINERS,
        .servers = 1,
        .endpoints = &t->endpoint,
        .job = "test"};
    const struct rt_client_options o = {.mode = RT_ASYNC,
        .transport = RT_PS_GRPC,
        .start_timeout_ms = WAIT_MS,
        .lease_ms = WAIT_MS,
        .call_timeout_ms = WAIT_MS};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    must(psc_client_connect(&config, &o, one, 1, &c, &err));
    CO_AUTOFREE uint64_t *ids = co_xcalloc(BATCH, sizeof(*ids));
    CO_AUTOFREE float *g = co_xcalloc((size_t)BATCH * WIDTH, sizeof(*g));
    for (uint64_t i = 0; i < BATCH; i++) {
        ids[i] = i;
    }
    if (!t->obeys) {
        psc_lock(c);
        c->links->at[0].inflight.window = PSC_LINK_WINDOW;
        psc_unlock(c);
    }
    (void)pthread_barrier_wait(t->meet); /* all are here, and the server is measured */
    uint32_t times = co_test_cases(TIMES, TIMES_SANITIZED);
    for (uint32_t k = 0; k < times; k++) {
        must(rt_push_sparse(c, 0, ids, BATCH, g, &err));
    }
    struct rt_call *calls[2 * TIMES];
    for (uint32_t k = 0; k < 2 * times && t->obeys; k++) {
        must(psc_pull_rows_start(c, 0, ids, BATCH, g, &calls[k], &err));
    }
    for (uint32_t k = 0; k < 2 * times && t->obeys; k++) {
        must(psc_pull_rows_wait(calls[k], &err));
    }
    must(rt_flush(c, &err));
    (void)pthread_barrier_wait(t->meet);
    (void)pthread_barrier_wait(t->meet);
    must(rt_finish(c, &err));
    return NULL;
}

static struct {
    pid_t pid;
    unsigned port;
    int leave;
} servers[2]; /* by whether its trainers obey */

static void flood_server(bool obeys) {
    pid_t pid = servers[obeys].pid;
    char endpoint[32];
    pthread_barrier_t meet;
    struct trainer t[TRAINERS];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", servers[obeys].port);
    pthread_barrier_init(&meet, NULL, TRAINERS + 1);
    for (uint32_t i = 0; i < TRAINERS; i++) {
        t[i] = (struct trainer){.index = i, .obeys = obeys, .endpoint = endpoint, .meet = &meet};
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, flood, &t[i]));
    }
    (void)pthread_barrier_wait(&meet);
    size_t before = read_status(pid, "VmHWM:");
    (void)pthread_barrier_wait(&meet);
    size_t grown = read_status(pid, "VmHWM:") - before;
    (void)pthread_barrier_wait(&meet);
    for (uint32_t i = 0; i < TRAINERS; i++) {
        pthread_join(t[i].thread, NULL);
    }
    assert_int_equal(1, write(servers[obeys].leave, "", 1));
    (void)close(servers[obeys].leave);
    (void)waitpid(pid, NULL, 0);
    pthread_barrier_destroy(&meet);
    if (grown > GROWS_MAX && !getenv("PADDLE_SANITIZED")) { /* those take more */
        fail_msg("a server with %d trainers has grown by %zu MiB", TRAINERS, grown >> 20);
    }
}

static void many_trainers_share_what_may_be_in_flight(void **state) {
    (void)state;
    flood_server(true);
}

/* It reads only as fast as it applies what it has read. */
static void a_server_bounds_what_it_reads_by_itself(void **state) {
    (void)state;
    flood_server(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_trainers_share_what_may_be_in_flight),
        cmocka_unit_test(a_server_bounds_what_it_reads_by_itself),
    };
    for (int i = 0; i < 2; i++) {
        servers[i].pid = serve(&servers[i].port, &servers[i].leave);
    }
    return cmocka_run_group_tests_name("flood", tests, NULL, NULL);
}
