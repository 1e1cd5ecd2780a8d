/* Measures the store of a sparse table's rows by itself: memory for a row at different fill levels,
 * inserts, batched lookups, and the longest call.
 *
 *     bench-table [ROWS [THREADS]]
 *
 * A row has 10 floats with SGD: an id and 40 bytes.  Like a shard, each thread has its own store,
 * with an equal part of the ROWS (20 million).  Rates are rows per CPU time of the threads, times
 * the number of threads; rates by wall time are printed beside them.  Bytes are the resident memory
 * of a process with one store, sampled every 250,000 rows from half a million on, and what the
 * store counts itself.
 *
 * A call inserts or reads 256 rows, so the longest CPU time of a call includes 256 ordinary
 * inserts. Time that a hypervisor takes away counts as CPU time, too.  To separate the two, the
 * program also prints the longest gaps of a loop that only reads the clock for as much CPU time. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/flag.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/train/table/store.h"

enum { DIM = 10, BATCH = 256, SAMPLE = 250000, FIRST_SAMPLE = 500000 };

struct worker {
    uint64_t rows, first;
    bool sample;
    double insert_cpu, insert_wall, lookup_cpu, lookup_wall;
    struct pauses {
        double longest, over[3]; /* over: calls longer than 0.1 ms, 1 ms, 5 ms */
    } calls, spinning;
    double least, most, counted_least, counted_most; /* bytes for a row */
    float sum;
    struct table_store *store;
};

static double now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double resident(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        (void)!fscanf(f, "%*s %lu", &pages);
        (void)fclose(f);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Scatters ids: a bijection of 0, 1, 2, ..., so that no hash function profits from their order. */
static uint64_t id_of(uint64_t k) {
    k ^= k >> 31;
    k *= 0x7fb5d329728ea185ULL;
    return k ^ k >> 27;
}

static void count_pause(struct pauses *p, double cpu) {
    static const double limits[] = {1e-4, 1e-3, 5e-3};
    p->longest = cpu > p->longest ? cpu : p->longest;
    for (int i = 0; i < 3; i++) {
        p->over[i] += cpu > limits[i];
    }
}

static void add_pauses(struct pauses *to, const struct pauses *p) {
    to->longest = p->longest > to->longest ? p->longest : to->longest;
    for (int i = 0; i < 3; i++) {
        to->over[i] += p->over[i];
    }
}

static void sample(struct worker *w, uint64_t rows, double empty) {
    double bytes = (resident() - empty) / (double)rows,
           counted = (double)table_store_bytes(w->store) / (double)rows;
    bool first = w->most == 0;
    w->least = first || bytes < w->least ? bytes : w->least;
    w->most = bytes > w->most ? bytes : w->most;
    w->counted_least = first || counted < w->counted_least ? counted : w->counted_least;
    w->counted_most = counted > w->counted_most ? counted : w->counted_most;
}

static void insert(struct worker *w) {
    uint64_t ids[BATCH];
    uint32_t slots[BATCH];
    bool fresh[BATCH];
    double empty = resident(), wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t k = 0; k < w->rows; k += BATCH) {
        double before = now(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t i = 0; i < BATCH; i++) {
            ids[i] = id_of(w->first + k + i);
        }
        if (table_store_make_many(w->store, ids, BATCH, slots, fresh, NULL) < 0) {
            abort();
        }
        for (uint64_t i = 0; i < BATCH; i++) {
            *(float *)table_store_values(w->store, slots[i]) = 1;
        }
        count_pause(&w->calls, now(CLOCK_THREAD_CPUTIME_ID) - before);
        if (w->sample && k >= FIRST_SAMPLE && k / SAMPLE != (k + BATCH) / SAMPLE) {
            sample(w, k + BATCH, empty);
        }
    }
    w->insert_cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    w->insert_wall = now(CLOCK_MONOTONIC) - wall;
}

