/* Opens, echoes and reads the log files of a round.  See logs.h. */
#include "runtime/launch/node/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/launch/process/childlog.h"
#include "runtime/launch/process/relay.h"
#include "runtime/launch/process/termination.h"

struct node_logs {
    struct co_loop *loop;
    const struct node_log *say;
    const struct job *job;
    const struct job_plan *plan;
    /* Of plan->process[i]: a file, or a relay, or neither: it writes to this process's output. */
    struct proc_childlog **log;
    struct proc_relay **relay;
    bool first_round, echoing;
    void (*echoed)(void *arg);
    void *arg;
};

/* ---- the folder -------------------------------------------------------------------------- */

/* A job's ID may have slashes and is part of file names, so it may need folders of its own. */
static int make_dir(const struct job *j, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *id = job_id_in_paths(j);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, id);
    *strrchr(path, '/') = '\0';
    return proc_childlog_make_dir(path, err);
}

/* Whether another launcher of this machine has claimed it, which ends with that process.  A file
 * system without locks has nobody's. */
static bool is_claimed(const char *dir, int *ret_claim) {
    *ret_claim = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* no wait: LOCK_NB */
    return *ret_claim >= 0 && flock(*ret_claim, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int node_logs_make_dir(const struct node_log *say, const struct job *j, struct job_plan *p,
    int *ret_claim, struct co_err *err) {
    *ret_claim = -1;
    if (!*p->log_dir) {
        return 0;
    }
    CO_TRY(make_dir(j, p->log_dir, err));
    if (!is_claimed(p->log_dir, ret_claim)) {
        return 0;
    }
    CO_AUTOFREE char *shared = p->log_dir;
    co_closep(ret_claim);
    p->log_dir = co_xasprintf("%s/%s", shared, j->node->pod);
    node_log(say, NODE_LOG_WARNING,
        "log_dir \"%s\" has the files of another launcher that runs, those of this one are in "
        "\"%s\"",
        shared, p->log_dir);
    return make_dir(j, p->log_dir, err);
}

void node_logs_say_if_full(const struct node_logs *g) {
    struct statvfs v;
    const char *dir = g->plan->log_dir;
    if (*dir && statvfs(dir, &v) == 0 && v.f_bavail == 0) {
        node_log(g->say, NODE_LOG_ERROR,
            "log_dir \"%s\": no space left on its disk, which may be why", dir);
    }
}

void node_logs_say_if_removed(const struct node_logs *g, size_t i) {
    if (g->log[i] && proc_childlog_removed(g->log[i])) {
        node_log(g->say, NODE_LOG_WARNING,
            "log \"%s\" was removed, or replaced, while its process ran: its last lines are below",
            proc_childlog_path(g->log[i]));
    }
}

/* ---- one process ------------------------------------------------------------------------- */

static void log_lost(void *arg, const struct co_err *err) {
    const struct node_logs *g = arg;
    node_log(g->say, NODE_LOG_WARNING, "%s: the child keeps running, what it prints now is lost",
        co_err_text(err));
}

static void echo_done(void *arg) {
    struct node_logs *g = arg;
    g->echoing = false;
    g->echoed(g->arg);
}

/* The new launchers show their first process; fleetrun shows none when there are servers. */
static bool is_echoed(const struct job *j, size_t i) {
    return i == 0 && !(j->format == OPTIONS_FORMAT_2_0 && j->mode == JOB_MODE_PS);
}

/* A file in this node's own folder can be found in --log_dir, too, by the name that Paddle's
 * launchers give it.  Where nodes share that folder it is the first node's; what is no link is left
 * alone, and so are file systems without links. */
static void link_name(const struct node_logs *g, const char *name) {
    const char *dir = g->job->options->text[OPTIONS_OPT_LOG_DIR];
    const char *own = g->plan->log_dir + strlen(dir);
    struct stat st;
    if (!*own || strchr(name, '/')) {
        return;
    }
    CO_AUTOFREE char *target = co_xasprintf("%s/%s", own + 1, name);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOFREE char *fresh = co_xasprintf("%s/.%s.%s", dir, name, g->job->node->pod);
    if (symlink(target, path) == 0 || errno != EEXIST || g->plan->node > 0 || lstat(path, &st) ||
        !S_ISLNK(st.st_mode)) {
        return;
    }
    if (symlink(target, fresh) == 0 && rename(fresh, path)) {
        (void)unlink(fresh);
    }
}

/* Without a file, lines are kept only where the container's termination log wants them: behind a
 * pipe a program may take its stderr for no terminal. */
static int open_relay(struct node_logs *g, size_t i) {
    struct co_err err = {0};
    if (g->relay[i]) {
        return proc_relay_fd(g->relay[i]);
    }
    if (!proc_termination_wanted(g->job->options->text[OPTIONS_OPT_TERMINATION_LOG])) {
        return -1;
    }
    if (proc_relay_new(g->loop, g->say->err, &g->relay[i], &err)) {
        node_log(g->say, NODE_LOG_WARNING, "%s", co_err_text(&err));
        return -1;
    }
    return proc_relay_fd(g->relay[i]);
}

static int open_file(struct node_logs *g, size_t i) {
    if (g->log[i]) {
        return proc_childlog_fd(g->log[i]);
    }
    const struct options *o = g->job->options;
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", g->plan->log_dir, g->plan->process[i].log);
    const struct proc_childlog_options options = {.path = path,
        .overwrite = g->first_round && o->number[OPTIONS_OPT_LOG_OVERWRITE] == 1,
        .max_size = o->number[OPTIONS_OPT_LOG_MAX_SIZE],
        .lost = log_lost,
        .arg = g};
    struct co_err err = {0};
    int r = proc_childlog_open(g->loop, &options, &g->log[i], &err);
    if (!r && is_echoed(g->job, i)) {
        r = proc_childlog_echo(g->log[i], STDOUT_FILENO, echo_done, g, &err);
    }
    if (r) {
        node_log(g->say, NODE_LOG_WARNING, "%s", co_err_text(&err));
    }
    if (g->log[i]) {
        link_name(g, g->plan->process[i].log);
    }
    return g->log[i] ? proc_childlog_fd(g->log[i]) : -1;
}

void node_logs_open(struct node_logs *g, size_t i, int *ret_out, int *ret_err) {
    const bool file = *g->plan->log_dir;
    *ret_err = file ? open_file(g, i) : open_relay(g, i);
    *ret_out = file ? *ret_err : -1;
}

void node_logs_started(struct node_logs *g, size_t i) {
    if (g->log[i]) {
        proc_childlog_started(g->log[i]);
    }
    if (g->relay[i]) {
        proc_relay_started(g->relay[i]);
    }
}

void node_logs_finish(struct node_logs *g, size_t i) {
    node_logs_started(g, i);
    if (g->log[i] && proc_childlog_finish(g->log[i])) {
        g->echoing = true;
    }
    if (g->relay[i]) {
        proc_relay_finish(g->relay[i]);
    }
}

bool node_logs_echoing(const struct node_logs *g) {
    return g->echoing;
}

const char *node_logs_path(const struct node_logs *g, size_t i) {
    return g->log[i] ? proc_childlog_path(g->log[i]) : "None";
}

size_t node_logs_tail(const struct node_logs *g, size_t i, char *ret, size_t size) {
    return g->log[i]     ? proc_childlog_tail(g->log[i], ret, size)
           : g->relay[i] ? proc_tail_copy(proc_relay_tail(g->relay[i]), ret, size)
                         : 0;
}

bool node_logs_shown(const struct node_logs *g, size_t i) {
    return !g->log[i];
}

/* ---- all of them ------------------------------------------------------------------------- */

struct node_logs *node_logs_new(struct co_loop *l, const struct node_log *say, const struct job *j,
    const struct job_plan *p, bool first_round, void (*echoed)(void *arg), void *arg) {
    struct node_logs *g = co_xcalloc(1, sizeof(*g));
    *g = (struct node_logs){.loop = l,
        .say = say,
        .job = j,
        .plan = p,
        .log = co_xcalloc(p->n, sizeof(struct proc_childlog *)),
        .relay = co_xcalloc(p->n, sizeof(struct proc_relay *)),
        .first_round = first_round,
        .echoed = echoed,
        .arg = arg};
    return g;
}

void node_logs_free(struct node_logs *g) {
    if (!g) {
        return;
    }
    for (size_t i = 0; i < g->plan->n; i++) {
        proc_childlog_close(g->log[i]);
        proc_relay_free(g->relay[i]);
    }
    free(g->log);
    free(g->relay);
    free(g);
}
