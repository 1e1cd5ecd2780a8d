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
