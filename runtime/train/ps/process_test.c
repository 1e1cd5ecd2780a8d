/* A job as real processes, found by the environment of Paddle's own recipe (a trainer without
 * POD_IP and PADDLE_PORT), and what is left of it when one of them is killed or stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/mem.h"
#include "runtime/net/net.h"
#include "runtime/rt.h"
#include "runtime/train/rpc/rpc.h"

enum { SIZE = 500, DIM = 4, IDS = 30, STEPS = 12, DEADLINE_MS = 40000 };

/* Written by the children. */
struct shared {
    float dense[2][SIZE];
    float rows[2][IDS * DIM];
};

struct child {
    pid_t pid;
    int fd; /* pidfd */
    int status;
    bool ended;
    char log[64];
};

struct job {
    char dir[32];
    char list[64];
    unsigned ports[2];
    struct child server[2], trainer[3], stranger;
    int steps[2]; /* pipe: a byte when a trainer is in the middle of its steps */
    struct shared *shared;
    const char *mode;
    bool endless; /* trainers go on until something ends them */
};

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "e",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "sgd:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .seed = 11},
};

static float pseudo(uint32_t trainer, uint32_t step, uint64_t i) {
    return (float)((trainer * 7 + step * 13 + i * 5) % 31) / 31.0F - 0.5F;
}

/* ---- in the children ---- */

static int serve(struct job *j, struct co_err *err) {
    (void)j;
    struct rt_job *job = NULL;
    int rc = rt_init(&job, err);
    struct rt_server_options o = {.handle_signals = true};
    rc = rc < 0 ? rc : rt_server_run(job, &o, err);
    rt_done(job);
    return rc;
}

static int train_step(
    struct rt_client *c, uint32_t me, uint32_t step, float *w, struct co_err *err) {
    uint64_t ids[IDS];
    float g[SIZE], rg[IDS * DIM];
    for (uint32_t i = 0; i < SIZE; i++) {
        g[i] = pseudo(me, step, i);
    }
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
        for (uint32_t k = 0; k < DIM; k++) {
            rg[i * DIM + k] = pseudo(me, step, i * DIM + k);
        }
    }
    int rc = rt_push_sparse(c, 1, ids, IDS, rg, err);
    rc = rc < 0 ? rc : rt_exchange_dense(c, 0, g, w, err);
    return rc < 0 ? rc : rt_step(c, err);
}

static int train_all(struct job *j, struct rt_client *c, uint32_t me, struct co_err *err) {
    float *w = j->shared->dense[me & 1];
    for (uint32_t i = 0; i < SIZE; i++) {
        w[i] = me == 0 ? (float)i / SIZE : -1;
    }
    int rc = rt_init_dense(c, 0, w, err);
    for (uint32_t s = 0; rc == 0 && (j->endless || s < STEPS); s++) {
        rc = train_step(c, me, s, w, err);
        if (s == STEPS / 2) {
            (void)!write(j->steps[1], "x", 1);
        }
    }
    rc = rc < 0 ? rc : rt_barrier(c, err);
    uint64_t ids[IDS];
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    rc = rc < 0 ? rc : rt_pull_sparse(c, 1, ids, IDS, j->shared->rows[me & 1], err);
    return rc < 0 ? rc : rt_pull_dense(c, 0, w, err);
}

static int train(struct job *j, struct co_err *err) {
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    struct rt_client_options o = {.mode = strcmp(j->mode, "sync") == 0 ? RT_SYNC : RT_ASYNC};
    int rc = rt_init(&job, err);
    rc = rc < 0 ? rc : rt_client_open(job, &o, specs, 2, &c, err);
    rc = rc < 0 ? rc : train_all(j, c, rt_worker_index(job), err);
    if (rc == 0) {
        rc = rt_finish(c, err);
    } else {
        rt_client_close(c);
    }
    rt_done(job);
    return rc;
}

