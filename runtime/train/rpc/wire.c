/* The functions of rpc.h that take a stream: each is its carrier's, or the same for both. */
#include "runtime/train/rpc/wire.h"

#include <stdio.h>

void rt_stream_init(struct rt_stream *s, const struct rt_stream_ops *ops, const char *peer) {
    s->ops = ops;
    atomic_init(&s->refs, 1);
    (void)snprintf(s->peer, sizeof(s->peer), "%s", peer);
}

struct rt_stream *rt_stream_ref(struct rt_stream *s) {
    atomic_fetch_add(&s->refs, 1);
    return s;
}

bool rt_stream_try_ref(struct rt_stream *s) {
    int n = atomic_load(&s->refs);
    while (n > 0 && !atomic_compare_exchange_weak(&s->refs, &n, n + 1)) {
    }
    return n > 0;
}

void rt_stream_unref(struct rt_stream *s) {
    if (atomic_fetch_sub(&s->refs, 1) == 1) {
        s->ops->free(s);
    }
}

void rt_stream_set_user(struct rt_stream *s, void *user) {
    s->user = user;
}

void *rt_stream_user(const struct rt_stream *s) {
    return s->user;
}

const char *rt_stream_peer(const struct rt_stream *s) {
    return s->peer;
}

int rt_stream_send(struct rt_stream *s, struct rt_frame *f_own, struct co_err *err) {
    rt_frame_seal(f_own);
    return s->ops->send(s, f_own, err);
}

void rt_stream_break(struct rt_stream *s, const struct co_err *why) {
    s->ops->stop(s, why);
}

void rt_stream_cancel(struct rt_stream *s) {
    s->ops->stop(s, &(struct co_err){0});
}

void rt_stream_end(struct rt_stream *s) {
    s->ops->end(s);
}

bool rt_stream_paused(struct rt_stream *s) {
    return s->ops->paused(s);
}

struct rt_stream *rt_frame_stream(const struct rt_frame *f) {
    return f->from;
}
