/* Opens, echoes and reads the log files of a round.  See logs.h. */
#include "runtime/launch/node/logs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/launch/process/childlog.h"

struct rl_logs {
    struct co_loop *loop;
    const struct rl_say *say;
    const struct rl_job *job;
    const struct rl_plan *plan;
    struct rl_childlog **log; /* of plan->process[i]; NULL: it writes to this process's output */
    bool anew, echoing;
    void (*echoed)(void *arg);
    void *arg;
};

/* ---- the folder -------------------------------------------------------------------------- */

static const char *log_dir(const struct rl_job *j) {
    return j->options->text[RL_OPT_LOG_DIR];
}

static int make_dirs(const char *path, struct co_err *err) {
    CO_AUTOFREE char *dir = co_xstrdup(path);
    for (char *p = dir + 1;; p++) {
        char c = *p;
        if (c && c != '/') {
            continue;
        }
        *p = '\0';
        if (mkdir(dir, 0777) && errno != EEXIST) {
            return co_err_errno(
                err, errno, "log_dir \"%.300s\": cannot make \"%.300s\"", path, dir);
        }
        *p = c;
        if (!c) {
            return 0;
        }
    }
}

/* A job's ID may have slashes and is part of file names, so it may need folders of its own. */
int rl_logs_make_dir(const struct rl_job *j, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", log_dir(j), j->id);
    *strrchr(path, '/') = '\0';
    return *log_dir(j) ? make_dirs(path, err) : 0;
}

void rl_logs_say_if_full(const struct rl_logs *g) {
    struct statvfs v;
    const char *dir = log_dir(g->job);
    if (*dir && statvfs(dir, &v) == 0 && v.f_bavail == 0) {
        rl_say(g->say, RL_SAY_ERROR, "log_dir \"%s\": no space left on its disk, which may be why",
            dir);
    }
}

/* ---- one process ------------------------------------------------------------------------- */

static void log_lost(void *arg, const struct co_err *err) {
    const struct rl_logs *g = arg;
    rl_say(g->say, RL_SAY_WARNING, "%s: the child goes on, what it prints now is lost",
        co_err_text(err));
}

static void echo_done(void *arg) {
    struct rl_logs *g = arg;
    g->echoing = false;
    g->echoed(g->arg);
}

/* The new launchers show their first process; fleetrun shows none when there are servers. */
static bool is_echoed(const struct rl_job *j, size_t i) {
    return i == 0 && !(j->format == RL_FORMAT_2_0 && j->mode == RL_MODE_PS);
}

int rl_logs_open(struct rl_logs *g, size_t i) {
    const struct rl_options *o = g->job->options;
    if (!*log_dir(g->job)) {
        return -1;
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", log_dir(g->job), g->plan->process[i].log);
    const struct rl_childlog_options options = {.path = path,
        .overwrite = g->anew && o->number[RL_OPT_LOG_OVERWRITE] == 1,
        .max_size = o->number[RL_OPT_LOG_MAX_SIZE],
        .lost = log_lost,
        .arg = g};
    struct co_err err = {0};
    int r = rl_childlog_open(g->loop, &options, &g->log[i], &err);
    if (!r && is_echoed(g->job, i)) {
        r = rl_childlog_echo(g->log[i], STDOUT_FILENO, echo_done, g, &err);
    }
    if (r) {
        rl_say(g->say, RL_SAY_WARNING, "%s", co_err_text(&err));
    }
    return g->log[i] ? rl_childlog_fd(g->log[i]) : -1;
}

void rl_logs_started(struct rl_logs *g, size_t i) {
    if (g->log[i]) {
        rl_childlog_started(g->log[i]);
    }
}

void rl_logs_finish(struct rl_logs *g, size_t i) {
    if (g->log[i] && rl_childlog_finish(g->log[i])) {
        g->echoing = true;
    }
}

bool rl_logs_echoing(const struct rl_logs *g) {
    return g->echoing;
}

const char *rl_logs_path(const struct rl_logs *g, size_t i) {
    return g->log[i] ? rl_childlog_path(g->log[i]) : "None";
}

size_t rl_logs_tail(const struct rl_logs *g, size_t i, char *ret, size_t size) {
    return g->log[i] ? rl_childlog_tail(g->log[i], ret, size) : 0;
}

/* ---- all of them ------------------------------------------------------------------------- */

struct rl_logs *rl_logs_new(struct co_loop *l, const struct rl_say *say, const struct rl_job *j,
    const struct rl_plan *p, bool anew, void (*echoed)(void *arg), void *arg) {
    struct rl_logs *g = co_xcalloc(1, sizeof(*g));
    *g = (struct rl_logs){.loop = l,
        .say = say,
        .job = j,
        .plan = p,
        .log = co_xcalloc(p->n, sizeof(struct rl_childlog *)),
        .anew = anew,
        .echoed = echoed,
        .arg = arg};
    return g;
}

void rl_logs_free(struct rl_logs *g) {
    if (!g) {
        return;
    }
    for (size_t i = 0; i < g->plan->n; i++) {
        rl_childlog_close(g->log[i]);
    }
    free(g->log);
    free(g);
}