static void look_up(struct worker *w) {
    uint64_t ids[BATCH], random = w->first + 1;
    uint32_t slots[BATCH];
    static _Thread_local float rows[BATCH][DIM];
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t k = 0; k < w->rows; k += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            ids[i] = id_of(w->first + (random >> 32) * w->rows / (1ULL << 32));
        }
        table_store_find_many(w->store, ids, BATCH, slots);
        for (uint64_t i = 0; i < BATCH; i++) {
            table_store_read(w->store, slots[i], rows[i]);
        }
        w->sum += rows[k / BATCH % BATCH][0];
    }
    w->lookup_cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    w->lookup_wall = now(CLOCK_MONOTONIC) - wall;
}

/* Reads the clock in a loop, for as much CPU time as the inserts took. */
static void spin(struct worker *w) {
    double begin = now(CLOCK_THREAD_CPUTIME_ID), at = begin;
    while (at - begin < w->insert_cpu) {
        double next = now(CLOCK_THREAD_CPUTIME_ID);
        count_pause(&w->spinning, next - at);
        at = next;
    }
}

static void *work(void *p) {
    struct worker *w = p;
    const struct table_store_shape shape = {.dim = DIM, .storage = RT_F32};
    w->store = table_store_new(&shape, NULL);
    insert(w);
    look_up(w);
    spin(w);
    table_store_free(w->store);
    return NULL;
}

static void print_pauses(const char *what, const struct pauses *p) {
    printf("  %s: longest %.2f ms of CPU, %.0f over 0.1 ms, %.0f over 1 ms, %.0f over 5 ms\n", what,
        p->longest * 1e3, p->over[0], p->over[1], p->over[2]);
}

static void run(uint64_t rows, uint32_t threads) {
    struct worker w[16] = {0};
    pthread_t t[16];
    for (uint32_t i = 0; i < threads; i++) {
        w[i].rows = rows / threads / BATCH * BATCH;
        w[i].first = (uint64_t)i << 40;
        w[i].sample = threads == 1;
        if (pthread_create(&t[i], NULL, work, &w[i]) != 0) {
            abort();
        }
    }
    struct worker all = {0};
    for (uint32_t i = 0; i < threads; i++) {
        (void)pthread_join(t[i], NULL);
        all.rows += w[i].rows;
        all.insert_cpu += w[i].insert_cpu / threads;
        all.lookup_cpu += w[i].lookup_cpu / threads;
        all.insert_wall += w[i].insert_wall / threads;
        all.lookup_wall += w[i].lookup_wall / threads;
        add_pauses(&all.calls, &w[i].calls);
        add_pauses(&all.spinning, &w[i].spinning);
    }
    double m = (double)all.rows * 1e-6;
    printf("%u thread%s, %.1f M rows: insert %.1f M/s by CPU (wall %.1f), lookup %.1f (%.1f)\n",
        threads, threads > 1 ? "s" : "", m, m / all.insert_cpu, m / all.insert_wall,
        m / all.lookup_cpu, m / all.lookup_wall);
    print_pauses("inserts", &all.calls);
    print_pauses("only the clock", &all.spinning);
    if (threads == 1) {
        printf("  bytes a row of 48: %.1f .. %.1f resident, %.1f .. %.1f counted\n", w[0].least,
            w[0].most, w[0].counted_least, w[0].counted_most);
    }
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-table [ROWS [THREADS]]", 0, 2, argc, argv);
    if (end >= 0) {
        return end;
    }
    int64_t rows = 20000000, threads = 0;
    struct co_err err = {0};
    int rc = argc > 1 ? co_parse_i64("ROWS", argv[1], 1000, 1LL << 32, &rows, &err) : 0;
    rc = rc == 0 && argc > 2 ? co_parse_i64("THREADS", argv[2], 1, 16, &threads, &err) : rc;
    if (rc < 0) {
        (void)fprintf(stderr, "bench-table: %s\n", co_err_text(&err));
        return 2;
    }
    for (int64_t n = threads ? threads : 1; n <= (threads ? threads : 2); n++) {
        run((uint64_t)rows, (uint32_t)n);
    }
    return 0;
}
