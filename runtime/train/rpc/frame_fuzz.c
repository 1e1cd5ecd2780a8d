/* Any message, cut into pieces anywhere, is either refused or yields frames that say the same
 * when they are sealed again. */
#include "runtime/train/rpc/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    size_t piece = data[0] ? data[0] : 1;
    data++;
    size--;
    struct rpc_splitter sp;
    rpc_splitter_init(&sp, size);
    int rc = 0;
    for (size_t at = 0; at < size && rc == 0; at += piece) {
        rc = rpc_splitter_feed(&sp, data + at, size - at < piece ? size - at : piece, NULL);
    }
    struct rpc_frame *first = NULL;
    if (rc == 0 && rpc_splitter_take(&sp, &first, NULL) == 0) {
        size_t at = 0;
        for (struct rpc_frame *f = first, *next; f; f = next) {
            next = f->next;
            rpc_frame_seal(f);
            if (memcmp(f->wire, data + at, RPC_FRAME_HEAD + (size_t)f->head.bytes) != 0) {
                abort();
            }
            at += RPC_FRAME_HEAD + (size_t)f->head.bytes;
            rpc_frame_free(f);
        }
        if (at != size) {
            abort();
        }
    }
    rpc_splitter_done(&sp);
    return 0;
}
