/* fork, exec and the messages about them.  An error of the child's exec reaches the parent by a
 * pipe that exec closes.  See spawn.h. */
#include "runtime/launch/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"

/* The limit of open files before proc_files_raise; 0: it was not called.  A global variable, as the
 * limit belongs to the whole process, too. */
static struct rlimit files_before;

void proc_files_raise(void) {
    struct rlimit files;
    if (!files_before.rlim_cur && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files_before = files;
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* Runs in the child after fork, as the two functions below: only async-signal-safe calls. */
static void put_fd(int from, int to) {
    if (from == to) {
        (void)fcntl(to, F_SETFD, 0);
    } else if (from >= 0) {
        (void)dup2(from, to);
    }
}

/* Until execve the child still has the parent's signal handlers.  Running one here would write to
 * the parent's event loop, so they are reset before signals are unblocked. */
static void forget_handlers(void) {
    for (int signo = 1; signo < NSIG; signo++) {
        struct sigaction a;
        if (sigaction(signo, NULL, &a) == 0 && a.sa_handler != SIG_IGN && a.sa_handler != SIG_DFL) {
            (void)signal(signo, SIG_DFL);
        }
    }
}

__attribute__((noreturn)) static void run_child(
    const struct proc_spawn *s, pid_t parent, int report) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(128 + SIGKILL); /* the parent died before the prctl above */
    }
    if (s->session) {
        (void)setsid();
    } else {
        (void)setpgid(0, 0);
        if (s->foreground) { /* SIGTTOU is blocked here */
            (void)tcsetpgrp(STDIN_FILENO, getpid());
        }
    }
    if (s->cpus) {
        (void)sched_setaffinity(0, sizeof(*s->cpus), s->cpus);
    }
    put_fd(s->in, STDIN_FILENO);
    put_fd(s->out, STDOUT_FILENO);
    put_fd(s->err, STDERR_FILENO);
    if (files_before.rlim_cur) {
        (void)setrlimit(RLIMIT_NOFILE, &files_before);
    }
    if (!s->dir || chdir(s->dir) == 0) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)signal(SIGXFSZ, SIG_DFL);
        forget_handlers();
        sigset_t none;
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (s->envp) {
            environ = (char **)s->envp;
        }
        (void)execvp(s->argv[0], s->argv);
    }
    int e = errno;
    (void)!write(report, &e, sizeof(e));
    _exit(127);
}

/* A more helpful text than that of execve's errno. */
static const char *why_not(const char *what, int e) {
    struct stat st;
    if (!strchr(what, '/')) {
        return e == ENOENT ? "not in PATH (if it is in this folder: ./ before its name)"
                           : strerror(e);
    }
    if (stat(what, &st) < 0) {
        return strerror(e);
    }
    if (e == ENOENT) {
        return "the program that its first line (#!) names is not there";
    }
    return e != EACCES            ? strerror(e)
           : S_ISDIR(st.st_mode)  ? "is a directory"
           : !(st.st_mode & 0111) ? "is not executable (chmod +x)"
                                  : strerror(e);
}

static int set_start_error(const struct proc_spawn *s, int e, struct co_err *err) {
    const char *what = s->argv[0];
    if (s->dir && access(s->dir, X_OK) < 0) {
        what = s->dir;
    }
    int code = e == ENOENT ? CO_NOTFOUND : e == EACCES ? CO_PERMISSION : CO_INVALID;
    return co_err_set(
        err, code, "cannot start \"%.200s\": \"%.200s\": %s", s->argv[0], what, why_not(what, e));
}

struct proc_spawn proc_spawn_session(const char *const *argv) {
    /* execvp's argv is not const, by POSIX only for old callers. */
    return (struct proc_spawn){
        .argv = (char *const *)(uintptr_t)argv, .in = -1, .out = -1, .err = -1, .session = true};
}

int proc_spawn(const struct proc_spawn *s, pid_t *ret_pid, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    CO_AUTOCLOSE int from = ends[0];
    int to = ends[1];
    sigset_t all, before;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        run_child(s, parent, to);
    }
    int e = errno;
    co_close(to);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return co_err_errno(err, e, "fork");
    }
    if (!s->session) {
        (void)setpgid(pid, pid); /* parent and child both do it: the first one wins */
    }
    ssize_t n;
    do {
        /* no deadline: the child calls execve or ends, and waits for nothing before */
        n = read(from, &e, sizeof(e));
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof(e)) {
        /* no deadline: it has said why it ends */
        (void)waitpid(pid, NULL, 0);
        return set_start_error(s, e, err);
    }
    *ret_pid = pid;
    return 0;
}

int proc_spawn_exit_code(int code) {
    return code == CO_NOTFOUND ? 127 : 126;
}

int proc_exit_code(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void proc_exit_text(int status, char *ret_text, size_t size) {
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        (void)snprintf(ret_text, size, "killed by SIG%s%s", name ? name : "?",
            WCOREDUMP(status) ? " (core dumped)" : "");
    } else {
        (void)snprintf(ret_text, size, "exit code %d", WEXITSTATUS(status));
    }
}

void proc_stopped_text(int signo, char *ret_text, size_t size) {
    const char *name = sigabbrev_np(signo);
    (void)snprintf(ret_text, size, "stopped by SIG%s", name ? name : "?");
}

size_t proc_children_kill(int signo) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
    FILE *f = fopen(path, "re");
    size_t n = 0;
    int pid = 0;
    while (f && fscanf(f, "%d", &pid) == 1) {
        (void)kill(pid, signo);
        n++;
    }
    if (f) {
        (void)fclose(f);
    }
    return n;
}
