/* Durable file system operations, with a hook before each for the tests that kill a process there.
 */
#include "runtime/train/ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/mem.h"

void (*rt_disk_watch)(void);

static void note_step(void) {
    if (rt_disk_watch) {
        rt_disk_watch();
    }
}

static int make_one(const char *dir, struct co_err *err) {
    note_step();
    if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "cannot make '%s'", dir);
    }
    return 0;
}

int rt_disk_mkdir(const char *dir, struct co_err *err) {
    CO_AUTOFREE char *path = co_xstrdup(dir);
    for (char *p = *path ? path + 1 : path; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            int rc = make_one(path, err);
            if (rc < 0) {
                return rc;
            }
            *p = '/';
        }
    }
    return make_one(path, err);
}

int rt_disk_create(
    const char *path, bool direct, int *ret_fd, bool *ret_direct, struct co_err *err) {
    note_step();
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    int fd = direct ? open(path, flags | O_DIRECT, 0666) : -1;
    *ret_direct = fd >= 0;
    if (fd < 0) {
        fd = open(path, flags, 0666);
    }
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot make '%s'", path);
    }
    *ret_fd = fd;
    return 0;
}

void rt_disk_buffer(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags & ~O_DIRECT);
    }
}

static bool is_direct(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT);
}

int rt_disk_write(int fd, const char *path, struct iovec *pieces, int n, struct co_err *err) {
    note_step();
    while (n > 0) {
        ssize_t put = writev(fd, pieces, n);
        if (put < 0 && errno == EINVAL && is_direct(fd)) { /* it wants a larger alignment */
            rt_disk_buffer(fd);
            continue;
        }
        if (put < 0 && errno != EINTR) {
            return co_err_errno(err, errno, "cannot write '%s'", path);
        }
        for (size_t left = put > 0 ? (size_t)put : 0; n > 0; pieces++, n--) {
            if (left < pieces->iov_len) {
                pieces->iov_base = (char *)pieces->iov_base + left;
                pieces->iov_len -= left;
                break;
            }
            left -= pieces->iov_len;
        }
    }
    return 0;
}

int rt_disk_sync(int fd, const char *path, struct co_err *err) {
    note_step();
    return fsync(fd) < 0 ? co_err_errno(err, errno, "cannot sync '%s'", path) : 0;
}

int rt_disk_sync_dir(const char *dir, struct co_err *err) {
    CO_AUTOCLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot open '%s'", dir);
    }
    note_step();
    /* EINVAL, ENOSYS: this file system has no sync of directories, and needs none. */
    if (fsync(fd) < 0 && errno != EINVAL && errno != ENOSYS) {
        return co_err_errno(err, errno, "cannot sync '%s'", dir);
    }
    return 0;
}

int rt_disk_put(
    const char *dir, const char *name, const void *data, size_t len, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOFREE char *aside = co_xasprintf("%s.new", path);
    CO_AUTOCLOSE int fd = -1;
    struct iovec piece = {(void *)(uintptr_t)data, len};
    bool direct;
    int rc = rt_disk_create(aside, false, &fd, &direct, err);
    rc = rc < 0 ? rc : rt_disk_write(fd, aside, &piece, 1, err);
    rc = rc < 0 ? rc : rt_disk_sync(fd, aside, err);
    if (rc < 0) {
        return rc;
    }
    note_step();
    if (rename(aside, path) < 0) {
        return co_err_errno(err, errno, "cannot rename '%s'", aside);
    }
    return rt_disk_sync_dir(dir, err);
}

int rt_disk_remove(const char *dir, const char *name, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    note_step();
    if (unlink(path) < 0 && errno != ENOENT) {
        return co_err_errno(err, errno, "cannot remove '%s'", path);
    }
    return 0;
}

int rt_disk_remove_dir(const char *dir, struct co_err *err) {
    note_step();
    if (rmdir(dir) < 0 && errno != ENOENT) {
        return co_err_errno(err, errno, "cannot remove '%s'", dir);
    }
    return 0;
}
