/* The state machine of a job on one node.  See run.h.
 *
 *     TUNING -> MEETING                                            with --auto_parallel_config
 *     MEETING -> RUNNING -> COMPLETED or RESTARTING
 *     RUNNING, COMPLETED, RESTARTING -> REGROUPING -> MEETING      another round
 *     any state -> OVER                                            the end */
#include "runtime/launch/node/run.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/loop.h"
#include "runtime/launch/job/report.h"
#include "runtime/launch/job/tuner.h"
#include "runtime/launch/job/value.h"
#include "runtime/launch/node/log_lines.h"
#include "runtime/launch/node/processes.h"
#include "runtime/launch/process/signals.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/launch/process/training_end.h"
#include "runtime/launch/rendezvous/rendezvous.h"

enum {
    SECOND_SIGNAL_MS = 10000, /* as Paddle says it */
    TUNER_FILE_MAX = 1 << 20,
};

/* The state of this node's part in the job. */
enum course_state {
    TUNING,    /* the program runs alone, as the tuner, before there are other nodes */
    MEETING,   /* no process runs; the next round is about to start */
    RUNNING,   /* the round's processes run */
    COMPLETED, /* its workers ended well; servers may keep running for the workers of other nodes */
    RESTARTING, /* a process failed and a restart of all nodes was asked for */
    REGROUPING, /* nodes changed: processes are stopped, then the nodes meet again */
    OVER,       /* the exit code is final; waits for processes, other nodes and stdout */
};

struct course {
    struct node_run_options options;
    const struct job *job;
    const struct node_log *say;
    struct co_loop *loop;
    struct node_processes *round;
    struct rdzv *rdzv; /* NULL: there is no rendezvous, or not any more */
    struct proc_training_end
        *training_end; /* NULL: the operator is not asked whether training is over */
    enum course_state state;
    enum job_tuner tuner;
    int n_rounds;
    int log_claim; /* of the folder of log files; -1: none */
    struct proc_signals signals;
    int64_t stop_ms;         /* from SIGTERM to SIGKILL */
    struct node_run_end end; /* code is that of the failed process, or 0, until OVER sets it */
};

