/* A store with cold rows behaves as one that is all in memory.  Also: a disk that is full, damaged,
 * or in use by another process. */
#include "runtime/train/table/cold.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/table/index.h"

enum { DIM = 8, STATE = 2, IDS = 40000, BATCH = 200, MEMORY = 1 << 20 };

struct world {
    char dir[64];
    struct table_budget budget;
    struct table_cold_shard shard;
    struct table_rocks *disk;
    struct table_store *store, *plain;
    struct table_cold cold;
    uint64_t seed;
};

static uint32_t dice(struct world *w, uint32_t sides) {
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(w->seed >> 33) % sides;
}

static void open_disk(struct world *w) {
    struct co_err err = {0};
    if (table_rocks_open(w->dir, "server-0", &w->budget, &w->disk, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

static void start(struct world *w, uint64_t seed) {
    const struct table_store_shape shape = {
        .dim = DIM, .state = STATE, .head = 4, .storage = RT_F32};
    *w = (struct world){.seed = seed, .budget = {.max = MEMORY}, .shard = {.shards = 1}};
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/cold_test_XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    open_disk(w);
    w->store = table_store_new(&shape, &w->budget);
    w->plain = table_store_new(&shape, NULL);
    table_cold_init(&w->cold, w->store, w->disk, &w->budget, &w->shard, 0);
}

static void end(struct world *w) {
    table_cold_done(&w->cold);
    table_store_free(w->store);
    table_store_free(w->plain);
    table_rocks_close(w->disk);
    assert_int_equal(0, atomic_load(&w->budget.used));
    assert_int_equal(0, rmdir(w->dir)); /* it is empty */
}

/* ---- the same operations on both ---- */

static void draw_ids(struct world *w, uint64_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) { /* the first tenth is asked for as often as the rest */
        ids[i] = dice(w, dice(w, 2) ? IDS / 10 : IDS) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

static void write_row(struct table_store *s, uint32_t slot, uint32_t value) {
    *(uint32_t *)table_store_head(s, slot) = value;
    for (uint32_t k = 0; k < DIM; k++) {
        ((float *)table_store_values(s, slot))[k] = (float)(value + k);
    }
    table_store_state(s, slot)[0] += (float)value;
}

static int push(struct world *w, struct co_err *err) {
    uint64_t ids[BATCH];
    uint32_t slots[BATCH], plain[BATCH];
    bool fresh[BATCH];
    size_t n = 1 + dice(w, BATCH);
    uint32_t value = dice(w, 1 << 20);
    draw_ids(w, ids, n);
    CO_TRY(table_cold_bring(&w->cold, ids, n, slots, err));
    CO_TRY(table_store_make_many(w->store, ids, n, slots, fresh, err));
    assert_int_equal(0, table_store_make_many(w->plain, ids, n, plain, fresh, NULL));
    for (size_t i = 0; i < n; i++) {
        write_row(w->store, slots[i], value);
        write_row(w->plain, plain[i], value);
    }
    return 0;
}

static void check_body(const struct world *w, uint64_t id, const void *body) {
    uint32_t slot = table_store_find(w->plain, id);
    assert_int_equal(body != NULL, slot != TABLE_SLOT_NONE);
    if (body) {
        assert_memory_equal(
            table_store_body(w->plain, slot), body, table_store_body_bytes(w->plain));
    }
}

static int pull(struct world *w, struct co_err *err) {
    uint64_t ids[BATCH];
    uint32_t slots[BATCH];
    const void *bodies[BATCH];
    size_t n = 1 + dice(w, BATCH);
    draw_ids(w, ids, n);
    CO_TRY(table_cold_find(&w->cold, ids, n, slots, bodies, err));
    for (size_t i = 0; i < n; i++) {
        check_body(w, ids[i],
            slots[i] == TABLE_SLOT_NONE ? bodies[i] : table_store_body(w->store, slots[i]));
    }
    return 0;
}

static void erase(struct world *w) {
    uint64_t ids[BATCH];
    uint32_t slots[BATCH];
    struct co_err err = {0};
    size_t n = 1 + dice(w, BATCH);
    draw_ids(w, ids, n);
    assert_int_equal(0, table_cold_bring(&w->cold, ids, n, slots, &err));
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = table_store_find(w->store, ids[i]),
                 plain = table_store_find(w->plain, ids[i]);
        assert_int_equal(slot == TABLE_SLOT_NONE, plain == TABLE_SLOT_NONE);
        if (slot != TABLE_SLOT_NONE) {
            table_store_erase(w->store, slot);
            table_store_erase(w->plain, plain);
        }
    }
}

/* A pass over all rows, between whose parts rows move; some are changed or erased by it. */
static void pass(struct world *w, uint32_t changes) {
    struct co_err err = {0};
    size_t met = 0, rows = table_store_rows(w->plain);
    for (uint64_t from = 0; from < TABLE_COLD_END;) {
        struct table_cold_part p;
        assert_int_equal(0, table_cold_part(&w->cold, from, 1 + dice(w, 500), &p, &err));
        assert_true(p.end > from);
        for (size_t i = 0; i < p.n_hot; i++) {
            uint64_t id = table_store_id(w->store, p.slots[i]);
            check_body(w, id, table_store_body(w->store, p.slots[i]));
        }
        for (size_t i = 0; i < p.n_cold; i++) {
            uint32_t plain = table_store_find(w->plain, p.ids[i]);
            void *body = table_cold_part_body(&w->cold, &p, i);
            check_body(w, p.ids[i], body);
            uint32_t what = changes ? dice(w, changes) : 2;
            if (what == 0) {
                p.change[i] = TABLE_COLD_ERASE;
                table_store_erase(w->plain, plain);
            } else if (what == 1) {
                p.change[i] = TABLE_COLD_CHANGE;
                *(uint32_t *)body = *(uint32_t *)table_store_head(w->plain, plain) = dice(w, 1000);
            }
        }
        assert_int_equal(0, table_cold_settle(&w->cold, &p, &err));
        met += p.n_hot + p.n_cold;
        from = p.end;
        table_cold_part_done(&p);
        assert_int_equal(0, pull(w, &err));
    }
    assert_int_equal(rows, met);
    assert_int_equal(table_store_rows(w->plain), table_store_rows(w->store) + w->cold.rows);
}

static void a_cold_table_equals_a_store_in_memory(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world w;
        struct co_err err = {0};
        start(&w, seed);
        for (int i = 0; i < 1500; i++) {
            uint32_t what = dice(&w, 100);
            int rc = what < 50 ? push(&w, &err) : what < 97 ? pull(&w, &err) : 0;
            if (rc < 0) {
                fail_msg("%s", err.msg);
            }
            if (what >= 97) {
                erase(&w);
            }
            if (i % 500 == 499) {
                pass(&w, i % 1000 == 499 ? 10 : 0);
            }
            assert_true(atomic_load(&w.budget.used) <= MEMORY);
        }
        assert_true(w.cold.rows > table_store_rows(w.store)); /* or nothing was tried */
        table_cold_clear(&w.cold);
        table_store_clear(w.store);
        table_store_clear(w.plain);
        pass(&w, 0);
        assert_int_equal(0, push(&w, &err));
        pass(&w, 0);
        end(&w);
    }
}

/* Rows of one call stay, and there is room for all of them or an error; what is there stays, too.
 */
static void a_call_for_more_rows_than_memory_holds_is_refused(void **state) {
    (void)state;
    enum { MANY = 30000 };
    static uint64_t ids[MANY];
    static uint32_t slots[MANY];
    struct world w;
    struct co_err err = {0};
    start(&w, 5);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(0, push(&w, &err));
    }
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    assert_int_equal(CO_NORESOURCE, table_cold_bring(&w.cold, ids, MANY, slots, &err));
    assert_non_null(strstr(err.msg, "memory_max"));
    pass(&w, 0);
    end(&w);
}

/* Another shard has as much memory, however late it comes. */
static void no_shard_takes_the_memory_of_another(void **state) {
    (void)state;
    enum { GROUP = 500, EACH = 20000 };
    const struct table_store_shape shape = {
        .dim = DIM, .state = STATE, .head = 4, .storage = RT_F32};
    uint64_t ids[GROUP];
    uint32_t slots[GROUP];
    bool fresh[GROUP];
    struct world w;
    start(&w, 6);
    w.shard.shards = 2;
    struct table_cold_shard late_shard = {.shards = 2};
    struct table_cold late;
    struct table_store *store = table_store_new(&shape, &w.budget);
    table_cold_init(&late, store, w.disk, &w.budget, &late_shard, 0);
    struct table_cold *const both[] = {&w.cold, &late};
    for (size_t k = 0; k < CO_ARRAY_LEN(both); k++) {
        for (uint64_t id = 0; id < EACH; id++) {
            ids[id % GROUP] = id;
            if (id % GROUP == GROUP - 1) {
                assert_int_equal(0, table_cold_bring(both[k], ids, GROUP, slots, NULL));
                assert_int_equal(
                    0, table_store_make_many(both[k]->store, ids, GROUP, slots, fresh, NULL));
            }
        }
        assert_true(both[k]->rows > 0);
    }
    /* Memory comes in pieces of 64 KiB. */
    assert_true(table_store_rows(store) > table_store_rows(w.store) / 2);
    assert_true(table_store_rows(store) < table_store_rows(w.store) * 2);
    table_cold_done(&late);
    table_store_free(store);
    end(&w);
}

/* ---- ages ---- */

struct seen {
    struct world *w;
    size_t n;
    bool there[IDS];
};

static enum table_cold_age leaves_changed(void *arg, uint32_t slot) {
    struct world *w = arg;
    bool changed = *(uint32_t *)table_store_head(w->store, slot) % 2;
    return changed ? TABLE_COLD_CHANGED : TABLE_COLD_SAVED;
}

static void note(void *arg, uint64_t id, const void *body) {
    struct seen *s = arg;
    (void)body;
    s->n++;
    uint64_t i = id * UINT64_C(0xf1de83e19937733d); /* undoes what draw_ids does */
    assert_true(i < IDS && !s->there[i]);
    s->there[i] = true;
}

static size_t walk(struct world *w, const struct table_rocks_instant *at, bool all) {
    static struct seen s;
    struct co_err err = {0};
    memset(&s, 0, sizeof(s));
    s.w = w;
    bool more = true;
    for (uint64_t from = 0; more;) {
        assert_int_equal(0, table_cold_walk(&w->cold, at, all, &from, 97, note, &s, &more, &err));
    }
    return s.n;
}

static void an_instant_has_the_cold_rows_of_its_time(void **state) {
    (void)state;
    struct world w;
    struct co_err err = {0};
    start(&w, 9);
    w.cold.watch = (struct table_cold_watch){.leaves = leaves_changed, .arg = &w};
    for (int i = 0; i < 300; i++) {
        assert_int_equal(0, push(&w, &err));
    }
    uint64_t rows = w.cold.rows;
    struct table_rocks_instant *at = table_rocks_instant_new(w.disk);
    table_cold_instant(&w.cold, false);
    size_t changed = walk(&w, at, false);
    assert_int_equal(rows, walk(&w, at, true));
    assert_true(changed > rows / 4 && changed < rows - rows / 4);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(0, push(&w, &err));
    }
    assert_int_equal(rows, walk(&w, at, true));
    assert_int_equal(changed, walk(&w, at, false));
    table_rocks_instant_free(at);
    at = table_rocks_instant_new(w.disk);
    table_cold_instant(&w.cold, true); /* the first one failed: its rows are still to be saved */
    size_t both = walk(&w, at, false);
    table_rocks_instant_free(at);
    at = table_rocks_instant_new(w.disk);
    table_cold_instant(&w.cold, false);
    assert_int_equal(0, walk(&w, at, false));
    assert_true(both > 0);
    table_rocks_instant_free(at);
    end(&w);
}

