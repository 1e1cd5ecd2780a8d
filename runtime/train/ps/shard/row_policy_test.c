/* Which rows a sparse table has: admission, eviction, shrinking, and what save modes choose. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/tables_testing.h"

static struct rt_table_spec spec_of(const char *admit, const char *evict) {
    return (struct rt_table_spec){.name = "e",
        .kind = RT_SPARSE,
        .dim = 1,
        .optimizer = "sgd:lr=1",
        .init = "constant:value=5",
        .admit = admit,
        .evict = evict};
}

static void start(struct testing *w, const char *admit, const char *evict, enum rt_mode mode) {
    const struct rt_table_spec spec = spec_of(admit, evict);
    testing_start(w, &spec, 1, mode);
}

static void push(struct testing *w, uint64_t id) {
    if (testing_push_one(w, 0, id, 1) < 0) {
        fail_msg("%s", w->err.msg);
    }
}

static void push_click(struct testing *w, uint64_t id, float show, float click) {
    struct rpc_frame *f = testing_frame(RPC_FRAME_PUSH_CLICKS, 0, 1, 8 + 8 + 4);
    const float numbers[] = {show, click};
    co_put_u64(f->payload, id);
    co_copy_f32(f->payload + 8, numbers, 2);
    assert_null(testing_do(w, f));
}

static void steps_are(struct testing *w, uint64_t steps) {
    rpc_frame_free(testing_call(w, RPC_FRAME_SET_STEPS, 0, steps));
}

/* Shrinks the table from its beginning to its end, as a trainer does. */
static uint64_t shrink(struct testing *w) {
    uint64_t erased = 0, at = 0;
    while (at != UINT64_MAX) {
        struct rpc_frame *a = testing_call(w, RPC_FRAME_SHRINK, 0, at);
        assert_true(a->head.aux > at || (a->head.aux == at && a->head.count > 0));
        erased += a->head.count;
        at = a->head.aux;
        rpc_frame_free(a);
    }
    return erased;
}

/* ---- admission ---- */

/* Until an id has a row, its pushes are only counted, and it reads as zeros. */
static void an_id_gets_its_row_with_the_nth_push(void **unused) {
    static const uint64_t ids[] = {0, 3, UINT64_MAX};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
            struct testing w;
            start(&w, "count:n=3", NULL, (enum rt_mode)mode);
            for (int k = 1; k <= 4; k++) {
                push(&w, ids[i]);
                assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
                assert_int_equal(k >= 3, testing_has(&w, 0, ids[i]));
                assert_true(testing_pull_one(&w, 0, ids[i]) == (k < 3 ? 0 : (float)(7 - k)));
            }
            assert_int_equal(4, w.t.tables[0].pushes);
            testing_end(&w);
        }
    }
}

/* Equal ids of one push are as many pushes. */
static void rows_of_one_push_are_admitted_one_by_one(void **unused) {
    static const uint64_t ids[] = {8, 9, 8};
    static const float g[] = {1, 2, 4};
    (void)unused;
    struct testing w;
    start(&w, "count:n=2", NULL, RT_ASYNC);
    assert_int_equal(0, testing_push(&w, 0, ids, 3, g));
    assert_true(testing_has(&w, 0, 8) && !testing_has(&w, 0, 9));
    assert_true(testing_pull_one(&w, 0, 8) == 5 - 4); /* the gradient of its second push */
    assert_int_equal(0, testing_push(&w, 0, ids + 1, 1, g + 1));
    assert_true(testing_pull_one(&w, 0, 9) == 5 - 2);
    testing_end(&w);
}

static void show_click_admits_by_score(void **unused) {
    static const struct {
        float show, click;
        int pushes; /* with which the row comes */
    } rows[] = {{1, 1, 2}, {2, 2, 1}, {10, 0, 2}, {20, 0, 1}, {1, 0, 20}};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct testing w;
        start(&w, "show_click:threshold=1.99,nonclk_coeff=0.1,click_coeff=1", NULL, RT_ASYNC);
        for (int k = 1; k <= rows[i].pushes; k++) {
            push_click(&w, 6, rows[i].show, rows[i].click);
            assert_int_equal(k == rows[i].pushes, testing_has(&w, 0, 6));
        }
        testing_end(&w);
    }
}

