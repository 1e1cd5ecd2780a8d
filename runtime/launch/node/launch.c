#include "runtime/launch/node/launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/launch/node/launch_internal.h"
#include "runtime/launch/node/story.h"
#include "runtime/launch/process/tail.h"
#include "runtime/launch/process/termination.h"
#include "runtime/launch/job/report.h"
#include "runtime/launch/job/value.h"

enum {
    USAGE = 2,
    SECOND_SIGNAL_MS = 10000, /* as Paddle says it */
    TEXT_MAX = 1 << 24,
};

/* ---- the end ----------------------------------------------------------------------------- */

int64_t rl_launch_grace(const struct rl_launch *l) {
    return l->options->number[RL_OPT_STOP_TIMEOUT];
}

static void parted(void *arg) {
    struct rl_launch *l = arg;
    rl_rdzv_close(l->rdzv);
    l->rdzv = NULL;
    l->parting = false;
    rl_launch_try_finish(l);
}

/* The others shall know at once, not when the last of our processes has ended. */
static void part(struct rl_launch *l, int code, const char *why) {
    if (l->rdzv && !l->parting) {
        l->parting = true;
        rl_rdzv_leave(l->rdzv, l->signo ? -1 : code, why, parted);
    }
}

void rl_launch_end(struct rl_launch *l, int code, const char *why) {
    if (!l->over) {
        l->over = true;
        l->again = false;
        l->code = code;
        (void)snprintf(l->why, sizeof(l->why), "%s", why);
    }
    if (l->running) {
        rl_children_stop(l->children, rl_launch_grace(l));
    }
    part(l, code, why);
    rl_launch_try_finish(l);
}

void rl_launch_error(struct rl_launch *l, int code, const struct co_err *err) {
    rl_say(&l->say, RL_SAY_ERROR, "%s", co_err_text(err));
    rl_launch_end(l, code, co_err_text(err));
}

void rl_launch_try_finish(struct rl_launch *l) {
    if (l->over && !l->running && !l->parting && !l->echoing) {
        co_loop_stop(l->loop);
    }
}

/* ---- other nodes ------------------------------------------------------------------------- */

static void serving(void *arg, const char *endpoint) {
    static const char rule[] =
        "--------------------------------------------------------------------------------\n";
    const struct rl_launch *l = arg;
    CO_AUTOFREE char *command = rl_report_command(endpoint, l->argc, l->argv);
    CO_AUTOFREE char *text = co_xasprintf(
        "Copy the following command to other nodes to run.\n%s%s\n%s", rule, command, rule);
    rl_say_out(&l->say, text, strlen(text));
    if (l->options->origin[RL_OPT_RANK] == RL_FROM_COMMAND_LINE && l->job.rank >= 0) {
        rl_say(&l->say, RL_SAY_WARNING,
            "--rank set in the command may not compatible in auto mode: give each node its own");
    }
}

static void note(void *arg, bool warn, const char *line) {
    const struct rl_launch *l = arg;
    rl_say(&l->say, warn ? RL_SAY_WARNING : RL_SAY_INFO, "%s", line);
}

static void met(void *arg, const struct rl_rdzv_roster *roster) {
    struct rl_launch *l = arg;
    CO_AUTOFREE const char **values = co_xcalloc(roster->n, sizeof(*values));
    for (size_t i = 0; i < roster->n; i++) {
        values[i] = roster->peers[i].value;
    }
    if (!roster->watched) {
        rl_say(&l->say, RL_SAY_INFO,
            "the master is Paddle's own: it will not tell when another node fails or ends");
    }
    if (l->job.elastic) {
        rl_story_job(&l->say, &l->job, roster->n);
    }
    CO_AUTOFREE struct rl_offer *offers = co_xcalloc(roster->n, sizeof(*offers));
    struct co_err err = {0};
    int r = 0;
    for (size_t i = 0; i < roster->n && !r; i++) {
        r = rl_value_decode(&l->job, i, values[i], &offers[i], &err);
    }
    if (r) {
        rl_launch_error(l, 1, &err);
    } else {
        rl_round_start(l, offers, values, roster->n, roster->self);
    }
    for (size_t i = 0; i < roster->n; i++) {
        rl_offer_done(&offers[i]);
    }
}

static void changed(void *arg, const char *why) {
    struct rl_launch *l = arg;
    rl_say(&l->say, RL_SAY_WARNING, "nodes changed, starting again: %s", why);
    l->again = true;
    if (l->running) {
        rl_children_stop(l->children, rl_launch_grace(l));
    } else if (!l->over) {
        rl_rdzv_again(l->rdzv, NULL);
    }
}

