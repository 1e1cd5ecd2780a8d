/* What many erased rows cost later: time in proportion to them, and memory within a bound.  Times
 * are compared with that of erasing the rows, on the same thread. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/snapshot.h"

enum { MANY = 600000, STAYS = 1000, BATCH = 20000, DEADLINE_MS = 60000 };
enum { SMALL = 8 << 20, ROOM = 8 << 20 }; /* a budget, and what a restore may take beside it */

struct world {
    struct ps_table table;
    struct table_budget budget;
    struct shard_tables t;
    struct shard_table *rows;
    struct shard_saver *saver;
    struct shard_snapshot snapshot;
    int woken;
    char dir[40];
};

static void wake(void *arg) {
    uint64_t one = 1;
    (void)!write(((struct world *)arg)->woken, &one, sizeof(one));
}

static void tables_start(struct world *w, size_t budget) {
    const struct rt_table_spec spec = {.name = "rows",
        .kind = RT_SPARSE,
        .dim = 1,
        .optimizer = "sgd:lr=1",
        .init = "zero",
        .evict = "ttl:steps=1"};
    assert_int_equal(0, ps_table_make(&spec, &w->table, NULL));
    w->budget = (struct table_budget){.max = budget};
    struct shard_config c = {.mode = RT_ASYNC,
        .shards = 1,
        .servers = 1,
        .trainers = 1,
        .tables = &w->table,
        .n_tables = 1,
        .budget = &w->budget};
    assert_int_equal(0, shard_tables_init(&w->t, &c, NULL));
    w->rows = &w->t.tables[0];
}

static void world_start(struct world *w) {
    memset(w, 0, sizeof(*w));
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/many_test_XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    tables_start(w, 1UL << 30);
    w->woken = eventfd(0, EFD_CLOEXEC);
    w->saver =
        shard_saver_new(&(struct shard_saver_config){.servers = 1, .shards = 1, .quiet = true});
    shard_saver_listen(w->saver, 0, wake, w);
    shard_snapshot_init(&w->snapshot, &w->t, w->saver);
    shard_tables_watch(&w->t, &w->snapshot);
}

static void world_end(struct world *w) {
    shard_snapshot_done(&w->snapshot);
    shard_saver_free(w->saver);
    shard_tables_done(&w->t);
    assert_int_equal(0, w->budget.used);
    co_close(w->woken);
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    assert_int_equal(0, system(cmd));
}

