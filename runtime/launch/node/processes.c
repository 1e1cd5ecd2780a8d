/* The processes of one round on this node and the state machine of their ends.  See processes.h. */
#include "runtime/launch/node/processes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/parse.h"
#include "runtime/launch/job/torchrun.h"
#include "runtime/launch/node/child.h"
#include "runtime/launch/node/log_lines.h"
#include "runtime/launch/process/children.h"
#include "runtime/launch/process/quiet.h"

enum {
    DETAIL_BYTES = 3000, /* of a failed child's log */
    LEVEL_ALONE = 2,     /* --elastic_level: a worker that fails is started again by itself */
    QUIET_MS = 5000,     /* servers without a connection for so long are not needed */
};

struct node_processes {
    struct co_loop *loop;
    const struct node_log *say;
    const struct job *job;
    struct node_processes_fns fns;
    void *arg;
    struct proc_children *children;
    /* GONE: no process, before, between and after rounds.  WORKING: the first end that is no
     * success, or the last worker's, is news.  SERVING: the workers ended well.  STOPPING: asked to
     * end, or one has failed. */
    enum round_state { GONE, WORKING, SERVING, STOPPING } state;
    bool begun; /* a round was started before */
    struct job_plan plan;
    struct node_logs *logs;   /* of the plan's processes; NULL: no plan */
    struct proc_quiet *quiet; /* watches this node's servers for workers of others; or NULL */
    size_t n_workers;         /* processes whose end ends this node's work */
    size_t n_left;            /* of them */
    int64_t n_again;          /* workers that were started again by themselves, in all rounds */
    size_t failed;            /* the process that did; plan.n: none */
};

static int64_t stop_timeout(const struct node_processes *r) {
    return r->job->options->number[OPTIONS_OPT_STOP_TIMEOUT];
}

/* Servers and heterogeneous workers serve the trainers, and end with them. */
static bool is_worker(const struct node_processes *r, size_t i) {
    return r->job->discovery == JOB_DISCOVERY_GIVEN || r->plan.process[i].role == JOB_ROLE_TRAINER;
}

/* ---- servers ----------------------------------------------------------------------------- */

void node_processes_stop_servers(struct node_processes *r) {
    proc_quiet_free(co_steal_ptr(r->quiet));
    node_log_lines_workers_done(r->say, r->job, proc_children_running(r->children));
    if (r->state != GONE) {
        proc_children_stop(r->children, stop_timeout(r));
    }
}

static void nobody_connected(void *arg) {
    struct node_processes *r = arg;
    node_log(r->say, NODE_LOG_INFO,
        "no worker has been connected to the servers of this node for %d s", QUIET_MS / 1000);
    node_processes_stop_servers(r);
}

static void watch_connections(struct node_processes *r) {
    CO_AUTOFREE uint16_t *ports = co_xcalloc(r->plan.n, sizeof(*ports));
    size_t n = 0;
    for (size_t i = 0; i < r->plan.n; i++) {
        const struct job_process *p = &r->plan.process[i];
        struct co_hostport hp;
        const char *endpoint = r->plan.endpoints[p->role].item[p->index];
        if (p->role != JOB_ROLE_TRAINER && co_parse_hostport("server", endpoint, &hp, NULL) == 0) {
            ports[n++] = hp.port;
        }
    }
    r->quiet = proc_quiet_new(r->loop, ports, n, QUIET_MS, r->n_workers > 0, nobody_connected, r);
}

void node_processes_release_servers(struct node_processes *r) {
    if (r->plan.n_nodes == 1) {
        node_processes_stop_servers(r);
    } else if (proc_children_running(r->children)) {
        watch_connections(r);
    }
}

/* ---- the processes' ends ----------------------------------------------------------------- */

static void finish_workers(struct node_processes *r) {
    r->state = SERVING;
    r->fns.workers_done(r->arg);
}

static void fail_process(struct node_processes *r, size_t i, int status) {
    char name[64], how[64], why[160];
    job_process_name(&r->plan.process[i], name, sizeof(name));
    proc_exit_text(status, how, sizeof(how));
    (void)snprintf(why, sizeof(why), "%s: %s", name, how);
    /* First of all: the others wait for the one that is gone. */
    node_processes_stop(r, stop_timeout(r));
    node_log_lines_failed(r->say, r->job, &r->plan, i, status, node_logs_path(r->logs, i));
    node_logs_say_if_full(r->logs);
    node_logs_say_if_removed(r->logs, i);
    r->failed = i;
    r->fns.failed(r->arg, proc_exit_code(status), why);
}

