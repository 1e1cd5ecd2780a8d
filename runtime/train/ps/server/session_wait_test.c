/* Who waits for whom: paces, steps and barriers; who leaves, and who does not come. */
#include "common/clock_testing.h"
#include "runtime/train/ps/server/session_testing.h"

/* ---- a bound on staleness ---- */

static void send_pace(struct session_peer *p, uint64_t step, uint64_t wait_ms) {
    Rpc__Pace pace = RPC__PACE__INIT;
    pace.step = step;
    pace.ahead = 3;
    pace.wait_ms = wait_ms;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_PACE;
    c.pace = &pace;
    send_control(p, &c);
}

/* A connection that broke may have taken the answer with it, and the next words of the trainer are
 * older than those the server has received. */
static void a_repeated_step_is_answered(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_pace(p, 2, 0);
    await(p, &p->answers, 2);
    send_pace(p, 1, 10000); /* without an answer it would wait */
    await(p, &p->answers, 3);
    assert_int_equal(0, refusal(p).code);
    is_open(p);
    peer_free(q);
}

/* ---- steps and barriers ---- */

static void steps_are_of_sync_jobs_and_in_order(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    send_step(p, 1);
    await(p, &p->answers, 2);
    assert_string_equal("step: this job is not in sync mode", refusal(p).msg);

    struct session_peer *q = serve(&usual);
    join_as(q, 0, RT_SYNC);
    static const uint64_t wrong[] = {0, 2, UINT64_MAX - 1};
    for (unsigned i = 0; i < CO_ARRAY_LEN(wrong); i++) {
        send_step(q, wrong[i]);
        await(q, &q->answers, i + 2);
        assert_int_equal(CO_INVALID, refusal(q).code);
        assert_non_null(strstr(refusal(q).msg, "this server is at 1"));
    }
    send_step(q, 1); /* waits for the other trainer */
    send_step(q, 1);
    await(q, &q->answers, 5);
    assert_non_null(strstr(refusal(q).msg, "trainer 0 says step 1, this server is at 1"));
    q->number += 5;
    send_step(q, 2);
    await(q, &q->answers, 6);
    assert_non_null(strstr(refusal(q).msg, "step with number 11, the last one was 5"));

    struct session_peer *other = peer_new(q->server);
    join_as(other, 1, RT_SYNC);
    send_step(other, 1);
    await(other, &other->answers, 2);
    await(q, &q->answers, 7);
    assert_int_equal(0, refusal(other).code);
    peer_free(other);
    peer_end(q);
}

/* Who finishes while the others wait for it lets them continue. */
static void a_finish_completes_step_and_barrier(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_step(p, 1);
    send_barrier(p, 1);
    send_finish(q);
    await(q, &q->answers, 2);
    await(p, &p->answers, 3);
    assert_int_equal(0, refusal(p).code);
    peer_free(q);
}

/* Neither waits for what cannot come: both get an error at once that says who is where. */
static void trainers_that_wait_for_each_other_get_an_error(void **state) {
    (void)state;
    static const char *const wants[] = {
        "at barrier 1, after step 0: trainer 0; in step 1: trainer 1; each waits for the other",
        "at barrier 1, after step 1: trainer 0; in step 2: trainer 1; each waits for the other"};
    for (unsigned row = 0; row < 4; row++) {
        bool barrier_first = row % 2;
        unsigned steps = row / 2, both = 1 + steps;
        struct session_peer *p = serve(&usual);
        join_as(p, 0, RT_SYNC);
        struct session_peer *q = peer_new(p->server);
        join_as(q, 1, RT_SYNC);
        for (unsigned k = 1; k <= steps; k++) {
            send_step(p, k);
            send_step(q, k);
        }
        await(p, &p->answers, both);
        await(q, &q->answers, both);
        if (barrier_first) {
            send_barrier(p, 1);
            send_step(q, steps + 1);
        } else {
            send_step(q, steps + 1);
            send_barrier(p, 1);
        }
        refused_with(p, wants[steps]);
        refused_with(q, wants[steps]);
        struct co_err err = {0};
        assert_int_equal(CO_INVALID, pss_server_wait(p->server, &err));
        peer_free(q);
        peer_end(p);
    }
}

