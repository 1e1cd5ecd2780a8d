/* Pushes to sparse tables: what each id gets, and that a push that is refused changes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/ps/finite.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/tables_testing.h"

enum { MANY = 5000 };

/* A row begins at 5 and goes down by its gradients. */
static const struct rt_table_spec plain = {
    .name = "e", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd:lr=1", .init = "constant:value=5"};

static const float *row_of(const struct testing *w, uint64_t id) {
    uint32_t slot = table_store_find(w->t.tables[0].rows, id);
    assert_true(slot != TABLE_SLOT_NONE);
    return table_store_values(w->t.tables[0].rows, slot);
}

static void assert_row(const struct testing *w, uint64_t id, float first, float second) {
    const float *row = row_of(w, id);
    if (row[0] != first || row[1] != second) {
        fail_msg("row %llu is %g %g, expected %g %g", (unsigned long long)id, (double)row[0],
            (double)row[1], (double)first, (double)second);
    }
}

/* ---- rows and gradients ---- */

static void push_updates_each_row_by_its_gradient(void **unused) {
    static const uint64_t ids[] = {7, 0, UINT64_MAX, UINT64_MAX - 1, UINT32_MAX, 1};
    static const float g[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, &plain, 1, (enum rt_mode)mode);
        assert_int_equal(0, testing_push(&w, 0, ids, CO_ARRAY_LEN(ids), g));
        if (mode == RT_SYNC) { /* the rows are there with their initial values until the step */
            for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
                assert_row(&w, ids[i], 5, 5);
            }
            assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
        }
        for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
            assert_row(&w, ids[i], 5 - g[2 * i], 5 - g[2 * i + 1]);
        }
        assert_int_equal(CO_ARRAY_LEN(ids), testing_count(&w, 0));
        assert_int_equal(CO_ARRAY_LEN(ids), w.t.tables[0].pushes);
        testing_end(&w);
    }
}

static void push_of_no_rows_changes_nothing(void **unused) {
    static const uint8_t kinds[] = {
        RPC_FRAME_PUSH_SPARSE, RPC_FRAME_PUSH_CLICKS, RPC_FRAME_PULL_SPARSE};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, &plain, 1, (enum rt_mode)mode);
        for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
            struct rpc_frame *a = testing_do(&w, testing_frame(kinds[i], 0, 0, 0));
            assert_true(!a || a->head.bytes == 0);
            rpc_frame_free(a);
        }
        assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
        assert_int_equal(0, testing_count(&w, 0));
        testing_end(&w);
    }
}

static void push_of_many_rows_reaches_all(void **unused) {
    (void)unused;
    CO_AUTOFREE uint64_t *ids = co_xcalloc(MANY, sizeof(*ids));
    CO_AUTOFREE float *g = co_xcalloc(2UL * MANY, sizeof(*g));
    for (uint32_t i = 0; i < MANY; i++) {
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        g[2 * i] = (float)i;
        g[2 * i + 1] = -(float)i;
    }
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, &plain, 1, (enum rt_mode)mode);
        for (int k = 1; k <= 2; k++) {
            assert_int_equal(0, testing_push(&w, 0, ids, MANY, g));
            assert_int_equal(0, mode == RT_SYNC ? shard_tables_step(&w.t, 1, NULL) : 0);
            for (uint32_t i = 0; i < MANY; i++) {
                assert_row(&w, ids[i], 5 - (float)k * (float)i, 5 + (float)k * (float)i);
            }
        }
        testing_end(&w);
    }
}

/* All gradients of an id count, as if they had come one after another. */
static void push_adds_up_equal_ids(void **unused) {
    static const uint64_t ids[] = {9, 4, 9, 9, 4};
    static const float g[] = {1, 10, 2, 20, 4, 40, 8, 80, 16, 160};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, &plain, 1, (enum rt_mode)mode);
        assert_int_equal(0, testing_push(&w, 0, ids, CO_ARRAY_LEN(ids), g));
        assert_int_equal(0, mode == RT_SYNC ? shard_tables_step(&w.t, 1, NULL) : 0);
        assert_int_equal(2, testing_count(&w, 0));
        assert_row(&w, 9, 5 - 13, 5 - 130);
        assert_row(&w, 4, 5 - 18, 5 - 180);
        testing_end(&w);
    }
}

