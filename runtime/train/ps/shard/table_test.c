#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/dedup.h"
#include "runtime/train/ps/shard/tables.h"
#include "runtime/train/ps/spec.h"

#define REFUSED "; refused (servers with PADDLE_PS_NONFINITE=skip leave it out)"

static void specs_are_checked(void **state) {
    (void)state;
    static const struct {
        struct rt_table_spec spec;
        const char *said; /* NULL: fine */
    } rows[] = {
        {{.name = "w", .kind = RT_DENSE, .size = 10, .optimizer = "sgd:lr=0.1"}, NULL},
        {{.name = "emb-1", .kind = RT_SPARSE, .dim = 8, .init = "uniform:min=-1,max=1"}, NULL},
        {{.name = "", .kind = RT_DENSE, .size = 10}, "table name \"\""},
        {{.name = "a/b", .kind = RT_DENSE, .size = 10}, "\"a/b\""},
        {{.name = "..", .kind = RT_DENSE, .size = 10}, "\"..\""},
        {{.name = "w", .kind = RT_DENSE}, "size 0"},
        {{.name = "w", .kind = RT_SPARSE}, "dim 0"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 70000}, "dim 70000"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .optimizer = "sdg"}, "sdg"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .optimizer = "adam:clip_norm=1"}, NULL},
        {{.name = "w", .kind = RT_DENSE, .size = 9, .optimizer = "adam:clip_norm=1"}, "clip_norm"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .optimizer = "adagrad_row"}, NULL},
        {{.name = "w", .kind = RT_DENSE, .size = 9, .optimizer = "adagrad_row"},
            "\"adagrad_row:lr=0.01,epsilon=1e-06,initial=0\" looks at whole rows"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .init = "unifrom"}, "unifrom"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .init = "uniform:low=1"}, "\"low\""},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .init = "uniform:min"}, "\"min\""},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .init = "constant:value=x"}, "value"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .storage = "f16", .wire = "bf16"}, NULL},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .storage = "f8"}, "storage \"f8\" is not f32"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .wire = "i8"}, "wire \"i8\" is not f32"},
        {{.name = "w", .kind = RT_DENSE, .size = 1, .wire = "int8"}, NULL},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .wire = "int8"},
            "wire \"int8\" is for dense tables"},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .admit = "count:n=3", .evict = "ctr"}, NULL},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .admit = "often"},
            "table \"w\": admit \"often\""},
        {{.name = "w", .kind = RT_SPARSE, .dim = 1, .evict = "ttl"}, "table \"w\": evict \"ttl\""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ps_table t;
        struct co_err err = {0};
        int rc = ps_table_make(&rows[i].spec, &t, &err);
        assert_int_equal(rows[i].said ? CO_INVALID : 0, rc);
        if (rows[i].said && !strstr(err.msg, rows[i].said)) {
            fail_msg("'%s' does not say %s", err.msg, rows[i].said);
        }
    }
}

static void differs(const struct ps_table *t, const struct ps_table *as, const char *want) {
    struct co_err err = {0};
    assert_int_equal(want ? CO_INVALID : 0, ps_table_same(t, as, &err));
    assert_string_equal(want ? want : "", err.msg);
}

static void the_field_that_differs_is_named(void **state) {
    (void)state;
    struct rt_table_spec s = {.name = "e", .kind = RT_SPARSE, .dim = 4, .optimizer = "sgd:lr=0.1"};
    struct ps_table a, b;
    assert_int_equal(0, ps_table_make(&s, &a, NULL));
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&a, &b, NULL);
    s.optimizer = "sgd:lr=0.2";
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&b, &a, "optimizer is \"sgd:lr=0.2\", expected \"sgd:lr=0.1\"");
    s.optimizer = "sgd:lr=0.1";
    s.dim = 16;
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&b, &a, "dim is 16, expected 4");
    s = (struct rt_table_spec){.name = "e", .kind = RT_SPARSE, .dim = 4};
    assert_int_equal(0, ps_table_make(&s, &a, NULL));
    s.storage = s.wire = "f32";
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&a, &b, NULL);
    s.wire = "f16";
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&b, &a, "wire is \"f16\", expected \"f32\"");
    s.wire = NULL;
    s.evict = "lfu:capacity=5";
    assert_int_equal(0, ps_table_make(&s, &b, NULL));
    differs(&b, &a, "evict is \"lfu:capacity=5\", expected \"\"");
}

