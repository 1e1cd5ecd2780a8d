/* What a host prints, and the script that prints it.  In place of ssh stands a program that runs
 * what it is given on this machine. */
#include "runtime/legacy/cluster/session.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRACE_MAX = 1 << 20 };

static char dir[] = "/tmp/rl-session-test-XXXXXX";

struct host {
    struct cluster_ssh_session s;
    struct cluster_host name;
    struct co_loop *loop;
    struct co_signal *children;
    struct co_buf trace; /* what the session made of the host's output */
    const char *on_ready, *on_server, *on_train, *on_tail; /* commands to the host then */
    int status;                                            /* of ssh */
};

static void note(struct host *h, const char *answer, const char *fmt, ...) CO_PRINTF(3, 4);
static void note(struct host *h, const char *answer, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    assert_int_equal(co_buf_addf(&h->trace, NULL, "%s\n", text), 0);
    if (answer) {
        cluster_ssh_session_send(&h->s, answer);
    }
}

static void ready(void *arg, struct cluster_ssh_session *s) {
    struct host *h = arg;
    assert_ptr_equal(s, &h->s);
    note(h, h->on_ready, "ready");
}

static void ended(void *arg, struct cluster_ssh_session *s, const char *what, int code) {
    struct host *h = arg;
    (void)s;
    note(h, strcmp(what, "train") == 0 ? h->on_train : h->on_server, "%s %d", what, code);
}

static void tail(void *arg, struct cluster_ssh_session *s) {
    struct host *h = arg;
    note(h, h->on_tail, "tail of %zu bytes, last \"%.40s\"", s->lines.len, s->last);
}

static void connected(void *arg, struct cluster_ssh_session *s) {
    (void)arg;
    assert_true(s->connected);
}

static const struct cluster_session_ops ops = {
    .connected = connected, .ready = ready, .ended = ended, .tail = tail};

static void child_ended(void *arg, int signo) {
    struct host *h = arg;
    int status = 0;
    pid_t pid;
    (void)signo;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (cluster_ssh_session_reaped(&h->s, pid, status)) {
            h->status = status;
            cluster_ssh_session_drain(&h->s);
            co_loop_stop(h->loop);
        }
    }
}

static void init(struct host *h) {
    h->name = (struct cluster_host){.user = (char *)"", .name = (char *)"127.0.0.1"};
    h->trace = CO_BUF(TRACE_MAX);
    assert_int_equal(co_loop_new(&h->loop, NULL), 0);
    assert_int_equal(co_signal_new(h->loop, SIGCHLD, child_ended, h, &h->children, NULL), 0);
    cluster_ssh_session_init(&h->s, h->loop, 0, &h->name, &ops, h);
}

static void done(struct host *h) {
    cluster_ssh_session_done(&h->s);
    co_signal_free(h->children);
    co_loop_free(h->loop);
    co_buf_done(&h->trace);
}

static int start(struct host *h, const char *script, int from, struct co_err *err) {
    CO_AUTOFREE char *ssh = co_xasprintf("%s/ssh", dir);
    const struct cluster_options o = {.ssh = ssh};
    return cluster_ssh_session_start(&h->s, &o, script, from, err);
}

static void run(struct host *h, const char *script) {
    struct co_err err = {0};
    if (start(h, script, -1, &err)) {
        fail_msg("%s", co_err_text(&err));
    }
    co_loop_run(h->loop);
}

static const char *trace(const struct host *h) {
    return h->trace.data ? h->trace.data : "";
}

