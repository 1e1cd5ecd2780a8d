/* Checks of the machine: clock, shared memory, disk, names.  Each runs in a process of its own,
 * which is killed where it takes too long. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/contract.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/tools/check/check.h"
#include "runtime/train/role/role.h"

enum { MEMORY = 8 << 20, FILE_BYTES = 8 << 20, NAMES_MAX = 4096 };

/* Certificates of a job are refused before this: it is older than the program. */
static const char earliest[] = "2024-01-01T00:00:00Z";

static enum check_result put_error(const struct co_err *err, char *ret_text) {
    (void)snprintf(ret_text, CHECK_TEXT_MAX, "%s", co_err_text(err));
    return CHECK_FAILED;
}

static enum check_result put_errno(const char *what, char *ret_text) {
    (void)snprintf(ret_text, CHECK_TEXT_MAX, "%s: %s", what, strerror(errno));
    return CHECK_FAILED;
}

enum check_result check_clock(const struct check_options *o, char *ret_text) {
    const int64_t before = co_now_ns();
    struct timespec wall;
    char text[32];
    (void)o;
    if (clock_gettime(CLOCK_REALTIME, &wall) < 0) {
        return put_errno("no wall clock", ret_text);
    }
    co_time_format(wall.tv_sec, text);
    if (wall.tv_sec < co_time_of(earliest)) {
        (void)snprintf(ret_text, CHECK_TEXT_MAX,
            "the wall clock is %s, expected later than %s: set it, or certificates are refused",
            text, earliest);
        return CHECK_FAILED;
    }
    if (co_now_ns() < before) {
        (void)snprintf(ret_text, CHECK_TEXT_MAX, "the monotonic clock went back");
        return CHECK_FAILED;
    }
    (void)snprintf(ret_text, CHECK_TEXT_MAX, "%s; the monotonic clock does not go back", text);
    return CHECK_OK;
}

/* A child writes, this process reads. */
static bool shares(char *at) {
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        memset(at, 7, MEMORY);
        _exit(0);
    }
    /* no deadline: whoever started this process kills it */
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        return false;
    }
    return at[0] == 7 && memcmp(at, at + 1, MEMORY - 1) == 0;
}

enum check_result check_memory(const struct check_options *o, char *ret_text) {
    (void)o;
    CO_AUTOCLOSE int fd = memfd_create("paddlerun-check", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, MEMORY) < 0) {
        return put_errno("no shared memory", ret_text);
    }
    char *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return put_errno("shared memory cannot be mapped", ret_text);
    }
    if (!shares(at)) {
        (void)snprintf(ret_text, CHECK_TEXT_MAX,
            "a process does not see what its child wrote to shared memory");
        return CHECK_FAILED;
    }
    struct statvfs fs;
    char shm[64] = "no /dev/shm";
    if (statvfs("/dev/shm", &fs) == 0) {
        (void)snprintf(shm, sizeof(shm), "/dev/shm has %llu MiB free",
            (unsigned long long)fs.f_bavail * fs.f_frsize >> 20);
    }
    (void)snprintf(ret_text, CHECK_TEXT_MAX, "two processes share %d MiB; %s", MEMORY >> 20, shm);
    return CHECK_OK;
}

/* Writes, syncs, renames, reads back. */
static int use_disk(const char *path, struct co_err *err) {
    CO_AUTOFREE char *bytes = co_xmalloc(FILE_BYTES);
    CO_AUTOBUF struct co_buf back = CO_BUF(FILE_BYTES);
    memset(bytes, 'x', FILE_BYTES);
    CO_TRY(co_file_write(path, bytes, FILE_BYTES, 0600, err));
    CO_TRY(co_file_read(path, FILE_BYTES, &back, err));
    if (back.len != FILE_BYTES || memcmp(back.data, bytes, FILE_BYTES) != 0) {
        return co_err_set(err, CO_DAMAGED, "%s: what was read is not what was written", path);
    }
    return 0;
}

enum check_result check_disk(const struct check_options *o, char *ret_text) {
    CO_AUTOFREE char *dir = realpath(o->dir, NULL);
    if (!dir) {
        return put_errno(o->dir, ret_text);
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/.paddlerun-check-%d", dir, getpid());
    struct co_err err = {0};
    const int64_t begin = co_now_ms();
    int rc = use_disk(path, &err);
    (void)unlink(path);
    struct statvfs fs = {0};
    if (rc < 0 || statvfs(dir, &fs) < 0) {
        return rc < 0 ? put_error(&err, ret_text) : put_errno(dir, ret_text);
    }
    (void)snprintf(ret_text, CHECK_TEXT_MAX,
        "%s: %d MiB written, synced and read in %lld ms, %.1f GiB free", dir, FILE_BYTES >> 20,
        (long long)(co_now_ms() - begin),
        (double)fs.f_bavail * (double)fs.f_frsize / (double)(1 << 30));
    return CHECK_OK;
}

struct resolution {
    size_t addresses, resolved;
};

/* An address in numbers needs no name server. */
static int resolve_one(const char *endpoint, struct resolution *n, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(co_parse_hostport("endpoint", endpoint, &hp, err));
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *a = NULL;
    /* no wait: numbers are not asked of anyone */
    int r = getaddrinfo(hp.host, NULL, &hints, &a);
    if (r == 0) {
        freeaddrinfo(a);
        n->addresses++;
        return 0;
    }
    hints.ai_flags = 0;
    /* no deadline: whoever started this process kills it */
    r = getaddrinfo(hp.host, NULL, &hints, &a);
    if (r != 0) {
        return co_err_set(err, CO_NOTFOUND, "%s: %s", hp.host, gai_strerror(r));
    }
    freeaddrinfo(a);
    n->resolved++;
    return 0;
}

static int resolve_all(
    const struct role_endpoints *list, struct resolution *n, struct co_err *err) {
    for (uint32_t i = 0; i < list->n && i < NAMES_MAX; i++) {
        CO_TRY(resolve_one(list->item[i], n, err));
    }
    return 0;
}

enum check_result check_names(const struct check_options *o, char *ret_text) {
    CO_CLEANUP(role_topology_freep) struct role_topology *t = NULL;
    struct co_err err = {0};
    struct resolution n = {0};
    (void)o;
    if (role_topology_load(NULL, NULL, &t, &err) < 0) {
        return put_error(&err, ret_text);
    }
    if (t->servers.n + t->trainers.n + t->heters.n == 0) {
        (void)snprintf(ret_text, CHECK_TEXT_MAX, "the environment names no other process");
        return CHECK_SKIPPED;
    }
    if (resolve_all(&t->servers, &n, &err) < 0 || resolve_all(&t->trainers, &n, &err) < 0 ||
        resolve_all(&t->heters, &n, &err) < 0) {
        return put_error(&err, ret_text);
    }
    (void)snprintf(ret_text, CHECK_TEXT_MAX, "%zu names resolved, %zu endpoints are addresses",
        n.resolved, n.addresses);
    return CHECK_OK;
}
