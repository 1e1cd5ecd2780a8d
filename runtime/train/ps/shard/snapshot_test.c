/* A snapshot is the state of its instant, whatever happens to rows while it is written; deltas have
 * what changed since the last one that was completed.  One shard, no network. */
#include "runtime/train/ps/shard/snapshot.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/cases_testing.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/restore.h"

enum { IDS = 6000, DIM = 64, SIZE = 100000, DEADLINE_MS = 60000, MEMORY = 1 << 20 };

/* What is in the tables: rows of DIM times the same float, and a vector. */
struct state {
    bool there[IDS];
    float row[IDS];
    float w[SIZE];
};

struct world {
    struct ps_table tables[2];
    struct shard_tables t;
    struct shard_saver *saver;
    struct shard_snapshot snapshot;
    struct table_budget budget; /* of a world with cold rows: a third of them fits */
    struct table_rocks *rocks;
    int woken;
    uint64_t ticket;
    char dir[40];
    uint64_t seed;
    struct state now, loaded;
};

static uint32_t dice(struct world *w, uint32_t sides) {
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(w->seed >> 33) % sides;
}

static void wake(void *arg) {
    uint64_t one = 1;
    (void)!write(((struct world *)arg)->woken, &one, sizeof(one));
}

/* Rows and a vector.  With an eviction policy the tables are those of sync mode. */
static void world_start_with(struct world *w, uint64_t seed, size_t copies_max, bool cold,
    const char *admit, const char *evict) {
    const struct rt_table_spec specs[] = {
        {.name = "rows",
            .kind = RT_SPARSE,
            .dim = DIM,
            .optimizer = "sgd:lr=1",
            .init = "zero",
            .admit = admit,
            .evict = evict},
        {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adam:lr=1"},
    };
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/snapshot_test_XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, ps_table_make(&specs[i], &w->tables[i], NULL));
    }
    w->budget.max = MEMORY + (cold ? 2 : 4096) * sizeof(float) * SIZE;
    struct shard_config c = {.mode = evict ? RT_SYNC : RT_ASYNC,
        .shards = 1,
        .servers = 1,
        .trainers = 1,
        .tables = w->tables,
        .n_tables = 2,
        .budget = &w->budget};
    if (cold) {
        assert_int_equal(0, table_rocks_open(w->dir, "cold", &w->budget, &w->rocks, NULL));
        c.rocks = w->rocks;
    }
    assert_int_equal(0, shard_tables_init(&w->t, &c, NULL));
    w->woken = eventfd(0, EFD_CLOEXEC);
    w->saver = shard_saver_new(&(struct shard_saver_config){
        .servers = 1, .shards = 1, .copies_max = copies_max, .quiet = true});
    shard_saver_listen(w->saver, 0, wake, w);
    shard_snapshot_init(&w->snapshot, &w->t, w->saver);
    shard_tables_watch(&w->t, &w->snapshot);
}

static void world_start(struct world *w, uint64_t seed, size_t copies_max, bool cold) {
    world_start_with(w, seed, copies_max, cold, NULL, NULL);
}

static void world_end(struct world *w) {
    shard_snapshot_done(&w->snapshot);
    shard_saver_free(w->saver);
    shard_tables_done(&w->t);
    table_rocks_close(w->rocks);
    co_close(w->woken);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    assert_int_equal(0, system(cmd));
}

/* ---- what happens to rows ---- */

static void change_row(struct world *w, uint64_t id) {
    struct shard_table *st = &w->t.tables[0];
    uint32_t slot;
    bool fresh;
    assert_int_equal(0, shard_cold_bring(st, &id, 1, NULL));
    assert_int_equal(0, table_store_make(st->rows, id, &slot, &fresh, NULL));
    if (fresh) {
        shard_snapshot_made(&w->snapshot, 0, slot);
    } else {
        shard_snapshot_change(&w->snapshot, 0, slot);
    }
    float v = (float)dice(w, 1 << 20), row[DIM];
    for (uint32_t k = 0; k < DIM; k++) {
        row[k] = v;
    }
    table_store_write(st->rows, slot, row);
    w->now.there[id] = true;
    w->now.row[id] = v;
}

