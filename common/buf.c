/* Byte buffers that grow by half, and files read and written as a whole. */
#include "common/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ASIDE_MAX = 100000 }; /* names that processes which were killed have left */

void co_buf_done(struct co_buf *b) {
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void co_buf_clear(struct co_buf *b) {
    b->len = 0;
    if (b->data) {
        b->data[0] = '\0';
    }
}

int co_buf_reserve(struct co_buf *b, size_t more, struct co_err *err) {
    if (more > b->max || b->len > b->max - more) {
        return co_err_set(err, CO_NORESOURCE, "buffer limit of %zu bytes reached", b->max);
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap) {
        return 0;
    }
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need) {
        cap += cap / 2;
    }
    if (cap > b->max + 1) {
        cap = b->max + 1;
    }
    char *p = realloc(b->data, cap);
    if (!p) {
        return co_err_set(err, CO_NOMEMORY, "no memory for a buffer of %zu bytes", cap);
    }
    b->data = p;
    b->cap = cap;
    return 0;
}

int co_buf_add(struct co_buf *b, const void *data, size_t len, struct co_err *err) {
    CO_TRY(co_buf_reserve(b, len, err));
    if (len) {
        memcpy(b->data + b->len, data, len);
    }
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int co_buf_adds(struct co_buf *b, const char *s, struct co_err *err) {
    return co_buf_add(b, s, strlen(s), err);
}

int co_buf_addf(struct co_buf *b, struct co_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return co_err_set(err, CO_INVALID, "text cannot be formatted");
    }
    CO_TRY(co_buf_reserve(b, (size_t)n, err));
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void co_buf_consume(struct co_buf *b, size_t n) {
    if (n >= b->len) {
        co_buf_clear(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

char *co_buf_take(struct co_buf *b) {
    char *p = b->data ? b->data : co_xstrdup("");
    *b = CO_BUF(b->max);
    return p;
}

int co_file_read(const char *path, size_t max, struct co_buf *ret, struct co_err *err) {
    CO_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot open %s", path);
    }
    return co_fd_read(fd, path, max, ret, err);
}

int co_fd_read(int fd, const char *path, size_t max, struct co_buf *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(max);
    for (;;) {
        size_t room = max - b.len < 65536 ? max - b.len : 65536;
        /* At the limit: one more byte means that the file is too large. */
        char extra;
        if (room == 0) {
            /* no deadline: a file; of a pipe, its writer decides */
            ssize_t n = read(fd, &extra, 1);
            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n > 0) {
                return co_err_set(err, CO_NORESOURCE, "%s: larger than %zu bytes", path, max);
            }
            if (n == 0) {
                break;
            }
            return co_err_errno(err, errno, "cannot read %s", path);
        }
        CO_TRY(co_buf_reserve(&b, room, err));
        /* no deadline: as above */
        ssize_t n = read(fd, b.data + b.len, room);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return co_err_errno(err, errno, "cannot read %s", path);
        }
        if (n == 0) {
            break;
        }
        b.len += (size_t)n;
    }
    CO_TRY(co_buf_add(&b, "", 0, err));
    *ret = b;
    b = CO_BUF(max);
    return 0;
}

static int write_all(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

int co_file_target(const char *path, char **ret_name, struct co_err *err) {
    struct stat st;
    if (stat(path, &st) < 0) {
        if (lstat(path, &st) == 0) {
            return co_err_set(
                err, CO_INVALID, "cannot write \"%s\": it is a link that leads to no file", path);
        }
        *ret_name = co_xstrdup(path); /* not there, or the one who writes it learns why */
        return 0;
    }
    if (!S_ISREG(st.st_mode)) {
        return co_err_set(err, CO_INVALID, "cannot write \"%s\": it is %s, expected a file", path,
            kind_of(st.st_mode));
    }
    char *name = realpath(path, NULL);
    if (!name) {
        return co_err_errno(err, errno, "cannot write \"%s\"", path);
    }
    *ret_name = name;
    return 0;
}

/* By the number of the process, which others may have in containers of their own. */
int co_file_aside(
    const char *path, unsigned mode, int *ret_fd, char **ret_name, struct co_err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (unsigned n = 0;; n++) {
        CO_AUTOFREE char *aside =
            co_xasprintf("%.*s.%s.tmp.%d.%u", (int)(name - path), path, name, (int)getpid(), n);
        int fd = open(aside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0) {
            *ret_fd = fd;
            *ret_name = co_steal_ptr(aside);
            return 0;
        }
        if (errno != EEXIST || n == ASIDE_MAX) {
            return co_err_errno(err, errno, "cannot create \"%s\"", path);
        }
    }
}

static int replace(
    const char *target, const void *data, size_t len, unsigned mode, struct co_err *err) {
    CO_AUTOFREE char *tmp = NULL;
    int fd;
    CO_TRY(co_file_aside(target, mode, &fd, &tmp, err));
    int failed = write_all(fd, data, len) || fsync(fd) ? errno : 0;
    if (close(fd) && !failed) {
        failed = errno;
    }
    if (!failed && rename(tmp, target)) {
        failed = errno;
    }
    if (failed) {
        (void)unlink(tmp);
        return co_err_errno(err, failed, "cannot write %s", target);
    }
    return 0;
}

int co_file_write(
    const char *path, const void *data, size_t len, unsigned mode, struct co_err *err) {
    CO_AUTOFREE char *target = NULL;
    CO_TRY(co_file_target(path, &target, err));
    return replace(target, data, len, mode, err);
}

int co_file_open_log(const char *path, int flags, unsigned mode, int *ret_fd, struct co_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, mode);
    if (fd < 0) {
        return errno == ENXIO ? co_err_set(err, CO_INVALID,
                                    "cannot write \"%.300s\": it is a FIFO that nobody reads", path)
                              : co_err_errno(err, errno, "cannot write \"%.300s\"", path);
    }
    *ret_fd = fd;
    return 0;
}

void co_fd_wait(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
}

char *co_path_absolute(const char *path) {
    CO_AUTOFREE char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    return here ? co_xasprintf("%s/%s", here, path) : co_xstrdup(path);
}

char *co_path_find(const char *program) {
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        CO_AUTOFREE char *file = co_xasprintf("%.*s/%s", (int)len, p, program);
        struct stat st;
        if (len && access(file, X_OK) == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
            return co_steal_ptr(file);
        }
        p += len + (p[len] == ':');
    }
    return NULL;
}
