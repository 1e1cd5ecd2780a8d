/* Checks the proofs of requests.  Nonces are derived from the connection's number and a secret, so
 * that nothing must be stored for connections without a proof.  See guard.h. */
#include "runtime/launch/rendezvous/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/seal.h"
#include "runtime/launch/rendezvous/wire.h"

enum { UNAUTHORIZED = 401, SAY_MS = 10000, KEY = 24 };

struct rdzv_guard {
    char *token;
    char *secret;       /* nonces are derived from it */
    struct co_map last; /* connection -> uint64_t, the number of its last admitted request */
    void (*note)(void *arg, bool warn, const char *line);
    void *arg;
    uint64_t unsaid; /* refusals since the last log line */
    int64_t said_ms; /* when that was; 0: never */
};

int rdzv_guard_new(const char *token, void (*note)(void *arg, bool warn, const char *line),
    void *arg, struct rdzv_guard **ret, struct co_err *err) {
    unsigned char random[CO_NONCE_BYTES];
    char text[RDZV_SEAL_TEXT];
    CO_TRY(co_nonce_make(random, err));
    rdzv_seal_proof_format(random, text);
    struct rdzv_guard *g = co_xcalloc(1, sizeof(*g));
    g->token = co_xstrdup(token);
    g->secret = co_xstrdup(text);
    g->note = note;
    g->arg = arg;
    *ret = g;
    return 0;
}

static void free_number(void *arg, const char *key, void *value) {
    (void)arg;
    (void)key;
    free(value);
}

void rdzv_guard_free(struct rdzv_guard *g) {
    if (g) {
        co_map_each(&g->last, free_number, NULL);
        co_map_done(&g->last);
        free(g->token);
        free(g->secret);
        free(g);
    }
}

static void refuse(struct rdzv_guard *g, const struct co_http_req *r, const char *why) {
    char peer[CO_HTTP_PEER_MAX], line[400], more[64] = "";
    int64_t now = co_now_ms();
    if (g->said_ms && now - g->said_ms < SAY_MS) {
        g->unsaid++;
        return;
    }
    if (g->unsaid) {
        (void)snprintf(
            more, sizeof(more), " (and %" PRIu64 " more since the last line)", g->unsaid);
    }
    co_http_peer(r, peer);
    (void)snprintf(line, sizeof(line), "refused: %s: %.200s%s", peer, why, more);
    g->said_ms = now;
    g->unsaid = 0;
    g->note(g->arg, true, line);
}

/* The nonce of a connection.  No other connection ever has the same one, and only this process can
 * make it. */
static void make_nonce(
    const struct rdzv_guard *g, const struct co_http_req *r, unsigned char ret[CO_NONCE_BYTES]) {
    unsigned char conn[8];
    co_put_u64(conn, co_http_conn(r));
    co_proof_make("paddle rendezvous nonce", g->secret, conn, sizeof(conn), ret);
}

static void challenge(const struct rdzv_guard *g, struct co_http_req *r) {
    unsigned char nonce[CO_NONCE_BYTES];
    char text[RDZV_SEAL_TEXT];
    make_nonce(g, r, nonce);
    rdzv_seal_challenge_format(nonce, text);
    co_http_reply(r, UNAUTHORIZED, NULL, text, strlen(text));
}

static void format_conn(uint64_t conn, char ret[KEY]) {
    (void)snprintf(ret, KEY, "%" PRIu64, conn);
}

static uint64_t *find_last(const struct rdzv_guard *g, const struct co_http_req *r) {
    char key[KEY];
    format_conn(co_http_conn(r), key);
    return co_map_get(&g->last, key);
}

static bool is_right(
    const struct rdzv_guard *g, const struct co_http_req *r, const struct rdzv_seal *s) {
    struct rdzv_seal_request q = {.method = co_http_method(r), .path = co_http_path(r)};
    q.said = co_http_header(r, RDZV_WIRE_HEADER);
    q.said = q.said ? q.said : "";
    q.body = co_http_body(r, &q.len);
    const uint64_t *last = find_last(g, r);
    return rdzv_seal_request_right(s, g->token, &q) && s->number > (last ? *last : 0);
}

static void keep_last(struct rdzv_guard *g, const struct co_http_req *r, uint64_t number) {
    uint64_t *last = find_last(g, r);
    if (!last) {
        char key[KEY];
        format_conn(co_http_conn(r), key);
        last = co_xcalloc(1, sizeof(*last));
        (void)co_map_set(&g->last, key, last);
    }
    *last = number;
}

bool rdzv_guard_admit(struct rdzv_guard *g, struct co_http_req *r) {
    const char *text = co_http_header(r, RDZV_SEAL_HEADER);
    unsigned char nonce[CO_NONCE_BYTES];
    struct rdzv_seal s = {0};
    struct co_err err = {0};
    make_nonce(g, r, nonce);
    if (!text) {
        refuse(g, r, "no proof of the job's token (PADDLE_JOB_TOKEN, --require_token)");
        challenge(g, r);
    } else if (rdzv_seal_parse(text, &s, &err)) {
        refuse(g, r, err.msg);
        challenge(g, r);
    } else if (!s.proven || memcmp(s.nonce, nonce, sizeof(nonce)) != 0) {
        challenge(g, r); /* a new connection: the client does not know its nonce yet */
    } else if (!is_right(g, r, &s)) {
        static const char why[] =
            "the token is not this job's (PADDLE_JOB_TOKEN must be the same on all nodes)";
        refuse(g, r, why);
        co_http_replyf(r, UNAUTHORIZED, "%s\n", why);
    } else {
        keep_last(g, r, s.number);
        return true;
    }
    return false;
}

void rdzv_guard_prove(
    const struct rdzv_guard *g, struct co_http_req *r, int status, const void *body, size_t len) {
    const char *text = co_http_header(r, RDZV_SEAL_HEADER);
    const uint64_t *last = find_last(g, r);
    struct rdzv_seal s = {0};
    if (status == UNAUTHORIZED || !last || !text || rdzv_seal_parse(text, &s, NULL) ||
        s.number != *last) {
        return;
    }
    unsigned char proof[CO_PROOF_BYTES];
    char value[RDZV_SEAL_TEXT];
    rdzv_seal_answer(&s, g->token, status, body, len, proof);
    rdzv_seal_proof_format(proof, value);
    co_http_add_header(r, RDZV_SEAL_HEADER, value);
}

void rdzv_guard_disconnected(struct rdzv_guard *g, uint64_t conn) {
    char key[KEY];
    format_conn(conn, key);
    free(co_map_remove(&g->last, key));
}