/* sum over trainers / number of trainers, also for rows that only some pushed to. */
static void step_applies_the_mean_once(void **unused) {
    static const float one[] = {2, 4}, other[] = {6, 8};
    static const uint64_t both = 1, single = 2;
    (void)unused;
    struct testing w;
    testing_start(&w, &plain, 1, RT_SYNC);
    assert_int_equal(0, testing_push(&w, 0, &both, 1, one));
    assert_int_equal(0, testing_push(&w, 0, &both, 1, other));
    assert_int_equal(0, testing_push(&w, 0, &single, 1, other));
    for (int i = 0; i < 2; i++) { /* the second step has no pushes */
        assert_int_equal(0, shard_tables_step(&w.t, 2, NULL));
        assert_row(&w, both, 5 - 4, 5 - 6);
        assert_row(&w, single, 5 - 3, 5 - 4);
    }
    testing_end(&w);
}

/* In geo mode trainers send differences, which are added up. */
static void geo_step_adds_differences(void **unused) {
    struct rt_table_spec spec = plain;
    static const float d[] = {1, -2};
    static const uint64_t id = 3;
    (void)unused;
    spec.mode = RT_GEO;
    struct testing w;
    testing_start(&w, &spec, 1, RT_GEO);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, testing_push(&w, 0, &id, 1, d));
    }
    assert_row(&w, id, 5 + 2, 5 - 4);
    testing_end(&w);
}

/* Values and gradients that all types have exactly. */
static void push_reads_every_type_of_the_wire(void **unused) {
    static const char *const types[] = {"f32", "f16", "bf16"};
    static const float g[] = {0.5F, -2, 4, -0.25F};
    static const uint64_t ids[] = {3, 8};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(types) * CO_ARRAY_LEN(types) * 2; i++) {
        struct rt_table_spec spec = plain;
        spec.storage = types[i % 3];
        spec.wire = types[i / 3 % 3];
        bool sync = i / 9;
        struct testing w;
        testing_start(&w, &spec, 1, sync ? RT_SYNC : RT_ASYNC);
        enum rt_dtype wire = w.tables[0].wire;
        size_t size = table_storage_size(wire);
        struct rpc_frame *f = testing_frame(RPC_FRAME_PUSH_SPARSE, 0, 2, 2 * 8 + 4 * size);
        co_put_u64(f->payload, ids[0]);
        co_put_u64(f->payload + 8, ids[1]);
        table_narrow(wire, f->payload + 16, g, 4);
        rpc_frame_free(testing_do(&w, f));
        assert_int_equal(0, sync ? shard_tables_step(&w.t, 1, NULL) : 0);
        f = testing_do(&w, testing_rows(RPC_FRAME_PULL_SPARSE, 0, ids, 2, NULL, 0));
        float got[4];
        assert_int_equal(4 * size, f->head.bytes);
        table_widen(wire, got, f->payload, 4);
        rpc_frame_free(f);
        for (size_t k = 0; k < 4; k++) {
            assert_true(got[k] == 5 - g[k]);
        }
        testing_end(&w);
    }
}

/* ---- what is refused ---- */

static struct rpc_frame *clicks_of(const uint64_t *ids, uint32_t n, const float *show_click) {
    struct rpc_frame *f = testing_frame(RPC_FRAME_PUSH_CLICKS, 0, n, n * (8 + 8 + 8UL));
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + 8UL * i, ids[i]);
    }
    co_copy_f32(f->payload + 8UL * n, show_click, 2UL * n);
    return f;
}

