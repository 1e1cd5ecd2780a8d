/* Sends requests with a proof of the job's token, and checks the proofs of the answers.  See
 * prover.h. */
#include "runtime/launch/rendezvous/prover.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/launch/rendezvous/seal.h"
#include "runtime/launch/rendezvous/wire.h"

enum { UNAUTHORIZED = 401, CHALLENGES_MAX = 4 /* of one request, as its connection may break */ };

struct rdzv_prover {
    char *token;
    struct rdzv_seal seal; /* of the last request; proven: the connection's nonce is known */
    struct co_httpc *http;
    int challenges;                 /* that the current request has got */
    struct rdzv_prover_request req; /* its strings are owned */
};

static void free_text(const char *s) {
    free((char *)(uintptr_t)s);
}

static void drop_request(struct rdzv_prover *p) {
    free_text(p->req.method);
    free_text(p->req.path);
    free_text(p->req.said);
    free_text(p->req.body);
    p->req = (struct rdzv_prover_request){0};
}

int rdzv_prover_new(const char *token, struct rdzv_prover **ret, struct co_err *err) {
    CO_AUTOFREE struct rdzv_prover *p = co_xcalloc(1, sizeof(*p));
    CO_TRY(co_nonce_make(p->seal.client, err));
    p->token = co_xstrdup(token);
    *ret = co_steal_ptr(p);
    return 0;
}

void rdzv_prover_free(struct rdzv_prover *p) {
    if (p) {
        drop_request(p);
        free(p->token);
        free(p);
    }
}

static void format_said(const char *said, char ret[RDZV_WIRE_TEXT + 32]) {
    (void)snprintf(ret, RDZV_WIRE_TEXT + 32, *said ? RDZV_WIRE_HEADER ": %s\r\n" : "%s", said);
}

static void send_plain(struct co_httpc *http, const struct rdzv_prover_request *req) {
    char said[RDZV_WIRE_TEXT + 32];
    format_said(req->said, said);
    co_httpc_send(http, &(struct co_httpc_request){req->method, req->path, .headers = said,
                            .body = req->body, .len = strlen(req->body),
                            .timeout_ms = req->timeout_ms, .done = req->done, .arg = req->arg});
}

/* ---- answers ---- */

static void send_proven(struct rdzv_prover *p);

static void refuse_answer(struct rdzv_prover *p, const struct co_httpc_result *r, const char *why) {
    struct co_err err = {0};
    struct co_httpc_result bad = *r;
    bad.code = co_err_set(&err, CO_PERMISSION, "%s", why);
    bad.err = &err;
    p->req.done(p->req.arg, &bad);
}

static void on_answer(void *arg, const struct co_httpc_result *r) {
    struct rdzv_prover *p = arg;
    if (r->code) {
        p->req.done(p->req.arg, r);
    } else if (r->status != UNAUTHORIZED) {
        if (!p->seal.proven) {
            refuse_answer(p, r,
                "it asks for no proof of the job's token: all nodes need --require_token, and none "
                "may be Paddle's own launcher");
        } else if (!rdzv_seal_answer_right(
                       &p->seal, p->token, r->status, r->body, r->len, r->wanted)) {
            refuse_answer(p, r,
                "it does not prove the job's token (PADDLE_JOB_TOKEN must be the same on all "
                "nodes)");
        } else {
            p->req.done(p->req.arg, r);
        }
    } else if (!rdzv_seal_challenge_parse(r->body, p->seal.nonce)) {
        refuse_answer(p, r,
            "it refuses this node: the token is not this job's (PADDLE_JOB_TOKEN must be the same "
            "on all nodes)");
    } else if (++p->challenges > CHALLENGES_MAX) {
        refuse_answer(p, r, "it asks for a proof of the job's token again and again");
    } else {
        p->seal.proven = true;
        p->seal.number = 0;
        send_proven(p);
    }
}

/* Sends the request with a proof.  On a new connection, whose nonce is not known yet, it first
 * sends an empty GET that asks for the challenge: the request itself is never sent to an unknown
 * peer. */
static void send_proven(struct rdzv_prover *p) {
    const struct rdzv_prover_request *req = &p->req;
    const size_t len = p->seal.proven ? strlen(req->body) : 0;
    char said[RDZV_WIRE_TEXT + 32] = "", proof[RDZV_SEAL_TEXT];
    if (p->seal.proven) {
        p->seal.number++;
        format_said(req->said, said);
        rdzv_seal_request(&p->seal, p->token,
            &(struct rdzv_seal_request){
                req->method, req->path, .said = req->said, .body = req->body, .len = len});
    }
    rdzv_seal_format(&p->seal, proof);
    CO_AUTOFREE char *headers = co_xasprintf("%s" RDZV_SEAL_HEADER ": %s\r\n", said, proof);
    co_httpc_send(p->http, &(struct co_httpc_request){p->seal.proven ? req->method : "GET",
                               p->seal.proven ? req->path : "/", .headers = headers,
                               .want = RDZV_SEAL_HEADER, .body = req->body, .len = len,
                               .timeout_ms = req->timeout_ms, .done = on_answer, .arg = p});
}

void rdzv_prover_send(
    struct rdzv_prover *p, struct co_httpc *http, const struct rdzv_prover_request *req) {
    if (!p) {
        send_plain(http, req);
        return;
    }
    struct rdzv_prover_request copy = *req;
    copy.method = co_xstrdup(req->method);
    copy.path = co_xstrdup(req->path);
    copy.said = co_xstrdup(req->said);
    copy.body = co_xstrdup(req->body);
    drop_request(p);
    p->req = copy;
    p->http = http;
    p->challenges = 0;
    send_proven(p);
}
