/* Streams of frames between processes, over gRPC: one thread, one completion queue.
 *
 * An rt_rpc listens, dials, or both.  A stream is one long-lived bidirectional call; either side
 * sends frames at any time, in order.  Knows nothing of trainers, servers or tables.
 *
 * gRPC neither listens nor connects: it gets connections whose two ends have proved to each other
 * that they know the job's token (front.h, knock.h), on which nobody else is.
 *
 * Callbacks run on the rpc's thread and must not block.  rt_stream_send, _cancel, _end, _ref and
 * _unref may be called from any thread.  What a peer can make us hold is bounded: a message
 * (RT_MESSAGE_MAX), frames of a stream that were delivered and not yet freed (window), frames
 * queued to a peer that does not read, streams accepted. */
#pragma once

#include "runtime/train/rpc/frame.h"

struct rt_rpc;
struct rt_stream;

struct rt_rpc_ops {
    /* A peer has connected; NULL for rpcs that only dial. */
    void (*on_open)(void *arg, struct rt_stream *s);
    /* The callee gets the frame.  Until it is freed it counts in the stream's window, and it
     * keeps the stream: rt_frame_stream(f). */
    void (*on_frame)(void *arg, struct rt_stream *s, struct rt_frame *f_own);
    /* Once for each stream, the last callback of it. */
    void (*on_close)(void *arg, struct rt_stream *s, const struct co_err *why);
    void (*on_tick)(void *arg); /* every tick_ms */
    /* n connections were refused since the last call; the last of them.  May be NULL. */
    void (*on_refused)(void *arg, size_t n, const char *peer, const struct co_err *why);
};

struct rt_rpc_options {
    int tick_ms;        /* 0: 100 */
    size_t max_streams; /* accepted ones; 0: 1024 */
    int idle_ms;        /* how long a connection may stay without a stream; 0: 10000 */
    int prove_ms;       /* and without a proof of the token; 0: 10000 */
    const char *token;  /* the job's, "" or NULL: none.  Copied */
    size_t backlog;     /* bytes queued to a peer that does not read; 0: 256 MiB */
};

/* Blocks all signals in the threads that gRPC makes. */
CO_MUST_CHECK int rt_rpc_open(const struct rt_rpc_ops *ops, void *arg,
    const struct rt_rpc_options *options, struct rt_rpc **ret, struct co_err *err);
/* Ends all streams (on_close is called for each), waits until nobody holds one or a frame of
 * one, ends the thread.  Not from a callback. */
void rt_rpc_close(struct rt_rpc *r);

/* addr "host:port"; port 0 takes a free one.  CO_UNAVAILABLE names the address. */
CO_MUST_CHECK int rt_rpc_listen(
    struct rt_rpc *r, const char *addr, uint16_t *ret_port, struct co_err *err);

/* A stream over a connection on which the peer has proved itself (knock.h).  *ret_stream is set,
 * and counted, before the first callback; the caller must unref it. */
CO_MUST_CHECK int rt_rpc_adopt(struct rt_rpc *r, int fd_own, const char *endpoint, void *user,
    struct rt_stream **ret_stream, struct co_err *err);
/* Connects, proves and adopts; blocks for timeout_ms at most. */
CO_MUST_CHECK int rt_rpc_dial(struct rt_rpc *r, const char *endpoint, int timeout_ms, void *user,
    struct rt_stream **ret_stream, struct co_err *err);

/* Takes f even on failure.  CO_PEERLOST: the stream is over.  CO_NORESOURCE: the peer does not
 * read what it was sent (`backlog` bytes wait); the stream is cancelled.  Who asks for much is to
 * ask for it in pieces. */
CO_MUST_CHECK int rt_stream_send(struct rt_stream *s, struct rt_frame *f_own, struct co_err *err);
void rt_stream_cancel(struct rt_stream *s); /* at once, what is queued is dropped */
void rt_stream_end(struct rt_stream *s);    /* accepted streams: after what is queued was sent */

void rt_stream_set_user(struct rt_stream *s, void *user); /* before any other thread knows s */
void *rt_stream_user(const struct rt_stream *s);
const char *rt_stream_peer(const struct rt_stream *s); /* "host:port" or the dialled endpoint */
/* We do not read at the moment, as too many frames wait to be freed. */
bool rt_stream_paused(struct rt_stream *s);
struct rt_stream *rt_stream_ref(struct rt_stream *s);
void rt_stream_unref(struct rt_stream *s);

/* The stream a received frame came from; borrowed while the frame lives. */
struct rt_stream *rt_frame_stream(const struct rt_frame *f);
