/* The calls of runtime/train/ckpt/disk_layer_testing.h: each finds out whether it is below the
 * directory, asks whether it is the one that fails, does its work and notes what is durable. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/train/ckpt/disk_layer_testing.h"
#include "tests/disk/shadow.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- which call fails ---- */

enum call { OPEN, CREATE, LOOK, LIST, READ, WRITE, SYNC, NAME, REMOVE, CLOSE, CALLS };

/* What a call may answer. */
static const bool hits[DISK_FAULTS][CALLS] = {
    [DISK_NONE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    [DISK_EIO] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    [DISK_EACCES] = {[OPEN] = 1, [CREATE] = 1, [LOOK] = 1, [NAME] = 1, [REMOVE] = 1},
    [DISK_ENOSPC] = {[CREATE] = 1, [WRITE] = 1, [SYNC] = 1, [NAME] = 1, [CLOSE] = 1},
    [DISK_ESTALE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    [DISK_EMFILE] = {[OPEN] = 1, [CREATE] = 1},
    [DISK_SHORT] = {[READ] = 1, [WRITE] = 1},
    [DISK_CUT_OLD] = {[CREATE] = 1, [WRITE] = 1, [SYNC] = 1, [NAME] = 1, [REMOVE] = 1, [CLOSE] = 1},
    [DISK_CUT_NEW] = {[CREATE] = 1, [WRITE] = 1, [SYNC] = 1, [NAME] = 1, [REMOVE] = 1, [CLOSE] = 1},
    [DISK_CUT_GONE] =
        {[CREATE] = 1, [WRITE] = 1, [SYNC] = 1, [NAME] = 1, [REMOVE] = 1, [CLOSE] = 1},
};
static const int codes[DISK_FAULTS] = {[DISK_EIO] = EIO,
    [DISK_EACCES] = EACCES,
    [DISK_ENOSPC] = ENOSPC,
    [DISK_ESTALE] = ESTALE,
    [DISK_EMFILE] = EMFILE};

/* Recursive: the shadow reads files itself. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[PATH_MAX];
static enum disk_fault fault;
static unsigned at, calls;
static bool armed, always;
static __thread int inside; /* calls of the layer itself */

static bool is_cut(enum disk_fault f) {
    return f == DISK_CUT_OLD || f == DISK_CUT_NEW || f == DISK_CUT_GONE;
}

/* The lock is held, and stays so. */
static void cut(enum disk_fault way) {
    inside++;
    shadow_write(root, way == DISK_CUT_OLD   ? SHADOW_OLD
                       : way == DISK_CUT_NEW ? SHADOW_NEW
                                             : SHADOW_GONE);
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        (void)pause();
    }
}

static bool below(const char *path) {
    size_t n = strlen(root);
    return path && strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* The path of an open file; false: it is not below the directory. */
static bool path_of(int fd, char ret[PATH_MAX]) {
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlink, link, ret, PATH_MAX - 1);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0 && below(ret);
}

static bool ours(const char *path) {
    return armed && !inside && below(path);
}

static bool ours_fd(int fd) {
    char path[PATH_MAX];
    return armed && !inside && fd >= 0 && path_of(fd, path);
}

static bool ours_at(int dir, const char *name, char ret[PATH_MAX]) {
    if (name[0] == '/' || dir == AT_FDCWD) {
        (void)snprintf(ret, PATH_MAX, "%s", name);
        return ours(ret);
    }
    if (!armed || inside || !path_of(dir, ret)) {
        return false;
    }
    size_t n = strlen(ret);
    (void)snprintf(ret + n, PATH_MAX - n, "/%s", name);
    return true;
}

/* Enters a call.  True: it is the one that fails, with errno set; DISK_SHORT: that it moves less.
 */
static bool enter(enum call call) {
    (void)pthread_mutex_lock(&lock);
    bool hit = armed && hits[fault][call] && (always ? calls >= at : calls == at);
    calls += armed && hits[fault][call];
    if (hit && is_cut(fault)) {
        cut(fault);
    }
    inside++;
    if (hit && codes[fault]) {
        errno = codes[fault];
    }
    return hit && fault != DISK_NONE;
}

static void leave(void) {
    int saved = errno;
    inside--;
    (void)pthread_mutex_unlock(&lock);
    errno = saved;
}

#define REAL(name)                                                                                 \
    static __typeof__(name) *real;                                                                 \
    if (!real) {                                                                                   \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                 \
    }

/* ---- names ---- */

static int open_file(const char *path, int flags, mode_t mode) {
    bool makes = flags & (O_CREAT | O_TRUNC);
    int fd =
        enter(makes ? CREATE : OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    leave();
    return fd;
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

EXPORT int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return ours(path) ? open_file(path, flags, mode)
                      : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return ours(path) ? open_file(path, flags, mode)
                      : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* What they are called where the compiler sees that there is no mode. */
EXPORT int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) {
    return open(path, flags);
}
EXPORT int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags) {
    return open(path, flags);
}

EXPORT int openat(int dir, const char *name, int flags, ...) {
    MODE_OF(flags)
    char path[PATH_MAX];
    return ours_at(dir, name, path) ? open_file(path, flags, mode)
                                    : (int)syscall(SYS_openat, dir, name, flags, mode);
}

EXPORT int mkdir(const char *path, mode_t mode) {
    REAL(mkdir)
    if (!ours(path)) {
        return real(path, mode);
    }
    int rc = enter(NAME) ? -1 : real(path, mode);
    leave();
    return rc;
}

static int rename_file(const char *from, const char *to) {
    bool fails = enter(NAME);
    if (!fails) {
        shadow_replaces(to);
    }
    int rc = fails ? -1 : (int)syscall(SYS_rename, from, to);
    leave();
    return rc;
}

EXPORT int rename(const char *from, const char *to) {
    return ours(from) || ours(to) ? rename_file(from, to) : (int)syscall(SYS_rename, from, to);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    REAL(renameat)
    char a[PATH_MAX], b[PATH_MAX];
    bool in = ours_at(from_dir, from, a);
    return ours_at(to_dir, to, b) && in ? rename_file(a, b) : real(from_dir, from, to_dir, to);
}

static int remove_name(const char *path, int flags) {
    bool fails = enter(REMOVE);
    if (!fails) {
        shadow_removes(path);
    }
    int rc = fails ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    leave();
    return rc;
}

EXPORT int unlink(const char *path) {
    return ours(path) ? remove_name(path, 0) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

EXPORT int rmdir(const char *path) {
    return ours(path) ? remove_name(path, AT_REMOVEDIR)
                      : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

EXPORT int unlinkat(int dir, const char *name, int flags) {
    char path[PATH_MAX];
    return ours_at(dir, name, path) ? remove_name(path, flags)
                                    : (int)syscall(SYS_unlinkat, dir, name, flags);
}

EXPORT int remove(const char *path) {
    struct stat st;
    bool dir = syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISDIR(st.st_mode);
    return dir ? rmdir(path) : unlink(path);
}

#define LOOKS(name, args, list)                                                                    \
    EXPORT int name args {                                                                         \
        REAL(name)                                                                                 \
        if (!ours(path)) {                                                                         \
            return real list;                                                                      \
        }                                                                                          \
        int rc = enter(LOOK) ? -1 : real list;                                                     \
        leave();                                                                                   \
        return rc;                                                                                 \
    }
LOOKS(stat, (const char *path, struct stat *st), (path, st))
LOOKS(lstat, (const char *path, struct stat *st), (path, st))
LOOKS(access, (const char *path, int mode), (path, mode))

/* ---- files ---- */

static size_t half(bool shorter, size_t n) {
    enum { BLOCK = 4096 }; /* which direct writes must be multiples of */
    return !shorter || n < 2 ? n : n < 2 * BLOCK ? n / 2 : n / 2 / BLOCK * BLOCK;
}

#define MOVES(name, call, args, whole, shorter)                                                    \
    EXPORT ssize_t name args {                                                                     \
        REAL(name)                                                                                 \
        if (!ours_fd(fd)) {                                                                        \
            return real whole;                                                                     \
        }                                                                                          \
        bool hit = enter(call);                                                                    \
        ssize_t moved = hit && fault != DISK_SHORT ? -1 : hit ? real shorter : real whole;         \
        leave();                                                                                   \
        return moved;                                                                              \
    }
MOVES(read, READ, (int fd, void *to, size_t n), (fd, to, n), (fd, to, half(true, n)))
MOVES(pread, READ, (int fd, void *to, size_t n, off_t from), (fd, to, n, from),
    (fd, to, half(true, n), from))
MOVES(write, WRITE, (int fd, const void *from, size_t n), (fd, from, n), (fd, from, half(true, n)))
MOVES(pwrite, WRITE, (int fd, const void *from, size_t n, off_t to), (fd, from, n, to),
    (fd, from, half(true, n), to))

/* Short: half of the first piece that has any bytes. */
EXPORT ssize_t writev(int fd, const struct iovec *v, int n) {
    REAL(writev)
    if (!ours_fd(fd)) {
        return real(fd, v, n);
    }
    bool hit = enter(WRITE);
    while (hit && n > 1 && v->iov_len == 0) {
        v++;
        n--;
    }
    ssize_t moved = hit && fault != DISK_SHORT ? -1
                    : hit ? syscall(SYS_write, fd, v->iov_base, half(true, v->iov_len))
                          : real(fd, v, n);
    leave();
    return moved;
}

/* What the above are called where the compiler knows the size of the buffer. */
EXPORT ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room) {
    return n > room ? abort(), -1 : read(fd, to, n);
}
EXPORT ssize_t __pread_chk(int fd, void *to, size_t n, off_t from, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t n, off_t from, size_t room) {
    return n > room ? abort(), -1 : pread(fd, to, n, from);
}

static int sync_file(int fd, long call) {
    bool mine = ours_fd(fd), fails = mine && enter(SYNC);
    int rc = fails ? -1 : (int)syscall(call, fd);
    if (mine) {
        if (rc == 0) {
            shadow_synced(fd);
        }
        leave();
    }
    return rc;
}

EXPORT int fsync(int fd) {
    return sync_file(fd, SYS_fsync);
}

EXPORT int fdatasync(int fd) {
    return sync_file(fd, SYS_fdatasync);
}

EXPORT int ftruncate(int fd, off_t len) {
    REAL(ftruncate)
    if (!ours_fd(fd)) {
        return real(fd, len);
    }
    int rc = enter(WRITE) ? -1 : real(fd, len);
    leave();
    return rc;
}

/* The file is closed in any case. */
EXPORT int close(int fd) {
    if (!ours_fd(fd)) {
        return (int)syscall(SYS_close, fd);
    }
    bool fails = enter(CLOSE);
    int code = errno, rc = (int)syscall(SYS_close, fd);
    errno = fails ? code : errno;
    leave();
    return fails ? -1 : rc;
}

/* ---- directories ---- */

EXPORT DIR *opendir(const char *path) {
    REAL(opendir)
    if (!ours(path)) {
        return real(path);
    }
    DIR *d = enter(OPEN) ? NULL : real(path);
    leave();
    return d;
}

#define LISTS(name, entry)                                                                         \
    EXPORT struct entry *name(DIR *d) {                                                            \
        REAL(name)                                                                                 \
        if (!ours_fd(dirfd(d))) {                                                                  \
            return real(d);                                                                        \
        }                                                                                          \
        struct entry *e = enter(LIST) ? NULL : real(d);                                            \
        leave();                                                                                   \
        return e;                                                                                  \
    }
LISTS(readdir, dirent)
LISTS(readdir64, dirent64)

/* ---- streams ---- */

/* The C library's own streams do not call the functions above, but these do.  fileno() must return
 * the descriptor, as a stream of this kind has none. */
enum { STREAMS = 64 };
static struct {
    FILE *stream;
    int fd;
} streams[STREAMS];

static ssize_t stream_read(void *cookie, char *to, size_t n) {
    return read((int)(intptr_t)cookie, to, n);
}

/* A stream takes what is written for all there is. */
static ssize_t stream_write(void *cookie, const char *from, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t k = write((int)(intptr_t)cookie, from + done, n - done);
        if (k <= 0) {
            return 0; /* an error, in the terms of fopencookie */
        }
        done += (size_t)k;
    }
    return (ssize_t)done;
}

static int stream_seek(void *cookie, off64_t *at_, int whence) {
    *at_ = lseek((int)(intptr_t)cookie, *at_, whence);
    return *at_ < 0 ? -1 : 0;
}

static void note_stream(FILE *f, int from, FILE *to, int fd) {
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < STREAMS; i++) {
        if (streams[i].stream == f && (f || from < 0)) {
            streams[i].stream = to;
            streams[i].fd = fd;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static int stream_close(void *cookie) {
    int fd = (int)(intptr_t)cookie;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < STREAMS; i++) {
        if (streams[i].stream && streams[i].fd == fd) {
            streams[i].stream = NULL;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return close(fd);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    REAL(fopen)
    if (!ours(path)) {
        return real(path, mode);
    }
    bool plus = strchr(mode, '+');
    int flags = mode[0] == 'r'   ? (plus ? O_RDWR : O_RDONLY)
                : mode[0] == 'w' ? (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC
                                 : (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    int fd = open_file(path, flags | O_CLOEXEC, 0666);
    if (fd < 0) {
        return NULL;
    }
    FILE *f = fopencookie((void *)(intptr_t)fd, mode,
        (cookie_io_functions_t){stream_read, stream_write, stream_seek, stream_close});
    note_stream(NULL, -1, f, fd);
    return f;
}

EXPORT FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

EXPORT int fileno(FILE *f) {
    REAL(fileno)
    int fd = -1;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < STREAMS && fd < 0; i++) {
        fd = streams[i].stream == f ? streams[i].fd : -1;
    }
    (void)pthread_mutex_unlock(&lock);
    return fd >= 0 ? fd : real(f);
}

/* ---- the test's ---- */

EXPORT disk_layer_arm_fn disk_layer_arm;
void disk_layer_arm(const char *dir, enum disk_fault what, unsigned n, int all) {
    (void)pthread_mutex_lock(&lock);
    inside++;
    if (!realpath(dir, root)) {
        abort();
    }
    fault = what;
    at = n;
    always = all;
    calls = 0;
    shadow_begin(root);
    armed = true;
    inside--;
    (void)pthread_mutex_unlock(&lock);
}

EXPORT disk_layer_calm_fn disk_layer_calm;
unsigned disk_layer_calm(void) {
    (void)pthread_mutex_lock(&lock);
    armed = false;
    unsigned n = calls;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

EXPORT disk_layer_cut_fn disk_layer_cut;
void disk_layer_cut(enum disk_fault way) {
    (void)pthread_mutex_lock(&lock);
    cut(way);
}

/* DISK_LAYER=DIR,FAULT,N: for programs that cannot call. */
__attribute__((constructor)) static void begin(void) {
    static const char *const names[DISK_FAULTS] = DISK_FAULT_NAMES;
    const char *text = getenv("DISK_LAYER");
    char dir[PATH_MAX], name[32];
    unsigned n;
    if (!text || sscanf(text, "%4095[^,],%31[^,],%u", dir, name, &n) != 3) {
        return;
    }
    for (int i = 0; i < DISK_FAULTS; i++) {
        if (strcmp(names[i], name) == 0) {
            disk_layer_arm(dir, (enum disk_fault)i, n, 0);
        }
    }
}
