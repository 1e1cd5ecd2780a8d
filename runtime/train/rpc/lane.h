/* A data lane: frames over a TCP connection of its own, without gRPC and its threads.
 *
 * The connection came through the front door (runtime/net), so the peer has proved the token and
 * said whose lane it is. Both sides write frames (frame.h) back to back, in TLS if the job
 * encrypts.
 *
 * Nothing here blocks. The lane's owner polls its descriptor, reads when it is readable and flushes
 * when it is writable. One thread at a time may read; any thread may queue and flush. A peer can
 * make us hold: one unfinished frame (RPC_FRAME_BYTES_MAX), frames that were read but not freed
 * (stop reading while rpc_stream_paused), and queued answers (stop answering when rpc_lane_queued
 * is high). */
#pragma once

#include "common/tls.h"
#include "runtime/train/rpc/frame.h"

struct rpc_lane;
struct rpc_stream;

/* Read buffers of a thread, shared by all lanes that it reads. */
struct rpc_lane_room {
    unsigned char bytes[64 << 10];
    unsigned char sealed[256 << 10]; /* not decrypted yet */
};

/* The lane owns fd, which is non-blocking, and tls, whose handshake is complete (NULL: no
 * encryption). peer: "host:port", copied. The last rpc_stream_unref of its stream frees the lane.
 */
struct rpc_lane *rpc_lane_new(int fd_own, struct co_tls *tls_own, const char *peer);
/* The lane as a stream. rpc_stream_send queues a frame, and flushes when much is queued. */
struct rpc_stream *rpc_lane_stream(struct rpc_lane *l);
/* fn runs on the thread that sends or frees a frame, when there is something to flush or, after
 * rpc_stream_paused, to read. Must be set before another thread knows l. */
void rpc_lane_set_owner(struct rpc_lane *l, void (*fn)(void *arg), void *arg);
int rpc_lane_fd(const struct rpc_lane *l);

/* Reads once, at most the rest of the current frame and one buffer. No byte stays unread in user
 * space, so polling the descriptor shows whether there is more. The caller owns the complete
 * frames, a linked list; NULL: none yet. CO_PEERLOST: the connection is closed, or TLS found a
 * changed byte. CO_INVALID: the bytes are no frame. Frames before the fault are returned first; the
 * next call, for which the descriptor is readable, returns the fault. */
CO_MUST_CHECK int rpc_lane_read(struct rpc_lane *l, struct rpc_lane_room *room,
    struct rpc_frame **ret_first, struct co_err *err);

/* Writes as much of the queue as the socket takes; *ret_left: bytes that are left. A failure
 * (CO_PEERLOST) drops the queue. */
CO_MUST_CHECK int rpc_lane_flush(struct rpc_lane *l, size_t *ret_left, struct co_err *err);
size_t rpc_lane_queued(const struct rpc_lane *l); /* bytes */
/* Closes the lane at once for both sides, as rpc_stream_cancel. The owner's fn runs no more. */
void rpc_lane_shut(struct rpc_lane *l);
