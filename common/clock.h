/* The monotonic clock, for deadlines and for what took how long.  Any thread. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t co_now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t co_now_ms(void) {
    return co_now_ns() / 1000000;
}

/* The processor time of the calling thread. */
static inline int64_t co_thread_cpu_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The timeout of poll and its like for a wait of left_ms: 0 where nothing is left.  It is an int,
 * of 24 days at most: a caller that may wait longer compares the clock with its deadline. */
static inline int co_poll_ms(int64_t left_ms) {
    return left_ms <= 0 ? 0 : left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}
