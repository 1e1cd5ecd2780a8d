/* A shard against a simple model, an array of rows: random requests, eviction while checkpoints are
 * written, and restores, also by another number of shards. */
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/snapshot.h"
#include "runtime/train/ps/shard/tables_testing.h"

enum {
    IDS = 1200,
    DIM = 64, /* all values of a row are equal; several slices write a checkpoint */
    SIZE = 50,
    SPARSE = 4,
    TTL = 6,
    POINTS = 200,
    COLD_MEMORY = 16 << 20, /* the admission filter has 8 MiB of it, others COLD_TAKEN */
    COLD_TAKEN = 4 << 20,
    DEADLINE_MS = 60000,
};

enum { PLAIN, OLD, CTR, GATE, VECTOR, TABLES };

#define ROW(...)                                                                                   \
    { .kind = RT_SPARSE, .dim = DIM, .init = "constant:value=1", __VA_ARGS__ }

static const struct rt_table_spec specs[TABLES] = {
    [PLAIN] = ROW(.name = "plain", .optimizer = "adagrad:lr=0.5,epsilon=0,initial=1"),
    [OLD] = ROW(.name = "old", .optimizer = "sgd:lr=0.5", .evict = "ttl:steps=6"),
    [CTR] = ROW(.name = "ctr", .optimizer = "sgd:lr=0.5",
        .evict = "ctr:delete_threshold=0.5,show_click_decay_rate=0.5,nonclk_coeff=0.25"),
    [GATE] = ROW(.name = "gate", .optimizer = "sgd:lr=0.5", .admit = "count:n=3"),
    [VECTOR] = {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.5"},
};

/* ---- the model ---- */

struct model_row {
    bool there;
    double value, squares; /* squares: of adagrad */
    uint64_t seen;         /* OLD: the step of the last push */
    double show, click;    /* CTR */
};

struct model {
    struct model_row rows[SPARSE][IDS];
    float w[SIZE];
    uint64_t steps;
};

struct world {
    struct testing s;
    struct table_rocks *rocks; /* NULL: all rows are in memory */
    struct shard_saver *saver;
    struct shard_snapshot snapshot;
    int woken;
    char dir[40];
    uint64_t seed, number, last; /* last: the newest complete one that deltas may build on */
    uint64_t ticket;             /* of the one that is being written; 0: none */
    bool full;
    struct ckpt_point pending;
    unsigned pushes[IDS]; /* GATE: to ids without a row; no checkpoint has them */
    struct model now;
    struct model *at[POINTS]; /* at the instant of each; NULL: not complete */
    struct ckpt_table tables[TABLES];
};

static uint32_t dice(struct world *w, uint32_t sides) {
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(w->seed >> 33) % sides;
}

static uint64_t id_of(uint32_t i) {
    return i == 0 ? 0 : i == 1 ? UINT64_MAX : i * UINT64_C(0x9e3779b97f4a7c15);
}

static void model_push(
    struct world *w, uint32_t table, uint32_t i, double g, double show, double click) {
    struct model_row *r = &w->now.rows[table][i];
    if (table == GATE && !r->there && ++w->pushes[i] < 3) {
        return;
    }
    if (!r->there) {
        *r = (struct model_row){.there = true, .value = 1, .squares = 1};
    }
    if (table == PLAIN) { /* docs/rules.md */
        r->squares += g * g;
        r->value -= 0.5 * g / sqrt(r->squares);
    } else {
        r->value -= 0.5 * g;
    }
    r->seen = w->now.steps;
    r->show += show;
    r->click += click;
}

/* ---- requests ---- */

static void push_some(struct world *w) {
    enum { MOST = 60 };
    uint32_t table = dice(w, SPARSE), n = dice(w, MOST);
    bool clicks = dice(w, 2);
    size_t each = 8 + (clicks ? 8 : 0) + 4 * DIM;
    struct rpc_frame *f =
        testing_frame(clicks ? RPC_FRAME_PUSH_CLICKS : RPC_FRAME_PUSH_SPARSE, table, n, n * each);
    unsigned char *numbers = f->payload + 8UL * n, *to = numbers + (clicks ? 8UL * n : 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t which = dice(w, dice(w, 2) ? IDS : IDS / 8);
        float g = (float)dice(w, 9) - 4, show_click[2] = {1, 0};
        co_put_u64(f->payload + 8UL * i, id_of(which));
        if (clicks) {
            show_click[0] = (float)dice(w, 4);
            show_click[1] = (float)dice(w, 2);
            co_copy_f32(numbers + 8UL * i, show_click, 2);
        }
        for (uint32_t k = 0; k < DIM; k++) {
            co_copy_f32(to + 4 * (i * (size_t)DIM + k), &g, 1);
        }
        model_push(w, table, which, (double)g, (double)show_click[0], (double)show_click[1]);
    }
    assert_null(testing_do(&w->s, f));
}

static void shrink(struct world *w, uint32_t table, uint64_t want) {
    uint64_t at = 0, erased = 0;
    while (at != UINT64_MAX) {
        struct rpc_frame *a = testing_call(&w->s, RPC_FRAME_SHRINK, table, at);
        at = a->head.aux;
        erased += a->head.count;
        rpc_frame_free(a);
    }
    if (want != erased) {
        fail_msg("table %s: %llu rows shrank, expected %llu", specs[table].name,
            (unsigned long long)erased, (unsigned long long)want);
    }
}

/* So no row is older than it may be, and pushes find none to sweep away. */
static void step(struct world *w) {
    uint64_t gone = 0;
    rpc_frame_free(testing_call(&w->s, RPC_FRAME_TICK, 0, 0));
    w->now.steps++;
    for (uint32_t i = 0; i < IDS; i++) {
        struct model_row *r = &w->now.rows[OLD][i];
        bool old = r->there && w->now.steps > r->seen + TTL;
        r->there = r->there && !old;
        gone += old;
    }
    shrink(w, OLD, gone);
}

static void shrink_ctr(struct world *w) {
    uint64_t gone = 0;
    for (uint32_t i = 0; i < IDS; i++) {
        struct model_row *r = &w->now.rows[CTR][i];
        r->show /= 2;
        r->click /= 2;
        bool goes = r->there && (r->show - r->click) * 0.25 + r->click < 0.5;
        r->there = r->there && !goes;
        gone += goes;
    }
    shrink(w, CTR, gone);
}

static void push_vector(struct world *w) {
    struct rpc_frame *f = testing_frame(RPC_FRAME_PUSH_DENSE, VECTOR, SIZE, 4 * SIZE);
    for (uint32_t i = 0; i < SIZE; i++) {
        float g = (float)dice(w, 9) - 4;
        co_copy_f32(f->payload + 4UL * i, &g, 1);
        w->now.w[i] -= g / 2;
    }
    assert_null(testing_do(&w->s, f));
}

/* ---- comparing ---- */

/* Compares what the shard answers for its ids: a row in memory and one on disk read the same. */
static void assert_table(const struct model *want, struct shard_tables *t, uint32_t table) {
    const struct shard_config *c = &t->config;
    struct rpc_frame *f = testing_frame(RPC_FRAME_PULL_SPARSE, table, 0, IDS * 8), *a = NULL;
    uint32_t mine[IDS], n = 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < IDS; i++) {
        if (ps_sparse_server(id_of(i), c->servers) == c->server &&
            ps_sparse_shard(id_of(i), c->shards) == c->index) {
            co_put_u64(f->payload + 8UL * n, id_of(i));
            mine[n++] = i;
            rows += want->rows[table][i].there;
        }
    }
    f->head.count = n;
    assert_int_equal(0, shard_tables_do(t, 0, f, &a, NULL));
    for (uint32_t i = 0; i < n; i++) {
        const struct model_row *r = &want->rows[table][mine[i]];
        double value = r->there ? r->value : table == GATE ? 0 : 1;
        for (uint32_t k = 0; k < DIM; k++) {
            float got;
            co_copy_f32(&got, a->payload + 4UL * (i * (size_t)DIM + k), 1);
            if (fabs((double)got - value) > 1e-4 * (1 + fabs(value))) {
                fail_msg("table %s, row %u, %s: %g, expected %g", specs[table].name, mine[i],
                    r->there ? "there" : "not there", (double)got, value);
            }
        }
    }
    const struct shard_table *st = &t->tables[table];
    assert_int_equal(rows, table_store_rows(st->rows) + (st->cold ? st->cold->rows : 0));
    rpc_frame_free(f);
    rpc_frame_free(a);
}

