/* The messages of the greeting (greeting.h has their layout): how each is made and checked. */
#include "runtime/train/rpc/greeting.h"

#include <string.h>

#include "common/bytes.h"

enum { MAGIC = 0x53504450 /* "PDPS" */, HEAD = 8, WORD = 8, PURPOSE = 6, ENCRYPTS = 7 };
enum { TRAINER = 24, SHARD = 28, KEY = 32 }; /* offsets in the greet of a lane */
enum greeting_result {
    OK,
    OTHER_VERSION,
    WRONG_TOKEN,
    OTHER_ENCRYPTION /* one end encrypts, the other does not */
};

_Static_assert((int)CO_TLS_KEY_BYTES == (int)CO_PROOF_BYTES, "a key is made as a proof is");

static const char purpose[] = "paddle parameter server";

#define WRONG "the token is not this job's (PADDLE_JOB_TOKEN must be the same everywhere)"

#define SAME_ENCRYPTION                                                                            \
    "PADDLE_JOB_ENCRYPT must be the same everywhere (spec.peerAuth: Encrypted sets it)"

static void write_head(unsigned char wire[HEAD], enum greeting_result result) {
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, RPC_GREET_VERSION);
    co_put_u16(wire + 6, (uint16_t)result);
}

static bool has_magic(const unsigned char wire[HEAD]) {
    return co_get_u32(wire) == (uint32_t)MAGIC;
}

/* Also for an unknown purpose or flag: only another version of the protocol has those. */
static int refuse_version(const unsigned char wire[HEAD], struct co_err *err) {
    return co_err_set(err, CO_INVALID,
        "version %u of the protocol, expected %d: trainers and servers must have the same version "
        "of the library",
        co_get_u16(wire + 4), RPC_GREET_VERSION);
}

static int refuse_encryption(
    const char *them, const char *us, bool we_encrypt, struct co_err *err) {
    return co_err_set(err, CO_INVALID, "%s %s, %s %s: " SAME_ENCRYPTION, them,
        we_encrypt ? "does not encrypt" : "encrypts", us, we_encrypt ? "does" : "does not");
}

/* What a proof signs: whose it is ("trainer", "server", "key"), the greet, the answer. */
struct text {
    unsigned char bytes[WORD + RPC_GREET_BYTES + RPC_GREET_ANSWER_BYTES];
};

static struct text proof_text(const struct rpc_greeting *g, const char *whose) {
    struct text t = {{0}};
    memcpy(t.bytes, whose, strlen(whose));
    memcpy(t.bytes + WORD, g->greet, sizeof(g->greet));
    memcpy(t.bytes + WORD + sizeof(g->greet), g->answer, sizeof(g->answer));
    return t;
}

/* ---- the dialling side ---- */

int rpc_greeting_begin(struct rpc_greeting *g, const struct rpc_peer_auth *auth,
    const struct rpc_pass *pass, struct co_err *err) {
    write_head(g->greet, OK);
    g->greet[PURPOSE] = (unsigned char)pass->purpose;
    g->greet[ENCRYPTS] = auth->encrypt;
    int rc = co_nonce_make(g->greet + HEAD, err);
    if (rc == 0 && pass->purpose == RPC_FOR_LANE) {
        co_put_u32(g->greet + TRAINER, pass->trainer);
        co_put_u32(g->greet + SHARD, pass->shard);
        co_put_u64(g->greet + KEY, pass->key);
    }
    return rc;
}

int rpc_greeting_prove(const struct rpc_greeting *g, const struct rpc_peer_auth *auth,
    unsigned char ret[RPC_GREET_PROOF_BYTES], struct co_err *err) {
    if (!has_magic(g->answer)) {
        return co_err_set(err, CO_INVALID, "what answers there is not a parameter server");
    }
    uint16_t result = co_get_u16(g->answer + 6);
    bool same = co_get_u16(g->answer + 4) == RPC_GREET_VERSION;
    if (same && result == OTHER_ENCRYPTION) {
        return refuse_encryption("the server", "this trainer", auth->encrypt, err);
    }
    if (!same || result != OK) {
        return refuse_version(g->answer, err);
    }
    struct text t = proof_text(g, "trainer");
    co_proof_make(purpose, auth->token, t.bytes, sizeof(t.bytes), ret);
    return 0;
}

int rpc_greeting_check(const struct rpc_greeting *g, const char *token,
    const unsigned char welcome[RPC_GREET_WELCOME_BYTES], struct co_err *err) {
    struct text t = proof_text(g, "server");
    bool right = has_magic(welcome) && co_get_u16(welcome + 6) == OK &&
                 co_proof_check(purpose, token, t.bytes, sizeof(t.bytes), welcome + HEAD);
    return right ? 0 : co_err_set(err, CO_PERMISSION, WRONG);
}

/* ---- the listening side ---- */

int rpc_greeting_answer(
    struct rpc_greeting *g, const struct rpc_peer_auth *auth, bool *ret_send, struct co_err *err) {
    *ret_send = has_magic(g->greet);
    if (!*ret_send) {
        return co_err_set(err, CO_INVALID, "it did not greet as a trainer does");
    }
    bool same = co_get_u16(g->greet + 4) == RPC_GREET_VERSION &&
                g->greet[PURPOSE] <= RPC_FOR_LANE && g->greet[ENCRYPTS] <= 1;
    bool agreed = g->greet[ENCRYPTS] == auth->encrypt;
    write_head(g->answer, !same ? OTHER_VERSION : agreed ? OK : OTHER_ENCRYPTION);
    int rc = co_nonce_make(g->answer + HEAD, err);
    if (rc < 0) {
        *ret_send = false;
        return rc;
    }
    return !same    ? refuse_version(g->greet, err)
           : agreed ? 0
                    : refuse_encryption("the trainer", "this server", auth->encrypt, err);
}

int rpc_greeting_welcome(const struct rpc_greeting *g, const char *token,
    const unsigned char proof[RPC_GREET_PROOF_BYTES], unsigned char ret[RPC_GREET_WELCOME_BYTES],
    struct co_err *err) {
    struct text theirs = proof_text(g, "trainer"), ours = proof_text(g, "server");
    memset(ret, 0, RPC_GREET_WELCOME_BYTES);
    if (!co_proof_check(purpose, token, theirs.bytes, sizeof(theirs.bytes), proof)) {
        write_head(ret, WRONG_TOKEN);
        return co_err_set(err, CO_PERMISSION, WRONG);
    }
    write_head(ret, OK);
    co_proof_make(purpose, token, ours.bytes, sizeof(ours.bytes), ret + HEAD);
    return 0;
}

struct rpc_pass rpc_greeting_pass(const struct rpc_greeting *g) {
    struct rpc_pass pass = {.purpose = (enum rpc_purpose)g->greet[PURPOSE]};
    if (pass.purpose == RPC_FOR_LANE) {
        pass.trainer = co_get_u32(g->greet + TRAINER);
        pass.shard = co_get_u32(g->greet + SHARD);
        pass.key = co_get_u64(g->greet + KEY);
    }
    return pass;
}

/* ---- both sides ---- */

void rpc_greeting_key(
    const struct rpc_greeting *g, const char *token, unsigned char ret[CO_TLS_KEY_BYTES]) {
    struct text t = proof_text(g, "key");
    co_proof_make(purpose, token, t.bytes, sizeof(t.bytes), ret);
}