static void erase_row(struct world *w, uint64_t id) {
    struct shard_table *st = &w->t.tables[0];
    assert_int_equal(0, shard_cold_bring(st, &id, 1, NULL));
    uint32_t slot = table_store_find(st->rows, id);
    if (slot != TABLE_SLOT_NONE) {
        shard_snapshot_erase(&w->snapshot, 0, slot, id);
        table_store_erase(st->rows, slot);
        w->now.there[id] = false;
    }
}

static void change_vector(struct world *w) {
    struct shard_table *st = &w->t.tables[1];
    float by = (float)dice(w, 100);
    uint64_t begin = 0;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        struct shard_dense_block *b = &st->blocks[i];
        shard_snapshot_change(&w->snapshot, 1, i);
        for (size_t k = 0; k < b->n; k++) {
            b->w[k] += by;
            b->state[k] = b->w[k] * 2;
            w->now.w[begin + k] = b->w[k];
        }
        begin += b->n;
    }
}

static void something(struct world *w) {
    for (uint32_t n = dice(w, 400); n > 0; n--) {
        uint64_t id = dice(w, IDS);
        uint32_t what = dice(w, 6);
        if (what == 0) {
            erase_row(w, id);
        } else if (what == 1) { /* it is only read */
            assert_int_equal(0, shard_cold_bring(&w->t.tables[0], &id, 1, NULL));
        } else {
            change_row(w, id);
        }
    }
    if (dice(w, 3) == 0) {
        change_vector(w);
    }
}

/* ---- checkpoints ---- */

static int take_rows(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct world *w = arg;
    (void)err;
    for (uint32_t i = 0; i < c->items; i++, data += 8 + 4 * DIM) {
        uint64_t id = co_get_u64(data);
        w->loaded.there[id] = true;
        co_copy_f32(&w->loaded.row[id], data + 8 + 4 * (id % DIM), 1);
    }
    return 0;
}

static int take_erased(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct world *w = arg;
    (void)err;
    for (uint32_t i = 0; i < c->items; i++) {
        w->loaded.there[co_get_u64(data + i * 8UL)] = false;
    }
    return 0;
}

static int take_values(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct world *w = arg;
    float v, twice;
    (void)err;
    for (uint32_t i = 0; i < c->items; i++) {
        co_copy_f32(&v, data + i * 4UL, 1);
        co_copy_f32(&twice, data + (c->items + i) * 4UL, 1);
        assert_true(twice == v * 2);
        w->loaded.w[c->begin + i] = v;
    }
    return 0;
}

/* The part of a point, onto what was loaded before. */
static void load_point(struct world *w, uint64_t number, const struct ckpt_part *part) {
    struct ckpt_part parts[1] = {*part};
    struct ckpt_table tables[2];
    ps_table_describe(&w->tables[0], &tables[0]);
    ps_table_describe(&w->tables[1], &tables[1]);
    struct ckpt_point p = {
        .number = number, .n_tables = 2, .n_parts = 1, .tables = tables, .parts = parts};
    struct ckpt_chain chain = {.dir = w->dir, .points = &p, .n = 1};
    static const struct {
        uint32_t kind;
        int (*take)(void *arg, const struct ckpt_part_chunk *chunk, const unsigned char *data,
            struct co_err *err);
    } kinds[] = {{CKPT_PART_ERASED, take_erased}, {CKPT_PART_ROWS, take_rows},
        {CKPT_PART_DENSE, take_values}};
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        struct ckpt_walk walk = {
            .chain = &chain, .kinds = 1U << kinds[i].kind, .take = kinds[i].take, .arg = w};
        struct co_err err = {0};
        if (ckpt_walk_point(&walk, 0, &err) < 0) {
            fail_msg("%s", err.msg);
        }
    }
}

static int begin(struct world *w, uint64_t number, uint64_t previous, bool full) {
    const struct shard_snapshot_order o = {
        .dir = w->dir, .number = number, .previous = previous, .full = full};
    return shard_snapshot_begin(&w->snapshot, &o, &w->ticket, NULL);
}

static int await_part(struct world *w, struct ckpt_part *ret) {
    struct pollfd p = {.fd = w->woken, .events = POLLIN};
    int rc;
    while ((rc = shard_saver_result(w->saver, w->ticket, ret, NULL)) == 0) {
        uint64_t n;
        if (!shard_snapshot_slice(&w->snapshot)) {
            assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
            assert_int_equal(sizeof(n), read(w->woken, &n, sizeof(n)));
        }
    }
    return rc;
}

