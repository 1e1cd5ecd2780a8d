/* Times all_reduce of f32 sums, in place, the buffer written anew before each: this library's
 * ranks, forked, or (compiled by mpicc with BENCH_MPI) those of an MPI.
 *
 *     bench-coll RANKS MS auto|tcp|shared SIZE...     MS of measuring a size, in bytes
 *     mpirun -n RANKS bench-coll-mpi MS SIZE...
 *
 * Rank 0 prints a line a size: bytes, microseconds (median, lowest tenth, largest), number of
 * samples.
 * Up to 64 KiB a sample is the mean of many calls one after the other; above it is one call,
 * begun together. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_MPI
#include <mpi.h>
#else
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/rt.h"
#endif

enum { SAMPLES_MAX = 4096, AGREE_EVERY = 4, BATCH_BYTES = 64 << 10, RANKS_MAX = 16 };

/* What is timed, whoever does it. */
struct peer {
    int rank;
    void *group;
    void (*reduce)(struct peer *p, float *values, size_t n);
    void (*together)(struct peer *p);
    void (*agree)(struct peer *p, int64_t *value); /* rank 0's */
    void *(*memory)(struct peer *p, size_t bytes);
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void refill(struct peer *p, float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(p->rank + 1);
    }
}

static double sample(struct peer *p, float *values, size_t n, size_t batch) {
    refill(p, values, n);
    p->together(p);
    double begin = now_us();
    for (size_t i = 0; i < batch; i++) {
        if (i > 0) {
            refill(p, values, n);
        }
        p->reduce(p, values, n);
    }
    return (now_us() - begin) / (double)batch;
}

static void measure(struct peer *p, size_t bytes, double ms) {
    static double took[SAMPLES_MAX];
    size_t n = bytes / sizeof(float);
    float *values = p->memory(p, bytes);
    size_t batch = bytes <= 64 ? 2000 : bytes <= 4096 ? 500 : bytes <= BATCH_BYTES ? 50 : 1;
    for (int i = 0; i < 3; i++) {
        (void)sample(p, values, n, batch);
    }
    int64_t samples = 0, more = 1;
    double end = now_us() + ms * 1e3;
    while (more && samples + AGREE_EVERY <= SAMPLES_MAX) {
        for (int i = 0; i < AGREE_EVERY; i++) {
            took[samples++] = sample(p, values, n, batch);
        }
        more = now_us() < end;
        p->agree(p, &more);
    }
    if (p->rank == 0) {
        qsort(took, (size_t)samples, sizeof(took[0]), ascending);
        printf("%zu %.3f %.3f %.3f %d\n", bytes, took[samples / 2], took[samples / 10],
            took[samples - 1], (int)samples);
        (void)fflush(stdout);
    }
}

static void measure_all(struct peer *p, double ms, char **sizes, int n) {
    for (int i = 0; i < n; i++) {
        measure(p, strtoull(sizes[i], NULL, 10), ms);
    }
}

static void *own_memory(struct peer *p, size_t bytes) {
    (void)p;
    void *m = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!m) {
        abort();
    }
    return m;
}

#ifdef BENCH_MPI

static void mpi_reduce(struct peer *p, float *values, size_t n) {
    (void)p;
    MPI_Allreduce(MPI_IN_PLACE, values, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_together(struct peer *p) {
    (void)p;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void mpi_agree(struct peer *p, int64_t *value) {
    (void)p;
    MPI_Bcast(value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct peer p = {
        .reduce = mpi_reduce, .together = mpi_together, .agree = mpi_agree, .memory = own_memory};
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    measure_all(&p, strtod(argv[1], NULL), argv + 2, argc - 2);
    MPI_Finalize();
    return 0;
}

#else

static void check(int rc, const struct co_err *err) {
    if (rc < 0) {
        fprintf(stderr, "%s\n", co_err_text(err));
        exit(1);
    }
}

static void rt_reduce_values(struct peer *p, float *values, size_t n) {
    struct co_err err = {0};
    check(rt_all_reduce(p->group, values, values, n, RT_F32, RT_SUM, &err), &err);
}

static void rt_together(struct peer *p) {
    struct co_err err = {0};
    check(rt_group_barrier(p->group, &err), &err);
}

static void rt_agree(struct peer *p, int64_t *value) {
    struct co_err err = {0};
    check(rt_broadcast(p->group, value, 1, RT_I64, 0, &err), &err);
}

static void *group_memory(struct peer *p, size_t bytes) {
    struct co_err err = {0};
    void *m = NULL;
    check(rt_group_alloc(p->group, bytes, &m, &err), &err);
    return m;
}

/* Ports that were free a moment ago. */
static void find_ports(uint32_t n, char text[][32]) {
    int fds[RANKS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(a);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(fds[i], (struct sockaddr *)&a, len) < 0 ||
            getsockname(fds[i], (struct sockaddr *)&a, &len) < 0) {
            exit(1);
        }
        (void)snprintf(text[i], sizeof(text[i]), "127.0.0.1:%u", ntohs(a.sin_port));
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
}

static void run_rank(struct rt_group_options *o, const char *how, double ms, char **sizes, int n) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    o->transport = strcmp(how, "tcp") == 0 ? RT_TRANSPORT_TCP : RT_TRANSPORT_AUTO;
    check(rt_group_open(NULL, o, &g, &err), &err);
    struct peer p = {.rank = (int)o->rank,
        .group = g,
        .reduce = rt_reduce_values,
        .together = rt_together,
        .agree = rt_agree,
        .memory = strcmp(how, "shared") == 0 ? group_memory : own_memory};
    measure_all(&p, ms, sizes, n);
    rt_group_close(g);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: bench-coll RANKS MS auto|tcp|shared SIZE...\n");
        return 2;
    }
    char text[RANKS_MAX][32];
    const char *endpoints[RANKS_MAX];
    uint32_t n = (uint32_t)strtoul(argv[1], NULL, 10);
    if (n < 1 || n > RANKS_MAX) {
        return 2;
    }
    find_ports(n, text);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = text[i];
    }
    for (uint32_t i = 1; i < n; i++) {
        if (fork() == 0) {
            struct rt_group_options o = {.endpoints = endpoints, .size = n, .rank = i};
            run_rank(&o, argv[3], strtod(argv[2], NULL), argv + 4, argc - 4);
            return 0;
        }
    }
    struct rt_group_options o = {.endpoints = endpoints, .size = n};
    run_rank(&o, argv[3], strtod(argv[2], NULL), argv + 4, argc - 4);
    while (wait(NULL) > 0) {
    }
    return 0;
}
#endif
