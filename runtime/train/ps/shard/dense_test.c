/* Dense tables of a shard: blocks, their state, steps, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/huge.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/tables_testing.h"
#include "runtime/train/table/int8.h"

enum { SIZE = 20, TAIL = 5 };

static const struct rt_table_spec plain[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"}};

/* `first` + i. */
static struct rpc_frame *values(uint8_t kind, uint64_t chunk, uint32_t n, float first) {
    struct rpc_frame *f = testing_frame(kind, 0, n, 4UL * n);
    f->head.aux = chunk;
    for (uint32_t i = 0; i < n; i++) {
        float v = first + (float)i;
        co_copy_f32(f->payload + 4UL * i, &v, 1);
    }
    return f;
}

static void assert_values(struct rpc_frame *a_own, uint32_t n, float first, float step) {
    assert_int_equal(n, a_own->head.count);
    assert_int_equal(4 * n, a_own->head.bytes);
    for (uint32_t i = 0; i < n; i++) {
        float v;
        co_copy_f32(&v, a_own->payload + 4UL * i, 1);
        if (v != first + step * (float)i) {
            fail_msg(
                "value %u is %g, expected %g", i, (double)v, (double)(first + step * (float)i));
        }
    }
    rpc_frame_free(a_own);
}

static void pull(struct testing *w, uint64_t chunk, uint32_t n, float first, float step) {
    assert_values(testing_call(w, RPC_FRAME_PULL_DENSE, 0, chunk), n, first, step);
}

static void values_begin_at_zero_and_are_what_was_put(void **unused) {
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, plain, 1, (enum rt_mode)mode);
        pull(&w, 0, SIZE, 0, 0);
        assert_null(testing_do(&w, values(RPC_FRAME_PUT_DENSE, 0, SIZE, 7)));
        pull(&w, 0, SIZE, 7, 1);
        assert_int_equal(2 * SIZE, w.t.tables[0].pulls);
        testing_end(&w);
    }
}

/* Async: at once.  Sync: the step applies the mean of the trainers. */
static void gradients_count_at_once_or_with_the_step(void **unused) {
    (void)unused;
    struct testing w;
    testing_start(&w, plain, 1, RT_ASYNC);
    assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 1)));
    pull(&w, 0, SIZE, -1, -1);
    assert_values(testing_do(&w, values(RPC_FRAME_XCHG_DENSE, 0, SIZE, 1)), SIZE, -2, -2);
    assert_int_equal(2 * SIZE, w.t.tables[0].pushes);
    testing_end(&w);

    testing_start(&w, plain, 1, RT_SYNC);
    assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 1)));
    assert_values(testing_do(&w, values(RPC_FRAME_XCHG_DENSE, 0, SIZE, 3)), SIZE, 0, 0);
    for (int i = 0; i < 2; i++) { /* a step without pushes changes nothing */
        assert_int_equal(0, shard_tables_step(&w.t, 2, NULL));
        pull(&w, 0, SIZE, -2, -1);
    }
    assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 5)));
    assert_int_equal(0, shard_tables_step(&w.t, 1, NULL)); /* what an earlier step had is gone */
    pull(&w, 0, SIZE, -7, -2);
    testing_end(&w);
}

/* The rule of geo adds what trainers send; in a step too, it is no mean. */
static void differences_are_added(void **unused) {
    struct rt_table_spec spec = plain[0];
    (void)unused;
    spec.mode = RT_GEO;
    struct testing w;
    testing_start(&w, &spec, 1, RT_GEO);
    for (int i = 0; i < 2; i++) {
        assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 1)));
    }
    pull(&w, 0, SIZE, 2, 2);
    testing_end(&w);
}