static int by_begin(const void *a, const void *b) {
    uint64_t x = ((const struct ps_range *)a)->begin, y = ((const struct ps_range *)b)->begin;
    return (x > y) - (x < y);
}

static void dense_shares_cover_everything_once(void **state) {
    (void)state;
    enum { SHARDS = 3, MOST = 7000 };
    static const uint64_t sizes[] = {1, 15, 16, 17, 1000, 430815, 3000000, 200000000};
    for (size_t k = 0; k < CO_ARRAY_LEN(sizes); k++) {
        for (uint32_t row = 0; row < 6 * 20; row++) {
            uint32_t servers = 1 + row / 20;
            struct ps_table t = {.spec = {.size = sizes[k]}, .turn = row % 20};
            struct ps_range all[MOST];
            uint64_t at = 0;
            size_t n = 0;
            for (uint32_t place = 0; place < servers * SHARDS; place++) {
                struct ps_shard_position p = {place / SHARDS, servers, place % SHARDS, SHARDS};
                struct ps_range share = ps_dense_share(&t, &p);
                for (uint32_t c = 0; c < ps_dense_chunks(share.n); c++) {
                    all[n++] = ps_dense_chunk(share, c);
                }
            }
            qsort(all, n, sizeof(all[0]), by_begin);
            for (size_t i = 0; i < n; i++) {
                assert_true(all[i].begin == at && all[i].n > 0);
                at += all[i].n;
            }
            assert_int_equal(sizes[k], at);
        }
    }
}

/* A large table must not come to so many frames a step that a shard forgets which it has. */
static void a_chunk_stays_in_a_cache_unless_they_are_many(void **state) {
    (void)state;
    assert_int_equal(1, ps_dense_chunks(PS_DENSE_CHUNK));
    assert_int_equal(2, ps_dense_chunks(PS_DENSE_CHUNK + 1));
    assert_int_equal(PS_DENSE_MANY / PS_DENSE_CHUNK, ps_dense_chunks(PS_DENSE_MANY));
    assert_int_equal(17, ps_dense_chunks(PS_DENSE_MANY + 1));
    assert_true(PS_DENSE_MANY / PS_DENSE_CHUNK <= SHARD_DEDUP_PLACES);
}

/* Each of them is smaller than what a shard has of a table. */
static void small_dense_tables_spread_over_servers_and_shards(void **state) {
    (void)state;
    enum { SERVERS = 3, SHARDS = 2, EACH = 2, DENSE = SERVERS * SHARDS * EACH };
    struct ps_table tables[2 * DENSE];
    for (int i = 0; i < 2 * DENSE; i++) {
        tables[i] = (struct ps_table){
            .spec = {.kind = i % 2 ? RT_DENSE : RT_SPARSE, .size = i % 2 ? 10 : 0}};
    }
    ps_tables_take_turns(tables, 2 * DENSE);
    for (uint32_t place = 0; place < SERVERS * SHARDS; place++) {
        struct ps_shard_position p = {place / SHARDS, SERVERS, place % SHARDS, SHARDS};
        unsigned n = 0;
        for (int i = 1; i < 2 * DENSE; i += 2) {
            n += ps_dense_share(&tables[i], &p).n > 0;
        }
        assert_int_equal(EACH, n);
    }
}

static void sequential_ids_spread_over_servers_and_shards(void **state) {
    (void)state;
    unsigned n[3][2] = {0};
    for (uint64_t id = 0; id < 60000; id++) {
        n[ps_sparse_server(id, 3)][ps_sparse_shard(id, 2)]++;
    }
    for (int s = 0; s < 3; s++) {
        for (int t = 0; t < 2; t++) {
            assert_in_range(n[s][t], 9500, 10500);
        }
    }
}

static void initial_rows_depend_on_seed_and_id_only(void **state) {
    (void)state;
    struct rt_table_spec s = {
        .name = "e", .kind = RT_SPARSE, .dim = 4, .init = "uniform:min=-2,max=3", .seed = 7};
    float a[4], b[4];
    double sum = 0, low = 9, high = -9;
    for (uint64_t id = 0; id < 10000; id++) {
        assert_int_equal(0, rt_table_init_row(&s, id, a, NULL));
        assert_int_equal(0, rt_table_init_row(&s, id, b, NULL));
        assert_memory_equal(a, b, sizeof(a));
        for (int k = 0; k < 4; k++) {
            sum += a[k];
            low = fmin(low, a[k]);
            high = fmax(high, a[k]);
        }
    }
    assert_true(low >= -2 && low < -1.99 && high <= 3 && high > 2.99);
    assert_true(fabs(sum / 40000 - 0.5) < 0.03);
    s.seed = 8;
    assert_int_equal(0, rt_table_init_row(&s, 9999, b, NULL));
    assert_memory_not_equal(a, b, sizeof(a));
}

