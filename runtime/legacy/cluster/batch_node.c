/* Runs one node of a batch job (batch_node.h): starts the server and the trainer, waits, returns
 * the exit code. */
#include "runtime/legacy/cluster/batch_node.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/contract.h"
#include "runtime/launch/process/childlog.h"
#include "runtime/launch/process/children.h"
#include "runtime/launch/process/signals.h"

struct batch_node {
    const struct cluster_node *what;
    struct co_loop *loop;
    struct proc_children *children;
    struct proc_signals signals;
    struct co_timer *linger;
    bool has_server, over;
    int code;
};

static void end(struct batch_node *n, int code) {
    if (!n->over) {
        n->over = true;
        n->code = code;
    }
    proc_children_stop(n->children, n->what->grace_ms);
}

static void lingered(void *arg) {
    struct batch_node *n = arg;
    (void)fprintf(stderr,
        "paddlerun: rank %u: the only trainer has ended and its server has not: stopping it\n",
        n->what->rank.rank);
    end(n, 0);
}

static void ended(void *arg, size_t i, int status) {
    struct batch_node *n = arg;
    bool server = n->has_server && i == 0;
    int code = proc_exit_code(status);
    if (n->over) {
        return;
    }
    if (code) {
        char how[64];
        proc_exit_text(status, how, sizeof(how));
        (void)fprintf(stderr, "paddlerun: rank %u: the %s: %s\n", n->what->rank.rank,
            server ? "server" : "trainer", how);
        end(n, code);
    } else if (!server && n->has_server && n->what->rank.size == 1) {
        co_timer_start(n->linger, n->what->linger_ms);
    }
}

static void empty(void *arg, size_t n_lost) {
    struct batch_node *n = arg;
    (void)n_lost;
    co_loop_stop(n->loop);
}

static void killing(void *arg, size_t count, bool strays) {
    const struct batch_node *n = arg;
    (void)fprintf(stderr,
        "paddlerun: rank %u: %zu process%s%s did not end after SIGTERM: SIGKILL\n",
        n->what->rank.rank, count, count == 1 ? "" : "es", strays ? " left behind" : "");
}

/* The second request does not wait any longer. */
static void on_stop_signal(void *arg, int signo, int times) {
    struct batch_node *n = arg;
    if (times > 1) {
        proc_children_stop(n->children, 0);
        return;
    }
    (void)fprintf(stderr,
        "paddlerun: rank %u: stopping (SIG%s; once more to kill), %.1f s to end\n",
        n->what->rank.rank, sigabbrev_np(signo), (double)n->what->grace_ms / 1000);
    end(n, 128 + signo);
}

static void on_pause(void *arg, bool on) {
    const struct batch_node *n = arg;
    proc_children_pause(n->children, on);
}

/* Batch systems announce the end of a job's time by one of these. */
static void forward_signal(void *arg, int signo) {
    const struct batch_node *n = arg;
    proc_children_signal_one(n->children, n->has_server ? 1 : 0, signo);
}

static int open_log(const struct cluster_node *n, const char *name, int *ret, struct co_err *err) {
    *ret = -1;
    if (!*n->log_dir) {
        return 0;
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/%s.log", n->log_dir, name);
    CO_TRY(proc_childlog_make_dir(n->log_dir, err));
    if (co_file_open_log(path, O_APPEND, 0666, ret, err) < 0) {
        return co_err_wrap(err, "log_dir \"%.300s\"", n->log_dir);
    }
    co_fd_wait(*ret);
    return 0;
}

static int start_program(
    struct batch_node *n, char *const argv[], const char *log, struct co_err *err) {
    CO_AUTOCLOSE int out = -1;
    CO_TRY(open_log(n->what, log, &out, err));
    const struct proc_spawn s = {.argv = argv, .in = -1, .out = out, .err = out, .session = true};
    int r = proc_children_start(n->children, &s, err);
    n->code = r ? proc_spawn_exit_code(r) : n->code;
    return r;
}

static int start_server(struct batch_node *n, struct co_err *err) {
    const struct cluster_node *w = n->what;
    CO_AUTOFREE char *trainers = co_xasprintf("--num_gradient_servers=%u", w->rank.size);
    CO_AUTOFREE char *port = co_xasprintf("--port=%" PRId64, w->port);
    CO_AUTOFREE char *dense = co_xasprintf("--ports_num=%" PRId64, w->ports_num);
    CO_AUTOFREE char *sparse =
        co_xasprintf("--ports_num_for_sparse=%" PRId64, w->ports_num_for_sparse);
    char *const argv[] = {(char *)(uintptr_t)w->pserver, trainers, port, dense, sparse, NULL};
    return start_program(n, argv, "pserver", err);
}

static void set_number(enum co_var var, int64_t value) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    (void)setenv(co_contract[var].name, text, 1);
}

/* The variables that the scripts of 0.8 to 0.12 were meant to export. */
static void set_environment(const struct cluster_node *w) {
    set_number(CO_VAR_INIT_PORT, w->port);
    set_number(CO_VAR_INIT_PORTS_NUM, w->ports_num);
    set_number(CO_VAR_INIT_PORTS_NUM_FOR_SPARSE, w->ports_num_for_sparse);
    set_number(CO_VAR_INIT_NUM_GRADIENT_SERVERS, w->rank.size);
    set_number(CO_VAR_INIT_TRAINER_ID, w->rank.rank);
    (void)setenv(co_contract[CO_VAR_INIT_PSERVERS].name, w->servers, 1);
    (void)setenv(co_contract[CO_VAR_CLUSTER_TRAIN].name, "True", 1);
    (void)setenv(co_contract[CO_VAR_INIT_USE_GPU].name, "False", 0);
    (void)setenv(co_contract[CO_VAR_INIT_TRAINER_COUNT].name, "1", 0);
}

static int take_signals(struct batch_node *n, struct co_err *err) {
    struct co_signal *s = NULL; /* the loop frees them */
    CO_TRY(co_signal_new(n->loop, SIGUSR1, forward_signal, n, &s, err));
    CO_TRY(co_signal_new(n->loop, SIGUSR2, forward_signal, n, &s, err));
    n->signals = (struct proc_signals){.stop = on_stop_signal, .pause = on_pause, .arg = n};
    return proc_signals_take(&n->signals, n->loop, err);
}

static int start_all(struct batch_node *n, struct co_err *err) {
    CO_TRY(take_signals(n, err));
    set_environment(n->what);
    n->has_server = n->what->rank.local == 0;
    if (n->has_server) {
        CO_TRY(start_server(n, err));
    }
    return start_program(n, n->what->argv, "train", err);
}

static int run_program(struct batch_node *n, struct co_err *err) {
    int r = start_all(n, err);
    if (r) {
        n->over = true;
        n->code = n->code ? n->code : 1;
        proc_children_stop(n->children, n->what->grace_ms);
    }
    proc_children_started(n->children);
    co_loop_run(n->loop);
    return r;
}

int cluster_node_run(const struct cluster_node *what, int *ret_code, struct co_err *err) {
    static const struct proc_children_fns fns = {
        .ended = ended, .killing = killing, .empty = empty};
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_CLEANUP(proc_children_freep) struct proc_children *children = NULL;
    *ret_code = 1;
    CO_TRY(co_loop_new(&loop, err));
    struct batch_node n = {.what = what, .loop = loop};
    CO_TRY(proc_children_new(loop, &fns, &n, &children, err));
    n.children = children;
    n.linger = co_timer_new(loop, lingered, &n);
    int r = run_program(&n, err);
    co_timer_free(n.linger);
    *ret_code = n.code;
    return r;
}