/* The last step of the one, the barrier after it of the other: both on their way. */
static void a_barrier_waits_for_those_in_a_step(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_step(p, 1);
    send_step(q, 1);
    await(p, &p->answers, 2);
    send_barrier(p, 1);
    await(q, &q->answers, 2);
    send_barrier(q, 1);
    await(p, &p->answers, 3);
    await(q, &q->answers, 3);
    assert_int_equal(0, refusal(p).code);
    peer_free(q);
}

static void barriers_are_counted(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_barrier(p, 1);
    send_barrier(q, 1);
    await(p, &p->answers, 2);
    await(q, &q->answers, 2);
    send_barrier(q, 1); /* its answer may have been lost: it is answered again */
    await(q, &q->answers, 3);
    send_barrier(p, 3);
    refused_with(
        p, "trainer 0 is at barrier 3, the job at 2: all trainers must call the same ones");
    peer_free(q);
}

/* ---- who leaves, and who does not come ---------------------------------------------------- */

/* Silence is what a dead one and a slow one have in common; a sign of life distinguishes them. */
static void a_second_trainer_of_one_id_is_refused_once_the_first_reports(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct session_peer *q = peer_new(p->server);
    co_test_clock_slow(true); /* on a machine that stands still the second one stays away */
    for (int i = 0; i < 3; i++) {
        send_hello(q, 0);
        refused_with(q, "trainer 0 is here already (from 127.0.0.1:");
        assert_int_equal(CO_CONFLICT, refusal(q).code);
        dial(q);
    }
    co_test_clock_forward(700);
    send_frame(p, RPC_FRAME_PING, 0, 0);
    await(p, &p->answers, 2);
    send_hello(q, 0);
    refused_with(q, "and alive: two trainers have the same PADDLE_TRAINER_ID");
    assert_int_equal(CO_INVALID, refusal(q).code);
    co_test_clock_slow(false);
    is_open(p);
    rpc_stream_cancel(p->stream); /* the first one goes: the id is free */
    await(p, &p->closed, 1);
    const int64_t end = co_now_ms() + 60000;
    do { /* until the server has seen it go */
        dial(q);
        send_hello(q, 0);
        await(q, &q->answers, 1);
    } while (refusal(q).code < 0 && co_now_ms() < end);
    assert_int_equal(0, refusal(q).code);
    peer_free(q);
}

/* The others get the reason of who left, and so does who comes too late. */
static void all_sync_trainers_get_the_reason_of_one_that_leaves(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_leave(q, "no data");
    refused_with(p, "lost: gave up: no data, last message");
    assert_int_equal(CO_PEERLOST, refusal(p).code);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, pss_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "trainer 1 (127.0.0.1:"));
    peer_free(q);
}

/* Who has not joined ends nothing. */
static void a_stranger_neither_finishes_nor_leaves(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct session_peer *q = peer_new(p->server);
    send_leave(q, "out of spite");
    refused_with(q, "does not belong to a trainer");
    for (int i = 0; i < 2; i++) {
        dial(q);
        send_finish(q);
        refused_with(q, "does not belong to a trainer");
    }
    struct pollfd over = {.fd = pss_server_fd(p->server), .events = POLLIN};
    assert_int_equal(0, poll(&over, 1, 100));
    dial(q);
    join_as(q, 1, RT_SYNC);
    is_open(p);
    peer_free(q);
}

/* It asks how long it is to wait for that; its place at the barrier it keeps. */
static void a_barrier_says_for_whom_it_waits(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    send_barrier_for(p, 1, 1);
    await(p, &p->answers, 2);
    assert_int_equal(CO_TIMEOUT, refusal(p).code);
    assert_non_null(strstr(refusal(p).msg, "barrier 1 waits for trainer 1 (not here yet)"));
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_barrier_for(p, 1, 1);
    await(p, &p->answers, 3);
    assert_non_null(strstr(refusal(p).msg, "barrier 1 waits for trainer 1 (127.0.0.1:"));
    send_barrier(q, 1);
    await(q, &q->answers, 2);
    assert_int_equal(0, refusal(q).code);
    p->refused = (struct co_err){0};
    send_barrier_for(p, 1, 1); /* it is over */
    await(p, &p->answers, 4);
    assert_int_equal(0, refusal(p).code);
    peer_free(q);
}

