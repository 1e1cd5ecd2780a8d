/* The base of all streams: a gRPC call (stream.c) or a data lane (lane.c). Code that answers a
 * frame sends to the stream the frame came from and need not know its kind. For this folder only.
 */
#pragma once

#include <stdatomic.h>

#include "runtime/train/rpc/rpc.h"

struct rt_stream_ops {
    int (*send)(struct rt_stream *s, struct rt_frame *f_own, struct co_err *err);
    void (*stop)(struct rt_stream *s, const struct co_err *why); /* code 0: no reason */
    void (*end)(struct rt_stream *s);
    bool (*paused)(struct rt_stream *s);
    void (*free)(struct rt_stream *s); /* the last reference is gone */
};

/* Must be the first member of the struct that embeds it. */
struct rt_stream {
    const struct rt_stream_ops *ops;
    atomic_int refs;
    void *user;
    char peer[128];
};

/* The stream starts with one reference. */
void rt_stream_init(struct rt_stream *s, const struct rt_stream_ops *ops, const char *peer);
/* False: the last reference is gone already. For walking a list that does not own its members. */
bool rt_stream_try_ref(struct rt_stream *s);
