/* Writes, rotates and echoes the log of a child process.  See childlog.h. */
#include "runtime/launch/process/childlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"

enum {
    READ_BYTES = 65536,
    LAST_READS = 16, /* of a pipe whose child has ended: more than a pipe can hold */
};

struct proc_childlog {
    struct co_loop *loop;
    struct proc_childlog_options options;
    char *path;
    int file;            /* -1: only the child has it open */
    int back;            /* to read it, also once it has no name; -1: no need, or it is no file */
    int64_t start, size; /* size at open; current size, when this process writes */
    int in, out;         /* ends of the pipe from the child; -1: none */
    struct co_poll *poll;
    struct proc_follow *echo;
    bool lost;
    struct proc_tail tail; /* of what went through the pipe: a rotated file may hold none of it */
};

/* A child waits for a slow reader of a FIFO; this process, whose loop serves all children, loses
 * what the reader does not take. */
static int open_file(
    const struct proc_childlog_options *o, bool overwrite, int *ret_fd, struct co_err *err) {
    CO_TRY(co_file_open_log(o->path, O_APPEND | (overwrite ? O_TRUNC : 0), 0644, ret_fd, err));
    if (o->max_size <= 0) {
        co_fd_wait(*ret_fd);
    }
    return 0;
}

static void warn_lost(struct proc_childlog *c, const struct co_err *err) {
    if (!c->lost) {
        c->lost = true;
        c->options.lost(c->options.arg, err);
    }
}

static void write_log(struct proc_childlog *c, const char *data, size_t len) {
    while (len) {
        ssize_t n = write(c->file, data, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            struct co_err err = {0};
            (void)co_err_errno(&err, errno, "cannot write \"%.300s\"", c->path);
            warn_lost(c, &err); /* the child keeps running; its further output is lost */
            return;
        }
        c->size += n;
        data += n;
        len -= (size_t)n;
    }
}

/* The folder may be gone, with the file that is written, and which then grows without a name. */
static int open_again(struct proc_childlog *c, int *ret_fd) {
    CO_AUTOFREE char *dir = co_xstrdup(c->path);
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir) {
        *slash = '\0';
        CO_TRY(proc_childlog_make_dir(dir, NULL));
    }
    return open_file(&c->options, false, ret_fd, NULL);
}

/* Rotates a log that has reached its maximum size, unless the echo still reads the file before the
 * last rotation: when the echo's stream is blocked, the log grows beyond the maximum instead. */
static void rotate_log(struct proc_childlog *c) {
    if (c->size < c->options.max_size || (c->echo && proc_follow_behind(c->echo))) {
        return;
    }
    CO_AUTOFREE char *old = co_xasprintf("%s.1", c->path);
    int fd = -1;
    /* To replace it by rename makes ext4 write the new one to its disk at once, and the rotation
     * after that wait for it. */
    if (access(c->path, F_OK) == 0) {
        (void)unlink(old);
    }
    if ((rename(c->path, old) && errno != ENOENT) || open_again(c, &fd)) {
        c->size = 0; /* tries again after another max_size bytes */
        return;
    }
    co_close(c->file);
    c->file = fd;
    c->size = c->start = 0;
    if (c->echo) {
        proc_follow_again(c->echo);
    }
}

static void end_pipe(struct proc_childlog *c) {
    co_poll_free(co_steal_ptr(c->poll));
    co_closep(&c->in);
    c->in = -1;
}

static bool take_some(struct proc_childlog *c) {
    char buf[READ_BYTES];
    /* no wait: the descriptor is non-blocking */
    ssize_t n = read(c->in, buf, sizeof(buf));
    if (n > 0) {
        proc_tail_add(&c->tail, buf, (size_t)n);
        write_log(c, buf, (size_t)n);
        rotate_log(c);
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_pipe(c);
    }
    return false;
}

static void pipe_readable(void *arg, int events) {
    (void)events;
    (void)take_some(arg);
}

/* Reads what the child has left in the pipe.  The number of reads is bounded, as a process that
 * inherited the pipe may write for ever. */
static void take_last(struct proc_childlog *c) {
    for (int i = 0; i < LAST_READS && c->in >= 0 && take_some(c); i++) {
    }
}

