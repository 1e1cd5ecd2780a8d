/* Writes the container's termination log.  See termination.h. */
#include "runtime/launch/process/termination.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

/* Returns -1 when the log is not wanted. */
static int open_log(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 0)) {
        co_close(fd);
        return -1;
    }
    return fd;
}

bool rl_termination_wanted(const char *path) {
    CO_AUTOCLOSE int fd = open_log(path);
    return fd >= 0;
}

void rl_termination_write(const char *path, const char *lines, const char *cause) {
    CO_AUTOCLOSE int fd = open_log(path);
    if (fd >= 0) {
        (void)dprintf(fd, "%s%s%s\n", lines, *lines && *cause ? "\n" : "", cause);
    }
}
