/* Times all_reduce of f32 sums between the GPUs of this machine, like all_reduce_perf of
 * nccl-tests: 5 calls to warm up, 20 that count, out of place and in place, for sizes that double.
 *
 *     bench-gpu [RANKS [FROM TO]]      default: all GPUs, 8 bytes to 128 MiB
 *
 * Prints the number of ranks, then a line for each size: bytes; then, out of place and in place,
 * microseconds, algbw, busbw (GB/s) and the number of wrong elements.  algbw = bytes / time; busbw
 * = algbw * 2 (n - 1) / n is what a link must carry.  Unlike all_reduce_perf, it waits for each
 * call before the next.  Without a GPU it prints why and exits with 77. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "runtime/rt.h"

enum { WARM = 5, CALLS = 20, SKIPPED = 77 };

static void check(int rc, const struct co_err *err) {
    if (rc < 0) {
        fprintf(stderr, "%s\n", co_err_text(err));
        exit(1);
    }
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct bench {
    struct rt_group *g;
    float *in, *out; /* in GPU memory */
    float *host;
    size_t n;
};

static size_t wrong(const struct bench *b, const float *result) {
    struct co_err err = {0};
    size_t ranks = rt_group_size(b->g), own = ranks * (ranks + 1) / 2, bad = 0;
    check(rt_group_copy(b->g, b->host, result, b->n * sizeof(float), &err), &err);
    for (size_t i = 0; i < b->n; i++) {
        bad += b->host[i] != (float)(own + ranks * (i % 7));
    }
    return bad;
}

static void fill(const struct bench *b) {
    struct co_err err = {0};
    for (size_t i = 0; i < b->n; i++) {
        b->host[i] = (float)(rt_group_rank(b->g) + 1 + i % 7);
    }
    check(rt_group_copy(b->g, b->in, b->host, b->n * sizeof(float), &err), &err);
}

/* Prints half of a row: out of place or in place. */
static void measure(const struct bench *b, float *out) {
    struct co_err err = {0};
    uint32_t ranks = rt_group_size(b->g);
    for (int i = 0; i < WARM; i++) {
        check(rt_all_reduce(b->g, b->in, out, b->n, RT_F32, RT_SUM, &err), &err);
    }
    check(rt_group_barrier(b->g, &err), &err);
    double begin = now_us();
    for (int i = 0; i < CALLS; i++) {
        check(rt_all_reduce(b->g, b->in, out, b->n, RT_F32, RT_SUM, &err), &err);
    }
    double us = (now_us() - begin) / CALLS;
    fill(b);
    check(rt_all_reduce(b->g, b->in, out, b->n, RT_F32, RT_SUM, &err), &err);
    size_t bad = wrong(b, out);
    double algbw = (double)(b->n * sizeof(float)) / us / 1e3;
    if (rt_group_rank(b->g) == 0) {
        printf(" %.2f %.2f %.2f %zu", us, algbw, algbw * 2 * (ranks - 1) / ranks, bad);
    }
}

static int run(const char **endpoints, uint32_t n, uint32_t rank, size_t from, size_t to) {
    char device[16];
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    struct rt_group_options o = {.endpoints = endpoints, .size = n, .rank = rank, .device = device};
    struct co_err err = {0};
    struct bench b = {.host = malloc(to)};
    check(b.host ? rt_group_open(NULL, &o, &b.g, &err) : CO_NOMEMORY, &err);
    for (size_t bytes = from; bytes <= to; bytes *= 2) {
        void *in = NULL, *out = NULL;
        check(rt_group_alloc(b.g, bytes, &in, &err), &err);
        check(rt_group_alloc(b.g, bytes, &out, &err), &err);
        b.in = in;
        b.out = out;
        b.n = bytes / sizeof(float);
        fill(&b);
        if (rank == 0) {
            printf("%zu", bytes);
        }
        measure(&b, b.out);
        measure(&b, b.in);
        if (rank == 0) {
            printf("\n");
            (void)fflush(stdout);
        }
        rt_group_free(b.g, in);
        rt_group_free(b.g, out);
    }
    rt_group_close(b.g);
    free(b.host);
    return 0;
}

/* Counts in a child process: a process that has used CUDA must not fork. */
static uint32_t count(void) {
    int status = 0;
    if (fork() == 0) {
        struct co_err err = {0};
        uint32_t n = 0;
        int rc = rt_gpu_count(&n, &err);
        if (rc < 0) {
            fprintf(stderr, "%s\n", co_err_text(&err));
        }
        exit(n < RANKS_MAX ? (int)n : RANKS_MAX);
    }
    (void)wait(&status);
    return WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-gpu [RANKS [FROM TO]]", 0, 3, argc, argv);
    if (end >= 0) {
        return end;
    }
    char text[RANKS_MAX][32];
    const char *endpoints[RANKS_MAX];
    uint32_t gpus = count(), n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : gpus;
    size_t from = argc > 3 ? strtoull(argv[2], NULL, 10) : 8;
    size_t to = argc > 3 ? strtoull(argv[3], NULL, 10) : (size_t)128 << 20;
    if (gpus == 0) {
        return SKIPPED;
    }
    if (n < 1 || n > gpus || from < sizeof(float) || from > to) {
        fprintf(stderr, "usage: bench-gpu [RANKS [FROM TO]], with up to %u ranks\n", gpus);
        return 2;
    }
    printf("ranks %u\n", n);
    (void)fflush(stdout);
    find_ports(n, text);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = text[i];
    }
    for (uint32_t i = 1; i < n; i++) {
        if (fork() == 0) {
            return run(endpoints, n, i, from, to);
        }
    }
    int rc = run(endpoints, n, 0, from, to), status = 0;
    while (wait(&status) > 0) {
        rc |= status != 0;
    }
    return rc;
}
