/* Tables from chains of checkpoints that are written here chunk by chunk: of other numbers of
 * servers and shards, with rows that were erased later, of other tables, and damaged. */
#include "runtime/train/ps/shard/restore.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/tables_testing.h"

enum { SIZE = 40, MANY = 100000 };

/* ---- writing checkpoints ---- */

struct writer {
    char dir[40];
    struct ckpt_table tables[TESTING_TABLES];
    struct ckpt_part parts[4];
    struct ckpt_point p;
    struct ckpt_part_writer *part; /* of the server that is being written */
};

static void writer_start(struct writer *c, const struct rt_table_spec *specs, uint32_t n) {
    *c = (struct writer){.dir = "/tmp/restore_test_XXXXXX"};
    assert_non_null(mkdtemp(c->dir));
    for (uint32_t i = 0; i < n; i++) {
        struct ps_table t;
        assert_int_equal(0, ps_table_make(&specs[i], &t, NULL));
        ps_table_describe(&t, &c->tables[i]);
    }
    c->p = (struct ckpt_point){.n_tables = n, .n_parts = 1, .tables = c->tables, .parts = c->parts};
}

static void writer_end(const struct writer *c) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", c->dir);
    assert_int_equal(0, system(cmd));
}

/* The part of a server.  previous 0: of a full checkpoint. */
static void begin_part(
    struct writer *c, uint64_t number, uint64_t previous, uint32_t server, uint32_t shards) {
    CO_AUTOFREE char *at = ckpt_point_dir(c->dir, number);
    CO_AUTOFREE char *cmd = co_xasprintf("mkdir -p %s", at);
    CO_AUTOFREE char *path = ckpt_point_part(c->dir, number, server);
    const struct ckpt_part_origin place = {
        .number = number, .server = server, .servers = c->p.n_parts, .shards = shards};
    assert_int_equal(0, system(cmd));
    c->p.number = number;
    c->p.previous = previous;
    c->p.base = previous ? c->p.base : number;
    c->parts[server] = (struct ckpt_part){.server = server, .shards = shards};
    assert_int_equal(0, ckpt_part_create(path, &place, &c->part, NULL));
}