/* A table may be larger than a frame: each block has its own place and state. */
static void blocks_are_apart(void **unused) {
    static const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = PS_DENSE_CHUNK + TAIL, .optimizer = "sgd:lr=1"};
    (void)unused;
    for (int mode = RT_ASYNC; mode <= RT_SYNC; mode++) {
        struct testing w;
        testing_start(&w, &spec, 1, (enum rt_mode)mode);
        assert_int_equal(2, w.t.tables[0].n_blocks);
        assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 1, TAIL, 1)));
        assert_int_equal(0, mode == RT_SYNC ? shard_tables_step(&w.t, 1, NULL) : 0);
        pull(&w, 0, PS_DENSE_CHUNK, 0, 0);
        pull(&w, 1, TAIL, -1, -1);
        struct rpc_frame *f = values(RPC_FRAME_PUSH_DENSE, 1, TAIL, 1);
        float bad = NAN;
        co_copy_f32(f->payload + 4 * 3, &bad, 1);
        assert_int_equal(CO_INVALID, testing_ask(&w, 1, f, NULL));
        assert_non_null(strstr(w.err.msg, "to table \"w\", index 32771;")); /* in the table */
        pull(&w, 1, TAIL, -1, -1);
        testing_end(&w);
    }
}

/* The memory of one whose blocks fill huge pages. */
static void blocks_of_a_large_table_are_apart(void **unused) {
    enum { BLOCKS = 41 };
    static const struct rt_table_spec spec = {.name = "w",
        .kind = RT_DENSE,
        .size = (BLOCKS - 1) * PS_DENSE_CHUNK + TAIL,
        .optimizer = "adam:lr=1"};
    (void)unused;
    struct testing w;
    testing_start(&w, &spec, 1, RT_SYNC);
    assert_true(w.t.tables[0].dense_bytes > 2 * (size_t)CO_HUGE_MIN);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t n = i < BLOCKS - 1 ? PS_DENSE_CHUNK : TAIL;
        pull(&w, i, n, 0, 0);
        assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, i, n, 1)));
        assert_null(testing_do(&w, values(RPC_FRAME_PUT_DENSE, i, n, (float)i)));
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        pull(&w, i, i < BLOCKS - 1 ? PS_DENSE_CHUNK : TAIL, (float)i, 1);
    }
    testing_end(&w);
}

/* Values and state, as a save reads them, bring a table back; then it trains on as if nothing had
 * happened. */
static void restored_values_train_on_with_their_state(void **unused) {
    static const char *const rules[] = {"sgd:lr=1", "adagrad:lr=1", "adam:lr=1", "ftrl:lr=1"};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rules); i++) {
        struct rt_table_spec spec = plain[0];
        struct testing a, b;
        spec.optimizer = rules[i];
        testing_start(&a, &spec, 1, RT_ASYNC);
        testing_start(&b, &spec, 1, RT_ASYNC);
        for (int k = 0; k < 3; k++) {
            assert_null(testing_do(&a, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, (float)k)));
        }
        struct rpc_frame *all = testing_call(&a, RPC_FRAME_GET_DENSE, 0, 0);
        assert_int_equal(SIZE + ps_table_state(&a.tables[0], SIZE), all->head.count);
        assert_int_equal(4 * all->head.count, all->head.bytes);
        struct rpc_frame *f =
            testing_frame(RPC_FRAME_RESTORE_DENSE, 0, all->head.count, all->head.bytes);
        memcpy(f->payload, all->payload, all->head.bytes);
        rpc_frame_free(all);
        assert_null(testing_do(&b, f));
        struct rpc_frame *got[2];
        struct testing *worlds[] = {&a, &b};
        for (int k = 0; k < 2; k++) {
            assert_null(testing_do(worlds[k], values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 2)));
            got[k] = testing_call(worlds[k], RPC_FRAME_GET_DENSE, 0, 0);
        }
        assert_memory_equal(got[0]->payload, got[1]->payload, got[0]->head.bytes);
        rpc_frame_free(got[0]);
        rpc_frame_free(got[1]);
        testing_end(&a);
        testing_end(&b);
    }
}

