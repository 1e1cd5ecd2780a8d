/* Durable file system operations, with a hook before each for the tests that kill a process there.
 */
#include "runtime/train/ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/mem.h"

void (*ckpt_disk_watch)(void);
void (*_Atomic ckpt_disk_opens)(void);

static void note_step(void) {
    if (ckpt_disk_watch) {
        ckpt_disk_watch();
    }
}

static int sync_above(const char *dir, struct co_err *err) {
    const char *slash = strrchr(dir, '/');
    CO_AUTOFREE char *above = slash == dir ? co_xstrdup("/")
                              : slash      ? co_xstrndup(dir, (size_t)(slash - dir))
                                           : co_xstrdup(".");
    return ckpt_disk_sync_dir(above, err);
}

/* A directory that could not be synced is removed, because the next attempt syncs only what it
 * makes. */
static int make_one(const char *dir, struct co_err *err) {
    note_step();
    if (mkdir(dir, 0777) < 0) {
        return errno == EEXIST ? 0 : co_err_errno(err, errno, "cannot make \"%s\"", dir);
    }
    int rc = sync_above(dir, err);
    if (rc < 0) {
        (void)!ckpt_disk_remove_dir(dir, NULL);
    }
    return rc;
}

int ckpt_disk_mkdir(const char *dir, struct co_err *err) {
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    CO_AUTOFREE char *path = co_xstrndup(dir, len);
    for (char *p = *path ? path + 1 : path; *p; p++) {
        if (*p == '/' && p[-1] != '/') {
            *p = '\0';
            CO_TRY(make_one(path, err));
            *p = '/';
        }
    }
    return make_one(path, err);
}

int ckpt_disk_create(
    const char *path, bool direct, int *ret_fd, bool *ret_direct, struct co_err *err) {
    note_step();
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    int fd = direct ? open(path, flags | O_DIRECT, 0666) : -1;
    *ret_direct = fd >= 0;
    if (fd < 0) {
        fd = open(path, flags, 0666);
    }
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    *ret_fd = fd;
    return 0;
}

void ckpt_disk_buffer(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags & ~O_DIRECT);
    }
}

static bool is_direct(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT);
}

int ckpt_disk_write(int fd, const char *path, struct iovec *pieces, int n, struct co_err *err) {
    note_step();
    while (n > 0) {
        ssize_t put = writev(fd, pieces, n);
        if (put < 0 && errno == EINVAL && is_direct(fd)) { /* it wants a larger alignment */
            ckpt_disk_buffer(fd);
            continue;
        }
        if (put < 0 && errno != EINTR) {
            return co_err_errno(err, errno, "cannot write \"%s\"", path);
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

int ckpt_disk_sync(int fd, const char *path, struct co_err *err) {
    note_step();
    return fsync(fd) < 0 ? co_err_errno(err, errno, "cannot sync \"%s\"", path) : 0;
}

int ckpt_disk_sync_dir(const char *dir, struct co_err *err) {
    CO_AUTOCLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot open \"%s\"", dir);
    }
    note_step();
    /* EINVAL, ENOSYS: this file system has no sync of directories, and needs none. */
    if (fsync(fd) < 0 && errno != EINVAL && errno != ENOSYS) {
        return co_err_errno(err, errno, "cannot sync \"%s\"", dir);
    }
    return 0;
}

static int write_synced(
    int fd, const char *path, const void *data, size_t len, struct co_err *err) {
    struct iovec piece = {(void *)(uintptr_t)data, len};
    CO_TRY(ckpt_disk_write(fd, path, &piece, 1, err));
    return ckpt_disk_sync(fd, path, err);
}

int ckpt_disk_prepare(
    const char *dir, const char *name, const void *data, size_t len, struct co_err *err) {
    CO_AUTOFREE char *aside = co_xasprintf("%s/%s.new", dir, name);
    CO_AUTOCLOSE int fd = -1;
    bool direct;
    CO_TRY(ckpt_disk_create(aside, false, &fd, &direct, err));
    int rc = write_synced(fd, aside, data, len, err);
    if (rc < 0) {
        (void)unlink(aside);
    }
    return rc;
}

int ckpt_disk_rename(const char *aside, const char *path, struct co_err *err) {
    const char *slash = strrchr(path, '/');
    CO_AUTOFREE char *dir = slash == path ? co_xstrdup("/")
                            : slash       ? co_xstrndup(path, (size_t)(slash - path))
                                          : co_xstrdup(".");
    note_step();
    if (rename(aside, path) < 0) {
        return co_err_errno(err, errno, "cannot rename \"%s\" to \"%s\"", aside, path);
    }
    return ckpt_disk_sync_dir(dir, err);
}

int ckpt_disk_replace(const char *dir, const char *name, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOFREE char *aside = co_xasprintf("%s.new", path);
    return ckpt_disk_rename(aside, path, err);
}

int ckpt_disk_remove(const char *dir, const char *name, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    note_step();
    if (unlink(path) < 0 && errno != ENOENT) {
        return co_err_errno(err, errno, "cannot remove \"%s\"", path);
    }
    return 0;
}

int ckpt_disk_remove_dir(const char *dir, struct co_err *err) {
    note_step();
    if (rmdir(dir) < 0 && errno != ENOENT) {
        return co_err_errno(err, errno, "cannot remove \"%s\"", dir);
    }
    return 0;
}

/* 1: there is an answer; 0: the file that was locked is not the one that is there, as its owner has
 * ended and removed it. */
static int try_lock(const char *path, struct ckpt_lock *ret, struct co_err *err) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat locked, there;
    note_step();
    CO_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) {
        return errno == EACCES && stat(path, &there) == 0
                   ? 1
                   : co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    bool alone = fcntl(fd, F_OFD_SETLK, &all) == 0;
    if (!alone && (errno == EAGAIN || errno == EACCES)) {
        return CO_EXISTS;
    }
    if (alone &&
        (fstat(fd, &locked) < 0 || stat(path, &there) < 0 || locked.st_ino != there.st_ino)) {
        return 0;
    }
    *ret = (struct ckpt_lock){.fd = co_steal_fd(&fd), .alone = alone};
    return 1;
}

