/* Both sides of --require_token, over connections: the guard of a master, clients that say what the
 * test says, and a node's prover. */
#include "runtime/launch/rendezvous/guard.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/launch/rendezvous/prover.h"
#include "runtime/launch/rendezvous/seal.h"
#include "runtime/launch/rendezvous/wire.h"

enum { ANSWER = 2048 };

static struct {
    struct co_loop *loop;
    struct co_httpd *http;
    struct rdzv_guard *guard;
    bool open;     /* asks for no proof */
    bool unproven; /* and gives none */
    int asked;     /* requests of any kind */
    int let_in;
    int notes;
    char note[256];
    int fd;
    char answer[ANSWER];
    /* what a prover's owner is called back with */
    int done, code, status;
    char text[CO_ERR_MAX];
} world;

static void on_request(void *arg, struct co_http_req *r) {
    (void)arg;
    world.asked++;
    if (world.open || rdzv_guard_admit(world.guard, r)) {
        world.let_in++;
        co_http_replyf(r, 200, "in\n");
    }
}

static void on_answering(
    void *arg, struct co_http_req *r, int status, const void *body, size_t len) {
    (void)arg;
    if (!world.unproven) {
        rdzv_guard_prove(world.guard, r, status, body, len);
    }
}

static void on_disconnected(void *arg, uint64_t conn) {
    (void)arg;
    rdzv_guard_disconnected(world.guard, conn);
}

static void on_note(void *arg, bool warn, const char *line) {
    (void)arg;
    assert_true(warn);
    world.notes++;
    (void)snprintf(world.note, sizeof(world.note), "%s", line);
}

static const struct co_http_route routes[] = {{NULL, "/*", on_request}};

static int setup(void **state) {
    (void)state;
    const struct co_httpd_options o = {.disconnected = on_disconnected, .answering = on_answering};
    memset(&world, 0, sizeof(world));
    world.fd = -1;
    assert_int_equal(0, co_loop_new(&world.loop, NULL));
    assert_int_equal(0, rdzv_guard_new("secret", on_note, NULL, &world.guard, NULL));
    return co_httpd_open(
        world.loop, "127.0.0.1:0", routes, CO_ARRAY_LEN(routes), NULL, &o, &world.http, NULL);
}

static int teardown(void **state) {
    (void)state;
    co_closep(&world.fd);
    co_httpd_close(world.http);
    rdzv_guard_free(world.guard);
    co_loop_free(world.loop);
    return 0;
}

/* ---- a client that sends what a test wants -------------------------------------------------- */

static void dial(void) {
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_port = htons(co_httpd_port(world.http)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    co_closep(&world.fd);
    world.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(world.fd, (struct sockaddr *)&a, sizeof(a)));
}

/* Status and whole answer; proof "": without that header. */
static int ask(const struct rdzv_seal_request *q, const char *proof) {
    CO_AUTOFREE char *text =
        co_xasprintf("%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n%s%s%s" RDZV_WIRE_HEADER
                     ": %s\r\n\r\n%.*s",
            q->method, q->path, q->len, *proof ? RDZV_SEAL_HEADER ": " : "", proof,
            *proof ? "\r\n" : "", q->said, (int)q->len, (const char *)q->body);
    size_t n = 0, len = 0;
    int status = 0;
    assert_int_equal(strlen(text), send(world.fd, text, strlen(text), 0));
    for (;;) {
        co_loop_turn(world.loop);
        ssize_t got = recv(world.fd, world.answer + n, ANSWER - 1 - n, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        world.answer[n] = '\0';
        const char *end = strstr(world.answer, "\r\n\r\n");
        const char *length = strcasestr(world.answer, "\r\ncontent-length: ");
        if (end && length && sscanf(length + 18, "%zu", &len) == 1 && strlen(end + 4) >= len) {
            break;
        }
    }
    assert_int_equal(1, sscanf(world.answer, "HTTP/1.1 %d", &status));
    return status;
}

static const struct rdzv_seal_request usual = {
    .method = "POST", .path = "/j/info/a/-1", .said = "1 a join", .body = "{}", .len = 2};

/* On the connection there is: the nonce for the next request. */
static struct rdzv_seal be_challenged(void) {
    struct rdzv_seal s = {.client = {7}};
    char text[RDZV_SEAL_TEXT];
    rdzv_seal_format(&s, text);
    assert_int_equal(401, ask(&usual, text));
    assert_true(rdzv_seal_challenge_parse(strstr(world.answer, "\r\n\r\n") + 4, s.nonce));
    return s;
}

static void prove(struct rdzv_seal *s, const char *token, char ret_text[RDZV_SEAL_TEXT]) {
    s->number++;
    rdzv_seal_request(s, token, &usual);
    rdzv_seal_format(s, ret_text);
}

static void an_unknown_peer_is_refused_and_logged_once(void **state) {
    (void)state;
    dial();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(401, ask(&usual, ""));
        assert_null(strstr(world.answer, RDZV_SEAL_HEADER));
    }
    assert_int_equal(401, ask(&usual, "2 what"));
    assert_int_equal(0, world.let_in);
    assert_int_equal(1, world.notes);
    assert_string_equal("refused: 127.0.0.1: no proof of the job's token (PADDLE_JOB_TOKEN, "
                        "--require_token)",
        world.note);
}