static void set_state(struct course *c, enum course_state next) {
    static const unsigned from[] = {
        [MEETING] = 1U << TUNING | 1U << REGROUPING,
        [RUNNING] = 1U << MEETING,
        [COMPLETED] = 1U << RUNNING,
        [RESTARTING] = 1U << RUNNING,
        [REGROUPING] = 1U << RUNNING | 1U << COMPLETED | 1U << RESTARTING,
        [OVER] = ~(1U << OVER),
    };
    assert(from[next] & 1U << c->state);
    c->state = next;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void stop_when_all_is_over(struct course *c) {
    if (c->state == OVER && !c->rdzv && !node_processes_running(c->round) &&
        !node_processes_echoing(c->round)) {
        co_loop_stop(c->loop);
    }
}

static void on_others_notified(void *arg) {
    struct course *c = arg;
    rdzv_close(co_steal_ptr(c->rdzv));
    stop_when_all_is_over(c);
}

/* Ends the job on this node: stops the processes and notifies the other nodes at once, not only
 * when the last process has ended.  Only the first call sets the exit code. */
static void end_course(struct course *c, int code, const char *why) {
    const bool first = c->state != OVER;
    if (first) {
        set_state(c, OVER);
        c->end.code = code;
        (void)snprintf(c->end.why, sizeof(c->end.why), "%s", why);
    }
    node_processes_stop(c->round, c->stop_ms);
    if (first && c->rdzv) {
        rdzv_leave(c->rdzv, c->end.signo ? -1 : code, why, on_others_notified);
    }
    stop_when_all_is_over(c);
}

static void end_by_error(struct course *c, int code, const struct co_err *err) {
    node_log(c->say, NODE_LOG_ERROR, "%s", co_err_text(err));
    end_course(c, code, co_err_text(err));
}

/* ---- rounds ------------------------------------------------------------------------------ */

/* Makes the plan and starts its processes.  offers and values are those of all nodes, by rank. */
static void start_round(struct course *c, const struct job_offer *offers, const char *const *values,
    size_t n, size_t self) {
    const char *tmp = co_contract_getenv_of("TMPDIR");
    CO_AUTOFREE char *scratch = co_xasprintf(
        "%s/paddlerun-gloo-%s-%d", tmp ? tmp : "/tmp", c->job->node->pod, ++c->n_rounds);
    struct co_err err = {0};
    struct job_plan plan;
    int r = job_plan_make(c->job, offers, n, self, scratch, &plan, &err);
    if (r) {
        end_by_error(c, 1, &err);
        return;
    }
    plan.restarts = (size_t)c->n_rounds - 1;
    node_log_lines_run(c->say, c->job, &plan);
    co_closep(&c->log_claim);
    if (node_logs_make_dir(c->say, c->job, &plan, &c->log_claim, &err)) {
        node_log(c->say, NODE_LOG_WARNING, "%s", co_err_text(&err));
    }
    node_log_lines_files(c->say, c->job, &plan, values, n);
    proc_ports_release(c->options.ports);
    set_state(c, RUNNING);
    r = node_processes_start(c->round, &plan, &err);
    if (r) {
        end_by_error(c, proc_spawn_exit_code(r), &err);
    }
}

/* The servers of a node serve the workers of all nodes: they stay until all of those have ended. */
static void workers_done(void *arg) {
    struct course *c = arg;
    if (c->state == TUNING) {
        return;
    }
    set_state(c, COMPLETED);
    if (c->job->mode != JOB_MODE_PS || c->job->discovery == JOB_DISCOVERY_GIVEN) {
        return; /* no servers: the last process has ended */
    }
    if (c->rdzv) {
        rdzv_done(c->rdzv);
    } else {
        node_processes_release_servers(c->round);
    }
}

static void process_failed(void *arg, int code, const char *why) {
    struct course *c = arg;
    if (c->rdzv && c->job->level == 1) {
        c->end.code = code;
        set_state(c, RESTARTING);
        rdzv_restart(c->rdzv, why);
    } else {
        end_course(c, code, why);
    }
}

static void meet_again(struct course *c) {
    set_state(c, MEETING);
    rdzv_again(c->rdzv);
}

static void begin_after_tuner(struct course *c);

static void processes_gone(void *arg) {
    struct course *c = arg;
    if (c->state == TUNING) {
        begin_after_tuner(c);
    } else if (c->state == REGROUPING) {
        meet_again(c);
    } else if (c->state != RESTARTING) { /* then the rendezvous will call `changed` or `ended` */
        end_course(c, c->end.code, "");
    }
}

static void log_echoed(void *arg) {
    struct course *c = arg;
    if (c->state == TUNING) {
        begin_after_tuner(c);
    }
    stop_when_all_is_over(c);
}

/* ---- other nodes ------------------------------------------------------------------------- */

static void say_command(void *arg, const char *endpoint) {
    static const char rule[] =
        "--------------------------------------------------------------------------------\n";
    const struct course *c = arg;
    CO_AUTOFREE char *command =
        job_report_command(program_invocation_name, endpoint, c->options.argc, c->options.argv);
    CO_AUTOFREE char *text = co_xasprintf(
        "Copy the following command to other nodes to run.\n%s%s\n%s", rule, command, rule);
    node_log_out(c->say, text, strlen(text));
    if (c->job->options->origin[OPTIONS_OPT_RANK] == OPTIONS_FROM_COMMAND_LINE &&
        c->job->rank >= 0) {
        node_log(c->say, NODE_LOG_WARNING,
            "--rank set in the command may not compatible in auto mode: give each node its own");
    }
}

static void say_note(void *arg, bool warn, const char *line) {
    const struct course *c = arg;
    node_log(c->say, warn ? NODE_LOG_WARNING : NODE_LOG_INFO, "%s", line);
}

static void nodes_met(void *arg, const struct rdzv_roster *roster) {
    struct course *c = arg;
    CO_AUTOFREE const char **values = co_xcalloc(roster->n, sizeof(*values));
    CO_AUTOFREE struct job_offer *offers = co_xcalloc(roster->n, sizeof(*offers));
    struct co_err err = {0};
    int r = 0;
    if (!roster->watched) {
        node_log(c->say, NODE_LOG_INFO,
            "the master is Paddle's own: it does not report that another node failed or ended");
    }
    if (c->job->elastic) {
        node_log_lines_job(c->say, c->job, roster->n);
    }
    node_processes_forget(c->round);
    c->end.code = 0;
    for (size_t i = 0; i < roster->n && !r; i++) {
        values[i] = roster->peers[i].value;
        r = job_value_decode(c->job, i, values[i], &offers[i], &err);
    }
    if (r) {
        end_by_error(c, 1, &err);
    } else {
        start_round(c, offers, values, roster->n, roster->self);
    }
    for (size_t i = 0; i < roster->n; i++) {
        job_offer_done(&offers[i]);
    }
}

static void nodes_changed(void *arg, const char *why) {
    struct course *c = arg;
    node_log(c->say, NODE_LOG_WARNING, "nodes changed, starting again: %s", why);
    set_state(c, REGROUPING);
    if (node_processes_running(c->round)) {
        node_processes_stop(c->round, c->stop_ms);
    } else {
        meet_again(c);
    }
}

static void all_nodes_done(void *arg) {
    const struct course *c = arg;
    node_processes_stop_servers(c->round);
}

/* Workers elsewhere may still run: the servers stay for them, and the node a member. */
static void all_done_overdue(void *arg, const struct co_err *err) {
    const struct course *c = arg;
    node_log(c->say, NODE_LOG_WARNING,
        "%s: the servers of this node end when no worker is connected", co_err_text(err));
    node_processes_release_servers(c->round);
}

static void rdzv_ended(void *arg, const struct co_err *err) {
    struct course *c = arg;
    rdzv_close(co_steal_ptr(c->rdzv));
    end_by_error(c, c->end.code ? c->end.code : 1, err);
}

static int meet_others(struct course *c, struct co_err *err) {
    static const struct rdzv_fns fns = {.serving = say_command,
        .note = say_note,
        .met = nodes_met,
        .changed = nodes_changed,
        .all_done = all_nodes_done,
        .overdue = all_done_overdue,
        .ended = rdzv_ended};
    const struct options *o = c->job->options;
    const struct rdzv_options options = {.job_id = c->job->id,
        .master = c->job->master,
        .host = c->job->ip,
        .name = c->job->node->pod,
        .value = c->options.value,
        .rank = c->job->rank,
        .sort_ip = o->number[OPTIONS_OPT_SORT_IP] == 1,
        .min_nodes = c->job->nodes_min,
        .max_nodes = c->job->nodes_max,
        .level = c->job->level,
        .max_restart = (int)o->number[OPTIONS_OPT_MAX_RESTART],
        .elastic_ms = c->job->elastic_ms,
        .deadline_ms = o->number[OPTIONS_OPT_JOIN_TIMEOUT],
        .silent_ms = o->number[OPTIONS_OPT_SILENT_TIMEOUT],
        .token = c->job->token,
        .user = co_contract_getenv(CO_VAR_ETCD_USER),
        .ca_file = co_contract_getenv(CO_VAR_ETCD_CA),
        .cert_file = co_contract_getenv(CO_VAR_ETCD_CERT),
        .key_file = co_contract_getenv(CO_VAR_ETCD_KEY)};
    node_log(c->say, NODE_LOG_INFO, "Waiting peer start...");
    return rdzv_open(c->loop, &options, &fns, c, &c->rdzv, err);
}

/* ---- signals ----------------------------------------------------------------------------- */

/* The first request ends the job, the second one shortens the grace time, the third one ends it. */
static void on_stop_signal(void *arg, int signo, int n) {
    struct course *c = arg;
    if (n > 1) {
        node_log(c->say, NODE_LOG_INFO, "Force quit in 10 seconds...");
        if (node_processes_running(c->round)) {
            node_processes_stop(c->round, n > 2 ? 0 : SECOND_SIGNAL_MS);
        } else {
            co_loop_stop(c->loop); /* stdout is blocked, or the master does not answer */
        }
        return;
    }
    node_log(c->say, NODE_LOG_INFO, "Terminating with signal %d", signo);
    c->end.signo = c->state == OVER ? 0 : signo;
    char why[64];
    proc_stopped_text(signo, why, sizeof(why));
    end_course(c, 128 + signo, why);
}

static void on_pause(void *arg, bool on) {
    const struct course *c = arg;
    node_processes_pause(c->round, on);
}

static void forward_signal(void *arg, int signo) {
    const struct course *c = arg;
    node_processes_signal(c->round, signo);
}

static int take_signals(struct course *c, struct co_err *err) {
    static const int forwarded[] = {SIGUSR1, SIGUSR2, SIGWINCH};
    struct co_signal *s = NULL; /* the loop frees them */
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < CO_ARRAY_LEN(forwarded); i++) {
        CO_TRY(co_signal_new(c->loop, forwarded[i], forward_signal, c, &s, err));
    }
    c->signals = (struct proc_signals){.stop = on_stop_signal, .pause = on_pause, .arg = c};
    return proc_signals_take(&c->signals, c->loop, err);
}

