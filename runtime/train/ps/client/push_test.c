/* Pushes that servers refuse. */
#include <stdlib.h>

#include "runtime/train/ps/client/client_testing.h"

enum { IDS = 50, ALL = SIZE + IDS * DIM };

/* Over shards and servers that see nothing of it, too.  Shows and clicks that are none are refused
 * before anything is sent, and geo tables have no use for any. */
static void a_push_that_is_refused_counts_for_nothing(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 2, 2);
    struct co_err err = {0};
    struct rt_client *c[2];
    uint64_t ids[IDS];
    float g[IDS * DIM], rows[IDS * DIM], first[DIM], clicks[IDS] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        c[i] = world_enter(&w, i, (struct rt_client_options){.mode = RT_ASYNC});
    }
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    for (int i = 0; i < IDS * DIM; i++) {
        g[i] = i == 7 * DIM + 2 ? NAN : 1;
    }
    clicks[IDS - 1] = -1;
    assert_int_equal(CO_INVALID, rt_push_sparse_clicks(c[0], 1, ids, IDS, g, clicks, clicks, &err));
    says(&err, CO_INVALID, "table \"rows\", row 49: show -1 is not 0 to 1e9");
    clicks[IDS - 1] = 0;
    for (uint32_t i = 0; i < 2; i++) {
        int rc = i == 0 ? rt_push_sparse(c[1], 1, ids, IDS, g, &err)
                        : rt_push_sparse_clicks(c[1], 1, ids, IDS, g, clicks, clicks, &err);
        if (rc == 0) {
            (void)!rt_flush(c[1], &err);
        }
        says(&err, CO_INVALID, "trainer 1 pushed NaN or Inf to table \"rows\", row 7");
    }
    must(rt_pull_sparse(c[0], 1, ids, IDS, rows, &err));
    for (uint64_t i = 0; i < IDS; i++) {
        assert_int_equal(0, rt_table_init_row(&specs[1], i, first, NULL));
        assert_memory_equal(first, rows + i * DIM, sizeof(first));
    }
    struct rt_table_stat stat;
    must(rt_stat(c[0], 1, &stat, &err));
    assert_int_equal(0, stat.rows);
    assert_int_equal(2, stat.nonfinite);
    rt_client_close(c[1]);
    rt_client_close(c[0]);
    world_stop(&w);
    world_start(&w, 1, 1);
    c[0] = world_enter(&w, 0, (struct rt_client_options){.mode = RT_GEO});
    (void)!rt_push_sparse_clicks(c[0], 1, ids, IDS, g, clicks, clicks, &err);
    says(&err, CO_UNSUPPORTED, "table \"rows\" is in geo mode, which has no shows and clicks");
    rt_client_close(c[0]);
    world_stop(&w);
}

enum way { PUSH, EXCHANGE, INIT, WAYS };

/* What goes in by that way is refused. */
static void refused(enum way way, struct rt_client *c, float *values) {
    static float w[SIZE];
    struct co_err err = {0};
    int rc = way == PUSH       ? rt_push_dense(c, 0, values, &err)
             : way == EXCHANGE ? rt_exchange_dense(c, 0, values, w, &err)
                               : rt_init_dense(c, 0, values, &err);
    if (rc == 0) {
        (void)!rt_flush(c, &err);
    }
    says(&err, CO_INVALID,
        way == INIT ? "trainer 0 gave NaN or Inf as first values to table \"dense\", index 3"
                    : "trainer 0 pushed NaN or Inf to table \"dense\", index 3");
}

/* Its blocks lie on all shards of all servers, and only one of them has something wrong in it. */
static void a_dense_push_that_is_refused_counts_for_nothing(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct client_world w;
        world_start(&w, 2, 2);
        struct co_err err = {0};
        struct rt_client *c[2];
        float values[SIZE];
        for (uint32_t i = 0; i < 2; i++) {
            c[i] = world_enter(&w, i, (struct rt_client_options){.mode = RT_ASYNC});
        }
        for (int i = 0; i < SIZE; i++) {
            values[i] = i == 3 ? NAN : 1;
        }
        refused((enum way)way, c[0], values);
        must(rt_pull_dense(c[1], 0, values, &err));
        for (int i = 0; i < SIZE; i++) {
            assert_true(values[i] == 0);
        }
        struct rt_table_stat stat;
        must(rt_stat(c[1], 0, &stat, &err));
        assert_int_equal(1, stat.nonfinite);
        rt_client_close(c[1]);
        rt_client_close(c[0]);
        world_stop(&w);
    }
}

/* Values of both tables, rows behind them. */
static void read_all(struct rt_client *c, float *ret) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_pull_dense(c, 0, ret, &err));
    must(rt_pull_sparse(c, 1, ids, IDS, ret + SIZE, &err));
}