static void assert_state(const struct world *w, const struct state *want, const char *what) {
    for (size_t i = 0; i < IDS; i++) {
        if (w->loaded.there[i] != want->there[i] ||
            (want->there[i] && w->loaded.row[i] != want->row[i])) {
            fail_msg("%s: row %zu: %d %g, expected %d %g", what, i, w->loaded.there[i],
                (double)w->loaded.row[i], want->there[i], (double)want->row[i]);
        }
    }
    assert_memory_equal(want->w, w->loaded.w, sizeof(want->w));
}

/* Rows change between the slices; some checkpoints are given up in the middle. */
static void instants(bool cold) {
    uint64_t seeds = cold ? co_test_cases(5, 2) : co_test_cases(12, 4);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct world *w = co_xcalloc(1, sizeof(*w));
        struct state *at = co_xcalloc(1, sizeof(*at));
        world_start(w, seed, 0, cold);
        uint64_t last = 0;
        for (uint64_t number = 1; number <= 14; number++) {
            something(w);
            something(w);
            bool full = last == 0 || dice(w, 6) == 0;
            assert_int_equal(0, begin(w, number, last, full));
            *at = w->now;
            for (uint32_t n = dice(w, 12); n > 0; n--) {
                something(w);
                (void)shard_snapshot_slice(&w->snapshot);
                something(w);
            }
            if (dice(w, 4) == 0) {
                continue; /* the trainer has died, or a server */
            }
            struct ckpt_part part = {0};
            assert_int_equal(1, await_part(w, &part));
            if (dice(w, 4) > 0) { /* else: complete, but never committed */
                if (full) {
                    memset(w->loaded.there, 0, sizeof(w->loaded.there));
                }
                load_point(w, number, &part);
                last = number;
                assert_state(w, at, full ? "full" : "delta");
            }
        }
        assert_true(last > 0);
        assert_true(!cold || w->t.tables[0].cold->rows > IDS / 10);
        world_end(w);
        free(at);
        free(w);
    }
}

static void each_checkpoint_has_the_rows_of_its_instant(void **unused) {
    (void)unused;
    instants(false);
}

/* They move between memory and disk, too. */
static void each_checkpoint_has_the_cold_rows_of_its_instant(void **unused) {
    (void)unused;
    instants(true);
}

/* Asked again, as after a broken connection, an order gets the answer that it had.  An equal one of
 * another trainer is of another instant. */
static void an_equal_order_of_another_trainer_is_a_conflict(void **state) {
    (void)state;
    struct world *w = co_xcalloc(1, sizeof(*w));
    world_start(w, 1, 0, false);
    struct shard_snapshot_order o = {.dir = w->dir, .number = 1, .full = true, .maker = 7};
    uint64_t ticket = 0, again = 0, other = 0;
    something(w);
    assert_int_equal(0, shard_snapshot_begin(&w->snapshot, &o, &ticket, NULL));
    something(w);
    assert_int_equal(0, shard_snapshot_begin(&w->snapshot, &o, &again, NULL));
    assert_true(ticket != 0 && ticket == again);
    o.maker = 8;
    assert_int_equal(CO_CONFLICT, shard_snapshot_begin(&w->snapshot, &o, &other, NULL));
    assert_int_equal(0, other);
    world_end(w);
    free(w);
}

static void a_delta_is_refused_without_its_base(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct ckpt_part part;
    world_start(w, 5, 0, false);
    something(w);
    assert_int_equal(CO_CONFLICT, begin(w, 1, 0, false));
    assert_int_equal(CO_CONFLICT, begin(w, 8, 7, false));
    assert_int_equal(0, begin(w, 9, 7, true));
    assert_int_equal(1, await_part(w, &part));
    assert_int_equal(CO_CONFLICT, begin(w, 10, 7, false));
    assert_int_equal(0, begin(w, 11, 9, false));
    assert_int_equal(1, await_part(w, &part));
    assert_int_equal(CO_CONFLICT, begin(w, 10, 0, true)); /* a number that was used */
    uint64_t ticket = w->ticket;
    assert_int_equal(0, begin(w, 11, 9, false)); /* the same once more, its answer was lost */
    assert_int_equal(ticket, w->ticket);
    shard_snapshot_forget(&w->snapshot);
    assert_int_equal(CO_CONFLICT, begin(w, 12, 11, false));
    world_end(w);
    free(w);
}

