/* Writes and checks the messages of the handshake.  No I/O. */
#include "runtime/train/coll/hello.h"

#include <string.h>

#include "common/bytes.h"
#include "common/proof.h"

enum { MAGIC = 0x4c4c4f43 /* "COLL" */, HELLO_PROVEN = 80, ANSWER_PROVEN = 64 };
enum { WORD = 8, PROVEN_BYTES = WORD + COLL_HELLO_BYTES + ANSWER_PROVEN };

static const char purpose[] = "paddle collective";

static const char *const texts[COLL_ANSWER_CODES] = {
    [COLL_ANSWER_CODE_OK] = "welcome",
    [COLL_ANSWER_CODE_LATER] = "it is not forming this group now",
    [COLL_ANSWER_CODE_VERSION] = "another version of the library",
    [COLL_ANSWER_CODE_JOB] = "another job, generation or list of endpoints",
    [COLL_ANSWER_CODE_RANK] = "no such rank, or not one to connect to here",
    [COLL_ANSWER_CODE_DOUBLE] = "the rank is here already",
    [COLL_ANSWER_CODE_TOKEN] = "wrong job token (PADDLE_JOB_TOKEN must be the same everywhere)",
    [COLL_ANSWER_CODE_USER] = "another user of the machine",
    [COLL_ANSWER_CODE_FORM] = "it does not speak this library's protocol",
};

const char *coll_answer_code_text(uint32_t answer_code) {
    return answer_code < COLL_ANSWER_CODES ? texts[answer_code] : "an unknown answer";
}

static const char hello_purpose[] = "paddle collective hello";

int coll_hello_write(const struct coll_hello *h, const char *token,
    unsigned char wire[COLL_HELLO_BYTES], struct co_err *err) {
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, COLL_HELLO_VERSION);
    wire[6] = (unsigned char)h->purpose;
    wire[7] = h->lane;
    co_put_u32(wire + 8, h->rank);
    co_put_u32(wire + 12, h->size);
    co_put_u64(wire + 16, h->job);
    co_put_u64(wire + 24, h->group);
    memcpy(wire + 32, h->node, COLL_NODE_BYTES);
    int rc = co_nonce_make(wire + 48, err);
    if (rc == 0) {
        co_proof_make(hello_purpose, token, wire, HELLO_PROVEN, wire + HELLO_PROVEN);
    }
    return rc;
}

bool coll_hello_check(const char *token, const unsigned char wire[COLL_HELLO_BYTES]) {
    return co_proof_check(hello_purpose, token, wire, HELLO_PROVEN, wire + HELLO_PROVEN);
}

enum coll_answer_code coll_hello_read(
    const unsigned char wire[COLL_HELLO_BYTES], struct coll_hello *ret) {
    if (co_get_u32(wire) != MAGIC) {
        return COLL_ANSWER_CODE_FORM;
    }
    if (co_get_u16(wire + 4) != COLL_HELLO_VERSION) {
        return COLL_ANSWER_CODE_VERSION;
    }
    *ret = (struct coll_hello){.purpose = wire[6],
        .lane = wire[7],
        .rank = co_get_u32(wire + 8),
        .size = co_get_u32(wire + 12),
        .job = co_get_u64(wire + 16),
        .group = co_get_u64(wire + 24)};
    memcpy(ret->node, wire + 32, COLL_NODE_BYTES);
    bool fits = wire[6] < COLL_PURPOSES && ret->lane < COLL_LANES_MAX &&
                ret->size <= COLL_RANKS_MAX && ret->rank < ret->size;
    return fits ? COLL_ANSWER_CODE_OK : COLL_ANSWER_CODE_FORM;
}

/* The bytes that a proof covers.  All parts have fixed sizes, so they need no separators. */
static void put_proven(const char *word, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], unsigned char ret[PROVEN_BYTES]) {
    for (size_t i = 0; i < WORD; i++) {
        ret[i] = (unsigned char)(*word ? *word++ : 0);
    }
    memcpy(ret + WORD, hello, COLL_HELLO_BYTES);
    memcpy(ret + WORD + COLL_HELLO_BYTES, answer, ANSWER_PROVEN);
}

static void prove(const char *word, const char *token, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], unsigned char ret[COLL_PROOF_BYTES]) {
    unsigned char text[PROVEN_BYTES];
    put_proven(word, hello, answer, text);
    co_proof_make(purpose, token, text, sizeof(text), ret);
}

static bool is_proven(const char *word, const char *token,
    const unsigned char hello[COLL_HELLO_BYTES], const unsigned char answer[COLL_ANSWER_BYTES],
    const unsigned char proof[COLL_PROOF_BYTES]) {
    unsigned char text[PROVEN_BYTES];
    put_proven(word, hello, answer, text);
    return co_proof_check(purpose, token, text, sizeof(text), proof);
}

int coll_answer_write(const struct coll_answer *a, const char *token,
    const unsigned char hello[COLL_HELLO_BYTES], unsigned char wire[COLL_ANSWER_BYTES],
    struct co_err *err) {
    memset(wire, 0, COLL_ANSWER_BYTES);
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, COLL_HELLO_VERSION);
    wire[6] = (unsigned char)a->answer_code;
    if (a->answer_code != COLL_ANSWER_CODE_OK) {
        return 0;
    }
    co_put_u32(wire + 8, a->rank);
    memcpy(wire + 16, a->node, COLL_NODE_BYTES);
    int rc = co_nonce_make(wire + 32, err);
    if (rc == 0) {
        prove("answer", token, hello, wire, wire + ANSWER_PROVEN);
    }
    return rc;
}

enum coll_answer_code coll_answer_read(const unsigned char wire[COLL_ANSWER_BYTES],
    const char *token, const unsigned char hello[COLL_HELLO_BYTES], struct coll_answer *ret) {
    if (co_get_u32(wire) != MAGIC) {
        return COLL_ANSWER_CODE_FORM;
    }
    if (co_get_u16(wire + 4) != COLL_HELLO_VERSION) {
        return COLL_ANSWER_CODE_VERSION;
    }
    if (wire[6] != COLL_ANSWER_CODE_OK) {
        return wire[6] < COLL_ANSWER_CODES ? wire[6] : COLL_ANSWER_CODE_FORM;
    }
    if (!is_proven("answer", token, hello, wire, wire + ANSWER_PROVEN)) {
        return COLL_ANSWER_CODE_TOKEN;
    }
    *ret = (struct coll_answer){.answer_code = wire[6], .rank = co_get_u32(wire + 8)};
    memcpy(ret->node, wire + 16, COLL_NODE_BYTES);
    return COLL_ANSWER_CODE_OK;
}

void coll_proof_write(const char *token, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], unsigned char wire[COLL_PROOF_BYTES]) {
    prove("proof", token, hello, answer, wire);
}

bool coll_proof_check(const char *token, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], const unsigned char wire[COLL_PROOF_BYTES]) {
    return is_proven("proof", token, hello, answer, wire);
}

void coll_welcome_write(enum coll_answer_code answer_code, unsigned char wire[COLL_WELCOME_BYTES]) {
    co_put_u32(wire, MAGIC);
    co_put_u32(wire + 4, (uint32_t)answer_code);
}

enum coll_answer_code coll_welcome_read(const unsigned char wire[COLL_WELCOME_BYTES]) {
    uint32_t answer_code = co_get_u32(wire + 4);
    return co_get_u32(wire) == MAGIC && answer_code < COLL_ANSWER_CODES ? answer_code
                                                                        : COLL_ANSWER_CODE_FORM;
}
