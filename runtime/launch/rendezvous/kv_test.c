/* A node and a master that answers what the test says: kv.c's part of the conversation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/http/httpc.h"
#include "common/http/httpd.h"
#include "common/ports_testing.h"
#include "runtime/launch/rendezvous/backend.h"
#include "runtime/launch/rendezvous/rendezvous.h"
#include "runtime/launch/rendezvous/wire.h"

/* Of the time limits, the test has only those that must pass.  The others are far away or are
 * reached by an event (`late`), so that a busy machine changes nothing. */
enum { TRACE = 2048, STEPS_TEXT = 512, DEADLINE_MS = 60000, QUESTIONS = 4 };
/* What has not ended by then never does: no other limit is as long. */
enum { NEVER_MS = 2 * DEADLINE_MS };

static struct {
    struct co_loop *loop;
    struct co_httpd *master;
    struct rdzv *m;
    char trace[TRACE], steps[STEPS_TEXT], *rest;
    int64_t asked[QUESTIONS]; /* when the first ones came */
    int n_asked;
    int ends; /* of connections */
    bool over;
} world;

/* What happens again and again is noted once. */
CO_PRINTF(1, 2) static void note(const char *fmt, ...) {
    char text[TRACE];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    const size_t len = strlen(world.trace), own = strlen(text);
    if (len < own || strcmp(world.trace + len - own, text) != 0) {
        (void)snprintf(world.trace + len, TRACE - len, "%s%s", len ? "; " : "", text);
    }
}

/* ---- the master -------------------------------------------------------------------------- */

static void answer_met(struct co_http_req *r) {
    const struct rdzv_wire_peer peers[] = {{"a", "{}"}, {"b", "{}"}};
    CO_AUTOBUF struct co_buf packed = CO_BUF(1 << 16), text = CO_BUF(1 << 16);
    size_t raw = 0;
    assert_int_equal(rdzv_wire_pack(peers, 2, &packed, &raw, NULL), 0);
    assert_int_equal(rdzv_wire_met(1, 0, 2, raw, &packed, &text, NULL), 0);
    co_http_reply(r, 200, NULL, text.data, text.len);
}

/* The time to meet is over once the master has answered nothing, or once it was reported as not
 * ready and asked again. */
static void be_late(void) {
    if (strstr(world.steps, "#late") &&
        (world.steps[0] == '#' || strstr(world.trace, "note master not ready"))) {
        co_timer_start(world.m->deadline, 0);
    }
}

static void on_forgotten(void *arg, struct co_http_req *r) {
    (void)arg;
    (void)r;
}

/* "500 text": a status and a body; else a line of ours; with a "*" behind it this and all that
 * follow.  No step left: no answer. */
static void on_request(void *arg, struct co_http_req *r) {
    const char *hello = co_http_header(r, RDZV_WIRE_HEADER);
    char word[16] = "", line[128];
    size_t len = 0;
    int status = 0;
    (void)arg;
    if (world.n_asked < QUESTIONS) {
        world.asked[world.n_asked++] = co_now_ms();
    }
    (void)sscanf(hello ? hello : "", "1 %*s %15s", word);
    const char *why = co_http_body(r, &len);
    const bool leaves = strcmp(co_http_method(r), "DELETE") == 0;
    note("%s%s%s%s%s", co_http_method(r), *word ? " " : "", word, leaves ? " " : "",
        leaves ? why : "");
    be_late();
    const bool ever = world.rest && strchr(world.rest, '*') && !strchr(world.rest, '|');
    const char *step = ever ? world.rest : world.rest ? strsep(&world.rest, "|") : NULL;
    if (leaves && strcmp(word, "leave") == 0) {
        assert_int_equal(world.ends, 0); /* it would be gone before it left */
        co_http_reply(r, 200, NULL, NULL, 0);
    } else if (!step) {
        co_http_defer(r, 60000, NULL, on_forgotten, NULL);
    } else if (strcmp(step, "met") == 0) {
        answer_met(r);
    } else if (sscanf(step, "%3d", &status) == 1) {
        co_http_reply(r, status, NULL, step + 4, strcspn(step + 4, "*"));
    } else {
        (void)snprintf(line, sizeof(line), "paddlerun %s\n", step);
        co_http_reply(r, 200, NULL, line, strlen(line));
    }
}

