/* A node's side of --require_token.  It sends requests with a proof (seal.h) and accepts only
 * answers that carry one.  It costs one more round trip on a new connection, and none after it. */
#pragma once

#include "common/http/httpc.h"

struct rdzv_prover;

/* said: the Paddlerun header's value (wire.h); "": none. */
struct rdzv_prover_request {
    const char *method, *path, *said;
    const char *body;
    int64_t timeout_ms;
    void (*done)(void *arg, const struct co_httpc_result *r);
    void *arg;
};

/* CO_INTERNAL: no random numbers. */
CO_MUST_CHECK int rdzv_prover_new(const char *token, struct rdzv_prover **ret, struct co_err *err);
void rdzv_prover_free(struct rdzv_prover *p); /* NULL allowed; after its connection */

/* Sends as co_httpc_send does.  An answer without a right proof is reported as CO_PERMISSION.
 * p NULL: sends without a proof and accepts any answer. */
void rdzv_prover_send(
    struct rdzv_prover *p, struct co_httpc *http, const struct rdzv_prover_request *req);
