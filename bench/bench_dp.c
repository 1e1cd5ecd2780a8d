/* Times a training step with ResNet50's 161 gradients on ranks of this machine, for different ways
 * to average the gradients.
 *
 *     bench-dp RANKS STEPS BACKWARD_MS busy|idle auto|tcp WAY...
 *
 * A simulated backward pass of BACKWARD_MS makes one gradient after the other; a layer's time is
 * its share of the multiplications.  busy: it computes on the rank's core; idle: it only waits, as
 * with an accelerator.
 *
 *     none      gradients are not averaged: backward alone
 *     tensor    after backward, one all_reduce for each gradient
 *     fused     after backward, in buckets
 *     overlap   in buckets, during backward
 *     bf16      like overlap, but gradients are sent as bf16
 *
 * Rank 0 prints a line for each way: milliseconds of a step, median, lowest tenth and largest. */
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "common/mem.h"
#include "runtime/rt.h"

enum { GRADIENTS = 161, STEPS_MAX = 1000 };

/* ---- the model ---- */

/* The size of each gradient in floats, and its share of backward; last layer first. */
static struct {
    size_t n;
    double share;
} model[GRADIENTS];
static size_t n_model;

static void add(size_t n, double multiplications) {
    model[n_model].n = n;
    model[n_model++].share = multiplications;
}

/* Adds a convolution and its norm in the order of backward, the norm first.  side: height and width
 * of its output. */
static void add_conv(size_t in, size_t out, size_t kernel, size_t side) {
    add(out, 0);
    add(out, 0);
    add(in * out * kernel * kernel, (double)(in * out * kernel * kernel * side * side));
}

static void make_model(void) {
    static const size_t blocks[4] = {3, 4, 6, 3};
    double all = 0;
    add(1000, 0);
    add((size_t)2048 * 1000, 2048.0 * 1000);
    for (size_t s = 4; s-- > 0;) {
        size_t middle = (size_t)64 << s, out = middle * 4, side = (size_t)56 >> s;
        for (size_t b = blocks[s]; b-- > 0;) {
            size_t in = b > 0 ? out : s > 0 ? out / 2 : 64;
            add_conv(middle, out, 1, side);
            add_conv(middle, middle, 3, side);
            add_conv(in, middle, 1, side);
            if (b == 0) {
                add_conv(in, out, 1, side);
            }
        }
    }
    add_conv(3, 64, 7, 112);
    for (size_t i = 0; i < GRADIENTS; i++) {
        all += model[i].share;
    }
    for (size_t i = 0; i < GRADIENTS; i++) {
        model[i].share /= all;
    }
}

/* ---- backward ---- */

static bool busy;
static double backward_ms;