/* 1 everywhere but for NaN in value 3 and row 7, which comes in two parts. */
static int push_nan(struct rt_client *c, uint32_t table, struct co_err *err) {
    uint64_t ids[IDS + 1];
    float g[SIZE > (IDS + 1) * DIM ? SIZE : (IDS + 1) * DIM];
    for (size_t i = 0; i < CO_ARRAY_LEN(g); i++) {
        g[i] = 1;
    }
    g[table == 0 ? 3 : 7 * DIM + 2] = NAN;
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    ids[IDS] = 7;
    return table == 0 ? rt_push_dense(c, 0, g, err) : rt_push_sparse(c, 1, ids, IDS + 1, g, err);
}

/* The copy that a trainer has in geo mode is as dear as what servers have: a push that they would
 * refuse leaves both as they were, and of one where they would leave a value out it is left out. */
static void a_push_that_servers_refuse_changes_no_local_copy(void **state) {
    (void)state;
    for (int row = 0; row < 4; row++) {
        bool skip = row % 2;
        uint32_t table = (uint32_t)row / 2;
        struct client_world w;
        world_start_with(&w, 2, 2, skip ? RT_NONFINITE_SKIP : RT_NONFINITE_REFUSE);
        struct co_err err = {0};
        struct rt_client *c[2];
        float before[ALL], copy[ALL], after[ALL];
        for (uint32_t i = 0; i < 2; i++) {
            c[i] = world_enter(&w, i, (struct rt_client_options){.mode = RT_GEO, .k_steps = 1});
            read_all(c[i], before);
        }
        int rc = push_nan(c[0], table, &err);
        if (skip) {
            must(rc);
            read_all(c[0], copy);
            must(rt_step(c[0], &err));
            must(rt_flush(c[0], &err));
        } else {
            memcpy(copy, before, sizeof(copy));
            (void)!(rc < 0 ? rc : rt_flush(c[0], &err));
            says(&err, CO_INVALID,
                table == 0 ? "pushed NaN or Inf to table \"dense\", index 3"
                           : "pushed NaN or Inf to table \"rows\", row 7");
        }
        must(rt_flush(c[1], &err));
        read_all(c[1], after);
        for (size_t i = 0; i < ALL; i++) {
            bool other = i < SIZE ? table != 0 || i == 3 : table != 1 || (i - SIZE) / DIM == 7;
            float change = skip && !other ? 0.1F : 0;
            assert_true(fabsf(before[i] - change - copy[i]) < 1e-6F);
            assert_true(fabsf(before[i] - change / 2 - after[i]) < 1e-6F);
        }
        struct rt_table_stat stat;
        must(rt_stat(c[1], table, &stat, &err));
        assert_int_equal(1, stat.nonfinite);
        rt_client_close(c[1]);
        rt_client_close(c[0]);
        world_stop(&w);
    }
}

/* A trainer whose one push was refused gets the error once, and continues: it may save and
 * finish. */
static void a_refusal_is_returned_once(void **state) {
    (void)state;
    static const enum rt_mode modes[] = {RT_ASYNC, RT_SYNC, RT_GEO};
    for (size_t row = 0; row < 3 * CO_ARRAY_LEN(modes); row++) {
        enum rt_mode mode = modes[row / 3];
        struct client_world w;
        struct co_err err = {0};
        float good[SIZE] = {0}, values[ALL];
        good[0] = 1;
        world_start(&w, 2, 1);
        struct rt_client *c = world_enter(
            &w, 0, (struct rt_client_options){.mode = mode, .k_steps = mode == RT_GEO ? 1 : 0});
        if (row % 3 == 2) {
            good[3] = NAN;
            (void)!rt_exchange_dense(c, 0, good, values, &err);
            good[3] = 0;
        } else {
            (void)!push_nan(c, (uint32_t)row % 3, &err);
        }
        (void)!(err.code ? 0 : rt_flush(c, &err));
        says(&err, CO_INVALID, "PADDLE_PS_NONFINITE=skip");
        must(rt_push_dense(c, 0, good, &err));
        must(rt_step(c, &err));
        must(rt_no_more(c, &err));
        read_all(c, values);
        assert_true(fabsf(values[0] + 0.1F) < 1e-6F && values[3] == 0);
        must(rt_finish(c, &err));
        world_end(&w);
    }
}

/* An error that was not returned yet does not keep the model from being saved: finish returns
 * it. */
static void a_save_is_made_whatever_was_refused(void **state) {
    (void)state;
    char dir[] = "/tmp/push-save-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (uint32_t table = 0; table < 2; table++) {
        struct client_world w;
        struct co_err err = {0};
        world_start(&w, 2, 1);
        struct rt_client *c = world_enter(&w, 0, (struct rt_client_options){.mode = RT_ASYNC});
        must(push_nan(c, table, &err));
        must(rt_save(c, dir, &err));
        assert_int_equal(CO_INVALID, rt_finish(c, &err));
        says(&err, CO_INVALID, table == 0 ? "index 3" : "row 7");
        world_end(&w);
    }
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_push_that_is_refused_counts_for_nothing),
        cmocka_unit_test(a_push_that_servers_refuse_changes_no_local_copy),
        cmocka_unit_test(a_refusal_is_returned_once),
        cmocka_unit_test(a_save_is_made_whatever_was_refused),
        cmocka_unit_test(a_push_that_is_refused_counts_for_nothing),
    };
    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