/* ---- servers of a job that the operator knows ---------------------------------------------- */

static void training_over(void *arg) {
    struct course *c = arg;
    proc_training_end_free(co_steal_ptr(c->training_end));
    if (c->state != OVER) {
        node_log(c->say, NODE_LOG_INFO, "training is over, ending the servers");
        c->stop_ms =
            c->stop_ms < PROC_TRAINING_END_STOP_MS ? c->stop_ms : PROC_TRAINING_END_STOP_MS;
        end_course(c, 0, "");
    }
}

static void on_training_end(struct course *c) {
    struct co_err err = {0};
    c->training_end = proc_training_end_new(
        c->loop, co_contract_getenv(CO_VAR_TRAINING_END), training_over, c, &err);
    if (err.code) {
        node_log(c->say, NODE_LOG_WARNING, "cannot learn when training is over: %s", err.msg);
    }
}

/* ---- the tuner ---------------------------------------------------------------------------- */

static int read_tuner(const struct job *j, enum job_tuner *ret, struct co_err *err) {
    const char *path = j->options->text[OPTIONS_OPT_AUTO_PARALLEL_CONFIG];
    CO_AUTOBUF struct co_buf b = CO_BUF(TUNER_FILE_MAX);
    *ret = JOB_TUNER_NONE;
    if (!path || j->mode != JOB_MODE_COLLECTIVE) {
        return 0;
    }
    int r = co_file_read(path, TUNER_FILE_MAX, &b, err);
    if (!r) {
        r = job_tuner_read(b.data, b.len, ret, err);
    }
    return r ? co_err_wrap(err, "--auto_parallel_config \"%.200s\"", path) : 0;
}