/* Where one has done its work, the group of those that train may be gone, which would take in
 * another process. */
static bool may_start_again(const struct node_processes *r, size_t i) {
    return r->job->level == LEVEL_ALONE && is_worker(r, i) && r->n_left == r->n_workers &&
           r->n_again < r->job->options->number[OPTIONS_OPT_MAX_RESTART];
}

static int start_process(struct node_processes *r, size_t i, bool again, struct co_err *err);

static bool start_again(struct node_processes *r, size_t i, int status) {
    char name[64], how[64];
    struct co_err err = {0};
    job_process_name(&r->plan.process[i], name, sizeof(name));
    proc_exit_text(status, how, sizeof(how));
    r->n_again++;
    r->plan.restarts++;
    node_log(r->say, NODE_LOG_WARNING,
        "%s: %s; it is started again, restart %lld of %lld, and the others continue", name, how,
        (long long)r->n_again, (long long)r->job->options->number[OPTIONS_OPT_MAX_RESTART]);
    if (start_process(r, i, true, &err)) {
        node_log(r->say, NODE_LOG_ERROR, "%s", co_err_text(&err));
        return false;
    }
    return true;
}

static void child_ended(void *arg, size_t i, int status) {
    struct node_processes *r = arg;
    const bool failed = proc_exit_code(status) != 0;
    if (r->state == WORKING && failed && may_start_again(r, i) && start_again(r, i, status)) {
        return;
    }
    node_logs_finish(r->logs, i);
    if (r->state != WORKING) {
        return; /* how it ended means nothing */
    }
    if (failed) {
        fail_process(r, i, status);
    } else if (is_worker(r, i) && --r->n_left == 0) {
        finish_workers(r);
    }
}

static void children_killing(void *arg, size_t n, bool strays) {
    const struct node_processes *r = arg;
    node_log(r->say, NODE_LOG_WARNING, "%zu process%s%s did not end after SIGTERM: SIGKILL", n,
        n == 1 ? "" : "es", strays ? " that left their sessions" : "");
}

static void children_empty(void *arg, size_t n_lost) {
    struct node_processes *r = arg;
    r->state = GONE;
    if (n_lost) {
        node_log(r->say, NODE_LOG_ERROR, "%zu processes did not even end after SIGKILL", n_lost);
    }
    r->fns.gone(r->arg);
}

static void log_echoed(void *arg) {
    struct node_processes *r = arg;
    r->fns.echoed(r->arg);
}

/* ---- the beginning ----------------------------------------------------------------------- */

static void say_no_python(const struct job *job, struct co_err *err) {
    const char *script = job->options->text[OPTIONS_OPT_SCRIPT];
    if (job->node->python_named) {
        (void)co_err_wrap(err, "\"%.200s\" needs Python, PADDLERUN_PYTHON", script);
    } else {
        co_err_set(err, CO_NOTFOUND,
            "\"%.200s\" needs Python: there is no python3 and no python beside this program or in "
            "PATH; install one, or name it by PADDLERUN_PYTHON",
            script);
    }
}

static void say_differences(const struct node_processes *r) {
    CO_CLEANUP(job_env_done) struct job_env inherited = {0};
    CO_CLEANUP(options_list_done) struct options_list said = {0};
    job_env_inherit(&inherited, environ, true);
    job_torchrun_differences(r->job, &r->plan, &r->plan.process[0], &inherited, &said);
    for (size_t k = 0; k < said.n; k++) {
        node_log(r->say, NODE_LOG_WARNING, "%s", said.item[k]);
    }
}

