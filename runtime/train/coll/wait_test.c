/* Deadlines: what a rank may conclude from time that has passed, also if it was itself stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/testkit.h"

enum { RANKS = 3, LIMIT_MS = 8000, AGO_MS = 60000, CALL_MS = 2000 };

/* Rank 0 of three; it is connected to nobody. */
struct waiter {
    struct rt_group g;
    struct rt_peer peers[RANKS];
    char *endpoints[RANKS];
    uint32_t locals[RANKS];
    struct co_err err;
};

static void waiter_init(struct waiter *w) {
    *w = (struct waiter){.g = {.size = RANKS, .failed_rank = RANKS, .call_ms = LIMIT_MS},
        .endpoints = {"a:1", "b:1", "c:1"},
        .locals = {0, 1, 2}};
    w->g.peers = w->peers;
    w->g.endpoints = w->endpoints;
    w->g.locals = w->locals;
    w->g.alarm = -1;
    pthread_mutex_init(&w->g.m, NULL);
    pthread_cond_init(&w->g.changed, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        w->peers[r].control = -1;
    }
}

static void waiter_done(struct waiter *w) {
    pthread_mutex_destroy(&w->g.m);
    pthread_cond_destroy(&w->g.changed);
}

static void assert_says(struct waiter *w, int code, const char *text) {
    assert_int_equal(rt_group_why(&w->g, &w->err), code);
    assert_non_null(strstr(w->err.msg, text));
}

/* A wait that began long ago, and no check since: this rank was stopped. */
static void nobody_is_given_up_before_it_was_asked(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    int64_t now = rt_now_ms();
    struct rt_patience p = {.begun_ms = now - AGO_MS};
    assert_int_equal(rt_patience_check(&w.g, &p, 2), 0);
    assert_int_equal(rt_deadline_check(&w.g, &p, 2), 0);
    assert_true(p.asked_ms >= now);
    p.asked_ms -= LIMIT_MS; /* time passes; rank 2 answers */
    atomic_store(&w.peers[2].heard_ms, now);
    assert_int_equal(rt_patience_check(&w.g, &p, 2), CO_PEERLOST);
    assert_says(&w, CO_PEERLOST, "rank 1 (b:1) is lost: no sign of life");
    waiter_done(&w);
}

/* It was asked before this rank was stopped; if it has answered, nobody has read that yet. */
static void who_was_asked_before_a_stop_is_asked_again(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    int64_t now = rt_now_ms();
    struct rt_patience p = {
        .begun_ms = now - AGO_MS, .asked_ms = now - AGO_MS / 2, .checked_ms = now - AGO_MS / 2};
    assert_int_equal(rt_patience_check(&w.g, &p, 2), 0);
    assert_true(p.asked_ms >= now);
    waiter_done(&w);
}

static void who_answers_is_late_and_who_has_left_is_not_lost(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    int64_t now = rt_now_ms();
    struct rt_patience p = {
        .begun_ms = now - AGO_MS, .asked_ms = now - AGO_MS / 2, .checked_ms = now};
    atomic_store(&w.peers[1].left, true);
    atomic_store(&w.peers[2].heard_ms, now);
    assert_int_equal(rt_patience_check(&w.g, &p, 2), CO_TIMEOUT);
    assert_says(&w, CO_TIMEOUT, "rank 2 (c:1) lives, but");
    waiter_done(&w);
}

static void a_flag_that_is_there_is_seen_after_the_deadline(void **state) {
    (void)state;
    struct waiter w;
    waiter_init(&w);
    int64_t now = rt_now_ms();
    _Atomic uint32_t flag = 7;
    w.g.patience = (struct rt_patience){
        .begun_ms = now - AGO_MS, .asked_ms = now - AGO_MS / 2, .checked_ms = now};
    assert_int_equal(rt_flag_wait_long(&w.g, &flag, 7, 1), 0);
    assert_int_equal(rt_group_why(&w.g, NULL), 0);
    waiter_done(&w);
}

/* ---- a rank that was stopped for longer than the limit ---- */

/* Rank 1 stops rank 0 in a call of it, and makes its part only after rank 0 has gone on. */
static int is_stopped(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    int rc = rt_group_barrier(g, err);
    if (rank == 0) {
        atomic_store(&w->shared->ready, (uint32_t)getpid());
    } else {
        pid_t other;
        while ((other = (pid_t)atomic_load(&w->shared->ready)) == 0) {
            (void)poll(NULL, 0, 5);
        }
        (void)poll(NULL, 0, 50); /* for it to begin the call */
        kill(other, SIGSTOP);
        (void)poll(NULL, 0, CALL_MS + CALL_MS / 4);
        kill(other, SIGCONT);
        (void)poll(NULL, 0, 100);
    }
    rc = rc < 0 ? rc : world_call(g, w->kind, 100, err);
    return rc < 0 ? rc : rt_group_barrier(g, err);
}

static void a_rank_that_was_stopped_gives_nobody_up(void **state) {
    (void)state;
    static const enum rt_kind kinds[] = {RT_ALL_REDUCE, RT_SEND};
    static struct world worlds[2 * CO_ARRAY_LEN(kinds)];
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        worlds[i] = (struct world){.n = 2,
            .transport = world_places[i / 2].transport,
            .call_ms = CALL_MS,
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
        cmocka_unit_test(nobody_is_given_up_before_it_was_asked),
        cmocka_unit_test(who_was_asked_before_a_stop_is_asked_again),
        cmocka_unit_test(who_answers_is_late_and_who_has_left_is_not_lost),
        cmocka_unit_test(a_flag_that_is_there_is_seen_after_the_deadline),
        cmocka_unit_test(a_rank_that_was_stopped_gives_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
