/* Finds the OpenMP library that oneDNN uses and runs loops on its threads. */
#include "examples/resnet50/team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Entry points of libgomp, which is loaded with oneDNN.  Looking them up avoids -fopenmp, for which
 * gcc and clang would link different OpenMP libraries. */
static struct openmp {
    void (*parallel)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    void (*set_num_threads)(int);
    int (*max_threads)(void);
    int (*thread_num)(void);
    int (*num_threads)(void);
} openmp;

/* Copies the pointer, as ISO C has no cast from void * to a function pointer. */
static int symbol_get(const char *name, void *ret_function) {
    void *symbol = dlsym(RTLD_DEFAULT, name);

    memcpy(ret_function, &symbol, sizeof(symbol));
    return symbol ? 0 : -1;
}

static void openmp_find(void) {
    struct openmp o = {NULL};

    if (symbol_get("GOMP_parallel", &o.parallel) == 0 &&
        symbol_get("omp_set_num_threads", &o.set_num_threads) == 0 &&
        symbol_get("omp_get_max_threads", &o.max_threads) == 0 &&
        symbol_get("omp_get_thread_num", &o.thread_num) == 0 &&
        symbol_get("omp_get_num_threads", &o.num_threads) == 0) {
        openmp = o;
    }
}

static const struct openmp *openmp_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, openmp_find);
    return &openmp;
}

void rn_team_set(size_t threads) {
    const struct openmp *o = openmp_get();

    if (o->parallel) {
        o->set_num_threads((int)threads);
    }
}

size_t rn_team_size(void) {
    const struct openmp *o = openmp_get();

    return o->parallel ? (size_t)o->max_threads() : 1;
}

/* `ready` and `done` order memory like OpenMP's fork and join do; race detectors do not understand
 * those. */
struct job {
    rn_team_fn fn;
    void *arg;
    atomic_int ready, done;
};

static void job_run(void *data) {
    struct job *job = data;

    if (atomic_load_explicit(&job->ready, memory_order_acquire)) {
        job->fn(job->arg, (size_t)openmp.thread_num(), (size_t)openmp.num_threads());
    }
    (void)atomic_fetch_add_explicit(&job->done, 1, memory_order_release);
}

void rn_team_run(rn_team_fn fn, void *arg) {
    struct job job = {.fn = fn, .arg = arg};

    if (rn_team_size() == 1) {
        fn(arg, 0, 1);
        return;
    }
    atomic_store_explicit(&job.ready, 1, memory_order_release);
    openmp.parallel(job_run, &job, 0, 0);
    (void)atomic_load_explicit(&job.done, memory_order_acquire);
}
