/* Writes and checks the messages of the handshake (handshake.h has their layout).  No I/O. */
#include "runtime/net/handshake.h"

#include <string.h>

#include "common/bytes.h"
#include "common/contract.h"
#include "common/parse.h"

enum { VERSION = 4, REFUSAL = 6, ENCRYPTS = 7, RANDOM = NET_HEAD_BYTES + NET_CALLER_BYTES };
enum { PROOF = RANDOM + CO_NONCE_BYTES, WORD = 8 };
/* What a proof covers: of the hello all before its own proof, of the others the whole hello, too.
 */
enum { HELLO = PROOF, BOTH = NET_HELLO_BYTES + PROOF };

_Static_assert((int)CO_TLS_KEY_BYTES == (int)CO_PROOF_BYTES, "a key is made as a proof is");
_Static_assert(sizeof(struct net_handshake) == NET_HELLO_BYTES + NET_ANSWER_BYTES, "no gap");

static void put_head(const struct net_auth *auth, unsigned char *wire) {
    co_put_u32(wire, auth->protocol->magic);
    co_put_u16(wire + VERSION, NET_VERSION);
    wire[REFUSAL] = wire[ENCRYPTS] = 0;
}

enum net_refusal net_head_check(
    const struct net_auth *auth, const unsigned char head[NET_HEAD_BYTES]) {
    if (co_get_u32(head) != auth->protocol->magic) {
        return NET_REFUSAL_FORM;
    }
    return co_get_u16(head + VERSION) == NET_VERSION ? NET_REFUSAL_NONE : NET_REFUSAL_VERSION;
}

/* ---- sentences ---- */

static int refuse_encryption(const struct net_auth *auth, bool accepting, struct co_err *err) {
    const struct net_protocol *p = auth->protocol;
    return co_err_set(err, CO_INVALID,
        "the %s %s, this %s %s: PADDLE_JOB_ENCRYPT must be the same everywhere (spec.peerAuth: "
        "Encrypted sets it)",
        accepting ? p->dials : p->accepts, auth->encrypt ? "does not encrypt" : "encrypts",
        accepting ? p->accepts : p->dials, auth->encrypt ? "does" : "does not");
}

int net_refusal_error(const struct net_auth *auth, enum net_refusal why,
    const unsigned char head[NET_HEAD_BYTES], bool accepting, struct co_err *err) {
    const struct net_protocol *p = auth->protocol;
    switch (why) {
    case NET_REFUSAL_FORM:
        return co_err_set(err, CO_INVALID, "it does not speak this library's protocol");
    case NET_REFUSAL_VERSION:
        return co_err_set(err, CO_INVALID,
            "version %u of the protocol, expected %d: %s must have the same version of the library",
            co_get_u16(head + VERSION), NET_VERSION, p->all);
    case NET_REFUSAL_ENCRYPTION:
        return refuse_encryption(auth, accepting, err);
    case NET_REFUSAL_TOKEN:
        return co_err_set(err, CO_PERMISSION,
            "the token is not this job's (PADDLE_JOB_TOKEN must be the same everywhere)");
    default:
        break;
    }
    size_t own = why >= NET_REFUSAL_OWN ? (size_t)why - NET_REFUSAL_OWN : p->n_own;
    return co_err_set(err, CO_INVALID, "%s", own < p->n_own ? p->own[own] : "an unknown refusal");
}

/* ---- proofs ---- */

/* What a proof is over: the word, and as much of both messages as it covers.  All parts have fixed
 * sizes, so they need no separators. */
static size_t put_text(const char *word, const struct net_handshake *h, size_t covers,
    unsigned char ret[WORD + BOTH]) {
    (void)strncpy((char *)ret, word, WORD); /* padded with zeroes */
    memcpy(ret + WORD, h, covers);
    return WORD + covers;
}

static void prove(const struct net_auth *auth, const char *word, const struct net_handshake *h,
    size_t covers, unsigned char ret[CO_PROOF_BYTES]) {
    unsigned char text[WORD + BOTH];
    size_t n = put_text(word, h, covers, text);
    co_proof_make(auth->protocol->purpose, auth->token, text, n, ret);
}

static bool is_proven(const struct net_auth *auth, const char *word, const struct net_handshake *h,
    size_t covers, const unsigned char proof[CO_PROOF_BYTES]) {
    unsigned char text[WORD + BOTH];
    size_t n = put_text(word, h, covers, text);
    return co_proof_check(auth->protocol->purpose, auth->token, text, n, proof);
}