static void a_proven_request_is_served_and_its_answer_carries_a_proof(void **state) {
    (void)state;
    dial();
    struct rdzv_seal s = be_challenged();
    char text[RDZV_SEAL_TEXT];
    for (int i = 0; i < 3; i++) {
        prove(&s, "secret", text);
        assert_int_equal(200, ask(&usual, text));
        const char *said = strcasestr(world.answer, RDZV_SEAL_HEADER ": ");
        assert_non_null(said);
        CO_AUTOFREE char *proof = co_xstrndup(said + strlen(RDZV_SEAL_HEADER ": "), 64);
        assert_true(rdzv_seal_answer_right(&s, "secret", 200, "in\n", 3, proof));
    }
    assert_int_equal(3, world.let_in);
    assert_int_equal(0, world.notes);
}

static void another_token_is_refused(void **state) {
    (void)state;
    dial();
    struct rdzv_seal s = be_challenged();
    char text[RDZV_SEAL_TEXT];
    prove(&s, "guess", text);
    assert_int_equal(401, ask(&usual, text));
    assert_non_null(strstr(world.answer, "the token is not this job's (PADDLE_JOB_TOKEN"));
    assert_non_null(strstr(world.note, "127.0.0.1: the token is not this job's"));
    assert_int_equal(0, world.let_in);
}

static void a_replayed_request_is_refused(void **state) {
    (void)state;
    dial();
    struct rdzv_seal s = be_challenged();
    char first[RDZV_SEAL_TEXT], second[RDZV_SEAL_TEXT];
    prove(&s, "secret", first);
    assert_int_equal(200, ask(&usual, first));
    assert_int_equal(401, ask(&usual, first)); /* again */
    prove(&s, "secret", second);
    assert_int_equal(200, ask(&usual, second));
    assert_int_equal(401, ask(&usual, first)); /* out of order */
    dial();
    assert_int_equal(401, ask(&usual, second)); /* on another connection */
    (void)be_challenged();
    assert_int_equal(401, ask(&usual, second));
    assert_int_equal(2, world.let_in);
}