static void erase_many(struct world *w, uint64_t n) {
    for (uint64_t id = 0; id < n; id++) {
        shard_snapshot_gone(&w->snapshot, 0, id);
    }
}

/* No checkpoint is completed while rows are evicted.  The list of their ids must not grow for ever,
 * nor be too long for a delta at last. */
static void a_list_of_erased_ids_that_is_too_long_is_dropped(void **unused) {
    enum { SOME = 1200000, MOST = 1024 * 4096 }; /* three times SOME are fewer than MOST */
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    const struct shard_track *k = NULL;
    struct ckpt_part part;
    uint64_t number = 1;
    world_start(w, 8, 0, false);
    k = &w->snapshot.tracks[0];
    something(w);
    assert_int_equal(0, begin(w, number, 0, true));
    assert_int_equal(1, await_part(w, &part));
    for (; number < 4; number++) {
        erase_many(w, SOME);
        assert_int_equal(0, begin(w, number + 1, 1, false));
    }
    assert_in_range(k->erased_pending.n, 3UL * SOME / 4096, MOST / 4096);
    erase_many(w, SOME);
    assert_int_equal(CO_CONFLICT, begin(w, ++number, 1, false));
    assert_int_equal(0, k->erased.n + k->erased_pending.n);
    /* A full one makes deltas possible again. */
    assert_int_equal(CO_CONFLICT, begin(w, ++number, 1, false));
    assert_int_equal(0, begin(w, ++number, 1, true));
    assert_int_equal(1, await_part(w, &part));
    erase_many(w, SOME);
    assert_int_equal(0, begin(w, number + 1, number, false));
    assert_int_equal(1, await_part(w, &part));
    world_end(w);
    free(w);
}

/* The disk takes nothing: the file is a pipe that nobody reads. */
static void a_disk_too_slow_costs_the_checkpoint_alone(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct ckpt_part part;
    world_start(w, 6, 1 << 20, false);
    for (uint64_t id = 0; id < IDS; id++) {
        change_row(w, id);
    }
    CO_AUTOFREE char *at = ckpt_point_dir(w->dir, 1);
    CO_AUTOFREE char *path = ckpt_point_part(w->dir, 1, 0);
    assert_int_equal(0, mkdir(at, 0700));
    assert_int_equal(0, mkfifo(path, 0600));
    assert_int_equal(0, begin(w, 1, 0, true));
    for (uint64_t id = 0; id < IDS; id++) {
        change_row(w, id);
    }
    change_vector(w);
    struct co_err err = {0};
    assert_int_equal(CO_NORESOURCE, shard_saver_result(w->saver, w->ticket, &part, &err));
    assert_non_null(strstr(err.msg, "that may, expected a faster disk"));
    assert_int_equal(0, w->snapshot.ticket);
    CO_AUTOCLOSE int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0); /* lets the thread continue, should it wait for one */
    /* With a disk again, and all that changed meanwhile. */
    something(w);
    assert_int_equal(0, begin(w, 2, 0, true));
    struct state *now = co_xcalloc(1, sizeof(*now));
    *now = w->now;
    assert_int_equal(1, await_part(w, &part));
    load_point(w, 2, &part);
    assert_state(w, now, "after");
    free(now);
    world_end(w);
    free(w);
}

/* The same disk, where the room for what waits is a share of a small memory_max. */
static void a_small_memory_max_is_named(void **unused) {
    (void)unused;
    enum { CHUNK = 700 << 10, CHUNKS = 4 };
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct table_budget small = {.max = 8 << 20};
    struct co_err err = {0};
    uint64_t ticket = 0;
    int rc = 0;
    world_start(w, 7, 0, false);
    CO_AUTOFREE char *at = ckpt_point_dir(w->dir, 1);
    CO_AUTOFREE char *path = ckpt_point_part(w->dir, 1, 0);
    assert_int_equal(0, mkdir(at, 0700));
    assert_int_equal(0, mkfifo(path, 0600));
    struct shard_saver *sv = shard_saver_new(
        &(struct shard_saver_config){.servers = 1, .shards = 1, .budget = &small, .quiet = true});
    assert_int_equal(0, shard_saver_begin(sv, w->dir, 1, 0, 0, &ticket, NULL));
    for (int i = 0; rc == 0 && i < CHUNKS; i++) {
        rc = shard_saver_add(sv, ticket, shard_save_chunk_new(CKPT_PART_ROWS, CHUNK), &err);
    }
    assert_int_equal(CO_NORESOURCE, rc);
    assert_non_null(strstr(err.msg, "716800 more do not fit in the 1048576 that may, an eighth of "
                                    "memory_max, expected a larger memory_max, or a faster disk"));
    CO_AUTOCLOSE int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    shard_saver_free(sv);
    world_end(w);
    free(w);
}

