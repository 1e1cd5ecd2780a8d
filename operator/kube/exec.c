/* Runs a credential plugin: spawns it in a process group of its own, collects stdout and stderr,
 * and reports its result when it has exited, has printed too much, or its time is over. */
#include "operator/kube/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"

enum {
    OUTPUT_MAX = 1 << 20,
    COMPLAINT_MAX = 4096,
    TURN_MAX = 64 * 1024 /* read at a time: the capacity of a pipe */
};

/* Our end of the program's stdout or stderr. */
struct pipe_end {
    struct kube_exec_run *run;
    int fd;
    struct co_poll *poll;
    struct co_buf text;
};

struct kube_exec_run {
    const struct kube_exec *e;
    kube_exec_fn fn;
    void *arg;
    pid_t pid; /* also the id of its process group */
    int pidfd;
    struct co_poll *exit_poll;
    struct co_timer *deadline;
    struct pipe_end out, complaint; /* stdout, stderr */
    int wait_status;
    bool exited, late, too_long;
};

static void pipe_end_close(struct pipe_end *p) {
    co_poll_free(co_steal_ptr(p->poll));
    co_close(p->fd);
    p->fd = -1;
}

void kube_exec_cancel(struct kube_exec_run *r) {
    if (!r) {
        return;
    }
    if (r->pid > 0 && !r->exited) {
        kill(-r->pid, SIGKILL);
        /* no deadline: a program cannot delay SIGKILL */
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    co_poll_free(r->exit_poll);
    co_close(r->pidfd);
    co_timer_free(r->deadline);
    struct pipe_end *ends[] = {&r->out, &r->complaint};
    for (size_t i = 0; i < CO_ARRAY_LEN(ends); i++) {
        pipe_end_close(ends[i]);
        if (ends[i]->text.data) {
            explicit_bzero(ends[i]->text.data, ends[i]->text.cap);
        }
        co_buf_done(&ends[i]->text);
    }
    free(r);
}

static int judge_output(struct kube_exec_run *r, struct kube_exec_result *ret, struct co_err *err) {
    const char *said = r->complaint.text.len ? r->complaint.text.data : "";
    if (r->late) {
        return co_err_set(err, CO_TIMEOUT, "no answer within %d s", KUBE_EXEC_MS / 1000);
    }
    if (r->too_long) {
        return co_err_set(err, CO_INVALID, "it printed more than %d bytes", OUTPUT_MAX);
    }
    if (WIFSIGNALED(r->wait_status)) {
        return co_err_set(err, CO_UNAVAILABLE, "killed by signal %d", WTERMSIG(r->wait_status));
    }
    if (WEXITSTATUS(r->wait_status)) {
        return co_err_set(err, CO_UNAVAILABLE, "exit code %d%s%.400s", WEXITSTATUS(r->wait_status),
            *said ? ": " : "", said);
    }
    return kube_exec_parse(
        r->e, r->out.text.data ? r->out.text.data : "", r->out.text.len, ret, err);
}

static void end_run(struct kube_exec_run *r) {
    CO_CLEANUP(kube_exec_result_done) struct kube_exec_result result = {0};
    struct co_err err = {0};
    kube_exec_fn fn = r->fn;
    void *arg = r->arg;
    int code = judge_output(r, &result, &err);
    if (code) {
        co_err_wrap(&err, "credential plugin \"%s\"", r->e->command);
    }
    kube_exec_cancel(r);
    fn(arg, code, &result, &err);
}

/* Reads what is in the pipe.  After the program's exit this is all of its output: a grandchild that
 * keeps the pipe open is not waited for.  TURN_MAX bounds the time that a fast writer can take. */
static void drain_pipe(struct pipe_end *p) {
    struct kube_exec_run *r = p->run;
    for (size_t got = 0; got < TURN_MAX;) {
        char chunk[4096];
        /* no wait: the descriptor is non-blocking */
        ssize_t n = read(p->fd, chunk, sizeof(chunk));
        if (n > 0) {
            got += (size_t)n;
            if (co_buf_add(&p->text, chunk, (size_t)n, NULL) && p == &r->out) {
                r->too_long = true;
            }
            continue;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n == 0) {
            co_poll_set(p->poll, 0);
        }
        return;
    }
}

static void on_pipe(void *arg, int events) {
    (void)events;
    struct pipe_end *p = arg;
    drain_pipe(p);
    if (p->run->too_long) {
        end_run(p->run);
    }
}

static void program_ended(void *arg, int events) {
    (void)events;
    struct kube_exec_run *r = arg;
    pid_t got = waitpid(r->pid, &r->wait_status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) {
        return;
    }
    r->exited = true;
    if (got < 0) {
        r->wait_status = 0; /* another part of the process has reaped it: its output decides */
    }
    drain_pipe(&r->out);
    drain_pipe(&r->complaint);
    end_run(r);
}

static void on_deadline(void *arg) {
    struct kube_exec_run *r = arg;
    r->late = true;
    end_run(r);
}

/* Our environment, the plugin's variables and KUBERNETES_EXEC_INFO; of one name the later of these
 * wins. */
static char **make_environment(const struct kube_exec *e, char *info) {
    size_t n = 0, extra = 0;
    while (environ[n]) {
        n++;
    }
    while (e->env[extra]) {
        extra++;
    }
    char **env = co_xcalloc(n + extra + 2, sizeof(*env));
    size_t used = 0;
    env[used++] = info;
    for (size_t i = 0; i < extra; i++) {
        env[used++] = e->env[i];
    }
    size_t ours = used;
    for (size_t i = 0; i < n; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool given = false;
        for (size_t k = 0; k < ours && !given; k++) {
            given = !strncmp(environ[i], env[k], name);
        }
        if (!given) {
            env[used++] = environ[i];
        }
    }
    return env;
}

static char **make_arguments(const struct kube_exec *e) {
    size_t n = 0;
    while (e->args[n]) {
        n++;
    }
    char **argv = co_xcalloc(n + 2, sizeof(*argv));
    argv[0] = e->command;
    memcpy(argv + 1, e->args, n * sizeof(*argv));
    return argv;
}

static int spawn_program(struct kube_exec_run *r, int out, int complaint, struct co_err *err) {
    CO_AUTOFREE char *text = kube_exec_info(r->e);
    CO_AUTOFREE char *info = co_xasprintf("KUBERNETES_EXEC_INFO=%s", text);
    CO_AUTOFREE char **env = make_environment(r->e, info);
    CO_AUTOFREE char **argv = make_arguments(r->e);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, complaint, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(
        &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    int rc = posix_spawnp(&r->pid, r->e->command, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (rc) {
        r->pid = 0;
        const char *hint = r->e->install_hint;
        return co_err_set(err, rc == ENOENT ? CO_NOTFOUND : CO_INVALID,
            "credential plugin \"%s\": %s%s%.400s", r->e->command, strerror(rc), hint ? "; " : "",
            hint ? hint : "");
    }
    return 0;
}

static int open_pipe(struct co_loop *loop, struct kube_exec_run *r, struct pipe_end *p, size_t max,
    int *ret_child, struct co_err *err) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) {
        return co_err_errno(err, errno, "pipe");
    }
    *p = (struct pipe_end){.run = r, .fd = fds[0], .text = CO_BUF(max)};
    *ret_child = fds[1];
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK)) {
        return co_err_errno(err, errno, "pipe");
    }
    CO_TRY(co_poll_new(loop, p->fd, on_pipe, p, &p->poll, err));
    co_poll_set(p->poll, CO_POLL_IN);
    return 0;
}