int ckpt_disk_lock(const char *dir, const char *name, struct ckpt_lock *ret, struct co_err *err) {
    enum { TRIES = 100 };
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    int rc = 0;
    *ret = (struct ckpt_lock){.fd = -1};
    for (int i = 0; i < TRIES && rc == 0; i++) {
        rc = try_lock(path, ret, err);
    }
    return rc == 0 || rc == CO_EXISTS
               ? co_err_set(err, CO_EXISTS,
                     "another save to \"%s\" has not ended: one trainer saves there at a time", dir)
           : rc < 0 ? rc
                    : 0;
}

void ckpt_disk_unlock(const char *dir, const char *name, struct ckpt_lock *lock) {
    if (lock->fd >= 0) {
        (void)!ckpt_disk_remove(
            dir, name, NULL); /* before it is closed: it may be another's then */
        co_close(lock->fd);
        lock->fd = -1;
    }
}

/* Whether a link in the path leads nowhere: to a disk that is not mounted, perhaps. */
static bool has_lost_link(const char *path) {
    CO_AUTOFREE char *at = co_xstrdup(path);
    struct stat st;
    while (lstat(at, &st) < 0) {
        char *slash = strrchr(at, '/');
        if (!slash || slash == at) {
            return false;
        }
        *slash = '\0';
    }
    return S_ISLNK(st.st_mode) && stat(at, &st) < 0;
}

bool ckpt_disk_is_missing(int errnum, const char *path) {
    return (errnum == ENOENT || errnum == ENOTDIR) && !has_lost_link(path);
}

int ckpt_disk_unread(struct co_err *err, int errnum, const char *path) {
    struct co_err why = {0};
    if (ckpt_disk_is_missing(errnum, path)) {
        return co_err_set(err, CO_DAMAGED, "checkpoint file \"%s\" is missing", path);
    }
    int code = co_err_errno(&why, errnum, "cannot read \"%s\"", path);
    bool lost = code == CO_NOTFOUND;
    return co_err_set(err, lost || code == CO_INVALID ? CO_INTERNAL : code, "%s%s", why.msg,
        lost ? ": a symbolic link on its way leads nowhere" : "");
}

static int check_kind(const struct stat *st, const char *path, struct co_err *err) {
    return S_ISREG(st->st_mode) ? 0
                                : co_err_set(err, CO_INTERNAL,
                                      "cannot read \"%s\": it is a %s, expected a file", path,
                                      S_ISDIR(st->st_mode)    ? "directory"
                                      : S_ISFIFO(st->st_mode) ? "FIFO"
                                                              : "device or socket");
}

/* O_NONBLOCK would not keep a FIFO from being opened, but fail on a file that is under a lease, as
 * of a file server. */
static int open_file(const char *path, int *ret_fd, uint64_t *ret_bytes, struct co_err *err) {
    struct stat st;
    void (*opens)(void) = ckpt_disk_opens;
    if (opens) {
        opens();
    }
    CO_TRY(stat(path, &st) < 0 ? ckpt_disk_unread(err, errno, path) : check_kind(&st, path, err));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return ckpt_disk_unread(err, errno, path);
    }
    *ret_bytes = (uint64_t)st.st_size;
    *ret_fd = fd;
    return 0;
}

int ckpt_disk_open(const char *path, FILE **ret, struct co_err *err) {
    CO_AUTOCLOSE int fd = -1;
    uint64_t bytes;
    CO_TRY(open_file(path, &fd, &bytes, err));
    *ret = fdopen(fd, "r");
    if (!*ret) {
        return ckpt_disk_unread(err, errno, path);
    }
    fd = -1;
    return 0;
}

int ckpt_disk_get(const char *path, size_t max, struct co_buf *ret, struct co_err *err) {
    struct co_err why = {0};
    CO_AUTOCLOSE int fd = -1;
    uint64_t bytes;
    int rc = open_file(path, &fd, &bytes, &why);
    if (rc == CO_DAMAGED) {
        return co_err_set(err, CO_NOTFOUND, "there is no \"%s\"", path);
    }
    if (rc == 0 && bytes > max) {
        return co_err_set(err, CO_DAMAGED,
            "\"%s\" has %" PRIu64 " bytes, at most %zu were expected", path, bytes, max);
    }
    if (rc == 0) {
        rc = co_fd_read(fd, path, max, ret, &why);
    }
    return rc < 0 ? co_err_set(err, rc == CO_INVALID ? CO_INTERNAL : rc, "%s", why.msg) : 0;
}

int ckpt_disk_check(const char *path, uint64_t bytes, struct co_err *err) {
    struct stat st;
    CO_TRY(stat(path, &st) < 0 ? ckpt_disk_unread(err, errno, path) : check_kind(&st, path, err));
    return (uint64_t)st.st_size == bytes
               ? 0
               : co_err_set(err, CO_DAMAGED,
                     "checkpoint file \"%s\" has %lld bytes, expected %" PRIu64, path,
                     (long long)st.st_size, bytes);
}