/* Each row and each value is as the model says, if the shard owns it. */
static void assert_state(const struct model *want, struct shard_tables *t) {
    const struct ps_shard_position here = shard_here(&t->config);
    for (uint32_t table = 0; table < SPARSE; table++) {
        assert_table(want, t, table);
    }
    struct ps_range part = ps_dense_share(&t->config.tables[VECTOR], &here);
    for (size_t i = 0; i < part.n; i++) {
        assert_true(t->tables[VECTOR].blocks[0].w[i] == want->w[part.begin + i]);
    }
    assert_int_equal(want->steps, t->tables[0].steps);
}

/* What trainers read: also of ids without a row. */
static void pull_some(struct world *w) {
    for (int k = 0; k < 10; k++) {
        uint32_t table = dice(w, SPARSE), i = dice(w, IDS);
        const struct model_row *r = &w->now.rows[table][i];
        double want = r->there ? r->value : table == GATE ? 0 : 1;
        double got = (double)testing_pull_one(&w->s, table, id_of(i));
        assert_true(fabs(got - want) <= 1e-4 * (1 + fabs(want)));
    }
}

/* ---- checkpoints ---- */

static void begin_checkpoint(struct world *w) {
    struct co_err err = {0};
    bool full = w->last == 0 || dice(w, 4) == 0;
    assert_true(++w->number < POINTS);
    const struct shard_snapshot_order o = {
        .dir = w->dir, .number = w->number, .previous = full ? 0 : w->last, .full = full};
    if (shard_snapshot_begin(&w->snapshot, &o, &w->ticket, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    w->pending = (struct ckpt_point){.number = w->number,
        .previous = o.previous,
        .base = full ? w->number : w->pending.base,
        .n_tables = TABLES,
        .n_parts = 1,
        .tables = w->tables};
    w->full = full;
    free(w->at[w->number]);
    w->at[w->number] = co_xcalloc(1, sizeof(w->now));
    *w->at[w->number] = w->now;
}

static void end_checkpoint(struct world *w) {
    struct pollfd p = {.fd = w->woken, .events = POLLIN};
    struct ckpt_part part = {0};
    struct co_err err = {0};
    int rc;
    while ((rc = shard_saver_result(w->saver, w->ticket, &part, &err)) == 0) {
        uint64_t n;
        if (!shard_snapshot_slice(&w->snapshot)) {
            assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
            assert_int_equal(sizeof(n), read(w->woken, &n, sizeof(n)));
        }
    }
    if (rc < 0) {
        fail_msg("%s", err.msg);
    }
    w->pending.parts = &part;
    assert_int_equal(0, ckpt_point_commit(w->dir, &w->pending, NULL));
    w->last = w->number;
    w->ticket = 0;
}

static struct ckpt_chain *chain_of(const struct world *w, uint64_t number) {
    struct ckpt_chain *chain = NULL;
    struct co_err err = {0};
    if (ckpt_chain_open(w->dir, number, &chain, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return chain;
}

static void load(struct shard_tables *t, const struct ckpt_chain *chain) {
    struct co_err err = {0};
    if (shard_tables_restore(t, chain, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

static void check_as_others_would_load(struct world *w, uint64_t number) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = chain_of(w, number);
    for (uint32_t shard = 0; shard < 3; shard++) {
        struct table_budget budget = {.max = 64 << 20};
        struct shard_config c = w->s.config;
        struct shard_tables t;
        c.budget = &budget;
        c.rocks = NULL;
        c.shards = 3;
        c.index = shard;
        assert_int_equal(0, shard_tables_init(&t, &c, NULL));
        load(&t, chain);
        assert_state(w->at[number], &t);
        shard_tables_done(&t);
    }
}

/* The job goes back, to the newest one or to an earlier one. */
static void go_back(struct world *w) {
    uint64_t number = w->last;
    while (number > 1 && dice(w, 2) && w->at[number - 1]) {
        number--;
    }
    if (number == 0) {
        return;
    }
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = chain_of(w, number);
    shard_snapshot_forget(&w->snapshot);
    w->ticket = 0;
    w->last = 0; /* what has changed since is not known: the next one is full */
    load(&w->s.t, chain);
    w->now = *w->at[number];
    assert_state(&w->now, &w->s.t);
}

/* ---- the whole ---- */

static void wake(void *arg) {
    uint64_t one = 1;
    (void)!write(((struct world *)arg)->woken, &one, sizeof(one));
}

static struct world *world_start(uint64_t seed, bool cold) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    w->seed = seed;
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/model_test_XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    testing_make(&w->s, specs, TABLES, RT_ASYNC);
    w->s.config.trainers = 1;
    if (cold) {
        w->s.budget.max = COLD_MEMORY;
        assert_int_equal(0, table_rocks_open(w->dir, "cold", &w->s.budget, &w->rocks, NULL));
        assert_int_equal(0, table_budget_take(&w->s.budget, COLD_TAKEN, NULL));
        w->s.config.rocks = w->rocks;
    }
    testing_open(&w->s);
    for (uint32_t i = 0; i < TABLES; i++) {
        ps_table_describe(&w->s.tables[i], &w->tables[i]);
    }
    w->woken = eventfd(0, EFD_CLOEXEC);
    w->saver =
        shard_saver_new(&(struct shard_saver_config){.servers = 1, .shards = 1, .quiet = true});
    shard_saver_listen(w->saver, 0, wake, w);
    shard_snapshot_init(&w->snapshot, &w->s.t, w->saver);
    shard_tables_watch(&w->s.t, &w->snapshot);
    return w;
}

static void world_end(struct world *w) {
    shard_snapshot_done(&w->snapshot);
    shard_saver_free(w->saver);
    shard_tables_done(&w->s.t);
    table_rocks_close(w->rocks);
    assert_int_equal(w->rocks ? COLD_TAKEN : 0, atomic_load(&w->s.budget.used));
    co_close(w->woken);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    assert_int_equal(0, system(cmd));
    for (size_t i = 0; i < POINTS; i++) {
        free(w->at[i]);
    }
    free(w);
}

static void one_operation(struct world *w) {
    switch (dice(w, 16)) {
    case 0:
        step(w);
        break;
    case 1:
        if (dice(w, 4) == 0) {
            shrink_ctr(w);
        }
        break;
    case 2:
        push_vector(w);
        break;
    case 3:
        pull_some(w);
        break;
    case 4:
        if (w->ticket) {
            (void)shard_snapshot_slice(&w->snapshot);
        }
        break;
    default:
        push_some(w);
    }
}

static void live(uint64_t seeds, bool cold) {
    enum { ROUNDS = 8, EACH = 40 };
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct world *w = world_start(seed, cold);
        unsigned deltas = 0;
        uint64_t on_disk = 0;
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < EACH; i++) {
                one_operation(w);
            }
            assert_state(&w->now, &w->s.t);
            on_disk += cold ? w->s.t.tables[PLAIN].cold->rows : 0;
            begin_checkpoint(w);
            deltas += !w->full;
            for (int i = 0; i < EACH; i++) { /* rows change and go while it is written */
                one_operation(w);
            }
            if (dice(w, 5) > 0) {
                end_checkpoint(w);
                check_as_others_would_load(w, w->last);
            } else { /* it is never completed */
                free(co_steal_ptr(w->at[w->number]));
                w->ticket = 0;
            }
            assert_state(&w->now, &w->s.t);
            if (dice(w, 4) == 0) {
                go_back(w);
            }
        }
        assert_true(deltas > 0 && (on_disk > 0) == cold);
        world_end(w);
    }
}

static void a_shard_does_what_its_model_does(void **unused) {
    (void)unused;
    live(3, false);
}

static void a_shard_with_rows_on_disk_does_what_its_model_does(void **unused) {
    (void)unused;
    live(2, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_does_what_its_model_does),
        cmocka_unit_test(a_shard_with_rows_on_disk_does_what_its_model_does),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
