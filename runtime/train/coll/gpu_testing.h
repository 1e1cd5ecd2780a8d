/* Groups on GPUs, for tests.  Without an argument a test program runs on the fake CUDA and NCCL
 * libraries of tests/nccl, which check how they are called:
 *
 *     X_test          all tests, on the fakes
 *     X_test real     the tests that make sense on real GPUs, on all there are (make gpu-test)
 *     X_test count    prints how many GPUs there are; without any prints why and exits with 1 */
#pragma once

#include <limits.h>

#include "runtime/train/coll/coll_testing.h"

static char gk_self[PATH_MAX], gk_standins[PATH_MAX];
static uint32_t gk_gpus = 4; /* to run on */
static bool gk_real;

static inline uint32_t gk_least(uint32_t ranks) {
    return gk_gpus < ranks ? gk_gpus : ranks;
}

static inline void gk_on_gpus(
    const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    static char device[16];
    (void)w;
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    ret->device = device;
}

/* Allocates memory of the group and copies data from main memory into it. */
static inline void *gk_upload(struct rt_group *g, const void *from, size_t bytes) {
    struct co_err err = {0};
    void *memory = NULL;
    if (rt_group_alloc(g, bytes, &memory, &err) < 0 ||
        rt_group_copy(g, memory, from, bytes, &err) < 0) {
        printf("# %s\n", co_err_text(&err));
        abort();
    }
    return memory;
}

static inline int gk_compare(struct rt_group *g, const void *out, const int32_t *want, size_t n,
    const char *what, struct co_err *err) {
    CO_AUTOFREE int32_t *got = co_xcalloc(n + 1, sizeof(*got));
    CO_TRY(rt_group_copy(g, got, out, n * sizeof(*got), err));
    for (size_t i = 0; i < n; i++) {
        if (got[i] != want[i]) {
            return co_err_set(err, CO_INTERNAL, "%s: element %zu of %zu is %d, not %d", what, i, n,
                got[i], want[i]);
        }
    }
    return 0;
}

/* An all_reduce in which every rank contributes a one. */
static inline int gk_ones(struct rt_group *g, uint32_t expected, struct co_err *err) {
    int32_t one = 1, want = (int32_t)expected;
    void *memory = gk_upload(g, &one, sizeof(one));
    CO_TRY(rt_all_reduce(g, memory, memory, 1, RT_I32, RT_SUM, err));
    CO_TRY(gk_compare(g, memory, &want, 1, "ones", err));
    rt_group_free(g, memory);
    return 0;
}

/* ---- which libraries ---- */

static inline int gk_count(void) {
    struct co_err err = {0};
    uint32_t n = 0;
    int rc = rt_gpu_count(&n, &err);
    if (rc < 0) {
        puts(co_err_text(&err));
    } else {
        printf("%u GPUs\n", n);
    }
    return rc < 0 ? 0 : n < WORLD_MAX ? (int)n : WORLD_MAX;
}

/* Counts in a child process: a process that has used CUDA must not fork, and tests fork. */
static inline uint32_t gk_real_gpus(void) {
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        leave(gk_count());
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
}

/* Chooses the libraries by the program's first argument.  For the fakes it executes the program
 * again with their folder in LD_LIBRARY_PATH, which the dynamic linker reads only at start.  True:
 * run on real GPUs. */
static inline bool gk_begin(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "", *path = getenv("LD_LIBRARY_PATH");
    ssize_t n = readlink("/proc/self/exe", gk_self, sizeof(gk_self) - 1);
    gk_self[n < 0 ? 0 : n] = 0;
    const char *end = strstr(gk_self, "/runtime/train/");
    (void)snprintf(
        gk_standins, sizeof(gk_standins), "%.*s/standin", (int)(end ? end - gk_self : 0), gk_self);
    if (strcmp(mode, "count") == 0) {
        leave(gk_count() == 0);
    }
    if (strcmp(mode, "real") == 0) {
        gk_real = true;
        gk_gpus = gk_real_gpus();
        return true;
    }
    if (*mode == 0 && (!path || strcmp(path, gk_standins) != 0)) {
        (void)setenv("LD_LIBRARY_PATH", gk_standins, 1);
        (void)execv(gk_self, argv);
        leave(2);
    }
    return false;
}