/* Tries to get in at both servers without the token. */
static int intrude(struct job *j, struct co_err *err) {
    static const struct rt_rpc_ops ops = {0};
    struct rt_rpc *rpc = NULL;
    int rc = rt_rpc_open(&ops, NULL, NULL, &rpc, err);
    for (int i = 0; i < 8 && rc == 0; i++) {
        struct rt_stream *s = NULL;
        struct co_err why = {0};
        char endpoint[32];
        (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", j->ports[i & 1]);
        if (rt_rpc_dial(rpc, endpoint, 5000, NULL, &s, &why) != CO_PERMISSION) {
            rc = co_err_set(err, CO_INTERNAL, "%s let a stranger in", endpoint);
        }
    }
    rt_rpc_close(rpc);
    return rc;
}

/* ---- in the parent ---- */

static void start(struct job *j, struct child *c, bool server, uint32_t index) {
    const bool stranger = c == &j->stranger;
    *c = (struct child){0};
    (void)snprintf(c->log, sizeof(c->log), "%s/%s%u", j->dir,
        server     ? "server"
        : stranger ? "stranger"
                   : "trainer",
        index);
    c->pid = fork();
    if (c->pid == 0) {
        char text[16];
        int fd = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        (void)dup2(fd, STDERR_FILENO);
        (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", j->list, 1);
        (void)setenv("PADDLE_TRAINERS_NUM", "2", 1);
        (void)setenv("TRAINING_ROLE", server ? "PSERVER" : "TRAINER", 1);
        (void)snprintf(text, sizeof(text), "%u", server ? j->ports[index] : index);
        (void)setenv(server ? "PADDLE_PORT" : "PADDLE_TRAINER_ID", text, 1);
        if (server) {
            (void)setenv("POD_IP", "127.0.0.1", 1);
        }
        struct co_err err = {0};
        int rc = server ? serve(j, &err) : stranger ? intrude(j, &err) : train(j, &err);
        if (rc < 0) {
            (void)fprintf(stderr, "error: %s\n", co_err_text(&err));
        }
        _exit(rc < 0 ? 1 : 0);
    }
    c->fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    assert_true(c->fd >= 0);
}

static char *log_of(const struct child *c) {
    struct co_buf b = CO_BUF(1 << 20);
    if (co_file_read(c->log, 1 << 20, &b, NULL) < 0) {
        return co_xstrdup("");
    }
    return co_buf_take(&b);
}

/* Exit status as the shell has it, within the deadline. */
static int end_of(struct child *c, int64_t deadline_ms) {
    if (!c->ended) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int64_t left = deadline_ms - net_now();
        if (poll(&p, 1, left > 0 ? (int)left : 0) != 1) {
            CO_AUTOFREE char *log = log_of(c);
            fail_msg("%s has not ended; its log: %s", c->log, log);
        }
        assert_int_equal(c->pid, waitpid(c->pid, &c->status, 0));
        c->ended = true;
        co_close(c->fd);
    }
    return WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 128 + WTERMSIG(c->status);
}

static void said(const struct child *c, const char *text) {
    CO_AUTOFREE char *log = log_of(c);
    if (!strstr(log, text)) {
        fail_msg("%s does not say '%s' but: %s", c->log, text, log);
    }
}

static void await_steps(struct job *j, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        struct pollfd p = {.fd = j->steps[0], .events = POLLIN};
        char byte;
        if (poll(&p, 1, DEADLINE_MS) != 1) {
            CO_AUTOFREE char *log = log_of(&j->trainer[0]);
            fail_msg("no step was made: %s", log);
        }
        assert_int_equal(1, read(j->steps[0], &byte, 1));
    }
}

static void start_all(struct job *j, const char *mode, bool endless) {
    j->mode = mode;
    j->endless = endless;
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
        start(j, &j->trainer[i], false, i);
    }
}

/* Of those that the kernel gives to no outgoing connection: trainers that look for a server would
 * sooner or later have its port themselves. */
static uint16_t free_port(void) {
    for (;;) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        uint16_t port = 0;
        assert_int_equal(sizeof(port), getrandom(&port, sizeof(port), 0));
        port = (uint16_t)(20000 + port % 12000);
        a.sin_port = htons(port);
        CO_AUTOCLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
            return port;
        }
    }
}

static int setup(void **state) {
    struct job *j = co_xcalloc(1, sizeof(*j));
    (void)snprintf(j->dir, sizeof(j->dir), "/tmp/process_test_XXXXXX");
    assert_non_null(mkdtemp(j->dir));
    for (int i = 0; i < 2; i++) {
        j->ports[i] = free_port();
    }
    (void)snprintf(j->list, sizeof(j->list), "127.0.0.1:%u,127.0.0.1:%u", j->ports[0], j->ports[1]);
    assert_int_equal(0, pipe2(j->steps, O_CLOEXEC));
    j->shared =
        mmap(NULL, sizeof(*j->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->shared != MAP_FAILED);
    (void)setenv("PADDLE_PS_LEASE", "3s", 1);
    (void)setenv("PADDLE_PS_START_TIMEOUT", "30s", 1);
    *state = j;
    return 0;
}

static void stop_child(struct child *c) {
    if (c->pid > 0 && !c->ended) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, &c->status, 0);
        co_close(c->fd);
    }
}

