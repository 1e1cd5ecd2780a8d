/* Formats a log line as glog does.  One system call writes the line, so that lines of several
 * threads do not mix.  Any thread. */
#include "runtime/train/ps/glog.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void ps_log(char level, const char *file, int line, const char *fmt, ...) {
    char text[1200];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    int n = snprintf(text, sizeof(text), "%c%02d%02d %02d:%02d:%02d.%06ld %5d %s:%d] ", level,
        tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000,
        (int)gettid(), file, line);
    va_list ap;
    va_start(ap, fmt);
    int more = vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = strnlen(text, sizeof(text) - 2);
    (void)more;
    text[len++] = '\n';
    (void)!write(STDERR_FILENO, text, len);
}