static int start_tuner(struct course *c, struct co_err *err) {
    CO_CLEANUP(proc_ports_done) struct proc_ports own = {.n = 0};
    struct proc_ports_range range;
    struct job_plan plan;
    CO_TRY(proc_ports_range(&range, err));
    CO_TRY(proc_ports_hold(&range, 1, 0, &own, err)); /* also when the workers' are fixed */
    job_tuner_plan(c->job, own.port[0], &plan);
    int r = node_logs_make_dir(c->say, c->job, &plan, &c->log_claim, err);
    if (r) {
        node_log(c->say, NODE_LOG_WARNING, "%s", co_err_text(err));
    }
    node_log(c->say, NODE_LOG_INFO, "tuner_run_mode is: %s",
        c->tuner == JOB_TUNER_ONLY ? "tuner_only" : "tuner_and_run");
    proc_ports_release(&own);
    return node_processes_start(c->round, &plan, err);
}

/* ---- from the beginning to the end ------------------------------------------------------- */

static int begin_rounds(struct course *c, struct co_err *err) {
    if (c->job->discovery == JOB_DISCOVERY_MEET) {
        return meet_others(c, err);
    }
    start_round(c, c->options.own, &c->options.value, c->options.value ? 1 : 0, 0);
    return 0;
}

/* Once it has ended, and all that it printed is on stdout. */
static void begin_after_tuner(struct course *c) {
    struct co_err err = {0};
    if (node_processes_running(c->round) || node_processes_echoing(c->round)) {
        return;
    }
    if (c->tuner == JOB_TUNER_ONLY) {
        end_course(c, 0, "");
        return;
    }
    set_state(c, MEETING);
    if (begin_rounds(c, &err)) {
        end_by_error(c, 1, &err);
    }
}

static int begin_course(struct course *c, struct co_err *err) {
    static const struct node_processes_fns fns = {.workers_done = workers_done,
        .failed = process_failed,
        .gone = processes_gone,
        .echoed = log_echoed};
    CO_TRY(read_tuner(c->job, &c->tuner, err));
    CO_TRY(co_loop_new(&c->loop, err));
    CO_TRY(take_signals(c, err));
    CO_TRY(node_processes_new(c->loop, c->say, c->job, &fns, c, &c->round, err));
    on_training_end(c);
    node_log_lines_begin(c->say, c->job);
    node_log_lines_job(c->say, c->job, 0);
    if (c->tuner != JOB_TUNER_NONE) {
        return start_tuner(c, err);
    }
    set_state(c, MEETING);
    return begin_rounds(c, err);
}

static void log_end(struct course *c) {
    struct node_run_end *end = &c->end;
    node_processes_show_failed(c->round);
    if (!end->signo) {
        end->len = node_processes_failed_tail(c->round, end->log, sizeof(end->log));
    }
    if (end->signo) {
        node_log(c->say, NODE_LOG_INFO, "Exit with signal %d", end->signo);
    } else {
        node_log_lines_end(c->say, c->job, end->code);
    }
}

int node_run_job(
    const struct node_run_options *options, struct node_run_end *ret, struct co_err *err) {
    struct course c = {.options = *options,
        .job = options->job,
        .say = options->say,
        .log_claim = -1,
        .stop_ms = options->job->options->number[OPTIONS_OPT_STOP_TIMEOUT]};
    int r = begin_course(&c, err);
    if (!r) {
        co_loop_run(c.loop);
        log_end(&c);
        *ret = c.end;
    }
    proc_training_end_free(c.training_end);
    rdzv_close(c.rdzv);
    node_processes_free(c.round);
    co_closep(&c.log_claim);
    if (c.loop) {
        co_loop_free(c.loop);
    }
    return r;
}