/* ---- what is not finite ---- */

/* n values are 1, but one of them is bad. */
static struct rpc_frame *with_bad(uint8_t kind, uint32_t n, uint32_t at, float bad) {
    struct rpc_frame *f = testing_frame(kind, 0, n, 4UL * n);
    for (uint32_t i = 0; i < n; i++) {
        float v = i == at ? bad : 1;
        co_copy_f32(f->payload + 4UL * i, &v, 1);
    }
    return f;
}

/* adam: SIZE values, two planes of as much state, and scalars. */
static void a_value_that_is_not_finite_is_named(void **unused) {
    static const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adam"};
    enum { ALL = 3 * SIZE + 1 };
    static const struct {
        uint8_t kind;
        uint32_t n, at;
        const char *said;
    } rows[] = {
        {RPC_FRAME_PUSH_DENSE, SIZE, 0, "trainer 1 pushed NaN or Inf to table \"w\", index 0"},
        {RPC_FRAME_PUSH_DENSE, SIZE, 19, "trainer 1 pushed NaN or Inf to table \"w\", index 19"},
        {RPC_FRAME_XCHG_DENSE, SIZE, 7, "trainer 1 pushed NaN or Inf to table \"w\", index 7"},
        {RPC_FRAME_PUT_DENSE, SIZE, 7,
            "trainer 1 gave NaN or Inf as first values to table \"w\", index 7"},
        {RPC_FRAME_RESTORE_DENSE, ALL, 7, NULL},
        {RPC_FRAME_RESTORE_DENSE, ALL, SIZE + 7, NULL},
        {RPC_FRAME_RESTORE_DENSE, ALL, 3 * SIZE - 1, NULL},
        {RPC_FRAME_RESTORE_DENSE, ALL, 3 * SIZE, NULL},
    };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (int policy = RT_NONFINITE_UNSET; policy <= RT_NONFINITE_ALLOW; policy++) {
            struct testing w;
            struct rpc_frame *f =
                with_bad(rows[i].kind, rows[i].n, rows[i].at, bad[i % CO_ARRAY_LEN(bad)]);
            bool load = rows[i].kind == RPC_FRAME_RESTORE_DENSE; /* a server had it: taken */
            bool refuse = policy <= RT_NONFINITE_REFUSE && !load;
            testing_make(&w, &spec, 1, RT_ASYNC);
            w.config.nonfinite = (enum rt_nonfinite)policy;
            testing_open(&w);
            assert_int_equal(refuse ? CO_INVALID : 0, testing_ask(&w, 1, f, NULL));
            const struct shard_dense_block *b = &w.t.tables[0].blocks[0];
            if (refuse) {
                CO_AUTOFREE char *said = co_xasprintf("%s; refused (servers with "
                                                      "PADDLE_PS_NONFINITE=skip leave it out)",
                    rows[i].said);
                assert_string_equal(said, w.err.msg);
                for (size_t k = 0; k < SIZE; k++) {
                    assert_true(b->w[k] == 0);
                }
            } else if (policy == RT_NONFINITE_SKIP) {
                for (size_t k = 0; k < SIZE; k++) {
                    assert_true(isfinite(b->w[k]) && isfinite(b->state[k]));
                    assert_int_equal(k == rows[i].at, b->w[k] == 0);
                }
            }
            bool taken = policy == RT_NONFINITE_ALLOW || (load && policy != RT_NONFINITE_SKIP);
            const float *got = rows[i].at < SIZE ? b->w + rows[i].at : b->state + rows[i].at - SIZE;
            assert_true(!load || taken == !isfinite(*got));
            assert_int_equal(!taken, w.t.tables[0].nonfinite);
            testing_end(&w);
        }
    }
}

/* ---- wire int8 ---- */