static void on_disconnected(void *arg, uint64_t conn) {
    (void)arg;
    (void)conn;
    world.ends++;
}

static const struct co_http_route routes[] = {{NULL, "/*", on_request}};

/* ---- the node ---------------------------------------------------------------------------- */

/* A busy machine may be late with any answer or question, and the launcher says so. */
static void on_note(void *arg, bool warn, const char *line) {
    static const char *const late[] = {
        "silent for a second", "the master answers again", "waiting for the other nodes since "};
    (void)arg;
    (void)warn;
    for (size_t i = 0; i < CO_ARRAY_LEN(late); i++) {
        if (strncmp(line, late[i], strlen(late[i])) == 0) {
            return;
        }
    }
    note("note %s", line);
}

static void on_gone(void *arg) {
    (void)arg;
    note("gone");
    world.over = true;
}

/* Only the master's answer ends its part: not that it took too long. */
static void leave(int code, const char *why) {
    rdzv_leave(world.m, code, why, on_gone);
    co_timer_stop(world.m->deadline);
}

static void on_met(void *arg, const struct rdzv_roster *roster) {
    (void)arg;
    note("met %zu%s", roster->n, roster->watched ? "" : " unwatched");
    /* What the launcher would do next stands behind the master's answers. */
    const char *next = strchr(world.steps, '#');
    world.over = !next && !roster->watched;
    if (next && strncmp(next, "#done", 5) == 0) {
        rdzv_done(world.m);
    } else if (next && strcmp(next, "#restart") == 0) {
        rdzv_restart(world.m, "oom");
    } else if (next && strcmp(next, "#leave") == 0) {
        leave(3, "worker 0");
    } else if (next && strcmp(next, "#lost") == 0) {
        co_httpd_close(co_steal_ptr(world.master));
    }
}

static void on_changed(void *arg, const char *why) {
    (void)arg;
    note("changed %s", why);
    world.over = true;
}

static void on_all_done(void *arg) {
    (void)arg;
    note("all done");
    if (strstr(world.steps, "#done, leave")) {
        leave(0, "");
    } else {
        world.over = true;
    }
}

static void on_ended(void *arg, const struct co_err *err) {
    (void)arg;
    note("ended %s: %s", co_code_name(err->code), err->msg);
    world.over = true;
}

static void on_never(void *arg) {
    (void)arg;
    note("it does not end");
    world.over = true;
}

static void run_until_over(void) {
    struct co_timer *never = co_timer_new(world.loop, on_never, NULL);
    co_timer_start(never, NEVER_MS);
    while (!world.over) {
        co_loop_turn(world.loop);
    }
    co_timer_free(never);
}

static void replace(char *text, const char *what, const char *with) {
    for (char *at; (at = strstr(text, what));) {
        CO_AUTOFREE char *rest = co_xstrdup(at + strlen(what));
        (void)snprintf(at, TRACE - (size_t)(at - text), "%s%s", with, rest);
    }
}