static void probability_admits_none_or_all(void **unused) {
    (void)unused;
    for (int p = 0; p <= 1; p++) {
        struct testing w;
        start(&w, p ? "probability:p=1" : "probability:p=0", NULL, RT_ASYNC);
        for (uint64_t id = 0; id < 100; id++) {
            push(&w, id);
        }
        assert_int_equal(p ? 100 : 0, testing_count(&w, 0));
        testing_end(&w);
    }
}

/* ---- lfu ---- */

enum { CAPACITY = 100 };

static void lfu_rows_never_exceed_the_capacity(void **unused) {
    enum { MOST = 60 };
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        uint64_t seed = 1;
        start(&w, NULL, "lfu:capacity=100", (enum rt_mode)mode);
        for (int k = 0; k < 500; k++) {
            uint64_t ids[MOST];
            float g[MOST] = {0};
            uint32_t n = 0;
            for (uint64_t id = 0; id < 300 && n < MOST; id++) { /* each id once, as trainers do */
                seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
                ids[n] = id;
                n += (seed >> 33) % 6 == 0;
            }
            assert_int_equal(0, testing_push(&w, 0, ids, n, g));
            if (testing_count(&w, 0) > CAPACITY) {
                fail_msg("push %d: %zu rows", k, testing_count(&w, 0));
            }
            for (uint32_t i = 0; i < n; i++) {
                assert_true(testing_has(&w, 0, ids[i]));
            }
            assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
        }
        assert_int_equal(CAPACITY, testing_count(&w, 0));
        testing_end(&w);
    }
}

/* A shard has its part of the capacity, and at least a row. */
static void lfu_capacity_is_divided_among_the_shards(void **unused) {
    static const struct {
        const char *evict;
        uint32_t servers, shards;
        size_t rows;
    } rows[] = {{"lfu:capacity=100", 1, 1, 100}, {"lfu:capacity=100", 5, 2, 10},
        {"lfu:capacity=1", 1, 1, 1}, {"lfu:capacity=1", 2, 2, 1}, {"lfu:capacity=7", 1, 2, 3}};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct rt_table_spec spec = spec_of(NULL, rows[i].evict);
        struct testing w;
        testing_make(&w, &spec, 1, RT_ASYNC);
        w.config.servers = rows[i].servers;
        w.config.shards = rows[i].shards;
        testing_open(&w);
        for (uint64_t id = 0; id < 3000; id++) {
            if (ps_sparse_server(id, rows[i].servers) == 0 &&
                ps_sparse_shard(id, rows[i].shards) == 0) {
                push(&w, id);
                assert_true(testing_count(&w, 0) <= rows[i].rows && testing_has(&w, 0, id));
            }
        }
        assert_int_equal(rows[i].rows, testing_count(&w, 0));
        testing_end(&w);
    }
}

/* Rows that are pushed to often stay when others come once. */
static void lfu_keeps_what_is_pushed_often(void **unused) {
    (void)unused;
    struct testing w;
    start(&w, NULL, "lfu:capacity=100", RT_ASYNC);
    for (uint64_t k = 0; k < 2000; k++) {
        push(&w, k % 10); /* ten of them */
        push(&w, 1000 + k);
    }
    for (uint64_t id = 0; id < 10; id++) {
        assert_true(testing_has(&w, 0, id));
        assert_true(testing_pull_one(&w, 0, id) == 5 - 200);
    }
    testing_end(&w);
}