static void lines_of_a_host_become_events(void **state) {
    (void)state;
    static const struct {
        const char *script, *trace;
    } rows[] = {
        {"echo @ready", "ready\n"},
        {"printf '@re'; printf 'ady\\n@server 0\\n'", "ready\nserver 0\n"},
        {"echo '@server 3'; echo '@train 137'", "server 3\ntrain 137\n"},
        {"echo '@| a'; echo '@| b'; echo @.", "tail of 12 bytes, last \"b\"\n"},
        {"echo '@| a'; echo @.; echo @.",
            "tail of 6 bytes, last \"a\"\ntail of 0 bytes, last \"a\"\n"},
        /* What a log has must not reach the terminal. */
        {"printf '@| a\\033[2J\\007b\\177\\r\\n@.\\n'", "tail of 14 bytes, last \"a [2J b  \"\n"},
        /* What is not of the protocol: a greeting, halves of a line, too much, too little. */
        {"echo 'Last login: today'; echo; echo ready; echo ' @ready'", ""},
        {"echo '@readyy'; echo '@READY'; echo @; echo @server; echo '@train x'; echo '@|'", ""},
        {"printf '@train 0'", ""},
        {"printf '@rea\\0dy\\n\\0\\n\\0@train 1\\n'", "ready\ntrain 1\n"},
        {"echo '@train 256'; echo '@server -1'", "train 1\nserver 1\n"},
        {"echo @ready >&2", ""},
        {"exit 7", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct host h = {0};
        init(&h);
        run(&h, rows[i].script);
        if (strcmp(trace(&h), rows[i].trace) != 0) {
            fail_msg("%s: \"%s\"", rows[i].script, trace(&h));
        }
        assert_int_equal(h.s.out.fd, -1);
        assert_int_equal(h.s.pid, 0);
        done(&h);
    }
}

/* Bounds hold, and what comes behind is read as ever. */
static void an_endless_line_or_log_loses_its_end(void **state) {
    (void)state;
    static const struct {
        const char *script;
        size_t line, lines; /* at most */
    } rows[] = {
        {"head -c 300000 /dev/zero | tr '\\0' x; echo; echo @ready", 16 << 10, 0},
        {"yes '@| xxxxxxxxxxxxxxxxxxxxxxxxxx' | head -n 20000; echo @ready", 16 << 10, 64 << 10},
        {"printf '@| '; head -c 300000 /dev/zero | tr '\\0' x; echo; echo @ready", 16 << 10,
            64 << 10},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct host h = {0};
        init(&h);
        run(&h, rows[i].script);
        assert_string_equal(trace(&h), "ready\n");
        assert_true(h.s.line.cap <= 2 * rows[i].line);
        assert_true(h.s.lines.len <= rows[i].lines);
        assert_true(strlen(h.s.last) < sizeof(h.s.last));
        done(&h);
    }
}

static void the_last_error_line_of_ssh_is_kept_with_its_exit_code(void **state) {
    (void)state;
    struct host h = {0};
    init(&h);
    run(&h,
        "head -c 100000 /dev/zero | tr '\\0' '\\n' >&2; echo 'Permission denied' >&2; exit 255");
    assert_true(WIFEXITED(h.status) && WEXITSTATUS(h.status) == 255);
    assert_string_equal(proc_tail_last_line(&h.s.complaint), "Permission denied");
    /* The next script's complaint is its own. */
    run(&h, "true");
    assert_string_equal(proc_tail_last_line(&h.s.complaint), "");
    /* Nor does half a line of the one before begin the next one's first. */
    run(&h, "printf Welcome");
    run(&h, "echo @ready");
    assert_string_equal(trace(&h), "ready\n");
    done(&h);
}

static void a_host_that_does_not_read_is_sent_nothing_more(void **state) {
    (void)state;
    struct host h = {.on_ready = "go\n", .on_train = "stop\n"};
    init(&h);
    (void)signal(SIGPIPE, SIG_IGN);
    run(&h, "exec <&-; echo @ready; echo '@train 0'");
    assert_string_equal(trace(&h), "ready\ntrain 0\n");
    assert_int_equal(h.s.in, -1);
    cluster_ssh_session_send(&h.s, "stop\n"); /* into nothing */
    done(&h);
}

static void other_reaped_processes_do_not_end_the_session(void **state) {
    (void)state;
    struct host h = {0};
    init(&h);
    h.s.pid = 1000;
    h.s.tar = 1001;
    assert_false(cluster_ssh_session_reaped(&h.s, 999, 0));
    assert_false(cluster_ssh_session_reaped(&h.s, 1001, 2 << 8));
    assert_int_equal(h.s.tar, 0);
    assert_int_equal(WEXITSTATUS(h.s.tar_status), 2);
    assert_true(cluster_ssh_session_reaped(&h.s, 1000, 0));
    assert_int_equal(h.s.pid, 0);
    done(&h);
}

static void an_ssh_that_is_not_there_is_named_and_leaves_nothing_open(void **state) {
    (void)state;
    struct host h = {0};
    struct co_err err = {0};
    init(&h);
    int before = dup(0); /* the lowest that is free */
    (void)close(before);
    const struct cluster_options o = {.ssh = "/no/such/ssh -v"};
    assert_int_equal(cluster_ssh_session_start(&h.s, &o, "true", -1, &err), CO_NOTFOUND);
    assert_non_null(strstr(co_err_text(&err), "/no/such/ssh"));
    assert_int_equal(h.s.pid, 0);
    int after = dup(0);
    (void)close(after);
    assert_int_equal(after, before);
    done(&h);
}

/* ---- the script, on this machine ---------------------------------------------------------- */

static const char odd[] = "it's $HOME; `x` \"y\" *";

static void write_file(const char *name, const char *text, unsigned mode) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    assert_int_equal(co_file_write(path, text, strlen(text), mode, NULL), 0);
}

