/* Formats, parses, makes and checks the proofs of the job's token.  See seal.h for the protocol. */
#include "runtime/launch/rendezvous/seal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"

#define CHALLENGE "paddlerun challenge 1 "
#define HEX "%64[0-9a-f]"

enum { BYTES = 32, DIGITS = 2 * BYTES, TEXT_MAX = 1 << 20 };
_Static_assert((int)CO_NONCE_BYTES == BYTES && (int)CO_PROOF_BYTES == BYTES, "one size");

static const char purpose[] = "paddle rendezvous", of_body[] = "paddle rendezvous body";

static void put_hex(const unsigned char bytes[BYTES], char ret[DIGITS + 1]) {
    for (size_t i = 0; i < BYTES; i++) {
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

static unsigned digit(char c) {
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Reads DIGITS lower case hex digits; false: there are fewer. */
static bool get_hex(const char *text, unsigned char ret[BYTES]) {
    if (strspn(text, "0123456789abcdef") < DIGITS) {
        return false;
    }
    for (size_t i = 0; i < BYTES; i++) {
        ret[i] = (unsigned char)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    }
    return true;
}

void rdzv_seal_format(const struct rdzv_seal *s, char ret_text[RDZV_SEAL_TEXT]) {
    char client[DIGITS + 1], nonce[DIGITS + 1], proof[DIGITS + 1];
    put_hex(s->client, client);
    put_hex(s->nonce, nonce);
    put_hex(s->proof, proof);
    if (s->proven) {
        (void)snprintf(
            ret_text, RDZV_SEAL_TEXT, "1 %s %s %" PRIu64 " %s", client, nonce, s->number, proof);
    } else {
        (void)snprintf(ret_text, RDZV_SEAL_TEXT, "1 %s", client);
    }
}

int rdzv_seal_parse(const char *text, struct rdzv_seal *ret, struct co_err *err) {
    char client[DIGITS + 1] = "", nonce[DIGITS + 1] = "", proof[DIGITS + 1] = "", number[20] = "";
    struct rdzv_seal s = {0};
    int asked = 0, used = 0;
    int got = sscanf(text, "1 " HEX "%n " HEX " %19[0-9] " HEX "%n", client, &asked, nonce, number,
        proof, &used);
    s.proven = got == 4;
    bool fits = got >= 1 && get_hex(client, s.client) && !text[s.proven ? used : asked];
    if (fits && s.proven) {
        s.number = strtoull(number, NULL, 10); /* 19 digits fit */
        fits = get_hex(nonce, s.nonce) && get_hex(proof, s.proof);
    }
    if (!fits) {
        return co_err_set(err, CO_INVALID, "no proof that this version knows: \"%.100s\"", text);
    }
    *ret = s;
    return 0;
}

void rdzv_seal_challenge_format(
    const unsigned char nonce[CO_NONCE_BYTES], char ret_text[RDZV_SEAL_TEXT]) {
    char hex[DIGITS + 1];
    put_hex(nonce, hex);
    (void)snprintf(ret_text, RDZV_SEAL_TEXT,
        CHALLENGE "%s\nthis rendezvous asks for a proof of the job's token (PADDLE_JOB_TOKEN, "
                  "--require_token)\n",
        hex);
}

bool rdzv_seal_challenge_parse(const char *body, unsigned char ret_nonce[CO_NONCE_BYTES]) {
    const size_t n = strlen(CHALLENGE);
    return strncmp(body, CHALLENGE, n) == 0 && get_hex(body + n, ret_nonce) &&
           body[n + DIGITS] == '\n';
}

void rdzv_seal_proof_format(
    const unsigned char proof[CO_PROOF_BYTES], char ret_text[RDZV_SEAL_TEXT]) {
    put_hex(proof, ret_text);
}

/* ---- the text that a proof covers ---- */

/* Each part is preceded by its length: no two different requests give the same text. */
static void add_bytes(struct co_buf *b, const void *data, size_t len) {
    unsigned char size[4];
    co_put_u32(size, (uint32_t)len);
    (void)!co_buf_add(b, size, sizeof(size), NULL);
    (void)!co_buf_add(b, len ? data : "", len, NULL);
}

static struct co_buf begin_text(
    const struct rdzv_seal *s, const char *token, const char *word, const void *body, size_t len) {
    struct co_buf b = CO_BUF(TEXT_MAX);
    unsigned char number[8], digest[CO_PROOF_BYTES];
    co_put_u64(number, s->number);
    co_proof_make(of_body, token, len ? body : "", len, digest);
    add_bytes(&b, word, strlen(word));
    add_bytes(&b, s->client, sizeof(s->client));
    add_bytes(&b, s->nonce, sizeof(s->nonce));
    add_bytes(&b, number, sizeof(number));
    add_bytes(&b, digest, sizeof(digest));
    return b;
}

static struct co_buf request_text(
    const struct rdzv_seal *s, const char *token, const struct rdzv_seal_request *r) {
    struct co_buf b = begin_text(s, token, "request", r->body, r->len);
    add_bytes(&b, r->method, strlen(r->method));
    add_bytes(&b, r->path, strlen(r->path));
    add_bytes(&b, r->said, strlen(r->said));
    return b;
}

static struct co_buf answer_text(
    const struct rdzv_seal *s, const char *token, int status, const void *body, size_t len) {
    struct co_buf b = begin_text(s, token, "answer", body, len);
    unsigned char number[4];
    co_put_u32(number, (uint32_t)status);
    add_bytes(&b, number, sizeof(number));
    return b;
}

void rdzv_seal_request(struct rdzv_seal *s, const char *token, const struct rdzv_seal_request *r) {
    CO_AUTOBUF struct co_buf b = request_text(s, token, r);
    co_proof_make(purpose, token, b.data, b.len, s->proof);
    s->proven = true;
}

bool rdzv_seal_request_right(
    const struct rdzv_seal *s, const char *token, const struct rdzv_seal_request *r) {
    CO_AUTOBUF struct co_buf b = request_text(s, token, r);
    return co_proof_check(purpose, token, b.data, b.len, s->proof);
}

void rdzv_seal_answer(const struct rdzv_seal *s, const char *token, int status, const void *body,
    size_t len, unsigned char ret[CO_PROOF_BYTES]) {
    CO_AUTOBUF struct co_buf b = answer_text(s, token, status, body, len);
    co_proof_make(purpose, token, b.data, b.len, ret);
}

bool rdzv_seal_answer_right(const struct rdzv_seal *s, const char *token, int status,
    const void *body, size_t len, const char *text) {
    unsigned char proof[CO_PROOF_BYTES];
    CO_AUTOBUF struct co_buf b = answer_text(s, token, status, body, len);
    return get_hex(text, proof) && !text[DIGITS] &&
           co_proof_check(purpose, token, b.data, b.len, proof);
}
