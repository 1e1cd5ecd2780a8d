/* A job as real processes, and what is left of it when one of them is killed or stopped and does
 * not come back.  return_test.c: when it does. */
#include "runtime/train/ps/client/process_testing.h"

/* Who is killed closes its connections, and is waited for as PADDLE_PS_RETURN says.  Only one that
 * is stopped is found by its silence: elsewhere a machine that stands still loses nobody. */
static void expect_loss_by(int sig) {
    (void)setenv("PADDLE_PS_LEASE", sig == SIGSTOP ? "3s" : "600s", 1);
    (void)setenv("PADDLE_PS_RETURN", sig ? "3s" : "600s", 1);
}

static void two_by_two_sync_equals_one_process(void **state) {
    struct process_job *j = *state;
    expect_loss_by(0);
    start_all(j, "sync", false);
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    for (int i = 0; i < 2; i++) {
        ends(&j->trainer[i], 0, deadline);
        ends(&j->server[i], 0, deadline);
        said(&j->server[i], "Server listening on 127.0.0.1:");
        check_sync(j->shared->dense[i], SIZE, false, STEPS);
        check_sync(j->shared->rows[i], (size_t)IDS * DIM, true, STEPS);
    }
    said(&j->trainer[1], "init rpc client with trainer_id 1");
    said(&j->trainer[1], "Communicator start");
}

/* A trainer that is gone or silent ends a sync job: everybody says which one and why. */
static void lose_trainer(struct process_job *j, int sig, const char *why) {
    expect_loss_by(sig);
    start_all(j, "sync", true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->trainer[1].pid, sig));
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    ends(&j->trainer[0], 1, deadline);
    said(&j->trainer[0], "error: ");
    said(&j->trainer[0], "trainer 1 (127.0.0.1:");
    for (int i = 0; i < 2; i++) {
        ends(&j->server[i], 1, deadline);
        said(&j->server[i], "trainer 1 (127.0.0.1:");
        said(&j->server[i], why);
        said(&j->server[i], "last message");
    }
}

static void sync_ends_when_a_trainer_is_killed(void **state) {
    lose_trainer(*state, SIGKILL, "lost: connection closed");
}

static void sync_ends_when_a_trainer_is_stopped(void **state) {
    lose_trainer(*state, SIGSTOP, "no sign of life within its lease of 3.0 s");
}

/* A server that is gone or silent ends its trainers, which name its endpoint. */
static void lose_server(struct process_job *j, const char *mode, int sig, const char *why) {
    /* In other modes the server that lives waits a lease for trainers that it has lost. */
    expect_loss_by(strcmp(mode, "sync") == 0 ? sig : SIGSTOP);
    start_all(j, mode, true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->server[1].pid, sig));
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    char endpoint[64];
    (void)snprintf(endpoint, sizeof(endpoint), "server 1 (127.0.0.1:%u) lost", j->ports[1]);
    for (int i = 0; i < 2; i++) {
        ends(&j->trainer[i], 1, deadline);
        said(&j->trainer[i], "error: ");
        said(&j->trainer[i], endpoint);
        said(&j->trainer[i], why);
    }
    /* The trainers have reported to the other server why they leave. */
    ends(&j->server[0], 1, deadline);
    said(&j->server[0], endpoint);
}

static void trainers_name_a_killed_server(void **state) {
    lose_server(*state, "sync", SIGKILL, "last message");
}

static void trainers_name_a_stopped_server(void **state) {
    lose_server(*state, "async", SIGSTOP, "no sign of life");
}

/* Trainer 1 is gone or silent: the other one trains to its end, and the servers name who is
 * missing. */
static void continue_without_a_trainer(struct process_job *j, const char *mode, int sig) {
    j->endless = true;
    j->mode = mode;
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
    }
    start(j, &j->trainer[1], false, 1);
    j->endless = false;
    start(j, &j->trainer[0], false, 0);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->trainer[1].pid, sig));
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    ends(&j->trainer[0], 0, deadline);
    for (int i = 0; i < 2; i++) {
        ends(&j->server[i], 1, deadline);
        said(&j->server[i], "training continues without it");
        said(&j->server[i], "did not come back");
    }
}

static void trainers_name_a_killed_server_in_geo(void **state) {
    lose_server(*state, "geo", SIGKILL, "last message");
}

static void trainers_name_a_stopped_server_behind_queues(void **state) {
    lose_server(*state, "queue", SIGSTOP, "no sign of life");
}

static void async_continues_without_a_killed_trainer_and_says_so(void **state) {
    continue_without_a_trainer(*state, "async", SIGKILL);
}

static void queues_continue_without_a_killed_trainer(void **state) {
    continue_without_a_trainer(*state, "queue", SIGKILL);
}

static void geo_continues_without_a_killed_trainer(void **state) {
    continue_without_a_trainer(*state, "geo", SIGKILL);
}

static void geo_continues_without_a_stopped_trainer(void **state) {
    continue_without_a_trainer(*state, "geo", SIGSTOP);
}

static void a_bound_waits_for_a_stopped_trainer_until_it_is_lost(void **state) {
    continue_without_a_trainer(*state, "bounded", SIGSTOP);
}

static void a_backup_worker_may_be_killed(void **state) {
    continue_without_a_trainer(*state, "backup", SIGKILL);
}

static void a_backup_worker_may_be_stopped(void **state) {
    continue_without_a_trainer(*state, "backup", SIGSTOP);
}