static const struct rt_table_spec int8[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1", .wire = "int8"}};

static struct rpc_frame *int8_push(const float *g) {
    float rest[SIZE] = {0};
    struct rpc_frame *f = testing_frame(RPC_FRAME_PUSH_DENSE, 0, SIZE, table_int8_bytes(SIZE));
    table_int8_send(f->payload, g, rest, SIZE);
    return f;
}

/* Two trainers push the same gradient, and the step is applied. */
static void int8_step(struct testing *w, float first) {
    float g[SIZE];
    for (size_t i = 0; i < SIZE; i++) {
        g[i] = first + (float)i;
    }
    for (int k = 0; k < 2; k++) {
        assert_null(testing_do(w, int8_push(g)));
    }
    assert_int_equal(0, shard_tables_step(&w->t, 2, NULL));
}

struct int8_trainer {
    uint32_t version;
    float w[SIZE];
};

/* Asks for what comes of a step.  whole: the answer must be all values, not what has changed. */
static void int8_pull(struct testing *w, struct int8_trainer *t, bool whole) {
    struct rpc_frame *f = testing_frame(RPC_FRAME_PULL_DENSE, 0, SIZE, 0);
    f->head.number = 1;
    f->head.aux = (uint64_t)t->version << 32;
    struct rpc_frame *a = testing_do(w, f);
    assert_int_equal(whole ? 4 * SIZE : table_int8_bytes(SIZE), a->head.bytes);
    assert_int_equal(SIZE, a->head.count);
    if (whole) {
        co_copy_f32(t->w, a->payload, SIZE);
    } else {
        table_int8_add(t->w, a->payload, SIZE);
    }
    t->version = (uint32_t)a->head.aux;
    assert_true(t->version != 0);
    rpc_frame_free(a);
}

static void int8_near(const struct testing *w, const struct int8_trainer *t, float most) {
    for (size_t i = 0; i < SIZE; i++) {
        float want = w->t.tables[0].blocks[0].w[i];
        if (fabsf(want - t->w[i]) > most) {
            fail_msg("value %zu is %g, expected %g", i, (double)t->w[i], (double)want);
        }
    }
}

/* Both trainers have the same values after each step, near those of the server. */
static void trainers_get_what_a_step_has_changed(void **unused) {
    (void)unused;
    struct testing w;
    struct int8_trainer a = {0}, b = {0};
    testing_start(&w, int8, 1, RT_SYNC);
    for (int step = 0; step < 20; step++) {
        int8_step(&w, (float)(step % 3) - 10);
        int8_pull(&w, &a, step == 0);
        int8_pull(&w, &b, step == 0);
        assert_memory_equal(a.w, b.w, sizeof(a.w));
        int8_near(&w, &a, 11.0F / 127);
    }
    for (int step = 0; step < 3; step++) { /* steps without gradients bring what was left */
        assert_int_equal(0, shard_tables_step(&w.t, 2, NULL));
        int8_pull(&w, &a, false);
    }
    int8_near(&w, &a, 1e-5F);
    testing_end(&w);
}

/* A trainer whose values are not those of the step before gets all: a new one, one that left a step
 * out, one whose values were replaced meanwhile, even if another has pulled since. */
static void a_trainer_with_other_values_gets_all(void **unused) {
    (void)unused;
    struct testing w;
    struct int8_trainer a = {0}, b = {0}, c = {0};
    testing_start(&w, int8, 1, RT_SYNC);
    int8_step(&w, 1);
    int8_pull(&w, &a, true);
    int8_step(&w, 1);
    int8_pull(&w, &b, true);
    int8_pull(&w, &a, false);
    int8_step(&w, 1);
    int8_pull(&w, &b, false);
    int8_step(&w, 1);
    int8_pull(&w, &b, false);
    int8_pull(&w, &a, true);
    assert_memory_equal(a.w, b.w, sizeof(a.w));

    assert_null(testing_do(&w, values(RPC_FRAME_PUT_DENSE, 0, SIZE, 7)));
    int8_pull(&w, &b, true);
    int8_step(&w, 1);
    int8_pull(&w, &b, false);
    int8_pull(&w, &a, true);
    assert_memory_equal(a.w, b.w, sizeof(a.w));

    shard_tables_clear(&w.t);
    int8_step(&w, 1);
    int8_pull(&w, &a, true);
    int8_pull(&w, &c, true);
    assert_memory_equal(a.w, c.w, sizeof(a.w));
    int8_near(&w, &a, 1e-6F);
    testing_end(&w);
}

/* Values that are not finite can only travel as floats; a gradient that is not spoils its block. */
/* As in push_test.c: counted once, value by value; in geo mode values stay as they were. */
static void values_that_overflow_are_counted(void **unused) {
    static const struct {
        const char *rule, *wire;
        enum rt_mode mode;
        float g;
        uint64_t counted;
        bool values; /* that they overflow, too */
    } rows[] = {{"adagrad:lr=0.1", NULL, RT_ASYNC, 2e19F, 1, false},
        {"adagrad:lr=0.1", NULL, RT_SYNC, -2e19F, 1, false},
        {"adagrad:lr=0.1", "int8", RT_SYNC, 2e19F, 1, false},
        {"adagrad:lr=0.1", NULL, RT_SYNC, 1e18F, 0, false},
        {"sgd:lr=10", NULL, RT_ASYNC, 1e38F, 1, true}, {"sgd:lr=10", NULL, RT_SYNC, 1e38F, 1, true},
        {"sgd:lr=1", NULL, RT_GEO, 2e38F, 1, false}};
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_table_spec spec = plain[0];
        struct testing w;
        spec.optimizer = rows[i].rule;
        spec.wire = rows[i].wire;
        spec.mode = rows[i].mode;
        testing_start(&w, &spec, 1, rows[i].mode);
        const struct shard_table *st = &w.t.tables[0];
        for (int step = 0; step < 4; step++) {
            float g[SIZE] = {1, 1, 1};
            g[3] = step % 2 ? rows[i].g : 1;
            struct rpc_frame *f = rows[i].wire
                                      ? int8_push(g)
                                      : testing_frame(RPC_FRAME_PUSH_DENSE, 0, SIZE, 4 * SIZE);
            if (!rows[i].wire) {
                f->head.aux = 0;
                co_copy_f32(f->payload, g, SIZE);
            }
            assert_null(testing_do(&w, f));
            assert_int_equal(0, rows[i].mode == RT_SYNC ? shard_tables_step(&w.t, 1, NULL) : 0);
            shard_tables_settle(&w.t);
        }
        assert_int_equal(rows[i].counted, st->nonfinite);
        assert_true(isfinite(st->blocks[0].w[3]) == !rows[i].values);
        assert_true(isfinite(st->blocks[0].w[2]));
        testing_end(&w);
    }
}