/* Not even the one that was pushed to least; and a push of more than the table may have. */
static void lfu_spares_the_rows_of_a_push(void **unused) {
    enum { MOST = 2 * CAPACITY };
    uint64_t ids[MOST];
    float g[MOST];
    (void)unused;
    for (uint32_t n = 2; n <= MOST; n += 33) {
        struct testing w;
        start(&w, NULL, "lfu:capacity=100", RT_ASYNC);
        for (uint64_t id = 0; id < CAPACITY; id++) {
            push(&w, id);
            for (int k = 0; k < 3 && id > 0; k++) {
                push(&w, id);
            }
        }
        for (uint32_t i = 0; i < n; i++) { /* the first is old, the last one new */
            ids[i] = i + 1 < n && i < CAPACITY ? i : 1000 + i;
            g[i] = 1;
        }
        assert_int_equal(0, testing_push(&w, 0, ids, n, g));
        for (uint32_t i = 0; i < n; i++) {
            float left = ids[i] == 0 ? 5 - 2 : ids[i] < CAPACITY ? 5 - 5 : 5 - 1;
            assert_true(testing_pull_one(&w, 0, ids[i]) == left);
        }
        assert_int_equal(n < CAPACITY ? CAPACITY : n, testing_count(&w, 0));
        testing_end(&w);
    }
}

/* An id whose row was evicted is like one that never had a row. */
static void an_evicted_row_begins_with_its_initial_values(void **unused) {
    (void)unused;
    struct testing w;
    start(&w, NULL, "lfu:capacity=1", RT_ASYNC);
    push(&w, 1);
    push(&w, 1);
    assert_true(testing_pull_one(&w, 0, 1) == 3);
    push(&w, 2);
    assert_true(testing_pull_one(&w, 0, 1) == 5 && !testing_has(&w, 0, 1));
    push(&w, 1);
    assert_true(testing_pull_one(&w, 0, 1) == 4);
    testing_end(&w);
}

/* Gradients of rows that were evicted since the push are dropped. */
static void a_step_leaves_out_rows_that_were_evicted(void **unused) {
    (void)unused;
    struct testing w;
    start(&w, NULL, "lfu:capacity=1", RT_SYNC);
    push(&w, 1);
    push(&w, 2);
    assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
    assert_true(!testing_has(&w, 0, 1) && testing_pull_one(&w, 0, 2) == 4);
    push(&w, 1);
    assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
    assert_true(testing_pull_one(&w, 0, 1) == 4); /* not with what was dropped */
    testing_end(&w);
}

/* ---- ttl ---- */

static void ttl_erases_what_was_not_pushed_to_for_longer(void **unused) {
    static const struct {
        uint64_t now;
        size_t rows; /* of three, pushed to at 100, 104 and 108 */
    } want[] = {{108, 3}, {110, 3}, {111, 2}, {114, 2}, {115, 1}, {118, 1}, {119, 0}};
    (void)unused;
    struct testing w;
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        start(&w, NULL, "ttl:steps=10", RT_ASYNC);
        for (uint64_t id = 0; id < 3; id++) {
            steps_are(&w, 100 + 4 * id);
            push(&w, id);
        }
        steps_are(&w, want[i].now);
        assert_int_equal(3 - want[i].rows, shrink(&w));
        assert_int_equal(want[i].rows, testing_count(&w, 0));
        assert_int_equal(want[i].rows > 0, testing_has(&w, 0, 2));
        testing_end(&w);
    }
}

/* A push renews its row; each push looks at some others. */
static void ttl_sweeps_a_few_rows_with_each_push(void **unused) {
    enum { ROWS = 1000 };
    (void)unused;
    struct testing w;
    start(&w, NULL, "ttl:steps=10", RT_ASYNC);
    for (uint64_t id = 0; id < ROWS; id++) {
        push(&w, id);
    }
    steps_are(&w, 11);
    size_t before = testing_count(&w, 0);
    assert_int_equal(ROWS, before);
    for (int k = 0; before > 1; k++) {
        assert_true(k < 2 * ROWS);
        push(&w, UINT64_MAX);
        size_t now = testing_count(&w, 0);
        assert_true(k == 0 || before - now <= 2);
        before = now;
    }
    assert_true(testing_has(&w, 0, UINT64_MAX));
    steps_are(&w, 0); /* back to a checkpoint: no row is older than that */
    assert_int_equal(0, shrink(&w));
    testing_end(&w);
}

/* ---- ctr ---- */

