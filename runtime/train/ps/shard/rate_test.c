/* Learning rates of a shard's tables: schedules, what counts as a step, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/tables_testing.h"

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The answer to GET_RATE. */
static void assert_rate(struct testing *w, uint32_t table, double lr, uint64_t steps, double rate) {
    struct rpc_frame *a = testing_call(w, RPC_FRAME_GET_RATE, table, 0);
    assert_int_equal(RPC_FRAME_RATE_NUMBERS, a->head.count);
    assert_int_equal(8 * RPC_FRAME_RATE_NUMBERS, a->head.bytes);
    double got_lr = double_of(co_get_u64(a->payload));
    uint64_t got_steps = co_get_u64(a->payload + 8);
    double got_rate = double_of(co_get_u64(a->payload + 16));
    rpc_frame_free(a);
    if (got_lr != lr || got_steps != steps || fabs(got_rate - rate) > 1e-6) {
        fail_msg("lr %g, steps %llu, rate %g, expected %g, %llu, %g", got_lr,
            (unsigned long long)got_steps, got_rate, lr, (unsigned long long)steps, rate);
    }
}

static int set_rate(struct testing *w, uint32_t table, double lr) {
    struct rpc_frame *f = testing_frame(RPC_FRAME_SET_RATE, table, 0, 0);
    f->head.aux = bits_of(lr);
    return testing_ask(w, 0, f, NULL);
}

static int tick(struct testing *w, uint32_t trainer) {
    return testing_ask(w, trainer, testing_frame(RPC_FRAME_TICK, 0, 0, 0), NULL);
}

/* From 1 down to 0 in four steps. */
static const struct rt_table_spec specs[] = {
    {.name = "w",
        .kind = RT_DENSE,
        .size = 4,
        .optimizer = "sgd:lr=1",
        .schedule = "polynomial:steps=4,end=0"},
    {.name = "e", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd:lr=0.5", .init = "zero"},
};

static void each_step_moves_the_schedule_on(void **unused) {
    static const double rates[] = {1, 0.75, 0.5, 0.25, 0, 0};
    (void)unused;
    struct testing w;
    testing_start(&w, specs, 2, RT_SYNC);
    for (uint64_t step = 0; step < CO_ARRAY_LEN(rates); step++) {
        assert_rate(&w, 0, 1, step, rates[step]);
        assert_rate(&w, 1, 0.5, step, 0.5); /* without a schedule */
        assert_int_equal(0, shard_tables_step(&w.t, 2, NULL));
    }
    testing_end(&w);
}

/* Async: steps of all trainers / number of trainers. */
static void as_many_ticks_as_trainers_are_a_step(void **unused) {
    (void)unused;
    for (uint32_t trainers = 1; trainers <= 5; trainers++) {
        struct testing w;
        testing_make(&w, specs, 2, RT_ASYNC);
        w.config.trainers = trainers;
        testing_open(&w);
        for (uint32_t k = 1; k <= 4 * trainers; k++) {
            assert_int_equal(0, tick(&w, k % trainers));
            uint32_t step = k / trainers;
            assert_rate(&w, 0, 1, step, 1 - 0.25 * step);
        }
        testing_end(&w);
    }
}

/* A step is applied with the rate of its time. */
static void updates_use_the_rate_of_their_step(void **unused) {
    (void)unused;
    struct testing w;
    const struct rt_table_spec falling = {.name = "e",
        .kind = RT_SPARSE,
        .dim = 1,
        .optimizer = "sgd:lr=1",
        .init = "zero",
        .schedule = "polynomial:steps=4,end=0"};
    testing_start(&w, &falling, 1, RT_SYNC);
    static const float want[] = {-1, -1.75F, -2.25F, -2.5F, -2.5F};
    for (size_t step = 0; step < CO_ARRAY_LEN(want); step++) {
        assert_int_equal(0, testing_push_one(&w, 0, 7, 1));
        assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
        assert_true(testing_pull_one(&w, 0, 7) == want[step]);
    }
    testing_end(&w);
}

static void a_rate_that_was_set_stays_below_its_schedule(void **unused) {
    (void)unused;
    struct testing w;
    testing_start(&w, specs, 2, RT_ASYNC);
    rpc_frame_free(testing_call(&w, RPC_FRAME_SET_STEPS, 0, 2));
    assert_rate(&w, 0, 1, 2, 0.5);
    assert_rate(&w, 1, 0.5, 0, 0.5); /* another table */
    assert_int_equal(0, set_rate(&w, 0, 4));
    assert_rate(&w, 0, 4, 2, 2);
    rpc_frame_free(testing_call(&w, RPC_FRAME_SET_STEPS, 0, UINT64_MAX));
    assert_rate(&w, 0, 4, UINT64_MAX, 0);
    testing_end(&w);
}

static void an_invalid_rate_is_refused(void **unused) {
    static const double bad[] = {-1, (double)NAN, (double)INFINITY, 1e300, 1e-60, -1e-60};
    (void)unused;
    struct testing w;
    testing_start(&w, specs, 2, RT_ASYNC);
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        assert_int_equal(CO_INVALID, set_rate(&w, 1, bad[i]));
        assert_non_null(strstr(w.err.msg, "table \"e\""));
        assert_non_null(strstr(w.err.msg, "lr"));
        assert_rate(&w, 1, 0.5, 0, 0.5);
    }
    assert_int_equal(0, set_rate(&w, 1, 0)); /* training may pause */
    assert_rate(&w, 1, 0, 0, 0);
    testing_end(&w);
}

/* Trainers of geo apply the rule; a synchronous job has its own steps. */
static void calls_of_other_modes_are_refused(void **unused) {
    struct rt_table_spec spec = specs[1];
    (void)unused;
    spec.mode = RT_GEO;
    struct testing w;
    testing_start(&w, &spec, 1, RT_GEO);
    assert_int_equal(CO_INVALID, set_rate(&w, 0, 0.1));
    assert_string_equal(
        "table \"e\" is in geo mode: its learning rate is the trainers'", w.err.msg);
    testing_end(&w);
    testing_start(&w, specs, 2, RT_SYNC);
    assert_int_equal(CO_INVALID, tick(&w, 0));
    assert_string_equal("tick: this job is synchronous", w.err.msg);
    assert_rate(&w, 0, 1, 0, 1);
    testing_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_moves_the_schedule_on),
        cmocka_unit_test(as_many_ticks_as_trainers_are_a_step),
        cmocka_unit_test(updates_use_the_rate_of_their_step),
        cmocka_unit_test(a_rate_that_was_set_stays_below_its_schedule),
        cmocka_unit_test(an_invalid_rate_is_refused),
        cmocka_unit_test(calls_of_other_modes_are_refused),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