static void normal_rows_have_their_moments(void **state) {
    (void)state;
    struct rt_table_spec s = {
        .name = "e", .kind = RT_SPARSE, .dim = 5, .init = "normal:mean=1,std=0.5", .seed = 7};
    double sum = 0, squares = 0;
    for (uint64_t id = 0; id < 10000; id++) {
        float a[5];
        assert_int_equal(0, rt_table_init_row(&s, id, a, NULL));
        for (int k = 0; k < 5; k++) {
            sum += a[k];
            squares += (double)a[k] * a[k];
        }
    }
    double mean = sum / 50000, var = squares / 50000 - mean * mean;
    assert_true(fabs(mean - 1) < 0.01 && fabs(var - 0.25) < 0.01);
}

/* The values of an id's row, or NULL. */
static const float *row_of(const struct table_store *rows, uint64_t id) {
    uint32_t slot = table_store_find(rows, id);
    return slot == TABLE_SLOT_NONE ? NULL : table_store_values(rows, slot);
}

/* Frames whose number of values is not the table's must not reach its memory. */
static void a_shard_refuses_frames_that_do_not_fit(void **state) {
    (void)state;
    static const struct rt_table_spec specs[] = {
        {.name = "w", .kind = RT_DENSE, .size = 20, .optimizer = "adam"},
        {.name = "e", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd"},
        {.name = "h", .kind = RT_DENSE, .size = 20, .optimizer = "sgd", .wire = "f16"},
    };
    static const struct {
        uint8_t kind;
        uint16_t table;
        uint64_t aux;
        uint32_t count, bytes;
        int rc;
    } rows[] = {
        {RPC_FRAME_PUSH_DENSE, 0, 0, 20, 80, 0},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 0, 0, CO_INVALID},
        {RPC_FRAME_XCHG_DENSE, 0, 0, 0, 0, CO_INVALID},
        {RPC_FRAME_PUT_DENSE, 0, 0, 19, 76, CO_INVALID},
        {RPC_FRAME_RESTORE_DENSE, 0, 0, 20, 80, CO_INVALID},
        {RPC_FRAME_PULL_DENSE, 0, 0, 0, 0, 0},
        {RPC_FRAME_PULL_DENSE, 0, 1, 0, 0, CO_INVALID},
        {RPC_FRAME_PULL_DENSE, 1, 0, 0, 0, CO_INVALID},
        {RPC_FRAME_PULL_DENSE, 3, 0, 0, 0, CO_INVALID},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 20, 40, CO_INVALID},
        {RPC_FRAME_PUSH_DENSE, 2, 0, 20, 40, 0},
        {RPC_FRAME_PUSH_DENSE, 2, 0, 20, 80, CO_INVALID},
        {RPC_FRAME_XCHG_DENSE, 2, 0, 20, 80, CO_INVALID},
        {RPC_FRAME_PUT_DENSE, 2, 0, 20, 80, 0},
        {RPC_FRAME_PUSH_SPARSE, 1, 0, 1, 16, 0},
        {RPC_FRAME_PUSH_SPARSE, 1, 0, 1, 12, CO_INVALID},
        {RPC_FRAME_RESTORE_SPARSE, 1, 0, 1, 20, CO_INVALID},
        {RPC_FRAME_PULL_SPARSE, 0, 0, 1, 8, CO_INVALID},
        {RPC_FRAME_CONTROL, 0, 0, 0, 0, CO_INVALID},
    };
    struct ps_table tables[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, ps_table_make(&specs[i], &tables[i], NULL));
    }
    struct table_budget budget = {.max = 1 << 20};
    struct shard_config config = {.shards = 1,
        .servers = 1,
        .trainers = 1,
        .mode = RT_ASYNC,
        .tables = tables,
        .n_tables = 3,
        .budget = &budget};
    struct shard_tables t;
    assert_int_equal(0, shard_tables_init(&t, &config, NULL));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rpc_frame *f = NULL, *a = NULL;
        assert_int_equal(0, rpc_frame_new(rows[i].kind, rows[i].bytes, &f, NULL));
        memset(f->payload, 0, rows[i].bytes);
        f->head.table = rows[i].table;
        f->head.aux = rows[i].aux;
        f->head.count = rows[i].count;
        struct co_err err = {0};
        if (shard_tables_do(&t, 0, f, &a, &err) != rows[i].rc) {
            fail_msg("row %zu: '%s'", i, err.msg);
        }
        rpc_frame_free(f);
        rpc_frame_free(a);
    }
    shard_tables_done(&t);
}