/* delete_threshold 1, decay 0.5, coefficients 0.1 and 1: a row's score is
 * (show - click) / 10 + click. */
static void ctr_shrink_decays_and_erases(void **unused) {
    static const struct {
        float show, click;
        int shrinks; /* with which the row goes */
    } rows[] = {{1, 1, 1}, {2, 2, 2}, {20, 0, 2}, {40, 0, 3}, {16, 16, 5}};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct testing w;
        start(&w, NULL, "ctr:delete_threshold=1,show_click_decay_rate=0.5", RT_ASYNC);
        push_click(&w, 1, rows[i].show, rows[i].click);
        for (int k = 1; k <= rows[i].shrinks; k++) {
            assert_int_equal(k == rows[i].shrinks, shrink(&w));
            assert_int_equal(k < rows[i].shrinks, testing_count(&w, 0));
        }
        testing_end(&w);
    }
}

static uint32_t scan(struct testing *w, enum rt_save_mode mode) {
    struct rpc_frame *a = testing_do(w, testing_frame(RPC_FRAME_SCAN_SPARSE, 0, mode, 0));
    uint32_t n = a->head.count;
    assert_true(a->head.aux == UINT64_MAX);
    rpc_frame_free(a);
    return n;
}

/* base_threshold 1, delta_threshold 0.5, delta_keep_days 2, as docs/checkpoints.md has them. */
static void save_modes_choose_rows_by_their_scores(void **unused) {
    static const char ctr[] =
        "ctr:base_threshold=1,delta_threshold=0.5,delta_keep_days=2,"
        "delete_threshold=0,delete_after_unseen_days=3,show_click_decay_rate=1";
    (void)unused;
    struct testing w;
    start(&w, NULL, ctr, RT_ASYNC);
    push_click(&w, 1, 4, 4);    /* score 4 */
    push_click(&w, 2, 0.9F, 0); /* 0.09: below base */
    assert_int_equal(2, scan(&w, RT_SAVE_ALL));
    assert_int_equal(1, scan(&w, RT_SAVE_DELTA));
    assert_int_equal(0, scan(&w, RT_SAVE_DELTA)); /* nothing since */
    assert_int_equal(1, scan(&w, RT_SAVE_BASE));
    push_click(&w, 1, 1, 0); /* 0.1: less than delta */
    assert_int_equal(0, scan(&w, RT_SAVE_DELTA));
    push_click(&w, 1, 1, 1);
    assert_int_equal(1, scan(&w, RT_SAVE_DELTA));
    for (int day = 1; day <= 3; day++) {
        assert_int_equal(2, scan(&w, RT_SAVE_DAY));
        assert_int_equal(day <= 2, scan(&w, RT_SAVE_BASE));
        assert_int_equal(0, shrink(&w));
    }
    push_click(&w, 2, 0, 0); /* a push ends the days unseen */
    assert_int_equal(2, scan(&w, RT_SAVE_DAY));
    assert_int_equal(1, shrink(&w));
    assert_true(testing_has(&w, 0, 2));
    testing_end(&w);
}

/* ---- shrink ---- */

static void shrink_without_a_policy_is_refused(void **unused) {
    (void)unused;
    struct testing w;
    start(&w, NULL, NULL, RT_ASYNC);
    assert_int_equal(
        CO_INVALID, testing_ask(&w, 0, testing_frame(RPC_FRAME_SHRINK, 0, 0, 0), NULL));
    assert_string_equal("table \"e\" has no evict policy", w.err.msg);
    testing_end(&w);
}

/* Loads n rows that have expired or, with lfu, are too many. */
static void load_rows(struct testing *w, uint32_t n) {
    size_t floats = shard_row_floats(&w->t.tables[0]);
    struct rpc_frame *f = testing_frame(RPC_FRAME_RESTORE_SPARSE, 0, n, n * (8 + 4 * floats));
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + 8UL * i, i);
    }
    assert_null(testing_do(w, f));
}