/* ---- disks ---- */

/* Files cannot grow beyond some KiB: pushes that need room are refused, nothing is lost, and when
 * there is room again all continues. */
static void a_full_disk_refuses_pushes_and_loses_nothing(void **state) {
    (void)state;
    struct world w;
    struct co_err err = {0};
    start(&w, 21);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(0, push(&w, &err));
    }
    struct rlimit before, small = {16 << 10, RLIM_INFINITY};
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &before));
    small.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    int refused = 0;
    for (int i = 0; i < 3000 && refused < 10; i++) {
        int rc = push(&w, &err);
        assert_true(rc == 0 || rc == CO_NORESOURCE);
        refused += rc < 0;
    }
    assert_int_equal(10, refused);
    assert_non_null(strstr(err.msg, w.dir));
    pass(&w, 0);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &before));
    pass(&w, 0);
    end(&w);
}

static void damage(const char *dir) {
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d));) {
        char path[512];
        struct stat st;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".sst") && stat(path, &st) == 0) {
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            for (off_t at = 100; at < st.st_size - 1000; at += 500) {
                assert_int_equal(4, pwrite(fd, "oops", 4, at));
            }
            (void)close(fd);
        }
    }
    (void)closedir(d);
}

static void a_damaged_file_is_named_and_gives_no_wrong_rows(void **state) {
    (void)state;
    struct world w;
    struct co_err err = {0};
    start(&w, 33);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(0, push(&w, &err));
    }
    damage(table_rocks_dir(w.disk));
    int bad = 0;
    for (int i = 0; i < 200; i++) {
        int rc = pull(&w, &err);
        assert_true(rc == 0 || rc == CO_INTERNAL);
        bad += rc < 0;
    }
    assert_true(bad > 0);
    assert_non_null(strstr(err.msg, w.dir));
    table_cold_done(&w.cold);
    table_store_free(w.store);
    table_store_free(w.plain);
    table_rocks_close(w.disk);
    assert_int_equal(0, rmdir(w.dir));
}

