/* A bound on staleness: who is too far ahead waits, for those who train, and says for whom. */
#include <stdatomic.h>

#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/client_testing.h"

enum { AHEAD = 3 };

static const struct rt_client_options bounded = {.mode = RT_ASYNC, .staleness = AHEAD};

static void step(struct rt_client *c, int n) {
    struct co_err err = {0};
    for (int i = 0; i < n; i++) {
        must(rt_step(c, &err));
    }
}

/* This step has to wait for who does not move: its time-out is short, while others, which wait for
 * no more than a report in flight, have all the time. */
static void step_in_vain(struct rt_client *c, struct co_err *ret_err) {
    int64_t usual = c->options.barrier_timeout_ms;
    c->options.barrier_timeout_ms = 200;
    assert_int_equal(CO_TIMEOUT, rt_step(c, ret_err));
    c->options.barrier_timeout_ms = usual;
}

/* Trainer 1 does not move: trainer 0 is stopped by its fourth step, and names it. */
static void the_fastest_waits_for_the_slowest_and_names_it(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 2, 2);
    struct co_err err = {0};
    struct rt_client *c[2] = {world_enter(&w, 0, bounded), world_enter(&w, 1, bounded)};
    step(c[0], AHEAD);
    step_in_vain(c[0], &err);
    says(&err, CO_TIMEOUT, "step 4 waits for trainer 1 (127.0.0.1:");
    says(&err, CO_TIMEOUT, "), which has made 0");
    /* It is not the end: one step of the other is one for this. */
    step(c[1], 2);
    step(c[0], 1);
    step_in_vain(c[0], &err);
    says(&err, CO_TIMEOUT, "step 6 waits for trainer 1");
    step(c[1], 7);
    must(rt_finish(c[0], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
}

struct runner {
    struct rt_client *c;
    int steps;
    _Atomic int *made; /* [3] by trainer; NULL: nobody counts */
    int index;
    pthread_t thread;
};

static void *run(void *arg) {
    struct runner *r = arg;
    struct co_err err = {0};
    for (int i = 0; i < r->steps; i++) {
        must(rt_step(r->c, &err));
        for (int k = 0; r->made && k < 3; k++) {
            /* Whom it did not wait for is at most so far behind. */
            assert_true(i + 1 - atomic_load(&r->made[k]) <= AHEAD + 1);
        }
        if (r->made) {
            atomic_store(&r->made[r->index], i + 1);
        }
    }
    return NULL;
}

/* Whatever ends a trainer's part ends the wait for it. */
static void a_trainer_that_has_ended_is_not_waited_for(void **state) {
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct client_world w;
        world_start(&w, 1, 2);
        struct co_err err = {0};
        struct rt_client *c[2] = {world_enter(&w, 0, bounded), world_enter(&w, 1, bounded)};
        struct runner r = {.c = c[0], .steps = 50};
        assert_int_equal(0, pthread_create(&r.thread, NULL, run, &r));
        step(c[1], way);
        if (way == 0) {
            must(rt_no_more(c[1], &err));
        } else if (way == 1) {
            must(rt_finish(c[1], &err));
        } else {
            rt_client_close(c[1]);
        }
        pthread_join(r.thread, NULL);
        if (way == 2) { /* it comes back, and begins where the slowest is known to be: the report
                         * of trainer 0's last step may still be in flight, one step less is sure */
            c[1] = world_enter(&w, 1, bounded);
            step(c[0], AHEAD - 1);
            step(c[1], 1);
            step(c[0], 1);
        }
        must(rt_finish(c[0], &err));
        if (way != 1) {
            must(rt_finish(c[1], &err));
        }
        world_end(&w);
    }
}

static void *wait_at_barrier(void *arg) {
    struct co_err err = {0};
    must(rt_barrier(arg, &err));
    return NULL;
}

/* A trainer at a barrier computes with nothing old. */
static void a_barrier_ends_the_wait(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 2);
    struct co_err err = {0};
    struct rt_client *c[2] = {world_enter(&w, 0, bounded), world_enter(&w, 1, bounded)};
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, wait_at_barrier, c[1]));
    step(c[0], 20);
    must(rt_barrier(c[0], &err));
    pthread_join(thread, NULL);
    must(rt_finish(c[0], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
}

static void the_bound_holds_at_every_step(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 2, 3);
    struct co_err err = {0};
    _Atomic int made[3] = {0};
    struct runner r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = (struct runner){
            .c = world_enter(&w, (uint32_t)i, bounded), .steps = 300, .made = made, .index = i};
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, pthread_create(&r[i].thread, NULL, run, &r[i]));
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(r[i].thread, NULL);
        must(rt_finish(r[i].c, &err));
    }
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_waits_for_the_slowest_and_names_it),
        cmocka_unit_test(a_trainer_that_has_ended_is_not_waited_for),
        cmocka_unit_test(a_barrier_ends_the_wait),
        cmocka_unit_test(the_bound_holds_at_every_step),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
