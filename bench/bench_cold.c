/* Compares a sparse table that is four times as large as its memory with the same table in memory:
 * rows per second that are read, and that are trained (read and changed), for ids by Zipf's law,
 * uniform ids, and ids without a row.
 *
 *     bench-cold [ROWS [DIR]]
 *
 * The table has ROWS (8 million) rows of 10 floats with SGD: an id and 40 bytes.  A call has 256
 * ids.  The memory for rows, index, filters, blocks and pending writes is a quarter of what the
 * table takes in memory.  Files are below DIR (/tmp); the kernel may keep them in its page cache.
 * Prints rates by CPU time of the calling thread, by that of the whole process, which includes
 * RocksDB's threads, and by wall time.  "hot" is the part of rows that were found in memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/flag.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/train/table/cold.h"

enum { DIM = 10, BATCH = 256, QUARTER = 4 };
#define ZIPF 0.99

struct bench {
    uint64_t rows, random;
    struct table_budget budget;
    struct table_cold_shard shard;
    struct table_rocks *rocks;
    struct table_store *store;
    struct table_cold cold;
    bool is_cold;
    uint64_t hot, asked;
    float sum;
};

static double now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-cold: %s\n", co_err_text(err));
        exit(1);
    }
}

/* Scatters ids: a bijection of 0, 1, 2, ..., so that no hash function profits from their order. */
static uint64_t id_of(uint64_t k) {
    k ^= k >> 31;
    k *= 0x7fb5d329728ea185ULL;
    return k ^ k >> 27;
}

static double draw(struct bench *b) {
    b->random = b->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(b->random >> 11) * 0x1p-53;
}

static uint64_t draw_uniform(struct bench *b) {
    return (uint64_t)(draw(b) * (double)b->rows);
}

/* Draws by Zipf's law, approximately: inverts the integral of the density.  Frequent rows are far
 * from each other. */
static uint64_t draw_zipf(struct bench *b) {
    double top = pow((double)b->rows, 1 - ZIPF) - 1;
    uint64_t rank = (uint64_t)pow(draw(b) * top + 1, 1 / (1 - ZIPF)) - 1;
    return (rank < b->rows ? rank : b->rows - 1) * 2654435761U % b->rows;
}

static uint64_t draw_new(struct bench *b) {
    return b->rows + draw_uniform(b);
}

/* ---- calls ---- */

static void read_rows(struct bench *b, const uint64_t *ids) {
    uint32_t slots[BATCH];
    const void *bodies[BATCH];
    float row[DIM];
    struct co_err err = {0};
    if (b->is_cold) {
        must(table_cold_find(&b->cold, ids, BATCH, slots, bodies, &err), &err);
    } else {
        table_store_find_many(b->store, ids, BATCH, slots);
    }
    for (size_t i = 0; i < BATCH; i++) {
        if (slots[i] != TABLE_SLOT_NONE) {
            table_store_read(b->store, slots[i], row);
            b->sum += row[0];
        }
    }
}

/* Like a trainer: pulls rows, then pushes the same ones. */
static void train_rows(struct bench *b, const uint64_t *ids) {
    uint32_t slots[BATCH];
    bool fresh[BATCH];
    struct co_err err = {0};
    read_rows(b, ids);
    if (b->is_cold) {
        must(table_cold_bring(&b->cold, ids, BATCH, slots, &err), &err);
    }
    must(table_store_make_many(b->store, ids, BATCH, slots, fresh, &err), &err);
    for (size_t i = 0; i < BATCH; i++) {
        *(float *)table_store_values(b->store, slots[i]) += 1;
    }
}

/* ---- rounds ---- */

struct rate {
    double thread, process, wall;
};

