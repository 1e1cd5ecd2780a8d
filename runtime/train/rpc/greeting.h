/* How two ends of a connection prove to each other that they know the job's token, before either
 * says who it is and before gRPC sees a byte.  The token itself never travels.
 *
 *      dials     -- greet: random number ----------------------------------> listens
 *               <- answer: verdict, random number --------------------------
 *               -- proof ------------------------------------------------->
 *               <- welcome: verdict, proof ---------------------------------
 *
 * A proof is an HMAC-SHA256 with the token as key over the prover's role, the greet and the answer.
 * It is worthless on another connection and in the other direction. Both ends must agree about
 * encryption; the greet and the answer's verdict say so. With encryption, TLS follows the welcome
 * (common/tls.h) with a third such HMAC as its key. Without it the proofs protect the opening only:
 * an attacker who can write into an open connection needs no token. All messages have a fixed size,
 * little-endian:
 *
 *     greet    0 u32 magic  4 u16 version  6 u8 purpose  7 u8 encrypts  8 u8[32] random  = 40
 *     answer   0 u32 magic  4 u16 version  6 u16 verdict  8 u8[32] random  = 40
 *     proof    0 u8[32]                                                    = 32
 *     welcome  0 u32 magic  4 u16 version  6 u16 verdict  8 u8[32] proof   = 40
 *
 * The purpose is what the connection is for. A data lane (lane.h) names its trainer and shard in
 * place of 16 of the random bytes, so that the proof covers them:
 *
 *             24 u32 trainer  28 u32 shard  32 u64 key, from the server's welcome to that trainer
 *
 * Pure but for the random numbers; knows no sockets. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/proof.h"
#include "common/tls.h"

enum {
    RPC_GREET_VERSION = 3,
    RPC_GREET_BYTES = 8 + CO_NONCE_BYTES,
    RPC_GREET_ANSWER_BYTES = RPC_GREET_BYTES,
    RPC_GREET_PROOF_BYTES = CO_PROOF_BYTES,
    RPC_GREET_WELCOME_BYTES = 8 + CO_PROOF_BYTES,
};

/* Must be the same at both ends. */
struct rpc_peer_auth {
    const char *token; /* the job's; "": none */
    bool encrypt;      /* everything after the greeting */
};

enum rpc_purpose {
    RPC_FOR_STREAM, /* gRPC */
    RPC_FOR_LANE,
};

/* What a connection is for. */
struct rpc_pass {
    enum rpc_purpose purpose;
    uint32_t trainer, shard; /* of a lane, like key */
    uint64_t key;
};

/* The first two messages of one connection, as each side keeps them. */
struct rpc_greeting {
    unsigned char greet[RPC_GREET_BYTES];
    unsigned char answer[RPC_GREET_ANSWER_BYTES];
};

/* ---- the dialling side ---- */

/* Fills g->greet.  CO_INTERNAL: no random numbers. */
CO_MUST_CHECK int rpc_greeting_begin(struct rpc_greeting *g, const struct rpc_peer_auth *auth,
    const struct rpc_pass *pass, struct co_err *err);
/* g->answer has arrived; ret is the proof to send. CO_INVALID: the peer is no parameter server, has
 * another version, or does not agree about encryption. */
CO_MUST_CHECK int rpc_greeting_prove(const struct rpc_greeting *g, const struct rpc_peer_auth *auth,
    unsigned char ret[RPC_GREET_PROOF_BYTES], struct co_err *err);
/* CO_PERMISSION: one of the two does not know the other's token. */
CO_MUST_CHECK int rpc_greeting_check(const struct rpc_greeting *g, const char *token,
    const unsigned char welcome[RPC_GREET_WELCOME_BYTES], struct co_err *err);

/* ---- the listening side ---- */

/* g->greet has arrived; fills g->answer. CO_INVALID: another version, an unknown purpose, or no
 * agreement about encryption. The answer is to be sent also then, unless *ret_send is false: the
 * bytes were no greet at all. */
CO_MUST_CHECK int rpc_greeting_answer(
    struct rpc_greeting *g, const struct rpc_peer_auth *auth, bool *ret_send, struct co_err *err);
/* The proof has arrived; ret is the welcome, to be sent also with CO_PERMISSION. */
CO_MUST_CHECK int rpc_greeting_welcome(const struct rpc_greeting *g, const char *token,
    const unsigned char proof[RPC_GREET_PROOF_BYTES], unsigned char ret[RPC_GREET_WELCOME_BYTES],
    struct co_err *err);
/* What the greet says the connection is for. Trust it only after the proof was right. */
struct rpc_pass rpc_greeting_pass(const struct rpc_greeting *g);

/* ---- both sides ---- */

/* This connection's TLS key; for use after the other end's proof was right. */
void rpc_greeting_key(
    const struct rpc_greeting *g, const char *token, unsigned char ret[CO_TLS_KEY_BYTES]);
