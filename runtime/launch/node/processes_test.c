#include "runtime/launch/node/processes.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/launch/node/node_testing.h"

enum { GRACE_MS = 700 };

struct world {
    struct kit kit;
    struct co_loop *loop;
    struct node_processes *round;
    char rest[256]; /* of the row's steps */
};

static void on_workers_done(void *arg) {
    (void)arg;
    kit_report("done");
}

static void on_failed(void *arg, int code, const char *why) {
    (void)arg;
    kit_report("failed(%d %s)", code, why);
}

static void on_gone(void *arg) {
    const struct world *w = arg;
    assert_false(node_processes_running(w->round));
    kit_report("gone");
}

static void on_echoed(void *arg) {
    (void)arg;
    kit_report("echoed");
}

static void open_world(struct world *w, const char *const *words) {
    static const struct node_processes_fns fns = {
        .workers_done = on_workers_done, .failed = on_failed, .gone = on_gone, .echoed = on_echoed};
    struct co_err err = {0};
    if (kit_open(&w->kit, words, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(
        node_processes_new(w->loop, &w->kit.say, &w->kit.job, &fns, w, &w->round, NULL), 0);
}

static void close_world(struct world *w) {
    node_processes_free(w->round);
    co_loop_free(w->loop);
    kit_close(&w->kit);
}

static int start(struct world *w, struct co_err *err) {
    char *trainer = (char *)"o:1";
    const struct job_offer other = {.endpoints = {[JOB_ROLE_TRAINER] = {.item = &trainer, .n = 1}}};
    const struct job_offer offers[] = {w->kit.own, other};
    const size_t n = w->kit.job.discovery == JOB_DISCOVERY_MEET ? 2 : w->kit.value ? 1 : 0;
    struct job_plan plan;
    CO_TRY(job_plan_make(&w->kit.job, offers, n, 0, "/tmp/x", &plan, err));
    return node_processes_start(w->round, &plan, err);
}

static void play(struct world *w, const char *steps) {
    (void)snprintf(w->rest, sizeof(w->rest), "%s", steps);
    char *rest = w->rest;
    for (char *step; (step = strsep(&rest, " "));) {
        if (strcmp(step, "start") == 0) {
            struct co_err err = {0};
            int r = start(w, &err);
            if (r) {
                kit_report("%s", err.msg);
            }
        } else if (strcmp(step, "stop") == 0) {
            node_processes_stop(w->round, GRACE_MS);
        } else if (strcmp(step, "signal") == 0) {
            node_processes_signal(w->round, SIGUSR1);
        } else if (strcmp(step, "stop_servers") == 0) {
            node_processes_stop_servers(w->round);
        } else if (strcmp(step, "release_servers") == 0) {
            node_processes_release_servers(w->round);
        } else {
            assert_true(kit_step(step));
        }
    }
}

static void a_round_reports_its_result(void **state) {
    (void)state;
#define GRACE "--stop_timeout=9"
    static const struct {
        const char *name, *words[6], *steps, *trace;
        size_t fails_at;
    } rows[] = {
        {"all workers end well", {"--nproc_per_node=2"}, "start 0:0 1:0 empty",
            "start start done gone", 0},
        {"one fails: how the others end is no news", {GRACE, "--nproc_per_node=3"},
            "start 1:3 0:-15 2:4 empty",
            "start start start stop(9000) failed(3 worker 1: exit code 3) gone", 0},
        {"one is killed", {GRACE}, "start 0:-9 empty",
            "start stop(9000) failed(137 worker 0: killed by SIGKILL) gone", 0},
        {"it is told to stop", {"--nproc_per_node=2"}, "start stop 0:-15 1:0 empty stop signal",
            "start start stop(700) gone", 0},
        {"nothing runs", {0}, "stop signal", "", 0},
        {"signals are handed on", {0}, "start signal", "start signal(10)", 0},
        {"servers serve the workers", {GRACE, "--server_num=1", "--worker_num=2"},
            "start 1:0 2:0 release_servers 0:-15 empty", "start start start done stop(9000) gone",
            0},
        {"a server that ends before the workers is no news", {GRACE, "--server_num=2"},
            "start 0:0 2:0 release_servers 1:0 empty", "start start start done stop(9000) gone", 0},
        {"a server that fails is", {GRACE, "--server_num=1"}, "start 0:1 1:-15 empty",
            "start start stop(9000) failed(1 server 0: exit code 1) gone", 0},
        {"one that fails when the workers are done is not", {GRACE, "--server_num=1"},
            "start 1:0 0:1 empty", "start start done gone", 0},
        {"servers alone have no work of their own",
            {GRACE, "--nnodes=2", "--server_num=1", "--trainer_num=0"},
            "start stop_servers 0:0 empty", "start done stop(9000) gone", 0},
        {"others may stop servers whose own workers run: they failed, then",
            {"--server_num=1", GRACE}, "start stop_servers 1:-15",
            "start start stop(9000) failed(143 worker 0: killed by SIGTERM)", 0},
        {"a program is not there", {GRACE, "--nproc_per_node=3"}, "start 0:0 1:1 empty",
            "start start stop(9000) no such program gone", 3},
        {"a worker that fails is started again by itself, for some time",
            {GRACE, "--nproc_per_node=2", "--elastic_level=2", "--max_restart=2"},
            "start 0:3 1:-9 0:1 1:-15 empty",
            "start start again(0) again(1) stop(9000) failed(1 worker 0: exit code 1) gone", 0},
        {"but not when another one has done its work",
            {GRACE, "--nproc_per_node=2", "--elastic_level=2"}, "start 0:0 1:3 empty",
            "start start stop(9000) failed(3 worker 1: exit code 3) gone", 0},
        {"a second round is as good as the first", {GRACE}, "start 0:1 empty start 0:0 empty",
            "start stop(9000) failed(1 worker 0: exit code 1) gone start done gone", 0},
        {"elsewhere are workers yet: nobody stops the servers",
            {"--servers=h.a:1", "--workers=g.a:2", "--host=h.a"}, "start release_servers",
            "start done", 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world w;
        open_world(&w, rows[i].words);
        kit_fails_at = rows[i].fails_at;
        play(&w, rows[i].steps);
        if (strcmp(kit_trace.data ? kit_trace.data : "", rows[i].trace) != 0) {
            fail_msg("%s: \"%s\", expected \"%s\"", rows[i].name, kit_trace.data, rows[i].trace);
        }
        close_world(&w);
    }
}

/* Of the process that failed, in --log_dir; the next round knows nothing of it. */
static void the_last_lines_of_a_failed_process_are_kept_until_the_next_round(void **state) {
    (void)state;
    char dir[] = "/tmp/paddlerun-round-XXXXXX", text[64];
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *option = co_xasprintf("--log_dir=%s", dir);
    CO_AUTOFREE char *path = co_xasprintf("%s/workerlog.1", dir);
    const char *const words[] = {option, "--nproc_per_node=2", NULL};
    struct world w;
    open_world(&w, words);
    assert_int_equal(start(&w, NULL), 0);
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    assert_true(fputs("no memory\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(node_processes_failed_tail(w.round, text, sizeof(text)), 0);
    play(&w, "1:1 0:-15 empty");
    assert_true(node_processes_echoing(w.round)); /* of the first one's log */
    assert_int_equal(node_processes_failed_tail(w.round, text, sizeof(text)), 10);
    assert_string_equal(text, "no memory\n");
    while (node_processes_echoing(w.round)) {
        co_loop_turn(w.loop);
    }
    assert_string_equal(strrchr(kit_trace.data, ' '), " echoed");
    node_processes_forget(w.round);
    assert_int_equal(node_processes_failed_tail(w.round, text, sizeof(text)), 0);
    assert_int_equal(start(&w, NULL), 0);
    assert_int_equal(node_processes_failed_tail(w.round, text, sizeof(text)), 0);
    close_world(&w);
    assert_int_equal(unlink(path), 0);
    path[strlen(path) - 1] = '0';
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_reports_its_result),
        cmocka_unit_test(the_last_lines_of_a_failed_process_are_kept_until_the_next_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
