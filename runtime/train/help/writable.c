/* Finds out before a training whether its result can be written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/mem.h"
#include "runtime/rt.h"

/* The folder in which the first part of a path that is missing will be made: what of it exists.  A
 * link that leads nowhere exists, as no folder can be made in its place. */
static char *existing(const char *path) {
    CO_AUTOFREE char *at = co_path_absolute(path);
    struct stat st;
    char *slash;

    while (
        lstat(at, &st) < 0 && errno == ENOENT && (slash = strrchr(at, '/')) != NULL && slash > at) {
        *slash = '\0';
    }
    return co_steal_ptr(at);
}

int rt_save_check(const char *dir, struct co_err *err) {
    CO_AUTOFREE char *there = NULL, *probe = NULL;

    if (!dir || dir[0] == '\0') {
        return co_err_set(err, CO_INVALID, "the name of the directory to save to is empty");
    }
    there = existing(dir);
    probe = co_xasprintf("%s/.probe-XXXXXX", there);
    int fd = mkostemp(probe, O_CLOEXEC);
    if (fd < 0) {
        return co_err_errno(err, errno,
            "the result cannot be saved in \"%s\": nothing can be written to \"%s\"", dir, there);
    }
    (void)unlink(probe);
    (void)close(fd);
    return 0;
}
