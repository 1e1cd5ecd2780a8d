/* A trainer that times pulls and pushes of 26 rows, in turn with another program's
 * (bench_python.py).
 *
 *     bench-pull DIM         of the server that the environment names
 *
 * For each line on stdin, a number of rounds, it prints microseconds of a pull, and of a push: both
 * wall, then both of this process's CPU. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/flag.h"
#include "common/parse.h"
#include "runtime/rt.h"

enum { IDS = 26, DIM_MAX = 1024, KEYS = 50000 };

static double clock_us(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-pull: %s\n", co_err_text(err));
        _exit(1);
    }
}

struct times {
    double wall, cpu;
};

static struct times now(void) {
    return (struct times){clock_us(CLOCK_MONOTONIC), clock_us(CLOCK_PROCESS_CPUTIME_ID)};
}

/* Of a round. */
static struct times since(struct times begin, int rounds) {
    struct times end = now();
    return (struct times){(end.wall - begin.wall) / rounds, (end.cpu - begin.cpu) / rounds};
}

static void measure(struct rt_client *c, uint32_t dim, int rounds) {
    static float rows[IDS * DIM_MAX];
    uint64_t ids[IDS];
    struct co_err err = {0};
    struct times at = now();
    for (int r = 0; r < rounds; r++) {
        for (uint64_t i = 0; i < IDS; i++) {
            ids[i] = ((uint64_t)r * IDS + i) * 7919 % KEYS;
        }
        must(rt_pull_sparse(c, 0, ids, IDS, rows, &err), &err);
    }
    struct times pull = since(at, rounds);
    for (size_t i = 0; i < (size_t)IDS * dim; i++) {
        rows[i] = 1e-3F;
    }
    at = now();
    for (int r = 0; r < rounds; r++) {
        for (uint64_t i = 0; i < IDS; i++) {
            ids[i] = ((uint64_t)r * IDS + i) * 7919 % KEYS;
        }
        must(rt_push_sparse(c, 0, ids, IDS, rows, &err), &err);
    }
    must(rt_flush(c, &err), &err);
    struct times push = since(at, rounds);
    (void)printf("%.3f %.3f %.3f %.3f\n", pull.wall, push.wall, pull.cpu, push.cpu);
    (void)fflush(stdout);
}

int main(int argc, char **argv) {
    int64_t dim = 0, rounds = 0;
    struct co_err err = {0};
    const int end = co_words_check("bench-pull DIM", 1, 1, argc, argv);
    if (end >= 0) {
        return end;
    }
    must(co_parse_i64("DIM", argv[1], 1, DIM_MAX, &dim, &err), &err);
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    const struct rt_table_spec spec = {.name = "rows",
        .kind = RT_SPARSE,
        .dim = (uint32_t)dim,
        .optimizer = "sgd:lr=0.1",
        .init = "uniform:min=-0.01,max=0.01"};
    const struct rt_client_options options = {.mode = RT_ASYNC, .start_timeout_ms = 30000};
    must(rt_init(&job, &err), &err);
    must(rt_client_open(job, &options, &spec, 1, &c, &err), &err);
    char line[32];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        must(co_parse_i64("a number of rounds", line, 1, INT32_MAX, &rounds, &err), &err);
        measure(c, (uint32_t)dim, (int)rounds);
    }
    must(rt_finish(c, &err), &err);
    rt_done(job);
    return 0;
}
