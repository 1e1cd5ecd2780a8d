/* The start and the end of a training. */
#include "examples/data/train.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/contract.h"
#include "common/mem.h"

void da_forget_job(void) {
    for (size_t i = 0; i < CO_VAR_COUNT; i++) {
        if (!co_contract[i].machine && !co_contract[i].alone) {
            (void)unsetenv(co_contract[i].name);
        }
    }
}

/* The folder in which the first part of a path that is missing will be made: what of it exists. */
static char *existing(const char *path) {
    CO_AUTOFREE char *at = co_path_absolute(path);
    struct stat st;
    char *slash;

    while (
        stat(at, &st) < 0 && errno == ENOENT && (slash = strrchr(at, '/')) != NULL && slash > at) {
        *slash = '\0';
    }
    return co_steal_ptr(at);
}

int da_writable(const char *dir, struct co_err *err) {
    CO_AUTOFREE char *there = NULL, *probe = NULL;

    if (!dir || dir[0] == '\0') {
        return 0;
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

int da_trained(struct rt_client *c, uint32_t table, uint64_t own, const char *path,
    const struct da_tally *t, struct co_err *err) {
    static const struct da_tally none;
    struct rt_table_stat stat;

    if (own > 0) {
        return 0;
    }
    int rc = rt_stat(c, table, &stat, err);
    return rc == 0 && stat.pushes == 0 ? da_tally_unusable(t ? t : &none, path, err) : rc;
}
