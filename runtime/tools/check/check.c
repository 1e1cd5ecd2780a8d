/* The table of checks, and the process that each runs in.  See check.h. */
#include "runtime/tools/check/check.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cause.h"
#include "common/clock.h"
#include "common/contract.h"
#include "common/mem.h"
#include "runtime/launch/process/ports.h"
#include "runtime/launch/process/spawn.h"

enum { OUTPUT_MAX = 256 << 10, PORTS_MAX = 2 };

static const char helper_name[] = "paddle-check";

/* Either what a child of this process does, or a word of paddle-check with as many ports. */
static const struct check_row {
    const char *name;
    check_fn run;
    const char *word;
    size_t ports;
} rows[] = {
    {"clock", check_clock, NULL, 0},
    {"memory", check_memory, NULL, 0},
    {"disk", check_disk, NULL, 0},
    {"names", check_names, NULL, 0},
    {"servers", NULL, "servers", 1},
    {"reduce-shm", NULL, "shm", 2},
    {"reduce-tcp", NULL, "tcp", 2},
};
static_assert(CO_ARRAY_LEN(rows) == CHECK_COUNT, "one row a check");

bool check_helper(char *ret, size_t size) {
    char self[PATH_MAX] = "";
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = n > 0 ? strrchr(self, '/') : NULL;
    if (slash) {
        (void)snprintf(ret, size, "%.*s/%s", (int)(slash - self), self, helper_name);
    }
    return slash && access(ret, X_OK) == 0;
}

/* ---- a process with a deadline ---- */

/* A process that leads a group; what it prints comes in `from`. */
struct worker {
    pid_t pid;
    int from;
};

/* Reads until the last process that holds the pipe has ended.  CO_TIMEOUT. */
static int listen_to(
    const struct worker *w, int64_t timeout_ms, struct co_buf *text, struct co_err *err) {
    const int64_t deadline = co_now_ms() + timeout_ms;
    for (;;) {
        struct pollfd p = {.fd = w->from, .events = POLLIN};
        const int64_t left = deadline - co_now_ms();
        if (left <= 0) {
            return co_err_set(
                err, CO_TIMEOUT, "not done in %g s (--timeout)", (double)timeout_ms / 1000);
        }
        if (poll(&p, 1, co_poll_ms(left)) <= 0) {
            continue;
        }
        char some[4096];
        /* no wait: a poll has seen it */
        const ssize_t n = read(w->from, some, sizeof(some));
        if (n <= 0) {
            return 0;
        }
        CO_TRY(co_buf_add(text, some, (size_t)n, err));
    }
}

/* Kills all of its group; its status, or -1 where it cannot be had at once: a process that waits
 * for a disk does not end before that answers. */
static int end_worker(const struct worker *w, bool in_time) {
    int status = -1;
    if (in_time) {
        /* no deadline: it has closed its output, which is the last that it does */
        (void)waitpid(w->pid, &status, 0);
    }
    (void)kill(-w->pid, SIGKILL);
    if (!in_time) {
        (void)waitpid(w->pid, &status, WNOHANG);
        status = -1;
    }
    co_close(w->from);
    return status;
}

static int start_function(
    check_fn run, const struct check_options *o, struct worker *ret, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        char text[CHECK_TEXT_MAX] = "";
        (void)setpgid(0, 0);
        const enum check_result result = run(o, text);
        const ssize_t n = write(ends[1], text, strlen(text));
        _exit(n < 0 ? (int)CHECK_FAILED : (int)result);
    }
    co_close(ends[1]);
    if (pid < 0) {
        co_close(ends[0]);
        return co_err_errno(err, errno, "fork");
    }
    (void)setpgid(pid, pid);
    *ret = (struct worker){.pid = pid, .from = ends[0]};
    return 0;
}

/* Its own environment: the job's variables would send it to the job's servers, or checkpoints to
 * the job's directory.  What belongs to the machine stays.  The caller frees the list. */
static char **other_environment(void) {
    size_t n = 0, k = 0;
    while (environ[n]) {
        n++;
    }
    char **ret = co_xcalloc(n + 1, sizeof(*ret));
    for (char **e = environ; *e; e++) {
        CO_AUTOFREE char *name = co_xstrndup(*e, strcspn(*e, "="));
        if (!co_contract_of_job(name)) {
            ret[k++] = *e;
        }
    }
    return ret;
}

