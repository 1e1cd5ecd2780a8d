/* For tests: a job of real processes, two servers and two trainers, which a test can kill at a
 * chosen stage.  The processes are configured by the environment variables of Paddle's own recipe,
 * where a trainer has no POD_IP and PADDLE_PORT. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/net/net.h"
#include "runtime/rt.h"
#include "runtime/train/rpc/dial_testing.h"

enum { SIZE = 500, DIM = 4, IDS = 30, STEPS = 12, DEADLINE_MS = 90000 };

/* At which point trainer 1 sends a signal, once, to itself or to a server. */
enum signal_stage {
    NOWHERE,
    AT_OPEN,
    AT_INIT,
    AT_PUSH,
    AT_EXCHANGE,
    AT_STEP,
    AT_BARRIER,
    AT_PULL,
    AT_FINISH,
    STAGES,
};

/* Shared memory; the children write their results to it. */
struct process_results {
    float dense[2][SIZE];
    float rows[2][IDS * DIM];
    enum signal_stage stage;
    int sig;
    pid_t victim; /* 0: trainer 1 */
};

struct child {
    const struct process_job *job;
    pid_t pid;
    int fd; /* pidfd */
    int status;
    bool ended;
    char log[64];
};

struct process_job {
    char dir[32];
    char list[64];
    unsigned ports[2];
    struct child server[2], trainer[2], stranger;
    int steps[2]; /* pipe: a trainer writes a byte in the middle of its steps */
    int half;     /* eventfd: readable when trainers may start the second half of their steps */
    int gate;     /* eventfd: readable when trainers may finish */
    int saved;    /* eventfd: readable when the checkpoint of trainer 0 is complete */
    bool saves;   /* trainer 0 asks for a checkpoint after its first steps */
    struct process_results *shared;
    const char *mode;
    unsigned n;   /* steps; 0: STEPS */
    bool endless; /* trainers train until they are killed */
};

static const struct rt_table_spec specs[] = {
    {.name = "w",
        .kind = RT_DENSE,
        .size = SIZE,
        .optimizer = "sgd:lr=0.1",
        .schedule = "inverse_time:steps=1,gamma=0.01"},
    {.name = "e",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "sgd:lr=0.1",
        .schedule = "inverse_time:steps=1,gamma=0.01",
        .init = "uniform:min=-1,max=1",
        .seed = 11},
};

/* In sync mode, trainer 0 changes the learning rate half way through. */
static const double second_lr = 0.05;
static inline double rate_of(uint32_t step, uint32_t steps) {
    return (step < steps / 2 ? 0.1 : second_lr) / (1 + 0.01 * step);
}

static inline float pseudo(uint32_t trainer, uint32_t step, uint64_t i) {
    return (float)((trainer * 7 + step * 13 + i * 5) % 31) / 31.0F - 0.5F;
}

/* ---- in the children ---- */

static inline int serve(struct process_job *j, struct co_err *err) {
    (void)j;
    struct rt_job *job = NULL;
    int rc = rt_init(&job, err);
    struct rt_server_options o = {.handle_signals = true};
    if (rc == 0) {
        rc = rt_server_run(job, &o, err);
    }
    rt_done(job);
    return rc;
}

/* Does not read the event, so it stays readable for others. */
static inline void await_event(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)poll(&p, 1, DEADLINE_MS);
}

static inline void pass_stage(struct process_job *j, uint32_t me, enum signal_stage at) {
    if (me == 1 && j->shared->stage == at) {
        if (j->saves) {
            await_event(j->saved);
        }
        j->shared->stage = NOWHERE;
        (void)kill(j->shared->victim ? j->shared->victim : getpid(), j->shared->sig);
    }
}

/* Trainer 0 saves a checkpoint soon after the first steps. */
static inline int save_early(
    struct process_job *j, struct rt_client *c, uint32_t me, uint32_t step, struct co_err *err) {
    if (me != 0 || step != 3 || !j->saves) {
        return 0;
    }
    int rc = rt_checkpoint(c, getenv("PADDLE_PS_CHECKPOINT_DIR"), NULL, NULL, err);
    return rc < 0 || eventfd_write(j->saved, 1) == 0 ? rc : co_err_errno(err, errno, "eventfd");
}

static inline int train_step(struct process_job *j, struct rt_client *c, uint32_t me, uint32_t step,
    float *w, struct co_err *err) {
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
    bool middle = step == STEPS / 2;
    uint32_t next = step + 1;
    CO_TRY(rt_push_sparse(c, 1, ids, IDS, rg, err));
    pass_stage(j, me, middle ? AT_PUSH : STAGES);
    CO_TRY(rt_exchange_dense(c, 0, g, w, err));
    CO_TRY(rt_keep(c, &next, sizeof(next), err));
    pass_stage(j, me, middle ? AT_EXCHANGE : STAGES);
    CO_TRY(rt_step(c, err));
    CO_TRY(save_early(j, c, me, step, err));
    pass_stage(j, me, middle ? AT_STEP : STAGES);
    return 0;
}

