/* Writes and checks the messages of the handshake.  No I/O. */
#include "runtime/train/coll/hello.h"

#include <string.h>

#include "common/bytes.h"
#include "common/proof.h"

enum { MAGIC = 0x4c4c4f43 /* "COLL" */, HELLO_PROVEN = 80, ANSWER_PROVEN = 64 };
enum { WORD = 8, PROVEN_BYTES = WORD + RT_HELLO_BYTES + ANSWER_PROVEN };

static const char purpose[] = "paddle collective";

static const char *const texts[RT_VERDICTS] = {
    [RT_VERDICT_OK] = "welcome",
    [RT_VERDICT_LATER] = "it is not forming this group now",
    [RT_VERDICT_VERSION] = "another version of the library",
    [RT_VERDICT_JOB] = "another job, generation or list of endpoints",
    [RT_VERDICT_RANK] = "no such rank, or not one to connect to here",
    [RT_VERDICT_DOUBLE] = "the rank is here already",
    [RT_VERDICT_TOKEN] = "wrong job token (PADDLE_JOB_TOKEN must be the same everywhere)",
    [RT_VERDICT_USER] = "another user of the machine",
    [RT_VERDICT_FORM] = "it does not speak this library's protocol",
};

const char *rt_verdict_text(uint32_t verdict) {
    return verdict < RT_VERDICTS ? texts[verdict] : "an unknown answer";
}

static const char hello_purpose[] = "paddle collective hello";

int rt_hello_write(const struct rt_hello *h, const char *token, unsigned char wire[RT_HELLO_BYTES],
    struct co_err *err) {
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, RT_HELLO_VERSION);
    wire[6] = (unsigned char)h->purpose;
    wire[7] = h->lane;
    co_put_u32(wire + 8, h->rank);
    co_put_u32(wire + 12, h->size);
    co_put_u64(wire + 16, h->job);
    co_put_u64(wire + 24, h->group);
    memcpy(wire + 32, h->node, RT_NODE_BYTES);
    int rc = co_nonce_make(wire + 48, err);
    if (rc == 0) {
        co_proof_make(hello_purpose, token, wire, HELLO_PROVEN, wire + HELLO_PROVEN);
    }
    return rc;
}

bool rt_hello_check(const char *token, const unsigned char wire[RT_HELLO_BYTES]) {
    return co_proof_check(hello_purpose, token, wire, HELLO_PROVEN, wire + HELLO_PROVEN);
}

enum rt_verdict rt_hello_read(const unsigned char wire[RT_HELLO_BYTES], struct rt_hello *ret) {
    if (co_get_u32(wire) != MAGIC) {
        return RT_VERDICT_FORM;
    }
    if (co_get_u16(wire + 4) != RT_HELLO_VERSION) {
        return RT_VERDICT_VERSION;
    }
    *ret = (struct rt_hello){.purpose = wire[6],
        .lane = wire[7],
        .rank = co_get_u32(wire + 8),
        .size = co_get_u32(wire + 12),
        .job = co_get_u64(wire + 16),
        .group = co_get_u64(wire + 24)};
    memcpy(ret->node, wire + 32, RT_NODE_BYTES);
    bool fits = wire[6] < RT_PURPOSES && ret->lane < RT_LANES_MAX && ret->size <= RT_RANKS_MAX &&
                ret->rank < ret->size;
    return fits ? RT_VERDICT_OK : RT_VERDICT_FORM;
}

/* The bytes that a proof covers.  All parts have fixed sizes, so they need no separators. */
static void put_proven(const char *word, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], unsigned char ret[PROVEN_BYTES]) {
    for (size_t i = 0; i < WORD; i++) {
        ret[i] = (unsigned char)(*word ? *word++ : 0);
    }
    memcpy(ret + WORD, hello, RT_HELLO_BYTES);
    memcpy(ret + WORD + RT_HELLO_BYTES, answer, ANSWER_PROVEN);
}

static void prove(const char *word, const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], unsigned char ret[RT_PROOF_BYTES]) {
    unsigned char text[PROVEN_BYTES];
    put_proven(word, hello, answer, text);
    co_proof_make(purpose, token, text, sizeof(text), ret);
}

static bool is_proven(const char *word, const char *token,
    const unsigned char hello[RT_HELLO_BYTES], const unsigned char answer[RT_ANSWER_BYTES],
    const unsigned char proof[RT_PROOF_BYTES]) {
    unsigned char text[PROVEN_BYTES];
    put_proven(word, hello, answer, text);
    return co_proof_check(purpose, token, text, sizeof(text), proof);
}

int rt_answer_write(const struct rt_answer *a, const char *token,
    const unsigned char hello[RT_HELLO_BYTES], unsigned char wire[RT_ANSWER_BYTES],
    struct co_err *err) {
    memset(wire, 0, RT_ANSWER_BYTES);
    co_put_u32(wire, MAGIC);
    co_put_u16(wire + 4, RT_HELLO_VERSION);
    wire[6] = (unsigned char)a->verdict;
    if (a->verdict != RT_VERDICT_OK) {
        return 0;
    }
    co_put_u32(wire + 8, a->rank);
    memcpy(wire + 16, a->node, RT_NODE_BYTES);
    int rc = co_nonce_make(wire + 32, err);
    if (rc == 0) {
        prove("answer", token, hello, wire, wire + ANSWER_PROVEN);
    }
    return rc;
}

enum rt_verdict rt_answer_read(const unsigned char wire[RT_ANSWER_BYTES], const char *token,
    const unsigned char hello[RT_HELLO_BYTES], struct rt_answer *ret) {
    if (co_get_u32(wire) != MAGIC) {
        return RT_VERDICT_FORM;
    }
    if (co_get_u16(wire + 4) != RT_HELLO_VERSION) {
        return RT_VERDICT_VERSION;
    }
    if (wire[6] != RT_VERDICT_OK) {
        return wire[6] < RT_VERDICTS ? wire[6] : RT_VERDICT_FORM;
    }
    if (!is_proven("answer", token, hello, wire, wire + ANSWER_PROVEN)) {
        return RT_VERDICT_TOKEN;
    }
    *ret = (struct rt_answer){.verdict = wire[6], .rank = co_get_u32(wire + 8)};
    memcpy(ret->node, wire + 16, RT_NODE_BYTES);
    return RT_VERDICT_OK;
}

void rt_proof_write(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], unsigned char wire[RT_PROOF_BYTES]) {
    prove("proof", token, hello, answer, wire);
}

bool rt_proof_check(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], const unsigned char wire[RT_PROOF_BYTES]) {
    return is_proven("proof", token, hello, answer, wire);
}

void rt_welcome_write(enum rt_verdict verdict, unsigned char wire[RT_WELCOME_BYTES]) {
    co_put_u32(wire, MAGIC);
    co_put_u32(wire + 4, (uint32_t)verdict);
}

enum rt_verdict rt_welcome_read(const unsigned char wire[RT_WELCOME_BYTES]) {
    uint32_t verdict = co_get_u32(wire + 4);
    return co_get_u32(wire) == MAGIC && verdict < RT_VERDICTS ? verdict : RT_VERDICT_FORM;
}