/* Before anything has opened a disk: RocksDB's threads are not in a process that is forked. */
static void files_of_a_killed_process_are_removed(void **state) {
    (void)state;
    struct world w = {.budget = {.max = MEMORY}};
    struct co_err err = {0};
    int report[2], status = 0;
    assert_int_equal(0, pipe2(report, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
        start(&w, 45);
        for (int i = 0; i < 300; i++) {
            (void)!push(&w, &err);
        }
        (void)!write(report[1], w.dir, sizeof(w.dir));
        (void)raise(SIGKILL);
    }
    assert_int_equal(sizeof(w.dir), read(report[0], w.dir, sizeof(w.dir)));
    (void)close(report[0]);
    (void)close(report[1]);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status));
    open_disk(&w);
    assert_int_equal(0, table_rocks_bytes(w.disk));
    table_rocks_close(w.disk);
    assert_int_equal(0, rmdir(w.dir));
}

static void a_directory_belongs_to_one_server(void **state) {
    (void)state;
    struct world w;
    struct co_err err = {0};
    struct table_rocks *other = NULL;
    start(&w, 44);
    assert_int_equal(CO_INVALID, table_rocks_open(w.dir, "server-0", &w.budget, &other, &err));
    assert_non_null(strstr(err.msg, w.dir));
    pass(&w, 0);
    end(&w);
    assert_int_equal(
        CO_INVALID, table_rocks_open("/proc/cold", "server-0", &w.budget, &w.disk, &err));
    assert_non_null(strstr(err.msg, "/proc/cold"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_killed_process_are_removed),
        cmocka_unit_test(a_directory_belongs_to_one_server),
        cmocka_unit_test(a_cold_table_equals_a_store_in_memory),
        cmocka_unit_test(a_call_for_more_rows_than_memory_holds_is_refused),
        cmocka_unit_test(no_shard_takes_the_memory_of_another),
        cmocka_unit_test(an_instant_has_the_cold_rows_of_its_time),
        cmocka_unit_test(a_full_disk_refuses_pushes_and_loses_nothing),
        cmocka_unit_test(a_damaged_file_is_named_and_gives_no_wrong_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