static inline bool is_mode(const struct process_job *j, const char *mode) {
    return strcmp(j->mode, mode) == 0;
}

/* The step to continue at.  A backup worker may be behind the others; it then continues at theirs.
 */
static inline int find_place(
    struct process_job *j, struct rt_client *c, uint32_t *ret_step, struct co_err *err) {
    struct rt_place place;
    uint32_t kept = 0;
    CO_TRY(rt_resume(c, &kept, sizeof(kept), &place, err));
    bool behind = is_mode(j, "backup") && place.step > kept;
    if ((place.bytes > 0) != (place.step > 0) && !behind) {
        return co_err_set(
            err, CO_INTERNAL, "%zu bytes for step %u", place.bytes, (unsigned)place.step);
    }
    if (kept != place.step && !behind) {
        return co_err_set(err, CO_INTERNAL, "%u is kept for step %u", kept, (unsigned)place.step);
    }
    *ret_step = (uint32_t)place.step;
    return 0;
}

static inline uint32_t steps_of(const struct process_job *j) {
    return j->n ? j->n : STEPS;
}

static inline bool is_sync(const struct process_job *j) {
    return is_mode(j, "sync");
}

static inline int change_rate(
    struct process_job *j, struct rt_client *c, uint32_t step, struct co_err *err) {
    bool now = is_sync(j) && !j->endless && step == steps_of(j) / 2;
    int rc = now ? rt_set_rate(c, 0, second_lr, err) : 0;
    return rc < 0 || !now ? rc : rt_set_rate(c, 1, second_lr, err);
}

/* Checks that the schedules of both tables have seen every step, even if a process was killed. */
static inline int check_rates(struct process_job *j, struct rt_client *c, struct co_err *err) {
    for (uint32_t i = 0; i < 2 && is_sync(j); i++) {
        struct rt_rate r;
        CO_TRY(rt_get_rate(c, i, &r, err));
        if (r.steps != steps_of(j) || r.lr != second_lr) {
            return co_err_set(
                err, CO_INTERNAL, "table %u: lr %g, %u steps", i, r.lr, (unsigned)r.steps);
        }
    }
    return 0;
}

/* Trains from the step where this trainer is, to the end. */
static inline int train_on(
    struct process_job *j, struct rt_client *c, uint32_t me, float *w, struct co_err *err) {
    uint32_t first = 0, n = steps_of(j);
    CO_TRY(find_place(j, c, &first, err));
    for (uint32_t s = first; j->endless || s < n; s++) {
        if (s == n / 2) {
            await_event(j->half);
        }
        CO_TRY(me == 0 ? change_rate(j, c, s, err) : 0);
        int rc = train_step(j, c, me, s, w, err);
        if (s == first + STEPS / 2) {
            (void)!write(j->steps[1], "x", 1);
        }
        CO_TRY(rc);
    }
    pass_stage(j, me, AT_BARRIER);
    CO_TRY(rt_barrier(c, err));
    CO_TRY(check_rates(j, c, err));
    pass_stage(j, me, AT_PULL);
    uint64_t ids[IDS];
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    CO_TRY(rt_pull_sparse(c, 1, ids, IDS, j->shared->rows[me & 1], err));
    CO_TRY(rt_pull_dense(c, 0, w, err));
    await_event(j->gate);
    /* Trainers finish together: one that restores a checkpoint needs the others to train again. */
    return rt_barrier(c, err);
}

static inline int train_all(
    struct process_job *j, struct rt_client *c, uint32_t me, struct co_err *err) {
    float *w = j->shared->dense[me & 1];
    for (uint32_t i = 0; i < SIZE; i++) {
        w[i] = me == 0 ? (float)i / SIZE : -1;
    }
    int rc = rt_init_dense(c, 0, w, err);
    pass_stage(j, me, AT_INIT);
    if (rc == 0) {
        rc = train_on(j, c, me, w, err);
    }
    while (rc == CO_GONE) { /* a server was restarted */
        (void)fprintf(stderr, "back: %s\n", co_err_text(err));
        *err = (struct co_err){0};
        rc = train_on(j, c, me, w, err);
    }
    pass_stage(j, me, AT_FINISH);
    return rc;
}

