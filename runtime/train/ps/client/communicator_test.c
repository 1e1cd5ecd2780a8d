/* Async mode with queues: merged pushes come to the same sums, nothing is lost at the end, and
 * waiting callers return when the servers are gone. */
#include <stdlib.h>

#include "runtime/train/ps/client/client_testing.h"

enum { IDS = 50, PUSH = 30, PUSHES = 200 };

static uint64_t seed;

static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % below;
}

static void read_rows(struct rt_client *c, float *rows) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = i * 977;
    }
    must(rt_pull_sparse(c, 1, ids, IDS, rows, &err));
}

/* Random pushes, with ids that repeat within and across them: in whatever order and with whatever
 * they are merged, rows end at their first value less the rate times the sum. */
static void check_sums(struct rt_client_options o) {
    struct client_world w;
    world_start(&w, 2, 1);
    struct co_err err = {0};
    struct rt_client *c = world_enter(&w, 0, o);
    float first[IDS * DIM], rows[IDS * DIM], g[PUSH * DIM];
    double sum[IDS * DIM] = {0};
    uint64_t ids[PUSH];
    read_rows(c, first);
    for (uint32_t p = 0; p < PUSHES; p++) {
        uint32_t n = draw(PUSH + 1);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t which = draw(IDS);
            ids[i] = which * 977;
            for (uint32_t k = 0; k < DIM; k++) {
                g[i * DIM + k] = (float)draw(1000) / 1000.0F - 0.5F;
                sum[which * DIM + k] += (double)g[i * DIM + k];
            }
        }
        must(rt_push_sparse(c, 1, ids, n, g, &err));
    }
    must(rt_flush(c, &err));
    read_rows(c, rows);
    for (uint32_t i = 0; i < IDS * DIM; i++) {
        assert_true(fabs((double)first[i] - 0.1 * sum[i] - (double)rows[i]) < 1e-4);
    }
    must(rt_finish(c, &err));
    world_end(&w);
}

static void merging_does_not_change_the_sum(void **state) {
    (void)state;
    const char *text = getenv("SEED");
    seed = text ? strtoull(text, NULL, 10) : 20261123;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    static const struct rt_client_options options[] = {
        {.mode = RT_ASYNC},
        {.mode = RT_ASYNC, .queue_max = 1},
        {.mode = RT_ASYNC, .merge_max = 2},
        {.mode = RT_ASYNC, .merge_max = 7, .queue_max = 100},
        {.mode = RT_ASYNC, .merge_max = 50, .send_wait_ms = 3, .send_threads = 1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(options); i++) {
        check_sums(options[i]);
    }
}

static uint64_t count_pushes(struct rt_client *c) {
    struct rt_table_stat st;
    struct co_err err = {0};
    must(rt_stat(c, 1, &st, &err));
    return st.pushes;
}

/* Pushes wait a minute for others; three of them are one, and a flush waits for none. */
static void pushes_of_the_same_ids_travel_as_one(void **state) {
    (void)state;
    static const uint64_t ids[] = {3, 4, 4};
    for (int mean = 0; mean < 2; mean++) {
        struct client_world w;
        world_start(&w, 1, 1);
        struct co_err err = {0};
        struct rt_client *c = world_enter(&w, 0,
            (struct rt_client_options){
                .mode = RT_ASYNC, .merge_max = 3, .send_wait_ms = 60000, .merge_mean = mean});
        float g[3 * DIM], before[DIM], after[DIM];
        for (int i = 0; i < 3 * DIM; i++) {
            g[i] = 1;
        }
        must(rt_pull_sparse(c, 1, ids, 1, before, &err));
        for (int i = 0; i < 4; i++) {
            must(rt_push_sparse(c, 1, ids, 3, g, &err));
        }
        must(rt_flush(c, &err));
        assert_int_equal(4, count_pushes(c));
        must(rt_pull_sparse(c, 1, ids, 1, after, &err));
        assert_true(fabsf(before[0] - (mean ? 0.2F : 0.4F) - after[0]) < 1e-6F);
        must(rt_push_sparse(c, 1, ids, 3, g, &err));
        must(rt_finish(c, &err)); /* sends it, too */
        world_end(&w);
    }
}

/* Values come with each fourth gradient only; gradients that wait are averaged if asked for. */
static void values_come_with_some_exchanges_only(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 1, 1);
    struct co_err err = {0};
    struct rt_client *c =
        world_enter(&w, 0, (struct rt_client_options){.mode = RT_ASYNC, .recv_after = 4});
    float g[SIZE], v[SIZE] = {0};
    for (int i = 0; i < SIZE; i++) {
        g[i] = 10;
    }
    must(rt_init_dense(c, 0, v, &err));
    for (int i = 1; i <= 9; i++) {
        must(rt_exchange_dense(c, 0, g, v, &err));
        must(rt_flush(c, &err));
        /* What the fourth brought is seen by the fifth. */
        assert_true(fabsf(v[3] + (float)(i - 1 - (i - 1) % 4)) < 1e-4F);
    }
    struct rt_table_stat st;
    must(rt_stat(c, 0, &st, &err));
    assert_int_equal(9 * SIZE, st.pushes);
    assert_int_equal(3 * SIZE, st.pulls); /* of which one by init */
    must(rt_finish(c, &err));
    world_end(&w);
}

static void *push_until_it_fails(void *arg) {
    struct rt_client *c = arg;
    struct co_err err = {0};
    uint64_t ids[PUSH] = {0};
    float g[PUSH * DIM] = {0};
    while (rt_push_sparse(c, 1, ids, PUSH, g, &err) == 0) {
    }
    says(&err, CO_PEERLOST, "server ");
    (void)!rt_flush(c, &err);
    says(&err, CO_PEERLOST, "server ");
    return NULL;
}

static void a_wait_ends_when_the_server_is_gone(void **state) {
    (void)state;
    struct client_world w;
    world_start(&w, 2, 1);
    /* It asks at the servers' ports again, which are others' soon. */
    struct rt_client *c = world_enter(&w, 0,
        (struct rt_client_options){
            .mode = RT_ASYNC, .merge_max = 2, .queue_max = 2, .return_ms = 300});
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_create(&thread[i], NULL, push_until_it_fails, c));
    }
    while (count_pushes(c) < 100UL * PUSH) {
    }
    world_stop(&w);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
    }
    rt_client_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_does_not_change_the_sum),
        cmocka_unit_test(pushes_of_the_same_ids_travel_as_one),
        cmocka_unit_test(values_come_with_some_exchanges_only),
        cmocka_unit_test(a_wait_ends_when_the_server_is_gone),
    };
    return cmocka_run_group_tests_name("communicator", tests, NULL, NULL);
}
