#include "runtime/launch/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PODS_MAX = 4 };

struct script {
    const char *name;
    const char *text; /* for sh; NULL ends the job's list */
    bool server;
};

static int64_t pods_grace_s = -1; /* of the next job; -1: no pod says any */
static const struct local_options quick = {.grace_ms = 300, .server_grace_ms = 300};

/* The job as a process of its own; what it prints comes through *ret_out. */
static pid_t start(const struct script *job, const struct local_options *options, int *ret_out) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        (void)close(out[1]);
        *ret_out = out[0];
        return pid;
    }
    (void)close(out[0]);
    struct local_pod pod[PODS_MAX] = {{0}};
    char *argv[PODS_MAX][4];
    struct local_pods pods = {.job = (char *)"test",
        .item = pod,
        .grace_s = pods_grace_s,
        .says_grace = pods_grace_s >= 0};
    for (; job[pods.n].text; pods.n++) {
        struct local_pod *p = &pod[pods.n];
        p->name = (char *)job[pods.n].name;
        p->address = (char *)"127.0.0.10";
        p->server = job[pods.n].server;
        argv[pods.n][0] = (char *)"/bin/sh";
        argv[pods.n][1] = (char *)"-c";
        argv[pods.n][2] = (char *)job[pods.n].text;
        argv[pods.n][3] = NULL;
        p->argv = argv[pods.n];
        job_env_inherit(&p->env, environ, false);
    }
    struct local_options o = *options;
    o.out = out[1];
    int code = -1;
    int r = local_run(&pods, &o, &code, NULL);
    for (size_t i = 0; i < pods.n; i++) {
        job_env_done(&pod[i].env);
    }
    exit(r ? 99 : code);
}

static int finish(pid_t pid, int out, struct co_buf *ret) {
    char buf[65536];
    ssize_t n;
    while ((n = read(out, buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(ret, buf, (size_t)n, NULL), 0);
    }
    (void)close(out);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run(const struct script *job, struct co_buf *ret) {
    int out = -1;
    pid_t pid = start(job, &quick, &out);
    return finish(pid, out, ret);
}

static void has(const struct co_buf *out, const char *text) {
    if (!out->data || !strstr(out->data, text)) {
        fail_msg("no \"%s\" in:\n%s", text, out->data);
    }
}

/* A pod that prints its pid and stays. */
#define STAYS "echo pid $$; exec sleep 1000"

/* Every pid that was printed is gone, as is what it started. */
static void all_gone(const struct co_buf *out) {
    for (const char *p = out->data; p && (p = strstr(p, "| pid ")); p++) {
        pid_t pid = (pid_t)strtol(p + strlen("| pid "), NULL, 10);
        assert_true(pid > 1);
        if (kill(pid, 0) == 0 || errno != ESRCH) {
            fail_msg("process %d is left", (int)pid);
        }
    }
}

static void a_job_completes_with_its_workers(void **state) {
    (void)state;
    static const struct script job[] = {
        {"t-ps-0", STAYS, true},
        {"t-worker-0", "echo one; echo two >&2", false},
        {"t-worker-1", "printf 'no newline'", false},
        {NULL},
    };
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 0);
    /* In order, with what others say in between. */
    has(&out, "t-worker-0 | one\n");
    has(&out, "t-worker-0 | two\n");
    assert_true(strstr(out.data, "| one\n") < strstr(out.data, "| two\n"));
    has(&out, "t-worker-1 | no newline\n");
    has(&out, "t-ps-0     | pid ");
    has(&out, "servers have 0.3 s to end");
    has(&out, "\njob test completed in ");
    all_gone(&out);
}

static void servers_that_end_by_themselves_are_not_stopped(void **state) {
    (void)state;
    static const struct script job[] = {
        {"ps", "trap 'echo told' TERM; echo ended", true},
        {"w", "exit 0", false},
        {NULL},
    };
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 0);
    has(&out, "| ended\n");
    assert_null(strstr(out.data, "told"));
}

static void the_first_failure_is_the_jobs(void **state) {
    (void)state;
    static const struct script job[] = {
        {"t-ps-0", STAYS, true},
        {"t-worker-0", STAYS, false},
        {"t-worker-1", "echo cause >&2; exit 3", false},
        {NULL},
    };
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 3);
    has(&out, "paddlerun: pod t-worker-1 failed: exit code 3: cause\n");
    has(&out, "job test failed after ");
    all_gone(&out);
}