/* The connection stays. */
static void a_step_says_for_whom_it_waits(void **state) {
    struct session_peer *p = *state, *q = peer_new(p->server);
    join_as(p, 0, RT_SYNC);
    join_as(q, 1, RT_SYNC);
    send_step(p, 1);
    ask_late(p, 1);
    await(p, &p->answers, 2);
    assert_int_equal(CO_TIMEOUT, refusal(p).code);
    assert_non_null(strstr(refusal(p).msg, "step 1 waits for trainer 1 (127.0.0.1:"));
    send_step(q, 1);
    await(p, &p->answers, 3);
    await(q, &q->answers, 2);
    p->refused = (struct co_err){0};
    ask_late(p, 1);
    await(p, &p->answers, 4);
    assert_int_equal(0, refusal(p).code);
    peer_free(q);
}

static void async_trainers_continue_when_one_leaves(void **state) {
    struct session_peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct session_peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_barrier(p, 1);
    send_leave(q, "no data");
    await(q, &q->closed, 1);
    await(p, &p->answers, 2); /* nobody waits for the lost one at the barrier */
    send_frame(p, RPC_FRAME_PULL_DENSE, 0, 0);
    await(p, &p->answers, 3);
    assert_int_equal(0, refusal(p).code);
    dial(q); /* it may come back */
    join_as(q, 1, RT_ASYNC);
    send_finish(q);
    await(q, &q->answers, 2);
    send_finish(p);
    await(p, &p->answers, 4);
    rpc_stream_cancel(q->stream);
    rpc_stream_cancel(p->stream);
    assert_int_equal(0, pss_server_wait(p->server, NULL));
    peer_free(q);
}

/* Else they wait without an end, and only a server's log says why. */
static void a_wait_says_who_was_refused(void **state) {
    struct session_peer *p = *state;
    const char *why = "; trainer 1 was refused: table 0 (\"w\") of trainer 1 differs from the "
                      "other trainers': size is 11, expected 10";
    join_as(p, 0, RT_SYNC);
    struct session_peer *q = peer_new(p->server);
    struct greeting g;
    greet(&g, 1);
    g.hello.mode = RT_SYNC;
    g.table.size = 11;
    send_greeting(q, &g);
    refused_with(q, "size is 11, expected 10");
    send_barrier_for(p, 1, 1);
    await(p, &p->answers, 2);
    assert_non_null(strstr(refusal(p).msg, "barrier 1 waits for trainer 1 (not here yet)"));
    assert_non_null(strstr(refusal(p).msg, why));
    ask_late(p, 1);
    await(p, &p->answers, 3);
    assert_non_null(strstr(refusal(p).msg, "step 1 waits for trainer 1 (not here yet)"));
    assert_non_null(strstr(refusal(p).msg, why));
    dial(q);
    join_as(q, 1, RT_SYNC); /* the right tables now */
    ask_late(p, 1);
    await(p, &p->answers, 4);
    assert_null(strstr(refusal(p).msg, "refused"));
    peer_free(q);
}

/* Its hello cannot be read, so nobody knows which trainer it is. */
static void a_wait_says_who_was_refused_at_the_door(void **state) {
    struct session_peer *p = *state;
    struct rpc_stream *stream = NULL;
    char endpoint[32];
    join_as(p, 0, RT_ASYNC);
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(p->server));
    const struct net_auth other = {&rpc_protocol, "guess", false};
    assert_int_equal(CO_PERMISSION, rpc_dial(p->rpc, &other, endpoint, 60000, &stream, NULL));
    const int64_t end = co_now_ms() + 60000;
    const char *found = NULL;
    for (unsigned n = 2; !found && co_now_ms() < end;
         n++) { /* the server's other thread noted it */
        send_barrier_for(p, 1, 1);
        await(p, &p->answers, n);
        struct co_err e = refusal(p);
        found = strstr(e.msg, "trainer 1 (not here yet); refused a connection from 127.0.0.1");
        found = found ? strstr(e.msg, "the token is not this job's") : NULL;
    }
    assert_non_null(found);
}