static void add(struct writer *c, struct ckpt_part_chunk chunk, const void *data) {
    struct co_err err = {0};
    if (ckpt_part_add(c->part, &chunk, data, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

/* n rows from the id `first` on, `step` apart; all their floats are v. */
static void add_rows(struct writer *c, uint32_t table, uint32_t shard, uint64_t first,
    uint64_t step, uint32_t n, float v) {
    size_t floats = c->tables[table].dim + c->tables[table].state, each = 8 + 4 * floats;
    CO_AUTOFREE unsigned char *data = co_xcalloc(n + 1UL, each);
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(data + i * each, first + i * step);
        for (size_t k = 0; k < floats; k++) {
            co_copy_f32(data + i * each + 8 + 4 * k, &v, 1);
        }
    }
    add(c, (struct ckpt_part_chunk){CKPT_PART_ROWS, table, shard, n, 0, (uint32_t)(n * each)},
        data);
}

static void add_erased(
    struct writer *c, uint32_t table, uint32_t shard, uint64_t first, uint64_t step, uint32_t n) {
    CO_AUTOFREE unsigned char *data = co_xcalloc(n + 1UL, 8);
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(data + i * 8UL, first + i * step);
    }
    add(c, (struct ckpt_part_chunk){CKPT_PART_ERASED, table, shard, n, 0, n * 8}, data);
}

/* Values from `begin` on: their indexes plus `plus`, without a state. */
static void add_values(
    struct writer *c, uint32_t table, uint32_t shard, uint64_t begin, uint32_t n, float plus) {
    unsigned char data[SIZE * 4];
    for (uint32_t i = 0; i < n; i++) {
        float v = (float)(begin + i) + plus;
        co_copy_f32(data + 4UL * i, &v, 1);
    }
    add(c, (struct ckpt_part_chunk){CKPT_PART_DENSE, table, shard, n, begin, n * 4}, data);
}

static void add_rate(struct writer *c, uint32_t table, uint64_t steps, double lr) {
    unsigned char data[CKPT_RATE_BYTES];
    uint64_t bits;
    memcpy(&bits, &lr, sizeof(bits));
    co_put_u64(data, steps);
    co_put_u64(data + 8, bits);
    add(c, (struct ckpt_part_chunk){CKPT_PART_RATE, table, 0, 1, 0, sizeof(data)}, data);
}

static void end_part(struct writer *c, uint32_t server) {
    struct ckpt_part_sum sum;
    struct co_err err = {0};
    if (ckpt_part_finish(c->part, &sum, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    ckpt_part_close(co_steal_ptr(c->part));
    c->parts[server].bytes = sum.bytes;
    c->parts[server].hash = sum.hash;
}

static void commit(struct writer *c) {
    struct co_err err = {0};
    if (ckpt_point_commit(c->dir, &c->p, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

/* ---- reading ---- */

static int restore(struct testing *w, const struct writer *c, uint64_t number) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    w->err = (struct co_err){0};
    CO_TRY(ckpt_chain_open(c->dir, number, &chain, &w->err));
    return shard_tables_restore(&w->t, chain, &w->err);
}

static void restore_fine(struct testing *w, const struct writer *c, uint64_t number) {
    if (restore(w, c, number) < 0) {
        fail_msg("%s", w->err.msg);
    }
}

static float row_value(const struct testing *w, uint32_t table, uint64_t id) {
    uint32_t slot = table_store_find(w->t.tables[table].rows, id);
    assert_true(slot != TABLE_SLOT_NONE);
    return *(const float *)table_store_values(w->t.tables[table].rows, slot);
}

static const struct rt_table_spec rows_and_vector[] = {
    {.name = "rows", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd", .init = "zero"},
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd"},
};

/* ---- chains ---- */

/* Id 1 stays, 2 changes, 3 is erased, 4 is erased and comes back, 5 is new, then erased. */
static void a_chain_restores_the_last_version_of_each_row(void **unused) {
    (void)unused;
    struct writer c;
    struct testing w;
    writer_start(&c, rows_and_vector, 2);
    begin_part(&c, 1, 0, 0, 1);
    add_rows(&c, 0, 0, 1, 1, 4, 10);
    add_rows(&c, 0, 0, UINT64_MAX, 0, 1, 11);
    add_rows(&c, 0, 0, 0, 0, 1, 12);
    add_values(&c, 1, 0, 0, SIZE, 0);
    end_part(&c, 0);
    commit(&c);
    begin_part(&c, 2, 1, 0, 1);
    add_erased(&c, 0, 0, 3, 1, 2);
    add_rows(&c, 0, 0, 2, 0, 1, 20);
    add_rows(&c, 0, 0, 4, 1, 2, 21);
    add_rows(&c, 0, 0, 7, 0, 0, 0); /* no rows */
    add_values(&c, 1, 0, 8, 4, 1000);
    end_part(&c, 0);
    commit(&c);
    begin_part(&c, 3, 2, 0, 1);
    add_erased(&c, 0, 0, 5, 0, 1);
    add_erased(&c, 0, 0, 77, 0, 1); /* there never was such a row */
    add_rows(&c, 0, 0, 1, 0, 1, 30);
    end_part(&c, 0);
    commit(&c);
    testing_start(&w, rows_and_vector, 2, RT_ASYNC);
    static const struct {
        uint64_t number;
        size_t rows;
        float of[8]; /* of ids 0 to 7; NAN: none */
        float at8;   /* of the vector */
    } want[] = {
        {1, 6, {12, 10, 10, 10, 10, NAN, NAN, NAN}, 8},
        {2, 6, {12, 10, 20, NAN, 21, 21, NAN, NAN}, 1008},
        {3, 5, {12, 30, 20, NAN, 21, NAN, NAN, NAN}, 1008},
        {1, 6, {12, 10, 10, 10, 10, NAN, NAN, NAN}, 8}, /* back again */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        restore_fine(&w, &c, want[i].number);
        assert_int_equal(want[i].rows, testing_count(&w, 0));
        assert_true(row_value(&w, 0, UINT64_MAX) == 11);
        for (uint64_t id = 0; id < 8; id++) {
            assert_int_equal(!isnan(want[i].of[id]), testing_has(&w, 0, id));
            assert_true(isnan(want[i].of[id]) || row_value(&w, 0, id) == want[i].of[id]);
        }
        const float *v = w.t.tables[1].blocks[0].w;
        assert_true(v[7] == 7 && v[8] == want[i].at8 && v[12] == 12 && v[SIZE - 1] == SIZE - 1);
    }
    testing_end(&w);
    writer_end(&c);
}

/* The memory for ids that were erased is one for all tables.  What one table has used is there for
 * the next one. */
static void more_erased_ids_than_memory_holds_take_several_passes(void **unused) {
    static const struct rt_table_spec specs[] = {
        {.name = "a", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd"},
        {.name = "b", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd"},
    };
    (void)unused;
    struct writer c;
    struct testing w;
    writer_start(&c, specs, 2);
    begin_part(&c, 1, 0, 0, 1);
    for (uint32_t table = 0; table < 2; table++) {
        add_rows(&c, table, 0, 0, 1, 2 * MANY, 1);
    }
    end_part(&c, 0);
    commit(&c);
    begin_part(&c, 2, 1, 0, 1);
    for (uint32_t table = 0; table < 2; table++) {
        add_erased(&c, table, 0, 0, 2, MANY);
        add_rows(&c, table, 0, 4, 0, 1, 2); /* erased and made again */
    }
    end_part(&c, 0);
    commit(&c);
    testing_start(&w, specs, 2, RT_ASYNC);
    restore_fine(&w, &c, 2);
    for (uint32_t table = 0; table < 2; table++) {
        assert_int_equal(MANY + 1, testing_count(&w, table));
        assert_true(row_value(&w, table, 4) == 2);
        for (uint64_t id = 0; id < 2UL * MANY; id++) {
            assert_int_equal(id % 2 || id == 4, testing_has(&w, table, id));
        }
    }
    testing_end(&w);
    writer_end(&c);
}

/* ---- other numbers of servers and shards ---- */

enum { IDS = 900 };

/* Ids 0 .. IDS - 1 and the last one there is; in the delta each third is gone. */
static uint64_t id_of(uint32_t i) {
    return i < IDS ? i : UINT64_MAX;
}

static void write_shard(struct writer *c, const struct ps_table *vector,
    const struct ps_shard_position *at, bool full) {
    for (uint32_t i = 0; i <= IDS; i++) {
        uint64_t id = id_of(i);
        if (ps_sparse_server(id, at->servers) != at->server ||
            ps_sparse_shard(id, at->shards) != at->shard) {
            continue;
        }
        if (full) {
            add_rows(c, 0, at->shard, id, 0, 1, (float)i);
        } else if (id % 3 == 0) {
            add_erased(c, 0, at->shard, id, 0, 1);
        }
    }
    struct ps_range part = ps_dense_share(vector, at);
    if (part.n > 0) {
        add_values(c, 1, at->shard, part.begin, (uint32_t)part.n, full ? 0 : 100);
    }
}

static void write_two_by_two(struct writer *c) {
    struct ps_table tables[2];
    writer_start(c, rows_and_vector, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(0, ps_table_make(&rows_and_vector[i], &tables[i], NULL));
    }
    ps_tables_take_turns(tables, 2);
    c->p.n_parts = 2;
    for (uint64_t number = 1; number <= 2; number++) {
        for (uint32_t server = 0; server < 2; server++) {
            begin_part(c, number, number - 1, server, 2);
            for (uint32_t shard = 0; shard < 2; shard++) {
                const struct ps_shard_position at = {server, 2, shard, 2};
                write_shard(c, &tables[1], &at, number == 1);
            }
            end_part(c, server);
        }
        commit(c);
    }
}

/* Each row and each value is in one place, that of its owner. */
static void any_number_of_shards_restores_what_it_owns(void **unused) {
    static const uint32_t counts[][2] = {{1, 1}, {2, 2}, {1, 2}, {2, 1}, {3, 2}, {1, 5}};
    (void)unused;
    struct writer c;
    write_two_by_two(&c);
    for (size_t k = 0; k < CO_ARRAY_LEN(counts); k++) {
        uint32_t servers = counts[k][0], shards = counts[k][1];
        size_t rows = 0, values = 0;
        for (uint32_t place = 0; place < servers * shards; place++) {
            struct testing w;
            testing_make(&w, rows_and_vector, 2, RT_ASYNC);
            w.config.servers = servers;
            w.config.shards = shards;
            w.config.server = place / shards;
            w.config.index = place % shards;
            testing_open(&w);
            restore_fine(&w, &c, 2);
            rows += testing_count(&w, 0);
            for (uint32_t i = 0; i <= IDS; i++) {
                uint64_t id = id_of(i);
                bool mine = ps_sparse_server(id, servers) == w.config.server &&
                            ps_sparse_shard(id, shards) == w.config.index;
                assert_int_equal(mine && id % 3 != 0, testing_has(&w, 0, id));
                assert_true(!testing_has(&w, 0, id) || row_value(&w, 0, id) == (float)i);
            }
            const struct ps_shard_position here = {
                w.config.server, servers, w.config.index, shards};
            struct ps_range part = ps_dense_share(&w.tables[1], &here);
            for (size_t i = 0; i < part.n; i++) {
                assert_true(w.t.tables[1].blocks[0].w[i] == (float)(part.begin + i) + 100);
            }
            values += part.n;
            testing_end(&w);
        }
        size_t want = 0;
        for (uint32_t i = 0; i <= IDS; i++) {
            want += id_of(i) % 3 != 0;
        }
        assert_int_equal(want, rows);
        assert_int_equal(SIZE, values);
    }
    writer_end(&c);
}

/* As many shards, but the vector was cut in another way. */
static void values_are_found_in_the_chunks_of_another_shard(void **unused) {
    (void)unused;
    struct writer c;
    writer_start(&c, rows_and_vector, 2);
    begin_part(&c, 1, 0, 0, 3);
    add_values(&c, 1, 2, 0, SIZE / 2, 5);
    add_values(&c, 1, 0, SIZE / 2, SIZE / 2, 5);
    end_part(&c, 0);
    commit(&c);
    for (uint32_t shard = 0; shard < 3; shard++) {
        const struct ps_shard_position here = {0, 1, shard, 3};
        struct testing w;
        testing_make(&w, rows_and_vector, 2, RT_ASYNC);
        w.config.shards = 3;
        w.config.index = shard;
        testing_open(&w);
        restore_fine(&w, &c, 1);
        struct ps_range part = ps_dense_share(&w.tables[1], &here);
        for (size_t i = 0; i < part.n; i++) {
            assert_true(w.t.tables[1].blocks[0].w[i] == (float)(part.begin + i) + 5);
        }
        testing_end(&w);
    }
    writer_end(&c);
}

/* ---- other tables ---- */

static void tables_that_do_not_fit_are_named_and_stay(void **unused) {
    static const struct {
        struct rt_table_spec saved;
        const char *optimizer; /* in the manifest; NULL: that of the spec */
        uint64_t state;        /* likewise, if optimizer is given */
        const char *said;
    } rows[] = {
        {{.name = "other", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd"}, NULL, 0,
            "it has no table \"rows\""},
        {{.name = "rows", .kind = RT_SPARSE, .dim = 3, .optimizer = "sgd"}, NULL, 0,
            "table \"rows\" is sparse there, size 0, dim 3; here it is sparse, size 0, dim 2"},
        {{.name = "rows", .kind = RT_DENSE, .size = 9, .optimizer = "sgd"}, NULL, 0,
            "table \"rows\" is dense there, size 9, dim 0; here it is sparse, size 0, dim 2"},
        {{.name = "rows", .kind = RT_SPARSE, .dim = 2}, "newton:lr=1", 0, "newton"},
        {{.name = "rows", .kind = RT_SPARSE, .dim = 2}, "sgd:speed=1", 0, "speed"},
        {{.name = "rows", .kind = RT_SPARSE, .dim = 2}, "adam:lr=1", 1,
            "table \"rows\" has 1 floats of state there with optimizer \"adam:lr=1\", here that "
            "has"},
    };
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct writer c;
        struct testing w;
        writer_start(&c, &rows[i].saved, 1);
        if (rows[i].optimizer) {
            (void)snprintf(
                c.tables[0].optimizer, sizeof(c.tables[0].optimizer), "%s", rows[i].optimizer);
            c.tables[0].state = rows[i].state;
        }
        begin_part(&c, 1, 0, 0, 1);
        end_part(&c, 0);
        commit(&c);
        testing_start(&w, rows_and_vector, 1, RT_ASYNC);
        assert_int_equal(0, testing_push_one(&w, 0, 8, 1));
        assert_int_equal(CO_INVALID, restore(&w, &c, 1));
        if (!strstr(w.err.msg, rows[i].said) || !strstr(w.err.msg, "checkpoint 1 in \"") ||
            !strstr(w.err.msg, c.dir)) {
            fail_msg("'%s' does not say %s", w.err.msg, rows[i].said);
        }
        assert_true(testing_has(&w, 0, 8));
        testing_end(&w);
        writer_end(&c);
    }
}

/* Values count under any rule; the state only under its own, and counts only of the same kind. */
static void a_changed_rule_begins_with_a_new_state(void **unused) {
    static const struct {
        const char *saved, *saved_evict, *now, *now_evict;
        float state, count; /* the first of the restored row */
    } rows[] = {
        {"adagrad:initial=3", NULL, "adagrad:initial=3", NULL, 6, NAN},
        {"adagrad:initial=3", NULL, "adagrad:initial=4", NULL, 6, NAN}, /* the same rule */
        {"adam", NULL, "adagrad:initial=3", NULL, 3, NAN},
        {"sgd", NULL, "adagrad:initial=3", NULL, 3, NAN},
        {"adagrad:initial=3", "lfu:capacity=9", "adagrad:initial=3", "lfu:capacity=8", 6, 6},
        {"adagrad:initial=3", "lfu:capacity=9", "adagrad:initial=3", "ctr", 6, 0},
        {"sgd", "ctr", "adagrad:initial=3", "ctr", 3, 6},
    };
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_table_spec spec = {.name = "rows",
            .kind = RT_SPARSE,
            .dim = 2,
            .optimizer = rows[i].saved,
            .evict = rows[i].saved_evict};
        struct writer c;
        struct testing w;
        writer_start(&c, &spec, 1);
        begin_part(&c, 1, 0, 0, 1);
        add_rows(&c, 0, 0, 5, 0, 1, 6);
        end_part(&c, 0);
        commit(&c);
        spec.optimizer = rows[i].now;
        spec.evict = rows[i].now_evict;
        testing_start(&w, &spec, 1, RT_ASYNC);
        restore_fine(&w, &c, 1);
        struct table_store *store = w.t.tables[0].rows;
        uint32_t slot = table_store_find(store, 5);
        assert_true(row_value(&w, 0, 5) == 6);
        assert_true(table_store_state(store, slot)[0] == rows[i].state);
        if (!isnan(rows[i].count)) {
            const uint32_t *word = table_store_head(store, slot);
            const float *real = table_store_head(store, slot);
            bool ctr = co_streq(rows[i].now_evict, "ctr");
            assert_true((ctr ? *real : (float)*word) == rows[i].count);
        }
        testing_end(&w);
        writer_end(&c);
    }
}

/* A table that the job has no more is passed over. */
static void rows_of_a_table_that_the_job_lacks_are_skipped(void **unused) {
    (void)unused;
    struct writer c;
    struct testing w;
    writer_start(&c, rows_and_vector, 2);
    begin_part(&c, 1, 0, 0, 1);
    add_rows(&c, 0, 0, 1, 1, 9, 1);
    add_values(&c, 1, 0, 0, SIZE, 2);
    add_rate(&c, 0, 7, 0.5);
    end_part(&c, 0);
    commit(&c);
    begin_part(&c, 2, 1, 0, 1);
    add_erased(&c, 0, 0, 1, 1, 2);
    end_part(&c, 0);
    commit(&c);
    testing_start(&w, rows_and_vector + 1, 1, RT_ASYNC);
    restore_fine(&w, &c, 2);
    assert_true(w.t.tables[0].blocks[0].w[3] == 5);
    testing_end(&w);
    writer_end(&c);
}

/* ---- learning rates ---- */

static void rates_are_those_of_the_newest_checkpoint(void **unused) {
    static const struct {
        const char *now;
        double saved; /* rt_set_rate had set it */
        double lr;    /* after the restore */
        uint64_t steps;
    } rows[] = {
        {"sgd:lr=0.5", 0.5, 0.5, 12},
        {"sgd:lr=0.5", 0.25, 0.25, 12},    /* it stays in effect */
        {"sgd:lr=0.125", 0.25, 0.125, 12}, /* unless the user has changed the spec's */
        {"sgd:lr=0.5", (double)NAN, 0.5, 0},
        {"sgd:lr=0.5", (double)INFINITY, 0.5, 0},
    };
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_table_spec spec = {
            .name = "rows", .kind = RT_SPARSE, .dim = 2, .optimizer = "sgd:lr=0.5"};
        struct writer c;
        struct testing w;
        bool bad = !isfinite(rows[i].saved);
        writer_start(&c, &spec, 1);
        begin_part(&c, 1, 0, 0, 1);
        add_rate(&c, 0, bad ? 0 : 5, bad ? 0.5 : 0.75);
        end_part(&c, 0);
        commit(&c);
        begin_part(&c, 2, 1, 0, 1);
        add_rate(&c, 0, 12, rows[i].saved);
        end_part(&c, 0);
        commit(&c);
        spec.optimizer = rows[i].now;
        testing_start(&w, &spec, 1, RT_ASYNC);
        restore_fine(&w, &c, 2);
        assert_true(w.t.tables[0].lr == rows[i].lr);
        assert_true(w.t.tables[0].optim.hyper[OPTIM_LR] == (float)rows[i].lr);
        assert_int_equal(rows[i].steps, w.t.tables[0].steps);
        testing_end(&w);
        writer_end(&c);
    }
}

/* The steps of the schedules are the checkpoint's, not with a part of one that was made since. */
static void a_step_that_had_begun_is_forgotten(void **unused) {
    (void)unused;
    struct writer c;
    struct testing w;
    writer_start(&c, rows_and_vector, 2);
    begin_part(&c, 1, 0, 0, 1);
    add_rate(&c, 0, 5, 0.5);
    end_part(&c, 0);
    commit(&c);
    testing_start(&w, rows_and_vector, 2, RT_ASYNC);
    rpc_frame_free(testing_call(&w, RPC_FRAME_TICK, 0, 0)); /* of one of two trainers */
    restore_fine(&w, &c, 1);
    rpc_frame_free(testing_call(&w, RPC_FRAME_TICK, 0, 0));
    assert_int_equal(5, w.t.tables[0].steps);
    rpc_frame_free(testing_call(&w, RPC_FRAME_TICK, 0, 0));
    assert_int_equal(6, w.t.tables[0].steps);
    testing_end(&w);
    writer_end(&c);
}

/* ---- what ends a restore ---- */

static void assert_empty(const struct testing *w, const char *what) {
    const float *v = w->t.tables[1].blocks[0].w;
    if (testing_count(w, 0) > 0) {
        fail_msg("%s: %zu rows are left", what, testing_count(w, 0));
    }
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(v[i] == 0);
    }
}

static void write_short_chain(struct writer *c) {
    writer_start(c, rows_and_vector, 2);
    begin_part(c, 1, 0, 0, 1);
    add_rows(c, 0, 0, 1, 1, 5, 1);
    add_values(c, 1, 0, 0, SIZE, 1);
    add_rate(c, 0, 3, 0.5);
    end_part(c, 0);
    commit(c);
    begin_part(c, 2, 1, 0, 1);
    add_erased(c, 0, 0, 2, 0, 1);
    add_rows(c, 0, 0, 1, 0, 1, 2);
    add_values(c, 1, 0, 3, 2, 7);
    add_rate(c, 0, 4, 0.5);
    end_part(c, 0);
    commit(c);
}

struct file {
    char *path;
    unsigned char data[4096];
    size_t len;
};

static void file_read(struct file *f, char *path_own) {
    f->path = path_own;
    FILE *in = fopen(f->path, "re");
    assert_non_null(in);
    f->len = fread(f->data, 1, sizeof(f->data), in);
    assert_in_range(f->len, 1, sizeof(f->data) - 1);
    (void)fclose(in);
}

/* In place: a file that was cut off and written again may be synced when it is closed. */
static void file_write(const struct file *f, size_t len) {
    CO_AUTOCLOSE int fd = open(f->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(len, pwrite(fd, f->data, len, 0));
    assert_int_equal(0, ftruncate(fd, (off_t)len));
}

static void expect_damaged(
    struct testing *w, const struct writer *c, const struct file *f, const char *what, size_t at) {
    assert_int_equal(0, testing_push_one(w, 0, 99, 1));
    int rc = restore(w, c, 2);
    CO_AUTOFREE char *where = co_xasprintf("%s: %s at %zu", f->path, what, at);
    if (rc != CO_DAMAGED || !strstr(w->err.msg, c->dir)) {
        fail_msg("%s: %d '%s'", where, rc, w->err.msg);
    }
    if (strstr(f->path, "/part-")) {
        if (!strstr(w->err.msg, f->path)) {
            fail_msg("%s: '%s' does not name the file", where, w->err.msg);
        }
    } else {
        shard_tables_clear(&w->t); /* a chain without its manifest does not come to the tables */
    }
    if (strcmp(what, "a bit") == 0 || !testing_has(w, 0, 99)) {
        assert_empty(w, where);
    }
    shard_tables_clear(&w->t);
}

/* Every bit counts: of heads, of chunks and of what is between them, in each file of the chain. */
static void damage_is_named_with_its_file_and_leaves_empty_tables(void **unused) {
    (void)unused;
    struct writer c;
    struct testing w;
    struct file files[4];
    write_short_chain(&c);
    for (uint64_t number = 1; number <= 2; number++) {
        CO_AUTOFREE char *at = ckpt_point_dir(c.dir, number);
        file_read(&files[number * 2 - 2], ckpt_point_part(c.dir, number, 0));
        file_read(&files[number * 2 - 1], co_xasprintf("%s/MANIFEST", at));
    }
    testing_start(&w, rows_and_vector, 2, RT_ASYNC);
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        struct file *f = &files[i];
        for (size_t k = 0; k < f->len; k++) {
            unsigned char was = f->data[k];
            f->data[k] ^= (unsigned char)(1U << (k % 7));
            file_write(f, f->len);
            expect_damaged(&w, &c, f, "a bit", k);
            f->data[k] = was;
        }
        for (size_t k = 0; k < f->len; k += 7) {
            file_write(f, k);
            expect_damaged(&w, &c, f, "cut off", k);
        }
        f->data[f->len] = 0;
        file_write(f, f->len + 1);
        expect_damaged(&w, &c, f, "one byte more", f->len);
        file_write(f, f->len);
        restore_fine(&w, &c, 2);
        assert_int_equal(4, testing_count(&w, 0));
        shard_tables_clear(&w.t);
        free(f->path);
    }
    testing_end(&w);
    writer_end(&c);
}

/* Its checksums are right, so it was written wrong. */
static void chunks_that_cannot_be_of_these_tables_are_damage(void **unused) {
    static const struct {
        struct ckpt_part_chunk chunk;
        const char *said;
    } rows[] = {
        {{CKPT_PART_ROWS, 2, 0, 1, 0, 16}, "of a shard or table that the manifest does not have"},
        {{CKPT_PART_ROWS, 0, 1, 1, 0, 16}, "of a shard or table that the manifest does not have"},
        {{CKPT_PART_ERASED, UINT32_MAX, 0, 1, 0, 8}, "of a shard or table that the manifest"},
        {{CKPT_PART_KINDS, 0, 0, 1, 0, 8}, "of an unknown kind or size"},
        {{CKPT_PART_ROWS, 1, 0, 1, 0, 16}, "rows of a dense table"},
        {{CKPT_PART_ERASED, 1, 0, 1, 0, 8}, "rows of a dense table"},
        {{CKPT_PART_DENSE, 0, 0, 1, 0, 4}, "values of a sparse table"},
        {{CKPT_PART_ROWS, 0, 0, 1, 0, 20}, "1 rows of table \"rows\" has 20 bytes, expected 16"},
        {{CKPT_PART_ROWS, 0, 0, 2, 0, 16}, "2 rows of table \"rows\" has 16 bytes, expected 32"},
        {{CKPT_PART_ERASED, 0, 0, 2, 0, 8},
            "erased ids of table \"rows\" has 8 bytes, expected 16"},
        {{CKPT_PART_RATE, 0, 0, 1, 0, 8}, "rate of table \"rows\" has 8 bytes, expected 16"},
        {{CKPT_PART_DENSE, 1, 0, 1, SIZE, 4}, "some behind the end of their table"},
        {{CKPT_PART_DENSE, 1, 0, 2, SIZE - 1, 8}, "some behind the end of their table"},
        {{CKPT_PART_DENSE, 1, 0, 1, UINT64_MAX, 4}, "some behind the end of their table"},
        {{CKPT_PART_DENSE, 1, 0, 0, 0, 0}, "no values"},
    };
    static const unsigned char data[64];
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct writer c;
        struct testing w;
        writer_start(&c, rows_and_vector, 2);
        begin_part(&c, 1, 0, 0, 1);
        add_rows(&c, 0, 0, 1, 1, 5, 1);
        add(&c, rows[i].chunk, data);
        end_part(&c, 0);
        commit(&c);
        testing_start(&w, rows_and_vector, 2, RT_ASYNC);
        int rc = restore(&w, &c, 1);
        CO_AUTOFREE char *path = ckpt_point_part(c.dir, 1, 0);
        if (rc != CO_DAMAGED || !strstr(w.err.msg, rows[i].said) || !strstr(w.err.msg, path)) {
            fail_msg("row %zu: %d '%s' does not say %s", i, rc, w.err.msg, rows[i].said);
        }
        assert_empty(&w, rows[i].said);
        testing_end(&w);
        writer_end(&c);
    }
}

static void rows_that_exceed_the_memory_are_refused_by_name(void **unused) {
    (void)unused;
    struct writer c;
    struct testing w;
    writer_start(&c, rows_and_vector, 2);
    begin_part(&c, 1, 0, 0, 1);
    add_rows(&c, 0, 0, 0, 1, MANY, 1);
    end_part(&c, 0);
    commit(&c);
    testing_make(&w, rows_and_vector, 2, RT_ASYNC);
    w.budget.max = 1 << 20;
    testing_open(&w);
    size_t used = atomic_load(&w.budget.used);
    assert_int_equal(CO_NORESOURCE, restore(&w, &c, 1));
    assert_non_null(strstr(w.err.msg, "table \"rows\""));
    assert_non_null(strstr(w.err.msg, "1024 KiB (memory_max)"));
    assert_empty(&w, "no memory");
    assert_int_equal(used, atomic_load(&w.budget.used)); /* for the next restore, and for others */
    testing_end(&w);
    writer_end(&c);
}

static void a_server_that_ends_gives_up_and_leaves_empty_tables(void **unused) {
    (void)unused;
    const atomic_bool stop = true;
    struct writer c;
    struct testing w;
    write_short_chain(&c);
    testing_start(&w, rows_and_vector, 2, RT_ASYNC);
    assert_int_equal(0, testing_push_one(&w, 0, 99, 1));
    w.t.stop = &stop;
    assert_int_equal(CO_CANCELED, restore(&w, &c, 2));
    assert_string_equal("the server ends", w.err.msg);
    assert_empty(&w, "stopped");
    w.t.stop = NULL;
    restore_fine(&w, &c, 2);
    testing_end(&w);
    writer_end(&c);
}

static char *overwrite(const char *path, unsigned at) {
    return co_xasprintf("printf x | dd of=%s bs=1 seek=%u conv=notrunc 2>/dev/null", path, at);
}

/* A server reads all that it loads, and opens what other servers load. */
static void verify_reads_what_the_shards_would_load(void **unused) {
    (void)unused;
    struct writer c;
    write_two_by_two(&c);
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    assert_int_equal(0, ckpt_chain_open(c.dir, 2, &chain, NULL));
    CO_AUTOFREE char *at = ckpt_point_part(c.dir, 1, 1);
    CO_AUTOFREE char *data = overwrite(at, 200), *head = overwrite(at, 9);
    static const struct {
        uint32_t server, servers, shards;
        int rc; /* with the damage in the part of server 1 */
    } rows[] = {{0, 2, 2, 0}, {1, 2, 2, CO_DAMAGED}, {0, 2, 3, CO_DAMAGED}, {0, 1, 2, CO_DAMAGED},
        {2, 3, 2, CO_DAMAGED}};
    for (int damaged = 0; damaged < 2; damaged++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
            struct co_err err = {0};
            assert_int_equal(damaged ? rows[i].rc : 0,
                shard_restore_verify(chain, rows[i].server, rows[i].servers, rows[i].shards, &err));
            assert_true(err.code == 0 || strstr(err.msg, at));
        }
        assert_int_equal(0, system(data));
    }
    assert_int_equal(0, system(head)); /* a head is read by all */
    assert_int_equal(CO_DAMAGED, shard_restore_verify(chain, 0, 2, 2, NULL));
    writer_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_restores_the_last_version_of_each_row),
        cmocka_unit_test(more_erased_ids_than_memory_holds_take_several_passes),
        cmocka_unit_test(any_number_of_shards_restores_what_it_owns),
        cmocka_unit_test(values_are_found_in_the_chunks_of_another_shard),
        cmocka_unit_test(tables_that_do_not_fit_are_named_and_stay),
        cmocka_unit_test(a_changed_rule_begins_with_a_new_state),
        cmocka_unit_test(rows_of_a_table_that_the_job_lacks_are_skipped),
        cmocka_unit_test(rates_are_those_of_the_newest_checkpoint),
        cmocka_unit_test(a_step_that_had_begun_is_forgotten),
        cmocka_unit_test(damage_is_named_with_its_file_and_leaves_empty_tables),
        cmocka_unit_test(chunks_that_cannot_be_of_these_tables_are_damage),
        cmocka_unit_test(rows_that_exceed_the_memory_are_refused_by_name),
        cmocka_unit_test(a_server_that_ends_gives_up_and_leaves_empty_tables),
        cmocka_unit_test(verify_reads_what_the_shards_would_load),
    };
    return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