static void push_checks_shows_and_clicks(void **unused) {
    static const uint64_t ids[] = {6, 5};
    static const struct {
        float show, click; /* of the second id */
        const char *said;  /* NULL: fine */
    } rows[] = {
        {0, 0, NULL},
        {PS_CLICKS_MAX, PS_CLICKS_MAX, NULL},
        {1, 2, NULL}, /* more clicks than shows: the user's numbers */
        {-1, 0, "table \"e\", row 5: show -1 is not 0 to 1e9"},
        {0, -0.5F, "table \"e\", row 5: click -0.5 is not 0 to 1e9"},
        {1.5e9F, 0, "table \"e\", row 5: show 1.5e+09 is not 0 to 1e9"},
        {0, NAN, "table \"e\", row 5: click nan is not 0 to 1e9"},
        {INFINITY, 0, "table \"e\", row 5: show inf is not 0 to 1e9"},
    };
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const float numbers[] = {1, 1, rows[i].show, rows[i].click};
        struct testing w;
        testing_start(&w, &plain, 1, RT_ASYNC);
        int rc = testing_ask(&w, 0, clicks_of(ids, 2, numbers), NULL);
        assert_int_equal(rows[i].said ? CO_INVALID : 0, rc);
        assert_int_equal(rows[i].said ? 0 : 2, testing_count(&w, 0));
        assert_string_equal(rows[i].said ? rows[i].said : "", w.err.msg);
        testing_end(&w);
    }
}

/* Of sizes that do not fit, and of rows that another shard owns. */
static void push_that_is_refused_changes_nothing(void **unused) {
    static const struct {
        uint8_t kind;
        uint32_t count, bytes;
        uint64_t id; /* of the last row */
        const char *said;
    } rows[] = {
        {RPC_FRAME_PUSH_SPARSE, 2, 24, 1, "24 bytes for 2 rows of table \"e\" with dim 2"},
        {RPC_FRAME_PUSH_SPARSE, 1, 32, 1, "32 bytes for 1 rows of table \"e\" with dim 2"},
        {RPC_FRAME_PUSH_SPARSE, 0, 16, 1, "16 bytes for 0 rows of table \"e\" with dim 2"},
        {RPC_FRAME_PUSH_CLICKS, 2, 32, 1, "32 bytes for 2 rows of table \"e\" with dim 2"},
        {RPC_FRAME_RESTORE_SPARSE, 2, 48, 1, "48 bytes for 2 rows of table \"e\" with dim 2"},
        {RPC_FRAME_PUSH_SPARSE, 2, 32, 0, "id %llu does not belong to shard 1 of server 2"},
        {RPC_FRAME_PUSH_CLICKS, 2, 48, 0, "id %llu does not belong to shard 1 of server 2"},
        {RPC_FRAME_RESTORE_SPARSE, 2, 32, 0, "id %llu does not belong to shard 1 of server 2"},
    };
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct testing w;
        testing_make(&w, &plain, 1, RT_SYNC);
        w.config = (struct shard_config){.shards = 2,
            .index = 1,
            .servers = 3,
            .server = 2,
            .trainers = 2,
            .mode = RT_SYNC,
            .tables = w.tables,
            .n_tables = 1,
            .budget = &w.budget};
        testing_open(&w);
        uint64_t mine = 0, other = 0;
        while (ps_sparse_server(mine, 3) != 2 || ps_sparse_shard(mine, 2) != 1) {
            mine++;
        }
        while (ps_sparse_server(other, 3) == 2 && ps_sparse_shard(other, 2) == 1) {
            other++;
        }
        struct rpc_frame *f = testing_frame(rows[i].kind, 0, rows[i].count, rows[i].bytes);
        co_put_u64(f->payload, mine);
        co_put_u64(f->payload + 8, rows[i].id ? mine : other);
        char said[128];
        if (rows[i].id) {
            (void)snprintf(said, sizeof(said), "%s", rows[i].said);
        } else {
            (void)snprintf(said, sizeof(said), "id %llu does not belong to shard 1 of server 2",
                (unsigned long long)other);
        }
        assert_int_equal(CO_INVALID, testing_ask(&w, 0, f, NULL));
        if (!strstr(w.err.msg, said)) {
            fail_msg("row %zu: '%s' does not say %s", i, w.err.msg, said);
        }
        assert_int_equal(0, testing_count(&w, 0));
        assert_int_equal(0, table_store_rows(w.t.tables[0].sums));
        assert_int_equal(0, w.t.tables[0].pushes);
        testing_end(&w);
    }
}

