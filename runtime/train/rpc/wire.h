/* The base of all streams: a gRPC call (stream.c) or a data lane (lane.c). Code that answers a
 * frame sends to the stream the frame came from and need not know its kind. For this folder only.
 */
#pragma once

#include <stdatomic.h>

#include "runtime/train/rpc/rpc.h"

struct rpc_stream_ops {
    int (*send)(struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err);
    void (*stop)(struct rpc_stream *s, const struct co_err *why); /* code 0: no reason */
    void (*end)(struct rpc_stream *s);
    bool (*paused)(struct rpc_stream *s);
    void (*free)(struct rpc_stream *s); /* the last reference is gone */
};

/* Must be the first member of the struct that embeds it. */
struct rpc_stream {
    const struct rpc_stream_ops *ops;
    atomic_int refs;
    void *user;
    char peer[128];
};

/* The stream starts with one reference. */
void rpc_stream_init(struct rpc_stream *s, const struct rpc_stream_ops *ops, const char *peer);
/* False: the last reference is gone already. For walking a list that does not own its members. */
bool rpc_stream_try_ref(struct rpc_stream *s);