static double cpu(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void make_rows(struct world *w) {
    for (uint64_t id = 0; id < MANY; id++) {
        uint32_t slot;
        bool fresh;
        assert_int_equal(0, table_store_make(w->rows->rows, id, &slot, &fresh, NULL));
        shard_snapshot_made(&w->snapshot, 0, slot);
    }
}

/* All but every stays-th; returns the seconds. */
static double erase_rows(struct world *w, uint64_t stays) {
    double from = cpu();
    for (uint64_t id = 0; id < MANY; id++) {
        if (id % stays > 0) {
            shard_row_erase(w->rows, table_store_find(w->rows->rows, id));
        }
    }
    return cpu() - from;
}

/* Takes a checkpoint; returns the seconds that it took on this thread. */
static double save(struct world *w, uint64_t number, uint64_t previous) {
    struct shard_snapshot_order o = {
        .dir = w->dir, .number = number, .previous = previous, .full = previous == 0};
    struct ckpt_table table;
    struct ckpt_part part;
    struct co_err err = {0};
    uint64_t ticket;
    double from = cpu();
    assert_int_equal(0, shard_snapshot_begin(&w->snapshot, &o, &ticket, NULL));
    int rc;
    while ((rc = shard_saver_result(w->saver, ticket, &part, &err)) == 0) {
        struct pollfd p = {.fd = w->woken, .events = POLLIN};
        uint64_t n;
        if (!shard_snapshot_slice(&w->snapshot)) {
            assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
            assert_int_equal(sizeof(n), read(w->woken, &n, sizeof(n)));
        }
    }
    if (rc < 0) {
        fail_msg("checkpoint %d: %s", (int)number, err.msg);
    }
    double took = cpu() - from;
    ps_table_describe(&w->table, &table);
    const struct ckpt_point p = {.number = number,
        .base = 1,
        .previous = previous,
        .n_tables = 1,
        .n_parts = 1,
        .tables = &table,
        .parts = &part};
    assert_int_equal(0, ckpt_point_commit(w->dir, &p, NULL));
    return took;
}

static void a_delta_takes_time_in_proportion(void **unused) {
    (void)unused;
    struct world w;
    world_start(&w);
    make_rows(&w);
    (void)save(&w, 1, 0);
    size_t used = w.budget.used;
    double erasing = erase_rows(&w, MANY);
    assert_true(w.budget.used >= used + MANY * sizeof(uint64_t)); /* the ids, for the delta */
    double saving = save(&w, 2, 1);
    world_end(&w);
    if (saving > 5 * erasing) {
        fail_msg("%d rows were erased in %.3f s, and a delta took %.3f s", MANY, erasing, saving);
    }
}

/* The sweep that each push makes must not search the whole table for the few rows that are left. */
static void a_push_does_not_search_free_slots(void **unused) {
    (void)unused;
    struct world w;
    struct rpc_frame *f = NULL;
    world_start(&w);
    make_rows(&w);
    double erasing = erase_rows(&w, MANY);
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_SPARSE, BATCH * 12UL, &f, NULL));
    memset(f->payload, 0, f->head.bytes);
    f->head.count = BATCH;
    for (uint64_t i = 0; i < BATCH; i++) {
        co_put_u64(f->payload + i * 8, MANY + i);
    }
    double from = cpu();
    assert_int_equal(0, shard_sparse_push(&w.t, w.rows, 0, f, NULL));
    double pushing = cpu() - from;
    rpc_frame_free(f);
    world_end(&w);
    if (pushing > erasing) {
        fail_msg("%d rows were erased in %.3f s, and a push took %.3f s", MANY, erasing, pushing);
    }
}

/* KiB that were resident at most. */
static long peak(void) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 16);
    assert_int_equal(0, co_file_read("/proc/self/status", 1 << 16, &text, NULL));
    const char *at = strstr(text.data, "VmHWM:");
    return at ? strtol(at + 6, NULL, 10) : 0;
}

/* In a process of its own, whose peak begins now.  Returns 0, or which step went wrong. */
static int restore_small(struct world *w) {
    struct ckpt_chain *chain = NULL;
    struct co_err err = {0};
    tables_start(w, SMALL);
    int rc = ckpt_chain_open(w->dir, 2, &chain, &err);
    long before = peak();
    if (rc == 0) {
        rc = shard_tables_restore(&w->t, chain, &err);
    }
    long grown = peak() - before;
    if (rc < 0 || table_store_rows(w->rows->rows) != MANY / STAYS) {
        print_error("%s; %zu rows\n", err.msg, table_store_rows(w->rows->rows));
        return 1;
    }
    for (uint64_t id = 0; id < MANY; id += STAYS) {
        if (table_store_find(w->rows->rows, id) == TABLE_SLOT_NONE) {
            print_error("row %d is missing\n", (int)id);
            return 2;
        }
    }
    if (grown > ROOM >> 10 && !getenv("PADDLE_SANITIZED")) { /* those take more */
        print_error("%ld KiB for a budget of %d\n", grown, SMALL >> 10);
        return 3;
    }
    return 0;
}

static void a_restore_takes_erased_ids_in_passes(void **unused) {
    (void)unused;
    struct world w;
    int status = -1;
    world_start(&w);
    make_rows(&w);
    (void)save(&w, 1, 0);
    (void)erase_rows(&w, STAYS);
    (void)save(&w, 2, 1);
    pid_t pid = fork();
    if (pid == 0) {
        struct world fresh = w;
        _exit(restore_small(&fresh));
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    world_end(&w);
    assert_int_equal(0, status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delta_takes_time_in_proportion),
        cmocka_unit_test(a_push_does_not_search_free_slots),
        cmocka_unit_test(a_restore_takes_erased_ids_in_passes),
    };
    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