static int start_helper(
    const char *word, const struct proc_ports *ports, struct worker *ret, struct co_err *err) {
    char path[PATH_MAX + 32], number[PORTS_MAX][8];
    const char *argv[3 + PORTS_MAX] = {path, word};
    int ends[2];
    if (!check_helper(path, sizeof(path))) {
        return co_err_set(err, CO_NOTFOUND,
            "no %s beside this program: only the launcher is installed here", helper_name);
    }
    for (size_t i = 0; ports && i < ports->n; i++) {
        (void)snprintf(number[i], sizeof(number[i]), "%u", ports->port[i]);
        argv[2 + i] = number[i];
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    CO_AUTOFREE char **env = other_environment();
    CO_AUTOCLOSE int to = ends[1];
    struct proc_spawn s = proc_spawn_session(argv);
    s.envp = env;
    s.out = s.err = to;
    struct worker w = {.from = ends[0]};
    const int rc = proc_spawn(&s, &w.pid, err);
    if (rc < 0) {
        co_close(ends[0]);
        return rc;
    }
    *ret = w;
    return 0;
}

/* ---- a check ---- */

static int start_row(const struct check_row *row, const struct check_options *o,
    struct proc_ports *ports, struct worker *ret, struct co_err *err) {
    if (row->run) {
        return start_function(row->run, o, ret, err);
    }
    /* The ports of the environment are the job's. */
    const struct proc_ports_range range = {.first = 35100, .last = 64000};
    CO_TRY(proc_ports_hold(&range, row->ports, 0, ports, err));
    proc_ports_release(ports);
    return start_helper(row->word, ports, ret, err);
}

/* The last line, or where something is wrong the one that says what. */
static void take_line(const struct co_buf *text, bool good, struct check_outcome *ret) {
    const char *at = text->len ? text->data : "";
    size_t len = strlen(at);
    while (len > 0 && at[len - 1] == '\n') {
        len--;
    }
    if (good) {
        const char *line = memrchr(at, '\n', len);
        const char *begin = line ? line + 1 : at;
        len -= (size_t)(begin - at);
        at = begin;
    } else {
        at = co_cause_line(at, len, &len);
    }
    (void)snprintf(ret->text, sizeof(ret->text), "%.*s", (int)len, at ? at : "");
}

static void judge(
    const struct check_row *row, int status, const struct co_buf *text, struct check_outcome *ret) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool skipped = row->run && code == CHECK_SKIPPED;
    ret->result = code == CHECK_OK ? CHECK_OK : skipped ? CHECK_SKIPPED : CHECK_FAILED;
    take_line(text, ret->result != CHECK_FAILED, ret);
    if (ret->text[0] == '\0') {
        proc_exit_text(status, ret->text, sizeof(ret->text));
    }
}

static int make(const struct check_row *row, const struct check_options *o,
    struct check_outcome *ret, struct co_err *err) {
    CO_CLEANUP(proc_ports_done) struct proc_ports ports = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(OUTPUT_MAX);
    struct worker w;
    CO_TRY(start_row(row, o, &ports, &w, err));
    const int rc = listen_to(&w, o->timeout_ms, &text, err);
    const int status = end_worker(&w, rc == 0);
    if (rc == CO_TIMEOUT) {
        /* Its last words may say what it waited for. */
        take_line(&text, false, ret);
        const struct co_err late = *err;
        return ret->text[0] ? co_err_set(err, rc, "%s: %.300s", late.msg, ret->text) : rc;
    }
    CO_TRY(rc);
    judge(row, status, &text, ret);
    return 0;
}

void check_run(size_t i, const struct check_options *options, struct check_outcome *ret) {
    const int64_t begin = co_now_ms();
    struct co_err err = {0};
    *ret = (struct check_outcome){.name = rows[i].name};
    const int rc = make(&rows[i], options, ret, &err);
    if (rc < 0) {
        ret->result = rc == CO_NOTFOUND ? CHECK_SKIPPED : CHECK_FAILED;
        (void)snprintf(ret->text, sizeof(ret->text), "%s", co_err_text(&err));
    }
    ret->ms = co_now_ms() - begin;
}

int check_helper_output(const char *word, int64_t timeout_ms, char **ret_text, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(OUTPUT_MAX);
    struct worker w;
    CO_TRY(start_helper(word, NULL, &w, err));
    const int rc = listen_to(&w, timeout_ms, &text, err);
    (void)end_worker(&w, rc == 0);
    CO_TRY(rc);
    *ret_text = co_buf_take(&text);
    return 0;
}
