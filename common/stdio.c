/* Standard streams that are closed, and output that is lost.  See stdio.h. */
#include "common/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/err.h"

void co_stdio_open(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) { /* the lowest that is free, as those below are open */
            (void)!open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
        }
    }
}

void co_stdio_begin(void) {
    co_stdio_open();
    (void)signal(SIGXFSZ, SIG_IGN);
}

int co_stdio_close(const char *program, int code) {
    struct co_err err = {0};
    if (fflush(stdout) != 0) {
        (void)co_err_errno(&err, errno, "cannot write to stdout");
    } else if (ferror(stdout)) { /* an earlier write, whose errno is gone */
        (void)co_err_set(
            &err, CO_NORESOURCE, "cannot write to stdout: a full disk, or its reader has ended");
    }
    if (err.code == 0) {
        return code;
    }
    /* Also after a failure: what was found may be what did not arrive. */
    (void)fprintf(stderr, "%s: %s\n", program, co_err_text(&err));
    return code ? code : 1;
}
