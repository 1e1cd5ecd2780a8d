#include "runtime/train/rpc/greeting.h"

#include <string.h>

#include "common/bytes.h"

enum { MAGIC = 0x53504450 /* "PDPS" */, HEAD = 8, WORD = 8 };
enum verdict { OK, OTHER_VERSION, WRONG_TOKEN };

static const char purpose[] = "paddle parameter server";

#define WRONG "the token is not this job's (PADDLE_JOB_TOKEN must be the same everywhere)"

static void write_head(unsigned char wire[HEAD], enum verdict verdict) {
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, RT_GREET_VERSION);
    co_put_u16(wire + 6, (uint16_t)verdict);
}

static bool has_magic(const unsigned char wire[HEAD]) {
    return co_get_u32(wire) == (uint32_t)MAGIC;
}

static int refuse_version(const unsigned char wire[HEAD], struct co_err *err) {
    return co_err_set(err, CO_INVALID,
        "version %u of the protocol, expected %d: trainers and servers must have the same version "
        "of the library",
        co_get_u16(wire + 4), RT_GREET_VERSION);
}

/* What a proof is over. */
struct text {
    unsigned char bytes[WORD + RT_GREET_BYTES + RT_GREET_ANSWER_BYTES];
};

static struct text proof_text(const struct rt_greeting *g, const char *whose) {
    struct text t = {{0}};
    memcpy(t.bytes, whose, strlen(whose));
    memcpy(t.bytes + WORD, g->greet, sizeof(g->greet));
    memcpy(t.bytes + WORD + sizeof(g->greet), g->answer, sizeof(g->answer));
    return t;
}

/* ---- who dials ---- */

int rt_greeting_begin(struct rt_greeting *g, struct co_err *err) {
    write_head(g->greet, OK);
    return co_nonce_make(g->greet + HEAD, err);
}

int rt_greeting_prove(const struct rt_greeting *g, const char *token,
    unsigned char ret[RT_GREET_PROOF_BYTES], struct co_err *err) {
    if (!has_magic(g->answer)) {
        return co_err_set(err, CO_INVALID, "what answers there is no parameter server");
    }
    if (co_get_u16(g->answer + 4) != RT_GREET_VERSION || co_get_u16(g->answer + 6) != OK) {
        return refuse_version(g->answer, err);
    }
    struct text t = proof_text(g, "trainer");
    co_proof_make(purpose, token, t.bytes, sizeof(t.bytes), ret);
    return 0;
}

int rt_greeting_check(const struct rt_greeting *g, const char *token,
    const unsigned char welcome[RT_GREET_WELCOME_BYTES], struct co_err *err) {
    struct text t = proof_text(g, "server");
    bool right = has_magic(welcome) && co_get_u16(welcome + 6) == OK &&
                 co_proof_check(purpose, token, t.bytes, sizeof(t.bytes), welcome + HEAD);
    return right ? 0 : co_err_set(err, CO_PERMISSION, WRONG);
}

/* ---- who listens ---- */

int rt_greeting_answer(struct rt_greeting *g, bool *ret_send, struct co_err *err) {
    *ret_send = has_magic(g->greet);
    if (!*ret_send) {
        return co_err_set(err, CO_INVALID, "it did not greet as a trainer does");
    }
    bool same = co_get_u16(g->greet + 4) == RT_GREET_VERSION;
    write_head(g->answer, same ? OK : OTHER_VERSION);
    int rc = co_nonce_make(g->answer + HEAD, err);
    if (rc < 0) {
        *ret_send = false;
        return rc;
    }
    return same ? 0 : refuse_version(g->greet, err);
}

int rt_greeting_welcome(const struct rt_greeting *g, const char *token,
    const unsigned char proof[RT_GREET_PROOF_BYTES], unsigned char ret[RT_GREET_WELCOME_BYTES],
    struct co_err *err) {
    struct text theirs = proof_text(g, "trainer"), ours = proof_text(g, "server");
    memset(ret, 0, RT_GREET_WELCOME_BYTES);
    if (!co_proof_check(purpose, token, theirs.bytes, sizeof(theirs.bytes), proof)) {
        write_head(ret, WRONG_TOKEN);
        return co_err_set(err, CO_PERMISSION, WRONG);
    }
    write_head(ret, OK);
    co_proof_make(purpose, token, ours.bytes, sizeof(ours.bytes), ret + HEAD);
    return 0;
}