/* Whoever is killed has not printed why. */
static void a_signal_is_named_before_what_the_pod_has_printed(void **state) {
    (void)state;
    static const struct {
        const char *script;
        int code;
        const char *line;
    } rows[] = {
        {"echo not ready endpoints; kill -9 $$", 137, "killed by SIGKILL (exit code 137)\n"},
        {"echo not ready endpoints; sh -c 'kill -9 $$'; exit $?", 137,
            "killed by SIGKILL (exit code 137)\n"},
        {"echo ValueError: x; kill -15 $$", 143,
            "killed by SIGTERM (exit code 143): ValueError: x\n"},
        {"echo what; ulimit -c 0; kill -6 $$", 134, "killed by SIGABRT (exit code 134): what\n"},
        {"echo why; exit 128", 128, "exit code 128: why\n"},
        {"echo why; exit 255", 255, "exit code 255: why\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct script job[] = {{"ps", rows[i].script, true}, {"w", STAYS, false}, {NULL}};
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
        assert_int_equal(run(job, &out), rows[i].code);
        CO_AUTOFREE char *line = co_xasprintf("paddlerun: pod ps failed: %s", rows[i].line);
        has(&out, line);
        all_gone(&out);
    }
}

static void a_program_that_is_not_there_fails_the_job(void **state) {
    (void)state;
    static const struct script job[] = {{"a", "exec /no/such", false}, {"b", STAYS, false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 127);
    all_gone(&out);
}

/* Servers only: they are what the job waits for. */
static void a_job_of_servers_only_waits_for_them(void **state) {
    (void)state;
    static const struct script job[] = {{"a", "exit 0", true}, {"b", "echo hi", true}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 0);
    has(&out, "b | hi\n");
}

/* Reads until the text has come. */
static void wait_for(int fd, const char *text, struct co_buf *ret) {
    char c;
    while (!ret->data || !strstr(ret->data, text)) {
        assert_int_equal(read(fd, &c, 1), 1);
        assert_int_equal(co_buf_add(ret, &c, 1, NULL), 0);
    }
}

static void read_lines(int fd, size_t n, struct co_buf *ret) {
    while (n > 0) {
        char c;
        assert_int_equal(read(fd, &c, 1), 1);
        assert_int_equal(co_buf_add(ret, &c, 1, NULL), 0);
        n -= c == '\n';
    }
}

static void a_signal_ends_everything(void **state) {
    (void)state;
    /* One ends on SIGTERM, one ignores that, one has a grandchild in a session of its own. */
    static const struct script job[] = {
        {"a", "sleep 1000 & echo pid $!; " STAYS, false},
        {"b", "trap '' TERM INT; sleep 1000 & echo pid $!; echo pid $$; while :; do sleep 1; done",
            false},
        {"c",
            "setsid sh -c 'echo pid $$; trap \"\" TERM HUP; while :; do sleep 0.1; done' & " STAYS,
            false},
        {NULL},
    };
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
        int fd = -1;
        pid_t pid = start(job, &quick, &fd);
        read_lines(fd, 7, &out); /* the first is paddlerun's own */
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_int_equal(finish(pid, fd, &out), 128 + signals[i]);
        has(&out, "once more to kill");
        has(&out, "did not end after SIGTERM: SIGKILL");
        has(&out, "job test stopped after ");
        all_gone(&out);
    }
}

static void pods_have_as_long_as_the_flag_or_their_templates_say(void **state) {
    (void)state;
    static const struct script job[] = {{"a", STAYS, false}, {NULL}};
    static const struct {
        int64_t flag_ms, grace_s;
        const char *said;
    } rows[] = {
        {-1, -1, "pods have 10.0 s to end"},
        {-1, 0, "pods have 0.0 s to end"},
        {-1, 45, "pods have 45.0 s to end"},
        {0, 45, "pods have 0.0 s to end"},
        {20500, 45, "pods have 20.5 s to end"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
        int fd = -1;
        pods_grace_s = rows[i].grace_s;
        pid_t pid = start(job, &(struct local_options){.grace_ms = rows[i].flag_ms}, &fd);
        pods_grace_s = -1;
        wait_for(fd, "a | pid ", &out);
        assert_int_equal(kill(pid, SIGTERM), 0);
        assert_int_equal(finish(pid, fd, &out), 128 + SIGTERM);
        has(&out, rows[i].said);
    }
}

static void a_job_under_nohup_survives_sighup(void **state) {
    (void)state;
    static const struct script job[] = {{"a", "echo up; sleep 0.3; exit 4", false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    int fd = -1;
    (void)signal(SIGHUP, SIG_IGN);
    pid_t pid = start(job, &quick, &fd);
    (void)signal(SIGHUP, SIG_DFL);
    wait_for(fd, "a | up", &out);
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_int_equal(finish(pid, fd, &out), 4);
}

static void a_killed_launcher_takes_its_pods_along(void **state) {
    (void)state;
    static const struct script job[] = {{"a", STAYS, false}, {"b", STAYS, false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    int fd = -1;
    pid_t pid = start(job, &quick, &fd);
    wait_for(fd, "a | pid ", &out);
    wait_for(fd, "b | pid ", &out);
    wait_for(fd, "\n", &out);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    char buf[512];
    ssize_t n;
    while ((n = read(fd, buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(&out, buf, (size_t)n, NULL), 0);
    }
    (void)close(fd);
    for (const char *p = out.data; (p = strstr(p, "| pid ")); p++) {
        pid_t pod = (pid_t)strtol(p + strlen("| pid "), NULL, 10);
        while (kill(pod, 0) == 0) { /* until init has reaped it; the alarm bounds this */
        }
    }
}

/* Numbers in order, from two pods at once, with a reader that is slower than both. */
static void a_flood_loses_nothing_and_keeps_order(void **state) {
    (void)state;
    static const struct script job[] = {
        {"a", "seq 1 200000", false}, {"b", "seq 1 200000 >&2", false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 24);
    assert_int_equal(run(job, &out), 0);
    long next[2] = {1, 1};
    for (char *line = out.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (line[1] == ' ' && line[2] == '|') {
            int who = line[0] - 'a';
            assert_int_equal(strtol(line + 3, NULL, 10), next[who]);
            next[who]++;
        }
    }
    assert_int_equal(next[0], 200001);
    assert_int_equal(next[1], 200001);
}

static void a_job_ends_on_a_signal_while_nobody_reads(void **state) {
    (void)state;
    static const struct script job[] = {{"a", "echo pid $$; exec yes", false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 24);
    int fd = -1;
    pid_t pid = start(job, &quick, &fd);
    wait_for(fd, "a | y\n", &out);
    /* The pipe is full before the signal comes, or soon; both must work. */
    assert_int_equal(kill(pid, SIGTERM), 0);
    pid_t pod = (pid_t)strtol(strstr(out.data, "| pid ") + strlen("| pid "), NULL, 10);
    while (kill(pod, 0) == 0) { /* until it is reaped; the alarm bounds this */
    }
    assert_int_equal(finish(pid, fd, &out), 128 + SIGTERM);
    has(&out, "job test stopped after ");
}

static void a_line_without_end_comes_in_pieces(void **state) {
    (void)state;
    static const struct script job[] = {
        {"a", "head -c 40000 /dev/zero | tr '\\0' x; echo; echo short", false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    assert_int_equal(run(job, &out), 0);
    size_t x = 0;
    for (const char *p = out.data; *p; p++) {
        x += *p == 'x';
    }
    has(&out, "a | xxx");
    has(&out, "a + xxx");
    has(&out, "a | short\n");
    assert_int_equal(x, 40000);
}

static void a_closed_output_ends_the_job(void **state) {
    (void)state;
    static const struct script job[] = {{"a", "while :; do echo y; done", false}, {NULL}};
    CO_AUTOBUF struct co_buf out = CO_BUF(1 << 20);
    int fd = -1, status = 0;
    pid_t pid = start(job, &quick, &fd);
    wait_for(fd, "a | y", &out);
    (void)close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 128 + SIGPIPE);
}

static void jobs_beside_each_other_have_different_addresses(void **state) {
    (void)state;
    unsigned one = 0, two = 0;
    int lock[2] = {-1, -1};
    assert_int_equal(local_block(&one, &lock[0], NULL), 0);
    assert_int_equal(local_block(&two, &lock[1], NULL), 0);
    assert_true(two >= one + LOCAL_PODS_MAX / LOCAL_PODS_BLOCK);
    (void)close(lock[0]);
    (void)close(lock[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_completes_with_its_workers),
        cmocka_unit_test(servers_that_end_by_themselves_are_not_stopped),
        cmocka_unit_test(the_first_failure_is_the_jobs),
        cmocka_unit_test(a_signal_is_named_before_what_the_pod_has_printed),
        cmocka_unit_test(a_program_that_is_not_there_fails_the_job),
        cmocka_unit_test(a_job_of_servers_only_waits_for_them),
        cmocka_unit_test(a_signal_ends_everything),
        cmocka_unit_test(pods_have_as_long_as_the_flag_or_their_templates_say),
        cmocka_unit_test(a_job_under_nohup_survives_sighup),
        cmocka_unit_test(a_killed_launcher_takes_its_pods_along),
        cmocka_unit_test(a_flood_loses_nothing_and_keeps_order),
        cmocka_unit_test(a_job_ends_on_a_signal_while_nobody_reads),
        cmocka_unit_test(a_line_without_end_comes_in_pieces),
        cmocka_unit_test(a_closed_output_ends_the_job),
        cmocka_unit_test(jobs_beside_each_other_have_different_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