static void run(const char *steps, int max, int level) {
    static const struct rdzv_fns fns = {.note = on_note,
        .met = on_met,
        .changed = on_changed,
        .all_done = on_all_done,
        .ended = on_ended};
    static const struct co_httpd_options http = {.disconnected = on_disconnected};
    char address[32];
    world.trace[0] = '\0';
    world.over = false;
    world.n_asked = world.ends = 0;
    (void)snprintf(world.steps, sizeof(world.steps), "%s", steps);
    assert_int_equal(co_loop_new(&world.loop, NULL), 0);
    /* One of the kernel's choice could be another process's when the master has closed it. */
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", co_test_ports(1));
    assert_int_equal(co_httpd_open(world.loop, address, routes, CO_ARRAY_LEN(routes), NULL, &http,
                         &world.master, NULL),
        0);
    const struct rdzv_options o = {.job_id = "j",
        .master = address,
        .name = "a",
        .value = "{}",
        .rank = -1,
        .min_nodes = 2,
        .max_nodes = max,
        .level = level,
        .deadline_ms = DEADLINE_MS};
    char answers[STEPS_TEXT];
    (void)snprintf(answers, sizeof(answers), "%.*s", (int)strcspn(steps, "#"), steps);
    world.rest = *answers ? answers : NULL;
    assert_int_equal(rdzv_open(world.loop, &o, &fns, NULL, &world.m, NULL), 0);
    run_until_over();
    rdzv_close(world.m);
    co_httpd_close(co_steal_ptr(world.master));
    co_loop_free(world.loop);
    replace(world.trace, address, "MASTER");
}

#define PADDLES "note the master is Paddle's launcher: no node is notified of another's end"
#define LIST "200 {\"/j/info/a/-1\":\"{}\",\"/j/info/b/-1\":\"{}\"}"