static int start_process(struct node_processes *r, size_t i, bool again, struct co_err *err) {
    CO_AUTOCLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int out, errors;
    node_logs_open(r->logs, i, &out, &errors);
    CO_CLEANUP(job_env_done) struct job_env env = {0};
    node_child_env(r->job, &r->plan, &r->plan.process[i], environ, &env);
    cpu_set_t all, cores;
    const bool spread = strcmp(r->job->options->text[OPTIONS_OPT_CPU_AFFINITY], "spread") == 0 &&
                        sched_getaffinity(0, sizeof(all), &all) == 0;
    if (spread) {
        node_child_cores(&all, i, r->plan.n, &cores);
    }
    const struct proc_spawn s = {.argv = r->plan.command.item,
        .envp = env.item,
        .in = null,
        .out = out,
        .err = errors,
        .cpus = spread ? &cores : NULL,
        .session = true};
    int e = again ? proc_children_again(r->children, i, &s, err)
                  : proc_children_start(r->children, &s, err);
    if (e == CO_NOTFOUND && strcmp(s.argv[0], r->job->node->python) == 0) {
        say_no_python(r->job, err);
    }
    if (r->job->level != LEVEL_ALONE) { /* else it may be started again */
        node_logs_started(r->logs, i);
    }
    return e;
}

static int start_processes(struct node_processes *r, struct co_err *err) {
    int e = 0;
    for (size_t i = 0; i < r->plan.n && !e; i++) {
        e = start_process(r, i, false, err);
    }
    if (e) {
        node_processes_stop(r, stop_timeout(r));
    } else {
        node_log_lines_running(r->say, r->job, &r->plan);
    }
    proc_children_started(r->children);
    return e;
}

int node_processes_start(struct node_processes *r, struct job_plan *plan_own, struct co_err *err) {
    node_processes_forget(r);
    proc_children_clear(r->children);
    r->plan = *plan_own;
    *plan_own = (struct job_plan){0};
    r->logs = node_logs_new(r->loop, r->say, r->job, &r->plan, !r->begun, log_echoed, r);
    if (!r->begun && r->plan.n > 0) {
        say_differences(r);
    }
    r->begun = true;
    r->failed = r->plan.n;
    r->n_workers = 0;
    for (size_t i = 0; i < r->plan.n; i++) {
        r->n_workers += is_worker(r, i);
    }
    r->n_left = r->n_workers;
    r->state = WORKING;
    CO_TRY(start_processes(r, err));
    if (r->n_workers == 0) {
        finish_workers(r); /* servers only: the other nodes' workers decide */
    }
    return 0;
}

void node_processes_stop(struct node_processes *r, int64_t grace_ms) {
    if (r->state != GONE) {
        r->state = STOPPING;
        proc_children_stop(r->children, grace_ms);
    }
}

void node_processes_signal(struct node_processes *r, int signo) {
    if (r->state != GONE) {
        proc_children_signal(r->children, signo);
    }
}

void node_processes_pause(struct node_processes *r, bool on) {
    proc_children_pause(r->children, on);
}

/* ---- what is left of a round ------------------------------------------------------------- */

bool node_processes_running(const struct node_processes *r) {
    return r->state != GONE;
}

bool node_processes_echoing(const struct node_processes *r) {
    return r->logs && node_logs_echoing(r->logs);
}

size_t node_processes_failed_tail(const struct node_processes *r, char *ret, size_t size) {
    return r->failed < r->plan.n ? node_logs_tail(r->logs, r->failed, ret, size) : 0;
}

void node_processes_show_failed(const struct node_processes *r) {
    char text[DETAIL_BYTES + 1];
    if (r->failed < r->plan.n && !node_logs_shown(r->logs, r->failed)) {
        node_log_lines_detail(r->say, text, node_processes_failed_tail(r, text, sizeof(text)));
    }
}

void node_processes_forget(struct node_processes *r) {
    proc_quiet_free(co_steal_ptr(r->quiet));
    node_logs_free(co_steal_ptr(r->logs));
    job_plan_done(&r->plan);
}

int node_processes_new(struct co_loop *l, const struct node_log *say, const struct job *j,
    const struct node_processes_fns *fns, void *arg, struct node_processes **ret,
    struct co_err *err) {
    static const struct proc_children_fns of_children = {
        .ended = child_ended, .killing = children_killing, .empty = children_empty};
    CO_AUTOFREE struct node_processes *r = co_xcalloc(1, sizeof(*r));
    *r = (struct node_processes){.loop = l, .say = say, .job = j, .fns = *fns, .arg = arg};
    CO_TRY(proc_children_new(l, &of_children, r, &r->children, err));
    *ret = co_steal_ptr(r);
    return 0;
}

void node_processes_free(struct node_processes *r) {
    if (!r) {
        return;
    }
    proc_children_free(r->children);
    node_processes_forget(r);
    free(r);
}
