/* What top prints of a server that stands in for the API server and for processes, with a kubectl
 * that is a script. */
#include "runtime/tools/top/top.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/folder_testing.h"
#include "common/http/httpd.h"
#include "common/parse.h"

enum { LISTS = 3, TARGETS = 4, WANTS = 6, TEXT = 1 << 20, ANSWER_MS = 60000 };

#define TRAINER "process_start_time_seconds 1\npaddlert_trainer_steps_total 50\n"
#define SERVER "process_start_time_seconds 1\npaddlert_server_memory_limit_bytes 2048\n"

/* kubectl, behind `case $1`: of `config` and of `proxy`. */
#define SPACE "printf team"
#define PROXY "echo Starting to serve on 127.0.0.1:$TOP_TEST_PORT; exec sleep 1000"

struct row {
    const char *name;
    const char *config, *proxy;   /* NULL: there is no kubectl */
    const char *targets[TARGETS]; /* %u: the server's port */
    const char *space;            /* NULL: targets are no jobs */
    int64_t reads;                /* 0: one */
    const char *list[LISTS];      /* the API server's answers, the last one again and again; a
                                     number: a list of so many pods */
    int status;                   /* of the list; 0: 200 */
    int code;                     /* of top_run */
    struct {
        const char *text;
        size_t times;
    } want[WANTS]; /* in what it prints; or in the error, once */
};

/* ---- the server ---------------------------------------------------------------------------- */

static const struct row *served;
static size_t n_lists;

static void reply(struct co_http_req *req, int status, const char *text) {
    co_http_reply(req, status, "text/plain", text, strlen(text));
}

static void list_pods(void *arg, struct co_http_req *req) {
    const char *text = served->list[n_lists];
    (void)arg;
    n_lists += n_lists + 1 < LISTS && served->list[n_lists + 1];
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT);
    int64_t n = 0;
    (void)!co_parse_i64("pods", text, 0, 1000, &n, NULL);
    for (int i = 0; i < n; i++) {
        assert_int_equal(
            co_buf_addf(&b, NULL, "%s{\"metadata\":{\"name\":\"w-%d\",\"namespace\":\"team\"}}",
                i ? "," : "{\"items\":[", i),
            0);
    }
    assert_int_equal(co_buf_adds(&b, n ? "]}" : text, NULL), 0);
    reply(req, served->status ? served->status : 200, b.data);
}

static void show_trainer(void *arg, struct co_http_req *req) {
    (void)arg;
    reply(req, 200, TRAINER);
}

static void show_server(void *arg, struct co_http_req *req) {
    (void)arg;
    reply(req, 200, SERVER);
}

static void show_nothing(void *arg, struct co_http_req *req) {
    (void)arg;
    reply(req, 200, "<html>\nhello\n");
}

static void fail_to_show(void *arg, struct co_http_req *req) {
    (void)arg;
    reply(req, 500, TRAINER);
}

static const struct co_http_route routes[] = {
    {"GET", "/api/v1/namespaces/team/pods", list_pods},
    {"GET", "/api/v1/namespaces/default/pods", list_pods},
    {"GET", "/api/v1/namespaces/team/pods/t-0:9400/proxy/metrics", show_trainer},
    {"GET", "/metrics", show_server},
    {"GET", "/html/metrics", show_nothing},
    {"GET", "/sick/metrics", fail_to_show},
};

static void serve(int to, pid_t parent) {
    struct co_loop *l = NULL;
    struct co_httpd *h = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || co_loop_new(&l, NULL) ||
        co_httpd_open(l, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), NULL, NULL, &h, NULL)) {
        _exit(1);
    }
    const uint16_t port = co_httpd_port(h);
    if (write(to, &port, sizeof(port)) == sizeof(port)) {
        co_loop_run(l);
    }
    _exit(1);
}

static pid_t start_server(const struct row *row, uint16_t *ret_port) {
    int ends[2];
    const pid_t self = getpid();
    served = row;
    n_lists = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        serve(ends[1], self);
    }
    (void)close(ends[1]);
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], ret_port, sizeof(*ret_port)), sizeof(*ret_port));
    (void)close(ends[0]);
    return pid;
}

/* ---- a row --------------------------------------------------------------------------------- */

/* PATH begins with dir, whose kubectl does what the row says. */
static void set_kubectl(const char *dir, const struct row *row, uint16_t port) {
    CO_AUTOFREE char *path = co_xasprintf("%s/kubectl", dir);
    CO_AUTOFREE char *search = co_xasprintf(row->proxy ? "%s:/usr/bin:/bin" : "%s", dir);
    char text[8];
    (void)snprintf(text, sizeof(text), "%u", port);
    assert_int_equal(setenv("PATH", search, 1), 0);
    assert_int_equal(setenv("TOP_TEST_PORT", text, 1), 0);
    (void)unlink(path);
    if (row->proxy) {
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_true(fprintf(f, "#!/bin/sh\ncase $1 in config) %s;; proxy) %s;; esac\n", row->config,
                        row->proxy) > 0);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(chmod(path, 0755), 0);
    }
}

