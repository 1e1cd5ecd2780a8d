/* Which requests of a trainer are done, answered only, or refused. */
#include "runtime/train/ps/shard/dedup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static int judge(struct shard_dedup *l, uint8_t kind, uint64_t number, bool sync, uint64_t done) {
    const struct rpc_frame_head h = {.kind = kind, .number = number};
    return shard_dedup_check(l, &h, sync, done, NULL);
}

static void a_request_is_done_once(void **state) {
    (void)state;
    static const struct {
        uint64_t number;
        int change;
    } rows[] = {{7, SHARD_DEDUP_RESULT_DO}, {7, SHARD_DEDUP_RESULT_DONE},
        {8, SHARD_DEDUP_RESULT_DO}, {7, SHARD_DEDUP_RESULT_DONE}, {10, CO_INVALID}, {0, CO_INVALID},
        {9, SHARD_DEDUP_RESULT_DO}};
    struct shard_dedup l = {0};
    shard_dedup_begin(&l, 100, 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            rows[i].change, judge(&l, RPC_FRAME_PUSH_SPARSE, rows[i].number, false, 0));
        shard_dedup_begin(&l, 100, 0); /* another connection of the same life */
    }
    shard_dedup_begin(&l, 101, 0);
    assert_int_equal(SHARD_DEDUP_RESULT_DO, judge(&l, RPC_FRAME_PUSH_SPARSE, 1, false, 0));
}

static void a_repeated_refused_request_is_refused_again(void **state) {
    (void)state;
    struct shard_dedup l = {0};
    struct co_err why = {0}, err = {0};
    const struct rpc_frame_head h = {.kind = RPC_FRAME_PUSH_SPARSE, .number = 1};
    co_err_set(&why, CO_NORESOURCE, "no room");
    shard_dedup_begin(&l, 100, 0);
    assert_int_equal(SHARD_DEDUP_RESULT_DO, shard_dedup_check(&l, &h, false, 0, &err));
    shard_dedup_refused(&l, &h, &why);
    assert_int_equal(CO_NORESOURCE, shard_dedup_check(&l, &h, false, 0, &err));
    assert_string_equal("no room", err.msg);
}

/* Several may have been on their way when the connection broke. */
static void each_refused_request_is_refused_again(void **state) {
    (void)state;
    struct shard_dedup l = {0};
    struct co_err why = {0};
    co_err_set(&why, CO_NORESOURCE, "no room");
    shard_dedup_begin(&l, 100, 0);
    for (uint64_t i = 1; i <= 9; i++) {
        const struct rpc_frame_head h = {.kind = RPC_FRAME_PUSH_SPARSE, .number = i};
        assert_int_equal(SHARD_DEDUP_RESULT_DO, shard_dedup_check(&l, &h, false, 0, NULL));
        if (i % 3 != 0) {
            shard_dedup_refused(&l, &h, &why);
        }
    }
    for (uint64_t i = 1; i <= 9; i++) {
        assert_int_equal(i % 3 == 0 ? SHARD_DEDUP_RESULT_DONE : CO_NORESOURCE,
            judge(&l, RPC_FRAME_PUSH_SPARSE, i, false, 0));
    }
}

/* It is not in the sums of the step, so the next life makes it again; those before and after it
 * keep their places. */
static void a_refused_push_is_tried_again_by_the_next_life(void **state) {
    (void)state;
    struct shard_dedup l = {0};
    struct co_err why = {0};
    co_err_set(&why, CO_INVALID, "NaN");
    for (uint64_t life = 100; life < 103; life++) { /* the second one is refused once more */
        shard_dedup_begin(&l, life, 4);
        for (uint64_t i = 1; i <= 300; i++) {
            const struct rpc_frame_head h = {.kind = RPC_FRAME_PUSH_DENSE, .number = i};
            bool bad = i == 1 || i == 150 || i == 256;
            assert_int_equal(life == 100 || bad ? SHARD_DEDUP_RESULT_DO : SHARD_DEDUP_RESULT_DONE,
                shard_dedup_check(&l, &h, true, 4, NULL));
            if (bad && life < 102) {
                shard_dedup_refused(&l, &h, &why);
            }
        }
    }
    /* What succeeded is done; and a step begins without what the one before had. */
    shard_dedup_begin(&l, 103, 4);
    assert_int_equal(SHARD_DEDUP_RESULT_DONE, judge(&l, RPC_FRAME_PUSH_DENSE, 1, true, 4));
    const struct rpc_frame_head step = {.kind = RPC_FRAME_STEP, .number = 2};
    assert_int_equal(SHARD_DEDUP_RESULT_DO, shard_dedup_check(&l, &step, true, 4, NULL));
    shard_dedup_refused(&l, &step, &why); /* no push: no place is free because of it */
    shard_dedup_begin(&l, 104, 4);
    assert_int_equal(SHARD_DEDUP_RESULT_DONE, judge(&l, RPC_FRAME_PUSH_DENSE, 1, true, 4));
}

/* Three pushes of the step to come are the former life's; the new one makes five. */
static void a_restarted_trainer_repeats_its_step(void **state) {
    (void)state;
    struct shard_dedup l = {0};
    shard_dedup_begin(&l, 100, 4);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(SHARD_DEDUP_RESULT_DO, judge(&l, RPC_FRAME_PUSH_DENSE, i, true, 4));
    }
    shard_dedup_begin(&l, 101, 4);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(i <= 3 ? SHARD_DEDUP_RESULT_DONE : SHARD_DEDUP_RESULT_DO,
            judge(&l, RPC_FRAME_PUSH_DENSE, i, true, 4));
    }
    shard_dedup_stepped(&l);
    l.step = 5;
    assert_int_equal(SHARD_DEDUP_RESULT_DO, judge(&l, RPC_FRAME_PUSH_DENSE, 6, true, 5));
    /* Another one begins behind a step that this shard has completed already. */
    shard_dedup_begin(&l, 102, 4);
    assert_int_equal(SHARD_DEDUP_RESULT_DONE, judge(&l, RPC_FRAME_PUSH_DENSE, 1, true, 5));
    /* What is no part of the sums is done whoever asks. */
    assert_int_equal(SHARD_DEDUP_RESULT_DO, judge(&l, RPC_FRAME_SET_RATE, 2, true, 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_done_once),
        cmocka_unit_test(a_repeated_refused_request_is_refused_again),
        cmocka_unit_test(each_refused_request_is_refused_again),
        cmocka_unit_test(a_refused_push_is_tried_again_by_the_next_life),
        cmocka_unit_test(a_restarted_trainer_repeats_its_step),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
