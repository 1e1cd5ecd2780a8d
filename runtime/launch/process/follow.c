/* Follows a growing file with inotify, or by polling where inotify is not available.  See
 * follow.h. */
#include "runtime/launch/process/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/launch/process/output.h"

enum {
    BUF_BYTES = 65536,
    TURN_BYTES = 1 << 20, /* copied at most in one call, so that other events are handled too */
    LOOK_MS = 200,        /* polling interval without inotify */
};

struct proc_follow {
    struct co_loop *loop;
    char *path;
    int file, out, watch; /* watch: inotify; -1: not available */
    int mark;             /* of the file, in watch; -1: it is polled */
    bool own_out;         /* out is a description of our own and must be closed */
    bool finishing;       /* proc_follow_finish was called */
    bool broken;          /* the stream cannot be written any more */
    bool waiting;         /* until the stream can be written */
    bool behind;          /* file is the old one; there is a new one of its name */
    struct co_poll *out_poll, *watch_poll;
    struct co_timer *timer;
    int64_t at; /* bytes read */
    void (*done)(void *arg);
    void *arg;
    size_t n, written;
    char buf[BUF_BYTES];
};

/* Returns false when the stream takes no more now. */
static bool drain_buffer(struct proc_follow *f) {
    while (f->written < f->n) {
        ssize_t n = write(f->out, f->buf + f->written, f->n - f->written);
        if (n > 0) {
            f->written += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return false;
        } else if (n < 0 && errno != EINTR) {
            f->broken = true;
            f->n = f->written = 0;
        }
    }
    f->n = f->written = 0;
    return true;
}

static void reopen_file(struct proc_follow *f);

/* Whether somebody has cut the file, as logrotate does with copytruncate: it begins again. */
static bool is_cut(const struct proc_follow *f) {
    struct stat st;
    return fstat(f->file, &st) == 0 && st.st_size < f->at;
}

static bool fill_buffer(struct proc_follow *f) {
    f->at = is_cut(f) ? 0 : f->at;
    ssize_t n = pread(f->file, f->buf, sizeof(f->buf), f->at);
    if (n <= 0 && f->behind) {
        reopen_file(f);
        n = pread(f->file, f->buf, sizeof(f->buf), f->at);
    }
    if (n <= 0) {
        return false;
    }
    f->at += n;
    f->n = f->broken ? 0 : (size_t)n;
    f->written = 0;
    return true;
}

static void pump_bytes(struct proc_follow *f) {
    bool more = true, flows = true;
    for (int64_t end = f->at + TURN_BYTES; more && flows && f->at < end;) {
        flows = drain_buffer(f);
        more = flows && fill_buffer(f);
    }
    flows = flows && drain_buffer(f);
    f->waiting = !flows;
    if (f->out_poll) {
        co_poll_set(f->out_poll, flows ? 0 : CO_POLL_OUT);
    }
    if (flows && more) {
        co_timer_start(f->timer, 0);
    } else if (flows && f->finishing) {
        f->finishing = false;
        f->done(f->arg);
    } else if (flows && f->mark < 0) {
        co_timer_start(f->timer, LOOK_MS);
    }
}

static void stream_writable(void *arg, int events) {
    (void)events;
    pump_bytes(arg);
}

static void look_at_file(void *arg) {
    struct proc_follow *f = arg;
    if (!f->waiting) {
        pump_bytes(f);
    }
}

static void file_grown(void *arg, int events) {
    struct proc_follow *f = arg;
    char buf[4096];
    (void)events;
    /* no wait: the descriptor is non-blocking */
    while (read(f->watch, buf, sizeof(buf)) > 0) {
    }
    look_at_file(f);
}

static void open_watch(struct proc_follow *f) {
    f->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (f->watch >= 0 && co_poll_new(f->loop, f->watch, file_grown, f, &f->watch_poll, NULL)) {
        co_close(f->watch);
        f->watch = -1;
    }
    if (f->watch_poll) {
        co_poll_set(f->watch_poll, CO_POLL_IN);
    }
}

/* Instead of the file before.  One descriptor for all of them: to close one of inotify's takes the
 * kernel tens of milliseconds, for which this process, and a fast writer with it, would stand. */
static void watch_file(struct proc_follow *f) {
    const int before = f->mark;
    f->mark = f->watch >= 0 ? inotify_add_watch(f->watch, f->path, IN_MODIFY) : -1;
    if (before >= 0 && before != f->mark) {
        (void)inotify_rm_watch(f->watch, before);
    }
}

static int open_file(struct proc_follow *f, struct co_err *err) {
    struct stat st;
    f->file = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->file < 0 || fstat(f->file, &st) < 0) {
        return co_err_errno(err, errno, "cannot read \"%.300s\"", f->path);
    }
    if (!S_ISREG(st.st_mode)) { /* a device may be read without end */
        return co_err_set(err, CO_INVALID, "\"%.300s\" is not a file: it is not shown", f->path);
    }
    watch_file(f);
    co_timer_start(f->timer, 0); /* reads what was written before the watch began */
    return 0;
}

static void reopen_file(struct proc_follow *f) {
    f->behind = false;
    co_closep(&f->file);
    f->file = -1;
    f->at = 0;
    if (open_file(f, NULL)) {
        f->broken = true;
    }
}

int proc_follow_new(struct co_loop *l, const char *path, int64_t from, int fd,
    void (*done)(void *arg), void *arg, struct proc_follow **ret, struct co_err *err) {
    CO_CLEANUP(proc_follow_freep) struct proc_follow *f = co_xcalloc(1, sizeof(*f));
    f->loop = l;
    f->path = co_xstrdup(path);
    f->file = f->watch = f->mark = -1;
    f->at = from;
    f->done = done;
    f->arg = arg;
    f->timer = co_timer_new(l, look_at_file, f);
    f->out = proc_output_reopen(fd);
    f->own_out = f->out >= 0;
    if (f->own_out && co_poll_new(l, f->out, stream_writable, f, &f->out_poll, NULL)) {
        co_close(f->out); /* /dev/null cannot be polled, nor does it block */
        f->own_out = false;
    }
    f->out = f->own_out ? f->out : fd;
    open_watch(f);
    CO_TRY(open_file(f, err));
    *ret = co_steal_ptr(f);
    return 0;
}

void proc_follow_free(struct proc_follow *f) {
    if (!f) {
        return;
    }
    co_poll_free(f->watch_poll);
    co_closep(&f->watch);
    co_closep(&f->file);
    co_poll_free(f->out_poll);
    co_timer_free(f->timer);
    if (f->own_out) {
        co_close(f->out);
    }
    free(f->path);
    free(f);
}

void proc_follow_finish(struct proc_follow *f) {
    f->finishing = true;
    if (!f->waiting) {
        co_timer_start(f->timer, 0);
    }
}

void proc_follow_again(struct proc_follow *f) {
    f->behind = true;
    look_at_file(f);
}

bool proc_follow_behind(const struct proc_follow *f) {
    return f->behind;
}