static void a_trainer_that_never_comes_is_named(void **state) {
    (void)state;
    struct pss_server_config c = usual;
    c.trainers = 3;
    c.start_timeout_ms = 200;
    struct session_peer *p = serve(&c);
    struct greeting g;
    greet(&g, 1);
    g.hello.trainers = 3;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    struct co_err err = {0};
    assert_int_equal(CO_TIMEOUT, pss_server_wait(p->server, &err));
    assert_non_null(
        strstr(err.msg, "trainers 0, 2 of 3 have not come within 0.2 s of the first one"));
    refused_with(p, "trainers 0, 2 of 3");
    peer_end(p);
}

/* The first one may take as long as it likes. */
static void no_trainer_is_missed_before_the_first_joins(void **state) {
    (void)state;
    struct pss_server_config c = usual;
    c.start_timeout_ms = 1;
    c.trainers = 1;
    struct session_peer *p = serve(&c);
    struct pollfd over = {.fd = pss_server_fd(p->server), .events = POLLIN};
    assert_int_equal(0, poll(&over, 1, 200)); /* some of its ticks */
    struct greeting g;
    greet(&g, 0);
    g.hello.trainers = 1;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    rpc_stream_cancel(p->stream);
    assert_int_equal(0, pss_server_wait(p->server, NULL));
    peer_end(p);
}

/* The stream stays open all the time. */
static void a_silent_trainer_is_lost_after_its_lease(void **state) {
    (void)state;
    struct pss_server_config c = usual;
    c.lease_ms = 300;
    struct session_peer *p = serve(&c);
    struct greeting g;
    greet(&g, 0);
    g.hello.mode = RT_SYNC;
    send_greeting(p, &g);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, pss_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "no sign of life within its lease of 0.3 s"));
    peer_end(p);
}

/* Async: the others have finished.  The lost one has return_ms once more to come back, however long
 * a lease is; 0: nobody waits for it. */
static void only_lost_trainers_left_end_the_job(void **state) {
    (void)state;
    for (int returns = 0; returns < 2; returns++) {
        struct pss_server_config c = usual;
        c.lease_ms = 600000;
        c.return_ms = returns ? 1500 : 0;
        co_test_clock_slow(true); /* nobody is lost because the machine stands still */
        struct session_peer *p = serve(&c);
        join_as(p, 0, RT_ASYNC);
        struct session_peer *q = peer_new(p->server);
        join_as(q, 1, RT_ASYNC);
        send_leave(q, "no data");
        await(q, &q->closed, 1);
        send_finish(p);
        await(p, &p->answers, 2);
        co_test_clock_slow(false);
        struct co_err err = {0};
        assert_int_equal(CO_PEERLOST, pss_server_wait(p->server, &err));
        assert_non_null(strstr(err.msg, "gave up: no data"));
        assert_non_null(strstr(err.msg, "did not come back before the others ended"));
        peer_free(q);
        peer_end(p);
    }
}

/* A server without connections, whose ticks the test makes while it holds the clock: trainer 0 of n
 * has finished, and trainer 1's connection is broken. */
static void bare_init(struct pss_server *s, uint32_t n) {
    co_test_clock_hold(true);
    *s = (struct pss_server){.config = {.trainers = n,
                                 .lease_ms = 600000,
                                 .return_ms = 60000,
                                 .start_timeout_ms = 90000,
                                 .quiet = true},
        .mode = RT_ASYNC,
        .fd = -1,
        .first_ms = co_now_ms()};
    pss_members_init(&s->members, n);
    pss_server_tick(s);
    pss_server_finish(s, 0);
    pss_member_set(&s->members, 1, PSS_MEMBER_ALIVE);
    pss_server_miss(s, 1, "connection closed");
}

