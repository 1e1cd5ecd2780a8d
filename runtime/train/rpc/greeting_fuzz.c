/* Any bytes for greet and proof, and for answer and welcome: refused, or right. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/train/rpc/greeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char in[RPC_GREET_BYTES + RPC_GREET_WELCOME_BYTES] = {0};
    unsigned char welcome[RPC_GREET_WELCOME_BYTES], proof[RPC_GREET_PROOF_BYTES];
    struct rpc_greeting g = {0};
    const struct rpc_peer_auth auth = {"secret", size % 2 == 1};
    bool answer = false;
    memcpy(in, data, size < sizeof(in) ? size : sizeof(in));
    memcpy(g.greet, in, sizeof(g.greet));
    int rc = rpc_greeting_answer(&g, &auth, &answer, NULL);
    assert(answer || rc < 0);
    assert(rc < 0 || rpc_greeting_pass(&g).purpose <= RPC_FOR_LANE);
    assert(rc < 0 || g.greet[7] == auth.encrypt);
    assert(rpc_greeting_welcome(&g, "secret", in + RPC_GREET_BYTES, welcome, NULL) < 0);
    memcpy(g.answer, in, sizeof(g.answer));
    if (rpc_greeting_prove(&g, &auth, proof, NULL) == 0) {
        assert(rpc_greeting_check(&g, "secret", in + RPC_GREET_BYTES, NULL) < 0);
    }
    return 0;
}
