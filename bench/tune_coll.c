/* Measures the cost of the collective algorithms over TCP on this machine's loopback.  Prints
 * runtime/train/cost/measured.c to stdout and the measurements to stderr.
 *
 *     tune-coll [MS]      measures each algorithm, number of ranks and size for MS (60)
 *
 * A cell is the median of its samples; a sample is the time of the slowest rank.  The cost of a
 * step and of a KiB are fitted to the cells by least squares of the relative errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/flag.h"
#include "common/mem.h"
#include "common/stdio.h"
#include "runtime/train/coll/message.h"

enum { SAMPLES_MIN = 8, SAMPLES_MAX = 256, FIRST_PORT = 21000, MIB = 1 << 20 };

static const uint32_t ranks_of[] = {2, 3, 4};
static const size_t sizes[] = {
    64, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 * MIB, 8 * MIB};

enum { RANKS = CO_ARRAY_LEN(ranks_of), SIZES = CO_ARRAY_LEN(sizes) };

/* Nanoseconds, written by rank 0 of each group. */
struct cells {
    double ns[COST_ALGORITHMS][RANKS][SIZES];
};

static void check(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "tune-coll: %s\n", co_err_text(err));
        exit(1);
    }
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(
    struct rt_group *g, enum cost_algorithm w, const struct rt_coll *c, double ms) {
    struct coll_members all = {.rank = g->all, .n = g->size, .me = g->rank};
    struct co_err err = {0};
    double took[SAMPLES_MAX], end = now_ns() + ms * 1e6;
    uint32_t n = 0;
    int64_t more = 1;
    while (more) {
        check(rt_group_barrier(g, &err), &err);
        double begin = now_ns();
        check(coll_msg_algorithms[w](g, &all, c), NULL);
        took[n++] = now_ns() - begin;
        more = (now_ns() < end || n < SAMPLES_MIN) && n < SAMPLES_MAX;
        check(rt_broadcast(g, &more, 1, RT_I64, 0, &err), &err);
    }
    check(rt_all_reduce(g, took, took, n, RT_F64, RT_MAX, &err), &err);
    qsort(took, n, sizeof(took[0]), ascending);
    return took[n / 2];
}

static void run_rank(
    const char *const *endpoints, uint32_t rank, uint32_t which, double ms, struct cells *cells) {
    struct rt_group_options o = {.endpoints = endpoints,
        .size = ranks_of[which],
        .rank = rank,
        .transport = RT_TRANSPORT_TCP,
        .generation = which};
    struct co_err err = {0};
    struct rt_group *g = NULL;
    float *in = co_xcalloc(1, sizes[SIZES - 1]), *out = co_xcalloc(1, sizes[SIZES - 1]);
    check(rt_group_open(NULL, &o, &g, &err), &err);
    for (size_t s = 0; s < SIZES; s++) {
        for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
            struct rt_coll c = {.in = in, .out = out, .n = sizes[s] / sizeof(float)};
            double ns = measure(g, w, &c, ms);
            if (rank == 0) {
                cells->ns[w][which][s] = ns;
            }
        }
    }
    rt_group_close(g);
    free(in);
    free(out);
}

static void run_ranks(uint32_t which, double ms, struct cells *cells) {
    char text[8][32];
    const char *endpoints[8];
    for (uint32_t r = 0; r < ranks_of[which]; r++) {
        (void)snprintf(text[r], sizeof(text[r]), "127.0.0.1:%u", FIRST_PORT + r);
        endpoints[r] = text[r];
    }
    for (uint32_t r = 0; r < ranks_of[which]; r++) {
        if (fork() == 0) {
            run_rank(endpoints, r, which, ms, cells);
            exit(0);
        }
    }
    int status;
    while (wait(&status) > 0) {
        if (status != 0) {
            exit(1);
        }
    }
}

/* Fits the costs of a step and of a KiB; neither is negative. */
static void fit(
    enum cost_algorithm w, const struct cells *cells, double *ret_step, double *ret_kib) {
    double ss = 0, sk = 0, kk = 0, s1 = 0, k1 = 0;
    for (uint32_t p = 0; p < RANKS; p++) {
        for (size_t i = 0; i < SIZES; i++) {
            double t = cells->ns[w][p][i];
            double s = (double)cost_algorithm_steps(w, ranks_of[p], sizes[i]) / t;
            double k = (double)cost_algorithm_bytes(w, ranks_of[p], sizes[i]) / 1024 / t;
            ss += s * s;
            sk += s * k;
            kk += k * k;
            s1 += s;
            k1 += k;
        }
    }
    double det = ss * kk - sk * sk;
    *ret_step = fmax(0, (s1 * kk - k1 * sk) / det);
    *ret_kib = fmax(0, (k1 * ss - s1 * sk) / det);
}

static void print_cells(const struct cells *cells) {
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        for (uint32_t p = 0; p < RANKS; p++) {
            (void)fprintf(stderr, "%-10s %-9s P %u:", cost_algorithm_call(w),
                cost_algorithm_name(w), ranks_of[p]);
            for (size_t i = 0; i < SIZES; i++) {
                (void)fprintf(stderr, " %9.0f", cells->ns[w][p][i] / 1e3);
            }
            (void)fprintf(stderr, " us\n");
        }
    }
}

static void read_line(const char *path, const char *key, char *ret, size_t size) {
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *value = strstr(line, key);
        if (value) {
            value += strlen(key);
            value += strspn(value, "\t :");
            (void)snprintf(ret, size, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    if (f) {
        (void)fclose(f);
    }
}

int main(int argc, char **argv) {
    const int end = co_words_check("tune-coll [MS]", 0, 1, argc, argv);
    if (end >= 0) {
        return end;
    }
    static const char *const names[COST_ALGORITHMS] = {"DOUBLING", "HALVING", "RING", "REDUCE_TREE",
        "REDUCE_CHAIN", "BROADCAST_TREE", "BROADCAST_CHAIN"};
    double ms = argc > 1 ? strtod(argv[1], NULL) : 60;
    char model[128] = "unknown processor", load[64] = "";
    struct cells *cells =
        mmap(NULL, sizeof(*cells), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED) {
        return 1;
    }
    for (uint32_t p = 0; p < RANKS; p++) {
        run_ranks(p, ms, cells);
    }
    print_cells(cells);
    read_line("/proc/cpuinfo", "model name", model, sizeof(model));
    read_line("/proc/loadavg", "", load, sizeof(load));
    (void)printf("/* Printed by `make tune-coll`. */\n#include \"runtime/train/cost/cost.h\"\n\n"
                 "const struct cost_algorithm_cost cost_algorithm_costs[COST_ALGORITHMS] = {\n");
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        double step, kib;
        fit(w, cells, &step, &kib);
        (void)printf("    [COST_ALGORITHM_%s] = {%.0f, %.0f},\n", names[w], step, kib);
    }
    (void)printf("};\nconst char cost_algorithm_conditions[] =\n    \"2, 3 and 4 ranks on %ld "
                 "cores, loopback; "
                 "load %.4s;\"\n    \" %s\";\n",
        sysconf(_SC_NPROCESSORS_ONLN), load, model);
    return co_stdio_close("tune-coll", 0);
}
