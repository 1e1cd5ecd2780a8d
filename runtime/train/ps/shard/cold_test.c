/* Compares a shard whose rows do not fit into memory with one whose rows do.  All answers must be
 * equal to the bit: pulls, pushes, steps, admission, shrinking, saving, restoring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/part.h"

enum { IDS = 16000, BATCH = 150, DIM = 24, MEMORY = 1 << 20, TABLES = 5, LIMIT = 1000 };

static const struct rt_table_spec specs[TABLES] = {
    {.name = "plain", .kind = RT_SPARSE, .dim = DIM, .optimizer = "adam:lr=0.1"},
    {.name = "half", .kind = RT_SPARSE, .dim = DIM, .init = "normal:std=1", .storage = "bf16"},
    {.name = "ctr", .kind = RT_SPARSE, .dim = DIM, .evict = "ctr:delete_threshold=0.12"},
    {.name = "ttl", .kind = RT_SPARSE, .dim = DIM, .evict = "ttl:steps=1000"}, /* LIMIT */
    {.name = "gate",
        .kind = RT_SPARSE,
        .dim = DIM,
        .admit = "count:n=2",
        .evict = "lfu:capacity=500"},
};

/* Two shards that get the same requests; the first one has cold rows. */
struct world {
    char dir[64];
    struct ps_table tables[TABLES];
    struct table_budget budget[2];
    struct table_rocks *rocks;
    struct shard_tables shards[2];
    uint64_t seed;
};

static uint32_t dice(struct world *w, uint32_t sides) {
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(w->seed >> 33) % sides;
}

static void start(struct world *w, uint64_t seed, enum rt_mode mode) {
    *w = (struct world){.seed = seed, .budget = {{.max = 24 * MEMORY}, {.max = 64 * MEMORY}}};
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/shard_cold_test_XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    for (int i = 0; i < TABLES; i++) {
        assert_int_equal(0, ps_table_make(&specs[i], &w->tables[i], NULL));
    }
    assert_int_equal(0, table_rocks_open(w->dir, "cold", &w->budget[0], &w->rocks, NULL));
    /* What others take: most of it. */
    assert_int_equal(0, table_budget_take(&w->budget[0], 8 * MEMORY, NULL));
    for (int i = 0; i < 2; i++) {
        struct shard_config c = {.shards = 1,
            .servers = 1,
            .trainers = 1,
            .mode = mode,
            .tables = w->tables,
            .n_tables = TABLES,
            .budget = &w->budget[i],
            .rocks = i == 0 ? w->rocks : NULL};
        assert_int_equal(0, shard_tables_init(&w->shards[i], &c, NULL));
    }
}

static void end(struct world *w) {
    shard_tables_done(&w->shards[0]);
    shard_tables_done(&w->shards[1]);
    table_rocks_close(w->rocks);
    assert_int_equal(8 * MEMORY, atomic_load(&w->budget[0].used));
    assert_int_equal(0, rmdir(w->dir));
}

static struct rpc_frame *ask(struct world *w, int shard, struct rpc_frame *f) {
    struct rpc_frame *a = NULL;
    struct co_err err = {0};
    if (shard_tables_do(&w->shards[shard], 0, f, &a, &err) < 0) {
        fail_msg("shard %d: %s", shard, err.msg);
    }
    return a;
}

/* Both get it, and answer the same. */
static void ask_both(struct world *w, struct rpc_frame *f_own) {
    struct rpc_frame *a[2] = {ask(w, 0, f_own), ask(w, 1, f_own)};
    assert_int_equal(a[0] != NULL, a[1] != NULL);
    if (a[0] && a[1]) {
        assert_int_equal(a[0]->head.bytes, a[1]->head.bytes);
        assert_memory_equal(a[0]->payload, a[1]->payload, a[0]->head.bytes);
    }
    rpc_frame_free(a[0]);
    rpc_frame_free(a[1]);
    rpc_frame_free(f_own);
}

static struct rpc_frame *frame(uint8_t kind, uint32_t table, uint32_t count, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(kind, bytes, &f, NULL));
    f->head.table = (uint16_t)table;
    f->head.count = count;
    return f;
}

static void request(struct world *w) {
    static const uint8_t kinds[] = {
        RPC_FRAME_PULL_SPARSE, RPC_FRAME_PULL_SPARSE, RPC_FRAME_PUSH_SPARSE, RPC_FRAME_PUSH_CLICKS};
    uint8_t kind = kinds[dice(w, CO_ARRAY_LEN(kinds))];
    uint32_t n = 1 + dice(w, BATCH), floats = kind == RPC_FRAME_PULL_SPARSE   ? 0
                                              : kind == RPC_FRAME_PUSH_SPARSE ? DIM
                                                                              : DIM + 2;
    struct rpc_frame *f = frame(kind, dice(w, TABLES), n, n * (8 + 4UL * floats));
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + 8UL * i, dice(w, dice(w, 2) ? IDS / 8 : IDS));
    }
    float *g = (float *)(void *)(f->payload + 8UL * n);
    for (uint32_t i = 0; i < n * floats; i++) {
        g[i] = (float)dice(w, 100) / 50;
    }
    ask_both(w, f);
}

/* ---- passes over all rows ---- */

struct row {
    uint64_t id;
    float floats[4 * DIM];
};

