/* Deadlines and goodbyes: what a rank may conclude from them, also if it was itself stopped. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/log.h"
#include "runtime/train/coll/coll_testing.h"
#include "runtime/train/coll/message.h"
#include "runtime/train/coll/monitor.h"

enum { RANKS = 3, SOME = 4096, LIMIT_MS = 8000, AGO_MS = 60000, NOW_MS = 1000 * 1000 };

/* Rank 0 of three; it is connected to nobody. */
struct waiter {
    struct rt_group g;
    struct coll_peer peers[RANKS];
    char *endpoints[RANKS];
    uint32_t locals[RANKS];
    int64_t now; /* the test's clock: no check depends on how long the test takes */
    struct co_err err;
};

static void waiter_init(struct waiter *w) {
    *w = (struct waiter){.g = {.size = RANKS, .failed_rank = RANKS, .call_ms = LIMIT_MS},
        .endpoints = {"a:1", "b:1", "c:1"},
        .locals = {0, 1, 2},
        .now = NOW_MS};
    w->g.peers = w->peers;
    w->g.endpoints = w->endpoints;
    w->g.locals = w->locals;
    w->g.alarm = -1;
    pthread_mutex_init(&w->g.m, NULL);
    pthread_cond_init(&w->g.changed, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        w->peers[r].control.fd = -1;
    }
}

static void waiter_done(struct waiter *w) {
    pthread_mutex_destroy(&w->g.m);
    pthread_cond_destroy(&w->g.changed);
}

static void assert_says(struct waiter *w, int code, const char *text) {
    assert_int_equal(coll_group_why(&w->g, &w->err), code);
    assert_non_null(strstr(w->err.msg, text));
}

/* A wait that began long ago, and no check since: this rank was stopped. */
static void a_rank_is_not_given_up_before_it_was_asked(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    struct coll_patience p = {.begun_ms = w.now - AGO_MS};
    assert_int_equal(coll_patience_check(&w.g, &p, 2, w.now), 0);
    assert_int_equal(coll_deadline_check(&w.g, &p, 2, w.now), 0);
    assert_true(p.asked_ms >= w.now);
    p.asked_ms -= LIMIT_MS; /* time passes; rank 2 answers */
    atomic_store(&w.peers[2].answered_ms, w.now);
    assert_int_equal(coll_patience_check(&w.g, &p, 2, w.now), CO_PEERLOST);
    assert_says(&w, CO_PEERLOST, "rank 1 (b:1) is lost: no sign of life");
    waiter_done(&w);
}

/* It was asked before this rank was stopped; if it has answered, nobody has read that yet. */
static void a_rank_asked_before_a_stop_is_asked_again(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    struct coll_patience p = {.begun_ms = w.now - AGO_MS,
        .asked_ms = w.now - AGO_MS / 2,
        .checked_ms = w.now - AGO_MS / 2};
    assert_int_equal(coll_patience_check(&w.g, &p, 2, w.now), 0);
    assert_true(p.asked_ms >= w.now);
    waiter_done(&w);
}

static void a_rank_that_answers_is_late_and_one_that_left_is_not_lost(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    struct coll_patience p = {
        .begun_ms = w.now - AGO_MS, .asked_ms = w.now - AGO_MS / 2, .checked_ms = w.now};
    atomic_store(&w.peers[1].left, true);
    atomic_store(&w.peers[2].answered_ms, w.now);
    assert_int_equal(coll_patience_check(&w.g, &p, 2, w.now), CO_TIMEOUT);
    assert_says(&w, CO_TIMEOUT, "rank 2 (c:1) lives, but");
    waiter_done(&w);
}

static void write_pong(int fd, uint32_t begun, int64_t sent_ms) {
    unsigned char wire[COLL_WORD_HEAD + COLL_PONG_BYTES] = {0};
    co_put_u32(wire, COLL_WORD_PONG);
    co_put_u32(wire + 4, begun);
    co_put_u32(wire + 12, COLL_PONG_BYTES);
    co_put_u64(wire + COLL_WORD_HEAD, (uint64_t)sent_ms);
    assert_int_equal(write(fd, wire, sizeof(wire)), sizeof(wire));
}

