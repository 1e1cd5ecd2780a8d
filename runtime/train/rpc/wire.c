/* The functions of rpc.h that take a stream: each is its carrier's, or the same for both. */
#include "runtime/train/rpc/wire.h"

#include <stdio.h>

void rpc_stream_init(struct rpc_stream *s, const struct rpc_stream_ops *ops, const char *peer) {
    s->ops = ops;
    atomic_init(&s->refs, 1);
    (void)snprintf(s->peer, sizeof(s->peer), "%s", peer);
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *s) {
    atomic_fetch_add(&s->refs, 1);
    return s;
}

bool rpc_stream_try_ref(struct rpc_stream *s) {
    int n = atomic_load(&s->refs);
    while (n > 0 && !atomic_compare_exchange_weak(&s->refs, &n, n + 1)) {
    }
    return n > 0;
}

void rpc_stream_unref(struct rpc_stream *s) {
    if (atomic_fetch_sub(&s->refs, 1) == 1) {
        s->ops->free(s);
    }
}

void rpc_stream_set_user(struct rpc_stream *s, void *user) {
    s->user = user;
}

void *rpc_stream_user(const struct rpc_stream *s) {
    return s->user;
}

const char *rpc_stream_peer(const struct rpc_stream *s) {
    return s->peer;
}

int rpc_stream_send(struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err) {
    rpc_frame_seal(f_own);
    return s->ops->send(s, f_own, err);
}

void rpc_stream_break(struct rpc_stream *s, const struct co_err *why) {
    s->ops->stop(s, why);
}

void rpc_stream_cancel(struct rpc_stream *s) {
    s->ops->stop(s, &(struct co_err){0});
}

void rpc_stream_end(struct rpc_stream *s) {
    s->ops->end(s);
}

bool rpc_stream_paused(struct rpc_stream *s) {
    return s->ops->paused(s);
}

struct rpc_stream *rpc_frame_stream(const struct rpc_frame *f) {
    return f->from;
}
