/* What a test's program logs, from a pipe in place of stderr. */
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "common/log.h"

static int log_ends[2];

static inline int log_begin(void **state) {
    (void)state;
    if (pipe2(log_ends, O_CLOEXEC | O_NONBLOCK)) {
        return -1;
    }
    co_log_set_fd(log_ends[1]);
    co_log_setup(CO_LOG_DEBUG, CO_LOG_LOGFMT);
    return 0;
}

static inline int log_end(void **state) {
    (void)state;
    co_log_set_fd(2);
    co_log_setup(CO_LOG_INFO, CO_LOG_LOGFMT);
    (void)close(log_ends[0]);
    (void)close(log_ends[1]);
    return 0;
}

/* All that was logged since the last call. */
static inline const char *logged(void) {
    static char text[65536];
    size_t len = 0;
    ssize_t n;
    while ((n = read(log_ends[0], text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    return text;
}
