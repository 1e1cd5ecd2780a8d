/* The program is one file without a header: it is included, its main under another name. */
int gate_main(int argc, char **argv);
#define main gate_main
#include "operator/gate/gate.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

#include <fcntl.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/contract.h"
#include "common/ports_testing.h"

struct result {
    int code;        /* exit code; -1: killed */
    char out[4096];  /* what the gate printed */
    char asked[512]; /* first line of the last request */
};

static int listen_on(struct sockaddr_in *ret) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(*ret);
    assert_int_equal(bind(fd, (struct sockaddr *)ret, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

/* The gate as a process with this list of addresses. */
static pid_t start_with(const char *addrs, struct gate g, int *ret_out) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* the listener is the parent's alone */
        struct sigaction sa = {.sa_handler = on_terminated};
        (void)sigaction(SIGTERM, &sa, NULL);
        parse_addrs(&g, addrs);
        (void)snprintf(
            g.request, sizeof(g.request), "GET /gate/v1/ns/pod/uid?wait=10 HTTP/1.1\r\n\r\n");
        _exit(g.n_addrs ? wait_for_go(&g) : 99);
    }
    (void)close(out[1]);
    *ret_out = out[0];
    return pid;
}

static pid_t start(const char *addrs, int64_t silence_max_ms, int *ret_out) {
    return start_with(addrs,
        (struct gate){.answer_ms = ANSWER_MS,
            .silence_max_ms = silence_max_ms,
            .unknown_max_ms = UNKNOWN_MAX_MS},
        ret_out);
}

/* reply NULL: hangs up without a word. */
static void serve_one(int listener, const char *reply, struct result *r) {
    int fd = -1;
    for (ssize_t n = 0; n <= 0;) { /* a try that came second asks nothing */
        (void)close(fd);
        fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        memset(r->asked, 0, sizeof(r->asked));
        n = recv(fd, r->asked, sizeof(r->asked) - 1, 0);
    }
    r->asked[strcspn(r->asked, "\r")] = '\0';
    if (reply) {
        /* In two parts: an answer need not come at once. */
        size_t half = strlen(reply) / 2;
        (void)!send(fd, reply, half, MSG_NOSIGNAL);
        (void)!send(fd, reply + half, strlen(reply) - half, MSG_NOSIGNAL);
    }
    (void)close(fd);
}

static void finish(pid_t pid, int out, struct result *r) {
    size_t n = 0;
    ssize_t got;
    while ((got = read(out, r->out + n, sizeof(r->out) - 1 - n)) > 0) {
        n += (size_t)got;
    }
    (void)close(out);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct result play(const char *const *replies, size_t n, int64_t silence_max_ms) {
    struct result r = {0};
    struct sockaddr_in at;
    int listener = listen_on(&at);
    char addrs[64];
    int out = -1;
    (void)snprintf(addrs, sizeof(addrs), "127.0.0.1:%u", ntohs(at.sin_port));
    if (!n) {
        (void)close(listener); /* before the gate asks, not while it does */
    }
    pid_t pid = start(addrs, silence_max_ms, &out);
    for (size_t i = 0; i < n; i++) {
        serve_one(listener, replies[i], &r);
    }
    if (n) {
        (void)close(listener);
    }
    finish(pid, out, &r);
    return r;
}

#define HTTP(status, length, body)                                                                 \
    "HTTP/1.1 " status "\r\nContent-Length: " length "\r\nConnection: close\r\n\r\n" body

static void the_gate_opens_when_the_operator_answers_go(void **state) {
    (void)state;
    const char *replies[] = {HTTP("200 OK", "3", "go\n")};
    struct result r = play(replies, 1, SILENCE_MAX_MS);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "paddle-gate: go, after "));
    assert_string_equal(r.asked, "GET /gate/v1/ns/pod/uid?wait=10 HTTP/1.1");
}

static void the_gate_retries_until_the_operator_answers_go(void **state) {
    (void)state;
    const char *replies[] = {HTTP("404 Not Found", "8", "no such\n"),
        HTTP("202 Accepted", "13", "waits for 3\n"), HTTP("204 No Content", "0", ""), NULL,
        "HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nboo", "nonsense",
        "HTTP/1.0 200 OK\r\n\r\ngo\n"};
    struct result r = play(replies, sizeof(replies) / sizeof(replies[0]), SILENCE_MAX_MS);
    assert_int_equal(r.code, 0);
}

static void the_gate_fails_when_the_operator_answers_410(void **state) {
    (void)state;
    const char *replies[] = {HTTP("410 Gone", "16", "the job is over\n")};
    struct result r = play(replies, 1, SILENCE_MAX_MS);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "this pod shall not start: the job is over\n"));
}