static int teardown(void **state) {
    struct job *j = *state;
    for (int i = 0; i < 2; i++) {
        stop_child(&j->server[i]);
        stop_child(&j->trainer[i]);
        co_close(j->steps[i]);
    }
    stop_child(&j->trainer[2]);
    stop_child(&j->stranger);
    (void)unsetenv("PADDLE_JOB_TOKEN");
    (void)munmap(j->shared, sizeof(*j->shared));
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", j->dir);
    int rc = system(cmd);
    free(j);
    return rc;
}

/* ---- tests ---- */

static void check_sync(const float *got, size_t n, bool rows) {
    for (uint64_t i = 0; i < n; i++) {
        float first[DIM], v = (float)i / SIZE;
        if (rows) {
            assert_int_equal(0, rt_table_init_row(&specs[1], i / DIM, first, NULL));
            v = first[i % DIM];
        }
        for (uint32_t s = 0; s < STEPS; s++) {
            v -= 0.1F * ((pseudo(0, s, i) + pseudo(1, s, i)) / 2);
        }
        if (fabsf(v - got[i]) > 1e-6F) {
            fail_msg(
                "%s %u: %.8f, expected %.8f", rows ? "row value" : "value", (unsigned)i, got[i], v);
        }
    }
}

static void two_by_two_sync_equals_one_process(void **state) {
    struct job *j = *state;
    start_all(j, "sync", false);
    int64_t deadline = net_now() + DEADLINE_MS;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, end_of(&j->trainer[i], deadline));
        assert_int_equal(0, end_of(&j->server[i], deadline));
        said(&j->server[i], "Server listening on 127.0.0.1:");
        check_sync(j->shared->dense[i], SIZE, false);
        check_sync(j->shared->rows[i], (size_t)IDS * DIM, true);
    }
    said(&j->trainer[1], "init rpc client with trainer_id 1");
    said(&j->trainer[1], "Communicator start");
}

/* A trainer that is gone or silent ends a sync job: everybody says which one and why. */
static void lose_trainer(struct job *j, int sig, const char *why) {
    start_all(j, "sync", true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->trainer[1].pid, sig));
    int64_t deadline = net_now() + DEADLINE_MS;
    assert_int_equal(1, end_of(&j->trainer[0], deadline));
    said(&j->trainer[0], "error: ");
    said(&j->trainer[0], "trainer 1 (127.0.0.1:");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, end_of(&j->server[i], deadline));
        said(&j->server[i], "trainer 1 (127.0.0.1:");
        said(&j->server[i], why);
        said(&j->server[i], "last heard");
    }
}

static void sync_ends_when_a_trainer_is_killed(void **state) {
    lose_trainer(*state, SIGKILL, "lost: connection closed");
}

static void sync_ends_when_a_trainer_is_stopped(void **state) {
    lose_trainer(*state, SIGSTOP, "no sign of life within its lease of 3.0 s");
}

/* A server that is gone or silent ends its trainers, which name its endpoint. */
static void lose_server(struct job *j, const char *mode, int sig, const char *why) {
    start_all(j, mode, true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->server[1].pid, sig));
    int64_t deadline = net_now() + DEADLINE_MS;
    char endpoint[64];
    (void)snprintf(endpoint, sizeof(endpoint), "server 1 (127.0.0.1:%u) lost", j->ports[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, end_of(&j->trainer[i], deadline));
        said(&j->trainer[i], "error: ");
        said(&j->trainer[i], endpoint);
        said(&j->trainer[i], why);
    }
    /* The trainers have told the other server why they leave. */
    assert_int_equal(1, end_of(&j->server[0], deadline));
    said(&j->server[0], endpoint);
}

static void trainers_name_a_killed_server(void **state) {
    lose_server(*state, "sync", SIGKILL, "last heard");
}

static void trainers_name_a_stopped_server(void **state) {
    lose_server(*state, "async", SIGSTOP, "no sign of life");
}