static void bare_done(struct pss_server *s) {
    pss_members_done(&s->members);
    co_test_clock_hold(false);
}

/* Of a process that runs all the time; returns how long the job lasted. */
static int64_t run_for(struct pss_server *s, int64_t ms) {
    int64_t i = 0;
    for (; i < ms && !s->over; i += 50) {
        co_test_clock_forward(50);
        pss_server_tick(s);
    }
    return i;
}

/* Who has waited for the last trainer since its connection broke does not do so twice. */
static void the_last_trainer_is_waited_for_once(void **state) {
    (void)state;
    struct pss_server s;
    bare_init(&s, 2);
    assert_in_range(run_for(&s, 600000), 60000, 60100);
    assert_int_equal(CO_PEERLOST, s.result.code);
    bare_done(&s);
}

/* A process that is stopped, a machine that stands still: nobody could come meanwhile. */
static void a_stopped_server_waits_as_long_as_before(void **state) {
    (void)state;
    struct pss_server s;
    bare_init(&s, 3); /* trainer 2 has not come yet */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(10000, run_for(&s, 10000));
        co_test_clock_forward(1000000);
        pss_server_tick(&s);
    }
    assert_int_equal(PSS_MEMBER_AWAY, s.members.all[1].state);
    assert_in_range(run_for(&s, 600000), 59900, 60100); /* its 90 s, of which 30 s were over */
    assert_int_equal(CO_TIMEOUT, s.result.code);
    assert_int_equal(PSS_MEMBER_LOST, s.members.all[1].state); /* after 60 s */
    bare_done(&s);
}

/* A server that was restarted while the job ends learns only of those that had not finished
 * here. */
static void a_trainer_that_finished_before_the_restart_is_not_waited_for(void **state) {
    (void)state;
    for (int finishing = 0; finishing < 2; finishing++) {
        struct pss_server_config c = usual;
        c.start_timeout_ms = 3000;
        c.return_ms = 1000;
        co_test_clock_slow(true); /* trainer 1 has all the time that it needs */
        struct session_peer *p = serve(&c);
        struct greeting g;
        greet(&g, 1);
        g.hello.mode = RT_ASYNC;
        g.hello.finishing = finishing;
        send_greeting(p, &g);
        await(p, &p->answers, 1);
        send_finish(p);
        await(p, &p->answers, 2);
        rpc_stream_cancel(p->stream);
        co_test_clock_slow(false);
        assert_int_equal(finishing ? 0 : CO_TIMEOUT, pss_server_wait(p->server, NULL));
        peer_end(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ONE(a_repeated_step_is_answered),
        ONE(steps_are_of_sync_jobs_and_in_order),
        ONE(a_finish_completes_step_and_barrier),
        ONE(trainers_that_wait_for_each_other_get_an_error),
        ONE(a_barrier_waits_for_those_in_a_step),
        ONE(barriers_are_counted),
        ONE(all_sync_trainers_get_the_reason_of_one_that_leaves),
        ONE(a_second_trainer_of_one_id_is_refused_once_the_first_reports),
        ONE(a_stranger_neither_finishes_nor_leaves),
        ONE(a_barrier_says_for_whom_it_waits),
        ONE(a_wait_says_who_was_refused),
        ONE(a_wait_says_who_was_refused_at_the_door),
        ONE(a_step_says_for_whom_it_waits),
        ONE(async_trainers_continue_when_one_leaves),
        cmocka_unit_test(a_trainer_that_never_comes_is_named),
        cmocka_unit_test(no_trainer_is_missed_before_the_first_joins),
        cmocka_unit_test(a_trainer_that_finished_before_the_restart_is_not_waited_for),
        cmocka_unit_test(a_silent_trainer_is_lost_after_its_lease),
        cmocka_unit_test(only_lost_trainers_left_end_the_job),
        cmocka_unit_test(the_last_trainer_is_waited_for_once),
        cmocka_unit_test(a_stopped_server_waits_as_long_as_before),
    };
    return cmocka_run_group_tests_name("session_wait", tests, NULL, NULL);
}