/* Ids 0 to 4; the gradients of `bad` have one value that is not finite. */
static int push_five(struct testing *w, const bool bad[5], float value) {
    static const uint64_t ids[] = {0, 1, 2, 3, 4};
    float g[10];
    for (size_t i = 0; i < 10; i++) {
        size_t id = i / 2;
        g[i] = bad[id] && i % 2 ? value : (float)(id + 1);
    }
    return testing_push(w, 0, ids, 5, g);
}

static void rows_that_are_not_finite_are_left_out_alone(void **unused) {
    static const bool bad[][5] = {{true, false, true, false, false},
        {false, false, false, false, true}, {true, true, true, true, true},
        {false, false, false, false, false}};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        for (size_t k = 0; k < CO_ARRAY_LEN(bad); k++) {
            struct testing w;
            testing_make(&w, &plain, 1, (enum rt_mode)mode);
            w.config.nonfinite = RT_NONFINITE_SKIP;
            testing_open(&w);
            assert_int_equal(0, push_five(&w, bad[k], k % 2 ? NAN : -INFINITY));
            assert_int_equal(0, mode == RT_SYNC ? shard_tables_step(&w.t, 1, NULL) : 0);
            uint64_t left_out = 0;
            for (size_t i = 0; i < 5; i++) {
                left_out += bad[k][i];
                assert_int_equal(!bad[k][i], testing_has(&w, 0, i));
                if (!bad[k][i]) {
                    assert_row(&w, i, 4 - (float)i, 4 - (float)i);
                }
            }
            assert_int_equal(left_out, w.t.tables[0].nonfinite);
            testing_end(&w);
        }
    }
}

static void push_that_is_not_finite_is_refused_as_a_whole(void **unused) {
    static const bool bad[5] = {false, false, false, true, false};
    static const enum rt_nonfinite policies[] = {RT_NONFINITE_UNSET, RT_NONFINITE_REFUSE};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(policies); i++) {
            struct testing w;
            testing_make(&w, &plain, 1, (enum rt_mode)mode);
            w.config.nonfinite = policies[i];
            testing_open(&w);
            assert_int_equal(CO_INVALID, push_five(&w, bad, NAN));
            assert_string_equal(
                "trainer 0 pushed NaN or Inf to table \"e\", row 3; refused (servers "
                "with PADDLE_PS_NONFINITE=skip leave it out)",
                w.err.msg);
            assert_int_equal(0, testing_count(&w, 0));
            testing_end(&w);
        }
    }
}

/* As in Paddle, the square of a large gradient is infinite, and the row learns no more: it is
 * counted once, whatever comes after it. */