static void async_goes_on_without_a_killed_trainer_and_says_so(void **state) {
    struct job *j = *state;
    j->endless = true;
    j->mode = "async";
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
    }
    start(j, &j->trainer[1], false, 1);
    j->endless = false;
    start(j, &j->trainer[0], false, 0);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->trainer[1].pid, SIGKILL));
    int64_t deadline = net_now() + DEADLINE_MS;
    assert_int_equal(0, end_of(&j->trainer[0], deadline));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, end_of(&j->server[i], deadline));
        said(&j->server[i], "training goes on without it");
        said(&j->server[i], "did not come back");
    }
}

static void async_takes_a_killed_trainer_back(void **state) {
    struct job *j = *state;
    j->mode = "async";
    j->endless = true;
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
        start(j, &j->trainer[i], false, i);
    }
    await_steps(j, 2);
    int64_t deadline = net_now() + DEADLINE_MS;
    /* One comes back into the middle of the other's training, waiting for nobody. */
    assert_int_equal(0, kill(j->trainer[0].pid, SIGKILL));
    (void)end_of(&j->trainer[0], deadline);
    start(j, &j->trainer[0], false, 0);
    await_steps(j, 1);
    /* Then both. */
    assert_int_equal(0, kill(j->trainer[0].pid, SIGKILL));
    assert_int_equal(0, kill(j->trainer[1].pid, SIGKILL));
    (void)end_of(&j->trainer[0], deadline);
    (void)end_of(&j->trainer[1], deadline);
    j->endless = false;
    start(j, &j->trainer[0], false, 0);
    start(j, &j->trainer[1], false, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, end_of(&j->trainer[i], deadline));
        assert_int_equal(0, end_of(&j->server[i], deadline));
        said(&j->server[i], "is back");
    }
}

static void waiting_for_servers_prints_the_classic_lines_and_ends(void **state) {
    struct job *j = *state;
    (void)setenv("PADDLE_PS_START_TIMEOUT", "1s", 1);
    j->mode = "async";
    start(j, &j->trainer[0], false, 0);
    assert_int_equal(1, end_of(&j->trainer[0], net_now() + DEADLINE_MS));
    char text[128];
    (void)snprintf(text, sizeof(text),
        "server not ready, wait 3 sec to retry...\n"
        "not ready endpoints:['127.0.0.1:%u', '127.0.0.1:%u']\n",
        j->ports[0], j->ports[1]);
    said(&j->trainer[0], text);
    said(&j->trainer[0], "error: servers not ready within 1.0 s");
}

/* Neither one without the token nor one that asks nobody joins, and the job is trained as if they
 * had not been there. */
static void strangers_change_nothing(void **state) {
    struct job *j = *state;
    static const char why[] =
        "the token is not this job's (PADDLE_JOB_TOKEN must be the same everywhere)";
    int64_t deadline = net_now() + DEADLINE_MS;
    (void)setenv("PADDLE_JOB_TOKEN", "secret", 1);
    j->mode = "sync";
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
    }
    (void)unsetenv("PADDLE_JOB_TOKEN");
    start(j, &j->trainer[1], false, 1);
    assert_int_equal(1, end_of(&j->trainer[1], deadline));
    said(&j->trainer[1], why);
    start(j, &j->stranger, false, 0);
    assert_int_equal(0, end_of(&j->stranger, deadline));
    (void)setenv("PADDLE_JOB_TOKEN", "secret", 1);
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->trainer[i], false, i);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, end_of(&j->trainer[i], deadline));
        assert_int_equal(0, end_of(&j->server[i], deadline));
        check_sync(j->shared->dense[i], SIZE, false);
    }
    said(&j->server[0], " refused: ");
    said(&j->server[0], why);
}

static void a_server_obeys_sigterm(void **state) {
    struct job *j = *state;
    start_all(j, "async", true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->server[0].pid, SIGTERM));
    int64_t deadline = net_now() + DEADLINE_MS;
    assert_int_equal(1, end_of(&j->server[0], deadline));
    said(&j->server[0], "ended by signal 15");
    assert_int_equal(1, end_of(&j->trainer[0], deadline));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_by_two_sync_equals_one_process, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_ends_when_a_trainer_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_ends_when_a_trainer_is_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_killed_server, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_stopped_server, setup, teardown),
        cmocka_unit_test_setup_teardown(
            async_goes_on_without_a_killed_trainer_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(async_takes_a_killed_trainer_back, setup, teardown),
        cmocka_unit_test_setup_teardown(
            waiting_for_servers_prints_the_classic_lines_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_obeys_sigterm, setup, teardown),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