static void the_gate_opens_without_an_operator(void **state) {
    (void)state;
    struct result r = play(NULL, 0, 200); /* refused */
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "no answer from the operator"));
    assert_non_null(strstr(r.out, "Connection refused"));
    const char *broken[] = {"HTTP/1.1 503 No\r\n\r\nlater"};
    r = play(broken, 1, 200);
    assert_int_equal(r.code, 0);
}

/* Somebody else may have the operator's address by now. */
static void the_gate_ignores_an_operator_that_never_knows_the_job(void **state) {
    (void)state;
    enum { UNKNOWN_MS = 12000, KNOWN_AT = 2, FOR_EVER = 100 };
    struct result r = {0};
    struct sockaddr_in at;
    int listener = listen_on(&at), out = -1, asked = 0;
    char addrs[64];
    (void)snprintf(addrs, sizeof(addrs), "127.0.0.1:%u", ntohs(at.sin_port));
    pid_t pid = start_with(addrs,
        (struct gate){
            .answer_ms = ANSWER_MS, .silence_max_ms = SILENCE_MAX_MS, .unknown_max_ms = UNKNOWN_MS},
        &out);
    int64_t known = 0;
    struct pollfd ends[] = {{.fd = out, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
    while (poll(ends, 2, -1) > 0 && !ends[0].revents) {
        /* One answer of who knows the pod, and the time limit starts again. */
        bool knows = ++asked == KNOWN_AT;
        known = knows ? now_ms() : known;
        serve_one(listener,
            knows ? HTTP("202 Accepted", "6", "waits\n") : HTTP("404 Not Found", "3", "no\n"), &r);
        if (asked == FOR_EVER) {
            (void)kill(pid, SIGKILL);
            break;
        }
    }
    (void)close(listener);
    finish(pid, out, &r);
    assert_int_equal(r.code, 0);
    assert_true(now_ms() - known >= UNKNOWN_MS && asked > KNOWN_AT);
    assert_non_null(strstr(r.out, "no operator has known this pod"));
}

static void the_next_address_is_asked_at_once(void **state) {
    (void)state;
    struct result r = {0};
    struct sockaddr_in alive;
    int listener = listen_on(&alive);
    char addrs[128];
    int out = -1;
    (void)snprintf(addrs, sizeof(addrs), "operator:8082,127.0.0.1:%u,127.0.0.1:%u",
        co_test_ports(1), ntohs(alive.sin_port)); /* nobody listens at the first */
    pid_t pid = start(addrs, SILENCE_MAX_MS, &out);
    serve_one(listener, HTTP("200 OK", "3", "go\n"), &r);
    (void)close(listener);
    finish(pid, out, &r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"operator:8082\" is left out"));
}

/* The kernel takes connections for a process that is stopped. */
static void the_gate_asks_the_next_address_when_an_operator_is_silent(void **state) {
    (void)state;
    struct result r = {0};
    struct sockaddr_in mute, alive;
    int stopped = listen_on(&mute), listener = listen_on(&alive), out = -1;
    char addrs[64];
    (void)snprintf(addrs, sizeof(addrs), "127.0.0.1:%u,127.0.0.1:%u", ntohs(mute.sin_port),
        ntohs(alive.sin_port));
    pid_t pid = start_with(addrs,
        (struct gate){
            .answer_ms = 12000, .silence_max_ms = SILENCE_MAX_MS, .unknown_max_ms = UNKNOWN_MAX_MS},
        &out);
    serve_one(listener, HTTP("200 OK", "3", "go\n"), &r);
    (void)close(listener);
    (void)close(stopped);
    finish(pid, out, &r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "paddle-gate: go, after "));
}

/* Its queue has room for one connection, the one returned: whose comes later gets no answer. */
static int fill(int listener, const struct sockaddr_in *at) {
    assert_int_equal(listen(listener, 0), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
    /* It is in the queue once the kernel has seen its last packet, which a busy machine delays. */
    struct pollfd queued = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&queued, 1, 60000), 1);
    return fd;
}

/* Connections of this machine that wait for a first answer from there. */
static int connecting(const struct sockaddr_in *to) {
    enum { SYN_SENT = 2 }; /* include/net/tcp_states.h */
    FILE *f = fopen("/proc/net/tcp", "re");
    assert_non_null(f);
    char line[256];
    int n = 0;
    while (fgets(line, sizeof(line), f)) {
        unsigned port = 0, state = 0;
        if (sscanf(line, "%*s %*8[0-9A-F]:%*4[0-9A-F] %*8[0-9A-F]:%4x %2x", &port, &state) == 2) {
            n += port == ntohs(to->sin_port) && state == SYN_SENT;
        }
    }
    (void)fclose(f);
    return n;
}

