#include "runtime/launch/node/run.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "runtime/launch/node/node_testing.h"
#include "runtime/launch/process/training_end.h"
#include "runtime/launch/rendezvous/rendezvous.h"

/* ---- other nodes ------------------------------------------------------------------------- */

/* Stands in for runtime/launch/rendezvous/rdzv.c, and plays a row's steps, one a turn. */
struct rdzv {
    struct rdzv_fns fns;
    void *arg;
    const char *own;
    void (*gone)(void *arg);
};

static struct rdzv others;
static struct {
    struct co_loop *loop;
    struct co_timer *timer;
    char text[256], *rest; /* of the row's steps */
} script;

int rdzv_open(struct co_loop *l, const struct rdzv_options *options, const struct rdzv_fns *fns,
    void *arg, struct rdzv **ret, struct co_err *err) {
    (void)l;
    if (strcmp(options->master, "bad") == 0) {
        return co_err_set(err, CO_INVALID, "no master");
    }
    others = (struct rdzv){.fns = *fns, .arg = arg, .own = options->value};
    *ret = &others;
    return 0;
}

void rdzv_again(struct rdzv *m) {
    (void)m;
    kit_report("again");
}

void rdzv_restart(struct rdzv *m, const char *why) {
    (void)m;
    kit_report("restart(%s)", why);
}

void rdzv_done(struct rdzv *m) {
    (void)m;
    kit_report("tell_done");
}

void rdzv_leave(struct rdzv *m, int code, const char *why, void (*gone)(void *arg)) {
    kit_report("leave(%d %s)", code, why);
    m->gone = gone;
}

void rdzv_close(struct rdzv *m) {
    if (m) {
        kit_report("close");
    }
}

/* ---- the operator ------------------------------------------------------------------------ */

static struct {
    void (*over)(void *arg);
    void *arg;
} operator;

struct proc_training_end *proc_training_end_new(
    struct co_loop *l, const char *where, void (*over)(void *arg), void *arg, struct co_err *err) {
    (void)l;
    (void)where;
    (void)err;
    operator.over = over;
    operator.arg = arg;
    return NULL;
}

void proc_training_end_free(struct proc_training_end *t) {
    (void)t;
}

/* ---- */

static void meet(const char *other) {
    const struct rdzv_peer peers[] = {{"a", others.own}, {"b", other}};
    const struct rdzv_roster roster = {.peers = peers, .n = 2, .round = 1, .watched = true};
    others.fns.met(others.arg, &roster);
}

static bool step_others(const char *step) {
    const struct co_err lost = {.code = CO_PEERLOST, .msg = "node b is lost"};
    const struct co_err away = {.code = CO_UNAVAILABLE, .msg = "etcd is away"};
    if (strcmp(step, "met") == 0) {
        meet("{\"candidate\":\"o:1\",\"endpoints\":\"o:2\"}");
    } else if (strcmp(step, "met_ps") == 0) {
        meet("{\"servers\":[\"o:1\"],\"trainers\":[\"o:2\"],\"gloo_port\":3}");
    } else if (strcmp(step, "met_bad") == 0) {
        meet("{}");
    } else if (strcmp(step, "changed") == 0) {
        others.fns.changed(others.arg, "node c came");
    } else if (strcmp(step, "all_done") == 0) {
        others.fns.all_done(others.arg);
    } else if (strcmp(step, "overdue") == 0) {
        others.fns.overdue(others.arg, &away);
    } else if (strcmp(step, "ended") == 0) {
        others.fns.ended(others.arg, &lost);
    } else if (strcmp(step, "left") == 0) {
        kit_report("told");
        others.gone(others.arg);
    } else {
        return false;
    }
    return true;
}

/* ---- steps ------------------------------------------------------------------------------- */

static void play_step(void *arg) {
    const char *step = strsep(&script.rest, " ");
    (void)arg;
    if (!step) {
        kit_report("... for ever");
        co_loop_stop(script.loop);
        return;
    }
    if (strcmp(step, "over") == 0) {
        operator.over(operator.arg);
    } else if (strcmp(step, "SIGTERM") == 0) {
        (void)raise(SIGTERM);
    } else if (strcmp(step, "later") == 0) {
        co_test_clock_forward(1000);
    } else if (strcmp(step, "SIGUSR1") == 0) {
        (void)raise(SIGUSR1);
    } else {
        assert_true(kit_step(step) || step_others(step));
    }
    co_timer_start(script.timer, 0);
}