/* Rank 1 answered an earlier ping and was stopped; its answer is read after the next ping. */
static void an_answer_to_an_earlier_ping_is_no_sign_of_life(void **state) {
    (void)state;
    struct waiter w;
    int pair[2];
    unsigned char ping[COLL_WORD_HEAD];
    waiter_init(&w);
    w.g.size = 2;
    w.g.epoll = w.g.wake = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    w.peers[1].control.fd = pair[0];
    assert_int_equal(coll_monitor_start(&w.g, NULL), 0);
    atomic_store(&w.peers[1].answered_ms, 0);
    int64_t asked = co_now_ms();
    coll_monitor_ping(&w.g);
    assert_int_equal(read(pair[1], ping, sizeof(ping)), sizeof(ping));
    write_pong(pair[1], 4, asked - 1);
    while (atomic_load(&w.peers[1].answered_ms) == 0 && co_now_ms() < asked + WORLD_MS) {
        (void)poll(NULL, 0, 1);
    }
    assert_false(coll_group_answers(&w.g, asked));
    write_pong(pair[1], 5, (int64_t)co_get_u64(ping + 4)); /* as little-endian halves */
    while (!coll_group_answers(&w.g, asked) && co_now_ms() < asked + WORLD_MS) {
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(atomic_load(&w.peers[1].begun), 5);
    coll_monitor_stop(&w.g);
    co_close(pair[1]);
    co_close(pair[0]);
    co_close(w.g.epoll);
    co_close(w.g.wake);
    free(w.peers[1].message);
    free(w.peers[1].dead);
    free(w.g.agreed);
    waiter_done(&w);
}

static void a_flag_that_is_there_is_seen_after_the_deadline(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    _Atomic uint32_t flag = 7;
    w.now = co_now_ms(); /* the wait's own clock: a check would fail the group */
    w.g.patience = (struct coll_patience){
        .begun_ms = w.now - AGO_MS, .asked_ms = w.now - AGO_MS / 2, .checked_ms = w.now};
    assert_int_equal(coll_flag_wait_long(&w.g, &flag, 7, 1), 0);
    assert_int_equal(coll_group_why(&w.g, NULL), 0);
    waiter_done(&w);
}

/* ---- long waits ---- */

/* Checks at a time since the call began; returns what is logged, if anything. */
static const char *logged_at(struct waiter *w, struct coll_patience *p, int64_t waited_ms) {
    static char line[1024];
    int log[2];
    assert_int_equal(pipe2(log, O_NONBLOCK | O_CLOEXEC), 0);
    co_log_set_fd(log[1]);
    p->begun_ms = w->now - waited_ms;
    assert_int_equal(coll_patience_check(&w->g, p, 2, w->now), 0);
    co_log_set_fd(2);
    ssize_t n = read(log[0], line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    co_close(log[0]);
    co_close(log[1]);
    return line;
}

/* Rank 0 waits for rank 2, which waits for rank 1: that has yet to begin the call. */
static void long_waits_are_logged_with_who_is_late(void **state) {
    enum { S = 1000 };
    (void)state;
    struct waiter w;
    waiter_init(&w);
    w.g.call_ms = 600 * S;
    struct rt_coll c = {.kind = RT_ALL_REDUCE, .n = 1000};
    struct coll_patience p = {.call = &c};
    atomic_store(&w.g.calls.begun, 5);
    atomic_store(&w.peers[1].begun, 4);
    atomic_store(&w.peers[2].begun, 5);
    for (uint32_t r = 1; r < RANKS; r++) {
        atomic_store(&w.peers[r].answered_ms, INT64_MAX); /* both answer at once */
    }
    assert_string_equal(logged_at(&w, &p, 9 * S), "");
    const char *line = logged_at(&w, &p, 10 * S);
    assert_non_null(
        strstr(line, "waiting for rank 1 (b:1) for 10 s in all_reduce of 1000 f32, sum"));
    assert_string_equal(logged_at(&w, &p, 15 * S), "");
    assert_non_null(strstr(logged_at(&w, &p, 20 * S), "rank 1 (b:1) for 20 s"));
    atomic_store(&w.peers[1].begun, 5);
    assert_non_null(strstr(logged_at(&w, &p, 41 * S), "rank 2 (c:1) for 41 s"));
    atomic_store(&w.g.calls.begun, 6);
    assert_non_null(strstr(logged_at(&w, &p, 80 * S), "ranks 1 (b:1), 2 (c:1) for 80 s"));
    waiter_done(&w);
}

/* ---- a rank that has left ---- */

/* Over TCP, whose goodbye overtook the end of its message. */
struct leaver {
    struct waiter w;
    int far[2]; /* its ends of the lanes */
    unsigned char sent[COLL_PIECE + SOME], got[COLL_PIECE + SOME];
    struct coll_exchange_part part;
    struct coll_flow in;
    struct coll_patience p;
};

static void leaver_init(struct leaver *l) {
    memset(l, 0, sizeof(*l));
    waiter_init(&l->w);
    struct rt_group *g = &l->w.g;
    g->lanes = 2;
    l->w.peers[1].local = COLL_NOT_LOCAL;
    for (uint32_t k = 0; k < g->lanes; k++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        l->w.peers[1].lanes[k].fd = ends[0];
        l->far[k] = ends[1];
    }
    memset(l->sent, 7, sizeof(l->sent));
    l->part = (struct coll_exchange_part){
        .to = RANKS, .from = 1, .recv = l->got, .recv_bytes = sizeof(l->got)};
    coll_flow_begin(g, &l->in, &l->part, false);
    atomic_store(&l->w.peers[1].left, true);
}

static void leaver_done(struct leaver *l) {
    for (uint32_t k = 0; k < l->w.g.lanes; k++) {
        co_close(l->w.peers[1].lanes[k].fd);
        if (l->far[k] >= 0) {
            co_close(l->far[k]);
        }
    }
    waiter_done(&l->w);
}

static void leaver_sends(struct leaver *l, uint32_t lane, const void *data, size_t n) {
    assert_int_equal(send(l->far[lane], data, n, MSG_NOSIGNAL | MSG_DONTWAIT), n);
}

/* Sends n bytes, and sees them arrive. */
static void leaver_brings(struct leaver *l, uint32_t lane, size_t n) {
    for (size_t at = 0; at < n; at += SOME) {
        leaver_sends(l, lane, l->sent, SOME);
        assert_int_equal(coll_flow_move(&l->w.g, &l->in), 1);
        assert_int_equal(coll_deadline_check(&l->w.g, &l->p, 1, l->w.now), 0);
    }
    assert_int_equal(coll_flow_move(&l->w.g, &l->in), 0);
}

static int leaver_checks(struct leaver *l) {
    return coll_patience_check(&l->w.g, &l->p, 1, l->w.now);
}

static void leaver_closes(struct leaver *l, uint32_t lane) {
    co_close(l->far[lane]);
    l->far[lane] = -1;
}

static void data_behind_a_goodbye_is_received(void **state) {
    (void)state;
    static struct leaver l;
    leaver_init(&l);
    struct rt_group *g = &l.w.g;
    assert_int_equal(coll_flow_move(g, &l.in), 0);
    assert_int_equal(leaver_checks(&l), 0); /* sees the goodbye */
    leaver_sends(&l, 0, l.in.head, COLL_MESSAGE_HEAD);
    leaver_brings(&l, 0, COLL_PIECE / 2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(leaver_checks(&l), 0);
    }
    leaver_brings(&l, 0, COLL_PIECE / 2);
    leaver_closes(&l, 0);
    assert_int_equal(leaver_checks(&l), 0);
    assert_int_equal(leaver_checks(&l), 0); /* the other lane may still bring something */
    leaver_sends(&l, 1, l.sent, SOME);
    leaver_closes(&l, 1);
    assert_int_equal(leaver_checks(&l), 0); /* and has */
    assert_int_equal(coll_flow_move(g, &l.in), 1);
    assert_int_equal(l.in.left, 0);
    assert_memory_equal(l.got, l.sent, sizeof(l.got));
    leaver_done(&l);
}

static void assert_left(struct leaver *l) {
    assert_int_equal(leaver_checks(l), CO_PEERLOST);
    assert_says(&l->w, CO_PEERLOST, "rank 1 (b:1) has left the group");
    leaver_done(l);
}

static void a_rank_that_left_is_named_when_its_connections_end(void **state) {
    (void)state;
    static struct leaver l;
    leaver_init(&l);
    leaver_closes(&l, 0);
    leaver_closes(&l, 1);
    assert_int_equal(leaver_checks(&l), 0);
    assert_left(&l);
}

/* Its machine may have died since, and no connection ends. */
static void a_rank_that_left_is_named_when_no_bytes_arrive(void **state) {
    (void)state;
    static struct leaver l;
    leaver_init(&l);
    assert_int_equal(leaver_checks(&l), 0);
    l.p.left_ms -= COLL_LEFT_NET_MS / 2;
    assert_int_equal(leaver_checks(&l), 0);
    assert_int_equal(coll_deadline_check(&l.w.g, &l.p, 1, l.w.now), 0); /* something has moved */
    assert_int_equal(leaver_checks(&l), 0);
    l.p.left_ms -= COLL_LEFT_NET_MS / 2;
    assert_int_equal(leaver_checks(&l), 0);
    l.p.left_ms -= COLL_LEFT_NET_MS / 2;
    assert_left(&l);
}

/* Its data was there before its goodbye: it is enough to look once more. */
static void a_rank_that_left_shared_memory_is_named_at_the_second_check(void **state) {
    (void)state;
    static struct leaver l;
    leaver_init(&l);
    l.w.peers[1].local = 1;
    assert_int_equal(leaver_checks(&l), 0);
    assert_left(&l);
}

/* ---- a rank that was stopped for longer than the limit ---- */

/* Rank 1 stops rank 0 in a call of it, and makes its part only after rank 0 has continued. */
static int is_stopped(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_TRY(rt_group_barrier(g, err));
    if (rank == 0) {
        atomic_store(&w->shared->ready, (uint32_t)getpid());
    } else {
        pid_t other;
        while ((other = (pid_t)atomic_load(&w->shared->ready)) == 0) {
            (void)poll(NULL, 0, 5);
        }
        (void)poll(NULL, 0, 50); /* for it to begin the call */
        kill(other, SIGSTOP);
        (void)poll(NULL, 0, WORLD_STOP_MS + WORLD_STOP_MS / 4);
        kill(other, SIGCONT);
        (void)poll(NULL, 0, 100);
    }
    CO_TRY(world_call(g, w->kind, 100, err));
    return rt_group_barrier(g, err);
}

static void a_rank_that_was_stopped_gives_no_peer_up(void **state) {
    (void)state;
    static const enum rt_kind kinds[] = {RT_ALL_REDUCE, RT_SEND};
    static struct coll_world worlds[2 * CO_ARRAY_LEN(kinds)];
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        worlds[i] = (struct coll_world){.n = 2,
            .transport = world_places[i / 2].transport,
            .call_ms = WORLD_STOP_MS,
            .kind = kinds[i % 2]};
        world_start(&worlds[i], is_stopped);
    }
    uint32_t bad = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        bad += world_end(&worlds[i], 0);
        world_done(&worlds[i]);
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_not_given_up_before_it_was_asked),
        cmocka_unit_test(a_rank_asked_before_a_stop_is_asked_again),
        cmocka_unit_test(a_rank_that_answers_is_late_and_one_that_left_is_not_lost),
        cmocka_unit_test(an_answer_to_an_earlier_ping_is_no_sign_of_life),
        cmocka_unit_test(a_flag_that_is_there_is_seen_after_the_deadline),
        cmocka_unit_test(long_waits_are_logged_with_who_is_late),
        cmocka_unit_test(data_behind_a_goodbye_is_received),
        cmocka_unit_test(a_rank_that_left_is_named_when_its_connections_end),
        cmocka_unit_test(a_rank_that_left_is_named_when_no_bytes_arrive),
        cmocka_unit_test(a_rank_that_left_shared_memory_is_named_at_the_second_check),
        cmocka_unit_test(a_rank_that_was_stopped_gives_no_peer_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