static void int8_values_that_are_not_finite(void **unused) {
    (void)unused;
    struct testing w;
    struct int8_trainer a = {0};
    float g[SIZE] = {1, 2, INFINITY};
    testing_make(&w, int8, 1, RT_SYNC);
    w.config.nonfinite = RT_NONFINITE_ALLOW;
    testing_open(&w);
    int8_step(&w, 1);
    int8_pull(&w, &a, true);
    w.t.tables[0].blocks[0].w[3] = INFINITY;
    int8_step(&w, 1);
    int8_pull(&w, &a, true);
    assert_true(isinf(a.w[3]) && isfinite(a.w[4]));
    testing_end(&w);

    testing_start(&w, int8, 1, RT_SYNC);
    assert_int_equal(CO_INVALID, testing_ask(&w, 1, int8_push(g), NULL));
    assert_non_null(strstr(w.err.msg, "trainer 1 pushed NaN or Inf to table \"w\", index 0"));
    testing_end(&w);

    testing_make(&w, int8, 1, RT_SYNC);
    w.config.nonfinite = RT_NONFINITE_SKIP;
    testing_open(&w);
    int8_step(&w, 1);
    assert_null(testing_do(&w, int8_push(g)));
    assert_int_equal(0, shard_tables_step(&w.t, 2, NULL));
    assert_int_equal(SIZE, w.t.tables[0].nonfinite);
    testing_end(&w);
}