static void rows_that_overflow_are_counted(void **unused) {
    static const struct {
        const char *rule, *storage;
        float g;
        bool values; /* that they overflow, too */
    } rows[] = {{"adagrad:lr=0.1", NULL, 2e19F, false}, {"adagrad_row:lr=0.1", NULL, -2e19F, false},
        {"adam:lr=0.1", NULL, 1e21F, false}, {"adagrad:lr=0.1", "f16", 2e19F, false},
        {"sgd:lr=10", NULL, 1e38F, true}};
    const uint64_t id = 7, other = 8;
    (void)unused;
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        struct testing w;
        struct rt_table_spec spec = plain;
        spec.optimizer = rows[i / 2].rule;
        spec.storage = rows[i / 2].storage;
        testing_start(&w, &spec, 1, i % 2 ? RT_SYNC : RT_ASYNC);
        for (int step = 0; step < 6; step++) {
            bool large = step == 2 || step == 4;
            assert_int_equal(0, testing_push_one(&w, 0, id, large ? rows[i / 2].g : 1));
            assert_int_equal(0, testing_push_one(&w, 0, other, 1));
            assert_int_equal(0, i % 2 ? shard_tables_step(&w.t, 1, NULL) : 0);
            assert_int_equal(step >= 2, w.t.tables[0].nonfinite);
            assert_false(w.t.tables[0].large);
        }
        assert_true(isfinite(testing_pull_one(&w, 0, id)) == !rows[i / 2].values);
        assert_true(isfinite(testing_pull_one(&w, 0, other)));
        testing_end(&w);
    }
}

/* A gradient that is large, but not too large, counts as none; nor does any where all are allowed.
 */
static void large_gradients_are_not_overflows(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct testing w;
        struct rt_table_spec spec = plain;
        spec.optimizer = "adagrad:lr=0.1";
        testing_make(&w, &spec, 1, RT_ASYNC);
        w.config.nonfinite = i == 0 ? RT_NONFINITE_REFUSE : RT_NONFINITE_ALLOW;
        testing_open(&w);
        assert_int_equal(0, testing_push_one(&w, 0, 7, i == 0 ? 1e18F : 2e19F));
        assert_int_equal(0, w.t.tables[0].nonfinite);
        testing_end(&w);
    }
}

/* ... and a row to which trainers in geo mode add too much stays as it was: they follow it. */
static void a_row_of_geo_mode_does_not_overflow(void **unused) {
    struct testing w;
    struct rt_table_spec spec = plain;
    (void)unused;
    spec.mode = RT_GEO;
    testing_start(&w, &spec, 1, RT_GEO);
    assert_int_equal(0, testing_push_one(&w, 0, 7, 3e38F));
    assert_row(&w, 7, 3e38F, 3e38F);
    assert_int_equal(0, testing_push_one(&w, 0, 7, 1e38F));
    assert_row(&w, 7, 3e38F, 3e38F);
    assert_int_equal(1, w.t.tables[0].nonfinite);
    assert_int_equal(0, testing_push_one(&w, 0, 7, -3e38F));
    assert_row(&w, 7, 0, 0);
    testing_end(&w);
}

/* ---- memory ---- */

/* Sums of a step need memory as rows do.  Rows that a push made go with it. */
static void push_without_memory_leaves_no_rows(void **unused) {
    static const struct rt_table_spec specs[] = {
        {.name = "e", .kind = RT_SPARSE, .dim = 60, .optimizer = "sgd"}};
    enum { PUSH = 60, ROOM = 256 << 10 };
    (void)unused;
    for (size_t max = ROOM; max < ROOM + (128 << 10); max += 16 << 10) {
        for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
            struct testing w;
            uint64_t ids[PUSH];
            float g[PUSH * 60] = {0};
            unsigned refused = 0;
            testing_make(&w, specs, 1, (enum rt_mode)mode);
            w.budget.max = max;
            testing_open(&w);
            for (uint64_t k = 0; k < 40; k++) {
                for (uint64_t i = 0; i < PUSH; i++) {
                    ids[i] = k * PUSH + i;
                }
                size_t rows = testing_count(&w, 0);
                int rc = testing_push(&w, 0, ids, PUSH, g);
                assert_true(rc == 0 || rc == CO_NORESOURCE);
                assert_int_equal(rows + (rc == 0 ? PUSH : 0), testing_count(&w, 0));
                assert_int_equal(rc == 0, testing_has(&w, 0, ids[PUSH - 1]));
                assert_true(rc == 0 || (strstr(w.err.msg, "table \"e\"") &&
                                           strstr(w.err.msg, "up to 60 new ones")));
                refused += rc < 0;
            }
            assert_in_range(refused, 1, 39);
            assert_true(atomic_load(&w.budget.used) <= max);
            testing_end(&w);
        }
    }
}

