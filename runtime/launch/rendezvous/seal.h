/* The proofs with which launchers show each other that they know the job's token (--require_token).
 * The token itself is never sent.
 *
 * Every request has a header; the master's first answer on a connection is a challenge, all others
 * have a header of the same name:
 *
 *     Paddlerun-Proof: 1 {client}                               asks for a challenge
 *     401 paddlerun challenge 1 {nonce}
 *     Paddlerun-Proof: 1 {client} {nonce} {number} {proof}      a request
 *     Paddlerun-Proof: {proof}                                  its answer
 *
 * client and nonce are random numbers of the two sides.  The nonce belongs to one connection, and
 * number grows with every request on it: a recorded request is of no use to an attacker.  A proof
 * is HMAC-SHA256 with the token as its key.  It covers a word for the direction, those three
 * fields, and the content of the request (method, path, Paddlerun header, body) or of the answer
 * (status, body).  Bytes are in hex.  Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/proof.h"

#define RDZV_SEAL_HEADER "Paddlerun-Proof"

enum { RDZV_SEAL_TEXT = 256 };

struct rdzv_seal {
    unsigned char client[CO_NONCE_BYTES];
    bool proven; /* the fields below are there; false: it only asks for a challenge */
    unsigned char nonce[CO_NONCE_BYTES];
    uint64_t number;
    unsigned char proof[CO_PROOF_BYTES];
};

/* The value of a request's header. */
void rdzv_seal_format(const struct rdzv_seal *s, char ret_text[RDZV_SEAL_TEXT]);
CO_MUST_CHECK int rdzv_seal_parse(const char *text, struct rdzv_seal *ret, struct co_err *err);

/* The body of an answer with status 401. */
void rdzv_seal_challenge_format(
    const unsigned char nonce[CO_NONCE_BYTES], char ret_text[RDZV_SEAL_TEXT]);
/* Returns false when the body is no challenge. */
bool rdzv_seal_challenge_parse(const char *body, unsigned char ret_nonce[CO_NONCE_BYTES]);

/* The value of an answer's header. */
void rdzv_seal_proof_format(
    const unsigned char proof[CO_PROOF_BYTES], char ret_text[RDZV_SEAL_TEXT]);

/* The parts of a request that its proof covers.  said: the Paddlerun header; "": none. */
struct rdzv_seal_request {
    const char *method, *path, *said;
    const void *body;
    size_t len;
};
void rdzv_seal_request(struct rdzv_seal *s, const char *token, const struct rdzv_seal_request *r);
bool rdzv_seal_request_right(
    const struct rdzv_seal *s, const char *token, const struct rdzv_seal_request *r);
void rdzv_seal_answer(const struct rdzv_seal *s, const char *token, int status, const void *body,
    size_t len, unsigned char ret[CO_PROOF_BYTES]);
/* text: the value of the answer's header. */
bool rdzv_seal_answer_right(const struct rdzv_seal *s, const char *token, int status,
    const void *body, size_t len, const char *text);