/* ---- steps that are due ---- */

enum { DUE_SIZE = PS_DENSE_CHUNK + TAIL, EVENTS = 400 };

static uint32_t dice(uint64_t *seed, uint32_t sides) {
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*seed >> 33) % sides;
}

/* A frame for one of the two blocks, with values that follow from `at`.  versions: of the blocks,
 * as the last answer said. */
static struct rpc_frame *some_frame(
    const struct ps_table *t, uint32_t what, uint32_t at, const uint32_t versions[2]) {
    static const uint8_t kinds[] = {RPC_FRAME_PUSH_DENSE, RPC_FRAME_PUSH_DENSE,
        RPC_FRAME_PULL_DENSE, RPC_FRAME_PULL_DENSE, RPC_FRAME_GET_DENSE, RPC_FRAME_PUT_DENSE,
        RPC_FRAME_RESTORE_DENSE, RPC_FRAME_SET_RATE};
    uint8_t kind = kinds[what % CO_ARRAY_LEN(kinds)];
    uint32_t chunk = at % 2, n = chunk == 0 ? PS_DENSE_CHUNK : TAIL;
    struct rpc_frame *f = NULL;
    if (kind == RPC_FRAME_SET_RATE) {
        double lr = 1.0 / (2 + at % 5);
        f = testing_frame(kind, 0, 0, 0);
        memcpy(&f->head.aux, &lr, sizeof(lr));
    } else if (kind == RPC_FRAME_PULL_DENSE || kind == RPC_FRAME_GET_DENSE) {
        f = testing_frame(kind, 0, 0, 0);
        f->head.aux = chunk;
        if (kind == RPC_FRAME_PULL_DENSE && at % 3 > 0) {
            f->head.number = 1;
            f->head.aux |= t->int8 ? (uint64_t)versions[chunk] << 32 : 0;
        }
    } else if (t->int8 && kind == RPC_FRAME_PUSH_DENSE) {
        float *g = co_xcalloc(2UL * n, sizeof(*g));
        for (uint32_t i = 0; i < n; i++) {
            g[i] = (float)(at % 7) - 3 + (float)i / 1e5F;
        }
        f = testing_frame(kind, 0, n, table_int8_bytes(n));
        f->head.aux = chunk;
        table_int8_send(f->payload, g, g + n, n);
        free(g);
    } else {
        n += kind == RPC_FRAME_RESTORE_DENSE ? (uint32_t)ps_table_state(t, n) : 0;
        f = values(kind, chunk, n, (float)(at % 7));
    }
    return f;
}

struct due_world {
    struct testing w;
    uint32_t versions[2];
};

static struct rpc_frame *due_do(struct due_world *d, uint32_t what, uint32_t at) {
    struct rpc_frame *f = some_frame(&d->w.tables[0], what, at, d->versions);
    bool versioned = d->w.tables[0].int8 && f->head.number > 0;
    struct rpc_frame *a = testing_do(&d->w, f);
    if (versioned) {
        d->versions[at % 2] = (uint32_t)a->head.aux;
    }
    return a;
}

/* Whatever comes between a step and the next frame for a block, all answers are those of a shard
 * that applies each step at once. */