static struct rate measure(struct bench *b, uint64_t n, uint64_t (*draw_row)(struct bench *b),
    void (*call)(struct bench *b, const uint64_t *ids)) {
    uint64_t ids[BATCH];
    double begin[3] = {
        now(CLOCK_THREAD_CPUTIME_ID), now(CLOCK_PROCESS_CPUTIME_ID), now(CLOCK_MONOTONIC)};
    for (uint64_t k = 0; k < n; k += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++) {
            ids[i] = id_of(draw_row ? draw_row(b) : k + i);
        }
        call(b, ids);
    }
    double m = (double)n * 1e-6;
    return (struct rate){m / (now(CLOCK_THREAD_CPUTIME_ID) - begin[0]),
        m / (now(CLOCK_PROCESS_CPUTIME_ID) - begin[1]), m / (now(CLOCK_MONOTONIC) - begin[2])};
}

static const struct {
    const char *name;
    uint64_t (*draw)(struct bench *b); /* NULL: ids in sequence */
    void (*call)(struct bench *b, const uint64_t *ids);
} rounds[] = {{"make", NULL, train_rows}, {"read, Zipf 0.99", draw_zipf, read_rows},
    {"train, Zipf 0.99", draw_zipf, train_rows}, {"read, uniform", draw_uniform, read_rows},
    {"train, uniform", draw_uniform, train_rows}, {"read, no row", draw_new, read_rows}};

static void run(struct bench *b, struct rate *ret) {
    const struct table_store_shape shape = {.dim = DIM, .storage = RT_F32};
    b->store = table_store_new(&shape, b->is_cold ? &b->budget : NULL);
    if (b->is_cold) {
        table_cold_init(&b->cold, b->store, b->rocks, &b->budget, &b->shard, 0);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(rounds); i++) {
        uint64_t n = (i == 0 ? b->rows : b->rows / QUARTER) / BATCH * BATCH;
        if (i > 0) { /* once without counting, until memory holds what this round needs */
            (void)measure(b, n, rounds[i].draw, rounds[i].call);
        }
        ret[i] = measure(b, n, rounds[i].draw, rounds[i].call);
    }
}

static void print(const struct bench *b, const struct rate memory[], const struct rate cold[]) {
    printf("%.1f M rows, %.0f MiB of memory: %zu rows in memory, %llu on the disk (%llu MiB)\n",
        (double)b->rows * 1e-6, (double)b->budget.max / (1 << 20), table_store_rows(b->store),
        (unsigned long long)b->cold.rows, (unsigned long long)table_rocks_bytes(b->rocks) >> 20);
    printf("M rows/s               all in memory: CPU  wall   cold: CPU  with RocksDB's  wall\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(rounds); i++) {
        printf("  %-20s %18.2f %5.2f %11.2f %14.2f %5.2f\n", rounds[i].name, memory[i].thread,
            memory[i].wall, cold[i].thread, cold[i].process, cold[i].wall);
    }
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-cold [ROWS [DIR]]", 0, 2, argc, argv);
    if (end >= 0) {
        return end;
    }
    int64_t rows = 8000000;
    struct co_err err = {0};
    int rc = argc > 1 ? co_parse_i64("ROWS", argv[1], 10000, 1LL << 32, &rows, &err) : 0;
    if (rc < 0) {
        (void)fprintf(stderr, "bench-cold: %s\n", co_err_text(&err));
        return 2;
    }
    struct rate memory[CO_ARRAY_LEN(rounds)], cold[CO_ARRAY_LEN(rounds)];
    struct bench b = {.rows = (uint64_t)rows, .shard = {.shards = 1}};
    run(&b, memory);
    b.budget.max = table_store_bytes(b.store) / QUARTER;
    table_store_free(b.store);
    char dir[4096];
    (void)snprintf(dir, sizeof(dir), "%s/bench-cold-%d", argc > 2 ? argv[2] : "/tmp", getpid());
    b.is_cold = true;
    must(table_rocks_open(dir, "rows", &b.budget, &b.rocks, &err), &err);
    run(&b, cold);
    print(&b, memory, cold);
    table_cold_done(&b.cold);
    table_store_free(b.store);
    table_rocks_close(b.rocks);
    (void)rmdir(dir);
    return b.sum < 0;
}