/* ---- the end that dials ---- */

int net_hello_write(const struct net_auth *auth, const unsigned char caller[NET_CALLER_BYTES],
    struct net_handshake *h, struct co_err *err) {
    put_head(auth, h->hello);
    h->hello[ENCRYPTS] = auth->encrypt;
    memcpy(h->hello + NET_HEAD_BYTES, caller, NET_CALLER_BYTES);
    CO_TRY(co_nonce_make(h->hello + RANDOM, err));
    prove(auth, "hello", h, HELLO, h->hello + PROOF);
    return 0;
}

enum net_refusal net_answer_read(const struct net_auth *auth, const struct net_handshake *h) {
    enum net_refusal why = net_head_check(auth, h->answer);
    if (why != NET_REFUSAL_NONE) {
        return why;
    }
    if (h->answer[REFUSAL] != NET_REFUSAL_NONE) {
        return h->answer[REFUSAL];
    }
    bool right = is_proven(auth, "answer", h, BOTH, h->answer + PROOF);
    return right ? NET_REFUSAL_NONE : NET_REFUSAL_TOKEN;
}

void net_proof_write(const struct net_auth *auth, const struct net_handshake *h,
    unsigned char ret[NET_PROOF_BYTES]) {
    prove(auth, "proof", h, BOTH, ret);
}

enum net_refusal net_welcome_read(
    const struct net_auth *auth, const unsigned char wire[NET_WELCOME_BYTES]) {
    enum net_refusal why = net_head_check(auth, wire);
    return why != NET_REFUSAL_NONE ? why : wire[REFUSAL];
}

/* ---- the end that accepts ---- */

enum net_refusal net_hello_read(const struct net_auth *auth, const struct net_handshake *h) {
    enum net_refusal why = net_head_check(auth, h->hello);
    if (why != NET_REFUSAL_NONE) {
        return why;
    }
    if (h->hello[REFUSAL] != 0 || h->hello[ENCRYPTS] > 1) {
        return NET_REFUSAL_FORM;
    }
    return h->hello[ENCRYPTS] == auth->encrypt ? NET_REFUSAL_NONE : NET_REFUSAL_ENCRYPTION;
}

bool net_hello_check(const struct net_auth *auth, const struct net_handshake *h) {
    return is_proven(auth, "hello", h, HELLO, h->hello + PROOF);
}

int net_answer_write(const struct net_auth *auth, enum net_refusal refusal,
    const unsigned char caller[NET_CALLER_BYTES], struct net_handshake *h, struct co_err *err) {
    memset(h->answer, 0, sizeof(h->answer));
    put_head(auth, h->answer);
    h->answer[REFUSAL] = (unsigned char)refusal;
    if (refusal != NET_REFUSAL_NONE) {
        return 0;
    }
    memcpy(h->answer + NET_HEAD_BYTES, caller, NET_CALLER_BYTES);
    CO_TRY(co_nonce_make(h->answer + RANDOM, err));
    prove(auth, "answer", h, BOTH, h->answer + PROOF);
    return 0;
}

bool net_proof_check(const struct net_auth *auth, const struct net_handshake *h,
    const unsigned char proof[NET_PROOF_BYTES]) {
    return is_proven(auth, "proof", h, BOTH, proof);
}

void net_welcome_write(
    const struct net_auth *auth, enum net_refusal refusal, unsigned char ret[NET_WELCOME_BYTES]) {
    put_head(auth, ret);
    ret[REFUSAL] = (unsigned char)refusal;
}

/* ---- both ---- */

int net_encrypt_parse(const char *text, const char *token, bool *ret, struct co_err *err) {
    const char *name = co_contract[CO_VAR_JOB_ENCRYPT].name;
    bool on = false;
    if (text && *text) {
        CO_TRY(co_parse_bool(name, text, &on, err));
    }
    if (on && !*token) {
        return co_err_set(err, CO_INVALID,
            "encryption (%s) without a token: expected %s, the same secret in all processes of the "
            "job",
            name, co_contract[CO_VAR_JOB_TOKEN].name);
    }
    *ret = on;
    return 0;
}

int net_handshake_tls(const struct net_auth *auth, const struct net_handshake *h, bool accepting,
    struct co_tls **ret, struct co_err *err) {
    unsigned char key[CO_TLS_KEY_BYTES];
    prove(auth, "key", h, BOTH, key);
    int rc = co_tls_new(accepting, key, ret, err);
    explicit_bzero(key, sizeof(key));
    return rc;
}