static void due(const char *optimizer, const char *wire, uint64_t seed) {
    const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = DUE_SIZE, .optimizer = optimizer, .wire = wire};
    struct due_world late = {0}, prompt = {0};
    uint32_t left = 0;
    testing_start(&late.w, &spec, 1, RT_SYNC);
    testing_start(&prompt.w, &spec, 1, RT_SYNC);
    for (int i = 0; i < EVENTS; i++) {
        uint32_t what = dice(&seed, 12), at = dice(&seed, 1000);
        if (what < 8) {
            struct rpc_frame *a = due_do(&late, what, at), *b = due_do(&prompt, what, at);
            assert_int_equal(a != NULL, b != NULL);
            if (a && b) {
                assert_int_equal(a->head.bytes, b->head.bytes);
                assert_memory_equal(a->payload, b->payload, a->head.bytes);
            }
            rpc_frame_free(a);
            rpc_frame_free(b);
        } else if (what < 11) {
            left += late.w.t.tables[0].n_due;
            assert_int_equal(0, shard_tables_step(&late.w.t, 1 + at % 3, NULL));
            assert_int_equal(0, shard_tables_step(&prompt.w.t, 1 + at % 3, NULL));
            shard_tables_settle(&prompt.w.t);
            assert_int_equal(0, prompt.w.t.tables[0].n_due);
        } else if (at % 8 == 0) {
            shard_tables_clear(&late.w.t);
            shard_tables_clear(&prompt.w.t);
        }
    }
    assert_true(left > 0); /* when the next step came */
    testing_end(&late.w);
    testing_end(&prompt.w);
}

static void a_step_that_is_due_is_applied_before_anyone_sees(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        due("sgd:lr=1", NULL, seed);
        due("adam:lr=1", NULL, seed);
        due("adagrad:lr=1", "int8", seed);
    }
}

/* ---- what does not fit ---- */

static void a_frame_that_does_not_fit_is_refused_with_its_numbers(void **unused) {
    static const struct rt_table_spec specs[] = {
        {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adagrad"},
        {.name = "e", .kind = RT_SPARSE, .dim = 2},
        {.name = "h", .kind = RT_DENSE, .size = SIZE, .wire = "f16"},
        {.name = "i", .kind = RT_DENSE, .size = SIZE, .wire = "int8"},
    };
    static const struct {
        uint8_t kind;
        uint16_t table;
        uint64_t aux;
        uint32_t count, bytes;
        const char *said;
    } rows[] = {
        {RPC_FRAME_PULL_DENSE, 0, 1, 0, 0, "chunk 1 of 1 of table \"w\""},
        {RPC_FRAME_GET_DENSE, 0, UINT64_MAX, 0, 0,
            "chunk 18446744073709551615 of 1 of table \"w\""},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 19, 76, "19 values for a chunk of 20 of table \"w\""},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 21, 84, "21 values for a chunk of 20 of table \"w\""},
        {RPC_FRAME_RESTORE_DENSE, 0, 0, 20, 80, "20 values for a chunk of 40 of table \"w\""},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 20, 40, "40 bytes for 20 values of table \"w\" in f32"},
        {RPC_FRAME_PUSH_DENSE, 2, 0, 20, 80, "80 bytes for 20 values of table \"h\" in f16"},
        {RPC_FRAME_PUSH_DENSE, 3, 0, 20, 80, "80 bytes for 20 values of table \"i\" in int8"},
        {RPC_FRAME_PUSH_DENSE, 0, 0, 20, 22, "22 bytes for 20 values of table \"w\" in f32"},
        {RPC_FRAME_PUSH_DENSE, 1, 0, 20, 80, "table \"e\" is sparse"},
        {RPC_FRAME_PULL_SPARSE, 0, 0, 0, 0, "table \"w\" is dense"},
        {RPC_FRAME_PULL_DENSE, 4, 0, 0, 0, "there is no table 4"},
        {RPC_FRAME_STAT, UINT16_MAX, 0, 0, 0, "there is no table 65535"},
        {RPC_FRAME_STEP, 0, 0, 0, 0, "is not for a shard"},
    };
    (void)unused;
    struct testing w;
    testing_start(&w, specs, 4, RT_ASYNC);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rpc_frame *f =
            testing_frame(rows[i].kind, rows[i].table, rows[i].count, rows[i].bytes);
        f->head.aux = rows[i].aux;
        assert_int_equal(CO_INVALID, testing_ask(&w, 0, f, NULL));
        if (!strstr(w.err.msg, rows[i].said)) {
            fail_msg("row %zu: '%s' does not say %s", i, w.err.msg, rows[i].said);
        }
    }
    testing_end(&w);
}

