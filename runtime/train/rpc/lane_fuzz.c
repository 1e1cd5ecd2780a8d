/* Any bytes that arrive on a lane, in pieces of any size: frames that say the same when they are
 * sealed again, then perhaps a refusal. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/train/rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the bytes of the frames, which must be those of data. */
static size_t check_frames(struct rpc_frame *first, const uint8_t *data) {
    size_t at = 0;
    for (struct rpc_frame *f = first, *next; f; f = next) {
        next = f->next;
        rpc_frame_seal(f);
        size_t n = RPC_FRAME_HEAD + (size_t)f->head.bytes;
        if (memcmp(f->wire, data + at, n) != 0) {
            abort();
        }
        at += n;
        rpc_frame_free(f);
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct rpc_lane_room room;
    int fds[2];
    if (size < 1 || size > 4096 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
        return 0;
    }
    struct rpc_lane *l = rpc_lane_new(fds[0], NULL, "peer");
    size_t piece = (size_t)data[0] * 4 + 1, given = 1, had = 1;
    int rc = 0;
    while (rc == 0 && given < size) {
        size_t n = size - given < piece ? size - given : piece;
        struct rpc_frame *first = NULL;
        if (send(fds[1], data + given, n, MSG_NOSIGNAL) != (ssize_t)n) {
            /* What was no frame came behind frames: it is refused now. */
            if (rpc_lane_read(l, &room, &first, NULL) >= 0 || first) {
                abort();
            }
            break;
        }
        given += n;
        rc = rpc_lane_read(l, &room, &first, NULL);
        had += check_frames(first, data + had);
        if (had > given || (rc < 0 && first)) {
            abort();
        }
    }
    rpc_stream_unref(rpc_lane_stream(l));
    co_close(fds[1]);
    return 0;
}
