/* Writes the container's termination log.  See termination.h. */
#include "runtime/launch/process/termination.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

bool proc_termination_wanted(const char *path) {
    CO_AUTOCLOSE int fd = open_log(path);
    return fd >= 0;
}

void proc_termination_write(const char *path, const char *lines, const char *cause) {
    CO_AUTOCLOSE int fd = open_log(path);
    if (fd >= 0) {
        (void)dprintf(fd, "%s%s%s\n", lines, *lines && *cause ? "\n" : "", cause);
    }
}

void proc_termination_stopped(const char *path, int signo) {
    static const struct {
        int signo;
        const char *line;
    } rows[] = {{SIGTERM, "stopped by SIGTERM\n"}, {SIGINT, "stopped by SIGINT\n"},
        {SIGHUP, "stopped by SIGHUP\n"}, {SIGQUIT, "stopped by SIGQUIT\n"}};
    CO_AUTOCLOSE int fd = open_log(path);
    for (size_t i = 0; fd >= 0 && i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].signo == signo) {
            (void)!write(fd, rows[i].line, strlen(rows[i].line));
        }
    }
}
