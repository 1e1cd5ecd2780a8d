/* Times an in-place all_reduce of f32 sums; the buffer is rewritten before each call.  By default
 * the ranks are forked and use this library.  Compiled by mpicc with BENCH_MPI they use an MPI,
 * with BENCH_GLOO and gloo.cc they use Gloo.
 *
 *     bench-coll RANKS MS auto|tcp|tls|shared SIZE... measures each size, in bytes, for MS
 *     bench-coll 2 MS raw SIZE...                     no all_reduce: SIZE bytes both ways over TCP
 *     bench-coll RANKS MS dead|dead-tcp SIZE          kills one rank after MS; prints after how
 *                                                     many ms the last of the others noticed
 *     mpirun -n RANKS bench-coll MS SIZE...           MPI
 *     bench-coll RANKS MS SIZE...                     Gloo
 *
 * Rank 0 prints a line for each size: bytes, microseconds (median, lowest tenth, largest), number
 * of samples, microseconds of its own processor time a call, with what refills the buffer: of two
 * ways in one run these compare on a machine with other work, too; and the mean of the samples,
 * which has in it the calls that waited for a processor.  Up to 64 KiB a sample is
 * the mean of many calls in sequence, of 50 ms at most; above that it is one call, which all ranks
 * begin together. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(BENCH_MPI)
#include <mpi.h>
#elif defined(BENCH_GLOO)
#include <sys/wait.h>

#include "bench/endpoints.h"
#else
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "runtime/rt.h"
#endif

enum { SAMPLES_MAX = 4096, AGREE_EVERY = 4, BATCH_BYTES = 64 << 10, SAMPLE_US = 50 * 1000 };

/* The implementation that is timed. */
struct peer {
    int rank;
    void *group;
    void (*reduce)(struct peer *p, float *values, size_t n);
    void (*together)(struct peer *p);
    void (*agree)(struct peer *p, int64_t *value); /* gives all ranks rank 0's value */
    void *(*memory)(struct peer *p, size_t bytes);
};