static int open_pipe(struct proc_childlog *c, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    c->in = ends[0];
    c->out = ends[1];
    CO_TRY(co_poll_new(c->loop, c->in, pipe_readable, c, &c->poll, err));
    co_poll_set(c->poll, CO_POLL_IN);
    return 0;
}

int proc_childlog_make_dir(const char *path, struct co_err *err) {
    CO_AUTOFREE char *dir = co_xstrdup(path);
    for (char *p = dir + 1;; p++) {
        char c = *p;
        if (c && c != '/') {
            continue;
        }
        *p = '\0';
        if (mkdir(dir, 0777) && errno != EEXIST) {
            return co_err_errno(
                err, errno, "log_dir \"%.300s\": cannot make \"%.300s\"", path, dir);
        }
        *p = c;
        if (!c) {
            return 0;
        }
    }
}

int proc_childlog_open(struct co_loop *l, const struct proc_childlog_options *options,
    struct proc_childlog **ret, struct co_err *err) {
    int file = -1;
    CO_TRY(open_file(options, options->overwrite, &file, err));
    CO_CLEANUP(proc_childlog_closep) struct proc_childlog *c = co_xcalloc(1, sizeof(*c));
    *c = (struct proc_childlog){.loop = l,
        .options = *options,
        .path = co_xstrdup(options->path),
        .file = file,
        .back = -1,
        .in = -1,
        .out = -1};
    c->options.path = c->path;
    struct stat st = {0};
    c->start = c->size = fstat(file, &st) == 0 ? st.st_size : 0;
    if (options->max_size > 0) {
        CO_TRY(open_pipe(c, err));
    } else if (S_ISREG(st.st_mode)) { /* a FIFO's writers must see that it has no reader */
        c->back = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    *ret = co_steal_ptr(c);
    return 0;
}

void proc_childlog_close(struct proc_childlog *c) {
    if (!c) {
        return;
    }
    proc_follow_free(co_steal_ptr(c->echo));
    take_last(c);
    if (c->in >= 0) {
        end_pipe(c);
    }
    co_closep(&c->out);
    co_closep(&c->file);
    co_closep(&c->back);
    free(c->path);
    free(c);
}

const char *proc_childlog_path(const struct proc_childlog *c) {
    return c->path;
}

int proc_childlog_fd(const struct proc_childlog *c) {
    return c->out >= 0 ? c->out : c->file;
}

void proc_childlog_started(struct proc_childlog *c) {
    int *fd = c->options.max_size > 0 ? &c->out : &c->file;
    co_closep(fd);
    *fd = -1;
}

int proc_childlog_echo(
    struct proc_childlog *c, int fd, void (*done)(void *arg), void *arg, struct co_err *err) {
    return proc_follow_new(c->loop, c->path, c->start, fd, done, arg, &c->echo, err);
}

bool proc_childlog_finish(struct proc_childlog *c) {
    take_last(c);
    if (c->echo) {
        proc_follow_finish(c->echo);
    }
    return c->echo;
}

bool proc_childlog_removed(const struct proc_childlog *c) {
    struct stat own, named;
    return fstat(c->back >= 0 ? c->back : c->file, &own) == 0 && S_ISREG(own.st_mode) &&
           (stat(c->path, &named) < 0 || named.st_ino != own.st_ino || named.st_dev != own.st_dev);
}

size_t proc_childlog_tail(const struct proc_childlog *c, char *ret, size_t size) {
    if (c->options.max_size > 0) {
        return proc_tail_copy(&c->tail, ret, size);
    }
    struct stat st;
    if (c->back < 0 || fstat(c->back, &st) < 0) {
        return 0;
    }
    int64_t room = (int64_t)size - 1;
    int64_t start = st.st_size < c->start ? 0 : c->start; /* somebody has cut the file */
    int64_t from = st.st_size - room > start ? st.st_size - room : start;
    ssize_t n = pread(c->back, ret, size - 1, from);
    size_t len = n > 0 ? (size_t)n : 0;
    const char *newline = from > start ? memchr(ret, '\n', len) : NULL;
    if (newline) { /* what is before it has no beginning */
        len -= (size_t)(newline + 1 - ret);
        memmove(ret, newline + 1, len);
    }
    ret[len] = '\0';
    return len;
}