static int by_id(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* In the order of their ids, as places differ. */
static size_t scan(struct world *w, int shard, uint32_t table, uint32_t mode, struct row *ret) {
    size_t n = 0, floats = shard_row_floats(&w->shards[shard].tables[table]);
    for (uint64_t aux = 0; aux != UINT64_MAX;) {
        struct rpc_frame *f = frame(RPC_FRAME_SCAN_SPARSE, table, mode, 0);
        f->head.aux = aux;
        struct rpc_frame *a = ask(w, shard, f);
        assert_int_equal(a->head.bytes, a->head.count * (8 + floats * 4));
        for (uint32_t i = 0; i < a->head.count; i++, n++) {
            ret[n] = (struct row){.id = co_get_u64(a->payload + 8UL * i)};
            co_copy_f32(ret[n].floats, a->payload + 8UL * a->head.count + i * floats * 4, floats);
        }
        aux = a->head.aux;
        rpc_frame_free(a);
        rpc_frame_free(f);
    }
    qsort(ret, n, sizeof(*ret), by_id);
    return n;
}

static void scan_both(struct world *w, uint32_t table, uint32_t mode) {
    static struct row rows[2][IDS];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        memset(rows[i], 0, sizeof(rows[i]));
        n[i] = scan(w, i, table, mode, rows[i]);
    }
    assert_int_equal(n[1], n[0]);
    assert_memory_equal(rows[0], rows[1], n[0] * sizeof(*rows[0]));
}

static uint64_t shrink(struct world *w, int shard, uint32_t table) {
    uint64_t erased = 0;
    for (uint64_t aux = 0; aux != UINT64_MAX;) {
        struct rpc_frame *f = frame(RPC_FRAME_SHRINK, table, 0, 0), *again = NULL;
        f->head.aux = aux;
        struct rpc_frame *a = ask(w, shard, f);
        assert_int_equal(0, shard_shrunk(&w->shards[shard], f, &again, NULL));
        erased += a->head.count;
        aux = a->head.aux;
        assert_true(shard == 1 || again->head.aux == aux); /* its answer may be lost */
        rpc_frame_free(again);
        rpc_frame_free(a);
        rpc_frame_free(f);
    }
    return erased;
}

/* Of what one shard has saved, the other way round. */
static void restore_some(struct world *w, uint32_t table) {
    static struct row rows[IDS];
    size_t n = scan(w, 1, table, RT_SAVE_ALL, rows);
    size_t floats = shard_row_floats(&w->shards[1].tables[table]), most = 300;
    n = n < most ? n : most;
    struct rpc_frame *f = frame(RPC_FRAME_RESTORE_SPARSE, table, (uint32_t)n, n * (8 + floats * 4));
    for (size_t i = 0; i < n; i++) {
        co_put_u64(f->payload + 8 * i, rows[i].id);
        rows[i].floats[0] += 1;
        co_copy_f32(f->payload + 8 * n + i * floats * 4, rows[i].floats, floats);
    }
    ask_both(w, f);
}

static void passes(struct world *w) {
    for (uint32_t table = 0; table < TABLES - 1; table++) { /* lfu takes samples by place */
        scan_both(w, table, dice(w, RT_SAVE_MODES));
        restore_some(w, table);
    }
    assert_int_equal(shrink(w, 1, 2), shrink(w, 0, 2));
}

static void answers_are_the_same_as_with_all_rows_in_memory(void **state) {
    (void)state;
    static const enum rt_mode modes[] = {RT_ASYNC, RT_SYNC};
    for (size_t m = 0; m < CO_ARRAY_LEN(modes); m++) {
        struct world w;
        start(&w, 100 + m, modes[m]);
        /* lfu ones stay in memory, and do the same */
        assert_null(w.shards[0].tables[4].cold);
        for (int i = 0; i < 1500; i++) {
            request(&w);
            for (int k = 0; modes[m] == RT_SYNC && i % 8 == 7 && k < 2; k++) {
                assert_int_equal(0, shard_tables_step(&w.shards[k], 2, NULL));
            }
            if (i % 500 == 499) {
                passes(&w);
            }
        }
        for (uint32_t table = 0; table < TABLES - 1; table++) {
            scan_both(&w, table, RT_SAVE_ALL);
            const struct shard_table *st = &w.shards[0].tables[table];
            assert_true(st->cold->rows > 500); /* or nothing was tried */
        }
        end(&w);
    }
}

static void push(struct world *w, uint32_t table, uint64_t first, uint32_t n) {
    struct rpc_frame *f = frame(RPC_FRAME_PUSH_SPARSE, table, n, n * (8 + 4UL * DIM));
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + 8UL * i, first + i);
    }
    float *g = (float *)(void *)(f->payload + 8UL * n);
    for (uint32_t i = 0; i < n * DIM; i++) {
        g[i] = (float)dice(w, 100) / 50;
    }
    ask_both(w, f);
}

/* Nobody asks for them: pushes of other rows do it. */
static void cold_rows_that_were_not_used_for_long_go(void **state) {
    (void)state;
    enum { TTL = 3 };
    struct world w;
    start(&w, 7, RT_ASYNC);
    for (uint64_t id = 0; id < IDS; id += BATCH) {
        push(&w, TTL, id, BATCH);
    }
    const struct shard_table *st = &w.shards[0].tables[TTL];
    uint64_t cold = st->cold->rows;
    assert_true(cold > 500);
    for (int limit = 0; limit < 2; limit++) {
        for (int k = 0; k < 2; k++) {
            struct shard_table *one = &w.shards[k].tables[TTL];
            shard_rate_set(one, LIMIT + (uint64_t)limit, one->lr);
        }
        for (int i = 0; i < 2 * IDS / BATCH; i++) { /* a sweep over all, and a bit */
            push(&w, TTL, 0, BATCH);
        }
        assert_true(limit == 1 || st->cold->rows > cold / 2); /* not sooner */
    }
    assert_int_equal(0, st->cold->rows);
    assert_int_equal(BATCH, table_store_rows(st->rows));
    scan_both(&w, TTL, RT_SAVE_ALL);
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_as_with_all_rows_in_memory),
        cmocka_unit_test(cold_rows_that_were_not_used_for_long_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
