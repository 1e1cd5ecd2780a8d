#include "common/thread.h"

#include <signal.h>
#include <time.h>

int co_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

void co_cond_init(pthread_cond_t *c) {
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

bool co_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t end_ms) {
    struct timespec t = {.tv_sec = end_ms / 1000, .tv_nsec = end_ms % 1000 * 1000000};
    return pthread_cond_timedwait(c, m, &t) == 0;
}