static double now_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Spends a layer's share of backward, then writes its gradient. */
static void make_gradient(float *values, size_t i, float value) {
    double ms = backward_ms * model[i].share;
    double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
    while (busy && now_ms(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
    if (!busy && ms > 0) {
        struct timespec t = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(fmod(ms, 1e3) * 1e6)};
        (void)ppoll(NULL, 0, &t, NULL);
    }
    for (size_t k = 0; k < model[i].n; k++) {
        values[k] = value;
    }
}

/* ---- ways ---- */

static const struct way {
    const char *name;
    bool averaged, fused, during;
    enum rt_dtype wire;
} ways[] = {
    {"none"},
    {"tensor", .averaged = true},
    {"fused", .averaged = true, .fused = true},
    {"overlap", .averaged = true, .fused = true, .during = true},
    {"bf16", .averaged = true, .fused = true, .during = true, .wire = RT_BF16},
};

static void check(int rc, const struct co_err *err) {
    if (rc < 0) {
        fprintf(stderr, "%s\n", co_err_text(err));
        exit(1);
    }
}

static void step(const struct way *w, struct rt_group *g, struct rt_reducer *r) {
    struct co_err err = {0};
    float value = (float)(rt_group_rank(g) + 1);
    for (size_t i = 0; i < GRADIENTS; i++) {
        make_gradient(rt_reducer_values(r, i), i, value);
        if (w->during) {
            check(rt_reducer_ready(r, i, &err), &err);
        }
    }
    for (size_t i = 0; i < GRADIENTS && w->averaged && !w->fused; i++) {
        float *v = rt_reducer_values(r, i);
        check(rt_all_reduce(g, v, v, model[i].n, RT_F32, RT_AVG, &err), &err);
    }
    if (w->during) {
        check(rt_reducer_wait(r, NULL, &err), &err);
    } else if (w->fused) {
        check(rt_reducer_run(r, NULL, &err), &err);
    }
    float want = (float)(rt_group_size(g) + 1) / 2;
    if (w->averaged && rt_reducer_values(r, GRADIENTS - 1)[0] != want) {
        check(co_err_set(&err, CO_INTERNAL, "%s: no average", w->name), &err);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct way *w, struct rt_group *g, int steps) {
    static double took[STEPS_MAX];
    struct co_err err = {0};
    struct rt_gradient list[GRADIENTS] = {{0}};
    struct rt_reducer *r = NULL;
    for (size_t i = 0; i < GRADIENTS; i++) {
        list[i].n = model[i].n;
    }
    struct rt_reducer_options o = {.wire = w->wire};
    check(rt_reducer_open(g, list, GRADIENTS, &o, &r, &err), &err);
    for (int i = -2; i < steps; i++) { /* the first two warm up */
        check(rt_group_barrier(g, &err), &err);
        double begin = now_ms(CLOCK_MONOTONIC);
        step(w, g, r);
        took[i < 0 ? 0 : i] = now_ms(CLOCK_MONOTONIC) - begin;
    }
    rt_reducer_close(r);
    if (rt_group_rank(g) == 0) {
        qsort(took, (size_t)steps, sizeof(took[0]), ascending);
        printf("%s %.2f %.2f %.2f\n", w->name, took[steps / 2], took[steps / 10], took[steps - 1]);
        (void)fflush(stdout);
    }
}

static void run_rank(const struct rt_group_options *o, int steps, char **names, int n) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    check(rt_group_open(NULL, o, &g, &err), &err);
    for (int i = 0; i < n; i++) {
        for (size_t w = 0; w < CO_ARRAY_LEN(ways); w++) {
            if (strcmp(names[i], ways[w].name) == 0) {
                measure(&ways[w], g, steps);
            }
        }
    }
    rt_group_close(g);
}

int main(int argc, char **argv) {
    const int end = co_words_check(
        "bench-dp RANKS STEPS BACKWARD_MS busy|idle auto|tcp none|tensor|fused|overlap|bf16...", 6,
        argc, argc, argv);
    if (end >= 0) {
        return end;
    }
    char text[RANKS_MAX][32];
    const char *endpoints[RANKS_MAX];
    uint32_t n = (uint32_t)strtoul(argv[1], NULL, 10);
    int steps = (int)strtol(argv[2], NULL, 10);
    if (n < 1 || n > RANKS_MAX || steps < 1 || steps > STEPS_MAX) {
        fprintf(stderr, "bench-dp: %s ranks, %s steps, expected up to %d and %d\n", argv[1],
            argv[2], RANKS_MAX, STEPS_MAX);
        return 2;
    }
    backward_ms = strtod(argv[3], NULL);
    busy = strcmp(argv[4], "busy") == 0;
    make_model();
    find_ports(n, text);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = text[i];
    }
    struct rt_group_options o = {.endpoints = endpoints,
        .size = n,
        .transport = strcmp(argv[5], "tcp") == 0 ? RT_TRANSPORT_TCP : RT_TRANSPORT_AUTO};
    for (uint32_t i = 1; i < n; i++) {
        if (fork() == 0) {
            o.rank = i;
            break;
        }
    }
    run_rank(&o, steps, argv + 6, argc - 6);
    while (o.rank == 0 && wait(NULL) > 0) {
    }
    return 0;
}
