/* First byte: a request's header, a challenge, or an answer's proof.  What is read says the same
 * when it is written again, and nothing that a stranger makes up proves anything. */
#include "runtime/launch/rendezvous/seal.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good) {
    if (!good) {
        abort();
    }
}

static void read_header(const char *text) {
    static const struct rdzv_seal_request r = {
        .method = "POST", .path = "/j/info/a/-1", .said = "", .body = "", .len = 0};
    struct rdzv_seal s, again;
    char said[RDZV_SEAL_TEXT], twice[RDZV_SEAL_TEXT];
    if (rdzv_seal_parse(text, &s, NULL) < 0) {
        return;
    }
    rdzv_seal_format(&s, said);
    expect(rdzv_seal_parse(said, &again, NULL) == 0);
    rdzv_seal_format(&again, twice);
    expect(strcmp(said, twice) == 0);
    expect(!rdzv_seal_request_right(&s, "token", &r));
}

static void read_challenge(const char *text) {
    unsigned char nonce[CO_NONCE_BYTES], again[CO_NONCE_BYTES];
    char said[RDZV_SEAL_TEXT];
    if (rdzv_seal_challenge_parse(text, nonce)) {
        rdzv_seal_challenge_format(nonce, said);
        expect(rdzv_seal_challenge_parse(said, again) && memcmp(nonce, again, sizeof(nonce)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct rdzv_seal s = {.proven = true, .number = 1};
    if (size == 0) {
        return 0;
    }
    CO_AUTOFREE char *text = co_xstrndup((const char *)data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        read_header(text);
        break;
    case 1:
        read_challenge(text);
        break;
    default:
        expect(!rdzv_seal_answer_right(&s, "token", 200, "", 0, text));
    }
    return 0;
}