static void begin_script(struct co_loop *l) {
    script.loop = l;
    script.timer = co_timer_new(l, play_step, NULL);
    co_timer_start(script.timer, 0);
}

static struct node_run_end run(struct kit *k, const char *steps, struct co_err *err) {
    struct proc_ports ports = {.n = 0};
    struct node_run_end end = {.code = -1};
    const struct node_run_options options = {.job = &k->job,
        .say = &k->say,
        .own = k->value ? &k->own : NULL,
        .value = k->value,
        .ports = &ports};
    (void)snprintf(script.text, sizeof(script.text), "%s", steps);
    script.rest = script.text;
    kit_begun = begin_script;
    if (node_run_job(&options, &end, err)) {
        kit_report("%s", err->msg);
    }
    return end;
}

#define TWO "--nnodes=2", "--master=m:1", "--stop_timeout=9"
#define PS TWO, "--server_num=1", "--trainer_num=1"
#define LEVEL_1 TWO, "--elastic_level=1"

static const struct {
    const char *name, *words[6], *steps, *trace;
    int code, signo;
    const char *why;
    size_t fails_at;
} rows[] = {
    /* alone */
    {"all goes well", {"--nproc_per_node=2"}, "0:0 1:0 empty", "start start", 0, 0, "", 0},
    {"a process fails", {"--nproc_per_node=2"}, "0:3 1:-15 empty", "start start stop(25000)", 3, 0,
        "worker 0: exit code 3", 0},
    {"a program is not there", {"--nproc_per_node=2"}, "0:-15 empty", "start stop(25000)", 127, 0,
        "no such program", 2},
    {"servers end with the workers", {"--server_num=1"}, "1:0 0:-15 empty",
        "start start stop(25000)", 0, 0, "", 0},
    {"it is told to stop", {0}, "SIGTERM 0:0 empty", "start stop(25000)", 143, 15,
        "stopped by SIGTERM", 0},
    {"and again, and a third time", {0}, "SIGTERM later SIGTERM later SIGTERM 0:-9 empty",
        "start stop(25000) stop(10000) stop(0)", 143, 15, "stopped by SIGTERM", 0},
    {"one request that reaches it twice", {0}, "SIGTERM SIGTERM 0:0 empty", "start stop(25000)",
        143, 15, "stopped by SIGTERM", 0},
    {"it is told to stop when a process has failed", {"--nproc_per_node=2"},
        "0:3 SIGTERM 1:-15 empty", "start start stop(25000)", 3, 0, "worker 0: exit code 3", 0},
    {"other signals are for the processes", {0}, "SIGUSR1 0:0 empty", "start signal(10)", 0, 0, "",
        0},
    /* servers of a job that the operator knows */
    {"training is over", {0}, "over 0:-15 empty", "start stop(20000)", 0, 0, "", 0},
    {"it is over when the server has failed", {0}, "0:3 over empty", "start stop(25000)", 3, 0,
        "worker 0: exit code 3", 0},
    {"it is over while nodes meet", {TWO}, "over left", "leave(0 ) told close", 0, 0, "", 0},
    /* with others */
    {"nodes meet, work and part", {TWO}, "met 0:0 empty left", "start leave(0 ) told close", 0, 0,
        "", 0},
    {"the master is none", {"--nnodes=2", "--master=bad"}, "", "no master", -1, 0, "", 0},
    {"a node tells nonsense", {TWO}, "met_bad left",
        "leave(1 node 1 sent \"{}\", expected what a launcher in mode collective sends: candidate "
        "is missing, expected a string) told close",
        1, 0,
        "node 1 sent \"{}\", expected what a launcher in mode collective sends: candidate is "
        "missing, expected a string",
        0},
    {"the others hear at once of a failure", {TWO}, "met 0:3 left empty",
        "start stop(9000) leave(3 worker 0: exit code 3) told close", 3, 0, "worker 0: exit code 3",
        0},
    {"processes may end sooner than the others hear", {TWO}, "met 0:3 empty left",
        "start stop(9000) leave(3 worker 0: exit code 3) told close", 3, 0, "worker 0: exit code 3",
        0},
    {"a node is lost", {TWO}, "met ended 0:-15 empty", "start close stop(9000)", 1, 0,
        "node b is lost", 0},
    {"nodes never meet", {TWO}, "ended", "close", 1, 0, "node b is lost", 0},
    {"it is told to stop while nodes meet", {TWO}, "SIGTERM left",
        "leave(-1 stopped by SIGTERM) told close", 143, 15, "stopped by SIGTERM", 0},
    {"the master hangs, too", {TWO}, "SIGTERM later SIGTERM", "leave(-1 stopped by SIGTERM) close",
        143, 15, "stopped by SIGTERM", 0},
    {"it is told to stop while processes run", {TWO}, "met SIGTERM left 0:-15 empty",
        "start stop(9000) leave(-1 stopped by SIGTERM) told close", 143, 15, "stopped by SIGTERM",
        0},
    /* servers stay for the workers of all */
    {"servers stay until all are done", {PS}, "met_ps 1:0 all_done 0:-15 empty left",
        "start start tell_done stop(9000) leave(0 ) told close", 0, 0, "", 0},
    {"a server that ends before all are done", {PS}, "met_ps 1:0 0:0 empty left",
        "start start tell_done leave(0 ) told close", 0, 0, "", 0},
    {"nobody says when all are done", {PS}, "met_ps 1:0 overdue 0:0 empty left",
        "start start tell_done leave(0 ) told close", 0, 0, "", 0},
    {"... until it is known after all", {PS}, "met_ps 1:0 overdue all_done 0:-15 empty left",
        "start start tell_done stop(9000) leave(0 ) told close", 0, 0, "", 0},
    {"a node is lost while servers stay", {PS}, "met_ps 1:0 ended 0:-15 empty",
        "start start tell_done close stop(9000)", 1, 0, "node b is lost", 0},
    /* rounds */
    {"a node comes", {LEVEL_1}, "met changed 0:-15 empty met 0:0 empty left",
        "start stop(9000) again start leave(0 ) told close", 0, 0, "", 0},
    {"a node comes while servers stay", {PS, "--elastic_level=1"},
        "met_ps 1:0 changed 0:-15 empty met_ps 1:0 all_done 0:0 empty left",
        "start start tell_done stop(9000) again start start tell_done stop(9000) leave(0 ) told "
        "close",
        0, 0, "", 0},
    {"a failure starts all again", {LEVEL_1}, "met 0:3 changed empty met 0:0 empty left",
        "start stop(9000) restart(worker 0: exit code 3) again start leave(0 ) told close", 0, 0,
        "", 0},
    {"the others hear of it later", {LEVEL_1}, "met 0:3 empty changed met 0:0 empty left",
        "start stop(9000) restart(worker 0: exit code 3) again start leave(0 ) told close", 0, 0,
        "", 0},
    {"no restart is left: the code is the process's", {LEVEL_1}, "met 0:3 empty ended",
        "start stop(9000) restart(worker 0: exit code 3) close", 3, 0, "node b is lost", 0},
    {"... but not of a round before", {LEVEL_1}, "met 0:3 empty changed met ended 0:-15 empty",
        "start stop(9000) restart(worker 0: exit code 3) again start close stop(9000)", 1, 0,
        "node b is lost", 0},
    {"a failure while nodes regroup is no news", {LEVEL_1}, "met changed 0:3 empty ended",
        "start stop(9000) again close", 1, 0, "node b is lost", 0},
    {"it is told to stop while it waits for the others", {LEVEL_1}, "met 0:3 empty SIGTERM left",
        "start stop(9000) restart(worker 0: exit code 3) leave(-1 stopped by SIGTERM) told "
        "close",
        143, 15, "stopped by SIGTERM", 0},
};

static void each_sequence_of_events_gives_its_calls_and_exit_code(void **state) {
    (void)state;
    co_test_clock_hold(true);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct kit k;
        struct co_err err = {0};
        if (kit_open(&k, rows[i].words, &err)) {
            fail_msg("%s: %s", rows[i].name, err.msg);
        }
        kit_fails_at = rows[i].fails_at;
        struct node_run_end end = run(&k, rows[i].steps, &err);
        if (strcmp(kit_trace.data ? kit_trace.data : "", rows[i].trace) != 0 ||
            end.code != rows[i].code || end.signo != rows[i].signo ||
            strcmp(end.why, rows[i].why) != 0) {
            fail_msg("%s: \"%s\", expected \"%s\"; code %d, signal %d, \"%s\"", rows[i].name,
                kit_trace.data, rows[i].trace, end.code, end.signo, end.why);
        }
        kit_close(&k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sequence_of_events_gives_its_calls_and_exit_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