/* A shard may own nothing of a small table. */
static void a_shard_without_a_part_has_no_chunks(void **unused) {
    (void)unused;
    struct testing w;
    unsigned n = 0;
    for (uint32_t shard = 0; shard < 3; shard++) {
        testing_make(&w, plain, 1, RT_SYNC);
        w.config.shards = 3;
        w.config.index = shard;
        testing_open(&w);
        const struct ps_shard_position here = {0, 1, shard, 3};
        bool owns = ps_dense_share(&w.tables[0], &here).n > 0;
        struct rpc_frame *f = testing_frame(RPC_FRAME_PULL_DENSE, 0, 0, 0);
        assert_int_equal(owns ? 0 : CO_INVALID, testing_ask(&w, 0, f, NULL));
        assert_int_equal(0, shard_tables_step(&w.t, 1, NULL));
        rpc_frame_free(testing_call(&w, RPC_FRAME_STAT, 0, 0));
        n += owns;
        testing_end(&w);
    }
    assert_in_range(n, 1, 2);
}

/* Numbers that rt_stat gives. */
static void stat_counts_values_and_bytes(void **unused) {
    static const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adagrad"};
    static const uint64_t want[RPC_FRAME_STAT_NUMBERS] = {
        1, 2 * 4 * SIZE, 2 * SIZE, 3 * SIZE, 0, 0, 0, 0};
    (void)unused;
    struct testing w;
    testing_start(&w, &spec, 1, RT_ASYNC);
    for (int i = 0; i < 2; i++) {
        rpc_frame_free(testing_do(&w, values(RPC_FRAME_XCHG_DENSE, 0, SIZE, 1)));
    }
    assert_null(testing_do(&w, values(RPC_FRAME_PUSH_DENSE, 0, SIZE, 1)));
    struct rpc_frame *a = testing_call(&w, RPC_FRAME_STAT, 0, 0);
    assert_int_equal(RPC_FRAME_STAT_NUMBERS, a->head.count);
    assert_int_equal(8 * RPC_FRAME_STAT_NUMBERS, a->head.bytes);
    for (size_t i = 0; i < RPC_FRAME_STAT_NUMBERS; i++) {
        assert_int_equal(want[i], co_get_u64(a->payload + 8 * i));
    }
    rpc_frame_free(a);
    testing_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_get_what_a_step_has_changed),
        cmocka_unit_test(a_trainer_with_other_values_gets_all),
        cmocka_unit_test(int8_values_that_are_not_finite),
        cmocka_unit_test(values_that_overflow_are_counted),
        cmocka_unit_test(values_begin_at_zero_and_are_what_was_put),
        cmocka_unit_test(gradients_count_at_once_or_with_the_step),
        cmocka_unit_test(differences_are_added),
        cmocka_unit_test(blocks_are_apart),
        cmocka_unit_test(blocks_of_a_large_table_are_apart),
        cmocka_unit_test(restored_values_train_on_with_their_state),
        cmocka_unit_test(a_value_that_is_not_finite_is_named),
        cmocka_unit_test(a_frame_that_does_not_fit_is_refused_with_its_numbers),
        cmocka_unit_test(a_step_that_is_due_is_applied_before_anyone_sees),
        cmocka_unit_test(a_shard_without_a_part_has_no_chunks),
        cmocka_unit_test(stat_counts_values_and_bytes),
    };
    return cmocka_run_group_tests_name("dense", tests, NULL, NULL);
}