/* ---- restores by frames ---- */

/* What a scan gave is taken back: values, state, counts; also over rows that are there. */
static void restored_rows_are_those_that_a_scan_gave(void **unused) {
    static const struct rt_table_spec spec = {.name = "e",
        .kind = RT_SPARSE,
        .dim = 2,
        .optimizer = "adagrad:lr=1",
        .init = "zero",
        .evict = "lfu:capacity=100"};
    (void)unused;
    struct testing w;
    testing_start(&w, &spec, 1, RT_ASYNC);
    for (uint64_t id = 0; id < 20; id++) {
        assert_int_equal(0, testing_push_one(&w, 0, UINT64_MAX - id, (float)id));
    }
    struct rpc_frame *all = testing_call(&w, RPC_FRAME_SCAN_SPARSE, 0, 0);
    assert_int_equal(20, all->head.count);
    assert_true(all->head.aux == UINT64_MAX);
    assert_int_equal(20 * (8 + 4 * shard_row_floats(&w.t.tables[0])), all->head.bytes);
    for (int twice = 0; twice < 2; twice++) {
        struct rpc_frame *f =
            testing_frame(RPC_FRAME_RESTORE_SPARSE, 0, all->head.count, all->head.bytes);
        memcpy(f->payload, all->payload, all->head.bytes);
        if (!twice) { /* others, and other counts */
            assert_int_equal(0, testing_push_one(&w, 0, UINT64_MAX, 9));
            table_store_erase(
                w.t.tables[0].rows, table_store_find(w.t.tables[0].rows, UINT64_MAX - 7));
        }
        rpc_frame_free(testing_do(&w, f));
        struct rpc_frame *again = testing_call(&w, RPC_FRAME_SCAN_SPARSE, 0, 0);
        assert_int_equal(all->head.bytes, again->head.bytes);
        assert_memory_equal(all->payload, again->payload, all->head.bytes);
        rpc_frame_free(again);
    }
    rpc_frame_free(all);
    struct rpc_frame *f = testing_frame(RPC_FRAME_SCAN_SPARSE, 0, RT_SAVE_MODES, 0);
    assert_int_equal(CO_INVALID, testing_ask(&w, 0, f, NULL));
    assert_string_equal("there is no save mode 4", w.err.msg);
    f = testing_call(&w, RPC_FRAME_SCAN_SPARSE, 0, UINT64_MAX); /* behind the end */
    assert_true(f->head.count == 0 && f->head.aux == UINT64_MAX);
    rpc_frame_free(f);
    testing_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(push_updates_each_row_by_its_gradient),
        cmocka_unit_test(push_of_no_rows_changes_nothing),
        cmocka_unit_test(push_of_many_rows_reaches_all),
        cmocka_unit_test(push_adds_up_equal_ids),
        cmocka_unit_test(step_applies_the_mean_once),
        cmocka_unit_test(geo_step_adds_differences),
        cmocka_unit_test(push_reads_every_type_of_the_wire),
        cmocka_unit_test(push_checks_shows_and_clicks),
        cmocka_unit_test(push_that_is_refused_changes_nothing),
        cmocka_unit_test(rows_that_are_not_finite_are_left_out_alone),
        cmocka_unit_test(push_that_is_not_finite_is_refused_as_a_whole),
        cmocka_unit_test(rows_that_overflow_are_counted),
        cmocka_unit_test(large_gradients_are_not_overflows),
        cmocka_unit_test(a_row_of_geo_mode_does_not_overflow),
        cmocka_unit_test(push_without_memory_leaves_no_rows),
        cmocka_unit_test(restored_rows_are_those_that_a_scan_gave),
    };
    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
