/* Any bytes for greet and proof, and for answer and welcome: refused, or right. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/train/rpc/greeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char in[RT_GREET_BYTES + RT_GREET_WELCOME_BYTES] = {0};
    unsigned char welcome[RT_GREET_WELCOME_BYTES], proof[RT_GREET_PROOF_BYTES];
    struct rt_greeting g = {0};
    const struct rt_peer_auth auth = {"secret", size % 2 == 1};
    bool answer = false;
    memcpy(in, data, size < sizeof(in) ? size : sizeof(in));
    memcpy(g.greet, in, sizeof(g.greet));
    int rc = rt_greeting_answer(&g, &auth, &answer, NULL);
    assert(answer || rc < 0);
    assert(rc < 0 || rt_greeting_pass(&g).purpose <= RT_FOR_LANE);
    assert(rc < 0 || g.greet[7] == auth.encrypt);
    assert(rt_greeting_welcome(&g, "secret", in + RT_GREET_BYTES, welcome, NULL) < 0);
    memcpy(g.answer, in, sizeof(g.answer));
    if (rt_greeting_prove(&g, &auth, proof, NULL) == 0) {
        assert(rt_greeting_check(&g, "secret", in + RT_GREET_BYTES, NULL) < 0);
    }
    return 0;
}