/* A part of a shrink looks at 32768 slots. */
static void shrink_goes_over_all_parts_of_a_table(void **unused) {
    enum { ROWS = 100000 };
    (void)unused;
    struct testing w;
    start(&w, NULL, "ttl:steps=10", RT_ASYNC);
    load_rows(&w, ROWS);
    assert_int_equal(0, shrink(&w));
    steps_are(&w, 11);
    assert_int_equal(ROWS, shrink(&w));
    assert_int_equal(0, testing_count(&w, 0));
    assert_int_equal(0, shrink(&w)); /* of an empty table */
    struct rpc_frame *a = testing_call(&w, RPC_FRAME_SHRINK, 0, UINT64_MAX - 1);
    assert_true(a->head.aux == UINT64_MAX && a->head.count == 0);
    rpc_frame_free(a);
    testing_end(&w);
}

/* Each second answer is lost on its way, and its request comes again: then the shrink is not
 * repeated, but continues where it would have. */
static void shrink_with_lost_answers(struct testing *w) {
    uint64_t at = 0;
    for (unsigned part = 0; at != UINT64_MAX; part++) {
        struct rpc_frame *f = testing_frame(RPC_FRAME_SHRINK, 0, 0, 0), *a = NULL;
        f->head.aux = at;
        assert_int_equal(0, shard_tables_do(&w->t, 0, f, &a, NULL));
        if (part % 2 == 0) {
            rpc_frame_free(co_steal_ptr(a));
            assert_int_equal(0, shard_shrunk(&w->t, f, &a, NULL));
            assert_int_equal(0, a->head.count);
        }
        at = a->head.aux;
        rpc_frame_free(f);
        rpc_frame_free(a);
    }
}

static void shrink_whose_answers_are_lost_erases_all(void **unused) {
    enum { ROWS = 70000 };
    static const struct {
        const char *evict;
        size_t left;
    } rows[] = {{"ttl:steps=10", 0}, {"lfu:capacity=100", CAPACITY}};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct testing w;
        start(&w, NULL, rows[i].evict, RT_ASYNC);
        load_rows(&w, ROWS);
        steps_are(&w, 11);
        shrink_with_lost_answers(&w);
        assert_int_equal(rows[i].left, testing_count(&w, 0));
        testing_end(&w);
    }
}

static void lfu_shrink_leaves_the_capacity(void **unused) {
    (void)unused;
    struct testing w;
    start(&w, NULL, "lfu:capacity=100", RT_ASYNC);
    load_rows(&w, 50000);
    assert_int_equal(50000 - CAPACITY, shrink(&w));
    assert_int_equal(CAPACITY, testing_count(&w, 0));
    assert_int_equal(0, shrink(&w));
    testing_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_gets_its_row_with_the_nth_push),
        cmocka_unit_test(rows_of_one_push_are_admitted_one_by_one),
        cmocka_unit_test(show_click_admits_by_score),
        cmocka_unit_test(probability_admits_none_or_all),
        cmocka_unit_test(lfu_rows_never_exceed_the_capacity),
        cmocka_unit_test(lfu_capacity_is_divided_among_the_shards),
        cmocka_unit_test(lfu_keeps_what_is_pushed_often),
        cmocka_unit_test(lfu_spares_the_rows_of_a_push),
        cmocka_unit_test(an_evicted_row_begins_with_its_initial_values),
        cmocka_unit_test(a_step_leaves_out_rows_that_were_evicted),
        cmocka_unit_test(ttl_erases_what_was_not_pushed_to_for_longer),
        cmocka_unit_test(ttl_sweeps_a_few_rows_with_each_push),
        cmocka_unit_test(ctr_shrink_decays_and_erases),
        cmocka_unit_test(save_modes_choose_rows_by_their_scores),
        cmocka_unit_test(shrink_without_a_policy_is_refused),
        cmocka_unit_test(shrink_goes_over_all_parts_of_a_table),
        cmocka_unit_test(shrink_whose_answers_are_lost_erases_all),
        cmocka_unit_test(lfu_shrink_leaves_the_capacity),
    };
    return cmocka_run_group_tests_name("row policy", tests, NULL, NULL);
}
