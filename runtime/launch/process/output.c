/* A queue of lines in front of a non-blocking stream.  See output.h. */
#include "runtime/launch/process/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"

enum {
    FULL_BYTES = 256 << 10, /* queued bytes from which on sources must wait ... */
    LOW_BYTES = 64 << 10,   /* ... until so few are left */
    MAX_BYTES = 64 << 20,   /* never reached: sources add at most a pipe's content when full */
};

struct proc_output {
    struct proc_output_options options;
    int fd;               /* a non-blocking one of our own, or the caller's */
    bool own;             /* the former */
    struct co_poll *poll; /* with own */
    struct co_buf queue;
    bool full, broken;
};

static void set_full(struct proc_output *o, bool full) {
    if (o->full != full) {
        o->full = full;
        o->options.change(o->options.arg);
    }
}

static void break_output(struct proc_output *o) {
    o->broken = true;
    co_buf_clear(&o->queue);
    o->full = false;
    o->options.change(o->options.arg);
}

/* Writes as much as the stream takes. */
static void flush_queue(struct proc_output *o) {
    while (o->queue.len && !o->broken) {
        ssize_t n = write(o->fd, o->queue.data, o->queue.len);
        if (n >= 0) {
            co_buf_consume(&o->queue, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            break_output(o);
        }
    }
    if (o->poll) {
        co_poll_set(o->poll, o->queue.len ? CO_POLL_OUT : 0);
    }
    if (o->full && o->queue.len <= LOW_BYTES) {
        set_full(o, false);
    }
}

static void stream_writable(void *arg, int events) {
    (void)events;
    flush_queue(arg);
}

static void enqueue_bytes(struct proc_output *o, const char *data, size_t len) {
    if (!o->broken && co_buf_add(&o->queue, data, len, NULL)) {
        break_output(o);
    }
}

static void after_add(struct proc_output *o) {
    if (!o->poll || o->queue.len >= 4096) {
        flush_queue(o);
    } else if (o->queue.len) {
        co_poll_set(o->poll, CO_POLL_OUT); /* small pieces are collected and written together */
    }
    if (o->queue.len >= FULL_BYTES) {
        set_full(o, true);
    }
}

static void put_line(struct proc_output *o, struct proc_source *s, const char *data, size_t len) {
    char head[320];
    char mark = s->cut ? '+' : '|';
    int n = s->colour
                ? snprintf(head, sizeof(head), "\033[%dm%-*s %c\033[0m ", s->colour,
                      (int)o->options.width, s->name, mark)
                : snprintf(head, sizeof(head), "%-*s %c ", (int)o->options.width, s->name, mark);
    enqueue_bytes(o, head, n < (int)sizeof(head) ? (size_t)n : sizeof(head) - 1);
    enqueue_bytes(o, s->line, s->len);
    enqueue_bytes(o, data, len);
    enqueue_bytes(o, "\n", 1);
    s->len = 0;
}

void proc_output_add(struct proc_output *o, struct proc_source *s, const char *data, size_t len) {
    while (len) {
        const char *newline = memchr(data, '\n', len);
        size_t n = newline ? (size_t)(newline - data) : len;
        size_t room = sizeof(s->line) - s->len;
        if (n > room) { /* a piece of a line without end */
            put_line(o, s, data, room);
            s->cut = true;
            data += room;
            len -= room;
            continue;
        }
        if (newline) {
            put_line(o, s, data, n);
            s->cut = false;
            data += n + 1;
            len -= n + 1;
        } else {
            memcpy(s->line + s->len, data, n);
            s->len += n;
            len = 0;
        }
    }
    after_add(o);
}

void proc_output_end(struct proc_output *o, struct proc_source *s) {
    if (s->len) {
        put_line(o, s, "", 0);
        after_add(o);
    }
    s->cut = false;
}

void proc_output_say(struct proc_output *o, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    enqueue_bytes(o, text, len);
    enqueue_bytes(o, "\n", 1);
    after_add(o);
}

bool proc_output_full(const struct proc_output *o) {
    return o->full;
}

bool proc_output_broken(const struct proc_output *o) {
    return o->broken;
}

int proc_output_reopen(int fd) {
    struct stat st;
    if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))) {
        return -1;
    }
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

struct proc_output *proc_output_open(
    struct co_loop *loop, const struct proc_output_options *options) {
    struct proc_output *o = co_xcalloc(1, sizeof(*o));
    *o = (struct proc_output){.options = *options, .queue = CO_BUF(MAX_BYTES)};
    o->fd = proc_output_reopen(options->fd);
    o->own = o->fd >= 0;
    if (o->own && co_poll_new(loop, o->fd, stream_writable, o, &o->poll, NULL)) {
        co_close(o->fd); /* /dev/null cannot be polled, nor does it block */
        o->own = false;
    }
    if (!o->own) {
        o->fd = options->fd;
    }
    return o;
}

void proc_output_close(struct proc_output *o) {
    if (!o) {
        return;
    }
    while (o->queue.len && !o->broken) {
        flush_queue(o);
        struct pollfd p = {.fd = o->fd, .events = POLLOUT};
        /* no deadline: as with any program, the reader of its output decides */
        if (o->queue.len && poll(&p, 1, -1) < 0) {
            break; /* a signal: the user does not want to wait any longer */
        }
    }
    co_poll_free(o->poll);
    if (o->own) {
        co_close(o->fd);
    }
    co_buf_done(&o->queue);
    free(o);
}
