/* Puts a launch together: options, machine, job, ports, then the course.  See launch.h. */
#include "runtime/launch/node/launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/loop.h"
#include "runtime/launch/job/plan.h"
#include "runtime/launch/job/report.h"
#include "runtime/launch/job/value.h"
#include "runtime/launch/node/course.h"
#include "runtime/launch/node/node.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/launch/process/termination.h"

enum { USAGE = 2, TEXT_MAX = 1 << 24 };

static const char *early_log; /* the container's termination log, for a signal's handler */

struct launch {
    const struct rl_options *options;
    struct rl_say say;
    struct rl_node node;
    struct rl_job job;
    struct rl_ports ports;
    struct rl_offer own; /* this node's endpoints */
    char *value;         /* the same as the JSON for other nodes; NULL: none are needed */
};

static const char *get_from_environ(void *arg, const char *name) {
    (void)arg;
    return co_contract_getenv_of(name);
}

/* ---- signals before the course begins ---------------------------------------------------------
 */

/* Nothing is to be undone yet.  Only async-signal-safe calls. */
static void stop_early(int signo) {
    rl_termination_stopped(early_log, signo);
    _exit(128 + signo);
}

/* A lookup of this machine's address may take a while, and the kernel hands PID 1 only signals that
 * it has handlers for: without one, a container's launcher would not hear a SIGTERM of that time.
 * The course takes the handlers over. */
static void hear_signals(const char *log) {
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
    struct rl_ports_range range;
    int r = l->job.n_ports ? rl_ports_range(&range, err) : 0;
    if (!r && l->job.n_ports) {
        /* Several nodes on one host must not use the same fixed ports: each begins at its rank
         * beyond the first, as under Paddle's launcher. */
        bool counts_on = range.fixed && l->job.mode == RL_MODE_COLLECTIVE && l->job.rank > 0;
        range.fixed += counts_on ? (unsigned)l->job.rank : 0;
        r = rl_ports_hold(&range, l->job.n_ports, rl_offer_spare(&l->job), &l->ports, err);
    }
    if (!r && l->job.n_ports) {
        rl_offer_make(&l->job, l->ports.port, &l->own);
        l->value = rl_value_encode(&l->job, &l->own);
    }
    return r;
}

/* An address of another node, from the options.  When they only say that there are other nodes, an
 * address outside this machine's networks.  NULL: there are none.  The caller frees. */
static char *find_others(const struct rl_options *o) {
    static const enum rl_option ids[] = {RL_OPT_MASTER, RL_OPT_ELASTIC_SERVER, RL_OPT_IPS,
        RL_OPT_SERVERS, RL_OPT_TRAINERS, RL_OPT_WORKERS};
    for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
        if (rl_option_has(o, ids[i]) && rl_option_given(o, ids[i])) {
            const char *text = o->text[ids[i]];
            return co_xasprintf(
                "%.*s%s", (int)strcspn(text, ","), text, ids[i] == RL_OPT_IPS ? ":1" : "");
        }
    }
    bool several = strcmp(o->text[RL_OPT_NNODES], "1") != 0 || rl_option_has(o, RL_OPT_NP);
    return several ? co_xstrdup("198.51.100.1:9") : NULL; /* reserved for examples by RFC 5737 */
}

static int plan_job(struct launch *l, struct co_err *err) {
    const struct rl_options *o = l->options;
    /* A DNS resolver may take seconds: the address is looked up only when it is needed. */
    const char *host = o->text[RL_OPT_HOST];
    CO_AUTOFREE char *elsewhere = find_others(o);
    rl_node_look(elsewhere, !(host && strchr(host, '.')), &l->node);
    int r = rl_job_plan(o, &l->node, get_from_environ, NULL, &l->job, err);
    return r ? r : hold_ports(l, err);
}

static int print_plan(const struct launch *l, struct co_err *err) {
    struct rl_plan plan = {.n = 0};
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    int r = rl_plan_make(&l->job, &l->own, l->value ? 1 : 0, 0, "/tmp/paddlerun-gloo", &plan, err);
    if (!r && l->job.way == RL_WAY_MEET) {
        r = co_buf_adds(
            &b, "# as if this node were alone: the others are known once they meet\n", err);
    }
    r = r ? r : rl_report_plan(&plan, &b, err);
    if (!r) {
        rl_say_out(&l->say, b.data, b.len);
    }
    rl_plan_done(&plan);
    return r;
}

static int run_job(
    struct launch *l, int argc, char *const argv[], struct rl_course_end *ret, struct co_err *err) {
    const struct rl_course_options options = {.job = &l->job,
        .say = &l->say,
        .own = l->value ? &l->own : NULL,
        .value = l->value,
        .ports = &l->ports,
        .argc = argc,
        .argv = argv};
    return rl_course_run(&options, ret, err);
}

/* Writes the reason into the container's termination log, where Kubernetes shows it. */
static void explain_end(const struct rl_options *o, const struct rl_course_end *end) {
    struct rl_tail tail = {0};
    rl_tail_add(&tail, end->log, end->len);
    const char *lines = rl_tail_text(&tail);
    char why[512];
    rl_tail_cause(&tail, why, sizeof(why));
    CO_AUTOFREE char *cause = co_xasprintf("%s%s%s", end->why, *why ? ": " : "", why);
    rl_termination_write(o->text[RL_OPT_TERMINATION_LOG], lines, cause);
}

int rl_launch_run(const struct rl_options *o, int argc, char *const argv[]) {
    struct launch l = {.options = o};
    struct rl_course_end end = {.code = 0};
    struct co_err err = {0};
    hear_signals(o->text[RL_OPT_TERMINATION_LOG]);
    rl_files_raise();
    rl_say_open(o, &l.say);
    rl_say_out(&l.say, o->notes.data ? o->notes.data : "", o->notes.len);
    int r = plan_job(&l, &err);
    bool usage = r != 0;
    if (!r) {
        r = o->number[RL_OPT_DRY_RUN] == 1 ? print_plan(&l, &err)
                                           : run_job(&l, argc, argv, &end, &err);
    }
    if (r) {
        rl_say(&l.say, RL_SAY_ERROR, "%s", co_err_text(&err));
        end.code = usage || r == CO_INVALID ? USAGE : 1;
        (void)snprintf(end.why, sizeof(end.why), "%s", co_err_text(&err));
    }
    if (end.code) {
        explain_end(o, &end);
    }
    rl_ports_done(&l.ports);
    rl_job_done(&l.job);
    rl_node_done(&l.node);
    rl_say_close(&l.say);
    rl_offer_done(&l.own);
    free(l.value);
    return end.code;
}