/* The dense part of a server must fit its memory. */
static void tables_that_do_not_fit_are_refused_by_name(void **state) {
    (void)state;
    struct rt_table_spec spec = {.name = "huge", .kind = RT_DENSE, .size = 1 << 20};
    struct ps_table table;
    assert_int_equal(0, ps_table_make(&spec, &table, NULL));
    struct table_budget budget = {.max = 1 << 20};
    struct shard_config config = {.shards = 1,
        .servers = 1,
        .trainers = 1,
        .tables = &table,
        .n_tables = 1,
        .budget = &budget};
    struct shard_tables t;
    struct co_err err = {0};
    assert_int_equal(CO_NORESOURCE, shard_tables_init(&t, &config, &err));
    assert_non_null(strstr(err.msg, "\"huge\""));
}

/* Two rows (3 fine, 5 not) or the ten values of "w" (index 4 not); the finite ones are 1. */
static struct rpc_frame *push_of(bool sparse, float bad) {
    struct rpc_frame *f = NULL;
    size_t ids = sparse ? 2 : 0, n = sparse ? 4 : 10;
    assert_int_equal(0, rpc_frame_new(sparse ? RPC_FRAME_PUSH_SPARSE : RPC_FRAME_PUSH_DENSE,
                            ids * 8 + n * 4, &f, NULL));
    f->head.table = sparse;
    f->head.count = sparse ? 2 : 10;
    for (size_t i = 0; i < ids; i++) {
        co_put_u64(f->payload + i * 8, 3 + 2 * i);
    }
    float *g = (float *)(void *)(f->payload + ids * 8);
    for (size_t i = 0; i < n; i++) {
        g[i] = i == (sparse ? 2 : 4) ? bad : 1;
    }
    return f;
}

static void values_that_are_not_finite_are_refused_or_left_out(void **state) {
    (void)state;
    static const struct rt_table_spec specs[] = {
        {.name = "w", .kind = RT_DENSE, .size = 10, .optimizer = "sgd:lr=1"},
        {.name = "e", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd:lr=1"}};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct ps_table tables[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, ps_table_make(&specs[i], &tables[i], NULL));
    }
    for (int policy = RT_NONFINITE_UNSET; policy <= RT_NONFINITE_ALLOW; policy++) {
        struct table_budget budget = {.max = 1 << 20};
        struct shard_config config = {.shards = 1,
            .servers = 1,
            .trainers = 2,
            .mode = RT_ASYNC,
            .nonfinite = (enum rt_nonfinite)policy,
            .tables = tables,
            .n_tables = 2,
            .budget = &budget};
        bool refuse = policy <= RT_NONFINITE_REFUSE, skip = policy == RT_NONFINITE_SKIP;
        for (size_t i = 0; i < 2 * CO_ARRAY_LEN(bad); i++) {
            bool sparse = i % 2;
            struct shard_tables t;
            assert_int_equal(0, shard_tables_init(&t, &config, NULL));
            struct rpc_frame *f = push_of(sparse, bad[i / 2]), *a = NULL;
            struct co_err err = {0};
            assert_int_equal(refuse ? CO_INVALID : 0, shard_tables_do(&t, 1, f, &a, &err));
            if (refuse) {
                assert_string_equal(
                    sparse ? "trainer 1 pushed NaN or Inf to table \"e\", row 5" REFUSED
                           : "trainer 1 pushed NaN or Inf to table \"w\", index 4" REFUSED,
                    err.msg);
            }
            struct rpc_frame ask = {.head = {.kind = RPC_FRAME_STAT, .table = sparse}};
            rpc_frame_free(co_steal_ptr(a));
            assert_int_equal(0, shard_tables_do(&t, 1, &ask, &a, NULL));
            assert_int_equal(refuse || skip, co_get_u64(a->payload + 32));
            const float *fine = sparse ? row_of(t.tables[1].rows, 3) : t.tables[0].blocks[0].w;
            assert_true(refuse ? !fine || fine[0] == 0 : fine && fine[0] == -1);
            if (sparse) {
                assert_int_equal(refuse || skip, row_of(t.tables[1].rows, 5) == NULL);
            } else {
                assert_int_equal(refuse || skip, fine[4] == 0);
            }
            rpc_frame_free(f);
            rpc_frame_free(a);
            shard_tables_done(&t);
        }
    }
}

/* n new rows of 2 floats, from the id `first` on. */
static struct rpc_frame *push_new(uint16_t table, uint64_t first, uint32_t n) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_SPARSE, n * (8 + 8UL), &f, NULL));
    f->head.table = table;
    f->head.count = n;
    memset(f->payload, 0, f->head.bytes);
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + i * 8UL, first + i);
    }
    return f;
}

