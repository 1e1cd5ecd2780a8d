/* Puts a launch together: options, machine, job, ports, then the course.  See launch.h. */
#include "runtime/launch/node/launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/loop.h"
#include "runtime/launch/job/node_plan.h"
#include "runtime/launch/job/report.h"
#include "runtime/launch/job/torchrun.h"
#include "runtime/launch/job/value.h"
#include "runtime/launch/node/machine.h"
#include "runtime/launch/node/run.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/launch/process/termination.h"

enum { USAGE = 2, TEXT_MAX = 1 << 24 };

static const char *early_log; /* the container's termination log, for a signal's handler */

struct launch {
    const struct options *options;
    struct node_log say;
    struct job_node node;
    struct job job;
    struct proc_ports ports;
    struct job_offer own; /* this node's endpoints */
    char *value;          /* the same as the JSON for other nodes; NULL: none are needed */
};

static const char *get_from_environ(void *arg, const char *name) {
    (void)arg;
    return co_contract_getenv_of(name);
}

/* ---- signals before the course begins ---------------------------------------------------------
 */

/* Nothing is to be undone yet.  Only async-signal-safe calls. */
static void stop_early(int signo) {
    proc_termination_stopped(early_log, signo);
    _exit(128 + signo);
}

/* A lookup of this machine's address may take a while, and the kernel hands PID 1 only signals that
 * it has handlers for: without one, a container's launcher would ignore a SIGTERM of that time. The
 * course takes the handlers over. */
static void handle_signals(const char *log) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    struct sigaction stop = {.sa_handler = stop_early};
    early_log = log;
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        if (!co_signal_ignored(signals[i])) {
            (void)sigaction(signals[i], &stop, NULL);
        }
    }
}

/* ---- */

static int hold_ports(struct launch *l, struct co_err *err) {
    struct proc_ports_range range;
    if (!l->job.n_ports) {
        return 0;
    }
    CO_TRY(proc_ports_range(&range, err));
    /* Several nodes on one host must not use the same fixed ports: each begins at its rank beyond
     * the first, as under Paddle's launcher. */
    bool counts_on = range.fixed && l->job.mode == JOB_MODE_COLLECTIVE && l->job.rank > 0;
    range.fixed += counts_on ? (unsigned)l->job.rank : 0;
    CO_TRY(proc_ports_hold(&range, l->job.n_ports, job_offer_spare(&l->job), &l->ports, err));
    job_offer_make(&l->job, l->ports.port, &l->own);
    l->value = job_value_encode(&l->job, &l->own);
    return 0;
}

/* An address of another node, from the options.  When they only say that there are other nodes, an
 * address outside this machine's networks.  NULL: there are none.  The caller frees. */
static char *find_others(const struct options *o) {
    static const enum options_option ids[] = {OPTIONS_OPT_MASTER, OPTIONS_OPT_ELASTIC_SERVER,
        OPTIONS_OPT_IPS, OPTIONS_OPT_SERVERS, OPTIONS_OPT_TRAINERS, OPTIONS_OPT_WORKERS};
    for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
        if (options_option_has(o, ids[i]) && options_option_given(o, ids[i])) {
            const char *text = o->text[ids[i]];
            return co_xasprintf(
                "%.*s%s", (int)strcspn(text, ","), text, ids[i] == OPTIONS_OPT_IPS ? ":1" : "");
        }
    }
    bool several =
        strcmp(o->text[OPTIONS_OPT_NNODES], "1") != 0 || options_option_has(o, OPTIONS_OPT_NP);
    return several ? co_xstrdup("198.51.100.1:9") : NULL; /* reserved for examples by RFC 5737 */
}

static int plan_job(struct launch *l, struct co_err *err) {
    const struct options *o = l->options;
    /* A DNS resolver may take seconds: the address is looked up only when it is needed. */
    const char *host = o->text[OPTIONS_OPT_HOST];
    CO_AUTOFREE char *elsewhere = find_others(o);
    node_look(elsewhere, !(host && strchr(host, '.')), &l->node);
    CO_TRY(job_plan(o, &l->node, get_from_environ, NULL, &l->job, err));
    return hold_ports(l, err);
}

static int print_plan(const struct launch *l, struct co_err *err) {
    CO_CLEANUP(job_plan_done) struct job_plan plan = {.n = 0};
    CO_CLEANUP(job_env_done) struct job_env inherited = {0};
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    CO_TRY(job_plan_make(&l->job, &l->own, l->value ? 1 : 0, 0, "/tmp/paddlerun-gloo", &plan, err));
    job_env_inherit(&inherited, environ, true);
    for (size_t i = 0; i < plan.n; i++) {
        job_torchrun_variables(&l->job, &plan, &plan.process[i], &inherited, &plan.process[i].set);
    }
    if (l->job.discovery == JOB_DISCOVERY_MEET) {
        CO_TRY(co_buf_adds(
            &b, "# as if this node were alone: the others are known once they meet\n", err));
    }
    CO_TRY(job_report_plan(&plan, &b, err));
    node_log_out(&l->say, b.data, b.len);
    return 0;
}

static int run_job(
    struct launch *l, int argc, char *const argv[], struct node_run_end *ret, struct co_err *err) {
    const struct node_run_options options = {.job = &l->job,
        .say = &l->say,
        .own = l->value ? &l->own : NULL,
        .value = l->value,
        .ports = &l->ports,
        .argc = argc,
        .argv = argv};
    return node_run_job(&options, ret, err);
}

/* Writes the reason into the container's termination log, where Kubernetes shows it. */
static void explain_end(const struct options *o, const struct node_run_end *end) {
    struct proc_tail tail = {0};
    proc_tail_add(&tail, end->log, end->len);
    const char *lines = proc_tail_text(&tail);
    char why[512];
    proc_tail_cause(&tail, why, sizeof(why));
    CO_AUTOFREE char *cause = co_xasprintf("%s%s%s", end->why, *why ? ": " : "", why);
    proc_termination_write(o->text[OPTIONS_OPT_TERMINATION_LOG], lines, cause);
}

int node_launch_run(const struct options *o, int argc, char *const argv[]) {
    struct launch l = {.options = o};
    struct node_run_end end = {.code = 0};
    struct co_err err = {0};
    handle_signals(o->text[OPTIONS_OPT_TERMINATION_LOG]);
    proc_files_raise();
    node_log_open(o, &l.say);
    node_log_out(&l.say, o->notes.data ? o->notes.data : "", o->notes.len);
    int r = plan_job(&l, &err);
    bool usage = r != 0;
    if (!r) {
        r = o->number[OPTIONS_OPT_DRY_RUN] == 1 ? print_plan(&l, &err)
                                                : run_job(&l, argc, argv, &end, &err);
    }
    if (r) {
        node_log(&l.say, NODE_LOG_ERROR, "%s", co_err_text(&err));
        end.code = usage || r == CO_INVALID ? USAGE : 1;
        (void)snprintf(end.why, sizeof(end.why), "%s", co_err_text(&err));
    }
    if (end.code) {
        explain_end(o, &end);
    }
    proc_ports_done(&l.ports);
    job_done(&l.job);
    node_done(&l.node);
    node_log_close(&l.say);
    job_offer_done(&l.own);
    free(l.value);
    return end.code;
}