static void all_done(void *arg) {
    rl_round_stop_servers(arg);
}

static void rdzv_ended(void *arg, const struct co_err *err) {
    struct rl_launch *l = arg;
    rl_rdzv_close(l->rdzv);
    l->rdzv = NULL;
    l->completed = false;
    rl_launch_error(l, l->code ? l->code : 1, err);
}

static int meet(struct rl_launch *l, struct co_err *err) {
    static const struct rl_rdzv_fns fns = {.serving = serving,
        .note = note,
        .met = met,
        .changed = changed,
        .all_done = all_done,
        .ended = rdzv_ended};
    const struct rl_options *o = l->options;
    const struct rl_rdzv_options options = {.job_id = l->job.id,
        .master = l->job.master,
        .host = l->job.ip,
        .name = l->node.pod,
        .value = l->value,
        .rank = l->job.rank,
        .sort_ip = o->number[RL_OPT_SORT_IP] == 1,
        .min_nodes = l->job.nodes_min,
        .max_nodes = l->job.nodes_max,
        .level = l->job.level,
        .max_restart = (int)o->number[RL_OPT_MAX_RESTART],
        .elastic_ms = l->job.elastic_ms,
        .deadline_ms = o->number[RL_OPT_JOIN_TIMEOUT],
        .silent_ms = o->number[RL_OPT_SILENT_TIMEOUT],
        .user = getenv("PADDLE_ETCD_USER"),
        .ca_file = getenv("PADDLE_ETCD_CA"),
        .cert_file = getenv("PADDLE_ETCD_CERT"),
        .key_file = getenv("PADDLE_ETCD_KEY")};
    rl_say(&l->say, RL_SAY_INFO, "Waiting peer start...");
    return rl_rdzv_open(l->loop, &options, &fns, l, &l->rdzv, err);
}

/* ---- signals ----------------------------------------------------------------------------- */

/* The first one ends the job, the second shortens the wait, a third waits no more. */
static void told_to_stop(void *arg, int signo) {
    struct rl_launch *l = arg;
    if (++l->n_signals > 1) {
        rl_say(&l->say, RL_SAY_INFO, "Force quit in 10 seconds...");
        if (l->running) {
            rl_children_stop(l->children, l->n_signals > 2 ? 0 : SECOND_SIGNAL_MS);
        } else {
            co_loop_stop(l->loop); /* nobody reads stdout, or the master hangs */
        }
        return;
    }
    rl_say(&l->say, RL_SAY_INFO, "Terminating with signal %d", signo);
    if (!l->over) {
        l->signo = signo;
        l->completed = false;
    }
    char why[64];
    const char *name = sigabbrev_np(signo);
    (void)snprintf(why, sizeof(why), "told to stop by SIG%s", name ? name : "?");
    rl_launch_end(l, signo, why);
}

static void forward(void *arg, int signo) {
    const struct rl_launch *l = arg;
    if (l->running) {
        rl_children_signal(l->children, signo);
    }
}

static int take_signals(struct rl_launch *l, struct co_err *err) {
    static const struct {
        int signo;
        void (*fn)(void *arg, int signo);
    } rows[] = {
        {SIGTERM, told_to_stop},
        {SIGINT, told_to_stop},
        {SIGHUP, told_to_stop},
        {SIGQUIT, told_to_stop},
        {SIGUSR1, forward},
        {SIGUSR2, forward},
        {SIGWINCH, forward},
    };
    struct co_signal *s = NULL; /* all go with the loop */
    int r = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && !r; i++) {
        bool nohup = rows[i].signo == SIGHUP && co_signal_ignored(SIGHUP);
        r = nohup ? 0 : co_signal_new(l->loop, rows[i].signo, rows[i].fn, l, &s, err);
    }
    return r;
}

/* ---- from the beginning to the end ------------------------------------------------------- */

static const char *from_environ(void *arg, const char *name) {
    (void)arg;
    return getenv(name);
}

static int hold_ports(struct rl_launch *l, struct co_err *err) {
    struct rl_ports_range range;
    int r = l->job.n_ports ? rl_ports_range(&range, err) : 0;
    if (!r && l->job.n_ports) {
        r = rl_ports_hold(&range, l->job.n_ports, &l->ports, err);
    }
    if (!r && l->job.n_ports) {
        rl_offer_make(&l->job, l->ports.port, &l->own);
        l->value = rl_value_encode(&l->job, &l->own);
    }
    return r;
}

