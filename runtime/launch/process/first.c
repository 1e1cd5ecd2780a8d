/* The poll loop of a container's first process.  It waits for signals (a signalfd), for the
 * program's stderr and, on a server's pod, for the operator's report that training is over.  See
 * first.h.  It is not a co_loop, but holds one: it must wait until our stderr takes more, and that
 * may be a file, which epoll refuses. */
#include "runtime/launch/process/first.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/launch/process/tail.h"
#include "runtime/launch/process/termination.h"
#include "runtime/launch/process/training_end.h"
#include "runtime/net/net.h"

enum {
    LAST_WORDS_MS = 2000, /* after SIGKILL, for stderr that a stranger keeps open */
};

struct first {
    pid_t child;   /* the program, leader of its group; stays valid as a group after its end */
    bool running;  /* it is */
    bool alone;    /* no children left */
    bool terminal; /* its group was given ours */
    int status;    /* of the program, once it has ended */
    int asked;     /* the signal by which this process was asked to end; 0: none */
    int64_t grace_ms, deadline;
    enum { ALL_RUN, TERM_SENT, KILL_SENT } stage;
    int signals;          /* signalfd */
    struct co_loop *loop; /* of `training_end`; NULL: it is not reported */
    struct proc_training_end *training_end;
    bool trained;  /* reported, and passed on to the program */
    int stderr_in; /* pipe that is the program's stderr; -1: it writes to ours itself, or ended */
    /* At most PIPE_BUF bytes are on their way, so that a write to a pipe that polls as writable
     * never blocks: signals are served also when our stderr has no reader. */
    char held[PIPE_BUF];
    size_t n_held, n_written;
    struct proc_tail tail;
};

/* ---- stderr through our hands, for the termination log ---------------------------------- */

static void stderr_fill(struct first *f) {
    /* no wait: a poll has seen it */
    ssize_t n = read(f->stderr_in, f->held, sizeof(f->held));
    if (n > 0) {
        f->n_held = (size_t)n;
        f->n_written = 0;
        proc_tail_add(&f->tail, f->held, f->n_held);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        co_close(f->stderr_in);
        f->stderr_in = -1;
    }
}

static void stderr_drain(struct first *f) {
    ssize_t n = write(STDERR_FILENO, f->held + f->n_written, f->n_held - f->n_written);
    if (n >= 0) {
        f->n_written += (size_t)n;
    } else if (errno != EINTR && errno != EAGAIN) {
        f->n_written = f->n_held; /* it has no reader; the tail has it */
    }
    if (f->n_written == f->n_held) {
        f->n_held = 0;
    }
}

/* The program did what the signal asks for: its last lines are no reason. */
static bool obeyed(const struct first *f) {
    return f->asked && proc_exit_code(f->status) == 128 + f->asked;
}

static void explain_end(struct first *f, const char *path) {
    const char *lines = proc_tail_text(&f->tail);
    char how[64], stopped[64] = "", why[512];
    proc_exit_text(f->status, how, sizeof(how));
    proc_tail_cause(&f->tail, why, sizeof(why));
    if (f->asked) {
        proc_stopped_text(f->asked, stopped, sizeof(stopped));
    }
    if (obeyed(f)) {
        proc_termination_write(path, "", stopped);
        return;
    }
    bool how_counts = WIFSIGNALED(f->status) || f->asked || !*lines;
    bool said_last = strcmp(why, proc_tail_last_line(&f->tail)) == 0;
    CO_AUTOFREE char *cause = how_counts
                                  ? co_xasprintf("%s%s%s%s%s", stopped, f->asked ? ", then " : "",
                                        how, *why ? ": " : "", why)
                                  : co_xstrdup(said_last ? "" : why);
    proc_termination_write(path, lines, cause);
}

/* ---- children and signals ---------------------------------------------------------------- */

static void kill_left(struct first *f, int signo) {
    (void)kill(-f->child, signo);
    if (f->stage != ALL_RUN) {
        (void)proc_children_kill(signo); /* those that left the group */
    }
}

static void take_terminal_back(const struct first *f) {
    if (tcgetpgrp(STDIN_FILENO) == f->child) { /* behind `bg` it is a shell's */
        (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    }
}

/* Ctrl-Z (or a read behind `bg`) stopped the program, and its shell waits for this process to stop.
 * Without a shell that could continue it the kernel does not let SIGTSTP stop anything. */
static void stop_too(const struct first *f) {
    sigset_t tstp, before;
    sigemptyset(&tstp);
    sigaddset(&tstp, SIGTSTP);
    take_terminal_back(f);
    (void)kill(0, SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &tstp, &before); /* until SIGCONT */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) { /* not where it was continued in the background */
        (void)tcsetpgrp(STDIN_FILENO, f->child);
    }
    (void)kill(-f->child, SIGCONT);
}

static void reap_children(struct first *f) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | (f->terminal ? WUNTRACED : 0))) > 0) {
        if (WIFSTOPPED(status)) {
            int signo = WSTOPSIG(status);
            if (pid == f->child && (signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU)) {
                stop_too(f);
            }
        } else if (pid == f->child) {
            f->status = status;
            f->running = false;
            f->stage = TERM_SENT;
            f->deadline = co_now_ms() + f->grace_ms;
            kill_left(f, SIGTERM);
        } else if (f->stage == KILL_SENT) {
            kill_left(f, SIGKILL); /* its children are ours now */
        }
    }
    f->alone = pid < 0 && errno == ECHILD;
}