static int start_program(struct co_loop *loop, struct kube_exec_run *r, struct co_err *err) {
    CO_AUTOCLOSE int out = -1;
    CO_AUTOCLOSE int complaint = -1;
    CO_TRY(open_pipe(loop, r, &r->out, OUTPUT_MAX, &out, err));
    CO_TRY(open_pipe(loop, r, &r->complaint, COMPLAINT_MAX, &complaint, err));
    CO_TRY(spawn_program(r, out, complaint, err));
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0); /* always CLOEXEC */
    if (r->pidfd < 0) {
        return co_err_errno(err, errno, "pidfd_open");
    }
    return co_poll_new(loop, r->pidfd, program_ended, r, &r->exit_poll, err);
}

int kube_exec_start(struct co_loop *loop, const struct kube_exec *e, kube_exec_fn fn, void *arg,
    struct kube_exec_run **ret, struct co_err *err) {
    struct kube_exec_run *r = co_xcalloc(1, sizeof(*r));
    *r = (struct kube_exec_run){.e = e, .fn = fn, .arg = arg, .pidfd = -1};
    r->out.fd = r->complaint.fd = -1;
    int rc = start_program(loop, r, err);
    if (rc) {
        kube_exec_cancel(r);
        return rc;
    }
    co_poll_set(r->exit_poll, CO_POLL_IN);
    r->deadline = co_timer_new(loop, on_deadline, r);
    co_timer_start(r->deadline, KUBE_EXEC_MS);
    *ret = r;
    return 0;
}