static void the_gate_opens_another_connection_when_one_hangs(void **state) {
    (void)state;
    struct result r = {0};
    struct sockaddr_in at[2];
    int listener[2], first[2], out = -1;
    char addrs[64];
    for (int i = 0; i < 2; i++) {
        listener[i] = listen_on(&at[i]);
        first[i] = fill(listener[i], &at[i]);
    }
    (void)snprintf(addrs, sizeof(addrs), "127.0.0.1:%u,127.0.0.1:%u", ntohs(at[0].sin_port),
        ntohs(at[1].sin_port));
    pid_t pid = start(addrs, SILENCE_MAX_MS, &out);
    while (connecting(&at[0]) < 2 || connecting(&at[1]) < 2) {
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it has not given up */
        (void)pause_ms(10);
    }
    (void)close(first[1]);
    serve_one(listener[1], HTTP("200 OK", "3", "go\n"), &r);
    finish(pid, out, &r);
    for (int i = 0; i < 2; i++) {
        (void)close(listener[i]);
    }
    (void)close(first[0]);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "paddle-gate: go, after "));
}

static void sigterm_ends_the_gate_while_it_waits(void **state) {
    (void)state;
    struct result r = {0};
    struct sockaddr_in at;
    int listener = listen_on(&at);
    char addrs[64];
    int out = -1;
    (void)snprintf(addrs, sizeof(addrs), "127.0.0.1:%u", ntohs(at.sin_port));
    pid_t pid = start(addrs, SILENCE_MAX_MS, &out);
    int fd = accept(listener, NULL, NULL);
    char buf[512];
    assert_true(recv(fd, buf, sizeof(buf), 0) > 0); /* it waits for the answer now */
    assert_int_equal(kill(pid, SIGTERM), 0);
    finish(pid, out, &r);
    (void)close(fd);
    (void)close(listener);
    assert_int_equal(r.code, 143);
}

static void addresses_are_numeric_with_a_port(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"10.0.0.1:8082", true},
        {"[fd00::1]:8082", true},
        {"[::1]:65535", true},
        {"10.0.0.1", false},
        {"10.0.0.1:", false},
        {"10.0.0.1:0", false},
        {"10.0.0.1:65536", false},
        {"10.0.0.1:80x", false},
        {"fd00::1:8082", false},
        {"[10.0.0.1]:80", false},
        {"operator:80", false},
        {":80", false},
        {"]:80", false},
        {"", false},
        {"1111111111111111111111111111111111111111111111111111111111111111111:80", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct addr a;
        if (parse_addr(rows[i].text, strlen(rows[i].text), &a) != rows[i].good) {
            fail_msg("\"%s\"", rows[i].text);
        }
    }
}

static void variables_are_rows_of_the_contract(void **state) {
    (void)state;
    assert_string_equal(var_addr, co_contract[CO_VAR_GATE_ADDR].name);
    assert_string_equal(var_namespace, co_contract[CO_VAR_POD_NAMESPACE].name);
    assert_string_equal(var_name, co_contract[CO_VAR_POD_NAME].name);
    assert_string_equal(var_uid, co_contract[CO_VAR_POD_UID].name);
    assert_string_equal(var_ips, co_contract[CO_VAR_POD_IPS].name);
}

static void the_gate_opens_when_its_variable_is_missing(void **state) {
    (void)state;
    (void)unsetenv(var_addr);
    assert_int_equal(gate_main(1, (char *[]){"paddle-gate", NULL}), 0);
}

int main(void) {
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_opens_when_the_operator_answers_go),
        cmocka_unit_test(the_gate_retries_until_the_operator_answers_go),
        cmocka_unit_test(the_gate_fails_when_the_operator_answers_410),
        cmocka_unit_test(the_gate_opens_without_an_operator),
        cmocka_unit_test(the_gate_ignores_an_operator_that_never_knows_the_job),
        cmocka_unit_test(the_next_address_is_asked_at_once),
        cmocka_unit_test(the_gate_asks_the_next_address_when_an_operator_is_silent),
        cmocka_unit_test(the_gate_opens_another_connection_when_one_hangs),
        cmocka_unit_test(sigterm_ends_the_gate_while_it_waits),
        cmocka_unit_test(addresses_are_numeric_with_a_port),
        cmocka_unit_test(variables_are_rows_of_the_contract),
        cmocka_unit_test(the_gate_opens_when_its_variable_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
