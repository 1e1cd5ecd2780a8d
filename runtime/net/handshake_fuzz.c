/* Any bytes as the messages of a handshake: refused, unless they were made with the token, and the
 * end that has it makes what the other end takes. */
#include "runtime/net/handshake.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(unsigned char *to, size_t n, const uint8_t **data, size_t *size) {
    size_t k = n < *size ? n : *size;
    memset(to, 0, n);
    memcpy(to, *data, k);
    *data += k;
    *size -= k;
}

static void say(const struct net_auth *auth, enum net_refusal why, const unsigned char *head) {
    struct co_err err = {0};
    assert(why == NET_REFUSAL_NONE || net_refusal_error(auth, why, head, true, &err) < 0);
    assert(why == NET_REFUSAL_NONE || err.msg[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct net_protocol protocol = {.magic = 0x53504450 /* "PDPS" */,
        .purpose = "fuzz",
        .accepts = "server",
        .dials = "trainer",
        .all = "all"};
    const struct net_auth auth = {&protocol, "secret", size % 2 == 1};
    const struct net_auth guess = {&protocol, "guess", size % 2 == 1};
    struct net_handshake h;
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES], caller[NET_CALLER_BYTES];
    take(h.hello, sizeof(h.hello), &data, &size);
    take(h.answer, sizeof(h.answer), &data, &size);
    take(proof, sizeof(proof), &data, &size);
    take(welcome, sizeof(welcome), &data, &size);
    say(&auth, net_hello_read(&auth, &h), h.hello);
    say(&auth, net_answer_read(&auth, &h), h.answer);
    say(&auth, net_welcome_read(&auth, welcome), welcome);
    assert(!net_hello_check(&auth, &h));
    assert(net_answer_read(&auth, &h) != NET_REFUSAL_NONE);
    assert(!net_proof_check(&auth, &h, proof));
    memcpy(caller, net_caller_bytes(h.hello), sizeof(caller));
    assert(net_answer_write(&auth, NET_REFUSAL_NONE, caller, &h, NULL) == 0);
    assert(net_answer_read(&auth, &h) == NET_REFUSAL_NONE);
    assert(net_answer_read(&guess, &h) == NET_REFUSAL_TOKEN);
    net_proof_write(&auth, &h, proof);
    assert(net_proof_check(&auth, &h, proof) && !net_proof_check(&guess, &h, proof));
    assert(net_hello_write(&auth, caller, &h, NULL) == 0);
    assert(net_hello_read(&auth, &h) == NET_REFUSAL_NONE && net_hello_check(&auth, &h));
    assert(memcmp(net_caller_bytes(h.hello), caller, sizeof(caller)) == 0);
    return 0;
}