static double clock_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double now_us(void) {
    return clock_us(CLOCK_MONOTONIC);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every byte 0x3f is 0.747.  By libc: a loop of this file takes twice as long where the linker puts
 * it across two cache lines, which was a fifth of a call of 64 KiB. */
static void refill(float *values, size_t n) {
    memset(values, 0x3f, n * sizeof(*values));
}

static double sample(struct peer *p, float *values, size_t n, size_t batch) {
    refill(values, n);
    p->together(p);
    double begin = now_us();
    for (size_t i = 0; i < batch; i++) {
        if (i > 0) {
            refill(values, n);
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
    double once = sample(p, values, n, 1);
    int64_t fits =
        once * (double)batch > SAMPLE_US ? (int64_t)(SAMPLE_US / once) + 1 : (int64_t)batch;
    p->agree(p, &fits);
    batch = (size_t)fits;
    for (int i = 0; i < 3; i++) {
        (void)sample(p, values, n, batch);
    }
    int64_t samples = 0, more = 1;
    double end = now_us() + ms * 1e3, cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    while (more && samples + AGREE_EVERY <= SAMPLES_MAX) {
        for (int i = 0; i < AGREE_EVERY; i++) {
            took[samples++] = sample(p, values, n, batch);
        }
        more = now_us() < end;
        p->agree(p, &more);
    }
    cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (p->rank == 0) {
        double sum = 0;
        for (int64_t i = 0; i < samples; i++) {
            sum += took[i];
        }
        qsort(took, (size_t)samples, sizeof(took[0]), ascending);
        printf("%zu %.3f %.3f %.3f %d %.3f %.3f\n", bytes, took[samples / 2], took[samples / 10],
            took[samples - 1], (int)samples, cpu / ((double)samples * (double)batch),
            sum / (double)samples);
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

#if defined(BENCH_MPI)

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

#elif defined(BENCH_GLOO)

void gloo_open(int rank, int size, const char *folder);
void gloo_all_reduce(float *values, size_t n);
void gloo_barrier(void);
void gloo_broadcast(int64_t *value);

static void gloo_reduce(struct peer *p, float *values, size_t n) {
    (void)p;
    gloo_all_reduce(values, n);
}

static void gloo_together(struct peer *p) {
    (void)p;
    gloo_barrier();
}

static void gloo_agree(struct peer *p, int64_t *value) {
    (void)p;
    gloo_broadcast(value);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/bench-coll-XXXXXX";
    int ranks = argc > 3 ? (int)strtol(argv[1], NULL, 10) : 0, rank = 0;
    if (ranks < 1 || ranks > RANKS_MAX || !mkdtemp(folder)) {
        return 2;
    }
    for (int i = 1; i < ranks && rank == 0; i++) {
        rank = fork() == 0 ? i : 0;
    }
    struct peer p = {.rank = rank,
        .reduce = gloo_reduce,
        .together = gloo_together,
        .agree = gloo_agree,
        .memory = own_memory};
    gloo_open(rank, ranks, folder);
    measure_all(&p, strtod(argv[2], NULL), argv + 3, argc - 3);
    while (rank == 0 && wait(NULL) > 0) {
    }
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

/* ---- plain TCP, as a limit ---- */

/* Moves data both ways over two connections, as fast as the kernel allows. */
static void raw_exchange(struct peer *p, float *values, size_t n) {
    const int *fd = p->group;
    enum { CALL = 256 << 10 };
    char *data = (char *)values;
    size_t all = n * sizeof(float), out = all, in = all;
    while (out > 0 || in > 0) {
        ssize_t sent = out ? send(fd[0], data + all - out, out < CALL ? out : CALL,
                                 MSG_DONTWAIT | MSG_NOSIGNAL)
                           : 0;
        ssize_t got = in ? recv(fd[1], data + all - in, in < CALL ? in : CALL, MSG_DONTWAIT) : 0;
        out -= sent > 0 ? (size_t)sent : 0;
        in -= got > 0 ? (size_t)got : 0;
        if (sent <= 0 && got <= 0) {
            struct pollfd f[2] = {{.fd = out ? fd[0] : -1, .events = POLLOUT},
                {.fd = in ? fd[1] : -1, .events = POLLIN}};
            (void)poll(f, 2, 1000);
        }
    }
}

static void raw_together(struct peer *p) {
    float word = 0;
    raw_exchange(p, &word, 1);
}

/* Rank 0 decides for both ranks when they have measured long enough. */
static void raw_agree(struct peer *p, int64_t *value) {
    int *fd = p->group;
    if (p->rank == 0) {
        (void)!send(fd[0], value, sizeof(*value), MSG_NOSIGNAL);
    } else {
        (void)!recv(fd[1], value, sizeof(*value), MSG_WAITALL);
    }
}

static void tcp_pair(int ret[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    ret[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l, (struct sockaddr *)&a, len) < 0 || listen(l, 1) < 0 ||
        getsockname(l, (struct sockaddr *)&a, &len) < 0 ||
        connect(ret[0], (struct sockaddr *)&a, len) < 0 || (ret[1] = accept(l, NULL, NULL)) < 0) {
        exit(1);
    }
    (void)close(l);
}

static void run_raw(double ms, char **sizes, int n) {
    int to[2], back[2];
    tcp_pair(to);
    tcp_pair(back);
    pid_t pid = fork();
    int fd[2] = {pid == 0 ? back[0] : to[0], pid == 0 ? to[1] : back[1]};
    struct peer p = {.rank = pid == 0 ? 1 : 0,
        .group = fd,
        .reduce = raw_exchange,
        .together = raw_together,
        .agree = raw_agree,
        .memory = own_memory};
    measure_all(&p, ms, sizes, n);
    if (pid == 0) {
        exit(0);
    }
}

/* ---- a rank that dies ---- */

/* Makes calls until the last rank is killed; then writes the time at which this rank noticed to the
 * pipe. */
static void run_until_lost(struct rt_group_options *o, size_t bytes, int to) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    check(rt_group_open(NULL, o, &g, &err), &err);
    float *values = own_memory(NULL, bytes);
    memset(values, 0, bytes);
    while (rt_all_reduce(g, values, values, bytes / 4, RT_F32, RT_SUM, &err) == 0) {
    }
    double now = now_us();
    (void)!write(to, &now, sizeof(now));
    rt_group_close(g);
}

static void run_dead(
    const char **endpoints, uint32_t n, enum rt_transport transport, int ms, size_t bytes) {
    int pipe_fd[2];
    pid_t last = 0;
    if (pipe(pipe_fd) < 0) {
        exit(1);
    }
    for (uint32_t i = 0; i < n; i++) {
        last = fork();
        if (last == 0) {
            struct rt_group_options o = {
                .endpoints = endpoints, .size = n, .rank = i, .transport = transport};
            run_until_lost(&o, bytes, pipe_fd[1]);
            exit(0);
        }
    }
    (void)poll(NULL, 0, ms);
    double begin = now_us(), slowest = 0, at;
    kill(last, SIGKILL);
    for (uint32_t i = 1; i < n && read(pipe_fd[0], &at, sizeof(at)) == sizeof(at); i++) {
        slowest = at - begin > slowest ? at - begin : slowest;
    }
    printf("%zu %.3f\n", bytes, slowest / 1e3);
}

static void run_rank(struct rt_group_options *o, const char *how, double ms, char **sizes, int n) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    bool tls = strcmp(how, "tls") == 0;
    o->transport = tls || strcmp(how, "tcp") == 0 ? RT_TRANSPORT_TCP : RT_TRANSPORT_AUTO;
    o->token = tls ? "token" : NULL;
    o->encrypt = tls ? RT_ENCRYPT_YES : RT_ENCRYPT_NO;
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
    const int end = co_words_check(
        "bench-coll RANKS MS auto|tcp|tls|shared|raw|dead|dead-tcp SIZE...", 4, argc, argc, argv);
    if (end >= 0) {
        return end;
    }
    char text[RANKS_MAX][32];
    const char *endpoints[RANKS_MAX];
    uint32_t n = (uint32_t)strtoul(argv[1], NULL, 10);
    if (n < 1 || n > RANKS_MAX) {
        fprintf(stderr, "bench-coll: %s ranks, expected 1 to %d\n", argv[1], RANKS_MAX);
        return 2;
    }
    find_ports(n, text);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = text[i];
    }
    if (strcmp(argv[3], "raw") == 0) {
        run_raw(strtod(argv[2], NULL), argv + 4, argc - 4);
        return 0;
    }
    if (strncmp(argv[3], "dead", 4) == 0) {
        run_dead(endpoints, n, argv[3][4] ? RT_TRANSPORT_TCP : RT_TRANSPORT_AUTO,
            (int)strtod(argv[2], NULL), strtoull(argv[4], NULL, 10));
        return 0;
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
