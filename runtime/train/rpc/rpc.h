/* Streams of frames between processes over gRPC, with one thread and one completion queue. Data
 * lanes (lane.h) are streams too, but their owners' threads read them.
 *
 * An rpc listens, adopts connections, or both. A stream is one long-lived bidirectional call;
 * either side may send frames at any time, and they arrive in order. This folder knows no trainers,
 * servers or tables.
 *
 * gRPC itself neither listens nor connects. It gets connections on which both ends have proved the
 * job's token (runtime/net, pass.h).
 *
 * Callbacks run on the rpc's thread and must not block. rpc_stream_send, _cancel, _end, _ref and
 * _unref may be called from any thread. Everything that a peer can make us hold is bounded: the
 * size of a message (RPC_MESSAGE_MAX), frames of a stream that were delivered but not freed (the
 * window), frames queued for a peer that does not read (the backlog), and the number of accepted
 * streams. */
#pragma once

#include "runtime/train/rpc/lane.h"
#include "runtime/train/rpc/pass.h"

struct rpc;
struct rpc_stream;

/* Of the core of gRPC that is linked: "29.0.0", which gRPC 1.51 has.  Any thread. */
const char *rpc_grpc_version(void);

struct rpc_ops {
    /* A peer has connected; NULL for rpcs that only dial. */
    void (*on_open)(void *arg, struct rpc_stream *s);
    /* The callee owns the frame. Until it is freed it counts in the stream's window and keeps the
     * stream alive (rpc_frame_stream). */
    void (*on_frame)(void *arg, struct rpc_stream *s, struct rpc_frame *f_own);
    /* The last callback of each stream, called once. */
    void (*on_close)(void *arg, struct rpc_stream *s, const struct co_err *why);
    void (*on_tick)(void *arg); /* every tick_ms */
    /* A peer opened a data lane and has proved the token. Runs on the listener's thread. To
     * accept the lane take a reference and return 0; otherwise the peer is sent *err. NULL: no
     * lanes here. */
    int (*on_lane)(void *arg, struct rpc_lane *l, const struct rpc_pass *pass, struct co_err *err);
    /* n connections were refused since the last call; the last of them.  May be NULL. */
    void (*on_refused)(void *arg, size_t n, const char *peer, const struct co_err *why);
};

struct rpc_options {
    int tick_ms;        /* 0: 100 */
    size_t max_streams; /* accepted ones; 0: 1024 */
    int idle_ms;        /* a connection without a stream is closed after this; 0: 10000 */
    int prove_ms;       /* a handshake, TLS included, may take so long; 0: 10000 */
    const char *token;  /* the job's, "" or NULL: none.  Copied */
    bool encrypt;       /* all connections (relay.h, lane.h) */
    /* Bytes of frames that were delivered and not freed. All accepted streams share it: one that
     * has its share, of those or of frames that wait to be sent, is not read. 0: 64 MiB */
    size_t window;
    size_t backlog; /* bytes queued to a peer that does not read; 0: 256 MiB */
    int held_ms;    /* rpc_close waits so long for holders of streams; 0: 10000 */
};

/* Blocks all signals in the threads that gRPC makes.  CO_UNSUPPORTED: this process was forked while
 * its parent had an rpc open. */
CO_MUST_CHECK int rpc_open(const struct rpc_ops *ops, void *arg, const struct rpc_options *options,
    struct rpc **ret, struct co_err *err);
/* Ends all streams (on_close runs for each) and the thread: no callback runs after it returns.
 * Waits until nobody holds a stream or one of its frames, but for held_ms at most. CO_TIMEOUT: the
 * message names the peers of the streams that are still held. r is closed then, too, and freed with
 * the last of them. Must not be called from a callback. NULL is allowed. */
CO_MUST_CHECK int rpc_close(struct rpc *r, struct co_err *err);

/* Accepts what has connected to fd (net_listen), and who does from now on. */
CO_MUST_CHECK int rpc_accept(struct rpc *r, int fd_own, struct co_err *err);

/* A stream over a connection whose peer has proved the token (runtime/net/dial.h). tls is NULL
 * exactly if r's options do not encrypt. *ret_stream is set before the first callback; the caller
 * owns a reference. */
CO_MUST_CHECK int rpc_adopt(struct rpc *r, int fd_own, struct co_tls *tls_own, const char *endpoint,
    void *user, struct rpc_stream **ret_stream, struct co_err *err);

/* Owns f even on failure. CO_PEERLOST: the stream is over. CO_NORESOURCE: the peer does not read,
 * so that `backlog` bytes wait; the stream is cancelled. A peer that wants much must ask in pieces.
 */
CO_MUST_CHECK int rpc_stream_send(
    struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err);
void rpc_stream_cancel(struct rpc_stream *s); /* at once; the queue is dropped */
/* The same, with a reason for on_close and the peer. */
void rpc_stream_break(struct rpc_stream *s, const struct co_err *why);
void rpc_stream_end(struct rpc_stream *s); /* of an accepted stream: when its queue is sent */

void rpc_stream_set_user(struct rpc_stream *s, void *user); /* before any other thread knows s */
void *rpc_stream_user(const struct rpc_stream *s);
const char *rpc_stream_peer(const struct rpc_stream *s); /* "host:port" or the dialled endpoint */
/* True: nothing is read at the moment, because too many delivered frames are not freed yet. */
bool rpc_stream_paused(struct rpc_stream *s);
struct rpc_stream *rpc_stream_ref(struct rpc_stream *s);
void rpc_stream_unref(struct rpc_stream *s);

/* The stream a received frame came from; borrowed while the frame lives. */
struct rpc_stream *rpc_frame_stream(const struct rpc_frame *f);
