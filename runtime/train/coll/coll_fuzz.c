/* Fuzzes what a rank says in its hello: any bytes are either refused, or read, and the same when
 * written again. */
#include "runtime/train/coll/hello.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char caller[NET_CALLER_BYTES] = {0}, again[NET_CALLER_BYTES];
    struct coll_hello h, same;
    memcpy(caller, data, size < sizeof(caller) ? size : sizeof(caller));
    if (coll_hello_read(caller, &h) == NET_REFUSAL_NONE) {
        assert(h.rank < h.size && h.size <= COLL_RANKS_MAX && h.lane < COLL_LANES_MAX);
        assert(h.purpose < COLL_PURPOSES);
        coll_hello_write(&h, again);
        assert(coll_hello_read(again, &same) == NET_REFUSAL_NONE);
        assert(memcmp(&h, &same, sizeof(h)) == 0 && memcmp(again + 4, caller + 4, 44) == 0);
    }
    return 0;
}