/* Where other nodes are, as far as the options tell; where they tell only that there are some, any
 * place beyond this machine's networks.  NULL: there are none.  The caller frees. */
static char *others(const struct rl_options *o) {
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
    return several ? co_xstrdup("198.51.100.1:9") : NULL; /* of RFC 5737: nobody's */
}

static int plan(struct rl_launch *l, struct co_err *err) {
    const struct rl_options *o = l->options;
    /* Asking a resolver may take seconds: only where the address counts. */
    const char *host = o->text[RL_OPT_HOST];
    CO_AUTOFREE char *elsewhere = others(o);
    rl_node_look(elsewhere, !(host && strchr(host, '.')), &l->node);
    int r = rl_job_plan(o, &l->node, from_environ, NULL, &l->job, err);
    return r ? r : hold_ports(l, err);
}

static int dry_run(struct rl_launch *l, struct co_err *err) {
    int r =
        rl_plan_make(&l->job, &l->own, l->value ? 1 : 0, 0, "/tmp/paddlerun-gloo", &l->plan, err);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    if (!r && l->job.way == RL_WAY_MEET) {
        r = co_buf_adds(
            &b, "# as if this node were alone: the others are known once they meet\n", err);
    }
    r = r ? r : rl_report_plan(&l->plan, &b, err);
    if (!r) {
        rl_say_out(&l->say, b.data, b.len);
    }
    return r;
}

static int run(struct rl_launch *l, struct co_err *err) {
    int r = co_loop_new(&l->loop, err);
    r = r ? r : take_signals(l, err);
    r = r ? r : rl_children_new(l->loop, &rl_round_fns, l, &l->children, err);
    if (r) {
        return r;
    }
    rl_story_begin(&l->say, &l->job);
    rl_story_job(&l->say, &l->job, 0);
    if (l->job.way == RL_WAY_MEET) {
        r = meet(l, err);
    } else {
        const char *const values[] = {l->value};
        rl_round_start(l, &l->own, values, l->value ? 1 : 0, 0);
    }
    if (!r) {
        co_loop_run(l->loop);
        rl_round_show_failed(l);
        if (l->signo) {
            rl_say(&l->say, RL_SAY_INFO, "Exit with signal %d", l->signo);
        } else {
            rl_story_end(&l->say, &l->job, l->completed, l->code);
        }
    }
    return r;
}

/* For whoever only sees the container's end. */
static void explain(const struct rl_launch *l) {
    char log[RL_TAIL_MAX + 1];
    struct rl_tail tail = {0};
    rl_tail_add(&tail, log, rl_round_failed_tail(l, log, sizeof(log)));
    const char *lines = rl_tail_text(&tail);
    const char *last = rl_tail_last_line(&tail);
    CO_AUTOFREE char *cause = co_xasprintf("%s%s%s", l->why, *last ? ": " : "", last);
    rl_termination_write(l->options->text[RL_OPT_TERMINATION_LOG], lines, cause);
}

int rl_launch_run(const struct rl_options *o, int argc, char *const argv[]) {
    struct rl_launch l = {.options = o, .argc = argc, .argv = argv};
    struct co_err err = {0};
    rl_files_raise();
    rl_say_open(o, &l.say);
    rl_say_out(&l.say, o->notes.data ? o->notes.data : "", o->notes.len);
    int r = plan(&l, &err);
    bool usage = r != 0;
    if (!r) {
        r = o->number[RL_OPT_DRY_RUN] == 1 ? dry_run(&l, &err) : run(&l, &err);
    }
    if (r) {
        rl_say(&l.say, RL_SAY_ERROR, "%s", co_err_text(&err));
        l.code = usage || r == CO_INVALID ? USAGE : 1;
        (void)snprintf(l.why, sizeof(l.why), "%s", co_err_text(&err));
    }
    if (l.code && !l.signo) {
        explain(&l);
    }
    rl_rdzv_close(l.rdzv);
    rl_children_free(l.children);
    rl_round_done(&l);
    if (l.loop) {
        co_loop_free(l.loop);
    }
    rl_ports_done(&l.ports);
    rl_job_done(&l.job);
    rl_node_done(&l.node);
    rl_say_close(&l.say);
    rl_offer_done(&l.own);
    free(l.value);
    return l.code;
}
