/* Starts a shell's command, and sees its end. */
#include "common/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"

enum { FILTER_MS = 60 * 1000 }; /* from the end of its output to its own */

static int spawn(const char *command, const char *path, int in, int out, pid_t *ret_pid) {
    char *const argv[] = {
        (char *)"sh", (char *)"-c", (char *)command, (char *)"sh", (char *)path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(
        &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    int e = posix_spawn(ret_pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return e;
}

/* After an error, what has been opened is in *f. */
static int start(struct co_filter *f, const char *command, const char *path, struct co_err *err) {
    CO_AUTOCLOSE int in = open(path, O_RDONLY | O_CLOEXEC);
    int ends[2];

    if (in < 0 && errno == ENOENT && strstr(path, ":/")) {
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (in < 0) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "a pipe for \"%.100s\"", command);
    }
    f->out = ends[0];
    CO_AUTOCLOSE int out = ends[1];
    int e = spawn(command, path, in, out, &f->pid);
    if (e != 0) {
        f->pid = 0;
        return co_err_errno(err, e, "the command \"%.100s\"", command);
    }
    f->pidfd = (int)syscall(SYS_pidfd_open, f->pid, 0); /* always CLOEXEC */
    return f->pidfd < 0 ? co_err_errno(err, errno, "pidfd_open of \"%.100s\"", command) : 0;
}

int co_filter_start(
    const char *command, const char *path, struct co_filter *ret_filter, struct co_err *err) {
    *ret_filter = CO_FILTER_NONE;
    int rc = start(ret_filter, command, path, err);
    if (rc < 0) {
        co_filter_done(ret_filter);
    }
    return rc;
}

/* Waits for its end: 0, CO_TIMEOUT, or, once stop is readable, CO_CANCELED. */
static int end_wait(const struct co_filter *f, int stop) {
    struct pollfd both[] = {
        {.fd = f->pidfd, .events = POLLIN}, {.fd = stop, .events = POLLIN}}; /* below 0: none */
    int n;

    do {
        n = poll(both, 2, FILTER_MS);
    } while (n < 0 && errno == EINTR);
    return both[0].revents ? 0 : n > 0 ? CO_CANCELED : CO_TIMEOUT;
}

static void reap(struct co_filter *f, int *ret_status) {
    int rc;

    do {
        rc = waitpid(f->pid, ret_status, 0); /* no wait: it has ended, or was killed */
    } while (rc < 0 && errno == EINTR);
    *ret_status = rc < 0 ? -1 : *ret_status; /* somebody else has waited for it */
    f->pid = 0;
}

int co_filter_end(
    struct co_filter *f, const char *command, const char *path, int stop, struct co_err *err) {
    int status = 0, rc = end_wait(f, stop);

    if (rc == CO_CANCELED) {
        return co_err_set(err, rc, "\"%s\" is read no longer", path);
    }
    if (rc < 0) {
        return co_err_set(err, CO_UNAVAILABLE,
            "the command \"%.100s\" for \"%s\" runs %d s after it has closed its output", command,
            path, FILTER_MS / 1000);
    }
    reap(f, &status);
    if (status == -1) {
        return co_err_set(err, CO_UNAVAILABLE,
            "the command \"%.100s\" for \"%s\" has ended, and nobody knows how: this program "
            "ignores SIGCHLD, or waits for all children",
            command, path);
    }
    if (status != 0) {
        return co_err_set(err, CO_UNAVAILABLE, "the command \"%.100s\" for \"%s\" ended with %s %d",
            command, path, WIFSIGNALED(status) ? "signal" : "exit code",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return 0;
}

void co_filter_done(struct co_filter *f) {
    int status = 0;

    if (f->pid > 0) {
        (void)kill(-f->pid, SIGKILL);
        reap(f, &status);
    }
    co_closep(&f->pidfd);
    co_closep(&f->out);
    *f = CO_FILTER_NONE;
}