static bool has_part(const struct world *w, uint64_t number, uint32_t server) {
    CO_AUTOFREE char *path = ckpt_point_part(w->dir, number, server);
    return access(path, F_OK) == 0;
}

static void write_manifest(const struct world *w, uint64_t number) {
    struct ckpt_table tables[1] = {{.name = "w", .size = SIZE, .optimizer = "", .init = ""}};
    struct ckpt_part parts[1] = {{.shards = 1}};
    const struct ckpt_point p = {.number = number,
        .base = number,
        .n_tables = 1,
        .n_parts = 1,
        .tables = tables,
        .parts = parts};
    assert_int_equal(0, ckpt_point_commit(w->dir, &p, NULL));
}

static void save_full(struct world *w, uint64_t number, uint64_t previous) {
    struct ckpt_part part;
    assert_int_equal(0, begin(w, number, previous, true));
    assert_int_equal(1, await_part(w, &part));
    assert_true(has_part(w, number, 0));
}

/* Here the part succeeds, elsewhere it fails. */
static void parts_of_failed_checkpoints_do_not_add_up(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    world_start(w, 8, 0, false);
    save_full(w, 1, 0);
    CO_AUTOFREE char *first = ckpt_point_dir(w->dir, 1);
    save_full(w, 2, 0);
    assert_int_equal(-1, access(first, F_OK));

    CO_AUTOFREE char *other = ckpt_point_part(w->dir, 2, 1);
    assert_int_equal(0, co_file_write(other, "", 0, 0600, NULL));
    save_full(w, 3, 0);
    assert_false(has_part(w, 2, 0));
    assert_true(has_part(w, 2, 1)); /* that server's own to remove */

    /* Complete: by its manifest, although the answer of the commit was lost; and by the order. */
    write_manifest(w, 3);
    save_full(w, 4, 0);
    assert_true(has_part(w, 3, 0));
    save_full(w, 5, 4);
    assert_true(has_part(w, 4, 0));
    world_end(w);
    free(w);
}

/* Whoever gave that number has not seen it. */
static void a_complete_checkpoint_is_not_written_over(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct ckpt_part part;
    struct co_err err = {0};
    struct stat st;
    world_start(w, 10, 0, false);
    CO_AUTOFREE char *at = ckpt_point_dir(w->dir, 4);
    CO_AUTOFREE char *path = ckpt_point_part(w->dir, 4, 0);
    assert_int_equal(0, mkdir(at, 0700));
    assert_int_equal(0, co_file_write(path, "rows", 4, 0600, NULL));
    write_manifest(w, 4);
    assert_int_equal(0, begin(w, 4, 0, true));
    assert_int_equal(CO_CONFLICT, await_part(w, &part));
    assert_int_equal(CO_CONFLICT, shard_saver_result(w->saver, w->ticket, &part, &err));
    assert_non_null(strstr(err.msg, "checkpoint 4"));
    save_full(w, 5, 0);
    assert_int_equal(0, stat(path, &st));
    assert_int_equal(4, st.st_size);
    world_end(w);
    free(w);
}

/* The disk is full when the last bytes are written. */
static void a_part_that_cannot_be_finished_is_removed(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct ckpt_part part;
    struct rlimit was, less;
    world_start(w, 9, 0, false);
    assert_int_equal(0, begin(w, 1, 0, true));
    assert_int_equal(1, await_part(w, &part));
    void (*xfsz)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &was));
    less = (struct rlimit){part.bytes - 1, was.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &less));
    assert_int_equal(0, begin(w, 2, 0, true));
    int rc = await_part(w, &part);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &was));
    (void)signal(SIGXFSZ, xfsz);
    assert_int_equal(CO_NORESOURCE, rc);
    assert_false(has_part(w, 2, 0));
    save_full(w, 3, 0);
    world_end(w);
    free(w);
}

