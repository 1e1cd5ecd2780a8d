/* How two ends of a connection prove to each other that they know the job's token, before either
 * says who it is and before gRPC sees a byte.  The token itself never travels.
 *
 *     who dials -- greet: random number ----------------------------------> who listens
 *               <- answer: verdict, random number --------------------------
 *               -- proof ------------------------------------------------->
 *               <- welcome: verdict, proof ---------------------------------
 *
 * A proof is HMAC-SHA256 with the token as key over a word for whose it is, the greet and the
 * answer: worth nothing on another connection, nor in the other direction.  It covers the opening
 * only: whoever can write into a connection of others needs no token.  All messages have one size
 * each.  Little-endian:
 *
 *     greet    0 u32 magic  4 u16 version  6 u16 0        8 u8[32] random  = 40
 *     answer   0 u32 magic  4 u16 version  6 u16 verdict  8 u8[32] random  = 40
 *     proof    0 u8[32]                                                    = 32
 *     welcome  0 u32 magic  4 u16 version  6 u16 verdict  8 u8[32] proof   = 40
 *
 * Pure but for the random numbers; knows no sockets. */
#pragma once

#include "common/err.h"
#include "common/proof.h"

enum {
    RT_GREET_VERSION = 1,
    RT_GREET_BYTES = 8 + CO_NONCE_BYTES,
    RT_GREET_ANSWER_BYTES = RT_GREET_BYTES,
    RT_GREET_PROOF_BYTES = CO_PROOF_BYTES,
    RT_GREET_WELCOME_BYTES = 8 + CO_PROOF_BYTES,
};

/* One side of one connection: what was said. */
struct rt_greeting {
    unsigned char greet[RT_GREET_BYTES];
    unsigned char answer[RT_GREET_ANSWER_BYTES];
};

/* ---- who dials ---- */

/* Fills g->greet.  CO_INTERNAL: no random numbers. */
CO_MUST_CHECK int rt_greeting_begin(struct rt_greeting *g, struct co_err *err);
/* g->answer has arrived; the proof to send.  CO_INVALID: no parameter server of ours, or one of
 * another version. */
CO_MUST_CHECK int rt_greeting_prove(const struct rt_greeting *g, const char *token,
    unsigned char ret[RT_GREET_PROOF_BYTES], struct co_err *err);
/* CO_PERMISSION: one of the two does not know the other's token. */
CO_MUST_CHECK int rt_greeting_check(const struct rt_greeting *g, const char *token,
    const unsigned char welcome[RT_GREET_WELCOME_BYTES], struct co_err *err);

/* ---- who listens ---- */

/* g->greet has arrived; fills g->answer, which is to be sent also with CO_INVALID for another
 * version.  CO_INVALID without an answer (*ret_send is false): it is no greet. */
CO_MUST_CHECK int rt_greeting_answer(struct rt_greeting *g, bool *ret_send, struct co_err *err);
/* The proof has arrived; the welcome is to be sent also with CO_PERMISSION. */
CO_MUST_CHECK int rt_greeting_welcome(const struct rt_greeting *g, const char *token,
    const unsigned char proof[RT_GREET_PROOF_BYTES], unsigned char ret[RT_GREET_WELCOME_BYTES],
    struct co_err *err);
