/* Trainers and servers that are killed or stopped at any stage, in each mode, and come back: the
 * job continues.  RETURN_ALL: every mode at every stage; without it, each of them somewhere. */
#include "runtime/train/ps/client/process_testing.h"

/* sync and async at every stage, the others in turn, and over one transport only. */
static const char *const others[] = {"geo", "queue", "bounded", "backup"};

static bool has_time(void) {
    return getenv("RETURN_ALL") != NULL;
}

/* Programs take data lanes, not gRPC. */
static bool by_lanes(void) {
    const char *transport = getenv("PADDLE_PS_TRANSPORT");
    return transport && strcmp(transport, "lanes") == 0;
}

static size_t others_at_once(void) {
    return has_time() ? CO_ARRAY_LEN(others) : by_lanes() && !getenv("PADDLE_JOB_ENCRYPT") ? 1 : 0;
}

/* One job of many in a test. */
struct row {
    enum signal_stage stage;
    const char *mode;
};

enum { ROWS_MAX = STAGES * 6 };

static size_t rows_from(enum signal_stage first, struct row *ret) {
    static unsigned turn;
    size_t n = 0;
    for (enum signal_stage s = first; s < STAGES; s++) {
        ret[n++] = (struct row){s, "sync"};
        ret[n++] = (struct row){s, "async"};
        for (size_t i = 0; i < others_at_once(); i++) {
            ret[n++] = (struct row){s, others[turn++ % CO_ARRAY_LEN(others)]};
        }
    }
    return n;
}

static uint32_t exact(const struct process_job *j) {
    return is_sync(j) ? steps_of(j) : 0;
}

/* Between the last moment and the first one at which it is there. */
static void restart(struct process_job *j, struct child *c, bool server, uint32_t index) {
    ends(c, 128 + SIGKILL, co_now_ms() + DEADLINE_MS);
    start(j, c, server, index);
}

static void async_takes_a_killed_trainer_back(void **state) {
    struct process_job *j = *state;
    j->mode = "async";
    j->endless = true;
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
        start(j, &j->trainer[i], false, i);
    }
    await_steps(j, 2);
    int64_t deadline = co_now_ms() + DEADLINE_MS;
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
        ends(&j->trainer[i], 0, deadline);
        ends(&j->server[i], 0, deadline);
        said(&j->server[i], "is back");
    }
}

/* Killed wherever it is, and started again: sync, nothing is lost and nothing counts twice. */
static void a_killed_trainer_resumes_where_it_was(void **state) {
    struct process_job *j = *state;
    struct row rows[ROWS_MAX];
    size_t n = rows_from(AT_OPEN, rows);
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    for (size_t i = 0; i < n; i++) {
        j->shared->sig = SIGKILL;
        j->shared->stage = rows[i].stage;
        start_all(j, rows[i].mode, false);
        restart(j, &j->trainer[1], false, 1);
        all_end_well(j, exact(j));
        said(&j->server[0], "waiting for it for 30.0 s");
        said(&j->server[0], "trainer 1 is back after a restart, from");
    }
}

/* The same with a server, once there is a checkpoint: sync, all go back to it. */
static void a_killed_server_resumes_from_its_checkpoint(void **state) {
    struct process_job *j = *state;
    struct row rows[ROWS_MAX];
    size_t n = rows_from(AT_PUSH, rows);
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    j->saves = true;
    for (size_t i = 0; i < n; i++) {
        uint32_t which = i % 2;
        eventfd_t saved;
        CO_AUTOFREE char *dir = co_xasprintf("%s/ckpt%zu", j->dir, i);
        (void)setenv("PADDLE_PS_CHECKPOINT_DIR", dir, 1);
        (void)eventfd_read(j->saved, &saved);
        start_servers(j, rows[i].mode);
        j->shared->sig = SIGKILL;
        j->shared->victim = j->server[which].pid;
        j->shared->stage = rows[i].stage;
        start_trainers(j, false);
        restart(j, &j->server[which], true, which);
        all_end_well(j, exact(j));
        said(&j->server[which], "tables begin as in checkpoint 1");
    }
}

static void await_stopped(struct child *c) {
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    int status = 0;
    while (waitpid(c->pid, &status, WUNTRACED | WNOHANG) == 0) {
        assert_true(co_now_ms() < deadline);
        (void)poll(NULL, 0, 5);
    }
    if (!WIFSTOPPED(status)) {
        show_logs(c->job);
        fail_msg("%s was not stopped but ended", c->log);
    }
}

/* Stopped for longer than the lease, or for less, and continued. */
static void a_stopped_party_continues(void **state) {
    static const struct {
        const char *mode;
        enum signal_stage stage;
        bool server;
        int wait_ms;
    } rows[] = {
        {"sync", AT_EXCHANGE, false, 300},
        {"sync", AT_STEP, false, 1800},
        {"sync", AT_BARRIER, false, 1800},
        {"sync", AT_PUSH, true, 300},
        {"sync", AT_EXCHANGE, true, 1800},
        {"sync", AT_BARRIER, true, 1800},
        {"async", AT_PUSH, false, 1800},
        {"async", AT_STEP, true, 1800},
        {"geo", AT_STEP, false, 1800},
        {"geo", AT_PULL, true, 1800},
        {"queue", AT_EXCHANGE, false, 1800},
        {"queue", AT_PUSH, true, 1800},
        {"bounded", AT_STEP, false, 1800},
        {"bounded", AT_EXCHANGE, true, 1800},
        {"backup", AT_PUSH, false, 1800},
        {"backup", AT_STEP, true, 1800},
    };
    struct process_job *j = *state;
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    (void)setenv("PADDLE_PS_LEASE", "1s", 1);
    j->n = 600;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct child *c = rows[i].server ? &j->server[i / 2 % 2] : &j->trainer[1];
        start_servers(j, rows[i].mode);
        j->shared->sig = SIGSTOP;
        j->shared->victim = rows[i].server ? c->pid : 0;
        j->shared->stage = rows[i].stage;
        start_trainers(j, false);
        await_stopped(c);
        (void)poll(NULL, 0, rows[i].wait_ms);
        assert_int_equal(0, kill(c->pid, SIGCONT));
        all_end_well(j, exact(j));
    }
}