/* Nobody listens at their ports. */
static void waiting_for_servers_prints_the_classic_lines_and_ends(void **state) {
    struct process_job *j = *state;
    (void)setenv("PADDLE_PS_START_TIMEOUT", "1s", 1);
    j->mode = "async";
    start(j, &j->trainer[0], false, 0);
    ends(&j->trainer[0], 1, co_now_ms() + DEADLINE_MS);
    char text[256];
    (void)snprintf(text, sizeof(text),
        "server not ready, wait 3 sec to retry...\n"
        "not ready endpoints:['127.0.0.1:%u', '127.0.0.1:%u']\n",
        j->ports[0], j->ports[1]);
    said(&j->trainer[0], text);
    (void)snprintf(text, sizeof(text),
        "server 0 (127.0.0.1:%u): cannot connect: Connection refused", j->ports[0]);
    said(&j->trainer[0], text);
    said(&j->trainer[0], "error: servers not ready within 1.0 s");
}

/* Long before it gives up. */
static void a_trainer_logs_why_it_waits_for_servers(void **state) {
    struct process_job *j = *state;
    j->mode = "async";
    start(j, &j->trainer[0], false, 0);
    bool logged = false;
    for (int64_t end = co_now_ms() + DEADLINE_MS; !logged && co_now_ms() < end;) {
        struct pollfd ends_early = {.fd = j->trainer[0].fd, .events = POLLIN};
        assert_int_equal(0, poll(&ends_early, 1, 50));
        CO_AUTOFREE char *log = log_of(&j->trainer[0]);
        logged = strstr(log, "waiting for 2 of 2 servers for ") != NULL;
    }
    said(&j->trainer[0], "cannot connect: Connection refused");
    assert_true(logged);
}

/* Neither one without the token nor one that asks nobody joins, and the job is trained as if they
 * had not been there. */
static void strangers_change_nothing(void **state) {
    struct process_job *j = *state;
    static const char why[] =
        "the token is not this job's (PADDLE_JOB_TOKEN must be the same everywhere)";
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    expect_loss_by(0);
    (void)setenv("PADDLE_JOB_TOKEN", "secret", 1);
    j->mode = "sync";
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->server[i], true, i);
    }
    (void)unsetenv("PADDLE_JOB_TOKEN");
    start(j, &j->trainer[1], false, 1);
    ends(&j->trainer[1], 1, deadline);
    said(&j->trainer[1], why);
    start(j, &j->stranger, false, 0);
    ends(&j->stranger, 0, deadline);
    (void)setenv("PADDLE_JOB_TOKEN", "secret", 1);
    for (uint32_t i = 0; i < 2; i++) {
        start(j, &j->trainer[i], false, i);
    }
    for (int i = 0; i < 2; i++) {
        ends(&j->trainer[i], 0, deadline);
        ends(&j->server[i], 0, deadline);
        check_sync(j->shared->dense[i], SIZE, false, STEPS);
    }
    said(&j->server[0], " refused: ");
    said(&j->server[0], why);
}

static void a_server_obeys_sigterm(void **state) {
    struct process_job *j = *state;
    expect_loss_by(SIGTERM);
    start_all(j, "async", true);
    await_steps(j, 2);
    assert_int_equal(0, kill(j->server[0].pid, SIGTERM));
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    ends(&j->server[0], 1, deadline);
    said(&j->server[0], "ended by signal 15");
    CO_AUTOFREE char *log = log_of(&j->server[0]);
    assert_null(strstr(log, "waiting for it")); /* a server that ends waits for nobody */
    char text[96];
    (void)snprintf(
        text, sizeof(text), "server 0 (127.0.0.1:%u) lost: the server is ending", j->ports[0]);
    ends(&j->trainer[0], 1, deadline);
    said(&j->trainer[0], text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_by_two_sync_equals_one_process, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_ends_when_a_trainer_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_ends_when_a_trainer_is_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_killed_server, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_stopped_server, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_killed_server_in_geo, setup, teardown),
        cmocka_unit_test_setup_teardown(
            trainers_name_a_stopped_server_behind_queues, setup, teardown),
        cmocka_unit_test_setup_teardown(
            async_continues_without_a_killed_trainer_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(queues_continue_without_a_killed_trainer, setup, teardown),
        cmocka_unit_test_setup_teardown(geo_continues_without_a_killed_trainer, setup, teardown),
        cmocka_unit_test_setup_teardown(geo_continues_without_a_stopped_trainer, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_bound_waits_for_a_stopped_trainer_until_it_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_backup_worker_may_be_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_backup_worker_may_be_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(
            waiting_for_servers_prints_the_classic_lines_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_trainer_logs_why_it_waits_for_servers, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_obeys_sigterm, setup, teardown),
    };
    /* Over gRPC only what depends on what carries the frames: leases take seconds. */
    const struct CMUnitTest over_grpc[] = {
        cmocka_unit_test_setup_teardown(two_by_two_sync_equals_one_process, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_ends_when_a_trainer_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_killed_server, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_obeys_sigterm, setup, teardown),
    };
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    int failed = cmocka_run_group_tests_name("process", tests, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "grpc", 1);
    failed += cmocka_run_group_tests_name("process, gRPC", over_grpc, NULL, NULL);
    const struct CMUnitTest by_tls[] = {
        cmocka_unit_test_setup_teardown(
            two_by_two_sync_equals_one_process, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(
            sync_ends_when_a_trainer_is_killed, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(trainers_name_a_killed_server, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(a_server_obeys_sigterm, setup_encrypted, teardown),
    };
    failed += cmocka_run_group_tests_name("process, gRPC, encrypted", by_tls, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    return failed + cmocka_run_group_tests_name("process, encrypted", by_tls, NULL, NULL);
}