static void a_request_that_was_changed_is_refused(void **state) {
    (void)state;
    static const struct rdzv_seal_request others[] = {
        {.method = "DELETE", .path = "/j/info/a/-1", .said = "1 a join", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/b/-1", .said = "1 a join", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "1 a done", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "1 a join", .body = "[]", .len = 2},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        dial();
        struct rdzv_seal s = be_challenged();
        char text[RDZV_SEAL_TEXT];
        prove(&s, "secret", text);
        assert_int_equal(401, ask(&others[i], text));
    }
    assert_int_equal(0, world.let_in);
}

/* ---- a node ------------------------------------------------------------------------------ */

static void on_done(void *arg, const struct co_httpc_result *r) {
    (void)arg;
    world.done++;
    world.code = r->code;
    world.status = r->status;
    (void)snprintf(world.text, sizeof(world.text), "%s", r->code ? r->err->msg : r->body);
}

static void send_one(struct rdzv_prover *p, struct co_httpc *http) {
    int before = world.done;
    rdzv_prover_send(p, http,
        &(struct rdzv_prover_request){.method = "POST",
            .path = "/j/info/a/-1",
            .said = "1 a join",
            .body = "{}",
            .timeout_ms = 60000,
            .done = on_done});
    while (world.done == before) {
        co_loop_turn(world.loop);
    }
}

struct node {
    struct rdzv_prover *prover;
    struct co_httpc *http;
};

static void node_open(struct node *n, const char *token) {
    assert_int_equal(0, rdzv_prover_new(token, &n->prover, NULL));
    n->http = co_httpc_new(world.loop, "127.0.0.1", co_httpd_port(world.http), NULL, 4096);
}

static void node_close(struct node *n) {
    co_httpc_free(n->http);
    rdzv_prover_free(n->prover);
}

static void a_node_needs_one_round_trip_more_at_the_start(void **state) {
    (void)state;
    struct node n;
    node_open(&n, "secret");
    for (int i = 0; i < 5; i++) {
        send_one(n.prover, n.http);
        assert_int_equal(0, world.code);
        assert_string_equal("in\n", world.text);
    }
    assert_int_equal(6, world.asked);
    co_httpc_free(n.http); /* and on every new connection */
    n.http = co_httpc_new(world.loop, "127.0.0.1", co_httpd_port(world.http), NULL, 4096);
    send_one(n.prover, n.http);
    assert_int_equal(200, world.status);
    assert_int_equal(8, world.asked);
    assert_int_equal(0, world.notes);
    node_close(&n);
}

static void a_node_with_another_token_gets_the_reason(void **state) {
    (void)state;
    struct node n;
    node_open(&n, "guess");
    send_one(n.prover, n.http);
    assert_int_equal(CO_PERMISSION, world.code);
    assert_non_null(strstr(world.text, "the token is not this job's (PADDLE_JOB_TOKEN"));
    assert_int_equal(1, world.notes);
    node_close(&n);
}

static void a_node_sends_nothing_to_a_peer_that_asks_for_no_proof(void **state) {
    (void)state;
    struct node n;
    world.open = world.unproven = true;
    node_open(&n, "secret");
    send_one(n.prover, n.http);
    assert_int_equal(CO_PERMISSION, world.code);
    assert_non_null(strstr(world.text, "--require_token"));
    node_close(&n);
}

static void a_node_believes_no_answer_without_a_proof(void **state) {
    (void)state;
    struct node n;
    world.unproven = true;
    node_open(&n, "secret");
    send_one(n.prover, n.http);
    assert_int_equal(CO_PERMISSION, world.code);
    assert_non_null(strstr(world.text, "it does not prove the job's token (PADDLE_JOB_TOKEN"));
    node_close(&n);
}

static void a_client_without_a_token_sends_plain_requests(void **state) {
    (void)state;
    world.open = true;
    struct co_httpc *http =
        co_httpc_new(world.loop, "127.0.0.1", co_httpd_port(world.http), NULL, 4096);
    send_one(NULL, http);
    assert_int_equal(0, world.code);
    assert_int_equal(1, world.asked);
    co_httpc_free(http);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ONE(an_unknown_peer_is_refused_and_logged_once),
        ONE(a_proven_request_is_served_and_its_answer_carries_a_proof),
        ONE(another_token_is_refused),
        ONE(a_replayed_request_is_refused),
        ONE(a_request_that_was_changed_is_refused),
        ONE(a_node_needs_one_round_trip_more_at_the_start),
        ONE(a_node_with_another_token_gets_the_reason),
        ONE(a_node_sends_nothing_to_a_peer_that_asks_for_no_proof),
        ONE(a_node_believes_no_answer_without_a_proof),
        ONE(a_client_without_a_token_sends_plain_requests),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
