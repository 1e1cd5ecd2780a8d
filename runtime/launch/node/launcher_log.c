/* Formats and writes log lines.  See launcher_log.h. */
#include "runtime/launch/node/launcher_log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "runtime/launch/process/output.h"

enum { LINE_MAX_ = 1 << 24, WAIT_MS = 1000 };

static const char *const level_names[] = {
    [NODE_LOG_DEBUG] = "DEBUG",
    [NODE_LOG_INFO] = "INFO",
    [NODE_LOG_WARNING] = "WARNING",
    [NODE_LOG_ERROR] = "ERROR",
};

static enum node_log_level level_of(const char *text) {
    for (size_t i = 0; i < CO_ARRAY_LEN(level_names); i++) {
        if (strncasecmp(level_names[i], text, 4) == 0) { /* WARN is WARNING, too */
            return (enum node_log_level)i;
        }
    }
    return NODE_LOG_ERROR; /* CRITICAL, which no line here has: show errors */
}

static int reopen_fd(int fd) {
    int copy = proc_output_reopen(fd);
    return copy >= 0 ? copy : fd;
}

void node_log_open(const struct options *o, struct node_log *ret) {
    *ret = (struct node_log){.format = o->format,
        .level = level_of(o->text[OPTIONS_OPT_LOG_LEVEL]),
        .out = reopen_fd(STDOUT_FILENO),
        .err = reopen_fd(STDERR_FILENO)};
}

void node_log_close(struct node_log *s) {
    if (s->out != STDOUT_FILENO) {
        co_close(s->out);
    }
    if (s->err != STDERR_FILENO) {
        co_close(s->err);
    }
}

/* A reader that takes little at a time delays the launcher no longer than one that takes nothing.
 */
static void write_all(int fd, const char *data, size_t len) {
    const int64_t deadline = co_now_ms() + WAIT_MS;
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            const int64_t left = deadline - co_now_ms();
            if (left <= 0 || poll(&p, 1, co_poll_ms(left)) == 0) {
                return;
            }
        } else if (n < 0 && errno != EINTR) {
            return;
        } else if (n > 0) {
            data += n;
            len -= (size_t)n;
            if (len && co_now_ms() >= deadline) { /* a quick write may never find the pipe full */
                return;
            }
        }
    }
}

static void add_head(
    const struct node_log *s, enum node_log_level level, const char *where, struct co_buf *b) {
    struct timespec now;
    struct tm local;
    char date[32];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &local);
    (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &local);
    int ms = (int)(now.tv_nsec / 1000000);
    (void)!(s->format == OPTIONS_FORMAT_2_0
                ? co_buf_addf(b, NULL, "%s %s,%03d %s] ", level_names[level], date, ms, where)
                : co_buf_addf(b, NULL, "LAUNCH %s %s,%03d ", level_names[level], date, ms));
}

CO_PRINTF(4, 0)
static void say_line(const struct node_log *s, enum node_log_level level, const char *where,
    const char *fmt, va_list ap) {
    char *text = NULL;
    if (level < s->level || vasprintf(&text, fmt, ap) < 0) {
        return;
    }
    CO_AUTOBUF struct co_buf b = CO_BUF(LINE_MAX_);
    add_head(s, level, where, &b);
    (void)!co_buf_adds(&b, text, NULL);
    (void)!co_buf_adds(&b, "\n", NULL);
    free(text);
    write_all(s->err, b.data, b.len);
}

void node_log(const struct node_log *s, enum node_log_level level, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say_line(s, level, "launch.py:0", fmt, ap);
    va_end(ap);
}

void node_log_at(
    const struct node_log *s, enum node_log_level level, const char *where, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say_line(s, level, where, fmt, ap);
    va_end(ap);
}

void node_log_out(const struct node_log *s, const char *data, size_t len) {
    write_all(s->out, data, len);
}