/* One budget for all tables; what does not fit is refused as a whole and by name, and what was
 * accepted can be stepped. */
static void tables_share_the_memory_of_their_server(void **state) {
    (void)state;
    enum { TABLES = 4, PUSH = 3000 };
    struct ps_table tables[TABLES];
    for (int i = 0; i < TABLES; i++) {
        char name[] = "t0";
        name[1] = (char)('0' + i);
        struct rt_table_spec spec = {.name = name, .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd"};
        assert_int_equal(0, ps_table_make(&spec, &tables[i], NULL));
    }
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct table_budget budget = {.max = 1 << 20};
        struct shard_config config = {.shards = 1,
            .servers = 1,
            .trainers = 1,
            .mode = (enum rt_mode)mode,
            .tables = tables,
            .n_tables = TABLES,
            .budget = &budget};
        struct shard_tables t;
        assert_int_equal(0, shard_tables_init(&t, &config, NULL));
        struct co_err err = {0};
        unsigned done = 0, refused = 0;
        for (unsigned k = 0; k < 40; k++) {
            struct shard_table *st = &t.tables[k % TABLES];
            struct table_store *rows = mode == RT_SYNC ? st->sums : st->rows;
            size_t before = table_store_rows(rows), all = table_store_rows(st->rows);
            struct rpc_frame *f = push_new((uint16_t)(k % TABLES), k * PUSH, PUSH), *a = NULL;
            int rc = shard_tables_do(&t, 0, f, &a, &err);
            rpc_frame_free(f);
            assert_true(rc == 0 || rc == CO_NORESOURCE);
            assert_int_equal(before + (rc == 0 ? PUSH : 0), table_store_rows(rows));
            assert_int_equal(all + (rc == 0 ? PUSH : 0), table_store_rows(st->rows));
            assert_true(rc == 0 || (strstr(err.msg, st->table->name) &&
                                       strstr(err.msg, "of at most 1024 KiB")));
            done += rc == 0;
            refused += rc < 0;
        }
        assert_true(done > 0 && refused > 0 && atomic_load(&budget.used) <= budget.max);
        if (mode == RT_SYNC) {
            assert_int_equal(0, shard_tables_step(&t, 1, &err));
            size_t rows = 0;
            for (int i = 0; i < TABLES; i++) {
                rows += table_store_rows(t.tables[i].rows);
            }
            assert_int_equal(done * PUSH, rows);
        }
        shard_tables_done(&t);
        assert_int_equal(0, atomic_load(&budget.used));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_are_checked),
        cmocka_unit_test(the_field_that_differs_is_named),
        cmocka_unit_test(dense_shares_cover_everything_once),
        cmocka_unit_test(a_chunk_stays_in_a_cache_unless_they_are_many),
        cmocka_unit_test(small_dense_tables_spread_over_servers_and_shards),
        cmocka_unit_test(sequential_ids_spread_over_servers_and_shards),
        cmocka_unit_test(initial_rows_depend_on_seed_and_id_only),
        cmocka_unit_test(normal_rows_have_their_moments),
        cmocka_unit_test(a_shard_refuses_frames_that_do_not_fit),
        cmocka_unit_test(values_that_are_not_finite_are_refused_or_left_out),
        cmocka_unit_test(tables_share_the_memory_of_their_server),
        cmocka_unit_test(tables_that_do_not_fit_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