static int listen_somewhere(int64_t *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

/* A session of the script in a directory of an odd name; this process is what listens. */
static void run_script(struct host *h, char *const *flags, size_t n_flags) {
    CO_AUTOFREE char *job = co_xasprintf("%s/%s", dir, odd);
    CO_AUTOFREE char *paddle = co_xasprintf("%s/paddle's", dir);
    int64_t port = 0;
    CO_AUTOCLOSE int fd = listen_somewhere(&port);
    assert_true(fd >= 0);
    struct cluster_conf conf = {.n_hosts = 2,
        .root_dir = (char *)"/",
        .nic = (char *)"",
        .ld_library_path = (char *)"/a b:/$c",
        .port = port,
        .ports_num = 1};
    const struct cluster_options o = {.workspace = job,
        .paddle = paddle,
        .train_flags = flags,
        .n_train_flags = n_flags,
        .ready_ms = 60000,
        .stop_ms = 5000};
    CO_AUTOFREE char *script = cluster_run_script(&conf, &o, job, 1, "10.0.0.1,10.0.0.2");
    run(h, script);
}

static void the_script_starts_asks_and_stops_in_a_directory_of_any_name(void **state) {
    (void)state;
    char *flags[] = {(char *)"--config=a 'b' $c.py"};
    struct host h = {.on_ready = "go\n", .on_train = "tail train 2\n", .on_tail = "stop\n"};
    init(&h);
    write_file("paddle's",
        "#!/bin/sh\n"
        "[ $1 = pserver ] && exec sleep 100\n"
        "echo first; echo \"at $LD_LIBRARY_PATH\"; for w; do echo \"$w\"; done | tail -n 2; exit "
        "3\n",
        0755);
    (void)setenv("LD_LIBRARY_PATH", "/old", 1);
    run_script(&h, flags, 1);
    (void)unsetenv("LD_LIBRARY_PATH");
    assert_true(WIFEXITED(h.status) && WEXITSTATUS(h.status) == 0);
    CO_AUTOFREE char *log = co_xasprintf("%s/%s/log/train.log", dir, odd);
    CO_AUTOBUF struct co_buf text = CO_BUF(TRACE_MAX);
    assert_int_equal(co_file_read(log, TRACE_MAX, &text, NULL), 0);
    assert_string_equal(
        text.data, "first\nat /a b:/$c:/old\n--config=a 'b' $c.py\n--trainer_id=1\n");
    /* The server is asked to stop; its exit code may still be printed. */
    static const char want[] = "ready\ntrain 3\ntail of 44 bytes, last \"--trainer_id=1\"\n";
    if (strncmp(trace(&h), want, strlen(want)) != 0) {
        fail_msg("%s", trace(&h));
    }
    done(&h);
}

static void a_server_that_ends_is_reported_with_its_code(void **state) {
    (void)state;
    struct host h = {.on_server = "stop\n"};
    init(&h);
    write_file("paddle's", "#!/bin/sh\nexit 9\n", 0755);
    run_script(&h, NULL, 0);
    assert_non_null(strstr(trace(&h), "server 9\n"));
    done(&h);
}

static void a_directory_that_is_not_there_ends_the_script(void **state) {
    (void)state;
    struct host h = {0};
    init(&h);
    struct cluster_conf conf = {.n_hosts = 1,
        .root_dir = (char *)"/",
        .nic = (char *)"",
        .ld_library_path = (char *)"",
        .port = 1};
    const struct cluster_options o = {.paddle = "true"};
    CO_AUTOFREE char *script = cluster_run_script(&conf, &o, "/no/such '$x'", 0, "");
    run(&h, script);
    assert_int_equal(WEXITSTATUS(h.status), 97);
    assert_non_null(strstr(proc_tail_text(&h.s.complaint), "/no/such '$x'"));
    assert_string_equal(trace(&h), "");
    done(&h);
}

/* What was in the directory goes; what begins with the same letters stays. */
static void a_package_replaces_the_directory(void **state) {
    (void)state;
    CO_AUTOFREE char *job = co_xasprintf("%s/%s", dir, odd);
    CO_AUTOFREE char *make =
        co_xasprintf("cd %s && touch '%s' keep && tar -cf tar keep", dir, "it");
    CO_AUTOFREE char *old = co_xasprintf("%s/old", job);
    CO_AUTOFREE char *tar = co_xasprintf("%s/tar", dir);
    CO_AUTOFREE char *beside = co_xasprintf("%s/it", dir);
    CO_AUTOFREE char *kept = co_xasprintf("%s/keep", job);
    CO_AUTOFREE char *log = co_xasprintf("%s/log", job);
    CO_AUTOFREE char *script = cluster_receive_script(job);
    struct host h = {0};
    init(&h);
    (void)mkdir(job, 0755);
    assert_int_equal(co_file_write(old, "x", 1, 0644, NULL), 0);
    run(&h, make);
    CO_AUTOCLOSE int from = open(tar, O_RDONLY | O_CLOEXEC);
    assert_true(from >= 0);
    assert_int_equal(start(&h, script, from, NULL), 0);
    assert_int_equal(h.s.in, -1);
    co_loop_run(h.loop);
    assert_int_equal(h.status, 0);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(access(log, F_OK), 0);
    assert_int_equal(access(beside, F_OK), 0);
    assert_int_not_equal(access(old, F_OK), 0);
    done(&h);
}

/* ---- text of the scripts ------------------------------------------------------------------- */

static void the_directory_is_the_workspace_or_named_by_the_time(void **state) {
    (void)state;
    const struct tm now = {.tm_year = 126, .tm_mon = 0, .tm_mday = 2, .tm_hour = 3, .tm_sec = 5};
    static const struct {
        const char *workspace, *root, *dir;
    } rows[] = {
        {"/w", "/root", "/w"},
        {NULL, "/root", "/root/JOB20260102030005"},
        {NULL, "/root/", "/root/JOB20260102030005"},
        {NULL, "/", "/JOB20260102030005"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct cluster_conf c = {.root_dir = (char *)(uintptr_t)rows[i].root};
        const struct cluster_options o = {.workspace = rows[i].workspace};
        CO_AUTOFREE char *d = cluster_dir(&c, &o, &now);
        assert_string_equal(d, rows[i].dir);
    }
}

static void a_host_without_user_and_port_leaves_both_to_ssh(void **state) {
    (void)state;
    const struct cluster_host host = {.user = (char *)"", .name = (char *)"h"};
    const struct cluster_options o = {.ssh = "  ssh  "};
    char **words = cluster_ssh(&o, &host, "");
    size_t n = 0;
    for (; words[n]; n++) {
        assert_string_not_equal(words[n], "-p");
        assert_string_not_equal(words[n], "-l");
    }
    assert_string_equal(words[0], "ssh");
    assert_string_equal(words[1], "-T");
    assert_string_equal(words[n - 2], "h");
    assert_string_equal(words[n - 1], "exec sh -c ''");
    cluster_words_free(words);
    cluster_words_free(NULL);
}

static int make_directory(void **state) {
    (void)state;
    if (!mkdtemp(dir)) {
        return -1;
    }
    write_file("ssh", "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n", 0755);
    CO_AUTOFREE char *job = co_xasprintf("%s/%s", dir, odd);
    return mkdir(job, 0755);
}

static int remove_directory(void **state) {
    (void)state;
    CO_AUTOFREE char *command = co_xasprintf("rm -fr %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_host_become_events),
        cmocka_unit_test(an_endless_line_or_log_loses_its_end),
        cmocka_unit_test(the_last_error_line_of_ssh_is_kept_with_its_exit_code),
        cmocka_unit_test(a_host_that_does_not_read_is_sent_nothing_more),
        cmocka_unit_test(other_reaped_processes_do_not_end_the_session),
        cmocka_unit_test(an_ssh_that_is_not_there_is_named_and_leaves_nothing_open),
        cmocka_unit_test(the_script_starts_asks_and_stops_in_a_directory_of_any_name),
        cmocka_unit_test(a_server_that_ends_is_reported_with_its_code),
        cmocka_unit_test(a_directory_that_is_not_there_ends_the_script),
        cmocka_unit_test(a_package_replaces_the_directory),
        cmocka_unit_test(the_directory_is_the_workspace_or_named_by_the_time),
        cmocka_unit_test(a_host_without_user_and_port_leaves_both_to_ssh),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