static void take_signals(struct first *f) {
    struct signalfd_siginfo info;
    /* no wait: the descriptor is non-blocking */
    while (read(f->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signo = (int)info.ssi_signo;
        if (signo == SIGCHLD) {
            reap_children(f);
        } else if (signo != SIGPIPE) {
            bool ends = signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
            f->asked = ends && f->running && !f->asked ? signo : f->asked;
            kill_left(f, signo);
        }
    }
}

/* ---- the end of training ------------------------------------------------------------------ */

/* Where that would wait for a reader, nothing is said. */
static void say(const char *line) {
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&p, 1, 0) > 0 && p.revents & POLLOUT) {
        (void)!write(STDERR_FILENO, line, strlen(line));
    }
}

static void training_over(void *arg) {
    struct first *f = arg;
    proc_training_end_free(co_steal_ptr(f->training_end));
    if (f->running) {
        say("paddlerun exec: training is over, ending the server\n");
        f->trained = true;
        f->deadline = co_now_ms() + PROC_TRAINING_END_STOP_MS;
        kill_left(f, SIGTERM);
    }
}

static void on_training_end(struct first *f, const char *where) {
    struct co_err err = {0};
    if (!where || !*where || co_loop_new(&f->loop, &err)) {
        return;
    }
    f->training_end = proc_training_end_new(f->loop, where, training_over, f, &err);
    if (err.code) {
        (void)fprintf(stderr, "paddlerun exec: cannot learn when training is over: %s\n", err.msg);
    }
}

/* ---- */

/* False: what still holds our end of stderr is no child of ours. */
static bool past_deadline(struct first *f) {
    if (co_now_ms() < f->deadline) {
        return true; /* a grace of months takes several waits */
    }
    if (f->stage == KILL_SENT || f->alone) {
        return false;
    }
    f->stage = KILL_SENT;
    f->deadline = co_now_ms() + LAST_WORDS_MS;
    kill_left(f, SIGKILL);
    return true;
}

/* Until the deadline, where there is one; -1: none. */
static int time_left(const struct first *f) {
    return f->running && !f->trained ? -1 : co_poll_ms(f->deadline - co_now_ms());
}

static void serve_until_alone(struct first *f) {
    while (!f->alone || f->stderr_in >= 0 || f->n_held) {
        struct pollfd p[] = {
            {.fd = f->signals, .events = POLLIN},
            {.fd = f->n_held ? -1 : f->stderr_in, .events = POLLIN},
            {.fd = f->n_held ? STDERR_FILENO : -1, .events = POLLOUT},
            {.fd = f->training_end ? co_loop_fd(f->loop) : -1, .events = POLLIN},
        };
        int left = time_left(f);
        int patience = f->training_end ? co_loop_patience(f->loop) : -1;
        bool sooner = patience >= 0 && (left < 0 || patience < left);
        int n = poll(p, CO_ARRAY_LEN(p), sooner ? patience : left);
        if (n == 0 && !sooner && !past_deadline(f)) {
            return;
        }
        if (f->training_end) {
            co_loop_serve(f->loop);
        }
        if (n > 0 && p[0].revents) {
            take_signals(f);
        }
        if (n > 0 && p[1].revents) {
            stderr_fill(f);
        }
        if (n > 0 && p[2].revents) {
            stderr_drain(f);
        }
    }
}

static int block_signals(struct first *f, struct co_err *err) {
    sigset_t set;
    sigfillset(&set);
    /* Own mistakes must end this process as ever. */
    static const int ours[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < CO_ARRAY_LEN(ours); i++) {
        sigdelset(&set, ours[i]);
    }
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
    f->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return f->signals < 0 ? co_err_errno(err, errno, "signalfd") : 0;
}

static int start_program(struct first *f, char *const argv[], bool with_pipe, struct co_err *err) {
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would hide exit codes */
    CO_TRY(block_signals(f, err));
    int ends[2] = {-1, -1};
    if (with_pipe && pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    if (getpid() != 1) {
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    struct proc_spawn s = {
        .argv = argv, .in = -1, .out = -1, .err = ends[1], .foreground = f->terminal};
    int r = proc_spawn(&s, &f->child, err);
    if (ends[1] >= 0) {
        co_close(ends[1]);
    }
    f->stderr_in = ends[0];
    f->running = r == 0;
    return r;
}

void proc_first_run(char *const argv[], const struct proc_first_options *options, int *ret_code,
    struct co_err *err) {
    struct co_err own = {0};
    err = err ? err : &own;
    const char *log = options->termination_log ? options->termination_log : PROC_TERMINATION_LOG;
    struct first f = {.grace_ms = options->grace_ms,
        .signals = -1,
        .stderr_in = -1,
        .terminal = tcgetpgrp(STDIN_FILENO) == getpgrp()};
    int r = start_program(&f, argv, proc_termination_wanted(log), err);
    if (r) {
        *ret_code = proc_spawn_exit_code(r);
        proc_termination_write(log, "", co_err_text(err));
    } else {
        on_training_end(&f, options->training_end);
        serve_until_alone(&f);
        *ret_code = f.trained ? 0 : proc_exit_code(f.status);
        if (*ret_code) {
            explain_end(&f, log);
        }
    }
    if (f.terminal) {
        take_terminal_back(&f);
    }
    proc_training_end_free(f.training_end);
    co_loop_free(f.loop);
    co_closep(&f.stderr_in);
    co_closep(&f.signals);
}