/* Counted for eviction at the push; the values change at the step, which may be after the instant.
 */
static void push_ids(struct world *w, uint64_t begin, uint32_t n) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_SPARSE, n * (8 + 4UL * DIM), &f, NULL));
    memset(f->payload, 0, f->head.bytes);
    f->head.count = n;
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + i * 8UL, begin + i);
    }
    struct co_err err = {0};
    if (shard_sparse_push(&w->t, &w->t.tables[0], 0, f, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    rpc_frame_free(f);
}

static void rows_that_were_counted_have_changed(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct ckpt_part part;
    world_start_with(w, 7, 0, false, "count:n=2", "lfu:capacity=1000");
    const struct shard_bits *changed = &w->snapshot.tracks[0].changed;
    push_ids(w, 0, 100);
    push_ids(w, 0, 100);
    assert_int_equal(100, table_store_rows(w->t.tables[0].rows));
    assert_int_equal(0, begin(w, 1, 0, true));
    assert_int_equal(1, await_part(w, &part));
    assert_int_equal(SHARD_BITS_NONE, shard_bits_next(changed, 0));
    push_ids(w, 5000, 10); /* not admitted: there is nothing to change */
    assert_int_equal(SHARD_BITS_NONE, shard_bits_next(changed, 0));
    push_ids(w, 0, 10);
    uint32_t n = 0;
    for (size_t i = 0; (i = shard_bits_next(changed, i)) != SHARD_BITS_NONE; i++) {
        n++;
    }
    assert_int_equal(10, n);
    world_end(w);
    free(w);
}

static void await_file(const char *path, bool there) {
    int64_t deadline = co_now_ms() + DEADLINE_MS;
    while ((access(path, F_OK) == 0) != there) {
        assert_true(co_now_ms() < deadline);
        (void)sched_yield();
    }
}

/* At once, and not when the next checkpoint begins: the disk may be full. */
static void a_part_that_fails_leaves_no_file(void **state) {
    (void)state;
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct co_err why = {0};
    uint64_t ticket = 0;
    world_start(w, 1, 0, false);
    CO_AUTOFREE char *part = ckpt_point_part(w->dir, 1, 0);
    assert_int_equal(0, shard_saver_begin(w->saver, w->dir, 1, 0, 0, &ticket, NULL));
    await_file(part, true);
    co_err_set(&why, CO_NORESOURCE, "no room");
    shard_saver_fail(w->saver, ticket, &why);
    await_file(part, false);
    world_end(w);
    free(w);
}

/* A step that was made before, but is not applied to all blocks yet, belongs to the instant. */
static void a_checkpoint_has_the_step_before_it(void **unused) {
    (void)unused;
    struct world *w = co_xcalloc(1, sizeof(*w));
    world_start_with(w, 1, 0, false, NULL, "lfu:capacity=1000");
    assert_int_equal(0, shard_tables_step(&w->t, 1, NULL));
    assert_int_equal(w->t.tables[1].n_blocks, w->t.tables[1].n_due);
    assert_int_equal(0, begin(w, 1, 0, true));
    assert_int_equal(0, w->t.tables[1].n_due);
    world_end(w);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_that_fails_leaves_no_file),
        cmocka_unit_test(rows_that_were_counted_have_changed),
        cmocka_unit_test(each_checkpoint_has_the_rows_of_its_instant),
        cmocka_unit_test(a_checkpoint_has_the_step_before_it),
        cmocka_unit_test(each_checkpoint_has_the_cold_rows_of_its_instant),
        cmocka_unit_test(an_equal_order_of_another_trainer_is_a_conflict),
        cmocka_unit_test(a_delta_is_refused_without_its_base),
        cmocka_unit_test(a_list_of_erased_ids_that_is_too_long_is_dropped),
        cmocka_unit_test(a_disk_too_slow_costs_the_checkpoint_alone),
        cmocka_unit_test(a_small_memory_max_is_named),
        cmocka_unit_test(parts_of_failed_checkpoints_do_not_add_up),
        cmocka_unit_test(a_complete_checkpoint_is_not_written_over),
        cmocka_unit_test(a_part_that_cannot_be_finished_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
