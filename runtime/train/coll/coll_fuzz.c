/* Fuzzes the handshake: any bytes as a hello are either refused, or parsed and equal when written
 * again; no bytes pass as an answer or a proof. */
#include "runtime/train/coll/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(unsigned char *to, size_t n, const uint8_t **data, size_t *size) {
    size_t k = n < *size ? n : *size;
    memset(to, 0, n);
    memcpy(to, *data, k);
    *data += k;
    *size -= k;
}

static void expect(bool good) {
    if (!good) {
        abort();
    }
}

/* All but the random number, which is new. */
static void read_hello(const unsigned char wire[COLL_HELLO_BYTES]) {
    struct coll_hello h;
    unsigned char again[COLL_HELLO_BYTES];
    enum coll_answer_code v = coll_hello_read(wire, &h);
    expect(v == COLL_ANSWER_CODE_OK || v == COLL_ANSWER_CODE_VERSION || v == COLL_ANSWER_CODE_FORM);
    if (v == COLL_ANSWER_CODE_OK) {
        expect(h.rank < h.size && h.size <= COLL_RANKS_MAX && h.lane < COLL_LANES_MAX);
        expect(coll_hello_write(&h, "token", again, NULL) == 0);
        expect(memcmp(again, wire, 48) == 0);
        expect(coll_hello_check("token", again) && !coll_hello_check("other", again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char hello[COLL_HELLO_BYTES], answer[COLL_ANSWER_BYTES], proof[COLL_PROOF_BYTES],
        welcome[COLL_WELCOME_BYTES];
    struct coll_answer a;
    take(hello, sizeof(hello), &data, &size);
    take(answer, sizeof(answer), &data, &size);
    take(proof, sizeof(proof), &data, &size);
    take(welcome, sizeof(welcome), &data, &size);
    read_hello(hello);
    expect(!coll_hello_check("token", hello));
    expect(coll_answer_read(answer, "token", hello, &a) != COLL_ANSWER_CODE_OK);
    expect(!coll_proof_check("token", hello, answer, proof));
    expect(coll_welcome_read(welcome) < COLL_ANSWER_CODES);
    /* And what this side says is believed by the one that has the token, only. */
    a = (struct coll_answer){.answer_code = COLL_ANSWER_CODE_OK, .rank = 7};
    expect(coll_answer_write(&a, "token", hello, answer, NULL) == 0);
    expect(coll_answer_read(answer, "token", hello, &a) == COLL_ANSWER_CODE_OK && a.rank == 7);
    expect(coll_answer_read(answer, "other", hello, &a) == COLL_ANSWER_CODE_TOKEN);
    coll_proof_write("token", hello, answer, proof);
    expect(coll_proof_check("token", hello, answer, proof));
    expect(!coll_proof_check("other", hello, answer, proof));
    return 0;
}