static inline struct rt_client_options options_of(const char *mode) {
    static const struct {
        const char *name;
        struct rt_client_options options;
    } modes[] = {
        {"sync", {.mode = RT_SYNC}},
        {"async", {.mode = RT_ASYNC}},
        {"backup", {.mode = RT_SYNC, .backup = 1}},
        {"queue", {.mode = RT_ASYNC, .merge_max = 4}},
        {"bounded", {.mode = RT_ASYNC, .staleness = 4}},
        {"geo", {.mode = RT_GEO, .k_steps = 3}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i].name, mode) == 0) {
            return modes[i].options;
        }
    }
    return (struct rt_client_options){0};
}

static inline int train(struct process_job *j, struct co_err *err) {
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    struct rt_client_options o = options_of(j->mode);
    int rc = rt_init(&job, err);
    if (rc == 0) {
        rc = rt_client_open(job, &o, specs, 2, &c, err);
    }
    pass_stage(j, rt_worker_index(job), AT_OPEN);
    if (rc == 0) {
        rc = train_all(j, c, rt_worker_index(job), err);
    }
    if (rc == 0) {
        rc = rt_finish(c, err);
    } else {
        rt_client_close(c);
    }
    rt_done(job);
    return rc;
}

/* Tries to connect to both servers without the token. A server that a loaded machine stops for
 * longer than its guests may take hangs up without a word; then it is asked again. */
static inline int intrude(struct process_job *j, struct co_err *err) {
    static const struct rpc_ops ops = {0};
    const struct net_auth stranger = {&rpc_protocol, "", false};
    struct rpc *rpc = NULL;
    int rc = rpc_open(&ops, NULL, NULL, &rpc, err);
    for (int i = 0; i < 8 && rc == 0; i++) {
        struct rpc_stream *s = NULL;
        struct co_err why = {0};
        char endpoint[32];
        int64_t end = co_now_ms() + DEADLINE_MS;
        int dialed;
        (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", j->ports[i & 1]);
        do {
            dialed = rpc_dial(rpc, &stranger, endpoint, DEADLINE_MS, &s, &why);
        } while (dialed == CO_PEERLOST && co_now_ms() < end);
        if (dialed != CO_PERMISSION) {
            rc = co_err_set(err, CO_INTERNAL, "%s does not refuse a stranger: %s", endpoint,
                dialed == 0 ? "let in" : co_err_text(&why));
        }
    }
    int closed = rpc_close(rpc, rc == 0 ? err : NULL);
    return rc == 0 ? closed : rc;
}

/* ---- in the parent ---- */

static inline void start(struct process_job *j, struct child *c, bool server, uint32_t index) {
    const bool stranger = c == &j->stranger;
    const char *what = server ? "server" : stranger ? "stranger" : "trainer";
    char log[sizeof(c->log)];
    (void)snprintf(log, sizeof(log), "%s/%s%u", j->dir, what, index);
    *c = (struct child){.job = j};
    memcpy(c->log, log, sizeof(log));
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

static inline char *log_of(const struct child *c) {
    struct co_buf b = CO_BUF(1 << 20);
    if (co_file_read(c->log, 1 << 20, &b, NULL) < 0) {
        return co_xstrdup("");
    }
    return co_buf_take(&b);
}

/* Prints all logs: one alone seldom explains a failure, and cmocka truncates messages. */
static inline void show_logs(const struct process_job *j) {
    const struct child *const all[] = {
        &j->server[0], &j->server[1], &j->trainer[0], &j->trainer[1], &j->stranger};
    for (size_t i = 0; i < CO_ARRAY_LEN(all); i++) {
        CO_AUTOFREE char *log = log_of(all[i]);
        (void)fprintf(stderr, "---- %s, %s mode\n%s", all[i]->log, j->mode, log);
    }
}

/* Waits for the exit status, as a shell reports it; fails after the deadline. */
static inline int end_of(struct child *c, int64_t deadline_ms) {
    if (!c->ended) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int64_t left = deadline_ms - co_now_ms();
        if (poll(&p, 1, left > 0 ? (int)left : 0) != 1) {
            show_logs(c->job);
            fail_msg("%s has not ended", c->log);
        }
        assert_int_equal(c->pid, waitpid(c->pid, &c->status, 0));
        c->ended = true;
        co_close(c->fd);
    }
    return WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 128 + WTERMSIG(c->status);
}

/* Checks the exit status; on a mismatch prints the logs. */
static inline void ends(struct child *c, int code, int64_t deadline_ms) {
    int got = end_of(c, deadline_ms);
    if (got != code) {
        show_logs(c->job);
        fail_msg("%s ends with %d, not %d", c->log, got, code);
    }
}

static inline void said(const struct child *c, const char *text) {
    CO_AUTOFREE char *log = log_of(c);
    if (!strstr(log, text)) {
        show_logs(c->job);
        fail_msg("%s does not say '%s'", c->log, text);
    }
}

static inline void await_steps(struct process_job *j, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        struct pollfd p = {.fd = j->steps[0], .events = POLLIN};
        char byte;
        if (poll(&p, 1, DEADLINE_MS) != 1) {
            show_logs(j);
            fail_msg("no step was made");
        }
        assert_int_equal(1, read(j->steps[0], &byte, 1));
    }
}