static int run(const struct row *row, uint16_t port, char *ret_text, struct co_err *err) {
    CO_AUTOCLOSE int said = memfd_create("said", MFD_CLOEXEC);
    char target[TARGETS][128];
    const char *targets[TARGETS];
    struct top_options o = {.targets = targets,
        .space = row->space,
        .interval_ms = 1,
        .count = row->reads ? row->reads : 1,
        .timeout_ms = ANSWER_MS};
    for (; o.n < TARGETS && row->targets[o.n]; o.n++) {
        const char *hole = strstr(row->targets[o.n], "%u");
        const int head = hole ? (int)(hole - row->targets[o.n]) : -1;
        (void)snprintf(target[o.n], sizeof(target[0]), "%.*s", head, row->targets[o.n]);
        if (hole) {
            (void)snprintf(
                target[o.n] + head, sizeof(target[0]) - (size_t)head, "%u%s", port, hole + 2);
        }
        targets[o.n] = target[o.n];
    }
    assert_int_equal(fflush(stdout), 0);
    CO_AUTOCLOSE int before = dup(STDOUT_FILENO);
    assert_true(dup2(said, STDOUT_FILENO) >= 0);
    int code = top_run(&o, err);
    (void)fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    ssize_t n = pread(said, ret_text, TEXT - 1, 0);
    ret_text[n > 0 ? n : 0] = '\0';
    return code;
}

static size_t count(const char *text, const char *of) {
    size_t n = 0;
    for (const char *at = strstr(text, of); at; at = strstr(at + 1, of)) {
        n++;
    }
    return n;
}

#define POD(name, spec, phase)                                                                     \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"team\"},\"spec\":{\"containers\":[" spec \
    "]},\"status\":{\"phase\":\"" phase "\"}}"
#define METRICS "{\"ports\":[{\"name\":\"metrics\",\"containerPort\":9400}]}"
#define RUNNING "{\"items\":[" POD("t-0", METRICS, "Running") "]}"