/* At moments that nobody chose; all of them come before the trainers have finished. */
static void trainers_stand_kills_at_any_moment(struct process_job *j, const char *mode) {
    enum { KILLS = 12, FEW = 4, MANY = 1500 };
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    j->n = MANY;
    close_gate(j->gate);
    start_all(j, mode, false);
    await_steps(j, 2);
    for (int i = 0; i < (is_sync(j) || has_time() ? KILLS : FEW); i++) {
        struct child *c = &j->trainer[i % 2];
        (void)poll(NULL, 0, 20 + i * 7);
        assert_int_equal(0, kill(c->pid, SIGKILL));
        restart(j, c, false, (uint32_t)i % 2);
    }
    open_gate(j->gate);
    all_end_well(j, exact(j));
}

static void sync_training_survives_kills_at_any_moment(void **state) {
    trainers_stand_kills_at_any_moment(*state, "sync");
}

static void other_modes_survive_kills_at_any_moment(void **state) {
    struct process_job *j = *state;
    trainers_stand_kills_at_any_moment(j, "async");
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        trainers_stand_kills_at_any_moment(j, others[i]);
    }
}

/* What it had is lost: that must not go unnoticed. */
static void an_empty_server_among_full_ones_is_an_error(void **state) {
    struct process_job *j = *state;
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    start_all(j, "async", true);
    await_steps(j, 2);
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    assert_int_equal(0, kill(j->server[1].pid, SIGKILL));
    ends(&j->server[1], 137, deadline);
    start(j, &j->server[1], true, 1);
    for (int i = 0; i < 2; i++) {
        ends(&j->trainer[i], 1, deadline);
        said(&j->trainer[i], "waiting for it for 30.0 s");
        said(&j->trainer[i], "was restarted and has none of its tables");
    }
}

static void await_checkpoint(const struct process_job *j) {
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    for (bool there = false; !there;) { /* another process makes it, and may remove it soon */
        CO_AUTOFREE char *log = log_of(&j->trainer[0]);
        there = strstr(log, "checkpoint 1 (full") != NULL;
        assert_true(co_now_ms() < deadline);
        (void)poll(NULL, 0, there ? 0 : 10);
    }
}

/* Every server in turn is killed and started again, with the newest checkpoint; the first one when
 * all trainers are half way. */
static void restart_servers(struct process_job *j, const char *mode) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/ckpt-%s", j->dir, mode);
    (void)setenv("PADDLE_PS_RETURN", "30s", 1);
    (void)setenv("PADDLE_PS_CHECKPOINT_DIR", dir, 1);
    (void)setenv("PADDLE_PS_CHECKPOINT_STEPS", "20", 1);
    j->n = 1000;
    close_gate(j->half);
    close_gate(j->gate);
    start_all(j, mode, false);
    await_checkpoint(j);
    for (uint32_t i = 0; i < 4; i++) {
        struct child *c = &j->server[i % 2];
        (void)poll(NULL, 0, 30 * (int)i);
        assert_int_equal(0, kill(c->pid, SIGKILL));
        if (i == 0) {
            open_gate(j->half);
        }
        restart(j, c, true, i % 2);
    }
    open_gate(j->gate);
    all_end_well(j, exact(j));
}

/* Sync: all go back to the checkpoint, and come to the same values as if nothing had been. */
static void sync_continues_from_the_checkpoint(void **state) {
    struct process_job *j = *state;
    restart_servers(j, "sync");
    said(&j->server[0], "tables begin as in checkpoint");
    said(&j->trainer[0], "back: ");
    said(&j->trainer[1], "back: ");
}

static void async_continues_with_the_checkpoint(void **state) {
    struct process_job *j = *state;
    restart_servers(j, "async");
    said(&j->server[0], "tables begin as in checkpoint");
    said(&j->trainer[0], "was restarted with checkpoint");
}

static void other_modes_continue_with_the_checkpoint(void **state) {
    struct process_job *j = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        restart_servers(j, others[i]);
        said(&j->server[0], "tables begin as in checkpoint");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(async_takes_a_killed_trainer_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_trainer_resumes_where_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_killed_server_resumes_from_its_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_party_continues, setup, teardown),
        cmocka_unit_test_setup_teardown(
            sync_training_survives_kills_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(other_modes_survive_kills_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_continues_from_the_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(async_continues_with_the_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(other_modes_continue_with_the_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_empty_server_among_full_ones_is_an_error, setup, teardown),
    };
    const struct CMUnitTest over_grpc[] = {
        cmocka_unit_test_setup_teardown(a_killed_trainer_resumes_where_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_continues_from_the_checkpoint, setup, teardown),
    };
    const struct CMUnitTest by_tls[] = {
        cmocka_unit_test_setup_teardown(
            a_killed_trainer_resumes_where_it_was, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(
            sync_continues_from_the_checkpoint, setup_encrypted, teardown),
    };
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    int failed = cmocka_run_group_tests_name("return", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("return, encrypted", by_tls, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "grpc", 1);
    failed += cmocka_run_group_tests_name("return, gRPC", over_grpc, NULL, NULL);
    return failed + cmocka_run_group_tests_name("return, gRPC, encrypted", by_tls, NULL, NULL);
}
