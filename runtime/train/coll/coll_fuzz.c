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
static void read_hello(const unsigned char wire[RT_HELLO_BYTES]) {
    struct rt_hello h;
    unsigned char again[RT_HELLO_BYTES];
    enum rt_verdict v = rt_hello_read(wire, &h);
    expect(v == RT_VERDICT_OK || v == RT_VERDICT_VERSION || v == RT_VERDICT_FORM);
    if (v == RT_VERDICT_OK) {
        expect(h.rank < h.size && h.size <= RT_RANKS_MAX && h.lane < RT_LANES_MAX);
        expect(rt_hello_write(&h, "token", again, NULL) == 0);
        expect(memcmp(again, wire, 48) == 0);
        expect(rt_hello_check("token", again) && !rt_hello_check("other", again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char hello[RT_HELLO_BYTES], answer[RT_ANSWER_BYTES], proof[RT_PROOF_BYTES],
        welcome[RT_WELCOME_BYTES];
    struct rt_answer a;
    take(hello, sizeof(hello), &data, &size);
    take(answer, sizeof(answer), &data, &size);
    take(proof, sizeof(proof), &data, &size);
    take(welcome, sizeof(welcome), &data, &size);
    read_hello(hello);
    expect(!rt_hello_check("token", hello));
    expect(rt_answer_read(answer, "token", hello, &a) != RT_VERDICT_OK);
    expect(!rt_proof_check("token", hello, answer, proof));
    expect(rt_welcome_read(welcome) < RT_VERDICTS);
    /* And what this side says is believed by the one that has the token, only. */
    a = (struct rt_answer){.verdict = RT_VERDICT_OK, .rank = 7};
    expect(rt_answer_write(&a, "token", hello, answer, NULL) == 0);
    expect(rt_answer_read(answer, "token", hello, &a) == RT_VERDICT_OK && a.rank == 7);
    expect(rt_answer_read(answer, "other", hello, &a) == RT_VERDICT_TOKEN);
    rt_proof_write("token", hello, answer, proof);
    expect(rt_proof_check("token", hello, answer, proof));
    expect(!rt_proof_check("other", hello, answer, proof));
    return 0;
}
