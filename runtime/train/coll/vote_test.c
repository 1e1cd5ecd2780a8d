/* The rounds of vote.h, with the other ranks' words put where the monitor would put them. */
#include "runtime/train/coll/vote.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

enum { RANKS = 4, DEAD_1 = 1 << 1, DEAD_2 = 1 << 2, END_MS = 60000 };

/* Rank 0 of four; it is connected to nobody. */
struct voter {
    struct rt_group g;
    struct coll_peer peers[RANKS];
    unsigned char dead[RANKS], agreed, mine, sent;
    struct coll_ballot b;
    struct co_err err;
    pthread_t thread;
    int rc;
};

static void *vote_there(void *arg) {
    struct voter *v = arg;
    v->rc = coll_vote(&v->g, &v->b, &v->err);
    return NULL;
}

/* Rank 1 is dead, as rank 0 knows. */
static void voter_start(struct voter *v) {
    *v = (struct voter){.g = {.size = RANKS, .failed_rank = RANKS, .call_ms = END_MS}};
    v->g.peers = v->peers;
    v->g.agreed = &v->agreed;
    v->b = (struct coll_ballot){
        .bytes = 1, .dead = &v->mine, .sent = &v->sent, .end_ms = co_now_ms() + END_MS};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&v->g.m, NULL);
    pthread_cond_init(&v->g.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (uint32_t r = 0; r < RANKS; r++) {
        v->peers[r].control.fd = -1;
        v->peers[r].dead = &v->dead[r];
    }
    atomic_store(&v->peers[1].gone, true);
    assert_int_equal(0, pthread_create(&v->thread, NULL, vote_there, v));
}

static void await_vote(struct voter *v, unsigned char set) {
    for (bool there = false; !there;) {
        pthread_mutex_lock(&v->g.m);
        there = v->sent == set;
        pthread_mutex_unlock(&v->g.m);
        (void)poll(NULL, 0, 1);
    }
}

static void says(struct voter *v, uint32_t rank, unsigned char set) {
    v->peers[rank].round = 1;
    v->dead[rank] = set;
}

static void wake_and_unlock(struct voter *v) {
    pthread_cond_broadcast(&v->g.changed);
    pthread_mutex_unlock(&v->g.m);
}

static void voter_end(struct voter *v) {
    pthread_join(v->thread, NULL);
    pthread_cond_destroy(&v->g.changed);
    pthread_mutex_destroy(&v->g.m);
}

static void equal_votes_end_a_round(void **state) {
    (void)state;
    struct voter v;
    voter_start(&v);
    await_vote(&v, DEAD_1);
    pthread_mutex_lock(&v.g.m);
    says(&v, 2, DEAD_1);
    wake_and_unlock(&v);
    pthread_mutex_lock(&v.g.m);
    says(&v, 3, DEAD_1);
    wake_and_unlock(&v);
    voter_end(&v);
    assert_int_equal(0, v.rc);
    assert_int_equal(DEAD_1, v.mine);
}

static void a_set_that_grows_is_voted_for_again(void **state) {
    (void)state;
    struct voter v;
    voter_start(&v);
    await_vote(&v, DEAD_1);
    pthread_mutex_lock(&v.g.m);
    says(&v, 3, DEAD_1 | DEAD_2);
    wake_and_unlock(&v);
    voter_end(&v);
    assert_int_equal(0, v.rc);
    assert_int_equal(DEAD_1 | DEAD_2, v.mine);
    assert_int_equal(DEAD_1 | DEAD_2, v.sent);
}

/* Rank 2 has seen the round end, has said so to this rank alone, and has died; rank 3 knows of that
 * and votes again.  Had this rank joined that vote, rank 3 would have ended the round with it. */
static void a_rank_casts_no_vote_in_an_ended_round(void **state) {
    (void)state;
    struct voter v;
    voter_start(&v);
    await_vote(&v, DEAD_1);
    pthread_mutex_lock(&v.g.m);
    says(&v, 3, DEAD_1 | DEAD_2);
    atomic_store(&v.peers[2].gone, true);
    v.g.agreed_round = 1;
    v.agreed = DEAD_1;
    wake_and_unlock(&v);
    voter_end(&v);
    assert_int_equal(0, v.rc);
    assert_int_equal(DEAD_1, v.mine);
    assert_int_equal(DEAD_1, v.sent);
}

static void a_rank_that_is_voted_dead_gives_up(void **state) {
    (void)state;
    struct voter v;
    voter_start(&v);
    await_vote(&v, DEAD_1);
    pthread_mutex_lock(&v.g.m);
    says(&v, 3, DEAD_1 | 1);
    wake_and_unlock(&v);
    voter_end(&v);
    assert_int_equal(CO_PEERLOST, v.rc);
    assert_string_equal("the others have given this rank, 0, up", v.err.msg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_votes_end_a_round),
        cmocka_unit_test(a_set_that_grows_is_voted_for_again),
        cmocka_unit_test(a_rank_casts_no_vote_in_an_ended_round),
        cmocka_unit_test(a_rank_that_is_voted_dead_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