static void each_answer_of_the_master_gives_its_callbacks(void **state) {
    (void)state;
    static const struct {
        int max, level;
        const char *steps; /* the master's answers; # and what the node's launcher does once met */
        const char *trace;
    } rows[] = {
        /* a master of ours: waiting, meeting, news */
        {2, -1, "wait 1 1 of 2|met|over -6 node b failed",
            "POST join; met 2; POST run; ended peer lost: node b failed"},
        {2, -1, "met|changed 1 node b left",
            "POST join; met 2; POST run; ended peer lost: node b left"},
        {2, 0, "met|changed 1 node b left", "POST join; met 2; POST run; changed node b left"},
        {2, -1, "met|mute 1 b is mute|over 1 bad",
            "POST join; met 2; POST run; note b is mute; POST run; ended peer lost: bad"},
        {2, -1, "refused -13 rank 0 is taken", "POST join; ended exists: rank 0 is taken"},
        {2, -1, "over 0 the job has ended", "POST join; ended canceled: the job has ended"},
        {2, -1, "met|wait 1 x#leave", "POST join; met 2; DELETE leave worker 0; gone"},
        /* it has done its work: nobody watches any more */
        {2, -1, "met|wait 1 x|over 0 done here#done, leave",
            "POST join; met 2; POST done; note done here; all done; gone"},
        {2, -1, "met|wait 1 x|done 1 all#done, leave",
            "POST join; met 2; POST done; all done; gone"},
        {2, 1, "met|over 0 done here#restart",
            "POST join; met 2; DELETE restart oom; note done here; ended peer lost: no other node "
            "would start again: no master watches this job"},
        {2, 1, "met|changed 1 node a: oom#restart",
            "POST join; met 2; DELETE restart oom; changed node a: oom"},
        /* a restart is asked for until it was received */
        {2, 1, "met|mute 1 b is mute|changed 1 node a: oom#restart",
            "POST join; met 2; DELETE restart oom; note b is mute; POST run; changed node a: oom"},
        {2, 1, "met|500 no|changed 1 node a: oom#restart",
            "POST join; met 2; DELETE restart oom; changed node a: oom"},
        /* it is not there, or nobody's */
        {2, -1, "#late",
            "POST join; ended timeout: the job's nodes did not meet within 60 s: the "
            "master at MASTER has not answered yet"},
        {2, -1, "500 no*#late",
            "POST join; note master not ready: MASTER answers 500, as no key-value service does; "
            "POST join; ended timeout: the job's nodes did not meet within 60 s: the master at "
            "MASTER is not there: MASTER answers 500, as no key-value service does"},
        {2, -1, "wait 1 b is missing|500 no*#late",
            "POST join; note master not ready: b is missing; then the master was lost: MASTER "
            "answers 500, as no key-value service does; POST join; ended timeout: the job's nodes "
            "did not meet within 60 s: b is missing; then the master was lost: MASTER answers "
            "500, "
            "as no key-value service does"},
        {2, -1, "met#lost", "POST join; met 2; ended peer lost: the master at MASTER is gone: ..."},
        {2, 0, "met#lost", "POST join; met 2; changed the master at MASTER is gone: ..."},
        {2, -1, "met|500 no*",
            "POST join; met 2; POST run; ended peer lost: the master at MASTER is gone: MASTER "
            "answers 500, as no key-value service does"},
        /* a master of Paddle's */
        {2, -1, "200 |200 {}|200 |" LIST,
            "POST join; " PADDLES "; GET; POST join; GET; met 2 unwatched"},
        {2, -1, "200 |500 no|200 |" LIST,
            "POST join; " PADDLES "; GET; POST join; GET; met 2 unwatched"},
        {2, -1, "200 |200 []",
            "POST join; " PADDLES
            "; GET; ended invalid: the master's list of nodes: not an object"},
        {2, 1, "200 |" LIST "#restart",
            "POST join; " PADDLES "; GET; met 2 unwatched; ended peer lost: no other node would "
            "start again: no master watches this job"},
        {2, -1, "200 |" LIST "#leave", "POST join; " PADDLES "; GET; met 2 unwatched; gone"},
        {3, 0, "200 *#late",
            "POST join; note master not ready: MASTER answers 200, as no key-value service does "
            "that can serve an elastic job; POST join; ended timeout: the job's nodes did not meet "
            "within 60 s: the master at MASTER is not there: MASTER answers 200, as no key-value "
            "service does that can serve an elastic job"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        run(rows[i].steps, rows[i].max, rows[i].level);
        const char *more = strstr(rows[i].trace, "..."); /* in the words of a library */
        const size_t len = more ? (size_t)(more - rows[i].trace) : TRACE;
        if (strncmp(world.trace, rows[i].trace, len) != 0) {
            fail_msg("%s: \"%s\", expected \"%s\"", rows[i].steps, world.trace, rows[i].trace);
        }
    }
}

/* Some web server has the port: a question each 250 ms. */
static void a_server_that_is_no_master_is_asked_at_intervals(void **state) {
    (void)state;
    run("500 no*#late", 2, -1);
    assert_true(world.n_asked > 1);
    for (int i = 1; i < world.n_asked; i++) {
        assert_true(world.asked[i] - world.asked[i - 1] > 200);
    }
}

/* ---- a node that serves -------------------------------------------------------------------- */

enum { PEERS = 2, SHORTLY_MS = 100 };

/* Two nodes of a job of three.  Each joins; then the first one's workers fail, and the second one
 * asks nothing more, so the serving node waits for it at its end. */
static struct {
    struct co_httpc *http[PEERS];
    struct co_timer *fails; /* due: the serving node's workers fail as well */
    int n_met;
} peers;

static void peer_send(
    int i, bool restart, void (*done)(void *arg, const struct co_httpc_result *r)) {
    struct rdzv_wire_hello h = {.host = "h",
        .state = RDZV_NODE_JOINING,
        .restart = restart,
        .round = restart,
        .min = PEERS + 1,
        .max = PEERS + 1};
    char text[RDZV_WIRE_TEXT];
    h.id[0] = (char)('b' + i);
    rdzv_wire_hello_format(&h, restart, text);
    CO_AUTOFREE char *path = co_xasprintf("/j/info/%s/-1", h.id);
    CO_AUTOFREE char *headers = co_xasprintf(RDZV_WIRE_HEADER ": %s\r\n", text);
    co_httpc_send(peers.http[i], &(struct co_httpc_request){.method = restart ? "DELETE" : "POST",
                                     .path = path,
                                     .headers = headers,
                                     .body = "{}",
                                     .len = 2,
                                     .timeout_ms = DEADLINE_MS,
                                     .done = done});
}

static void on_peer_over(void *arg, const struct co_httpc_result *r) {
    (void)arg;
    assert_non_null(strstr(r->body, "over"));
    co_timer_start(peers.fails, SHORTLY_MS); /* the serving node knows it as well by then */
}

static void on_peer_met(void *arg, const struct co_httpc_result *r) {
    struct rdzv_wire_answer a;
    (void)arg;
    assert_int_equal(rdzv_wire_answer_parse(r->body, r->len, &a, NULL), 0);
    assert_int_equal(a.kind, RDZV_WIRE_MET);
    rdzv_wire_answer_done(&a);
    if (++peers.n_met == PEERS) {
        peer_send(0, true, on_peer_over);
    }
}

static void on_serving(void *arg, const char *endpoint) {
    struct co_hostport hp;
    (void)arg;
    assert_int_equal(co_parse_hostport("the endpoint", endpoint, &hp, NULL), 0);
    for (int i = 0; i < PEERS; i++) {
        peers.http[i] = co_httpc_new(world.loop, hp.host, hp.port, NULL, 1 << 20);
        peer_send(i, false, on_peer_met);
    }
}

static void workers_fail(void *arg) {
    (void)arg;
    rdzv_restart(world.m, "oom");
}

static void workers_that_fail_while_a_job_ends_do_not_keep_its_master(void **state) {
    (void)state;
    static const struct rdzv_fns fns = {
        .serving = on_serving, .met = on_met, .changed = on_changed, .ended = on_ended};
    const struct rdzv_options o = {.job_id = "j",
        .name = "a",
        .value = "{}",
        .rank = -1,
        .min_nodes = PEERS + 1,
        .max_nodes = PEERS + 1,
        .level = 1,
        .deadline_ms = DEADLINE_MS};
    world.trace[0] = world.steps[0] = '\0';
    world.over = false;
    peers.n_met = 0;
    assert_int_equal(co_loop_new(&world.loop, NULL), 0);
    peers.fails = co_timer_new(world.loop, workers_fail, NULL);
    assert_int_equal(rdzv_open(world.loop, &o, &fns, NULL, &world.m, NULL), 0);
    run_until_over();
    assert_string_equal(world.trace, "met 3; ended no resource: node b (rank 1, h) starts again: "
                                     "{}, and restarts are not allowed");
    rdzv_close(world.m);
    co_timer_free(peers.fails);
    for (int i = 0; i < PEERS; i++) {
        co_httpc_free(peers.http[i]);
    }
    co_loop_free(world.loop);
}

static void a_master_that_is_no_address_is_named(void **state) {
    (void)state;
    static const char *const masters[] = {"h", "h:", "h:x", ":1", "h:0", "h:70000"};
    static const struct rdzv_fns fns = {.ended = on_ended};
    assert_int_equal(co_loop_new(&world.loop, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(masters); i++) {
        const struct rdzv_options o = {.master = masters[i],
            .name = "a",
            .value = "{}",
            .rank = -1,
            .min_nodes = 2,
            .max_nodes = 2};
        struct rdzv *m = NULL;
        struct co_err err = {0};
        int r = rdzv_open(world.loop, &o, &fns, NULL, &m, &err);
        if (r != CO_INVALID || !strstr(err.msg, "--master") || !strstr(err.msg, masters[i])) {
            fail_msg("%s: %d \"%s\"", masters[i], r, err.msg);
        }
    }
    co_loop_free(world.loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_of_the_master_gives_its_callbacks),
        cmocka_unit_test(a_server_that_is_no_master_is_asked_at_intervals),
        cmocka_unit_test(a_master_that_is_no_address_is_named),
        cmocka_unit_test(workers_that_fail_while_a_job_ends_do_not_keep_its_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
