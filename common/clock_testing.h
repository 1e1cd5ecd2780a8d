/* The monotonic clock of a test's program, which a test may slow down, hold or put forward: what
 * must not happen in time does not happen on a machine that stands still for a while either, and
 * what is to happen at a deadline needs no wait.  Only what reads the clock by clock_gettime sees
 * it; timeouts of poll and its like stay real.  Children that are forked inherit it.  Threads: any.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    _Atomic int64_t since_ns; /* when it was slowed; 0: it is not */
    _Atomic int64_t times;    /* how long a second lasts since then */
    _Atomic int64_t ahead_ms;
} co_test_clock;

static inline int64_t co_test_clock_real_ns(void) {
    struct timespec t;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int clock_gettime(clockid_t id, struct timespec *ret) {
    if (id != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, id, ret);
    }
    int64_t now = co_test_clock_real_ns(), since = atomic_load(&co_test_clock.since_ns);
    now = since ? since + (now - since) / atomic_load(&co_test_clock.times) : now;
    now += atomic_load(&co_test_clock.ahead_ms) * 1000000;
    *ret = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    return 0;
}

static inline void co_test_clock_set(int64_t times) {
    atomic_store(&co_test_clock.times, times ? times : 1);
    atomic_store(&co_test_clock.since_ns, times ? co_test_clock_real_ns() : 0);
}

/* From now on a second lasts sixteen; or what it is again. */
static inline void co_test_clock_slow(bool slow) {
    co_test_clock_set(slow ? 16 : 0);
}

/* From now on only `forward` moves it; or what it is again.  For programs of one thread. */
static inline void co_test_clock_hold(bool hold) {
    co_test_clock_set(hold ? INT64_MAX : 0);
}

static inline void co_test_clock_forward(int64_t ms) {
    atomic_fetch_add(&co_test_clock.ahead_ms, ms);
}
