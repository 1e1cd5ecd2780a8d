/* Fuzzes what a rank says in its hello: any bytes are either refused, or read, and the same when
 * written again. */
#include <assert.h>
#include <string.h>

#include "runtime/train/coll/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char caller[NET_CALLER_BYTES] = {0}, once[NET_CALLER_BYTES], twice[NET_CALLER_BYTES];
    struct coll_hello h, same;
    memcpy(caller, data, size < sizeof(caller) ? size : sizeof(caller));
    if (coll_hello_read(caller, &h) == NET_REFUSAL_NONE) {
        assert(h.rank < h.size && h.size <= COLL_RANKS_MAX && h.lane < COLL_LANES_MAX);
        assert(h.purpose < COLL_PURPOSES);
        coll_hello_write(&h, once);
        assert(coll_hello_read(once, &same) == NET_REFUSAL_NONE);
        coll_hello_write(&same, twice);
        assert(memcmp(once, twice, sizeof(once)) == 0 && memcmp(once + 4, caller + 4, 44) == 0);
    }
    return 0;
}