static inline void start_servers(struct process_job *j, const char *mode) {
    j->mode = mode;
    for (uint32_t i = 0; i < 2; i++) { /* logs of an earlier job */
        (void)unlink(j->server[i].log);
        (void)unlink(j->trainer[i].log);
    }
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
    }
}

static inline void start_trainers(struct process_job *j, bool endless) {
    j->endless = endless;
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->trainer[i], false, i);
    }
}

static inline void start_all(struct process_job *j, const char *mode, bool endless) {
    start_servers(j, mode);
    start_trainers(j, endless);
}

static inline int setup(void **state) {
    struct process_job *j = co_xcalloc(1, sizeof(*j));
    (void)snprintf(j->dir, sizeof(j->dir), "/tmp/process_test_XXXXXX");
    assert_non_null(mkdtemp(j->dir));
    for (int i = 0; i < 2; i++) {
        j->ports[i] = co_test_ports(1);
    }
    (void)snprintf(j->list, sizeof(j->list), "127.0.0.1:%u,127.0.0.1:%u", j->ports[0], j->ports[1]);
    assert_int_equal(0, pipe2(j->steps, O_CLOEXEC));
    j->half = eventfd(1, EFD_CLOEXEC);
    j->gate = eventfd(1, EFD_CLOEXEC);
    j->saved = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(j->half >= 0 && j->gate >= 0 && j->saved >= 0);
    j->shared =
        mmap(NULL, sizeof(*j->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->shared != MAP_FAILED);
    (void)setenv("PADDLE_PS_LEASE", "3s", 1);
    (void)setenv("PADDLE_PS_START_TIMEOUT", "30s", 1);
    *state = j;
    return 0;
}

static inline int setup_encrypted(void **state) {
    (void)setenv("PADDLE_JOB_TOKEN", "secret", 1);
    (void)setenv("PADDLE_JOB_ENCRYPT", "1", 1);
    return setup(state);
}

static inline void stop_child(struct child *c) {
    if (c->pid > 0 && !c->ended) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, &c->status, 0);
        co_close(c->fd);
    }
}

static inline int teardown(void **state) {
    struct process_job *j = *state;
    for (int i = 0; i < 2; i++) {
        stop_child(&j->server[i]);
        stop_child(&j->trainer[i]);
        co_close(j->steps[i]);
    }
    stop_child(&j->stranger);
    co_close(j->half);
    co_close(j->gate);
    co_close(j->saved);
    (void)unsetenv("PADDLE_JOB_TOKEN");
    (void)unsetenv("PADDLE_JOB_ENCRYPT");
    (void)unsetenv("PADDLE_PS_RETURN");
    (void)unsetenv("PADDLE_PS_CHECKPOINT_DIR");
    (void)unsetenv("PADDLE_PS_CHECKPOINT_STEPS");
    (void)munmap(j->shared, sizeof(*j->shared));
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", j->dir);
    int rc = system(cmd);
    free(j);
    return rc;
}

/* Trainers wait at the gate, so none has finished when a test kills it. */
static inline void close_gate(int gate) {
    eventfd_t n;
    assert_int_equal(0, eventfd_read(gate, &n));
}

static inline void open_gate(int gate) {
    assert_int_equal(0, eventfd_write(gate, 1));
}

/* ---- results ---- */

static inline void check_sync(const float *got, size_t n, bool rows, uint32_t steps) {
    for (uint64_t i = 0; i < n; i++) {
        float first[DIM], v = (float)i / SIZE;
        if (rows) {
            assert_int_equal(0, rt_table_init_row(&specs[1], i / DIM, first, NULL));
            v = first[i % DIM];
        }
        for (uint32_t s = 0; s < steps; s++) {
            v -= (float)rate_of(s, steps) * ((pseudo(0, s, i) + pseudo(1, s, i)) / 2);
        }
        if (fabsf(v - got[i]) > 1e-6F) {
            fail_msg(
                "%s %u: %.8f, expected %.8f", rows ? "row value" : "value", (unsigned)i, got[i], v);
        }
    }
}

static inline void all_end_well(struct process_job *j, uint32_t check_steps) {
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    for (int i = 0; i < 2; i++) {
        ends(&j->trainer[i], 0, deadline);
        ends(&j->server[i], 0, deadline);
        if (check_steps) {
            check_sync(j->shared->dense[i], SIZE, false, check_steps);
            check_sync(j->shared->rows[i], (size_t)IDS * DIM, true, check_steps);
        }
    }
}
