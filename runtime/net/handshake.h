/* The handshake of every connection between processes of a job: both ends prove that they know the
 * job's token, which itself never travels, before either trusts anything else that the other sends.
 *
 *     dials      -- hello: what it says of itself, random number, proof over these --->  accepts
 *                <- answer: refusal, what it says of itself, random number, proof ------
 *                -- proof ------------------------------------------------------------->
 *                <- welcome: refusal ---------------------------------------------------
 *
 * A proof is an HMAC-SHA256 with the token as key, over a word for what it proves and all that both
 * have sent: worthless on another connection and in the other direction.  The hello's own proof
 * covers only the hello, so whoever has recorded it can send it again.  It lets nobody in, but
 * keeps those that know nothing of the job from the places of those that do (acceptor.h); a
 * recorded one takes one place.
 *
 * What the two say of themselves is up to the protocol, which passes NET_CALLER_BYTES each way: rpc
 * and coll are protocols.  They have refusals of their own, too.  A refusal has no proof, so
 * anybody can forge one: treat it as a hint.
 *
 * Both ends must agree about encryption.  With it, TLS follows the welcome (common/tls.h), by a
 * fourth HMAC as its key, and then one encrypted byte of the accepting end, as the last message of
 * the TLS handshake is the other one's.  Without it the proofs protect the opening only: an
 * attacker who can write into an open connection needs no token.
 *
 * All messages have a fixed size, little-endian.  The first eight bytes are the same in every
 * version, so that another version is refused with a sentence on both sides:
 *
 *     hello    0 u32 magic  4 u16 version  6 u8 0  7 u8 encrypts
 *              8 u8[48] the caller's  56 u8[32] random  88 u8[32] proof                      = 120
 *     answer   0 u32 magic  4 u16 version  6 u8 refusal  7 u8 0, then as the hello           = 120
 *     proof    0 u8[32]                                                                      =  32
 *     welcome  0 u32 magic  4 u16 version  6 u8 refusal  7 u8 0                              =   8
 *
 * Pure but for the random numbers: bytes in, bytes out.  acceptor.c and dial.c move them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/proof.h"
#include "common/tls.h"

enum {
    NET_VERSION = 4,
    NET_HEAD_BYTES = 8,
    NET_CALLER_BYTES = 48,
    NET_HELLO_BYTES = NET_HEAD_BYTES + NET_CALLER_BYTES + CO_NONCE_BYTES + CO_PROOF_BYTES,
    NET_ANSWER_BYTES = NET_HELLO_BYTES,
    NET_PROOF_BYTES = CO_PROOF_BYTES,
    NET_WELCOME_BYTES = NET_HEAD_BYTES,
};

/* Why a connection is refused. */
enum net_refusal {
    NET_REFUSAL_NONE,
    NET_REFUSAL_FORM, /* the bytes are not of this protocol; gets no answer */
    NET_REFUSAL_VERSION,
    NET_REFUSAL_ENCRYPTION, /* one end encrypts, the other does not */
    NET_REFUSAL_TOKEN,      /* a proof is wrong */
    /* These are not sent (acceptor.h): */
    NET_REFUSAL_SLOW,
    NET_REFUSAL_CROWDED,
    NET_REFUSAL_REPEATED, /* the hello of a connection that is pending */
    NET_REFUSAL_FILES,    /* no descriptors are left */
    NET_REFUSAL_USER,     /* on a unix socket: another user */
    NET_REFUSAL_TLS,

    NET_REFUSAL_OWN, /* the protocol's own begin here */
    NET_REFUSALS = NET_REFUSAL_OWN + 8,
    NET_HANDED, /* no refusal: the connection is another acceptor's */
};

/* One for each kind of listener. */
struct net_protocol {
    uint32_t magic;
    const char *purpose;         /* of its proofs */
    const char *accepts, *dials; /* what the ends are called: "server", "trainer" */
    const char *all;             /* who must be of one version: "trainers and servers" */
    const char *const *own;      /* sentences for its own refusals; NULL: it has none */
    size_t n_own;
};

/* What both ends must have the same. */
struct net_auth {
    const struct net_protocol *protocol;
    const char *token; /* the job's; "": none */
    bool encrypt;      /* everything after the welcome */
};

/* The first two messages of one connection, as each end keeps them. */
struct net_handshake {
    unsigned char hello[NET_HELLO_BYTES];
    unsigned char answer[NET_ANSWER_BYTES];
};

/* Of any message but the proof, as soon as its first bytes are here: NET_REFUSAL_FORM, _VERSION or
 * _NONE. */
enum net_refusal net_head_check(
    const struct net_auth *auth, const unsigned char head[NET_HEAD_BYTES]);
/* The sentence for a refusal.  head: of the other end's message, for its version.  accepting: this
 * end is the one that accepts.  CO_PERMISSION: the token; CO_INVALID: anything else.  Returns the
 * code. */
int net_refusal_error(const struct net_auth *auth, enum net_refusal why,
    const unsigned char head[NET_HEAD_BYTES], bool accepting, struct co_err *err);
/* The bytes that the other end's protocol passes, inside its hello or answer.  Trust them only
 * after its proof was right. */
static inline const unsigned char *net_caller_bytes(const unsigned char *message) {
    return message + NET_HEAD_BYTES;
}

/* ---- the end that dials ---- */

/* Fills h->hello.  CO_INTERNAL: the kernel gave no random numbers. */
CO_MUST_CHECK int net_hello_write(const struct net_auth *auth,
    const unsigned char caller[NET_CALLER_BYTES], struct net_handshake *h, struct co_err *err);
/* h->answer has arrived.  NET_REFUSAL_NONE: the other end knows the token. */
enum net_refusal net_answer_read(const struct net_auth *auth, const struct net_handshake *h);
void net_proof_write(
    const struct net_auth *auth, const struct net_handshake *h, unsigned char ret[NET_PROOF_BYTES]);
enum net_refusal net_welcome_read(
    const struct net_auth *auth, const unsigned char wire[NET_WELCOME_BYTES]);

/* ---- the end that accepts ---- */

/* h->hello has arrived: NET_REFUSAL_FORM, _VERSION, _ENCRYPTION, or _NONE. */
enum net_refusal net_hello_read(const struct net_auth *auth, const struct net_handshake *h);
/* Whether its sender knew the token. */
bool net_hello_check(const struct net_auth *auth, const struct net_handshake *h);
/* Fills h->answer.  A refusal carries nothing else, no proof above all.  CO_INTERNAL: no random
 * numbers. */
CO_MUST_CHECK int net_answer_write(const struct net_auth *auth, enum net_refusal refusal,
    const unsigned char caller[NET_CALLER_BYTES], struct net_handshake *h, struct co_err *err);
bool net_proof_check(const struct net_auth *auth, const struct net_handshake *h,
    const unsigned char proof[NET_PROOF_BYTES]);
void net_welcome_write(
    const struct net_auth *auth, enum net_refusal refusal, unsigned char ret[NET_WELCOME_BYTES]);

/* ---- both ---- */

/* Whether the job encrypts.  text: PADDLE_JOB_ENCRYPT, NULL: not set.  CO_INVALID: it is no
 * boolean, or there is no token. */
CO_MUST_CHECK int net_encrypt_parse(
    const char *text, const char *token, bool *ret, struct co_err *err);

/* Begins TLS, with this connection's own key; for use after the other end's proof was right. */
CO_MUST_CHECK int net_handshake_tls(const struct net_auth *auth, const struct net_handshake *h,
    bool accepting, struct co_tls **ret, struct co_err *err);