static const struct row rows[] = {
    /* processes */
    {"a server, a page, an error, and nobody", NULL, NULL,
        {"127.0.0.1:%u", "http://127.0.0.1:%u/html", "http://127.0.0.1:%u/sick/",
            "127.0.0.1:%u/none"},
        NULL, 1, {0}, 0, 0,
        {{"SERVER", 1}, {"2048", 0}, {"/html neither a server nor a trainer\n", 1},
            {"/sick/ HTTP status 500\n", 1}, {" HTTP status 404\n", 1}}},
    {"a table for each read", NULL, NULL, {"127.0.0.1:%u"}, NULL, 3, {0}, 0, 0,
        {{"SERVER", 3}, {"\n\n", 3}}},
    {"a table alone has no line behind it", NULL, NULL, {"127.0.0.1:%u"}, NULL, 1, {0}, 0, 0,
        {{"\n\n", 0}}},
    {"nobody answers at the last read", NULL, NULL, {"127.0.0.1:%u/sick"}, NULL, 2, {0}, 0,
        CO_UNAVAILABLE, {{"nobody answers", 1}}},
    {"a word that could be a job, where none is meant", NULL, NULL, {"wide"}, NULL, 1, {0}, 0,
        CO_INVALID, {{"target: \"wide\" is not host:port", 1}}},
    {"a port that is none", NULL, NULL, {"127.0.0.1:%u", "a:99999"}, NULL, 1, {0}, 0, CO_INVALID,
        {{"\"a:99999\": the port is not a number", 1}}},
    {"a flag behind addresses", NULL, NULL, {"127.0.0.1:%u", "-n"}, "", 1, {0}, 0, CO_INVALID,
        {{"-n: flags go before addresses", 1}}},
    /* jobs */
    {"a job's pod is asked through the API server", SPACE, PROXY, {"wide"}, "", 1, {RUNNING}, 0, 0,
        {{"TRAINER", 1}, {"\nt-0 ", 1}, {"wide", 0}}},
    {"the command's namespace needs no context", "exit 1", PROXY, {"wide"}, "team", 1, {RUNNING}, 0,
        0, {{"\nt-0 ", 1}}},
    {"without a context it is default", "exit 1", PROXY, {"wide"}, "", 1, {RUNNING}, 0, 0,
        {{"\nt-0 ", 1}}},
    {"kubectl's warnings are no namespace", "echo 'W1128 no such file' >&2; " SPACE, PROXY,
        {"wide"}, "", 1, {RUNNING}, 0, 0, {{"\nt-0 ", 1}, {"W1128", 0}}},
    {"nor do they hide the port", SPACE, "echo 'W1128 no such file' >&2; " PROXY, {"wide"}, "", 1,
        {RUNNING}, 0, 0, {{"\nt-0 ", 1}}},
    {"a namespace that is none", "printf 'a b'", PROXY, {"wide"}, "", 1, {RUNNING}, 0, CO_INVALID,
        {{"\"a b\" is not a namespace", 1}}},
    {"kubectl cannot serve", SPACE, "echo error: no login >&2; exit 1", {"wide"}, "", 1, {RUNNING},
        0, CO_UNAVAILABLE, {{"kubectl proxy: error: no login", 1}}},
    {"kubectl ends without a word", SPACE, "exit 1", {"wide"}, "", 1, {RUNNING}, 0, CO_UNAVAILABLE,
        {{"kubectl proxy: it ended", 1}}},
    {"there is no kubectl", NULL, NULL, {"wide"}, "", 1, {RUNNING}, 0, CO_NOTFOUND,
        {{"\"kubectl\": not in PATH", 1}}},
    {"a name that no job can have", SPACE, PROXY, {"Wide"}, "", 1, {RUNNING}, 0, CO_INVALID,
        {{"\"Wide\" is neither a job's name nor HOST:PORT", 1}}},
    {"a job without pods", SPACE, PROXY, {"wide"}, "", 1, {"{\"items\":[]}"}, 0, CO_UNAVAILABLE,
        {{"nobody answers", 1}}},
    {"it says so", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 1, {"{\"items\":[]}"}, 0, 0,
        {{"no pod of such a job\n", 1}, {"SERVER", 1}}},
    {"the API server refuses", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 1,
        {"{\"message\":\"pods is forbidden\"}"}, 403, 0,
        {{"HTTP status 403: pods is forbidden\n", 1}, {"SERVER", 1}}},
    {"in words that are no Status", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 1,
        {"no healthy upstream\nat all"}, 503, 0, {{"HTTP status 503: no healthy upstream\n", 1}}},
    {"an answer that is no list", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 1, {"[]"}, 0, 0,
        {{"expected a list of at most", 1}}},
    /* pods that come and go */
    {"a pod that waits, and then serves", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 2,
        {"{\"items\":[" POD("t-0", METRICS, "Pending") "]}", RUNNING}, 0, 0,
        {{"\nt-0 ", 2}, {" Pending\n", 1}, {"TRAINER", 1}}},
    {"a pod that serves, and then has ended", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 2,
        {RUNNING, "{\"items\":[" POD("t-0", METRICS, "Succeeded") "]}"}, 0, 0,
        {{"TRAINER", 1}, {" Succeeded\n", 1}}},
    {"a pod that is gone", SPACE, PROXY, {"wide", "127.0.0.1:%u"}, "", 3,
        {RUNNING, "{\"items\":[]}"}, 0, 0, {{"TRAINER", 1}, {"no pod of such a job\n", 2}}},
    {"more pods than are shown: the first ones, in each read", SPACE, PROXY,
        {"wide", "127.0.0.1:%u"}, "", 3, {"300"}, 0, 0,
        {{"Unknown\n", 3 * (TOP_TARGETS - 2)}, {"w-253 ", 3}, {"w-254 ", 0}, {"SERVER", 3}}},
    {"two jobs share them", SPACE, PROXY, {"wide", "deep", "127.0.0.1:%u"}, "", 2, {"200"}, 0, 0,
        {{"Unknown\n", 2 * (TOP_TARGETS - 3)}, {"SERVER", 2}}},
};

static void scraped_metrics_are_printed(void **state) {
    static char text[TEXT];
    CO_AUTOFREE char *path = co_xstrdup(getenv("PATH"));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        uint16_t port = 0;
        struct co_err err = {0};
        pid_t pid = start_server(&rows[i], &port);
        set_kubectl(*state, &rows[i], port);
        int code = run(&rows[i], port, text, &err);
        assert_int_equal(setenv("PATH", path, 1), 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (code != rows[i].code) {
            fail_msg("%s: %d \"%s\"\n%s", rows[i].name, code, err.msg, text);
        }
        for (size_t k = 0; k < WANTS && rows[i].want[k].text; k++) {
            const char *in = code ? err.msg : text;
            if (count(in, rows[i].want[k].text) != rows[i].want[k].times) {
                fail_msg("%s: '%s' is %zu times in\n%s", rows[i].name, rows[i].want[k].text,
                    count(in, rows[i].want[k].text), in);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {CO_TEST_IN_FOLDER(scraped_metrics_are_printed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
